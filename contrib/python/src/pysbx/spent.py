"""The CPU time that a container has used until now, as the kernel tells it while the container goes on.

With a cgroup of its own, the kernel counts it there. Otherwise the times of its processes are added, which are the
descendants of the runtime's process. They include the children that a process has waited for. A process that ignores
SIGCHLD waits for none, and the times of its ended children are lost. See proc(5), cgroups(7).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
# utime, stime, cutime and cstime in /proc/PID/stat, after the name of the program, which may contain anything.
TIMES = slice(11, 15)
# A container has as many processes as its limit allows. A reader must not be kept busy for longer than this.
MOST = 4096


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _descendants(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, as far as they can be read."""
    waiting = [pid]
    for _ in range(MOST):
        if not waiting:
            return
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            for thread in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, _text(f"/proc/{one}/task/{thread}/children").split())


def _of_process(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError):
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return sum(map(int, fields[TIMES])) / TICKS_PER_SEC
    return 0.0


def _cgroup(pid: int | str) -> str:
    with contextlib.suppress(OSError):
        lines = _text(f"/proc/{pid}/cgroup").splitlines()
        return next((line[3:] for line in lines if line.startswith("0::")), "")
    return ""


@cache
def _hierarchy() -> str:
    """Return where the hierarchy of cgroup v2 is mounted, or ""."""
    with contextlib.suppress(OSError):
        for line in _text("/proc/self/mountinfo").splitlines():
            if " - cgroup2 " in line:
                return line.split()[4]
    return ""


def _of_cgroup(path: str) -> float:
    """Return the CPU time of a cgroup and those below it.

    Raises:
        OSError, ValueError, StopIteration: it cannot be read.
    """
    lines = [line.split() for line in _text(f"{_hierarchy()}{path}/cpu.stat").splitlines()]
    return next(int(value) for name, value in lines if name == "usage_usec") / 1e6


def cpu_sec(pid: int) -> float:
    """Return the CPU time in seconds that a process of the runtime and its container have used.

    Args:
        pid: of the runtime's process. It must not have been waited for, so that no other process has its number.
    """
    processes = list(_descendants(pid))
    outside = _cgroup(pid)
    for number, one in enumerate(processes):
        inside = _cgroup(one)
        if inside not in ("", "/", outside) and ".." not in inside.split("/"):
            with contextlib.suppress(OSError, ValueError, StopIteration):
                return _of_cgroup(inside) + sum(map(_of_process, processes[:number]))
            break
    return sum(map(_of_process, processes))
