"""Sessions that are saved by name or path for another program, also if a program is killed meanwhile."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from pysbx import Sandbox, SandboxError, SandboxOptionError
from pysbx.base import runtime
from pysbx.calls import saved
from pysbx.command.main import main
from pysbx.container import answer_frame, ready
from pysbx.container.container import Container
from tests.conftest import own_containers
from tests.test_fork import value
from tests.test_saved_changed import parts, rewrite

pytestmark = pytest.mark.usefixtures("warm_starts")


@pytest.fixture
def named() -> Iterator[str]:
    """A name for a saved session, which is removed."""
    name = f"test-{os.getpid()}"
    yield name
    (saved.directory() / name).unlink(missing_ok=True)


def elsewhere(program: str, *arguments: object) -> str:
    """Run a program in another process and return its output."""
    command = [sys.executable, "-c", f"import sys\nfrom pysbx import Sandbox\n{program}", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_program_restores_a_session(session: Sandbox, named: str) -> None:
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


def test_random_numbers_of_restored_sessions_differ(session: Sandbox, path: Path) -> None:
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


def test_limits_are_those_of_the_caller(session: Sandbox, path: Path) -> None:
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


def test_files_for_which_there_is_no_room_are_an_error(session: Sandbox, path: Path) -> None:
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


def test_a_failure_keeps_the_previous_file_and_the_session(session: Sandbox, path: Path) -> None:
    value(session, "x = 1")
    session.snapshot(path)
    before, entries = path.read_bytes(), os.listdir(path.parent)
    value(session, "import threading; e = threading.Event(); t = threading.Thread(target=e.wait); t.start(); x = 2")
    for use in (lambda: session.snapshot(path), session.checkpoint, session.park):
        with pytest.raises(SandboxError, match=r"cannot be (saved|parked): a thread is running \(Thread-.*\): end it"):
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


def test_files_that_no_restore_would_read_keep_the_previous_file(
    session: Sandbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.put("kept", "1")
    session.snapshot(path)
    session.put("large", bytes(60000))  # with what it was at the start
    monkeypatch.setattr(saved, "MAX_STATE", 100000)
    with pytest.raises(SandboxError, match="cannot be saved: its file would have"):
        session.snapshot(path)
    with Sandbox.restore(path) as restored:
        assert list(restored.files()) == ["kept"]


def test_no_device_pipe_or_socket_is_replaced(session: Sandbox, tmp_path: Path) -> None:
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


def test_a_program_that_is_killed_while_it_saves_leaves_the_previous_file(session: Sandbox, path: Path) -> None:
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
    session: Sandbox,
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


def test_a_program_that_is_killed_while_it_restores_leaves_the_file(session: Sandbox, path: Path) -> None:
    value(session, "x = 1")
    session.snapshot(path)
    before = path.read_bytes()
    for place in KILLED_RESTORING:
        killed_at(place, "kill()\nSandbox.restore(path)", path)
        assert (path.read_bytes(), os.listdir(path.parent)) == (before, ["session"]), place
    with Sandbox.restore(path) as restored:
        assert value(restored, "x") == "1"


def test_the_container_begins_before_the_checksum_is_compared(
    session: Sandbox,
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


def test_saved_sessions_are_listed_shown_continued_and_removed(
    session: Sandbox,
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
