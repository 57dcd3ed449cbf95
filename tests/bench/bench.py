#!/usr/bin/env python3
"""Measure the runtime against others and against the kernel's own costs; print tables and write JSON."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import bundle
from report import BEFORE, FLOOR, HOST, LAUNCH, OURS, REFERENCE, Report, Sample, summarise

Block = list[tuple[str, list[str]]]
"""Commands with their labels, which run one after the other; see measure.c."""
REAP: tuple[str, list[str]] = ("@reap", [])
JUDGED_ROUNDS = 50
STATES = "/run"
"""Where state folders are made: in memory, as the runtimes have them by themselves."""


class CommandFailedError(Exception):
    """A measured command ended with an error. The string is its output."""


@dataclass
class Runtime:
    """A runtime under measurement."""

    key: str
    path: str
    root: Path
    """Its state folder, which nobody else uses."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Why it takes no part in a block, by the block's name."""

    @property
    def container(self) -> str:
        """The name of all its containers, of which there is never more than one."""
        return f"bench-{self.key}"

    def title(self) -> str:
        """Return name and version, from the first line of its --version, or the part that an earlier build has."""
        if self.key == BEFORE:
            return BEFORE
        output = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"version (\d[\w.]*)", output)
        return f"{Path(self.path).name} {version[1]}" if version else Path(self.path).name

    def command(self, *words: str | Path) -> list[str]:
        """Return the command line of a call."""
        return [self.path, "--root", str(self.root), *map(str, words)]

    def run(self, folder: Path) -> list[str]:
        """Return the command line that runs a bundle completely."""
        return self.command("run", "--bundle", folder, self.container)

    def blocks(self, bundles: dict[str, Path]) -> dict[str, Block]:
        """Return the measured commands by name, except those of Podman."""
        return {
            "version": [("version", [self.path, "--version"])],
            "run": [("run", self.run(bundles["plain"]))],
            "run_seccomp": [("run_seccomp", self.run(bundles["seccomp"]))],
            "run_podman": [("run_podman", self.run(bundles["podman"]))],
            "lifecycle": [
                ("create", self.command("create", "--bundle", bundles["idle"], self.container)),
                ("start", self.command("start", self.container)),
                ("state", self.command("state", self.container)),
                ("exec", self.command("exec", self.container, "/bin/true")),
                ("kill", self.command("kill", self.container, "KILL")),
                REAP,
                ("delete", self.command("delete", self.container)),
            ],
        }

    def podman_block(self) -> Block:
        """Return a container run by Podman, and the wait for Podman's remaining processes to end."""
        options = ["--rm", "--pull", "never", "--network", "none"]
        return [("podman", ["podman", "--runtime", self.path, "run", *options, "bench", "/bin/true"]), REAP]


