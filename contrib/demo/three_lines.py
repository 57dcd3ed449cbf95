"""The three lines that the demonstration shows last."""

from pysbx import sandbox  # type: ignore[import]

add = sandbox(lambda one, two: one + two)
print(add(20, 22))
