"""Note what a container gives to its process, before another container continues it (checkpoint and restore).

The agent compiles this text with resume.py, into one namespace. A snapshot has memory. User, limits, mounts and the
like are the container's own: a program that has changed its own would lose that in the next container. Regular files
that are open are opened again there.
"""

import posix
import sys

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

_thread, _signal = sys.modules["_thread"], sys.modules["_signal"]
TIMERS = _signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF

# The names of these lines of /proc/self/status.
STATUS_LINES = (
    *(b"Name", b"Uid", b"Gid", b"Groups", b"NoNewPrivs", b"Seccomp", b"Seccomp_filters"),
    *(b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb"),
)

# Those of the program at its beginning, if a module has the function that parks; else nothing.
SURROUNDINGS: "list[dict[str, object]]" = []
# Where it is to go on: its directory and umask.
KEPT_PLACE: "list[Any]" = []
# The files that it has open: descriptor, path, flags, position, size and whether it is inheritable.
FILES: "list[tuple[int, str, int, int, int, bool]]" = []
# Flags with which such a file is opened again (O_ACCMODE), and those that do not count (O_LARGEFILE, O_CLOEXEC).
PLAIN_FLAGS, OTHER_FLAGS = 0o3 | posix.O_APPEND, 0o2100000
REGULAR, KIND = 0o100000, 0o170000  # of stat(2)
SEEK_SET, SEEK_CUR = 0, 1


def read_whole(path: str) -> bytes:
    descriptor = posix.open(path, posix.O_RDONLY)
    try:
        return b"".join(iter(lambda: posix.read(descriptor, 1 << 16), b""))
    finally:
        posix.close(descriptor)


def find_surroundings() -> "dict[str, object]":
    """Return what the container has given to this process, by name. Raises OSError without /proc."""
    found: dict[str, object] = {
        "resource limits": read_whole("/proc/self/limits"),
        "mounts": read_whole("/proc/self/mountinfo"),
    }
    for line in read_whole("/proc/self/status").splitlines():
        name, _, value = line.partition(b":")
        if name in STATUS_LINES:
            found[f"'{name.decode()}' in /proc/self/status"] = value
    for kind in posix.listdir("/proc/self/ns"):
        found[f"namespace '{kind}'"] = posix.readlink(f"/proc/self/ns/{kind}")
    return found


def note_surroundings() -> None:
    """Note those of a program that may park, at its beginning."""
    if SURROUNDINGS:
        try:
            SURROUNDINGS[0] = find_surroundings()
        except OSError:
            SURROUNDINGS[0] = {}


def find_obstacle() -> "str | None":
    """Return why another container could not continue this process. Note where it is to go on, and its files."""
    if _thread._count():
        return "a thread of Python is running: end it"
    if any(_signal.getitimer(timer)[0] for timer in TIMERS):
        return "a timer runs (setitimer, alarm): cancel it"
    if not SURROUNDINGS[0]:
        return "the container has no /proc"
    try:
        surroundings = find_surroundings()
        umask = posix.umask(0)
        posix.umask(umask)
        KEPT_PLACE[:] = posix.getcwd(), umask
        found = [file for file in map(describe_file, map(int, posix.listdir("/proc/self/fd"))) if file]
        FILES[:] = [file for file in found if not shares_position(file, found)]
    except OSError as error:
        return f"its working directory and /proc: {error}"
    for name, value in surroundings.items():
        if SURROUNDINGS[0].get(name) != value:
            return f"it has changed its {name}, which a restored container has as configured"
    return None


def describe_file(number: int) -> "tuple[int, str, int, int, int, bool] | None":
    """Describe a regular file that can be opened again: without locks, and not removed."""
    if number <= 2:
        return None
    try:
        about, path = posix.fstat(number), posix.readlink(f"/proc/self/fd/{number}")
        lines = read_whole(f"/proc/self/fdinfo/{number}").splitlines()
        info = {line.partition(b":")[0]: line.partition(b":")[2] for line in lines}
        flags = int(info[b"flags"], 8) & ~OTHER_FLAGS
        if about.st_mode & KIND != REGULAR or flags & ~PLAIN_FLAGS or b"lock" in info or path.startswith("/proc/"):
            return None
        posix.close(posix.open(path, flags))
        found = posix.stat(path)
        if (found.st_dev, found.st_ino) != (about.st_dev, about.st_ino):
            return None
        return number, path, flags, int(info[b"pos"]), about.st_size, posix.get_inheritable(number)
    except OSError:  # the descriptor of the list itself; or the file is gone, or may not be read any more
        return None


def shares_position(file: "tuple[int, str, int, int, int, bool]", files: "list[Any]") -> bool:
    """Tell whether two descriptors have one position, which files that are opened again would not have."""
    number, _, _, position, _, _ = file
    posix.lseek(number, position + 1, SEEK_SET)
    try:
        return any(posix.lseek(other[0], 0, SEEK_CUR) != other[3] for other in files if other != file)
    finally:
        posix.lseek(number, position, SEEK_SET)


def numbers_of_files() -> "list[int]":
    """Return the descriptors that the process to be saved closes."""
    return [file[0] for file in FILES]


def settle_in() -> None:
    """Go on in another container. Raises OSError if it has no such directory or file, or a file of another size."""
    directory, umask = KEPT_PLACE
    posix.umask(umask)
    note_surroundings()
    posix.chdir(directory)
    for number, path, flags, position, size, inheritable in FILES:
        about = posix.stat(path)
        if about.st_mode & KIND != REGULAR:  # to open a FIFO could take forever
            raise OSError(f"'{path}' is no regular file any more")
        if about.st_size != size:
            raise OSError(f"the size of '{path}' is not the one at the checkpoint")
        made = posix.open(path, flags)
        posix.lseek(made, position, SEEK_SET)
        if made != number:
            posix.dup2(made, number)
            posix.close(made)
        posix.set_inheritable(number, inheritable)
