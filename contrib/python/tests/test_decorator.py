"""The decorators: functions, coroutines, methods, closures; every way in which a call can fail."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cloudpickle import list_registry_pickle_by_value, register_pickle_by_value, unregister_pickle_by_value

from pysbx import (
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    SandboxMemoryError,
    SandboxTimeoutError,
    SerializationError,
    sandbox,
    sandbox_async,
)
from pysbx.base.threads import AT_ONCE
from pysbx.calls import decorator
from pysbx.calls.call import call
from pysbx.container.process import Cancelled
from tests.conftest import descriptors

GLOBAL = 40


def helper(number: int) -> int:
    """Stand for a function of the same module."""
    return number + GLOBAL


@sandbox
def plain(number: int) -> int:
    """Add through a function and a global of this module."""
    return helper(number)


def talk(last: str) -> None:
    """Print on both streams, and end as a caller wants."""
    print("to \x1b[31mstdout")
    print("to stderr", file=sys.stderr)
    sys.stdout.write("no end of line")
    if last:
        exec(last)


@sandbox(timeout_sec=20)
def factorial(number: int) -> int:
    """Call itself: inside, that is a plain call."""
    return 1 if number < 2 else number * factorial(number - 1)


class Account:
    """Something with a decorated method."""

    def __init__(self, balance: int) -> None:
        self.balance = balance

    @sandbox
    def after(self, amount: int, *, times: int = 1) -> int:
        """Return what the balance would be."""
        self.balance += amount * times
        return self.balance


def test_a_function_is_called_in_another_process() -> None:
    assert plain(2) == 42
    assert sandbox(os.getpid)() == 2


def test_recursion() -> None:
    assert factorial(30) == 265252859812191058636308480000000


def test_a_closure_takes_its_variables_along() -> None:
    factor = 3

    @sandbox
    def times(number: int) -> int:
        return number * factor

    assert times(5) == 15
    factor = 4
    assert times(5) == 20


def test_a_method_works_on_a_copy() -> None:
    account = Account(10)
    assert account.after(5, times=2) == 20
    assert account.balance == 10


def test_the_wrapper_can_be_recognised() -> None:
    assert vars(plain)["_is_sandboxed"]
    assert vars(factorial)["_sandbox_config"].timeout_sec == 20
    assert plain.__name__ == "plain"
    assert not inspect.iscoroutinefunction(plain)


def test_a_coroutine_function_stays_one() -> None:
    @sandbox
    async def add(one: int, two: int) -> int:
        await asyncio.sleep(0)
        return one + two

    assert inspect.iscoroutinefunction(add)
    assert asyncio.run(add(1, 2)) == 3


def test_sandbox_async_does_not_block_the_loop() -> None:
    @sandbox_async
    def nap(number: int) -> int:
        time.sleep(0.3)
        return number

    async def several() -> list[int]:
        naps = asyncio.gather(*(nap(number) for number in range(3)))
        for _ in range(5):
            await asyncio.sleep(0.01)
            assert not naps.done()
        return list(await naps)

    assert asyncio.run(several()) == [0, 1, 2]


def test_a_cancelled_task_leaves_no_container() -> None:
    @sandbox_async(timeout_sec=60)
    def nap() -> None:
        time.sleep(60)

    async def cancelled() -> float:
        task = asyncio.ensure_future(nap())
        await asyncio.sleep(0.5)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 30


class Calls:
    """Stands for decorator.call: calls that do nothing, until they are told to end or for some seconds."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def __call__(self, *arguments: Any, cancel: int, **_: Any) -> None:
        """Begin, and wait."""
        self.begun.append(arguments[2][0])
        if select.select([cancel], [], [], 60)[0]:
            raise Cancelled


