"""The error for a value that has no form in an answer."""

from __future__ import annotations

from collections import abc

# The advice for a value: that of the first class here from which its class derives.
ADVICE: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (BaseException, "repr(…)"),
    (str, "str(…)"),
    ((bytes, bytearray, memoryview), "bytes(…)"),
    (int, "int(…)"),
    (float, "float(…)"),
    (abc.Mapping, "dict(…)"),
    (abc.Set, "set(…), or list(…) to keep an order"),
    (tuple, "tuple(…)"),
    (abc.Iterable, "list(…)"),
)
# For models of pydantic, classes of attrs, sparse arrays of scipy, masked ones of numpy, queries of polars, arrays and
# values of Arrow, those of xarray, and what ipaddress makes. Most are iterable too, but of other such values.
METHODS = {
    "model_dump": "its model_dump()",
    "__attrs_attrs__": "attrs.asdict(…)",
    "toarray": "its toarray()",
    "filled": "its filled(…), and its mask",
    "collect_schema": "its collect()",
    "to_pylist": "its to_pylist()",
    "as_py": "its as_py()",
    "to_netcdf": "its to_dict()",
    "exploded": "str(…)",
}
HEAPTYPE = 1 << 9  # of tp_flags: made by a class statement


def advice_for(kind: type) -> str:
    """Return what to write to get a value that can leave the sandbox, or "" if only its author knows."""
    try:
        for name, text in METHODS.items():
            if hasattr(kind, name):
                return text
        own = "its data as a dict or a dataclass" if kind.__flags__ & HEAPTYPE and not issubclass(kind, type) else ""
        return next((text for base, text in ADVICE if issubclass(kind, base)), own)
    except Exception:  # a metaclass of the user's
        return ""


def shown(value: object, size: int = 80) -> str:
    """Return the beginning of the repr() of a value, which may be code of the user's, and fails for long integers."""
    try:
        return repr(value)[:size]
    except Exception:
        return f"<{type_name(type(value))}>"


class Unserializable(Exception):
    """A value that cannot leave the sandbox."""

    def __init__(self, value: object, path: str, reason: str = "") -> None:
        self.type_name = type_name(type(value))
        self.path = path
        self.reason = reason or f"a value of type {self.type_name} cannot leave the sandbox"
        if not reason and (advice := advice_for(type(value))):
            self.reason += f": return {advice}"
        super().__init__(self.reason)


def type_name(kind: type) -> str:
    """Return the name of a type as one writes it in code."""
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
