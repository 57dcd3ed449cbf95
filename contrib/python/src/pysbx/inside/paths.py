"""The directories of a sandbox. A container has its own; without one, they are in a directory that a variable names."""

from __future__ import annotations

import os

NAMES = ("work", "output", "tmp")
VARIABLE = "PYSBX_DIRECTORY"


def moved(path: str) -> str:
    """Return the path where a path of a container is here.

    Args:
        path: absolute, such as "/work/data.csv".
    """
    if not path.startswith("/") or path[1:].partition("/")[0] not in NAMES:
        return path
    return f"{os.environ.get(VARIABLE, '')}{path}"