def test_a_call_that_waits_for_its_turn_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    monkeypatch.setattr(decorator, "call", calls)
    work = sandbox_async(helper)

    async def cancelled() -> float:
        before = [asyncio.ensure_future(work(number)) for number in range(100)]
        while len(calls.begun) < AT_ONCE:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(100), 0.1)
        # The number of calls at the same time does not depend on the CPUs: a thread only waits.
        assert sorted(calls.begun) == list(range(AT_ONCE))
        for task in before:
            task.cancel()
        await asyncio.wait(before)
        assert all(task.cancelled() for task in before)
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 30
    assert 100 not in calls.begun


def test_a_task_that_is_cancelled_twice_does_not_wait_and_leaves_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, proceed, ended = threading.Event(), threading.Event(), threading.Event()
    told = []

    def slow_to_begin(*arguments: Any, cancel: int, **named: Any) -> None:
        begun.set()
        proceed.wait(60)
        try:
            told.extend(select.select([cancel], [], [], 0)[0])  # fails if it is closed
            call(*arguments, cancel=cancel, **named)
        finally:
            ended.set()

    monkeypatch.setattr(decorator, "call", slow_to_begin)

    @sandbox_async
    def nap() -> None:
        time.sleep(20)

    async def cancelled() -> None:
        task = asyncio.ensure_future(nap())
        assert await asyncio.to_thread(begun.wait, 60)
        for _ in range(2):
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        assert task.cancelled()
        proceed.set()
        assert await asyncio.to_thread(ended.wait, 60)

    asyncio.run(cancelled())
    assert told


def test_an_exception_has_type_message_and_traceback() -> None:
    @sandbox
    def divide(one: int, two: int) -> float:
        return one / two

    with pytest.raises(SandboxExecutionError) as caught:
        divide(1, 0)
    assert (caught.value.error_type, caught.value.error_message) == ("ZeroDivisionError", "division by zero")
    assert "in divide\n    return one / two\n" in caught.value.traceback_str
    assert "pysbx_inside" not in caught.value.traceback_str
    assert caught.value.hint


def test_the_traceback_of_an_inner_function_shows_its_line_too() -> None:
    @sandbox
    def outer() -> float:
        def inner() -> float:
            return 1 / 0

        return inner()

    with pytest.raises(SandboxExecutionError) as caught:
        outer()
    assert f'File "{__file__}"' in caught.value.traceback_str
    assert "in inner\n    return 1 / 0\n" in caught.value.traceback_str
    assert caught.value.traceback_str.strip() in getattr(caught.value, "__notes__", ())  # Python 3.11 prints them


def test_time_is_limited_by_the_clock() -> None:
    @sandbox(timeout_sec=0.5)
    def nap() -> None:
        time.sleep(60)

    began = time.monotonic()
    with pytest.raises(SandboxTimeoutError) as caught:
        nap()
    assert caught.value.timeout_sec == 0.5
    assert time.monotonic() - began < 10


def test_memory_is_limited() -> None:
    @sandbox(memory_mb=128)
    def hoard() -> int:
        return len(bytearray(512 << 20))

    with pytest.raises(SandboxMemoryError) as caught:
        hoard()
    assert caught.value.memory_mb == 128


def test_the_end_of_the_process_is_an_error() -> None:
    @sandbox
    def leave() -> None:
        os.write(2, b"last words")
        os._exit(7)

    with pytest.raises(SandboxExecutionError, match="code 7") as caught:
        leave()
    assert (caught.value.traceback_str, caught.value.exit_code) == ("last words", 7)


def test_sys_exit_is_an_error() -> None:
    @sandbox
    def leave() -> None:
        raise SystemExit(7)

    with pytest.raises(SandboxExecutionError, match="SystemExit: 7") as caught:
        leave()
    assert caught.value.exit_code is None


