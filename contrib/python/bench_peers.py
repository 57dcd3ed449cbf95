#!/usr/bin/env python3
"""Measure the same jobs with the package and with what a user could pick instead, in turns; print tables, write JSON.

Called by tests/bench/run --part peers, whose README says what each row is. It needs pysbx, sandlock and pandas.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from report import VERDICTS, milliseconds, print_table, quantile

from bench_sandlock import COPIES, FRAME, JOBS, NotHere, answer
from pysbx import Sandbox, sandbox

PYTHON = sys.executable
NAMESPACES = "namespaces, root read-only"
SANDLOCK = "Landlock, seccomp"
CONTAINER = "namespaces, root of an image, capabilities, seccomp"
OURS = "namespaces, own root, capabilities, seccomp, Landlock, limits"

# key, title, what it isolates
STARTS = (
    ("python", "python3 -c", "nothing"),
    ("bubblewrap", "bubblewrap + python3", NAMESPACES),
    ("sandlock", "sandlock 0.9 run", SANDLOCK),
    ("podman", "podman run with crun", CONTAINER),
    ("podman_disabled", "… with --cgroups disabled", CONTAINER),
    ("decorated", "a decorated function of pysbx", OURS),
)
# The most of bubblewrap's time that a decorated function may need, by job.
MOST = {"nothing": 1 / 10, "pandas": 1 / 30}
STATES = (
    ("sandlock_fork", f"sandlock 0.9 fork({COPIES}), each copy", SANDLOCK),
    ("fork", f"session.fork({COPIES}), each copy", OURS),
    ("sandlock_checkpoint", "sandlock 0.9 checkpoint and restore", SANDLOCK),
    ("checkpoint", "session.checkpoint() and rollback()", OURS),
)


def program(*command: str) -> Callable[[str], None]:
    """Return what runs a job by a command, to which `-c CODE` is added."""

    def run(job: str) -> None:
        done = subprocess.run([*command, "-c", JOBS[job][0]], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotHere(f"exit status {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}")
        answer(done.stdout, job)

    return run


def decorated(wheels: Path) -> Callable[[str], None]:
    """Return what runs a job by a decorated function, in a ready container."""

    def nothing() -> int:
        return 42

    def group_by() -> list[int]:
        import pandas  # noqa: PLC0415 (the sandbox has it)

        sums = pandas.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]}).groupby("a")["b"].sum().tolist()
        return [int(value) for value in sums]

    functions: dict[str, Callable[[], object]] = {
        "nothing": sandbox(nothing),
        "pandas": sandbox(dependencies=["pandas"], wheels=str(wheels), memory_mb=1024)(group_by),
    }
    return lambda job: answer(str(functions[job]()), job)


class Sandlock:
    """Jobs of sandlock, in a process of its own: its fork() copies the process that calls it."""

    def __init__(self) -> None:
        """Start the process."""
        command = [PYTHON, str(Path(__file__).with_name("bench_sandlock.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, job: str) -> int:
        """Let it do a job; return how long that took, in nanoseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{job}\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if not said:
            raise NotHere(f"its process has ended with status {self._process.wait()}")
        found = json.loads(said)
        if isinstance(found, str):
            raise NotHere(found)
        return int(found)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def fork(session: Any) -> int:
    """Make forks, ask each, and end them; return the nanoseconds of each."""
    began = time.perf_counter_ns()
    with ExitStack() as stack:
        for made in [stack.enter_context(one) for one in session.fork(COPIES)]:
            assert made.run("len(frame)").value == "1310720"
    return (time.perf_counter_ns() - began) // COPIES


def there_and_back(session: Any) -> int:
    """Make a checkpoint, go back to it, and ask; return the nanoseconds."""
    began = time.perf_counter_ns()
    point = session.checkpoint()
    session.rollback(point)
    assert session.run("len(frame)").value == "1310720"
    spent = time.perf_counter_ns() - began
    point.remove()
    return spent


def timed(function: Callable[[], object]) -> int:
    """Return how long a call takes, in nanoseconds."""
    began = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - began


