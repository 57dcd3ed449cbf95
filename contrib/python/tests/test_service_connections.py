"""`pysbx serve` and `pysbx mcp`: connections that keep a server waiting, too many of them, and no descriptors left."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from pysbx.service.connections.access import Access, Address, listen
from pysbx.service.connections.connection_limits import make_bounds
from pysbx.service.connections.listener import GRACE_SEC, Guest, Listener, peer_of
from pysbx.service.connections.protocol import HEAD_SEC
from pysbx.service.connections.rate import PATIENCE_SEC, RATE
from pysbx.service.connections.slices import SLICE, TURN_SEC, Intake, Turns
from tests.clients import run_of
from tests.servers import TOKEN, Server, containers_of, server, wait_until
from tests.test_service import SLEEP

USUAL_FILES = 1024
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
# The HTTP service has a place for health; the other server answers all the same.
ALIVE = {"serve": b"HTTP/1.1 200 ", "mcp": b"HTTP/1.1 404 "}


@pytest.fixture
def files() -> Iterator[int]:
    """More descriptors for the tests than a server gets, which they have started first."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2 * USUAL_FILES:
        pytest.skip(f"this process may have {before[1]} descriptors, and as many as a server's are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_FILES, before[1]))
    yield 2 * USUAL_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def at_port(tmp_path: Path, command: str, *arguments: str, warnings: bool = True) -> Iterator[Server]:
    """Start a server at a port."""
    (tmp_path / "token").write_text(TOKEN)
    options = ("--token-file", str(tmp_path / "token"), *arguments)
    with server(*options, listen="127.0.0.1:0", token=TOKEN, command=command, warnings=warnings) as found:
        yield found


def connect(service: Server, source: str = "") -> socket.socket:
    """Open a connection, from another address if one is named."""
    if service.address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(30)
        made.connect(service.address.removeprefix("unix:"))
        return made
    host, _, port = service.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0) if source else None)


def ask(service: Server, sent: bytes = HEALTH, source: str = "") -> tuple[bytes, float]:
    """Send a request on a connection of its own; return the beginning of the answer, and how long it took."""
    began = time.monotonic()
    with connect(service, source) as channel:
        with suppress(BrokenPipeError, ConnectionResetError):
            channel.sendall(sent)
        return channel.recv(1 << 16), time.monotonic() - began


