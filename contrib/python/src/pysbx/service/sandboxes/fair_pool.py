"""Threads for the calls of several callers, which take turns: round-robin scheduling."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class FairPool:
    """Some threads. Each caller has a queue of its own, so one with many calls does not delay another for long."""

    def __init__(self, threads: int) -> None:
        """Create the threads; each is started when it is needed."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="pysbx")
        # By caller, in the order in which they get the next threads. None is empty.
        self._queues: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._lock = threading.Lock()

    def submit(self, caller: str, work: Callable[[], T]) -> Future[T]:
        """Let a thread do work for a caller, when it is the caller's turn."""
        future: Future[T] = Future()
        with self._lock:
            self._queues.setdefault(caller, deque()).append((future, work))
        self._pool.submit(self._next)
        return future

    def _next(self) -> None:
        with self._lock:
            caller = next(iter(self._queues))
            queue = self._queues.pop(caller)
            future, work = queue.popleft()
            if queue:
                self._queues[caller] = queue  # at the end
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # for the caller, as ThreadPoolExecutor does
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self) -> None:
        """Take no more work, and let the threads end after what they do."""
        self._pool.shutdown(wait=False)
