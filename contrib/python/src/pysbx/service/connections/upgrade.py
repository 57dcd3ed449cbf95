"""WebSockets by uvicorn and wsproto: connections that were HTTP, and that the door still counts.

Frames may be empty, and pings are answered without asking the application. So their number is limited: see RFC 6455,
section 5, and section 7.4.1 for the codes of the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, cast

import wsproto
from uvicorn.config import Config
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from uvicorn.server import ServerState
from wsproto.events import BytesMessage, CloseConnection, Event, Request

from pysbx.service.connections.slices import Intake

# Frames that may come at once, and as many again at this pace. A binary frame of LEAST_FRAME bytes does not count.
FREE_FRAMES, FRAMES_PER_SEC, LEAST_FRAME = 1000, 500, 16
POLICY_VIOLATION = 1008


class TooManyFrames(Exception):
    """The client sends very many frames that have little content."""


class Frames(wsproto.WSConnection):
    """wsproto's side of a connection, which counts frames of all kinds."""

    def __init__(self) -> None:
        """Begin with a handshake."""
        super().__init__(wsproto.ConnectionType.SERVER)
        self._left = float(FREE_FRAMES)
        self._since = time.monotonic()

    def events(self) -> Generator[Event, None, None]:
        """Yield the events of what has come.

        Raises:
            TooManyFrames: there are too many.
        """
        for event in super().events():
            if not isinstance(event, Request):
                self._count(event)
            yield event

    def _count(self, event: Event) -> None:
        now = time.monotonic()
        content = len(event.data) if isinstance(event, BytesMessage) else 0
        self._left += (now - self._since) * FRAMES_PER_SEC + content / LEAST_FRAME - 1
        self._left, self._since = min(self._left, FREE_FRAMES), now
        if self._left < 0:
            raise TooManyFrames(f"more than {FREE_FRAMES} small frames at once, or {FRAMES_PER_SEC} a second")


class Upgraded(WSProtocol):
    """A connection, from its upgrade on."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], left: Callable[[], None]
    ) -> None:
        """Create the protocol of a connection; `left` is called at its end."""
        super().__init__(config, server_state, app_state)
        self.conn = Frames()
        self._left = left
        self._has_asked = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, at the transport of the connection that was HTTP."""
        super().connection_made(transport)
        self._intake = cast("Intake", transport)
        self._intake.take = self._take

    def data_received(self, data: bytes) -> None:
        """Take bytes that have come, and pass them to wsproto in slices of a bounded size."""
        self._intake.received(data)

    def _take(self, part: bytes) -> bool:
        if self._has_asked and not self.handshake_complete:
            self.transport.abort()  # a client has to wait for the answer: section 4.1
            return True
        try:
            super().data_received(part)
        except TooManyFrames as error:
            self._refuse(str(error))
        # To uvicorn it is an error of the application to send more before the transport is closed.
        self.disconnected = self.disconnected or self.close_sent
        return True

    def handle_connect(self, event: Request) -> None:
        """Ask the application."""
        self._has_asked = True
        super().handle_connect(event)

    def _refuse(self, reason: str) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": reason})
            self.transport.write(self.conn.send(CloseConnection(POLICY_VIOLATION, reason)))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._left()
        super().connection_lost(exc)
