"""The pages name what a user can set and call: variables, methods of a session, arguments of run_code."""

# once: the caller's rights make no difference

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pysbx
from pysbx import AsyncSandbox, Sandbox, run_code, run_code_async
from pysbx.options.keywords import OPTIONS
from pysbx.version import VERSION

PAGES = Path(__file__).parents[2] / "docs/pages/reference"
API = (PAGES / "python-api.md").read_text(encoding="utf-8")
SESSIONS = (PAGES / "sessions.md").read_text(encoding="utf-8")
COMMAND = (PAGES / "pysbx-command.md").read_text(encoding="utf-8")


def first_cells(page: str, *, having: str) -> str:
    """Return the first cells of the one table that has a text in it."""
    (found,) = (part for part in page.split("\n\n") if part.startswith("|") and having in part)
    return "\n".join(row.split("|")[1] for row in found.splitlines())


def test_each_variable_that_is_read_is_documented() -> None:
    sources = (path.read_text(encoding="utf-8") for path in Path(pysbx.__file__).parent.rglob("*.py"))
    read = {name for source in sources for name in re.findall(r"\"(PYSBX_[A-Z_]*[A-Z])\"", source)}
    assert {"PYSBX_RUNTIME", "PYSBX_TOKEN", "PYSBX_CONFIG"} <= read
    documented = set(re.findall(r"`(\w+)`", first_cells(COMMAND, having="PYSBX_RUNTIME")))
    # The package itself sets the first, for code that runs without a container (how-to/container.md). The other is for
    # the worker: the reason of a cold start.
    assert read - {"PYSBX_DIRECTORY", "PYSBX_COLD_REASON"} <= documented
    assert {"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} <= documented


def test_each_method_of_a_session_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)", first_cells(SESSIONS, having="`interrupt()`")))
    assert {"call", "save"} <= documented
    for session, own in ((Sandbox(), set[str]()), (AsyncSandbox(), {"sandbox"})):
        names = {name for name in dir(session) if not name.startswith("_")}
        assert names == documented | own, type(session).__name__
    assert "`session.sandbox`" in SESSIONS


def test_the_package_shows_its_names_and_no_modules() -> None:
    assert [name for name in dir(pysbx) if not name.startswith("_")] == sorted(pysbx.__all__)
    assert pysbx.__version__ == VERSION


def test_each_argument_of_run_code_is_documented() -> None:
    arguments = set(inspect.signature(run_code).parameters) - {"changes"}
    documented = set(re.findall(r"`(\w+)`", first_cells(API, having="`module`")))
    assert {"module", "name", "argv"} <= documented
    assert arguments == documented
    assert not arguments & OPTIONS.keys()


def test_signatures_show_only_what_is_documented() -> None:
    """`options`, `cancel` and `begun` are for the package's own callers."""
    for called in (run_code, run_code_async, Sandbox, Sandbox.restore, AsyncSandbox, AsyncSandbox.restore):
        assert not {"options", "cancel", "begun"} & set(inspect.signature(called).parameters), called


# A command that installs or runs a package by name, up to the end of its line or of the code.
BY_NAME = re.compile(r"\b(?:pip3? install|pip download|pipx \w+|uvx|uv (?:add|pip|tool) \w+)[^\n`]*\bpysbx\b[^\n`]*")


def test_no_command_takes_the_package_from_an_index() -> None:
    """None has it, and each could get a stranger's of that name. Pages and hints name the wheel."""
    top = Path(__file__).parents[3]
    pages = [*(top / "contrib").rglob("*.md"), *top.glob("*.md")]
    texts = {path: path.read_text(encoding="utf-8") for path in pages if path.name != "CHANGELOG.md"}
    named = [(path.name, found[0]) for path, text in texts.items() for found in BY_NAME.finditer(text)]
    assert [name for name, _ in named].count("install.md") >= 3
    # As --no-index does, a path names the package that is meant.
    safe = (".whl", "${wheel}", "--no-index", "./contrib/python")
    assert [(name, command) for name, command in named if not any(mark in command for mark in safe)] == []
    sources = (path.read_text(encoding="utf-8") for path in Path(pysbx.__file__).parent.rglob("*.py"))
    assert [found[0] for source in sources for found in BY_NAME.finditer(source)] == []
