"""isolation="process": a sandbox without a container, for surroundings that allow no user namespace.

The code runs in a process of its own, in the caller's namespaces and root. Landlock, a filter of system calls, rlimits
and no_new_privs hold it: see `pysbx-runtime confine`. Options that these cannot keep are refused here. THREAT-MODEL.md
lists the other promises that they do not keep. See landlock(7), seccomp(2), getrlimit(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pysbx.base import process_ids, trees
from pysbx.base.directories import entered_directory, private_directory, run_directory
from pysbx.container import bundle, limits, payload
from pysbx.container.interpreter import certificates
from pysbx.container.quotas import Json, allow, argument
from pysbx.errors import LimitsNotEnforceableError, SandboxStartupError
from pysbx.options.declaration import wrong

if TYPE_CHECKING:
    from pysbx.container.interpreter import Interpreter
    from pysbx.options.mount import Mount
    from pysbx.options.options import Options

PROCESS = "process"
REASON = 'isolation="process" has no cgroup'
ENFORCEMENT = limits.Enforcement(dict.fromkeys(limits.CONTROLLERS, "rlimit"), REASON)
# The directory of a run, which its configuration gets when it starts, and what is in it.
HOME = "/.pysbx-directory"
WORK, TEMPORARY = "work", "tmp"
PARTS = (WORK, "output", TEMPORARY)
# The variable that tells the program in the sandbox of it: see inside/paths.py.
VARIABLE = "PYSBX_DIRECTORY"
# Root needs them to give the process a user of its own, and to end it and remove its files then.
NEEDED = {0: "CHOWN", 1: "DAC_OVERRIDE", 5: "KILL", 6: "SETGID", 7: "SETUID"}
# Files of the system that a program may read besides its interpreter: none of them says anything of other processes.
# Those of /proc/self are named one by one: net, mountinfo, cgroup and task describe the caller's machine.
OF_THE_PROCESS = (
    "auxv", "cmdline", "comm", "environ", "fd", "limits", "maps", "smaps", "smaps_rollup", "stat", "statm", "status",
)  # fmt: skip
READABLE = (
    *(f"/proc/self/{name}" for name in OF_THE_PROCESS), "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg",
    "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version",
)  # fmt: skip
DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
# System calls that a container's namespaces make harmless. Without them they reach other processes of the caller's
# user: sockets that Landlock does not know, objects of System V, queues. The last two would let a process leave the
# process group, by which all processes of a sandbox are ended.
SOCKETS = ("accept", "accept4", "bind", "connect", "listen", "sendmmsg")
OWNERS = ("chown", "fchown", "fchownat", "lchown")
QUEUES = ("mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink")
MESSAGES = ("msgctl", "msgget", "msgrcv", "msgsnd")
SEMAPHORES = ("semctl", "semget", "semop", "semtimedop")
SHARED_MEMORY = ("shmat", "shmctl", "shmdt", "shmget")
PROCESSES = ("pidfd_open", "sched_setattr", "setpgid", "setsid")
REFUSED = frozenset((*SOCKETS, *OWNERS, *QUEUES, *MESSAGES, *SEMAPHORES, *SHARED_MEMORY, *PROCESSES))
# Landlock does not know them, and they take a path or a descriptor of any file. To ask is no error, as on file systems
# without modes and times.
WITHOUT_EFFECT = ("chmod", "fchmod", "fchmodat", "futimesat", "utime", "utimensat", "utimes")
# Landlock does not know these either. They tell content and names in places that the code may not read, and watches
# count for the caller's user. The errors are those of file systems and kernels that lack them.
ATTRIBUTES = ("fgetxattr", "flistxattr", "getxattr", "lgetxattr", "listxattr", "llistxattr")
WATCHES = ("inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch")
# Those whose first argument is a process: 0 is the caller itself.
OF_ITSELF = ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler")
# Requests of ioctl(2): of a descriptor itself (FIOCLEX, FIONCLEX, FIONBIO, FIONREAD), and whether it is a terminal
# (TCGETS, TCGETS2, TIOCGWINSZ, TIOCGPGRP). The others change inodes, send signals or reach drivers.
REQUESTS = (0x5401, 0x802C542A, 0x5413, 0x540F, 0x541B, 0x5421, 0x5450, 0x5451)
SOCK_TYPE = 0xF


def check(options: Options) -> None:
    """Refuse limits and surroundings that only a container can keep.

    Raises:
        SandboxOptionError: with the option and the reason.
        LimitsNotEnforceableError: limits="strict", or io_mb_per_sec.
        SandboxStartupError: root lacks capabilities.
    """
    without = f'with isolation="{PROCESS}"'
    if options.allow_network.kind != "none":
        raise wrong("allow_network", f"there is no network of its own {without}: use isolation='container'")
    if options.limits == "strict":
        raise LimitsNotEnforceableError(f"limits='strict', but {REASON}")
    if options.io_mb_per_sec:
        raise LimitsNotEnforceableError(f"io_mb_per_sec, but {REASON}")
    if options.warm == "require":
        raise wrong("warm", f"'require': every interpreter starts cold {without}")
    if options.landlock and json.loads(options.landlock) != bundle.LANDLOCK:
        raise wrong("landlock", f"the ruleset is fixed {without}, because it is the only wall around files")
    if options.workdir != "/work":
        raise wrong("workdir", f"'{options.workdir}': code starts in a new directory {without}")
    for mount in options.mounts:
        if mount.target != mount.source:
            raise wrong("mounts", f"'{mount.source}' cannot be at '{mount.target}' {without}: leave the target out")
    if os.geteuid() == 0:
        missing = [name for number, name in NEEDED.items() if not process_ids.has_capability(number)]
        if missing:
            added = " ".join(f"--cap-add {name}" for name in missing)
            raise SandboxStartupError(
                f"root cannot give the process a user of its own {without}: start the container around this program "
                f"with --user 1000, or with {added}"
            )


def _arguments() -> Iterator[Json]:
    """Yield the rules of system calls that are allowed with certain arguments only."""
    yield from (allow(name, argument(0, "EQ", 0)) for name in OF_ITSELF)
    yield allow("setpriority", argument(0, "EQ", 0), argument(1, "EQ", 0))
    yield from (allow("ioctl", argument(1, "EQ", request)) for request in REQUESTS)
    # A socket for datagrams could send to any path.
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        yield allow("socketpair", argument(0, "EQ", socket.AF_UNIX), argument(1, "MASKED_EQ", SOCK_TYPE, int(kind)))
    yield {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EAFNOSUPPORT}
    for names, number in ((WITHOUT_EFFECT, 0), (ATTRIBUTES, errno.EOPNOTSUPP), (WATCHES, errno.ENOSYS)):
        yield {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number}


def seccomp(options: Options) -> Json:
    """Return the filter of a process: that of a container's, less what its namespaces would have to keep."""
    filtered = bundle.seccomp(options, ENFORCEMENT)
    allowed = {name for rule in filtered["syscalls"] for name in rule["names"]}
    own = [rule for rule in _arguments() if allowed.intersection(rule["names"])]
    ours = REFUSED.union(*(rule["names"] for rule in own))
    others = [{**rule, "names": [name for name in rule["names"] if name not in ours]} for rule in filtered["syscalls"]]
    return {**filtered, "syscalls": [rule for rule in others if rule["names"]] + own}


