"""Sandbox: state, output, the end of a session, and the end of the program that holds one."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pysbx import (
    AsyncSandbox,
    Sandbox,
    SandboxError,
    SandboxPausedError,
    run_code,
)
from pysbx.base import runtime
from tests.servers import children_of, killed_owner, wait_until


def test_each_run_has_a_name_of_its_own_also_after_an_empty_one() -> None:
    with Sandbox() as session:
        session.run("")
        error = session.run("x = = 1").error
    assert error is not None and error.message == "invalid syntax (<sandbox 2>, line 1)"


@pytest.mark.root
def test_state_is_kept() -> None:
    with Sandbox() as session:
        assert session.run("import math\nx = 41").error is None
        assert session.run("x + 1").value == "42"
        assert session.run("math.floor(1.5)").value == "1"
        failed = session.run("1 / 0")
        assert failed.error is not None
        assert session.run("x").value == "41"


def test_each_run_shows_its_warnings() -> None:
    with Sandbox() as session:
        said = [session.run(f"import warnings\nwarnings.warn({text!r})").stderr for text in ("a", "a", "b")]
        assert ["UserWarning: a" in said[0], "UserWarning: a" in said[1], "UserWarning: b" in said[2]] == [True] * 3
        assert session.run("for _ in range(2): warnings.warn('a')").stderr.count("UserWarning: a") == 1


def test_annotations_stay_text_in_later_runs_as_at_a_prompt() -> None:
    with Sandbox() as session:
        assert session.run("def f(a: int): ...\nf.__annotations__").value == "{'a': <class 'int'>}"
        session.run("from __future__ import annotations")
        assert session.run("def f(a: Later): ...\nf.__annotations__").value == "{'a': 'Later'}"


def test_standard_input_is_there_after_exit() -> None:
    """The function exit() of Python closes it."""
    with Sandbox() as session:
        assert session.run("exit(3)").exit_code == 3
        error = session.run("input()").error
        assert error is not None and (error.type, error.hint is None) == ("EOFError", False)
        assert session.run("import os, sys; open('made', 'w').fileno() > 0, os.readlink('/proc/self/fd/0')").value == (
            "(True, '/dev/null')"
        )
        assert session.run("exit()").exit_code == 0
        assert session.run("input()", stdin="text\n").value == "'text'"
        assert session.shell("cat").stdout == ""


def test_a_traceback_shows_the_lines_of_each_run() -> None:
    with Sandbox() as session:
        session.run("def divide(number):\n    return 1 / number")
        error = session.run("a = 1\nb = 2\n\ndivide(\n    0\n)  # of this run").error
        assert error is not None and error.line == 4
        first = '  File "<sandbox>", line 2, in divide\n    return 1 / number\n'
        second = '  File "<sandbox 2>", line 4, in <module>\n    divide(\n'
        assert second in error.traceback and first in error.traceback
        syntax = session.run("x = (").error
        assert syntax is not None and (syntax.type, syntax.line) == ("SyntaxError", 1)
        assert session.run("import inspect; inspect.getsource(divide)").value == repr(
            "def divide(number):\n    return 1 / number\n"
        )


def test_a_fork_of_the_program_does_not_use_its_session() -> None:
    """As with workers of gunicorn --preload, or processes of multiprocessing."""
    with Sandbox() as session:
        session.run("x = 1")
        checkpoint = session.checkpoint()
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: session.run("x"), lambda: session.rollback(checkpoint)):
                try:
                    use()
                except SandboxError as error:
                    refused += "the process of which this one is a fork: make another one" in str(error)
            session.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert session.run("x").value == "1"


def held() -> tuple[int, int]:
    """Return how many descriptors this program has, and how many children, zombies too."""
    lists = Path("/proc/self/task").glob("*/children")
    return len(os.listdir("/proc/self/fd")), sum(len(one.read_text().split()) for one in lists)


def used(session: Sandbox) -> Sandbox:
    session.run("1")
    return session


USES: dict[str, Callable[[Sandbox], Any]] = {
    "a run": lambda session: session.run("x = 1"),
    "no use": Sandbox.__enter__,
    "a code that will not end": lambda session: session.run("import os, time; os._exit = lambda code: time.sleep(99)"),
    "a checkpoint": Sandbox.checkpoint,
    "a fork": Sandbox.fork,
    "a saved state": lambda session: used(session).park(),
    "a pause": lambda session: used(session).pause(),
    "a terminal and a process": lambda session: (session.terminal(), session.start("sleep 99")),
    "a forwarded port": lambda session: session.forward(8000),
    "a call of a tool": lambda session: session.run("tool()"),
    "a rollback": lambda session: session.rollback(session.checkpoint()),
    "an asynchronous run that was cancelled": lambda session: asyncio.run(cancelled_run(session)),
}


async def cancelled_run(session: Sandbox, source: str = "import time; time.sleep(99)") -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(AsyncSandbox._of(session).run(source), 0.5)


@pytest.mark.parametrize("use", USES)
def test_a_session_that_is_dropped_ends(use: str) -> None:
    """At once, and not when cycles are collected."""
    with Sandbox(ready=0) as session:
        session.run("1")  # the watcher of this program has begun
    asyncio.run(asyncio.to_thread(int))
    gc.collect()
    gc.disable()
    try:
        before = held()
        session = Sandbox(ready=0, allow_network="localhost", tools={"tool": int})
        USES[use](session)
        if use == "a rollback":
            assert session.run("1 + 1").value == "2"
        assert held() > before
        with pytest.warns(ResourceWarning, match="unclosed <Sandbox: "):
            del session
        wait_until(lambda: held() <= before, 30)
    finally:
        gc.enable()


def test_a_session_that_is_dropped_in_a_fork_of_the_program_goes_on() -> None:
    session = Sandbox(ready=0)
    session.run("x = 1")
    before = held()[0]
    child = os.fork()
    if child == 0:
        del session
        os._exit(int(held()[0] >= before))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session.run("x").value == "1"
    session.close()


def test_a_session_that_is_left_at_the_end_of_the_program_says_nothing() -> None:
    """Not even in a cycle; its watcher removes the container."""
    program = "from pysbx import Sandbox\nkept = [Sandbox()]\nkept.append(kept)\nprint(kept[0].run('6 * 7').value)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_output_belongs_to_its_run() -> None:
    seen: list[str] = []
    with Sandbox(on_stdout=seen.append, output_limit=10) as session:
        assert session.run("print('a' * 50)").truncated
        assert session.run("print('b')").stdout == "b\n"
        assert session.run("print('c')").stdout == "c\n"
        # The half of a character belongs to its run too, though the next one writes the other half.
        assert session.run("import os; n = os.write(1, b'\\xc3')").stdout == "\N{REPLACEMENT CHARACTER}"
        assert session.run("n = os.write(1, b'\\xa9')").stdout == "\N{REPLACEMENT CHARACTER}"
    assert (
        "".join(seen) == f"{'a' * 10}\n[truncated: 36 bytes left out]\naaaa\nb\nc\n" + 2 * "\N{REPLACEMENT CHARACTER}"
    )


def test_output_of_calls_is_not_that_of_the_next_run() -> None:
    seen: list[str] = []
    with Sandbox(on_stdout=seen.append, output_limit=10) as session:
        for _ in range(3):
            session.call(print, "a" * 9)
        session.call(print, "b" * 50)
        after = session.run("print('c')")
        assert (after.stdout, after.truncated) == ("c\n", False)
    cut = f"{'b' * 10}\n[truncated: 36 bytes left out]\nbbbb\n"
    assert "".join(seen) == 3 * ("a" * 9 + "\n") + cut + "c\n"


def test_a_run_has_callbacks_of_its_own() -> None:
    of_session: list[str] = []
    of_run: list[str] = []
    with Sandbox(on_stdout=of_session.append) as session:
        session.run("print(1)")
        session.run("print(2)", on_stdout=of_run.append)
        session.shell("echo 3; echo 4 >&2", on_stderr=of_run.append)
        session.run("print(5)")
        with pytest.raises(ZeroDivisionError):
            session.run("print(6)", on_stdout=lambda _: print(1 // 0))
        with pytest.raises(SandboxError, match="the session has ended: ZeroDivisionError: integer division"):
            session.run("print(7)")
    with Sandbox() as session:

        def refuse(_: str) -> None:
            raise SandboxError

        with pytest.raises(SandboxError):
            session.run("print(6)", on_stdout=refuse)
        assert session.ended == "SandboxError"
    assert ("".join(of_session), "".join(of_run)) == ("1\n3\n5\n", "2\n4\n")


@pytest.mark.parametrize(
    "begin",
    [
        "import subprocess; subprocess.Popen('sleep 0.5; echo late; echo wrong >&2', shell=True); print('now')",
        "import threading; threading.Timer(0.5, lambda: print('late\\nwrong')).start(); print('now')",
        "import os, time\nif not os.fork(): time.sleep(0.5); print('late\\nwrong', flush=1); os._exit(0)\nprint('now')",
    ],
)
@pytest.mark.parametrize("during", [False, True])
def test_what_an_earlier_run_writes_is_marked_as_late(begin: str, during: bool) -> None:
    heard: list[str] = []
    with Sandbox() as session:
        assert session.run(begin).stdout == "now\n"
        time.sleep(0 if during else 1)
        source = f"import sys, time; time.sleep({int(during)}); print('mine'); print('error', file=sys.stderr)"
        done = session.run(source, on_stdout=heard.append)
        late = "[late output of an earlier run]\nlate\nwrong\n[end of late output]\n"
        assert (done.stdout, done.stderr, "".join(heard)) == ("mine\n", f"{late}error\n", "mine\n")
        assert session.run("1").stderr == ""
        assert session.run("__import__('os').listdir('/proc/self/fd')").value == "['0', '1', '2', '3', '4']"


@pytest.mark.parametrize(
    "begin", ["subprocess.Popen('sleep 3; echo late', shell=True)", "threading.Timer(3, print, ['late']).start()"]
)
def test_output_is_that_of_its_run_if_no_descriptor_is_left_for_another_pipe(begin: str) -> None:
    """Once there is one again, what an earlier run writes is marked as late."""
    limited = f"""
