"""The runtime API of agent-sandbox, a project of Kubernetes, so that its router and its clients can use a service.

To them, a pod is one sandbox with one file system. So each caller has one session here, which starts at its first
request, and again after it has ended. Paths are relative to /work of the session. There are two generations: /execute,
/upload, /download, /list and /exists of its Python runtime, and /v1/files, /v1/health and /v1/metadata of its sandboxd.
See https://github.com/kubernetes-sigs/agent-sandbox, version 0.5.6.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Annotated, Literal, TypeVar

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from pysbx.calls.session import Sandbox
from pysbx.errors import SandboxFileError, SandboxFileNotFoundError, SandboxNotADirectoryError
from pysbx.frameworks.workspace import Entry, Workspace
from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import NO_FILE, REFUSED, REQUEST, Kind, Problem, clean, meant
from pysbx.service.http.bodies import NO_CONTENT, form_of
from pysbx.service.http.openapi import CONTENT, CONTENT_BODY
from pysbx.service.http.report import report_of
from pysbx.service.http.simple_api import with_traceback
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.sessions import Session, Sessions

T = TypeVar("T")

# Variables of the service that callers may know. Names that contain these words may be of secrets.
PREFIX, SECRET = "SANDBOX_", re.compile("TOKEN|SECRET|PASS|CRED|KEY|AUTH|BEARER|PRIVATE|CERT", re.IGNORECASE)
LISTED = 10_000

OUTSIDE = Kind("outside", 403, "the path is outside of the sandbox's files", "name a path relative to /work")
NOT_EMPTY = Kind("not-empty", 409, "the directory is not empty", "add ?recursive=true to delete it with its contents")
# The codes that clients of sandboxd know.
CODES = {OUTSIDE: "PERMISSION_DENIED", NO_FILE: "NOT_FOUND", NOT_EMPTY: "FAILED_PRECONDITION"}


class AgentCommand(BaseModel):
    """A command. Members that are unknown here are left to newer versions of agent-sandbox."""

    command: str = Field(description="for the shell")
    timeout_seconds: float | None = Field(None, gt=0, allow_inf_nan=False, description="after which it is ended")


class CommandResult(BaseModel):
    """How a command went."""

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool


class Uploaded(BaseModel):
    """That a file was written."""

    message: str


class Existence(BaseModel):
    """Whether there is a file or directory."""

    path: str
    exists: bool


class ListedFile(BaseModel):
    """A file or directory, for GET /list."""

    name: str
    size: int
    type: Literal["file", "directory"]
    mod_time: float = Field(description="seconds since 1970")


class FileInfo(BaseModel):
    """A file or directory, for GET /v1/files."""

    name: str
    size: int
    type: Literal["file", "directory"]
    modified_at: str = Field(description="RFC 3339")
    mode: str = Field(description="octal")


class Directory(BaseModel):
    """The content of a directory."""

    path: str
    entries: list[FileInfo]


class Alive(BaseModel):
    """That the service is there."""

    status: str
    uptime_seconds: int


class Metadata(BaseModel):
    """The variables of the service that are for callers."""

    env: dict[str, str]


def type_of(entry: Entry) -> Literal["file", "directory"]:
    """Return the type that clients know."""
    return "directory" if entry.is_dir else "file"


def listed(entry: Entry) -> ListedFile:
    """Return an entry for GET /list."""
    return ListedFile(name=clean(entry.name), size=entry.size, type=type_of(entry), mod_time=entry.mtime)


def described(entry: Entry) -> FileInfo:
    """Return an entry for GET /v1/files."""
    with meant(f"'{clean(entry.name)}': its time: "):
        try:
            when = datetime.fromtimestamp(entry.mtime, timezone.utc)
        except (OverflowError, OSError) as error:
            raise ValueError(error) from error
    return FileInfo(
        name=clean(entry.name),
        size=entry.size,
        type=type_of(entry),
        modified_at=when.isoformat().replace("+00:00", "Z"),
        mode=f"{entry.mode & 0o777:04o}",
    )


def metadata_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that callers may know, without those that may be secrets."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(PREFIX) and SECRET.search(name.removeprefix(PREFIX)) is None
    }


def failure(kind: Kind, detail: str) -> Problem:
    """Return a problem that also has the members of sandboxd's errors."""
    return Problem(kind, clean(detail), more={"code": CODES.get(kind, "INTERNAL"), "message": kind.title})


