"""Clients of `pysbx mcp` over standard input, each with a server of its own, for the tests of its tools."""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.servers import BEST_EFFORT, PROGRAM

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
