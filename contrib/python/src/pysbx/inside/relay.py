"""In a sandbox with named hosts: a port on the loopback that leads to the proxy's socket, which is the only way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct

from .wire import RELAY_PORT

CHUNK = 1 << 16
CONNECT_SEC = 20


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand bytes on until one side ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()  # also after a reset: otherwise the other side would wait for ever


def _wait_for_place(path: str) -> socket.socket:
    """Connect to the proxy, and wait as long as its queue is full."""
    outer = socket.socket(socket.AF_UNIX)
    try:
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", CONNECT_SEC, 0))
        outer.connect(path)
    except OSError:
        outer.close()
        raise
    return outer


async def _connect(path: str) -> socket.socket:
    """Connect to the proxy.

    Its queue is full if another sandbox with the same hosts opens connections faster than the proxy accepts them. Then
    connect(2) fails with EAGAIN, which asyncio takes for a connection that is under way: see unix(7).
    """
    outer = socket.socket(socket.AF_UNIX)
    outer.setblocking(False)
    try:
        outer.connect(path)
    except BlockingIOError:
        outer.close()
        return await asyncio.get_running_loop().run_in_executor(None, _wait_for_place, path)
    except OSError:
        outer.close()
        raise
    return outer


async def _serve(listener: socket.socket, path: str) -> None:
    served = set()  # the event loop alone has only weak references to its tasks

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(task := asyncio.current_task())
        try:
            outer_reader, outer_writer = await asyncio.open_unix_connection(sock=await _connect(path))
            await asyncio.gather(pump(reader, outer_writer), pump(outer_reader, writer))
            outer_writer.close()
        except OSError:
            pass
        finally:
            writer.close()
            served.discard(task)

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


def start(path: str, channel: int) -> int:
    """Listen, and serve in a process of its own, whose number is returned.

    Args:
        path: the proxy's socket.
        channel: descriptor that the process must not keep.
    """
    listener = socket.create_server(("127.0.0.1", RELAY_PORT))
    listener = socket.socket(fileno=listener.detach())  # asks for the protocol: without it asyncio sets no TCP_NODELAY
    pid = os.fork()
    if pid == 0:
        os.close(channel)
        asyncio.run(_serve(listener, path))
        os._exit(0)
    listener.close()
    return pid
