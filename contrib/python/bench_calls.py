#!/usr/bin/env python3
"""Measure calls in ready containers, CPU time and threads, and print JSON: one turn of one build, for bench.py."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pysbx
from pysbx import Sandbox, run_code, sandbox

PAUSE_SEC = 0.02
SETTLE_SEC = 0.2  # until the last container has ended, and the next is ready
THREADS = 8
MOST_CALLS = 1000  # of tools, in a run
GROUP_BY = "import pandas as pd; pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a').sum()"


def nothing() -> None:
    """Do nothing."""


def group_by() -> list[int]:
    """Return sums of groups."""
    import pandas  # noqa: PLC0415 (the sandbox has it)

    frame = pandas.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]})
    return [int(value) for value in frame.groupby("a")["b"].sum()]


def times(function: Callable[[], object], count: int, pause: float = 0.0) -> list[int]:
    """Return how long each call takes, in nanoseconds, with pauses between them."""
    found = []
    for _ in range(count):
        time.sleep(pause)
        began = time.perf_counter_ns()
        function()
        found.append(time.perf_counter_ns() - began)
    return found


def used() -> int:
    """Return the CPU time of all processes of this environment (tests/lib/enter), in nanoseconds."""
    words = Path("/sys/fs/cgroup/cpu.stat").read_text().split()
    return int(words[words.index("usage_usec") + 1]) * 1000


def cpu_time(function: Callable[[], object], count: int) -> list[int]:
    """Return the CPU time of a call in nanoseconds, with the container that ends and the one made for the next."""
    time.sleep(SETTLE_SEC)
    began = used()
    for _ in range(count):
        function()
    time.sleep(SETTLE_SEC)
    return [(used() - began) // count]


def in_threads(function: Callable[[], object], count: int) -> list[int]:
    """Return how long a call takes if several threads call, in nanoseconds."""
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.perf_counter_ns()
        for future in [pool.submit(function) for _ in range(count)]:
            future.result()
        return [(time.perf_counter_ns() - began) // count]


def tool_calls(count: int) -> dict[str, list[int]]:
    """Return how much longer a call takes if its function is a tool: of the first call of a run, and of later ones."""
    if not hasattr(pysbx, "Tools"):  # builds before the release 0.3.0
        return {}
    later = (
        "from time import perf_counter_ns as now\n"
        "def timed(function):\n    began = now()\n    function()\n    return now() - began\n"
        f"[timed(nothing) - timed(own) for _ in range({min(count, MOST_CALLS)})]"
    )
    with Sandbox(tools={"nothing": nothing}) as session, Sandbox() as other:
        for one in (session, other):
            one.run("def own(): pass")
        other.run("nothing = own")
        pairs = [[times(lambda one=one: one.run("nothing()"), 1)[0] for one in (session, other)] for _ in range(count)]
        return {
            "tool_first": [with_tool - without for with_tool, without in pairs],
            "tool_later": ast.literal_eval(str(session.run(later).value)),
        }


def main() -> None:
    """Measure so many calls of each kind."""
    count, wheels = int(sys.argv[1]), sys.argv[2]
    pandas: dict[str, Any] = {"dependencies": ["pandas"], "wheels": wheels, "memory_mb": 1024}
    call, call_pandas = sandbox(nothing), sandbox(**pandas)(group_by)
    functions: list[Callable[[], object]] = [call, call_pandas, lambda: run_code("pass")]
    for function in functions * 3:
        function()
        time.sleep(0.1)
    with Sandbox() as session:
        session.run("1")
        found = {
            "paused": times(call, count, PAUSE_SEC),
            "paused_pandas": times(call_pandas, count, PAUSE_SEC),
            "together": times(call, count),
            "cpu": cpu_time(lambda: run_code("pass"), count),
            "cpu_pandas": cpu_time(lambda: run_code(GROUP_BY, **pandas), count),
            "threads": in_threads(lambda: run_code(GROUP_BY, **pandas), count),
            "session": times(lambda: session.run("1"), count),
        }
    found |= tool_calls(count)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
