"""The audit log: one event of OCSF 1.3 on each line, as JSON.

Requests are events of the class API Activity, refused tokens are Authentication, ends of runs are Process Activity: see
https://schema.ocsf.io/1.3.0/classes. The log is for programs that ask which caller has run which code. So an event has
the digest of the code and never its text, output or a token.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from pysbx.calls.execution import Execution, outcome_of
from pysbx.version import VERSION

logger = logging.getLogger(__name__)

OCSF = "1.3.0"
API, AUTHENTICATION, PROCESS = 6003, 3002, 1007
# Of API Activity: create, read, update, delete; other.
ACTIVITIES = {"POST": 1, "GET": 2, "HEAD": 2, "PUT": 3, "DELETE": 4}
OTHER = 99
LOGON, TERMINATE = 1, 2
SUCCESS, FAILURE = 1, 2
INFORMATIONAL, LOW = 1, 2
UNKNOWN_DEVICE = 0
UNAUTHORISED, FAILED = 401, 400
MODE = 0o600


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
        self._host = socket.gethostname()
        self._file = -1
        if path is not None:
            try:
                self._file = self._open(path)
            except OSError as error:
                raise ValueError(f"audit log '{path}': {error.strerror}") from error

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
            old, self._file = self._file, new
        os.close(old)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _write(self, class_uid: int, activity: int, severity: int, members: dict[str, Any]) -> None:
        event = {
            "time": time.time_ns() // 1_000_000,
            "class_uid": class_uid,
            "category_uid": class_uid // 1000,
            "activity_id": activity,
            "type_uid": class_uid * 100 + activity,
            "severity_id": severity,
            "metadata": {"version": OCSF, "product": {"name": "pysbx", "vendor_name": "pysbx", "version": VERSION}},
            **members,
        }
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                if self._file < 0:
                    return
                written = os.write(self._file, line)
                if written != len(line):  # the disk is full: a part of a line must not spoil the next event
                    with contextlib.suppress(OSError):
                        os.write(self._file, b"\n")
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
        source: dict[str, Any] = {"ip": peer[0], "port": peer[1]} if peer else {"name": "unix socket"}
        failed = status >= FAILED
        members: dict[str, Any] = {
            "status_id": FAILURE if failed else SUCCESS,
            "status_code": str(status),
            "src_endpoint": source,
        }
        if status == UNAUTHORISED:
            user = {"user": {"name": "unknown"}, "http_request": {"http_method": method, "url": {"path": path}}}
            self._write(AUTHENTICATION, LOGON, LOW, {**members, **user})
            return
        self._write(
            API,
            ACTIVITIES.get(method, OTHER),
            LOW if failed else INFORMATIONAL,
            {
                **members,
                "actor": {"user": {"uid": caller or "-"}},
                "api": {"operation": f"{method} {route}"},
                "http_request": {"http_method": method, "url": {"path": path}},
                "http_response": {"code": status},
            },
        )

    def ran(self, caller: str, code: str, done: Execution) -> None:
        """Note the end of a run.

        Args:
            caller: the digest of its token, or "".
            code: the source, of which the digest is written.
            done: how it went.
        """
        if not self:
            return
        outcome = outcome_of(done)
        usual = outcome in ("ok", "exit", "exception")
        digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
        self._write(
            PROCESS,
            TERMINATE,
            INFORMATIONAL if usual else LOW,
            {
                "status_id": FAILURE if done.exit_code else SUCCESS,
                "actor": {"user": {"uid": caller or "-"}},
                "device": {"type_id": UNKNOWN_DEVICE, "hostname": self._host},
                "exit_code": done.exit_code,
                "process": {
                    "name": "python3",
                    "file": {"name": "code", "type_id": 1, "hashes": [{"algorithm_id": 3, "value": digest}]},
                },
                "unmapped": {
                    "outcome": outcome,
                    "warm": done.warm,
                    "cpu_sec": round(done.usage.cpu_sec, 6),
                    "wall_sec": round(done.usage.wall_sec, 6),
                    "violations": sorted({violation.rule for violation in done.violations}),
                },
            },
        )
