"""Agents of Google's ADK with a scripted model: an environment and a code executor, both in a session."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types
from pydantic import Field

from pysbx.errors import SandboxError
from pysbx.frameworks.google_adk import PysbxCodeExecutor, PysbxEnvironment


class Scripted(BaseLlm):
    """A model that says what it was given, and keeps what it has read."""

    parts: list[types.Part]
    read: list[str] = Field(default_factory=list)

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self.read.append(str(llm_request.contents[-1]))
        yield LlmResponse(content=types.Content(role="model", parts=[self.parts.pop(0)]))


async def solve(agent: LlmAgent) -> str:
    """Return the last text of an agent."""
    runner = InMemoryRunner(agent=agent, app_name="test")
    session = await runner.session_service.create_session(app_name="test", user_id="user")
    message = types.Content(role="user", parts=[types.Part.from_text(text="Begin.")])
    said = ""
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        said = next((part.text for part in (event.content and event.content.parts) or () if part.text), said)
    return said


async def test_environment() -> None:
    environment = PysbxEnvironment()
    model = Scripted(
        model="scripted",
        parts=[
            types.Part.from_function_call(name="Execute", args={"command": "echo text >made; wc -c made; exit 3"}),
            types.Part.from_text(text="done"),
        ],
    )
    tools = [EnvironmentToolset(environment=environment)]
    assert await solve(LlmAgent(name="tester", model=model, tools=tools)) == "done"
    assert "5 made" in model.read[-1]
    assert await environment.read_file(Path("made")) == b"text\n"
    await environment.write_file(Path("deep/file"), "text")
    assert await environment.read_file(environment.working_dir / "deep/file") == b"text"
    with pytest.raises(FileNotFoundError):
        await environment.read_file(Path("none"))
    late = await environment.execute("echo begun; sleep 60", timeout=1)
    assert (late.timed_out, late.exit_code, late.stdout) == (True, 124, "begun\n")
    assert (await environment.execute("yes")).exit_code == 137
    await environment.close()
    assert not environment.is_initialized


async def test_code_executor() -> None:
    executor = PysbxCodeExecutor(stateful=True)
    codes = ["x = 41", "print(x + 1)"]
    parts = [types.Part.from_text(text=f"```python\n{code}\n```") for code in codes]
    model = Scripted(model="scripted", parts=[*parts, types.Part.from_text(text="done")])
    assert await solve(LlmAgent(name="tester", model=model, code_executor=executor)) == "done"
    assert "42" in model.read[-1]
    executor.close()


@pytest.mark.parametrize("stateful", [True, False])
async def test_a_warning_is_no_failure(stateful: bool) -> None:
    executor = PysbxCodeExecutor(stateful=stateful)
    code = "import warnings; warnings.warn('old'); print(6 * 7)"
    parts = [types.Part.from_text(text=text) for text in (f"```python\n{code}\n```", "done")]
    model = Scripted(model="scripted", parts=parts)
    assert await solve(LlmAgent(name="tester", model=model, code_executor=executor)) == "done"
    assert all(text in model.read[-1] for text in ("42", "UserWarning: old")), model.read
    executor.close()


@pytest.mark.parametrize("stateful", [True, False])
def test_a_model_reads_what_to_try_after_an_error(stateful: bool) -> None:
    executor = PysbxCodeExecutor(stateful=stateful)
    done = executor.execute_code(None, CodeExecutionInput("import jsn"))
    assert done.stderr.endswith("Hint: module 'jsn' is not in the sandbox: did you mean 'json'?\n")
    executor.close()


@pytest.mark.parametrize("stateful", [True, False])
def test_files(stateful: bool) -> None:
    executor = PysbxCodeExecutor(stateful=stateful, timeout_seconds=2)
    given = [File("a.csv", "YSxi"), File("b.csv", b"c,d")]
    code = "open('/output/out.csv', 'w').write(open('a.csv').read() + open('b.csv').read()); print(1); 1 / 0"
    done = executor.execute_code(None, CodeExecutionInput(code, given, "one"))
    (file,) = done.output_files
    assert (file.name, file.content, file.mime_type) == ("out.csv", b"a,bc,d", "text/csv")
    assert (done.exit_code, done.stdout, "ZeroDivisionError" in done.stderr) == (1, "1\n", True)
    assert done.stderr.startswith("1\nTraceback")  # the model sees no more than that
    late = executor.execute_code(None, CodeExecutionInput("import time; time.sleep(60)"))
    assert late.exit_code == 124
    killed = executor.execute_code(None, CodeExecutionInput("import os; os.kill(os.getpid(), 9)"))
    assert (killed.exit_code, "SIGKILL" in killed.stderr) == (137, True)
    left = executor.execute_code(None, CodeExecutionInput("import os; os._exit(2)"))
    gone = "the session has ended: its names and files are gone\n" if stateful else ""
    assert (left.exit_code, left.stderr) == (2, f"exit code 2\n{gone}")
    left = executor.execute_code(None, CodeExecutionInput("import os; print(42, flush=True); os._exit(0)"))
    assert (left.exit_code, left.stdout, left.stderr) == (0, f"42\n{gone}", "")  # of a failure, the output is not read
    assert executor.execute_code(None, CodeExecutionInput("print(open('a.csv').read())", given)).stdout == "a,b\n"
    executor.close()


@pytest.mark.parametrize("stateful", [True, False])
def test_options(stateful: bool) -> None:
    executor = PysbxCodeExecutor(stateful=stateful, timeout_sec=2, options={"env": {"A": "b"}})
    code = "import os, time; print(os.environ['A'], flush=True); time.sleep(60)"
    run = executor.execute_code(None, CodeExecutionInput(code))
    assert (run.stdout, run.exit_code, "2 seconds" in run.stderr) == ("b\n", 124, True)
    executor.close()
    with pytest.raises(TypeError, match="did you mean 'memory_mb'"):
        PysbxCodeExecutor(stateful=stateful, memory=512)


async def test_an_environment_goes_on_after_a_command_that_kills_its_session() -> None:
    environment = PysbxEnvironment()
    await environment.execute("(sleep 0.3; kill -9 2) >/dev/null 2>&1 &")
    await asyncio.sleep(1)
    with pytest.raises(SandboxError, match="SIGKILL"):
        await environment.execute("true")
    assert (await environment.execute("echo again")).stdout == "again\n"
    await environment.close()
    with pytest.raises(SandboxError, match="has been closed"):
        await environment.execute("true")
