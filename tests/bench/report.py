"""Evaluation of the samples: quantiles, targets and results, tables, JSON."""

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

OURS = "ours"
BEFORE = "before"
"""Another build of our runtime, with which ours is compared."""
REFERENCE = "reference"
HOST = "host"
LAUNCH = "launch"
FLOOR = "floor"

# A command that touches no container may take this much longer than a program that does nothing.
SLACK_NS = 200_000
# The most that a change may add to the time of an earlier build.
SLOWER = 1.02
# A command that creates processes in containers may take this fraction of the reference's time.
SHARE = 0.5
# The most by which the ratio to the reference may exceed that of the last release.
WORSE = 1.25

Sample = tuple[int, int]
"""Nanoseconds and KiB of one command."""
Row = dict[str, dict[str, int]]
"""The summary of one measure, by runtime."""


@dataclass(frozen=True)
class Measure:
    """A row of the tables."""

    key: str
    title: str
    target: str = ""
    """share: of the reference's time; launch: over the time of a program that does nothing."""
    memory: bool = True
    """Whether the peak memory is the runtime's own."""
    released: float | None = None
    """The ratio to the reference, crun 1.21, that the last release had: 0.2.0."""


MEASURES = [
    Measure("version", "--version", "launch"),
    Measure("state", "state", "launch", released=0.14),
    Measure("run", "run: namespaces, mounts, masked paths", "share", released=0.46),
    Measure("run_seccomp", "run: and Podman's seccomp profile", "share", released=0.45),
    Measure("run_podman", "run: and device rules, as Podman has it", "share", released=0.42),
    Measure("create", "create", released=0.36),
    Measure("start", "start", released=0.28),
    Measure("exec", "exec of /bin/true", "share", released=0.37),
    Measure("kill", "kill"),
    Measure("delete", "delete", released=0.15),
    Measure("podman", "podman run --rm --network none", memory=False),
]
VERDICTS = {True: "met", False: "MISSED", None: ""}


def quantile(ordered: list[int], share: float) -> int:
    """Return the smallest sample that is not exceeded by at least the given fraction of all samples."""
    return ordered[max(ceil(share * len(ordered)) - 1, 0)]


def summarise(samples: list[Sample]) -> dict[str, int]:
    """Return times in nanoseconds and the median of the peak memory in KiB."""
    times = sorted(time_ns for time_ns, _ in samples)
    memory = sorted(kib for _, kib in samples)
    return {
        "samples": len(times),
        "min_ns": times[0],
        "p50_ns": quantile(times, 0.5),
        "p95_ns": quantile(times, 0.95),
        "p99_ns": quantile(times, 0.99),
        "maxrss_kib": quantile(memory, 0.5),
    }


def milliseconds(nanoseconds: int) -> str:
    """Return a time in the format of the tables."""
    return f"{nanoseconds / 1e6:.2f}"


