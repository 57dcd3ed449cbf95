#!/usr/bin/env python3
"""Compare the privileges of a program cold and warm, for each kind of interpreter in each kind of container.

usage: privileges.py BUNDLE DIRECTORY

DIRECTORY gets copies of the interpreter of the bundle's root, each with another privilege. A row is such a file in a
container of some configuration. The program must print the same in mode off, and in a second start in mode auto. A file
without privilege must start warm, and any other one cold, for a reason that `plan` names. RUNTIME is the runtime.
"""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Change = Callable[[Json], None]
RUNTIME = os.environ["RUNTIME"]
BIND, KILL = "CAP_NET_BIND_SERVICE", "CAP_KILL"
PLACE = "/usr/copies"
INSIDE = "only the container's first process can tell"

SHOW = """
import ctypes, gc, os
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
for line in open("/proc/self/status"):
    if line.startswith(("Uid", "Gid", "Groups", "Cap", "NoNewPrivs")):
        print(line, end="")
print("dumpable", libc.prctl(3), "keeps capabilities", libc.prctl(7), "securebits", libc.prctl(27))
print("secure", libc.getauxval(23), "personality", libc.personality(0xffffffff), os.stat("/proc/self").st_uid)
print("warm" if gc.get_freeze_count() else "cold", file=__import__("sys").stderr)
"""


def capabilities(effective: bool, root: int | None = None) -> bytes:
    """Return an attribute with CAP_NET_BIND_SERVICE, in the form of the kernel's vfs_ns_cap_data."""
    sets = 1 << 10
    head = (0x02000000 if root is None else 0x03000000) | int(effective)
    return struct.pack("<5I", head, sets, 0, 0, 0) + (b"" if root is None else struct.pack("<I", root))


def attribute(value: bytes) -> Callable[[Path], None]:
    """Return a function that gives a file these capabilities."""
    return lambda path: os.setxattr(path, "security.capability", value)


def mode(bits: int, owner: int = 0) -> Callable[[Path], None]:
    """Return a function that gives a file this mode and owner."""

    def change(path: Path) -> None:
        os.chown(path, owner, owner)
        path.chmod(bits)

    return change


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "plain": (mode(0o755), ""),
    "effective": (attribute(capabilities(True)), "has file capabilities"),
    "permitted": (attribute(capabilities(False)), "has file capabilities"),
    "namespaced": (attribute(capabilities(True, 100000)), "has file capabilities"),
    "setuid-root": (mode(0o4755), "set-user-ID"),
    "setuid-other": (mode(0o4755, 4242), "set-user-ID"),
    "setgid": (mode(0o2755, 4242), "set-group-ID"),
}


def grant(permitted: list[str], bounding: list[str], ambient: list[str]) -> Change:
    """Return a function that gives a container these capabilities."""

    def change(config: Json) -> None:
        config["process"]["capabilities"] = {
            **dict.fromkeys(("effective", "permitted"), permitted),
            **dict.fromkeys(("inheritable", "ambient"), ambient),
            "bounding": bounding,
        }

    return change


def user(config: Json) -> None:
    """Run the program as a user."""
    config["process"]["user"] = {"uid": 1000, "gid": 1000}


def no_new_privileges(config: Json) -> None:
    """Set no_new_privs."""
    config["process"]["noNewPrivileges"] = True


def namespace(config: Json) -> None:
    """Give the container a user namespace."""
    config["linux"]["namespaces"].append({"type": "user"})
    config["linux"]["uidMappings"] = config["linux"]["gidMappings"] = [
        {"containerID": 0, "hostID": 100000, "size": 65536}
    ]


def nosuid(config: Json) -> None:
    """Let execve ignore the privileges of the file."""
    next(m for m in config["mounts"] if m["destination"] == PLACE)["options"][-1] = "nosuid"


BOXES: dict[str, list[Change]] = {
    "root": [grant([BIND, KILL], [BIND, KILL], [])],
    "user": [grant([], [BIND, KILL], []), user],
    "user with ambient": [grant([BIND, KILL], [BIND, KILL], [KILL]), user],
    "user, no_new_privs": [grant([BIND, KILL], [BIND, KILL], [KILL]), user, no_new_privileges],
    "user, nosuid": [grant([BIND, KILL], [BIND, KILL], [KILL]), user, nosuid],
    "root of a user namespace": [grant([BIND, KILL], [BIND, KILL], [KILL]), namespace],
}
# Root without no_new_privs would gain CAP_KILL.
GAINS = [grant([BIND], [BIND, KILL], [])]


def be_common_root() -> None:
    """Make root a common user in later programs of this process, with ambient capabilities instead: SECBIT_NOROOT."""
    libc = ctypes.CDLL(None, use_errno=True)
    sets = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    libc.capget(header, sets)
    sets[2], sets[5] = sets[1], sets[4]  # all that are permitted become inheritable
    if libc.capset(header, sets) < 0 or libc.prctl(28, 1) < 0:
        sys.exit("this process cannot give up being root")
    for number in range(64):
        libc.prctl(47, 2, number, 0, 0)