class Nested:
    """An argument that calls a sandboxed function while it is packed."""

    def __init__(self, run: Callable[[Callable[[], int]], int]) -> None:
        self.run = run

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what stands for the number that the call returns."""
        return int, (self.run(lambda: plain(2)),)


def in_a_thread(work: Callable[[], int]) -> int:
    """Run a call in another thread, and wait for it; a thread that never ends does not hold up the tests."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(30)
    return found[0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("run", [lambda work: work(), in_a_thread], ids=["the same thread", "another thread"])
def test_an_argument_may_call_a_sandboxed_function_while_it_is_packed(run: Any) -> None:
    before = list_registry_pickle_by_value()

    @sandbox
    def total(first: Any, account: Account, last: Any) -> int:
        return int(first) + account.balance + int(last)

    # The code of Account, which is packed after such a call has ended, travels by value all the same.
    assert total(Nested(run), Account(1), Nested(run)) == 85
    assert list_registry_pickle_by_value() == before


def test_a_module_that_the_caller_has_registered_stays_so() -> None:
    module = sys.modules[__name__]
    register_pickle_by_value(module)
    try:
        assert plain(2) == 42
        assert __name__ in list_registry_pickle_by_value()
    finally:
        unregister_pickle_by_value(module)


def test_an_argument_that_cannot_be_packed_is_named() -> None:
    with pytest.raises(SerializationError) as caught:
        sandbox(len)(threading.Lock())  # type: ignore[arg-type]
    assert caught.value.path == "argument 0"
    assert "lock" in caught.value.type_name


def test_a_generator_is_refused_by_name() -> None:
    @sandbox
    def count() -> Iterator[int]:
        yield 1

    with pytest.raises(SerializationError) as caught:
        count()
    assert (caught.value.type_name, caught.value.path) == ("generator", "result")


def test_the_path_to_what_cannot_be_returned() -> None:
    @sandbox
    def nested() -> object:
        return {"rows": [1, (2, object())]}

    with pytest.raises(SerializationError) as caught:
        nested()
    assert (caught.value.path, caught.value.type_name) == ("result['rows'][1][1]", "object")


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        ("toarray", "its toarray()"),
        ("filled", "its filled(…), and its mask"),
        ("collect_schema", "its collect()"),
        ("to_pylist", "its to_pylist()"),
        ("as_py", "its as_py()"),
        ("to_netcdf", "its to_dict()"),
    ],
)
def test_what_libraries_keep_in_another_form_has_advice(method: str, advice: str) -> None:
    """As sparse arrays of scipy, masked ones of numpy, which are iterable too, and queries of polars."""
    made = f"type('Kept', (list,), {{'{method}': lambda self: None}})()"
    with pytest.raises(SerializationError) as caught:
        sandbox(lambda: eval(made))()
    assert str(caught.value).endswith(f"Kept cannot leave the sandbox: return {advice}")


def test_an_object_of_a_class_of_yours_is_refused_with_what_to_return() -> None:
    class Point:
        pass

    with pytest.raises(SerializationError, match=r"Point cannot leave the sandbox: return its data as a dict"):
        sandbox(lambda: [Point()])()


def test_pickle_is_a_choice() -> None:
    @sandbox(result="pickle")
    def anything() -> object:
        return range(3)

    assert anything() == range(3)


@pytest.mark.parametrize("decorator", [sandbox, sandbox_async])
def test_an_unknown_result_is_refused_at_once(decorator: Any) -> None:
    with pytest.raises(ValueError, match="result: 'pickled' is not one of 'typed', 'pickle'"):
        decorator(result="pickled")
    with pytest.raises(ValueError, match="result: None"):
        decorator(result=None)


def test_a_large_argument_and_a_large_answer_pass_each_other() -> None:
    @sandbox
    def echo(data: bytes) -> bytes:
        print("x" * 200_000)
        return data

    data = os.urandom(1 << 20) * 20
    assert echo(data) == data


def test_an_answer_beyond_the_limit_is_refused() -> None:
    @sandbox(answer_limit=1000)
    def large() -> bytes:
        return bytes(2000)

    with pytest.raises(SerializationError, match="1000 bytes"):
        large()


def test_many_threads_at_once_and_no_descriptor_is_lost() -> None:
    plain(0)
    before = descriptors()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(plain, range(24))) == list(range(40, 64))
    assert descriptors() == before


