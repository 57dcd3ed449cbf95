"""The routes of the HTTP service for checkpoints and snapshots of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict

from fastapi import FastAPI
from pydantic import BaseModel, Field

from pysbx.calls.saved import NAME
from pysbx.service.connections.admission import caller
from pysbx.service.http.bodies import NO_CONTENT, Strict
from pysbx.service.sandboxes.sessions import MOST_POINTS, Session, Sessions


class Point(BaseModel):
    """A checkpoint that has been made."""

    checkpoint: int = Field(description=f"its number; a session keeps the last {MOST_POINTS}")


class Wanted(Strict):
    """The checkpoint to go back to."""

    checkpoint: int = Field(description="its number")


class Name(Strict):
    """The name of a snapshot."""

    name: str = Field(pattern=f"^{NAME.pattern}$", description="one of the same name is replaced")


class SnapshotInfo(BaseModel):
    """A snapshot that is kept."""

    name: str
    size: int = Field(description="of its file, in bytes")
    made: float = Field(description="when it was made, in seconds since 1970")


class SnapshotList(BaseModel):
    """The snapshots of the caller."""

    snapshots: list[SnapshotInfo]


def add_checkpoints(app: FastAPI, sessions: Sessions, find: Callable[[str], Session]) -> None:
    """Add the routes."""

    @app.post("/v1/sessions/{identifier}/checkpoint", status_code=201, name="checkpoint_session")
    async def checkpoint(identifier: str) -> Point:
        """Keep the present state of a session, memory and files."""
        session = find(identifier)
        return Point(checkpoint=await sessions.use(session, session.keep_point))

    @app.post("/v1/sessions/{identifier}/rollback", name="rollback_session", **NO_CONTENT)
    async def rollback(identifier: str, wanted: Wanted) -> None:
        """Go back to a state that was kept; processes and terminals of the session end."""
        session = find(identifier)
        await sessions.use(session, lambda sandbox: session.roll_back(sandbox, wanted.checkpoint))

    @app.post("/v1/sessions/{identifier}/snapshot", status_code=201, name="snapshot_session")
    async def snapshot(identifier: str, wanted: Name) -> SnapshotInfo:
        """Save a session, which goes on; POST /v1/sessions starts others from it, also when this one has ended."""
        return SnapshotInfo(**asdict(await sessions.snapshot(find(identifier), wanted.name)))

    @app.get("/v1/snapshots", name="list_snapshots")
    async def listing() -> SnapshotList:
        """List the snapshots of the caller."""
        found = await asyncio.to_thread(sessions.snapshots.listed, caller.get())
        return SnapshotList(snapshots=[SnapshotInfo(**asdict(one)) for one in found])

    @app.delete("/v1/snapshots/{name}", name="remove_snapshot", **NO_CONTENT)
    async def remove(name: str) -> None:
        """Remove a snapshot; sessions that were started from it go on."""
        await asyncio.to_thread(sessions.snapshots.remove, caller.get(), name)
