"""Clients of `pysbx mcp` over standard input, each with a server of its own, for the tests of its tools."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from tests.forked import Forked
from tests.servers import BEST_EFFORT, PROGRAM

Test = Callable[[Client], Awaitable[Any]]
# The client hands on only some variables of its own accord.
VARIABLES = {name: os.environ[name] for name in ("PYSBX_RUNTIME", "XDG_RUNTIME_DIR", "HOME") if name in os.environ}


def by_stdio(*arguments: str, variables: dict[str, str] | None = None, **options: Any) -> Client:
    """Return a client.

    Args:
        arguments: options of the server.
        variables: of its environment, in addition to VARIABLES.
        options: of the client.
    """
    rest = [*PROGRAM[1:], "mcp", BEST_EFFORT, *arguments]
    parameters = StdioServerParameters(command=PROGRAM[0], args=rest, env=VARIABLES | (variables or {}))
    # The default is what sys.stderr was when a test first imported the client. With capsys this is no file.
    return Client(stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr), **options)


class Server:
    """A server that lasts for some tests, which it is given as coroutine functions."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self._client = by_stdio(*arguments, variables=variables)
        self._loop = asyncio.new_event_loop()
        self._tests: asyncio.Queue[tuple[Test, asyncio.Future[Any]] | None] = asyncio.Queue()
        self._serving = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        # A client has to be entered and left by one task.
        async with self._client as client:
            while (item := await self._tests.get()) is not None:
                try:
                    item[1].set_result(await item[0](client))
                except Exception as error:
                    item[1].set_exception(error)

    def run(self, test: Test) -> Any:
        """Run a test."""
        done = self._loop.create_future()
        self._tests.put_nowait((test, done))
        either = asyncio.wait((done, self._serving), return_when=asyncio.FIRST_COMPLETED)
        self._loop.run_until_complete(either)
        if self._serving.done():
            self._serving.result()
        return done.result()

    def close(self) -> None:
        """End it."""
        self._tests.put_nowait(None)
        self._loop.run_until_complete(self._serving)
        self._loop.close()


def text_of(result: CallToolResult) -> str:
    """Return the text that a result begins with."""
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


def begin(
    *messages: dict[str, Any],
    arguments: tuple[str, ...] = (),
    version: str = "2025-06-18",
    before: tuple[dict[str, Any], ...] = (),
    **variables: str,
) -> subprocess.Popen[str]:
    """Start a server and send it messages, as a client that is less careful than the package's."""
    command, pipe = ["mcp", BEST_EFFORT, *arguments], subprocess.PIPE
    # No container waits, because tests count containers.
    variables = {**os.environ, "PYSBX_READY": "0", **variables}
    process = Forked(command, stdin=pipe, stdout=pipe, text=True, env=variables)
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}
    assert process.stdout is not None
    send(process, *before, first)
    while (answer := answer_of(process))["id"] != 0:
        assert "error" not in answer
    assert "error" not in answer  # from now on, what runs is ours
    send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *messages)
    return process


def send(process: subprocess.Popen[str], *messages: Any) -> None:
    """Send messages; a text as it is."""
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    process.stdin.flush()


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next answer; between two of them, the server may tell that the tools have changed."""
    assert process.stdout is not None
    found: dict[str, Any] = {}
    while "id" not in found:
        found = json.loads(process.stdout.readline())
    return found


def run_of(number: int, code: str) -> dict[str, Any]:
    """Return the message that asks for a run."""
    params = {"name": "run_python", "arguments": {"code": code}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
