"""The routes of the HTTP service for shell commands and processes in the background of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import FastAPI, Path, Response
from pydantic import Field

from pysbx.calls.processes import MAX_PID, Process, ProcessOutput
from pysbx.service.connections.json_bounds import MAX_ARGUMENTS
from pysbx.service.connections.problems import clean, meant
from pysbx.service.http.bodies import NO_CONTENT, Binary, Strict, content_of, reported
from pysbx.service.http.report import NewText, ProcessList, ProcessStarted, Report, process_list
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.sessions import Session, Sessions

T = TypeVar("T")

# A request that waits has the turn of its session, and a thread.
MOST_WAIT_SEC = 20.0
Pid = Annotated[int, Path(gt=0, le=MAX_PID, description="as the start of the process has returned it")]


class Command(Strict):
    """A command, and the directory where it starts."""

    command: str | Annotated[list[str], Field(max_length=MAX_ARGUMENTS)] = Field(
        description="for the shell; or a program and its arguments"
    )
    cwd: str = Field("", description="by default the current directory of the session")


class ShellCommand(Command):
    """A command that is waited for."""

    stdin: str | Binary = Field("", description="what it reads from standard input")
    timeout_sec: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="seconds until it is ended; the session goes on"
    )


class Reading(Strict):
    """How long to wait for output."""

    wait_sec: float = Field(
        0, ge=0, le=MOST_WAIT_SEC, description="seconds to wait at most until there is output, or the process has ended"
    )


class Writing(Strict):
    """Input of a process."""

    data: str | Binary = ""
    close: bool = Field(False, description="whether this is the end of its input")


class Signal(Strict):
    """A signal for a process and those that it has started."""

    signal: str = Field(description="a name, such as INT or KILL")


class NewOutput(NewText):
    """The output of a process since it was read last."""

    open: bool = Field(description="whether more can come")


def new_output_of(output: ProcessOutput) -> NewOutput:
    """Return output in its other form."""
    return NewOutput(
        stdout=clean(output.stdout),
        stderr=clean(output.stderr),
        left_out=output.left_out,
        exit_code=output.exit_code,
        open=output.open,
    )


def add_commands(app: FastAPI, jobs: Jobs, sessions: Sessions, find: Callable[[str], Session]) -> None:
    """Add the routes."""

    async def act(identifier: str, pid: int, work: Callable[[Process], T]) -> T:
        with meant():
            return await sessions.use(find(identifier), lambda sandbox: work(sandbox._process(pid)))

    @app.post("/v1/sessions/{identifier}/shell", response_model=Report, name="run_command")
    async def shell(identifier: str, wanted: ShellCommand) -> Response:
        """Run a shell command in a session; it goes on to its end when the client does not wait for it."""
        session = find(identifier)
        with meant("stdin: "):
            stdin = await jobs.aside(lambda: content_of(wanted.stdin))
        with meant():
            done = await sessions.shell(session, wanted.command, stdin, wanted.cwd, timeout_sec=wanted.timeout_sec)
        return await jobs.aside(lambda: reported(done, session.sandbox.ended))

    @app.post("/v1/sessions/{identifier}/processes", status_code=201, name="start_process")
    async def start(identifier: str, wanted: Command) -> ProcessStarted:
        """Start a command in the background of a session."""
        with meant():
            process = await sessions.use(
                find(identifier), lambda sandbox: sandbox.start(wanted.command, cwd=wanted.cwd)
            )
        return ProcessStarted(pid=process.pid)

    @app.get("/v1/sessions/{identifier}/processes", name="list_processes")
    async def listing(identifier: str) -> ProcessList:
        """List the processes in the background of a session."""
        found = await sessions.use(find(identifier), lambda sandbox: sandbox.processes())
        return process_list(found)

    @app.post("/v1/sessions/{identifier}/processes/{pid}/read", name="read_process")
    async def read(identifier: str, pid: Pid, wanted: Reading | None = None) -> NewOutput:
        """Return what a process has written since it was read last."""
        wait_sec = 0.0 if wanted is None else wanted.wait_sec
        return new_output_of(await act(identifier, pid, lambda process: process.read(wait_sec)))

    @app.post("/v1/sessions/{identifier}/processes/{pid}/write", name="write_process", **NO_CONTENT)
    async def write(identifier: str, pid: Pid, wanted: Writing) -> None:
        """Write to the standard input of a process."""
        with meant("data: "):
            data = await jobs.aside(lambda: content_of(wanted.data))
        await act(identifier, pid, lambda process: process.write(data, close=wanted.close))

    @app.post("/v1/sessions/{identifier}/processes/{pid}/signal", name="signal_process", **NO_CONTENT)
    async def send(identifier: str, pid: Pid, wanted: Signal) -> None:
        """Send a signal to a process, and to those that it has started."""
        await act(identifier, pid, lambda process: process.signal(wanted.signal))
