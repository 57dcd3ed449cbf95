"""Threads for the calls of several callers, which take turns: round-robin scheduling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class FairPool:
    """Some threads. Each caller has a queue of its own, so one with many calls does not delay another for long."""

    def __init__(self, threads: int) -> None:
        """Create the threads; each is started when it is needed."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="pysbx")
        self._free = threads
        # By caller, in the order in which they get the next threads. None is empty.
        self._queues: dict[str, dict[Future[Any], Callable[[], Any]]] = {}
        self._lock = threading.Lock()

    def submit(self, caller: str, work: Callable[[], T]) -> Future[T]:
        """Let a thread do work for a caller, when it is the caller's turn. Work that is cancelled leaves the queue.

        Raises:
            RuntimeError: a thread cannot be started. The next work tries again.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._free:
                self._pool.submit(self._serve)
                self._free -= 1
            self._queues.setdefault(caller, {})[future] = work
        future.add_done_callback(lambda done: self._drop(caller, done))
        return future

    def _drop(self, caller: str, future: Future[Any]) -> None:
        with self._lock:
            queue = self._queues.get(caller, {})
            if queue.pop(future, None) is not None and not queue:
                del self._queues[caller]

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Take the work whose turn it is, or free the thread."""
        with self._lock:
            if not self._queues:
                self._free += 1
                return None
            caller = next(iter(self._queues))
            queue = self._queues.pop(caller)
            future = next(iter(queue))
            work = queue.pop(future)
            if queue:
                self._queues[caller] = queue  # at the end
            return future, work

    def _serve(self) -> None:
        while (found := self._next()) is not None:
            _carry_out(*found)
            del found

    def shutdown(self) -> None:
        """Take no more work, and let the threads end after what they do."""
        self._pool.shutdown(wait=False)


def _carry_out(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # for the caller, as ThreadPoolExecutor does
        future.set_exception(error)
        del future, work  # the frame is in the exception's traceback
    else:
        future.set_result(result)
