"""Labels of SELinux: a type of the project's policy, and two categories that no other sandbox of this user has.

The policy is the module config/selinux/pysbx.cil. Without it, sandboxes have the label of the program that calls this
package. The kernel is asked through selinuxfs; see selinux(8), and the kernel's security/selinux/selinuxfs.c.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
from functools import cache
from pathlib import Path
from typing import Any

from pysbx.base.directories import run_directory
from pysbx.base.runtime import choose_runtime
from pysbx.errors import SandboxStartupError

Json = dict[str, Any]

SELINUXFS = "/sys/fs/selinux"
MODULE, SHIPPED = "config/selinux/pysbx.cil", "share/pysbx-runtime/selinux/pysbx.cil"
# The labels of a bundle. Those of a sandbox have categories in addition.
PROCESS, WRITER, FILES = (
    f"system_u:{role}:{name}:s0"
    for role, name in (
        ("system_r", "pysbx_sandbox_t"),
        ("system_r", "pysbx_sandbox_writer_t"),
        ("object_r", "pysbx_sandbox_file_t"),
    )
)
CATEGORIES = 1024
# struct flock of fcntl(2): the kind of the lock, whence, the first byte, their number, no process.
FLOCK = struct.Struct("hhqqi4x")
F_OFD_SETLK = 37
TRIES = 1000


def _ask(name: str, question: str) -> bytes:
    """Write a question to a file of selinuxfs and return the answer."""
    descriptor = os.open(f"{SELINUXFS}/{name}", os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(descriptor, question.encode() + b"\0")
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _number(name: str) -> int:
    with open(f"{SELINUXFS}/{name}", encoding="ascii") as file:
        return int(file.read())


def _own() -> str:
    with open("/proc/self/attr/current", encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\0\n")


def _may_start(label: str) -> bool:
    """Tell whether this program may start another one with a label."""
    kind = _number("class/process/index")
    wanted = 1 << (_number("class/process/perms/transition") - 1)
    # allowed, decided, auditallow, auditdeny, sequence, flags; the last bit of these: the domain is permissive
    answer = _ask("access", f"{_own()} {label} {kind} {wanted:x}").split()
    return bool(int(answer[0], 16) & wanted or int(answer[5], 16) & 1)


@cache
def obstacle() -> str:
    """Return why sandboxes have no labels of their own; "" if they have."""
    if not os.path.exists(f"{SELINUXFS}/enforce"):
        return "there is no SELinux on this machine"
    for label in (PROCESS, WRITER, FILES):
        try:
            _ask("context", label)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return f"the policy has no type {label.split(':')[2]}"
            return f"the policy cannot be asked: {error.strerror}"
    try:
        if not all(_may_start(label) for label in (PROCESS, WRITER)):
            return f"the policy does not let '{_own()}' start a program with the type {PROCESS.split(':')[2]}"
    except (OSError, ValueError, IndexError) as error:
        return f"the policy cannot be asked: {error}"
    return ""


def remedy() -> str:
    """Return the command that installs the policy which belongs to the runtime."""
    program = Path(choose_runtime().path)
    shipped = next((place for parent in program.parents if (place := parent / SHIPPED).exists()), MODULE)
    return f"as root: semodule --install {shipped}"


def add(config: Json) -> bool:
    """Add labels without categories to config.json, in place; return False if sandboxes have no labels here."""
    if obstacle():
        return False
    writes = any(mount["type"] == "bind" and "rw" in mount["options"] for mount in config["mounts"])
    config["process"]["selinuxLabel"] = WRITER if writes else PROCESS
    config["linux"]["mountLabel"] = FILES
    return True


def _take_categories() -> tuple[int, str]:
    """Choose a pair of categories that no running sandbox of this user has.

    Returns:
        a descriptor with a lock, which no other process gets while one has it open; and the pair as in a label.
    """
    path = run_directory() / "categories"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for _ in range(TRIES):
        low, high = divmod(int.from_bytes(os.urandom(4), "little") % (CATEGORIES * CATEGORIES), CATEGORIES)
        if low >= high:
            continue
        # Of the open file, not of this process, so that the runtime's process inherits it.
        lock = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, low * CATEGORIES + high, 1, 0)
        try:
            fcntl.fcntl(descriptor, F_OFD_SETLK, lock)
        except (BlockingIOError, PermissionError):  # another sandbox has it
            continue
        except OSError:
            os.close(descriptor)
            raise
        return descriptor, f"c{low},c{high}"
    os.close(descriptor)
    raise SandboxStartupError(f"no pair of SELinux categories is free in {TRIES} tries: too many sandboxes run")


def individual(bundle: Path) -> tuple[int, int]:
    """Return the configuration of one sandbox: that of its bundle, with categories of its own in both labels.

    Args:
        bundle: its directory, with a config.json that add() has labelled.

    Returns:
        descriptors, both for the runtime's process: of a file without a name with the configuration; and of the lock on
        the categories, which end with that process. The caller closes them.

    Raises:
        SandboxStartupError: no categories are free, or there is no room for the file.
    """
    import tempfile  # noqa: PLC0415 (only on machines with SELinux)

    try:
        lock, categories = _take_categories()
        try:
            config = json.loads((bundle / "config.json").read_text())
            config["process"]["selinuxLabel"] += f":{categories}"
            config["linux"]["mountLabel"] += f":{categories}"
            with tempfile.TemporaryFile(dir=run_directory()) as file:
                file.write(json.dumps(config).encode())
                file.flush()
                return os.dup(file.fileno()), lock
        except BaseException:
            os.close(lock)
            raise
    except OSError as error:
        raise SandboxStartupError(f"configuration of a sandbox in '{run_directory()}': {error.strerror}") from error
