"""Calls of tools: many at once, hostile ones, and how they end."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pysbx import AsyncSandbox, Sandbox, Tools, run_code, run_code_async, tool_stubs
from pysbx.calls import tool_calls
from tests.conftest import descriptors
from tests.test_tools import TOOLS, search, value


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session with tools."""
    with Sandbox(tools=TOOLS) as made:
        yield made


# Hostile code sends calls of its own. raw() sends any bytes, and gone() waits until no answer can come.
RAW = """
import os, struct, sys
way = sys.modules['pysbx_inside.tools']._connection
def raw(content):
    content = memoryview(content)
    while content: content = content[os.write(way.descriptor, content):]
def head(number, position, size): return struct.pack('<QIQ', number, position, size)
def gone():
    try: return os.read(way.descriptor, 1 << 16)
    except ConnectionResetError: return b''
"""


def test_what_partial_has_bound_stays_the_callers() -> None:
    def fetch_page(path: str, site: str, key: str, **others: str) -> str:
        return f"{path} {site} {len(key)} {others}"

    bound = functools.partial(functools.partial(fetch_page, key="sk-live-1"), site="a", other="o")

    @functools.wraps(bound)
    def again(*given: Any, **named: Any) -> Any:
        return bound(*given, **named)

    tools: dict[str, Callable[..., Any]] = {"ask": bound, "again": again}
    assert tool_stubs(tools).count("(path: str, **others: str)") == 2
    with Sandbox(tools=tools) as session:
        assert value(session.run("ask('/'), again(path='/')")) == repr(("/ a 9 {'other': 'o'}",) * 2)
        assert value(session.run("import pysbx_tools\n'sk-live' in str(pysbx_tools.ask.__signature__)")) == "False"
        assert session.run("ask('/', site='b')").error is not None
        # {"path": "/", "site": "b"}
        given = b"\x92\x90\x82\xa4path\xa1/\xa4site\xa1b"
        for position in (0, 1):
            done = session.run(f"{RAW}raw(head(1, {position}, {len(given)}) + {given!r})\nprint(gone())")
            assert "unexpected keyword argument 'site'" in done.stdout


def test_a_thousand_calls_are_in_flight() -> None:
    sent, active, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def wait(number: int) -> int:
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])
        assert sent.wait(30)
        with lock:
            active[0] -= 1
        return number * 2

    async def wait_for(number: int) -> int:
        return wait(number)

    source = """
import asyncio
async def main():
    calls = [asyncio.ensure_future(wait_for(number)) for number in range(1000)]
    await asyncio.sleep(0)
    print('sent', flush=True)
    return await asyncio.gather(*calls)
assert asyncio.run(main()) == [2 * number for number in range(1000)]
"""
    heard: Callable[[str], None] = lambda _: sent.set()  # noqa: E731
    assert value(run_code(source, tools=Tools({"wait_for": wait_for}, max_concurrent=4), on_stdout=heard)) is None
    assert most == [4]


def test_no_thread_waits_for_a_future_that_a_tool_returns() -> None:
    futures: list[Future[int]] = []

    def later(number: int) -> Future[int]:
        futures.append(Future())
        if len(futures) == 2:
            futures[1].set_exception(KeyError("none"))
            futures[0].set_result(42)
        return futures[-1]

    source = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    found = [pool.submit(later, number) for number in range(2)]
print(*sorted((repr(one.exception() or one.result()) for one in found)))
"""
    done = run_code(source, tools=Tools({"later": later}, max_concurrent=1))
    assert done.stdout == "42 KeyError('none')\n", done.error


def test_threads_call_at_the_same_time(session: Sandbox) -> None:
    source = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(20) as pool:
    found = list(pool.map(lambda n: search(str(n), 1), range(200)))
assert found == [[f'{n} 0'] for n in range(200)]
"""
    assert value(session.run(source)) is None


