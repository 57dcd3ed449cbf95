"""Packages and images for sandboxes, made before a start."""
