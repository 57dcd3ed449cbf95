#!/usr/bin/env python3
"""Measure warm starts against the reference's cold ones and the kernel's own costs; print tables, write JSON.

README.md describes each row and its target.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import bundle
from bench import STATES, Block, CommandFailedError, Runtime, Samples
from report import (
    BEFORE,
    FLOOR,
    HOST,
    OURS,
    REFERENCE,
    VERDICTS,
    Sample,
    compare_builds,
    milliseconds,
    print_table,
    summarise,
)

COLD = "cold"
"""Our own cold start: the third that every measure is taken of."""
WARM = (OURS, BEFORE)
FORK = "fork"
FORK_CROWD = "fork_crowd"
FLOOR_CROWD = "floor_crowd"
PRELOAD = "pandas"
SUMS = "{key: sum(range(key, 1000, 7)) for key in range(7)}"
# The program checks the answer itself. A wrong one is an error, and ends the measurement. It is one line, because a
# plan of measure.c has one command per line.
GROUP_BY = "; ".join(
    (
        "import pandas",
        "frame = pandas.DataFrame({'key': [n % 7 for n in range(1000)], 'value': range(1000)})",
        "sums = frame.groupby('key')['value'].sum().to_dict()",
        f"assert sums == {SUMS}, sums",
        "print(sums, flush=True)",
    )
)
LINE = "print('a line', flush=True)"
IDLE = "import pandas, time; print('up', flush=True); time.sleep(1000000)"
CONFIG = Path("/etc/pysbx-runtime/warm.json")
WITHOUT, WITH = ">without_", ">with_"
"""Prefixes of the measures of prefetch, before the name of the program."""
IN_A_ROW = 5
"""How many starts are measured of which each follows one of its own kind."""
AT_ONCE = 100
SHORT_ROUNDS = 10
"""A measurement with fewer rounds is short: it has fewer of the cold starts, which take half a second each."""
AT_ONCE_IN_SHORT = 5
PREFETCHES, PREFETCHES_IN_SHORT = 100, 20
FORKS, FORKS_IN_SHORT = 200, 20
IDLE_CONTAINERS = 10
DROP_CACHES = ("@", ["sh", "-c", "sync; echo 3 >/proc/sys/vm/drop_caches"])


@dataclass(frozen=True)
class Target:
    """The target of a measure."""

    words: str
    met: Callable[[dict[str, dict[str, int]]], bool]


@dataclass(frozen=True)
class Measure:
    """A row: times by owner. Ours is the warm start and the reference's a cold one."""

    key: str
    title: str
    target: Target | None = None


def share(words: str, limit: float, milliseconds_limit: float | None = None) -> Target:
    """Return a target: at most that fraction of the reference's median, and so many milliseconds."""

    def met(row: dict[str, dict[str, int]]) -> bool:
        ours, reference = row[OURS]["p50_ns"], row[REFERENCE]["p50_ns"]
        return ours <= limit * reference and (milliseconds_limit is None or ours <= milliseconds_limit * 1e6)

    return Target(words, met)


MEASURES = [
    Measure(">first_pandas", "pandas: start to the result of a group-by", share("≤ 1/20, ≤ 10 ms", 1 / 20, 10)),
    Measure(">after_others_pandas", "… the first of a row, after another party's"),
    Measure("pandas", "… to the end of the container"),
    Measure(">first_bare", "bare: start to a printed line", share("≤ 1/3", 1 / 3)),
    Measure(">after_others_bare", "… the first of a row, after another party's"),
    Measure("bare", "… to the end of the container"),
    Measure("podman", "podman run --rm, pandas group-by", share("≤ 0.35", 0.35)),
    Measure("dropped", "pandas, page cache dropped", share("< 1", 0.999)),
]


BUILD = Measure("build", "building the snapshot")


