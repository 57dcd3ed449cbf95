"""Tools of an MCP server, as functions that code in a sandbox calls."""

# once: the caller's rights make no difference

from __future__ import annotations

from typing import Any, Literal

import pydantic
import pytest
from mcp import StdioServerParameters
from mcp.server import MCPServer

from pysbx import run_code, tool_stubs
from pysbx.calls.tools import from_schema
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


class Item(pydantic.BaseModel):
    """A thing of the shop."""

    name: str
    colour: Literal["red", "blue"] = "red"
    parts: list[Item] = []


def test_stubs_say_what_the_schemas_of_tools_say() -> None:
    server: MCPServer[Any] = MCPServer("shop")

    @server.tool()
    def order(items: list[Item], speed: Literal["fast", "slow"] = "slow", limit: int | None = None) -> int:
        """Order."""
        return len(items)

    @server.tool()
    def find(item: Item) -> str:
        """Find."""
        return item.name

    with mcp_tools(server) as tools:
        stubs = tool_stubs(tools)
        done = run_code("order([{'name': 'lamp'}], speed='fast')", tools=tools)
    assert done.value == "1"
    assert (
        stubs
        == """\
class Item(TypedDict):
    name: str
    colour: NotRequired[Literal['red', 'blue']]
    parts: NotRequired[list[dict]]

def order(items: list[Item], *, speed: Literal['fast', 'slow'] = 'slow', limit: int | None = None):
    \"\"\"Order.\"\"\"
    ...

def find(item: Item):
    \"\"\"Find.\"\"\"
    ...
"""
    )


OBJECT = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": ["null", "null"]}, "None"),
        ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}, "str | list[int]"),
        ({"type": ["array", "null"]}, "list[Any] | None"),
        ({"const": "all"}, "Literal['all']"),
        ({"enum": [1.5, "a"]}, "Any"),
        ({"enum": ["a"], "type": "string"}, "Literal['a']"),
        ({"type": "array", "items": {"enum": ["a", None]}}, "list[Literal['a', None]]"),
        (OBJECT, "FindItemWhere"),
        (OBJECT | {"title": "Place"}, "Place"),
        ({"type": "object", "properties": {"not a name": OBJECT}}, "dict"),
        ({"$ref": "#/$defs/missing"}, "Any"),
        ("no schema", "Any"),
    ],
)
def test_each_schema_has_an_annotation(schema: Any, kind: str) -> None:
    tool = from_schema("find-item", dict, "Find.", {"properties": {"where": schema}, "required": ["where"]})
    stubs = tool_stubs({"find": tool})
    assert f"def find(where: {kind}):" in stubs
    assert ("    size: int\n" in stubs) == (kind in {"FindItemWhere", "Place"})


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
