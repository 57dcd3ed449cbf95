"""Threads for calls of the package, which block: as many as may run at once. Others wait, and callers take turns.

Each call gets a descriptor by which it can be told to end, with its container. See Container for what it does then.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from pysbx.base.threads import Cancel
from pysbx.calls.execution import Execution
from pysbx.container.process import Cancelled
from pysbx.options.options import Options
from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import STOPPING, Problem
from pysbx.service.observe.audit import Audit
from pysbx.service.observe.metrics import Meters, name_of
from pysbx.service.observe.traces import ran, run_span
from pysbx.service.sandboxes.allowance import Allowance, Ledger
from pysbx.service.sandboxes.cold_starts import note_start
from pysbx.service.sandboxes.fair_pool import FairPool

T = TypeVar("T")

# A container ends some milliseconds after it is told to. Other work of a call, such as pip, cannot be told to end.
GRACE_SEC = 10.0


class Jobs:
    """The threads, and the calls that they carry out or that wait for one."""

    def __init__(
        self, at_once: int, meters: Meters | None = None, ledger: Ledger | None = None, audit: Audit | None = None
    ) -> None:
        """Create the threads for a number of calls at the same time."""
        self._meters = meters or Meters()
        self._ledger = ledger or Ledger(Allowance())
        self._audit = audit or Audit()
        self._begun, self._lock = 0, threading.Lock()
        self._meters.watch("running", lambda: self._begun)
        self._meters.watch("waiting", lambda: len(self._running) - self._begun)
        self._pool = FairPool(at_once)
        # One: with each further thread that computes, the event loop waits longer for its turn.
        self._aside = FairPool(1)
        self._running: dict[Future[Any], Cancel] = {}
        self._stopping = False

    async def run(
        self,
        work: Callable[[int], T],
        options: Options | None = None,
        *,
        start: bool = True,
        code: str = "",
        in_session: bool = False,
    ) -> T:
        """Run a call in a thread.

        Args:
            work: is given the descriptor by which it is told to end: when the task that waits here is cancelled, and
                when the server stops.
            options: of the sandbox, if the call is a run of code, which is counted.
            start: whether it is the first run in its sandbox.
            code: the source that is run, for the audit log.
            in_session: whether the session counts its CPU time.

        Raises:
            Problem: the server is stopping, or the caller has used its allowance.
            Exception: what the call raises; Cancelled, if something else has told its sandbox to end.
        """
        if self._stopping:
            raise Problem(STOPPING, "nothing new is begun")
        if options is None:
            return await self._run(work)
        who = caller.get()
        self._ledger.take(who)

        def note(done: Execution) -> None:
            self._audit.ran(who, code, done)
            self._meters.ran(name_of(who), done)
            if start:
                note_start(self._meters, name_of(who), done, options)
            if not in_session:
                self._ledger.spend(who, done.usage.cpu_sec)

        with run_span("sandbox") as span:
            waited: list[float] = []
            done = await self._run(work, waited, note)
            if isinstance(done, Execution):
                ran(span, done, waited[0])
            return done

    async def _run(
        self,
        work: Callable[[int], T],
        waited: list[float] | None = None,
        note: Callable[[Execution], None] | None = None,
    ) -> T:
        cancel, asked, who = Cancel(), time.monotonic(), name_of(caller.get())
        loop = asyncio.get_running_loop()

        def begin() -> T:
            with self._lock:
                self._begun += 1
            seconds = time.monotonic() - asked
            self._meters.waited(who, seconds)
            if waited is not None:
                waited.append(seconds)
            run: object = None
            try:
                run = result = work(cancel.descriptor)
                return result
            except Cancelled as ended:
                run = ended.done
                raise
            finally:
                # Not by the task that waits: it may be cancelled until the very end. It goes on after this.
                if note is not None and isinstance(run, Execution):
                    loop.call_soon_threadsafe(note, run)
                with self._lock:
                    self._begun -= 1

        try:
            future = self._pool.submit(caller.get(), begin)
        except BaseException:
            cancel.close()
            raise
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

    @property
    def busy(self) -> bool:
        """Whether there are calls that are carried out or wait for a thread."""
        return bool(self._running)

    async def aside(self, work: Callable[[], T]) -> T:
        """Run work outside of the event loop, if its time grows with the size of a request or answer."""
        return await asyncio.wrap_future(self._aside.submit(caller.get(), work))

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
        self._pool.shutdown()
        return not (await asyncio.to_thread(wait, running, GRACE_SEC)).not_done
