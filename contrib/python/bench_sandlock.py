#!/usr/bin/env python3
"""Do jobs with sandlock, named by lines of standard input, and answer with their nanoseconds or with why they fail.

It is a process of bench_peers.py: sandlock's fork() copies the process that calls it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# Each job prints an answer.
JOBS = {
    "nothing": ("print(42)", "42"),
    "pandas": (
        "import pandas; print(pandas.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a')['b'].sum().tolist())",
        "[3, 3]",
    ),
}
COPIES = 10
FRAME = "import numpy, pandas; frame = pandas.DataFrame({'a': numpy.arange(1310720)})"
READABLE = ["/"]
# A program that makes a file again and again, when it runs.
WAITING = """
import pathlib, time
while True:
    pathlib.Path({path!r}).touch()
    time.sleep(0.001)
"""


class NotHere(Exception):
    """A job cannot be done on this machine; the text says why."""


def answer(text: str | bytes, job: str) -> None:
    """Compare an answer with the one that the job must give."""
    said = text.decode() if isinstance(text, bytes) else text
    if said.strip() != JOBS[job][1]:
        raise NotHere(f"the answer is {said.strip()!r:.80}")


def run(job: str) -> None:
    """Run a job in a new sandbox."""
    done = sandlock.Sandbox(fs_readable=READABLE).run([sys.executable, "-c", JOBS[job][0]])
    if not done.success:
        raise NotHere(f"{done.reason}: {done.stderr!r:.80}")
    answer(done.stdout, job)


def fork(prepared: dict[str, Any]) -> None:
    """Make copies of this process, and ask each."""

    def work(_: int) -> None:
        print(len(prepared["frame"]), flush=True)

    made = sandlock.Sandbox(fs_readable=READABLE, init_fn=lambda: None, work_fn=work).fork(COPIES)
    found = sandlock.Sandbox(fs_readable=READABLE).reduce(["cat"], made)
    if found.stdout.split() != [b"1310720"] * COPIES:
        raise NotHere(f"the answers are {found.stdout!r:.80}")


class Source:
    """A process in a sandbox, with pandas and a frame."""

    def __init__(self, folder: str) -> None:
        """Start it, and wait until it makes a file in the directory."""
        self._beat = Path(folder, "beat")
        self._options: dict[str, Any] = {"fs_readable": READABLE, "fs_writable": [folder]}
        self.process = sandlock.Sandbox(**self._options)
        self.process.spawn([sys.executable, "-c", FRAME + WAITING.format(path=str(self._beat))])
        self._see_alive(self.process, 60)

    def _see_alive(self, process: Any, seconds: float) -> None:
        """Wait for the file."""
        until = time.monotonic() + seconds
        while not self._beat.exists():
            if time.monotonic() > until or not Path(f"/proc/{process.pid}").exists():
                with suppress(RuntimeError):
                    process.kill()
                done = process.wait()
                raise NotHere(
                    f"the process does not go on: it has ended with signal {done.signal} ({done.reason.name})"
                )
            time.sleep(0.0002)

    def checkpoint(self) -> None:
        """Make a checkpoint, restore it in another sandbox, and see that it goes on."""
        point = self.process.checkpoint()
        self.process.pause()
        try:
            time.sleep(0.002)
            self._beat.unlink(missing_ok=True)
            restored = sandlock.Sandbox(**self._options)
            restored.restore_interactive(point)
            self._see_alive(restored, 5)
            restored.kill()
            restored.wait()
        finally:
            self.process.resume()


def main() -> None:
    """Do the jobs."""
    prepared: dict[str, Any] = {}
    exec(FRAME, prepared)
    with tempfile.TemporaryDirectory() as folder:
        source = Source(folder)
        jobs: dict[str, tuple[Callable[[], None], int]] = {
            "nothing": (lambda: run("nothing"), 1),
            "pandas": (lambda: run("pandas"), 1),
            "fork": (lambda: fork(prepared), COPIES),
            "checkpoint": (source.checkpoint, 1),
        }
        for line in sys.stdin:
            function, parts = jobs[line.strip()]
            found: int | str
            began = time.perf_counter_ns()
            try:
                function()
                found = (time.perf_counter_ns() - began) // parts
            except (NotHere, OSError, RuntimeError, ValueError, sandlock.SandlockError) as error:
                found = str(error)
            print(json.dumps(found), flush=True)
        source.process.kill()


if __name__ == "__main__":
    import sandlock

    main()
