"""The runtime API of agent-sandbox, a project of Kubernetes, so that its router and its clients can use a service.

To them, a pod is one sandbox with one file system. So each caller has one session here, which starts at its first
request, and again after it has ended. Paths are relative to /work of the session. There are two generations: /execute,
/upload, /download, /list and /exists of its Python runtime, and /v1/files, /v1/health and /v1/metadata of its sandboxd.
See https://github.com/kubernetes-sigs/agent-sandbox, version 0.5.6.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from pysbx.calls.execution import checked_files
from pysbx.container.exchange import text
from pysbx.errors import SandboxError
from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import NO_FILE, REFUSED, REQUEST, Kind, Problem, clean, meant
from pysbx.service.http.bodies import NO_CONTENT
from pysbx.service.http.openapi import CONTENT, CONTENT_BODY
from pysbx.service.http.report import report_of
from pysbx.service.http.simple_api import with_traceback
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.sessions import Session, Sessions

# Variables of the service that callers may know. Names that contain these words may be of secrets.
PREFIX, SECRET = "SANDBOX_", re.compile("TOKEN|SECRET|PASS|CRED|KEY|AUTH|BEARER|PRIVATE|CERT", re.IGNORECASE)
LISTED = 10_000

OUTSIDE = Kind("outside", 403, "the path is outside of the sandbox's files", "name a path relative to /work")
NOT_EMPTY = Kind("not-empty", 409, "the directory is not empty", "add ?recursive=true to delete it with its contents")
# The words of the program below, each with a problem and the code that clients of sandboxd know.
FAILURES: Mapping[str, tuple[Kind, str]] = {
    "outside": (OUTSIDE, "PERMISSION_DENIED"),
    "missing": (NO_FILE, "NOT_FOUND"),
    "full": (NOT_EMPTY, "FAILED_PRECONDITION"),
    "failed": (REFUSED, "INTERNAL"),
}

# It runs in the sandbox, whose user may do to its own files what the user wants. Its output is not trusted.
PROGRAM = r"""
import itertools, json, os, shutil, stat, sys
work, path, most, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4], 8)
top = os.path.realpath(os.path.join(os.environ.get("PYSBX_DIRECTORY", "/"), "work"))
target = os.path.join(top, path.lstrip("/"))
real = os.path.realpath(target)

def about(name, found):
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
    return {"name": name, "size": found.st_size, "type": kind, "time": found.st_mtime, "mode": found.st_mode & 0o777}

def entries():
    with os.scandir(real) as found:
        for entry in itertools.islice(found, most):
            try:
                yield about(entry.name, entry.stat())
            except OSError:  # a link that leads nowhere, or a file that has just gone
                pass

def carry_out():
    if real != top and not real.startswith(top + "/"):
        return {"failure": "outside"}
    if not os.path.lexists(target if work == "delete" else real):
        return {"failure": "missing"}
    if work == "look":
        found = about(os.path.basename(real), os.stat(real))
        inside = entries() if found["type"] == "directory" else ()
        return {**found, "entries": sorted(inside, key=lambda one: one["name"])}
    if work == "mode":
        os.chmod(real, mode)
    elif real == top:
        return {"failure": "outside"}
    elif os.path.islink(target) or not os.path.isdir(target):
        os.unlink(target)
    elif mode:
        shutil.rmtree(target)
    elif os.listdir(target):
        return {"failure": "full"}
    else:
        os.rmdir(target)
    return {}

try:
    print(json.dumps(carry_out()))
except OSError as error:
    print(json.dumps({"failure": "failed", "why": error.strerror}))
