"""Sandbox.fork(): a second session that continues from the first one's state, and what cannot be forked."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
import re
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pysbx import Mount, Sandbox, SandboxError
from pysbx.base import runtime
from pysbx.base.directories import cache_directory
from pysbx.base.option_names import spoken_as
from pysbx.container import container, ready
from pysbx.container.limits import enforcement
from pysbx.errors import SandboxOptionError
from pysbx.frameworks.workspace import Workspace
from pysbx.options.options import make_options
from tests.conftest import descriptors, own_containers
from tests.servers import killed_owner, wait_until
from tests.test_interrupt import STUBBORN

pytestmark = pytest.mark.usefixtures("warm_starts")


def value(of: Sandbox, source: str) -> str | None:
    """Run source text that must not fail, and return the value of its last expression."""
    done = of.run(source)
    assert done.error is None, done.error
    return done.value


def test_memory_that_a_library_has_put_at_the_end_of_the_heap_is_copied(session: Sandbox) -> None:
    value(session, "import ctypes as c; libc = c.CDLL(None); libc.sbrk.restype = c.c_void_p")
    with session.fork():  # which has looked at the heap before
        value(session, "own = libc.sbrk(1 << 20) + 4095 & ~4095; _ = c.memset(own, 90, 8192)")
        value(session, "later = [bytearray(1000) for _ in range(1000)]")  # glibc goes on behind it
    with session.fork() as fork, fork.fork() as second:
        for of in fork, second:
            value(of, "page = c.c_void_p(own); given = libc.madvise(page, c.c_size_t(4096), 4)")
            assert value(of, "given, c.string_at(own, 1), c.string_at(own + 4096, 1)") == "(0, b'\\x00', b'Z')"


def test_memory_grows_in_a_fork_as_in_the_session(session: Sandbox) -> None:
    value(session, "import array, mmap\nx = list(range(300000)); b = bytearray(10 << 20); a = array.array('q', x)")
    value(session, "m = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b'm' * (1 << 16))")
    value(session, "d = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); d.write(b'd' * (1 << 16))")
    for _ in range(2):
        with session.fork() as fork, fork.fork() as second:
            for of in fork, second:
                assert value(of, "x.extend(range(1000000)); len(x), x[-1]") == "(1300000, 999999)"
                assert value(of, "b.extend(bytes(20 << 20)); len(b), b.count(0)") == f"({30 << 20}, {30 << 20})"
                assert value(of, "a.extend(range(1000000)); len(a), a[299999]") == "(1300000, 299999)"
                assert value(of, "m.resize(1 << 20); set(m[1 << 16:]), m[:2]") == "({0}, b'mm')"
                assert value(of, "d.madvise(4, 0, 4096); set(d[:4096]), d[4096:4098]") == "({0}, b'dd')"
    assert value(session, "len(x), len(b), len(a), m[:2], d[:2]") == f"(300000, {10 << 20}, 300000, b'mm', b'dd')"


def test_a_fork_has_huge_pages_where_the_session_has_them(session: Sandbox) -> None:
    """Libraries such as numpy advise them for large blocks."""
    value(session, "import mmap; m = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)")
    value(session, "m.madvise(mmap.MADV_HUGEPAGE); m.write(b'm' * (8 << 20))")
    huge = "sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('AnonHugePages:'))"
    there = value(session, huge)
    with session.fork() as fork, fork.fork() as second:
        assert [value(one, huge) for one in (fork, second)] == [there] * 2
        assert value(second, "m[:] == b'm' * (8 << 20)") == "True"
    point = session.checkpoint()
    session.rollback(point)
    assert value(session, huge) == there


def test_a_fork_continues_and_each_goes_its_own_way(session: Sandbox) -> None:
    value(session, "import decimal\nx = 1\nclass Counter:\n    n = 0\ncounter = Counter()\nalias = counter")
    with session.fork() as fork:
        value(fork, "x += 1; counter.n = 7")
        assert value(fork, "x, alias.n, decimal.Decimal(3)") == "(2, 7, Decimal('3'))"
        assert value(session, "x, alias.n") == "(1, 0)"
        value(session, "x = 'mine'")
        assert value(fork, "x") == "2"


def test_several_forks_and_forks_of_forks(session: Sandbox) -> None:
    value(session, "steps = ['first']")
    with session.fork() as one, session.fork() as two:
        value(one, "steps.append('one')")
        with one.fork() as deeper:
            value(deeper, "steps.append('deeper')")
            with deeper.fork() as deepest:
                value(deepest, "steps.append('deepest')")
                assert value(deepest, "steps") == "['first', 'one', 'deeper', 'deepest']"
            assert value(deeper, "steps") == "['first', 'one', 'deeper']"
        assert value(two, "steps") == "['first']"
        assert own_containers() == 3


def test_a_session_goes_on_while_it_is_saved(session: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    value(session, "x = 1")
    save, seen = runtime.save_process, []

    def saved(*arguments: Any, **named: Any) -> tuple[Any, int | None]:
        running = threading.Thread(target=lambda: seen.append(value(session, "x += 1; x")))
        running.start()
        running.join(10)  # or it waits for the session, which waits for this
        return save(*arguments, **named)

    monkeypatch.setattr(runtime, "save_process", saved)
    with session.fork() as fork:
        assert seen == ["2"]
        assert value(fork, "x") == "1"
        assert not session._shares_streams  # the copy is no program of the session's
    point = session.checkpoint()
    session.rollback(point)
    assert (seen, value(session, "x")) == (["2", "3"], "2")
    # An honest runtime kills the copy.
    processes = "import os; len([n for n in os.listdir('/proc') if n.isdigit()])"
    wait_until(lambda: value(session, processes) == "2")
    copy = session._copy("forked")
    assert value(session, processes) == "3"
    session._drop_copy(copy.container, copy.number)
    wait_until(lambda: value(session, processes) == "2")


def test_forks_share_the_data_of_the_interpreter_and_of_libraries(session: Sandbox) -> None:
    """It is mapped from the snapshot, and not copied to memory of their own."""
    found = """
