"""The exceptions of the package. All are SandboxError, so that one except clause is enough."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from typing import Any, ClassVar


def _again(kind: type[SandboxError], texts: tuple[Any, ...]) -> SandboxError:
    """Return an exception of a class as it is before its attributes are set."""
    return kind.__new__(kind, *texts)


class SandboxError(Exception):
    """The base class of the package's errors: on the way into a sandbox, in it, or out of it."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function and arguments from which pickle and copy create it again.

        By default that is a call of the class with the text alone, but the classes below take more arguments. An
        exception that cannot be unpickled breaks a ProcessPoolExecutor and stops a multiprocessing.Pool for good.
        """
        return _again, (type(self), self.args), self.__dict__


class SandboxOptionError(SandboxError, ValueError):
    """An option of the sandbox has a value that is not allowed. The text names the option, the fault and the remedy.

    Attributes:
        option: the keyword argument, such as "landlock".
    """

    def __init__(self, message: str, option: str = "") -> None:
        self.option = option
        super().__init__(message)


class SandboxStartupError(SandboxError):
    """No sandbox could be created: the runtime is missing, or the text is the runtime's reason.

    Attributes:
        code: of the runtime's error, such as "no-namespaces"; "" for another one.
    """

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class SandboxPausedError(SandboxError):
    """The session is paused, so it cannot be used until resume()."""


class PlatformNotSupportedError(SandboxStartupError):
    """This machine does not run Linux, or its kernel lacks a feature that sandboxes need."""


def unsupported() -> str:
    """Return the text of the error on a system that is not Linux."""
    other = {"win32": "Windows (WSL has it)", "darwin": "macOS"}.get(sys.platform, sys.platform)
    return f"sandboxes need namespaces of Linux, which {other} does not have: use Linux, or a virtual machine with it"


class PodmanNotInstalledError(SandboxStartupError):
    """The option image needs Podman, which fetches and mounts the image, and Podman is not installed."""


class LimitsNotEnforceableError(SandboxStartupError):
    """The option limits="strict" needs a cgroup controller that is missing; the text names the remedy."""


class SandboxExecutionError(SandboxError):
    """The code in the sandbox raised, or ended its process.

    Attributes:
        error_type: name of the exception's class inside, such as "ValueError".
        error_message: its text.
        traceback_str: the traceback as Python prints it, of the sandboxed frames only. It is a note of the exception
            too, so Python 3.11 and later print it with that of your program.
        hint: what to try, or None.
        exit_code: exit code of the process, 0 to 255, if the process ended before it answered; otherwise None.
        crash: the signal that ended the process, and what is known of its cause; "" if none did.
    """

    def __init__(
        self,
        error_type: str,
        error_message: str = "",
        traceback_str: str = "",
        hint: str | None = None,
        exit_code: int | None = None,
        *,
        crash: str = "",
    ) -> None:
        self.error_type = error_type
        self.error_message = error_message
        self.traceback_str = traceback_str
        if traceback_str:
            self.__notes__ = [traceback_str.rstrip("\n")]
        self.hint = hint
        self.exit_code = exit_code
        self.crash = crash
        text = f"{error_type}: {error_message}" if error_message else error_type
        super().__init__(f"{text} (hint: {hint})" if hint else text)


class SandboxTimeoutError(SandboxError):
    """The time limit was reached, by the clock or in CPU time; the sandbox was killed.

    Attributes:
        timeout_sec: the limit that was passed, in seconds.
    """

    def __init__(self, message: str, timeout_sec: float = 0.0) -> None:
        self.timeout_sec = timeout_sec
        super().__init__(message)


class SandboxMemoryError(SandboxError):
    """The code needed more memory than its limit.

    Attributes:
        memory_mb: the limit, in MiB.
    """

    def __init__(self, message: str, memory_mb: int = 0) -> None:
        self.memory_mb = memory_mb
        super().__init__(message)


class SerializationError(SandboxError):
    """A value cannot cross the border of the sandbox.

    Attributes:
        type_name: the type in question, such as "socket.socket".
        path: where in the value it was found, such as "result['rows'][3]".
    """

    def __init__(self, message: str, type_name: str = "", path: str = "") -> None:
        self.type_name = type_name
        self.path = path
        super().__init__(message)


class SandboxFileError(SandboxError, OSError):
    """A file of a session cannot be read, written or removed. The classes below say why.

    Attributes:
        path: the path that was given.
        errno: the number of the reason, such as errno.ENOSPC.
        code: its name for programs, also over HTTP and MCP.
    """

    code: ClassVar[str] = "io_error"
    number: ClassVar[int] = errno.EIO

    def __init__(self, message: str, path: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.path = self.filename = path
        self.errno = number or self.number
        self.strerror = os.strerror(self.errno)

    def __str__(self) -> str:
        """Return the text, and not what OSError makes of its attributes."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what creates it again: pickle does not know the attributes of an OSError."""
        return type(self), (self.args[0], self.path, self.errno), self.__dict__


