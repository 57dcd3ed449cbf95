"""A SandboxAgent of the OpenAI Agents SDK with the scripted model that the SDK has for tests."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agents import RunConfig, Runner, function_tool, set_tracing_disabled
from agents.run_state import RunState
from agents.sandbox import (
    ExecTimeoutError,
    LocalSnapshotSpec,
    Manifest,
    SandboxAgent,
    SandboxRunConfig,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import InvalidManifestPathError
from agents.sandbox.session import SandboxSession
from agents.testing.model import ScriptedModel, assistant_message, function_call

from pysbx.frameworks.openai_agents import PysbxSandboxClient, PysbxSandboxClientOptions

set_tracing_disabled(True)


@pytest.fixture
async def session() -> AsyncIterator[SandboxSession]:
    client = PysbxSandboxClient()
    manifest = Manifest(entries={"given.txt": File(content=b"given")})
    made = await client.create(manifest=manifest, options=PysbxSandboxClientOptions(exposed_ports=(8000,)))
    async with made:
        yield made
    await client.delete(made)


async def test_session(session: SandboxSession) -> None:
    done = await session.exec("cat given.txt; pwd; echo err >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"given/work\n", b"err\n")
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 60", timeout=1)
    await session.write(Path("deep/file"), io.BytesIO(b"text"))
    assert (await session.read(Path("deep/file"))).read() == b"text"
    assert [one.path for one in await session.ls("deep")] == ["/work/deep/file"]
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("../etc/passwd"))
    archive = await session.persist_workspace()
    await session.rm("deep", recursive=True)
    await session.hydrate_workspace(archive)
    assert (await session.read(Path("deep/file"))).read() == b"text"
    assert await session.running()


async def test_terminal(session: SandboxSession) -> None:
    begun = await session.pty_exec_start("read name; tty; echo hello $name", tty=True, yield_time_s=0.3)
    assert begun.exit_code is None
    assert begun.process_id is not None
    done = await session.pty_write_stdin(session_id=begun.process_id, chars="world\n", yield_time_s=5)
    assert (done.exit_code, b"/dev/pts/" in done.output, b"hello world" in done.output) == (0, True, True)
    piped = await session.pty_exec_start("echo out; sleep 1; exit 4", yield_time_s=0.3)
    assert (piped.output, piped.exit_code) == (b"out\n", None)
    last = await session.pty_write_stdin(session_id=piped.process_id or 0, chars="", yield_time_s=10)
    assert (last.exit_code, last.process_id) == (4, None)
    await session.pty_exec_start("sleep 987", yield_time_s=0.3)
    await session.pty_terminate_all()
    assert b"987" not in (await session.exec("ps ax -o args | grep -v grep")).stdout


async def test_port(session: SandboxSession) -> None:
    await session.exec("python3 -m http.server 8000 >/dev/null 2>&1 &")
    await session.exec(
        "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'; do sleep 0.1; done 2>&1"
    )
    endpoint = await session.resolve_exposed_port(8000)
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(b"GET /given.txt HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"given")
    writer.close()


@function_tool(needs_approval=True)
def approve() -> str:
    """Ask a person."""
    return "approved"


@pytest.mark.parametrize("lost", [False, True])
async def test_a_run_pauses_and_resumes(tmp_path: Path, lost: bool) -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", json.dumps({"cmd": "echo text >made"}), call_id="a")],
            [function_call("approve", "{}", call_id="b")],
            [function_call("exec_command", json.dumps({"cmd": "cat made made"}), call_id="c")],
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="tester", model=model, tools=[approve], capabilities=[Shell()])
    client = PysbxSandboxClient()
    config = RunConfig(sandbox=SandboxRunConfig(client=client, snapshot=LocalSnapshotSpec(base_path=tmp_path)))
    paused = await Runner.run(agent, "Begin.", run_config=config)
    kept = paused.to_state().to_json()
    if lost:
        for workspace in client._workspaces.values():
            workspace.close()
    state = await RunState.from_json(agent, kept)
    state.approve(state.get_interruptions()[0])
    done = await Runner.run(agent, state, run_config=config)
    assert done.final_output == "done"
    assert model.last_call is not None and "text\\ntext" in json.dumps(model.last_call.input, default=str)


def test_options() -> None:
    made = PysbxSandboxClientOptions(memory_mb=512, options={"cpus": 1})
    assert made.options == {"cpus": 1, "memory_mb": 512}
    assert PysbxSandboxClientOptions.model_validate(made.model_dump()) == made
    with pytest.raises(TypeError, match="did you mean 'timeout_sec'"):
        PysbxSandboxClientOptions(timeout=5)
