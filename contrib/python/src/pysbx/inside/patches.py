"""Changes functions of libraries that show results, now if they are imported already, otherwise after their import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Patch = Callable[[Any], None]


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


def install(patches: Mapping[str, Patch]) -> None:
    """Change modules.

    Args:
        patches: by name of a module, a function that changes it.
    """
    if not _patches:
        sys.meta_path.insert(0, _Finder(_patches))
    for name, patch in patches.items():
        if name not in _patches:
            _patches[name] = patch
            if name in sys.modules:
                patch(sys.modules[name])
