"""The streams of a run apart from those of earlier runs, whose processes and threads may still write.

A process keeps the pipes with which it began. So the host passes new ones for the next run if another process has the
present ones. Threads share the descriptors of their process: print() of an earlier one writes to the earlier pipe.
"""

from __future__ import annotations

import contextlib
import os
import sys
from _thread import get_native_id
from collections.abc import Collection
from typing import Any

from .ending import flush

STREAMS = (1, 2)
# Of each stream, the earlier pipe to which earlier threads write.
_kept: dict[int, int] = {}
# The process or thread that had been created last when there was no process of the user's code. See _newest.
_alone = b""


def _threads() -> set[int]:
    """Return the threads of the user's code, by the kernel's number, except those of a pool, which work for any run."""
    threading: Any = sys.modules.get("threading")
    pools: Any = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ())
    with contextlib.suppress(Exception):  # a module of the user's may have this name
        return {
            one.native_id
            for one in threading.enumerate()
            if one is not threading.main_thread()
            and one not in pools
            and type(one).__module__ != "multiprocessing.dummy"
        }
    return set()


def begin() -> None:
    """Begin in another sandbox, which has processes of its own."""
    global _alone  # noqa: PLW0603 (of the process)
    _alone = b""


def _newest() -> bytes:
    """Return the number of the process or thread that was created last, the last word of loadavg in proc(5)."""
    file = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 128).rpartition(b" ")[2]
    finally:
        os.close(file)


def _is_held(own: Collection[int]) -> bool:
    """Tell whether another process has a present pipe as a standard stream; if that is unknown, say that it has."""
    global _alone  # noqa: PLW0603 (of the process)
    try:
        newest = _newest()
        if newest == _alone:  # no process has been created since
            return False
        processes = {int(name) for name in os.listdir("/proc") if name.isdigit()}.difference(own)
    except OSError:  # without a container, other processes cannot be seen
        return True
    present = [os.fstat(number) for number in STREAMS]
    _alone = b"" if processes else newest
    for process in processes:
        for number in STREAMS:
            with contextlib.suppress(OSError):  # it has ended
                if any(os.path.samestat(os.stat(f"/proc/{process}/fd/{number}"), one) for one in present):
                    return True
    return False


def is_shared(own: Collection[int]) -> bool:
    """Tell whether something of the run that has just ended may still write to its streams.

    Args:
        own: numbers of the processes that are ours.
    """
    if _threads():
        return True
    forget()
    with contextlib.suppress(OSError):  # the user's code has closed a stream
        return _is_held(own)
    return False


def forget() -> None:
    """Close the earlier pipes, unless earlier threads live."""
    if _kept and not _threads():
        for number in tuple(_kept):
            _route(number, -1, set())


def _route(number: int, earlier: int, threads: set[int]) -> None:
    """Let print() of some threads write to another descriptor; of none, if there are none."""
    stream: Any = getattr(sys, f"__{'stdout' if number == 1 else 'stderr'}__", None)
    if number in _kept:
        os.close(_kept.pop(number))
    with contextlib.suppress(AttributeError, TypeError):  # of a class of the user's
        vars(stream).pop("write", None)
        if not threads:
            return
        _kept[number] = earlier
        write = stream.write

        def routed(text: str) -> int:
            if get_native_id() not in threads or not isinstance(text, str):
                return int(write(text))
            os.write(earlier, text.encode(stream.encoding, stream.errors))
            return len(text)

        stream.write = routed


def replace(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "stream": take a pipe that the host has passed for standard output or error.

    Keep the present one if the user's code has left no descriptor for it.
    """
    number, passed = request["number"], request["passed"]
    if passed < 0:
        return {"kept": True}
    flush()
    threads = _threads()
    earlier = os.dup(number) if threads else -1
    os.dup2(passed, number)
    os.close(passed)
    _route(number, earlier, threads)
    return {}
