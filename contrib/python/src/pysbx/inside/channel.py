"""The sandbox's end of the socket: its standard input, which the user's code sees as /dev/null."""

from __future__ import annotations

import os
import struct
from _socket import CMSG_SPACE, SCM_RIGHTS, socket
from typing import Any

import msgpack

from .wire import GREETING, HEADER, PASSES

Message = dict[str, Any]
CHUNK = 1 << 16
BUFFER = 1 << 20  # of a packer, at first
DESCRIPTOR = struct.Struct("i")
NO_ROOM: Message = {"op": "no-room"}
Packer = msgpack.Packer  # msgpack is ours: code in the sandbox may import another version of it


def _packer() -> msgpack.Packer:
    return Packer(unicode_errors="surrogatepass", autoreset=False)


class Channel:
    """Reads requests, writes answers."""

    def __init__(self) -> None:
        self.attach()

    def attach(self) -> None:
        """Take the descriptor that this process was given, which in a fork is another one."""
        self._owner = os.getpid()
        self._mark = GREETING
        self._packer: msgpack.Packer | None = _packer()
        self.descriptor = os.dup(0)  # not inherited by programs: PEP 446
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def _fill(self, content: memoryview) -> None:
        while content:
            try:
                size = os.readv(self.descriptor, [content])
            except BlockingIOError:  # code in the sandbox has changed it
                os.set_blocking(self.descriptor, True)
                continue
            if not size:
                raise EOFError
            content = content[size:]

    def _discard(self, size: int) -> None:
        part = memoryview(bytearray(min(size, CHUNK)))
        while size:
            self._fill(part[:size])
            size -= min(size, CHUNK)

    def read(self) -> Message | None:
        """Return the next request, or None when there will be no more; NO_ROOM for one that is too large for us.

        A descriptor behind it is in "passed", or -1.
        """
        try:
            header = bytearray(HEADER.size)
            self._fill(memoryview(header))
            size, self._mark = HEADER.unpack(header)
            message = self._read_content(size & ~PASSES)
        except EOFError:
            return None
        message["passed"] = self._take_descriptor() if size & PASSES else -1
        return message

    def _read_content(self, size: int) -> Message:
        try:
            content = bytearray(size)
        except MemoryError:
            self._discard(size)
            return NO_ROOM
        self._fill(memoryview(content))
        try:
            message: Message = msgpack.unpackb(content, raw=False, unicode_errors="surrogatepass")
        except MemoryError:
            return NO_ROOM
        return message

    def _take_descriptor(self) -> int:
        end = socket(fileno=self.descriptor)  # no copy: the user's code may have left no descriptor
        try:
            end.setblocking(True)  # code in the sandbox may have called setdefaulttimeout()
            _, about, _, _ = end.recvmsg(1, CMSG_SPACE(DESCRIPTOR.size))
        finally:
            end.detach()
        for _, kind, content in about:
            if kind == SCM_RIGHTS:
                (found,) = DESCRIPTOR.unpack(content)
                os.set_inheritable(found, False)
                return int(found)
        return -1

    def frame(self, message: Message) -> bytes:
        """Return the bytes of the answer to the request that was read last."""
        content: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
        return HEADER.pack(len(content), self._mark) + content

    def write(self, message: Message) -> None:
        """Send the answer to the request that was read last, or the greeting if there was none.

        Raises:
            MemoryError: there is no room to pack it; nothing has been sent.
        """
        if os.getpid() != self._owner:  # a child that a finalizer created, for example, must not answer
            os._exit(1)
        # The first buffer lasts, because no further one can be allocated when memory has run out.
        packer, self._packer = self._packer or _packer(), None
        packer.pack(message)
        content = packer.getbuffer()  # which is not copied, unlike the result of pack()
        size = len(content)
        # In one call: each one may wake up the host, on a CPU that this process could use.
        self._send(memoryview(HEADER.pack(size, self._mark)), memoryview(content))
        if size < BUFFER:
            del content
            packer.reset()
            self._packer = packer

    def _send(self, header: memoryview, content: memoryview) -> None:
        while header or content:
            try:
                sent = os.writev(self.descriptor, [header, content])
            except BlockingIOError:
                os.set_blocking(self.descriptor, True)
                continue
            header, content = header[sent:], content[max(sent - len(header), 0) :]
