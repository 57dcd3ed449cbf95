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
    directory = os.environ.get(VARIABLE, "")
    name = path[1:].partition("/")[0]
    return f"{directory}{path}" if directory and path.startswith("/") and name in NAMES else path
