"""Clients of MCP hear that the descriptions of tools have changed when packages are installed."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ToolListChangedNotification

from tests.clients import by_stdio, text_of
from tests.packages import make_wheel
from tests.servers import TOKEN, Server, server
from tests.test_mcp_messages import locked_sets

INSTALLING = "Being installed, the first run waits: thing."


async def description(client: Client) -> str:
    """Return how a tool is described now."""
    # The package's client keeps what it has been told.
    tools = {tool.name: tool for tool in (await client.list_tools(cache_mode="refresh")).tools}
    return tools["run_python"].description or ""


async def until_installed(client: Client, changed: AsyncIterator[Any]) -> None:
    """Wait until a client is told that the package is there."""
    async for _ in changed:
        if INSTALLING not in await description(client):
            return
    raise AssertionError("the notifications have ended")


@asynccontextmanager
async def by_http(address: str) -> AsyncIterator[Client]:
    """Return a client of a server at an address."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as way,
        Client(streamable_http_client(f"http://{address}/mcp", http_client=way)) as client,
    ):
        yield client


def installing(folder: Path, **options: Any) -> Client:
    """Return a client of a server that installs a package."""
    variables = {"XDG_CACHE_HOME": str(folder / "cache")}
    return by_stdio("--with", "thing", "--wheels", str(folder), variables=variables, **options)


def serving(folder: Path, *options: str) -> AbstractContextManager[Server]:
    """Return a server over HTTP."""
    return server("--token-file", f"{folder}/tokens", *options, listen="127.0.0.1:0", command="mcp")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a package, and a file of tokens."""
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")
    return tmp_path


async def subscribe(client: Client, lock: Any) -> None:
    assert client.server_capabilities.tools is not None and client.server_capabilities.tools.list_changed
    async with client.listen(tools_list_changed=True) as changed:
        assert INSTALLING in await description(client)
        lock.__exit__(None, None, None)
        await asyncio.wait_for(until_installed(client, changed), 60)
        assert text_of(await client.call_tool("run_python", {"code": "import thing; thing.version"})) == "1"


def test_a_client_subscribes_over_standard_input(folder: Path) -> None:
    async def test() -> None:
        lock = locked_sets(folder / "cache", folder)
        lock.__enter__()
        async with installing(folder) as client:
            await subscribe(client, lock)

    asyncio.run(test())


def test_a_client_subscribes_over_http(folder: Path) -> None:
    async def test(address: str) -> None:
        async with by_http(address) as client:
            await subscribe(client, lock)

    lock = locked_sets(folder / "cache", folder)
    lock.__enter__()
    with serving(folder, "--with", "thing", "--wheels", str(folder)) as service:
        asyncio.run(test(service.address))


def test_a_client_of_an_older_version_is_told_over_standard_input(folder: Path) -> None:
    async def test() -> None:
        told: asyncio.Queue[object] = asyncio.Queue()

        async def hear(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                told.put_nowait(message)

        async def changed() -> AsyncIterator[object]:
            while True:
                yield await told.get()

        lock = locked_sets(folder / "cache", folder)
        lock.__enter__()
        async with installing(folder, mode="legacy", message_handler=hear) as client:
            assert client.server_capabilities.tools is not None and client.server_capabilities.tools.list_changed
            assert INSTALLING in await description(client)
            lock.__exit__(None, None, None)
            await asyncio.wait_for(until_installed(client, changed()), 60)

    asyncio.run(test())


def test_subscriptions_leave_places_for_calls(folder: Path) -> None:
    async def test(address: str) -> None:
        async with (
            by_http(address) as one,
            by_http(address) as other,
            one.listen(tools_list_changed=True),
        ):
            with pytest.raises(MCPError, match="Subscription limit reached"):
                async with other.listen(tools_list_changed=True):
                    pass
            assert text_of(await other.call_tool("run_python", {"code": "6 * 7"})) == "42"
        async with by_http(address) as client, client.listen(tools_list_changed=True):
            service.process.terminate()
            assert await asyncio.to_thread(service.process.wait, 20) == 0

    with serving(folder, "--at-once", "1", "--waiting", "2") as service:
        asyncio.run(test(service.address))
