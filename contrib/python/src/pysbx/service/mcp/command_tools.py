"""Tools for a model: shell commands and processes in the background of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from pysbx.calls.processes import MAX_PID, Process, ProcessOutput
from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import clean, meant
from pysbx.service.http.report import NewText, ProcessList, ProcessStarted, process_list
from pysbx.service.mcp.kept_files import KeptFiles
from pysbx.service.mcp.tool_calls import RunTimeout, SessionId, Stdin
from pysbx.service.mcp.tool_results import RunResult, fitting, result_of
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.sessions import Sessions

T = TypeVar("T")

# Bytes of JSON of each stream.
MAX_NEW = 150_000

Command = Annotated[str, Field(description="for the shell, as in a terminal")]
Pid = Annotated[int, Field(gt=0, le=MAX_PID, description="as start_process has returned it")]
Wait = Annotated[float, Field(ge=0, le=20, description="seconds to wait at most until there is output")]


def new_text_of(output: ProcessOutput) -> NewText:
    """Return output in its other form."""
    # The result has both twice.
    return NewText(
        stdout=fitting(clean(output.stdout), MAX_NEW),
        stderr=fitting(clean(output.stderr), MAX_NEW),
        left_out=output.left_out,
        exit_code=output.exit_code,
    )


class CommandTools:
    """The tools; each method is one, and its docstring is what the model reads."""

    def __init__(self, jobs: Jobs, sessions: Sessions, kept: KeptFiles) -> None:
        """Take the threads, the sessions and the files that the tools use."""
        self._jobs, self._sessions, self._kept = jobs, sessions, kept

    async def _act(self, session_id: str, pid: int, work: Callable[[Process], T]) -> T:
        session = self._sessions.find(caller.get(), session_id)
        with meant():
            return await self._sessions.use(session, lambda sandbox: work(sandbox._process(pid)))

    async def run_command(
        self,
        context: Context,
        session_id: SessionId,
        command: Command,
        stdin: Stdin = "",
        timeout_sec: RunTimeout = None,
    ) -> Annotated[CallToolResult, RunResult]:
        """Run a shell command in a session, and wait for its end. For a server or the like use start_process."""
        link = self._kept.linking(context)
        session = self._sessions.find(caller.get(), session_id)
        with meant():
            given = stdin.encode()
            done = await self._sessions.shell(session, command, given, timeout_sec=timeout_sec)
        return await self._jobs.aside(lambda: result_of(session.news(done), link, session.sandbox.ended))

    async def start_process(self, session_id: SessionId, command: Command) -> ProcessStarted:
        """Start a shell command in the background of a session, such as a server."""
        session = self._sessions.find(caller.get(), session_id)
        with meant():
            process = await self._sessions.use(session, lambda sandbox: sandbox.start(command))
        return ProcessStarted(pid=process.pid)

    async def list_processes(self, session_id: SessionId) -> ProcessList:
        """List the processes in the background of a session."""
        session = self._sessions.find(caller.get(), session_id)
        found = await self._sessions.use(session, lambda sandbox: sandbox.processes())
        return process_list(found)

    async def read_process(self, session_id: SessionId, pid: Pid, wait_sec: Wait = 0) -> NewText:
        """Return what a process in the background has written since it was read last."""
        return new_text_of(await self._act(session_id, pid, lambda process: process.read(wait_sec)))

    async def write_process(
        self,
        session_id: SessionId,
        pid: Pid,
        text: Annotated[str, Field(description="what it reads from standard input; lines end with a newline")],
        *,
        close: Annotated[bool, Field(description="whether this is the end of its input")] = False,
    ) -> str:
        """Write to the standard input of a process in the background."""
        with meant("text: "):
            data = text.encode()
        await self._act(session_id, pid, lambda process: process.write(data, close=close))
        return "written"

    async def signal_process(
        self,
        session_id: SessionId,
        pid: Pid,
        signal: Annotated[str, Field(description="such as INT, TERM or KILL")] = "TERM",
    ) -> str:
        """Send a signal to a process in the background, and to those that it has started; TERM ends most."""
        await self._act(session_id, pid, lambda process: process.signal(signal))
        return "sent"
