#!/usr/bin/env python3
"""Count what commands cost without a clock, and compare with ledger.txt.

The system calls are those that strace(1) sees up to the program's execve(2): the runtime's own, also of the
container's first process. A decorated call has those of the caller's process alone. Page faults and voluntary context
switches, which are waits, come from wait4(2) without strace. On a busy machine a process may wait once more. So each
figure is counted again, up to ATTEMPTS times, until it fits.
"""

import argparse
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import bundle

HERE = Path(__file__).resolve().parent
LEDGER = HERE / "ledger.txt"
ATTEMPTS = 6
NAME = "ledger"
"""Of all containers."""
STRACE = ["strace", "-f", "-qq", "-e", "signal=none", "-o"]
LEAVE = "import os; os._exit(0)"
PANDAS = f"import pandas; {LEAVE}"
PLACED = {"mmap", "munmap", "pread64", "KiB read"}
FAULTS, SWITCHES = "page faults", "waits"
READS = {"read", "pread64", "readv", "recvfrom", "recvmsg"}
WRITES = {"write", "pwrite64", "writev", "sendto", "sendmsg", "sendfile"}
CLONES = {"clone", "clone3", "fork", "vfork"}
OPENS = {"open", "openat", "openat2", "creat"}
BEGIN, END = "/ledger-begins", "/ledger-ends"
"""Files that the program of the call asks for before and after the call that counts."""
WAIT = "import os; os.read(0, 1); os._exit(0)"
CALL = f"""
import os, resource, sys, time
from pysbx import sandbox
from pysbx.container import ready

most = int(sys.argv[1])

@sandbox(ready=most, warm="require" if most else "auto")
def nothing():
    return None

def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_nvcsw

for _ in range(3):
    nothing()
while most and not any(one.has_begun() for pool in ready._pools.values() for one, _ in pool.waiting):
    time.sleep(0.01)
time.sleep(0.1 * most)
before = used()
os.access("{BEGIN}", os.F_OK)
nothing()
os.access("{END}", os.F_OK)
print(*(after - first for first, after in zip(before, used())))
"""
SESSION = f"""
import os, resource, time
from pysbx import Sandbox

def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_nvcsw

with Sandbox(ready=0, warm="require") as session:
    for _ in range(3):
        session.run("1")
    time.sleep(0.1)
    before = used()
    os.access("{BEGIN}", os.F_OK)
    session.run("1")
    after = used()
    time.sleep(0.1)
    os.access("{END}", os.F_OK)
print(*(second - first for first, second in zip(before, after)))
"""
"""The worker's last system call ends during the last pause, which counts."""


def calls(path: Path) -> Iterator[tuple[str, str, int, str]]:
    """Yield the process or thread, name, result and text of each system call in an output of strace."""
    begun: dict[str, str] = {}
    for line in path.read_text(errors="replace").splitlines():
        task, _, text = line.partition(" ")
        text = text.lstrip()
        if text.endswith("<unfinished ...>"):
            begun[task] = text.removesuffix("<unfinished ...>")
            continue
        if text.startswith("<... "):
            text = begun.pop(task, "") + text.partition(" resumed>")[2]
        if call := re.match(r"(\w+)\(.* = (-?\d+|\?)", text):
            yield task, call[1], -1 if call[2] == "?" else int(call[2]), text


def count_comparison(path: Path) -> Counter[str]:
    """Count the system calls of a runtime from the question whether files have changed to its answer."""
    traced = list(calls(path))
    asked = next(task for task, name, _, text in traced if name == "recvfrom" and "MSG_DONTWAIT" in text)
    own = [name for task, name, *_ in traced if task == asked]
    end = len(own) - own[::-1].index("sendto")
    begin = end - own[:end][::-1].index("recvfrom") - 1
    return Counter(own[begin:end])


