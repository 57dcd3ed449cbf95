"""Tools for programs and models: commands with whole output, and files and directories by absolute path."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field

from pysbx.frameworks.workspace import Workspace
from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import OUTPUT, Problem, meant, text_or_base64
from pysbx.service.http.report import EntryInfo, EntryList, RealPath, info_of, listed
from pysbx.service.mcp.tool_calls import RunTimeout, SessionId
from pysbx.service.mcp.tool_results import MAX_RESULT, size_of
from pysbx.service.sandboxes.sessions import Sessions

T = TypeVar("T")

Path = Annotated[str, Field(description="absolute")]
# A result has its content twice: as text, and as structured data.
MOST = MAX_RESULT // 2


class Executed(BaseModel):
    """How a command ended, with both of its streams whole."""

    exit_code: int
    stdout: str
    stderr: str
    encoding: Literal["text", "base64"] = Field("text", description="of both streams")


def within(result: T, what: str) -> T:
    """Return a result if clients accept its size.

    Raises:
        Problem: they do not.
    """
    if size_of(result) > MOST:
        raise Problem(OUTPUT, f"{what}: more than {MOST} bytes of JSON")
    return result


class WorkspaceTools:
    """The tools; each method is one, and its docstring is what the model reads."""

    def __init__(self, sessions: Sessions) -> None:
        """Take the sessions that the tools use."""
        self._sessions = sessions

    async def _act(self, session_id: str, work: Callable[[Workspace], T]) -> T:
        session = self._sessions.find(caller.get(), session_id)
        return await self._sessions.use(session, lambda sandbox: work(Workspace(sandbox)))

    async def exec_command(
        self,
        session_id: SessionId,
        argv: Annotated[list[str], Field(description="a program and its arguments")],
        stdin: str = "",
        encoding: Annotated[Literal["text", "base64"], Field(description="of stdin")] = "text",
        *,
        cwd: Annotated[str, Field(description="by default /work")] = "",
        env: Annotated[dict[str, str] | None, Field(description="variables besides those of the session")] = None,
        timeout_sec: RunTimeout = None,
    ) -> Executed:
        """Run a program in a session. Its output is whole, or the call fails: then the program was killed."""
        session = self._sessions.find(caller.get(), session_id)
        with meant("stdin: "):
            given = stdin.encode() if encoding == "text" else base64.b64decode(stdin, validate=True)
        with meant():
            done = await self._sessions.execute(session, argv, given, timeout_sec, cwd=cwd, env=env)
        streams = [text_or_base64(done.stdout), text_or_base64(done.stderr)]
        if all(isinstance(one, str) for one in streams):
            found = Executed(exit_code=done.exit_code, stdout=str(streams[0]), stderr=str(streams[1]), encoding="text")
        else:
            coded = [base64.b64encode(one).decode() for one in (done.stdout, done.stderr)]
            found = Executed(exit_code=done.exit_code, stdout=coded[0], stderr=coded[1], encoding="base64")
        return within(found, "the output")

    async def stat_path(self, session_id: SessionId, path: Path) -> EntryInfo:
        """Say what is at a path of a session, where links lead: kind, size and time."""
        return await self._act(session_id, lambda workspace: info_of(workspace.stat(path)))

    async def list_directory(self, session_id: SessionId, path: Path) -> EntryList:
        """List a directory of a session."""
        return await self._act(
            session_id, lambda workspace: within(EntryList(entries=listed(workspace, path)), "the list")
        )

    async def real_path(self, session_id: SessionId, path: Path) -> RealPath:
        """Return a path of a session without links."""
        return await self._act(session_id, lambda workspace: RealPath(path=workspace.realpath(path)))

    async def make_directory(self, session_id: SessionId, path: Path) -> str:
        """Make a directory in a session, and those above it."""
        await self._act(session_id, lambda workspace: workspace.make_directory(path))
        return "made"

    async def remove_path(self, session_id: SessionId, path: Path) -> str:
        """Remove a file, or a directory with its content, of a session."""
        await self._act(session_id, lambda workspace: workspace.remove(path))
        return "removed"
