"""Stop the processes of a container that has no cgroup, and let them go on: SIGSTOP and SIGCONT for each.

They are descendants of the runtime's process, in a pid namespace below the caller's. See pid_namespaces(7), NSpid in
proc(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable

from pysbx.container.cpu_time import MOST, descendants
from pysbx.container.process import open_process

NAMESPACES = re.compile(r"^NSpid:(.*)$", re.MULTILINE)
STATE = re.compile(r"^State:\t(\w)", re.MULTILINE)
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


def _signal(pid: int, number: int, outside: int) -> None:
    """Send a signal to a process of the container, and to no other that may have its number by now."""
    with contextlib.suppress(OSError):
        descriptor = open_process(pid)
        try:
            if _depth(_status(pid)) > outside and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(descriptor, number)
            elif _depth(_status(pid)) > outside:  # Python was built for a C library that has no such function
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
            _signal(pid, signal.SIGSTOP, outside)
            stopped[pid] = None
        time.sleep(ROUND_SEC)
    go_on(stopped)
    return None


def go_on(stopped: Iterable[int]) -> None:
    """Let processes that stop() has returned go on."""
    outside = _depth(_status(os.getpid()))
    for pid in stopped:
        _signal(pid, signal.SIGCONT, outside)