"""


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


class Entry(BaseModel):
    """A file or directory, for GET /v1/files."""

    name: str
    size: int
    type: Literal["file", "directory"]
    modified_at: str = Field(description="RFC 3339")
    mode: str = Field(description="octal")


class Directory(BaseModel):
    """The content of a directory."""

    path: str
    entries: list[Entry]


class Alive(BaseModel):
    """That the service is there."""

    status: str
    uptime_seconds: int


class Metadata(BaseModel):
    """The variables of the service that are for callers."""

    env: dict[str, str]


class Found(BaseModel):
    """A file or directory, as the program in the sandbox tells it."""

    name: str
    size: int
    type: Literal["file", "directory"]
    time: float
    mode: int = Field(ge=0, le=0o777)
    entries: list[Found] = []

    def listed(self) -> ListedFile:
        """Return it for GET /list."""
        return ListedFile(name=clean(self.name), size=self.size, type=self.type, mod_time=self.time)

    def entry(self) -> Entry:
        """Return it for GET /v1/files."""
        with meant(f"'{clean(self.name)}': its time: "):
            try:
                when = datetime.fromtimestamp(self.time, timezone.utc)
            except (OverflowError, OSError) as error:
                raise ValueError(error) from error
        return Entry(
            name=clean(self.name),
            size=self.size,
            type=self.type,
            modified_at=when.isoformat().replace("+00:00", "Z"),
            mode=f"{self.mode:04o}",
        )


def metadata_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that callers may know, without those that may be secrets."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(PREFIX) and SECRET.search(name.removeprefix(PREFIX)) is None
    }


def failure(name: str, detail: str) -> Problem:
    """Return a problem that also has the members of sandboxd's errors."""
    kind, code = FAILURES.get(name, FAILURES["failed"])
    return Problem(kind, detail, more={"code": code, "message": kind.title})


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

    async def tell(self, work: str, path: str, mode: int = 0) -> dict[str, Any]:
        """Let the program in the sandbox work on a path, and return its answer.

        Args:
            work: look, delete or mode.
            path: relative to /work.
            mode: the new mode, or whether a directory is deleted with its contents.

        Raises:
            Problem: it cannot.
        """
        if "\0" in path:
            raise Problem(REQUEST, "the path has a null byte")
        session = await self.session()
        command = ["python3", "-I", "-S", "-c", PROGRAM, work, path, str(LISTED), f"{mode:o}"]
        done = await self._sessions.shell(session, command)
        try:
            answer = json.loads(done.stdout)
        except (ValueError, RecursionError):
            answer = {"failure": "failed", "why": done.stderr or done.stdout}
        if not isinstance(answer, dict) or "failure" in answer:
            said = answer if isinstance(answer, dict) else {}
            why = clean(text(said, "why"))
            raise failure(text(said, "failure"), f"{clean(path)}{': ' if why else ''}{why}")
        return answer

    async def look(self, path: str) -> Found:
        """Return a file, or a directory and its entries.

        Raises:
            Problem: there is none.
        """
        answer = await self.tell("look", path)
        try:
            return Found.model_validate(answer)
        except ValueError:
            raise failure("failed", f"{clean(path)}: the sandbox does not say what it is") from None

    async def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            Problem: there is none, or it is too large.
        """
        session = await self.session()
        try:
            return await self._sessions.use(session, lambda sandbox: sandbox.get(path.lstrip("/")))
        except SandboxError as error:
            if session.sandbox.ended:
                raise
            raise failure("missing", clean(str(error))) from error

    async def write(self, path: str, content: bytes) -> None:
        """Write a file, with the directories above it.

        Raises:
            Problem: it cannot be written there.
        """
        relative = path.lstrip("/")
        if ".." in relative.split("/"):
            raise failure("outside", clean(path))
        with meant():
            files = checked_files({relative: content})
        await self._sessions.use(await self.session(), lambda sandbox: sandbox.put(files))

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
    async with request.form(max_files=1, max_fields=10) as form:
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
        await callers.write(name, data)
        return Uploaded(message=f"File '{clean(name)}' uploaded successfully.")

    @app.get("/download/{path:file}", response_class=Response, name="agent_download", responses=CONTENT)
    async def download(path: str) -> Response:
        """Read a file."""
        return content(await callers.read(path))

    @app.get("/list/{path:file}", name="agent_list")
    async def listing(path: str) -> list[ListedFile]:
        """List a directory."""
        found = await callers.look(path)
        if found.type != "directory":
            raise failure("missing", f"{clean(path)}: this is not a directory")
        return [entry.listed() for entry in found.entries]

    @app.get("/exists/{path:file}", name="agent_exists")
    async def exists(path: str) -> Existence:
        """Say whether there is a file or directory."""
        try:
            await callers.tell("look", path)
        except Problem as problem:
            if problem.kind is not NO_FILE:
                raise
            return Existence(path=clean(path), exists=False)
        return Existence(path=clean(path), exists=True)


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
        found = await callers.look(path)
        if found.type == "file":
            return content(await callers.read(path))
        entries = [entry.entry() for entry in found.entries]
        listing = Directory(path=f"/{clean(path).strip('/')}", entries=entries)
        return Response(listing.model_dump_json(), media_type="application/json")

    @app.put("/v1/files/{path:file}", name="agent_write", openapi_extra=CONTENT_BODY, **NO_CONTENT)
    async def write(
        request: Request, path: str, mode: Annotated[str, Query(pattern="^0[0-7]{3}$", description="octal")] = "0644"
    ) -> None:
        """Write a file, with the directories above it."""
        form = request.headers.get("content-type", "").startswith("multipart/form-data")
        data = (await uploaded(request))[1] if form else await request.body()
        await callers.write(path, data)
        await callers.tell("mode", path, int(mode, 8))

    @app.delete("/v1/files/{path:file}", name="agent_delete", **NO_CONTENT)
    async def delete(path: str, *, recursive: bool = False) -> None:
        """Remove a file or directory."""
        await callers.tell("delete", path, int(recursive))


def add_agent_sandbox(app: FastAPI, offer: Choices, sessions: Sessions) -> None:
    """Add the routes of both generations to an application."""
    callers = Callers(offer, sessions)
    _add_first(app, callers)
    _add_second(app, callers)
