"""Tools for a model, by the Model Context Protocol: run Python, keep sessions, move files.

A call that cannot be carried out is a result with isError, in words from which the model can go on. An exception of
the code is a result like any other. See
https://modelcontextprotocol.io/specification, server/tools.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar, cast

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ContentBlock, Resource, Tool, ToolAnnotations
from pydantic import AnyUrl, BaseModel, Field

from pysbx.calls.execution import CheckedFiles, checked_files, run_chosen
from pysbx.options import hints
from pysbx.options.options import Options
from pysbx.service.connections.admission import Application, caller
from pysbx.service.connections.json_bounds import LISTED, MAX_FILES, check_files, check_parts, may_have_too_many
from pysbx.service.connections.problems import clean, meant
from pysbx.service.http.fields import bounds
from pysbx.service.mcp.command_tools import CommandTools
from pysbx.service.mcp.kept_files import KeptFiles
from pysbx.service.mcp.state_tools import StateTools
from pysbx.service.mcp.tool_calls import (
    ProblemError,
    RunTimeout,
    SessionId,
    Stdin,
    as_tool,
    as_tool_error,
    refusal,
)
from pysbx.service.mcp.tool_changes import Changes
from pysbx.service.mcp.tool_results import RunResult, file_of, first_of, result_of
from pysbx.service.mcp.workspace_tools import WorkspaceTools
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.preparation import PREPARING, Preparation
from pysbx.service.sandboxes.sessions import Session, Sessions
from pysbx.version import VERSION

T = TypeVar("T")

# An escape in JSON: of a character in two halves, of one half alone, or another.
HALF = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(?P<half>u[dD][89a-fA-F]..)|.)")

# Bytes of a list of files as JSON; the result has it twice.
MAX_LISTED = 200_000

# The tools whose description has the facts about sandboxes.
DESCRIBED = ("run_python", "start_session")

Code = Annotated[str, Field(description="Python source text; the value of a last expression is returned")]
Files = Annotated[
    dict[str, str] | None, Field(description=f"text by file name, put into the working directory; {MAX_FILES} at most")
]
Packages = Annotated[list[str] | None, Field(description="names of packages to have besides what is there")]
Profile = Annotated[str | None, Field(description="a name that list_profiles returns")]
Timeout = Annotated[float | None, Field(description="seconds, at most the server's limit", **bounds("timeout_sec"))]
Path = Annotated[str, Field(description="relative to the working directory, or absolute: /output/x")]


class Started(BaseModel):
    """A session that has been started."""

    session_id: str
    idle_sec: float


class SessionInfo(BaseModel):
    """A session that there is."""

    session_id: str
    age_sec: float
    running: bool


class SessionList(BaseModel):
    """The sessions of a client."""

    sessions: list[SessionInfo]


class FileList(BaseModel):
    """The files of a session."""

    files: dict[str, int] = Field(description="size by path")
    not_listed: int = Field(0, description="number of further files")


class ProfileInfo(BaseModel):
    """A profile that may be chosen."""

    name: str
    description: str
    limits: dict[str, int | float]


class Profiles(BaseModel):
    """The profiles that may be chosen."""

    profiles: list[ProfileInfo]


def input_of(text: str) -> bytes:
    """Return what a program reads from standard input."""
    with meant("stdin: "):
        return text.encode()


class Tools:
    """The tools; each method is one, and its docstring is what the model reads."""

    def __init__(self, offer: Choices, jobs: Jobs, sessions: Sessions, kept: KeptFiles) -> None:
        """Take the offer, the threads, the sessions and the files that the tools use."""
        self._offer, self._jobs, self._sessions, self._kept = offer, jobs, sessions, kept

    async def run_python(
        self,
        context: Context,
        code: Code,
        *,
        files: Files = None,
        stdin: Stdin = "",
        packages: Packages = None,
        profile: Profile = None,
        timeout_sec: Timeout = None,
    ) -> Annotated[CallToolResult, RunResult]:
        """Run a Python program in a fresh sandbox that is gone afterwards."""

        def prepare() -> tuple[Options, CheckedFiles, bytes]:
            check_files(len(files or {}))
            with meant():
                named = checked_files(files or {})
            return self._offer.options(profile, packages or (), {"timeout_sec": timeout_sec}), named, input_of(stdin)

        link = self._kept.linking(context)
        options, named, given = await self._jobs.aside(prepare)
        done = await self._jobs.run(
            lambda cancel: run_chosen(options, code, files=named, stdin=given, cancel=cancel),
            options,
            code=code,
        )
        return await self._jobs.aside(lambda: result_of(done, link))

    async def start_session(
        self,
        packages: Packages = None,
        profile: Profile = None,
        snapshot: Annotated[str | None, Field(description="name of a saved session, to continue from it")] = None,
    ) -> Started:
        """Start a session: names, modules and files of one run are there in the next."""
        options = await self._jobs.aside(lambda: self._offer.options(profile, packages or ()))
        if snapshot is not None:
            session = await self._sessions.restore(caller.get(), options, snapshot)
        else:
            session = await self._sessions.start(caller.get(), options)
        return Started(session_id=session.id, idle_sec=self._sessions.idle_sec)

    async def run_in_session(
        self,
        context: Context,
        session_id: SessionId,
        code: Code,
        stdin: Stdin = "",
        timeout_sec: RunTimeout = None,
    ) -> Annotated[CallToolResult, RunResult]:
        """Run Python in a session."""
        link = self._kept.linking(context)
        session = await self._find(session_id)
        given = await self._jobs.aside(lambda: input_of(stdin))
        done = await self._sessions.run(session, code, stdin=given, timeout_sec=timeout_sec)
        return await self._jobs.aside(lambda: result_of(session.news(done), link, session.sandbox.ended))

    async def put_file(
        self,
        session_id: SessionId,
        path: Annotated[
            str, Field(description="relative to the working directory, or absolute in /work, /output or /tmp")
        ],
        content: str,
        encoding: Literal["text", "base64"] = "text",
    ) -> str:
        """Write a file into a session."""

        def prepare() -> CheckedFiles:
            with meant("content: "):
                data = content.encode() if encoding == "text" else base64.b64decode(content, validate=True)
            with meant():
                return checked_files({path: data})

        named = await self._jobs.aside(prepare)
        await self._sessions.use(await self._find(session_id), lambda sandbox: sandbox.put(named))
        return f"{path}: {sum(map(len, named.values()))} bytes"

    async def get_file(self, context: Context, session_id: SessionId, path: Path) -> list[ContentBlock]:
        """Read a file of a session: text as text, images as images, others as base64; a large one as a resource."""
        link = self._kept.linking(context)
        session = await self._find(session_id)
        data = await self._sessions.use(session, lambda sandbox: sandbox.get(path))
        return [await self._jobs.aside(lambda: file_of(path, data, link))]

    async def list_files(self, session_id: SessionId) -> FileList:
        """List the files of a session."""
        found = await self._sessions.use(await self._find(session_id), lambda sandbox: sandbox.files())
        sizes = [(clean(name), size) for name, size in islice(found.items(), LISTED)]
        listed = dict(first_of(sizes, MAX_LISTED))
        return FileList(files=listed, not_listed=len(found) - len(listed))

    async def list_sessions(self) -> SessionList:
        """List your sessions."""
        now = time.monotonic()
        return SessionList(
            sessions=[
                SessionInfo(session_id=one.id, age_sec=round(now - one.began, 1), running=one.turn.locked())
                for one in self._sessions.of(caller.get())
            ]
        )

    async def fork_session(self, session_id: SessionId) -> Started:
        """Start a second session with a copy of a session's names and files, to try something in it."""
        fork = await self._sessions.fork(await self._find(session_id))
        return Started(session_id=fork.id, idle_sec=self._sessions.idle_sec)

    async def interrupt_session(self, session_id: SessionId) -> str:
        """Stop the code that runs in a session by KeyboardInterrupt; the session goes on."""
        await self._sessions.interrupt(await self._find(session_id))
        return "interrupted"

    async def pause_session(self, session_id: SessionId) -> str:
        """Freeze a session with its processes; it can be used again after resume_session."""
        await self._sessions.use(await self._find(session_id), lambda sandbox: sandbox.pause())
        return "paused"

    async def resume_session(self, session_id: SessionId) -> str:
        """Let a paused session go on."""
        await self._sessions.use(await self._find(session_id), lambda sandbox: sandbox.resume())
        return "resumed"

    async def end_session(self, session_id: SessionId) -> str:
        """End a session, and what is running in it."""
        await self._sessions.end(await self._find(session_id))
        return "ended"

    async def list_profiles(self) -> Profiles:
        """List the profiles: named sets of limits and rules that run_python and start_session can be given."""
        return Profiles(
            profiles=[
                ProfileInfo(name=name, description=profile.description, limits=self._offer.limits(name))
                for name, profile in self._offer.profiles.items()
            ]
        )

    async def _find(self, session_id: str) -> Session:
        return self._sessions.find(caller.get(), session_id)


