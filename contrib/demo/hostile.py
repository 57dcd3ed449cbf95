"""The hostile program of the demonstration: reach for the host and the network, and fail if anything is within reach.

Usage: hostile.py FILE PORT PID, all of the host: a readable file, a TCP port that accepts connections, a process.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

DISCARD = 9
NOWHERE = "192.0.2.1"
"""An address that RFC 5737 reserves for documentation. Without a route, the kernel refuses it at once."""


def mount_proc() -> None:
    """Mount a new /proc, like a program that looks for the host's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"proc", b"/tmp", b"proc", 0, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> int:
    """Try everything, print the kernel's answers, and return 1 if an attempt succeeds."""
    file, port, pid = sys.argv[1:]
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("read a file of the host", Path(file).read_text),
        ("read the environment of a process of the host", Path(f"/proc/{pid}/environ").read_bytes),
        ("connect to a port of the host", lambda: socket.create_connection(("127.0.0.1", int(port)), 5)),
        (f"connect to {NOWHERE}", lambda: socket.create_connection((NOWHERE, DISCARD), 5)),
        ("create a device node for the disk", lambda: os.mknod("/tmp/disk", stat.S_IFBLK, os.makedev(8, 0))),
        ("mount a file system", mount_proc),
        ("become root", lambda: os.setuid(0)),
        ("write to /usr", Path("/usr/changed").touch),
    ]
    succeeded = 0
    for title, attempt in attempts:
        try:
            attempt()
            answer = "SUCCEEDED"
            succeeded += 1
        except OSError as error:
            answer = error.strerror or str(error)
        print(f"{title:50} {answer}")
    return 1 if succeeded else 0


if __name__ == "__main__":
    sys.exit(main())
