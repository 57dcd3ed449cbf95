"""From the command line to a server that runs: HTTP by uvicorn, or MCP by standard input and output."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from pysbx.base.option_names import spoken_as
from pysbx.options.declaration import MIB
from pysbx.service.connections import access, systemd
from pysbx.service.connections.access import Access, Address
from pysbx.service.connections.admission import Application
from pysbx.service.connections.connection_limits import Bounds, make_bounds, reserved
from pysbx.service.connections.listener import Listener
from pysbx.service.connections.protocol import IDLE_SEC, Protocol
from pysbx.service.connections.tls import Certificate
from pysbx.service.observe import log
from pysbx.service.observe.access_log import AccessLog
from pysbx.service.sandboxes.preparation import Until
from pysbx.service.sandboxes.state import Settings, State, guarded

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

package = logging.getLogger(log.PACKAGE)

ENCRYPT = "--tls-cert, or a proxy with TLS before an address of this machine alone"
TICK_SEC = 1.0
# Bytes of a message of a WebSocket.
SOCKET_SIZE = 1 << 16
# By interface, as in words.OPTIONS: how a server calls itself.
NAMES = {"http": "HTTP service", "mcp": "MCP server"}
# Runs are told to end first, so that their requests get answers.
SHUTDOWN_SEC = 5
# Seconds between two looks whether runs have ended, while the server waits for them.
LOOK_SEC = 0.05


class _Files:
    """Files that the server reads again when they have changed: a kubelet or a client of ACME sends no signal."""

    def __init__(self, names: Iterable[str | None]) -> None:
        self._names = [name for name in names if name]
        self._read = self._last = self._look()

    def _look(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for name in self._names:
            try:
                status = os.stat(name)
            except OSError:
                found.append(())
            else:
                found.append((status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns))
        return found

    def due(self, *, asked: bool) -> bool:
        """Tell whether to read them: a signal asks for it, or they have changed, but not since the last look."""
        last, self._last = self._last, self._look()
        due = asked or self._read != self._last == last
        if due:
            self._read = self._last
        return due


class _Server(uvicorn.Server):
    """A server with a door of its own, which says when it is there, and ends its sandboxes before its requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        greeting: str,
        parts: State,
        bounds: Bounds,
        *,
        tls: Certificate | None,
        tokens: Access,
        files: _Files,
    ) -> None:
        super().__init__(config)
        self._files = files
        self._tokens = tokens
        self._tls = tls
        self._audit = parts.audit
        # Set by signals, in whose handlers no lock may be taken.
        self.wants_files = self.in_a_hurry = False
        self._greeting = greeting
        self._parts = parts
        self._log = parts.log
        self._bounds = bounds
        self._doors: list[Listener] = []

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals as _serve has set them.

        uvicorn's own handlers raise a signal again afterwards, before the program is done. And sse-starlette, by which
        mcp answers, finds the server by them: it cuts streams off whose sandboxes are still being ended.
        """
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # uvicorn itself listens nowhere
        context = None if self._tls is None else self._tls.context
        refused = self._parts.meters.refused
        self._doors = [
            Listener(listener, self._bounds, self._welcome, context, refused=refused) for listener in sockets or ()
        ]
        for door in self._doors:
            door.open()
        self._tick()
        if self._log is not None:
            self._log.greet(self._greeting)
        systemd.notify("READY=1")

    def _welcome(self, door: Listener) -> Protocol:
        return Protocol(self.config, self.server_state, self.lifespan.state, door)

    def _tick(self) -> None:
        if self._log is not None:
            self._log.report()
        asked, self.wants_files = self.wants_files, False
        if self._files.due(asked=asked):
            self._audit.reopen()
            if self._tls is not None:
                self._tls.reload()
            if self._tokens.file is not None:
                self._read_tokens()
        asyncio.get_running_loop().call_later(TICK_SEC, self._tick)

    def _read_tokens(self) -> None:
        try:
            self._tokens.reload()
        except (OSError, ValueError) as error:
            package.error("the tokens stay as they were: %s", error)
        else:
            package.info("the tokens were read again")

    async def _drain(self) -> None:
        """Take no further request, and give the calls of the others time to end."""
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.shutdown()
        clock = asyncio.get_running_loop().time
        until = clock() + self._parts.drain_sec
        while self._parts.jobs.busy and not self.in_a_hurry and clock() < until:
            await asyncio.sleep(LOOK_SEC)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        systemd.notify("STOPPING=1")
        package.info("the server stops: runs have %g seconds to end", 0 if self.in_a_hurry else self._parts.drain_sec)
        for door in self._doors:
            door.close()
        for listener in sockets or ():
            listener.close()
        await self._drain()
        await self._parts.stop()
        await super().shutdown(sockets)


def _serve(  # noqa: PLR0917 (the parts of a server, each of another type)
    greeting: str,
    gate: Application,
    listener: socket.socket,
    parts: State,
    bounds: Bounds,
    tokens: Access,
    files: _Files,
    *,
    trusted: Sequence[str] = (),
    tls: Certificate | None = None,
    sockets: Any = "none",
) -> None:
    """Answer requests until a signal says to stop."""
    config = uvicorn.Config(
        AccessLog(gate, parts.meters, parts.audit),
        access_log=False,  # that of uvicorn
        log_level="warning",
        server_header=False,
        http=Protocol,
        ws=sockets,
        ws_max_size=SOCKET_SIZE,
        ws_per_message_deflate=False,
        log_config=None,
        # Otherwise uvicorn would believe every process of this machine, or those of $FORWARDED_ALLOW_IPS.
        proxy_headers=bool(trusted),
        forwarded_allow_ips=list(trusted),
        timeout_keep_alive=int(IDLE_SEC),
        timeout_graceful_shutdown=SHUTDOWN_SEC,
    )
    server = _Server(config, greeting, parts, bounds, tls=tls, tokens=tokens, files=files)

    def leave(number: int, _: object) -> None:
        server.in_a_hurry = server.should_exit or number == signal.SIGINT
        server.should_exit = True

    def renew(*_: object) -> None:
        server.wants_files = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    # Without such a file, the end of a terminal ends the server, as with any program.
    if parts.audit or tls is not None or tokens.file is not None:
        signal.signal(signal.SIGHUP, renew)
    server.run(sockets=[listener])


def _listen(settings: Settings) -> tuple[Address, Access, socket.socket]:
    tokens = access.read_tokens(settings.token_file)
    address = access.parse_address(settings.listen) if settings.listen else access.default_address()
    listener = access.listen(address, tokens)
    if address.inherited:
        address = access.address_of(listener)
    elif address.port == 0 and not address.path:
        address = Address(host=address.host, port=listener.getsockname()[1])
    return address, tokens, listener


def _bounds(settings: Settings, address: Address) -> Bounds:
    named = settings.options.allow_network.kind == "hosts"
    kept = reserved(settings.at_once, settings.sessions, network=named)
    wanted, slots = (settings.connections, settings.connections_per_peer), settings.at_once + settings.waiting
    return make_bounds(*wanted, slots, kept, shared=not address.path)


def _by_http(
    settings: Settings,
    interface: str,
    application: Callable[[State], Application],
    *,
    methods: str = "",
    until: Until = "ready",
    pages: Iterable[str] = (),
    sockets: Any = "none",
) -> int:
    files = _Files((settings.token_file, settings.tls_cert, settings.tls_key))
    tls = Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert is not None else None
    address, tokens, listener = _listen(settings)
    journal = log.install(settings.log_level, settings.log_format)
    try:
        bounds = _bounds(settings, address)
        parts = State(settings, journal, until=until)
        gate = guarded(application(parts), parts, settings, tokens, methods=methods, pages=pages)
        if tls is None and access.is_exposed(address):
            package.warning("listen: other machines reach %s, and tokens travel unencrypted: %s", address, ENCRYPT)
        with spoken_as(interface, offered=parts.offer.packages):
            greeting, trusted = f"pysbx: {NAMES[interface]} at {address}", settings.trusted_proxies
            _serve(greeting, gate, listener, parts, bounds, tokens, files, trusted=trusted, tls=tls, sockets=sockets)
        parts.audit.close()
    finally:
        journal.close()
        access.unlisten(address, listener)
    return parts.leave(0)


def serve(settings: Settings) -> int:
    """Run the HTTP service until a signal says to stop; return the exit code.

    Raises:
        SandboxError: no sandbox can be made.
        ValueError, OSError: the address or a token cannot be used.
    """
    # The package fastapi is not needed for MCP.
    from pysbx.service.connections.upgrade import Upgraded  # noqa: PLC0415
    from pysbx.service.http.api import make_api  # noqa: PLC0415
    from pysbx.service.http.pages import open_routes  # noqa: PLC0415

    pages = open_routes(agent_sandbox=settings.agent_sandbox)
    return _by_http(settings, "http", make_api, pages=pages, sockets=Upgraded)


def _is_of_output(error: BaseException) -> bool:
    """Tell whether an exception, or each one of a group, says that nothing reads the output any more."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return all(map(_is_of_output, inner)) if inner else isinstance(error, BrokenPipeError)


