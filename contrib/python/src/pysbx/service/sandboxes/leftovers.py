"""Sandboxes of an earlier service that was killed together with its watcher: see reaper.py.

A service holds a lock on a file that has the prefix of its containers as its name. The kernel releases the lock however
the service ends. Process numbers would not do: they are used again, and other pid namespaces have their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
from pathlib import Path

from pysbx.base import runtime
from pysbx.base.directories import private_directory, run_directory
from pysbx.container import reaper

logger = logging.getLogger(__name__)

PREFIX = re.compile(r"python-[0-9]+-[0-9a-f]{8}-")


def _folder() -> Path:
    return private_directory(run_directory() / "services")


def _lock(path: Path, flags: int) -> int | None:
    """Return a descriptor of a file that nothing else has locked, or None."""
    try:
        found = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(found)
        return None
    return found


def remove() -> int:
    """Remove the sandboxes of services that have ended, and return their number."""
    count = 0
    for path in _folder().iterdir():
        if not PREFIX.fullmatch(path.name) or (lock := _lock(path, 0)) is None:
            continue
        try:
            for name in os.listdir(runtime.state_root()):
                if name.startswith(path.name):
                    runtime.kill(name)
                    count += 1
            path.unlink(missing_ok=True)
        finally:
            os.close(lock)
    if count:
        logger.warning("%d sandboxes that an earlier service had left behind were removed", count)
    return count


class Claim:
    """The mark that the containers of this process belong to a service that is alive."""

    def __init__(self) -> None:
        """Make it."""
        self._path = _folder() / reaper.prefix()
        self._lock = _lock(self._path, os.O_CREAT)

    def release(self) -> None:
        """Remove it: nothing is left to remove."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