def describe(offer: Choices, preparation: Preparation) -> str:
    """Return the facts about the sandboxes that every model needs."""
    base, found = offer.base, preparation.found
    preparing = preparation.states[""] == PREPARING
    installing = offer.base.dependencies if preparing else ()
    network = {"none": "No network.", "host": "Network of the host.", "localhost": "No network but its own loopback."}
    parts = [
        f"Python {found.python}, with: {', '.join(found.modules) or 'the standard library only'}." if found else "",
        "" if found else "The first sandbox is being made: its version of Python and modules are not known yet.",
        f"Being installed, the first run waits: {', '.join(installing)}." if installing else "",
        f"On request, by packages: {', '.join(sorted(offer.packages))}." if offer.packages else "",
        network.get(base.allow_network.kind) or f"Network: only {base.allow_network}.",
        f"At most {base.memory_mb} MiB of memory, {base.timeout_sec:g} seconds a run.",
        "The working directory is /work. Files written to /output, and matplotlib figures, are returned.",
        f"Files of /work are returned too: {', '.join(offer.base.collect)}." if offer.base.collect else "",
        "As in a notebook: await at the top level, !command, %cd and %%bash." if offer.base.notebook else "",
    ]
    return " ".join(filter(None, parts))


def _simplify(schema: Any) -> None:
    """Let further properties of a schema be allowed or not, and have no schema: some clients refuse all tools then."""
    if isinstance(schema, dict):
        if isinstance(schema.get("additionalProperties"), dict):
            schema["additionalProperties"] = True
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        _simplify(part)


