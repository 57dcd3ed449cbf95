"""Tools: functions of this program that code in a sandbox calls by name, and what it learns of them.

tool_calls.py carries out the calls.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dataclasses
import enum
import functools
import inspect
import keyword
import operator
import re
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Message = dict[str, Any]

MAX_TOOLS = 1000
# Not what this program has added to the module, as IPython does.
PYTHONS_OWN = frozenset(
    name
    for name, value in vars(builtins).items()
    if getattr(value, "__module__", "builtins") in ("builtins", "io", "_io", "_sitebuiltins")
)
MAX_BYTES = 1 << 32
# Types of JSON schemas as annotations.
TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None, "object": dict}
MAX_DEPTH = 16


class Tools:
    """Functions that code in a sandbox may call, and the limits of the calls. Sandboxes may share one.

    Attributes:
        functions: the functions by the names that they have in the sandbox.
        max_calls: how many calls a run may make.
        max_bytes: bytes of all arguments of a run, and the same again of all answers.
        timeout_sec: seconds from a call until it raises TimeoutError.
        max_concurrent: how many calls of a sandbox are carried out at the same time; further ones wait. A call whose
            function has returned a concurrent.futures.Future is not counted while it waits for that.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        max_calls: int = 1000,
        max_bytes: int = 16 << 20,
        timeout_sec: float = 60.0,
        max_concurrent: int = 32,
    ) -> None:
        """Take functions; see the attributes.

        Raises:
            TypeError: they are not functions by name, or a limit is no number.
            ValueError: a name is not one that Python allows, or a limit is out of range.
        """
        if not isinstance(functions, Mapping):
            form = "a mapping of names to functions, such as {'add': add}"
            raise TypeError(f"tools: {type(functions).__name__} is not {form}")
        for name, function in functions.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name[:1] == "_":
                raise ValueError(f"tools: {name!r:.80} is not a name that a function can have in a program")
            if is_pythons_own(name):
                raise ValueError(f"tools: Python itself has the name '{name}', so no call would reach it: use another")
            if not callable(function):
                raise TypeError(f"tools: '{name}' is of type {type(function).__name__}, which cannot be called")
        if len(functions) > MAX_TOOLS:
            raise ValueError(f"tools: there are {len(functions)}, and {MAX_TOOLS} is the most")
        self.functions = dict(functions)
        self.max_calls = _number("max_calls", max_calls, MAX_BYTES)
        self.max_bytes = _number("max_bytes", max_bytes, MAX_BYTES)
        self.max_concurrent = _number("max_concurrent", max_concurrent, 10_000)
        if isinstance(timeout_sec, bool) or not isinstance(timeout_sec, (int, float)):
            raise TypeError(f"tools: timeout_sec: {timeout_sec!r:.80} is not a number of seconds")
        if not 0 < timeout_sec < MAX_BYTES:
            raise ValueError(f"tools: timeout_sec: {timeout_sec!r:.80} is not a number of seconds above 0")
        self.timeout_sec = float(timeout_sec)
        self.loop: AbstractEventLoop | None = None
        self.specs = [_spec(name, function) for name, function in self.functions.items()]

    def in_loop(self, loop: AbstractEventLoop) -> Tools:
        """Return them with an event loop of the caller's, where those that are asynchronous run."""
        made = copy.copy(self)
        made.loop = loop
        return made


def is_pythons_own(name: str) -> bool:
    """Tell whether a name is a keyword, or that of a thing that every program with tools has."""
    return keyword.iskeyword(name) or name in PYTHONS_OWN or name == "ToolError"


def _number(name: str, given: object, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"tools: {name}: {given!r:.80} is not a whole number")
    if not 0 < given <= most:
        raise ValueError(f"tools: {name}: {given!r:.80} is not between 1 and {most}")
    return given


def as_tools(given: Tools | Mapping[str, Callable[..., Any]] | None) -> Tools | None:
    """Return what a caller has given as tools; None if there are none."""
    found = given if isinstance(given, Tools) or given is None else Tools(given)
    return found if found is not None and found.functions else None