def test_asynchronous_tools_run_in_the_callers_event_loop() -> None:
    name = contextvars.ContextVar("name", default="")

    async def main() -> None:
        lock, loop = asyncio.Lock(), asyncio.get_running_loop()

        async def where() -> bool:
            async with lock:
                await asyncio.sleep(0)
            return asyncio.get_running_loop() is loop

        name.set("set")
        tools: dict[str, Callable[..., Any]] = {"where": where, "named": name.get}
        source = "import asyncio; asyncio.run(where()), named()"
        async with AsyncSandbox(tools=tools) as session:
            assert value(await session.run(source)) == "(True, 'set')"
            async with await session.fork() as fork:
                assert value(await fork.run(source)) == "(True, 'set')"
        assert value(await run_code_async(source, tools=tools)) == "(True, 'set')"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("limits", "source", "said"),
    [
        ({"max_calls": 3}, "for _ in range(4): echo(1)", "this run has made 3 calls of tools, which is the most"),
        ({"max_bytes": 1000}, "echo('x' * 999)", "the arguments of the calls of this run have more than 1000 bytes"),
        (
            {"max_bytes": 1000},
            "for _ in range(9): echo(big=400)",
            "the answers of the tools of this run have more than 1000 bytes",
        ),
        ({"timeout_sec": 0.2}, "echo(sleep=1)", "echo() has not returned within 0.2 seconds"),
    ],
)
def test_calls_are_bounded(limits: dict[str, Any], source: str, said: str) -> None:
    def echo(*given: Any, big: int = 0, sleep: float = 0) -> Any:
        time.sleep(sleep)
        return given or "x" * big

    with Sandbox(tools=Tools({"echo": echo}, **limits)) as session:
        for _ in range(2):  # the limits are those of a run
            error = session.run(source).error
            assert error is not None and error.message == said
        assert value(session.run("echo(1)")) == "(1,)"


HOSTILE = {
    "a tool that is not listed": "raw(head(1, 2, 0))",
    "one beyond all": "raw(head(1, 4294967295, 0))",
    "more than allowed": "raw(head(1, 0, 1 << 63))",
    "bytes that are none": "raw(b'\\xff' * 1000)",
    "more calls than allowed": "raw(head(1, 0, 0) * 1001)",
    "its end of the socket": "os.close(way.descriptor)",
}