class Server(MCPServer[Any]):
    """A server that refuses arguments which a tool does not have, so that a model learns of a misspelt limit."""

    jobs: Jobs
    about: Callable[[], str]
    changes: Changes
    kept: KeptFiles

    async def list_tools(self) -> list[Tool]:
        """Return the tools; two of them with the facts that hold now."""
        tools = await super().list_tools()
        for tool in tools:
            for schema in filter(None, (tool.input_schema, tool.output_schema)):
                _simplify(schema)
            tool.input_schema["additionalProperties"] = False
            if tool.name in DESCRIBED:
                tool.description = f"{tool.description} {self.about()}"
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """Call a tool.

        Raises:
            ToolError: it has no such argument; or what the tool says.
        """
        try:
            return await self._call(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ProblemError):
                return refusal(str(error), error.__cause__.problem)
            raise

    async def _call(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None) -> Any:
        for tool in await self.list_tools():
            known = tool.input_schema["properties"]
            for unknown in arguments.keys() - known if tool.name == name else ():
                advice = hints.closest(unknown, known) or "there are"
                raise ToolError(f"{unknown:.80}: {name} has no such argument: {advice} {', '.join(known)}")
        for given in arguments.values():
            # The package mcp reads a string as JSON where another type is expected.
            if isinstance(given, str) and may_have_too_many(given) and given.lstrip()[:1] in ("[", "{"):
                await as_tool_error(self.jobs.aside(functools.partial(check_parts, given)))
        return await super().call_tool(name, arguments, context)

    async def list_resources(self) -> list[Resource]:
        """Return the files that are kept for the caller."""
        return self.kept.listed()

    async def read_resource(
        self,
        uri: AnyUrl | str,
        context: Context[Any, Any] | None = None,  # noqa: ARG002 (the package passes it)
    ) -> Iterable[ReadResourceContents]:
        """Return a file that is kept for the caller.

        Raises:
            ResourceNotFoundError: it is not, or not any more.
        """
        found = self.kept.find(str(uri))
        if found is None:
            raise ResourceNotFoundError(f"{uri!s:.200}: there is no such file, or newer ones have taken its place")
        return [ReadResourceContents(content=found.data, mime_type=found.about.mime_type)]

    async def run_stdio_async(self) -> None:
        """Serve by standard input and output."""
        low = self._lowlevel_server
        self.changes.tell_without_subscription(low)
        options = low.create_initialization_options(NotificationOptions(tools_changed=True))
        lines = whole_lines()
        handshake: list[str] = []

        async def before() -> AsyncIterator[str]:
            async for line in lines:
                if is_handshake(line):
                    handshake.append(line)
                    return
                yield line

        async def after() -> AsyncIterator[str]:
            for line in handshake:
                yield line
            async for line in lines:
                yield line

        # A client that gets no answer to server/discover in time, as while this process starts, sends initialize next.
        # The package mcp refuses that on the same connection.
        for part in (before(), after()):
            async with stdio_server(cast("anyio.AsyncFile[str]", part)) as (read, write):
                await low.run(read, write, options)

    def tell_of(self, changes: Changes) -> None:
        """Let clients hear of changes of the tools."""
        self.changes = changes
        changes.serve(self._lowlevel_server)


