"""Bytes between two connections of the proxy, and what one sandbox may use of the process that they pass through.

The proxy lives in the caller's process. So the number of its descriptors, its time on the CPU and the life of a silent
connection are bounded here, for each sandbox and for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import socket
import struct
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeAlias

from pysbx.network.host_rules import RefusedError

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter

CHUNK, FIRST = 1 << 16, 64
LINE = 1 << 12
FINAL = re.compile(rb"HTTP/1\.\d [2-5]")  # no interim answer: of 101, all that follows is of another protocol
CLOSE = b"connection: close"
# A service may take minutes for an answer; a connection without a byte either way for longer is closed.
IDLE_SEC = 600.0
# Seconds that the last bytes of a connection that ends may take.
LINGER_SEC = 20.0
# A connection has two descriptors, a waiting one has one: all of them are a third of the caller's at most.
MAX_CONNECTIONS, DESCRIPTORS_PER_CONNECTION = 128, 8
# Each occupies a thread of the event loop's executor, which has six or more.
MAX_LOOKUPS = 2
# Of a CPU: for all sandboxes. They have equal parts of it; a burst is free.
CPU_SHARE, BURST_SEC = 0.5, 0.2
UCRED = struct.Struct("=iII")  # unix(7), SO_PEERCRED


class Account:
    """The share of the proxies that one sandbox uses.

    Attributes:
        slots: places for connections that are served.
        lookups: places for names that are being resolved.
        waiting: connections that wait for a place.
        connections: all of them.
    """

    def __init__(self, room: Room) -> None:
        """Create the account of a sandbox that uses no place of a room yet."""
        self.slots = asyncio.Semaphore(room.share)
        self.lookups = asyncio.Semaphore(MAX_LOOKUPS)
        self.waiting = self.connections = 0
        self._room = room
        self._due = 0.0

    def charge(self) -> float:
        """Charge the CPU time of the event loop since the last charge; return the seconds until it is paid."""
        now = time.monotonic()
        self._due = max(self._due, now - BURST_SEC) + self._room.spent() / self._room.part()
        return self._due - now

    def done(self) -> bool:
        """Tell whether the sandbox has no connection and no debt left."""
        return not self.connections and self._due < time.monotonic() - BURST_SEC

    async def pay(self) -> None:
        """Charge the time, and wait until the sandbox's part of the CPU allows more."""
        if (wait := self.charge()) > 0:
            await asyncio.sleep(wait)


