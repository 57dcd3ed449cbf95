"""Sessions that are saved: by name or path for another program, as checkpoints, parked; and several forks at once."""

# once: the caller's rights make no difference

from __future__ import annotations

import array
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from pysbx import Mount, Sandbox, SandboxError, SandboxOptionError
from pysbx.base import runtime
from pysbx.base.directories import cache_directory
from pysbx.calls import saved
from pysbx.calls.prepare import prepare
from pysbx.command.main import main
from pysbx.container import answer_frame, ready
from pysbx.container.container import FOR_STATE, Container
from tests.conftest import descriptors, own_containers
from tests.servers import wait_until
from tests.test_fork import session, value, warm  # noqa: F401 (fixtures)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path for a saved session."""
    return tmp_path / "session"


@pytest.fixture
def named() -> Iterator[str]:
    """A name for a saved session, which is removed."""
    name = f"test-{os.getpid()}"
    yield name
    (saved.directory() / name).unlink(missing_ok=True)


def elsewhere(program: str, *arguments: object) -> str:
    """Run a program in another process and return its output."""
    command = [sys.executable, "-c", f"import sys\nfrom pysbx import Sandbox\n{program}", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_another_program_restores_a_session(session: Sandbox, named: str) -> None:  # noqa: F811
    value(session, "import os, decimal\nx = [decimal.Decimal(3)]\nos.makedirs('/tmp/d'); os.chdir('/tmp/d')")
    session.put({"data.csv": b"1,2", "/output/made": b"\xff", "/tmp/d/e": b""})
    made = session.snapshot(named)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert value(session, "x.append('mine'); x") == "[Decimal('3'), 'mine']"
    look = "x, open('/work/data.csv').read(), os.listdir('.'), os.getcwd()"
    program = f"""
with Sandbox.restore(sys.argv[1], memory_mb=128, timeout_sec=7) as session:
    done = session.run({look!r})
    print(done.value, done.error, session.get("/output/made"), session.options.timeout_sec, session._python)
"""
    seen = "([Decimal('3')], '1,2', ['e'], '/tmp/d')"
    for _ in range(2):
        assert elsewhere(program, named) == f"{seen} None b'\\xff' 7 {session._python}"


def test_a_restart_of_the_machine_loses_no_saved_session(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It empties the directory of bundles and of the state of containers."""
    for variable, name in (("XDG_RUNTIME_DIR", "run"), ("XDG_CACHE_HOME", "cache")):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(tmp_path / name))
    save = """
with Sandbox(warm="require") as session:
    session.run("x = 41")
    session.snapshot(sys.argv[1])
"""
    elsewhere(save, path)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir(mode=0o700)
    again = "with Sandbox.restore(sys.argv[1]) as session: print(session.run('x + 1').value)"
    assert elsewhere(again, path) == "42"


def test_random_numbers_of_restored_sessions_differ(session: Sandbox, path: Path) -> None:  # noqa: F811
    value(session, "import os, random, ssl, tempfile, uuid; random.seed(1); ssl.RAND_bytes(1); tempfile.mktemp()")
    session.snapshot(path)
    draw = "[os.urandom(8), random.random(), uuid.uuid4(), uuid.uuid1(), ssl.RAND_bytes(8), tempfile.mktemp()]"
    point = session.checkpoint()
    drawn = []
    for _ in range(2):
        with Sandbox.restore(path) as restored:
            drawn.append(value(restored, f"[str(v) for v in {draw}]"))
        session.rollback(point)
        drawn.append(value(session, f"[str(v) for v in {draw}]"))
    values = [item for text in drawn for item in str(text).strip("[]").split(", ")]
    assert len(set(values)) == len(values) == 24


def test_limits_are_those_of_the_caller(session: Sandbox, path: Path) -> None:  # noqa: F811
    session.run("")
    session.snapshot(path)
    with Sandbox.restore(path, max_processes=7, tmp_mb=3, file_size_mb=5, output_limit=9) as restored:
        assert restored.run("import os; s = os.statvfs('/work'); print(s.f_blocks * s.f_frsize >> 20)").stdout == "3\n"
        assert value(restored, "import resource; resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20") == "5"
        assert restored.run("print('x' * 20)").truncated
        asks = "import socket; socket.create_connection(('127.0.0.1', 1))"
        assert "refused" not in str(restored.run(asks).error)  # it has no network, not even a loopback
    with pytest.raises(SandboxOptionError, match="memory_mb"):
        Sandbox.restore(path, memory_mb=4)


def test_files_for_which_there_is_no_room_are_an_error(session: Sandbox, path: Path) -> None:  # noqa: F811
    value(session, "open('large', 'wb').write(bytes(20 << 20))")
    session.snapshot(path)
    with pytest.raises(SandboxError, match=r"cannot be restored: .*No space left on device"):
        Sandbox.restore(path, tmp_mb=10)
    with pytest.raises(SandboxError, match=r"memory|OOM"):
        Sandbox.restore(path, memory_mb=40)
    with Sandbox.restore(path, memory_mb=200) as restored:
        assert restored.files() == {"large": 20 << 20}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env": {"A": "2"}}, "env: it was saved with others: restore it with the same"),
        ({"virtualenv": sys.prefix}, "virtualenv: it was saved with none: restore it with the same"),
        ({"profile": "minimal"}, "profile: it was saved with another: restore it with the same"),
        ({"isolation": "process"}, "isolation"),
        ({"warm": "off"}, "warm"),
    ],
)
def test_options_that_do_not_fit_are_named(path: Path, changes: dict[str, Any], reason: str) -> None:
    with Sandbox(warm="require", env={"A": "1"}) as made:
        made.run("")
        made.snapshot(path)
    with pytest.raises(SandboxError, match=reason):
        Sandbox.restore(path, **{"env": {"A": "1"}, **changes})
    Sandbox.restore(path, env={"A": "1"}).close()


def test_a_file_that_is_not_private_or_not_there_is_refused(session: Sandbox, path: Path) -> None:  # noqa: F811
    session.run("")
    session.snapshot(path)
    before = descriptors()
    path.chmod(0o640)
    with pytest.raises(SandboxError, match=r"not a file that belongs to user .* mode 0600"):
        Sandbox.restore(path)
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to(path)
    for wrong, reason in ((link, "Too many levels"), (path.with_name("none"), "there is none"), (path.parent, "mode")):
        with pytest.raises(SandboxError, match=reason):
            Sandbox.restore(wrong)
    for name in ("../x y", "", ".hidden", "a b", "x" * 65, 7):
        with pytest.raises((ValueError, TypeError, SandboxError)):
            Sandbox.restore(name)  # type: ignore[arg-type]
    assert descriptors() == before


def test_a_damaged_file_is_refused(session: Sandbox, path: Path) -> None:  # noqa: F811
    """Each part of the file: header and pages of the runtime's snapshot, state, footer; and every shorter file."""
    session.run("")
    session.snapshot(path)
    whole = path.read_bytes()
    places = [0, 9, 100, 5000, len(whole) // 2, *range(len(whole) - 80, len(whole), 3)]
    for position in places:
        damaged = bytearray(whole)
        damaged[position] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(SandboxError, match=f"'{path}': (it is damaged|it is not a saved session|it has format)"):
            Sandbox.restore(path)
    for size in (0, 1, 63, 64, 4096, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SandboxError, match="it is not a saved session"):
            Sandbox.restore(path)
    assert own_containers() == 1
    path.write_bytes(whole)
    Sandbox.restore(path).close()


def rewrite(path: Path, memory: bytes, state: bytes) -> None:
    """Write a file with a matching checksum, as only its owner can."""
    footer = saved.FOOTER.pack(saved.MAGIC, saved.FORMAT, len(memory), len(state), bytes(32))[:-32]
    path.write_bytes(memory + state + footer)
    with path.open("r+b") as file:
        digest = saved._digest(file.fileno(), len(memory) + len(state) + len(footer))
        file.seek(0, os.SEEK_END)
        file.write(digest)


def test_a_file_that_was_changed_on_purpose_is_refused_or_harmless(session: Sandbox, path: Path) -> None:  # noqa: F811
    """With matching checksums: the runtime checks its part, and the state goes into the sandbox only."""
    value(session, "x = 1")
    session.snapshot(path)
    whole = path.read_bytes()
    _, _, memory, state, _ = saved.FOOTER.unpack(whole[-saved.FOOTER.size :])
    first, second = whole[:memory], whole[memory : memory + state]
    for at in (8, 40, 64, 300, 1000, 2000):  # header of the runtime's snapshot
        rewrite(path, first[:at] + bytes([first[at] ^ 1]) + first[at + 1 :], second)
        with pytest.raises(SandboxError, match=r"restored: .*snapshot"):
            Sandbox.restore(path)
    content = answer_frame.unpack(second)
    wrong: list[object] = [None, [], {}, {"about": 1, "state": 2}, {**content, "about": {"options": 7}}]
    for one in (b"\xc1", b"", *map(msgpack.packb, wrong)):
        rewrite(path, first, one)
        with pytest.raises(SandboxError, match="its state cannot be read"):
            Sandbox.restore(path)
    # The sandbox gets this state, and does with it what any code there could do.
    outside = path.with_name("outside")
    for change, refused in (
        ({"files": msgpack.packb([[str(outside), 0o777, 1, b"text"]])}, True),
        ({"cwd": 99}, True),
        ({"cwd": None}, True),
        ({"umask": "x"}, True),
        ({"files": 1}, True),
        ({"modules": {"/etc/passwd": [0, 0]}}, True),
        ({"op": "run", "source": "x = 2", "passed": True, "proxy": "../x"}, False),
    ):
        rewrite(path, first, msgpack.packb({**content, "state": {**content["state"], **change}}))
        if refused:
            with pytest.raises(SandboxError):
                Sandbox.restore(path)
        else:
            with Sandbox.restore(path) as restored:
                assert value(restored, "x") == "1"
    assert not outside.exists()
    assert own_containers() == 1
    content["about"]["worker"] = "other"
    rewrite(path, first, msgpack.packb(content))
    with pytest.raises(SandboxError, match="by another build of pysbx"):
        Sandbox.restore(path)


MASK = (1 << 64) - 1
# In the header of the runtime's snapshot: its checksum, and the size of header and tables (warm/snapshot/snapshot.h).
CHECKSUM, TABLES_SIZE = 16, 32


def runtime_hash(data: bytes) -> int:
    """Return what runtime/base/hash.c does."""
    a, b = 0x9E3779B97F4A7C15 ^ len(data), (0xC2B2AE3D27D4EB4F + len(data)) & MASK
    for one, two in struct.iter_unpack("<QQ", data + bytes(-len(data) % 16)):
        a = ((a ^ one) * 0xFF51AFD7ED558CCD) & MASK
        a ^= a >> 32
        b = ((b ^ two) * 0xC4CEB9FE1A85EC53) & MASK
        b ^= b >> 29
    return a ^ ((b * 0x9FB21C651E98DF25) & MASK)


def sign(memory: bytearray, header: int) -> None:
    """Give a changed snapshot of the runtime a checksum that matches."""
    (size,) = struct.unpack_from("<Q", memory, TABLES_SIZE)
    struct.pack_into("<Q", memory, CHECKSUM, runtime_hash(bytes(memory[header:size])))
    struct.pack_into("<Q", memory, CHECKSUM, runtime_hash(bytes(memory[:header])))


def parts(path: Path) -> tuple[bytes, bytes, int]:
    """Return the parts of a file: the runtime's snapshot, the state; and the size of the header of the first."""
    whole = path.read_bytes()
    _, _, memory, state, _ = saved.FOOTER.unpack(whole[-saved.FOOTER.size :])
    (header,) = struct.unpack_from("<Q", whole, 40)  # the first table begins where the header ends
    return whole[:memory], whole[memory : memory + state], header


def test_another_kernel_is_named(session: Sandbox, path: Path) -> None:  # noqa: F811
    """The header of the runtime's snapshot says for which kernel it is; here it says another."""
    session.run("")
    session.snapshot(path)
    memory, state, header = parts(path)
    changed = bytearray(memory)
    sign(changed, header)
    assert changed == memory
    changed[changed.index(os.uname().release.encode() + b"\0")] ^= 1
    sign(changed, header)
    rewrite(path, bytes(changed), state)
    with pytest.raises(SandboxError, match=r"restored: .*the snapshot was made on another kernel"):
        Sandbox.restore(path)


def continued(taken: saved.Saved, memory: bytes, base: int) -> Sandbox:
    """Continue from a state that a program keeps, with other memory or another base."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(memory + os.pread(taken.descriptor, taken.rest, taken.memory))
        given = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY)
        kept = saved.Saved(given, len(memory), taken.rest, base=os.dup(base) if base >= 0 else -1)
    made = Sandbox(timeout_sec=5)
    with kept:
        made._continue_from(kept, "restored")
    return made


@pytest.mark.parametrize("whole", [True, False])
def test_any_change_with_matching_checksums_is_refused_or_harmless(
    session: Sandbox,  # noqa: F811
    path: Path,
    whole: bool,
) -> None:
    """Bytes of header and tables, which the runtime reads; what it loads runs in the sandbox only."""
    session.run("")
    session.snapshot(path)
    memory, state, header = parts(path)
    taken = session._capture("saved")
    if not whole:
        memory = os.pread(taken.descriptor, taken.memory, 0)
    (size,) = struct.unpack_from("<Q", memory, TABLES_SIZE)
    draw = random.Random(int(os.environ.get("TEST_SEED", "1")))
    before = descriptors()
    for _ in range(int(os.environ.get("TEST_MUTATIONS", "16"))):
        changed = bytearray(memory)
        for _ in range(draw.choice((1, 1, 4))):
            changed[draw.choice((draw.randrange(header), draw.randrange(size)))] = draw.choice((0, 1, 0x7F, 0xFF))
        sign(changed, header)
        rewrite(path, bytes(changed), state)
        try:
            with (
                Sandbox.restore(path, timeout_sec=5) if whole else continued(taken, bytes(changed), taken.base)
            ) as restored:
                restored.run("1")
        except SandboxError as error:  # a negative code were a crash of the runtime; of the sandbox it is 128 and more
            assert "with code -" not in str(error)
    assert (own_containers(), descriptors()) == (1, before)
    assert value(session, "1") == "1"
    taken.close()


def test_a_state_that_a_program_keeps_has_only_the_pages_that_differ(session: Sandbox, path: Path) -> None:  # noqa: F811
    """The others are in the snapshot from which the session has started: it is kept open, so the store may drop it."""
    value(session, "import json, random; x = random.Random(1).randbytes(3 << 20); y = bytearray(x); z = {}")
    session.snapshot(path)
    point = session.checkpoint()
    assert 3 << 20 < point.size < path.stat().st_size - (8 << 20)
    value(session, "y[5000] ^= 1; z.update({n: str(n) for n in range(50000)}); json.loads = None")
    name = os.path.basename(os.readlink(f"/proc/self/fd/{point.saved.base}"))
    assert runtime.call("warm", "prune", name).returncode == 0
    with session.fork() as fork:  # its snapshot is gone: all pages are written
        assert value(fork, "len(z), y == x, json.loads") == "(50000, False, None)"
        session.rollback(point)
        assert value(session, "len(z), y == x, json.loads('1')") == "(0, True, 1)"


def test_another_base_or_none_is_named(session: Sandbox, tmp_path: Path) -> None:  # noqa: F811
    session.run("x = 1")
    with session._capture("saved") as taken:
        memory = os.pread(taken.descriptor, taken.memory, 0)
        continued(taken, memory, taken.base).close()
        copy = tmp_path / "base"
        shutil.copyfile(f"/proc/self/fd/{taken.base}", copy)
        for mode, reason in (0o600, "its base, snapshot '[0-9a-f]+', was changed or replaced"), (0o644, "not private"):
            copy.chmod(mode)
            with copy.open("rb") as other, pytest.raises(SandboxError, match=reason):
                continued(taken, memory, other.fileno())
        with pytest.raises(SandboxError, match=r"needs the pages of snapshot '[0-9a-f]+'"):
            continued(taken, memory, -1)


@pytest.mark.parametrize(
    ("passes", "reason"),
    [
        (lambda taken: [], "one or two descriptors must come with the first byte"),
        (lambda taken: [taken.descriptor], "needs the pages of snapshot '[0-9a-f]+', which did not come"),
        (lambda taken: [taken.base, taken.base], "it is not the snapshot of a session"),
        (lambda taken: [taken.descriptor, taken.descriptor], "its base, snapshot '[0-9a-f]+', was changed or replaced"),
        (lambda taken: [taken.descriptor, taken.base, taken.base], "one or two descriptors must come"),
        (lambda taken: [os.open(f"/proc/self/fd/{taken.descriptor}", os.O_RDWR)], "is not for reading only"),
        (lambda taken: [os.open("/etc/passwd", os.O_RDONLY)], "is not private: it must have mode 0600"),
        (lambda taken: [os.open("/", os.O_RDONLY)], "it is not a regular file"),
        (None, "its socket was closed before the snapshot came"),
    ],
)
def test_what_comes_instead_of_a_snapshot_is_named(
    session: Sandbox,  # noqa: F811
    passes: Any,
    reason: str,
) -> None:
    """A container waits for descriptors of a snapshot and its base."""
    session.run("x = 1")
    with session._capture("saved") as taken:
        waiting = Container(prepare(session.options), waits=FOR_STATE)
        order = waiting._order
        assert order is not None
        if passes is None:
            order.shutdown(socket.SHUT_WR)
        else:
            passed = passes(taken)
            order.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else [])
            for descriptor in {*passed} - {taken.descriptor, taken.base}:
                os.close(descriptor)
        with waiting, pytest.raises(SandboxError, match=reason):
            waiting.exchange({"op": "list"}, 20, last=False)
    assert value(session, "x") == "1"


def test_a_signal_ends_a_runtime_whose_container_waits_for_a_snapshot(session: Sandbox) -> None:  # noqa: F811
    """The kernel lets the first process of a pid namespace ignore it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        with Container(prepare(session.options), waits=FOR_STATE) as waiting:
            wait_until(lambda: json.loads(runtime.call("state", waiting.name).stdout or "{}").get("pid", 0) > 0)
            os.kill(waiting._process.pid, number)
            with pytest.raises(SandboxError, match=f"ended by signal {int(number)} before the snapshot came"):
                waiting.exchange({"op": "list"}, 20, last=False)
    assert own_containers() == 1


def test_a_library_that_was_replaced_is_named(tmp_path: Path, path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "lib_of_test.py").write_text("x = 1\n")
    options: dict[str, Any] = {"mounts": [Mount(str(library), "/lib-of-test")], "env": {"PYTHONPATH": "/lib-of-test"}}
    with Sandbox(warm="require", **options) as made:
        value(made, "import lib_of_test")
        made.snapshot(path)
    Sandbox.restore(path, **options).close()
    (library / "lib_of_test.py").write_text("x = 22\n")
    with pytest.raises(SandboxError, match=r"restored: '/lib-of-test/lib_of_test.py' is not the file that it was"):
        Sandbox.restore(path, **options)
    with pytest.raises(SandboxError, match=r"restored: '/lib-of-test/lib_of_test.py': No such file"):
        Sandbox.restore(path, env=options["env"])


def test_a_failure_keeps_the_previous_file_and_the_session(session: Sandbox, path: Path) -> None:  # noqa: F811
    value(session, "x = 1")
    session.snapshot(path)
    before, entries = path.read_bytes(), os.listdir(path.parent)
    value(session, "import threading; e = threading.Event(); t = threading.Thread(target=e.wait); t.start(); x = 2")
    for use in (lambda: session.snapshot(path), session.checkpoint, session.park):
        with pytest.raises(SandboxError, match=r"cannot be (saved|parked): a thread is running: end it"):
            use()
    value(session, "e.set(); t.join()")
    with pytest.raises(SandboxError, match=r"cannot be saved: '.*/none/session': No such file"):
        session.snapshot(path.parent / "none" / "session")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        for use in (lambda: session.snapshot(path), session.checkpoint, session.park):
            with pytest.raises(SandboxError, match=r"cannot be (saved|parked): .*File too large$"):
                use()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (path.read_bytes(), os.listdir(path.parent)) == (before, entries)
    assert value(session, "x") == "2"
    session.snapshot(path)
    with Sandbox.restore(path) as restored:
        assert value(restored, "x") == "2"


# Where a program is killed, as a function that does not return; and the names that it leaves.
KILLED_SAVING = {
    "runtime.save_process": 1,
    "saved._append": 1,
    "saved._digest": 1,
    "os.fsync": 1,
    "os.link": 1,
    "os.rename": 2,
}
KILLED_RESTORING = (
    "saved._digest",
    "saved._check_kept",
    "ready.take_for_state",
    "ready.Container.restore",
    "session.Sandbox._continue",
)


def killed_at(place: str, program: str, path: Path) -> None:
    """Run a program that is killed when it calls a function."""
    killing = f"""
import os, pathlib, signal
from pysbx.base import runtime
from pysbx.calls import saved, session as module
from pysbx.container import ready
path = pathlib.Path(sys.argv[1])
def kill():
    def killed(*arguments, **named):
        os.kill(os.getpid(), signal.SIGKILL)
    {place.replace("session.", "module.", 1)} = killed
{program}
"""
    command = [sys.executable, "-c", f"import sys\nfrom pysbx import Sandbox\n{killing}", str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL, place


def test_no_device_pipe_or_socket_is_replaced(session: Sandbox, tmp_path: Path) -> None:  # noqa: F811
    """Root could lose /dev/null to a regular file."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    session.put({"file": b"content"})
    for target in (pipe, link):
        with pytest.raises(SandboxError, match=rf"cannot be saved: '{target}': is no regular file"):
            session.snapshot(target)
        with pytest.raises(OSError, match=rf"is no regular file, and is not replaced by one: '{target}'"):
            session.save("file", target)
    assert pipe.is_fifo() and link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_a_program_that_is_killed_while_it_saves_leaves_the_previous_file(session: Sandbox, path: Path) -> None:  # noqa: F811
    value(session, "x = 1")
    session.snapshot(path)
    before = path.read_bytes()
    program = "with Sandbox(warm='require') as session:\n session.run('x = 2')\n kill()\n session.snapshot(path)"
    for place, names in KILLED_SAVING.items():
        killed_at(place, program, path)
        assert (path.read_bytes(), len(os.listdir(path.parent))) == (before, names), place
    session.snapshot(path)
    assert os.listdir(path.parent) == ["session"]


# System calls of the command that saves a process, and which of them: it begins, holds the process, reads its memory,
# writes the file, and kills the process.
KILLED_COMMAND = (
    "open:when=1",
    "ptrace:when=1",
    "ptrace:when=20",
    "pread64:when=20",
    "pwritev:when=1",
    "pwritev:when=5",
    "pidfd_send_signal:when=1",
)


@pytest.mark.parametrize("step", KILLED_COMMAND)
def test_a_runtime_that_is_killed_while_it_saves_leaves_the_session_and_the_previous_file(
    session: Sandbox,  # noqa: F811
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    value(session, "x = 1")
    session.snapshot(path)
    before = path.read_bytes()
    command, killing = runtime.command, "inject={}:signal=KILL:{}".format(*step.split(":"))

    def killed(*arguments: str, manager: tuple[str, ...] = ()) -> list[str]:
        trace = ["strace", "-qqo", os.devnull, "-e", killing]
        return (trace if "save" in arguments else []) + command(*arguments, manager=manager)

    for use in (lambda: session.snapshot(path), session.checkpoint, session.park, session.fork):
        with monkeypatch.context() as patched:
            patched.setattr(runtime, "command", killed)
            with pytest.raises(SandboxError, match=r"cannot be (saved|parked|forked)"):
                use()
        assert (path.read_bytes(), os.listdir(path.parent)) == (before, ["session"])
        assert (session.ended, value(session, "x")) == ("", "1")
    session.snapshot(path)
    with session.fork() as fork, Sandbox.restore(path) as restored:
        assert [value(one, "x") for one in (fork, restored)] == ["1", "1"]


def test_a_program_that_is_killed_while_it_restores_leaves_the_file(session: Sandbox, path: Path) -> None:  # noqa: F811
    value(session, "x = 1")
    session.snapshot(path)
    before = path.read_bytes()
    for place in KILLED_RESTORING:
        killed_at(place, "kill()\nSandbox.restore(path)", path)
        assert (path.read_bytes(), os.listdir(path.parent)) == (before, ["session"]), place
    with Sandbox.restore(path) as restored:
        assert value(restored, "x") == "1"


def test_the_container_begins_before_the_checksum_is_compared(
    session: Sandbox,  # noqa: F811
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gets nothing of a file that is damaged."""
    value(session, "x = 1")
    session.snapshot(path)
    steps: list[str] = []

    def noting(step: Any) -> Any:
        def noted(*arguments: Any, **more: Any) -> Any:
            steps.append(step.__name__)
            return step(*arguments, **more)

        return noted

    for where, name in (saved, "_digest"), (ready, "Container"), (Container, "restore"):
        monkeypatch.setattr(where, name, noting(getattr(where, name)))
    with Sandbox.restore(path) as restored:
        assert value(restored, "x") == "1"
    assert steps == ["Container", "_digest", "restore"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(SandboxError, match="its checksum"):
        Sandbox.restore(path)
    assert steps[3:] == ["Container", "_digest"]
    assert own_containers() == 1


def test_a_checkpoint_brings_memory_and_files_back(session: Sandbox) -> None:  # noqa: F811
    value(session, "x = [1]")
    session.put({"kept": "1", "changed": "1"})
    before = descriptors()
    first = session.checkpoint()
    value(session, "import os; x.append(2); os.remove('kept'); open('changed', 'w').write('2'); os.mkdir('made')")
    second = session.checkpoint()
    look = "import os; x, sorted(os.listdir()), open('changed').read()"
    for _ in range(2):
        session.rollback(first)
        assert value(session, look) == "([1], ['changed', 'kept'], '1')"
        session.rollback(second)
        assert value(session, look) == "([1, 2], ['changed', 'made'], '2')"
    assert own_containers() == 1
    first.remove()
    first.remove()
    assert (first.removed, second.removed) == (True, False)
    with session.fork() as other, pytest.raises(SandboxError, match="of another session, or was removed"):
        other.rollback(second)
    with pytest.raises(SandboxError, match="of another session, or was removed"):
        session.rollback(first)
    assert value(session, "x") == "[1, 2]"
    second.remove()
    assert descriptors() == before + 1  # its present container ends with a socket


def test_changes_are_compared_with_the_files_of_the_checkpoint(session: Sandbox) -> None:  # noqa: F811
    session.put({"kept": "1"})
    point = session.checkpoint()
    value(session, "open('made', 'w').write('2')")
    session.mark()
    session.park()
    assert session.changes() == []
    value(session, "open('kept', 'w').write('3')")
    session.pause()
    session.rollback(point)
    assert (session.paused, session.changes()) == (False, [])
    value(session, "open('kept', 'w').write('4')")
    assert [one.path for one in session.changes()] == ["kept"]
    session.discard()
    assert session.get("kept") == b"1"


def test_a_session_that_has_ended_goes_back_to_a_checkpoint(session: Sandbox) -> None:  # noqa: F811
    value(session, "x = 1")
    point = session.checkpoint()
    spent = session._cpu_sec
    session.run("import os; os._exit(3)")
    with pytest.raises(SandboxError, match="has ended"):
        session.run("x")
    session.rollback(point)
    assert value(session, "x") == "1"
    assert session._cpu_sec > spent
    session.close()
    assert point.removed
    with pytest.raises(SandboxError, match="was removed"):
        session.rollback(point)


def test_the_number_and_size_of_checkpoints_are_bounded(
    session: Sandbox,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(saved, "MOST_CHECKPOINTS", 2)
    points = [session.checkpoint() for _ in range(2)]
    with pytest.raises(SandboxError, match="has 2 checkpoints, which is the most: remove one"):
        session.checkpoint()
    points[0].remove()
    monkeypatch.setattr(saved, "MOST_BYTES", points[1].size + 1)
    before = descriptors()
    with pytest.raises(SandboxError, match=r"the checkpoints take more than .* together"):
        session.checkpoint()
    assert descriptors() == before
    session.rollback(points[1])
    assert value(session, "1") == "1"


def test_several_forks_share_one_file_of_memory(session: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    value(session, "x = [str(n) for n in range(200000)]; y = 0")
    saves: list[int] = []
    save = runtime.save_process

    def counted(container: str, pid: int, descriptor: int, **more: bool) -> tuple[Any, int | None]:
        saves.append(pid)
        return save(container, pid, descriptor, **more)

    monkeypatch.setattr(runtime, "save_process", counted)
    before = descriptors()
    forks = session.fork(4)
    assert len(saves) == 1
    for number, fork in enumerate(forks):
        assert value(fork, f"y += {number}; len(x), y") == f"(200000, {number})"
    rollup = "{l.split()[0]: int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.endswith('kB\\n')}"
    found = value(forks[0], f"(lambda found: found['Private_Dirty:'] < found['Rss:'] * 0.7)({rollup})")
    assert found == "True"
    for fork in forks:
        fork.close()
    assert descriptors() == before
    more = session.fork(6)  # two rounds of starts
    assert [value(fork, "len(x)") for fork in more] == ["200000"] * 6
    for fork in more:
        fork.close()
    assert session.fork(0) == []
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match="count"):
            session.fork(wrong)  # type: ignore[arg-type]


def test_a_parked_session_has_no_container_until_its_next_use(session: Sandbox) -> None:  # noqa: F811
    session.put({"data": "1"})
    value(session, "x = 41")
    files = sorted(os.listdir(cache_directory()))
    before = descriptors()
    for _ in range(2):
        session.park()
        session.park()
        assert own_containers() == 0
        session.interrupt()
        assert (session.ended, sorted(os.listdir(cache_directory()))) == ("", files)
        assert value(session, "x + 1, open('data').read()") == "(42, '1')"
        assert own_containers() == 1
    assert descriptors() == before + 1  # its present container ends with a socket
    session.park()
    point = session.checkpoint()
    value(session, "x = 42")
    session.park()
    session.rollback(point)
    assert value(session, "x") == "41"
    session.park()
    with session.fork() as fork:
        assert value(fork, "x") == "41"
    session.park()
    session.close()
    with pytest.raises(SandboxError, match="has been closed"):
        session.run("x")


def test_a_session_that_has_not_begun_has_nothing_to_park() -> None:
    made = Sandbox()
    made.park()
    assert own_containers() == 0
    made.close()


def test_a_forwarded_port_or_added_packages_are_named(path: Path) -> None:
    with Sandbox(warm="require", allow_network="localhost") as made:
        with made.forward(8000), pytest.raises(SandboxError, match="cannot be parked: a port is forwarded: close it"):
            made.park()
        made._sites.append(path)
        with pytest.raises(SandboxError, match=r"packages were added by install\(\)"):
            made.snapshot(path)
        made._sites.clear()


def test_saved_sessions_are_listed_shown_continued_and_removed(
    session: Sandbox,  # noqa: F811
    named: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["sessions", *arguments])
        return code, *capsys.readouterr()

    value(session, "x = 41")
    path = session.snapshot(named)
    version = ".".join(map(str, session._python or ()))
    assert re.search(rf"^ {named} +{version} +\d+\.\d MiB +just now *$", command("list")[1], re.MULTILINE)
    (found,) = (one for one in json.loads(command("list", "--json")[1]) if one["name"] == named)
    assert (found["path"], found["size"], found["python"]) == (str(path), path.stat().st_size, version)
    shown = command("show", named)[1]
    assert re.search(rf"^ file +{path} *$", shown, re.MULTILINE)
    assert "dependencies" not in shown  # it has none
    assert json.loads(command("show", named, "--json")[1]) == found
    line = [sys.executable, "-m", "pysbx", "sessions", "restore", named, "--memory", "300"]
    for _ in range(2):  # nothing that is done at the prompt is saved
        done = subprocess.run(
            line, input="x += 1; x\nraise SystemExit(7)\n", capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (7, ">>> 42\n>>> ")
    said = f"pysbx: saved session '{path}': env: it was saved with others: restore it with the same\n"
    assert command("restore", named, "--env", "A=1") == (125, "", said)
    first, second, _ = parts(path)
    content = answer_frame.unpack(second)
    for made in (float("inf"), float("-inf"), float("nan"), -1e300, "x"):  # the file may say anything
        rewrite(path, first, msgpack.packb({**content, "about": {**content["about"], "made": made}}))
        assert re.search(rf"^ {named} +{version} ", command("list")[1], re.MULTILINE)
    path.write_bytes(b"damaged")
    assert re.search(rf"^ {named} .*it is not a saved session", command("list")[1], re.MULTILINE)
    assert command("show", named)[0] == 125
    other = tmp_path / "other"
    other.touch(0o600)
    said = f"pysbx: saved session '{other}': it is not a saved session, or its end is missing\n"
    assert command("remove", str(other)) == (125, "", said)
    assert command("remove", named) == (0, "", "")
    assert other.exists() and not path.exists()
    said = f"pysbx: saved session '{path}': there is none: `pysbx sessions list` lists them\n"
    assert command("remove", named) == (125, "", said)
    assert command("remove", "a b")[0] == 2