def _text_of(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty:
        return None
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?<![\w.'\"])typing\.", "", text)  # within list[…]
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return "object"
    return text


def _default_of(value: Any) -> str | None:
    """Return a default as source text: "..." if it has no such form, None if there is no default."""
    if value is inspect.Parameter.empty:
        return None
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else "..."
    except Exception:  # the value may be of any class
        return "..."


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calls of a function are awaited."""
    found = getattr(function, "_is_async", None)  # of from_schema
    if found is not None:
        return bool(found)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def bound_names(function: Any) -> frozenset[str]:
    """Return the names of arguments that functools.partial has bound: the sandbox neither learns nor changes them."""
    found: set[str] = set()
    while function is not None:
        is_partial = isinstance(function, functools.partial)
        found |= function.keywords.keys() if is_partial else set()
        function = function.func if is_partial else getattr(function, "__wrapped__", None)
    return frozenset(found)


def _doc_of(function: Any) -> str:
    """Return what a function says of itself; an object that can be called may say it in __call__."""
    while isinstance(function, functools.partial):
        function = function.func
    called = type(function).__call__
    return inspect.getdoc(function) or (inspect.isfunction(called) and inspect.getdoc(called)) or ""


def _spec(name: str, function: Callable[..., Any]) -> Message:
    """Return what the sandbox learns of a function."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C, for example
        signature = inspect.Signature(
            [
                inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("named", inspect.Parameter.VAR_KEYWORD),
            ]
        )
    bound = bound_names(function)
    return {
        "name": name,
        "doc": _doc_of(function),
        "async": is_async(function),
        "parameters": [
            [one.name, int(one.kind), _text_of(one.annotation), _default_of(one.default)]
            for one in signature.parameters.values()
            if one.name not in bound
        ],
        "returns": _text_of(signature.return_annotation),
    }


def tool_stubs(tools: Tools | Mapping[str, Callable[..., Any]]) -> str:
    """Return the functions as Python text without their bodies: signatures and docstrings, for a model's prompt.

    Dataclasses, models of pydantic, TypedDicts and objects of JSON schemas in their signatures come first, with their
    fields, as TypedDicts, and enumerations, as a Literal of their values.
    """
    found = as_tools(tools)
    if found is None:
        return ""
    records: dict[Any, str] = {}
    for function in found.functions.values():
        for annotation in _hints(function).values():
            _add_records(annotation, records)
    # Two schemas may have the same record.
    text = "\n\n".join([*dict.fromkeys(filter(None, records.values())), *map(_stub, found.specs)]) + "\n"
    for kind, stub in records.items():
        if stub:
            text = re.sub(rf"(?<![\w.]){re.escape(f'{kind.__module__}.{kind.__qualname__}')}\b", kind.__name__, text)
    return text


def _hints(owner: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(owner)
    except Exception:  # a name that is only known to type checkers; or the signature is no function's
        return {}


def _add_records(annotation: Any, records: dict[Any, str]) -> None:
    """Add the classes that an annotation refers to, each with its stub, if it has fields or values."""
    for part in typing.get_args(annotation):
        _add_records(part, records)
    if not isinstance(annotation, type) or annotation in records:
        return
    records[annotation] = ""
    if issubclass(annotation, enum.Enum) and not issubclass(annotation, enum.Flag):
        values = [member.value for member in annotation]
        if values and all(isinstance(value, (str, int)) for value in values):  # what a Literal may have
            records[annotation] = f"{annotation.__name__} = Literal[{', '.join(map(repr, values))}]"
        return
    if dataclasses.is_dataclass(annotation):
        missing = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {one.name: (one.default, one.default_factory) == missing for one in dataclasses.fields(annotation)}
    elif hasattr(annotation, "model_fields"):  # of pydantic
        needed = {name: field.is_required() for name, field in annotation.model_fields.items()}
    elif hasattr(annotation, "__total__"):  # a TypedDict
        record: Any = annotation
        needed = {name: name in record.__required_keys__ for name in record.__annotations__}
    else:
        return
    hints = _hints(annotation)
    found = {name: hints.get(name, Any) for name in sorted(needed, key=needed.__getitem__, reverse=True)}
    texts = ((name, _text_of(kind)) for name, kind in found.items())
    lines = [f"    {name}: {text if needed[name] else f'NotRequired[{text}]'}" for name, text in texts]
    for kind in found.values():
        _add_records(kind, records)
    del records[annotation]  # it comes behind those that it refers to
    records[annotation] = "\n".join([f"class {annotation.__name__}(TypedDict):", *(lines or ["    pass"])])


def _stub(spec: Message) -> str:
    parts: list[str] = []
    kinds = [kind for _, kind, _, _ in spec["parameters"]]
    for position, (name, kind, annotation, default) in enumerate(spec["parameters"]):
        if kind == 3 and 2 not in kinds and kinds.index(3) == position:
            parts.append("*")
        equals = " = " if annotation else "="
        parts.append(
            {2: "*", 4: "**"}.get(kind, "")
            + name
            + (f": {annotation}" if annotation else "")
            + (f"{equals}{default}" if default is not None else "")
        )
        if kind == 0 and kinds.count(0) == position + 1:
            parts.append("/")
    returns = f" -> {spec['returns']}" if spec["returns"] else ""
    lines = [f"{'async ' if spec['async'] else ''}def {spec['name']}({', '.join(parts)}){returns}:"]
    if spec["doc"]:
        doc = spec["doc"].replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        doc += " " if doc.endswith('"') else ""
        lines += f'"""{doc}"""'.splitlines() if "\n" not in doc else [*f'"""{doc}'.splitlines(), '"""']
    lines.append("...")
    return "\n".join([lines[0], *(f"    {line}".rstrip() for line in lines[1:])])


class _Schemas:
    """The annotations for JSON schemas: as much as a reader of a signature needs."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._definitions = whole.get("$defs") or whole.get("definitions") or {}
        self._known: dict[str, Any] = {}

    def type_of(self, schema: Any, name: str, depth: int = 0) -> Any:
        """Return the annotation for a schema.

        Args:
            schema: it.
            name: of the class for an object with properties.
            depth: how many schemas are around it.
        """
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return Any
        if isinstance(reference := schema.get("$ref"), str):
            return self._defined(reference.rpartition("/")[2], depth)
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list) and values and all(isinstance(one, (str, int, type(None))) for one in values):
            return typing.Literal[tuple(values)]
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if isinstance(choices, list) and (len(choices) == 1 or "allOf" not in schema):
            return _any_of([self.type_of(one, name, depth + 1) for one in choices])
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        return _any_of([self._of_kind(one, schema, name, depth) for one in kinds])

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        if kind == "array":
            return list[self.type_of(schema.get("items"), name, depth + 1)]  # type: ignore[misc]
        record = self._record(schema, name, depth) if kind == "object" else None
        return record or (TYPES.get(kind, Any) if isinstance(kind, str) else Any)

    def _defined(self, name: str, depth: int) -> Any:
        if name not in self._known:
            self._known[name] = dict  # for a definition that refers to itself
            found = self._definitions.get(name) if isinstance(self._definitions, Mapping) else None
            self._known[name] = self.type_of(found, name, depth + 1)
        return self._known[name]

    def _record(self, schema: Mapping[str, Any], name: str, depth: int) -> type | None:
        """Return a class with the marks of a TypedDict for an object, or None if it cannot be written as one."""
        properties, required = schema.get("properties"), schema.get("required") or []
        names = [schema["title"] if _is_name(schema.get("title")) else name]
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not properties:
            return None
        if not all(map(_is_name, [*names, *properties])):
            return None
        fields = {one: self.type_of(about, _class_name(name, one), depth + 1) for one, about in properties.items()}
        needed = frozenset(one for one in required if isinstance(one, str))
        marks = {"__annotations__": fields, "__total__": True, "__required_keys__": needed, "__module__": "builtins"}
        return type(names[0], (), marks)


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def _any_of(kinds: list[Any]) -> Any:
    return functools.reduce(operator.or_, dict.fromkeys(kinds)) if kinds and Any not in kinds else Any


def _class_name(*parts: str) -> str:
    return "".join(word[:1].upper() + word[1:] for part in parts for word in re.split(r"[\W_]+", part))


def _signature_of(tool: str, schema: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature of a tool by its name and schema. A parameter that may be left out is given by name only."""
    properties = schema.get("properties") or {}
    # Some generators, such as zod, call what has a default required, too.
    optional = {name for name, about in properties.items() if isinstance(about, Mapping) and "default" in about}
    required = set(schema.get("required") or ()) - optional
    named = {name: about for name, about in properties.items() if _is_name(name)}
    schemas = _Schemas(schema)
    made = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if name in required else inspect.Parameter.KEYWORD_ONLY,
            annotation=schemas.type_of(about, _class_name(tool, name)),
            default=inspect.Parameter.empty
            if name in required
            else about.get("default")
            if isinstance(about, Mapping)
            else None,
        )
        for name, about in sorted(named.items(), key=lambda item: item[0] not in required)
    ]
    if len(named) < len(properties) or not properties:
        free = "others"
        while free in named:
            free += "_"
        made.append(inspect.Parameter(free, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(made)


def from_schema(
    name: str,
    tell: Callable[[dict[str, Any]], Any],
    description: str,
    schema: Mapping[str, Any],
    *,
    is_async: bool = False,
) -> Callable[..., Any]:
    """Return a tool that hands its arguments on by name. The receiver decides on those that are left out.

    Args:
        name: that of the tool, with which the classes begin that its schema does not name.
        tell: is given the arguments.
        description: what the tool does.
        schema: the JSON schema of the arguments: an object.
        is_async: whether code in the sandbox awaits its calls.
    """
    signature = _signature_of(name, schema)
    lines = [
        f"    {argument}: {about['description']}"
        for argument, about in (schema.get("properties") or {}).items()
        if isinstance(about, Mapping) and about.get("description")
    ]

    def call(*positional: Any, **named: Any) -> Any:
        arguments = signature.bind(*positional, **named).arguments
        for one in signature.parameters.values():
            if one.kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= arguments.pop(one.name, {})
        return tell(arguments)

    call.__doc__ = "\n".join([description, "", "Args:", *lines]) if lines else description
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    call._is_async = is_async  # type: ignore[attr-defined]
    return call