import _decimal
def mapping(address):
    for line in open("/proc/self/maps"):
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[3] != "00:00"
[mapping(id(int)), mapping(id(_decimal.Decimal)), mapping(id(object()))]
"""
    with session.fork() as fork, fork.fork() as second:
        assert [value(one, found) for one in (fork, second)] == ["[True, True, True]"] * 2


def test_the_container_of_a_fork_begins_before_the_session_is_saved(
    session: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of a rollback waits since the checkpoint. They end without a command of the runtime."""
    value(session, "x = 1")
    steps: list[str] = []

    def noted(step: Any, *arguments: Any, **more: Any) -> Any:
        steps.append(step.__name__)
        return step(*arguments, **more)

    for where, name in (runtime, "save_process"), (runtime, "kill"), (ready, "Container"):
        monkeypatch.setattr(where, name, partial(noted, getattr(where, name)))
    monkeypatch.setattr(container, "KILL_AGAIN_SEC", 60.0)
    with session.fork() as fork:
        assert value(fork, "x") == "1"
    assert steps == ["Container", "save_process"]
    point = session.checkpoint()
    wait_until(lambda: any(pool.waiting for pool in ready._pools.values()))
    [[(waiting, _)]] = [pool.waiting for pool in ready._pools.values() if pool.waiting]
    session.rollback(point)
    assert session._container is waiting
    assert value(session, "x") == "1"
    # When one of several has ended, the next one waits.
    with session.fork():
        pass
    wait_until(lambda: any(pool.waiting for pool in ready._pools.values()))
    [[(waiting, _)]] = [pool.waiting for pool in ready._pools.values() if pool.waiting]
    with session.fork() as fork:
        assert fork._container is waiting
        assert value(fork, "x") == "1"


def test_a_copy_that_is_refused_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    save, session = runtime.save_process, Sandbox(warm="require", answer_limit=1 << 20)

    def saved(*arguments: Any, **named: Any) -> tuple[Any, int | None]:
        value(session, "open('large', 'wb').write(bytes(1 << 20))")
        with pytest.raises(SandboxError, match="files are larger"):
            session.fork()
        value(session, "import os; os.remove('large')")
        return save(*arguments, **named)

    with session:
        value(session, "x = 41")
        monkeypatch.setattr(runtime, "save_process", saved)
        with session.fork() as fork:
            assert value(fork, "x + 1") == "42"


