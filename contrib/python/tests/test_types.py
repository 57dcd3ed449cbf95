"""The package's annotations, as a type checker sees them in programs that use it."""

# once: the caller's rights make no difference

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

from pysbx import Sandbox, SandboxOptions, run_code, sandbox, sandbox_async
from pysbx.options.keywords import Unpack
from pysbx.options.options import SHOWN

PROGRAM = """
import asyncio
from pathlib import Path
from typing_extensions import Unpack

from pysbx import Execution, Mount, Sandbox, SandboxOptions, run_code, sandbox, sandbox_async


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


async def later_(number: int) -> int:
    return number


async def main() -> float:
    return await half(await later(1))


three: int = add(1, 2)
four: str = text(4)
five: int = Counter().more(4)
six: float = asyncio.run(main())
done: Execution = run_code("1", files={Path("a.txt"): "x"}, argv=[Path("a.txt")])
run_code("1", files={"a.txt": "x", "b.bin": b"y"})
with Sandbox() as session:
    seven: str = session.call("a".replace, "a", "b")
    eight: list[int] = session.call(sorted, [2, 1], result="pickle")
    nine: Path = session.call(Path, "a", types=[Path])
    ten: Execution = session.run("1")
    eleven: int = session.call(later_, 1)


def mine(source: str, **options: Unpack[SandboxOptions]) -> str:
    return run_code(source, **options).stdout


mine("1", memory_mb=256, mounts=[Mount(Path("/srv"))], env={"A": "b"}, allow_network=["example.org"])
shared: SandboxOptions = {"timeout_sec": 5, "dependencies": ["pandas"], "warm": "require", "virtualenv": Path("v")}
one = Sandbox(**shared)
two = sandbox(types=[], **shared)
"""


# A line of a program, and what is said of it.
WRONG = (
    ("add('one', 2)", 'incompatible type "str"; expected "int"'),
    ("text()", 'Missing positional argument "number"'),
    ("run_code('1', memory_gb=1)", 'Unexpected keyword argument "memory_gb" for "run_code"'),
    ("run_code('1', memory_mb='1')", 'has incompatible type "str"; expected "int"'),
    ("Sandbox(warm='yes')", "expected \"Literal['auto', 'require', 'off']\""),
    ("sandbox(timeout=5)", 'Unexpected keyword argument "timeout"'),
    ("sandbox_async(cpus='2')", "No overload variant"),
    ("one.call(len)", "No overload variant"),
    ("Sandbox(session=True)", 'Unexpected keyword argument "session"'),
    ("mine('1', file='x')", 'Unexpected keyword argument "file" for "mine"'),
)


def test_a_program_that_uses_the_package_is_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(line for line, _ in WRONG))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "mypy", program.name]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    found = [line for line in said.splitlines() if ": error: " in line]
    first = PROGRAM.count("\n") + 1
    for number, (line, (_, said)) in enumerate(zip(found, WRONG, strict=True), first):
        assert line.startswith(f"program.py:{number}: ")
        assert said in line


def test_the_options_are_those_that_there_are() -> None:
    assert sorted(SandboxOptions.__annotations__) == SHOWN
    hints = [get_type_hints(function) for function in (run_code, Sandbox.__init__, sandbox, sandbox_async)]
    assert all(Unpack[SandboxOptions] in found.values() for found in hints)
