"""A backend of deepagents, the agents of LangChain: commands and files of an agent are in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from pysbx.calls.program import CommandTimeoutError, Completed, OutputLimitError
from pysbx.errors import SandboxFileError
from pysbx.frameworks.workspace import OUTPUT, Workspace, exec_async
from pysbx.options.keywords import SandboxOptions, Unpack

T = TypeVar("T")

TIMED_OUT = 124  # as timeout(1)
# What the protocol calls an error; of others, it wants the text.
NAMES = (
    (FileNotFoundError, "file_not_found"),
    (PermissionError, "permission_denied"),
    (IsADirectoryError, "is_directory"),
    ((NotADirectoryError, ValueError), "invalid_path"),
)


def _name(error: SandboxFileError) -> str:
    return next((name for kind, name in NAMES if isinstance(error, kind)), str(error))


class PysbxBackend(BaseSandbox):
    """A backend for create_deep_agent(backend=…). Close it at the end.

    Attributes:
        workspace: the session, for a program that needs more than the protocol has.
    """

    def __init__(
        self, workspace: Workspace | None = None, *, limit: int = OUTPUT, **options: Unpack[SandboxOptions]
    ) -> None:
        """Take a workspace, or prepare one.

        Args:
            workspace: by default a new one.
            limit: bytes of output that a command may have; the rest is left out, and the command is killed.
            options: those of a new workspace; timeout_sec is the default of commands.
        """
        self.workspace = workspace or Workspace(**options)
        self._limit = limit

    @property
    def id(self) -> str:
        """A reference to the workspace: see Workspace.attach."""
        return self.workspace.id

    def _options(self, timeout: int | None) -> dict[str, Any]:
        seconds = self.workspace.sandbox.options.timeout_sec if timeout is None else timeout
        return {"timeout_sec": seconds or None, "limit": self._limit, "merged": True}

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command; a timeout of 0 is none."""
        try:
            return _response(self.workspace.exec(command, **self._options(timeout)))
        except (CommandTimeoutError, OutputLimitError) as error:
            return _stopped(error)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command; if the task is cancelled, the command is killed."""
        try:
            return _response(await exec_async(self.workspace, command, **self._options(timeout)))
        except (CommandTimeoutError, OutputLimitError) as error:
            return _stopped(error)

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
        self.workspace.close()


def _tried(work: Callable[..., T], *arguments: Any) -> tuple[T | None, str | None]:
    """Return the result of a use of a file, or the name of its error."""
    try:
        return work(*arguments), None
    except SandboxFileError as error:
        return None, _name(error)


def _response(done: Completed) -> ExecuteResponse:
    return ExecuteResponse((done.stdout + done.stderr).decode(errors="replace"), done.exit_code)


def _stopped(error: CommandTimeoutError | OutputLimitError) -> ExecuteResponse:
    """Return the response for a command that was killed: the beginning of its output, and why."""
    output = f"{error.stdout.decode(errors='replace')}\n[{error}]\n"
    late = isinstance(error, TimeoutError)
    return ExecuteResponse(output, TIMED_OUT if late else 137, truncated=not late)
