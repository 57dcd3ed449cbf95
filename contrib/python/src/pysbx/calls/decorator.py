"""The decorators: a call of the function becomes a call in a fresh sandbox."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast, overload

from pysbx.calls.call import Result, call, check_result
from pysbx.container.streams import OutputCallback, forward, output_callback
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import Options, make_options

P = ParamSpec("P")
R = TypeVar("R")
TextHandler = Callable[[str], None]


class Way(NamedTuple):
    """How the calls of a decorated function are made: see call.call."""

    options: Options
    result: Result
    types: tuple[type, ...]
    on_output: OutputCallback

    def call(
        self, plain: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], cancel: int = -1
    ) -> Any:
        """Call a function in a fresh sandbox."""
        return call(
            self.options,
            plain,
            arguments,
            named,
            result=self.result,
            types=self.types,
            on_output=self.on_output,
            cancel=cancel,
        )


@overload
def sandbox(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def sandbox(
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    on_stdout: TextHandler | None = None,
    on_stderr: TextHandler | None = None,
    **options: Unpack[SandboxOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def sandbox(
    function: Callable[..., Any] | None = None,
    /,
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    on_stdout: TextHandler | None = None,
    on_stderr: TextHandler | None = None,
    **options: Unpack[SandboxOptions],
) -> Any:
    """Decorate a function, coroutine function or method, so that each call runs in a fresh sandbox.

    Args:
        function: given when the decorator is used without parentheses.
        result: "typed", or "pickle", which trusts the sandbox: see call.call.
        types: enumerations and dataclasses that may be returned, besides those of the function's module.
        on_stdout: called with text that the function prints, as it comes; by default it goes to sys.stderr.
        on_stderr: the same for its standard error.
        options: dependencies, memory_mb, timeout_sec, cpus, allow_network, … : see SandboxOptions.

    Returns:
        The decorated function, with _is_sandboxed and _sandbox_config; a coroutine function stays one.
    """
    check_result(result)
    way = Way(make_options(**options), result, tuple(types), output_callback(on_stdout, on_stderr, forward))

    def decorate(plain: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(plain, staticmethod):
            return staticmethod(decorate(plain.__func__))
        _require_callable(plain)
        if inspect.iscoroutinefunction(plain):
            return _asynchronous(plain, way)
        return _synchronous(plain, way)

    return decorate if function is None else decorate(function)


@overload
def sandbox_async(function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def sandbox_async(function: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def sandbox_async(
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    on_stdout: TextHandler | None = None,
    on_stderr: TextHandler | None = None,
    **options: Unpack[SandboxOptions],
) -> Callable[[Callable[P, R]], Callable[P, Coroutine[Any, Any, R]]]: ...
def sandbox_async(
    function: Callable[..., Any] | None = None,
    /,
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    on_stdout: TextHandler | None = None,
    on_stderr: TextHandler | None = None,
    **options: Unpack[SandboxOptions],
) -> Any:
    """Decorate as sandbox does; the decorated function is a coroutine function, even if the plain one is not."""
    check_result(result)
    way = Way(make_options(**options), result, tuple(types), output_callback(on_stdout, on_stderr, forward))

    def decorate(plain: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        if isinstance(plain, staticmethod):
            return staticmethod(decorate(plain.__func__))
        _require_callable(plain)
        return _asynchronous(plain, way)

    return decorate if function is None else decorate(function)


def _require_callable(plain: object) -> None:
    if not callable(plain):
        advice = ": put @classmethod above @sandbox" if isinstance(plain, classmethod) else ""
        raise TypeError(f"{type(plain).__name__}: cannot be called, and so not be sandboxed{advice}")


def _mark(wrapper: Callable[..., Any], config: Options) -> Callable[..., Any]:
    marked = cast(Any, wrapper)
    marked._is_sandboxed = True
    marked._sandbox_config = config
    return wrapper


def _synchronous(plain: Callable[..., Any], way: Way) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return way.call(plain, arguments, named)

    return _mark(wrapper, way.options)


def _asynchronous(plain: Callable[..., Any], way: Way) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(plain)
    async def wrapper(*arguments: Any, **named: Any) -> Any:
        from pysbx.base.threads import run_in_thread  # noqa: PLC0415 (asyncio: a caller that gets here has imported it)

        return await run_in_thread(lambda cancel: way.call(plain, arguments, named, cancel))

    return _mark(wrapper, way.options)
