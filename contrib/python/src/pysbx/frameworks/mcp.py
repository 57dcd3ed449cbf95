"""The tools of a server of the Model Context Protocol as functions, for tools= of a sandbox.

The connection lasts as long as a with statement. A thread has its event loop. The model's code sees functions, and
neither the connection nor its credentials.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from mcp import Client
from mcp_types import AudioContent, CallToolResult, ImageContent, TextContent, Tool

from pysbx.calls.tools import from_schema, is_pythons_own

MAX_PAGES = 100


def name_of(text: str) -> str:
    """Return a name that a function can have in a program, for that of a tool."""
    found = re.sub(r"\W", "_", text).lstrip("_") or "tool"
    return f"{'' if found[0].isalpha() else 'tool_'}{found}{'_' if is_pythons_own(found) else ''}"


def value_of(answer: CallToolResult) -> Any:
    """Return the value of an answer: JSON if it has some, otherwise text, or bytes of an image or of sound.

    Raises:
        RuntimeError: the tool has failed.
    """
    parts: list[Any] = []
    for part in answer.content:
        if isinstance(part, TextContent):
            parts.append(part.text)
        elif isinstance(part, (ImageContent, AudioContent)):
            parts.append(base64.b64decode(part.data))
        else:
            parts.append(part.model_dump(mode="json", by_alias=True, exclude_none=True))
    whole = "\n".join(parts) if all(isinstance(part, str) for part in parts) else parts
    if answer.is_error:
        raise RuntimeError(whole if isinstance(whole, str) else str(whole))
    found = answer.structured_content
    if found is not None:
        return found["result"] if isinstance(found, dict) and set(found) == {"result"} else found
    return whole[0] if isinstance(whole, list) and len(whole) == 1 else whole


class _Connection:
    """A client in a thread of its own."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._ready: Future[list[Tool]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="pysbx-mcp", daemon=True)
        self._thread.start()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Client(self._server) as self._client:
                found = await self._client.list_tools()
                tools = list(found.tools)
                for _ in range(MAX_PAGES if found.next_cursor else 0):
                    found = await self._client.list_tools(cursor=found.next_cursor)
                    tools += found.tools
                    if not found.next_cursor:
                        break
                self._ready.set_result(tools)
                await self._stop.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            parts: Any = (error,)
            while len(parts) == 1:  # a group, of the client's tasks
                error, parts = parts[0], getattr(parts[0], "exceptions", ())
            named = "the MCP server"
            if isinstance(self._server, str):  # a URL, whose other parts may be secret
                url = urlsplit(self._server)
                named = f"MCP server '{url.scheme}://{url.netloc.rpartition('@')[2]}'"
            failure = ConnectionError(f"{named}: {str(error) or type(error).__name__}")
            failure.__cause__ = error
            self._ready.set_exception(failure)

    def tools(self) -> list[Tool]:
        """Return the tools, when the server has answered."""
        return self._ready.result()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        return value_of(asyncio.run_coroutine_threadsafe(self._client.call_tool(name, arguments), self._loop).result())

    def close(self) -> None:
        """End the connection."""
        if self._ready.done() and self._ready.exception() is None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def function(self, tool: Tool) -> Callable[..., Any]:
        """Return a function that calls a tool. The server decides on arguments that the caller leaves out."""
        about = tool.description or tool.title or tool.name
        return from_schema(tool.name, lambda arguments: self.call(tool.name, arguments), about, tool.input_schema)


@contextlib.contextmanager
def mcp_tools(server: Any) -> Iterator[dict[str, Callable[..., Any]]]:
    """Connect to a server, and return its tools as functions by name, for tools= or Tools.

    Args:
        server: what mcp.Client takes: a URL, StdioServerParameters, a transport, or a server of this program.

    Raises:
        ValueError: two tools have the same name in a program.
        ConnectionError: the server cannot be reached, or gives no list of its tools.
    """
    connection = _Connection(server)
    try:
        found: dict[str, Callable[..., Any]] = {}
        for tool in connection.tools():
            name = name_of(tool.name)
            if name in found:
                raise ValueError(f"tools: the server has two tools that would be '{name}' in a program")
            found[name] = connection.function(tool)
        yield found
    finally:
        connection.close()
