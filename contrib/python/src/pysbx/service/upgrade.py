"""WebSockets by uvicorn and wsproto: connections that were HTTP, and that the door still counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from uvicorn.server import ServerState


class Upgraded(WSProtocol):
    """A connection, from its upgrade on."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], left: Callable[[], None]
    ) -> None:
        """Create the protocol of a connection; `left` is called at its end."""
        super().__init__(config, server_state, app_state)
        self._left = left

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._left()
        super().connection_lost(exc)
