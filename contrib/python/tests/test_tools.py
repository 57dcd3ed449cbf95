"""Tools: functions of this program that code in a sandbox calls by name."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest

from pysbx import Execution, Sandbox, SandboxError, SandboxExecutionError, Tools, run_code, tool_stubs
from pysbx.base import log
from pysbx.calls.tool_calls import ToolHost, open_arguments
from pysbx.inside.encode import encode


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
