"""Fuzz targets for what reads the bytes of a sandbox, and their seeds. See tests/fuzz of the repository."""
