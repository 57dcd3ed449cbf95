"""Changes functions of libraries that show results, now if they are imported already, otherwise after their import."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

Patch = Callable[[Any], None]


def _instead(*arguments: Any, _new: Callable[..., Any], **options: Any) -> Any:
    return _new(*arguments, **options)


def replace(module: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Let a function of a module do something else, also for modules that have imported it by its name already.

    Args:
        module: the module, which is preloaded or has just been imported.
        name: of the function.
        make: gets the function as it was, and returns what is called from now on.
    """
    function = getattr(module, name)
    if not isinstance(function, FunctionType) or function.__closure__:
        setattr(module, name, make(function))
        return
    names = function.__globals__
    original = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    original.__kwdefaults__, original.__doc__ = function.__kwdefaults__, function.__doc__
    function.__kwdefaults__, function.__defaults__ = {"_new": make(original)}, None
    function.__code__ = _instead.__code__.replace(co_name=function.__name__)
    function.__wrapped__ = original  # type: ignore[attr-defined]  # for inspect.signature()


class _Loader:
    """Loads a module as its own loader does, and changes it."""

    def __init__(self, loader: Any, patch: Patch) -> None:
        self._loader, self._patch = loader, patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which finds its own loader, and change it."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _changed[module.__name__] = module
        self._patch(module)


class _Finder:
    """The first finder of sys.meta_path. It knows the modules to change, and no others."""

    def __init__(self, patches: dict[str, Patch]) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is, with a loader that changes it."""
        patch = self._patches.get(name)
        spec = PathFinder.find_spec(name, path, target) if patch is not None else None
        if spec is not None and spec.loader is not None and patch is not None:
            spec.loader = _Loader(spec.loader, patch)  # type: ignore[assignment]
        return spec


_patches: dict[str, Patch] = {}
_changed: dict[str, ModuleType] = {}


def _change_present() -> None:
    """Change the modules that are imported and not changed yet."""
    for name, patch in _patches.items():
        module = sys.modules.get(name)
        if module is None or _changed.get(name) is module:
            continue
        # Its import may be in progress in this thread or another one.
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _changed[name] = module
            patch(module)


def _watch_imports() -> None:
    """Change the modules that the runtime's agent reveals: they are preloaded, and no finder is asked for them."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    find = bootstrap._find_and_load

    def _find_and_load(name: str, import_: Any, **named: Any) -> Any:  # lazy_submodule, since 3.15
        found = find(name, import_, **named)
        with contextlib.suppress(Exception):  # a module that is not as expected stays as it is
            _change_present()
        return found

    # CPython leaves functions of this file out of tracebacks, and out of the levels of a warning.
    _find_and_load.__code__ = _find_and_load.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    bootstrap._find_and_load = _find_and_load


def install(patches: Mapping[str, Patch]) -> None:
    """Change modules.

    Args:
        patches: by name of a module, a function that changes it.
    """
    if not _patches:
        sys.meta_path.insert(0, _Finder(_patches))
        _watch_imports()
    for name, patch in patches.items():
        _patches.setdefault(name, patch)
    _change_present()
