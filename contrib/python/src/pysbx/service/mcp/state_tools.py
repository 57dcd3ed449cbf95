"""Tools for a model: states of a session that are kept, in the session or beyond its end."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from pysbx.service.connections.admission import caller
from pysbx.service.mcp.tool_calls import SessionId
from pysbx.service.sandboxes.sessions import MOST_POINTS, Sessions

Name = Annotated[str, Field(description="letters, digits and '.', '_', '-'; at most 64", max_length=64)]


class Point(BaseModel):
    """A checkpoint that has been made."""

    checkpoint: int


class SnapshotInfo(BaseModel):
    """A snapshot that is kept."""

    name: str
    size: int


class SnapshotList(BaseModel):
    """The snapshots of a client."""

    snapshots: list[SnapshotInfo]


class StateTools:
    """The tools; each method is one, and its docstring is what the model reads."""

    def __init__(self, sessions: Sessions) -> None:
        """Take the sessions that the tools use."""
        self._sessions = sessions

    async def checkpoint_session(self, session_id: SessionId) -> Point:
        """Keep the present names and files of a session for rollback_session."""
        session = self._sessions.find(caller.get(), session_id)
        return Point(checkpoint=await self._sessions.use(session, session.keep_point))

    async def rollback_session(
        self,
        session_id: SessionId,
        checkpoint: Annotated[int, Field(description=f"of checkpoint_session, which keeps the last {MOST_POINTS}")],
    ) -> str:
        """Bring names and files of a session back as they were at a checkpoint; its processes end."""
        session = self._sessions.find(caller.get(), session_id)
        await self._sessions.use(session, lambda sandbox: session.roll_back(sandbox, checkpoint))
        return "rolled back"

    async def snapshot_session(self, session_id: SessionId, name: Name) -> SnapshotInfo:
        """Save a session by a name, which start_session takes, also when this session has ended."""
        made = await self._sessions.snapshot(self._sessions.find(caller.get(), session_id), name)
        return SnapshotInfo(name=made.name, size=made.size)

    async def list_snapshots(self) -> SnapshotList:
        """List the names of your saved sessions."""
        found = await asyncio.to_thread(self._sessions.snapshots.listed, caller.get())
        return SnapshotList(snapshots=[SnapshotInfo(name=one.name, size=one.size) for one in found])

    async def remove_snapshot(self, name: Name) -> str:
        """Remove a saved session; sessions that were started from it go on."""
        await asyncio.to_thread(self._sessions.snapshots.remove, caller.get(), name)
        return "removed"
