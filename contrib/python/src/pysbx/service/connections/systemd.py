"""The side of a service towards systemd: its socket, the cgroups that it delegates, and messages about the state.

See sd_listen_fds(3) and sd_notify(3), whose protocol a few lines speak, and Delegate= in systemd.resource-control(5).
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

# The first descriptor that is handed on.
FIRST = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
NOTIFY = "NOTIFY_SOCKET"
CGROUPS = Path("/sys/fs/cgroup")
# Of the cgroup of the service itself, below that of its unit. DelegateSubgroup= needs systemd 254.
SUBGROUP = "service"


def inherited() -> socket.socket:
    """Return the socket that systemd has handed on, and that listens already.

    Raises:
        ValueError: there is none, more than one, or it is of another kind.
    """
    given = {name: os.environ.pop(name, "") for name in VARIABLES}
    if given["LISTEN_PID"] != str(os.getpid()) or given["LISTEN_FDS"] != "1":
        raise ValueError(
            "listen: systemd has not handed one socket on: `pysbx service install` makes the units, "
            "or listen at unix:PATH or HOST:PORT"
        )
    found = socket.socket(fileno=os.dup(FIRST))
    os.close(FIRST)
    listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
    if found.type != socket.SOCK_STREAM or not listens or found.family not in families:
        found.close()
        raise ValueError("listen: the socket of systemd is none of ListenStream= with Accept=no")
    return found


def make_room(top: Path = CGROUPS) -> None:
    """Move this process into a cgroup below that of its unit, if systemd has delegated it to this user.

    The runtime makes the cgroups of sandboxes beside that of its caller. A cgroup with controllers for those below it
    may have no processes of its own: see "No Internal Process Constraint" in cgroup-v2.rst.

    Args:
        top: where cgroups are mounted.
    """
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    path = next((line[len("0::/") :] for line in lines if line.startswith("0::/")), "")
    unit = top / path
    with contextlib.suppress(OSError):  # cgroups of version 1, or read-only as in a container: rlimits stand in
        if not path or unit.stat().st_uid != os.geteuid() or os.geteuid() == 0:
            return
        (unit / SUBGROUP).mkdir(exist_ok=True)
        (unit / SUBGROUP / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")


def notify(state: str) -> None:
    """Tell systemd a state, such as READY=1, if it wants to know."""
    address = os.environ.get(NOTIFY, "")
    if not address.startswith(("/", "@")):
        return
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)
