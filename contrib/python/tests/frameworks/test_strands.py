"""An agent of Strands with a scripted model, whose tools work in a session."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from strands import Agent
from strands.models.model import Model
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.sandbox.types import StreamChunk

from pysbx.errors import SandboxError
from pysbx.frameworks.strands import PysbxSandbox


class Scripted(Model):
    """A model that calls tools as it was told, and keeps what it has read."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls, self.read = list(calls), list[str]()

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        self.read.append(str(messages[-1]["content"]))
        yield {"messageStart": {"role": "assistant"}}
        if self.calls:
            name, given = self.calls.pop(0)
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"t{len(self.calls)}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}


@pytest.fixture
async def sandbox() -> AsyncIterator[PysbxSandbox]:
    made = PysbxSandbox()
    yield made
    await made.close()


async def test_agent(sandbox: PysbxSandbox) -> None:
    model = Scripted(
        ("shell", {"command": "echo text >made; ls"}),
        ("python_repl", {"code": "print(open('made').read() * 2)"}),
    )
    agent = Agent(model=model, sandbox=sandbox, callback_handler=None)
    assert str(await agent.invoke_async("Begin.")).strip() == "done"
    assert "made" in model.read[1]
    assert model.read[2].count("text") >= 2


async def test_a_model_reads_what_to_try_after_an_error(sandbox: PysbxSandbox) -> None:
    model = Scripted(("python_repl", {"code": "import jsn"}))
    await Agent(model=model, sandbox=sandbox, callback_handler=None).invoke_async("Begin.")
    assert "did you mean" in model.read[1]


async def test_sandbox(sandbox: PysbxSandbox) -> None:
    parts = [one async for one in sandbox.execute_streaming("echo out; echo err >&2; exit 3", env={"A": "b"})]
    assert {(one.stream_type, one.data) for one in parts if isinstance(one, StreamChunk)} == {
        ("stdout", "out\n"),
        ("stderr", "err\n"),
    }
    assert (parts[-1].exit_code, parts[-1].stdout) == (3, "out\n")
    with pytest.raises(SandboxTimeoutError) as found:
        await sandbox.execute("echo begun; sleep 60", timeout=1)
    assert found.value.stdout == "begun\n"
    await sandbox.execute_code("x = 41", "python")
    done = await sandbox.execute_code("print(x + 1); open('/output/a.txt', 'w').write('text')", "python3")
    assert (done.stdout, [(one.name, one.content) for one in done.output_files]) == ("42\n", [("a.txt", b"text")])
    assert (await sandbox.execute_code("echo $0", "bash")).stdout == "bash\n"
    await sandbox.write_text("deep/file", "text")
    assert [(one.name, one.is_dir, one.size) for one in await sandbox.list_files("deep")] == [("file", False, 4)]
    await sandbox.remove_file("deep/file")
    with pytest.raises(FileNotFoundError):
        await sandbox.read_file("deep/file")
    with pytest.raises(SandboxPathNotFoundError):
        await sandbox.list_files("none")


async def test_the_limit_of_the_sandbox_is_the_most_that_a_tool_gets() -> None:
    """The tools always name one, which is longer."""
    sandbox = PysbxSandbox(timeout_sec=1)
    model = Scripted(("python_repl", {"code": "import time; time.sleep(20)"}), ("shell", {"command": "sleep 20"}))
    agent = Agent(model=model, sandbox=sandbox, callback_handler=None)
    begun = time.monotonic()
    await agent.invoke_async("Begin.")
    assert time.monotonic() - begun < 20
    assert all("timed out" in one.lower() and "after 1" in one for one in model.read[1:]), model.read
    await sandbox.close()


@pytest.mark.parametrize(
    "code",
    ["import os; os._exit(3)", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"],
)
async def test_an_agent_goes_on_after_code_that_ends_its_session(code: str) -> None:
    made = PysbxSandbox(timeout_sec=2)
    model = Scripted(("python_repl", {"code": code}), ("shell", {"command": "echo $((6 * 7))"}))
    agent = Agent(model=model, sandbox=made, callback_handler=None)
    await agent.invoke_async("Begin.")
    assert "names and files are gone" in model.read[1]
    assert "42" in model.read[2]
    assert (await made.execute_code("print(6 * 8)", "python")).stdout == "48\n"
    await made.close()


async def test_a_sandbox_goes_on_after_a_command_that_kills_its_session(sandbox: PysbxSandbox) -> None:
    async def kill() -> None:
        await sandbox.execute("(sleep 0.3; kill -9 2) >/dev/null 2>&1 &")
        await asyncio.sleep(1)

    for use in (lambda: sandbox.read_file("none"), lambda: sandbox.execute("true")):
        await kill()
        with pytest.raises(SandboxError, match="SIGKILL"):
            await use()
        assert (await sandbox.execute("echo again")).stdout == "again\n"
    await kill()
    assert "names and files are gone" in (await sandbox.execute_code("1", "python")).stderr
    assert (await sandbox.execute_code("print(6 * 7)", "python")).stdout == "42\n"


async def test_a_sandbox_that_was_closed_stays_closed() -> None:
    made = PysbxSandbox()
    await made.execute("true")
    await made.close()
    for _ in range(2):
        with pytest.raises(SandboxError, match="has been closed"):
            await made.execute("true")
