"""The calls of the package: run_code, sessions, and the decorators."""
