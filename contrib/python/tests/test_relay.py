"""A sandbox's share of the process in which the proxy runs: descriptors, CPU time, places of others."""

# once: the proxy is a program of the caller
# slow: waits for the bounds of the proxy

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pysbx.network.proxy
from pysbx import Execution, run_code
from pysbx.network import relay
from pysbx.network.proxy import Proxy
from pysbx.network.relay import Account, Room
from pysbx.options.network import parse_network
from tests.conftest import descriptors

PRELUDE = """
import os, socket, time
place = '/run/pysbx-proxies/' + os.listdir('/run/pysbx-proxies')[0]
def connect(blocking=True):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(blocking)
    try: s.connect(place)
    except OSError: s.close(); return None
    return s
"""
# Opens connections to the proxy and says nothing, for some seconds; then prints how many there were and were closed.
HOLD = """
held, deadline = [], time.monotonic() + SECONDS
while time.monotonic() < deadline:
    if len(held) < 400 and (s := connect(False)): held.append(s)
    else: time.sleep(0.002)
def closed(s):
    try: return s.recv(1) == b''
    except BlockingIOError: return False
    except OSError: return True
print(len(held), sum(map(closed, held)))
"""


@contextmanager
def running(source: str, **options: Any) -> Iterator[list[Execution]]:
    """Run a program in a sandbox beside the test; what it yields has the outcome afterwards."""
    outcome: list[Execution] = []
    thread = threading.Thread(target=lambda: outcome.append(run_code(PRELUDE + source, **options)))
    thread.start()
    try:
        yield outcome
    finally:
        thread.join()


def test_silent_connections_do_not_use_up_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pysbx.network.proxy, "HEAD_SEC", 1.0, raising=False)
    run_code("", allow_network=["silent.test"])  # what the package keeps open is open
    before, most = descriptors(), 0
    with running(HOLD.replace("SECONDS", "4"), allow_network=["silent.test"]) as outcome:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            most = max(most, descriptors())
            time.sleep(0.05)
        assert run_code("print(1)").stdout == "1\n"
    opened, closed = map(int, outcome[0].stdout.split())
    assert most - before < 140
    assert opened > 150
    assert closed > 60
    while descriptors() > before and time.monotonic() < end + 20:
        time.sleep(0.05)
    assert descriptors() <= before


def test_connections_of_one_sandbox_leave_places_for_another() -> None:
    ask = (
        "import urllib.request, urllib.error\n"
        "try: urllib.request.urlopen('http://other.test/', timeout=15)\n"
        "except urllib.error.HTTPError as error: print(error.read().decode())\n"
        "except OSError as error: print(error)"
    )
    with running(HOLD.replace("SECONDS", "8"), allow_network=["shared.test"]):
        time.sleep(2)
        for _ in range(3):
            assert "not among the hosts" in run_code(ask, allow_network=["shared.test"]).stdout


TWO_PARTS = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
s = server.accept()[0]
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while s.recv(100):
    s.sendall(b"head")
    time.sleep(0.001)
    s.sendall(b"body")
"""
ASK = """
import socket, time
s = socket.create_connection(('127.0.0.1', 1080))
s.sendall(b'CONNECT HOST HTTP/1.1\\r\\n\\r\\n')
assert b' 200 ' in s.recv(200)
took = []
for _ in range(40):
    began, got = time.monotonic(), 0
    s.sendall(b'\\0raw')
    while got < 8: got += len(s.recv(100))
    took.append(time.monotonic() - began)
print(min(took[20:]))
"""


def test_parts_of_an_answer_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(pysbx.network.proxy, "Proxy", lambda hosts: Proxy(hosts, lambda address: True, resolve))
    with subprocess.Popen([sys.executable, "-c", TWO_PARTS], stdout=subprocess.PIPE, text=True) as origin:
        assert origin.stdout is not None
        host = f"parts.test:{int(origin.stdout.readline())}"
        done = run_code(ASK.replace("HOST", host), allow_network=[host])
        origin.kill()
    assert float(done.stdout) < 0.03  # the kernel acknowledges after 40 ms what a program does not answer


SINK = """
import socket, threading
def take(s):
    while s.recv(65536): pass
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True: threading.Thread(target=take, args=(server.accept()[0],), daemon=True).start()
"""
# Each does one small thing again and again, which is cheap inside.
ATTACKS = {
    "records of one byte": """
ss = tunnels(20)
first = b'\\x16\\3\\1\\0\\4\\1\\0\\x25\\0'
for s in ss: s.sendall(first)
def step():
    for s in ss: s.send(b'\\x16\\3\\1\\0\\1x')
""",
    "bytes one by one": """
ss = tunnels(20)
for s in ss: s.sendall(b'\\0raw')
def step():
    for s in ss: s.send(b'x')
""",
    "heads byte by byte": """
ss = [connect() for _ in range(20)]
for s in ss: s.sendall(b'GET / HTTP/1.1\\r\\nX: ')
def step():
    for s in ss: s.send(b'x')
""",
    "chunks of one byte": """
ss = tunnels(4)
for s in ss: s.sendall(b'POST / HTTP/1.1\\r\\nHost: %b\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n' % HOST)
def step():
    for s in ss: s.send(b'1\\r\\nx\\r\\n' * 100)
