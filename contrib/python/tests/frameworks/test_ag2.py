"""An agent of AG2 with the scripted model that AG2 has for tests, whose tools work in a session."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import PurePosixPath

import pytest
from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig, TrackingConfig
from ag2.tools import SandboxCodeTool, SandboxShellTool

from pysbx.errors import SandboxError
from pysbx.frameworks.ag2 import PysbxSandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[PysbxSandbox]:
    async with PysbxSandbox(timeout_sec=1) as made:
        yield made


async def test_agent(sandbox: PysbxSandbox) -> None:
    config = TrackingConfig(
        TestConfig(
            ToolCallEvent(
                "run_code", arguments=json.dumps({"code": "open('made', 'w').write('text')", "language": "python"})
            ),
            ToolCallEvent("shell", arguments=json.dumps({"command": "cat made made"})),
            "done",
        )
    )
    tools = [SandboxCodeTool(sandbox), SandboxShellTool(sandbox, name="shell")]
    reply = await Agent("tester", config=config, tools=tools).ask("Begin.")
    assert reply.body == "done"
    assert "texttext" in str(config.mock.call_args_list[-1])


async def test_sandbox(sandbox: PysbxSandbox) -> None:
    assert (sandbox.workdir, sandbox.host_workdir) == (PurePosixPath("/work"), None)
    for argv, code, output in (
        (["sh", "-c", "echo out; echo err >&2; exit 3"], 3, "out\nerr"),
        (["no-such-program"], 127, "No such file"),
        (["sleep", "60"], 124, "not ended after 1 seconds"),
    ):
        done = await sandbox.exec(argv)
        assert done.exit_code == code
        assert output in done.output
    done = await sandbox.exec(["yes"], timeout=60)
    assert (done.exit_code, done.output[:4]) == (137, "y\ny\n")
    await sandbox.put_file(PurePosixPath("deep/file"), b"text")
    assert (await sandbox.exec(["cat", "deep/file"])).output == "text"
    for _ in range(2):
        await sandbox.remove_file(PurePosixPath("deep/file"))
    for path in ("/work/file", "../file"):
        with pytest.raises(ValueError, match="relative"):
            await sandbox.put_file(PurePosixPath(path), b"")


async def test_a_sandbox_goes_on_after_a_command_that_kills_its_session(sandbox: PysbxSandbox) -> None:
    await sandbox.exec(["sh", "-c", "(sleep 0.3; kill -9 2) >/dev/null 2>&1 &"])
    await asyncio.sleep(1)
    with pytest.raises(SandboxError, match="SIGKILL"):
        await sandbox.exec(["true"])
    assert (await sandbox.exec(["echo", "again"])).output == "again"
