"""Bytes that have come, on their way to a parser: in slices, for which the connections of a server take turns.

A parser needs as long for a chunk or frame without content as for a large one. asyncio reads 256 KiB of a connection at
once, which is room for forty thousand of them, and until they are parsed no other connection is served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

SLICE = 4096
# Seconds of parsing after which the loop serves the others.
TURN_SEC = 0.005


class Turns:
    """The connections that have more than one slice. Each takes one, and waits behind the others for the next."""

    def __init__(self) -> None:
        """Begin without any."""
        self._waiting: dict[Callable[[], None], None] = {}
        self._is_scheduled = False

    def ask(self, step: Callable[[], None]) -> None:
        """Call a function when it is its turn; one that waits already is called once."""
        self._waiting[step] = None
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        until = time.perf_counter() + TURN_SEC
        try:
            while self._waiting and time.perf_counter() < until:
                step = next(iter(self._waiting))
                del self._waiting[step]
                step()
        finally:
            self._is_scheduled = False
            self._schedule()


class Intake:
    """A transport that gives what it reads to a parser in slices, and counts what is written to it.

    Attributes:
        take: gets a slice, and tells whether it has taken it. If not, it gets it again after resume_reading().
        held: bytes that have come and that no parser has yet. Meanwhile the connection is not read.
    """

    def __init__(self, transport: asyncio.Transport, turns: Turns, take: Callable[[bytes], bool]) -> None:
        """Stand before a transport."""
        self.take = take
        self.held = bytearray()
        self._transport = transport
        self._turns = turns
        self._is_paused = False
        self._written = 0

    def __getattr__(self, name: str) -> Any:
        """Return what the transport has."""
        return getattr(self._transport, name)

    def received(self, data: bytes) -> None:
        """Give the first slice to the parser at once, unless others wait, and the rest in later turns."""
        is_first = not self.held
        self.held += data
        if is_first and not self._is_paused:
            self._step()
        else:
            self._arrange()

    def pause_reading(self) -> None:
        """Give the parser nothing for a while."""
        self._is_paused = True
        self._arrange()

    def resume_reading(self) -> None:
        """Go on."""
        self._is_paused = False
        self._arrange()

    def _arrange(self) -> None:
        if self.held and not self._is_paused:
            self._turns.ask(self._step)
        if self.held or self._is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _step(self) -> None:
        if self._transport.is_closing():
            self.held.clear()
            return
        if self._is_paused:
            return
        part = bytes(self.held[:SLICE])
        del self.held[:SLICE]
        try:
            if not self.take(part):
                self.held[:0] = part
                self._is_paused = True
        except BaseException:  # as asyncio does if a protocol fails
            self._transport.abort()
            raise
        self._arrange()

    def write(self, data: bytes) -> None:
        """Write, or keep until it can be written."""
        self._written += len(data)
        self._transport.write(data)

    def taken(self) -> tuple[int, int]:
        """Return how many bytes the kernel has taken, and how many wait for that."""
        waiting = self._transport.get_write_buffer_size()
        return self._written - waiting, waiting
