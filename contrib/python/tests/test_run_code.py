"""run_code: output, value, errors, files, limits; all of it in an Execution."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pytest

from pysbx import (
    Execution,
    Mount,
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    SandboxStartupError,
    run_code,
    sandbox,
)
from pysbx.calls.execution import checked_files, unanswered
from pysbx.container import container, process
from pysbx.errors import SandboxFileTooLargeError, SandboxIsADirectoryError, SandboxOptionError
from pysbx.options.options import make_options
from tests.conftest import descriptors, own_containers


@pytest.mark.root
def test_output_value_and_usage() -> None:
    done = run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert (done.stdout, done.stderr, done.value, done.exit_code, done.error) == ("out\n", "err\n", "42", 0, None)
    assert 0 < done.usage.cpu_sec < 10
    assert 0 < done.usage.wall_sec < 30
    assert 5 < (done.usage.peak_memory_mb or 0) < 512
    assert (run_code("x = b'x' * (200 << 20)").usage.peak_memory_mb or 0) > 200
    assert set(done.limits) == {"memory", "cpu", "pids"}
    assert set(done.limits.values()) <= {"cgroup", "rlimit"}


def test_it_is_a_program() -> None:
    done = run_code(
        "import sys\nprint(__name__, sys.argv, sys.path[0] == '', __file__ if '__file__' in vars() else None)"
    )
    assert done.stdout == "__main__ ['-c'] True None\n"
    assert run_code("import sys; print(sys.argv[1:])", argv=("a", "b")).stdout == "['a', 'b']\n"
    assert run_code("\N{BYTE ORDER MARK}import os; print(os.getcwd())").stdout == "/work\n"
    assert run_code("import sys; print(sys.stdin.read() == '')").stdout == "True\n"


@pytest.mark.root
def test_a_thread_may_set_the_policy_it_has_and_no_better_one() -> None:
    """The library of pyzmq sets policy and priority of each thread, and ends the process if that fails."""
    done = run_code(
        "import os\n"
        "for policy, priority in (os.SCHED_OTHER, 0), (os.SCHED_BATCH, 0), (os.SCHED_FIFO, 1):\n"
        "    try: print(os.sched_setscheduler(0, policy, os.sched_param(priority)))\n"
        "    except PermissionError: print('refused')\n"
        "os.sched_setparam(0, os.sched_param(0))"
    )
    assert (done.stdout, done.exit_code) == ("None\nNone\nrefused\n", 0)


def test_a_module_as_a_program() -> None:
    done = run_code("", module="json.tool", argv=("in.json",), files={"in.json": '{"a":1}'})
    assert done.stdout == '{\n    "a": 1\n}\n'


@pytest.mark.parametrize(
    ("source", "code", "said", "exited"),
    [
        ("import sys; sys.exit(3)", 3, "", True),
        ("import sys; sys.exit('bye')", 1, "bye\n", True),
        ("raise SystemExit", 0, "", True),
        ("import os; os._exit(9)", 9, "", False),
        ("import os, signal; signal.signal(15, signal.SIG_DFL); 1", 0, "", False),
    ],
)
def test_exit_codes(source: str, code: int, said: str, exited: bool) -> None:
    done = run_code(source)
    assert (done.exit_code, done.stderr, done.exited) == (code, said, exited)


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("import os, sys; print('last words', file=sys.stderr); os._exit(3)", 3, "last words\n"),
        ("import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)", 139, "Fatal Python error: Seg"),
    ],
)
def test_a_process_that_dies_has_said_why(source: str, code: int, said: str) -> None:
    seen: list[str] = []
    done = run_code(f"print('out')\n{source}", on_stderr=seen.append)
    assert (done.exit_code, done.stdout) == (code, "out\n")
    assert done.stderr.startswith(said)
    assert "".join(seen) == done.stderr


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV, Segmentation fault"),
        ("import os; os.abort()", "SIGABRT, Aborted"),
        ("import os; os._exit(3)", ""),
        ("import os; os._exit(134)", ""),
        ("import os; os._exit(139)", ""),
    ],
)
def test_a_crash_is_an_error_with_a_name(source: str, name: str) -> None:
    done = run_code(source)
    assert (done.error.type if done.error else "") == ("Crash" if name else "")
    assert (done.error.message if done.error else "") == name
    assert name == "" or (done.error is not None and "compiled code" in (done.error.hint or ""))
    assert name == "" or done.exit_code == 128 + signal.Signals[name.split(",", maxsplit=1)[0]]

    @sandbox
    def call() -> None:
        exec(source, {})

    with pytest.raises(SandboxExecutionError, match=f"before it answered.*{name}"):
        call()


def test_a_limit_of_cpu_time_that_the_program_sets_is_not_called_a_lack_of_memory() -> None:
    done = run_code("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass")
    assert done.error is not None and (done.exit_code, done.error.type, done.timed_out) == (137, "Crash", False)
    assert "SIGKILL" in done.error.message and "RLIMIT_CPU" in done.error.message


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_a_program_opens_its_standard_streams_again(isolation: Literal["container", "process"]) -> None:
    source = "open('/dev/stdout', 'w').write('1')\nopen('/dev/fd/2', 'w').write('2')\nprint(open('/dev/stdin').read())"
    done = run_code(source, isolation=isolation)
    assert (done.stdout, done.stderr, done.error) == ("1\n", "2", None)


def test_an_error_has_its_line() -> None:
    done = run_code("def inner():\n    return [1][5]\n\ninner()\n")
    assert done.exit_code == 1
    assert done.error is not None and (done.error.type, done.error.line) == ("IndexError", 2)
    assert done.error.traceback.startswith('Traceback (most recent call last):\n  File "<sandbox>", line 4')
    assert "return [1][5]" in done.error.traceback
    assert done.error.hint


def test_the_traceback_of_a_deep_recursion_has_the_last_frames() -> None:
    deep = "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return f(n - 1) if n else 1 / 0\nf(50_000)"
    done = run_code(deep)
    assert done.error is not None
    assert (done.error.type, done.error.line) == ("ZeroDivisionError", 3)
    assert "  [Previous line repeated 997 more times]\n" in done.error.traceback
    # All frames took seconds: a program of students timed out in place of its error.
    assert done.usage.cpu_sec < 1


def test_an_expression_may_be_as_deep_as_in_a_file() -> None:
    terms = " + ".join(["one"] * 2500)
    done = run_code(f"one = 1\nprint({terms})\n{terms}")
    assert (done.stdout, done.value, done.error) == ("2500\n", "2500", None)


def test_a_traceback_with_a_long_message_keeps_its_beginning() -> None:
    done = run_code("def f(): raise RuntimeError('x' * 100_000 + 'end')\nf()")
    assert done.error is not None
    for text in (done.error.traceback, done.stderr, done.to_text()):
        assert 'File "<sandbox>", line 1, in f' in text and "RuntimeError: xxx" in text
    assert "characters left out]" in done.error.traceback
    assert done.error.traceback.endswith("xend\n") and len(done.error.traceback) < 1 << 16


def test_a_syntax_error_has_its_line() -> None:
    done = run_code("x = 1\ny = (\n")
    assert done.error is not None and (done.error.type, done.error.line) == ("SyntaxError", 2)
    # As Python prints it, without the frames that called the parser.
    assert done.error.traceback.splitlines()[:2] == ['  File "<sandbox>", line 2', "    y = ("]


def test_a_name_that_is_nearly_right_gets_a_hint() -> None:
    done = run_code("counter = 1\nprint(countre)")
    assert done.error is not None and done.error.hint == "did you mean 'counter'?"


@pytest.mark.root
def test_timeout() -> None:
    began = time.monotonic()
    done = run_code("print('before')\nimport time; time.sleep(1000)", timeout_sec=3)
    assert done.timed_out
    assert done.error is not None and "timeout_sec" in (done.error.hint or "")
    assert (done.exit_code, done.stdout) == (124, "before\n")
    assert done.usage.peak_memory_mb is None
    assert time.monotonic() - began < 60


@pytest.mark.root
def test_a_killed_program_has_used_what_it_has_used() -> None:
    code = "import time\nx = b'x' * (60 << 20)\nwhile time.process_time() < 0.4: pass\ntime.sleep(1000)"
    for _ in range(4):  # the third one is in a container that waited for it
        used = run_code(code, name="main.py", timeout_sec=4).usage
        assert (used.cpu_sec > 0.35, used.peak_memory_mb) == (True, None)


@pytest.mark.root
@pytest.mark.parametrize("ready", [0, 1])
def test_a_program_without_descriptors_ends_its_sandboxes_in_time(ready: int) -> None:
    """If it did not, code whose time is over would run as long as the program."""
    taken: list[int] = []

    def take_all(text: str) -> None:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    source = "import time; print(1, flush=True); time.sleep(60)"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        for _ in range(1 + 2 * ready):  # the last one is in a container that waited for it
            for one in taken:
                os.close(one)
            taken.clear()
            done = run_code(source, timeout_sec=1, ready=ready, on_stdout=take_all)
            assert done.timed_out
        assert own_containers() == 0
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_endless_flood_of_output_ends_with_the_time() -> None:
    done = run_code("while True: print('x' * 1000)", timeout_sec=1, output_limit=10)
    assert done.timed_out
    assert done.truncated
    assert done.stdout.startswith("x" * 5 + "\n[truncated")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a\0b", "."])
def test_files_cannot_be_put_elsewhere(name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        run_code("1", files={name: b""})


def test_files_can_be_the_entries_of_a_zip_archive() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for name, content in {"package/": "", "package/__init__.py": "", "results/": "", "results/2030/": ""}.items():
            made.writestr(name, content)
    with zipfile.ZipFile(archive) as made:
        files = {name: made.read(name) for name in made.namelist()}
    source = "import os, package; sorted(at for at, _, _ in os.walk('.'))"
    expected = repr([".", "./package", "./results", "./results/2030"])
    assert run_code(source, files=files).value == expected
    with Sandbox() as session:
        session.put(files)
        assert session.run(source).value == expected
        assert not session.changes()


def test_an_error_names_the_file_that_cannot_be_written() -> None:
    with pytest.raises(SandboxIsADirectoryError, match=r"^file 'a': "):
        run_code("1", files={"a": "", "a/b": "", "c": ""})


def test_a_file_that_is_too_large_for_one_file_names_that_limit() -> None:
    with pytest.raises(SandboxFileTooLargeError, match="2048 KiB are too large for one file: allow more: file_size_mb"):
        run_code("1", files={"data": b"x" * (2 << 20)}, file_size_mb=1)


def test_files_are_checked_once() -> None:
    """A service checks them where they come in; run_code takes them as they are."""
    files = checked_files({"a/../b.txt": "text"})
    assert dict(files) == {"b.txt": b"text"}
    assert checked_files(files) is files
    files["../c.txt"] = b""  # which the sandbox refuses itself
    with pytest.raises(SandboxError, match=r"c\.txt"):
        run_code("1", files=files)


def test_arguments_and_names_of_files_are_texts_or_paths() -> None:
    show = "import os, sys; print(sys.argv[1:], os.listdir())"
    assert run_code(show, argv=["a", Path("b")], files={Path("c"): "x"}).stdout == "['a', 'b'] ['c']\n"
    given: Any
    for given in ("abc", [1], [b"a"]):
        with pytest.raises(TypeError, match=r"^argv: "):
            run_code(show, argv=given)
    with pytest.raises(TypeError, match=r"^files: 1 is neither a string nor a path"):
        run_code(show, files={1: "x"})
    assert run_code("print(__file__)", name=Path("b.py")).stdout == "/work/b.py\n"  # type: ignore[arg-type]
    for given in {"name": 1}, {"module": 1}:
        with pytest.raises(TypeError, match=r"^(name|module): 1 is neither a string nor a path"):
            run_code(show, **given)


def test_output_of_children_and_of_c_code_is_kept_in_order() -> None:
    done = run_code(
        "import os, subprocess\nprint(1)\nos.write(1, b'2\\n')\nsubprocess.run(['/bin/echo', '3'])\nprint(4)"
    )
    assert done.stdout == "1\n2\n3\n4\n"


def test_output_can_be_followed(tmp_path: Path) -> None:
    seen: list[str] = []

    def follow(text: str) -> None:
        seen.append(text)
        (tmp_path / "seen").touch()

    done = run_code(
        "import os, time\nprint('a')\nwhile not os.path.exists('/data/seen'): time.sleep(0.01)\nprint('b')",
        on_stdout=follow,
        mounts=[Mount(tmp_path, "/data")],
    )
    assert done.error is None
    assert seen == ["a\n", "b\n"]


@pytest.mark.parametrize("offset", range(4))
def test_characters_that_come_in_parts_are_followed_whole(offset: int) -> None:
    """Each read ends at another byte within a character."""
    seen: dict[str, list[str]] = {"stdout": [], "stderr": []}
    wanted = "x" * offset + "é€😀" * 30_000
    done = run_code(
        f"import sys\ntext = 'x' * {offset} + 'é€😀' * 30_000\n"
        "for stream in (sys.stdout, sys.stderr): print(text, end='', file=stream)",
        output_limit=1 << 20,
        on_stdout=seen["stdout"].append,
        on_stderr=seen["stderr"].append,
    )
    assert len(seen["stdout"]) > 1
    assert all("".join(parts) == wanted for parts in seen.values())
    assert done.stdout == done.stderr == wanted


def test_characters_of_two_streams_do_not_mix() -> None:
    seen: dict[str, list[str]] = {"stdout": [], "stderr": []}
    source = "import os, time\n"
    for one, other in zip("é€😀x".encode(), "x😀€é".encode(), strict=True):
        source += f"os.write(1, bytes([{one}])); os.write(2, bytes([{other}])); time.sleep(0.02)\n"
    source += "os.write(1, b'\\xe2\\x82')"  # and one that never becomes whole
    done = run_code(source, on_stdout=seen["stdout"].append, on_stderr=seen["stderr"].append)
    # Not part by part: on a busy machine several bytes come at once.
    whole = ("é€😀x\N{REPLACEMENT CHARACTER}", "x😀€é")
    assert ("".join(seen["stdout"]), "".join(seen["stderr"])) == whole
    assert (done.stdout, done.stderr) == whole


def test_a_callback_that_raises_leaves_no_descriptor_open() -> None:
    def refuse(text: str) -> None:
        raise BrokenPipeError

    run_code("1")
    before = descriptors()
    with pytest.raises(BrokenPipeError):
        run_code("while True: print('x' * 1000)", on_stdout=refuse)
    assert descriptors() == before


def test_threads_processes_and_asyncio_work() -> None:
    done = run_code(
        "import asyncio, threading, multiprocessing, concurrent.futures as futures\n"
        "def double(x): return 2 * x\n"
        "with futures.ThreadPoolExecutor(2) as pool: print(list(pool.map(double, [1, 2])))\n"
        "with multiprocessing.Pool(2) as pool: print(pool.map(double, [1, 2]))\n"
        "with futures.ProcessPoolExecutor(2) as pool: print(list(pool.map(double, [1, 2])))\n"
        "async def main(): return await asyncio.gather(*(asyncio.sleep(0, n) for n in range(3)))\n"
        "print(asyncio.run(main()))"
    )
    assert (done.stdout, done.error) == ("[2, 4]\n[2, 4]\n[2, 4]\n[0, 1, 2]\n", None)


# The number of CPUs, by the functions of Python, the C library, a child of each, a program, and variables of libraries.
COUNTED = """
import os, multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
def child(*command): return int(subprocess.check_output(command))
found = [os.cpu_count(), getattr(os, "process_cpu_count", os.cpu_count)(), multiprocessing.cpu_count(), child("nproc")]
for name in "POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "NUMEXPR_MAX_THREADS", "LOKY_MAX_CPU_COUNT", "PYTHON_CPU_COUNT":
    found.append(int(os.environ[name]))
