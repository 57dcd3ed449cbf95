#!/usr/bin/env python3
"""Measure what a call costs, beside what the runtime alone takes for the same container; print tables, write JSON.

Called by tests/bench/run --part python, whose README says what each row is. It needs pysbx installed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from report import VERDICTS, Sample, milliseconds, print_table, quantile, summarise

from pysbx import Sandbox, run_code, sandbox
from pysbx.base.runtime import command, environment, state_root
from pysbx.calls.prepare import prepare
from pysbx.options.options import Options, make_options

THREADS, THREAD_CALLS = 10, 20
LEAST_GAIN = 1.6
# An allocator takes memory from the kernel in parts, and Python keeps free lists: so much is noise, not a leak.
MOST_GROWTH_KIB = 512
# Of an open session that has imported pandas: what no other process has.
MOST_SESSION_MIB = 6
# Without the interpreter's farewell, as the worker of a call ends.
LEAVE = "import os; os._exit(0)"

# key, title, key of the floor, target in milliseconds
MEASURES: tuple[tuple[str, str, str, float | None], ...] = (
    ("floor", "the runtime alone: a warm interpreter that ends", "", None),
    ("call", "a decorated function that does nothing", "floor", 12),
    ("floor_pandas", "the runtime alone, with pandas", "", None),
    ("call_pandas", "a decorated function that imports pandas", "floor_pandas", 18),
    ("run_code", "run_code('pass')", "floor", None),
    ("session", "a run in a session", "", None),
)

# Whole programs: key, title, command, target in milliseconds, and whether it is one for the time above the first row.
PYTHON, PYSBX = sys.executable, str(Path(sys.executable).with_name("pysbx"))
NAMES = "from pysbx import Sandbox, run_code, sandbox"
PROGRAMS: tuple[tuple[str, str, tuple[str, ...], float | None, bool], ...] = (
    ("pass", "python3 -c pass", (PYTHON, "-c", "pass"), None, False),
    ("import", "import pysbx", (PYTHON, "-c", "import pysbx"), 35, True),
    ("names", NAMES, (PYTHON, "-c", NAMES), None, True),
    ("version", "pysbx --version", (PYSBX, "--version"), 60, False),
    ("run", "pysbx run -c 'print(1)'", (PYSBX, "run", "-c", "print(1)"), 80, False),
)

# Of bench_calls.py: key, title, what of its numbers, and the most of it that the build before may have needed.
CALLS: tuple[tuple[str, str, float, float], ...] = (
    ("paused", "a decorated function that does nothing, 20 ms between calls", 0.5, 0.2),
    ("paused", "… the 99th percentile", 0.99, 0.5),
    ("paused_pandas", "a decorated group-by of pandas, 20 ms between calls", 0.5, 0.35),
    ("together", "a decorated function that does nothing, without pause", 0.5, 0.77),
    ("cpu", "CPU time of run_code('pass')", 0.5, 0.65),
    ("cpu_pandas", "CPU time of the group-by in run_code", 0.5, 0.65),
    ("threads", "the group-by in run_code, 8 threads, per call", 0.5, 0.62),
    ("session", "session.run('1')", 0.5, 1.0),
)
TURNS = 5
# Of bench_calls.py: key, title, and milliseconds that it may take above a call without a tool.
TOOLS: tuple[tuple[str, str, float], ...] = (
    ("tool_first", "the first call of a tool in a run of a session, above a run without one", 0.3),
    ("tool_later", "each later one, above a call of a function in the sandbox", 0.3),
)

# Of bench_saved.py: key, title, unit, the most of it, and the most of what the build before has needed.
SAVED: tuple[tuple[str, str, str, float | None, float | None], ...] = (
    ("fork", "fork() to its first answer and its end", "ms", None, 0.35),
    ("fork_pandas", "… with pandas and a frame of 10 MB", "ms", None, 0.2),
    ("still", "the source stands still, with pandas", "ms", 5, None),
    ("crowd", "fork(100) with the frame to all first answers; of --quick fork(10)", "ms", 1500, None),
    ("crowd_bytes", "… memory that each has for itself", "MiB", 4, None),
    ("checkpoint", "checkpoint() and rollback(), with the frame", "ms", 20, None),
    ("park_bytes", "a parked session that has imported pandas", "MiB", 12, None),
    ("resume", "… its next answer", "ms", 30, None),
    ("resume_cold", "… its next answer, from a dropped page cache", "ms", 200, None),
    ("disk_bytes", "1,000 of them, extrapolated from 20", "MiB of 1,000", 4096, None),
)
UNITS = {"ms": 1e6, "MiB": 1 << 20, "MiB of 1,000": (1 << 20) / 1000}


def nothing() -> None:
    """Do nothing."""


def imports_pandas() -> None:
    """Do nothing that is not done already in a prewarmed interpreter."""
    import pandas  # noqa: F401, PLC0415


def floor(options: Options, folder: Path) -> Callable[[], None]:
    """Return what runs the container of a call, by the runtime alone, with a program that ends at once."""
    bundle = prepare(options).path
    config = json.loads((bundle / "config.json").read_text())
    config["process"]["args"] = [config["process"]["args"][0], "-s", "-c", LEAVE]
    config["root"]["path"] = str(bundle / "rootfs")
    config["annotations"]["run.pysbx.warm"] = "require"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    arguments = command("run", "--bundle", str(folder), f"floor-{os.getpid()}")

    def run() -> None:
        pid = os.posix_spawn(arguments[0], arguments, environment())
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit("bench: the runtime alone has failed")

    return run


def measure(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[Sample]]:
    """Call all of them in turns; the first rounds, which make what is kept, do not count."""
    found: dict[str, list[Sample]] = {name: [] for name in functions}
    warmup = max(rounds // 10, 3)
    for number in range(-warmup, rounds):
        for name, function in functions.items():
            began = time.perf_counter_ns()
            function()
            spent = time.perf_counter_ns() - began
            if number >= 0:
                found[name].append((spent, 0))
    return found


def program(arguments: tuple[str, ...]) -> Callable[[], None]:
    """Return what runs a program to its end, from its start as a process, and throws away what it prints."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]

    def run() -> None:
        pid = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=quiet)
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit(f"bench: {' '.join(arguments)}: has failed")

    return run


