"""`pysbx shell` and `pysbx run` at a terminal: interrupts, input, completion, history."""

# once: the caller's rights make no difference

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from pysbx import Sandbox
from tests.servers import PROGRAM


def begin(*arguments: str) -> Any:
    """Begin `pysbx shell`, or another command, in a terminal."""
    return pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], *(arguments or ["shell"])], encoding="utf-8", timeout=60)


def end(terminal: Any) -> int:
    """Return the exit code of the command, at its end."""
    terminal.expect(pexpect.EOF)
    code: int = terminal.wait()
    return code


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell that has begun, with a history of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = begin()
    found.expect_exact(">>> ")
    banner = found.before
    assert "no network, 512 MiB, 30 seconds for each statement" in banner
    assert f"Python {sys.version_info[0]}." in banner
    yield found


def test_an_interrupt_ends_the_statement_and_not_the_shell(terminal: Any) -> None:
    terminal.send("x = 'kept'; import time; print('running'.upper()); time.sleep(60)\n")
    terminal.expect_exact("RUNNING")
    terminal.send("\x03")
    terminal.expect_exact("KeyboardInterrupt")
    terminal.expect_exact(">>> ")
    terminal.send("x * 2\n")
    terminal.expect_exact("keptkept")
    terminal.expect_exact(">>> ")  # an end that is typed before the line is edited is no end
    terminal.send("\x04")
    assert end(terminal) == 0


def test_a_statement_that_catches_interrupts_is_ended_by_the_third(terminal: Any) -> None:
    terminal.send("import signal; x = signal.signal(2, 1); print('running'.upper())\nwhile True: pass\n\n")
    terminal.expect_exact("RUNNING")
    terminal.expect_exact("... ")
    for _ in range(3):
        time.sleep(0.5)
        terminal.send("\x03")
    terminal.expect_exact("the session is ended")
    assert end(terminal) == 130


def test_input_is_what_is_typed(terminal: Any) -> None:
    terminal.send("name = input('who? '.upper())\n")
    terminal.expect_exact("WHO? ")
    terminal.send("me\n")
    terminal.expect_exact(">>> ")
    terminal.send("name.upper(); import sys; more = sys.stdin.read(); print('at', 'end')\n")
    terminal.send("first\n")
    time.sleep(0.3)
    terminal.send("\x04")
    terminal.expect_exact("at end")
    terminal.expect_exact(">>> ")
    terminal.send("name.upper() + more\n")
    terminal.expect_exact("'MEfirst\\n'")


def test_lines_that_a_statement_has_not_read_are_for_the_prompt(terminal: Any) -> None:
    terminal.send("import time; print('busy'.upper()); time.sleep(1)\n")
    terminal.expect_exact("BUSY")
    terminal.send("6 * 7\n")
    terminal.expect_exact(">>> 6 * 7")
    terminal.expect_exact("42")


def test_the_last_value_has_a_name(terminal: Any) -> None:
    terminal.send("20\n")
    terminal.expect_exact("\n20")
    terminal.send("_ + 22\n")
    terminal.expect_exact("42")


def test_names_of_the_session_are_completed(terminal: Any) -> None:
    terminal.send("long_name_of_a_list = [1]\n")
    terminal.expect_exact(">>> ")
    terminal.send("len(long_na\t)\n")
    terminal.expect_exact("long_name_of_a_list)")
    terminal.expect_exact("1")
    terminal.send("long_name_of_a_list.app\t42); long_name_of_a_list\n")
    terminal.expect_exact("append(")
    terminal.expect_exact("[1, 42]")
    terminal.send("if 1:\n\tprint('in' + 'dented')\n\n")
    terminal.expect_exact("indented")


def test_lines_are_remembered_from_one_shell_to_the_next(terminal: Any, tmp_path: Path) -> None:
    terminal.send("'first' + 'line'\n")
    terminal.expect_exact("'firstline'")
    terminal.expect_exact(">>> ")
    terminal.send("\x04")
    assert end(terminal) == 0
    assert (tmp_path / "pysbx/history").stat().st_mode & 0o777 == 0o600
    again = begin()
    again.expect_exact(">>> ")
    again.send("\x1b[A\n")  # cursor up
    again.expect_exact("'firstline'")
    again.expect_exact(">>> ")
    again.send("exit(3)\n")
    assert end(again) == 3


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
    terminal = begin("run", "-c", catching)
    terminal.expect_exact("RUNNING")
    terminal.send("\x03")
    terminal.expect_exact("undone")
    terminal.expect_exact("KeyboardInterrupt")
    assert end(terminal) == 130


def test_ctrl_c_reaches_the_programs_of_the_program() -> None:
    terminal = begin("run", "-c", "import os; print('running'.upper()); os.system('sleep 60 | cat'); print('after')")
    terminal.expect_exact("RUNNING")
    time.sleep(0.3)
    terminal.send("\x03")
    terminal.expect_exact("KeyboardInterrupt")
    assert end(terminal) == 130


def test_the_third_ctrl_c_kills_a_program_that_catches_them() -> None:
    terminal = begin("run", "-c", "import signal; signal.signal(2, 1); print('running'.upper())\nwhile True: pass")
    terminal.expect_exact("RUNNING")
    for _ in range(3):
        time.sleep(0.3)
        terminal.send("\x03")
    terminal.expect_exact("the program catches Ctrl-C: it is killed")
    assert end(terminal) == 130


def test_a_program_that_is_typed_has_an_end() -> None:
    terminal = begin("run", "-")
    terminal.expect_exact("type the program, and Ctrl-D at its end")
    terminal.send("print('said'.upper())\n\x04")
    terminal.expect_exact("SAID")
    assert end(terminal) == 0
