"""A run that takes too long or is interrupted ends, with the programs that it waits for, and its session goes on."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pysbx import (
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    SandboxTimeoutError,
)
from pysbx.base import runtime
from pysbx.calls.execution import unsaid
from tests.test_session import cancelled_run


@contextmanager
def interrupts(session: Sandbox) -> Iterator[None]:
    """Interrupt a session twice a second: on a busy machine the first may come before the run, and does nothing."""

    def interrupt() -> None:
        while not done.wait(0.5):
            session.interrupt()

    done = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# Code that an interrupt does not end.
STUBBORN = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)"


def test_a_run_that_takes_too_long_is_interrupted_and_the_session_goes_on() -> None:
    with Sandbox(timeout_sec=1) as session:
        session.run("a = 5")
        for limit in (None, 0.5):
            done = session.run("a += 1; print('begun')\nwhile True: pass", timeout_sec=limit)
            assert (done.timed_out, done.exit_code, done.stdout) == (True, 124, "begun\n")
            assert done.error is not None and done.error.type == "Timeout"
            assert "seconds: interrupted" in done.error.message
            assert unsaid(done) == f"Timeout: not done after {limit or 1} seconds: interrupted\n"
            assert "timeout_sec" in (done.error.hint or "")
        with pytest.raises(SandboxTimeoutError, match="not done after 1 seconds: interrupted"):
            session.call(time.sleep, 60)
        assert session.run("a").value == "7"


def test_a_program_that_has_taken_the_place_of_the_code_is_told_to_have_run_out_of_time() -> None:
    with Sandbox(timeout_sec=0.5) as session:
        session.run("1")
        done = session.run("import os\nos.execvp('sleep', ['sleep', '60'])")
        assert (done.timed_out, done.exit_code) == (True, 124)
        assert done.error is not None and done.error.type == "Timeout"
        assert "not done after 0.5 seconds: interrupted, which has ended its process" in session.ended


# Programs that the code waits for. The last line of each is not carried out after an interrupt.
WAITS = {
    "os.system": "import os\nos.system('sleep 60')\nprint('after')",
    "a pipeline": "import subprocess\nsubprocess.run('sleep 60 | cat', shell=True)\nprint('after')",
    "a program": "import subprocess\nsubprocess.Popen(['sleep', '60']).wait()\nprint('after')",
    "a pool": "import multiprocessing, time\n"
    "with multiprocessing.Pool(2) as pool: pool.map(time.sleep, [60, 60])\nprint('after')",
}
PROGRAMS = "import glob; [one for one in glob.glob('/proc/[0-9]*/comm') if open(one).read() in ('sleep\\n', 'cat\\n')]"


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_an_interrupt_reaches_the_programs_of_the_run_and_no_others(isolation: Any) -> None:
    with Sandbox(isolation=isolation) as session:
        # The kernel tells the start of a process in hundredths of a second.
        session.run("import subprocess, time; earlier = subprocess.Popen(['sleep', '600']); time.sleep(0.05)")
        for what, source in WAITS.items():
            if isolation == "process" and what == "a pool":  # it needs semaphores
                continue
            begun = time.monotonic()
            done = session.run(source, timeout_sec=0.5)
            assert (done.timed_out, done.exit_code, done.stdout) == (True, 124, "")
            with interrupts(session):
                done = session.run(source)
            assert done.error is not None
            assert (done.timed_out, done.error.type, done.stdout) == (False, "KeyboardInterrupt", "")
            asyncio.run(cancelled_run(session, source))
            assert time.monotonic() - begun < 10
        assert session.run("earlier.poll() is None").value == "True"
        if isolation == "container":
            left = session.run(PROGRAMS).value or ""
            assert left.count("comm") == 1


def test_the_limit_of_a_run_may_be_longer_than_that_of_its_session() -> None:
    with Sandbox(timeout_sec=0.5) as session:
        assert session.run("import time; time.sleep(1)", timeout_sec=20).error is None
        for wrong in (0, -1, float("nan"), "5"):
            with pytest.raises(ValueError, match=r"^timeout_sec: "):
                session.run("1", timeout_sec=wrong)  # type: ignore[arg-type]
        assert session.run("1").value == "1"


def test_a_run_that_an_interrupt_does_not_end_ends_the_session() -> None:
    with Sandbox(timeout_sec=20) as session:
        done = session.run(STUBBORN, timeout_sec=0.5)
        assert (done.timed_out, done.exit_code) == (True, 124)
        with pytest.raises(SandboxError, match=r"has ended: not done after 0\.5 seconds: killed"):
            session.run("1")


def test_an_interrupt_ends_the_run_and_not_the_session() -> None:
    with Sandbox() as session:
        session.run("x = 41")
        with interrupts(session):
            error = session.run("while True: pass").error
        assert error is not None and error.type == "KeyboardInterrupt"
        assert session.run("x + 1").value == "42"


def test_an_interrupt_between_runs_does_nothing() -> None:
    with Sandbox() as session:
        session.interrupt()
        assert session.run("import signal; x = 41").error is None
        session.interrupt()
        assert session.run("x + 1").value == "42"
        assert session.run("signal.getsignal(signal.SIGINT) is signal.default_int_handler").value == "True"
        container = session._container
        assert container is not None

        def has_begun(_: object) -> bool:  # and another thread parks it at this moment
            session._container = None
            return True

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(container), "has_begun", has_begun)
            session.interrupt()
        session._container = container


def test_interrupts_at_any_moment_leave_the_session() -> None:
    def interrupt_all_the_time() -> None:
        while not done.is_set():
            session.interrupt()

    done = threading.Event()
    with Sandbox() as session:
        session.run("x = 41")
        threads = [threading.Thread(target=interrupt_all_the_time) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            errors = [session.run("x; sum(range(200_000))").error for _ in range(50)]
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert {error.type for error in errors if error is not None} <= {"KeyboardInterrupt"}
        assert session.run("x + 1").value == "42"


def test_an_interrupt_behind_the_code_is_an_error_of_the_run() -> None:
    with Sandbox() as session:
        strike = "import os\nlook = os.stat\ndef strike(path):\n    os.stat = look\n    os.kill(os.getpid(), 2)\n"
        error = session.run(f"x = 41\n{strike}\nos.stat = strike").error  # open files are looked for with it
        assert error is not None and error.type == "KeyboardInterrupt"
        assert session.run("x + 1").value == "42"


def test_a_handler_of_ones_own_stays() -> None:
    with Sandbox() as session:
        session.run("import signal, time; seen = []; x = signal.signal(signal.SIGINT, lambda *_: seen.append(1))")
        session.interrupt()
        assert session.run("seen").value == "[]"
        with interrupts(session):
            assert session.run("while not seen: time.sleep(0.01)").error is None
        session.run("x = signal.signal(signal.SIGINT, signal.SIG_IGN)")
        assert session.run("signal.getsignal(signal.SIGINT) is signal.SIG_IGN").value == "True"


def test_a_coroutine_can_be_interrupted() -> None:
    async def endless() -> None:
        import asyncio

        await asyncio.sleep(60)

    with Sandbox() as session:
        session.run("import asyncio, signal")
        with interrupts(session):
            error = session.run("asyncio.run(asyncio.sleep(60))").error
        assert error is not None and error.type == "KeyboardInterrupt"
        with interrupts(session), pytest.raises(SandboxExecutionError, match="KeyboardInterrupt"):
            session.call(endless)
        assert session.run("signal.getsignal(signal.SIGINT) is signal.default_int_handler").value == "True"


def test_a_handler_that_raises_between_two_runs_does_not_end_the_session() -> None:
    with Sandbox() as session:
        session.run(
            "import signal\nstate, calls = 5, []\n"
            "def late(*about): raise TimeoutError('late')\n"
            "def count(*about): calls.append(1)\n"
            "signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
            "signal.signal(signal.SIGUSR1, count)"
        )
        time.sleep(0.3)
        runtime.call("kill", session._container.name, "USR1")  # type: ignore[union-attr]
        done = session.run("(state, calls)")
        assert (done.value, done.error) == ("(5, [1])", None)
        assert "TimeoutError: late" in done.stderr
        # In the next runs the handlers are those that the code has set.
        assert session.run("signal.getsignal(signal.SIGALRM) is late").value == "True"
        raised = session.run("signal.raise_signal(signal.SIGALRM)")
        assert raised.error is not None and raised.error.type == "TimeoutError"
        assert session.run("state").value == "5"
