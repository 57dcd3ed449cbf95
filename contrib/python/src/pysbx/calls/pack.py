"""Packs a function and its arguments for the way into a sandbox, by cloudpickle.

Code that the sandbox cannot import travels by value: the code of __main__, and of modules that are neither installed
nor in the standard library. Only calls are pickled: decode.py reads the answers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import operator
import sys
import threading
import types
import weakref
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from pysbx.base.module_origin import is_own_module
from pysbx.calls import annotation_parts
from pysbx.container.payload import MODULE
from pysbx.errors import SerializationError

# The index of co_filename in the arguments of CodeType, from Python 3.8 on.
FILENAME = 10
# The module to which functions refer whose assertions pytest has rewritten.
ASSERTIONS = "_pytest.assertion.rewrite"

# Guards the counts below. It can be taken twice, because a signal handler may call a sandboxed function too.
_lock = threading.RLock()
# For each module that is registered with cloudpickle: the number of calls being packed that need it.
_users: Counter[str] = Counter()
# The modules that were imported at the last call, and those of them that are of the caller's project, by name.
_last: tuple[dict[str, Any], dict[str, ModuleType]] = {}, {}


def _local_modules() -> list[ModuleType]:
    """Return the modules of the caller's own project."""
    global _last  # noqa: PLW0603 (a module that has left is not kept)
    known, local = _last
    now: dict[str, Any] = dict(sys.modules)
    if list(now) != list(known) or not all(map(operator.is_, now.values(), known.values())):
        local = {
            name: module
            for name, module in now.items()
            if (name in local if known.get(name) is module else is_own_module(name, module))
        }
        _last = now, local
    return list(local.values())


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


def _is_by_name(module: ModuleType) -> bool:
    """Tell whether the sandbox imports a module by its name."""
    registered = cloudpickle.list_registry_pickle_by_value()
    package = module.__name__
    while package:  # it stands for its modules
        if package in registered:
            return False
        package = package.rpartition(".")[0]
    return module.__name__ != "__main__"


def _is_imported(thing: Any) -> bool:
    """Tell whether the sandbox can import a thing by its module and name, as cloudpickle decides it for functions."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    if module is None or not _is_by_name(module):
        return False
    found: Any = module
    for part in str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "")).split("."):
        found = getattr(found, part, None)
    return found is thing


def _other_name(kind: type) -> str:
    """Return the name by which the sandbox can import a class whose own name leads elsewhere, or "".

    The base of each TypedDict is such a class: typing._TypedDict, which calls itself TypedDict.
    """
    module = sys.modules.get(kind.__module__)
    if module is None or _is_imported(kind) or not _is_by_name(module):
        return ""
    return next((name for name, value in list(vars(module).items()) if value is kind), "")


def _reduce_cached(function: Any) -> Any:
    """Reduce a function with functools.lru_cache: the sandbox's begins empty."""
    if _is_imported(function):
        return NotImplemented
    about = function.cache_parameters()
    arguments = function.__wrapped__, about["maxsize"], about["typed"], functools._CacheInfo
    return type(function), arguments, dict(vars(function))


def _reduce_cached_property(cached: Any) -> Any:
    """Reduce a property without its lock, which there is up to Python 3.11."""
    return type(cached), (cached.func,), {"attrname": cached.attrname}


def _reduce_weak(weak: Any) -> Any:
    """Reduce a dictionary with weak references; functools.singledispatch has one."""
    return type(weak), (dict(weak),)


def _reduce_lazy(lazy: Any) -> Any:
    """Reduce a lazy import (PEP 810): what it stands for, or a module that only the sandbox has."""
    try:
        return operator.getitem, ((lazy.resolve(),), 0)
    except ImportError:
        name = repr(lazy).split("'")[1]
        if "." in name:  # which part of the name the variable stands for is not known
            raise
        return importlib.import_module, (name,)


class _Inside:
    """Stands for a module of the sandbox's program, or for a function there."""

    def __init__(self, module: str, *function: str) -> None:
        self._module, self._function = module, function

    def __call__(self) -> None:
        """Do nothing: pickle asks only whether it can be called."""

    def __reduce__(self) -> Any:
        if self._function:
            return getattr, (_Inside(self._module), *self._function)
        return importlib.import_module, (f"{MODULE}.{self._module}",)


