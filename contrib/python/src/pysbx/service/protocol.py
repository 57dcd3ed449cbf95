"""HTTP itself, by h11 wherever uvicorn would find another library as well: what is refused is to be the same.

What is no request of HTTP gets its problem as everything else does.
"""

from __future__ import annotations

import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pysbx.service.problems import MALFORMED, Problem


class Protocol(H11Protocol):
    """A connection."""

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