@dataclass
class Samples:
    """Run plans with the measuring program and keep its records."""

    tools: Path
    """Folder of the compiled programs."""
    kept: dict[str, dict[str, list[Sample]]] = field(default_factory=lambda: defaultdict(dict))
    """By measure and runtime."""

    def measure(self, plan: list[tuple[str, Block]], rounds: int, warmup: int) -> None:
        """Measure blocks, each with the key of its runtime; raise CommandFailedError at the first error."""
        lines = []
        for owner, block in plan:
            lines += [
                "\t".join([label if label == REAP[0] else f"{label}:{owner}", *words])
                for label, words in block
            ]
            lines.append("")
        program = [str(self.tools / "measure"), str(rounds), str(warmup)]
        done = subprocess.run(program, input="\n".join(lines), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandFailedError(done.stderr.strip())
        for line in done.stdout.splitlines():
            label, nanoseconds, kib = line.split("\t")
            measure, owner = label.split(":")
            self.kept[measure].setdefault(owner, []).append((int(nanoseconds), int(kib)))

    def try_block(self, runtime: Runtime, name: str, block: Block) -> bool:
        """Tell whether a runtime can run a block on this host, and keep its error if not."""
        try:
            Samples(self.tools).measure([(runtime.key, block)], 1, 0)
        except CommandFailedError as error:
            runtime.left_out[name] = str(error).splitlines()[-1].split(": ", 1)[-1]
            subprocess.run(
                runtime.command("delete", "--force", runtime.container), capture_output=True, check=False
            )
            return False
        return True


def count_syscalls(samples: Samples, runtime: Runtime, blocks: list[Block], scratch: Path) -> dict[str, int]:
    """Return the number of system calls of each command, children included.

    create is not counted: strace would wait for the container's process, which outlives the command.
    """
    counts = {}
    for block in blocks:
        outputs = {label: scratch / label for label, _ in block if label not in ("create", REAP[0])}
        traced = [
            (label, ["strace", "-f", "-c", "-o", str(outputs[label]), *words] if label in outputs else words)
            for label, words in block
        ]
        Samples(samples.tools).measure([(runtime.key, traced)], 1, 0)
        for label, output in outputs.items():
            # % time, seconds, usecs/call, calls, possibly errors, "total"
            total = next(line for line in output.read_text().splitlines() if line.endswith(" total"))
            counts[label] = int(total.split()[3])
    return counts


def find_runtimes(options: argparse.Namespace, scratch: Path) -> list[Runtime]:
    """Return ours first and the reference last. In between are runtimes that no bound judges."""
    hosts = {} if options.judge else {name: shutil.which(name) for name in ("crun", "runc")}
    if hosts.get("crun") == options.reference:
        del hosts["crun"]
    paths = {OURS: options.runtime, BEFORE: options.before, **hosts, REFERENCE: options.reference}
    return [Runtime(key, path, scratch / f"state-{key}") for key, path in paths.items() if path]


def collect(runtimes: list[Runtime], rootfs: Path, tools: Path, scratch: Path, rounds: int) -> Report:
    """Measure everything; raise CommandFailedError if a command that succeeded once fails later."""
    bundles = bundle.write_bundles(tools / "bundles", rootfs)
    samples = Samples(tools)
    plan: list[tuple[str, Block]] = [
        (HOST, [(LAUNCH, [str(tools / "nothing")])]),
        (HOST, [(FLOOR, [str(tools / "floor"), str(rootfs), "/bin/true"])]),
    ]
    usable = {
        runtime.key: [
            block
            for name, block in runtime.blocks(bundles).items()
            if samples.try_block(runtime, name, block)
        ]
        for runtime in runtimes
    }
    plan += [(key, block) for key, blocks in usable.items() for block in blocks]
    samples.measure(plan, rounds, max(rounds // 10, 3))
    # Podman takes a hundred times as long as the runtime.
    plan = [
        (runtime.key, runtime.podman_block())
        for runtime in runtimes
        if samples.try_block(runtime, "podman", runtime.podman_block())
    ]
    few = rounds if any(runtime.key == BEFORE for runtime in runtimes) else max(rounds // 10, 15)
    samples.measure(plan, few, 1)
    return Report(
        rounds=rounds,
        titles={runtime.key: runtime.title() for runtime in runtimes},
        left_out={runtime.key: runtime.left_out for runtime in runtimes},
        measures={
            measure: {owner: summarise(values) for owner, values in row.items()}
            for measure, row in samples.kept.items()
        },
        syscalls={
            runtime.key: count_syscalls(samples, runtime, usable[runtime.key], scratch)
            for runtime in runtimes
        },
    )


def main() -> int:
    """Measure, print and write. Fail if a measurement is impossible, or worse than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", required=True, help="the runtime under test")
    parser.add_argument("--before", help="an earlier build of it, to compare row by row")
    parser.add_argument("--reference", required=True, help="the runtime for comparison")
    parser.add_argument("--rootfs", type=Path, required=True, help="root file system of the containers")
    parser.add_argument("--image", type=Path, required=True, help="the same as an archive, for Podman")
    parser.add_argument(
        "--output", type=Path, required=True, help="folder of the measuring programs and results"
    )
    parser.add_argument("--rounds", type=int, default=200, help="measured rounds")
    parser.add_argument(
        "--judge", action="store_true", help="fail if a ratio is a quarter worse than the last release's"
    )
    options = parser.parse_args()
    importing = ["podman", "import", "--quiet", options.image, "bench"]
    subprocess.run(importing, stdout=subprocess.DEVNULL, check=True)
    with tempfile.TemporaryDirectory(dir=STATES) as folder:
        scratch = Path(folder)
        runtimes = find_runtimes(options, scratch)
        try:
            report = collect(runtimes, options.rootfs, options.output, scratch, options.rounds)
            if options.judge and report.worse():  # by chance?
                report = collect(runtimes, options.rootfs, options.output, scratch, JUDGED_ROUNDS)
        except CommandFailedError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    report.print()
    print(f"written to {report.write(options.output)}")
    worse = report.worse() if options.judge else []
    for line in worse:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
