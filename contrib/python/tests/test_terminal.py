"""Sandbox.terminal(): a shell at a terminal of a session."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from pysbx import Sandbox, SandboxError
from pysbx.calls.terminal import Terminal

SECONDS = 30.0
# Prints the state of `sleep`, and whether its process group is the one in the foreground of its terminal: proc(5).
IN_FOREGROUND = "awk '$2 == \"(sleep)\" { print $3, $5 == $8 }' /proc/[0-9]*/stat"


@pytest.fixture
def session() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def said(terminal: Terminal, wanted: str) -> str:
    """Return what a terminal shows, until it contains a text."""
    shown, deadline = "", time.monotonic() + SECONDS
    while wanted not in shown:
        part = terminal.read(max(0.0, deadline - time.monotonic()))
        assert part, (wanted, shown)
        shown += part.decode()
    return shown


def rest(terminal: Terminal) -> str:
    """Return what a terminal shows until its program ends."""
    shown = b""
    while part := terminal.read(SECONDS):
        shown += part
    return shown.decode()


def commands(session: Sandbox) -> str:
    """Return the commands that run in a session."""
    return session.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def ends(session: Sandbox, command: str) -> None:
    """Wait until a command does not run any more."""
    deadline = time.monotonic() + SECONDS
    while command in commands(session):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.root
def test_a_shell_has_a_terminal_of_a_size(session: Sandbox) -> None:
    with session.terminal(rows=30, columns=100) as shell:
        shell.write(b"tty; stty size; echo $TERM; exit 3\n")
        shown = rest(shell)
        assert "/dev/pts/" in shown and "30 100" in shown and "xterm-256color" in shown
        assert shell.exit_code == 3


def test_another_size_is_a_signal(session: Sandbox) -> None:
    with session.terminal() as shell:
        shell.write(b"trap 'echo changed to $(stty size)' WINCH; echo re''ady\n")
        said(shell, "ready")
        shell.resize(50, 132)
        shell.write(b"\n")
        said(shell, "changed to 50 132")
        for rows, columns in ((0, 80), (24, 1001), (24, True), ("24", 80)):
            with pytest.raises(ValueError, match=r"^(rows|columns): "):
                shell.resize(rows, columns)  # type: ignore[arg-type]


def test_ctrl_c_ends_the_job_and_not_the_shell(session: Sandbox) -> None:
    with session.terminal() as shell:
        shell.write(b"sleep 4321\n")
        while "sleep 4321" not in commands(session):
            time.sleep(0.02)
        shell.write(b"\x03")
        shell.write(b"echo code $?\n")
        said(shell, "code 130")
        ends(session, "sleep 4321")


@pytest.mark.root
def test_jobs_can_be_stopped_and_continued(session: Sandbox) -> None:
    with session.terminal() as shell:
        shell.write(b"sleep 4322\n")
        while "sleep 4322" not in commands(session):
            time.sleep(0.02)
        shell.write(b"\x1a")
        said(shell, "Stopped")
        shell.write(b"bg; jobs; echo do''ne\n")
        assert "Running" in said(shell, "done")
        shell.write(b"fg\n")
        while session.shell(IN_FOREGROUND).stdout != "S 1\n":
            time.sleep(0.02)
        shell.write(b"\x03echo code $?\n")
        said(shell, "code 130")


def test_closing_ends_the_programs(session: Sandbox) -> None:
    shell = session.terminal()
    shell.write(b"(trap '' HUP; sleep 4323) & sleep 4324\n")
    while not all(one in commands(session) for one in ("sleep 4323", "sleep 4324")):
        time.sleep(0.02)
    shell.close()
    ends(session, "sleep 4323")
    ends(session, "sleep 4324")
    assert shell.read() == b""
    with pytest.raises(SandboxError, match="the terminal has ended"):
        shell.write(b"x")


def test_runs_and_the_terminal_share_the_files(session: Sandbox) -> None:
    session.put({"given": "from the host"})
    with session.terminal() as shell:
        shell.write(b"cat given; echo made >made; echo do''ne\n")
        assert "from the host" in said(shell, "done")
        assert session.run("print(open('made').read())").stdout == "made\n\n"


def test_python_reads_lines_with_its_own_editing(session: Sandbox) -> None:
    with session.terminal(["python3", "-q"], env={"A": "b"}) as python:
        said(python, ">>> ")
        python.write(b"import os; os.environ['A'] * 3\n")
        said(python, "'bbb'\r\n>>> ")  # before the prompt, the end of the input would be lost
        python.write(b"\x04")
        rest(python)
        assert python.exit_code == 0


def test_much_output_waits_for_its_reader(session: Sandbox) -> None:
    with session.terminal("yes | head -c 300000; echo en''d; sleep 4325") as shell:
        time.sleep(0.5)
        shown = said(shell, "end")
        assert shown.count("y") == 150_000
    with session.terminal("yes") as shell:
        time.sleep(0.5)
        shell.write(b"\x03")  # although there is no reader
        rest(shell)
        assert shell.exit_code == 130


def test_what_cannot_be_started_says_why(session: Sandbox) -> None:
    with pytest.raises(SandboxError, match=r"the terminal cannot be started: .*none.*No such file"):
        session.terminal(["/none"])
    with pytest.raises(SandboxError, match=r"the terminal cannot be started: .*No such file"):
        session.terminal(cwd="/none")
    with pytest.raises(ValueError, match=r"^columns: 0"):
        session.terminal(columns=0)
    with pytest.raises(SandboxError, match="analysis"):
        Sandbox(profile="minimal").terminal()
    with pytest.raises(SandboxError, match="a terminal is part of a container"):
        Sandbox(isolation="process").terminal()


def test_there_are_so_many_and_no_more(session: Sandbox) -> None:
    many = [session.terminal() for _ in range(8)]
    with pytest.raises(SandboxError, match="8 terminals, which is the most"):
        session.terminal()
    for one in many:
        one.close()
    deadline = time.monotonic() + SECONDS
    while session.shell("ls /dev/pts").stdout.split() != ["ptmx"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    session.terminal().close()


def test_a_terminal_ends_with_its_session() -> None:
    with Sandbox() as session:
        shell = session.terminal()
        shell.write(b"echo he''re\n")
        said(shell, "here")
    # At most the line's end and a prompt were still on their way.
    assert re.fullmatch(r"(\r\n)?(\S*[#$] )?", rest(shell).replace("\x1b[?2004h", ""))
