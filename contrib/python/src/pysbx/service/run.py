"""From the command line to a server that runs: HTTP by uvicorn, or MCP by standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn

from pysbx.options import Options
from pysbx.policy import MIB
from pysbx.service import access, log
from pysbx.service.access import Access, Address
from pysbx.service.gate import Application, Gate
from pysbx.service.jobs import Jobs
from pysbx.service.offer import Offer
from pysbx.service.protocol import Protocol
from pysbx.service.sessions import Sessions
from pysbx.service.survey import survey

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

# Connections besides those that are answered: idle ones, and those that are told to come again.
SPARE_CONNECTIONS = 256
TICK_SEC = 1.0
# What is running is told to end first, so that answers are there.
SHUTDOWN_SEC = 5


@dataclass(frozen=True)
class Settings:
    """What an administrator says about a server.

    Attributes:
        options: the sandboxes; of their limits no caller gets more.
        profiles: those that callers may choose, or None: see Offer.
        packages: requirements that callers may ask for by name.
        at_once: sandboxes that may run code at the same time.
        waiting: requests that may wait for that.
        sessions: the most there may be.
        idle_sec: seconds after which an unused session ends.
        request_mb: MiB that a request may have.
        artifact_mb: MiB that artifacts of a run may have, and a file of a session.
        listen: the address, as it is written; "" for the default, which is standard input and output for MCP.
        token_file: where the tokens are, or None.
    """

    options: Options
    profiles: tuple[str, ...] | None = None
    packages: tuple[str, ...] = ()
    at_once: int = 4
    waiting: int = 32
    sessions: int = 16
    idle_sec: float = 600.0
    request_mb: int = 8
    artifact_mb: int = 8
    listen: str = ""
    token_file: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("at_once", "sessions", "idle_sec", "request_mb", "artifact_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not a positive number")
        if self.waiting < 0:
            raise ValueError(f"waiting: {self.waiting} is negative")


class _Parts:
    """What both servers are made of."""

    def __init__(self, settings: Settings) -> None:
        self.offer = Offer(settings.options, settings.profiles, settings.packages, settings.artifact_mb)
        self.found = survey(self.offer.base)
        self.jobs = Jobs(settings.at_once)
        self.sessions = Sessions(self.jobs, settings.sessions, settings.idle_sec)
        self.places = settings.at_once + settings.waiting
        self.log = log.install()
        self.all_ended = True

    async def stop(self) -> None:
        """End all that runs; requests that wait for it are answered."""
        self.all_ended, _ = await asyncio.gather(self.jobs.close(), self.sessions.close())

    def leave(self, code: int) -> int:
        """Return the exit code, or leave at once if a thread cannot be ended: the watcher ends its container."""
        if not self.all_ended:
            os._exit(code)
        return code


class _Server(uvicorn.Server):
    """A server that says when it is there, and ends its sandboxes before it waits for its requests."""

    def __init__(self, config: uvicorn.Config, greeting: str, parts: _Parts) -> None:
        super().__init__(config)
        self._greeting = greeting
        self._stop = parts.stop
        self._log = parts.log

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals as _serve has set them.

        uvicorn's own handlers raise a signal again afterwards, before the program is done. And sse-starlette, by which
        mcp answers, finds the server by them: it cuts streams off whose sandboxes are still being ended.
        """
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tick()
        print(self._greeting, file=sys.stderr, flush=True)

    def _tick(self) -> None:
        self._log.report()
        asyncio.get_running_loop().call_later(TICK_SEC, self._tick)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stop()
        await super().shutdown(sockets)


def _serve(application: Application, what: str, address: Address, listener: socket.socket, parts: _Parts) -> None:
    """Answer requests until a signal says to stop."""
    config = uvicorn.Config(
        application,
        access_log=False,  # a session is known by what stands in a path
        log_config=None,
        log_level="warning",
        server_header=False,
        http=Protocol,
        ws="none",
        limit_concurrency=parts.places + SPARE_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SEC,
    )
    server = _Server(config, f"pysbx: {what} at {address}", parts)

    def leave(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    try:
        server.run(sockets=[listener])
    finally:
        parts.log.close()
        access.unlisten(address, listener)


def _listen(settings: Settings) -> tuple[Address, Access, socket.socket]:
    tokens = access.read_tokens(settings.token_file)
    address = access.parse_address(settings.listen) if settings.listen else access.default_address()
    listener = access.listen(address, tokens)
    if address.port == 0 and not address.path:
        address = Address(host=address.host, port=listener.getsockname()[1])
    return address, tokens, listener


def _by_http(settings: Settings, what: str, application: Callable[[_Parts], Application], methods: str = "") -> int:
    address, tokens, listener = _listen(settings)
    try:
        parts = _Parts(settings)
        gate = Gate(application(parts), tokens, parts.places, settings.request_mb * MIB, methods)
    except BaseException:
        access.unlisten(address, listener)
        raise
    _serve(gate, what, address, listener, parts)
    return parts.leave(0)


def serve(settings: Settings) -> int:
    """Run the HTTP service until a signal says to stop; return the exit code.

    Raises:
        SandboxError: no sandbox can be made.
        ValueError, OSError: the address or a token cannot be used.
    """
    from pysbx.service.api import make_api  # noqa: PLC0415 (the package fastapi is not needed for MCP)

    return _by_http(
        settings, "HTTP service", lambda parts: make_api(parts.offer, parts.found, parts.jobs, parts.sessions)
    )


async def _over_stdio(talk: Callable[[], Awaitable[None]], parts: _Parts) -> None:
    async def leave() -> None:
        await parts.stop()
        # Not by an exception: the thread that reads standard input cannot be told to end.
        os._exit(0)

    leaving: list[asyncio.Task[None]] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lambda: leaving.append(asyncio.ensure_future(leave())))
    try:
        await talk()
    finally:
        await parts.stop()


def serve_mcp(settings: Settings) -> int:
    """Run the MCP server: over HTTP if an address is given, else until standard input ends; return the exit code.

    Raises: see serve.
    """
    from pysbx.service.tools import make_tools, over_http  # noqa: PLC0415 (the HTTP service does not need the package mcp)

    def tools(parts: _Parts) -> MCPServer[Any]:
        return make_tools(parts.offer, parts.found, parts.jobs, parts.sessions)

    if settings.listen:
        size = settings.request_mb * MIB
        return _by_http(settings, "MCP server", lambda parts: over_http(tools(parts), size), methods="POST")
    parts = _Parts(settings)
    asyncio.run(_over_stdio(tools(parts).run_stdio_async, parts))
    parts.log.close()
    return parts.leave(0)