def _rlimits(options: Options) -> list[Json]:
    """Return the rlimits; `confine` adds the processes that an ordinary user has already. There is no init to count."""
    others = [item for item in limits.rlimits(options, ENFORCEMENT) if item["type"] != "RLIMIT_NPROC"]
    return [*others, limits.allowed("RLIMIT_NPROC", options.max_processes)]


def _configuration(
    options: Options, interpreter: Interpreter, extra: tuple[Mount, ...], paths: tuple[str, ...]
) -> Json:
    """Return config.json of `pysbx-runtime confine`, with HOME in the place of the directory of a run."""
    package = str(payload.directory(lasting=False))
    authorities = certificates(network=False)
    readable = {os.path.realpath(mount.source) for mount in (*interpreter.mounts, *extra, *authorities)}
    given = {os.path.realpath(mount.source): mount.readonly for mount in options.mounts}
    rules = {
        "filesystem": {
            "read": sorted({package, *readable, *(path for path, readonly in given.items() if readonly)})
            + [f"-{path}" for path in READABLE],
            "write": [f"{HOME}/{part}" for part in PARTS] + [path for path, readonly in given.items() if not readonly],
            "device": [f"-{path}" for path in DEVICES],
        },
        "network": {"bind": [], "connect": []},
        "scope": ["abstract-unix-socket", "signal"],
        "enforcement": "required",
    }
    moved = {payload.TARGET + part: package + part for part in ("", payload.PROGRAMS, payload.FIGURES, payload.FONTS)}
    moved |= {"/work": f"{HOME}/{WORK}", "/tmp": f"{HOME}/{TEMPORARY}"}
    moved["/dev/shm/matplotlib"] = f"{HOME}/{TEMPORARY}/matplotlib"
    variables = [f"{VARIABLE}={HOME}"]
    path = [moved.get(part, part) for part in bundle.directories(options, paths)]
    for variable in bundle.environment(options, interpreter, paths):
        name, _, value = variable.partition("=")
        parts = (moved.get(part, part) for part in value.split(":"))
        variables.append(
            variable if name in dict(options.env) and name != "PYTHONPATH" else f"{name}={':'.join(parts)}"
        )
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "/"},
        "process": {
            "user": {"uid": os.geteuid(), "gid": os.getegid(), "umask": 0o022},
            "args": [interpreter.program, *payload.command(isolated=options.isolated, path=path)],
            "env": variables,
            "cwd": f"{HOME}/{WORK}",
            "noNewPrivileges": True,
        },
        "linux": {"seccomp": seccomp(options)},
        "annotations": {"run.pysbx.landlock": json.dumps(rules)},
    }


