"""TLS over an end of a connection: a server towards the sandbox, a client towards a host whose requests are read.

The proxy has read the beginning of such a connection already, so asyncio's own TLS does not fit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from pysbx.network.relay import CHUNK, End

PROTOCOLS = ["http/1.1"]
T = TypeVar("T")


@cache
def client_context(authorities: str) -> ssl.SSLContext:
    """Return the settings with which hosts are verified: by the authorities that this machine trusts.

    Args:
        authorities: the file with them, for a Python that does not know where it is.
    """
    context = ssl.create_default_context()
    if authorities and "SSL_CERT_FILE" not in os.environ:
        context.load_verify_locations(authorities)
    context.set_alpn_protocols(PROTOCOLS)
    return context


class TlsEnd(End):
    """One end of a connection, within TLS."""

    def __init__(self, below: End, context: ssl.SSLContext, host: str | None = None) -> None:
        """Prepare the TLS of a connection.

        Args:
            below: the end with the encrypted bytes, which the caller closes.
            context: the settings.
            host: the name of the server, or None if this is the server.
        """
        super().__init__(below.account)
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._flushing = asyncio.Lock()

    async def handshake(self) -> None:
        """Make the handshake.

        Raises:
            OSError: the peers do not agree, or do not trust each other.
        """
        await self._run(self._tls.do_handshake)

    async def _run(self, call: Callable[[], T]) -> T:
        """Return the result of a call that may need more bytes of the peer."""
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                pass
            finally:  # an alert too
                await self._flush()
            if data := await self._below.read():
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    async def _flush(self) -> None:
        async with self._flushing:
            if data := self._outgoing.read():
                await self._below.write(data)

    async def _receive(self) -> bytes:
        try:
            return await self._run(lambda: self._tls.read(CHUNK))
        except ssl.SSLZeroReturnError:
            return b""

    async def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        await self._flush()

    async def finish(self) -> None:
        """Say that nothing more is sent. A server is not told: many take the end of one direction for that of both."""
        if self._tls.server_side:
            with contextlib.suppress(ssl.SSLError):  # the peer has not said the same
                self._tls.unwrap()
            await self._flush()
            await self._below.finish()
