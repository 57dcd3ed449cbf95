"""The parts that all tools have in common: arguments of sessions, errors for a model, progress."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import Field

from pysbx.service.connections.problems import FAULT, Problem, problem_of
from pysbx.service.http.fields import bounds
from pysbx.service.mcp.tool_results import MAX_LIST, fitting
from pysbx.service.observe.access_log import note

T = TypeVar("T")

# Many clients give up after a time without an answer, and begin it anew when they hear of progress.
PROGRESS_SEC = 2.0

SessionId = Annotated[str, Field(description="as start_session has returned it")]
Stdin = Annotated[str, Field(description="what the program reads from standard input, as by input()")]
RunTimeout = Annotated[
    float | None, Field(description="seconds until the code is stopped; the session goes on", **bounds("timeout_sec"))
]


class ProblemError(ToolError):
    """A call that cannot be carried out.

    Attributes:
        problem: why not.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def refusal(text: str, problem: Problem) -> CallToolResult:
    """Return the result of a call that cannot be carried out, with the names of the problem in _meta, for programs.

    Clients compare the structured data also of an error to the schema of the tool, so it has none.
    """
    more = problem.more
    names = {"problem": problem.kind.name, **{name: more[name] for name in ("code", "errno") if name in more}}
    said = [f"{text} [{more['code']}]" if more.get("code") else text]
    # Of a command that was killed: the beginning of its output, if it is text.
    said += [fitting(more[name], MAX_LIST) for name in ("stdout", "stderr") if isinstance(more.get(name), str)]
    return CallToolResult(
        content=[TextContent(text="\n".join(part for part in said if part))], is_error=True, _meta=names
    )


async def as_tool_error(work: Awaitable[T]) -> T:
    """Return the result of work; the model gets its errors.

    Raises:
        ProblemError: with the reason, and what to do.
    """
    try:
        return await work
    except Exception as error:
        problem = problem_of(error)
        if problem.kind is FAULT:
            raise
        note(problem)
        raise ProblemError(problem) from error


def as_tool(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Return a method as a tool: the model gets its errors. If it has a context, the client hears of progress."""

    @functools.wraps(method)
    async def called(**arguments: Any) -> T:
        context, work = arguments.get("context"), method(**arguments)
        return await as_tool_error(work if context is None else with_progress(context, work))

    return called


async def with_progress(context: Context, work: Awaitable[T]) -> T:
    """Return the result of work, and report progress meanwhile to a client that has asked for it."""
    task, began = asyncio.ensure_future(work), time.monotonic()
    try:
        while not (await asyncio.wait((task,), timeout=PROGRESS_SEC))[0]:
            passed = time.monotonic() - began
            await context.report_progress(passed, message=f"{passed:.0f} seconds")
        return task.result()
    finally:
        task.cancel()