class Bundle:
    """One container after the other, from a configuration."""

    name = "python3"
    box = f"box-{os.getpid()}"

    def __init__(self, path: Path, copies: Path) -> None:
        """Read the configuration, and add the copies to it."""
        self.path = path
        self.common: Json = json.loads((path / "config.json").read_text())
        self.common["process"]["noNewPrivileges"] = False
        self.common["mounts"].append(
            {"destination": PLACE, "type": "bind", "source": str(copies), "options": ["bind", "ro", "suid"]}
        )

    def write(self, changes: list[Change], file: str, warm: str, program: str = SHOW) -> None:
        """Write the configuration of a row."""
        config = json.loads(json.dumps(self.common))
        for change in changes:
            change(config)
        config["annotations"] = {"run.pysbx.warm": warm, "run.pysbx.preload": "ctypes"}
        config["process"]["args"] = self.words(file, program)
        (self.path / "config.json").write_text(json.dumps(config))

    def words(self, file: str, program: str) -> list[str]:
        """Return the command line of a program."""
        return [f"{PLACE}/{file}/{self.name}", "-c", program]

    def call(self, *words: str) -> tuple[list[str], str]:
        """Run a program. Return its exit code and output as lines, and whether it says "warm" or "cold"."""
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        *errors, start = done.stderr.splitlines() or [""]
        return [str(done.returncode), *done.stdout.splitlines(), *errors], start

    def run(self, *prefix: str) -> tuple[list[str], str]:
        """Run the container."""
        return self.call(*prefix, RUNTIME, "run", "--bundle", str(self.path), self.box)

    def plan(self, *prefix: str) -> Json:
        """Return what `plan` says about the start."""
        command = [*prefix, RUNTIME, "plan", "--bundle", str(self.path)]
        warm: Json = json.loads(subprocess.check_output(command, text=True))["warm"]
        return warm

    def compare(self, box: str, changes: list[Change], file: str, reason: str, *prefix: str) -> str:
        """Return what is wrong in a row, or an empty string."""
        self.write(changes, file, "off")
        cold, _ = self.run(*prefix)
        self.write(changes, file, "auto")
        if not reason:
            self.run(*prefix)
        got, start = self.run(*prefix)
        plan = self.plan(*prefix)
        if got != cold:
            return f"{file}, {box}, {start}: {sorted({*got} - {*cold})} instead of {sorted({*cold} - {*got})}"
        seen = reason if reason != INSIDE else ""
        if start != ("cold" if reason else "warm") or plan["start"] != ("cold" if seen else "warm"):
            return f"{file}, {box}: the start was {start}, and the plan is {plan}"
        if seen not in plan.get("reason", ""):
            return f"{file}, {box}: the start was {start}, and the plan is {plan}"
        return ""

    def compare_exec(self, box: str, changes: list[Change], file: str, reason: str) -> str:
        """Do the same with processes of `exec`, in a container that the interpreter keeps alive."""
        self.write(changes, file, "off")
        cold, _ = self.run()
        self.write(changes, file, "auto", "import _signal; _signal.pause()")
        subprocess.run(
            [RUNTIME, "run", "--detach", "--bundle", str(self.path), self.box],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        starts = [self.call(RUNTIME, "exec", self.box, *self.words(file, SHOW)) for _ in range(2)]
        subprocess.run([RUNTIME, "delete", "--force", self.box], check=True)
        wanted = "cold" if reason else "warm"
        if starts[1] != (cold, wanted) or starts[0][0] != cold:
            return f"exec, {file}, {box}: {starts} instead of {cold, wanted}"
        return ""


def main() -> None:
    """Run all rows."""
    copies = Path(sys.argv[2]).resolve()
    bundle = Bundle(Path(sys.argv[1]), copies)
    interpreter = (Path(bundle.common["root"]["path"]) / "usr/bin/python3").resolve()
    Bundle.name = interpreter.name
    for file, (change, _) in FILES.items():
        path = copies / file / interpreter.name
        path.parent.mkdir()
        shutil.copyfile(interpreter, path)
        path.chmod(0o755)
        change(path)
    wrong = [
        bundle.compare(box, changes, file, reason)
        for box, changes in BOXES.items()
        for file, (_, reason) in FILES.items()
    ]
    wrong += [bundle.compare_exec("user", BOXES["user"], file, FILES[file][1]) for file in ("plain", "effective")]
    wrong.append(bundle.compare("root that gains", GAINS, "plain", "more capabilities than it has"))
    # With no_new_privs nothing is gained, but the personality changes.
    changes = [*GAINS, no_new_privileges]
    wrong.append(bundle.compare("root", changes, "plain", ""))
    wrong.append(bundle.compare("root", changes, "plain", "the personality", "setarch", "--addr-no-randomize"))
    mode(0o711)(copies / "plain" / interpreter.name)
    wrong.append(bundle.compare("user who may not read it", BOXES["user"], "plain", INSIDE))
    mode(0o755)(copies / "plain" / interpreter.name)
    # The file gets its capabilities when there is a snapshot.
    attribute(capabilities(True))(copies / "plain" / interpreter.name)
    wrong.append(bundle.compare("user, later", BOXES["user"], "plain", "has file capabilities"))
    os.removexattr(copies / "plain" / interpreter.name, "security.capability")
    be_common_root()
    wrong.append(bundle.compare("root, noroot", BOXES["root"], "plain", ""))
    print(len(wrong), "rows")
    if any(wrong):
        sys.exit("\n".join(filter(None, wrong)))


if __name__ == "__main__":
    main()
