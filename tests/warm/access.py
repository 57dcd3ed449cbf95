#!/usr/bin/env python3
"""Run the rows of accesses.py: does data that an import saw in one container reach another one?

usage: access.py BUNDLE GROUP [WORD]

A row is a module that reads a state. Container A builds a snapshot of it, and uses it again. In container B the state
differs. In mode auto B must print the same as cold, and never A's value. The program prints a line for each row, and
fails with all rows that do not hold. With WORD it runs only rows with this word in their names. RUNTIME is the runtime.
"""

import concurrent.futures
import contextlib
import json
import mmap
import os
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from accesses import TABLE, Row

Json = dict[str, Any]
RUNTIME = os.environ["RUNTIME"]
ROOTLESS = os.environ.get("PODMAN_MODE") == "rootless"
WITH_KEY = Path(__file__).parent.parent / "lib" / "with-key"
MARKS = ("MARKA", "MARKB")
SAY = "import gc, leak; print(repr(leak.got)); print('warm' if gc.get_freeze_count() else 'cold')"
PATIENCE_S = 60


class Volume:
    """The volume /secret of one container."""

    def __init__(self, path: Path, number: int, libraries: list[Path]) -> None:
        """Make it. `libraries` are two of the image."""
        self.path, self.number, self.mark = path, number, MARKS[number]
        path.mkdir()
        self.make_plain()
        self.make_formats()
        self.make_packages()
        shutil.copy(libraries[number], path / "lib.so")
        self.has_attributes = self.make_attributes()
        self.has_certificate = self.make_certificate()

    def make_plain(self) -> None:
        """Make files that differ in content, size, mode, time, type, and existence."""
        path, number, mark = self.path, self.number, self.mark
        self.write("s", f"{mark}\n")
        self.write("long", mark * (number + 1))
        self.write("mode", "", 0o755 if number else 0o644)
        self.write("time", "")
        os.utime(path / "time", (10**9 + number, 10**9 + number))
        self.write("run", f"#!/bin/sh\necho {mark}\n", 0o755)
        self.write(f"name-{mark}", "")
        (path / f"dir-{mark}").mkdir()
        (path / "link").symlink_to(mark * (number + 1))
        (path / "to-s").symlink_to("s")
        if number:
            self.write("maybe", "")
            (path / "kind").mkdir()
        else:
            self.write("kind", "")

    def make_formats(self) -> None:
        """Make files that modules of the standard library read."""
        path, mark = self.path, self.mark
        with zipfile.ZipFile(path / "m.zip", "w") as archive:
            archive.writestr("inzip.py", f"text = '{mark}'\n")
        with contextlib.closing(sqlite3.connect(path / "base")) as base:
            base.execute("create table t (text)")
            base.execute("insert into t values (?)", (mark,))
            base.commit()
        (path / "zones").mkdir()
        # tzfile(5): one type of local time.
        zone = b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 0, 1, 6) + struct.pack(">ibB", 3600, 0, 0)
        (path / "zones" / "Own").write_bytes(zone + mark.encode() + b"\0")

    def make_packages(self) -> None:
        """Make a package, and a module that is in one of the volumes."""
        package = self.path / "packages" / "apackage"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"text = '{self.mark}'\n")
        if self.number:
            (package.parent / "maybe.py").write_text("")

    def make_attributes(self) -> bool:
        """Give a file extended attributes, if the file system supports them."""
        try:
            os.setxattr(self.path / "s", "user.mark", self.mark.encode())
            os.setxattr(self.path / "s", f"user.{self.mark}", b"")
        except OSError:
            return False
        return True

    def make_certificate(self) -> bool:
        """Use a certificate of this machine, if it has enough of them."""
        found = sorted(Path("/etc/ssl/certs").glob("*.pem"))
        if len(found) < len(MARKS):
            return False
        shutil.copy(found[self.number], self.path / "ca.pem")
        return True

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Write a file that has the same time in both volumes."""
        file = self.path / name
        file.write_text(text)
        file.chmod(mode)
        os.utime(file, (10**9, 10**9))


def serve(listener: socket.socket, mark: str) -> None:
    """Answer every connection with a mark, for the life of this program."""

    def answer() -> None:
        while True:
            with listener.accept()[0] as connection, contextlib.suppress(OSError):
                connection.sendall(mark.encode())

    listener.listen()
    threading.Thread(target=answer, daemon=True).start()


def serve_unix(directory: Path, mark: str) -> None:
    """Make the socket of a volume. Its path is longer than sun_path."""
    listener = socket.socket(socket.AF_UNIX)
    descriptor = os.open(directory, os.O_PATH)
    listener.bind(f"/proc/self/fd/{descriptor}/socket")
    os.close(descriptor)
    (directory / "socket").chmod(0o666)
    serve(listener, mark)


class Container:
    """The configuration of a container, its standard input, and its runtime's command line."""

    def __init__(self, base: Json) -> None:
        """Copy the configuration of the bundle."""
        self.config: Json = json.loads(json.dumps(base))
        self.process: Json = self.config["process"]
        self.linux: Json = self.config["linux"]
        self.input: bytes | None = None
        self.before: list[str] = []
        self.options: list[str] = []
        self.pipe = False
        """Whether the input is a pipe, and not a file."""

    def mount(self, destination: str, source: Path | str, *options: str) -> None:
        """Add a read-only volume."""
        self.config["mounts"].append(
            {"destination": destination, "type": "bind", "source": str(source), "options": ["bind", "ro", *options]}
        )

    def temporary(self, destination: str, *options: str) -> None:
        """Add a file system in memory."""
        mount = {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": list(options)}
        self.config["mounts"].append(mount)

    def unmount(self, destination: str) -> None:
        """Remove a mount."""
        self.config["mounts"] = [m for m in self.config["mounts"] if m["destination"] != destination]

    def limit(self, name: str, number: int) -> None:
        """Set a limit."""
        others = [r for r in self.process.get("rlimits", []) if r["type"] != name]
        self.process["rlimits"] = [*others, {"type": name, "soft": number, "hard": number}]

    def namespace(self, kind: str, new: bool) -> None:
        """Give it a new namespace, or the runtime's."""
        others = [n for n in self.linux["namespaces"] if n["type"] != kind]
        self.linux["namespaces"] = others + ([{"type": kind}] if new else [])

    def variables(self, *words: str) -> None:
        """Add variables."""
        self.process["env"] += words

    def cpus(self, *numbers: int) -> None:
        """Let its caller use only these CPUs."""
        self.before += ["taskset", "--cpu-list", ",".join(map(str, numbers))]

    def read(self, text: bytes) -> None:
        """Give it a file as standard input."""
        self.input = text


# Differences between container 0 and container 1.


def change_mount(c: Container, n: int, volume: Path) -> None:
    """Add mounts of other names, from other directories."""
    c.mount("/other", volume.parent / MARKS[n])
    c.temporary(f"/mnt/{MARKS[n]}")


def change_key(c: Container, n: int, _: Path) -> None:
    """Give one of them a key in the session keyring."""
    c.linux["maskedPaths"] = []  # /proc/keys
    c.before = [str(WITH_KEY), ("other", "mark")[n], "content"]
    c.options = ["--no-new-keyring"]


def change_network(c: Container, n: int, _: Path) -> None:
    """Set a new loopback without a listener, or this machine's."""
    c.config["mounts"] = [m for m in c.config["mounts"] if m["destination"] != "/sys"]
    c.namespace("network", not n)


def change_user_namespace(c: Container, n: int, _: Path) -> None:
    """Map ids differently."""
    c.namespace("user", True)
    maps = [{"containerID": 0, "hostID": 100000 * (n + 1), "size": 1000}]
    c.linux["uidMappings"] = c.linux["gidMappings"] = maps


def change_stdin(c: Container, n: int, _: Path) -> None:
    """Set a file, or /dev/null."""
    if n:
        c.read(b"")


def change_cgroup(c: Container, n: int, _: Path) -> None:
    """Set another cgroup, which is visible."""
    c.namespace("cgroup", False)
    c.linux["cgroupsPath"] = f"/{MARKS[n]}-{threading.get_ident()}"


def change_shm(c: Container, n: int, volume: Path) -> None:
    """Share a directory with other processes, where one of them has left something."""
    c.unmount("/dev/shm")
    # If it were writable, the tracker of SharedMemory would remove what it has found.
    c.mount("/dev/shm", volume.parent / f"shm-{n}")


def change_shm_mode(c: Container, n: int, _: Path) -> None:
    """Make no directory for shared memory, or one with another mode."""
    c.unmount("/dev/shm")
    if n:
        c.temporary("/dev/shm", "mode=755")


def change_time(c: Container, n: int, _: Path) -> None:
    """Set the clocks of the start of the machine."""
    c.namespace("time", True)
    c.linux["timeOffsets"] = {name: {"secs": (n + 1) * 10**6} for name in ("monotonic", "boottime")}


def change_stream(c: Container, n: int, _: Path) -> None:
    """Set a file with a text, or a pipe."""
    c.read(b"text")
    c.pipe = bool(n)


Change = Callable[[Container, int, Path], object]
CHANGES: dict[str, Change] = {
    "variable": lambda c, n, _: c.variables(f"SECRET={MARKS[n]}"),
    "name": lambda c, n, _: c.variables(*["SECRET=set"][:n]),
    "passwd": lambda c, n, v: c.mount("/etc/passwd", v.parent / f"passwd-{n}"),
    "group": lambda c, n, v: c.mount("/etc/group", v.parent / f"group-{n}"),
    "resolv": lambda c, n, v: c.mount("/etc/resolv.conf", v.parent / f"passwd-{n}"),
    "cpuinfo": lambda c, n, v: c.mount("/proc/cpuinfo", v.parent / f"passwd-{n}"),
    "meminfo": lambda c, n, v: c.mount("/proc/meminfo", v.parent / f"passwd-{n}"),
    "statvfs": lambda c, n, _: c.temporary("/secret", f"size={n + 1}m"),
    "host": lambda c, n, _: c.config.update(hostname=MARKS[n]),
    "domain": lambda c, n, _: c.config.update(domainname=MARKS[n]),
    "sysctl": lambda c, n, _: c.linux.update(sysctl={"kernel.msgmax": str(8000 + n)}),
    "mount": change_mount,
    "mountpoint": lambda c, n, _: c.temporary(("/mnt/other", "/mnt/point")[n]),
    "cgroup": change_cgroup,
    "cgroup-file": lambda c, n, _: c.linux.setdefault("resources", {}).update(unified={"cgroup.max.depth": str(5 + n)}),
    "groups": lambda c, n, _: c.process["user"].update(additionalGids=[1000 + n]),
    "umask": lambda c, n, _: c.process["user"].update(umask=(0o22, 0o27)[n]),
    "privileges": lambda c, n, _: c.process.update(noNewPrivileges=bool(n)),
    "arguments": lambda c, n, _: c.process["args"].append(MARKS[n]),
    "limit": lambda c, n, _: c.limit("RLIMIT_FSIZE", (n + 1) << 40),
    "descriptors": lambda c, n, _: c.limit("RLIMIT_NOFILE", 100 + n),
    "oom": lambda c, n, _: c.process.update(oomScoreAdj=500 + 100 * n),
    "cwd": lambda c, n, _: c.process.update(cwd=("/usr", "/var")[n]),
    "user": lambda c, n, _: c.process["user"].update(uid=1000 + n, gid=1000 + n),
    "pids": lambda c, n, _: c.namespace("pid", not n),
    "ioprio": lambda c, n, _: c.process.update(ioPriority={"class": "IOPRIO_CLASS_BE", "priority": 5 + n}),
    "scheduler": lambda c, n, _: c.process.update(scheduler={"policy": ("SCHED_OTHER", "SCHED_BATCH")[n]}),
    "scheduler-nice": lambda c, n, _: c.process.update(scheduler={"policy": "SCHED_OTHER", "nice": 5 + n}),
    "maps": change_user_namespace,
    "stdin": lambda c, n, _: c.read(MARKS[n].encode() + b"\n"),
    "stdin-kind": change_stdin,
    "key": change_key,
    "device": lambda c, n, _: c.linux.update(
        devices=[{"path": f"/dev/own{MARKS[n]}", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}]
    ),
    "network": change_network,
    "shm": change_shm,
    "shm-mode": change_shm_mode,
    "affinity": lambda c, n, _: c.cpus((min, max)[n](os.sched_getaffinity(0))),
    "affinity-number": lambda c, n, _: c.cpus(*sorted(os.sched_getaffinity(0))[: n + 1]),
    "time": change_time,
    "net": change_network,
    "personality": lambda c, n, _: c.linux.update(personality={"domain": ("LINUX", "LINUX32")[n]}),
    "datemsk": lambda c, n, v: c.variables(f"DATEMSK={('/none', v / 's')[n]}"),
    "pwd": lambda c, n, _: c.variables(f"PWD={('/', '/proc/1/cwd')[n]}"),
    "stream": change_stream,
}
ROOT_ALONE = {"time", "net", "sysctl", "cgroup", "cgroup-file", "groups", "user", "pids", "device", "maps"}
# The difference is the volume itself.
OF_VOLUMES = {"volume", "xattr", "xattr-name", "certificate"}


class Swap:
    """A directory with a file that changes between two containers, in a way that no status shows."""

    def __init__(self, directory: Path, way: str, what: str) -> None:
        """Make it as the first container sees it."""
        self.base, self.way = directory, way
        self.path = directory / "now"
        self.name = "own.py" if what == "module" else "s"
        self.texts = [f"text = '{mark}'\n" if what == "module" else f"{mark}\n" for mark in MARKS]
        directory.mkdir()
        directory.chmod(0o755)
        self.make(self.path, 0)
        self.mapping: mmap.mmap | None = None
        if way == "mapping":
            with (self.path / self.name).open("r+b") as file:
                self.mapping = mmap.mmap(file.fileno(), 0)
            self.mapping[:] = self.texts[0].encode()  # from now on the kernel records no time for writes

    def make(self, directory: Path, number: int) -> None:
        """Make a directory with the file."""
        directory.mkdir()
        name = self.name
        if self.way == "link":
            (directory / name).symlink_to(f"to-{number}")
            for other in 0, 1:
                self.write(directory / f"to-{other}", other)
        else:
            self.write(directory / name, number)

    def write(self, file: Path, number: int) -> None:
        """Write a text. All texts have the same size, and the same time."""
        with file.open("r+" if file.exists() else "w") as out:
            out.write(self.texts[number])
        os.utime(file, (10**9, 10**9))

    def change(self) -> None:
        """Make it as the second container must see it."""
        file = self.path / self.name
        if self.mapping is not None:
            self.mapping[:] = self.texts[1].encode()
        elif self.way == "write":
            self.write(file, 1)
        elif self.way == "rename":
            self.write(self.base / "new", 1)
            (self.base / "new").rename(file)
        elif self.way == "link":
            (self.base / "new").symlink_to("to-1")
            (self.base / "new").rename(file)
        else:
            self.make(self.base / "new", 1)
            self.path.rename(self.base / "old")
            (self.base / "new").rename(self.path)


class Runs:
    """The parts that rows have in common: the bundle and the volumes."""

    def __init__(self, bundle: Path, scratch: Path) -> None:
        """Make volumes and files for all rows."""
        self.base: Json = json.loads((bundle / "config.json").read_text())
        root = Path(self.base["root"]["path"])
        libraries = [min(root.rglob(name)).resolve() for name in ("libm.so.6", "libz.so.1")]
        self.scratch = scratch
        scratch.chmod(0o755)
        self.volumes = [Volume(scratch / mark, n, libraries) for n, mark in enumerate(MARKS)]
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        for n, mark in enumerate(MARKS):
            serve_unix(scratch / mark, mark)
            (scratch / mark / "port").write_text(str(listener.getsockname()[1]))
            root_line = f"root:x:0:0:{mark}:/root:/bin/sh\n"
            others = f"{mark}:x:4321:4321::/:/bin/sh\nsomebody:x:4322:4322::/home/{mark}:/bin/sh\n"
            (scratch / f"passwd-{n}").write_text(root_line + others)
            (scratch / f"shm-{n}").mkdir()
            (scratch / f"shm-{n}").chmod(0o1777)
            (scratch / f"group-{n}").write_text(f"root:x:0:\n{mark}:x:4321:\n")
        (scratch / "shm-1" / "state").write_text("text")
        (scratch / "shm-1" / "state").chmod(0o644)
        serve(listener, MARKS[1])

    def missing(self, row: Row) -> str | None:
        """Return why a row cannot be run here."""
        if ROOTLESS and row.change in ROOT_ALONE:
            return "only root can change that"
        if row.change.startswith("xattr") and not self.volumes[0].has_attributes:
            return "the file system has no extended attributes"
        if row.change == "certificate" and not self.volumes[0].has_certificate:
            return "this machine has no two certificates"
        return None

    def container(self, row: Row, place: Path, number: int, live: Path | None) -> Container:
        """Return one of the two containers of a row."""
        container = Container(self.base)
        container.config["hostname"] = "box"
        container.temporary("/mnt")
        container.mount("/modules", place / "modules")
        of_volume = number if row.change in OF_VOLUMES else 0
        if row.change != "statvfs":
            container.mount("/secret", live or self.volumes[of_volume].path)
        container.variables("PYTHONPATH=/modules" + (":/secret" if live else ""))
        container.process["args"] = ["python3", "-c", SAY]
        container.config["annotations"] = {"run.pysbx.preload": "leak"}
        if row.change in CHANGES:
            CHANGES[row.change](container, number, self.volumes[0].path)
        return container

    def run(self, container: Container, place: Path, mode: str) -> tuple[str, str]:
        """Run a container. Return its output, and whether it was warm."""
        container.config["annotations"]["run.pysbx.warm"] = mode
        bundle = place / "bundle"
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(container.config))
        command = [*container.before, RUNTIME, "run", "--bundle", str(bundle), *container.options, f"box-{place.name}"]
        standard_input = place / "input"
        standard_input.write_bytes(container.input or b"")
        with (standard_input if container.input is not None else Path(os.devnull)).open("rb") as source:
            given: dict[str, Any] = {"input": container.input} if container.pipe else {"stdin": source}
            try:
                done = subprocess.run(command, **given, capture_output=True, timeout=PATIENCE_S, check=False)
            except subprocess.TimeoutExpired:
                subprocess.run([RUNTIME, "delete", "--force", command[-1]], check=False)
                return f"exit code: none after {PATIENCE_S} s", "failed"
        says, _, start = done.stdout.decode().rstrip("\n").rpartition("\n")
        if done.returncode != 0:
            return f"exit code {done.returncode}: {done.stdout.decode()}{done.stderr.decode()}", "failed"
        return says, start

    def judge(self, row: Row, number: int) -> tuple[str, list[str]]:
        """Run a row. Return a note, and the failures."""
        reason = self.missing(row)
        if reason:
            return f"{row.name}: not run: {reason}", []
        place = self.scratch / f"row{number}-{os.getpid()}"
        (place / "modules").mkdir(parents=True)
        (place / "modules" / "leak.py").write_text(row.text)
        if not row.change.startswith("live "):
            return self.compare(row, place, None)
        _, way, where, what = row.change.split()
        with tempfile.TemporaryDirectory(dir=place if where == "disk" else "/dev/shm") as top:
            Path(top).chmod(0o755)
            swap = Swap(Path(top) / "swap", way, what)
            note, bad = self.compare(row, place, swap)
        return note, bad

    def compare(self, row: Row, place: Path, swap: Swap | None) -> tuple[str, list[str]]:
        """Run the containers of a row in turn."""
        one, two = (self.container(row, place, n, swap.path if swap else None) for n in (0, 1))
        first_cold, _ = self.run(one, place, "off")
        first = [self.run(one, place, "auto") for _ in range(2)]
        if swap:
            swap.change()
        second = [self.run(two, place, "auto")]
        second_cold, _ = self.run(two, place, "off")
        starts = " ".join(start for _, start in first + second)
        note = f"{row.name}: {starts}"
        if first_cold == second_cold == "None":
            return f"{row.name}: not run: this way is closed here", []
        bad = [f"cold, it says {text}" for text in (first_cold, second_cold) if text.startswith("exit code")]
        if first_cold == second_cold:
            bad.append(f"the row sees no difference: {first_cold}")
        if not row.known:
            bad += [f"A says {says}, cold {first_cold}" for says, _ in first if says != first_cold]
            bad += [f"B says {says}, cold {second_cold}" for says, _ in second if says != second_cold]
        if any(MARKS[0] in says and MARKS[0] not in second_cold for says, _ in second):
            bad.append("which is what A has seen")
        return note, list(dict.fromkeys(bad))


def chosen(group: str, word: str) -> Iterator[tuple[int, Row]]:
    """Return the rows of a group, numbered through all groups."""
    numbers = iter(range(10_000))
    for name, rows in TABLE.items():
        for row in rows:
            number = next(numbers)
            if group == name and word in row.name:
                yield number, row


def main() -> int:
    """Run a group of rows."""
    bundle, group, word = [*sys.argv[1:], ""][:3]
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(Path(bundle), Path(scratch))
        rows = list(chosen(group, word))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for note, bad in pool.map(lambda pair: runs.judge(pair[1], pair[0]), rows):
                print(f"# note: {note}{' WRONG' if bad else ''}", flush=True)
                wrong += [f"{note}: {', '.join(bad)}"] if bad else []
    print(*wrong, f"{len(rows)} rows", sep="\n", file=sys.stderr)
    return int(bool(wrong) or not rows)


if __name__ == "__main__":
    sys.exit(main())