def head_of(path: str, length: int, *more: str) -> bytes:
    """Return the head of a POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, f"Authorization: Bearer {TOKEN}", "", ""]).encode()


def lifetime(channel: socket.socket, send: Callable[[], object] = lambda: None, pause: float = 0.5) -> float:
    """Return the seconds until a connection is closed by the server, while something is sent now and then."""
    began = time.monotonic()
    channel.settimeout(pause)
    while time.monotonic() < began + 60:
        try:
            send()
            if not channel.recv(1 << 16):
                break
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
    return time.monotonic() - began


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_silent_connections_do_not_keep_others_out(command: str, tmp_path: Path, files: int) -> None:
    with at_port(tmp_path, command) as service, ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        silent = []
        for number in range(1150):
            silent.append(held.enter_context(connect(service)))
            if number % 2:
                silent[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
            if number % 230 == 229:
                found, took = ask(service)
                assert found.startswith(ALIVE[command])
                assert took < 2 * GRACE_SEC
        assert service.process.poll() is None
        assert len(os.listdir(f"/proc/{service.process.pid}/fd")) < USUAL_FILES // 2
        time.sleep(HEAD_SEC + 2 + GRACE_SEC)
        poll = select.poll()
        for channel in silent:
            poll.register(channel, select.POLLRDHUP)
        assert len(poll.poll(0)) == len(silent)
        assert ask(service)[0].startswith(ALIVE[command])


def test_a_burst_finds_room_in_the_backlog(tmp_path: Path) -> None:
    with listen(Address(path=f"{tmp_path}/s"), Access(())), ExitStack() as held:
        for _ in range(300):
            channel = held.enter_context(socket.socket(socket.AF_UNIX))
            channel.setblocking(False)  # as nginx, to which a full backlog is an error
            channel.connect(f"{tmp_path}/s")


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with listen(Address(host="127.0.0.1", port=0), Access((TOKEN,))) as found:
        assert found.proto == socket.IPPROTO_TCP  # then asyncio sets TCP_NODELAY, as uvloop does anyway


def is_healthy(channel: socket.socket) -> bool:
    """Ask for the health over a connection, and tell whether it is good; the connection stays."""
    channel.sendall(HEALTH)
    got = b""
    while not got.endswith(b"}"):
        got += channel.recv(1 << 16)
    return got.startswith(b"HTTP/1.1 200 ")


def upload(service: Server, size: int, part: int, pause: float) -> bytes:
    """Send a program of some size slowly, and return the beginning of the answer."""
    body = b'{"code": "print(7) #' + b"x" * (size - 22) + b'"}'
    with connect(service) as channel:
        channel.sendall(head_of("/v1/run", len(body)))
        for start in range(0, len(body), part):
            channel.sendall(body[start : start + part])
            time.sleep(pause)
        return channel.recv(1 << 16)


def download(service: Server, slow_sec: float) -> int:
    """Take a large answer, for some seconds slowly, and return how much of it came."""
    body = json.dumps({"code": "open('/output/x', 'wb').write(bytes(4 << 20))"}).encode()
    got = 0
    with connect(service) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        channel.sendall(head_of("/v1/run", len(body), "Connection: close") + body)
        until = time.monotonic() + slow_sec
        with suppress(ConnectionResetError):
            while part := channel.recv(2 * RATE):
                got += len(part)
                time.sleep(0.8 if time.monotonic() < until else 0)
    return got


def test_slow_clients_are_cut_off_and_slow_but_steady_ones_served(tmp_path: Path) -> None:
    options = ("--at-once", "1", "--waiting", "9")
    with (
        at_port(tmp_path, "serve", *options, warnings=False) as service,
        ThreadPoolExecutor(9) as pool,
        ExitStack() as held,
    ):
        channels = [held.enter_context(connect(service)) for _ in range(5)]
        silent, half, trickled_head, stuck, trickled = channels
        half.sendall(HEALTH[:20])
        stuck.sendall(head_of("/v1/run", 100) + b"{")
        trickled.sendall(head_of("/v1/run", 100_000))
        used = held.enter_context(connect(service))
        assert is_healthy(used)
        silent_for = pool.submit(lifetime, silent)
        half_for = pool.submit(lifetime, half)
        trickled_head_for = pool.submit(lifetime, trickled_head, lambda: trickled_head.sendall(b"G"))
        stuck_for = pool.submit(lifetime, stuck)
        trickled_for = pool.submit(lifetime, trickled, lambda: trickled.sendall(b" "))
        # Longer than any pause may be, and faster than the slowest that is served.
        steady = pool.submit(upload, service, 16 * RATE, RATE, 0.8)
        taken = pool.submit(download, service, 2 * PATIENCE_SEC)
        for found in (silent_for, half_for, trickled_head_for):
            assert HEAD_SEC - 1 < found.result() < HEAD_SEC + 3
        # And time for the client to find out.
        for found in (stuck_for, trickled_for):
            assert PATIENCE_SEC - 1 < found.result() < PATIENCE_SEC + 8
        assert is_healthy(used)  # between two requests there is more time
        assert steady.result().startswith(b"HTTP/1.1 200 ")
        assert taken.result() > 4 << 20


class Reader(asyncio.Protocol):
    """A connection whose parser is slow, and notes the slices of all connections."""

    def __init__(self, name: str, turns: Turns, taken: list[tuple[str, int]]) -> None:
        self._name, self._turns, self._taken = name, turns, taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put the intake between."""
        assert isinstance(transport, asyncio.Transport)
        self.intake = Intake(transport, self._turns, self._take)

    def data_received(self, data: bytes) -> None:
        """Pass on what has come."""
        self.intake.received(data)

    def _take(self, part: bytes) -> bool:
        self._taken.append((self._name, len(part)))
        time.sleep(TURN_SEC)
        return True


def test_connections_that_send_much_take_turns_and_others_are_read_meanwhile() -> None:
    size = 100_000
    taken: list[tuple[str, int]] = []

    async def read() -> None:
        loop, turns = asyncio.get_running_loop(), Turns()
        with ExitStack() as held:
            ends = {name: [held.enter_context(end) for end in socket.socketpair()] for name in ("a", "b", "small")}
            for name, (ours, theirs) in ends.items():
                ours.sendall(bytes(1 if name == "small" else size))
                await loop.connect_accepted_socket(lambda name=name: Reader(name, turns, taken), theirs)  # type: ignore[misc]
            while sum(count for _, count in taken) < 2 * size + 1:
                await asyncio.sleep(0)

    asyncio.run(read())
    assert max(count for _, count in taken) == SLICE
    # A connection with few bytes does not wait for the many of the others, which wait for each other.
    assert [name for name, _ in taken].index("small") < 10
    both = [name for name, _ in taken if name != "small"][4:-4]
    assert all(one != following for one, following in pairwise(both))


