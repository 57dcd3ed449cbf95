"""Sandbox.forward(): a local socket that leads to a server in a session."""

# once: the caller's rights make no difference

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from pysbx import Sandbox, SandboxError
from pysbx.calls.forward import MAX_CONNECTIONS, Forward
from tests.conftest import descriptors
from tests.servers import wait_until

SERVER = "python3 -m http.server 8000 --bind 127.0.0.1"
# A server that answers each line; it needs no module of the interpreter's.
ECHO = """
import asyncio
async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data.upper())
        await writer.drain()
    writer.close()
async def main():
    async with await asyncio.start_server(echo, HOST, 8001) as server:
        print('ready', flush=True)
        await server.serve_forever()
asyncio.run(main())
"""


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session that has a loopback of its own."""
    with Sandbox(allow_network="localhost") as made:
        yield made


def start_echo(session: Sandbox, host: str = "127.0.0.1") -> None:
    session.put({"echo.py": ECHO.replace("HOST", repr(host))})
    assert session.start("python3 echo.py").read(wait_sec=30).stdout == "ready\n"


def test_a_server_of_the_session_is_reached(session: Sandbox) -> None:
    session.put({"page.html": "text"})
    server = session.start(SERVER)
    with session.forward(8000) as forward:
        about = os.stat(forward.path)
        assert stat.S_ISSOCK(about.st_mode)
        assert stat.S_IMODE(about.st_mode) == 0o600
        assert stat.S_IMODE(os.stat(Path(forward.path).parent).st_mode) == 0o700
        session.run("import socket, time\nwhile socket.socket().connect_ex(('127.0.0.1', 8000)): time.sleep(0.05)")
        with httpx.Client(transport=httpx.HTTPTransport(uds=forward.path)) as client:
            assert client.get("http://sandbox/page.html").text == "text"
        assert "page.html" in server.read(wait_sec=10).stderr
    assert not Path(forward.path).exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_go_both_ways_while_code_runs(host: str, session: Sandbox) -> None:
    start_echo(session, host)
    with session.forward(8001) as forward, ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.run, "import time; time.sleep(3); 42")
        data = os.urandom(1 << 20).hex().encode()
        with forward.connect() as connection:
            connection.setblocking(True)
            received = b""
            for part in range(0, len(data), 1 << 16):
                connection.sendall(data[part : part + (1 << 16)])
                while len(received) < min(part + (1 << 16), len(data)):
                    received += connection.recv(1 << 16)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert received == data.upper()
        assert running.result().value == "42"


def test_a_port_where_nothing_listens_gives_an_end(session: Sandbox) -> None:
    with session.forward(9) as forward:
        for said in (b"", b"text"):
            with forward.connect() as connection:
                connection.sendall(said)
                assert connection.recv(1) == b""
    with pytest.raises(OSError, match="No such file"):
        forward.connect()


def answers(forward: Forward) -> bool:
    """Tell whether a new connection gets an answer."""
    with forward.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"b")
        return connection.recv(1) == b"B"
    return False


def test_connections_are_bounded_and_leave_nothing(session: Sandbox) -> None:
    start_echo(session)
    before = descriptors()
    with session.forward(8001) as forward:
        connections = [forward.connect() for _ in range(MAX_CONNECTIONS)]
        for connection in connections:
            connection.sendall(b"a")
            assert connection.recv(1) == b"A"
        with forward.connect() as more:
            assert more.recv(1) == b""
        for connection in connections:
            connection.close()
        wait_until(lambda: answers(forward))  # the others have to be closed first
    assert descriptors() == before


def test_a_forward_ends_with_its_session() -> None:
    before = descriptors()
    with Sandbox(allow_network="localhost") as session:
        start_echo(session)
        forward = session.forward(8001)
        connection = forward.connect()
        connection.sendall(b"a")
        assert connection.recv(1) == b"A"
    assert connection.recv(1) == b""
    connection.close()
    assert not Path(forward.path).exists()
    assert descriptors() == before


def test_what_cannot_be_forwarded_says_why(session: Sandbox) -> None:
    for wrong in (0, 65536, "80", True):
        with pytest.raises(ValueError, match="port: "):
            session.forward(wrong)  # type: ignore[arg-type]
    with Sandbox() as other, pytest.raises(SandboxError, match='no network: allow_network="localhost"'):
        other.forward(80)


def test_a_session_with_a_forward_can_be_forked() -> None:
    with Sandbox(warm="require", allow_network="localhost") as session, session.forward(8001):
        with session.fork() as fork, fork.forward(8001) as forward:
            start_echo(fork)
            with forward.connect() as connection:
                connection.sendall(b"a")
                assert connection.recv(1) == b"A"
        assert session.run("6 * 7").value == "42"
