"""The state that a fork of a session copies besides its memory, and the state that it cannot copy.

A function that prewarmed interpreters get copies the process, and the runtime saves the copy. The runtime refuses the
state that it can see from outside: open files, shared memory. This module handles the state that only the process
knows.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import stat
from collections.abc import Callable
from typing import Any

import msgpack

from .channel import Channel, Message

# As os.fork(), but the child writes the bytes to the descriptor, closes it, and waits to be saved: what returns 0 has
# been restored, with standard streams of its own.
Copy = Callable[[int, bytes], int]

# Private to a sandbox, and in memory.
DIRECTORIES = ("/work", "/output", "/tmp", "/dev/shm")
# The first process of a sandbox, which is not the worker: an init of the runtime (`pysbx-runtime run --init`).
INIT = 1
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
ENTRY_SIZE = 128


class NotCopied(Exception):
    """A part of the state cannot be copied; the text names it and the remedy."""


def _processes(own: set[int]) -> list[str]:
    """Return the processes of the sandbox that live, by number and name."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
                about, end, state = file.read().rpartition(") ")
        except OSError:  # it has ended
            continue
        if int(number) not in own and state[0] not in "ZX":
            found.append(about + end.strip())
    return found


def check(own: set[int]) -> None:
    """Raise NotCopied if a copy of this process would lack something that it counts on.

    Args:
        own: numbers of the processes that are ours, besides the init.
    """
    processes = _processes(own | {INIT})  # first: a process in the background has a thread here
    if processes:
        raise NotCopied(f"process {processes[0]} is running: end it")
    if _thread._count():
        raise NotCopied("a thread is running: end it")
    if any(signal.getitimer(timer)[0] for timer in TIMERS):
        raise NotCopied("a timer is running (signal.alarm, signal.setitimer): cancel it")


def park(copy: Copy | None, channel: Channel, own: set[int]) -> int:
    """Create a copy of this process, which itself tells the host that it exists.

    Returns:
        its number; or 0, in the copy, when it goes on in another sandbox.

    Raises:
        NotCopied, OSError: there is no copy.
    """
    if copy is None:
        raise NotCopied("it was started cold")
    check(own)
    pid = copy(channel.descriptor, channel.frame({"parked": True}))
    if pid == 0:
        channel.attach()
    return pid


def collect(parked: int, limit: int) -> Message:
    """End the copy, which has been saved by now or cannot be saved, and return the rest of its state."""
    if parked:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # where the code ignores SIGCHLD
            os.kill(parked, signal.SIGKILL)
            os.waitpid(parked, 0)
    umask = os.umask(0)
    os.umask(umask)
    try:
        return {"files": pack(limit), "cwd": os.getcwd(), "umask": umask}
    except (NotCopied, OSError) as error:
        return {"refused": str(error)}


def go_on(request: Message) -> Message:
    """Restore, in the fork, the state that collect() has returned."""
    try:
        unpack(request["files"])
        os.chdir(request["cwd"])
        os.umask(request["umask"])
    except OSError as error:
        return {"refused": str(error)}
    return {}


def _entry(path: str, about: os.stat_result) -> list[Any]:
    content: bytes | str | None = None
    if stat.S_ISLNK(about.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            content = file.read()
    elif not stat.S_ISDIR(about.st_mode):
        raise NotCopied(f"'{path}' is neither a file nor a directory nor a link: remove it")
    return [path, stat.S_IMODE(about.st_mode), about.st_mtime_ns, content]


def pack(limit: int) -> bytes:
    """Return the content of the private directories, without mounts, which the fork has as well.

    Args:
        limit: bytes at most.

    Raises:
        NotCopied: there is more, or a file of another kind.
        OSError: something cannot be read.
    """
    entries = []
    size = 0

    def refuse(error: OSError) -> None:
        raise error

    for top in DIRECTORIES:
        device = os.lstat(top).st_dev
        for directory, names, files in os.walk(top, onerror=refuse):
            for name in (*names, *files):
                path = os.path.join(directory, name)
                about = os.lstat(path)
                if about.st_dev != device:
                    if name in names:
                        names.remove(name)
                    continue
                size += ENTRY_SIZE + len(path) + (0 if stat.S_ISDIR(about.st_mode) else about.st_size)
                if size > limit:
                    raise NotCopied(f"its files are larger than {limit} bytes: remove some, or raise answer_limit")
                entries.append(_entry(path, about))
    packed: bytes = msgpack.packb(entries, unicode_errors="surrogatepass")
    return packed


def unpack(packed: bytes) -> None:
    """Make the files again, in a sandbox that has none yet."""
    entries = msgpack.unpackb(packed, raw=False, unicode_errors="surrogatepass")
    for path, _, _, content in entries:
        if content is None:
            os.makedirs(path, exist_ok=True)
        elif isinstance(content, str):
            os.symlink(content, path)
        else:
            with open(path, "xb") as file:
                file.write(content)
    # The innermost first: a new file in a directory changes its time, and its mode may forbid new files.
    for path, mode, modified, content in reversed(entries):
        if not isinstance(content, str):
            os.chmod(path, mode)
        os.utime(path, ns=(modified, modified), follow_symlinks=False)
