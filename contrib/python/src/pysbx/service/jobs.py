"""Threads for calls of the package, which block: as many as may run at once; further calls wait in line.

Each call gets a descriptor by which it can be told to end, with its container. See Container for what it does then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from pysbx.container import Cancelled
from pysbx.service.problems import STOPPING, Problem
from pysbx.threads import Cancel

T = TypeVar("T")

# A container ends some milliseconds after it is told to. Other work of a call, such as pip, cannot be told to end.
GRACE_SEC = 10.0


class Jobs:
    """The threads, and the calls that they carry out or that wait for one."""

    def __init__(self, at_once: int) -> None:
        """Create the threads for a number of calls at the same time."""
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="pysbx")
        # One: with each further thread that computes, the event loop waits longer for its turn.
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="pysbx-aside")
        self._running: dict[Future[Any], Cancel] = {}
        self._stopping = False

    async def run(self, work: Callable[[int], T]) -> T:
        """Run a call in a thread.

        Args:
            work: is given the descriptor by which it is told to end: when the task that waits here is cancelled, and
                when the server stops.

        Raises:
            Problem: the server is stopping.
            Exception: what the call raises; Cancelled, if something else has told its sandbox to end.
        """
        if self._stopping:
            raise Problem(STOPPING, "nothing new is begun")
        cancel = Cancel()
        future = self._pool.submit(work, cancel.descriptor)
        self._running[future] = cancel
        future.add_done_callback(self._done)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._stopping:
                raise Problem(STOPPING, "the call was waiting for its turn") from None
            cancel.set()
            raise
        except Cancelled:
            if self._stopping:
                raise Problem(STOPPING, "the sandbox was ended") from None
            raise

    async def aside(self, work: Callable[[], T]) -> T:
        """Run work outside of the event loop, if its time grows with the size of a request or answer.

        Raises:
            Exception: what the work raises.
        """
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    def _done(self, future: Future[Any]) -> None:
        self._running.pop(future).close()

    async def close(self) -> bool:
        """Tell all calls to end, and wait for that; return whether they have."""
        self._stopping = True
        running = []
        for future, cancel in tuple(self._running.items()):
            if not future.cancel():  # it does not wait for a thread any more
                cancel.set()
                running.append(future)
        self._pool.shutdown(wait=False)
        return not (await asyncio.to_thread(wait, running, GRACE_SEC)).not_done
