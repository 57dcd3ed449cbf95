"""Modules of the program that have the name of one that the worker has imported for itself.

`python3` finds them first: the directory of the program is the first of sys.path. Here the worker's module would be
found in sys.modules.
"""

from __future__ import annotations

import _imp
import importlib
import os
import sys
from importlib.machinery import PathFinder

from . import STARTED

# Modules of ours that are imported when they are needed, and would then find the program's modules.
LATER = ("analysis", "commands", "forward", "notebook", "packages", "prompt", "relay", "terminal", "tools", "trust")
OURS = ("__main__", "cloudpickle", "msgpack", "asyncio", __name__.partition(".")[0])

# Of the worker's modules those that python3 would not have imported before a program.
_imported: set[str] = set()


def begin() -> None:
    """Note the modules that the worker has imported."""
    fixed = {*STARTED, *OURS, *sys.builtin_module_names}
    _imported.update(name for name in sys.modules if "." not in name and name not in fixed and not _imp.is_frozen(name))


def forget_hidden(directory: str) -> None:
    """Let the program find a module of its own in a directory, under any name.

    Other directories of sys.path, of the variable PYTHONPATH, may have come with its files: imports looked for them
    before, and would not do so again.
    """
    # Copies, because other threads of a session may import meanwhile.
    for path in [path for path, finder in list(sys.path_importer_cache.items()) if finder is None]:
        sys.path_importer_cache.pop(path, None)
    try:
        names = {name.partition(".")[0] for name in os.listdir(directory or ".")} & _imported
    except OSError:
        return
    for name in names:
        spec = PathFinder.find_spec(name, [directory])
        if spec is None or spec.loader is None:  # a directory without __init__.py comes behind all others
            continue
        for later in LATER:
            importlib.import_module(f".{later}", __package__)
        _imported.discard(name)
        for one in [one for one in list(sys.modules) if one == name or one.startswith(f"{name}.")]:
            sys.modules.pop(one, None)
