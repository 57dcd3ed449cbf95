"""A backend of deepagents, the agents of LangChain: commands and files of an agent are in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from pysbx.calls.program import Completed, OutputLimitError
from pysbx.errors import DependencyInstallError, SandboxError, SandboxOptionError, SandboxStartupError
from pysbx.frameworks.workspace import Opened, exec_async, lost, shown, stopped

T = TypeVar("T")

# The protocol has words for these errors. Of others it wants the text.
NAMES = (
    (FileNotFoundError, "file_not_found"),
    (PermissionError, "permission_denied"),
    (IsADirectoryError, "is_directory"),
    ((NotADirectoryError, ValueError), "invalid_path"),
)
# Errors before a session has begun, of which no model knows a remedy.
OF_START = (SandboxStartupError, SandboxOptionError, DependencyInstallError)


def _check(error: SandboxError) -> None:
    if isinstance(error, OF_START):
        raise error


def _name(error: SandboxError) -> str:
    _check(error)
    return next((name for kind, name in NAMES if isinstance(error, kind)), str(error))


class PysbxBackend(Opened, BaseSandbox):
    """A backend for create_deep_agent(backend=…). Close it at the end."""

    @property
    def id(self) -> str:
        """A reference to the workspace: see Workspace.attach."""
        return self.workspace.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command; a timeout of 0 is none."""
        try:
            return _response(self.workspace.exec(command, **self._options(timeout)))
        except SandboxError as error:
            return self._stopped(error)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command; if the task is cancelled, the command is killed."""
        try:
            return _response(await exec_async(self.workspace, command, **self._options(timeout)))
        except SandboxError as error:
            return self._stopped(error)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files by absolute path; an error is in the response."""
        errors = [_tried(self.workspace.write, path, content)[1] for path, content in files]
        return [FileUploadResponse(path=path, error=error) for (path, _), error in zip(files, errors, strict=True)]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files by absolute path; an error is in the response."""
        found = [(path, *_tried(self.workspace.read, path)) for path in paths]
        return [FileDownloadResponse(path=path, content=content, error=error) for path, content, error in found]

    def close(self) -> None:
        """End the session and all of its processes."""
        self._workspace.close()

    def _stopped(self, error: SandboxError) -> ExecuteResponse:
        """Return the response for a command that has no end of its own: the beginning of its output, and why."""
        _check(error)
        output, code = stopped(error)
        said = output + lost(self._workspace.sandbox)
        return ExecuteResponse(said, code, truncated=isinstance(error, OutputLimitError))


def _tried(work: Callable[..., T], *arguments: Any) -> tuple[T | None, str | None]:
    """Return the result of a use of a file, or the name of its error."""
    try:
        return work(*arguments), None
    except SandboxError as error:
        return None, _name(error)


def _response(done: Completed) -> ExecuteResponse:
    return ExecuteResponse(shown(done.stdout, done.stderr), done.exit_code)
