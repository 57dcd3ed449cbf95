"""Remove what the caller has not put into /work and /output, when it discards the changes of a session."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .paths import moved

Message = dict[str, Any]
DIRECTORIES = ("/work", "/output")


def restore(request: Message) -> Message:
    """Remove all files but those to be kept, and the directories that are empty then. The host looks what is left."""
    keep = {moved(os.path.join("/work", path)) for path in request["keep"]}
    mounts = tuple(request["mounts"])
    for top in map(moved, DIRECTORIES):
        if top in mounts:
            continue
        _open_up(top)
        for path, directories, names in os.walk(top):
            directories[:] = [one for one in directories if os.path.join(path, one) not in mounts]
            links = [one for one in directories if os.path.islink(os.path.join(path, one))]
            for name in names + links:
                if os.path.join(path, name) not in keep:
                    _try(os.unlink, os.path.join(path, name))
            for name in set(directories).difference(links):
                _open_up(os.path.join(path, name))
        for path, _, _ in os.walk(top, topdown=False):
            if path != top and not f"{path}/".startswith(tuple(f"{mount}/" for mount in mounts)):
                _try(os.rmdir, path)
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir(moved("/work"))
    return {}


def _open_up(path: str) -> None:
    """Give a directory modes with which its owner can change what is in it."""
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        _try(lambda path: os.chmod(path, 0o755), path)


def _try(work: Any, path: str) -> None:
    with contextlib.suppress(OSError):  # it is not empty, or not the user's
        work(path)
