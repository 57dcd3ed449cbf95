"""The terminal of a session over a WebSocket: its bytes are binary messages, everything else is JSON.

See RFC 6455, and https://asgi.readthedocs.io/en/latest/specs/www.html#websocket. A client that does not read stops the
program in the sandbox, not the server: each side waits for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from pysbx.calls.terminal import Terminal, check_size, data_packets, opened, size_packet
from pysbx.inside.wire import TERMINAL_PACKET
from pysbx.service.connections.admission import has_denial
from pysbx.service.connections.problems import (
    PLAIN,
    REQUEST,
    TERMINAL,
    Problem,
    answered_with,
    clean,
    meant,
    problem_of,
)
from pysbx.service.sandboxes.sessions import Session, Sessions

PROGRAMS: Mapping[str, list[str] | str] = {"shell": "", "python": ["python3"]}
SIZE = {"rows": 24, "columns": 80}
# Bytes of a message; see also the server's own bound.
MAX_MESSAGE = 1 << 16
# Codes of the end: RFC 6455, section 7.4.1.
NORMAL, GOING_AWAY, INVALID, TOO_BIG = 1000, 1001, 1007, 1009
MAX_REASON = 100
DISCONNECTED = "websocket.disconnect"


class Refused(Exception):
    """The client has sent what has no meaning: a code of the end, and a reason."""


@dataclass(frozen=True)
class _Use:
    """A session that has a terminal, and those that there are."""

    sessions: Sessions
    session: Session

    def why_ended(self) -> str:
        """Return why there is no terminal any more."""
        try:
            self.sessions.find(self.session.owner, self.session.id)
        except Problem as problem:
            return f"the session has ended: {problem.detail}"
        return self.session.terminal_end or "the terminal has ended"


def wanted(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of Sandbox.terminal for a query.

    Raises:
        Problem: it asks for what there is not.
    """
    known = ("program", *SIZE)
    for name in query:
        if name not in known:
            raise Problem(REQUEST, f"{name:.100}: there is no such parameter: there are {', '.join(known)}")
    program = query.get("program", "shell")
    if program not in PROGRAMS:
        raise Problem(REQUEST, f"program: {program!r:.100} is not among: {', '.join(PROGRAMS)}")
    with meant():
        sizes = {
            name: int(given) if (given := query.get(name, str(usual))).isdecimal() and len(given) < 5 else given
            for name, usual in SIZE.items()
        }
        check_size(**sizes)
    return {"command": PROGRAMS[program], **sizes}


def resized(text: str) -> bytes:
    """Return the packet for a message in JSON, which gives the terminal another size.

    Raises:
        Refused: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.keys() != SIZE.keys():
        raise Refused(INVALID, 'a text message is {"rows": N, "columns": N}')
    try:
        return size_packet(found["rows"], found["columns"])
    except ValueError as error:
        raise Refused(INVALID, str(error)) from error


async def _deny(socket: WebSocket, error: Exception) -> None:
    """Answer with the problem instead of a WebSocket."""
    problem = problem_of(error)
    answered_with.set(problem)
    if has_denial(socket.scope):
        answer = Response(json.dumps(problem.content()), problem.kind.status, problem.headers())
        await socket.send_denial_response(answer)
    else:
        await socket.close()


async def _bring(socket: WebSocket, use: _Use, terminal: Terminal) -> tuple[int, str] | None:
    """Bring what the client sends to the terminal, until the client leaves."""
    loop = asyncio.get_running_loop()
    while (message := await socket.receive())["type"] != DISCONNECTED:
        data, text = message.get("bytes"), message.get("text")
        if max(len(data or b""), len(text or "")) > MAX_MESSAGE:
            raise Refused(TOO_BIG, f"a message has at most {MAX_MESSAGE} bytes")
        use.session.used = time.monotonic()
        for packet in data_packets(data) if data is not None else [resized(text or "")]:
            await loop.sock_sendall(terminal.socket, packet)
    return None


async def _show(socket: WebSocket, use: _Use, terminal: Terminal) -> tuple[int, str]:
    """Send what the terminal shows, and how its program ends."""
    loop = asyncio.get_running_loop()
    while isinstance(found := opened(await loop.sock_recv(terminal.socket, TERMINAL_PACKET)), bytes):
        await socket.send_bytes(found)
    if found is None:
        return GOING_AWAY, use.why_ended()
    await socket.send_text(json.dumps({"exit_code": found}))
    return NORMAL, ""


async def _talk(socket: WebSocket, use: _Use, terminal: Terminal) -> None:
    """Connect a client with a terminal until either ends."""
    terminal.socket.setblocking(False)
    tasks = [asyncio.ensure_future(way(socket, use, terminal)) for way in (_show, _bring)]
    end: tuple[int, str] | None = GOING_AWAY, "the terminal has ended"
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        end = next(task for task in tasks if task in done).result()
    except Refused as refused:
        end = refused.args
    except WebSocketDisconnect:
        end = None
    except OSError:  # the process in the sandbox that has the terminal is gone
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if end is not None:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client has left meanwhile
            await socket.close(end[0], clean(end[1])[:MAX_REASON])


def add_terminals(app: FastAPI, sessions: Sessions, find: Callable[[str], Session]) -> None:
    """Add the route of terminals."""

    async def start(identifier: str, query: Mapping[str, str]) -> tuple[Session, Terminal]:
        session, arguments = find(identifier), wanted(query)
        if session.has_terminal:
            raise Problem(TERMINAL, "its client has not left")
        session.has_terminal, session.terminal_end = True, ""
        try:
            return session, await sessions.use(session, lambda sandbox: sandbox.terminal(**arguments))
        except BaseException:
            session.has_terminal = False
            raise

    @app.get("/v1/sessions/{identifier}/terminal", include_in_schema=False)
    async def no_terminal(identifier: str) -> None:
        """Refuse a plain request, which is what a proxy makes of a WebSocket unless it is told to pass it on."""
        find(identifier)
        raise Problem(PLAIN[404], "a terminal is a WebSocket: there is no 'Upgrade', which a proxy has to pass on")

    @app.websocket("/v1/sessions/{identifier}/terminal")
    async def terminal(socket: WebSocket, identifier: str) -> None:
        """Connect a client with a program at a terminal of a session."""
        try:
            session, made = await start(identifier, dict(socket.query_params))
            session.terminal = made
        except Exception as error:
            await _deny(socket, error)
            return
        try:
            with contextlib.suppress(WebSocketDisconnect):  # before it was accepted
                await socket.accept()
                await _talk(socket, _Use(sessions, session), made)
        finally:
            made.close()
            session.has_terminal, session.terminal = False, None
            session.used = time.monotonic()

    async def no_route(socket: WebSocket) -> None:
        """Refuse a WebSocket at any other path: by itself, the framework would say 403."""
        await _deny(socket, Problem(PLAIN[404], f"{clean(socket.url.path):.200} is no WebSocket"))

    app.router.routes.append(WebSocketRoute("/{path:path}", no_route))
