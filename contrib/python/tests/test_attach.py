"""Sandbox.attach(): a session that another process of the same user uses, while the one that has started it lives."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import asyncio
import copy
import errno
import os
import pickle
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pysbx import (
    AsyncSandbox,
    Sandbox,
    SandboxError,
    SandboxFileNotFoundError,
    SandboxPausedError,
    run_code,
)
from pysbx.base.directories import run_directory
from pysbx.calls import attach
from pysbx.frameworks.workspace import Workspace
from pysbx.network.proxy import directory_for
from pysbx.options.options import make_options
from tests.servers import wait_until

GONE = "the process that has started it has ended, or has closed it"
SOCKETS = "sessions"
# In the second process.
SECOND = "import sys\nfrom pysbx import *\nsession = Sandbox.attach(sys.argv[1])\n"


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session to be attached to."""
    with Sandbox(allow_network="localhost") as made:
        yield made


def elsewhere(session: Sandbox, source: str) -> str:
    """Return what a second process prints that has attached to a session."""
    done = subprocess.run(
        [sys.executable, "-c", SECOND + source, session.reference],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.root
def test_a_second_process_uses_the_session_and_leaves_it(session: Sandbox) -> None:
    session.run("x = 41")
    session.put({"a": "text"})
    source = """
code = "print('out'); import sys; print('err', file=sys.stderr); x += 1; x"
done = session.run(code, on_stdout=lambda text: print('heard', text))
print(done.value, done.stderr, done.limits["memory"] in ("cgroup", "rlimit"), done.usage.wall_sec > 0)
print(session.get("a"), session.files(), session.shell("cat; exit 3", stdin="given").exit_code)
print(session.run("1 / 0").error.type, session.run("open('/output/f', 'w').write('x')").artifacts)
session.put({"b": b"two"}); session.start("sleep 60")
print([one.command for one in session.processes()])
"""
    assert elsewhere(session, source).split("\n") == [
        "heard out",
        "",
        "42 err",
        " True True",
        "b'text' {'a': 4} 3",
        "ZeroDivisionError {'f': b'x'}",
        "['sleep 60']",
        "",
    ]
    assert session.run("x").value == "42"
    assert session.get("b") == b"two"
    assert session.changes() == [] or [one.path for one in session.changes()] == ["/output/f"]
    assert len(session.processes()) == 1


def test_a_session_that_is_pickled_or_copied_says_how_another_process_gets_it(session: Sandbox) -> None:
    checkpoint = session.checkpoint()
    with session.forward(80) as forward, session.terminal() as terminal:
        for handle in (session, AsyncSandbox(), session.start("sleep 60"), checkpoint, forward, terminal):
            for function in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=r"neither copied nor pickled: .* Sandbox\.reference"):
                    function(handle)


def test_errors_arrive_with_their_classes_and_attributes(session: Sandbox) -> None:
    with Sandbox.attach(session.reference) as attached:
        with pytest.raises(SandboxFileNotFoundError) as missing:
            attached.get("none")
        assert (missing.value.path, missing.value.errno) == ("none", 2)
        with pytest.raises(SandboxFileNotFoundError):
            attached.remove("none")
        session.pause()
        assert (attached.paused, attached.parked) == (True, False)
        with pytest.raises(SandboxPausedError, match="resume"):
            attached.run("1")
        attached.resume()
        assert attached.run("1").value == "1"
        for refused in (attached.fork, lambda: attached.call(len, "x")):
            with pytest.raises(SandboxError, match="only the process that has started the session"):
                refused()
        with pytest.raises(ValueError, match="timeout_sec"):
            attached.run("1", timeout_sec=-1)
    for use in (lambda: attached.run("1"), attached.files):
        with pytest.raises(SandboxError, match="this process has detached from it"):
            use()
    assert session.run("2").value == "2"


