"""The side of a service towards systemd: the socket that it hands on, and messages about the state.

See sd_listen_fds(3) and sd_notify(3), whose protocol a few lines speak.
"""

from __future__ import annotations

import contextlib
import os
import socket

# The first descriptor that is handed on.
FIRST = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
NOTIFY = "NOTIFY_SOCKET"


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
    if (
        found.type != socket.SOCK_STREAM
        or not listens
        or found.family not in (*(socket.AF_UNIX, socket.AF_INET, socket.AF_INET6),)
    ):
        found.close()
        raise ValueError("listen: the socket of systemd is none of ListenStream= with Accept=no")
    return found


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
