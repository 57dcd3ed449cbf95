"""Whether a module is one of the caller's own project, or installed, or of the standard library."""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType

INSTALLED = ("site-packages", "dist-packages")
# The sandbox has its own files of the last two.
NOT_OWN = ("pysbx", "__main__", "cloudpickle", "msgpack")


@cache
def _library() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))


@cache
def _installed_in(directory: str) -> frozenset[str]:
    """Return the names of the modules and packages that `pip install --target` has put into a directory."""
    records = glob.glob(f"{glob.escape(directory)}/*.dist-info/RECORD")
    lines = [line for record in records for line in Path(record).read_text("utf-8", "replace").splitlines()]
    return frozenset(line.partition(",")[0].partition("/")[0].partition(".")[0] for line in lines)


def _is_installed_at(name: str, file: str) -> bool:
    """Tell whether an installer has put a module into a directory that is not one for packages."""
    depth = name.count(".") + 1 + (os.path.basename(file).partition(".")[0] == "__init__")
    directory = file
    for _ in range(depth):
        directory = os.path.dirname(directory)
    return name.partition(".")[0] in _installed_in(directory)


def is_own_file(file: str) -> bool:
    """Tell whether a file is neither installed nor of the standard library."""
    return not any(part in file.split("/") for part in INSTALLED) and not file.startswith(_library())


def is_own_module(name: str, module: object) -> bool:
    """Tell whether a module that is imported has a file of the caller's own."""
    file = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or not isinstance(file, str):
        return False
    if name.partition(".")[0] in NOT_OWN or not is_own_file(file):
        return False
    return not _is_installed_at(name, os.path.abspath(file))


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
    files = [os.path.abspath(place) for place in places]
    return bool(files) and all(is_own_file(file) and not _is_installed_at(name, file) for file in files)