def test_changes_terminals_ports_and_programs_work_from_there(session: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    with Sandbox.attach(session.reference) as attached:
        attached.put_directory(tmp_path)
        attached.run("open('a', 'w').write('two\\n')")
        (change,) = attached.changes()
        assert (change.kind, change.diff().splitlines()[-1]) == ("changed", "+two")
        assert attached.commit(tmp_path).written == ("a",)
        attached.run("open('b', 'w').close()")
        attached.discard()
        assert session.changes() == attached.changes() == []
        with attached.terminal("read x; echo got $x") as terminal:
            terminal.write(b"it\n")
            shown = b"".join(iter(terminal.read, b""))
        assert b"got it" in shown
        workspace = Workspace(attached)
        assert workspace.exec(["cat"], b"input").stdout == b"input"
        workspace.write("/work/new/file", b"content")
        assert session.get("new/file") == b"content"
        attached.run(
            "import socket, threading\nserver = socket.create_server(('127.0.0.1', 8000))\n"
            "threading.Thread(target=lambda: server.accept()[0].sendall(b'hello'), daemon=True).start()"
        )
        with attached.forward(8000) as forward, forward.connect() as connection:
            assert connection.recv(5) == b"hello"
    assert (tmp_path / "a").read_text() == "two\n"


def test_uses_take_turns_and_a_run_is_interrupted_from_there(session: Sandbox) -> None:
    begun = threading.Event()
    with Sandbox.attach(session.reference) as attached, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(session.run, "import time\nprint(1)\ntime.sleep(60)", on_stdout=lambda _: begun.set())
        assert begun.wait(30)
        waiting = pool.submit(attached.run, "2")
        attached.interrupt()
        error = slow.result().error
        assert error is not None and error.type == "KeyboardInterrupt"
        assert waiting.result().value == "2"


def test_asyncio(session: Sandbox) -> None:
    async def main() -> None:
        async with await AsyncSandbox.attach(session.reference) as attached:
            assert (await attached.run("6 * 7")).value == "42"

    asyncio.run(main())


def test_the_reference_ends_with_its_process_or_session() -> None:
    source = "import sys, time\nfrom pysbx import Sandbox\nsession = Sandbox()\nprint(session.reference, flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", source + "time.sleep(60)"], stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        reference = first.stdout.readline().strip()
        attached = Sandbox.attach(reference)
        assert attached.run("1").value == "1"
        first.send_signal(signal.SIGKILL)
    with pytest.raises(SandboxError, match=GONE):
        attached.run("1")
    with pytest.raises(SandboxError, match=GONE):
        Sandbox.attach(reference)
    attached.close()
    session = Sandbox(allow_network="localhost")
    fresh = run_directory() / SOCKETS / f"{reference}.sock"  # left by the one that was killed
    proxies = directory_for(make_options(allow_network=["left.example.org"]).allow_network.entries)
    lefts = run_directory() / "forwards/left.sock", proxies / "4194305", fresh.with_name("pysbx-left.sock")
    for left in lefts:
        left.parent.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(left))
        os.utime(left, (1, 1))
    mine = session.reference
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(lefts[0].with_name("served.sock")))
        served.listen()
        served.settimeout(0)
        os.utime(served.getsockname(), (1, 1))
        session.forward(8000).close()
        with pytest.raises(BlockingIOError):  # a server for one client has not had it
            served.accept()
        os.unlink(served.getsockname())
    assert run_code("1", allow_network=["left.example.org"]).error is None
    assert not any(map(Path.exists, lefts)) and fresh.exists()  # whose program may begin to listen
    fresh.unlink()
    other = Sandbox.attach(mine)
    session.close()
    with pytest.raises(SandboxError, match=GONE):
        other.files()
    other.close()
    with pytest.raises(SandboxError, match="it has been closed"):
        _ = session.reference
    assert list((run_directory() / SOCKETS).iterdir()) == []