def test_a_session_ends_or_pauses_when_it_is_saved(session: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    value(session, "x = 41")
    save, waiting = runtime.save_process, []
    for use in session.pause, session.close:

        def saved(*arguments: Any, **named: Any) -> tuple[Any, int | None]:
            waiting.append(threading.Thread(target=use))  # noqa: B023 (it is called before the next round)
            waiting[-1].start()
            waiting[-1].join(0.2)
            assert waiting[-1].is_alive()
            return save(*arguments, **named)

        monkeypatch.setattr(runtime, "save_process", saved)
        with session.fork() as fork:
            assert value(fork, "x + 1") == "42"
        waiting[-1].join(30)
        if session.paused:
            session.resume()
    assert session.ended == "it has been closed"


def test_a_fork_has_a_sandbox_of_its_own(session: Sandbox) -> None:
    about = "import os; os.getpid(), [os.readlink(f'/proc/self/ns/{kind}') for kind in ('pid', 'mnt', 'ipc', 'user')]"
    mine = value(session, about)
    with session.fork() as fork:
        pid, _, namespaces = str(value(fork, about)).partition(", ")
        assert pid == "(2" and set(namespaces.split()) & set(str(mine).partition(", ")[2].split()) == set()
        assert value(fork, "open('/proc/self/status').read().count('Seccomp:\\t2')") == "1"
        assert value(fork, "open('/proc/self/status').read().count('CapBnd:\\t0000000000000000')") == "1"
        opened = "sorted(os.listdir('/proc/self/fd'))"
        assert value(fork, opened) == value(session, opened)
        assert value(fork, "len([n for n in os.listdir('/proc') if n.isdigit()])") == "2"


def test_a_fork_outlives_its_parent(session: Sandbox) -> None:
    value(session, "x = 41")
    fork = session.fork()
    session.close()
    with fork:
        assert value(fork, "x + 1") == "42"


def test_a_session_can_be_saved_at_once_after_a_command_and_a_terminal() -> None:
    with closing(Workspace(warm="require")) as workspace:
        for _ in range(20):
            assert workspace.exec(["true"]).exit_code == 0
            workspace.sandbox.checkpoint().remove()
        with workspace.sandbox.terminal("true") as terminal:
            while terminal.read():
                pass
        workspace.sandbox.checkpoint().remove()
        with workspace.sandbox.terminal(["cat"]) as terminal:
            terminal.write(b"echo\n")
            terminal.read()
        workspace.sandbox.checkpoint().remove()
        workspace.exec("sleep 100 &")
        with pytest.raises(SandboxError, match=r"process \d+ \(sleep\) is running: end it"):
            workspace.sandbox.checkpoint()


def test_files_directory_and_umask_are_copied(session: Sandbox) -> None:
    session.put({"a/b.txt": "text"})
    value(
        session,
        """
import os
os.symlink("b.txt", "a/link")
os.symlink("/nowhere", "dangling")
os.mkdir("empty")
os.chmod("a/b.txt", 0o640)
os.utime("a/b.txt", ns=(1, 1234567890123456789))
os.chmod("a", 0o555)
for place in ("/tmp", "/output", "/dev/shm"):
    open(f"{place}/name \\udcff", "w").write(place)
os.mkdir("/tmp/inside")
os.chdir("/tmp/inside")
os.umask(0o077)
""",
    )
    about = """
import stat
found = []
for top in ("/work", "/tmp", "/output", "/dev/shm"):
    for directory, names, files in os.walk(top):
        for name in sorted(names + files):
            path = os.path.join(directory, name)
            one = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else open(path).read() if os.path.isfile(path) else None
            found.append((path, stat.filemode(one.st_mode), one.st_mtime_ns, content))
(os.getcwd(), oct(os.umask(0o077)), sorted(found))
"""
    with session.fork() as fork:
        assert value(fork, about) == value(session, about)
        value(fork, "open('/work/new', 'w').write('fork')")
        assert "new" in fork.files() and "new" not in session.files()
        assert fork.get("a/b.txt") == b"text"


def test_a_fork_shares_no_chance_with_its_parent(session: Sandbox) -> None:
    value(session, "import os, random, ssl, tempfile, uuid\nmine = random.Random(5)\nrandom.seed(1); ssl.RAND_bytes(1)")
    value(session, "tempfile.mktemp()")
    draw = "[os.urandom(8), random.random(), uuid.uuid4(), ssl.RAND_bytes(8), tempfile.mktemp()]"
    with session.fork() as one, session.fork() as two:
        drawn = [str(value(of, f"[str(v) for v in {draw}]")) for of in (session, one, two)]
        values = [item for text in drawn for item in text.strip("[]").split(", ")]
        assert len(set(values)) == len(values)
        assert len({value(of, "mine.random()") for of in (session, one, two)}) == 1


def test_output_and_functions_of_a_fork() -> None:
    seen: list[str] = []
    with Sandbox(warm="require", on_stdout=seen.append) as session:
        value(session, "import sys; print('before'); base = 40; sys.stdout.write('not flushed')")

        def add(number: int) -> int:
            import __main__

            return number + int(__main__.base)

        with session.fork() as fork:
            assert fork.run("print('in the fork')").stdout == "in the fork\n"
            assert fork.call(add, 2) == 42
            assert fork.run("print('gone')\nraise SystemExit(3)").exit_code == 3
            assert session.run("print('after')").stdout == "after\n"
    assert "".join(seen) == "before\nnot flushedin the fork\ngone\nafter\n"


def test_tracebacks_in_a_fork_show_the_lines_of_each_run(session: Sandbox) -> None:
    value(session, "def fail():\n    return 1 / 0")
    with session.fork() as fork:
        for one in (session, fork):
            error = one.run("x = 1\nfail()").error
            assert error is not None and error.line == 2
            assert 'File "<sandbox 2>", line 2' in error.traceback and "    return 1 / 0\n" in error.traceback


def test_a_fork_can_be_interrupted(session: Sandbox) -> None:
    value(session, "import signal; x = 41")
    session.interrupt()
    with session.fork() as fork:
        fork.interrupt()
        assert value(fork, "x + 1") == "42"
        threading.Timer(0.5, fork.interrupt).start()
        error = fork.run("while True: pass").error
        assert error is not None and error.type == "KeyboardInterrupt"
        handler = "signal.getsignal(signal.SIGINT) is signal.default_int_handler"
        assert value(fork, handler) == value(session, handler) == "True"


def test_a_fork_that_takes_too_long_ends_alone() -> None:
    with Sandbox(warm="require", timeout_sec=5) as session:
        with session.fork() as fork:
            assert fork.run(STUBBORN, timeout_sec=0.5).timed_out
            with pytest.raises(SandboxError, match="has ended"):
                fork.run("1")
            with pytest.raises(SandboxError, match="has ended"):
                fork.fork()
        assert value(session, "1") == "1"


@pytest.mark.parametrize(
    ("made", "undone", "reason"),
    [
        (
            "import threading; e = threading.Event(); t = threading.Thread(target=e.wait, name='mine'); t.start()",
            "e.set(); t.join()",
            r"a thread is running \(mine\): end it",
        ),
        (
            "import _thread; go, gone = locks = _thread.allocate_lock(), _thread.allocate_lock()\n"
            "[one.acquire() for one in locks]; _thread.start_new_thread(lambda: (go.acquire(), gone.release()), ())",
            "import time; go.release(); gone.acquire(); time.sleep(0.1)",
            "a thread is running: end it",
        ),
        ("import subprocess; p = subprocess.Popen(['sleep', '60'])", "p.kill(); p.wait()", r"process \d+ .sleep. is"),
        (
            "import os; f = open('/work/data', 'w+'); os.unlink('/work/data')",
            "f.close()",
            r"descriptor \d+ is open \(/work/data \(deleted\)\).*close files",
        ),
        (
            "import fcntl; f = open('/work/data', 'w+'); fcntl.flock(f, fcntl.LOCK_EX)",
            "f.close()",
            r"descriptor \d+ is open \(/work/data\).*close files",
        ),
        ("import socket; s = socket.socketpair()", "[one.close() for one in s]", r"descriptor \d+ is open \(socket"),
        ("import mmap; m = mmap.mmap(-1, 4096)", "m.close()", "is shared and writable"),
        ("import signal; signal.alarm(60)", "signal.alarm(0)", "a timer is running"),
        (
            "import os, socket; s = socket.socket(1); s.bind('/tmp/s'); s.close()",
            "os.unlink('/tmp/s')",
            "/tmp/s' is neither",
        ),
        (
            "import ctypes as c, shutil; path = next(l.split()[-1] for l in open('/proc/self/maps') if '/libm.' in l)\n"
            "shutil.copy(path, '/tmp/added.so'); added = c.CDLL('/tmp/added.so')",
            "import _ctypes; _ctypes.dlclose(added._handle)",
            "'/tmp/added.so' is loaded as code: start",
        ),
        ("import os; os.mkdir('/tmp/d'); os.chdir('/tmp/d'); os.rmdir('/tmp/d')", "os.chdir('/work')", "No such file"),
    ],
)
def test_what_cannot_be_forked_is_named(session: Sandbox, made: str, undone: str, reason: str) -> None:
    value(session, f"x = 41\n{made}")
    before = descriptors()
    with pytest.raises(SandboxError, match=f"cannot be forked: .*{reason}"):
        session.fork()
    assert descriptors() == before
    assert value(session, "x + 1") == "42"
    value(session, undone)
    with session.fork() as fork:
        assert value(fork, "x + 1") == "42"


@pytest.mark.parametrize(
    ("held", "look", "seen"),
    [
        ("open('/work/a', 'w').write('text'); f = open('/work/a'); f.read(1)", "f.read()", "'ext'"),
        ("import os; f = os.open(os.__file__, os.O_RDONLY); os.lseek(f, 7, 0)", "os.lseek(f, 0, os.SEEK_CUR)", "7"),
        (
            "import mmap; open('/work/a', 'w').write('text'); f = open('/work/a', 'rb')\n"
            "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); f.close()",
            "m[:]",
            "b'text'",
        ),
        (
            "import mmap; open('/work/a', 'w').write('text'); f = open('/work/a', 'rb')\n"
            "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY); f.close(); m[0] = 84",
            "m[:]",
            "b'Text'",
        ),
    ],
)
def test_files_that_are_open_for_reading_and_maps_of_them_are_in_a_fork(
    session: Sandbox, held: str, look: str, seen: str
) -> None:
    value(session, held)
    with session.fork() as fork:
        assert value(fork, look) == value(session, look) == seen


def test_a_fifo_at_the_path_of_a_file_that_was_open_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Sandbox(warm="require", mounts=[Mount(str(tmp_path), "/shared")]) as session:
        value(session, "f = open('/shared/file')")
        point = session.checkpoint()
        (tmp_path / "file").unlink()
        os.mkfifo(tmp_path / "file")
        with pytest.raises(SandboxError, match=r"cannot be restored: '/shared/file' is no regular file any more"):
            session.rollback(point)
        assert value(session, "f.closed") == "False"


def test_files_that_are_open_for_writing_are_in_a_fork(session: Sandbox) -> None:
    """Flags, position, and what is written but not flushed."""
    value(session, "f = open('/work/a', 'w+'); f.write('one'); f.flush(); f.write(' two')")
    value(session, "import os; log = os.open('/tmp/log', os.O_WRONLY | os.O_APPEND | os.O_CREAT); os.write(log, b'1')")
    value(session, "import logging; logging.basicConfig(filename='/output/log'); logging.error('first')")
    use = "f.write(name); f.flush(); os.lseek(log, 0, 0); os.write(log, name.encode()); logging.error(name)"
    with session.fork() as fork:
        for name, one in (("fork", fork), ("mine", session)):
            value(one, f"name = {name!r}; {use}")
        for name, one in (("fork", fork), ("mine", session)):
            assert one.get("a").decode() == f"one two{name}"
            assert one.get("/tmp/log").decode() == f"1{name}"
            assert one.get("/output/log").decode() == f"ERROR:root:first\nERROR:root:{name}\n"
            assert value(one, "f.seek(0); f.read()") == f"'one two{name}'"


def test_the_event_loop_of_a_notebook_is_in_a_fork() -> None:
    with Sandbox(warm="require", notebook=True) as session:
        value(session, "import asyncio, os\nqueue = asyncio.Queue()\nopened = os.listdir('/proc/self/fd')")
        value(session, "async def later(): return await asyncio.sleep(0.1, 40) + await queue.get()")
        value(session, "task = asyncio.create_task(later())\nawait asyncio.sleep(0)")
        value(session, "f = open('/work/a', 'w+')")
        point = session.checkpoint()
        with session.fork() as fork:
            for number, one in ((1, fork), (2, session)):
                assert value(one, f"await queue.put({number})\nawait task") == str(40 + number)
                assert value(one, "await asyncio.to_thread(sum, [1, 2]), f.write('text')") == "(3, 4)"
        session.rollback(point)
        session.park()
        assert (
            value(session, "await queue.put(3)\nawait task, len(os.listdir('/proc/self/fd')) - len(opened)")
            == "(43, 4)"
        )
        value(session, "ends = os.pipe()\nloop = asyncio.get_running_loop()\nloop.add_reader(ends[0], print)")
        with pytest.raises(SandboxError, match=r"descriptor \d+ is open"):
            session.fork()
        value(session, "loop.remove_reader(ends[0])\nos.close(ends[0])\nos.close(ends[1])\nawait asyncio.sleep(0)")
        session.fork().close()


def test_a_temporary_file_with_a_name_is_in_a_fork(session: Sandbox) -> None:
    """The module tempfile opens it with O_NOFOLLOW."""
    value(session, "import tempfile; t = tempfile.NamedTemporaryFile('w+'); t.write('one'); t.flush()")
    with session.fork() as fork:
        assert value(fork, "t.write(' two'); t.flush(); open(t.name).read()") == "'one two'"
        assert value(session, "open(t.name).read()") == "'one'"


def test_a_library_may_close_its_files_in_a_fork(session: Sandbox) -> None:
    """As matplotlib does with fonts. A hook that fails for another reason is reported."""
    value(session, "import os; f = open(os.__file__); os.register_at_fork(after_in_child=lambda: os.close(f.fileno()))")
    with session.fork() as fork:
        assert fork.run("1").stderr == ""
    value(session, "os.register_at_fork(after_in_child=lambda: 1 / 0)")
    with session.fork() as fork:
        assert "ZeroDivisionError" in fork.run("1").stderr


@pytest.mark.parametrize("made", ["", "db.execute('create table t(a)')"])
def test_a_database_that_is_open_is_named(session: Sandbox, made: str) -> None:
    """SQLite would refuse to write in the fork: it knows its file by the inode."""
    session.run(f"import sqlite3; db = sqlite3.connect('t.db'); {made}")
    with pytest.raises(SandboxError, match=r"the database '/work/t\.db' is open: close it, and connect again"):
        session.fork()
    value(session, "db.close(); db = sqlite3.connect(':memory:'); kept = open('t.db', 'rb')")
    session.fork().close()


def test_descriptors_that_share_a_position_are_not_opened_twice(session: Sandbox) -> None:
    value(session, "import os; f = os.open(os.__file__, os.O_RDONLY); g = os.dup(f)")
    with pytest.raises(SandboxError, match=r"descriptor \d+ is open"):
        session.fork()
    assert value(session, "os.lseek(f, 5, 0); os.lseek(g, 0, os.SEEK_CUR)") == "5"


def test_a_fork_draws_uuids_of_its_own(session: Sandbox) -> None:
    ask = "import uuid; found = uuid.uuid1(); found.node, found.clock_seq"
    value(session, ask)
    with session.fork() as fork:
        assert value(fork, ask) != value(session, ask)


def test_what_multiprocessing_leaves_behind_is_named(session: Sandbox) -> None:
    value(
        session,
        "from multiprocessing import shared_memory as m, resource_tracker as r\n"
        "one = m.SharedMemory(create=True, size=9); one.close(); one.unlink(); del one",
    )
    with pytest.raises(SandboxError, match=r"is multiprocessing's resource tracker: .*_stop\(\)"):
        session.fork()
    value(session, "r._resource_tracker._stop()")
    session.fork().close()
    value(session, "import multiprocessing; lock = multiprocessing.get_context('fork').Lock()")
    with pytest.raises(SandboxError, match="semaphore of multiprocessing"):
        session.fork()


def test_code_that_was_made_at_run_time_is_in_its_fork(session: Sandbox) -> None:
    """A callback of ctypes, and what a compiler like numba's has written to memory and then runs."""
    made = """import ctypes, mmap
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
code[:6] = bytes((0xB8, 42, 0, 0, 0, 0xC3))  # mov eax, 42; ret
compiled = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))"""
    assert value(session, f"{made}\ncallback(1), compiled()") == "(2, 42)"
    with session.fork() as fork:
        assert value(fork, "callback(2), compiled()") == "(3, 42)"


def test_children_may_be_ignored(session: Sandbox) -> None:
    value(session, "import signal; x = signal.signal(signal.SIGCHLD, signal.SIG_IGN)")
    with session.fork() as fork:
        assert value(fork, "signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN") == "True"
    assert value(session, "1") == "1"


def test_what_a_program_holds_is_in_its_fork(session: Sandbox) -> None:
    value(
        session,
        """
import threading
def count():
    for number in range(10):
        yield number
generator = count()
next(generator)
lock = threading.Lock()
lock.acquire()
large = bytearray(b"x" * (8 << 20))
try:
    1 / 0
except ZeroDivisionError as error:
    kept = error
""",
    )
    with session.fork() as fork:
        held = "next(generator), lock.locked(), large.count(b'x'), repr(kept), kept.__traceback__.tb_lineno"
        seen = (1, True, 8 << 20, repr(ZeroDivisionError("division by zero")), 12)
        assert value(fork, held) == value(session, held) == repr(seen)
        done = fork.run(
            "thread = threading.Thread(target=print, args=('from a thread',)); thread.start(); thread.join()"
        )
        assert done.stdout == "from a thread\n"


def test_libraries_with_code_of_their_own(virtualenv: str) -> None:
    options = make_options(virtualenv=virtualenv, memory_mb=2048, max_processes=200, timeout_sec=120, preload=["numpy"])
    with Sandbox._chosen(options) as session:
        done = session.run("import pandas, numpy\nframe = pandas.DataFrame({'a': numpy.arange(1000)})\nframe.a.sum()")
        if not done.warm:
            pytest.skip("a virtualenv is not started warm here")
        assert done.value in ("499500", "np.int64(499500)")
        value(session, "numpy.random.seed(1); mine = numpy.random.default_rng(5)")
        with session.fork() as fork:
            value(fork, "frame['b'] = frame.a * 2")
            assert value(fork, "int(frame.b.sum()), frame.shape, float(numpy.linalg.det(numpy.eye(3)))") == (
                "(999000, (1000, 2), 1.0)"
            )
            assert value(session, "frame.shape") == "(1000, 1)"
            assert value(fork, "numpy.random.rand(2).tolist()") != value(session, "numpy.random.rand(2).tolist()")
            assert value(fork, "mine.random(2).tolist()") == value(session, "mine.random(2).tolist()")


def test_a_fork_has_the_network_of_its_policy() -> None:
    with Sandbox(warm="require", allow_network=["example.org"], timeout_sec=20) as session:
        ask = "import socket; socket.create_connection(('127.0.0.1', 1080), 10).close(); 'there'"
        assert value(session, ask) == "'there'"
        with session.fork() as fork:
            assert value(fork, ask) == "'there'"
        assert value(session, ask) == "'there'"


def test_files_beyond_the_limit_are_refused() -> None:
    with Sandbox(warm="require", answer_limit=1 << 20) as session:
        value(session, "open('large', 'wb').write(bytes(1 << 20))")
        with pytest.raises(SandboxError, match=r"files are larger than 524288 bytes.*answer_limit"):
            session.fork()
        assert value(session, "1") == "1"


def test_a_session_with_little_memory_can_be_forked() -> None:
    # The least is 16. Where no cgroup bounds memory, that is too little to observe the imports: the start is cold then.
    with Sandbox(warm="require", memory_mb=17) as session:
        value(session, "x = 41")
        with session.fork() as fork:
            assert value(fork, "x + 1") == "42"


# Memory that only becomes executable is no data of the session. The program that continues the process writes it first.
CODE = """
import mmap
code = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_EXEC)
"""


@pytest.mark.skipif(enforcement().by["memory"] == "cgroup", reason="a cgroup bounds memory, and no rlimit")
def test_a_fork_for_which_the_memory_is_too_small_is_refused_with_the_least_value() -> None:
    with Sandbox(warm="require", memory_mb=24) as session:
        value(session, CODE)
        before = descriptors()
        said = r"cannot be forked: memory_mb: 24 is less than the snapshot needs, (\d+) \(allow more: memory_mb\)"
        with pytest.raises(SandboxError, match=said) as refusal:
            session.fork()
        assert not isinstance(refusal.value, SandboxOptionError)
        assert descriptors() == before
        assert value(session, "len(code)") == str(32 << 20)
        least = re.search(r"needs, (\d+)", str(refusal.value))
        assert least is not None and 32 + 8 < int(least[1]) < 32 + 24
    assert own_containers() == 0


def test_a_limit_of_processes_that_leaves_no_room_for_a_copy_is_named() -> None:
    with Sandbox(warm="require", max_processes=1) as session:
        with pytest.raises(SandboxError, match=r"cannot be forked: .*\(allow more: max_processes\)"):
            session.fork()
        assert value(session, "1") == "1"


def test_a_cold_session_cannot_be_forked() -> None:
    with Sandbox(warm="off") as session:
        value(session, "x = 1")
        with pytest.raises(SandboxError, match=r"started cold: ask for warm='require'"):
            session.fork()
        with spoken_as("http"), pytest.raises(SandboxError, match="started cold: start another one, or ask the oper"):
            session.fork()
        assert value(session, "x") == "1"


def test_nothing_is_left_of_a_fork(session: Sandbox) -> None:
    session.fork().close()
    before, files = descriptors(), sorted(os.listdir(cache_directory()))
    for _ in range(3):
        session.fork().close()
    assert (descriptors(), sorted(os.listdir(cache_directory()))) == (before, files)
    about = "import os; len(os.listdir('/proc/self/fd')), [name for name in os.listdir('/proc') if name.isdigit()]"
    assert value(session, about) == "(5, ['1', '2'])"


LIE = """
import os, sys, signal
worker = sys.modules["pysbx_inside.worker"]
def lie(report, word):
    pid = os.fork()
    if pid == 0:
        {does}
        while True:
            signal.pause()
    return pid
worker.__pysbx_fork__ = lie
"""


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os.write(report, word); os.closerange(3, 100)", "does not wait in"),
        ("os.write(report, word); os._exit(0)", "process [0-9]+"),
        ("os.write(report, word); os.kill(os.getpid(), signal.SIGSTOP)", "process [0-9]+"),
    ],
)
def test_hostile_code_that_feigns_a_fork_is_refused(session: Sandbox, does: str, reason: str) -> None:
    value(session, LIE.format(does=does))
    with pytest.raises(SandboxError, match=reason):
        session.fork()


def test_hostile_code_cannot_pass_descriptors(session: Sandbox) -> None:
    session.run("")  # it has begun, and its directories are open
    before = descriptors()
    passing = (
        "import socket, array; s = socket.socket(fileno=os.dup(report)); "
        "s.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2]))])"
    )
    value(session, LIE.format(does=passing))
    with pytest.raises(SandboxError):
        session.fork()
    assert descriptors() <= before


def test_a_program_that_is_killed_leaves_no_fork() -> None:
    program = (
        "import os, time\nfrom pysbx import Sandbox\nsession = Sandbox(warm='require')\nfork = session.fork()\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    killed_owner(program, 2)