def is_handshake(line: str) -> bool:
    """Say whether a line is the request that begins a connection of a version before 2026-07-28."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        return '"initialize"' in line and json.loads(line).get("method") == "initialize"
    return False


async def whole_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input, with a replacement for each half of a character.

    JavaScript writes such halves when it cuts a string, and the package mcp does not answer a message that has one.
    """
    async for line in anyio.wrap_file(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")):
        yield HALF.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], line)


def make_tools(
    offer: Choices,
    preparation: Preparation,
    jobs: Jobs,
    sessions: Sessions,
    subscriptions: int = 1,
    *,
    chosen: Sequence[str] = (),
) -> MCPServer[Any]:
    """Return the server of the tools, for any transport.

    Raises:
        ValueError: there is no such tool.
    """

    @contextlib.asynccontextmanager
    async def life(_: MCPServer[Any]) -> AsyncIterator[None]:
        watch = asyncio.ensure_future(sessions.watch())
        try:
            yield
        finally:
            watch.cancel()

    server = Server(
        "pysbx",
        title="Python sandbox",
        instructions=f"Runs Python in sandboxes. {describe(offer, preparation)}",
        version=VERSION,
        lifespan=life,
        log_level="WARNING",
        subscriptions=False,  # see tell_of
    )
    server.tell_of(Changes(preparation, subscriptions))
    server.jobs = jobs
    # The limit of an answer is twice that of its files.
    server.kept = KeptFiles(2 * offer.base.answer_limit)
    server.about = lambda: describe(offer, preparation)
    tools, commands = Tools(offer, jobs, sessions, server.kept), CommandTools(jobs, sessions, server.kept)
    places = WorkspaceTools(sessions)
    states = StateTools(sessions)
    writes = ToolAnnotations(destructive_hint=False, open_world_hint=False)
    destroys = ToolAnnotations(destructive_hint=True, open_world_hint=False)
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    offered = (
        (tools.run_python, writes),
        (tools.start_session, writes),
        (tools.run_in_session, writes),
        (tools.put_file, writes),
        (tools.get_file, reads),
        (tools.list_files, reads),
        (tools.list_sessions, reads),
        (tools.fork_session, writes),
        (states.checkpoint_session, writes),
        (states.rollback_session, destroys),
        (states.snapshot_session, destroys),
        (states.list_snapshots, reads),
        (states.remove_snapshot, destroys),
        (tools.interrupt_session, writes),
        (tools.pause_session, writes),
        (tools.resume_session, writes),
        (tools.end_session, writes),
        (tools.list_profiles, reads),
        (commands.run_command, writes),
        (commands.start_process, writes),
        (commands.list_processes, reads),
        (commands.read_process, writes),
        (commands.write_process, writes),
        (commands.signal_process, writes),
        (places.exec_command, writes),
        (places.stat_path, reads),
        (places.list_directory, reads),
        (places.real_path, reads),
        (places.make_directory, writes),
        (places.remove_path, writes),
    )
    names = [tool.__name__ for tool, _ in offered]
    if unknown := [name for name in chosen if name not in names]:
        raise ValueError(f"tools: there is no '{unknown[0]}': there are {', '.join(names)}")
    for tool, about_it in offered:
        if not chosen or tool.__name__ in chosen:
            title = tool.__name__.replace("_", " ").capitalize().replace("python", "Python")
            server.add_tool(as_tool(tool), title=title, description=tool.__doc__ or "", annotations=about_it)
    return server


def over_http(server: MCPServer[Any], size: int) -> Application:
    """Return the application for streamable HTTP, with bodies of at most size bytes; an Admission belongs before it."""
    return server.streamable_http_app(
        # State that lasts from one request to the next is in the package's own sessions, and belongs to a token.
        stateless_http=True,
        max_request_body_size=size,
        # Pages in a browser have no token, and do not reach Unix sockets.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