def test_a_process_that_ends_before_it_answers_is_gone() -> None:
    source = "import sys\nfrom pysbx import Sandbox\nsession = Sandbox()\nprint(session.reference, flush=True)\n"
    with (
        subprocess.Popen(
            [sys.executable, "-c", f"{source}sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as first,
        ThreadPoolExecutor() as pool,
    ):
        assert first.stdout is not None
        reference = first.stdout.readline().strip()
        attached = Sandbox.attach(reference)
        first.send_signal(signal.SIGSTOP)
        path = str(run_directory() / SOCKETS / f"{reference}.sock")
        waiting: list[Future[Any]] = [pool.submit(Sandbox.attach, reference), pool.submit(attached.interrupt)]
        wait_until(lambda: Path("/proc/net/unix").read_text().count(path) == 4)  # one listens, one is served
        first.send_signal(signal.SIGKILL)
    for one in waiting:
        with pytest.raises(SandboxError, match=GONE):
            one.result()
    attached.close()


def test_one_user_too_many_is_told_and_each_may_interrupt(session: Sandbox) -> None:
    with ThreadPoolExecutor() as pool:
        attached = [Sandbox.attach(session.reference) for _ in range(attach.MOST)]
        with pytest.raises(SandboxError, match=f"{attach.MOST} processes use the session already"):
            Sandbox.attach(session.reference)
        begun = threading.Event()
        source = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
        running = pool.submit(session.run, source, on_stdout=lambda _: begun.set())
        assert begun.wait(30)
        attached[0].interrupt()
        error = running.result().error
        assert error is not None and error.type == "KeyboardInterrupt"
        for one in attached:
            one.close()
    reference = session._reference
    assert reference is not None
    wait_until(lambda: not reference._connections)
    assert Sandbox.attach(session.reference).run("1").value == "1"


def test_an_interrupt_that_is_not_heard_does_not_end_the_session(
    session: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    attached, start = Sandbox.attach(session.reference), threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(SandboxError, match=r"^the session cannot be interrupted: "):
        attached.interrupt()
    attached.interrupt()
    assert attached.run("1").value == "1"
    attached.close()


@pytest.mark.parametrize("limit", ["NOFILE", "threads"])
def test_a_connection_that_is_not_accepted_at_first_is_later(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as session:
        reference = session.reference
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        attempts: list[str] = []
        start = threading.Thread.start

        def fails(thread: threading.Thread) -> None:
            if thread.name.startswith("pysbx-attached") and not attempts:
                attempts.append(thread.name)
                raise RuntimeError("can't start new thread")
            start(thread)

        with socket.socket(socket.AF_UNIX) as made:
            if limit == "threads":
                monkeypatch.setattr(threading.Thread, "start", fails)
                with pytest.raises(SandboxError, match=GONE):
                    Sandbox.attach(reference)
            else:
                resource.setrlimit(resource.RLIMIT_NOFILE, (made.fileno() + 1, before[1]))
                try:
                    made.connect(str(run_directory() / SOCKETS / f"{reference}.sock"))
                    time.sleep(0.3)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, before)
        attached = Sandbox.attach(reference)
        assert attached.run("1").value == "1"
        attached.close()


def test_a_reference_that_no_thread_serves_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Sandbox() as session:
        before = set((run_directory() / SOCKETS).iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fails)
            with pytest.raises(SandboxError, match="can't start new thread"):
                _ = session.reference
        assert set((run_directory() / SOCKETS).iterdir()) == before
        Sandbox.attach(session.reference).close()


@pytest.mark.parametrize("reference", ["", "pysbx-1", "../x", "pysbx-" + "0" * 31 + "/", "pysbx-" + "A" * 32])
def test_what_is_no_reference_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="is not one of a session"):
        Sandbox.attach(reference)


@pytest.mark.root
def test_only_the_user_reaches_the_socket(session: Sandbox) -> None:
    path = run_directory() / SOCKETS / f"{session.reference}.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_uid == path.parent.stat().st_uid == os.geteuid()
    assert path.parent.stat().st_mode & 0o066 == 0
    if os.geteuid() == 0:
        source = "import socket, sys\nprint(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))"
        program = [sys.executable, "-c", source, str(path)]
        done = subprocess.run(program, user=65534, capture_output=True, text=True, cwd="/", check=False)
        assert done.stdout.strip() == str(errno.EACCES), done


def says(path: Path, content: bytes) -> bytes:
    """Return the answer to bytes that are no request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1000)


def test_bytes_that_are_no_request_end_the_connection_only(session: Sandbox) -> None:
    path = run_directory() / SOCKETS / f"{session.reference}.sock"
    for content in (b"", b"\0", b"\xff\xff\xff\xff\0", b"\0\0\0\1\0\xc1", b"\0\0\0\1\1\x80", b"\0\0\0\1\0\x05"):
        says(path, content)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        attach._send(ours, {}, ours.fileno())
        passed = attach._receive(theirs)[1]
        assert not os.get_inheritable(passed)  # programs that start meanwhile do not get it
        os.close(passed)
    link = attach._Link(session.reference)
    refused: list[dict[str, object]] = [{"do": "close"}]
    refused += [{"do": do, "request": {"op": op}} for do, op in (("ask", "fork"), ("ask", "run"), ("run", "call"))]
    for request in refused:
        with pytest.raises(SandboxError, match="only the process that has started the session"):
            link.call(request)
    malformed: list[dict[str, object]] = [{}, {"do": "ask"}, {"do": 1}, {"do": "commit", "directory": []}]
    for request in malformed:
        with pytest.raises((SandboxError, TypeError)):
            link.call(request)
    link.close()
    assert Sandbox.attach(session.reference).run("1").value == "1"
