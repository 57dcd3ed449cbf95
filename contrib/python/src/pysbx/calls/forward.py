"""Local sockets that lead to ports of a session's loopback.

A connection gets one end of a pair of sockets; the sandbox gets the other one, and connects it to its port. The bytes
pass through a thread of this program. The sandbox never gets a socket of the host's network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import struct
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from pysbx.base.directories import private_directory, remove_left_sockets, run_directory
from pysbx.base.handles import Handle
from pysbx.errors import SandboxError

PORT = struct.Struct("!I?")  # and whether the connection waits for a server
MAX_PORT = 65535
MAX_CONNECTIONS = 64
CHUNK = 1 << 16
START_SEC = 10.0
UCRED = struct.Struct("=iII")  # unix(7), SO_PEERCRED


def check_port(port: object) -> int:
    """Return the number of a port.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= MAX_PORT:
        raise ValueError(f"port: {port!r} is not a number from 1 to {MAX_PORT}")
    return port


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()  # also after a reset: otherwise the other side would wait for ever


def _is_ours(connection: socket.socket) -> bool:
    """Tell whether the process at the other end of a Unix socket is the caller's, or root's."""
    if connection.family != socket.AF_UNIX:
        return True
    _, user, _ = UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size))
    return user in (0, os.geteuid())


class Forwarder:
    """A thread that hands connections of listening sockets on to a sandbox."""

    def __init__(
        self, control: socket.socket, listeners: list[tuple[socket.socket, int]], *, waits: bool = False
    ) -> None:
        """Start it.

        Args:
            control: the way to the process in the sandbox, which closes with this.
            listeners: sockets that listen, each with the port in the sandbox that it leads to.
            waits: whether connections wait until servers listen at the ports of all that wait, and are not closed.
        """
        control.setblocking(False)
        self._control = control
        self._listeners = listeners
        self._waits = waits
        self._served: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pysbx-forward", daemon=True)
        self._thread.start()
        self._begun.wait(START_SEC)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        tasks = [self._loop.create_task(self._accept(listener, port)) for listener, port in self._listeners]
        self._begun.set()
        await self._stop.wait()
        for task in (*tasks, *self._served):
            task.cancel()
        await asyncio.gather(*tasks, *self._served, return_exceptions=True)
        for listener, _ in self._listeners:
            listener.close()
        self._control.close()

    async def _accept(self, listener: socket.socket, port: int) -> None:
        listener.setblocking(False)
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except OSError:  # no descriptors are left, for example
                await asyncio.sleep(1)
                continue
            if len(self._served) >= MAX_CONNECTIONS or not _is_ours(connection):
                connection.close()
                continue
            self._start(self._connect(connection, port))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _connect(self, connection: socket.socket, port: int) -> None:
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.setblocking(False)
            ours, theirs = socket.socketpair()
            with contextlib.closing(ours), contextlib.closing(theirs):
                # The sandbox takes it at once. If it does not, it gets no more.
                socket.send_fds(self._control, [PORT.pack(port, self._waits)], [theirs.fileno()])
                theirs.close()
                ours.setblocking(False)
                reader, writer = await asyncio.open_connection(sock=connection)
                inner_reader, inner_writer = await asyncio.open_connection(sock=ours)
                try:
                    await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
                finally:
                    writer.close()
                    inner_writer.close()

    def close(self) -> None:
        """End all connections; once more is no error."""
        if not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(START_SEC)


class Forward(Handle):
    """A local socket that leads to a port of a session: a Unix socket that only the caller's user can use.

    Use it in a with statement, or close it. It ends with the session.
    """

    def __init__(self, port: int) -> None:
        """Listen; connections wait until `begin` is called.

        Raises:
            SandboxError: there is no private directory for it.
        """
        self.port = port
        directory = private_directory(run_directory() / "forwards")
        remove_left_sockets(directory)
        self.path = str(directory / f"{secrets.token_hex(8)}.sock")
        self._forwarder: Forwarder | None = None
        self.listener = socket.socket(socket.AF_UNIX)
        try:
            self.listener.bind(self.path)
            os.chmod(self.path, 0o600)
            self.listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            self.close()
            raise SandboxError(f"socket '{self.path}': {error.strerror}") from error

    def begin(self, control: socket.socket) -> None:
        """Hand connections on; see Forwarder."""
        self._forwarder = Forwarder(control, [(self.listener, self.port)])

    def connect(self, timeout_sec: float | None = 30.0) -> socket.socket:
        """Return a new connection to the port.

        Raises:
            OSError: it has been closed.
        """
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(timeout_sec)
            made.connect(self.path)
        except OSError:
            made.close()
            raise
        return made

    def __enter__(self) -> Forward:
        """Return it."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End its connections, and remove it; once more is no error."""
        if self._forwarder is not None:
            self._forwarder.close()
        self.listener.close()
        Path(self.path).unlink(missing_ok=True)