def write_bundle(folder: Path, rootfs: Path, program: str, annotations: dict[str, str]) -> Path:
    """Write a bundle as Podman would create it, around a Python program."""
    config = bundle.config(rootfs, ["python3", "-c", program], filtered=True, devices=True)
    config["annotations"] = annotations
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@dataclass
class Bench:
    """The parties, their bundles, and their results."""

    runtimes: dict[str, Runtime]
    tools: Path
    rootfs: Path
    """With numpy and pandas."""
    busybox: Path
    rounds: int
    samples: Samples = field(init=False)
    facts: dict[str, float] = field(default_factory=dict)
    """Single figures: bytes, counts."""

    def __post_init__(self) -> None:
        """Start without samples."""
        self.samples = Samples(self.tools)

    @property
    def short(self) -> bool:
        """Whether this shows that the measures work rather than what they are."""
        return self.rounds < SHORT_ROUNDS

    def few(self, part: int) -> int:
        """Return the rounds of a slow measure: a part, at least 3 (short: 1), but all of them to compare two builds."""
        return self.rounds if BEFORE in self.runtimes else max(self.rounds // part, 1 if self.short else 3)

    def bundle(self, owner: str, name: str, program: str, preload: str = "") -> Path:
        """Return the bundle of a party. Ours is warm or fails."""
        annotations = {}
        if owner in (*WARM, COLD):
            annotations["run.pysbx.warm"] = "require" if owner in WARM else "off"
        if owner in WARM and preload:
            annotations["run.pysbx.preload"] = preload
        return write_bundle(self.tools / "bundles" / f"warm-{name}-{owner}", self.rootfs, program, annotations)

    def run(self, owner: str, *names: str) -> list[str]:
        """Return the command that runs a party's bundle."""
        name, program, preload = names
        return self.runtimes[owner].run(self.bundle(owner, name, program, preload))

    def measure_starts(self) -> None:
        """Measure complete starts, several in a row, with the parties in turns, and the floor.

        The first start of a row finds the CPU's caches full of another party's data. The others find their own
        data, like the forks of `measure_forks`. These are two measures.
        """
        plan: list[tuple[str, Block]] = [
            (HOST, [(FLOOR, [str(self.tools / "floor"), str(self.busybox), "/bin/true"])])
        ]
        for owner in self.runtimes:
            for name, program, preload in (("pandas", GROUP_BY, PRELOAD), ("bare", LINE, "")):
                command = self.run(owner, name, program, preload)
                row = [(f">first_{name}", command)] * (1 if self.short and owner not in WARM else IN_A_ROW)
                plan.append((owner, [(f">after_others_{name}", command), *row, (name, command)]))
        self.samples.measure(plan, self.rounds, 1 if self.short else max(self.rounds // 10, 2))

    def measure_prefetch(self) -> None:
        """Measure the same starts with and without the eager copies of pages, in turns.

        The difference is smaller than the variance between starts, so this takes many.
        """
        plan: list[tuple[str, Block]] = []
        for name, program, preload in (("pandas", GROUP_BY, PRELOAD), ("bare", LINE, "")):
            command = self.run(OURS, name, program, preload)
            for prefix, wanted in ((WITHOUT, False), (WITH, True)):
                configure = ["sh", "-c", f"echo '{configuration(prefetch=wanted)}' >{CONFIG}"]
                # The first start of the two finds the caches full of another program's data, and is not counted.
                plan.append((OURS, [("@", configure), ("@", command), (prefix + name, command)]))
        least = PREFETCHES_IN_SHORT if self.short else PREFETCHES
        self.samples.measure(plan, max(4 * self.rounds, least), max(self.rounds // 10, 2))
        CONFIG.write_text(configuration(prefetch=True))

    def measure_forks(self) -> None:
        """Measure forks of a process that has imported pandas, one by one and all at the same time."""
        program = forked(FORKS_IN_SHORT if self.short else FORKS)
        done = subprocess.run(self.run(COLD, "forked", program, ""), capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            kind, nanoseconds = line.split()
            self.samples.kept[kind].setdefault(HOST, []).append((int(nanoseconds), 0))

    def measure_podman(self) -> None:
        """Measure the same program through Podman."""
        plan: list[tuple[str, Block]] = []
        for owner, runtime in self.runtimes.items():
            options = ["--rm", "--pull", "never", "--network", "none"]
            if owner in (*WARM, COLD):
                options += ["--annotation", f"run.pysbx.warm={'require' if owner in WARM else 'off'}"]
            if owner in WARM:
                options += ["--annotation", f"run.pysbx.preload={PRELOAD}"]
            command = ["podman", "--runtime", runtime.path, "run", *options, "bench-pandas"]
            plan.append((owner, [("podman", [*command, "python3", "-c", GROUP_BY]), ("@reap", [])]))
        self.samples.measure(plan, self.few(5), 1)

    def measure_dropped(self) -> None:
        """Measure starts that must read everything from the disk, both store and image."""
        plan: list[tuple[str, Block]] = [
            (owner, [DROP_CACHES, ("dropped", self.run(owner, "pandas", GROUP_BY, PRELOAD))]) for owner in self.runtimes
        ]
        self.samples.measure(plan, self.few(10), 0)

    def measure_builds(self) -> None:
        """Measure building a snapshot, from an empty store."""
        plan: list[tuple[str, Block]] = []
        for owner in WARM:
            if owner not in self.runtimes:
                continue
            command, folder = self.runtimes[owner].command, self.bundle(owner, "pandas", GROUP_BY, PRELOAD)
            prune = ("@", command("warm", "prune", "--all"))
            plan.insert(0, (owner, [prune, ("build", command("warm", "build", "--bundle", folder))]))
        self.samples.measure(plan, self.few(10), 0)
        # Ours was the last.
        [entry] = json.loads(subprocess.check_output(self.runtimes[OURS].command("warm", "list", "--format", "json")))
        self.facts["snapshot_bytes"] = entry["size"]

    def measure_memory(self) -> None:
        """Measure the proportional set size of idle containers: of one, and of one of ten."""
        for owner in (OURS, COLD):
            runtime = self.runtimes[owner]
            folder = self.bundle(owner, "idle", IDLE, PRELOAD)
            names = [f"idle-{owner}-{number}" for number in range(IDLE_CONTAINERS)]
            try:
                for number, name in enumerate(names):
                    start_idle(runtime.command("run", "--detach", "--bundle", folder, name))
                    if number == 0:
                        self.facts[f"pss_alone_{owner}"] = resident(runtime, name, "Pss")
                shares = [resident(runtime, name, "Pss") for name in names]
                self.facts[f"pss_shared_{owner}"] = sum(shares) / len(shares)
                self.facts[f"private_{owner}"] = resident(runtime, names[-1], "Private_Dirty")
            finally:
                for name in names:
                    subprocess.run(runtime.command("delete", "--force", name), capture_output=True, check=False)

    def measure_crowd(self) -> None:
        """Start a hundred containers at the same time, ours and the reference's, and the kernel's part as often."""
        theirs = AT_ONCE_IN_SHORT if self.short else AT_ONCE
        for owner, count in ((OURS, AT_ONCE), (REFERENCE, theirs)):
            folder = self.bundle(owner, "pandas", GROUP_BY, PRELOAD)
            names = [f"crowd-{number}" for number in range(count)]
            crowd = run_at_once([self.runtimes[owner].command("run", "--bundle", folder, name) for name in names])
            self.samples.kept["crowd"][owner] = crowd.samples
            self.facts[f"crowd_failures_{owner}"] = crowd.failures
            self.facts[f"crowd_processor_ns_{owner}"] = crowd.processor_ns / count
            self.facts[f"crowd_ns_{owner}"] = crowd.whole_ns
        floors = [[str(self.tools / "floor"), str(self.busybox), "/bin/true"]] * AT_ONCE
        floor = run_at_once(floors)
        self.samples.kept[FLOOR_CROWD][HOST] = floor.samples
        if floor.failures > 0:
            raise CommandFailedError(f"{floor.failures} of {AT_ONCE} times the kernel's part of a container failed")

    def verdicts(self) -> list[tuple[str, str, str, bool | None]]:
        """Return the rows with a single figure: title, figure, target, met."""
        facts = self.facts
        rows: dict[str, dict[str, int]] = {
            key: {owner: summarise(samples)["p50_ns"] for owner, samples in row.items()}
            for key, row in self.samples.kept.items()
        }
        build, cold, single = rows["build"][OURS], rows["pandas"][REFERENCE], rows["pandas"][OURS]
        crowd = summarise(self.samples.kept["crowd"][OURS])
        theirs = summarise(self.samples.kept["crowd"][REFERENCE])["p99_ns"]
        forks = summarise(self.samples.kept[FORK_CROWD][HOST])["p99_ns"]
        floors = summarise(self.samples.kept[FLOOR_CROWD][HOST])["p99_ns"]
        limit, last, failures = cold + 150_000_000, crowd["p99_ns"], facts[f"crowd_failures_{OURS}"]
        most = 20 * single
        processor_ns = facts[f"crowd_processor_ns_{OURS}"]
        used = AT_ONCE * processor_ns / len(os.sched_getaffinity(0)) / facts[f"crowd_ns_{OURS}"]
        found: list[tuple[str, str, str, bool | None]] = [
            ("building the snapshot, ms", milliseconds(build), f"≤ {milliseconds(limit)}", build <= limit),
            (f"{AT_ONCE} at once: failures", f"{failures:.0f}", "0", failures == 0),
            (f"{AT_ONCE} at once: p99, ms", milliseconds(last), f"≤ {milliseconds(most)}", last <= most),
            ("… in medians of a single one", f"{last / single:.0f}", "≤ 20", last <= most),
            ("… of each, processor time, ms", milliseconds(round(processor_ns)), "", None),
            ("… of the processors' time while they ran, %", f"{used * 100:.0f}", "", None),
            ("… of the reference's cold ones, in theirs", f"{theirs / cold:.0f}", "", None),
            ("… of mere forks of a warm process, in theirs", f"{forks / rows[FORK][HOST]:.0f}", "", None),
            ("… of such forks and the kernel's part, ms", milliseconds(forks + floors), "", None),
        ]
        for key, title in (
            ("pss_alone", "PSS of an idle container alone, MiB"),
            ("pss_shared", f"… of one of {IDLE_CONTAINERS}, MiB"),
        ):
            ours, fresh = facts[f"{key}_{OURS}"], facts[f"{key}_{COLD}"]
            found.append((title, f"{ours / 1024:.1f}", f"≤ {fresh / 4096:.1f}", ours <= fresh / 4))
        for name in ("pandas", "bare"):
            share = rows[WITH + name][OURS] / rows[WITHOUT + name][OURS]
            found.append((f"prefetch: first result of {name}, of that without", f"{share:.3f}", "", None))
        found.append(("private dirty memory of it, MiB", f"{facts[f'private_{OURS}'] / 1024:.1f}", "", None))
        found.append(("snapshot, MiB", f"{facts['snapshot_bytes'] / 2**20:.1f}", "", None))
        return found

    def report(self) -> None:
        """Print the tables and write the file."""
        kept = self.samples.kept
        summary = {key: {owner: summarise(samples) for owner, samples in row.items()} for key, row in kept.items()}
        titles = {OURS: "warm", COLD: "cold", REFERENCE: self.runtimes[REFERENCE].title() + " cold"}
        processors = len(os.sched_getaffinity(0))
        print(f"warm starts: {self.rounds} rounds, Linux {platform.release()}, {processors} processors\n")
        rows = []
        for measure in MEASURES:
            row = summary[measure.key]
            medians = [milliseconds(row[owner]["p50_ns"]) for owner in titles]
            ratio = row[OURS]["p50_ns"] / row[REFERENCE]["p50_ns"]
            target = [measure.target.words, VERDICTS[measure.target.met(row)]] if measure.target else ["", ""]
            rows.append([measure.title, *medians, f"{ratio:.3f}", *target])
        print_table(["median, ms", *titles.values(), "ratio", "target", ""], rows)
        compare_builds((measure.title, summary[measure.key]) for measure in [*MEASURES, BUILD])
        print_table(["", "", "target", ""], [[*row[:3], VERDICTS[row[3]]] for row in self.verdicts()])
        rows = []
        for measure in [
            Measure(FLOOR, "floor: namespaces, file systems, execve"),
            Measure(FORK, "floor: fork of a warm process, group-by"),
            Measure(FORK_CROWD, f"floor: {AT_ONCE} such forks at once"),
            Measure(FLOOR_CROWD, f"floor: namespaces and so on, {AT_ONCE} at once"),
            *MEASURES,
            Measure(WITHOUT + "pandas", "pandas without prefetch"),
            Measure(WITH + "pandas", "… with prefetch, in turns"),
            Measure(WITHOUT + "bare", "bare without prefetch"),
            Measure(WITH + "bare", "… with prefetch, in turns"),
            BUILD,
            Measure("crowd", f"{AT_ONCE} at once"),
        ]:
            for owner, values in summary[measure.key].items():
                times = [milliseconds(values[column]) for column in ("min_ns", "p50_ns", "p95_ns", "p99_ns")]
                name = BEFORE if owner == BEFORE else titles.get(owner, "")
                rows.append([measure.title, name, *times, str(values["samples"])])
        print_table(["spread, ms", "", "min", "p50", "p95", "p99", "samples"], rows)
        path = self.tools / time.strftime("warm-%Y%m%dT%H%M%SZ.json", time.gmtime())
        result = {
            "kernel": platform.release(),
            "rounds": self.rounds,
            "runtimes": {owner: runtime.title() for owner, runtime in self.runtimes.items()},
            "measures": summary,
            "facts": self.facts,
            "samples_ns": {
                key: {owner: [sample[0] for sample in samples] for owner, samples in row.items()}
                for key, row in kept.items()
            },
        }
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written to {path}")


def forked(count: int) -> str:
    """Return a program that measures forks of an interpreter with all imports: no container, no execve.

    It forks that often one by one, and then a hundred at the same time.
    """
    return f"""
import gc, os, time
import pandas
job = compile({GROUP_BY!r}.replace("print(sums, flush=True)", ""), "job", "exec")
gc.collect(); gc.freeze()

def start():
    began = time.perf_counter_ns()
    pid = os.fork()
    if pid == 0:
        exec(job, {{}})
        os._exit(0)
    return pid, began

def finish(kind, began):
    pid, status = os.wait()
    assert status == 0
    print(kind, time.perf_counter_ns() - began[pid])

for _ in range({count}):
    finish("{FORK}", dict([start()]))
began = dict(start() for _ in range({AT_ONCE}))
for _ in range({AT_ONCE}):
    finish("{FORK_CROWD}", began)
"""


def configuration(*, prefetch: bool) -> str:
    """Return a warm.json."""
    return json.dumps({"secondRun": False, "retryAfter": 0, "prefetch": prefetch})


@dataclass
class Crowd:
    """The results of commands that were started at the same time."""

    samples: list[Sample] = field(default_factory=list)
    """Of each, the time from its start to its end."""
    failures: int = 0
    processor_ns: float = 0
    """Of all together, with the children that they waited for."""
    whole_ns: int = 0
    """From the first start to the last end."""


def run_at_once(commands: list[list[str]]) -> Crowd:
    """Start all commands, and wait for the end of each."""
    began: dict[int, int] = {}
    crowd = Crowd()
    first = time.perf_counter_ns()
    for command in commands:
        now = time.perf_counter_ns()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet())
        began[pid] = now
    while began:
        pid, status, usage = os.wait4(-1, 0)
        if pid in began:
            crowd.samples.append((time.perf_counter_ns() - began.pop(pid), usage.ru_maxrss))
            crowd.failures += status != 0
            crowd.processor_ns += (usage.ru_utime + usage.ru_stime) * 1e9
    crowd.whole_ns = time.perf_counter_ns() - first
    return crowd


def quiet() -> list[tuple[int, int, str, int, int]]:
    """Return the posix_spawn actions that discard a child's output."""
    return [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
    ]


def start_idle(command: list[str]) -> None:
    """Start a container in the background and wait until its program reports its start."""
    r, w = os.pipe()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=w, check=True)
    os.close(w)
    if os.read(r, 1) != b"u":
        raise CommandFailedError(f"{' '.join(command)}: ended")
    os.close(r)


def resident(runtime: Runtime, name: str, what: str) -> int:
    """Return a figure of a container's first process in KiB; proc(5), smaps_rollup."""
    state = json.loads(subprocess.check_output(runtime.command("state", name)))
    text = Path(f"/proc/{state['pid']}/smaps_rollup").read_text()
    return sum(int(value) for value in re.findall(rf"^{what}: *(\d+) kB", text, re.MULTILINE))


def prepare(options: argparse.Namespace) -> None:
    """Put the store on a disk, as in normal use, and make the first run of a bare interpreter a warm one."""
    store = Path("/var/lib/pysbx-runtime")
    store.mkdir(exist_ok=True)
    here = options.output / "store"
    here.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", here, store], check=True)
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(configuration(prefetch=True))
    subprocess.run(
        ["podman", "import", "--quiet", "--change", "ENV PATH=/usr/bin:/bin", options.pandas_image, "bench-pandas"],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def main() -> int:
    """Measure, print and write. Fail only if a measurement is impossible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", required=True, help="the runtime under test")
    parser.add_argument("--before", help="an earlier build of it, to compare row by row")
    parser.add_argument("--reference", required=True, help="the runtime for comparison")
    parser.add_argument("--rootfs", type=Path, required=True, help="a root file system with /bin/true")
    parser.add_argument("--pandas", type=Path, required=True, help="a root file system with pandas")
    parser.add_argument("--pandas-image", required=True, help="the same as an archive, for Podman")
    parser.add_argument("--output", type=Path, required=True, help="folder of the measuring programs and results")
    parser.add_argument("--rounds", type=int, default=50, help="measured rounds")
    options = parser.parse_args()
    prepare(options)
    with tempfile.TemporaryDirectory(dir=STATES) as folder:
        paths = {OURS: options.runtime, COLD: options.runtime, REFERENCE: options.reference}
        if options.before:
            paths[BEFORE] = options.before
        runtimes = {key: Runtime(key, path, Path(folder) / f"state-{key}") for key, path in paths.items()}
        bench = Bench(runtimes, options.output, options.pandas, options.rootfs, options.rounds)
        try:
            bench.measure_builds()
            bench.measure_starts()
            bench.measure_prefetch()
            bench.measure_forks()
            bench.measure_podman()
            bench.measure_memory()
            bench.measure_crowd()
            bench.measure_dropped()
        except (CommandFailedError, subprocess.CalledProcessError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    bench.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