class SandboxFileNotFoundError(SandboxFileError, FileNotFoundError):
    """There is no file of this path."""

    code, number = "file_not_found", errno.ENOENT


class SandboxIsADirectoryError(SandboxFileError, IsADirectoryError):
    """The path is that of a directory."""

    code, number = "is_directory", errno.EISDIR


class SandboxFileExistsError(SandboxFileError, FileExistsError):
    """There is a file of this path, and no directory."""

    code, number = "file_exists", errno.EEXIST


class SandboxNotADirectoryError(SandboxFileError, NotADirectoryError):
    """A part of the path is a file, and no directory."""

    code, number = "not_a_directory", errno.ENOTDIR


class SandboxPermissionError(SandboxFileError, PermissionError):
    """The sandbox's user may not do that, or the file system is read-only."""

    code, number = "permission_denied", errno.EACCES


class SandboxFileTooLargeError(SandboxFileError):
    """The file is larger than may be returned, or there is no room for it."""

    code, number = "too_large", errno.EFBIG


class SandboxNotRegularFileError(SandboxFileError):
    """The path is that of a device, pipe or socket."""

    code, number = "not_regular_file", errno.ENXIO


class SandboxInvalidPathError(SandboxFileError, ValueError):
    """No file can have this path, or files of this place cannot be changed."""

    code, number = "invalid_path", errno.EINVAL


# The system's errors for a disk that is full, a quota, and a limit for the size of files.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FILE_ERRORS: dict[int, type[SandboxFileError]] = {
    **{kind.number: kind for kind in SandboxFileError.__subclasses__()},
    errno.EPERM: SandboxPermissionError,
    errno.EROFS: SandboxPermissionError,
    errno.ENOSPC: SandboxFileTooLargeError,
    errno.EDQUOT: SandboxFileTooLargeError,
    errno.ELOOP: SandboxInvalidPathError,
    errno.ENAMETOOLONG: SandboxInvalidPathError,
}


class ForgedAnswerError(SandboxError):
    """The sandbox sent something else than the expected answer: its code has written to the worker's socket."""


class DependencyInstallError(SandboxError):
    """pip could not install the requirements.

    Attributes:
        output: the output of pip.
    """

    def __init__(self, message: str, output: str = "") -> None:
        self.output = output
        super().__init__(message)


@dataclass(frozen=True)
class Violation:
    """A place in the source that violates a rule of the static analysis."""

    rule: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return the violation as one line of a report."""
        return f"line {self.line}: {self.message} [{self.rule}]"


class PolicyViolationError(SandboxError):
    """The code violates a rule of the static analysis in a stage that is enforced; nothing was run."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        self.violations = violations
        super().__init__("; ".join(map(str, violations)))


def with_extra(name: str) -> str:
    """Return the advice to install what an extra of the package brings.

    No index has the package: a command such as `pip install` with its name would install a stranger's.
    """
    return f"install the wheel of pysbx with the extra '{name}'"
