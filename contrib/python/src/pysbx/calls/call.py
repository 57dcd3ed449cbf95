"""A call of a function in a fresh container."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, get_args

from pysbx.container.exchange import MALFORMED, MAX_NAME, exchange, execution_error, violations_of
from pysbx.container.streams import OutputCallback
from pysbx.errors import ForgedAnswerError, PolicyViolationError, SandboxError, SerializationError
from pysbx.options.options import Options

if TYPE_CHECKING:
    from pysbx.calls.decode import FindClass
    from pysbx.container.container import Message

Result = Literal["typed", "pickle"]
DECORATED = re.compile(r"(\s*)@")

_sources: weakref.WeakKeyDictionary[CodeType, tuple[str, int, str]] = weakref.WeakKeyDictionary()


def _names_of(plain: Callable[..., Any]) -> list[Any]:
    """Return the objects to which the names of a function's module and closure refer."""
    found = [*getattr(plain, "__globals__", {}).values()]
    for cell in getattr(plain, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return found


def _class_in(outer: type, name: str) -> type | None:
    """Return the class with a qualified name that is defined in another class, or None."""
    found: object = outer
    for part in name.removeprefix(f"{outer.__qualname__}.").split("."):
        found = vars(found).get(part) if isinstance(found, type) else None
    return found if isinstance(found, type) and found.__qualname__ == name else None


def find_class_for(function: Callable[..., Any], types: Iterable[type]) -> FindClass:
    """Return a finder of the classes that an answer of the function may be of.

    These are the ones in `types`, and those to which a name of the function's module or closure refers. Where another
    decorator has wrapped the function, or partial(), its own module is meant as well.
    """
    layers: list[Any] = []
    layer: Any = function
    while layer is not None and not any(layer is one for one in layers):
        layers.append(layer)
        layer = layer.func if isinstance(layer, functools.partial) else getattr(layer, "__wrapped__", None)

    def find(module: str, name: str) -> type | None:
        candidates = [*types]
        for one in layers:
            candidates += _names_of(getattr(one, "__func__", one))
        for candidate in candidates:
            if not isinstance(candidate, type) or candidate.__module__ != module:
                continue
            if candidate.__qualname__ == name:
                return candidate
            if name.startswith(f"{candidate.__qualname__}."):
                found = _class_in(candidate, name)
                if found is not None:
                    return found
        return None

    return find


def check_result(result: object) -> None:
    """Refuse a value of `result` that is not allowed.

    Raises:
        ValueError: it is not one of those in Result.
    """
    if result not in get_args(Result):
        raise ValueError(f"result: {result!r:.80} is not one of {', '.join(map(repr, get_args(Result)))}")


def open_answer(answer: Message, options: Options, result: Result, find_class: FindClass) -> Any:
    """Return the value in the answer to a request "call", or raise the exception that the answer describes."""
    violations = violations_of(answer)
    if violations and "value" not in answer:
        raise PolicyViolationError(violations)
    if "error" in answer:
        raise execution_error(answer["error"], options)
    refused = answer.get("unserializable")
    if isinstance(refused, list) and len(refused) == 3:
        reason, kind, path = (str(part)[:MAX_NAME] for part in refused)
        raise SerializationError(f"{path}: {reason}", kind, path)
    if result == "pickle" and isinstance(answer.get("pickle"), bytes):
        import pickle  # noqa: PLC0415 (not needed to decorate a function)

        try:
            return pickle.loads(answer["pickle"])
        except Exception as error:  # the classes in it may raise any exception
            raise SerializationError(f"the answer cannot be unpickled: {type(error).__name__}: {error}") from error
    if result == "typed" and isinstance(answer.get("value"), bytes):
        from pysbx.calls.decode import decode  # noqa: PLC0415 (not needed to decorate a function)

        return decode(answer["value"], find_class)
    raise ForgedAnswerError(MALFORMED)


def _without_decorators(lines: list[str]) -> list[str]:
    """Return the source of a function with empty lines for its decorators: one may have secrets of the sandbox."""
    begin = DECORATED.match(lines[0]) if lines else None
    if begin is None:
        return lines
    definition = re.compile(rf"{begin[1]}(?:async\s+)?def\b")
    found = next((number for number, line in enumerate(lines) if definition.match(line)), len(lines))
    return ["\n"] * found + lines[found:]


def source_of(function: Callable[..., Any]) -> tuple[str, int, str] | None:
    """Return the file of a function, the number of its first line and its source, or None if there is no source.

    The source has empty lines instead of decorators.
    """
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    if code is None:
        return None
    found = _sources.get(code)
    if found is None:
        try:
            lines, first = inspect.getsourcelines(code)
            lines = _without_decorators(lines)
        except (OSError, TypeError):
            lines, first = [], 0
        # Code compares by content, its place included: the same code has the same text.
        found = _sources[code] = (code.co_filename, first, "".join(lines))
    return found if found[2] else None


def request_for(
    options: Options, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], result: Result
) -> Message:
    """Return the request for a call of a function: with its source, for tracebacks and the static analysis.

    Raises:
        TypeError: it is no function, nor anything else that can be called.
        ValueError: there is no such result.
    """
    from pysbx.calls.pack import pack  # noqa: PLC0415 (cloudpickle: not needed to decorate a function)

    if not callable(function):
        raise TypeError(f"function: {type(function).__name__} cannot be called")
    check_result(result)
    request: Message = {
        "op": "call",
        "payload": pack(function, arguments, named),
        "result": result,
        "python": list(sys.version_info[:2]),
    }
    source = source_of(function)
    if source is not None:
        request["lines"] = source
        if options.analysis:
            import json  # noqa: PLC0415 (the same)
            import textwrap  # noqa: PLC0415 (the same)

            request["source"] = "\n" * (source[1] - 1) + textwrap.dedent(source[2])
            request["analysis"], request["violations"] = json.loads(options.analysis), options.violations
    return request


def call(
    options: Options,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    on_output: OutputCallback | None = None,
    cancel: int = -1,
) -> Any:
    """Call a function in a fresh sandbox and return what it returns.

    Args:
        options: the sandbox.
        function: any callable that cloudpickle can pack.
        arguments: its positional arguments.
        named: its keyword arguments.
        result: "typed", or "pickle": then the answer is unpickled here, which lets the sandbox run code here.
        types: enumerations and dataclasses that may be returned, besides those of the function's module.
        on_output: see Container.
        cancel: see Container.

    Raises:
        SandboxError: one of its subclasses; see errors.py.
        ValueError: there is no such result.
    """
    from pysbx.calls.prepare import prepare, prepared  # noqa: PLC0415 (for the first call)
    from pysbx.container import ready  # noqa: PLC0415 (for the first call)

    check_result(result)
    with ExitStack() as held:
        taken = held.enter_context(ready.Taken(prepared(options)))
        request = request_for(options, function, arguments, named, result)
        bundle = prepare(options)
        container = held.enter_context(taken.begin(bundle, on_output, cancel, keeps_files=False, measured=False))
        try:
            answer = exchange(container, bundle, request, last=True)
        except SandboxError:
            container.streams.take_all()
            raise
        container.streams.take_all()
    return open_answer(answer, options, result, find_class_for(function, types))