def count_calls(path: Path, *, alone: bool = False, every: bool = False) -> Counter[str]:
    """Count the system calls of the runtime and of its child until that executes the program.

    If there are markers, count what the threads of the first process do between them, or only its first thread, or
    every process.
    """
    traced = list(calls(path))
    marked = any(BEGIN in text for *_, text in traced)
    first = traced[0][0]
    made = {str(result): "CLONE_THREAD" in text for _, name, result, text in traced if name in CLONES and result > 0}
    own = {first, *(task for task, thread in made.items() if thread and not alone)}
    counts: Counter[str] = Counter()
    executed: set[str] = set()
    counting = not marked
    for task, name, result, text in traced:
        if BEGIN in text or END in text:
            counting = BEGIN in text
        elif counting and task not in executed and (not marked or every or task in own):
            counts[name] += 1
            if name in CLONES and result > 0:
                counts["threads" if made[str(result)] else "processes"] += 1
            counts["KiB read"] += max(result, 0) * (name in READS)
            counts["KiB written"] += max(result, 0) * (name in WRITES)
            counts["files opened"] += result >= 0 and name in OPENS
            if name == "execve" and result == 0 and task != first:
                executed.add(task)
    counts["KiB read"] = round(counts["KiB read"] / 1024)
    counts["KiB written"] = round(counts["KiB written"] / 1024)
    return counts


def run(command: list[str]) -> resource.struct_rusage:
    """Run a command to its end, and return what it and the children that it has reaped used."""
    with tempfile.TemporaryFile() as errors:
        streams = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
        ]
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=streams)
        usage: resource.struct_rusage
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            errors.seek(0)
            sys.exit(f"ledger: '{' '.join(command)}' failed: {errors.read().decode(errors='replace')}")
    return usage


