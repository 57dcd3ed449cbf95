"""HTTP itself, by h11 wherever uvicorn would find another library as well: what is refused is to be the same.

What is no request of HTTP gets its problem as everything else does.
"""

from __future__ import annotations

import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pysbx.service.problems import MALFORMED, Problem

# A client that is answered before all of its body has come gets so long to find that out. Closed at once, TCP may lose
# the answer; read for ever, the connection is there for ever.
LINGER_SEC = 5.0


class Protocol(H11Protocol):
    """A connection."""

    def on_response_complete(self) -> None:
        """Go on to the next request; what is left of the body of this one is waited for a short while."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER_SEC, self._close_unread, self.cycle)

    def _close_unread(self, cycle: Any) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, and close the connection.

        Args:
            msg: what uvicorn says of it, always the same.
        """
        del msg
        problem = Problem(MALFORMED, "it cannot be read")
        content = json.dumps(problem.content()).encode()
        headers = [*problem.headers().items(), ("Content-Length", str(len(content)))]
        for event in (
            h11.Response(status_code=problem.kind.status, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()
