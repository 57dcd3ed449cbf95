"""Adapters for frameworks of agents, and the workspace on which they stand.

Each module imports its framework, and is imported by no other.
"""