class Costs:
    """Counts the columns of the ledger. The bundles are in a folder whose path has always as many parts."""

    def __init__(self, runtime: str, folder: Path) -> None:
        """Write the bundles, without masked paths that not every kernel has."""
        self.runtime, self.folder = runtime, folder
        bundle.MASKED[:] = ["/proc/interrupts", "/proc/keys", "/proc/timer_list", "/sys/firmware"]
        bundle.MASKED_GLOB = ""
        bundle.READONLY[:] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"]
        bundle.write_bundles(folder, self.root("busybox"))

    def root(self, image: str) -> Path:
        """Unpack an image once, and return its root."""
        root = self.folder / image
        if not root.exists():
            root.mkdir()
            archive = subprocess.check_output([HERE.parent / "lib/image", image], text=True).strip()
            subprocess.run(["tar", "--extract", "--file", archive, "-C", root, "--exclude", "./dev/*"], check=True)
            # Without its cache, the loader looks into directories that depend on the CPU.
            subprocess.run(["ldconfig", "-r", root], check=True)
        return root

    def command(self, *words: str) -> list[str]:
        """Return a command line of the runtime."""
        return [self.runtime, *words]

    def trace(self, command: list[str]) -> Counter[str]:
        """Count the system calls of a command."""
        output = self.folder / "trace"
        run([*STRACE, str(output), *command])
        return count_calls(output)

    def simple(self, *words: str) -> Counter[str]:
        """Count a command of the runtime that ends with its container, or with its process."""
        usage = run(self.command(*words))
        counts = self.trace(self.command(*words))
        counts[FAULTS], counts[SWITCHES] = usage.ru_minflt, usage.ru_nvcsw
        return counts

    def run(self, name: str) -> Counter[str]:
        """Count `run` of a bundle."""
        return self.simple("run", "--bundle", str(self.folder / name), NAME)

    def exec(self) -> Counter[str]:
        """Count `exec` of /bin/true."""
        run(self.command("run", "--detach", "--bundle", str(self.folder / "idle"), NAME))
        try:
            return self.simple("exec", NAME, "/bin/true")
        finally:
            run(self.command("delete", "--force", NAME))

    def wait_for(self, status: str) -> None:
        """Wait until the container has a status."""
        state = self.command("state", NAME)
        while f'"status":"{status}"' not in subprocess.run(
            state, capture_output=True, text=True, check=False
        ).stdout.replace(" ", ""):
            time.sleep(0.01)

    def life(self) -> Counter[str]:
        """Count the sum of create, start, kill and delete."""
        create = self.command("create", "--bundle", str(self.folder / "idle"), NAME)
        start, kill, delete = (
            self.command(*words) for words in (["start", NAME], ["kill", NAME, "KILL"], ["delete", NAME])
        )
        usages = [run(create), run(start), run(kill)]
        self.wait_for("stopped")
        usages.append(run(delete))
        output = self.folder / "create"
        # strace ends with the container's process.
        with subprocess.Popen([*STRACE, output, *create], stdout=subprocess.DEVNULL):
            self.wait_for("created")
            counts = self.trace(start) + self.trace(kill)
            self.wait_for("stopped")
            counts += self.trace(delete)
        counts += count_calls(output)
        counts[FAULTS] = sum(usage.ru_minflt for usage in usages)
        counts[SWITCHES] = sum(usage.ru_nvcsw for usage in usages)
        return counts

    def warm(self, name: str, program: str, preload: str) -> Counter[str]:
        """Count `run` of a restored Python that ends at once."""
        self.prewarm(name, program, preload)
        return self.run(name)

    def prewarm(self, name: str, program: str, preload: str) -> str:
        """Return the path of a bundle whose snapshot exists."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            config = bundle.config(self.root("pandas"), ["python3", "-c", program], filtered=True, devices=True)
            config["annotations"] = {"run.pysbx.warm": "require", "run.pysbx.preload": preload}
            bundle.write(folder, config)
            run(self.command("run", "--bundle", str(folder), NAME))
        return str(folder)

    def compare(self) -> Counter[str]:
        """Count the comparison of files for a restored Python that waits: run --compare-fd."""
        folder = self.prewarm("waits", WAIT, "")
        ours, theirs = socket.socketpair()
        output = self.folder / "trace"
        number = theirs.fileno()
        command = [*STRACE, str(output), *self.command("run", "--bundle", folder, "--compare-fd", str(number), NAME)]
        with ours, theirs, subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number]) as waiting:
            ours.send(b"?")
            if (answer := ours.recv(1)) != b"y":
                sys.exit(f"ledger: the files have changed: {answer!r}")
            waiting.communicate(b"x")
        return count_comparison(output)

    def call(self, text: str, *words: str, every: bool = False) -> Counter[str]:
        """Count what a program does between its markers: its first thread, or also every process of its sandboxes."""
        program = self.folder / "call.py"
        program.write_text(text)
        command = [os.environ["TEST_PYSBX"], str(program), *words]
        os.environ["PYSBX_RUNTIME"] = self.runtime
        faults, switches = map(int, subprocess.check_output(command, text=True).split())
        output = self.folder / "trace"
        run([*STRACE, str(output), *command])
        counts = count_calls(output, alone=True, every=every)
        counts[FAULTS], counts[SWITCHES] = faults, switches
        return counts

    def columns(self) -> dict[str, Callable[[], Counter[str]]]:
        """Return how each column is counted."""
        return {
            "run": lambda: self.run("plain"),
            "run-filter": lambda: self.run("seccomp"),
            "run-devices": lambda: self.run("podman"),
            "exec": self.exec,
            "life": self.life,
            "warm": lambda: self.warm("warm", LEAVE, ""),
            "warm-pandas": lambda: self.warm("warm-pandas", PANDAS, "pandas"),
            "compare": self.compare,
            "call": lambda: self.call(CALL, "0"),
            "ready": lambda: self.call(CALL, "1"),
            "session": lambda: self.call(SESSION, every=True),
        }


class Ledger:
    """The expected figures: a number or a range, for each counter and column."""

    def __init__(self, text: str) -> None:
        """Parse the file. A line ends with a comment, which says why its last change was made."""
        lines = text.splitlines()
        self.preface = [line for line in lines if line.startswith("#")]
        rows = [line.partition("#") for line in lines if line and not line.startswith("#")]
        self.header = rows[0][0].split()[1:] if rows else []
        self.reasons: dict[str, str] = {}
        self.cells: dict[tuple[str, str], str] = {}
        for cells, _, reason in rows[1:]:
            counter, *figures = re.split(r"\s{2,}", cells.strip())
            self.reasons[counter] = reason.strip()
            self.cells |= {(counter, column): figure for column, figure in zip(self.header, figures, strict=True)}

    def fits(self, counter: str, column: str, figure: int) -> bool:
        """Tell whether a figure is the expected one."""
        low, _, high = self.cells.get((counter, column), "0").partition("-")
        return int(low) <= figure <= int(high or low)

    def put(self, counter: str, column: str, figures: list[int]) -> None:
        """Expect these figures, with room for what depends on the scheduler or the place of a snapshot's memory."""
        low, high = min(figures), max(figures)
        if column.startswith("warm") and counter in PLACED:
            low, high = low - low // 10 - 2, high + high // 10 + 2
        if counter == FAULTS:
            low, high = max(low - low // 10 - 2, 0), low + low // 10 + 2
        if counter == SWITCHES:
            low, high = max(low - 4, 0), low + 4
        self.cells[counter, column] = str(low) if low == high else f"{low}-{high}"

    def text(self, columns: Iterable[str]) -> str:
        """Return the file: first the sums, then the system calls by name."""
        header = list(columns)
        first = ["processes", "threads", "KiB read", "KiB written", "files opened", FAULTS, SWITCHES]
        others = sorted({counter for counter, _ in self.cells} - set(first))
        table = [["counter", *header, ""]]
        for counter in first + others:
            figures = [self.cells.get((counter, column), "0") for column in header]
            if set(figures) != {"0"}:
                reason = self.reasons.get(counter, "")
                table.append([counter, *figures, f"# {reason}" if reason else ""])
        widths = [max(len(row[i]) for row in table) for i in range(len(header) + 1)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)]
                + row[-1:]
            )
            for row in table
        ]
        return "\n".join(self.preface + [line.rstrip() for line in lines]) + "\n"


