"""What callers use: run_code, sessions, and the decorators."""
