"""Shell commands in a session, and processes in the background."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pysbx import Process, Sandbox, SandboxError, SandboxTimeoutError
from pysbx.calls.processes import ProcessOutput, processes_of
from pysbx.container.exchange import MALFORMED


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session for tests that leave it usable."""
    with Sandbox(max_processes=32, output_limit=1000) as made:
        yield made
        assert made.run("6 * 7").value == "42"


def until(one: Process, text: str) -> ProcessOutput:
    """Read until a text has come."""
    seen = ProcessOutput()
    deadline = time.monotonic() + 30
    while text not in seen.stdout + seen.stderr:
        assert time.monotonic() < deadline, seen
        more = one.read(wait_sec=1)
        seen = ProcessOutput(seen.stdout + more.stdout, seen.stderr + more.stderr, more.left_out, more.exit_code)
    return seen


def test_a_command_has_output_and_an_exit_code(session: Sandbox) -> None:
    session.put({"a b.txt": "text"})
    done = session.shell("ls; echo wrong >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.error) == ("a b.txt\n", "wrong\n", 3, None)
    assert session.shell(["cat", "a b.txt"]).stdout == "text"
    assert session.shell("cat; pwd; echo $NAME", "in\n", cwd="/tmp", env={"NAME": "x"}).stdout == "in\n/tmp\nx\n"
    assert session.shell("kill -9 $$").exit_code == 137
    missing = session.shell(["none-of-that-name"])
    assert missing.exit_code == 127
    assert missing.error
    assert missing.error.hint is None  # the hints are about files that a program reads
    assert missing.error is not None and "No such file" in missing.error.message
    assert session.shell("nonsense-of-that-name").exit_code == 127
    assert dict(session.shell("echo 1 >/output/made").artifacts) == {"made": b"1\n"}


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_commands_find_python_also_where_the_system_has_python3_alone(isolation: Any) -> None:
    with Sandbox(isolation=isolation) as session:
        session.put({"a.py": "import sys; print(sys.argv[1])"})
        assert session.shell("python a.py 'a b'").to_text() == "a b"
        assert session.run("import os; os.system('python a.py c')").stdout == "c\n"
        assert session.run("import subprocess; subprocess.run(['python', 'a.py', 'd'])").stdout == "d\n"


def test_the_state_of_the_session_is_that_of_its_code(session: Sandbox) -> None:
    session.run("import os; os.chdir('/tmp'); os.environ['GIVEN'] = 'yes'; x = 41")
    assert session.shell("pwd; echo $GIVEN").stdout == "/tmp\nyes\n"
    assert session.run("os.chdir('/work'); x + 1").value == "42"


def test_commands_that_keep_or_set_the_mode_of_a_file_work(session: Sandbox) -> None:
    made = "echo text >a && chmod 640 a && cp -p a b && cp -a a c && install -m 750 a d && sed -i s/text/other/ a"
    done = session.shell(f"{made} && stat -c '%n %a' a b c d; rm -f a b c d")
    assert (done.stdout, done.stderr) == ("a 640\nb 640\nc 640\nd 750\n", "")


def test_a_command_that_takes_too_long_is_ended_with_its_children() -> None:
    with Sandbox(timeout_sec=60) as session:
        session.run("x = 41")
        for command in ("echo begun; sleep 77", "trap '' INT; echo begun; sleep 77 & wait; sleep 77"):
            done = session.shell(command, timeout_sec=0.5)
            assert (done.timed_out, done.exit_code, done.stdout) == (True, 124, "begun\n")
        sleeping = "import glob; [1 for name in glob.glob('/proc/[0-9]*/cmdline') if '77' in open(name).read()]"
        assert session.run(f"{sleeping}, x + 1").value == "([], 42)"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda session: session.shell(5), "command: 5 is not a list"),
        (lambda session: session.shell(""), "command: it is empty"),
        (lambda session: session.shell([5]), "command: 5 is neither"),
        (lambda session: session.shell("true", env={"A": 1}), "env: names and values"),
        (lambda session: session.shell("true", stdin=5), "stdin: int is neither"),
        (lambda session: session.shell("true", cwd=5), "cwd: 5 is neither"),
        (lambda session: session.shell("true", timeout_sec=0), "timeout_sec: 0 is not"),
        (lambda session: session.start("true", cwd="/none"), "cannot be started: .*No such file"),
        (lambda session: session.start(["a\0b"]), "cannot be started: .*null byte"),
        (lambda session: session.start("true").read(wait_sec=-1), "wait_sec: -1 is not"),
        (lambda session: session.start("true").signal("NONE"), "signal: 'NONE' is neither"),
        (lambda session: session.start("true").signal(0), "signal: 0 is neither"),
    ],
)
def test_what_cannot_be_meant_does_not_end_the_session(
    use: Callable[[Any], object], said: str, session: Sandbox
) -> None:
    with pytest.raises((TypeError, ValueError, SandboxError), match=said):
        use(session)
    assert session.run("1").value == "1"


