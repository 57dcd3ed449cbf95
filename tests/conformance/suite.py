#!/usr/bin/env python3
"""Run the programs of the OCI validation suite, read their TAP and compare it with known.txt.

See https://testanything.org and https://github.com/opencontainers/runtime-tools.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ASSERTION = re.compile(
    r"^(?P<failed>not )?ok (?P<number>\d+)(?: - )?(?P<text>[^#]*)(?:# (?P<directive>SKIP|TODO))?",
    re.IGNORECASE,
)
PLAN = re.compile(r"^1\.\.(\d+)")
TIMEOUT_SECONDS = 120
# These all use one cgroup, /cgrouptest, so they cannot run in parallel.
SHARED_CGROUP = re.compile(r"^(linux_cgroups|delete)_")
# Without a mount namespace in its configuration, a container mounts into its parent's. So each program gets its own,
# shared within itself, because the propagation test expects that.
IN_MOUNT_NAMESPACE = ["unshare", "--mount", "--propagation=slave"]
# The test of mounts binds /etc, and expects the mountinfo entry of a plain directory, not of our overlay.
IN_MOUNT_NAMESPACE += ["sh", "-c", 'mount --make-rshared / && umount --lazy /etc && exec "$0"']
WHOLE = "*"
ALWAYS, SOMETIMES, BY_CHANCE = WHEN = "always", "sometimes", "by chance"
ATTEMPTS = 8


@dataclass
class Known:
    """A line of known.txt: a failure that is not the runtime's fault."""

    test: str
    assertion: str
    when: str
    """One of WHEN."""
    reason: str
    line: int


@dataclass
class Outcome:
    """The results of one program of the suite."""

    test: str
    passed: int = 0
    skipped: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)
    """What is said of a failure, by number of the assertion; WHOLE for the program itself."""
    remarks: list[str] = field(default_factory=list)
    """What is said outside of any failed assertion."""

    @property
    def made(self) -> int:
        """Return the number of assertions that were not skipped."""
        return self.passed + sum(key != WHOLE for key in self.failures)


def read_known(path: Path) -> list[Known]:
    """Read the list; raise ValueError with the line if it does not have four fields."""
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = [part.strip() for part in line.split("|")]
        if len(fields) != 4 or fields[2] not in WHEN:
            raise ValueError(f"{path}:{number}: want 'test | assertion | {' or '.join(WHEN)} | reason'")
        entries.append(Known(fields[0], fields[1], fields[2], fields[3], number))
    return entries


def details(block: list[str]) -> list[str]:
    """Return the explanation of a failure in an assertion's diagnostic block, which is JSON."""
    try:
        values = json.loads("".join(block))
    except ValueError:
        return []
    return [
        f"{key}: {' '.join(str(values[key]).split())[:400]}"
        for key in ("expected", "actual", "error", "stderr")
        if values.get(key)
    ]


def read_tap(outcome: Outcome, stdout: str) -> int | None:
    """Count the assertions of one program into the outcome. Return the number of planned ones."""
    plan = None
    failure = None
    block: list[str] | None = None
    for line in stdout.splitlines():
        if match := ASSERTION.match(line):
            failure = None
            if match["directive"]:
                outcome.skipped += 1
            elif match["failed"]:
                failure = outcome.failures[match["number"]] = [match["text"].strip()]
            else:
                outcome.passed += 1
        elif match := PLAN.match(line):
            plan = int(match[1])
        elif line == "  ---":
            block = []
        elif line == "  ..." and block is not None:
            if failure is not None:
                failure += details(block)
            else:
                outcome.remarks += details(block)
            block = None
        elif block is not None:
            block.append(line)
    return plan


def judge(test: str, stdout: str, stderr: str, status: int | None) -> Outcome:
    """Return the results of one program. status is its exit status, None if it had to be killed."""
    outcome = Outcome(test)
    plan = read_tap(outcome, stdout)
    # The hook tests assert nothing. They print errors, or nothing if there are none.
    complaints = [] if outcome.made or outcome.skipped else outcome.remarks
    if status is None:
        complaints.append(f"did not end within {TIMEOUT_SECONDS} s")
    elif status != 0:
        complaints.append(f"exit status {status}")
    elif plan is not None and plan != outcome.made + outcome.skipped:
        complaints.append(f"planned {plan} assertions and made {outcome.made + outcome.skipped}")
    if complaints:
        outcome.failures[WHOLE] = complaints
    if outcome.failures and stderr:
        outcome.failures[next(reversed(outcome.failures))] += stderr.strip().splitlines()[-10:]
    return outcome