def _reduce_text(text: Any) -> Any:
    """Reduce an array of strings of pandas, or its dtype, which is pyarrow's because that is here.

    The sandbox uses pyarrow if it has that too, as pandas does by default.
    """
    dtype = getattr(text, "dtype", text)
    if dtype.storage != "pyarrow" or str(dtype.na_value) != "nan":  # the caller has chosen it
        return NotImplemented
    if dtype is text:
        return type(text), (None, dtype.na_value)
    numpy, pyarrow = sys.modules["numpy"], sys.modules["pyarrow"]
    strings = pyarrow.concat_arrays([pyarrow.array([], pyarrow.large_string()), *text.__arrow_array__().chunks])
    _, ends, data = strings.buffers()
    ends = numpy.frombuffer(ends, "<i8")[strings.offset : strings.offset + len(strings) + 1]
    missing = numpy.packbits(text.isna(), bitorder="little") if strings.null_count else None
    parts = bytes(data)[ends[0] : ends[-1]], numpy.diff(ends).astype("<u4"), missing, dtype
    return _Inside("frames", "strings"), parts


REDUCERS: dict[type, Callable[[Any], Any]] = {
    type(functools.lru_cache(lambda: None)): _reduce_cached,
    functools.cached_property: _reduce_cached_property,
    weakref.WeakKeyDictionary: _reduce_weak,
    weakref.WeakValueDictionary: _reduce_weak,
}
# Classes of pandas for strings: of versions 3 and 2.
TEXTS = ("ArrowStringArray", "ArrowStringArrayNumpySemantics", "StringDtype")
if sys.version_info >= (3, 15):
    REDUCERS[types.LazyImportType] = _reduce_lazy


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no annotations
    """Packs what cloudpickle does not.

    Inside, a sandboxed function is the plain one: it is where it should be already.
    """

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType) and getattr(obj, "_is_sandboxed", False):
            return copy.copy, (obj.__wrapped__,)  # type: ignore[attr-defined]
        kind = type(obj)
        is_text = kind.__name__ in TEXTS and kind.__module__.partition(".")[0] == "pandas"
        if kind in REDUCERS or is_text:
            return REDUCERS.get(kind, _reduce_text)(obj)
        reducer = annotation_parts.reducer_of(obj)
        if reducer is not None and not _is_imported(obj):
            return reducer(obj)
        if isinstance(obj, ModuleType) and obj.__name__ == ASSERTIONS:
            return importlib.import_module, (f"{MODULE}.assertions",)
        if isinstance(obj, type) and (other := _other_name(obj)):
            return getattr, (sys.modules[obj.__module__], other)
        found = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(found, tuple) and len(found) > 2 and isinstance(found[2], tuple):
            # cloudpickle makes the class anew without this, by which the caller knows it.
            found[2][0].setdefault("__qualname__", obj.__qualname__)
            if annotation_parts.evaluates_late(obj):
                found[2][0].pop("__annotations_cache__", None)
                found[2][0]["__annotate__"] = obj.__annotate__  # type: ignore[attr-defined]
        return found

    def _function_reduce(self, obj: FunctionType) -> Any:
        # The sandbox has no pysbx.
        return (
            self._dynamic_function_reduce(obj)
            if obj.__module__ == annotation_parts.__name__
            else super()._function_reduce(obj)
        )

    def _dynamic_function_reduce(self, func: FunctionType) -> Any:
        late = annotation_parts.evaluates_late(func)
        if not late and annotation_parts.NAMESPACE not in func.__code__.co_freevars:
            return super()._dynamic_function_reduce(func)
        found = super()._dynamic_function_reduce(annotation_parts.without(func))
        state = found[2][1]
        for name in annotation_parts.looked_up(func.__code__) & func.__globals__.keys():
            state["__globals__"][name] = func.__globals__[name]
        if late:
            del state["__annotations__"]
            state["__annotate__"] = func.__annotate__  # type: ignore[attr-defined]
        return found


def _dump(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def pack(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """Return a call as bytes.

    Raises:
        SerializationError: the function, something it refers to, or an argument cannot be pickled.
    """
    with _by_value():
        try:
            return _dump((function, arguments, named))
        except Exception as error:  # pickling calls code of every type it meets
            from pysbx.calls.unpicklable import find  # noqa: PLC0415 (most calls are packed)

            kind, place = find(function, arguments, named, _dump)
            raise SerializationError(f"{place} cannot go into a sandbox: {error}", kind, place) from error
