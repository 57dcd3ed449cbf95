#!/usr/bin/env python3
"""Change files, links, mounts, variables, limits, devices and packages at random: no start may show what was before.

usage: mutate.py BUNDLE COUNT

A world is a package tree, an environment and a configuration, made from a seed. Its modules look at their surroundings
while they are imported. While a snapshot of them is usable, a mutation changes the world. Then the program runs once in
mode auto and once cold. Both must print the same. COUNT is the number of mutations.

The program prints the seed, which MUTATIONS_SEED in the environment repeats. A failure names its world, with which
MUTATIONS_SEED=SEED:WORLD repeats that one alone. RUNTIME is the runtime.
"""

import collections
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import worlds
from access import Runs
from mutations import BY_PIP, MUTATIONS, RANDOM, STATE, Mutation

PER_WORLD = 20
# A world ends after so many states in turn that have no snapshot.
PATIENCE = 4


@dataclass
class Total:
    """The results of all worlds."""

    wanted: int
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    reasons: collections.Counter[str] = field(default_factory=collections.Counter)
    """Why there was no snapshot."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, mutation: str = "") -> None:
        """Count something that happened."""
        with self.lock:
            self.counts[kind] += 1
            if mutation:
                self.kinds[mutation] += 1

    def complain(self, text: str) -> None:
        """Record a failure."""
        with self.lock:
            self.wrong.append(text)
        print(f"# note: WRONG {text}", flush=True)

    def enough(self) -> bool:
        """Tell whether all mutations have been made, or too many failed."""
        return self.counts["mutations"] >= self.wanted or len(self.wrong) >= 10


class Life:
    """A world from its beginning to its end."""

    def __init__(self, world: worlds.World, name: str, total: Total, table: dict[Mutation, int]) -> None:
        """Begin with a world."""
        self.world, self.name, self.total = world, name, total
        self.table = {"state": STATE, "compared": STATE, "random": RANDOM}.get(world.kind, table)
        self.story: list[str] = []

    def live(self) -> None:
        """Make mutations until there are enough, or one shows a fault."""
        expected, _ = self.world.run("off")
        if expected.startswith("exit code"):
            self.total.complain(f"{self.name}: it does not run: {expected[-1500:]}")
            return
        usable, made, hopeless = False, 0, 0
        per_world = PER_WORLD if self.world.kind != "random" else PATIENCE
        while not self.total.enough() and made < per_world:
            if hopeless == PATIENCE and self.world.kind == "files":
                break
            usable = usable or (hopeless < PATIENCE and self.prepare(expected))
            hopeless = 0 if usable else min(hopeless + 1, PATIENCE)
            said = self.mutate()
            if not said:
                continue
            name, what = said
            self.story.append(f"{what}{'' if usable else ' (no snapshot before)'}")
            found, start = self.world.run("auto")
            before, expected = expected, self.world.run("off")[0]
            if found != expected:
                self.judge(found, start, expected)
                return
            # Modules of the other kinds often are a reason against a snapshot. That it is one is what counts then.
            if usable or self.world.kind != "files":
                made += 1
                self.total.note("mutations", name)
                self.total.note(f"in worlds of the kind {self.world.kind}")
                self.total.note("still warm" if start == "warm" else "then cold")
                self.total.note("mutations that a program sees", "") if before != expected else None
            usable = start == "warm"

    def prepare(self, expected: str) -> bool:
        """Make a snapshot. Return whether there is one now."""
        found, start = self.world.run("require")
        if start != "warm":
            self.total.note("states without a snapshot")
            with self.total.lock:
                self.total.reasons[found.strip().rpartition("\n")[2].rpartition(": ")[2][-160:]] += 1
            return False
        self.total.note("snapshots")
        if found != expected:
            self.judge(found, "warm, just made", expected)
        return found == expected

    def mutate(self) -> tuple[str, str] | None:
        """Make a mutation. Return its name, and what it did."""
        [mutation] = self.world.choice.choices(list(self.table), list(self.table.values()))
        try:
            what = mutation(self.world)
        except PermissionError:  # an earlier one has made a file read-only
            return None
        return (mutation.__name__, what) if what else None

    def judge(self, found: str, start: str, expected: str) -> None:
        """Complain about a start that differs from cold ones, if those are alike.

        A cold start may write compiled modules, and the time of their directory is part of what a program sees. Then
        the comparison is made again.
        """
        for _ in range(3):
            again, _ = self.world.run("off")
            if again == expected:
                break
            found, start = self.world.run("auto")
            expected, _ = self.world.run("off")
            if found == expected:
                return
        else:
            self.total.note("worlds that each start changes")
            return
        story = "\n    ".join(self.story)
        self.total.complain(
            f"{self.name}: {start}: {worlds.describe_difference(found, expected)}; it had these mutations:\n    {story}"
        )


def find_pip(scratch: Path) -> str | None:
    """Return a Python that has pip: this one, or that of a new virtual environment; None if there is none."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    made = subprocess.run([sys.executable, "-m", "venv", str(scratch / "pip")], capture_output=True, check=False)
    return str(scratch / "pip" / "bin" / "python") if made.returncode == 0 else None


def main() -> int:
    """Live many worlds."""
    bundle, count = Path(sys.argv[1]), int(sys.argv[2])
    seed, _, only = os.environ.get("MUTATIONS_SEED", "").partition(":")
    seed = seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"# note: MUTATIONS_SEED={seed}", flush=True)
    total, began = Total(count), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        runs = Runs(bundle, top)
        worlds.make_wheels(top / "wheels")
        pip = find_pip(top)
        table = MUTATIONS | (BY_PIP if pip else {})

        def live(number: int) -> None:
            if total.enough():
                return
            world = worlds.World(runs, top / f"world{number}", f"{seed}:{number}", top / "wheels", pip)
            try:
                Life(world, f"MUTATIONS_SEED={seed}:{number}", total, table).live()
            finally:
                world.end()

        numbers = [int(only)] if only else range(10 + 3 * count // PER_WORLD)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(live, numbers))
    figures = ", ".join(f"{number} {name}" for name, number in sorted(total.counts.items()))
    print(f"# note: {time.monotonic() - began:.0f} s: {figures}", flush=True)
    print(f"# note: {', '.join(f'{name} {number}' for name, number in sorted(total.kinds.items()))}", flush=True)
    for reason, number in total.reasons.most_common(12):
        print(f"# note: no snapshot, {number} times: {reason}", flush=True)
    if not pip:
        print("# note: without upgrades, because this Python has neither pip nor ensurepip", flush=True)
    print(*total.wrong, sep="\n", file=sys.stderr)
    return int(bool(total.wrong) or (not only and total.counts["mutations"] < count))


if __name__ == "__main__":
    sys.exit(main())
