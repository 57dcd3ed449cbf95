"""A terminal of a session: a program in the sandbox at a pseudo-terminal, and the caller's end of the way to it.

The pseudo-terminal is one of the sandbox. The caller has a socket, which carries packets: see inside/wire.py. So
nothing of the host's terminals is in the sandbox.
"""

from __future__ import annotations

import contextlib
import select
import socket

from pysbx.base.handles import Handle
from pysbx.errors import SandboxError
from pysbx.inside.wire import (
    EXIT_CODE,
    ROWS_AND_COLUMNS,
    TERMINAL_BEGUN,
    TERMINAL_DATA,
    TERMINAL_END,
    TERMINAL_FAILED,
    TERMINAL_PACKET,
    TERMINAL_SIZE,
)

# The command of a shell that reads commands: it takes the place of the one that the command is for.
SHELL = 'exec "$0"'
# Terminals of a session at a time.
LIMIT = 8
MAX_SIZE = 1000
START_SEC = 10.0
CHUNK = TERMINAL_PACKET - 1
ENDED = "the terminal has ended"
NEEDS_CONTAINER = "a terminal is part of a container: leave isolation='process' out"


def check_size(rows: object, columns: object) -> None:
    """Refuse a size that a terminal cannot have.

    Raises:
        ValueError: it is none.
    """
    for name, given in (("rows", rows), ("columns", columns)):
        if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= MAX_SIZE:
            raise ValueError(f"{name}: {given!r:.100} is not a number from 1 to {MAX_SIZE}")


def size_packet(rows: int, columns: int) -> bytes:
    """Return the packet that gives a terminal another size.

    Raises:
        ValueError: it cannot have that.
    """
    check_size(rows, columns)
    return TERMINAL_SIZE + ROWS_AND_COLUMNS.pack(rows, columns)


def data_packets(data: bytes) -> list[bytes]:
    """Return the packets that bring bytes to a terminal."""
    return [TERMINAL_DATA + data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]


def opened(packet: bytes) -> bytes | int | None:
    """Return what a packet of the sandbox brings: output, or an exit code; None if there is nothing more."""
    letter, content = packet[:1], packet[1:]
    if letter == TERMINAL_DATA and content:
        return content
    if letter == TERMINAL_END and len(content) == EXIT_CODE.size:
        return int(EXIT_CODE.unpack(content)[0]) & 0xFF
    return None


class Terminal(Handle):
    """A program at a terminal. Close it, or use it in a with statement: that ends the program, as the session does."""

    def __init__(self, control: socket.socket) -> None:
        """Take the way to it; see Sandbox.terminal."""
        self.socket = control
        self.closed = False
        self._code: int | None = None
        self._ended = False

    def begin(self) -> None:
        """Wait until the program has been started.

        Raises:
            SandboxError: it cannot be started.
        """
        self.socket.settimeout(START_SEC)
        try:
            packet = self.socket.recv(TERMINAL_PACKET)
        except OSError:
            packet = b""
        self.socket.settimeout(None)
        if packet[:1] == TERMINAL_FAILED:
            raise SandboxError(f"the terminal cannot be started: {packet[1:].decode(errors='replace'):.500}")
        if packet != TERMINAL_BEGUN:
            raise SandboxError("the terminal cannot be started: the sandbox has not said why")

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program, once read() has come to the end; None before, or if it is not known."""
        return self._code

    def fileno(self) -> int:
        """Return a descriptor that is readable when read() would not wait."""
        return self.socket.fileno()

    def read(self, timeout_sec: float | None = None) -> bytes:
        """Return the output that comes next; b"" at its end, when the program has ended.

        Args:
            timeout_sec: seconds to wait at most; None for any time.

        Raises:
            TimeoutError: there is none.
        """
        if self.ended:
            return b""
        if not select.select([self.socket], [], [], timeout_sec)[0]:
            raise TimeoutError(f"no output for {timeout_sec:g} seconds")
        try:
            packet = self.socket.recv(TERMINAL_PACKET)
        except OSError:  # closed by another thread
            packet = b""
        return self.taken(packet)

    def taken(self, packet: bytes) -> bytes:
        """Return the output that a packet of the sandbox brings, or b"" and note the end."""
        found = opened(packet)
        if isinstance(found, bytes):
            return found
        self._ended, self._code = True, found
        return b""

    @property
    def ended(self) -> bool:
        """Whether read() has nothing more to return."""
        return self._ended or self.closed

    def write(self, data: bytes) -> None:
        r"""Type bytes: b"\x03" is Ctrl-C, b"\x04" is Ctrl-D.

        Raises:
            SandboxError: the program has ended.
        """
        for packet in data_packets(data):
            self._send(packet)

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size; the program gets SIGWINCH.

        Raises:
            SandboxError: the program has ended.
            ValueError: it cannot have that.
        """
        self._send(size_packet(rows, columns))

    def _send(self, packet: bytes) -> None:
        try:
            self.socket.send(packet)
        except OSError as error:
            raise SandboxError(ENDED) from error

    def close(self) -> None:
        """Hang up: the shell and the job in the foreground get SIGHUP, and what is left of the terminal is killed."""
        self.closed = True
        self.hang_up()
        self.socket.close()

    def hang_up(self) -> None:
        """End the program as close() does. A thread or an event loop that waits for output finds its end."""
        with contextlib.suppress(OSError):  # it is closed
            self.socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Terminal:
        """Return it."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()
