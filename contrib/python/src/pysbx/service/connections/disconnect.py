"""A client that goes away while its request is being worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request

T = TypeVar("T")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """Return the result of work, or None if the client has gone: then the work is cancelled."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        gone.cancel()
        task.cancel()
        # A call that was waiting when the server stopped ends with a problem, which no client waits for.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
