"""Look at files, and at files of the kernel, for the probe. Nothing here is noted.

The runtime compares what these functions return with what it finds in a container: runtime/warm/content.h, question.h.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import posix
    import sys
    from typing import Any

VALUE_MAX = 16 * 1024  # CONTENT_VALUE_MAX of runtime/warm/content.h
NO_FILE = b"0"  # answer to the question "kind PATH"
OWN_FILES = b".pysbx"
LEFT: "set[str]" = set()  # files that the imports have left in directories of bootstrap.py's TEMPORARY


def changed_at(path: str) -> int:
    """Return the change time of a file, directory or link; 0 for other types, or if there is none."""
    try:
        status = posix.lstat(path)
    except (OSError, ValueError):
        return 0
    kind = status.st_mode & 0o170000
    return status.st_ctime_ns if kind in (0o100000, 0o040000, 0o120000) else 0


def kind_of(path: str) -> str:
    """Return the letter of the record: for a directory, a file (of any other type), or an absent path."""
    try:
        return "d" if posix.stat(path).st_mode & 0o170000 == 0o040000 else "f"
    except (OSError, ValueError):
        return "a"


def is_directory(path: str) -> bool:
    """Do the same as os.path.isdir(), because os may not be imported."""
    return kind_of(path) == "d"


def is_link(path: str) -> bool:
    """Do the same as os.path.islink()."""
    try:
        return posix.lstat(path).st_mode & 0o170000 == 0o120000
    except (OSError, ValueError):
        return False


def closed_by(path: str) -> "str | None":
    """Return the directory that forbids this process to look at the path, or None."""
    closed = None
    while path != "/":
        try:
            posix.lstat(path)
        except PermissionError:
            closed = path = path.rpartition("/")[0] or "/"
            continue
        except (OSError, ValueError):
            pass
        break
    return closed


def is_hidden(path: str) -> bool:
    """Tell whether a file of /proc or /sys, or a directory above it, is hidden by another mount, as by lxcfs."""
    try:
        return posix.lstat(path).st_dev != posix.stat("/".join(path.split("/", 2)[:2])).st_dev
    except OSError:
        return False


def kernel_value(path: str) -> bytes:
    """Return the content of a file of the kernel, as content_kernel_value() in runtime/warm/content.h."""
    try:
        is_listed = posix.stat(path).st_mode & 0o170000 == 0o040000
        return (b"d" + list_names(path) if is_listed else b"f" + read_file(path))[:VALUE_MAX]
    except (FileNotFoundError, NotADirectoryError):
        return b"a"
    except OSError:
        return b"x"


def answer(question: str) -> bytes:
    """Return the answer to a question, as question_answer() in runtime/warm/question.h."""
    name, _, rest = question.partition(" ")
    if name == "limit":
        import resource

        return b"%d %d" % tuple(limit % (1 << 64) for limit in resource.getrlimit(int(rest)))
    if name == "umask":
        mask = posix.umask(0)
        posix.umask(mask)
        return b"%o" % mask
    if name == "affinity":
        return b"%x" % sum(1 << number for number in posix.sched_getaffinity(0))
    if name == "scheduler":
        priority = posix.sched_getparam(0).sched_priority
        return b"%d %d %d" % (posix.sched_getscheduler(0), priority, posix.getpriority(posix.PRIO_PROCESS, 0))
    if name == "write":
        return b"%d" % posix.access(rest, posix.W_OK)
    return b"%d" % is_hidden(rest) if name == "hidden" else about_file(name, rest)


def about_file(name: str, path: str) -> bytes:
    try:
        if name == "mode":
            status = posix.lstat(path)
            return b"%o %d %d" % (status.st_mode, status.st_uid, status.st_gid)
        if name == "mount":
            return b"%d" % (posix.lstat(path).st_dev != posix.lstat(f"{path}/..").st_dev)
        return b"%o" % (posix.lstat(path).st_mode & 0o170000)
    except OSError:
        return NO_FILE


def list_names(path: str) -> bytes:
    made = {name.rpartition("/")[2].encode() for name in LEFT if name.rpartition("/")[0] == path}
    names = sorted(n for n in posix.listdir(path.encode()) if not n.startswith(OWN_FILES) and n not in made)
    return b"".join(name + b"\n" for name in names)


def read_file(path: str) -> bytes:
    file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY)
    value = b""
    try:
        while len(value) < VALUE_MAX and (piece := posix.read(file, VALUE_MAX)):
            value += piece
    finally:
        posix.close(file)
    return value


def path_of(descriptor: object, name: "Any" = "") -> object:
    """Return the path of a descriptor, and of a name in its directory; None for one that is none."""
    try:
        directory = posix.readlink(f"/proc/self/fd/{descriptor}")
        name = posix.fspath(name)
    except (OSError, TypeError):
        return None
    if isinstance(name, bytes):
        name = name.decode(sys.getfilesystemencoding(), "surrogateescape")
    return f"{directory}/{name}" if name and not name.startswith("/") else name or directory
