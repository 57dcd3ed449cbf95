"""Tools: functions of this program that code in a sandbox calls by name, and what hostile code makes of that."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import enum
import functools
import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest

from pysbx import (
    AsyncSandbox,
    Execution,
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    Tools,
    run_code,
    run_code_async,
    tool_stubs,
)
from pysbx.base import log
from pysbx.calls import tool_calls
from pysbx.calls.tool_calls import ToolHost, open_arguments
from pysbx.inside.encode import encode
from tests.conftest import descriptors

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


def search(query: str, limit: int = 5) -> list[str]:
    """Search the web."""
    return [f"{query} {number}" for number in range(limit)]


async def fetch(url: str, *, tries: int = 3) -> dict[str, int]:
    r'''Fetch a "page".

    Its text has \ and """.
    '''
    await asyncio.sleep(0)
    return {url: tries}


def call_fail() -> None:
    fail()  # type: ignore[name-defined]  # noqa: F821 (a tool)


TOOLS: dict[str, Callable[..., Any]] = {"search": search, "fetch": fetch}
STUBS = r'''
def search(query: str, limit: int = 5) -> list[str]:
    """Search the web."""
    ...

async def fetch(url: str, *, tries: int = 3) -> dict[str, int]:
    """Fetch a "page".

    Its text has \\ and \"\"\".
    """
    ...
