"""The routes of the HTTP service for checkpoints of a session."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from pydantic import BaseModel, Field

from pysbx.calls.session import Sandbox
from pysbx.service.connections.problems import REQUEST, Problem
from pysbx.service.http.bodies import NO_CONTENT, Strict
from pysbx.service.sandboxes.sessions import MOST_POINTS, Session, Sessions


class Point(BaseModel):
    """A checkpoint that has been made."""

    checkpoint: int = Field(description=f"its number; a session keeps the last {MOST_POINTS}")


class Wanted(Strict):
    """The checkpoint to go back to."""

    checkpoint: int = Field(description="its number")


def add_checkpoints(app: FastAPI, sessions: Sessions, find: Callable[[str], Session]) -> None:
    """Add the routes.

    Args:
        app: the application.
        sessions: the sessions that there are.
        find: returns the session of a caller by its identifier.
    """

    @app.post("/v1/sessions/{identifier}/checkpoint", status_code=201, name="checkpoint_session")
    async def checkpoint(identifier: str) -> Point:
        """Keep the present state of a session, memory and files."""
        session = find(identifier)
        return Point(checkpoint=await sessions.use(session, session.keep_point))

    @app.post("/v1/sessions/{identifier}/rollback", name="rollback_session", **NO_CONTENT)
    async def rollback(identifier: str, wanted: Wanted) -> None:
        """Go back to a state that was kept; processes and terminals of the session end."""
        session = find(identifier)

        def work(sandbox: Sandbox) -> None:
            point = session.points.get(wanted.checkpoint)
            if point is None:
                raise Problem(REQUEST, f"checkpoint: the session keeps {', '.join(map(str, session.points)) or 'none'}")
            sandbox.rollback(point)

        await sessions.use(session, work)
