"""Requests as a server's log and metrics see them: an ASGI application around all others."""

from __future__ import annotations

import logging
import re
import time

from pysbx.service import log
from pysbx.service.gate import Application, Message, Receive, Scope, Send, caller
from pysbx.service.meters import Meters, name_of
from pysbx.service.problems import STOPPING, Problem, answered_with, clean, shortened

logger, refused = logging.getLogger(log.ACCESS), logging.getLogger(log.REFUSED)

# At a Unix socket a session is known by its identifier alone, so no log has the whole of it.
SESSION = re.compile(r"(?<=/v1/sessions/)([^/]{6})[^/]+")
MAX_PATH = 200
# If a client has gone: the status that nginx logs.
GONE = 499
# From this status on, a problem is the server's.
SERVERS = 500


def place_of(scope: Scope) -> str:
    """Return the route of a request, of which there are few, and not its path."""
    return getattr(scope.get("route"), "path", None) or ("/mcp" if scope["path"] == "/mcp" else "other")


def note(problem: Problem) -> None:
    """Log a problem: as a warning if the server could not do what it should."""
    usual = problem.kind.status < SERVERS or problem.kind is STOPPING
    level = logging.INFO if usual else logging.WARNING
    fields = {"problem": problem.kind.name, "detail": clean(shortened(problem.detail))}
    refused.log(level, "%s: %s", problem.kind.title, fields["detail"], extra={"fields": fields})


class Watch:
    """The application around another one."""

    def __init__(self, application: Application, meters: Meters) -> None:
        """Watch an application.

        Args:
            application: the one that answers.
            meters: get a number for each request.
        """
        self._application = application
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, and log that."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began, status, size, path = time.monotonic(), GONE, 0, scope["path"]
        caller.set("")
        answered_with.set(None)

        async def send_watched(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._application(scope, receive, send_watched)
        finally:
            seconds = time.monotonic() - began
            self._meters.answered(scope["method"], place_of(scope), status, seconds)
            if (problem := answered_with.get()) is not None:
                self._meters.refused(problem.kind.name)
                note(problem)
            if logger.isEnabledFor(logging.INFO):
                shown = SESSION.sub(r"\1…", clean(path))[:MAX_PATH]
                who = name_of(caller.get())
                fields = {"method": scope["method"], "path": shown, "status": status, "caller": who, "bytes": size}
                text = f"{scope['method']} {shown} {status} {seconds * 1000:.0f} ms {size} bytes caller {who}"
                logger.info("%s", text, extra={"fields": {**fields, "seconds": round(seconds, 4)}})
