"""A sandbox provider of Inspect, the framework of evaluations: each sample has a session of its own.

Inspect finds it by the entry point of the package: Task(sandbox="pysbx"), or --sandbox pysbx. A configuration is a file
of options in JSON: sandbox=("pysbx", "options.json").
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from pysbx.calls.program import Completed, OutputLimitError
from pysbx.errors import SandboxError, SandboxFileError, SandboxFileTooLargeError, SandboxTimeoutError
from pysbx.frameworks.workspace import Workspace, exec_async, in_thread, shown

# The options of a sandbox for samples of the usual size. A file of options has precedence.
DEFAULTS: dict[str, Any] = {"file_size_mb": 256, "tmp_mb": 256, "memory_mb": 1024, "max_processes": 256}
RETRY_SEC = (60, 30)


def _options(config: SandboxEnvironmentConfigType | None) -> dict[str, Any]:
    """Return the options of a configuration."""
    if config is None:
        return DEFAULTS
    given = json.loads(Path(config).read_text(encoding="utf-8")) if isinstance(config, str) else config.model_dump()
    if not isinstance(given, dict):
        raise ValueError(f"{config!s:.200}: the options of a sandbox are an object of JSON")
    return DEFAULTS | given


def _limited(text: str, error: Exception) -> OutputLimitExceededError:
    made = OutputLimitExceededError(text, shown(getattr(error, "stdout", b"")) or None)
    made.__cause__ = error
    return made


@sandboxenv(name="pysbx")
class PysbxSandboxEnvironment(SandboxEnvironment):
    """A sandbox of a sample."""

    def __init__(self, workspace: Workspace | None = None) -> None:
        """Take a workspace, or prepare one."""
        super().__init__()
        self.workspace = workspace or Workspace(**DEFAULTS)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Return the sandbox of a sample."""
        return {"default": cls(Workspace(**_options(config)))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the sandboxes of a sample."""
        for one in environments.values():
            await in_thread(one.as_type(cls).workspace.close)

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Return how many sandboxes there are at a time: two for each CPU."""
        return 2 * (os.cpu_count() or 1)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 (the name is the framework's)
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command: see SandboxEnvironment.exec."""
        if user is not None:
            raise SandboxUserUnsupportedError(f"a sandbox of pysbx has one user, and is not run as {user!r:.100}")
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        stdin = input.encode() if isinstance(input, str) else input or b""
        again = RETRY_SEC if timeout and timeout_retry else ()
        times = [timeout, *(min(timeout or one, one) for one in again)]
        done: Completed | None = None
        for left, seconds in zip(range(len(times) - 1, -1, -1), times, strict=True):
            try:
                options: dict[str, Any] = {"cwd": cwd or "", "env": env, "timeout_sec": seconds, "limit": limit}
                done = await exec_async(self.workspace, cmd, stdin, **options)
                break
            except TimeoutError:
                if not left:
                    raise
            except OutputLimitError as error:
                raise _limited(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, error) from error
            except SandboxFileError:
                raise
            except SandboxError as error:
                raise SandboxUnavailableError(str(error)) from error
        assert done is not None
        if not done.started and done.exit_code == 126:
            raise PermissionError(f"{cmd[0]!r:.200}: {shown(done.stderr)}")
        return ExecResult(done.exit_code == 0, done.exit_code, shown(done.stdout), shown(done.stderr))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, and make the directories above it."""
        content = contents.encode() if isinstance(contents, str) else contents
        await self._ask(lambda: self.workspace.write(self.workspace.absolute(file), content))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return the content of a file."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            content: bytes = await self._ask(lambda: self.workspace.read(self.workspace.absolute(file), limit))
        except SandboxFileTooLargeError as error:
            raise _limited(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, error) from error
        return content.decode() if text else content

    @staticmethod
    async def _ask(work: Any) -> Any:
        try:
            return await in_thread(work)
        except SandboxTimeoutError as error:
            raise TimeoutError(str(error)) from error
