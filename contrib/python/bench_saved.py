#!/usr/bin/env python3
"""Measure forks, checkpoints and parked sessions, and print JSON: one turn of one build, for bench.py."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from pysbx import Sandbox

FRAME = "import numpy, pandas; frame = pandas.DataFrame({'a': numpy.arange(1310720)})"
OWN = "next(int(line.split()[1]) for line in open('/proc/self/smaps_rollup') if line.startswith('Private_Dirty:'))"
CROWD, CROWD_IN_SHORT, PARKED = 100, 10, 20


def spent(function: Callable[[], object]) -> int:
    """Return how long a call takes, in nanoseconds."""
    began = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - began


def fork(session: Sandbox) -> None:
    """Fork to the first answer, and to the end."""
    with session.fork() as made:
        made.run("1")


def there_and_back(session: Sandbox) -> None:
    """Make a checkpoint, and go back to it."""
    point = session.checkpoint()
    session.rollback(point)
    point.remove()


def still(session: Sandbox) -> int:
    """Return how long the session cannot be used while it is saved, in nanoseconds."""
    if not hasattr(session, "_copy"):  # an earlier build, which saves it meanwhile
        return spent(lambda: session._capture("saved").close())
    began = time.perf_counter_ns()
    copy = session._copy("saved")
    found = time.perf_counter_ns() - began
    session._drop_copy(copy.container, copy.number)
    return found


def crowd(session: Sandbox, count: int) -> tuple[int, int]:
    """Make many forks, and ask each; return how long that takes, and the bytes that one has for itself."""
    with ExitStack() as stack:
        began = time.perf_counter_ns()
        made = [stack.enter_context(one) for one in session.fork(count)]
        for one in made:
            one.run("1")
        found = time.perf_counter_ns() - began
        return found, int(made[0].run(OWN).value or 0) << 10


def parked(session: Sandbox, *, drop: bool = False) -> tuple[int, int]:
    """Park a session; return the bytes of its file, and how long the next answer takes."""
    session.park()
    assert session._parked is not None
    if drop:
        # Earlier builds have no base; without one, it is negative.
        for descriptor in session._parked.descriptor, getattr(session._parked, "base", -1):
            if descriptor >= 0:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    size = session._parked.size
    return size, spent(lambda: session.run("1"))


def disk_of_many(options: dict[str, Any]) -> int:
    """Return the bytes on disk of a parked session, of several that have imported pandas."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(Sandbox(**options)) for _ in range(PARKED)]
        for session in sessions:
            session.run("import pandas")
            session.park()
        states = [session._parked for session in sessions]
        return sum(os.fstat(state.descriptor).st_blocks * 512 for state in states if state) // PARKED


def main() -> None:
    """Measure so often."""
    count, wheels = int(sys.argv[1]), sys.argv[2]
    options: dict[str, Any] = {"warm": "require", "dependencies": ["pandas"], "wheels": wheels, "memory_mb": 1024}
    found: dict[str, list[int]] = {}
    with Sandbox(warm="require") as bare, Sandbox(**options) as pandas, Sandbox(**options) as frame:
        for session, source in ((bare, "1"), (pandas, "import pandas"), (frame, FRAME)):
            done = session.run(source)
            assert done.error is None, done
            fork(session)
        found["fork"] = [spent(lambda: fork(bare)) for _ in range(count)]
        found["fork_pandas"] = [spent(lambda: fork(frame)) for _ in range(count)]
        found["still"] = [still(pandas) for _ in range(count)]
        taken, own = crowd(frame, CROWD if count > CROWD_IN_SHORT else CROWD_IN_SHORT)
        found["crowd"], found["crowd_bytes"] = [taken], [own]
        found["checkpoint"] = [spent(lambda: there_and_back(frame)) for _ in range(count)]
        rows = [parked(pandas) for _ in range(count)]
        found["park_bytes"], found["resume"] = [row[0] for row in rows], [row[1] for row in rows]
        found["resume_cold"] = [parked(pandas, drop=True)[1] for _ in range(max(count // 4, 1))]
    found["disk_bytes"] = [disk_of_many(options)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
