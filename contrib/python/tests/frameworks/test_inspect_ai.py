"""The checks that Inspect has for its sandboxes, as they are; the provider is found by its entry point."""

# once: an adapter says the same to its framework as root
# slow: its tests of time limits wait for half a minute

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import bash_session, text_editor
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 (as its first lines say)


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[SandboxEnvironment]:
    if request.node.name == "test_exec_as_user":
        request.node.add_marker(pytest.mark.xfail(strict=True, reason="a sandbox has one user"))
    provider = registry_find_sandboxenv("pysbx")
    found = await provider.sample_init("task", None, {})
    yield found["default"]
    await provider.sample_cleanup("task", None, found, interrupted=False)


async def test_options(tmp_path: Path) -> None:
    provider = registry_find_sandboxenv("pysbx")
    file = tmp_path / "options.json"
    file.write_text('{"env": {"GREETING": "hello"}, "tmp_mb": 8}')
    found = await provider.sample_init("task", str(file), {})
    sandbox = found["default"]
    assert (await sandbox.exec(["sh", "-c", "echo $GREETING"])).stdout == "hello\n"
    with pytest.raises(OSError, match="No space left"):
        await sandbox.write_file("large", b"x" * (16 << 20))
    await provider.sample_cleanup("task", None, found, interrupted=False)
    file.write_text("[]")
    with pytest.raises(ValueError, match="object of JSON"):
        await provider.sample_init("task", str(file), {})


@solver
def edited() -> Solver:
    """Answer by the tools for which Inspect puts a server into the sandbox."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await text_editor()(command="create", path="/work/sum", file_text="6 * 7")
        state.output.completion = await bash_session()(action="type_submit", input="echo $(($(cat /work/sum)))")
        return state

    return solve


def test_tools_of_inspect_that_need_a_server_in_the_sandbox(tmp_path: Path) -> None:
    task = Task([Sample("What is it?", target="42")], solver=edited(), scorer=includes(), sandbox="pysbx")
    (log,) = evaluate(task, model="mockllm/model", display="none", log_dir=str(tmp_path))
    assert log.error is None
    assert log.results.scores[0].metrics["accuracy"].value == 1