def check(ledger: Ledger, column: str, count: Callable[[], Counter[str]]) -> dict[str, list[int]]:
    """Return the counters that do not fit in any attempt, with the figures that were counted."""
    misfits: dict[str, list[int]] = {}
    for attempt in range(ATTEMPTS):
        counts = count()
        expected = {counter for counter, of in ledger.cells if of == column}
        if attempt == 0:
            misfits = {counter: [] for counter in expected | set(counts)}
        misfits = {
            counter: [*figures, counts[counter]]
            for counter, figures in misfits.items()
            if not ledger.fits(counter, column, counts[counter])
        }
        if not misfits:
            break
    return misfits


def on_disk(stack: ExitStack) -> Path:
    """Return a new folder on the disk, which also has the snapshots. Its path is the same in each clone."""
    build = HERE.parents[1] / "build"
    build.mkdir(exist_ok=True)
    disk = stack.enter_context(tempfile.TemporaryDirectory(dir=build))
    for target in (Path("/run/ledger"), Path("/var/lib/pysbx-runtime")):
        source = Path(disk, target.name)
        source.mkdir()
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", source, target], check=True)
        stack.callback(subprocess.check_call, ["umount", str(target)])
    return Path("/run/ledger")


def main() -> int:
    """Compare, or write what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the figures that differ to ledger.txt")
    parser.add_argument("column", nargs="*", help="the columns that are counted (default: all)")
    options = parser.parse_args()
    ledger = Ledger(LEDGER.read_text() if LEDGER.exists() else "")
    failed = False
    with ExitStack() as stack:
        folder = on_disk(stack)
        columns = Costs(os.environ["RUNTIME"], folder).columns()
        for column in options.column or columns:
            columns[column]()  # fills the caches
            for counter, figures in check(ledger, column, columns[column]).items():
                failed = True
                expected = ledger.cells.get((counter, column), "0")
                print(f"{column}: {counter}: {expected} expected, {min(figures)} to {max(figures)} counted")
                if options.update:
                    ledger.put(counter, column, figures)
        if options.update:
            LEDGER.write_text(ledger.text(columns))
            return 0
    if failed:
        print(
            "If the change is meant: TEST_LEDGER=--update tests/check ledger. "
            "Then write its reason at the end of each changed line."
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
