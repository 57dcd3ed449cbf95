"""In a process of its own: connections from the host to ports of the sandbox's loopback.

The host sends a port and one end of a socket for each connection. So nothing of the host's network is in the sandbox,
and the sandbox opens no connection of its own accord.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct

from .relay import pump

PORT = struct.Struct("!I?")  # and whether the connection waits for a server
LOOPBACKS = ("127.0.0.1", "::1")
CONNECT_SEC = 5.0
AGAIN_SEC = 0.01


async def _open(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of the loopback, by either protocol."""
    try:
        return await asyncio.wait_for(asyncio.open_connection(LOOPBACKS[0], port), CONNECT_SEC)
    except OSError:
        return await asyncio.wait_for(asyncio.open_connection(LOOPBACKS[1], port), CONNECT_SEC)


class Together:
    """Lets connections wait until a server listens at each of their ports."""

    def __init__(self) -> None:
        """No connection waits yet."""
        self._ports: set[int] = set()
        self._polling: asyncio.Task[None] | None = None

    async def wait(self, port: int) -> None:
        """Return as soon as servers listen at this port and at those of the other connections that wait."""
        self._ports.add(port)
        self._polling = self._polling or asyncio.get_running_loop().create_task(self._poll())
        await self._polling

    async def _poll(self) -> None:
        while not all(_listens(port) for port in self._ports):
            await asyncio.sleep(AGAIN_SEC)
        self._ports.clear()
        self._polling = None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACKS[0], port)) == 0


async def _connect(outer: socket.socket, port: int, together: Together | None) -> None:
    with contextlib.closing(outer), contextlib.suppress(OSError, asyncio.TimeoutError):
        if together:
            await together.wait(port)
        reader, writer = await _open(port)
        outer_reader, outer_writer = await asyncio.open_connection(sock=outer)
        try:
            await asyncio.gather(pump(reader, outer_writer), pump(outer_reader, writer))
        finally:
            writer.close()
            outer_writer.close()


async def _serve(control: socket.socket) -> None:
    loop, ended, together = asyncio.get_running_loop(), asyncio.Event(), Together()
    served = set()  # the event loop alone has only weak references to its tasks

    def take() -> None:
        try:
            data, found, _, _ = socket.recv_fds(control, PORT.size, 1)
        except BlockingIOError:
            return
        except OSError:
            data, found = b"", []
        if len(data) != PORT.size or not found:  # the host has closed its end
            loop.remove_reader(control)
            ended.set()
            return
        outer = socket.socket(fileno=found[0])
        outer.setblocking(False)
        port, waits = PORT.unpack(data)
        task = loop.create_task(_connect(outer, port, together if waits else None))
        served.add(task)
        task.add_done_callback(served.discard)

    control.setblocking(False)
    loop.add_reader(control, take)
    await ended.wait()


def start(control: int, channel: int) -> int:
    """Serve in a process of its own, whose number is returned.

    Args:
        control: descriptor by which the host sends connections.
        channel: descriptor that the process must not keep.
    """
    pid = os.fork()
    if pid == 0:
        os.close(channel)
        os.setsid()  # ipykernel ends all processes of its group before it says that it ends
        try:
            asyncio.run(_serve(socket.socket(fileno=control)))
        finally:
            os._exit(0)
    os.close(control)
    return pid
