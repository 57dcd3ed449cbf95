"""Remove the containers of this program when it has ended, even by SIGKILL.

A small separate process holds one end of a pipe. Only this program has the other end, so the kernel closes it in every
case. Then every container whose name begins with our prefix is deleted. The prefix has our process number in it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from pysbx.base import runtime

# The program of the watcher, for an interpreter without site. It looks again until no container has appeared for a
# while, because a runtime that is just starting has not written its record yet. The builder of a snapshot, whose name
# has a colon, is removed with its container. The number of rounds is bounded, because a removal may fail each time.
PROGRAM = """
import os, sys, time
runtime, root, prefix = sys.argv[1:]
os.read(0, 1)
quiet = rounds = 0
while quiet < 10 and rounds < 3000:
    found = [name for name in os.listdir(root) if name.startswith(prefix)]
    for name in found:
        os.spawnv(os.P_WAIT, runtime, [runtime, "--root", root, "delete", "--force", name.partition(":")[0]])
    quiet, rounds = 0 if found else quiet + 1, rounds + 1
    time.sleep(0.1)
"""

# It waits for its own children.
DEFAULT = (signal.SIGCHLD,)
_lock = threading.Lock()
_prefix = ""
_pipe = -1


def prefix() -> str:
    """Return the prefix of the names of this process's containers; start the watcher if it does not run yet."""
    if _prefix:
        return _prefix
    with _lock:
        return _prefix or _start()


def owns(name: str) -> bool:
    """Tell whether this process has started a container, and not the one of which it is a fork."""
    return bool(_prefix) and name.startswith(_prefix)


def _start() -> str:
    global _prefix, _pipe
    name = f"python-{os.getpid()}-{os.urandom(4).hex()}-"
    read, write = os.pipe()
    program = [sys.executable, "-IBS", "-c", PROGRAM, runtime.find_runtime(), runtime.state_root(), name]
    actions = [
        (os.POSIX_SPAWN_DUP2, read, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        # In a process group of its own, so that Ctrl-C at a terminal does not reach it.
        os.posix_spawn(program[0], program, runtime.environment(), file_actions=actions, setpgroup=0, setsigdef=DEFAULT)
    finally:
        os.close(read)
    _prefix, _pipe = name, write
    return name


def _forget() -> None:
    """In a fork, the containers belong to the parent; the fork's own ones get another prefix and another watcher."""
    global _prefix, _pipe, _lock
    if _pipe >= 0:
        os.close(_pipe)
    _prefix, _pipe, _lock = "", -1, threading.Lock()


os.register_at_fork(after_in_child=_forget)
