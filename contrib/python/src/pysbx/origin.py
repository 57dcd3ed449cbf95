"""Whether a module is one of the caller's own project, or installed, or of the standard library."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from functools import cache
from types import ModuleType

INSTALLED = ("site-packages", "dist-packages")


@cache
def _library() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))


def is_own_file(file: str) -> bool:
    """Tell whether a file is neither installed nor of the standard library."""
    return not any(part in file.split("/") for part in INSTALLED) and not file.startswith(_library())


def is_own_module(name: str, module: object) -> bool:
    """Tell whether a module that is imported has a file of the caller's own."""
    file = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or not isinstance(file, str):
        return False
    return name.partition(".")[0] not in ("pysbx", "__main__") and is_own_file(file)


def is_own_name(name: str) -> bool:
    """Tell whether a program here would import a module of this name from the caller's own files.

    Args:
        name: a name without dots, because looking for another one would import what is before the dot.
    """
    if not name.isidentifier():
        return False
    if name in sys.modules:
        return is_own_module(name, sys.modules[name])
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # a finder of the caller's may raise any of them
        return False
    if found is None:
        return False
    # A directory without __init__.py is a package too, but only one with modules is meant.
    places = [found.origin] if found.has_location and found.origin else list(found.submodule_search_locations or ())
    return bool(places) and all(is_own_file(os.path.abspath(place)) for place in places)
