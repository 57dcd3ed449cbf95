"""Other programs' ways to the package: `pysbx serve`, an HTTP service, and `pysbx mcp`, tools for a model.

Both stand on the public functions of the package. They add protection of callers from each other: tokens, bounds of a
request, and bounds of all requests at the same time.
"""
