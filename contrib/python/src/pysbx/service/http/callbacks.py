"""Tools of callers over HTTP: how a request describes them, and the route for the answers to their calls."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import ConfigDict, Field

from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import REQUEST, Problem, meant
from pysbx.service.http.bodies import NO_CONTENT, Strict
from pysbx.service.sandboxes.callbacks import Book, Callback, error_of, settle

MAX_TOOLS = 100


class Parameters(Strict):
    """The parameters of a tool: a JSON schema, which may have other members."""

    model_config = ConfigDict(extra="allow")

    type: str = "object"
    properties: dict[str, dict[str, Any]] = Field(default={})
    required: list[str] = Field(default=[])


class Tool(Strict):
    """A function of the caller that code may call by its name."""

    name: str = Field(max_length=100)
    description: str = Field("", max_length=10_000)
    parameters: Parameters = Field(Parameters(), description="a JSON schema; without properties, any are allowed")
    is_async: bool = Field(False, alias="async", description="code awaits its calls")


class WithTools(Strict):
    """A request that may bring tools."""

    tools: list[Tool] = Field(
        [], max_length=MAX_TOOLS, description="functions of the caller: each call is an event tool_call of the stream"
    )


class Raised(Strict):
    """The exception that a call raises."""

    type: str = Field("", max_length=100, description="the name of one of Python's own; otherwise RuntimeError")
    message: str = ""


class ToolResult(Strict):
    """The answer to a call: a value, or an exception."""

    value: Any = None
    error: Raised | None = None


def callback_of(book: Book, wanted: WithTools) -> Callback | None:
    """Return the tools of a request, if it has some.

    Raises:
        Problem: a name or a schema is wrong.
    """
    if not wanted.tools:
        return None
    with meant():
        return Callback(book, caller.get(), [one.model_dump() for one in wanted.tools])


def check_streamed(callback: Callback | None, *, is_stream: bool) -> None:
    """Refuse a run with tools whose caller could not hear of calls."""
    if callback is not None and not is_stream:
        raise Problem(REQUEST, "tools: their calls are events of a stream: send the header Accept: text/event-stream")


def add_tool_results(app: FastAPI, book: Book) -> None:
    """Add the route for the answers."""

    @app.post("/v1/tool_results/{call}", name="answer_tool_call", **NO_CONTENT)
    async def answer(call: str, result: ToolResult) -> None:
        """Answer a call of a tool, of which the event tool_call has told."""
        future = book.take(caller.get(), call)
        settle(future, result.value if result.error is None else error_of(result.error.type, result.error.message))
