"""Connections of a server: how many, how fast, from which callers, and for which requests."""
