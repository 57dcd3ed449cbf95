"""The errors that a caller gets: the failure, its reason and the remedy.

Over HTTP a problem is an application/problem+json (RFC 9457); a model gets its text.
"""

from __future__ import annotations

import base64
import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pysbx.errors import (
    DependencyInstallError,
    PlatformNotSupportedError,
    SandboxError,
    SandboxFileError,
    SandboxFileNotFoundError,
    SandboxFileTooLargeError,
    SandboxOptionError,
    SandboxPausedError,
    SandboxStartupError,
    SandboxTimeoutError,
    SerializationError,
    with_extra,
)
from pysbx.options.keywords import OPTIONS

# Characters from the end of pip's output, where its reason is.
MAX_OUTPUT = 2000
# A detail may quote the request: so many characters of its beginning and of its end are kept.
MAX_DETAIL = 1000


def clean(text: str) -> str:
    """Return a string of the sandbox as valid Unicode: halves of surrogate pairs are joined, or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shortened(text: str) -> str:
    """Return a string without its middle, if it is long."""
    return text if len(text) <= 2 * MAX_DETAIL else f"{text[:MAX_DETAIL]} … {text[-MAX_DETAIL:]}"


@dataclass(frozen=True)
class Kind:
    """A kind of problem: its name, on which callers may rely, its status of HTTP, its title and its remedy."""

    name: str
    status: int
    title: str
    remedy: str


BUSY = Kind("busy", 429, "all slots are taken", "try again after the seconds that Retry-After names")
STOPPING = Kind("stopping", 503, "the server is stopping", "try again when it has been started again")
SESSIONS = Kind("too-many-sessions", 429, "no further session is allowed", "end one, or try again later")
ALLOWANCE = Kind("allowance", 429, "the caller has used its allowance", "wait for Retry-After seconds")
KEPT = replace(ALLOWANCE, remedy="remove one that you have")
CONNECTIONS = Kind("too-many-connections", 429, "no further connection is allowed", "close one, or try again later")
EXHAUSTED = Kind("exhausted", 503, "the server's machine lacks a resource", "try again later")
TOKEN = Kind("token", 401, "the token is missing or wrong", "send the header 'Authorization: Bearer TOKEN'")
MORE = "put files into a session, one at a time; for larger ones, ask the operator of this server for --request-size"
LARGE = Kind("too-large", 413, "the request is too large", MORE)
MANY = Kind("too-many", 413, "the request has too many parts", "send an archive, and unpack it by code")
MALFORMED = Kind("malformed", 400, "this is not an HTTP request", "send a request that follows RFC 9112")
SLOW = Kind("slow", 408, "the request did not arrive in time", "send it again, faster")
REQUEST = Kind("request", 422, "the request is invalid", "change what the detail names")
JSON = Kind(
    "json", 400, "the body is not a JSON object", "send one in UTF-8, with the header Content-Type: application/json"
)
NO_SESSION = Kind("no-session", 404, "there is no such session", "start one, and use the identifier that comes back")
ENDED = Kind("session-ended", 410, "the session has ended", "start another; its files and names are gone")
NO_FILE = Kind("no-file", 404, "there is no such file, or it cannot be read", "list the session's files")
BY_PARTS = "take it in parts by code, or ask the operator of this server for --artifact-size or --tmp-size"
FILE_LARGE = Kind("refused", 422, "the file is too large", BY_PARTS)
NO_CALL = Kind("no-call", 404, "no such call waits for an answer", "answer each call of a tool once, in its time")
NO_SNAPSHOT = Kind("no-snapshot", 404, "there is no such snapshot", "make one of a session, or list yours")
NO_METRICS = Kind("no-metrics", 404, "there are no metrics", f"on the server's machine, {with_extra('metrics')}")
TIMED_OUT = Kind("timed-out", 422, "the command took too long", "give it more time, or start it in the background")
OUTPUT = Kind("output-limit", 422, "the command has written too much", "let it write to a file")
REFUSED = Kind("refused", 422, "the sandbox cannot do that", "change what the detail names")
INSTALL = Kind("packages", 502, "packages cannot be installed", "ask for others, or tell the server's administrator")
NO_SANDBOX = Kind("no-sandbox", 500, "no sandbox can be made", "run `pysbx doctor` on the server's machine")
PAUSED = Kind("paused", 409, "the session is paused", "resume it first")
TERMINAL = Kind("terminal", 409, "the session has a terminal already", "close that one, or start another session")
IDEMPOTENCY = Kind("idempotency", 409, "a request with this key is there already", "wait for it, or use a new key")
ORIGIN = Kind(
    "origin",
    403,
    "a page of another server asks",
    "use a page of this server or a program, or start the server with --allow-origin",
)
FAULT = Kind("fault", 500, "the server has a bug", "report it, with the server's log")
# Problems that the web framework finds: a body that cannot be read, no such route, no such method.
PLAIN: Mapping[int, Kind] = {
    400: JSON,
    404: Kind("no-place", 404, "no such route", "GET /openapi.json lists the routes"),
    405: Kind("method", 405, "this route does not have this method", "GET /openapi.json lists the methods"),
}
# Errors of calls when the process or the machine has no descriptors, memory, disk space or disk that can be written:
# see errno(3).
SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
SHORT_RETRY_SEC = 2
# The options that callers choose. A wrong value of another one is the administrator's.
CHOSEN = ("", "profile", "dependencies", *(name for name, declared in OPTIONS.items() if declared.option.offered))
# The first that fits; derived classes stand before their bases.
OF_EXCEPTIONS: tuple[tuple[type[Exception], Kind], ...] = (
    (PlatformNotSupportedError, NO_SANDBOX),
    (SandboxStartupError, NO_SANDBOX),
    (DependencyInstallError, INSTALL),
    (SandboxPausedError, PAUSED),
    (SerializationError, REFUSED),
    (SandboxError, REFUSED),
)


@dataclass(eq=False)
class Problem(Exception):
    """Something cannot be done.

    Attributes:
        kind: what it is an example of.
        detail: why, in this case.
        retry_sec: seconds after which it may be tried again, or 0.
        more: further members of the JSON object.
        allow: for 405, the methods that there are: RFC 9110 demands them.
    """

    kind: Kind
    detail: str
    retry_sec: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)
    allow: Sequence[str] = ()

    def __str__(self) -> str:
        """Return the problem as a sentence for a person, or a model."""
        return f"{self.kind.title}: {clean(shortened(self.detail))} (what to do: {self.kind.remedy})"

    def content(self) -> dict[str, Any]:
        """Return the members of the JSON object."""
        return {
            "type": f"urn:pysbx:problem:{self.kind.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": clean(shortened(self.detail)),
            "remedy": self.kind.remedy,
            **self.more,
        }

    def headers(self) -> dict[str, str]:
        """Return the headers of HTTP that belong to it."""
        found = {"Content-Type": "application/problem+json"}
        if self.retry_sec:
            found["Retry-After"] = str(self.retry_sec)
        if self.kind is MALFORMED:  # where it ends, and the next begins, cannot be known
            found["Connection"] = "close"
        if self.allow:
            found["Allow"] = ", ".join(self.allow)
        if self.kind is TOKEN:
            found["WWW-Authenticate"] = "Bearer"
        return found


# The problem with which the current request was answered, for log and metrics.
answered_with: ContextVar[Problem | None] = ContextVar("answered_with", default=None)


@contextmanager
def meant(what: str = "") -> Iterator[None]:
    """Turn a ValueError into a problem: the request contains a value that is not allowed.

    Args:
        what: begins the detail, where the text of the error does not name it.
    """
    try:
        yield
    except ValueError as error:
        more = file_problem(REQUEST, error).more if isinstance(error, SandboxFileError) else {}
        raise Problem(REQUEST, f"{what}{error}", more=more) from error


def file_problem(kind: Kind, error: SandboxFileError) -> Problem:
    """Return the problem for a file, with the names of the reason, ours and that of errno(3), for programs."""
    kind = FILE_LARGE if isinstance(error, SandboxFileTooLargeError) else kind
    return Problem(kind, str(error), more={"code": error.code, "errno": errno.errorcode.get(error.errno or 0, "")})


def text_or_base64(content: bytes) -> str | dict[str, str]:
    """Return bytes as JSON has them: as a string if they are text."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def killed(error: Exception, *streams: bytes) -> Problem:
    """Return the problem for a command that was killed; it has the beginning of its output."""
    more = dict(zip(("stdout", "stderr"), map(text_or_base64, streams), strict=True))
    return Problem(TIMED_OUT if isinstance(error, SandboxTimeoutError) else OUTPUT, str(error), more=more)


def problem_of(error: Exception) -> Problem:
    """Return the problem for an exception of the package. Any other is a bug, and its text is not disclosed."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, SandboxFileError):  # an OSError of the sandbox, and not of this machine
        return file_problem(NO_FILE if isinstance(error, SandboxFileNotFoundError) else REFUSED, error)
    found = error if isinstance(error, OSError) else error.__cause__
    if isinstance(found, OSError) and found.errno in SHORT_OF:
        return Problem(EXHAUSTED, found.strerror or type(found).__name__, retry_sec=SHORT_RETRY_SEC)
    if isinstance(error, SandboxOptionError) and error.option not in CHOSEN:
        return Problem(NO_SANDBOX, str(error))
    for kind_of_error, kind in OF_EXCEPTIONS:
        if isinstance(error, kind_of_error):
            more = {"output": clean(error.output[-MAX_OUTPUT:])} if isinstance(error, DependencyInstallError) else {}
            return Problem(kind, str(error) or kind.title, more=more)
    return Problem(FAULT, type(error).__name__)