def test_bodies_of_small_chunks_do_not_keep_other_connections_waiting(tmp_path: Path) -> None:
    # Without a token: the rest of the body is read for a while after the refusal.
    head = b"POST /v1/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"40\r\n%s\r\n" % bytes(64) * 20_000
    is_over = threading.Event()

    def flood(service: Server) -> None:
        with suppress(OSError), connect(service) as channel:
            channel.sendall(head)
            while not is_over.is_set():
                channel.sendall(chunks)

    with at_port(tmp_path, "serve") as service:
        floods = [threading.Thread(target=flood, args=(service,)) for _ in range(60)]
        for one in floods:
            one.start()
        took = [ask(service)[1] for _ in range(5)]
        is_over.set()
        for one in floods:
            one.join()
    assert max(took) < 2


def test_an_answer_that_is_not_taken_frees_its_place_and_memory(tmp_path: Path) -> None:
    body = json.dumps({"code": "open('/output/x', 'wb').write(bytes(4 << 20))"}).encode()
    options = ("--at-once", "1", "--waiting", "0")
    with server(*options, listen=f"unix:{tmp_path}/s") as service, connect(service) as channel:
        channel.sendall(head_of("/v1/run", len(body)) + body)
        wait_until(lambda: select.select([channel], [], [], 0)[0])
        assert service.post("/v1/run", code="1").status_code == 429  # it keeps its place until it is taken
        wait_until(lambda: service.post("/v1/run", code="1").status_code == 200, PATIENCE_SEC + 5)
        got = 0
        with suppress(ConnectionResetError):
            while part := channel.recv(1 << 20):
                got += len(part)
        assert got < 4 << 20


def test_a_stream_of_mcp_lasts_as_long_as_its_run(tmp_path: Path) -> None:
    code = f"import time; time.sleep({PATIENCE_SEC + HEAD_SEC}); print('done')"
    accept = {"Accept": "application/json, text/event-stream"}
    with at_port(tmp_path, "mcp", warnings=False) as service:
        answer = service.client.post("/mcp", json=run_of(1, code), headers=accept)
        assert "done" in answer.text


def test_a_peer_that_has_all_its_connections_does_not_take_those_of_others(tmp_path: Path) -> None:
    options = ("--at-once", "2", "--waiting", "20", "--connections", "30", "--connections-per-peer", "8")
    body = json.dumps({"code": SLEEP}).encode()
    with at_port(tmp_path, "serve", *options) as service, ExitStack() as held:
        for after in (0.1, 0.2, 0.3, 0.4):  # of a burst, none is lost, whenever connections are looked at
            burst = [held.enter_context(connect(service)) for _ in range(9)]
            time.sleep(GRACE_SEC / 3)
            for channel in burst:
                assert is_healthy(channel)
            time.sleep(GRACE_SEC + after)  # then connections without a request make room for those that have one
        for _ in range(8):
            channel = held.enter_context(connect(service))
            channel.sendall(head_of("/v1/run", len(body)) + body)
        wait_until(lambda: len(containers_of(service.process.pid)) == 2)
        for _ in range(3):
            found, _ = ask(service)
            assert found.startswith(b"HTTP/1.1 429 ")
            assert b"127.0.0.1 has 8, which is the most of one peer" in found
            assert json.loads(found.partition(b"\r\n\r\n")[2])["type"] == "urn:pysbx:problem:too-many-connections"
            assert b"\r\nRetry-After: " in found
        assert ask(service, source="127.0.0.2")[0].startswith(b"HTTP/1.1 200 ")
        held.close()
        wait_until(lambda: ask(service)[0].startswith(b"HTTP/1.1 200 "))
        assert service.refused("too-many-connections") >= 3


def test_more_connections_than_there_may_be(tmp_path: Path) -> None:
    options = ("--at-once", "1", "--waiting", "20", "--connections", "8")
    body = json.dumps({"code": SLEEP}).encode()
    with server(*options, listen=f"unix:{tmp_path}/s", warnings=True) as service, ExitStack() as held:
        for _ in range(8):
            channel = held.enter_context(connect(service))
            channel.sendall(head_of("/v1/run", len(body)) + body)
        wait_until(lambda: len(containers_of(service.process.pid)) == 1)
        time.sleep(0.5)
        found, _ = ask(service)
        assert found.startswith(b"HTTP/1.1 429 ")
        assert b"8, which is the most" in found


def test_a_connection_that_gives_its_place_away_before_its_first_request_gets_an_answer(tmp_path: Path) -> None:
    with at_port(tmp_path, "serve", "--connections", "8") as service, ExitStack() as held:
        oldest, *_ = [held.enter_context(connect(service)) for _ in range(8)]
        time.sleep(2 * GRACE_SEC)
        assert ask(service)[0].startswith(b"HTTP/1.1 200 ")
        found = oldest.recv(1 << 16)
        assert found.startswith(b"HTTP/1.1 429 ")
        assert b"urn:pysbx:problem:too-many-connections" in found
        assert b"\r\nRetry-After: " in found


