"""Signal the processes of a container: stop all if it has no cgroup, and interrupt those that a run has started.

They are descendants of the runtime's process, in a pid namespace below the caller's. See pid_namespaces(7), NSpid in
proc(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial

from pysbx.container.cpu_time import MOST, TICKS_PER_SEC, descendants, fields_of
from pysbx.container.process import open_process

NAMESPACES = re.compile(r"^NSpid:(.*)$", re.MULTILINE)
STATE = re.compile(r"^State:\t(\w)", re.MULTILINE)
# Fields of fields_of(): the group of a process, and when it began, by CLOCK_BOOTTIME in ticks.
GROUP, BEGAN = 2, 19
# States of a process that is stopped, traced or has ended.
AT_REST = "TtZX"
# A process that is not stopped yet may start others. A fork bomb is not stopped.
ROUNDS, ROUND_SEC = 200, 0.002


def _status(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return file.read()
    return ""


def _depth(status: str) -> int:
    """Return how many pid namespaces a process has a number in, or 0 if it has ended."""
    found = NAMESPACES.search(status)
    return len(found[1].split()) if found else 0


def _is_inside(pid: int, outside: int) -> bool:
    return _depth(_status(pid)) > outside


def _signal(pid: int, number: int, is_it: Callable[[], bool]) -> None:
    """Send a signal to a process of the container, and to no other that may have its number by now."""
    with contextlib.suppress(OSError):
        descriptor = open_process(pid)
        try:
            if is_it() and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(descriptor, number)
            elif is_it():  # Python was built for a C library that has no such function
                os.kill(pid, number)
        finally:
            os.close(descriptor)


def signal_group(runtime: int, number: int) -> str:
    """Signal the processes of a sandbox without a container: they have one group, which none of them can leave.

    Returns:
        "", or why that is not possible.
    """
    with contextlib.suppress(OSError):
        own = os.getpgid(runtime)
        for pid in descendants(runtime):
            if (group := os.getpgid(pid)) != own:
                os.killpg(group, number)
                return ""
    return "its process has ended"


def _has_begun_at(pid: int, began: bytes) -> bool:
    return fields_of(pid)[BEGAN : BEGAN + 1] == [began]


def interrupt(worker: int, since: float) -> bool:
    """Send SIGINT to a worker, and to the processes that it has started for its present run and that are in its group.

    Processes of earlier runs go on, unless they have begun in the same hundredth of a second as this one. Processes
    outside of the group go on: a terminal's Ctrl-C does not reach them. The worker is the first: code that waits for a
    program is to find that it was itself interrupted.

    Args:
        worker: its number.
        since: when the run began, by CLOCK_BOOTTIME.

    Returns:
        Whether the worker can be seen.
    """
    own = fields_of(worker)
    first = int(since * TICKS_PER_SEC)
    found = [(pid, fields_of(pid)) for pid in descendants(worker)]
    begun = {pid: one[BEGAN] for pid, one in found if one and one[GROUP] == own[GROUP] and int(one[BEGAN]) >= first}
    for pid, began in ({worker: own[BEGAN]} | begun if own else {}).items():
        _signal(pid, signal.SIGINT, partial(_has_begun_at, pid, began))
    return bool(own)


def stop(runtime: int) -> list[int] | None:
    """Stop all processes of a container; return those that went on before, or None if they cannot be stopped.

    Args:
        runtime: the runtime's process, whose descendants they are.
    """
    outside = _depth(_status(os.getpid()))
    stopped: dict[int, None] = {}
    for _ in range(ROUNDS):
        statuses = {pid: _status(pid) for pid in descendants(runtime)}
        inside = {pid: status for pid, status in statuses.items() if _depth(status) > outside}
        found = (pid for pid, status in inside.items() if (state := STATE.search(status)) and state[1] not in AT_REST)
        moving = list(found)
        if not moving:
            return list(stopped) if inside and len(statuses) < MOST else None
        for pid in moving:
            _signal(pid, signal.SIGSTOP, partial(_is_inside, pid, outside))
            stopped[pid] = None
        time.sleep(ROUND_SEC)
    go_on(stopped)
    return None


def go_on(stopped: Iterable[int]) -> None:
    """Let processes that stop() has returned go on."""
    outside = _depth(_status(os.getpid()))
    for pid in stopped:
        _signal(pid, signal.SIGCONT, partial(_is_inside, pid, outside))
