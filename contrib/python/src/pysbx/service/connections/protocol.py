"""HTTP itself, always by h11, even if uvicorn finds another library: the same requests must be refused everywhere.

Bytes that are not an HTTP request get a problem like any other error. A connection that keeps the server waiting is
closed: it sends nothing, or half a head, or does not read its answer. The gate watches bodies.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pysbx.service.connections.admission import MAX_HEAD, Message, Receive, Scope, Send
from pysbx.service.connections.listener import RETRY_SEC, Guest, Listener
from pysbx.service.connections.problems import CONNECTIONS, MALFORMED, SLOW, Problem
from pysbx.service.connections.rate import Rate
from pysbx.service.connections.slices import Intake

# Seconds until a connection has to have sent the head of its first request, or, once it has begun it, of another.
HEAD_SEC = 5.0
# Seconds between two requests. Most proxies close an idle connection after a minute; a proxy that is first loses no
# request.
IDLE_SEC = 75.0
# Seconds for a client to notice that it got an answer before it has sent all of its body. If the connection closed at
# once, TCP could lose the answer; if it were read for ever, it would last for ever.
LINGER_SEC = 5.0
# Lines of a head, counted in each slice: see slices.py.
MAX_LINES = 200
# Chunks of a body that may be of any size; all that follow have this size on average.
FREE_CHUNKS, LEAST_CHUNK = 1000, 64


class Connection(h11.Connection):
    """h11's side of a connection. A chunk of any size costs the same time, so the number of small ones is limited."""

    chunks = size = 0

    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            h11.RemoteProtocolError: what has come is no HTTP, or a body of very many small chunks.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.size = 0
        elif isinstance(event, h11.Data):
            self.chunks += 1
            self.size += len(event.data)
            if self.chunks > FREE_CHUNKS + self.size // LEAST_CHUNK:
                raise h11.RemoteProtocolError("too many small chunks")
        return event


class Protocol(H11Protocol, Guest):
    """A connection."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], door: Listener) -> None:
        """Create the protocol of a connection, for uvicorn's configuration and state."""
        super().__init__(config, server_state, app_state)
        self.conn = Connection(h11.SERVER, MAX_HEAD)
        self.app = self._answer
        self._application = config.loaded_app
        self._door = door
        self._since, self._patience_sec = self.loop.time(), HEAD_SEC
        self._lines = 0
        self._has_begun = self._has_left = False
        self._sending: Rate | None = None
        self._taken = 0
        self._upgraded = False
        if self.ws_protocol_class is not None:
            made: Any = partial(cast("Any", self.ws_protocol_class), left=partial(door.left, self))
            self.ws_protocol_class = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._intake = Intake(cast("asyncio.Transport", transport), self._door.turns, self._take)
        super().connection_made(cast("asyncio.Transport", self._intake))
        if self._has_left:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._door.left(self)
        super().connection_lost(exc)

    @property
    def waiting_since(self) -> float | None:
        """Since when it has been without a request, or None while there is one."""
        idle = not self._upgraded and (self.cycle is None or self.cycle.response_complete)
        return self._since if idle and not self._sending else None

    def leave(self) -> None:
        """Close the connection at once, even if no request has begun."""
        self._has_left = True
        if self.transport is None:
            return
        if self.cycle is None and not self._upgraded:  # its first request is on the way, and its client reads an answer
            self._refuse(Problem(CONNECTIONS, "others wait for its place", retry_sec=RETRY_SEC))
        self.transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if it has kept the server waiting for too long."""
        if self.transport is None:
            return
        taken, waiting = self._intake.taken()
        if waiting:
            self._sending = self._sending or Rate(now)
            self._sending.moved(taken - self._taken, now)
            self._taken = taken
            if now > self._sending.until:
                self.transport.abort()
            return
        if self._sending:
            self._sending, self._since = None, now
        self._taken = taken
        since = self.waiting_since
        if since is not None and now - since > self._patience_sec and not self.transport.is_closing():
            self._end_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection on. Before the answer, a client has nothing to send but its head."""
        self._upgraded = True
        if self._intake.held or self.conn.trailing_data[0]:
            self.leave()
            return
        super().handle_websocket_upgrade(event)

    def _end_waiting(self) -> None:
        if self._has_begun:
            self._refuse(Problem(SLOW, f"its head was not whole after {HEAD_SEC:g} seconds"))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take bytes that have come, and pass them to h11 in slices of a bounded size."""
        self._intake.received(data)

    def _take(self, part: bytes) -> bool:
        if self.conn.their_state is h11.DONE:  # what follows is for after the answer
            self.flow.pause_reading()
            return False
        if not self._has_begun:
            self._has_begun, self._since, self._patience_sec = True, self.loop.time(), HEAD_SEC
        super().data_received(part)
        if self.conn.their_state is not h11.IDLE:
            self._lines = 0
            return True
        self._lines += part.count(b"\n")
        if self._lines > MAX_LINES:
            self._refuse(Problem(MALFORMED, f"its head has more than {MAX_LINES} lines"))
            self.transport.close()
        return True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. It has not done so, and keeps its slot, until its answer is on its way."""

        async def send_whole(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self.flow.drain()

        await self._application(scope, receive, send_whole)

    def on_response_complete(self) -> None:
        """Go on to the next request; what is left of the body of this one is waited for a short while."""
        self._since = self.loop.time()
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER_SEC, self._close_unread, self.cycle)
        elif self.cycle.response_complete:
            self._has_begun = bool(self.conn.trailing_data[0])
            self._patience_sec = HEAD_SEC if self._has_begun else IDLE_SEC

    def _close_unread(self, cycle: Any) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, and close the connection.

        Args:
            msg: what uvicorn says of it, always the same.
        """
        del msg
        self._refuse(Problem(MALFORMED, "it cannot be read"))
        self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, if no other answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        self._door.refused(problem.kind.name)
        # An answer to HEAD has no content, and the application may be at work on a head that was good.
        at_work = self.cycle is not None and not self.cycle.response_complete
        only_head = at_work and self.cycle.scope["method"] == "HEAD"
        content = json.dumps(problem.content()).encode()
        found = {**problem.headers(), "Content-Length": str(len(content)), "Connection": "close"}
        phrase = HTTPStatus(problem.kind.status).phrase.encode()
        for event in (
            h11.Response(status_code=problem.kind.status, headers=list(found.items()), reason=phrase),
            h11.Data(data=b"" if only_head else content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        if at_work:  # the application is told that it is over
            self.cycle.disconnected = True
            self.cycle.message_event.set()
