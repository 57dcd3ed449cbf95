"""A sandbox of Strands Agents: commands, code and files of an agent are in a session."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from typing import Any

from strands.sandbox.base import Sandbox as StrandsSandbox
from strands.sandbox.errors import SandboxPathNotFoundError
from strands.sandbox.errors import SandboxTimeoutError as StrandsTimeoutError
from strands.sandbox.types import ExecutionResult, FileInfo, OutputFile, StreamChunk
from strands.types.tools import AgentTool
from strands.vended_tools.file_editor import make_file_editor
from strands.vended_tools.python_repl import make_python_repl
from strands.vended_tools.shell import make_shell

from pysbx.calls.execution import advice, unsaid
from pysbx.calls.processes import Command
from pysbx.calls.program import CommandTimeoutError
from pysbx.frameworks.workspace import OUTPUT, Opened, Workspace, exec_async, in_thread, lost, run_async, shown
from pysbx.options.keywords import SandboxOptions, Unpack

Env = dict[str, str] | None
Stream = AsyncGenerator[StreamChunk | ExecutionResult, None]
PYTHON = ("python", "python3")
FIGURES = {"image/png": "png", "image/jpeg": "jpg"}


class PysbxSandbox(Opened, StrandsSandbox):
    """A sandbox for Agent(sandbox=…). Python code keeps its names from call to call; figures are output files.

    The tools of Strands always name a time, by default 120 seconds. If timeout_sec is given, no call takes longer.
    """

    def __init__(
        self, workspace: Workspace | None = None, *, limit: int = OUTPUT, **options: Unpack[SandboxOptions]
    ) -> None:
        """Take a workspace, or prepare one: see Opened."""
        super().__init__(workspace, limit=limit, **options)
        self._most = self.workspace.sandbox.options.timeout_sec if "timeout_sec" in options else None

    def _seconds(self, timeout: float | None) -> float | None:
        return min(timeout or self._most, self._most) if self._most else timeout

    async def execute_streaming(
        self, command: str, *, timeout: float | None = None, cwd: str | None = None, env: Env = None, **kwargs: Any
    ) -> Stream:
        """Run a shell command, and yield its output as it comes."""
        async for one in self._stream(command, b"", self._seconds(timeout), cwd, env):
            yield one

    async def _stream(self, command: Command, stdin: bytes, timeout: float | None, cwd: str | None, env: Env) -> Stream:
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[Any, bytes] | None]()
        options: dict[str, Any] = {"cwd": cwd or "", "env": env, "timeout_sec": timeout, "limit": self._limit}

        def hear(name: str, data: bytes) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, (name, data))

        task = loop.create_task(exec_async(self.workspace, command, stdin, on_output=hear, **options))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (part := await queue.get()) is not None:
                yield StreamChunk(shown(part[1]), part[0])
            done = await task
            yield ExecutionResult(done.exit_code, shown(done.stdout), shown(done.stderr))
        except CommandTimeoutError as error:
            raise StrandsTimeoutError(timeout, shown(error.stdout), shown(error.stderr)) from error
        finally:
            task.cancel()

    async def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: Env = None,
        **kwargs: Any,
    ) -> Stream:
        """Run code: that of Python in the session, unless it has a directory or variables; other by its interpreter."""
        timeout = self._seconds(timeout)
        if language not in PYTHON or cwd or env:
            async for one in self._stream([language], code.encode(), timeout, cwd, env):
                yield one
            return
        sandbox = self.workspace.sandbox
        done = await run_async(sandbox, code, timeout)
        said = done.stderr + unsaid(done) * (not done.timed_out) + advice(done) + lost(sandbox)
        if done.timed_out:
            raise StrandsTimeoutError(timeout, done.stdout, said)
        files = [OutputFile(name, content) for name, content in done.artifacts.items()]
        shown = [(kind, one[kind]) for one in done.displays for kind in FIGURES if kind in one]
        for number, (kind, data) in enumerate(shown):
            files.append(OutputFile(f"figure-{number}.{FIGURES[kind]}", base64.b64decode(data), kind))
        yield ExecutionResult(done.exit_code, done.stdout, said, files)

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return the content of a file."""
        return await in_thread(lambda: self.workspace.read(self.workspace.absolute(path)))

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Write a file, and make the directories above it."""
        await in_thread(lambda: self.workspace.write(self.workspace.absolute(path), content))

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        """Remove a file."""
        await in_thread(lambda: self.workspace.remove(self.workspace.absolute(path)))

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a directory."""
        try:
            found = await in_thread(lambda: self.workspace.list(self.workspace.absolute(path)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SandboxPathNotFoundError(path) from error
        return [FileInfo(one.name, one.is_dir, one.size if one.kind == "file" else None) for one in found]

    def get_tools(self) -> list[AgentTool]:
        """Return the tools of Strands that an agent with this sandbox has: a shell, an editor, and Python."""
        return [make_shell(sandbox=self), make_file_editor(sandbox=self), make_python_repl(sandbox=self)]

    async def close(self) -> None:
        """End the session, for good."""
        await in_thread(self._workspace.close)
