"""The package's annotations, as a type checker sees them in programs that use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio
from pathlib import Path

from pysbx import Execution, Sandbox, run_code, sandbox, sandbox_async


@sandbox(memory_mb=256)
def add(one: int, two: int) -> int:
    return one + two


@sandbox
def text(number: int) -> str:
    return str(number)


@sandbox
async def later(number: int) -> int:
    return number


@sandbox_async(timeout_sec=5)
def half(number: int) -> float:
    return number / 2


class Counter:
    @sandbox
    def more(self, number: int) -> int:
        return number + 1


async def main() -> float:
    return await half(await later(1))


three: int = add(1, 2)
four: str = text(4)
five: int = Counter().more(4)
six: float = asyncio.run(main())
done: Execution = run_code("1", files={Path("a.txt"): "x"}, argv=[Path("a.txt")])
with Sandbox() as session:
    seven: Execution = session.run("1")
"""


def check(program: Path) -> str:
    """Return what mypy says about a program outside of the package."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "/dev/null", program.name]
    return subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False).stdout


def test_a_program_that_uses_the_package_is_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert check(program) == ""
    program.write_text(f'{PROGRAM}\nadd("one", 2)\ntext()\n')
    said = check(program)
    assert 'incompatible type "str"; expected "int"' in said
    assert 'Missing positional argument "number"' in said
