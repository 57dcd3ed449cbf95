"""The audit log: one JSON object on each line, for a request that was answered or a run that ended.

The log is for programs that ask which caller has run which code. So an event has the digest of the code and never its
text, output or a token.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Callable
from typing import Any

from pysbx.calls.execution import Execution, outcome_of
from pysbx.service.observe.log import timestamp

logger = logging.getLogger(__name__)

MODE = 0o600


def _ends_in_a_part(log: int) -> bool:
    """Tell whether the last line of a file lacks its end. The log itself is open for writing only."""
    about = os.fstat(log)
    if not stat.S_ISREG(about.st_mode) or about.st_size == 0:
        return False
    with contextlib.suppress(OSError), open(f"/proc/self/fd/{log}", "rb") as file:  # it may not be readable
        return os.pread(file.fileno(), 1, about.st_size - 1) != b"\n"
    return False


class Audit:
    """A file to which events are appended. Without a path, nothing is written."""

    def __init__(self, path: str | None = None, lost: Callable[[], None] = lambda: None) -> None:
        """Open the file.

        Args:
            path: of the file, which is made if there is none.
            lost: called for an event that could not be written.

        Raises:
            ValueError: it cannot be opened.
        """
        self._path = path
        self._lost = lost
        self._lock = threading.Lock()
        self._file = -1
        self._torn = False
        if path is not None:
            try:
                self._file = self._open(path)
            except OSError as error:
                raise ValueError(f"audit log '{path}': {error.strerror}") from error
            self._torn = _ends_in_a_part(self._file)

    @staticmethod
    def _open(path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)

    def __bool__(self) -> bool:
        """Tell whether events are written."""
        return self._file >= 0

    def reopen(self) -> None:
        """Open the file again by its name: a program that rotates logs has renamed it. The old one serves if not."""
        if self._path is None:
            return
        try:
            new = self._open(self._path)
        except OSError as error:
            logger.error("audit log '%s': %s: the old file is used", self._path, error.strerror)
            return
        with self._lock:
            old, self._file, self._torn = self._file, new, _ends_in_a_part(new)
        os.close(old)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _write(self, event: str, caller: str, fields: dict[str, Any]) -> None:
        about = {"time": timestamp(), "event": event, "caller": caller or None, **fields}
        try:
            with self._lock:
                if self._file < 0:
                    return
                # The disk was full: a part of a line must not spoil the next event.
                line = b"\n" * self._torn + json.dumps(about).encode() + b"\n"
                self._torn = os.write(self._file, line) != len(line)
                if self._torn:
                    raise OSError(0, "only a part of an event was written")
        except OSError as error:
            self._lost()
            logger.error("audit log: an event is lost: %s", error.strerror)

    def request(
        self, method: str, path: str, status: int, *, caller: str, route: str, peer: tuple[str, int] | None
    ) -> None:
        """Note a request that was answered.

        Args:
            method: of HTTP.
            path: that was asked for, without identifiers of sessions.
            status: of the answer.
            caller: the digest of its token, or "".
            route: the route of the path.
            peer: address and port of the client; a client at a Unix socket has none.
        """
        if not self:
            return
        client = {"address": peer[0], "port": peer[1]} if peer else {}
        self._write("request", caller, {"method": method, "path": path, "route": route, "status": status, **client})

    def ran(self, caller: str, code: str, done: Execution) -> None:
        """Note the end of a run."""
        if not self:
            return
        fields = {
            "code_sha256": hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest(),
            "outcome": outcome_of(done),
            "exit_code": done.exit_code,
            "warm": done.warm,
            "cpu_seconds": round(done.usage.cpu_sec, 6),
            "seconds": round(done.usage.wall_sec, 6),
            "violations": sorted({violation.rule for violation in done.violations}),
        }
        self._write("run", caller, fields)
