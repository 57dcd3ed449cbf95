"""The sandbox's end of the socket: its standard input, which the user's code gets to see as /dev/null."""

from __future__ import annotations

import os
from typing import Any

import msgpack

from .wire import HEADER

Message = dict[str, Any]


class Channel:
    """Reads requests, writes answers."""

    def __init__(self) -> None:
        self.descriptor = os.dup(0)  # not inherited by programs: PEP 446
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def _read(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part = os.read(self.descriptor, min(size - len(content), 1 << 20))
            if not part:
                raise EOFError
            content += part
        return bytes(content)

    def read(self) -> Message | None:
        """Return the next request, or None when there will be no more."""
        try:
            (size,) = HEADER.unpack(self._read(HEADER.size))
            message: Message = msgpack.unpackb(self._read(size), raw=False, unicode_errors="surrogatepass")
        except EOFError:
            return None
        return message

    def write(self, message: Message) -> None:
        """Send an answer."""
        content = msgpack.packb(message, unicode_errors="surrogatepass")
        rest = memoryview(HEADER.pack(len(content)) + content)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