def prepare(
    options: Options, interpreter: Interpreter, extra: tuple[Mount, ...] = (), paths: tuple[str, ...] = ()
) -> bundle.Bundle:
    """Return the bundle for options and an interpreter; see bundle.prepare."""
    check(options)
    config = json.dumps(_configuration(options, interpreter, extra, paths), sort_keys=True)
    key = hashlib.sha256(config.encode()).hexdigest()[:24]
    path = private_directory(run_directory() / "processes") / key
    path.mkdir(mode=0o700, exist_ok=True)
    if not (path / "config.json").is_file():
        (path / "config.json").touch(mode=0o600)
        (path / "config.json").write_text(config)
    return bundle.Bundle(path, options, ENFORCEMENT)


def _let_in(path: Path, last: Path) -> None:
    """Let the user of root's process look up a path below one of the caller's own directories."""
    for directory in (path, *path.parents):
        directory.chmod(stat.S_IMODE(directory.stat().st_mode) | 0o011)
        if directory == last:
            break


class Home:
    """The directory of one run: what it writes, and its configuration.

    Attributes:
        path: of the directory. The code can write in its parts only, and not replace them.
    """

    def __init__(self, made: bundle.Bundle, name: str) -> None:
        """Create the directory.

        Raises:
            SandboxStartupError: there is no room for it.
        """
        top = private_directory(entered_directory() / "runs")
        self.path = top / name
        self._lock = -1
        _remove_left(top)
        try:
            while not self._own():
                pass
            self._fill(made)
        except OSError as error:
            self.remove()
            raise SandboxStartupError(f"directory '{self.path}': {error.strerror}") from error

    def _own(self) -> bool:
        """Create the directory and lock it; return False if another program took it for one that is left."""
        self.path.mkdir(mode=0o700)
        try:
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(self.path):
            self._lock = lock
            return True
        os.close(lock)
        return False

    def _fill(self, made: bundle.Bundle) -> None:
        config = json.loads((made.path / "config.json").read_text().replace(HOME, json.dumps(str(self.path))[1:-1]))
        process = config["process"]
        process["rlimits"] = _rlimits(made.options)
        for part in PARTS:
            (self.path / part).mkdir(mode=0o700)
        if os.geteuid() == 0:
            user, group = process_ids.ids_of_sandbox(str(self.path).encode())
            process["user"] |= {"uid": user, "gid": group}
            for part in PARTS:
                os.chown(self.path / part, user, group)
            _let_in(self.path, entered_directory())
            _let_in(payload.directory(lasting=False), entered_directory())
        (self.path / "config.json").touch(mode=0o600)
        (self.path / "config.json").write_text(json.dumps(config))

    def remove(self) -> None:
        """Remove the directory; once more is no error. No process of the run may be left."""
        if self._lock >= 0:
            trees.remove(self.path)
            os.close(self._lock)
            self._lock = -1


def _remove_left(top: Path) -> None:
    """Remove the directories of programs that have ended without doing it."""
    for path in top.iterdir():
        with contextlib.suppress(OSError):  # another program removes it just now, or uses it
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                trees.remove(path)
            finally:
                os.close(lock)
