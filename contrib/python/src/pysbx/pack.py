"""Packs a function and its arguments for the way into a sandbox, by cloudpickle.

Code that the sandbox cannot import travels by value: the code of __main__, and of modules that are neither installed
nor in the standard library. Only calls are pickled: decode.py reads the answers.
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import sysconfig
import threading
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from pysbx.errors import SerializationError

INSTALLED = ("site-packages", "dist-packages")
# The index of co_filename in the arguments of CodeType, from Python 3.8 on.
FILENAME = 10

# Guards the counts below. It can be taken twice, because a signal handler may call a sandboxed function too.
_lock = threading.RLock()
# For each module that is registered with cloudpickle: the number of calls being packed that need it.
_users: Counter[str] = Counter()
_local: tuple[int, list[ModuleType]] = (0, [])


def _is_local(name: str, module: object) -> bool:
    file = getattr(module, "__file__", None)
    if (
        not isinstance(module, ModuleType)
        or not isinstance(file, str)
        or name.partition(".")[0] in ("pysbx", "__main__")
    ):
        return False
    if any(part in file.split("/") for part in INSTALLED):
        return False
    return not file.startswith((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")))


def _local_modules() -> list[ModuleType]:
    """Return the modules of the caller's own project."""
    global _local  # noqa: PLW0603 (looked through again only when something has been imported)
    if _local[0] != len(sys.modules):
        found = [module for name, module in list(sys.modules.items()) if _is_local(name, module)]
        _local = (len(sys.modules), found)
    return _local[1]


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """Let cloudpickle pack the code of local modules by value while the block runs.

    cloudpickle has one registry for the process, so a module stays in it until no thread packs a call any more. No lock
    is held in the block: pickling runs the caller's code, which may call a sandboxed function, or wait for a thread
    that does.
    """
    local = _local_modules()
    with _lock:
        # The caller's own registrations stay as they are.
        others = cloudpickle.list_registry_pickle_by_value() - _users.keys()
        held = [module for module in local if module.__name__ in sys.modules and module.__name__ not in others]
        for module in held:
            cloudpickle.register_pickle_by_value(module)
            _users[module.__name__] += 1
    try:
        yield
    finally:
        with _lock:
            for module in held:
                _users[module.__name__] -= 1
                if not _users[module.__name__]:
                    del _users[module.__name__]
                    with contextlib.suppress(ValueError):  # the caller has done so already
                        cloudpickle.unregister_pickle_by_value(module)


def _reduce_code(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
    """Reduce code with its file, which cloudpickle leaves out since 3.1.3: tracebacks find the source by that name."""
    constructor, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return constructor, (*arguments[:FILENAME], code.co_filename, *arguments[FILENAME + 1 :])


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no annotations
    """Inside, a sandboxed function is the plain one: it is where it should be already."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType) and getattr(obj, "_is_sandboxed", False):
            return copy.copy, (obj.__wrapped__,)  # type: ignore[attr-defined]
        return super().reducer_override(obj)


def pack(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """Return a call as bytes.

    Raises:
        SerializationError: the function, something it refers to, or an argument cannot be pickled.
    """
    buffer = io.BytesIO()
    with _by_value():
        try:
            _Pickler(buffer).dump((function, arguments, named))
        except Exception as error:  # pickling calls code of every type it meets
            name = _culprit(function, arguments, named)
            raise SerializationError(f"{name[1]} cannot go into a sandbox: {error}", *name) from error
    return buffer.getvalue()


def _culprit(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, str]:
    """Return the type and the place of the value that cannot be pickled."""
    places = [(f"argument {index}", value) for index, value in enumerate(arguments)]
    places += [(f"argument '{name}'", value) for name, value in named.items()]
    for path, value in places:
        try:
            cloudpickle.dumps(value)
        except Exception:  # this value is the culprit
            return f"{type(value).__module__}.{type(value).__qualname__}", path
    return type(function).__qualname__, f"function '{getattr(function, '__qualname__', function)}'"
