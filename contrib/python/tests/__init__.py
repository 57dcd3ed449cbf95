"""Tests of the package, with the real runtime."""
