"""A workspace backend of Pydantic AI: the environment in which an agent runs is a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from pysbx.calls.program import CommandTimeoutError, OutputLimitError
from pysbx.errors import SandboxError, SandboxFileError, SandboxOptionError
from pysbx.frameworks.workspace import OUTPUT, Entry, Workspace, exec_async, in_thread
from pysbx.options.keywords import SandboxOptions, Unpack

T = TypeVar("T")

PROVIDER = "pysbx"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _file_entry(found: Entry) -> FileEntry:
    return FileEntry(
        name=found.name, path=found.path, is_dir=found.is_dir, size=found.size if found.kind == "file" else None
    )


class PysbxWorkspaceBackend(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A backend for Workspace(…) of Pydantic AI. Its session starts at the first use; destroy() ends it."""

    def __init__(
        self, ref: WorkspaceRef | None = None, *, limit: int = OUTPUT, **options: Unpack[SandboxOptions]
    ) -> None:
        """Prepare a session, or refer to one that lives.

        Args:
            ref: that of another backend, whose session this one uses.
            limit: bytes of either stream of a command that are accepted.
            options: those of a new session.
        """
        self._ref, self._limit, self._options = ref, limit, options
        self._workspace: Workspace | None = None
        self._turn = asyncio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        """The reference of the session, once it has been started."""
        return self._ref

    async def _started(self) -> Workspace:
        """Return the workspace, which the first caller starts."""
        async with self._turn:
            if self._workspace is None:
                self._workspace = Workspace.attach(self._ref.id) if self._ref else Workspace(**self._options)
            self._ref = self._ref or WorkspaceRef(provider=PROVIDER, id=self._workspace.id)
            return self._workspace

    async def _use(self, work: Callable[[Workspace], Awaitable[T]]) -> T:
        """Do something with the workspace; an error that is neither a file's nor the caller's means that it is gone."""
        try:
            return await work(await self._started())
        except CommandTimeoutError as error:
            raise WorkspaceTimeoutError(str(error), stdout=_text(error.stdout), stderr=_text(error.stderr)) from error
        except OutputLimitError as error:
            said = {"stdout": _text(error.stdout), "stderr": _text(error.stderr)}
            raise WorkspaceOutputLimitError(str(error), limit=self._limit, **said) from error
        except (SandboxFileError, SandboxOptionError):
            raise
        except SandboxError as error:
            raise WorkspaceUnavailableError(str(error)) from error

    async def _ask(self, work: Callable[[Workspace], T]) -> T:
        return await self._use(lambda workspace: in_thread(lambda: work(workspace)))

    async def working_dir(self) -> str:
        """Return the directory where commands begin."""
        return await self._ask(lambda workspace: workspace.root)

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command to its end; see SupportsCommands.run."""
        if isinstance(command, str) != shell:
            raise TypeError("command: a string needs shell=True, and a list of arguments shell=False")
        options: dict[str, Any] = {"env": env, "timeout_sec": timeout, "limit": self._limit}
        done = await self._use(lambda workspace: exec_async(workspace, command, **options))
        return CommandResult(exit_code=done.exit_code, stdout=_text(done.stdout), stderr=_text(done.stderr))

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        return await self._ask(lambda workspace: workspace.read(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, and make the directories above it."""
        await self._ask(lambda workspace: workspace.write(path, data))

    async def stat(self, path: str) -> FileEntry:
        """Return what is at a path."""
        return _file_entry(await self._ask(lambda workspace: workspace.stat(path)))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Return the entries of a directory."""
        return [_file_entry(one) for one in await self._ask(lambda workspace: workspace.list(path))]

    async def make_dir(self, path: str) -> None:
        """Make a directory, and those above it."""
        await self._ask(lambda workspace: workspace.make_directory(path))

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with its content."""
        await self._ask(lambda workspace: workspace.remove(path))

    async def exists(self, path: str) -> bool:
        """Tell whether something is at a path."""
        return await self._ask(lambda workspace: workspace.exists(path))

    async def realpath(self, path: str) -> str:
        """Return a path without links."""
        return await self._ask(lambda workspace: workspace.realpath(path))

    async def destroy(self) -> None:
        """End the session. A backend never does that by itself."""
        if self._workspace is not None:
            await in_thread(self._workspace.close)