def cpu_of(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_without_descriptors_a_server_waits_until_there_are_some(command: str, tmp_path: Path) -> None:
    with at_port(tmp_path, command) as service, ExitStack() as held:
        pid = service.process.pid
        assert ask(service)[0].startswith(ALIVE[command])
        time.sleep(1)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The lowest number that is free: the server gets no descriptor with a limit of that.
        used_numbers = set(map(int, os.listdir(f"/proc/{pid}/fd")))
        least = min(set(range(len(used_numbers) + 1)) - used_numbers)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (least, before[1]))
        channels = [held.enter_context(connect(service)) for _ in range(20)]
        for channel in channels:
            channel.sendall(HEALTH)
        used = cpu_of(pid)
        time.sleep(3)
        assert service.process.poll() is None
        assert cpu_of(pid) - used < 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for channel in channels:
            assert channel.recv(1 << 16).startswith(ALIVE[command])


def test_a_run_without_descriptors_is_told_and_leaves_none_open(tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/s", warnings=True) as service:
        pid = service.process.pid
        assert service.run("1")["exit_code"] == 0
        open_before = set(os.listdir(f"/proc/{pid}/fd"))
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        statuses = set()
        problems: Counter[str] = Counter()
        for spare in range(12):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(map(int, open_before)) + 1 + spare, before[1]))
            answer = service.post("/v1/run", code="1")
            statuses.add(answer.status_code)
            if answer.status_code != 200:
                name = answer.json()["type"].rpartition(":")[2]
                assert name in ("exhausted", "no-sandbox")
                problems[name] += 1
        assert 503 in statuses
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert service.run("6 * 7")["value"] == "42"
        numbers = service.client.get("/metrics").text
        for name, times in problems.items():
            assert f'pysbx_problems_total{{problem="{name}"}} {times}.0\n' in numbers
        assert containers_of(pid) == []
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= len(open_before), 10)


def test_a_server_keeps_descriptors_for_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(soft: int) -> Callable[[int], tuple[int, int]]:
        return lambda _: (soft, soft)

    monkeypatch.setattr(resource, "getrlimit", limits(1024))
    found = make_bounds(None, None, 36, 300, shared=True)
    assert (found.connections, found.per_peer) == (292, 100)
    assert make_bounds(None, None, 36, 300, shared=False).per_peer == 292
    assert make_bounds(700, 800, 36, 300, shared=True).per_peer == 700
    with pytest.raises(ValueError, match=r"need 1025 descriptors, and the limit is 1024: .*LimitNOFILE="):
        make_bounds(725, None, 36, 300, shared=True)
    monkeypatch.setattr(resource, "getrlimit", limits(400))
    assert make_bounds(None, None, 36, 300, shared=True).connections == 100
    monkeypatch.setattr(resource, "getrlimit", limits(304))
    with pytest.raises(ValueError, match="308 descriptors"):
        make_bounds(None, None, 36, 300, shared=True)
    monkeypatch.setattr(resource, "getrlimit", limits(resource.RLIM_INFINITY))
    assert make_bounds(5000, None, 36, 300, shared=True).connections == 5000


@pytest.mark.parametrize(
    ("family", "host", "source", "peer"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.3", "127.0.0.3"),
        (socket.AF_INET6, "::1", "::1", "::/64"),
        (socket.AF_INET6, "::", "127.0.0.4", "127.0.0.4"),
    ],
)
def test_peers_are_addresses_networks_and_users(family: int, host: str, source: str, peer: str) -> None:
    with socket.socket(family) as listener:
        try:
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((host, 0))
        except OSError as error:
            pytest.skip(f"there is no IPv6 here: {error}")
        listener.listen()
        port = listener.getsockname()[1]
        target = source if ":" in source else "127.0.0.1"
        with socket.create_connection((target, port), source_address=(source, 0)), listener.accept()[0] as accepted:
            assert peer_of(accepted) == peer
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_of(ours) == f"user {os.getuid()}"


class OtherProtocol(socket.socket):
    """A socket of SCTP, or of MPTCP before Linux 6.0, as ListenStream= with SocketProtocol= makes it."""

    def setsockopt(self, *_: object) -> None:
        """Refuse an option of TCP."""
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_a_socket_that_is_not_one_of_tcp_has_a_door() -> None:
    welcomed = threading.Event()

    def welcome(_: Listener) -> Guest:
        welcomed.set()
        return Guest()

    async def serve(listener: socket.socket) -> None:
        door = Listener(listener, make_bounds(8, 8, 8, 8, shared=True), welcome, refused=pytest.fail)
        door.open()
        with socket.create_connection(listener.getsockname()):
            assert await asyncio.to_thread(welcomed.wait, 10)
            door.close()

    with OtherProtocol() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        asyncio.run(serve(listener))