'''


def value(done: Execution) -> Any:
    """Return the value of a run that must not fail."""
    assert done.error is None, done.error
    return done.value


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session with tools."""
    with Sandbox(tools=TOOLS) as made:
        yield made


@pytest.mark.parametrize("options", [{}, {"warm": "off"}, {"isolation": "process"}, {"ready": 0}], ids=repr)
def test_a_program_calls_a_function_by_its_name(options: dict[str, Any]) -> None:
    for _ in range(3):  # the last one in a container that was ready, unless an option says otherwise
        done = run_code(
            "from pysbx_tools import fetch\nimport asyncio\nsearch('a', limit=2), asyncio.run(fetch('u'))",
            tools=TOOLS,
            **options,
        )
        assert value(done) == "(['a 0', 'a 1'], {'u': 3})"


def test_a_program_keeps_its_own_names() -> None:
    source = "import tools, pysbx_tools; tools.mine, pysbx_tools.search('a', 1)"
    done = run_code(source, files={"tools.py": "mine = 1"}, tools=TOOLS)
    assert value(done) == "(1, ['a 0'])"
    assert value(run_code("search = 1; search", tools=TOOLS)) == "1"


def test_a_tool_looks_like_the_function(session: Sandbox) -> None:
    shown = "inspect.signature(search), inspect.signature(fetch), inspect.iscoroutinefunction(fetch)"
    done = session.run(f"import inspect\nhelp(search)\n{shown}")
    assert value(done) == (
        "(<Signature (query: str, limit: int = 5) -> list[str]>, "
        "<Signature (url: str, *, tries: int = 3) -> dict[str, int]>, True)"
    )
    assert "search(query: str, limit: int = 5) -> list[str]\n    Search the web." in done.stdout
    assert session._complete("sear") == ["search("]
    wrong = session.run("search()").error
    assert wrong is not None and (wrong.type, wrong.message) == (
        "TypeError",
        "search() missing a required argument: 'query'",
    )


def test_a_tool_that_was_not_awaited_is_told() -> None:
    async def fetch(name: str) -> dict[str, str]:
        """Fetch."""
        return {"name": name}

    for code in (
        "fetch('a')['name']",
        "fetch('a').get('name')",
        "len(fetch('a'))",
        "import json; json.dumps(fetch('a'))",
    ):
        done = run_code(code, tools={"fetch": fetch})
        assert done.error is not None and "called without `await`" in str(done.error.hint), code


class Range(TypedDict, total=False):
    """Where to look."""

    first: int


@dataclasses.dataclass
class Query:
    """Words, and where."""

    words: list[str]
    where: Range
    limit: int = 5
    names: list[str] = dataclasses.field(default_factory=list)


class Found(pydantic.BaseModel):
    """A place."""

    page: int
    note: str = ""


def test_a_stub_has_the_fields_of_the_classes_in_it() -> None:
    def search(query: Query, among: dict[str, Query]) -> list[Found]:
        """Search."""
        return [Found(page=len(query.words))]

    assert (
        tool_stubs({"search": search})
        == """class Range(TypedDict):
    first: NotRequired[int]

class Query(TypedDict):
    words: list[str]
    where: Range
    limit: NotRequired[int]
    names: NotRequired[list[str]]

class Found(TypedDict):
    page: int
    note: NotRequired[str]

def search(query: Query, among: dict[str, Query]) -> list[Found]:
    \"\"\"Search.\"\"\"
    ...
"""
    )


class Unit(enum.Enum):
    """A unit of length."""

    METRE = "m"
    FOOT = "ft"


class Access(enum.IntFlag):
    """A right to a file."""

    READ = 1
    WRITE = 2


class Length(pydantic.BaseModel):
    """A length with its unit."""

    number: float
    unit: Unit = Unit.METRE


def test_stubs_have_the_values_of_an_enumeration() -> None:
    def measure(length: Length, to: Unit, access: Access) -> float: ...  # type: ignore[empty-body]

    stubs = tool_stubs({"measure": measure})
    assert stubs.startswith(
        """\
Unit = Literal['m', 'ft']

class Length(TypedDict):
    number: float
    unit: NotRequired[Unit]

def measure(length: Length, to: Unit, access:"""
    )


def test_validate_call_makes_the_objects_that_a_tool_declares() -> None:
    @pydantic.validate_call
    def measure(length: Length, to: Unit = Unit.FOOT) -> list[str]:
        return [type(length).__name__, length.unit.name, to.name]

    tools = {"measure": measure}
    assert "def measure(length: Length, to: Unit" in tool_stubs(tools)
    done = run_code("measure({'number': 2, 'unit': 'ft'}, to='m')", tools=tools)
    assert value(done) == "['Length', 'FOOT', 'METRE']"
    done = run_code("measure({'unit': 'ft'})", tools=tools)
    assert done.error is not None and "number" in done.error.message


def test_stubs_are_python_that_a_model_can_read() -> None:
    assert tool_stubs(TOOLS) == STUBS[1:]
    scope: dict[str, Any] = {}
    exec(tool_stubs(TOOLS), scope)
    assert scope["fetch"].__doc__ is not None and scope["fetch"].__doc__.split() == str(fetch.__doc__).split()

    class Caller:
        def __call__(self, a: int) -> None:
            """Call it."""

    for function in (Caller(), functools.partial(Caller(), 1)):
        assert '"""Call it."""' in tool_stubs({"call": function})

    def kinds(a: int, /, b: Any = object(), *rest: str, c: int, **named: bytes) -> None: ...  # noqa: B008

    stub = "def kinds(a: int, /, b: Any = ..., *rest: str, c: int, **named: bytes) -> None:\n    ...\n"
    assert tool_stubs({"kinds": kinds}) == stub
    assert value(run_code("str(__import__('inspect').signature(kinds))", tools={"kinds": kinds})) == repr(
        "(a: int, /, b: Any = Ellipsis, *rest: str, c: int, **named: bytes) -> None"
    )


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


def test_values_travel_with_their_types() -> None:
    given = [1 << 80, 1.5, None, b"b", "t", (1, 2), {3}, {(1, 2): [3]}, datetime.date(2024, 1, 2), 2j, range(3)]
    source = f"import datetime\ngiven = {given!r}\nassert echo(given, x=given) == (given, given)"
    assert value(run_code(source, tools={"echo": lambda *all_, x: (*all_, x)})) is None


def test_a_table_travels(virtualenv: str) -> None:
    source = """
import pandas as pd
table = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
assert echo(table).equals(table)
assert echo(table["a"].to_numpy()).tolist() == [1, 2]
"""
    assert value(run_code(source, tools={"echo": lambda it: it}, virtualenv=virtualenv, memory_mb=1024)) is None


class Own(Exception):
    """An exception that the sandbox does not have."""


class Colour(enum.Enum):
    """A class that the sandbox does not have."""

    RED = 1


class Silent(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError


class Exiting(Exception):
    """An exception that ends the program which shows it."""

    def __str__(self) -> str:
        """End the program."""
        raise SystemExit


class Unshown:
    """An argument that cannot be shown."""

    def __repr__(self) -> str:
        """Fail."""
        raise ValueError


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (KeyError("k"), "KeyError('k')"),
        (FileNotFoundError(2, "No such file", "/x"), "FileNotFoundError(2, 'No such file')"),
        (ZeroDivisionError(), "ZeroDivisionError()"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')"),
        (ValueError(Colour), "ValueError(\"<enum 'Colour'>\")"),
        (ValueError(Colour.RED), "ValueError('Colour.RED')"),
        (ValueError(Unshown()), "ValueError('')"),
        (Own("text"), "ToolError('Own: text')"),
        (Silent(), "ToolError('Silent')"),
        (Exiting(), "ToolError('Exiting')"),
        (SystemExit(3), "ToolError('SystemExit: 3')"),
        (KeyboardInterrupt(), "ToolError('KeyboardInterrupt')"),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_an_exception_arrives_as_one(raised: BaseException, seen: str) -> None:
    def fail() -> None:
        raise raised

    done = run_code("try: fail()\nexcept Exception as error: print(repr(error))", tools={"fail": fail})
    assert (done.error, done.stdout) == (None, f"{seen}\n")
    shown = run_code("fail()", tools={"fail": fail})
    assert shown.exit_code == 1
    assert __file__ not in shown.stderr  # nothing of this program's traceback


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no such groups")
def test_a_group_of_exceptions_keeps_its_text() -> None:
    def fail() -> None:
        raise ExceptionGroup("many", [ValueError(1)])  # noqa: F821 (Python 3.11)

    done = run_code("fail()", tools={"fail": fail})
    assert done.error
    assert (done.error.type, done.error.message) == ("ToolError", "ExceptionGroup: many (1 sub-exception)")


@pytest.mark.parametrize(
    "raised",
    [
        ModuleNotFoundError("No module named 'pandas'"),
        FileNotFoundError(2, "No such file or directory", "report.txt"),
        OSError(30, "Read-only file system"),
        MemoryError(),
        NameError("name 'fial' is not defined"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_an_exception_of_a_tool_has_no_hint_about_the_sandbox(raised: Exception) -> None:
    def fail() -> None:
        raise raised

    async def fail_later() -> None:
        raise raised

    tools = {"fail": fail, "fail_later": fail_later}
    for source in ("fail()", "import asyncio; asyncio.run(fail_later())"):
        done = run_code(source, tools=tools)
        assert done.error
        assert (done.error.type, done.error.hint) == (type(raised).__name__, None)
    own = run_code("try: fail()\nexcept Exception: import pandsa", tools=tools)
    assert own.error
    assert own.error.hint == "module 'pandsa' is not in the sandbox: did you mean 'pandas'?"
    with Sandbox(tools=tools) as session:
        with pytest.raises(SandboxExecutionError) as caught:
            session.call(call_fail)
        assert (caught.value.error_type, caught.value.hint) == (type(raised).__name__, None)


def test_values_that_cannot_travel_are_errors_inside() -> None:
    source = """
for attempt in (lambda: echo(print), lambda: give(), lambda: colour()):
    try: attempt()
    except Exception as error: print(type(error).__name__, error)
"""
    done = run_code(source, tools={"echo": lambda it: it, "give": object, "colour": lambda: Colour.RED})
    lines = done.stdout.splitlines()
    assert lines[0].startswith("TypeError echo(): it: a value of type builtin_function")
    assert lines[1] == "TypeError what give() returns: a value of type object cannot enter the sandbox"
    assert lines[2].startswith("ToolError colour() has returned something that this sandbox cannot read")
    assert "return dataclasses.asdict(…) of it, or the value of a member" in lines[2]


def test_the_host_makes_no_instance_of_a_class_for_a_sandbox() -> None:
    source = f"""
import enum, sys
class Colour(enum.Enum):
    RED = 1
Colour.__module__ = {__name__!r}
try: echo(Colour.RED)
except TypeError as error: print(error)
"""
    done = run_code(source, tools={"echo": lambda it: pytest.fail("called")})
    assert "its arguments cannot leave the sandbox" in done.stdout, done


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


def test_what_tools_are_is_encoded_once_for_all_runs() -> None:
    seen = []
    with Sandbox(tools=TOOLS) as session:
        assert session._tools is not None
        for _ in range(2):
            with session._tools.connect(session._started()[0]) as (about, _):
                seen.append(about["tools"]["specs"])
    assert isinstance(seen[0], bytes)
    assert seen[0] is seen[1]


def test_a_session_gets_its_tools_again_when_it_is_restored(session: Sandbox, tmp_path: Path) -> None:
    value(session.run("found = search('a', 1)"))
    session.snapshot(tmp_path / "saved")
    with Sandbox.restore(tmp_path / "saved") as restored:
        done = restored.run("search('b', 1)")
        assert done.error is not None
        assert done.error.message.endswith(": if the session was restored, pass tools= to restore()")
    with Sandbox.restore(tmp_path / "saved", tools={"search": lambda query, limit: [query] * limit}) as restored:
        assert value(restored.run("found, search('b', 2)")) == "(['a 0'], ['b', 'b'])"


def test_a_fork_has_the_same_tools(session: Sandbox) -> None:
    value(session.run("import pysbx_tools\nfound = search('a', 1)"))
    with session.fork() as fork:
        assert value(fork.run("found, search('b', 1), pysbx_tools.search('c', 1)")) == "(['a 0'], ['b 0'], ['c 0'])"
    assert value(session.run("search('d', 1)")) == "['d 0']"
    with pytest.raises(SandboxError, match="has tools"):
        session._run_typed("1", 0)


def test_functions_that_are_called_in_a_session_use_tools(session: Sandbox) -> None:
    def use() -> Any:
        from pysbx_tools import search as found  # type: ignore[import-not-found]

        return found("a", 1)

    assert session.call(use) == ["a 0"]


def test_two_sessions_do_not_hear_of_each_other() -> None:
    seen: dict[str, list[str]] = {"one": [], "two": []}
    with (
        Sandbox(tools={"note": seen["one"].append}) as one,
        Sandbox(tools={"note": seen["two"].append}) as two,
    ):
        threads = [
            threading.Thread(target=session.run, args=(f"for n in range(50): note('{name}')",))
            for name, session in (("one", one), ("two", two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == {name: [name] * 50 for name in seen}


def test_a_handler_of_the_log_that_fails_stops_no_later_call(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(record.msg)

    logger, handler = logging.getLogger("pysbx.tool"), Failing(logging.INFO)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with Sandbox(tools=Tools({"search": search}, max_concurrent=1, timeout_sec=5)) as session:
            for _ in range(3):
                assert value(session.run("search('a', 1)")) == "['a 0']"
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert "ValueError: tool %s" in capsys.readouterr().err


def test_the_log_of_a_program_whose_standard_error_nothing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(record.msg)

    logger, handler = logging.getLogger("pysbx.tool"), Failing(logging.INFO)
    monkeypatch.setattr(sys, "stderr", Unread())
    logger.addHandler(handler)
    try:
        log.write(log.TOOL, log.WARNING, "text")
    finally:
        logger.removeHandler(handler)


def test_each_call_is_in_the_log_without_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pysbx.tool"):
        run_code("search('secret', 1)\ntry: search('secret', 'x')\nexcept TypeError: pass", tools=TOOLS)
    lines = [record.getMessage() for record in caplog.records if record.name == "pysbx.tool"]
    said = [line for line in lines if "tool wait" not in line]  # of an earlier test, whose function went on
    assert [line.partition(",")[0] for line in said] == ["tool search returned", "tool search raised TypeError"]
    assert "secret" not in "".join(said)
    assert all("bytes of arguments" in line and "bytes of answer" in line for line in said)


@pytest.mark.parametrize("name", ["", "a b", "if", "_x", "print", "input", "KeyError", "open", "ToolError", "search"])
def test_what_is_no_tool_is_refused(name: str) -> None:
    given: Any = [search] if name == "search" else {name: search}
    uncallable: Any = {"search": name}
    for one in (given, uncallable):
        with pytest.raises((TypeError, ValueError), match=r"^tools: "):
            Sandbox(tools=one)


@pytest.mark.parametrize(
    "limit",
    [{"max_calls": 0}, {"max_bytes": 1.5}, {"timeout_sec": 0}, {"max_concurrent": True}, {"timeout_sec": "x"}],
    ids=repr,
)
def test_what_is_no_limit_is_refused(limit: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^tools: "):
        Tools(TOOLS, **limit)


def test_without_tools_there_are_none() -> None:
    assert value(run_code("import sys; 'pysbx_inside.tools' in sys.modules", tools={})) == "False"
    assert tool_stubs({}) == ""
    assert ToolHost(Tools(TOOLS)).tools.max_calls == 1000
    assert open_arguments(encode([[1], {"a": 2}])) == ([1], {"a": 2})