def look(workspace: Workspace, path: str) -> bytes | list[Entry]:
    """Return the content of a file, or the entries of a directory."""
    if workspace.stat(path).is_dir:
        return workspace.list(path)[:LISTED]
    return workspace.read(path, workspace.sandbox.options.answer_limit // 2)


class Callers:
    """The session of each caller."""

    def __init__(self, offer: Choices, sessions: Sessions) -> None:
        """Begin without sessions."""
        self._offer = offer
        self._sessions = sessions
        self._of: dict[str, str] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def session(self) -> Session:
        """Return the session of the caller of this request, which starts if there is none.

        Raises:
            Problem: there are too many sessions, or the service is stopping.
            SandboxError: it cannot be started.
        """
        owner = caller.get()
        async with self._starting[owner]:
            known = {session.id: session for session in self._sessions.of(owner)}
            session = known.get(self._of.get(owner, ""))
            if session is None:
                session = await self._sessions.start(owner, self._offer.options(None, (), {}))
                self._of[owner] = session.id
            return session

    async def act(self, path: str, work: Callable[[Workspace, str], T], *, link: bool = False) -> T:
        """Do something with a path of the caller's session.

        Args:
            path: relative to /work.
            work: gets the session's workspace, and the path as an absolute one without links.
            link: whether a link itself is meant, and not its target. Then /work itself is refused, too.

        Raises:
            Problem: the path leads out of /work, or it is not possible.
        """

        def within(sandbox: Sandbox) -> T:
            workspace = Workspace(sandbox)
            target = workspace.absolute(path.lstrip("/"))
            above, name = posixpath.split(target.rstrip("/"))
            own = link and name not in (".", "..")
            real = posixpath.join(workspace.realpath(above), name) if own else workspace.realpath(target)
            if not f"{real}/".startswith(f"{workspace.root}/") or (link and real == workspace.root):
                raise failure(OUTSIDE, path)
            return work(workspace, f"/work{real.removeprefix(workspace.root)}")

        session = await self.session()
        with meant():
            try:
                return await self._sessions.use(session, within)
            except (SandboxFileNotFoundError, SandboxNotADirectoryError) as error:
                raise failure(NO_FILE, str(error)) from error
            except SandboxFileError as error:
                if isinstance(error, ValueError):
                    raise
                raise failure(REFUSED, str(error)) from error

    async def run(self, wanted: AgentCommand) -> CommandResult:
        """Run a command for the shell."""
        with meant():
            done = await self._sessions.shell(await self.session(), wanted.command, timeout_sec=wanted.timeout_seconds)
        report = with_traceback(report_of(done))
        return CommandResult(
            stdout=report.stdout, stderr=report.stderr, exit_code=report.exit_code, timed_out=report.timed_out
        )


def content(data: bytes) -> Response:
    """Return the answer with the content of a file, which a browser must not show as a page."""
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    return Response(data, media_type="application/octet-stream", headers=headers)


async def uploaded(request: Request) -> tuple[str, bytes]:
    """Return name and content of the file of a form.

    Raises:
        Problem: the form has none.
    """
    async with form_of(request, max_files=1, max_fields=10) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise Problem(REQUEST, "the form has no file with the name 'file'")
        return file.filename, await file.read()


def _add_first(app: FastAPI, callers: Callers) -> None:
    @app.post("/execute", name="agent_execute")
    async def execute(wanted: AgentCommand) -> CommandResult:
        """Run a shell command in the caller's sandbox."""
        return await callers.run(wanted)

    @app.post("/upload", name="agent_upload")
    async def upload(request: Request) -> Uploaded:
        """Write the file of a form with multipart/form-data; its name is the path."""
        name, data = await uploaded(request)
        await callers.act(name, lambda workspace, path: workspace.write(path, data))
        return Uploaded(message=f"File '{clean(name)}' uploaded successfully.")

    @app.get("/download/{path:file}", response_class=Response, name="agent_download", responses=CONTENT)
    async def download(path: str) -> Response:
        """Read a file."""
        found = await callers.act(path, look)
        if not isinstance(found, bytes):
            raise failure(NO_FILE, f"{path}: this is a directory")
        return content(found)

    @app.get("/list/{path:file}", name="agent_list")
    async def listing(path: str) -> list[ListedFile]:
        """List a directory."""
        found = await callers.act(path, lambda workspace, absolute: workspace.list(absolute)[:LISTED])
        return list(map(listed, found))

    @app.get("/exists/{path:file}", name="agent_exists")
    async def exists(path: str) -> Existence:
        """Say whether there is a file or directory."""
        found = await callers.act(path, lambda workspace, absolute: workspace.exists(absolute))
        return Existence(path=clean(path), exists=found)


def _add_second(app: FastAPI, callers: Callers) -> None:
    began, environment = time.monotonic(), metadata_of(os.environ)

    @app.get("/v1/health", name="agent_health")
    async def health() -> Alive:
        """Say that the service is there; without a token, too."""
        return Alive(status="ok", uptime_seconds=int(time.monotonic() - began))

    @app.get("/v1/metadata", name="agent_metadata")
    async def metadata() -> Metadata:
        """Return the variables of the service that begin with SANDBOX_, except those that may be secrets."""
        return Metadata(env=environment)

    @app.get("/v1/files/{path:file}", name="agent_read", response_model=Directory, responses=CONTENT)
    async def read(path: str) -> Response:
        """Read a file, or list a directory."""
        found = await callers.act(path, look)
        if isinstance(found, bytes):
            return content(found)
        listing = Directory(path=f"/{clean(path).strip('/')}", entries=list(map(described, found)))
        return Response(listing.model_dump_json(), media_type="application/json")

    @app.put("/v1/files/{path:file}", name="agent_write", openapi_extra=CONTENT_BODY, **NO_CONTENT)
    async def write(
        request: Request, path: str, mode: Annotated[str, Query(pattern="^0[0-7]{3}$", description="octal")] = "0644"
    ) -> None:
        """Write a file, with the directories above it."""
        form = request.headers.get("content-type", "").startswith("multipart/form-data")
        data = (await uploaded(request))[1] if form else await request.body()
        await callers.act(path, lambda workspace, absolute: workspace.write(absolute, data, int(mode, 8)))

    @app.delete("/v1/files/{path:file}", name="agent_delete", **NO_CONTENT)
    async def delete(path: str, *, recursive: bool = False) -> None:
        """Remove a file or directory."""

        def remove(workspace: Workspace, absolute: str) -> None:
            is_link = workspace.realpath(absolute) != f"{workspace.root}{absolute.removeprefix('/work')}"
            if not (is_link or recursive) and workspace.stat(absolute).is_dir and workspace.list(absolute):
                raise failure(NOT_EMPTY, path)
            workspace.remove(absolute)

        await callers.act(path, remove, link=True)


def add_agent_sandbox(app: FastAPI, offer: Choices, sessions: Sessions) -> None:
    """Add the routes of both generations to an application."""
    callers = Callers(offer, sessions)
    _add_first(app, callers)
    _add_second(app, callers)