class Room:
    """The places for connections in this process: for those that are served, and for those that wait."""

    def __init__(self, total: int | None = None) -> None:
        """Create the places.

        Args:
            total: how many are served at once; by default as many as the limit on descriptors allows.
        """
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft == resource.RLIM_INFINITY:
            soft = MAX_CONNECTIONS * DESCRIPTORS_PER_CONNECTION
        total = total or max(4, min(MAX_CONNECTIONS, soft // DESCRIPTORS_PER_CONNECTION))
        self.share = total // 2
        self.served = asyncio.Semaphore(total)
        # Connections that were accepted and are not served yet, and the most of them that may belong to one sandbox.
        self.accepted = asyncio.Semaphore(total // 2)
        self.most_waiting = total // 4
        self._accounts: dict[int, Account] = {}
        self._charged = 0.0

    def spent(self) -> float:
        """Return the time on the CPU that the event loop's thread has used since the last call, in seconds.

        Each task asks for it at the end of its step, so the step itself is nearly all of it.
        """
        now = time.thread_time()
        spent, self._charged = now - self._charged, now
        return spent if spent < now else 0.0  # the first call

    def part(self) -> float:
        """Return each sandbox's part of a CPU."""
        return CPU_SHARE / max(1, sum(account.connections > 0 for account in self._accounts.values()))

    def enter(self, sandbox: int) -> Account | None:
        """Return the account of a sandbox that has one more connection; None if too many of its own wait already."""
        # A sandbox that closes all its connections keeps its debt.
        self._accounts = {number: account for number, account in self._accounts.items() if not account.done()}
        found = self._accounts.setdefault(sandbox, Account(self))
        if found.waiting >= self.most_waiting:
            found.charge()
            return None
        found.waiting += 1
        found.connections += 1
        return found

    @contextlib.asynccontextmanager
    async def place(self, account: Account) -> AsyncIterator[None]:
        """Wait for a place for a connection that has entered, and hold it."""
        try:
            async with account.slots, self.served:
                account.waiting -= 1
                self.accepted.release()
                yield
        finally:
            account.connections -= 1


def sandbox_of(connection: socket.socket) -> int:
    """Return a number for the sandbox at the other end of a Unix socket: its pid namespace, or 0 if it has gone."""
    pid, _, _ = UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size))
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


class End:
    """One end of a connection through the proxy: what the ends of sockets and of TLS have in common."""

    def __init__(self, account: Account) -> None:
        """Begin with nothing read."""
        self.account = account
        self.asked = False  # for one answer of HTTP, after which the connection ends
        self.moved = 0
        self._kept = b""
        self._first = b""
        self._heard = asyncio.Event()

    async def _receive(self) -> bytes:
        """Return the next bytes that have come; b"" at the end."""
        raise NotImplementedError

    async def _send(self, data: bytes) -> None:
        """Send bytes, and wait until there is room for more."""
        raise NotImplementedError

    async def finish(self) -> None:
        """Say that nothing more is sent."""
        raise NotImplementedError

    def keep(self, data: bytes) -> None:
        """Give back bytes that were read too early: the next read returns them."""
        self._kept = data + self._kept

    async def read(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        if self._kept:
            data, self._kept = self._kept, b""
            return data
        data = await self._receive()
        self.moved += 1
        if not self._heard.is_set():
            self._first = data[:FIRST]
            self._heard.set()
        await self.account.pay()
        return data

    async def first(self) -> bytes:
        """Return the first bytes without consuming them."""
        await self._heard.wait()
        return self._first

    async def exactly(self, size: int) -> bytes:
        """Return as many bytes as that.

        Raises:
            RefusedError: there are not that many.
        """
        data = b""
        while len(data) < size:
            if not (more := await self.read()):
                raise RefusedError("the connection ends in its middle")
            data += more
        self.keep(data[size:])
        return data[:size]

    async def until(self, end: bytes, limit: int) -> bytes:
        """Return all up to a mark, which is included.

        Raises:
            RefusedError: it does not come, or not within so many bytes.
        """
        data, seen = bytearray(), 0
        while (place := data.find(end, max(0, seen - len(end)))) < 0:
            seen = len(data)
            if not (more := await self.read()) or seen > limit:
                raise RefusedError("the HTTP request has no end")
            data += more
        self.keep(bytes(data[place + len(end) :]))
        return bytes(data[: place + len(end)])

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until the peer has room for more."""
        await self._send(data)
        self.moved += 1
        await self.account.pay()


class SocketEnd(End):
    """The end of a connection of a socket."""

    def __init__(self, reader: Reader, writer: Writer, account: Account) -> None:
        """Take the reading and the writing half of a connection."""
        super().__init__(account)
        self._reader, self._writer, self._ended = reader, writer, False
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # between two reads the kernel keeps what comes

    async def _receive(self) -> bytes:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]
        try:
            return await self._reader.read(CHUNK)
        finally:
            # While the sandbox waits for its part of the CPU, small pieces do not wake the event loop.
            self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def _send(self, data: bytes) -> None:
        if self._ended:  # asyncio raises no OSError then, and would write a traceback for each such connection
            raise BrokenPipeError
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        """Say that nothing more is sent."""
        self._ended = True
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        """Close the connection. Its descriptor is free when this returns, though the peer may read no last bytes."""
        self._writer.close()
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._writer.wait_closed(), LINGER_SEC)
        finally:
            self._writer.transport.abort()


def closing(start: bytes) -> bytes:
    """Return the beginning of an answer, which says that no other follows on its connection.

    Not every server repeats the field of the request, and its client would send the next request to a closed port.
    """
    line, end, rest = start.partition(b"\n")
    says = CLOSE in start.partition(b"\r\n\r\n")[0].lower()
    return b"%s\n%s\r\n%s" % (line, CLOSE.title(), rest) if end and not says and FINAL.match(line) else start


async def pump(source: End, sink: End) -> None:
    """Copy until the end."""
    with contextlib.suppress(OSError):
        data = await source.read()
        while sink.asked and data and b"\n" not in data[:LINE] and len(data) < LINE and (more := await source.read()):
            data += more
        if sink.asked:
            data = closing(data)
        while data:
            await sink.write(data)
            data = await source.read()
        await sink.finish()


async def join(inner: End, outer: End, forth: Coroutine[Any, Any, None]) -> None:
    """Move bytes both ways, until both have ended or nothing has moved for too long.

    Args:
        inner: the end in the sandbox.
        outer: the end at the server, of which all goes to the sandbox.
        forth: what passes bytes to the server.
    """
    running = {asyncio.ensure_future(task) for task in (forth, pump(outer, inner))}
    pending = running
    try:
        while pending:
            before = inner.moved, outer.moved
            done, pending = await asyncio.wait(pending, timeout=IDLE_SEC, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if not done and before == (inner.moved, outer.moved):
                return
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