def throughput(function: Callable[[], None], repeats: int) -> dict[str, float]:
    """Return calls a second from one thread and from ten, measured in turns."""
    times: dict[str, list[float]] = {"one": [], "many": []}
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(repeats + 1):
            began = time.perf_counter()
            for _ in range(THREAD_CALLS):
                function()
            times["one"].append(time.perf_counter() - began)
            began = time.perf_counter()
            for future in [pool.submit(function) for _ in range(THREAD_CALLS)]:
                future.result()
            times["many"].append(time.perf_counter() - began)
    return {name: THREAD_CALLS / statistics.median(found[1:]) for name, found in times.items()}


def holdings() -> dict[str, int]:
    """Return what this program, and the runtime for it, hold."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return {
        "resident_kib": resident,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "containers": sum(not name.startswith(".") for name in os.listdir(state_root())),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
    }


def endure(function: Callable[[], None], calls: int) -> list[dict[str, int]]:
    """Call again and again; return what is held in between, the first time after a tenth of the calls."""
    found = []
    for _ in range(10):
        for _ in range(max(calls // 10, 1)):
            function()
        found.append(holdings())
    return found


def report_programs(samples: dict[str, list[Sample]]) -> None:
    """Print the table of whole programs."""
    summary = {name: summarise(found) for name, found in samples.items()}
    rows = []
    for key, title, _, target, above in PROGRAMS:
        values = summary[key]
        times = [milliseconds(values[column]) for column in ("min_ns", "p50_ns", "p95_ns", "p99_ns")]
        over = values["p50_ns"] - summary["pass"]["p50_ns"]
        met = None if target is None else (over if above else values["p50_ns"]) <= target * 1e6
        wanted = f"≤ {target} ms{' above' if above else ''}" if target else ""
        rows.append([title, *times, milliseconds(over) if key != "pass" else "-", wanted, VERDICTS[met]])
    print_table(["whole programs, ms", "min", "p50", "p95", "p99", "p50 above python3", "target", ""], rows)


def report(samples: dict[str, list[Sample]], rates: dict[str, float], held: list[dict[str, int]], calls: int) -> None:
    """Print the tables."""
    summary = {name: summarise(found) for name, found in samples.items()}
    rows = []
    for key, title, floor_key, target in MEASURES:
        values = summary[key]
        times = [milliseconds(values[column]) for column in ("min_ns", "p50_ns", "p95_ns", "p99_ns")]
        ratio = f"{values['p50_ns'] / summary[floor_key]['p50_ns']:.2f}" if floor_key else "-"
        met = None if target is None else values["p50_ns"] <= target * 1e6
        rows.append([title, *times, ratio, f"≤ {target} ms" if target else "", VERDICTS[met]])
    print_table(["pysbx, ms", "min", "p50", "p95", "p99", "p50 of the runtime's", "target", ""], rows)
    gain = rates["many"] / rates["one"]
    growth = {name: held[-1][name] - held[0][name] for name in held[0]}
    memory = growth.pop("resident_kib")
    left = ", ".join(f"{name} {number:+}" for name, number in growth.items() if number > 0) or "none"
    facts: list[tuple[str, str, str, bool | None]] = [
        ("calls a second, one thread", f"{rates['one']:.0f}", "", None),
        (f"… {THREADS} threads", f"{rates['many']:.0f}", "", None),
        (f"{THREADS} threads, of one thread", f"{gain:.2f}", f"≥ {LEAST_GAIN:.2f}", gain >= LEAST_GAIN),
        (f"memory of {calls} calls, KiB", f"{memory:+}", f"≤ {MOST_GROWTH_KIB}", memory <= MOST_GROWTH_KIB),
        ("… descriptors, threads, containers, mounts left", left, "none", left == "none"),
    ]
    print_table(["", "", "target", ""], [[*row[:3], VERDICTS[row[3]]] for row in facts])


def measure_calls(
    count: int, wheels: Path, before: Path | None, name: str = "bench_calls.py"
) -> dict[str, dict[str, list[int]]]:
    """Run a program with this build and the one before, in turns; the latter's package is in the same tree."""
    builds: dict[str, dict[str, str]] = {"now": {}}
    source = before and before.parents[1] / "contrib/python/src"
    # Builds before the release 0.3.0 save no sessions.
    if before and source and (source / ("pysbx/calls/saved.py" if name == "bench_saved.py" else "pysbx")).exists():
        builds["before"] = {"PYSBX_RUNTIME": str(before), "PYTHONPATH": str(source)}
    found: dict[str, dict[str, list[int]]] = {build: {} for build in builds}
    program = [PYTHON, str(Path(__file__).with_name(name)), str(max(count // TURNS, 1)), str(wheels)]
    for _ in range(TURNS):
        for build, variables in builds.items():
            done = subprocess.run(program, env=os.environ | variables, stdout=subprocess.PIPE, check=True)
            for key, samples in json.loads(done.stdout).items():
                found[build].setdefault(key, []).extend(samples)
    return found


def report_calls(found: dict[str, dict[str, list[int]]]) -> None:
    """Print the table of ready containers, CPU time and threads."""
    rows = []
    for key, title, share, target in CALLS:
        now, *before = (quantile(sorted(samples[key]), share) for samples in found.values())
        ratio = now / before[0] if before else None
        met = None if ratio is None else ratio <= target
        times = [milliseconds(value) for value in (now, *before)] + ["-"] * (not before)
        rows.append([title, *times, "-" if ratio is None else f"{ratio:.2f}", f"≤ {target}", VERDICTS[met]])
    print_table(["ready containers, ms", "now", "before", "of before", "target", ""], rows)


def report_tools(found: dict[str, dict[str, list[int]]]) -> None:
    """Print the table of calls of tools."""
    rows = []
    for key, title, target in TOOLS:
        now, *before = (quantile(sorted(samples[key]), 0.5) for samples in found.values() if key in samples)
        times = [milliseconds(value) for value in (now, *before)] + ["-"] * (not before)
        rows.append([title, *times, f"≤ {target} ms", VERDICTS[now <= target * 1e6]])
    print_table(["calls of tools, p50, ms", "now", "before", "target", ""], rows)


def report_saved(found: dict[str, dict[str, list[int]]]) -> None:
    """Print the table of forks and saved sessions."""
    rows = []
    for key, title, unit, most, of_before in SAVED:
        now, *before = (quantile(sorted(samples[key]), 0.5) / UNITS[unit] for samples in found.values())
        ratio = now / before[0] if before else None
        met = now <= most if most else (ratio <= of_before if ratio is not None and of_before else None)
        shown = [f"{value:.1f}" for value in (now, *before)] + ["-"] * (not before)
        wanted = f"≤ {most} {unit}" if most else f"≤ {of_before} of before"
        rows.append([f"{title}, {unit}", *shown, "-" if ratio is None else f"{ratio:.2f}", wanted, VERDICTS[met]])
    print_table(["saved sessions", "now", "before", "of before", "target", ""], rows)


def descendants(pid: int) -> list[int]:
    """Return the processes that this one has started, and those that they have started."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *descendants(child)]
    return found


def private_mib(pid: int) -> float:
    """Return the memory that only this process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:", "Private_Clean:"))) / 1024


def open_sessions(count: int, options: dict[str, Any]) -> float:
    """Return the memory of an open session of so many that have imported pandas, in MiB."""
    with ExitStack() as stack:
        for _ in range(count):
            session = stack.enter_context(Sandbox(warm="require", **options))
            done = session.run("import pandas")
            assert done.error is None, done
        return sum(map(private_mib, descendants(os.getpid()))) / count


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, help="a directory of wheels with pandas")
    parser.add_argument("--output", type=Path, required=True, help="where the results are written")
    parser.add_argument("--rounds", type=int, default=200, help="measured rounds")
    parser.add_argument("--before", type=Path, help="the runtime of an earlier build, TREE/build/pysbx-runtime")
    parser.add_argument("--calls", type=int, default=10000, help="over how many calls memory is compared")
    options = parser.parse_args()
    pandas: dict[str, Any] = {"dependencies": ["pandas"], "wheels": str(options.wheels), "memory_mb": 1024}
    call, call_pandas = sandbox(nothing), sandbox(**pandas)(imports_pandas)
    with Sandbox() as session:
        samples = measure(
            {
                "floor": floor(make_options(), options.output / "bundles" / "python"),
                "call": call,
                "floor_pandas": floor(make_options(**pandas), options.output / "bundles" / "python-pandas"),
                "call_pandas": call_pandas,
                "run_code": lambda: run_code("pass"),
                "session": lambda: session.run("pass"),
            },
            options.rounds,
        )
    started = measure({key: program(arguments) for key, _, arguments, *_ in PROGRAMS}, options.rounds)
    if not run_code("pass").warm:
        raise SystemExit("bench: no warm starts on this machine: see pysbx doctor")
    rates = throughput(call, max(options.rounds // 10, 3))
    held = endure(call, options.calls)
    calls = measure_calls(options.rounds, options.wheels, options.before)
    saved = measure_calls(options.rounds, options.wheels, options.before, "bench_saved.py")
    sessions = min(options.rounds, 200)
    session_mib = open_sessions(sessions, pandas)
    limits = ", ".join(f"{name} by {by}" for name, by in run_code("pass").limits.items())
    processors = len(os.sched_getaffinity(0))
    print(f"pysbx: {options.rounds} rounds, Linux {platform.release()}, {processors} processors, {limits}\n")
    report_programs(started)
    report(samples, rates, held, options.calls)
    report_calls(calls)
    report_tools(calls)
    report_saved(saved)
    verdict = VERDICTS[session_mib <= MOST_SESSION_MIB]
    row = [
        f"memory of an open session of {sessions} with pandas, MiB",
        f"{session_mib:.1f}",
        f"≤ {MOST_SESSION_MIB}",
        verdict,
    ]
    print_table(["", "", "target", ""], [row])
    path = options.output / time.strftime("python-%Y%m%dT%H%M%SZ.json", time.gmtime())
    result = {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "rounds": options.rounds,
        "measures": {name: summarise(found) for name, found in (samples | started).items()},
        "calls_a_second": rates,
        "ready_containers_ns": calls,
        "saved_sessions": saved,
        "endurance": held,
        "session_mib": session_mib,
        "samples_ns": {name: [spent for spent, _ in found] for name, found in (samples | started).items()},
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