""",
    "connections": """
ss = []
def step():
    while len(ss) > 50: ss.pop(0).close()
    if (s := connect(False)): ss.append(s)
""",
    "connections one by one": """
def step():
    s = connect()
    s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
    s.recv(1000)
    s.close()
""",
}
STEPS = """
def tunnels(count):
    made = []
    for _ in range(count):
        s = connect()
        s.sendall(b'CONNECT %b HTTP/1.1\\r\\n\\r\\n' % HOST)
        assert b' 200 ' in s.recv(200)
        made.append(s)
    return made
ATTACK
print('begins', flush=True)
deadline = time.monotonic() + 4
while time.monotonic() < deadline:
    try: step()
    except OSError: time.sleep(0.001)
"""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_sandbox_does_not_use_up_the_time_of_its_caller(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    # The part is small here, so that a machine with other work still has as much time as an attack would take.
    monkeypatch.setattr(relay, "CPU_SHARE", 0.05)
    monkeypatch.setattr(pysbx.network.proxy, "Proxy", lambda hosts: Proxy(hosts, lambda address: True, resolve))
    sink = subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    assert sink.stdout is not None
    try:
        host = f"sink.test:{int(sink.stdout.readline())}"
        began = threading.Event()
        source = STEPS.replace("ATTACK", f"HOST = {host.encode()!r}\n{attack}")
        options: dict[str, Any] = {"allow_network": [host], "timeout_sec": 12}
        with running(source, on_stdout=lambda text: began.set(), **options) as outcome:
            assert began.wait(30)
            time.sleep(0.5)
            cpu, clock = time.process_time(), time.monotonic()
            time.sleep(3)
            cpu, clock = time.process_time() - cpu, time.monotonic() - clock
        assert outcome[0].error is None or outcome[0].timed_out  # it may have to wait for the proxy
    finally:
        sink.kill()
        sink.wait()
        sink.stdout.close()
    assert cpu / clock < 2 * relay.CPU_SHARE


# Within this process.


def account(room: Room | None = None) -> Account:
    """Return the account of some sandbox."""
    return Account(room or Room(8))


def test_a_sandbox_has_half_of_the_places_and_few_that_wait() -> None:
    async def enter() -> None:
        room = Room(8)
        entered = [room.enter(1) for _ in range(3)]
        assert entered[0] is entered[1]
        assert entered[2] is None
        other = room.enter(2)
        assert other is not None and other is not entered[0]
        assert room.part() == relay.CPU_SHARE / 2
        async with room.place(other):
            assert other.waiting == 0
        assert room.part() == relay.CPU_SHARE
        other.charge()
        # A debt that lasts longer than the next lines, also on a busy machine.
        busy_until = time.thread_time() + 0.1
        while time.thread_time() < busy_until:
            pass
        other.charge()
        assert room.enter(2) is other  # with its debt

    asyncio.run(enter())


def test_places_follow_the_limit_on_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        room = Room()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (room.share, room.most_waiting) == (16, 8)


SHORTAGE = """
import asyncio, os, resource, socket, sys, time
from pysbx.network import proxy
from pysbx.network.relay import Room
proxy.SHORTAGE_SEC = 0.05
async def main():
    listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(16)
    listener.setblocking(False)
    accepting = asyncio.ensure_future(proxy._accept(listener, proxy.Proxy(()), Room(8)))
    await asyncio.sleep(0.1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    full = []
    try:
        while True: full.append(os.dup(0))
    except OSError as error: print(error.strerror)
    client.connect(sys.argv[1])
    began = time.process_time()
    await asyncio.sleep(1)
    print(time.process_time() - began < 0.5)
    for descriptor in full: os.close(descriptor)
    reader, writer = await asyncio.open_unix_connection(sock=client)
    writer.write(b'GET http://other.test/ HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n')
    print((await asyncio.wait_for(reader.read(-1), 10))[:12].decode())
asyncio.run(main())
"""


def test_connections_are_accepted_again_once_there_are_descriptors(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHORTAGE, str(tmp_path / "socket")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["Too many open files", "True", "HTTP/1.1 403"], done.stderr


def test_a_peer_that_does_not_read_keeps_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "IDLE_SEC", 0.2)
    monkeypatch.setattr(relay, "LINGER_SEC", 0.2)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(1 << 20))
                await writer.drain()
        except OSError:
            writer.close()

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def talk() -> int:
        server = await asyncio.start_server(flood, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        near, far = socket.socketpair()
        near.sendall(f"GET http://web.test:{port}/ HTTP/1.1\r\nHost: web.test:{port}\r\n\r\n".encode())
        reader, writer = await asyncio.open_unix_connection(sock=far)
        proxy = Proxy(parse_network([f"web.test:{port}"]).entries, lambda address: True, resolve)
        await asyncio.wait_for(proxy.serve(reader, writer, account()), 10)
        await asyncio.sleep(0.1)
        left = far.fileno()
        near.close()
        server.close()
        return left

    assert asyncio.run(talk()) == -1


def test_the_number_of_a_sandbox_is_its_pid_namespace() -> None:
    one, two = socket.socketpair()
    with one, two:
        assert relay.sandbox_of(one) == os.stat("/proc/self/ns/pid").st_ino
