"""An executor of smolagents: the code of a CodeAgent runs in a session, which keeps its names from step to step."""

from __future__ import annotations

import ast
import base64
import functools
import io
import sys
from collections.abc import Callable, Mapping
from typing import Any

import PIL.Image
from smolagents.default_tools import FinalAnswerTool
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.tools import get_tools_definition_code
from smolagents.utils import AgentError

from pysbx.calls.execution import Execution, advice, unsaid
from pysbx.calls.session import Sandbox
from pysbx.calls.tools import Tools
from pysbx.errors import SandboxError
from pysbx.options.hints import package_of
from pysbx.options.keywords import SandboxOptions, Unpack

# The answer travels by the codec of sessions. That of smolagents imports PIL and numpy.
FINAL_ANSWER = """
class FinalAnswerException(BaseException):
    value = None

def final_answer(*arguments, _inner=globals().get("final_answer", lambda answer: answer), **named):
    FinalAnswerException.value = _inner(*arguments, **named)
    raise FinalAnswerException
"""
STAYS = "{0}: its source does not go into the session; PysbxExecutor(tools={{'{0}': …}}) runs it in this program: {1}"
IMAGES = ("image/png", "image/jpeg")


def _last(name: str) -> Any:
    """Return, in the session, the value of the code before, or the answer that has ended it; a picture as PNG."""
    import __main__, builtins, io  # noqa: E401, I001, PLC0415 (they go into the sandbox with the function)

    found = __main__.FinalAnswerException.value if name == "answer" else builtins._  # type: ignore[attr-defined]
    library, _, _ = type(found).__module__.partition(".")
    method = {"PIL": "save", "matplotlib": "savefig"}.get(library, "")
    if hasattr(found, method):
        file = io.BytesIO()
        getattr(found, method)(file, format="PNG")
        return "image", file.getvalue()
    return "value", found


def _define(values: dict[str, Any]) -> None:
    """Give values names, in the session."""
    import __main__  # noqa: PLC0415 (it goes into the sandbox with the function)

    vars(__main__).update(values)


def _missing(modules: list[str]) -> list[str]:
    """Return those that the session lacks, in the session."""
    import importlib.util  # noqa: PLC0415 (it goes into the sandbox with the function)

    return [name for name in modules if importlib.util.find_spec(name) is None]


# They go by value: the sandbox does not have this module.
_last.__module__ = _define.__module__ = _missing.__module__ = "__main__"


def _imported(code: str) -> list[str]:
    """Return the modules that code imports at its top level, where the framework imports all that its tools need."""
    nodes = [node for node in ast.parse(code).body if isinstance(node, ast.Import)]
    return sorted({one.name.partition(".")[0] for node in nodes for one in node.names} - sys.stdlib_module_names)


def _image(data: bytes) -> Any:
    return PIL.Image.open(io.BytesIO(data)).copy()  # read as a whole


class PysbxExecutor(RemotePythonExecutor):
    """An executor for CodeAgent(executor=…). Tools and variables go into the session; nothing is unpickled here.

    Attributes:
        sandbox: the session.
    """

    def __init__(
        self,
        additional_imports: list[str] | None = None,
        logger: Any = None,
        *,
        sandbox: Sandbox | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        """Take a session, or prepare one, and install packages into it. The logger is by default a new one.

        Tools and managed agents that tools= names, too, stay in this program, and code in the session calls them there.
        """
        super().__init__(additional_imports or [], logger or AgentLogger(), allow_pickle=False)
        self._make = functools.partial(Sandbox, tools=tools, **options)
        self.sandbox = sandbox or self._make()
        self._renews = sandbox is None  # while there may be another session
        self._tools: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}
        self.installed_packages = self.install_packages(self.additional_imports)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install packages into the session; pip runs in a sandbox of its own."""
        self.sandbox.install(*additional_imports)
        return [*additional_imports]  # not the list of the caller, to which more is added

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Define tools in the session, and install the packages that they import."""
        host = self.sandbox._tools.tools.functions if self.sandbox._tools is not None else {}
        plain = {name: one for name, one in tools.items() if type(one) is not FinalAnswerTool and name not in host}
        for name, one in plain.items():
            try:
                one.to_dict()
                get_tools_definition_code({name: one})
            except ValueError as error:
                raise ValueError(STAYS.format(name, error)) from error
        code = get_tools_definition_code(plain)
        if modules := _imported(code):
            packages = [package_of(name) for name in self.sandbox.call(_missing, modules)]
            self.installed_packages += self.install_packages(packages)
        self.run_code_raise_errors(f"{code}\n{FINAL_ANSWER}")
        self._tools = tools

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Give values names in the session, also tables and objects of classes: not by the codec of smolagents."""
        if variables:
            self.sandbox.call(_define, variables)
            self._variables |= variables

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run the code of a step. Its exceptions become an AgentError, whose text the agent shows to its model."""
        try:
            done = self.sandbox._run_typed(code)
        except SandboxError as error:
            raise self._failed(f"The sandbox cannot run the code: {error}") from error
        if done.error is not None and done.error.type.endswith(self.FINAL_ANSWER_EXCEPTION):
            try:
                return CodeOutput(self._fetch("answer"), done.stdout, is_final_answer=True)
            except Exception as error:  # an image may be forged
                raise AgentError(f"The final answer cannot leave the sandbox: {error}", self.logger) from error
        if done.error is not None or done.exit_code:
            said = unsaid(done) or f"exit code {done.exit_code}\n"
            raise self._failed(f"{done.stdout}\nExecuting code yielded an error:\n{done.stderr}{said}{advice(done)}")
        return CodeOutput(self._value(done), done.stdout + done.stderr, is_final_answer=False)

    def _failed(self, said: str) -> AgentError:
        """Return the error of a step. If its code has ended the session, a new one has the tools and variables."""
        if self.sandbox.ended and self._renews:
            self._renews = False  # tools that end the session do so once
            said += "\nThe session has ended: the names and files of earlier steps are gone."
            try:
                self.sandbox = self._make()
                self.install_packages(self.installed_packages)
                self.send_variables(self._variables)
                self.send_tools(self._tools)
            except (SandboxError, AgentError) as error:
                self.sandbox.close()  # the next step tries again
                said += f"\nNo other one can be prepared: {error}"
            finally:
                self._renews = True
        return AgentError(said, self.logger)

    def _fetch(self, name: str) -> Any:
        """Return what _last() gives, as the codec of sessions carries it: nothing is unpickled."""
        found = self.sandbox.call(_last, name)
        kind, value = found if isinstance(found, tuple) and len(found) == 2 else ("", None)
        return _image(value) if kind == "image" and isinstance(value, bytes) else value

    def _value(self, done: Execution) -> Any:
        """Return the last figure that the code has shown, or its value; if that cannot travel, its text."""
        figures = (one[kind] for one in reversed(done.displays) for kind in IMAGES if kind in one)
        try:
            for found in figures:
                return _image(base64.b64decode(found))
            return None if done.value is None else self._fetch("value")
        except (SandboxError, OSError, ValueError):
            return done.value

    def cleanup(self) -> None:
        """End the session: CodeAgent.cleanup calls this."""
        self._renews = False
        self.sandbox.close()
