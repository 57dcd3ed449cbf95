"""`pysbx shell` and `pysbx run` at a terminal: interrupts, input, completion, history."""

# once: the caller's rights make no difference

from __future__ import annotations

import contextlib
import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx import Sandbox
from tests.servers import PROGRAM


class Terminal:
    """A terminal in which `pysbx shell` or another command runs."""

    def __init__(self, *arguments: str) -> None:
        self.child, self.descriptor = pty.fork()
        if self.child == 0:
            os.execv(sys.executable, [*PROGRAM, *(arguments or ["shell"])])
        self.said = b""

    def until(self, text: str) -> str:
        """Read up to a text, and behind it the next time; return what came before it."""
        while text.encode() not in self.said:
            assert select.select([self.descriptor], [], [], 60)[0], f"{text!r} does not come: {self.said!r}"
            self.said += os.read(self.descriptor, 1 << 16)
        before, _, self.said = self.said.partition(text.encode())
        return before.decode()

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        """Return the exit code of the shell."""
        with contextlib.suppress(OSError):  # a terminal without a program
            while os.read(self.descriptor, 1 << 16):
                pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        os.close(self.descriptor)
        return code


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A shell that has begun, with a history of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = Terminal()
    banner = found.until(">>> ")
    assert "no network, 512 MiB, 30 seconds for each statement" in banner
    assert f"Python {sys.version_info[0]}." in banner
    yield found


def test_an_interrupt_ends_the_statement_and_not_the_shell(terminal: Terminal) -> None:
    terminal.type("x = 'kept'; import time; print('running'.upper()); time.sleep(60)\n")
    terminal.until("RUNNING")
    terminal.type("\x03")
    terminal.until("KeyboardInterrupt")
    terminal.until(">>> ")
    terminal.type("x * 2\n")
    terminal.until("keptkept")
    terminal.until(">>> ")  # an end that is typed before the line is edited is no end
    terminal.type("\x04")
    assert terminal.end() == 0


def test_a_statement_that_catches_interrupts_is_ended_by_the_third(terminal: Terminal) -> None:
    terminal.type("import signal; x = signal.signal(2, 1); print('running'.upper())\nwhile True: pass\n\n")
    terminal.until("RUNNING")
    terminal.until("... ")
    for _ in range(3):
        time.sleep(0.5)
        terminal.type("\x03")
    terminal.until("the session is ended")
    assert terminal.end() == 130


def test_input_is_what_is_typed(terminal: Terminal) -> None:
    terminal.type("name = input('who? '.upper())\n")
    terminal.until("WHO? ")
    terminal.type("me\n")
    terminal.until(">>> ")
    terminal.type("name.upper(); import sys; more = sys.stdin.read(); print('at', 'end')\n")
    terminal.type("first\n")
    time.sleep(0.3)
    terminal.type("\x04")
    terminal.until("at end")
    terminal.until(">>> ")
    terminal.type("name.upper() + more\n")
    terminal.until("'MEfirst\\n'")


def test_lines_that_a_statement_has_not_read_are_for_the_prompt(terminal: Terminal) -> None:
    terminal.type("import time; print('busy'.upper()); time.sleep(1)\n")
    terminal.until("BUSY")
    terminal.type("6 * 7\n")
    terminal.until(">>> 6 * 7")
    terminal.until("42")


def test_the_last_value_has_a_name(terminal: Terminal) -> None:
    terminal.type("20\n")
    terminal.until("\n20")
    terminal.type("_ + 22\n")
    terminal.until("42")


def test_names_of_the_session_are_completed(terminal: Terminal) -> None:
    terminal.type("long_name_of_a_list = [1]\n")
    terminal.until(">>> ")
    terminal.type("len(long_na\t)\n")
    terminal.until("long_name_of_a_list)")
    terminal.until("1")
    terminal.type("long_name_of_a_list.app\t42); long_name_of_a_list\n")
    terminal.until("append(")
    terminal.until("[1, 42]")
    terminal.type("if 1:\n\tprint('in' + 'dented')\n\n")
    terminal.until("indented")


def test_lines_are_remembered_from_one_shell_to_the_next(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("'first' + 'line'\n")
    terminal.until("'firstline'")
    terminal.until(">>> ")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert (tmp_path / "pysbx/history").stat().st_mode & 0o777 == 0o600
    again = Terminal()
    again.until(">>> ")
    again.type("\x1b[A\n")  # cursor up
    again.until("'firstline'")
    again.until(">>> ")
    again.type("exit(3)\n")
    assert again.end() == 3


def test_completion_of_hostile_names_has_bounds() -> None:
    forged = "import sys\nsys.modules['pysbx_inside.prompt'].complete = lambda request: {'names': %s}"
    with Sandbox() as session:
        assert "print(" in session._complete("prin")
        assert session._complete("n" * 1000) == []
        session.run("class Slow:\n    def __dir__(self):\n        while True: pass\nslow = Slow(); x = 41")
        assert session._complete("slow.a") == []
        assert session.run("x + 1").value == "42"
        session.run(forged % "['a' * 201, 5, 'b'] + ['c'] * 1000")
        assert session._complete("a") == ["b"] + ["c"] * 197
        session.run(forged % "5")
        assert session._complete("a") == []


def test_ctrl_c_is_for_the_program() -> None:
    catching = "import time\ntry:\n    print('running'.upper()); time.sleep(60)\nfinally: print('undone')"
    terminal = Terminal("run", "-c", catching)
    terminal.until("RUNNING")
    terminal.type("\x03")
    terminal.until("undone")
    terminal.until("KeyboardInterrupt")
    assert terminal.end() == 130


def test_the_third_ctrl_c_kills_a_program_that_catches_them() -> None:
    terminal = Terminal("run", "-c", "import signal; signal.signal(2, 1); print('running'.upper())\nwhile True: pass")
    terminal.until("RUNNING")
    for _ in range(3):
        time.sleep(0.3)
        terminal.type("\x03")
    terminal.until("the program catches Ctrl-C: it is killed")
    assert terminal.end() == 130


def test_a_program_that_is_typed_has_an_end() -> None:
    terminal = Terminal("run", "-")
    terminal.until("type the program, and Ctrl-D at its end")
    terminal.type("print('said'.upper())\n\x04")
    terminal.until("SAID")
    assert terminal.end() == 0
