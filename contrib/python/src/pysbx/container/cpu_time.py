"""The CPU time that a container has used until now, as the kernel tells it while the container goes on.

With a cgroup of its own, the kernel counts it there. Otherwise the times of its processes are added, which are the
descendants of the runtime's process. They include the children that a process has waited for. A process that ignores
SIGCHLD waits for none, and the times of its ended children are lost. See proc(5), cgroups(7).

A session reads it after each run, which takes a fifth of a millisecond. So a reading makes few system calls, and keeps
no descriptor, because a service has many sessions. tests/test_cpu_time.py counts them.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from functools import cache

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name of the program, which may contain anything: utime, stime, cutime and cstime;
# and the number of threads.
TIMES, THREADS = slice(11, 15), 17
# A container has as many processes as its limit allows. A reader must not be kept busy for longer than this.
MOST = 4096
# The kernel counts the time of a process in ticks of this length, so a second reading tells nothing new before.
RECENT_SEC = 0.01
# The runtime sleeps while the program runs, so its own time is read again only after this.
OUTSIDE_SEC = 1.0
CHUNK = 4096


def _read(path: str, *, whole: bool = True) -> bytes:
    """Return the content of a file of the kernel, or what it gives at once. This is four times as fast as open()."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while data := os.read(descriptor, CHUNK):
            content += data
            if not whole:
                break
        return content
    finally:
        os.close(descriptor)


def fields_of(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name of the program; none of a process that has ended."""
    with contextlib.suppress(OSError):
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return []


def _ticks(fields: list[bytes]) -> int:
    return sum(map(int, fields[TIMES]))


def _children(pid: int, fields: list[bytes]) -> list[int]:
    """Return the children of a process, as far as they can be read."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
        threads = [str(pid)] if fields[THREADS : THREADS + 1] == [b"1"] else os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes below a process, MOST of them at most."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < MOST:
        one = waiting.pop()
        below = _children(one, fields_of(one))
        found += below
        waiting += below
    return found[:MOST]


def _cgroup(pid: int) -> str:
    with contextlib.suppress(OSError):
        lines = _read(f"/proc/{pid}/cgroup").decode(errors="replace").splitlines()
        return next((line[3:] for line in lines if line.startswith("0::")), "")
    return ""


@cache
def _hierarchy() -> str:
    """Return where the hierarchy of cgroup v2 is mounted, or ""."""
    with contextlib.suppress(OSError):
        for line in _read("/proc/self/mountinfo").decode(errors="replace").splitlines():
            if " - cgroup2 " in line:
                return line.split()[4]
    return ""


class Meter:
    """Reads the CPU time of the container of one process of the runtime."""

    def __init__(self, pid: int) -> None:
        """Create it.

        Args:
            pid: of the runtime's process. While read() may be called, it must not have been waited for, so that no
                other process has its number.
        """
        self._pid = pid
        # The file of the container's own cgroup, and the processes of the runtime outside. "" is none.
        self._file: str | None = None
        self._outside: list[int] = []
        self._outside_ticks = (-math.inf, 0)  # and when they were read
        self._last = (-math.inf, 0.0)

    def read(self, *, settled: bool, fresh: bool = True) -> float:
        """Return the CPU time in seconds that the process of the runtime and its container have used.

        Args:
            settled: the container's program has begun, so that the container stays in its cgroup.
            fresh: until now. Otherwise the last reading is returned if it is not older than RECENT_SEC.
        """
        now = time.monotonic()
        if fresh or now - self._last[0] > RECENT_SEC:
            self._last = (now, self._measure(settled=settled))
        return self._last[1]

    def _measure(self, *, settled: bool) -> float:
        if self._file:
            with contextlib.suppress(OSError, ValueError):
                return self._of_cgroup()
        own = _cgroup(self._pid) if self._file is None else ""
        seen: list[int] = []
        ticks = 0
        waiting = [self._pid]
        while waiting and len(seen) < MOST:
            pid = waiting.pop()
            if own:
                cgroup = _cgroup(pid)
                if cgroup not in ("", "/", own) and ".." not in cgroup.split("/"):
                    # In this order: another thread may read at the same time.
                    self._outside, self._file = seen, f"{_hierarchy()}{cgroup}/cpu.stat"
                    with contextlib.suppress(OSError, ValueError):
                        return self._of_cgroup()
                    self._file, own = None, ""
            fields = fields_of(pid)
            ticks += _ticks(fields)
            seen.append(pid)
            waiting += _children(pid, fields)
        if settled:
            self._file = self._file or ""
        return ticks / TICKS_PER_SEC

    def _of_cgroup(self) -> float:
        """Return the CPU time of the container's cgroup and those below it, and of the processes outside."""
        words = _read(str(self._file), whole=False).split()
        used = int(words[words.index(b"usage_usec") + 1]) / 1e6
        now = time.monotonic()
        if now - self._outside_ticks[0] > OUTSIDE_SEC:
            self._outside_ticks = now, sum(_ticks(fields_of(pid)) for pid in self._outside)
        return used + self._outside_ticks[1] / TICKS_PER_SEC
