"""A sandbox of AG2: the shell and the code of an agent run in a session."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any

from ag2.tools.sandbox.base import ExecResult, SandboxBase

from pysbx.calls.program import CommandTimeoutError, OutputLimitError
from pysbx.errors import SandboxFileNotFoundError
from pysbx.frameworks.workspace import Opened, exec_async, in_thread, shown, stopped


class PysbxSandbox(Opened, SandboxBase):
    """A sandbox for SandboxShellTool(…) and SandboxCodeTool(…). Use it in an `async with` statement."""

    @property
    def workdir(self) -> PurePosixPath:
        """The directory where commands begin, in the sandbox."""
        return PurePosixPath("/work")

    @property
    def host_workdir(self) -> Path | None:
        """None: the directory is not one of the host."""
        return None

    async def exec(
        self, argv: list[str], *, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run a command to its end."""
        try:
            done = await exec_async(self.workspace, argv, **self._options(timeout, env=env))
        except (CommandTimeoutError, OutputLimitError) as error:
            return ExecResult(*stopped(error))
        return ExecResult(shown(done.stdout, done.stderr).strip(), done.exit_code)

    def __deepcopy__(self, memo: Any) -> PysbxSandbox:
        """Return itself: an agent copies its tools, and the session is one."""
        return self

    @contextlib.asynccontextmanager
    async def open(self, context: Any = None) -> AsyncIterator[PysbxSandbox]:
        """Return itself for a call of a tool, as a SandboxFactory does; the session goes on afterwards."""
        yield self

    def _path(self, path: PurePosixPath) -> str:
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{path}: a path relative to {self.workdir} is needed")
        return str(self.workdir / path)

    async def put_file(self, path: PurePosixPath, content: bytes) -> None:
        """Write a file, and make the directories above it."""
        target = self._path(path)
        await in_thread(lambda: self.workspace.write(target, content))

    async def remove_file(self, path: PurePosixPath) -> None:
        """Remove a file; a missing one is no error."""
        target = self._path(path)
        try:
            await in_thread(lambda: self.workspace.remove(target))
        except SandboxFileNotFoundError:
            return

    async def aclose(self) -> None:
        """End the session; once more is no error."""
        await in_thread(self._workspace.close)
