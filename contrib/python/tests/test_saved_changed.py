"""A saved session that is damaged, that was changed, or that does not fit is refused, or harmless."""

# once: the caller's rights make no difference

from __future__ import annotations

import array
import errno
import json
import os
import random
import shutil
import signal
import socket
import struct
import tempfile
from pathlib import Path
from typing import Any

import msgpack
import pytest

from pysbx import Mount, Sandbox, SandboxError
from pysbx.base import runtime
from pysbx.calls import saved
from pysbx.calls.prepare import prepare
from pysbx.container import answer_frame, ready
from pysbx.container.container import FOR_STATE, Container
from tests.conftest import descriptors, own_containers
from tests.servers import wait_until
from tests.test_fork import value

pytestmark = pytest.mark.usefixtures("warm_starts")


def test_a_file_that_is_not_private_or_not_there_is_refused(session: Sandbox, path: Path) -> None:
    session.run("")
    session.snapshot(path)
    before = descriptors()
    path.chmod(0o640)
    with pytest.raises(SandboxError, match=r"not a file that belongs to user .* mode 0600"):
        Sandbox.restore(path)
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to(path)
    for wrong, reason in (
        (link, "Too many levels"),
        (path.with_name("none"), "there is none"),
        (path.parent, "mode"),
        ("/proc/self/mem", "Input/output error"),  # as of a disk that has failed
    ):
        with pytest.raises(SandboxError, match=reason):
            Sandbox.restore(wrong)
    for name in ("../x y", "", ".hidden", "a b", "x" * 65, 7):
        with pytest.raises((ValueError, TypeError, SandboxError)):
            Sandbox.restore(name)  # type: ignore[arg-type]
    assert descriptors() == before


def test_a_container_that_cannot_begin_is_no_error_of_the_file(
    session: Sandbox,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    session.snapshot(path)
    monkeypatch.setattr(ready, "take_for_state", fail)
    with pytest.raises(SandboxError, match=r"^the session cannot begin: Too many open files$"):
        Sandbox.restore(path)


def test_a_damaged_file_is_refused(session: Sandbox, path: Path) -> None:
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


def test_a_file_that_was_changed_on_purpose_is_refused_or_harmless(session: Sandbox, path: Path) -> None:
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
    start = content["about"]["start"]
    for files in (
        7,
        {"../outside": [1, b"", False, None]},
        {"/etc/x": [1, b"", False, b"x"]},
        {"a": [1, 9, False, None]},
    ):
        changed = {**content["about"], "start": {**start, "files": files}}
        rewrite(path, first, msgpack.packb({**content, "about": changed}))
        with pytest.raises(SandboxError, match="its files at the start cannot be read"):
            Sandbox.restore(path)
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


def test_another_kernel_is_named(session: Sandbox, path: Path) -> None:
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
    session: Sandbox,
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


def test_a_state_that_a_program_keeps_has_only_the_pages_that_differ(session: Sandbox, path: Path) -> None:
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


def test_another_base_or_none_is_named(session: Sandbox, tmp_path: Path) -> None:
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
    session: Sandbox,
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


def test_a_signal_ends_a_runtime_whose_container_waits_for_a_snapshot(session: Sandbox) -> None:
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
