"""Runs a program with python3 itself, as a process of its own, to compare it with a sandbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from pysbx import Execution

NAME = "program.py"

# In these programs, python3 keeps what a hook or the main module refers to until files cannot be completed any more.
LATE = ("hook = ", "sys.modules['__main__'] = None", "sys.modules.clear()")
# While its modules go, python3 cannot read lines of source any more.
IGNORED = re.compile(r"Exception ignored .*\nTraceback .*(?:\n  File .*(?:\n {4}.*)?)+")


@dataclass(frozen=True)
class Outcome:
    """The parts of a result that can be compared. A traceback is part of the standard error.

    Attributes:
        code: the exit code; 128 and the number of a signal that ended the program.
        stdout: its output.
        stderr: the same; addresses of objects and the program's directory are replaced.
        files: the files that it wrote to its directory for output.
    """

    code: int
    stdout: str
    stderr: str
    files: dict[str, bytes]


def run_python(source: str, stdin: str = "") -> Outcome:
    """Run a program as a file with python3. Its "/output" and "/work" are directories of its own.

    Output is written line by line, as that of a sandbox, and at a terminal.

    Args:
        source: the text.
        stdin: what it reads from standard input.
    """
    with tempfile.TemporaryDirectory() as top:
        work, output = Path(top, "work"), Path(top, "output")
        work.mkdir()
        output.mkdir()
        text = source.replace("/output", str(output)).replace("/work", str(work))
        Path(work, NAME).write_text(text)
        Path(top, "sitecustomize.py").write_text("import sys; sys.stdout.reconfigure(line_buffering=True)")
        variables = {"PYTHONPATH": top, "PATH": os.environ.get("PATH", "/usr/bin"), "HOME": top, "LANG": "C.UTF-8"}
        done = subprocess.run(
            [sys.executable, str(work / NAME)], cwd=work, env=variables, input=stdin.encode(),
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        files = {path.name: path.read_bytes() for path in output.iterdir()}
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        out, error = (text.decode(errors="replace").replace(f"{top}/", "/") for text in (done.stdout, done.stderr))
        return plain(Outcome(code, out, error, files))


def plain(outcome: Outcome) -> Outcome:
    """Return an outcome without what differs between two runs: addresses, and marks below lines of source."""
    return replace(outcome, stdout=plain_text(outcome.stdout), stderr=plain_text(outcome.stderr))


def plain_text(text: str) -> str:
    """Return a text in the same way; see plain()."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = IGNORED.sub(lambda found: re.sub(r"\n {4}.*", "", found[0]), text)
    text = re.sub(r"repeated \d+ more times", "repeated", text)  # a sandbox has a few frames of its own
    return "".join(line for line in text.splitlines(keepends=True) if not re.fullmatch(r" +[~^]+\n?", line))


def outcome_of(done: Execution) -> Outcome:
    """Return what can be compared of an execution."""
    return plain(Outcome(done.exit_code, done.stdout, done.stderr, dict(done.artifacts)))


def difference(source: str, done: Execution, stdin: str = "") -> str:
    """Run the same program with python3, and return what differs, or ""."""
    expected, found = run_python(source, stdin), outcome_of(done)
    if any(text in source for text in LATE):
        lost = {name: data for name, data in found.files.items() if _may_lose(data, expected.files.get(name))}
        expected = replace(expected, files=expected.files | lost)
    pairs = ((name, getattr(expected, name), getattr(found, name)) for name in ("code", "stdout", "stderr", "files"))
    return "; ".join(f"{name}: {ours!r}, python3: {theirs!r}" for name, theirs, ours in pairs if theirs != ours)


def _may_lose(whole: bytes, rest: bytes | None) -> bool:
    """Tell whether a file is what remains of another one if each process that writes to it loses its end."""
    left = iter(whole)
    return rest is not None and all(byte in left for byte in rest)


# Runs parts as an interactive interpreter does, and writes what came of each as JSON.
DRIVER = """
import ast, contextlib, io, json, sys
parts, scope, found = json.load(sys.stdin), {"__name__": "__main__"}, []
for number, source in enumerate(parts, 1):
    name = "<sandbox>" if number == 1 else f"<sandbox {number}>"
    out, value, error, code = io.StringIO(), None, None, 0
    with contextlib.redirect_stdout(out):
        try:
            tree = ast.parse(source, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), scope)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
                value = None if value is None else repr(value)
        except SystemExit as raised:
            try:
                code = raised.code if raised.code is None or isinstance(raised.code, int) else 1
            except BaseException:
                code = 1
            code, value = (code or 0) & 0xFF if abs(code or 0) < 1 << 63 else 0xFF, None
        except BaseException as raised:
            value, code = None, 130 if type(raised) is KeyboardInterrupt else 1
            line, step = None, raised.__traceback__
            if isinstance(raised, SyntaxError) and raised.filename == name:
                line = raised.lineno
            while step is not None:
                line = step.tb_lineno if step.tb_frame.f_code.co_filename == name else line
                step = step.tb_next
            try:
                text = str(raised)
            except BaseException as second:
                text = f"<{type(second).__name__} in __str__>"
            error = (type(raised).__qualname__, text, line)
    found.append((out.getvalue(), value, error, code))
print(json.dumps(found))
"""


def parts_in_python(sources: list[str]) -> list[tuple[str, str | None, tuple[str, str, int | None] | None, int]]:
    """Run the parts of a session in one python3, and return output, value, error and exit code of each."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(sources),
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return [
        (
            plain_text(out),
            value and plain_text(value),
            (error[0], plain_text(error[1]), error[2]) if error else None,
            code,
        )
        for out, value, error, code in json.loads(done.stdout)
    ]