def print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    """Print columns, the first aligned to the left."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    cells.insert(1, ["-" * width for width in widths])
    for row in cells:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *rest]).rstrip())
    print()


def compare_builds(rows: Iterable[tuple[str, dict[str, dict[str, int]]]]) -> None:
    """Print the medians of an earlier build and of ours, from rows of a title and its summary by runtime."""
    cells = []
    for title, row in rows:
        if BEFORE in row and OURS in row:
            before, now = row[BEFORE]["p50_ns"], row[OURS]["p50_ns"]
            minima = row[OURS]["min_ns"] / row[BEFORE]["min_ns"]
            verdict = VERDICTS[now <= SLOWER * before]
            cells.append(
                [
                    title,
                    milliseconds(before),
                    milliseconds(now),
                    f"{now / before:.3f}",
                    f"{minima:.3f}",
                    verdict,
                ]
            )
    if cells:
        print_table(["median, ms", "before", "now", "ratio", "of minima", f"≤ {SLOWER}"], cells)


@dataclass
class Report:
    """All measurements of one run. Ours is the first of the runtimes and the reference the last."""

    rounds: int
    titles: dict[str, str]
    """Name and version of the runtimes, by key."""
    left_out: dict[str, dict[str, str]]
    """Why a runtime took no part in a block, by key and name of the block."""
    measures: dict[str, Row]
    syscalls: dict[str, dict[str, int]]
    """Number of system calls, by runtime and measure."""

    def row(self, measure: Measure) -> Row:
        """Return the summary of a measure, which is empty if no runtime took part."""
        return self.measures.get(measure.key, {})

    def compare(self, row: Row, column: str) -> float | None:
        """Return ours divided by the reference, None if one of them is missing."""
        return row[OURS][column] / row[REFERENCE][column] if OURS in row and REFERENCE in row else None

    def ratio(self, row: Row, column: str) -> str:
        """Return ours divided by the reference, in the format of the tables."""
        ratio = self.compare(row, column)
        return "-" if ratio is None else f"{ratio:.2f}"

    def worse(self) -> list[str]:
        """Return a line for each ratio that is a quarter worse than the last release's, by medians and minima.

        None is if the reference is another one than the release was compared with.
        """
        lines = []
        for measure in MEASURES if self.titles.get(REFERENCE) == "crun 1.21" else []:
            row = self.row(measure)
            ratios = [self.compare(row, column) for column in ("p50_ns", "min_ns")]
            known = [ratio for ratio in ratios if ratio is not None]
            if measure.released is not None and known and min(known) > WORSE * measure.released:
                lines.append(
                    f"'{measure.title}' takes {min(known):.2f} of {self.titles[REFERENCE]}, "
                    f"and the last release took {measure.released}"
                )
        return lines

    def verdict(self, measure: Measure) -> tuple[str, bool | None]:
        """Return the target as text and whether it was met, None if that is unknown."""
        row = self.row(measure)
        if measure.target == "share":
            ratio = self.compare(row, "p50_ns")
            return f"≤ {SHARE:.2f}", None if ratio is None else ratio <= SHARE
        if measure.target == "launch":
            bound = self.measures[LAUNCH][HOST]["p50_ns"] + SLACK_NS
            return f"≤ {milliseconds(bound)} ms", row[OURS]["p50_ns"] <= bound if OURS in row else None
        return "", None

    def print_times(self) -> None:
        """Print the medians of all runtimes, the ratios and the verdicts."""
        rows = []
        for measure in MEASURES:
            row = self.row(measure)
            target, met = self.verdict(measure)
            medians = [milliseconds(row[key]["p50_ns"]) if key in row else "-" for key in self.titles]
            ratios = [self.ratio(row, "p50_ns"), self.ratio(row, "min_ns")]
            rows.append([measure.title, *medians, *ratios, target, VERDICTS[met]])
        print_table(["median, ms", *self.titles.values(), "ratio", "of minima", "target", ""], rows)

    def print_spread(self) -> None:
        """Print the quantiles of ours, the reference, and the two rows for the host's own costs."""
        rows = []
        measures = [
            Measure(LAUNCH, "a program that does nothing"),
            Measure(FLOOR, "the kernel's part of run"),
            *MEASURES,
        ]
        for measure in measures:
            for key, name in {HOST: "", OURS: self.titles[OURS], REFERENCE: self.titles[REFERENCE]}.items():
                if values := self.row(measure).get(key):
                    times = [
                        milliseconds(values[column]) for column in ("min_ns", "p50_ns", "p95_ns", "p99_ns")
                    ]
                    rows.append([measure.title, name, *times, str(values["samples"])])
        print_table(["spread, ms", "", "min", "p50", "p95", "p99", "samples"], rows)

    def print_memory(self) -> None:
        """Print the peak memory, which must not exceed the reference's."""
        rows = []
        for measure in filter(lambda measure: measure.memory, MEASURES):
            row = self.row(measure)
            ratio = self.compare(row, "maxrss_kib")
            peaks = [str(row[key]["maxrss_kib"]) if key in row else "-" for key in self.titles]
            met = None if ratio is None else ratio <= 1
            rows.append([measure.title, *peaks, self.ratio(row, "maxrss_kib"), "≤ 1.00", VERDICTS[met]])
        print_table(["peak memory, KiB", *self.titles.values(), "ratio", "target", ""], rows)

    def print_syscalls(self) -> None:
        """Print the numbers of system calls."""
        rows = []
        for measure in MEASURES:
            counts = [self.syscalls[key].get(measure.key) for key in self.titles]
            if any(counts):
                rows.append([measure.title, *("-" if count is None else str(count) for count in counts)])
        print_table(["system calls", *self.titles.values()], rows)

    def print(self) -> None:
        """Print everything."""
        processors = len(os.sched_getaffinity(0))
        print(f"{self.rounds} rounds, Linux {platform.release()}, {processors} processors\n")
        self.print_times()
        compare_builds((measure.title, self.row(measure)) for measure in MEASURES)
        self.print_spread()
        self.print_memory()
        self.print_syscalls()
        for key, reasons in self.left_out.items():
            for block, reason in reasons.items():
                print(f"{self.titles[key]} takes no part in '{block}': {reason}")

    def write(self, folder: Path) -> Path:
        """Write everything to a new file, named by the time, and return its path."""
        now = time.gmtime()
        verdicts = {measure.key: self.verdict(measure) for measure in MEASURES if measure.target}
        result = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
            "kernel": platform.release(),
            "processors": len(os.sched_getaffinity(0)),
            "rounds": self.rounds,
            "runtimes": self.titles,
            "left_out": self.left_out,
            "measures": self.measures,
            "syscalls": self.syscalls,
            "targets": {key: {"target": target, "met": met} for key, (target, met) in verdicts.items()},
        }
        path = folder / time.strftime("%Y%m%dT%H%M%SZ.json", now)
        path.write_text(json.dumps(result, indent=2) + "\n")
        return path
