"""In a sandbox with named hosts: a port on the loopback that leads to the proxy's socket, which is the only way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

from .wire import RELAY_PORT

CHUNK = 1 << 16


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _serve(listener: socket.socket, path: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            outer_reader, outer_writer = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, outer_writer), _pump(outer_reader, writer))
        outer_writer.close()
        writer.close()

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


def start(path: str, channel: int) -> int:
    """Listen, and serve in a process of its own, whose number is returned.

    Args:
        path: the proxy's socket.
        channel: descriptor that the process must not keep.
    """
    listener = socket.create_server(("127.0.0.1", RELAY_PORT))
    pid = os.fork()
    if pid == 0:
        os.close(channel)
        asyncio.run(_serve(listener, path))
        os._exit(0)
    listener.close()
    return pid
