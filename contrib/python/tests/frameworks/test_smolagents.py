"""A CodeAgent of smolagents with a scripted model, whose code runs in a session."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import dataclasses
import datetime
import threading
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.utils import AgentError

from pysbx.errors import SerializationError
from pysbx.frameworks.smolagents import PysbxExecutor

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Scripted(Model):
    """A model that says what it was given, and keeps what it has read."""

    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="scripted")
        self.steps, self.read = list(steps), list[str]()

    def generate(self, messages: list[Any], **options: Any) -> ChatMessage:
        self.read.append(str(messages[-1].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: so.\n<code>\n{self.steps.pop(0)}\n</code>")


@tool
def double(number: int) -> int:
    """Return twice a number.

    Args:
        number: the number.
    """
    return 2 * number


@pytest.fixture
def executor() -> Iterator[PysbxExecutor]:
    made = PysbxExecutor()
    yield made
    made.cleanup()


def solve(executor: PysbxExecutor, *steps: str, **given: Any) -> tuple[Any, Scripted]:
    model = Scripted(*steps)
    agent = CodeAgent(tools=[double], model=model, executor=executor, max_steps=len(steps), verbosity_level=0)
    return agent.run("Solve it.", additional_args=given), model


def test_tools_variables_and_state_travel(executor: PysbxExecutor) -> None:
    answer, model = solve(executor, "x = double(n)\nprint('x is', x)", "final_answer({'x': x, 't': (1, 2)})", n=21)
    assert answer == {"x": 42, "t": (1, 2)}
    assert "x is 42" in model.read[1]


@tool
def origins() -> str:
    """Return where modules come from."""
    import bs4
    import docx  # type: ignore[import-not-found]

    return str([vars(one)["origin"] for one in (bs4, docx)])


def test_the_packages_of_a_tool_come_with_it(tmp_path: Path) -> None:
    """Packages have other names than their modules. A module that is there needs none."""
    for package, module in (("beautifulsoup4", "bs4"), ("python_docx", "docx"), ("listed", "listed")):
        with zipfile.ZipFile(tmp_path / f"{package}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{module}.py", f"origin = {package!r}")
            about = f"{package}-1.dist-info"
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    imports = ["listed"]
    executor = PysbxExecutor(imports, wheels=str(tmp_path))
    executor.sandbox.put({"docx.py": "origin = 'work'"})
    executor.send_tools({"origins": origins})
    assert executor("origins()").output == "['beautifulsoup4', 'work']"
    assert (imports, executor.installed_packages) == (["listed"], ["listed", "beautifulsoup4"])
    with pytest.raises(AgentError, match="names and files of earlier steps are gone"):
        executor("import os; os._exit(1)")
    assert executor("origins()").output == "['beautifulsoup4', 'python_docx']"
    executor.cleanup()


def test_what_has_no_source_stays_in_the_program(executor: PysbxExecutor) -> None:
    """Such as a managed agent, or a tool of an MCP server: tools= of the executor names it."""
    inner = CodeAgent([], Scripted("final_answer('seven')"), executor=executor, name="helper", description="Helps.")
    with pytest.raises(ValueError, match=r"^helper: .*PysbxExecutor\(tools=\{'helper': …\}\)"):
        CodeAgent([], Scripted("x = 1"), executor=executor, managed_agents=[inner]).run("Solve it.")
    outer = PysbxExecutor(tools={"helper": inner})
    model = Scripted("import os; os._exit(1)", "final_answer(helper('Count.'))")
    answer = CodeAgent([double], model, executor=outer, managed_agents=[inner], max_steps=2).run("Solve it.")
    assert "seven" in answer
    outer.cleanup()


@dataclasses.dataclass
class Place:
    """A class of the program."""

    name: str


def test_variables_of_any_class_travel(executor: PysbxExecutor) -> None:
    given = {"place": Place("home"), "when": datetime.date(2024, 1, 2), "price": Decimal("1.10")}
    answer, _ = solve(executor, "final_answer([place.name, when.year, price * 2])", **given)
    assert answer == ["home", 2024, Decimal("2.20")]


def test_errors_are_for_the_model(executor: PysbxExecutor) -> None:
    answer, model = solve(executor, "1 / 0", "import sys; sys.exit(3)", "y = 5", "final_answer(y)")
    assert answer == 5
    assert "ZeroDivisionError" in model.read[1]
    assert "exit code 3" in model.read[2]


def test_an_agent_goes_on_after_code_that_ends_its_session(executor: PysbxExecutor) -> None:
    answer, model = solve(executor, "import os; os._exit(1)", "y = double(n)", "final_answer(y)", n=3)
    assert answer == 6
    assert "names and files of earlier steps are gone" in model.read[1]
    executor.cleanup()
    with pytest.raises(AgentError, match="has been closed"):
        executor("1")


def test_a_value_that_could_not_be_sent_is_not_sent_again(executor: PysbxExecutor) -> None:
    with pytest.raises(SerializationError):
        executor.send_variables({"lock": threading.Lock()})
    executor.send_variables({"n": 3})
    for _ in range(2):
        with pytest.raises(AgentError, match="names and files of earlier steps are gone"):
            executor("import os; os._exit(1)")
        assert executor("n * 2").output == 6


def test_warnings_are_for_the_model_too(executor: PysbxExecutor) -> None:
    logs = executor("import logging\nprint('done')\nlogging.warning('half of the rows are empty')").logs
    assert logs == "done\nWARNING:root:half of the rows are empty\n"


def test_values(executor: PysbxExecutor) -> None:
    assert executor("[1, (2, 3)]").output == [1, (2, 3)]
    assert executor("print('a'); object").output == "<class 'object'>"
    assert executor("x = 1").output is None
    picture = executor(
        f"import base64\nclass Figure:\n    def _repr_png_(self): return base64.b64decode({PIXEL!r})\nFigure()"
    ).output
    assert isinstance(picture, PIL.Image.Image)
    assert picture.size == (1, 1)


def test_a_figure_may_be_the_answer(executor: PysbxExecutor) -> None:
    """The library of the sandbox is a small one of this test."""
    program = (
        "class Figure:\n"
        f"    def savefig(self, file, format): file.write(__import__('base64').b64decode({PIXEL!r}))\n"
        "Figure.__module__ = 'matplotlib.figure'\nfinal_answer(Figure())"
    )
    answer, _ = solve(executor, program)
    assert answer.to_raw().size == (1, 1)


def test_large_answer(executor: PysbxExecutor) -> None:
    assert solve(executor, "final_answer('x' * 300000)")[0] == "x" * 300000


def test_hostile_answer(executor: PysbxExecutor) -> None:
    """An answer that the codec does not have, as by pickle, is an error for the model."""
    executor.send_tools({})
    with pytest.raises(AgentError, match="cannot leave the sandbox"):
        executor("class Value:\n    def __reduce__(self): return print, ('unpickled',)\nfinal_answer(Value())")
