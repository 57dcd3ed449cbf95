"""The error for a value that has no form in an answer."""

from __future__ import annotations


class Unserializable(Exception):
    """A value that cannot leave the sandbox."""

    def __init__(self, value: object, path: str, reason: str = "") -> None:
        self.type_name = type_name(type(value))
        self.path = path
        self.reason = reason or f"a value of type {self.type_name} cannot leave the sandbox"
        super().__init__(self.reason)


def type_name(kind: type) -> str:
    """Return the name of a type as one writes it in code."""
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
