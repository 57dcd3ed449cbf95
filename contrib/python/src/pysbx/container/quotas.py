"""A sandbox's part of the resources that the kernel counts for the calling user of the host, not for the container.

Where the kernel has a bound for each user namespace, a sandbox gets a small part of the caller's. Where it has none,
THREAT-MODEL.md says so.
See proc_sys_user(5), getrlimit(2), unix(7), pipe(7), seccomp(2).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

# This number of sandboxes leaves something for the user's other programs. By default at most 32 calls run at once.
SHARE = 64
OPEN_FILES = 512
MOST_SIGNALS, LEAST_SIGNALS = 1024, 16
# The most descriptors in one message of unix(7). Processes that send at the same time all pass the check with so many.
DESCRIPTORS_OF_A_MESSAGE = 253
# The default size of a pipe.
PIPE_SIZE = 64 * 1024
F_SETPIPE_SZ = 1031
# The commands of fcntl(2) that programs need: duplicates, flags, locks, the size of a pipe, seals and hints. The others
# send signals when a file changes, or hold a lease. With a lease on a file that is mounted read-only, every process
# of the host that opens the file waits, for /proc/sys/fs/lease-break-time.
COMMANDS = (*range(8), 36, 37, 38, 1030, *range(F_SETPIPE_SZ + 1, F_SETPIPE_SZ + 8))


def number_in(path: str) -> int:
    """Return the number in a file of /proc/sys, or one that bounds nothing."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1 << 31


def _share_of(user: str, system: str) -> str:
    """Return a sandbox's part of a counter of the caller's user: at least one, for zero is an error of its own."""
    most = min(number_in(f"/proc/sys/user/{user}"), number_in(f"/proc/sys/fs/inotify/{system}"))
    return str(max(1, most // SHARE))


def parameters() -> dict[str, str]:
    """Return linux.sysctl of the user namespace: a part of inotify, and none of the objects that seccomp refuses too.

    Without a user namespace a sandbox has no capability for any other kind of namespace.
    """
    found = {
        "user.max_inotify_instances": _share_of("max_inotify_instances", "max_user_instances"),
        "user.max_inotify_watches": _share_of("max_inotify_watches", "max_user_watches"),
        "user.max_user_namespaces": "0",
        "user.max_fanotify_groups": "0",
    }
    # Linux 5.13 counts fanotify, and a kernel may have neither.
    return {name: value for name, value in found.items() if os.path.exists(f"/proc/sys/{name.replace('.', '/')}")}


def rlimits() -> dict[str, int]:
    """Return the rlimits that bound the resources that are counted for a user."""
    pending = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    share = MOST_SIGNALS if pending == resource.RLIM_INFINITY else min(pending // SHARE, MOST_SIGNALS)
    return {
        "RLIMIT_SIGPENDING": max(share, LEAST_SIGNALS),
        # Also of what is in flight between sockets: see unix(7), ETOOMANYREFS.
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_MSGQUEUE": 0,
    }


def allow(name: str, *arguments: Json) -> Json:
    """Return a rule of seccomp that allows a system call with such arguments."""
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": list(arguments)}


def argument(index: int, relation: str, value: int, other: int = 0) -> Json:
    """Return a condition on an argument of a system call, for a rule of seccomp."""
    return {"index": index, "value": value, "valueTwo": other, "op": f"SCMP_CMP_{relation}"}


def conditional() -> Mapping[str, list[Json]]:
    """Return the system calls that are allowed with certain arguments only, and their rules.

    It is fcntl(2). The list has the allowed commands and not the refused ones: the kernel reads 32 bits of a command,
    the filter 64. No command makes a pipe larger.
    """
    return {
        "fcntl": [
            *(allow("fcntl", argument(1, "EQ", command)) for command in COMMANDS),
            allow("fcntl", argument(1, "EQ", F_SETPIPE_SZ), argument(2, "LE", PIPE_SIZE)),
        ]
    }
