"""Use the Python client of agent-sandbox with a service: its own classes for commands and files.

usage: client.py WAY      (the address of the service itself, or of the router)
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from k8s_agent_sandbox.commands.command_executor import CommandExecutor  # type: ignore[import]
from k8s_agent_sandbox.connector import SandboxConnector  # type: ignore[import]
from k8s_agent_sandbox.exceptions import SandboxRequestError  # type: ignore[import]
from k8s_agent_sandbox.files.filesystem import Filesystem  # type: ignore[import]
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig  # type: ignore[import]

TOKEN = os.environ["PYSBX_TOKEN"]


def connect(way: str, token: str = TOKEN) -> tuple[Any, Any]:
    """Return the client's objects for commands and for files."""
    config = SandboxDirectConnectionConfig(api_url=way, extra_headers={"X-Pysbx-Token": token})
    connector = SandboxConnector("box", "default", config, None)
    return CommandExecutor(connector, None, "test"), Filesystem(connector, None, "test")


def main(way: str) -> None:
    """Try everything that the client offers for a sandbox that exists."""
    commands, files = connect(way)
    done = commands.run("echo out; echo err >&2; pwd; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.timed_out) == ("out\n/work\n", "err\n", 3, False), done
    assert commands.run("sleep 20", command_timeout=0.5).timed_out
    assert commands.run("python3 -c 'print(6 * 7)'").stdout == "42\n"

    files.write("a.txt", "text")
    files.write("data/ü b.bin", io.BytesIO(bytes(range(256)) * 1000))
    assert files.read("a.txt") == b"text"
    assert files.read("data/ü b.bin") == bytes(range(256)) * 1000
    assert files.exists("data")
    assert not files.exists("b.txt")
    assert {entry.name: entry.type for entry in files.list(".")} == {"a.txt": "file", "data": "directory"}
    assert commands.run("cat a.txt; rm -r a.txt data").stdout == "text"
    strange = connect(way, "no")[1]
    for place, name, status in ((files, "b.txt", 404), (strange, "a.txt", 401)):
        try:
            place.read(name)
        except SandboxRequestError as error:
            assert error.status_code == status, error
        else:
            raise AssertionError(f"no error with status {status}")
    print("all of the client")


main(*sys.argv[1:])
