"""The sandbox's end of the socket: its standard input, which the user's code gets to see as /dev/null."""

from __future__ import annotations

import os
from typing import Any

import msgpack

from .wire import HEADER

Message = dict[str, Any]


def frame(message: Message) -> bytes:
    """Return what is sent for a message."""
    content: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
    return HEADER.pack(len(content)) + content


class Channel:
    """Reads requests, writes answers."""

    def __init__(self) -> None:
        self.attach()

    def attach(self) -> None:
        """Take the descriptor that this process was given, which in a fork is another one."""
        self._owner = os.getpid()
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
        if os.getpid() != self._owner:  # a child that a finalizer has made, say: answers are not its to give
            os._exit(1)
        rest = memoryview(frame(message))
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
