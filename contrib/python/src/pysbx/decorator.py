"""The decorators: a call of the function becomes a call in a fresh sandbox."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, TypeVar, cast, overload

from pysbx.call import Result, call, check_result
from pysbx.keywords import SandboxOptions, Unpack
from pysbx.options import Options, make_options

P = ParamSpec("P")
R = TypeVar("R")


@overload
def sandbox(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def sandbox(
    *, result: Result = "typed", types: Iterable[type] = (), **options: Unpack[SandboxOptions]
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def sandbox(
    function: Callable[..., Any] | None = None,
    /,
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    **options: Unpack[SandboxOptions],
) -> Any:
    """Decorate a function, coroutine function or method, so that each call runs in a fresh sandbox.

    Args:
        function: given when the decorator is used without parentheses.
        result: "typed", or "pickle", which trusts the sandbox: see call.call.
        types: enumerations and dataclasses that may be returned, besides those of the function's module.
        options: dependencies, memory_mb, timeout_sec, cpus, allow_network, … : the fields of Options and Policy.

    Returns:
        The decorated function, with _is_sandboxed and _sandbox_config; a coroutine function stays one.
    """
    check_result(result)
    config = make_options(**options)

    def decorate(plain: Callable[..., Any]) -> Callable[..., Any]:
        _require_callable(plain)
        if inspect.iscoroutinefunction(plain):
            return _asynchronous(plain, config, result, tuple(types))
        return _synchronous(plain, config, result, tuple(types))

    return decorate if function is None else decorate(function)


@overload
def sandbox_async(function: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def sandbox_async(function: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def sandbox_async(
    *, result: Result = "typed", types: Iterable[type] = (), **options: Unpack[SandboxOptions]
) -> Callable[[Callable[P, R]], Callable[P, Coroutine[Any, Any, R]]]: ...
def sandbox_async(
    function: Callable[..., Any] | None = None,
    /,
    *,
    result: Result = "typed",
    types: Iterable[type] = (),
    **options: Unpack[SandboxOptions],
) -> Any:
    """Decorate as sandbox does; the decorated function is a coroutine function, even if the plain one is not."""
    check_result(result)
    config = make_options(**options)

    def decorate(plain: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        _require_callable(plain)
        return _asynchronous(plain, config, result, tuple(types))

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


def _synchronous(
    plain: Callable[..., Any], config: Options, result: Result, types: tuple[type, ...]
) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return call(config, plain, arguments, named, result=result, types=types)

    return _mark(wrapper, config)


def _asynchronous(
    plain: Callable[..., Any], config: Options, result: Result, types: tuple[type, ...]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(plain)
    async def wrapper(*arguments: Any, **named: Any) -> Any:
        from pysbx.threads import run_in_thread  # noqa: PLC0415 (asyncio: a caller that gets here has imported it)

        work = functools.partial(call, config, plain, arguments, named, result=result, types=types)
        return await run_in_thread(lambda cancel: work(cancel=cancel))

    return _mark(wrapper, config)
