"""Bounds on what an installation writes to the disk of the host, while it runs and at its end.

It writes into one directory, as an ordinary process that no quota holds. So a thread measures this directory.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import NoReturn

from pysbx.base import trees

# Of all files together, and of files and directories.
MAX_BYTES, MAX_FILES = 16 << 30, trees.MAX_ENTRIES
# Bytes and files of the disk that stay free, and the most of those that are free at the beginning.
KEPT, SHARE = (256 << 20, 10_000), 0.5
# Seconds from one look at the disk to the next. To measure the directory takes at most one PART of the time.
PAUSE_SEC, PART = 0.5, 5


class Exceeded(Exception):
    """An installation has written more than it may, or something else than files; the text says what."""


def _refuse(path: str, reason: str) -> NoReturn:
    raise Exceeded(f"the packages have left {path!r:.100}, which cannot be used: {reason}")


def _refuse_deep(path: str, reason: str) -> None:
    # Of others, such as a directory that is just being made, the end tells.
    if reason == trees.DEEP:
        _refuse(path, reason)


def _check(place: trees.Place, refuse: trees.Refuse) -> int:
    """Return the bytes of an installation."""
    total = 0
    try:
        for size in trees.sizes(place, refuse, MAX_FILES):
            total += size
            if total > MAX_BYTES:
                raise Exceeded(f"the packages have more than {MAX_BYTES >> 20} MiB")
    except trees.TooMany:
        raise Exceeded(f"the packages have more than {MAX_FILES} files and directories") from None
    return total


def measured(site: Path) -> int:
    """Return the bytes of a finished installation.

    Raises:
        Exceeded: it is larger than allowed, or has something besides regular files and directories.
    """
    with trees.opened_top(site) as place:
        return _check(place, _refuse)


class Watch:
    """Measures a directory while an installation writes into it; use it in a with statement.

    Attributes:
        reason: the bound that was passed, or "".
        cancel: a descriptor that can be read once a bound is passed.
    """

    def __init__(self, site: Path) -> None:
        """Open the directory, and remember how much of the disk is to remain."""
        self.reason = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._top = os.open(site, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._kept = [min(kept, int(free * SHARE)) for kept, free in zip(KEPT, self._free(), strict=True)]
        self.cancel, self._write = os.pipe()

    def __enter__(self) -> Watch:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop."""
        self._end.set()
        self._thread.join()
        for descriptor in (self._top, self.cancel, self._write):
            os.close(descriptor)

    def _free(self) -> tuple[int, int]:
        """Return the bytes and files that are free. A file system without a number of files gives 0."""
        about = os.fstatvfs(self._top)
        return about.f_bavail * about.f_frsize, about.f_favail

    def _watch(self) -> None:
        due = 0.0
        while not self._end.wait(PAUSE_SEC):
            try:
                if any(free < kept for free, kept in zip(self._free(), self._kept, strict=True)):
                    raise Exceeded("the packages have filled the disk: make room, or install fewer")
                began = time.monotonic()
                if began >= due:
                    with contextlib.suppress(OSError):  # what cannot be read now is judged at the end
                        _check(trees.Place("", self._top, "."), _refuse_deep)
                    due = time.monotonic() + PART * (time.monotonic() - began)
            except Exceeded as error:
                self.reason = str(error)
                os.write(self._write, b"1")
                return
