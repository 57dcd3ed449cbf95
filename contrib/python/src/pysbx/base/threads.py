"""Threads for callers that must not block: each waits for one call of the package, which can be told to end."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

from pysbx.errors import SandboxError

T = TypeVar("T")

# A thread here only waits for its container, so the number of CPUs, which asyncio's own pool depends on, is no measure.
# With two CPUs, six slow calls would hold up a seventh, and all other work of asyncio.to_thread(). Many sandboxes at
# the same time cost memory; further calls wait in line.
AT_ONCE = 32


class Cancel:
    """A descriptor that can be read once set() was called; both sides may close it at any time."""

    def __init__(self) -> None:
        """Open the descriptor."""
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._open = True

    def set(self) -> None:
        """Tell the call to end; after close() nothing happens."""
        with self._lock:
            if self._open:
                os.eventfd_write(self.descriptor, 1)

    def close(self) -> None:
        """Close the descriptor; once more is no error."""
        with self._lock:
            if self._open:
                os.close(self.descriptor)
            self._open = False


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pysbx-call")


os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads are the parent's


def look_at(future: asyncio.Future[Any]) -> None:
    """Read an exception for which no task waits any more; otherwise asyncio would complain about it."""
    if not future.cancelled():
        future.exception()


def _check_loop() -> None:
    """Refuse a task of another library than asyncio before anything begins."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        advice = "call the blocking form in a thread, such as trio.to_thread.run_sync(run_code, source)"
        raise SandboxError(f"no event loop of asyncio is running, as under trio: {advice}") from None


async def run_in_thread(work: Callable[[int], T]) -> T:
    """Run a call in a thread and return what it returns.

    A task that is cancelled while it waits here leaves no call running. A call that has not begun never begins. A call
    that has begun is told to end, and the task waits for it. If the task is cancelled again, it does not wait; the call
    ends all the same.

    Args:
        work: is given the descriptor by which it is told to end, which is open until then.
    """
    _check_loop()
    cancel = Cancel()
    future: Future[T] = _pool().submit(contextvars.copy_context().run, work, cancel.descriptor)
    future.add_done_callback(lambda _: cancel.close())
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(look_at)
    try:
        await asyncio.wait([waiting])  # unlike an await of its own, this leaves the future as it is when cancelled
        return waiting.result()
    except asyncio.CancelledError:
        if not future.cancel():  # it has begun
            cancel.set()
            await asyncio.wait([waiting])
        raise
    finally:
        waiting.cancel()  # the loop may be closed before the call has ended


def _discard(discard: Callable[[T], None], future: Future[T]) -> None:
    if not future.cancelled() and future.exception() is None:
        discard(future.result())


# Seconds between two interrupts of code that goes on.
AGAIN_SEC = 0.5


async def run_interrupted(
    work: Callable[[], T], interrupt: Callable[[], None], discard: Callable[[T], None] | None = None
) -> T:
    """Run a call in a thread and return what it returns. If the task is cancelled, the call is interrupted.

    The task waits for the end of the call, and interrupts it again if it goes on. If the task is cancelled a second
    time, it does not wait.

    Args:
        work: the call.
        interrupt: interrupts it.
        discard: is given what the call returns if its task was cancelled.
    """
    _check_loop()
    future: Future[T] = _pool().submit(contextvars.copy_context().run, work)
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(look_at)
    try:
        await asyncio.wait([waiting])
        return waiting.result()
    except asyncio.CancelledError:
        if discard is not None:
            future.add_done_callback(partial(_discard, discard))
        while not future.cancel() and not future.done():
            await asyncio.to_thread(interrupt)
            await asyncio.wait([waiting], timeout=AGAIN_SEC)
        raise
    finally:
        waiting.cancel()  # the loop may be closed before the call has ended