import resource, subprocess, threading, time
{begin}
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
"""
    with Sandbox() as session:
        assert session.run(limited).error is None
        assert session.run("print('mine'); resource.setrlimit(resource.RLIMIT_NOFILE, limits)").stdout == "mine\n"
        done = session.run("time.sleep(5); print('again')")
    assert (done.stdout, done.stderr.count("late\n")) == ("again\n", 1)


def test_processes_of_many_runs_and_pools_of_threads_write_to_the_right_run() -> None:
    with Sandbox(on_stdout=print, warm="require") as session:
        leave = "import os; os.system('(sleep 1; echo late) &'); open('/dev/stdout', 'w').write('now')"
        assert [session.run(leave).stdout for _ in range(4)] == ["now"] * 4
        session.run("import concurrent.futures as f; pool = f.ThreadPoolExecutor(1); pool.submit(int).result()")
        done = session.run("import time; time.sleep(2); pool.submit(print, 'mine').result()\npool.shutdown()")
        assert (done.stdout, done.stderr.count("late\n")) == ("mine\n", 4)
        with session.fork() as other:
            assert other.run("print('other')").stdout == "other\n"


def test_a_fork_counts_processes_of_its_own() -> None:
    with Sandbox(warm="require") as session:
        # One process, as in the fork. The number of the last one is the same then.
        session.run("import os, time\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)")
        with session.fork() as other:
            other.run("if not os.fork(): time.sleep(0.5); print('late', flush=1); os._exit(0)")
            done = other.run("time.sleep(1)")
    assert (done.stdout, done.stderr.count("late\n")) == ("", 1)


def test_an_execution_is_json() -> None:
    with Sandbox() as session:
        done = session.run("open('/output/a', 'wb').write(b'\\xff')\n1/0")
    found = json.loads(done.to_json())
    assert found == json.loads(json.dumps(done.to_dict()))
    assert found["artifacts"] == [{"name": "a", "size": 1, "base64": "/w=="}]
    assert found["error"]["type"] == "ZeroDivisionError"
    assert found["usage"]["wall_sec"] > 0


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("print('a'); 6 * 7", "a\n42"),
        ("pass", "[no output]"),
        (
            "display({'text/html': '<b>bold</b>', 'image/svg+xml': '<svg/>'}, raw=True)",
            "[displayed: image/svg+xml, text/html]",
        ),
        ("import os; os._exit(5)", "[exit code 5]"),
        ("import os; os.kill(2, 9)", "Crash: SIGKILL"),
        (
            "import time; time.sleep(60)",
            "Timeout: not done after 1 seconds: killed\nHint: do less, or allow more: timeout_sec",
        ),
        ("import sys; print('b', file=sys.stderr); open('/output/a', 'w').write('xy')", "[stderr]\nb\n2\n[files: a (2"),
        ("open('a', 'w').close()", "[not returned, write to /output: a]"),
    ],
)
def test_an_execution_as_text_says_how_it_ended(source: str, text: str) -> None:
    assert run_code(source, timeout_sec=1 if "sleep" in source else 30).to_text().startswith(text)


def test_the_text_of_a_session_says_that_a_timeout_has_interrupted_it() -> None:
    with Sandbox() as session:
        said = session.run("import time; time.sleep(60)", timeout_sec=0.5).to_text()
    assert "KeyboardInterrupt\nTimeout: not done after 0.5 seconds: interrupted\nHint:" in said


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda session: session.get(5), "path: 5 is neither a string nor a path"),
        (lambda session: session.get(b"a"), "path: b'a' is neither"),
        (lambda session: session.get("a", limit="5"), "limit: '5' is not a number"),
        (lambda session: session.get("a", limit=1 << 80), "No such file"),
        (lambda session: session.get("a\0b"), "null byte"),
        (lambda session: session.get("\ud800"), "surrogates not allowed"),
        (lambda session: session.put(["a"]), "files: list is not a mapping"),
        (lambda session: session.put({5: b""}), "files: 5 is neither"),
        (lambda session: session.put("a"), "files: str is not a mapping"),
        (lambda session: session.put({"a": 5}), "int is neither a string nor bytes"),
        (lambda session: session.put({"a": Path("a")}), "PosixPath is neither a string nor bytes: pass its content"),
        (lambda session: session.put({"\ud800": b""}), "surrogates not allowed"),
        (lambda session: session.run("1", argv=(5,)), "argv: 5 is neither"),
        (lambda session: session.run("1", argv="ab"), "argv: 'ab' is not a list"),
        (lambda session: session.run("1", argv=5), "argv: 5 is not a list"),
        (lambda session: session.run(5), "source: int is not the text"),
        (lambda session: session.call(5), "function: int cannot be called"),
        (lambda session: session.put_directory(5), "directory: 5 is neither"),
        (lambda session: session.commit(5), "directory: 5 is neither"),
        (lambda session: session.call(len, "a", result=Path("typed")), "result: .* is not one of 'typed', 'pickle'"),
    ],
)
def test_an_argument_that_cannot_be_meant_does_not_end_the_session(use: Callable[[Any], object], said: str) -> None:
    with Sandbox() as session:
        session.run("x = 41")
        with pytest.raises((TypeError, ValueError, SandboxError), match=said):
            use(session)
        assert session.run("x + 1").value == "42"


def test_functions_can_be_called_in_a_session() -> None:
    with Sandbox() as session:
        session.put({"n": "7"})

        def read(name: str) -> int:
            with open(name, encoding="ascii") as file:
                return int(file.read())

        assert session.call(read, "n") == 7


def test_nothing_runs_for_an_unknown_result() -> None:
    def leave() -> None:
        with open("trace", "w", encoding="ascii"):
            pass

    with Sandbox() as session:
        with pytest.raises(ValueError, match="'typed', 'pickle'"):
            session.call(leave, result="pickled")  # type: ignore[call-overload]
        assert session.files() == {}
        session.call(leave)
        assert session.files() == {"trace": 0}


def test_a_child_that_falls_through_does_not_answer() -> None:
    def forks() -> str:
        import os

        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return "parent" if pid else "child"

    with Sandbox() as session:
        done = session.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'")
        assert done.value == "'parent'"
        assert session.run("6 * 7").value == "42"
        assert session.call(forks) == "parent"
        assert session.run("6 * 8").value == "48"
        assert session.run("[name for name in os.listdir('/proc') if name.isdigit()]").value == "['1', '2']"


def test_a_child_that_is_made_behind_the_code_does_not_answer() -> None:
    with Sandbox() as session:
        session.run(
            "import os, sys\nclass Output:\n    def write(self, text): pass\n"
            "    def flush(self):\n        if pid := os.fork(): os.waitpid(pid, 0)\n"
            "sys.stdout = Output()"
        )
        answers = [session.run(f"{number}, os.getpid()").value for number in range(3)]
        assert answers == ["(0, 2)", "(1, 2)", "(2, 2)"]


def test_the_end_of_the_process_ends_the_session() -> None:
    with Sandbox() as session:
        assert session.run("import sys; print('before', file=sys.stderr)").stderr == "before\n"
        done = session.run("import os; print('last words', file=sys.stderr); os._exit(5)")
        assert (done.exit_code, done.stderr) == (5, "last words\n")
        with pytest.raises(SandboxError, match="has ended"):
            session.run("1")


@pytest.mark.root
def test_the_child_dies_with_its_parent() -> None:
    program = (
        "import os, sys\nfrom pysbx import Sandbox\nsession = Sandbox()\n"
        "session.run('import ctypes; ctypes.CDLL(None).prctl(1, 0)')\n"
        "print(os.getpid(), flush=True)\nsession.run('import time; time.sleep(60)')"
    )
    killed_owner(program, 1)


@pytest.mark.parametrize("owner", ["lives", "is killed"])
def test_a_runtime_that_is_killed_while_it_makes_a_snapshot_leaves_no_builder(owner: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(1000)")
    program = (
        "import os, sys\nfrom pysbx import Mount, SandboxStartupError, run_code\nprint(os.getpid(), flush=True)\n"
        f"try: run_code('1', mounts=[Mount({str(tmp_path)!r}, '/m')], env={{'PYTHONPATH': '/m'}}, preload=['slow'])\n"
        "except SandboxStartupError as error: print(error, flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    child.stdout.readline()

    def names() -> list[str]:
        return [name for name in os.listdir(runtime.state_root()) if f"-{child.pid}-" in name]

    wait_until(lambda: any(name.endswith(":builder") for name in names()))
    runtimes = [one for one in children_of(child.pid) if (one / "comm").read_text().startswith("pysbx-runtime")]
    if owner == "is killed":
        child.kill()
    for path in runtimes:
        os.kill(int(path.name), signal.SIGKILL)
    if owner == "lives":
        assert child.stdout.readline() == b"the container ended with code -9 and said nothing\n"
    wait_until(lambda: not names())
    child.stdin.close()
    child.wait()
    child.stdout.close()


SPIN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


@pytest.mark.root
def test_the_cpu_time_of_a_session() -> None:
    """A run has that of all processes during the run, and the session that of all processes until now."""
    with Sandbox() as session:
        assert session.run("1").usage.cpu_sec < 0.4
        assert 0.4 < session.run(SPIN).usage.cpu_sec < 5
        in_child = f"import os\nif os.fork() == 0:\n  exec({SPIN!r})\n  os._exit(0)\nos.wait()[1]"
        assert 0.4 < session.run(in_child).usage.cpu_sec < 5
        assert session._cpu_sec > 0.8
        before = session._cpu_sec
        spinning = session.start(["python3", "-c", "while True: pass"])
        while session._cpu_sec < before + 0.3:
            time.sleep(0.05)
        spinning.signal(9)
        # The session has to wait for it, or its time is lost if the kernel ends both.
        assert spinning.wait() == 137
        assert session.run("1").usage.cpu_sec < 0.4
        last = session._cpu_sec
    assert session._cpu_sec > last - 0.1  # the kernel's own sum, at the end


COUNTS = "import threading, time\ncount = 0\n"
COUNTS += "def counts():\n  global count\n  while True: count += 1; time.sleep(0.001)\n"
COUNTS += "threading.Thread(target=counts, daemon=True).start()"


@pytest.mark.root
@pytest.mark.parametrize("isolation", ["container", "process"])
def test_a_paused_session_does_nothing_until_it_is_resumed(isolation: Any) -> None:
    with Sandbox(isolation=isolation) as session:
        session.pause()
        session.resume()
        session.run(COUNTS)
        session.put({"kept": "text"})
        session.start("while true; do sleep 0.01; done")
        session.pause()
        session.pause()
        assert session.paused
        time.sleep(0.2)  # a busy machine has not yet told all of them
        before = session._cpu_sec
        time.sleep(0.5)
        assert session._cpu_sec == before
        for use in (lambda: session.run("1"), session.files, session.fork, lambda: session.start("true")):
            with pytest.raises(SandboxPausedError, match=r"the session is paused: resume it first"):
                use()
        session.interrupt()  # no run is in progress
        session.resume()
        session.resume()
        assert not session.paused and session.ended == ""
        assert session.run("count > 0, open('kept').read()").value == "(True, 'text')"
        session.pause()
    with pytest.raises(SandboxError, match="has ended: it has been closed"):
        session.resume()


def test_a_pause_waits_for_the_run_in_progress() -> None:
    with Sandbox(isolation="process") as session, ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        source = "import time\nprint(1, flush=True)\ntime.sleep(1)"
        run = pool.submit(session.run, source, on_stdout=lambda _: begun.set())
        assert begun.wait(30)
        session.pause()
        assert run.done() and run.result().error is None