@pytest.mark.parametrize("attack", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_calls_end_the_calls_of_their_run_alone(attack: str) -> None:
    called: list[str] = []

    def note(it: str = "") -> str:
        called.append(it)
        return it

    before = descriptors()
    with Sandbox(tools={"note": note, "search": search}) as attacked:
        done = attacked.run(f"{RAW}{attack}\nif 'close' not in {attack!r}:\n    while gone(): pass\nsearch('a')")
        assert done.error is not None and done.error.type in ("ToolError", "OSError")
        assert value(attacked.run("search('a', 1)")) == "['a 0']"
    assert called == []
    assert descriptors() == before


@pytest.mark.parametrize(
    "arguments",
    [
        "b''",
        "b'\\xc1'",
        "b'\\x90'",
        "b'\\x92\\x90\\x90'",
        "b'\\x92\\x80\\x80'",
        "b'\\x92\\x90\\x81\\x01\\x02'",
        "b'\\xdd\\xff\\xff\\xff\\xff'",
        "b'\\x91' * 600",
    ],
)
def test_malformed_arguments_are_an_error_of_their_call(session: Sandbox, arguments: str) -> None:
    done = session.run(
        f"{RAW}given = {arguments}\nraw(head(1, 0, len(given)) + given)\nassert b'TypeError' in gone()\nsearch('a', 1)"
    )
    assert value(done) == "['a 0']"


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("then", ["", "socket.socket(fileno=os.dup(way.descriptor)).shutdown(socket.SHUT_WR)"])
def test_answers_that_nothing_reads_hold_nothing_up(then: str) -> None:
    def big() -> str:
        time.sleep(0.2)
        return "x" * (1 << 20)

    calls = "given = b'\\x92\\x90\\x80'\nraw((head(1, 0, len(given)) + given) * 100)"
    done = run_code(f"{RAW}{calls}\nimport socket, time\n{then}\ntime.sleep(60)", tools={"big": big}, timeout_sec=2)
    assert done.timed_out


def test_calls_end_with_their_run() -> None:
    begun, ended = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        ended.wait(30)

    source = """
import threading
seen = []
def late():
    try: hold()
    except Exception as error: seen.append(str(error))
thread = threading.Thread(target=late)
thread.start()
while not held(): pass
"""
    with Sandbox(tools=Tools({"hold": hold, "held": begun.is_set}, max_calls=1 << 20)) as session:
        assert value(session.run(source)) is None
        said = "no run of the session is in progress, or the host has ended the calls of this one"
        assert value(session.run("thread.join(); held(), seen")) == repr((True, [said]))
        ended.set()


def test_a_process_of_the_program_cannot_call(session: Sandbox) -> None:
    source = """
import os
if not (pid := os.fork()):
    try: search('a')
    except Exception as error: os._exit(type(error).__name__ == 'ToolError')
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
search('a', 1)
"""
    assert value(session.run(source)) == "['a 0']"


def test_a_tool_takes_time_of_its_run_and_can_be_interrupted() -> None:
    ended, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        ended.wait(30)

    with Sandbox(tools={"hold": lambda: ended.wait(30), "wait": wait, "search": search}) as session:

        def interrupt() -> None:
            begun.wait(30)
            session.interrupt()

        done = session.run("hold()", timeout_sec=0.5)
        assert done.timed_out
        threading.Thread(target=interrupt).start()
        source = "try: wait()\nexcept KeyboardInterrupt: print('interrupted')\nsearch('a', 1)"
        done = session.run(source)
        assert (value(done), done.stdout) == ("['a 0']", "interrupted\n")
    ended.set()
    ended.clear()
    assert run_code("wait()", tools={"wait": wait}, timeout_sec=0.5).timed_out
    ended.set()


def test_the_time_of_code_that_calls_without_a_pause_ends() -> None:
    with Sandbox(tools=Tools(TOOLS, max_calls=1 << 20)) as session:
        assert session.run("while True: search('a', 1)", timeout_sec=0.5).timed_out
        assert value(session.run("search('a', 1)")) == "['a 0']"


def test_an_interrupt_at_any_step_of_a_call_spoils_no_other(session: Sandbox) -> None:
    # Python calls a handler behind a call, at the end of a loop and at the beginning of a function, and nowhere else.
    source = """
import _thread, dis, sys
left, interrupted, before = step, False, {}
class Stop(Exception): pass
def trace(frame, event, argument):
    global left
    if not frame.f_code.co_filename.endswith(('inside/tools.py', 'inside/encode.py', 'calls/decode.py')): return None
    frame.f_trace_opcodes = True
    if event == 'opcode':
        left -= before.get(frame, '').startswith(('CALL', 'JUMP_BACKWARD', 'RESUME'))
        before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if left < 0:
        sys.settrace(None)
        raise Stop
    return trace
sys.settrace(trace)
try: search('a')
except Stop: interrupted = True
finally: sys.settrace(None)
assert search('b', 1) == ['b 0']
assert _thread._count() <= 1
interrupted
"""
    step = 0
    while (seen := value(session.run(f"step = {step}{source}", timeout_sec=20))) == "True":
        step += 1
    assert (seen, step > 20) == ("False", True)


def test_a_call_takes_no_thread_of_the_sandbox(session: Sandbox) -> None:
    source = "import _thread, asyncio\nfound = search('a', 1), _thread._count()"
    for calls, threads in (("", 0), ("\nasyncio.run(fetch('u'))", 1), ("", 0)):
        assert value(session.run(f"{source}{calls}\nfound[1], _thread._count()")) == f"(0, {threads})"


def test_a_handler_of_a_signal_cannot_call_while_its_thread_waits() -> None:
    said = threading.Event()
    source = """
import signal
def handle(*_):
    try: hold()
    except RuntimeError as error: print(error, flush=True)
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
hold()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    hears: Callable[[str], None] = lambda _: said.set()  # noqa: E731
    with Sandbox(tools={"hold": lambda: said.wait(30)}) as session:
        done = session.run(source, on_stdout=hears)
        assert done.stdout.startswith(
            "a handler of a signal cannot call a tool while its thread waits for another call\n"
        )
        assert value(session.run("hold()")) == "True"


def test_a_thread_of_this_program_serves_one_run_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "IDLE_SEC", 60)
    threads, seen = tool_calls._Threads(), list[int]()
    for number in range(3):
        threads.do(lambda: seen.append(threading.get_ident()))
        while len(seen) <= number or not threads._idle:
            time.sleep(0.001)
    assert len(set(seen)) == 1


def test_a_run_without_a_call_costs_no_thread_and_no_search_for_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = tool_calls._Threads()
    monkeypatch.setattr(threads, "do", lambda _: pytest.fail("a thread was woken"))
    monkeypatch.setattr(tool_calls, "_threads", threads)
    with Sandbox(tools=TOOLS) as session:
        value(session.run("import sys"))
        assert value(session.run("sys.modules['pysbx_inside.ending']._is_known()")) == "True"
