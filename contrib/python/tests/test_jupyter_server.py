"""A Jupyter server whose default kernel is in a sandbox, used by REST and WebSocket as Open WebUI and others use it."""

# once: a client of the server sees the same as root

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from pysbx.command import main
from tests.servers import jupyter


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    """The address of a server that has nothing but its default kernel set, with the token as its query."""
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    options = ("--virtualenv", sys.prefix, "--memory", "1024")
    assert main(["kernel", "install", "--name", "sand", *options]) == 0, capfd.readouterr().err
    with jupyter("jupyter_server", tmp_path, "--MappingKernelManager.default_kernel_name=sand") as (port, token):
        yield f"127.0.0.1:{port}/api/kernels{{}}?token={token}"


def request(code: str) -> dict[str, Any]:
    """Return a message "execute_request" of Jupyter's protocol."""
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "user", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    about = {"header": header | {"session": uuid.uuid4().hex, "date": ""}, "parent_header": {}, "metadata": {}}
    return {**about, "content": content | {"user_expressions": {}}, "channel": "shell"}


async def execute(address: str, code: str) -> dict[str, list[Any]]:
    """Return the contents of the answers to code by their type, until the kernel is idle."""
    found: dict[str, list[Any]] = {}
    async with websockets.connect(f"ws://{address}") as connection:
        sent = request(code)
        await connection.send(json.dumps(sent))
        while True:
            message = json.loads(await asyncio.wait_for(connection.recv(), 90))
            if message["parent_header"].get("msg_id") != sent["header"]["msg_id"]:
                continue
            found.setdefault(message["msg_type"], []).append(message["content"])
            if message["content"].get("execution_state") == "idle":
                return found


def test_the_default_kernel_is_a_sandbox(server: str) -> None:
    kernel = httpx.post(f"http://{server.format('')}", timeout=90).json()
    assert kernel["name"] == "sand"
    channels = server.format(f"/{kernel['id']}/channels")
    first = asyncio.run(execute(channels, "import os\nx = 41\nprint(os.path.exists('/home'))"))
    assert [one["text"] for one in first["stream"]] == ["False\n"]
    second = asyncio.run(execute(channels, "x + 1"))
    assert [one["data"]["text/plain"] for one in second["execute_result"]] == ["42"]
    assert asyncio.run(execute(channels, "1 / 0"))["error"][0]["ename"] == "ZeroDivisionError"
    assert httpx.delete(f"http://{server.format('/' + kernel['id'])}", timeout=90).status_code == 204
