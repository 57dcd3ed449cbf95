"""Tools of an MCP server, as functions that code in a sandbox calls."""

# once: the caller's rights make no difference

from __future__ import annotations

from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.server import MCPServer

from pysbx import run_code, tool_stubs
from pysbx.frameworks.mcp import mcp_tools


def offered() -> MCPServer[Any]:
    """Return a server with tools of its own."""
    server: MCPServer[Any] = MCPServer("shop")

    @server.tool()
    def search(query: str, limit: int = 5) -> list[str]:
        """Search the shop."""
        return [f"{query} {number}" for number in range(limit)]

    @server.tool(name="list")
    def list_items() -> int:
        return 8

    @server.tool(name="get-item")
    def get_item(number: int) -> str:
        if number < 0:
            raise ValueError("no such item")
        return f"item {number}"

    return server


def test_tools_of_an_mcp_server_are_functions() -> None:
    source = """
print(search('a', limit=2), search('b')[-1], get_item(7), list_())
try: get_item(number=-1)
except RuntimeError as error: print(type(error).__name__, error)
try: search()
except TypeError as error: print(error)
help(search)
"""
    with mcp_tools(offered()) as tools:
        assert 'def search(query: str, *, limit: int = 5):\n    """Search the shop."""' in tool_stubs(tools)
        done = run_code(source, tools=tools)
    lines = done.stdout.splitlines()
    assert lines[0] == "['a 0', 'a 1'] b 4 item 7 8"
    assert lines[1].startswith("RuntimeError Error executing tool get-item")
    assert lines[2] == "search() missing a required argument: 'query'"


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (StdioServerParameters(command="pysbx-no-such-program"), "the MCP server: .*pysbx-no-such-program"),
        ("http://me:key@127.0.0.1:9/key?key=1", "^MCP server 'http://127.0.0.1:9': All connection attempts failed"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(server: Any, reason: str) -> None:
    with pytest.raises(ConnectionError, match=reason), mcp_tools(server):
        pass
