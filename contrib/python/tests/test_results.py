"""What a run leaves is complete: its traceback, its files however it ends, and the names of what is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pysbx import Sandbox, explain, run_code
from tests.test_command import pysbx

RAISES = (
    "print('before')\n1/0",
    "import atexit, sys\natexit.register(lambda: sys.stderr.write('the last\\n'))\nraise ValueError('é\\n')",
    "def f():\n    raise KeyError(1)\ntry:\n    f()\nexcept KeyError as error:\n    raise OSError(2, 'x') from error",
    "import sys\nsys.stderr.write('no end of line')\nassert False",
    "raise KeyboardInterrupt",
    "x = (",
)


@pytest.mark.parametrize("source", RAISES)
def test_standard_error_is_that_of_a_program(source: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "program.py"]
    there = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True, check=False)
    seen: list[str] = []
    done = run_code(source, files={"program.py": source}, name="program.py", on_stderr=seen.append)
    assert done.stderr == there.stderr.replace(str(tmp_path), "/work")
    assert "".join(seen) == done.stderr
    assert done.stdout == there.stdout
    assert done.error is not None
    assert done.error.traceback in done.stderr
    with Sandbox() as session:
        again = session.run(source)
    assert again.error is not None
    assert again.error.traceback in again.stderr


def test_explain_reads_standard_error() -> None:
    report = explain(run_code("1/0").stderr)
    assert report is not None
    assert (report.type, report.line) == ("ZeroDivisionError", 1)


def test_the_command_prints_a_traceback_once() -> None:
    for source in ("1/0", "import sys; sys.stderr.close(); 1/0", "import os; os.close(2); 1/0"):
        done = pysbx("run", "-c", source)
        assert done.returncode == 1
        assert done.stderr.count("ZeroDivisionError: division by zero") == 1
    done = pysbx("run", "--output-limit", "0", "-c", "1/0")
    assert "ZeroDivisionError: division by zero" in done.stderr
    done = pysbx("shell", text="1/0\n")
    assert done.stderr.count("ZeroDivisionError: division by zero") == 1