def measure(jobs: dict[str, Callable[[], int]], rounds: int) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Do all jobs in turns, of which the first three do not count; return times, and why a job is not done here."""
    found: dict[str, list[int]] = {key: [] for key in jobs}
    left_out: dict[str, str] = {}
    for number in range(-3, rounds):
        for key, job in jobs.items():
            if key in left_out:
                continue
            try:
                spent = job()
            except (NotHere, OSError) as error:
                left_out[key] = f"does not run here: {error}"
                continue
            if number >= 0:
                found[key].append(spent)
    return {key: times for key, times in found.items() if key not in left_out}, left_out


def report(found: dict[str, list[int]], left_out: dict[str, str]) -> None:
    """Print the tables."""
    medians = {key: quantile(sorted(times), 0.5) for key, times in found.items()}
    rows = []
    for party, title, isolates in STARTS:
        shown, targets, verdicts = [], [], []
        for job, most in MOST.items():
            median, other = medians.get(f"{party}_{job}"), medians.get(f"bubblewrap_{job}")
            shown.append("-" if median is None else milliseconds(median))
            if party == "decorated" and median is not None and other is not None:
                targets.append(f"≤ {milliseconds(int(most * other))}")
                verdicts.append(VERDICTS[median <= most * other])
        rows.append([title, isolates, *shown, ", ".join(targets), ", ".join(verdicts)])
    print_table(["one job, p50, ms", "isolates", "nothing", "pandas", "target", ""], rows)
    rows = []
    for key, title, isolates in STATES:
        mine, other = medians.get(key), medians.get(f"sandlock_{key}")
        target, verdict = "", ""
        if mine is not None and other is not None:
            target, verdict = f"< {milliseconds(other)}", VERDICTS[mine < other]
        rows.append([title, isolates, "-" if mine is None else milliseconds(mine), target, verdict])
    print_table(["a process with pandas and a frame of 10 MB, p50, ms", "isolates", "", "target", ""], rows)
    for key, reason in left_out.items():
        print(f"{key}: {reason}")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, help="a directory of wheels with pandas")
    parser.add_argument("--image", required=True, help="the archive of an image with pandas, for Podman")
    parser.add_argument("--output", type=Path, required=True, help="where the results are written")
    parser.add_argument("--rounds", type=int, default=50, help="measured rounds")
    options = parser.parse_args()
    importing = ["podman", "import", "--quiet", "--change", "ENV PATH=/usr/bin:/bin", options.image, "bench-peers"]
    subprocess.run(importing, stdout=subprocess.DEVNULL, check=True)
    walls = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all")
    # Without CAP_SYS_RESOURCE, crun loads no device filter.
    podman = [
        program("podman", "--runtime", "crun", "run", "--rm", "--pull", "never", *network, "bench-peers", "python3")
        for network in (("--network", "none"), ("--network", "none", "--cgroups", "disabled"))
    ]
    with contextlib.closing(Sandlock()) as sandlock, ExitStack() as stack:
        pandas: dict[str, Any] = {"dependencies": ["pandas"], "wheels": str(options.wheels), "memory_mb": 1024}
        session = stack.enter_context(Sandbox(warm="require", **pandas))
        prepared = session.run(FRAME)
        assert prepared.error is None, prepared
        parties = {
            "python": program(PYTHON),
            "bubblewrap": program("bwrap", *walls, "--die-with-parent", PYTHON),
            "podman": podman[0],
            "podman_disabled": podman[1],
            "decorated": decorated(options.wheels),
        }
        jobs: dict[str, Callable[[], int]] = {}
        for job in JOBS:
            for party, run in parties.items():
                jobs[f"{party}_{job}"] = lambda run=run, job=job: timed(lambda: run(job))  # type: ignore[misc]
            jobs[f"sandlock_{job}"] = lambda job=job: sandlock.measure(job)  # type: ignore[misc]
        for key in "fork", "checkpoint":
            jobs[f"sandlock_{key}"] = lambda key=key: sandlock.measure(key)  # type: ignore[misc]
        jobs["fork"], jobs["checkpoint"] = lambda: fork(session), lambda: there_and_back(session)
        found, left_out = measure(jobs, options.rounds)
    print(f"peers: {options.rounds} rounds in turns\n")
    report(found, left_out)
    path = options.output / time.strftime("peers-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps({"rounds": options.rounds, "left_out": left_out, "samples_ns": found}, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
