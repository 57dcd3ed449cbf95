"""Notebook mode: await at the top level, and lines with % and ! as IPython has them."""

# once: the caller's rights make no difference

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx import Sandbox, run_code
from pysbx.command import main
from pysbx.inside.notebook import plain
from tests.packages import make_wheel
from tests.servers import server


@pytest.fixture
def session() -> Iterator[Sandbox]:
    """A session in notebook mode."""
    with Sandbox(notebook=True) as made:
        yield made


def test_await_at_the_top_level(session: Sandbox) -> None:
    done = session.run("import asyncio\nawait asyncio.sleep(0)\nasync def f(): return 42\nawait f()")
    assert (done.value, done.error) == ("42", None)
    # A task goes on in the next run.
    session.run("async def begin():\n    global task\n    task = asyncio.create_task(f())\nawait begin()")
    assert session.run("await task").value == "42"
    assert session.run("async with asyncio.Lock() as held: pass\nheld").value is None
    assert session.run("asyncio.run(f())").value == "42"
    error = session.run("x = 1\nawait asyncio.sleep('a')").error
    assert error is not None and (error.type, error.line) == ("TypeError", 2)
    assert "pysbx_inside" not in error.traceback


def test_a_task_begins_in_a_cell_of_its_own_or_before_an_await(session: Sandbox) -> None:
    session.run("import asyncio\nasync def f(): return 42")
    done = session.run("task = asyncio.create_task(f())\nx = 1\nawait task")
    assert (done.error, done.value) == (None, "42")
    assert session.run("task = asyncio.create_task(f())").error is None
    assert session.run("await task").value == "42"
    done = session.run("async def g(): return await asyncio.create_task(f())\nasyncio.run(g())")
    assert (done.error, done.value) == (None, "42")
    error = session.run("def h(): 1 / 0\nh()\nawait f()").error
    assert error is not None
    assert (error.line, error.traceback.count("File "), error.type) == (1, 2, "ZeroDivisionError")


def test_an_await_that_takes_too_long_is_interrupted(session: Sandbox) -> None:
    session.run("import asyncio; x = 41")
    done = session.run("try: await asyncio.sleep(60)\nfinally: print('undone')", timeout_sec=0.5)
    assert (done.timed_out, done.stdout) == (True, "undone\n")
    assert session.run("await asyncio.sleep(0, x + 1)").value == "42"


def test_without_the_mode_python_is_as_it_is() -> None:
    for source in ("import asyncio\nawait asyncio.sleep(0)", "!ls", "%matplotlib inline"):
        error = run_code(source).error
        assert error is not None and error.type == "SyntaxError"


def test_commands(session: Sandbox) -> None:
    done = session.run("name = 'a b'\n!echo {name} >made; cat made; exit 3\n_exit_code")
    assert (done.stdout, done.value) == ("a b\n", "3")
    assert session.run("lines = !printf 'one\\ntwo\\n'\nlines").value == "['one', 'two']"
    assert (
        session.run("for n in (1, 2):\n    !echo n{n}\n    if n == 2:\n        !echo {n + 1}").stdout == "n1\nn2\n3\n"
    )
    assert session.run("!echo one \\\n   two\n1 / 0").stdout == "one two\n"
    assert run_code(b"# coding: latin-1\n!echo one\nlen('\xe9\xe9')", notebook=True).value == "2"
    error = session.run("!echo one \\\n   two\n1 / 0").error
    assert error is not None and error.line == 3
    assert "!echo" not in error.traceback
    assert session.run("!echo {none_such} ${HOME} it\\'s").stdout == "{none_such} /work it's\n"
    assert session.run("!echo \"it's\"\nprint('and')\n!echo 'one").stdout == "it's\nand\n"


def test_magics(session: Sandbox) -> None:
    assert session.run("%matplotlib inline\n%cd /tmp\n%pwd").value == "'/tmp'"
    assert session.run("%env NAME=some text\n%env NAME").value == "'some text'"
    assert session.run("here = %pwd\nhere").value == "'/tmp'"
    timed = session.run("%time sum([40, 2])")
    assert (timed.value, "wall time" in timed.stdout) == ("42", True)
    assert "loops each" in session.run("%timeit 1 + 1").stdout
    assert session.run("%timeit -n 7 -r2 1 + 1").stdout.endswith("the best of 2 runs with 7 loops each\n")
    cell = session.run("%%timeit -r 1 -n 3 ready = 1\nready + 1\n")
    assert cell.stdout.endswith("the best of 1 runs with 3 loops each\n"), cell.stderr
    error = session.run("x = 1\n%nonsense 5").error
    assert error is not None and (error.type, error.line) == ("UsageError", 2)
    assert "%nonsense is not known: there are %pip" in error.message


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'é';", None),
        ("x = 1\n(x +\n 1) ; # two", None),
        ("1; 2", "2"),
        ("';'", "';'"),
        ("1 # ;", "1"),
        ("print(0);", None),
    ],
)
def test_a_semicolon_at_the_end_hides_the_value(source: str, value: str | None, session: Sandbox) -> None:
    done = session.run(source)
    assert (done.value, done.error, done.displays) == (value, None, ())