async def _over_stdio(talk: Callable[[], Awaitable[None]], parts: State) -> None:
    async def leave() -> None:
        await parts.stop()
        # Not by an exception: the thread that reads standard input cannot be told to end.
        os._exit(0)

    leaving: list[asyncio.Task[None]] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lambda: leaving.append(asyncio.ensure_future(leave())))
    try:
        await talk()
    except BaseException as error:
        if not _is_of_output(error):
            raise
        # A client that was killed.
    finally:
        await parts.stop()


def serve_mcp(settings: Settings) -> int:
    """Run the MCP server: over HTTP if an address is given, else until standard input ends; return the exit code.

    Raises: see serve.
    """
    from pysbx.service.mcp.tools import make_tools, over_http  # noqa: PLC0415 (the HTTP service does not need the package mcp)

    def tools(parts: State) -> MCPServer[Any]:
        # Each has a request that lasts. The others are for calls.
        subscriptions = max(1, parts.slots // 2)
        return make_tools(
            parts.offer, parts.preparation, parts.jobs, parts.sessions, subscriptions, chosen=settings.tools
        )

    if settings.listen:
        size = settings.request_mb * MIB
        return _by_http(settings, "mcp", lambda parts: over_http(tools(parts), size), methods="POST", until="run")
    journal = log.install(settings.log_level, settings.log_format)
    try:
        # A client waits for the answer to its first message, and gives up sooner than pip, or a busy machine, is done.
        parts = State(settings, journal, until="checked")
        with spoken_as("mcp", offered=parts.offer.packages):
            asyncio.run(_over_stdio(tools(parts).run_stdio_async, parts))
    finally:
        journal.close()
    return parts.leave(0)
