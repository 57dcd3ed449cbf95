"""Files and directories of the sandbox by absolute path, as a request "place" asks for them.

A file is read and written in pieces, so that neither side needs memory for all of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from typing import Any

from .paths import NAMES, moved

Message = dict[str, Any]


def _refuse(number: int, path: str, reason: str = "") -> None:
    raise OSError(number, reason or os.strerror(number), path)


def _check_regular(about: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(about.st_mode):
        _refuse(errno.EISDIR, path)
    if not stat.S_ISREG(about.st_mode):  # such a file may have no end, or never any data
        _refuse(errno.ENXIO, path, "It is not a file, but a device, pipe or socket")


def _kind(mode: int) -> str:
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _about(about: os.stat_result) -> list[Any]:
    return [_kind(about.st_mode), about.st_size, about.st_mtime, stat.S_IMODE(about.st_mode)]


def _stat(path: str, request: Message) -> Message:
    return {"about": _about(os.stat(path))}


def _list(path: str, request: Message) -> Message:
    entries: list[list[Any]] = []
    with os.scandir(path) as found:
        for entry in found:
            try:
                entries.append([entry.name, *_about(entry.stat())])
            except OSError:  # a link that leads to nothing, or in a circle
                entries.append([entry.name, "other", 0, 0.0, 0])
            if len(entries) > request["limit"]:
                _refuse(errno.EFBIG, path, f"It has more than {request['limit']} entries")
    return {"entries": sorted(entries)}


def _make(path: str, request: Message) -> Message:
    os.makedirs(path, exist_ok=True)
    return {}


def _remove(path: str, request: Message) -> Message:
    # A link itself is removed, and not its target. The kernel resolves "..", and what is before it.
    above, name = os.path.split(path.rstrip("/"))
    real = os.path.join(os.path.realpath(above), name) if name not in ("", ".", "..") else os.path.realpath(path)
    kept = [os.getcwd(), *(moved(f"/{one}") for one in NAMES)]
    if any(f"{one}/".startswith(f"{real.rstrip('/')}/") for one in kept):
        _refuse(errno.EINVAL, path, "It is a directory of the sandbox, or above one")
    if stat.S_ISDIR(os.lstat(real).st_mode):
        shutil.rmtree(real)
    else:
        os.unlink(real)
    return {}


def _resolve(path: str, request: Message) -> Message:
    return {"path": os.path.realpath(path)}


def _read(path: str, request: Message) -> Message:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        about = os.fstat(file)
        _check_regular(about, path)
        content = os.pread(file, request["limit"], request["offset"])
    finally:
        os.close(file)
    return {"content": content, "size": about.st_size, "state": [about.st_ino, about.st_size, about.st_mtime_ns]}


def _write(path: str, request: Message) -> Message:
    """Write a piece to a file beside the target, whose place it takes with the last one."""
    path = os.path.realpath(path)
    mode = request.get("mode")
    with contextlib.suppress(FileNotFoundError):
        about = os.stat(path)
        _check_regular(about, path)
        mode = stat.S_IMODE(about.st_mode) if mode is None else mode
        if not os.access(path, os.W_OK):
            _refuse(errno.EACCES, path)
    above = os.path.dirname(path)
    os.makedirs(above, exist_ok=True)
    part = f"{above}/.put-{request['token']}"
    try:
        flags = os.O_WRONLY | os.O_NOFOLLOW | (0 if request["offset"] else os.O_CREAT | os.O_EXCL)
        with open(os.open(part, flags, 0o666), "wb") as file:
            file.seek(request["offset"])
            file.write(request["content"])
        if request["last"]:
            if mode is not None:
                os.chmod(part, mode)
            os.rename(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    return {}


ACTIONS = {
    "stat": _stat,
    "list": _list,
    "make": _make,
    "remove": _remove,
    "resolve": _resolve,
    "read": _read,
    "write": _write,
}


def act(request: Message) -> Message:
    """Carry out a request "place"."""
    try:
        if not request["path"].startswith("/"):
            raise ValueError("the path is not absolute")
        return ACTIONS[request["action"]](moved(request["path"]), request)
    except (OSError, ValueError, RecursionError) as error:  # the last: directories that are nested too deeply
        number = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return {"error": {"message": reason, "errno": number}}
