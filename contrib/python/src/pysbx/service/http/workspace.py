"""The routes of the HTTP service for commands with whole output, and for files and directories by absolute path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from pysbx.calls.program import Completed
from pysbx.frameworks.workspace import Workspace
from pysbx.service.connections.problems import clean, meant, text_or_base64
from pysbx.service.http.bodies import NO_CONTENT, Binary, content_of
from pysbx.service.http.commands import ShellCommand
from pysbx.service.http.report import EntryInfo, EntryList, RealPath, info_of, listed
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.sessions import Session, Sessions

T = TypeVar("T")

AbsolutePath = Annotated[str, Query(description="absolute, in the sandbox")]


class Executed(ShellCommand):
    """A command whose output is wanted whole."""

    cwd: str = Field("", description="by default /work")
    env: dict[str, str] = Field({}, description="variables besides those of the session")
    timeout_sec: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="seconds until it and all that it has started are killed"
    )


class Done(BaseModel):
    """How a command ended, with both of its streams whole."""

    exit_code: int = Field(description="127 if there is no such program, 126 if it cannot be executed")
    stdout: str | Binary
    stderr: str | Binary
    started: bool


def done_of(done: Completed) -> Done:
    """Return how a command ended in its other form."""
    streams = {"stdout": text_or_base64(done.stdout), "stderr": text_or_base64(done.stderr)}
    return Done.model_validate({"exit_code": done.exit_code, "started": done.started, **streams})


def add_workspace(app: FastAPI, jobs: Jobs, sessions: Sessions, find: Callable[[str], Session]) -> None:
    """Add the routes."""

    async def act(identifier: str, work: Callable[[Workspace], T]) -> T:
        return await sessions.use(find(identifier), lambda sandbox: work(Workspace(sandbox)))

    @app.post("/v1/sessions/{identifier}/exec", name="exec_command")
    async def execute(identifier: str, wanted: Executed) -> Done:
        """Run a command in a session; its output is whole, or there is a problem timed-out or output-limit."""
        session = find(identifier)
        with meant("stdin: "):
            stdin = await jobs.aside(lambda: content_of(wanted.stdin))
        with meant():
            done = await sessions.execute(
                session, wanted.command, stdin, wanted.timeout_sec, cwd=wanted.cwd, env=wanted.env
            )
        return await jobs.aside(lambda: done_of(done))

    @app.get("/v1/sessions/{identifier}/stat", name="stat_path")
    async def stat(identifier: str, path: AbsolutePath) -> EntryInfo:
        """Say what is at a path, where links lead."""
        return await act(identifier, lambda workspace: info_of(workspace.stat(path)))

    @app.get("/v1/sessions/{identifier}/list", name="list_directory")
    async def entries(identifier: str, path: AbsolutePath) -> EntryList:
        """List a directory."""
        return EntryList(entries=await act(identifier, lambda workspace: listed(workspace, path)))

    @app.get("/v1/sessions/{identifier}/realpath", name="real_path")
    async def realpath(identifier: str, path: AbsolutePath) -> RealPath:
        """Return a path without links and "..", which may lead to nothing."""
        return RealPath(path=clean(await act(identifier, lambda workspace: workspace.realpath(path))))

    @app.post("/v1/sessions/{identifier}/mkdir", name="make_directory", **NO_CONTENT)
    async def mkdir(identifier: str, path: AbsolutePath) -> None:
        """Make a directory, and those above it; one that exists is no error."""
        await act(identifier, lambda workspace: workspace.make_directory(path))

    @app.post("/v1/sessions/{identifier}/remove", name="remove_path", **NO_CONTENT)
    async def remove(identifier: str, path: AbsolutePath) -> None:
        """Remove a file, a link, or a directory with its content."""
        await act(identifier, lambda workspace: workspace.remove(path))