if "PYSBX_DIRECTORY" not in os.environ:
    found += ProcessPoolExecutor()._max_workers, child("getconf", "_NPROCESSORS_ONLN")
    found.append(child(sys.executable, "-c", "import os; print(os.cpu_count())"))
sorted(set(found))
"""


@pytest.mark.parametrize(
    "options", [{"warm": "off"}, {"warm": "auto"}, {"isolation": "process"}], ids=["cold", "warm", "process"]
)
@pytest.mark.parametrize(("cpus", "count"), [(0.5, 1), (1.5, 2), (999, 999)])
def test_a_sandbox_counts_its_own_cpus(options: Any, cpus: float, count: int, tmp_path: Path) -> None:
    """A part of a CPU counts as one, and a sandbox has no more than there are. `nproc` reads OMP_NUM_THREADS."""
    expected = f"[{min(count, len(os.sched_getaffinity(0)))}]"
    (tmp_path / "isolated.json").write_text('{"isolated": true}')
    for profile in None, tmp_path / "isolated.json":
        assert run_code(COUNTED, cpus=cpus, profile=profile, **options).value == expected
    with Sandbox(cpus=cpus, **options) as session:
        assert session.run(COUNTED).value == expected


def test_a_callers_own_number_of_cpus_counts() -> None:
    own = {"PYTHON_CPU_COUNT": "5", "OMP_NUM_THREADS": "6", "RAYON_NUM_THREADS": "7"}
    source = "import os, subprocess\nos.cpu_count(), subprocess.getoutput('nproc'), os.environ['RAYON_NUM_THREADS']"
    assert run_code(source, env=own).value == "(5, '6', '7')"


def test_atexit_functions_run() -> None:
    assert run_code("import atexit; atexit.register(print, 'end'); print('begin')").stdout == "begin\nend\n"


def test_threads_and_executors_are_waited_for() -> None:
    done = run_code(
        "import atexit, concurrent.futures, threading, time\natexit.register(print, 'end')\n"
        "def late(name):\n    time.sleep(0.3)\n    print(name)\n    open(f'/output/{name}', 'w').close()\n"
        "threading.Thread(target=late, args=('thread',)).start()\n"
        "daemon = threading.Thread(target=late, args=('daemon',), daemon=True); daemon.start(); time.sleep(0.1)\n"
        "def last(): late('first'); daemon.join(); late('executor')\n"
        "x = concurrent.futures.ThreadPoolExecutor(1).submit(last)\n1 / 0"
    )
    assert done.error is not None and done.error.type == "ZeroDivisionError"
    assert sorted(done.stdout.split()[:-1]) == ["daemon", "executor", "first", "thread"]
    assert done.stdout.endswith("executor\nend\n")
    assert sorted(done.artifacts) == ["daemon", "executor", "first", "thread"]
    began = time.monotonic()
    assert run_code(
        "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()", timeout_sec=1
    ).timed_out
    daemon = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    assert run_code(daemon).exit_code == 0
    assert time.monotonic() - began < 50


@pytest.mark.parametrize("warm", ["off", "auto"])
def test_files_that_were_not_closed_are_whole(warm: Literal["off", "auto"]) -> None:
    done = run_code(
        "import atexit, os\ntext = open('/output/text', 'w'); text.write('hi')\nraw = open('/output/raw', 'w+b')\n"
        "raw.write(b'hi')\natexit.register(raw.write, b'!')\nclosed = open('/output/closed', 'w'); closed.close()\n"
        "full = open('/dev/full', 'w'); x = full.write('lost')\n"
        "pipe = open(os.pipe()[1], 'w'); os.set_blocking(pipe.fileno(), False); pipe.write('nobody reads')",
        warm=warm,
    )
    assert done.error is None
    assert dict(done.artifacts) == {"text": b"hi", "raw": b"hi!", "closed": b""}


@pytest.mark.parametrize(
    ("child", "status", "said"),
    [
        ("", 0, ""),
        ("raise KeyError", 1, 'Traceback (most recent call last):\n  File "<sandbox>", line 6, in <module>\n'),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('child')", 1, "child\n"),
    ],
)
def test_a_child_that_falls_through_ends_as_a_program_and_says_nothing_for_its_parent(
    child: str, status: int, said: str
) -> None:
    done = run_code(
        "import atexit, os\natexit.register(lambda: print('end', os.getpid() == mine))\nmine = os.getpid()\n"
        "open('/output/a', 'w').close()\npid = os.fork()\n"
        f"if not pid: print('child', end=' '); {child}\n"
        "if pid: print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "'parent' if pid else 'child'"
    )
    assert (done.value, done.exit_code, done.error) == ("'parent'", 0, None)
    assert done.stdout == f"child end False\n{status}\nend True\n"
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(said)
    assert dict(done.artifacts) == {"a": b""}


def test_a_broken_repr_is_an_error_of_the_code() -> None:
    done = run_code("class A:\n    def __repr__(self): return 1 / 0\nA()")
    assert done.error is not None and done.error.type == "ZeroDivisionError"


@pytest.mark.root
def test_memory_is_limited() -> None:
    done = run_code("x = bytearray(1 << 30)", memory_mb=128)
    assert done.error is not None and done.error.type == "MemoryError"


@pytest.mark.root
def test_the_number_of_processes_is_limited() -> None:
    done = run_code(
        "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\n"
        "except OSError as error: print(error.errno)\nprint(n < 20)",
        max_processes=16,
    )
    assert done.stdout == "11\nTrue\n"


@pytest.mark.root
def test_the_size_of_files_is_limited() -> None:
    done = run_code("open('/tmp/x', 'wb').write(bytes(3 << 20))", file_size_mb=1)
    assert done.error is not None and done.error.type == "OSError"
    done = run_code("for n in range(9): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))", tmp_mb=4)
    assert done.error is not None and "No space left" in done.error.message


@pytest.mark.root
def test_processor_time_is_limited_without_a_controller_too() -> None:
    done = run_code("while True: pass", cpus=0.1, timeout_sec=10)
    if done.limits["cpu"] == "cgroup":
        assert done.usage.cpu_sec < 3
    assert done.timed_out
    assert done.usage.cpu_sec < 5


@pytest.mark.root
def test_strict_limits_refuse_with_the_remedy() -> None:
    done = run_code("1")
    if set(done.limits.values()) == {"cgroup"}:
        assert run_code("1", limits="strict").exit_code == 0
        return
    with pytest.raises(SandboxStartupError, match=r"(?s)limits='strict'.*controller"):
        run_code("1", limits="strict")


@pytest.mark.root
def test_what_was_mounted_can_be_used(tmp_path: Path) -> None:
    base = tmp_path
    (base / "in").mkdir(mode=0o700)
    (base / "in" / "a").write_text("content")
    (base / "in" / "a").chmod(0o600)
    (base / "out").mkdir()
    mounts = [Mount(str(base / "in"), "/data"), Mount(str(base / "out"), "/result", readonly=False)]
    done = run_code(
        "print(open('/data/a').read())\nopen('/result/b', 'w').write('made')\ntry: open('/data/c', 'w')\n"
        "except OSError as error: print(error.errno)",
        mounts=mounts,
    )
    assert (done.error, done.stdout) == (None, "content\n30\n")
    assert (base / "out" / "b").read_text() == "made"
    assert (base / "out" / "b").stat().st_uid == os.geteuid()


def test_a_working_directory_of_ones_own(tmp_path: Path) -> None:
    done = run_code("import os; print(os.getcwd())", workdir="/data", mounts=[Mount(str(tmp_path), "/data")])
    assert done.stdout == "/data\n"
    place = PurePosixPath("/data")
    done = run_code("import os; print(os.getcwd())", workdir=place, mounts=[Mount(tmp_path, place)])
    assert done.stdout == "/data\n"
    with pytest.raises(ValueError, match="workdir"):
        run_code("1", workdir="../x")


def test_a_working_directory_that_the_sandbox_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("/data/mounted/deep")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "lost").symlink_to("/nosuch")

    def run(place: str) -> Execution:
        mount = Mount(tmp_path, "/data/mounted", readonly=False)
        return run_code("import os; os.getcwd()", workdir=place, mounts=[mount])

    for place in ("/data", "/data/mounted/deep/er", "/tmp", "/usr/lib", "/etc", "/", "/dev/shm", "/proc/self"):
        assert run(place).error is None, place
    assert run("/data/mounted/link/er").value == "'/data/mounted/deep/er'"
    missing = ("/nosuch", "/etc/passwd", "/data/other", "/tmp/nosuch")
    mounted = ("nosuch", "nosuch/deep", "file", "file/deep", "lost", "lost/deep", "circle")
    for place in (*missing, *(f"/data/mounted/{name}" for name in mounted)):
        with pytest.raises(SandboxOptionError, match=f"^workdir: '{place}' is not a directory in the sandbox$"):
            run(place)
    assert sorted(os.listdir(tmp_path)) == ["circle", "deep", "file", "link", "lost"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mounts": ["/data"]}, r"mounts: '/data' is not a pysbx\.Mount, such as"),
        ({"mounts": "/data"}, "mounts: '/data' is not a list"),
        ({"env": {"A": 5}}, "env: 'A': 5 are not two strings"),
        ({"env": ["A=b"]}, r"env: \['A=b'\] is not a mapping"),
        ({"preload": "json"}, "preload: 'json' is not a list of names"),
        ({"preload": [5]}, "preload: 5 is not the name"),
        ({"dependencies": "numpy"}, "dependencies: 'numpy' is not a list"),
        ({"dependencies": [5]}, "dependencies: 5 is not a requirement"),
        ({"dependencies": ["numpy"], "wheels": "/no/wheels"}, "wheels: '/no/wheels' is not a directory"),
        ({"allow_network": 5}, "allow_network: 5 is not a list"),
        # As other sandboxes have it. It does not say whether services on this machine's loopback are meant.
        (
            {"allow_network": True},
            r'allow_network: True is not a list of host names, such as \["example.org"\]; .*"host"',
        ),
        (
            {"allow_network": "any"},
            "allow_network: 'any' is not a host name with a dot: the words are none, localhost, host",
        ),
        ({"allow_network": "Host"}, "allow_network: 'Host' is not .* did you mean \"host\"[?,]"),
        ({"allow_network": ["localhots"]}, "allow_network: 'localhots' is not .* did you mean \"localhost\""),
        ({"allow_network": ["example.org", "host"]}, "allow_network: 'host' is not .* \"host\", which stands alone"),
        ({"allow_network": [5]}, "allow_network: 5 is not a host name"),
        ({"memory_mb": "512m"}, "memory_mb: '512m' is not a positive number of MiB"),
        ({"memory_mb": "512"}, "memory_mb: '512' is not a positive number of MiB: write 512, without quotes"),
        ({"output_limit": "5"}, "output_limit: '5' is not a number"),
        ({"memory_mb": 100.5}, "memory_mb: 100.5 is not a whole number: write it as an int"),
        ({"memory_mb": 100.0}, "memory_mb: 100.0 is not a whole number"),
        ({"max_processes": 7.5}, "max_processes: 7.5 is not a whole number"),
        ({"file_size_mb": 7.5}, "file_size_mb: 7.5 is not a whole number"),
        ({"tmp_mb": 7.5}, "tmp_mb: 7.5 is not a whole number"),
        ({"output_limit": 100.5}, "output_limit: 100.5 is not a whole number"),
        ({"answer_limit": 1e6}, "answer_limit: 1000000.0 is not a whole number"),
        ({"workdir": 5}, "workdir: 5 is not a string"),
        ({"landlock": {}}, "landlock: {} is not a string"),
        ({"rootfs": 5}, "rootfs: 5 is not a string"),
        ({"image": 5}, "image: 5 is not a string"),
        ({"files": ["a"]}, "files: list is not a mapping"),
        ({"memory": 5}, r"'memory' is not an option of a sandbox: did you mean 'memory_mb'\? allow_network, "),
        ({"stdout": "5"}, r"'stdout' is not an option of a sandbox: there are allow_network, "),
        ({"source": 5}, "source: int is not the text of a program"),
        ({"source": Path("a.py")}, "source: PosixPath is not the text of a program: pass its content"),
        ({"source": "", "stdin": io.StringIO()}, "stdin: StringIO is neither a string nor bytes: pass its content"),
    ],
)
def test_what_cannot_be_meant_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{said}"):
        run_code(**{"source": "1", **given})


def test_nothing_is_said_by_none() -> None:
    nothing: dict[str, Any] = dict.fromkeys(("mounts", "env", "preload", "virtualenv", "rootfs", "image", "wheels"))
    assert run_code("6 * 7", **nothing).value == "42"


def test_a_python_built_with_an_old_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uv's: os.pidfd_open() is not there, the system call is."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run_code("6 * 7").value == "42"
    with pytest.raises(ProcessLookupError):
        process.open_process(1 << 22)


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 3), (255, 255), (-9, 1)])
def test_an_exit_code_is_not_read_from_a_text(code: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object, **__: object) -> None:
        raise process.Ended(code)

    monkeypatch.setattr(container.Container, "exchange", end)
    done = run_code("1")
    assert done.exit_code == expected
    assert (done.error is None) == (code >= 0)  # otherwise the end of the program is not known
    # The name and text of an exception are the code's own.
    with pytest.raises(SandboxExecutionError):
        unanswered(SandboxExecutionError("ProcessExit", "it ended with code 5 before it answered"), make_options())


def test_an_execution_has_defaults() -> None:
    assert Execution().exit_code == 0


@pytest.mark.parametrize(
    "source",
    [
        "class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E",
        "class E(Exception):\n    def __str__(self): return 5\nraise E",
        "class E(Exception):\n    def __dir__(self): raise KeyboardInterrupt\nraise E",
        "error = SyntaxError('x'); error.filename = '<sandbox>'; error.lineno = [1]\nraise error",
        "error = SyntaxError('x'); error.filename = '<sandbox>'; error.lineno = 2**70\nraise error",
        "class Odd(str):\n    def __eq__(self, other): raise ValueError\n    __hash__ = str.__hash__\n"
        "error = SyntaxError('x'); error.filename = Odd('a')\nraise error",
    ],
)
def test_an_exception_that_cannot_be_described_is_an_error_like_others(source: str) -> None:
    done = run_code(source)
    assert done.exit_code == 1
    assert done.error is not None and done.error.type in ("E", "SyntaxError")


@pytest.mark.parametrize("path", ["src", "/work/src"])
def test_a_variable_names_a_directory_of_files_for_imports(path: str) -> None:
    files = {"src/package/__init__.py": "number = 5"}
    for warm in ("auto", "off"):
        done = run_code("import package; package.number", files=files, env={"PYTHONPATH": path}, warm=warm)
        assert done.value == "5", done.stderr


def test_a_file_with_the_name_of_a_library_module_is_found_as_python_finds_it(tmp_path: Path) -> None:
    names = ("numbers", "types", "token", "string", "platform", "linecache", "traceback", "os", "time", "inspect")
    source = "".join(f"import {name}\nprint('{name}', getattr({name}, 'MINE', 'library'))\n" for name in names)
    source += "import enumeration.part, dis\nprint(dis.MINE, enumeration.part.MINE)\n1/0\n"
    files = {f"{name}.py": "MINE = 'mine'\n" for name in (*names, "dis/__init__", "enumeration/part", "enum/part")}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    wanted = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "types mine" in wanted.stdout
    done = run_code(source, files=files)
    assert done.stdout == wanted.stdout
    assert done.error is not None
    assert "ZeroDivisionError" in done.stderr
    with Sandbox() as session:
        session.put(files)
        assert session.run(source).stdout == wanted.stdout
        assert session.run(source).stdout == wanted.stdout
        assert session.shell("echo 1").stdout == "1\n"