def test_every_call_is_a_fresh_container() -> None:
    @sandbox
    def leave_traces() -> list[str]:
        found = [name for top in ("/tmp", "/work", "/output", "/dev/shm") for name in os.listdir(top)]
        for top in ("/tmp", "/work", "/output", "/dev/shm"):
            with open(f"{top}/trace", "w", encoding="ascii") as file:
                file.write("x")
        return found

    assert leave_traces() == []
    assert leave_traces() == []


def test_a_class_method_is_decorated_the_other_way_round() -> None:
    class Bank:
        @classmethod
        @sandbox
        def name(cls) -> str:
            return cls.__name__

        @staticmethod
        @sandbox
        def double(amount: int) -> int:
            return 2 * amount

        @sandbox
        @staticmethod
        def half(amount: int) -> int:
            return amount // 2

    assert (Bank.name(), Bank.double(4), Bank().half(4)) == ("Bank", 8, 2)
    for decorate in (sandbox, sandbox_async):
        with pytest.raises(TypeError, match="put @classmethod above @sandbox"):
            decorate(classmethod(lambda cls: None))  # type: ignore[call-overload]


def test_a_fork_of_this_program_has_sandboxes_of_its_own() -> None:
    awaited = sandbox_async(helper)
    assert plain(1) == asyncio.run(awaited(1)) == 41
    child = os.fork()
    if child == 0:
        os._exit(0 if plain(2) == 42 and asyncio.run(awaited(2)) == 42 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert plain(3) == asyncio.run(awaited(3)) == 43


def test_the_errors_are_one_family() -> None:
    assert issubclass(SandboxTimeoutError, SandboxError)
    with pytest.raises(SandboxError, match="has ended"):
        session = Sandbox()
        session.close()
        session.run("1")


@pytest.mark.parametrize("last", ["", "1/0", "import os; sys.stdout.flush(); os._exit(3)"])
def test_prints_go_to_the_callers_stderr(last: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SandboxExecutionError):
        sandbox(talk)(last)
    said = capsys.readouterr()
    assert said.out == ""
    # The order of the two streams is not known.
    assert all(part in said.err for part in ("no end of line", "to \x1b[31mstdout\n", "to stderr\n"))
    with contextlib.suppress(SandboxError), Sandbox() as session:
        session.call(talk, last)
    assert "to stderr" in capsys.readouterr().err


def test_prints_before_a_timeout_and_of_coroutines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SandboxTimeoutError):
        sandbox(timeout_sec=1)(talk)("import time; time.sleep(60)")
    assert "to stderr" in capsys.readouterr().err
    asyncio.run(sandbox_async(talk)(""))
    assert "to stderr" in capsys.readouterr().err


def test_prints_go_to_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    out: list[str] = []
    err: list[str] = []
    sandbox(on_stdout=out.append, on_stderr=err.append)(talk)("")
    assert ("".join(out), "".join(err)) == ("to \x1b[31mstdout\nno end of line", "to stderr\n")
    sandbox(on_stdout=out.append)(talk)("")
    assert capsys.readouterr().err == "to stderr\n"
    sandbox(on_stdout=out.append, output_limit=10)(print)("a" * 100)
    assert "".join(out).endswith("bytes left out]\naaaa\n")


def test_prints_to_a_terminal_have_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with open(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        sandbox(talk)("")
        said = os.read(ours, 1000).decode()
    os.close(ours)
    assert "to \N{REPLACEMENT CHARACTER}[31mstdout" in said
    monkeypatch.setattr(sys, "stderr", None)
    assert sandbox(talk)("") is None
    monkeypatch.setattr(sys, "stderr", terminal)  # it is closed
    assert sandbox(talk)("") is None


def test_a_function_that_cannot_be_packed_is_refused_before_packages_are_installed(tmp_path: Path) -> None:
    taken = threading.Lock()

    @sandbox(dependencies=["missing-package"], wheels=str(tmp_path))
    def look() -> bool:
        return taken.locked()

    with pytest.raises(SerializationError):
        look()