def run(program: Path) -> Outcome:
    """Run one program of the suite, with its bundles in a new directory."""
    # Containers with a user namespace need access to their root file system.
    with tempfile.TemporaryDirectory(prefix=f"{program.name}.", dir="/run") as scratch:
        Path(scratch).chmod(0o755)
        try:
            done = subprocess.run(
                [*IN_MOUNT_NAMESPACE, program.absolute()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=os.environ | {"TMPDIR": scratch},
                timeout=TIMEOUT_SECONDS,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            streams = [
                (stream or b"").decode(errors="replace") for stream in (expired.stdout, expired.stderr)
            ]
            return judge(program.name, streams[0], streams[1], None)
    return judge(program.name, done.stdout, done.stderr, done.returncode)


def run_all(programs: list[Path], chancy: set[str]) -> Iterator[Outcome]:
    """Run the parallel programs on all CPUs, the others one after the other.

    Programs that fail by chance must pass once.
    """

    def attempt(program: Path) -> Outcome:
        attempts = (run(program) for _ in range(ATTEMPTS if program.name in chancy else 1))
        for outcome in attempts:
            if not outcome.failures:
                break
        return outcome

    together = [program for program in programs if not SHARED_CGROUP.match(program.name)]
    alone = [program for program in programs if SHARED_CGROUP.match(program.name)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(attempt, together)
    yield from map(attempt, alone)


def report(number: int, outcome: Outcome, known: list[Known]) -> str:
    """Print one line of TAP, followed by the cause of a failure; return passed, failed or skipped."""
    entries = {entry.assertion: entry for entry in known}
    whole = entries.get(WHOLE)
    surprises = {} if whole else {key: said for key, said in outcome.failures.items() if key not in entries}
    stale = [
        entry
        for entry in known
        if entry.when == ALWAYS and not (outcome.failures if entry is whole else entry.assertion in outcome.failures)
    ]
    if surprises or stale:
        print(f"not ok {number} - {outcome.test}")
        for key, said in surprises.items():
            print(f"#   {'the test' if key == WHOLE else f'assertion {key}'}: " + "\n#       ".join(said))
        for entry in stale:
            print(f"#   line {entry.line} of known.txt is no longer true: it passes")
        return "failed"
    if whole and outcome.failures:
        print(f"ok {number} - {outcome.test} # SKIP {whole.reason}")
        return "skipped"
    excused = [entry for entry in known if entry.assertion in outcome.failures]
    print(
        f"ok {number} - {outcome.test}"
        + (f" ({outcome.passed} of {outcome.made} assertions)" if excused else "")
    )
    for entry in excused:
        print(f"#   assertion {entry.assertion} is known to fail: {entry.reason}")
    return "passed"


def main() -> int:
    """Run the named tests, or all, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, required=True, help="directory of the suite's programs")
    parser.add_argument("--known", type=Path, required=True, help="list of known failures")
    parser.add_argument("names", metavar="TEST", nargs="*", help="a test of the suite (default: all)")
    options = parser.parse_args()
    programs = sorted(options.tests.iterdir())
    known = read_known(options.known)
    names = {program.name for program in programs}
    if unknown := {*options.names, *(entry.test for entry in known)} - names:
        parser.error(f"the suite has no test {', '.join(sorted(unknown))}")
    if options.names:
        programs = [program for program in programs if program.name in options.names]
    chancy = {entry.test for entry in known if entry.when == BY_CHANCE}
    known = [entry for entry in known if entry.when != BY_CHANCE]
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    print(f"1..{len(programs)}", flush=True)
    for number, outcome in enumerate(run_all(programs, chancy), 1):
        counts[report(number, outcome, [entry for entry in known if entry.test == outcome.test])] += 1
        sys.stdout.flush()
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
