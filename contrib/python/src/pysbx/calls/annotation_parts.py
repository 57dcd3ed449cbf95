"""Reduces what annotations consist of, for pack.py: objects of typing that pickle sends by name, and late evaluation.

Python 3.14 evaluates annotations when a program asks for them, so their names may exist for a type checker only. They
go into a sandbox as the functions that they are: see PEP 649. `type NAME = …` is such a function since Python 3.12.
"""

from __future__ import annotations

import dis
import functools
import gc
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

# The variable by which these functions see the names of a class. Its value is the whole dictionary of the class.
NAMESPACE = "__classdict__"
PARAMETERS = ("bound", "covariant", "contravariant", "infer_variance")
ATTRIBUTES = ("__dict__", "__doc__", "__kwdefaults__", "__module__", "__qualname__")

Reduced = tuple[Any, ...]


def _set_module(made: Any, module: str) -> None:
    made.__module__ = module


def _make_alias(name: str, module: str, value: list[Any]) -> Any:
    made = {"__name__": module, "value": value}
    exec(f"type {name} = value[0]()", made)
    return made[name]


def _reduce_parameter(parameter: Any) -> Reduced:
    """Reduce a ParamSpec or a TypeVarTuple."""
    named = {name: getattr(parameter, f"__{name}__") for name in PARAMETERS if hasattr(parameter, f"__{name}__")}
    if getattr(parameter, "has_default", bool)():
        named["default"] = parameter.__default__
    made = functools.partial(parameter.__class__, parameter.__name__, **named)
    return made, (), parameter.__module__, None, None, _set_module


def _reduce_part(part: Any) -> Reduced:
    """Reduce the `args` or the `kwargs` of a ParamSpec."""
    return type(part), (part.__origin__,)


def _reduce_new_type(made: Any) -> Reduced:
    return type(made), (made.__name__, made.__supertype__), vars(made)


def _reduce_alias(alias: Any) -> Reduced:
    """Reduce an alias; the value of a statement may contain the alias, and names that do not exist."""
    value = next((one for one in gc.get_referents(alias) if isinstance(one, FunctionType)), None)
    if value is None or alias.__type_params__:
        made = functools.partial(alias.__class__, type_params=alias.__type_params__)
        return made, (alias.__name__, alias.__value__)
    box: list[Any] = []
    name, module = alias.__name__, alias.__module__
    return _make_alias, (name, module, box), value, None, None, lambda _, value: box.append(value)


def _set_attributes(made: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(made, name, value)


def _reduce_reference(reference: Any) -> Reduced:
    """Reduce a name that does not exist yet, which refers to all globals of its module since Python 3.14."""
    if not hasattr(reference, "__globals__"):
        return NotImplemented  # type: ignore[no-any-return]
    names = reference.__forward_code__.co_names
    known = {name: value for name, value in (reference.__globals__ or {}).items() if name in names}
    found = {"__owner__": reference.__owner__, "__globals__": known}
    about = {"is_argument": reference.__forward_is_argument__, "is_class": reference.__forward_is_class__}
    return (
        functools.partial(reference.__class__, **about),
        (reference.__forward_arg__,),
        found,
        None,
        None,
        _set_attributes,
    )


def _reduce_names(resolver: Any) -> Reduced:
    """Reduce what pydantic's validate_call has found its names in: all globals of a module. It needs them no more."""
    return type(resolver), ()


def _reduce_configuration(wrapper: Any) -> Reduced:
    """Reduce the configuration of a function with pydantic's validate_call, which pickle cannot make again."""
    return type(wrapper), (wrapper.config_dict,)


# By the names of types of annotationlib, typing, typing_extensions and pydantic.
MODULES = (
    "annotationlib",
    "pydantic._internal._config",
    "pydantic._internal._namespace_utils",
    "typing",
    "typing_extensions",
)
REDUCERS: dict[str, Callable[[Any], Reduced]] = {
    "ConfigWrapper": _reduce_configuration,
    "ForwardRef": _reduce_reference,
    "NewType": _reduce_new_type,
    "NsResolver": _reduce_names,
    "ParamSpec": _reduce_parameter,
    "ParamSpecArgs": _reduce_part,
    "ParamSpecKwargs": _reduce_part,
    "TypeAliasType": _reduce_alias,
    "TypeVarTuple": _reduce_parameter,
}


def reducer_of(thing: Any) -> Callable[[Any], Reduced] | None:
    """Return what reduces a thing that has to do with annotations, or None."""
    found = REDUCERS.get(type(thing).__name__)
    return found if found and type(thing).__module__ in MODULES else None


def evaluates_late(thing: Any) -> bool:
    """Tell whether the annotations of a function or a class are a function."""
    return isinstance(getattr(thing, "__annotate__", None), FunctionType)


def looked_up(code: CodeType) -> set[str]:
    """Return the names that a code looks for in the dictionary of a class and then among the globals."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname.startswith("LOAD_FROM_DICT_OR_")}
    return found.union(*(looked_up(one) for one in code.co_consts if isinstance(one, CodeType)))


def without(function: FunctionType) -> FunctionType:
    """Return a copy of a function without annotations that are evaluated late, and with few names of its class.

    The copy keeps those names of the class that the function uses. The others may be unfit to go into a sandbox.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if NAMESPACE in cells:
        names, content = looked_up(function.__code__), cells[NAMESPACE].cell_contents
        cells[NAMESPACE] = CellType({name: value for name, value in content.items() if name in names})
    closure = tuple(cells.values()) or None
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    for name in ATTRIBUTES:
        setattr(made, name, getattr(function, name))
    if not evaluates_late(function):
        made.__annotations__ = function.__annotations__
    return made