def test_a_profile_that_inspects_code_allows_no_command() -> None:
    with Sandbox(profile="minimal") as session:
        for use in (session.shell, session.start):
            with pytest.raises(SandboxError, match="cannot inspect commands"):
                use("id")


def test_a_process_in_the_background(session: Sandbox) -> None:
    one = session.start("echo begun; while read line; do echo got $line; done; echo end >&2; exit 5")
    assert until(one, "begun\n").exit_code is None
    assert one.exit_code is None
    one.write("one\n")
    assert until(one, "got one\n").stdout == "got one\n"
    assert session.run("6 * 7").value == "42"
    one.write("two\n", close=True)
    assert one.wait() == 5
    last = until(one, "end\n")
    assert (last.stdout, last.stderr) == ("got two\n", "end\n")
    assert one.exit_code == 5
    assert (one.pid, one.command, 5) in [(found.pid, found.command, found.exit_code) for found in session.processes()]
    with pytest.raises(SandboxError, match=f"^process {one.pid}: "):
        one.write("x")
    with pytest.raises(SandboxError, match=f"^process {one.pid}: "):
        one.signal("INT")


def test_a_signal_reaches_what_a_process_has_started(session: Sandbox) -> None:
    one = session.start("sleep 60 | sleep 60; exit 1")
    with pytest.raises(SandboxTimeoutError, match=r"has not ended after 0\.1 seconds"):
        one.wait(0.1)
    one.signal(signal.SIGTERM)
    assert one.wait() == 143
    assert session.start("kill -INT $$; sleep 60").wait() == 130  # its first action for SIGINT is the default one


def test_a_process_never_waits_for_its_reader_and_its_output_is_bounded(session: Sandbox) -> None:
    one = session.start("yes | head -c 10000000; echo END")
    assert one.wait() == 0
    seen = until(one, "END")
    assert len(seen.stdout) == 1000
    assert seen.left_out == 10_000_004 - 1000


def test_an_interrupt_of_a_run_is_not_lost_to_the_reader_of_a_process(session: Sandbox) -> None:
    one = session.start("sleep 60")
    done = session.run("import time; time.sleep(50)", timeout_sec=0.5)
    assert (done.timed_out, done.usage.wall_sec < 10) == (True, True)
    one.signal("KILL")


def test_input_that_is_not_read_is_an_error(session: Sandbox) -> None:
    one = session.start("sleep 60")
    with pytest.raises(SandboxError, match=r"has read \d+ of 1000000 bytes of its input"):
        one.write(b"x" * 1_000_000)
    one.signal("KILL")


def test_a_session_with_a_process_is_not_forked() -> None:
    with Sandbox(warm="require") as session:
        one = session.start("sleep 60")
        with pytest.raises(SandboxError, match=r"process \d+ \(.*\) is running: end it"):
            session.fork()
        one.signal("KILL")
        one.wait()
        one.read(wait_sec=5)
        with session.fork() as fork:
            assert fork.run("6 * 7").value == "42"


def answering(answer: dict[str, Any]) -> Process:
    """Return a process of a session that gives one answer to all requests."""
    return Process(lambda request, wait: answer, 5, "", 10)


def test_what_code_makes_of_an_answer_is_checked() -> None:
    forged = "import sys; sys.modules['pysbx_inside.commands'].{0} = lambda *about: {1!r}"
    with Sandbox() as session:
        session.start("true").wait()
        session.run(forged.format("start", {"pid": -5}))
        session.run(forged.format("listing", {"processes": [[1, 2, 3]]}))
        with pytest.raises(SandboxError, match=MALFORMED):
            session.start("true")
        with pytest.raises(SandboxError, match=MALFORMED):
            session.processes()
    lists: list[dict[str, Any]] = [{}, {"processes": 5}, {"processes": [[1]]}, {"processes": [[1, "a", None]] * 1001}]
    for answer in lists:
        with pytest.raises(SandboxError, match=MALFORMED):
            processes_of(answer, lambda request, wait: {}, 10)
    large: dict[str, Any] = {"stdout": b"", "stderr": b"x" * 11, "left_out": 0}
    for answer in ({}, large, {"stdout": 1, "stderr": b"", "left_out": 0}, large | {"stderr": b"", "left_out": "x"}):
        with pytest.raises(SandboxError, match=MALFORMED):
            answering(answer).read()


def test_processes_end_with_their_session() -> None:
    mark = f"9{os.getpid()}"
    with Sandbox() as session:
        session.start(f"sleep {mark}")
    running = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                running.append(file.read())
        except OSError:
            continue
    assert not [line for line in running if mark.encode() in line.split(b"\0")]
