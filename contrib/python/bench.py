#!/usr/bin/env python3
"""Measures what a call costs: contrib/python/bench.py [--calls N] [--pandas] [--memory-calls N] [--json].

Prints medians in milliseconds, the gain of ten threads, and how much the memory of this program has grown. Run it
with a Python that has pysbx installed, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pysbx import run_code, sandbox

THREADS, THREAD_CALLS = 10, 20


@sandbox
def nothing() -> None:
    """Do nothing."""


@sandbox(dependencies=["pandas"], memory_mb=1024)
def nothing_with_pandas() -> None:
    """Do nothing, beside an imported pandas."""


def times(function: Callable[[], None], calls: int) -> list[float]:
    """Return how long each call took, in milliseconds; the first ones, which make what is kept, do not count."""
    for _ in range(5):
        function()
    found = []
    for _ in range(calls):
        began = time.perf_counter()
        function()
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def gain() -> float:
    """Return how much more ten threads get done than one."""
    began = time.perf_counter()
    for _ in range(THREAD_CALLS):
        nothing()
    alone = time.perf_counter() - began
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(nothing) for _ in range(THREAD_CALLS)]:
            future.result()
    return alone / (time.perf_counter() - began)


def resident_kib() -> int:
    """Return the memory that this program holds."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def growth(calls: int) -> int:
    """Return by how many KiB this program grows with so many calls."""
    before = resident_kib()
    for _ in range(calls):
        nothing()
    return resident_kib() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what a call costs.")
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="how many are measured")
    parser.add_argument("--memory-calls", type=int, default=1000, metavar="N", help="over how many memory is compared")
    parser.add_argument("--pandas", action="store_true", help="with pandas, too; it is installed if need be")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    functions = {"nothing": nothing}
    if arguments.pandas:
        functions["nothing, with pandas"] = nothing_with_pandas
    found: dict[str, object] = {"warm": [run_code("1").warm for _ in range(3)][-1]}
    for name, function in functions.items():
        measured = times(function, arguments.calls)
        found[f"{name}: p50, ms"] = round(statistics.median(measured), 2)
        found[f"{name}: p90, ms"] = round(measured[len(measured) * 9 // 10], 2)
        found[f"{name}: fastest, ms"] = round(measured[0], 2)
    found[f"{THREAD_CALLS} calls from {THREADS} threads, of one thread"] = round(gain(), 2)
    found[f"growth over {arguments.memory_calls} calls, KiB"] = growth(arguments.memory_calls)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:45} {value}")


if __name__ == "__main__":
    main()
