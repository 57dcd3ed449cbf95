"""Other programs' ways to the package: `pysbx serve`, an HTTP service, and `pysbx mcp`, tools for a model.

Both stand on the public functions of the package. What they add is what callers who do not trust each other need: who
may call, what may be asked for, how much at once.
"""
