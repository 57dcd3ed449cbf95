"""A task of Inspect whose solver uses the tool bash in a sandbox. It asks no model."""

import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.tool import bash


@solver
def compute():
    """Answer by the tool, as a model would."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output.completion = await bash(timeout=30)("echo $((6 * 7)) >answer; cat answer")
        return state

    return solve


task = Task([Sample("What is 6 * 7?", target="42")], solver=compute(), scorer=includes(), sandbox="pysbx")
(log,) = eval(task, model="mockllm/model", display="none", log_dir=tempfile.mkdtemp())
print(log.status, log.results.scores[0].metrics["accuracy"].value)
# success 1.0
