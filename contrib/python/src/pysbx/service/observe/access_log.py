"""Requests as a server's log and metrics see them: an ASGI application around all others."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from pysbx.service.connections.admission import Application, Message, Receive, Scope, Send, caller
from pysbx.service.connections.problems import STOPPING, Problem, answered_with, clean, shortened
from pysbx.service.observe import log
from pysbx.service.observe.audit import Audit
from pysbx.service.observe.metrics import Meters, name_of
from pysbx.service.observe.traces import answered, request_span

logger, refused = logging.getLogger(log.ACCESS), logging.getLogger(log.REFUSED)

# At a Unix socket a session is known by its identifier alone, so no log has the whole of it. Those of librechat.py have
# 21 characters.
SESSION = re.compile(r"(/v1/(?:sessions/[^/]{6}|(?:files|download)/[\w-]{6}(?=[\w-]{15}(?:/|$))))[^/]+")
MAX_PATH = 200
# If a client has gone: the status that nginx logs.
GONE = 499
# Of a WebSocket, which begins as a GET: RFC 6455, section 4.1.
UPGRADE, ACCEPTED = "GET", 101
ANSWERS = ("http.response.start", "websocket.http.response.start")
# Routes that a machine asks for every few seconds.
PROBES = ("/health", "/healthz", "/readyz", "/metrics")
# From this status on, a problem is the server's.
SERVERS = 500


def route_of(scope: Scope) -> str:
    """Return the route of a request, of which there are few, and not its path."""
    path = getattr(scope.get("route"), "path", None) or ("/mcp" if scope["path"] == "/mcp" else "other")
    return re.sub(r":\w+}", "}", path)  # without the converter of a parameter


def usual(problem: Problem) -> bool:
    """Return whether a server has such problems although it does what it should."""
    return problem.kind.status < SERVERS or problem.kind is STOPPING


def fields_of(problem: Problem) -> dict[str, str]:
    """Return a problem as fields of a record."""
    return {"problem": problem.kind.name, "detail": clean(shortened(problem.detail))}


def note(problem: Problem) -> None:
    """Log a problem: as a warning if the server could not do what it should."""
    level, fields = logging.INFO if usual(problem) else logging.WARNING, fields_of(problem)
    refused.log(level, "%s: %s", problem.kind.title, fields["detail"], extra={"fields": fields})


class AccessLog:
    """The application around another one."""

    def __init__(self, application: Application, meters: Meters, audit: Audit | None = None) -> None:
        """Watch an application."""
        self._audit = audit or Audit()
        self._application = application
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, and log that."""
        if scope["type"] not in ("http", "websocket"):
            await self._application(scope, receive, send)
            return
        with request_span(scope.get("method", UPGRADE), scope["headers"]) as span:
            await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Any) -> None:
        began, status, size, path = time.monotonic(), GONE, 0, scope["path"]
        method = scope.get("method", UPGRADE)
        caller.set("")
        answered_with.set(None)

        async def send_watched(message: Message) -> None:
            nonlocal status, size
            if message["type"] in ANSWERS:
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = ACCEPTED
            size += len(message.get("body", b"") or message.get("bytes") or b"")
            await send(message)

        try:
            await self._application(scope, receive, send_watched)
        finally:
            seconds = time.monotonic() - began
            route, who = route_of(scope), caller.get()
            shown = SESSION.sub(r"\1…", clean(path))[:MAX_PATH]
            self._meters.answered(method, route, status, seconds)
            url = {"url.path": shown, "url.scheme": scope.get("scheme") or "http"}
            answered(span, method, route, status, {**url, "pysbx.caller": name_of(who)})
            self._audit.request(method, shown, status, caller=who, route=route, peer=scope.get("client") or None)
            why: dict[str, str] = {}
            if (problem := answered_with.get()) is not None:
                self._meters.refused(problem.kind.name)
                if usual(problem):
                    why = fields_of(problem)
                else:
                    note(problem)
            level = logging.DEBUG if route in PROBES else logging.INFO
            if logger.isEnabledFor(level):
                name = name_of(who)
                fields = {"method": method, "path": shown, "status": status, "caller": name, "bytes": size}
                text = f"{method} {shown} {status} {seconds * 1000:.0f} ms {size} bytes caller {name}"
                if problem is not None and why:
                    text += f": {problem.kind.title}: {why['detail']}"
                logger.log(level, "%s", text, extra={"fields": {**fields, "seconds": round(seconds, 4), **why}})
