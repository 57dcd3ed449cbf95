"""Finds the value that cannot be pickled: in a call's function, its arguments, or anything that they refer to."""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

# Each attempt pickles a part of the call again.
ATTEMPTS = 300
DEPTH = 8
ITEMS = 100

Part = tuple[str, Any]


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _of_function(function: types.FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"variable '{name}'", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in dict.fromkeys(_names_in(function.__code__)):
        if name in function.__globals__:
            yield f"global '{name}'", function.__globals__[name]
    for number, value in enumerate(function.__defaults__ or ()):
        yield f"default {number}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"default of '{name}'", value


def _parts(value: Any) -> Iterator[Part]:
    """Yield what a value refers to: the parts that are pickled together with it."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, functools.partial):
        yield from (("its function", value.func), ("its arguments", value.args), ("its arguments", value.keywords))
    elif isinstance(value, types.MethodType):
        yield from (("its object", value.__self__), ("its function", value.__func__))
    elif isinstance(value, dict):
        for key, item in itertools.islice(value.items(), ITEMS):
            yield f"[{key!r:.40}]", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, item in enumerate(itertools.islice(value, ITEMS)):
            yield f"[{number}]", item
    elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        yield "its function", value.__wrapped__
    else:
        attributes = getattr(value, "__dict__", None)
        for name, item in list(attributes.items()) if isinstance(attributes, (dict, types.MappingProxyType)) else ():
            yield f"attribute '{name}'", item


def find(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], dump: Callable[[Any], object]
) -> tuple[str, str]:
    """Return the type and the place of the value because of which a call cannot be packed."""
    attempts = itertools.count()

    def fails(value: Any) -> bool:
        if next(attempts) >= ATTEMPTS:
            return False
        try:
            dump(value)
        except Exception:  # of any type that is met
            return True
        return False

    called = getattr(function, "__qualname__", function)
    places = [(f"argument {index}", value) for index, value in enumerate(arguments)]
    places += [(f"argument '{name}'", value) for name, value in named.items()]
    place, culprit = next((part for part in places if fails(part[1])), (f"function '{called}'", function))
    for _ in range(DEPTH):
        inner = next((part for part in _parts(culprit) if fails(part[1])), None)
        if inner is None:
            break
        place, culprit = f"{place}: {inner[0]}", inner[1]
    kind = type(culprit)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), place
