"""The results of a run are complete: its traceback, its files however it ends, and the names of those left out."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client

from pysbx import Mount, Sandbox, SandboxOptionError, explain, run_code
from tests.clients import Server, text_of
from tests.test_command import pysbx

RAISES = (
    "print('before')\n1/0",
    "import atexit, sys\natexit.register(lambda: sys.stderr.write('the last\\n'))\nraise ValueError('é\\n')",
    "def f():\n    raise KeyError(1)\ntry:\n    f()\nexcept KeyError as error:\n    raise OSError(2, 'x') from error",
    "import sys\nsys.stderr.write('no end of line')\nassert False",
    "raise KeyboardInterrupt",
    "x = (",
    "prnt(1)",
    "[].appendd",
    "try:\n    prnt(1)\nexcept NameError:\n    class Own(AttributeError): pass\n    {}.item",
    "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise NameError(\"name 'x'\") from error",
    "def f(counter): return countr\nf(1)",
)


@pytest.mark.parametrize("source", RAISES)
def test_standard_error_is_that_of_a_program(source: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "program.py"]
    there = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True, check=False)
    seen: list[str] = []
    done = run_code(source, name="program.py", on_stderr=seen.append)
    assert done.stderr == there.stderr.replace(str(tmp_path), "/work")
    assert run_code(source.encode(), name="program.py").stderr == done.stderr
    assert "".join(seen) == done.stderr
    assert done.stdout == there.stdout
    assert done.error is not None and done.error.traceback in done.stderr
    with Sandbox() as session:
        again = session.run(source)
    assert again.error is not None and again.error.traceback in again.stderr


@pytest.mark.parametrize("last", ["Own()", "10 ** 5000", "__import__('pdb').set_trace()\nprint(7)"])
def test_a_program_of_a_file_has_no_value(last: str, tmp_path: Path) -> None:
    """It ends as with `python3`, which computes no repr."""
    source = f"class Own:\n    def __repr__(self): raise ValueError(print('of the repr'))\nprint('done')\n{last}\n"
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "program.py"]
    there = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True, check=False, stdin=subprocess.DEVNULL)
    done = run_code(source, name="program.py")
    assert (done.exit_code, done.value, done.displays) == (there.returncode, None, ())
    assert done.stdout == there.stdout.replace(str(tmp_path), "/work")
    assert done.stderr == there.stderr.replace(str(tmp_path), "/work")
    assert run_code("6 * 7", name="program.py", notebook=True).value == "42"


def test_explain_reads_standard_error() -> None:
    report = explain(run_code("1/0").stderr)
    assert report is not None and (report.type, report.line) == ("ZeroDivisionError", 1)


def test_the_command_prints_a_traceback_once() -> None:
    # Python ends with 120 if its output cannot be written.
    for source, code in (("1/0", 1), ("import sys; sys.stderr.close(); 1/0", 1), ("import os; os.close(2); 1/0", 120)):
        done = pysbx("run", "-c", source)
        assert done.returncode == code
        assert done.stderr.count("ZeroDivisionError: division by zero") == 1
    done = pysbx("run", "--output-limit", "0", "-c", "1/0")
    assert "ZeroDivisionError: division by zero" in done.stderr
    done = pysbx("shell", text="1/0\n")
    assert done.stderr.count("ZeroDivisionError: division by zero") == 1


WRITE = "open('/output/first.txt', 'w').write('first')\nopen('second.csv', 'w').write('second')\n"
ENDS = {
    "end": ("", 0),
    "exception": ("1/0", 1),
    "exit": ("import sys; sys.exit(3)", 3),
    "_exit": ("import os; os._exit(4)", 4),
    "exec": ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo third > /output/third; exit 5'])", 5),
    "crash": ("import ctypes; ctypes.string_at(0)", 139),
    "timeout": ("import time; time.sleep(1000)", 124),
    "memory": ("kept = [bytes(1 << 20) for _ in range(10_000)]", 1),
    "forged": (
        "import os, stat\nfor n in range(3, 20):\n  try:\n    os.write(n, bytes(99))\n  except OSError: pass",
        None,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_files_are_collected_however_a_run_ends(end: str) -> None:
    source, code = ENDS[end]
    done = run_code(WRITE + source, timeout_sec=3, memory_mb=128, collect=["*.csv"])
    files = {"first.txt": b"first", "second.csv": b"second"}
    assert dict(done.artifacts) == files | ({"third": b"third\n"} if end == "exec" else {})
    assert (done.left_out, done.truncated) == ((), False)
    if code is not None:
        assert done.exit_code in (code, 137 if end == "memory" else code)
    with Sandbox(timeout_sec=3, memory_mb=128) as session:
        session.run("open('/output/zeroth', 'w').close()")
        assert dict(session.run(WRITE + source).artifacts).keys() >= {"first.txt"}
        before = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) <= before


def test_nothing_of_the_sandbox_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    done = run_code(
        "import os, socket, sys\n"
        "os.chdir('/output')\n"
        f"os.symlink({str(tmp_path / 'secret')!r}, 'link')\n"
        "os.symlink('/proc/1/root', 'root'); os.symlink('..', 'up')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "open('closed', 'w').write('x'); os.chmod('closed', 0)\n"
        "os.mkdir('dark'); open('dark/x', 'w').close(); os.chmod('dark', 0)\n"
        "open(b'\\xff\\n', 'w').write('odd')\n"
        "for _ in range(100): os.mkdir('d'); os.chdir('d'); open('deep', 'w').close()\n"
        "os.chdir('/output')\n"
        "with open('sparse', 'w') as file: file.truncate(60 << 20)\n"
        "open('good', 'w').write('good')\n"
    )
    assert done.error is None
    assert done.artifacts["good"] == b"good"
    assert done.artifacts[os.fsdecode(b"\xff\n")] == b"odd"
    others = done.artifacts.keys() - {"good", os.fsdecode(b"\xff\n")}
    assert others - {"closed", "dark/x"} == {*("d/" * depth + "deep" for depth in range(1, 65))}
    # Root may read what is closed to its owner.
    assert set(done.left_out) - {"closed", "dark/"} == {"sparse", "d/" * 65}


def test_files_beyond_the_limit_are_named() -> None:
    source = (
        "for name in 'abc': open(f'/output/{name}', 'wb').write(bytes(400))\n"
        "open('/output/large', 'wb').write(bytes(2000))"
    )
    done = run_code(source, answer_limit=2000)
    assert (sorted(done.artifacts), done.left_out, done.truncated) == (["a", "b"], ("c", "large"), True)
    many = run_code("for n in range(1100): open(f'/output/{n}', 'wb').write(b'0123456789')", answer_limit=20)
    assert (len(many.artifacts), len(many.left_out)) == (1, 1000)
    told = pysbx("run", "--answer-limit", "2000", "-c", source)
    assert "left out: c, large\n" in told.stderr


def test_a_session_names_a_file_that_is_left_out_once() -> None:
    with Sandbox(answer_limit=2000) as session:
        source = "open('/output/large', 'wb').write(bytes(2000))\nopen('/output/small', 'w').write('x')"
        done = session.run(source)
        assert (dict(done.artifacts), done.left_out) == ({"small": b"x"}, ("large",))
        again = session.run("1")
        assert (dict(again.artifacts), again.left_out, again.truncated) == ({}, (), False)
        assert session.run("open('/output/large', 'ab').write(b'x')").left_out == ("large",)
        assert dict(session.run("open('/output/large', 'wb').write(b'x')").artifacts) == {"large": b"x"}


def test_the_names_of_files_are_bounded() -> None:
    source = (
        "import os\nos.chdir('/output')\nopen('first', 'w').close()\n"
        "for _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "for n in range(1000): open(f'{n:0200}', 'w').close()"
    )
    done = run_code(source, timeout_sec=60)
    assert done.error is None
    assert "first" in done.artifacts
    assert 100 < len(done.artifacts) < 1000
    assert sum(map(len, done.artifacts)) <= 4 << 20
    assert done.left_out == (f"all files after the first {len(done.artifacts)}",)


def test_files_of_the_working_directory(tmp_path: Path) -> None:
    files = {"given.csv": "1", "changed.csv": "1"}
    source = (
        "import os\nopen('changed.csv', 'w').write('2')\n"
        "open('new.csv', 'w').write('3')\nopen('new.txt', 'w').write('4')\n"
        "os.mkdir('sub'); open('sub/deep.csv', 'w').write('5'); open('/output/new.csv', 'w').write('6')"
    )
    done = run_code(source, files=files, collect=["*.csv"])
    wanted = {"changed.csv": b"2", "new.csv": b"6", "sub/deep.csv": b"5", "work/new.csv": b"3"}
    assert dict(done.artifacts) == wanted
    assert done.uncollected == ("new.txt",)
    assert dict(run_code(source, collect=["sub/*"]).artifacts) == {"new.csv": b"6", "sub/deep.csv": b"5"}
    (tmp_path / "note").touch()
    read_only, hidden = Mount(tmp_path / "note", "/work/sub/note"), {".hidden": "", "new.csv": ""}
    assert run_code(source, files=hidden, mounts=[read_only]).uncollected == ("changed.csv", "new.txt")
    over = Mount(tmp_path, "/work", readonly=False)  # these files stay on the host
    assert run_code(source, mounts=[over]).uncollected == ()
    for wrong in ("/etc/*", "../*", ""):
        with pytest.raises(SandboxOptionError, match=r"^collect: "):
            run_code("1", collect=[wrong])
    with Sandbox(collect=["*"]) as session:
        session.run("open('/output/early', 'w').close()")
        session.call(exec, "open('/output/called', 'w').close()")
        session.put({"given.txt": "given"})
        assert dict(session.run("1").artifacts) == {"called": b""}
        assert dict(session.run("open('given.txt', 'a').write('!')").artifacts) == {"given.txt": b"given!"}
    with Sandbox() as session:  # it keeps them
        assert session.run(source).uncollected == ()


def test_a_model_gets_files_of_the_working_directory() -> None:
    async def test(client: Client) -> tuple[str, str]:
        done = await client.call_tool("run_python", {"code": "open('b', 'w'); open('a.csv', 'w').write('1,2')"})
        return (await client.list_tools()).tools[0].description or "", text_of(done)

    mcp = Server("--collect", "*.csv")
    try:
        described, said = mcp.run(test)
    finally:
        mcp.close()
    assert "Files of /work are returned too: *.csv." in described
    assert said == "3\n[not returned, write to /output: b]\n[files: a.csv (3 bytes)]"


def test_a_session_returns_what_is_new() -> None:
    with Sandbox() as session:
        for content in ("a", "b", "b", "c"):  # in one tick of the clock, of one size
            done = session.run(f"open('/output/x', 'w').write('{content}')")
            assert dict(done.artifacts) == {"x": content.encode()} or content == "b"
            assert dict(session.run("1").artifacts) == {}
        session.run("import os; os.rename('/output/x', '/output/y')")
        assert dict(session.run("os.utime('/output/y', (1, 1)); os.remove('/output/y')").artifacts) == {}
        assert dict(session.run("open('/output/y', 'w').close()").artifacts) == {"y": b""}


def test_a_fork_returns_what_is_new() -> None:
    with Sandbox(warm="require") as session:
        session.run("open('/output/old', 'w').close()")
        with session.fork() as fork:
            assert dict(fork.run("open('/output/new', 'w').close()").artifacts) == {"new": b""}
        assert dict(session.run("1").artifacts) == {}


def test_the_command_writes_files_after_a_timeout(tmp_path: Path) -> None:
    done = pysbx(
        "run", "--timeout", "2", "--collect", "*.csv", "--output", str(tmp_path / "out"), "-c", WRITE + "while 1: 1"
    )
    assert done.returncode == 124
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["first.txt", "second.csv"]