def test_cells(session: Sandbox) -> None:
    assert session.run("%%bash\nfor n in 1 2; do echo $n; done\n").stdout == "1\n2\n"
    session.run("%%writefile /work/made.txt\nline {x}\n%pwd\n")
    assert session.get("made.txt") == b"line {x}\n%pwd\n"
    assert session.run("%%html\n<b>bold</b>").displays[0]["text/html"] == "<b>bold</b>"
    assert "wall time" in session.run("%%time\nz = 5\n!echo out").stdout
    assert session.run("z").value == "5"
    error = session.run("%%nonsense\n1").error
    assert error is not None and error.message.startswith("%%nonsense is not known: there are %%bash")


@pytest.mark.parametrize(
    "source",
    [
        "x = '''\n!ls\n%pwd\n'''",
        "x = (7\n%5)",
        "x = 5 \\\n%3",
        "def f(:\n    pass",
        "x = [\n!= 5",
        "a %% b",
        "x = !",
        "\n\n",
        "a !b",
    ],
)
def test_text_that_is_python_or_no_command_stays(source: str) -> None:
    if source == "x = !":
        assert "lines_of" in str(plain(source))
    else:
        assert plain(source) == source


def test_pip_installs_into_the_sandbox_or_says_why_not(session: Sandbox) -> None:
    done = session.run("%pip install none-such-package")
    assert done.error is not None and done.error.type == "UsageError"
    assert done.error.message.startswith("this sandbox has no ")  # pip, or network
    assert "Retrying" not in done.stderr
    install = "[sys.executable, '-m', 'pip', 'install', 'none-such-package']"
    done = run_code(f"import subprocess, sys; subprocess.check_call({install})")
    assert done.error is not None
    assert done.error.hint == 'pip could not install it in the sandbox: add dependencies=["none-such-package"]'
    assert "externally-managed" not in done.stderr
    assert done.stderr.count("Retrying") <= 1


@pytest.mark.parametrize(
    "line", ["pip install", "pip3 install -q", "python -m pip install", "{sys.executable} -m pip install"]
)
def test_lines_that_call_pip_as_a_command(line: str, tmp_path: Path) -> None:
    """Many notebooks begin so. It is no error of the code, as it is none with IPython."""
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    with Sandbox(notebook=True, dependencies=["thing"], wheels=str(tmp_path)) as made:
        done = made.run(f"import sys\n!{line} thing\n_exit_code")
        assert (done.value, done.error) == ("0", None)
        assert "Requirement already satisfied: thing" in done.stdout
        done = made.run(f"import sys\n!{line} none-such-package\n'goes on'")
        assert (done.value, done.error) == ("'goes on'", None)
        assert done.stderr  # of pip, if the Python of this machine has one
        assert made.run("_exit_code").value != "0"
        # The shell still does the rest of the line.
        assert made.run(f"!echo {line} thing | cat").stdout.endswith(" thing\n")


def test_a_profile_that_inspects_code_refuses_commands_and_allows_await() -> None:
    for source in ("!id", "import math\nx = !id", "%cd /tmp", "%%bash\nid"):
        done = run_code(source, profile="minimal", notebook=True)
        assert done.error is not None and (done.error.type, done.stdout) == ("PolicyViolation", "")
    source = "%matplotlib inline\nasync def f(): return 42\nawait f()"
    assert run_code(source, profile="minimal", notebook=True).value == "42"


def test_the_command_has_the_mode(capfd: pytest.CaptureFixture[str]) -> None:
    source = "!echo from a command\nimport asyncio\nprint(await asyncio.sleep(0, 5))"
    assert main(["run", "--notebook", "-c", source]) == 0
    assert capfd.readouterr().out == "from a command\n5\n"


def test_over_http_the_operator_chooses_it_for_all_callers(tmp_path: Path) -> None:
    with server("--notebook", listen=f"unix:{tmp_path}/s") as service:
        done = service.run("%matplotlib inline\nimport asyncio\nwords = !echo one\nawait asyncio.sleep(0, words)")
        assert (done["value"], done["error"]) == ("['one']", None)
        place = service.post("/v1/sessions").headers["location"]
        service.post(f"{place}/run", code="import asyncio\nx = await asyncio.sleep(0, 41)")
        assert service.post(f"{place}/run", code="x + 1").json()["value"] == "42"
        # The profile of the short interface checks the code, and inspects no commands.
        refused = service.post("/execute", code="!id")
        assert (refused.status_code, refused.json()["error"]) == (400, "Code validation failed")
    with server(listen=f"unix:{tmp_path}/s") as service:
        error = service.run("import asyncio\nawait asyncio.sleep(0)")["error"]
        assert error["type"] == "SyntaxError"
        assert "operator of this server for --notebook" in error["hint"]
        answer = service.post("/v1/run", code="1", notebook=True)
        assert (answer.status_code, "there is no such member" in answer.json()["detail"]) == (422, True)
