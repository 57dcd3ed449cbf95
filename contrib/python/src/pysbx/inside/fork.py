"""The state that a fork of a session copies besides its memory, and the state that it cannot copy.

A function that prewarmed interpreters get copies the process, and the runtime saves the copy. The runtime refuses the
state that it can see from outside: open files, shared memory. This module handles the state that only the process
knows.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import gc
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgpack

from . import late
from .channel import Channel, Message
from .packages import SITE

# As os.fork(), but the child writes the bytes to the descriptor, closes it, and waits to be saved: what returns 0 has
# been restored, with standard streams of its own.
Copy = Callable[[int, bytes], int]

# Private to a sandbox, and in memory.
DIRECTORIES = ("/work", "/output", "/tmp", "/dev/shm")
# The first process of a sandbox, which is not the worker: an init of the runtime (`pysbx-runtime run --init`).
INIT = 1
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
ENTRY_SIZE = 128
MAX_NAME, MAX_NAMED = 80, 5
# A terminal that is closed gives its programs half a second to end.
ENDING_SEC, LOOK_SEC = 1.0, 0.005


POLARS = (
    "polars has started threads and cannot go on without them: fork before the session uses it, or run polars in a "
    "process that ends"
)
# Flags of a descriptor that mean nothing after open(2): O_LARGEFILE, and that of tempfile and SQLite.
PAST = 0o100000 | os.O_NOFOLLOW
# Those with which a file can be opened again.
FLAGS = os.O_ACCMODE | os.O_APPEND
# The first bytes of a database: https://sqlite.org/fileformat.html#the_database_header.
DATABASE = b"SQLite format 3\0"


ABOUT_COPIES = ("forked", "drop")


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


def _is_copy(process: str) -> bool:
    """Tell whether a process is a fork of this one that has executed no program, or ends."""
    found = []
    for number in ("self", process.split(maxsplit=1)[0]):
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as file:
            found.append(file.read())
    return found[-1] in (b"", found[0])  # it has no memory any more while it ends


def _remaining(own: set[int]) -> list[str]:
    """Return the processes that live, after those have ended that connected a command or a terminal with the host.

    Such a process is a copy of this one. It goes on for a moment after the host has heard of the end, and so do the
    programs of a terminal that is closed. A program that runs comes first, because it is what its user can end.
    """
    deadline = time.monotonic() + ENDING_SEC
    while any(map(_is_copy, found := _processes(own))) and time.monotonic() < deadline:
        time.sleep(LOOK_SEC)
    return sorted(found, key=_is_copy)


class _Open(NamedTuple):
    """A file that is open, and can be opened again."""

    descriptor: int
    path: str
    flags: int
    position: int
    inheritable: bool

    def reopen(self) -> None:
        """Open it again under its number, which is free. That of a FIFO could take forever."""
        if not stat.S_ISREG(os.stat(self.path).st_mode):
            raise NotCopied(f"'{self.path}' is no regular file any more")
        made = os.open(self.path, self.flags)
        os.lseek(made, self.position, os.SEEK_SET)
        if made != self.descriptor:
            os.dup2(made, self.descriptor)
            os.close(made)
        os.set_inheritable(self.descriptor, self.inheritable)


def _open_files(own: int) -> list[_Open]:
    """Return the regular files that are open without locks, and are still there.

    A file that is open for writing must be one that the copy gets too. Descriptors that share a position are left out:
    opened again, they would not.
    """
    found: dict[int, _Open] = {}
    for number in map(int, os.listdir("/proc/self/fd")):
        if number <= 2 or number == own:
            continue
        try:
            about, path = os.fstat(number), os.readlink(f"/proc/self/fd/{number}")
            opened = fcntl.fcntl(number, fcntl.F_GETFL)
            flags = opened & ~PAST
            with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
                locked = "lock:" in file.read()
            if flags & ~FLAGS or locked or not stat.S_ISREG(about.st_mode) or path.startswith("/proc/"):
                continue
            if flags != os.O_RDONLY and not _is_private(path, DIRECTORIES):
                continue
            if "_sqlite3" in sys.modules:
                _check_database(number, path, opened)
            os.close(os.open(path, flags))
            if os.path.samestat(os.stat(path), about):
                position, inheritable = os.lseek(number, 0, os.SEEK_CUR), os.get_inheritable(number)
                found[number] = _Open(number, path, flags, position, inheritable)
        except OSError:  # that of the listing itself; or the file is gone, or may not be read any more
            continue
    return [one for one in found.values() if not _shares_position(one, found)]


def _check_database(number: int, path: str, opened: int) -> None:
    """Raise NotCopied for a database of SQLite, which refuses to write to another inode than it has opened."""
    if opened & os.O_ACCMODE != os.O_RDWR:
        return
    start = os.pread(number, len(DATABASE), 0)
    if start == DATABASE or (not start and opened & os.O_NOFOLLOW):  # that of a new one is empty
        raise NotCopied(f"the database '{path}' is open: close it, and connect again afterwards")


def _shares_position(one: _Open, others: dict[int, _Open]) -> bool:
    os.lseek(one.descriptor, one.position + 1, os.SEEK_SET)
    try:
        return any(
            os.lseek(other.descriptor, 0, os.SEEK_CUR) != other.position for other in others.values() if other != one
        )
    finally:
        os.lseek(one.descriptor, one.position, os.SEEK_SET)


# The files that the copy had open. They are opened again when it has files of its own.
_to_open: list[_Open] = []


def _is_private(path: str, directories: tuple[str, ...]) -> bool:
    """Tell whether a file is in memory of this sandbox alone, in one of its directories, and not in a mount there."""
    with contextlib.suppress(OSError):  # it has been removed
        for top in directories:
            if path.startswith(f"{top}/") and os.lstat(path).st_dev == os.lstat(top).st_dev:
                return True
    return False


def _mappings() -> str:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return file.read()


def _check_libraries() -> None:
    """Raise NotCopied for what libraries leave behind, and no error of the runtime would name."""
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    found = [os.readlink(path) for path in links if os.path.lexists(path)]  # without that of the listing
    if "polars" in sys.modules and "anon_inode:[eventpoll]" in found:
        raise NotCopied(POLARS)
    mappings = _mappings()
    if "/dev/shm/sem." in mappings:
        gc.collect()  # the program may not use it any more
        mappings = _mappings()
        if "/dev/shm/sem." in mappings:
            raise NotCopied(
                "a semaphore of multiprocessing is open: end the pool with close() and join(), and delete it"
            )
    places = (*DIRECTORIES, SITE)
    lines = mappings.split("\n") if any(f" {top}/" in mappings for top in places) else []
    for _, mode, *_, path in (line.split(maxsplit=5) for line in lines if "/" in line):
        if "x" in mode and _is_private(path, places):
            raise NotCopied(f"'{path}' is loaded as code: start another session with that package")


def _check_tracker(processes: list[str]) -> None:
    tracker: Any = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    if processes[0].split()[0] == str(getattr(tracker, "_pid", None)):
        raise NotCopied(
            f"process {processes[0]} is multiprocessing's resource tracker: unlink shared memory, and end it with "
            "multiprocessing.resource_tracker._resource_tracker._stop()"
        )


def check(own: set[int]) -> None:
    """Raise NotCopied if a copy of this process would lack something that it counts on.

    Args:
        own: numbers of the processes that are ours, besides the init.
    """
    processes = _remaining(own | {INIT})  # first: a process in the background has a thread here
    if processes:
        _check_tracker(processes)
        raise NotCopied(f"process {processes[0]} is running: end it")
    if _thread._count():
        # A thread of C code or of _thread has no name.
        found = getattr(sys.modules.get("threading"), "_active", {}).values()
        named = ", ".join(str(one.name)[:MAX_NAME] for one in list(found)[:MAX_NAMED] if one.name != "MainThread")
        raise NotCopied(f"a thread is running{f' ({named})' if named else ''}: end it")
    if any(signal.getitimer(timer)[0] for timer in TIMERS):
        raise NotCopied("a timer is running (signal.alarm, signal.setitimer): cancel it")
    _check_libraries()


def _notebook() -> Any:
    """Return the module that may have an event loop, or None."""
    return sys.modules.get(f"{__package__}.notebook")


@contextlib.contextmanager
def _without_reports_of_closed_files() -> Iterator[None]:
    """Hide errors of libraries that close their files after a fork. matplotlib does so with fonts."""
    hook = sys.unraisablehook

    def report(about: Any) -> None:
        if getattr(about.exc_value, "errno", None) != errno.EBADF:  # the copy has none open yet
            hook(about)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook


def park(copy: Copy | None, channel: Channel, own: set[int]) -> int:
    """Create a copy of this process, which itself tells the host that it exists.

    Returns:
        its number; or 0, in the copy, when it goes on in another sandbox.

    Raises:
        NotCopied, OSError: there is no copy.
    """
    if copy is None:
        raise NotCopied("it was started cold")
    pid = -1
    try:
        if notebook := _notebook():
            notebook.rest()
        check(own)
        late.forget()
        _to_open[:] = _open_files(channel.descriptor)
        for one in _to_open:
            os.close(one.descriptor)
        with _without_reports_of_closed_files():
            pid = copy(channel.descriptor, channel.frame({"parked": True}))
    finally:
        if pid:
            _open_again()
    if pid == 0:
        channel.attach()
        late.begin()
    return pid


def _open_again() -> None:
    """Open what was closed for the copy. The numbers of the files come first: those of an event loop may be any."""
    while _to_open:
        _to_open.pop().reopen()
    if notebook := _notebook():
        notebook.wake()


def forget(parked: dict[int, int]) -> None:
    """Take the copies that have ended out of the others: the runtime has saved and killed them."""
    for number, pid in tuple(parked.items()):
        with contextlib.suppress(ChildProcessError):  # where the code ignores SIGCHLD, or waits for any child
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        del parked[number]


def answer(request: Message, parked: dict[int, int]) -> Message:
    """Answer a request about copies: return the rest of the state, or end one that will not be saved."""
    if request["op"] == "forked":
        return collect(request["limit"], request["more"], lasting=request["lasting"])
    if request["copy"] in parked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(parked[request["copy"]], signal.SIGKILL)
    return {}


def collect(limit: int, more: str, *, lasting: bool) -> Message:
    """Return the rest of the state of the copy that was made just now.

    Args:
        limit: bytes of files at most.
        more: how there may be more, for an error.
        lasting: whether libraries may be replaced until the copy goes on.
    """
    umask = os.umask(0)
    os.umask(umask)
    try:
        state = {"files": pack(limit, more), "cwd": os.getcwd(), "umask": umask}
        return state | {"modules": _modules()} if lasting else state
    except (NotCopied, OSError) as error:
        return {"refused": str(error)}


def _stamp(path: str) -> list[int]:
    about = os.stat(path)
    return [about.st_size, about.st_mtime_ns]


def _modules() -> dict[str, list[int]]:
    """Return size and time of the files of the modules: code that is imported later may count on the same version.

    The host compares those of the package itself.
    """
    own = f"{os.path.dirname(os.path.dirname(__file__))}/"
    found = {}
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith("/") and not path.startswith(own):
            with contextlib.suppress(OSError, ValueError):  # in an archive, or removed
                found[path] = _stamp(path)
    return found


def _check_modules(stamps: dict[str, list[int]]) -> None:
    """Raise NotCopied if a module that is imported has another file now."""
    for path, stamp in stamps.items():
        try:
            same = _stamp(path) == stamp
        except OSError as error:
            raise NotCopied(f"'{path}': {error.strerror}: it was imported when the session was saved") from None
        if not same:
            raise NotCopied(f"'{path}' is not the file that it was when the session was saved")


def go_on(request: Message) -> Message:
    """Restore, in the fork, the state that collect() has returned."""
    try:
        unpack(request["files"])
        _check_modules(request.get("modules", {}))
        os.chdir(request["cwd"])
        os.umask(request["umask"])
        _open_again()
    except (OSError, NotCopied) as error:
        return {"refused": str(error)}
    _draw_anew()
    return {}


def _draw_anew() -> None:
    """Let uuid.uuid1() differ: libuuid keeps what it has drawn, and a Python without it keeps the node."""
    uuid: Any = sys.modules.get("uuid")
    with contextlib.suppress(AttributeError, TypeError):  # a module of the user's may have this name
        uuid._generate_time_safe = None
        uuid._node = int.from_bytes(os.urandom(6), "big") | 1 << 40  # RFC 9562: a random node is a multicast address


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


def pack(limit: int, more: str) -> bytes:
    """Return the content of the private directories, without mounts, which the fork has as well.

    Args:
        limit: bytes at most.
        more: see collect.

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
                    raise NotCopied(f"its files are larger than {limit} bytes: remove some, or {more}")
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
