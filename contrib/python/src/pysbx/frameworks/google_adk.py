"""An environment and a code executor of Google's Agent Development Kit, both in a session."""

from __future__ import annotations

import binascii
import mimetypes
from pathlib import Path
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult, File
from google.adk.environment import BaseEnvironment, ExecutionResult
from pydantic import Field, PrivateAttr, model_validator

from pysbx.calls.execution import Execution, advice, run_code, unsaid
from pysbx.calls.program import CommandTimeoutError, OutputLimitError
from pysbx.frameworks.workspace import (
    KILLED,
    TIMED_OUT,
    Opened,
    Workspace,
    exec_async,
    gathered,
    in_thread,
    lost,
    shown,
)


class PysbxEnvironment(Opened, BaseEnvironment):
    """An environment for EnvironmentToolset(environment=…)."""

    @property
    def working_dir(self) -> Path:
        """The directory where commands begin, in the sandbox."""
        return Path("/work")

    async def initialize(self) -> None:
        """Start the session; once more is no error."""
        await in_thread(lambda: self.workspace.root)
        self.is_initialized = True

    async def close(self) -> None:
        """End the session; once more is no error."""
        await in_thread(self._workspace.close)
        self.is_initialized = False

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        """Run a shell command to its end."""
        try:
            done = await exec_async(self.workspace, command, timeout_sec=timeout, limit=self._limit)
        except (CommandTimeoutError, OutputLimitError) as error:
            late = isinstance(error, CommandTimeoutError)
            said = f"{shown(error.stderr)}\n{error}\n"
            return ExecutionResult(TIMED_OUT if late else KILLED, shown(error.stdout), said, late)
        return ExecutionResult(done.exit_code, shown(done.stdout), shown(done.stderr))

    async def read_file(self, path: Path) -> bytes:
        """Return the content of a file."""
        return await in_thread(lambda: self.workspace.read(self.workspace.absolute(path)))

    async def write_file(self, path: Path, content: str | bytes) -> None:
        """Write a file, and make the directories above it."""
        data = content.encode() if isinstance(content, str) else content
        await in_thread(lambda: self.workspace.write(self.workspace.absolute(path), data))


def _content(file: File) -> bytes:
    """Return the content of an input file: the framework gives text in base64, and bytes as they are."""
    if isinstance(file.content, bytes):
        return file.content
    try:
        return binascii.a2b_base64(file.content, strict_mode=True)
    except ValueError:
        return file.content.encode()


def _file(name: str, content: bytes) -> File:
    return File(name=name, content=content, mime_type=mimetypes.guess_type(name)[0] or "application/octet-stream")


class PysbxCodeExecutor(BaseCodeExecutor):
    """An executor for LlmAgent(code_executor=…).

    With stateful=True, the code of one execution id runs in one session. Otherwise each code has a sandbox of its own.
    Arguments that are no fields of the framework's executor are options of the sandbox.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    _sessions: dict[str, Workspace] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        return gathered(cls.model_fields, given)

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run code. Files of /output, and the input files by name, are where the model expects them."""
        given = code_execution_input
        files = {file.name: _content(file) for file in given.input_files}
        options = {"timeout_sec": self.timeout_seconds} if self.timeout_seconds else {}
        if not self.stateful:
            return self._result(run_code(given.code, files=files, **(self.options | options)))
        number = given.execution_id or ""
        if number not in self._sessions:
            self._sessions[number] = Workspace(**self.options)
        self._sessions[number].renew()
        session = self._sessions[number].sandbox
        session.put(files)
        done = session.run(given.code, **options)
        return self._result(done, lost(session))

    @staticmethod
    def _result(done: Execution, more: str = "") -> CodeExecutionResult:
        stdout, stderr = done.stdout, done.stderr + unsaid(done) + advice(done)
        # The framework calls the code failed if something is on stderr, and shows the model only that.
        said = stdout + (stderr or f"exit code {done.exit_code}\n" * bool(done.exit_code)) + more
        stdout, stderr = (stdout, said) if done.exit_code else (said, "")
        made = [_file(name, content) for name, content in done.artifacts.items()]
        return CodeExecutionResult(stdout=stdout, stderr=stderr, output_files=made, exit_code=done.exit_code)

    def close(self) -> None:
        """End the sessions."""
        while self._sessions:
            self._sessions.popitem()[1].close()
