"""A sandbox client of the OpenAI Agents SDK: the workspace of a SandboxAgent is a session.

A run that is resumed finds its session again while the process lives that has started it. After the session has ended,
it begins with a new one, which has the files of the snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agents import sandbox as sdk
from agents.sandbox.session import (
    BaseSandboxClient,
    BaseSandboxClientOptions,
    SandboxSession,
    SandboxSessionState,
    pty_types,
)
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.snapshot import SnapshotBase
from pydantic import Field, model_validator

from pysbx.calls.asynchronous import AsyncTerminal
from pysbx.calls.forward import Forward
from pysbx.calls.program import CommandTimeoutError
from pysbx.errors import SandboxError, SandboxFileError, SandboxFileNotFoundError
from pysbx.frameworks.workspace import MIB, Workspace, exec_async, gathered, in_thread

ROOT, THEIR_ROOT = "/work", "/workspace"
ARCHIVE = 256 * MIB
CHUNK, SETTLE_SEC = 1 << 16, 0.1


class PysbxSandboxClientOptions(BaseSandboxClientOptions):
    """Options of a client.

    Attributes:
        options: those of the sandbox, by name; arguments that are no attributes go there.
        exposed_ports: ports of servers in the sandbox, which a local port leads to.
    """

    type: Literal["pysbx"] = "pysbx"
    options: dict[str, Any] = Field(default_factory=dict)
    exposed_ports: tuple[int, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        return gathered(cls.model_fields, given)


class PysbxSandboxSessionState(SandboxSessionState):
    """State for resume(): the options, and a reference to the session."""

    type: Literal["pysbx"] = "pysbx"
    options: dict[str, Any] = Field(default_factory=dict)
    reference: str = ""


@dataclass
class _Running:
    """A command that has been started, and its output that is not read yet."""

    terminal: AsyncTerminal | None = None
    task: asyncio.Task[int | None] | None = None
    chunks: deque[bytes] = field(default_factory=deque)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    used: float = field(default_factory=time.monotonic)

    def add(self, data: bytes) -> None:
        """Take output."""
        self.chunks.append(data)
        self.news.set()

    def done(self) -> bool:
        """Tell whether the command has ended."""
        return self.task is not None and self.task.done()

    async def end(self) -> None:
        """Kill the command, if it runs."""
        if self.terminal is not None:
            await self.terminal.close()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])


def _refuse_user(user: str | sdk.User | None) -> None:
    if user is not None:
        raise ValueError("user: a sandbox of pysbx has one user")


class PysbxSandboxSession(BaseSandboxSession):
    """A session of the SDK. PysbxSandboxClient makes it."""

    state: PysbxSandboxSessionState

    def __init__(self, state: PysbxSandboxSessionState, workspace: Workspace, *, preserved: bool) -> None:
        """Take a workspace, which may have the files of an earlier run."""
        self.state, self.workspace = state, workspace
        self._commands: dict[int, _Running] = {}
        self._servers: dict[int, tuple[asyncio.Server, Forward]] = {}
        self._set_start_state_preserved(preserved)

    async def _prepare_backend_workspace(self) -> None:
        await in_thread(lambda: self.workspace.make_directory(self.state.manifest.root))

    async def _environment(self) -> dict[str, str]:
        return dict(await self.state.manifest.environment.resolve())

    async def _exec(self, command: tuple[str | Path, ...], stdin: bytes = b"", **options: Any) -> sdk.ExecResult:
        argv = [str(part) for part in command]
        given = {"cwd": self.state.manifest.root, "env": await self._environment(), "limit": ARCHIVE} | options
        try:
            done = await exec_async(self.workspace, argv, stdin, **given)
        except CommandTimeoutError as error:
            raise sdk.ExecTimeoutError(command=command, timeout_s=error.timeout_sec, cause=error) from error
        except (SandboxError, ValueError) as error:
            raise sdk.ExecTransportError(command=command, cause=error, message=str(error)) from error
        return sdk.ExecResult(stdout=done.stdout, stderr=done.stderr, exit_code=done.exit_code)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> sdk.ExecResult:
        return await self._exec(command, timeout_sec=timeout)

    async def read(self, path: Path, *, user: str | sdk.User | None = None) -> io.IOBase:
        """Return the content of a file."""
        _refuse_user(user)
        name = await self._validate_path_access(path)
        try:
            return io.BytesIO(await in_thread(lambda: self.workspace.read(str(name), ARCHIVE)))
        except SandboxFileNotFoundError as error:
            raise sdk.WorkspaceReadNotFoundError(path=name, cause=error) from error
        except SandboxFileError as error:
            raise sdk.WorkspaceArchiveReadError(path=name, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | sdk.User | None = None) -> None:
        """Write a file, and make the directories above it."""
        _refuse_user(user)
        name, content = await self._validate_path_access(path, for_write=True), data.read()
        content = content.encode() if isinstance(content, str) else bytes(content)
        try:
            await in_thread(lambda: self.workspace.write(str(name), content))
        except SandboxFileError as error:
            raise sdk.WorkspaceArchiveWriteError(path=name, cause=error) from error

    async def running(self) -> bool:
        """Tell whether the session has not ended."""
        return not self.workspace.sandbox.ended

    async def persist_workspace(self) -> io.IOBase:
        """Return the files of the workspace as a tar archive."""
        skipped = [f"--exclude=./{path.as_posix()}" for path in self._persist_workspace_skip_relpaths()]
        done = await self._exec(("tar", "--anchored", "--no-wildcards", *skipped, "--create", "--file=-", "."))
        if not done.ok():
            raise sdk.WorkspaceArchiveReadError(path=Path(self.state.manifest.root), context={"tar": str(done.stderr)})
        return io.BytesIO(done.stdout)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Extract a tar archive into the workspace: in the sandbox, so no member can lead out of it."""
        done = await self._exec(("tar", "--extract", "--file=-"), data.read())
        if not done.ok():
            raise sdk.WorkspaceArchiveWriteError(path=Path(self.state.manifest.root), context={"tar": str(done.stderr)})

    def supports_pty(self) -> bool:
        """Return that commands may have a terminal."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | sdk.User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> pty_types.PtyExecUpdate:
        """Start a command, at a terminal or with pipes, and return what it writes in a while."""
        _refuse_user(user)
        argv = [str(part) for part in self._prepare_exec_command(*command, shell=shell, user=None)]
        one, loop = _Running(), asyncio.get_running_loop()
        if tty:
            given = {"cwd": self.state.manifest.root, "env": await self._environment()}
            one.terminal = AsyncTerminal(await in_thread(lambda: self.workspace.sandbox.terminal(argv, **given)))
            one.task = loop.create_task(self._pump(one, one.terminal))
        else:
            one.task = loop.create_task(self._finish(one, tuple(argv)))
        one.task.add_done_callback(lambda _: one.news.set())
        number = pty_types.allocate_pty_process_id({*self._commands})
        if len(self._commands) >= pty_types.PTY_PROCESSES_MAX:
            known = [(key, it.used, it.done()) for key, it in self._commands.items()]
            if (old := pty_types.process_id_to_prune_from_meta(known)) is not None:
                await self._commands.pop(old).end()
        self._commands[number] = one
        wait_ms = pty_types.clamp_pty_yield_time_ms(10_000 if yield_time_s is None else int(yield_time_s * 1000))
        return await self._update(number, one, wait_ms, max_output_tokens)

    async def _pump(self, one: _Running, terminal: AsyncTerminal) -> int | None:
        while data := await terminal.read():
            one.add(data)
        return terminal.exit_code

    async def _finish(self, one: _Running, command: tuple[str, ...]) -> int:
        soon = asyncio.get_running_loop().call_soon_threadsafe
        done = await self._exec(command, on_output=lambda _, data: soon(one.add, data))
        return done.exit_code

    async def _update(self, number: int, one: _Running, wait_ms: int, tokens: int | None) -> pty_types.PtyExecUpdate:
        output, count, closed = await collect_pty_output(
            output_chunks=one.chunks,
            output_lock=one.lock,
            output_notify=one.news,
            is_done=one.done,
            yield_time_ms=wait_ms,
            max_output_tokens=tokens,
        )
        one.used = time.monotonic()
        if not closed or one.task is None:
            return pty_types.PtyExecUpdate(process_id=number, output=output, exit_code=None, original_token_count=count)
        self._commands.pop(number, None)
        failed = one.task.exception()
        await one.end()
        code = 1 if failed else one.task.result()
        output += f"\n[{failed}]\n".encode() if failed else b""
        return pty_types.PtyExecUpdate(process_id=None, output=output, exit_code=code, original_token_count=count)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> pty_types.PtyExecUpdate:
        """Type into the terminal of a command, and return what it writes in a while."""
        one = self._resolve_pty_session_entry(pty_processes=self._commands, session_id=session_id)
        if chars:
            if one.terminal is None:
                raise RuntimeError("stdin is not available for this process")
            if not one.done():
                await one.terminal.write(chars.encode())
                await asyncio.sleep(SETTLE_SEC)
        seconds = 0.25 if yield_time_s is None else yield_time_s
        wait_ms = pty_types.resolve_pty_write_yield_time_ms(yield_time_ms=int(seconds * 1000), input_empty=not chars)
        return await self._update(session_id, one, wait_ms, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        """Kill all commands that were started."""
        while self._commands:
            await self._commands.popitem()[1].end()

    async def _resolve_exposed_port(self, port: int) -> sdk.ExposedPortEndpoint:
        """Return a port of this machine's loopback that leads to a port of the sandbox."""
        if port not in self._servers:
            forward = await in_thread(lambda: self.workspace.sandbox.forward(port))

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                inner_reader, inner_writer = await asyncio.open_unix_connection(forward.path)
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

            self._servers[port] = (await asyncio.start_server(serve, "127.0.0.1", 0), forward)
        name = self._servers[port][0].sockets[0].getsockname()
        return sdk.ExposedPortEndpoint(host=name[0], port=name[1])

    async def _after_shutdown(self) -> None:
        while self._servers:
            server, forward = self._servers.popitem()[1]
            server.close()
            forward.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes until the end, and that too."""
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


class PysbxSandboxClient(BaseSandboxClient[PysbxSandboxClientOptions | None]):
    """A client for SandboxRunConfig(client=…). A session lasts until delete(), also while a run is paused."""

    backend_id = "pysbx"
    supports_default_options = True

    def __init__(self) -> None:
        """Begin without sessions."""
        self._workspaces: dict[str, Workspace] = {}

    def _session(self, state: PysbxSandboxSessionState, workspace: Workspace, *, preserved: bool) -> SandboxSession:
        self._workspaces[workspace.id] = workspace
        state.reference = workspace.id
        return self._wrap_session(PysbxSandboxSession(state, workspace, preserved=preserved))

    async def create(
        self,
        *,
        snapshot: sdk.SnapshotSpec | SnapshotBase | None = None,
        manifest: sdk.Manifest | None = None,
        options: PysbxSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Return a new session; the workspace is /work, if the manifest does not say otherwise."""
        options, manifest = options or PysbxSandboxClientOptions(), manifest or sdk.Manifest()
        self._validate_manifest_for_create(manifest)
        if manifest.root == THEIR_ROOT:
            manifest = manifest.model_copy(update={"root": ROOT}, deep=True)
        given = ({"allow_network": "localhost"} if options.exposed_ports else {}) | options.options
        number = uuid.uuid4()
        state = PysbxSandboxSessionState(
            session_id=number,
            manifest=manifest,
            snapshot=sdk.resolve_snapshot(snapshot, str(number)),
            exposed_ports=options.exposed_ports,
            options={name: one for name, one in given.items() if name != "secrets"},  # it may be kept
        )
        return self._session(state, Workspace(**given), preserved=False)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Return the session of a state, or a new one, which start() gives the files of the snapshot."""
        if not isinstance(state, PysbxSandboxSessionState):
            raise TypeError(f"state: {type(state).__name__} is not that of a session of pysbx")
        state.assert_path_grants_rebound()
        try:
            return self._session(state, Workspace.attach(state.reference), preserved=True)
        except SandboxError:
            state.workspace_root_ready = False
            return self._session(state, Workspace(**state.options), preserved=False)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End a session and all of its processes."""
        inner = session._inner
        if not isinstance(inner, PysbxSandboxSession):
            raise TypeError("session: it is not one of pysbx")
        self._workspaces.pop(inner.workspace.id, None)
        await in_thread(inner.workspace.close)
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return a state that was kept as JSON."""
        return self._deserialize_session_state_payload(payload, PysbxSandboxSessionState)
