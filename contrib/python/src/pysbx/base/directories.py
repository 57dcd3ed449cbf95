"""The directories of the package: one for state that a restart of the machine removes, one for a permanent cache.

Both belong to the caller alone: the bundles in them decide what a sandbox may do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pysbx.base import process_ids
from pysbx.errors import SandboxStartupError

# Directories, separated by colons, to which no other user has access although their modes say otherwise. For example,
# all may write to a volume of a pod, but only its containers see it.
TRUSTED = "PYSBX_TRUSTED_DIRECTORIES"
# Seconds until a socket that was bound listens, or never will.
BOUND_SEC = 10.0


def _is_replaceable(parent: Path) -> bool:
    """Tell whether other users may put something else in the place of what is in a directory."""
    about = parent.stat()
    if about.st_uid not in (0, os.geteuid()):
        return True
    if not about.st_mode & 0o022 or about.st_mode & stat.S_ISVTX:
        return False
    return str(parent) not in os.environ.get(TRUSTED, "").split(":")


def _check_parents(path: Path) -> bool:
    """Check, before anything is made, that no other user can replace a directory above; tell whether one is missing."""
    missing = False
    for parent in path.absolute().parents:
        try:
            replaceable = _is_replaceable(parent)
        except FileNotFoundError:
            missing = True
            continue
        if replaceable:
            # A user that may rename it could put another one in its place: sudo with a user's environment leads here.
            raise SandboxStartupError(
                f"directory '{path}': others can replace '{parent}' (user {parent.stat().st_uid}): "
                "set XDG_RUNTIME_DIR, XDG_CACHE_HOME and HOME of the calling user, "
                f"or name it in {TRUSTED} if no other user reaches it"
            )
    return missing


def private_directory(path: Path) -> Path:
    """Make a directory that only the caller may read and write, or check that an existing one is such.

    Only the caller may enter it, except where the user of root's sandboxes looks up paths in it itself.

    Raises:
        SandboxStartupError: it belongs to somebody else, others may write to it or to one above, or it cannot be made.
    """
    try:
        entered = process_ids.may_map() and not process_ids.opens_for_others()
        missing = _check_parents(path)
        path.mkdir(mode=0o711 if entered else 0o700, parents=True, exist_ok=True)
        if missing:  # another user may have made one meanwhile
            _check_parents(path)
        found = path.lstat()
    except OSError as error:
        raise SandboxStartupError(f"directory '{path}': {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise SandboxStartupError(
            f"directory '{path}' is not one that only user {os.geteuid()} can write to: remove it"
        )
    return path


def _is_private(path: Path) -> bool:
    """Tell whether a path is a directory of the caller, and of no other user's making or reach."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _own_below(top: Path) -> Path:
    """Return the path of the caller's directory below one that all users may write to.

    Another user can take its name first. Then the caller has one with another name, which later programs find because
    it belongs to the caller.
    """
    path = top / f"pysbx-{os.geteuid()}"
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700)
    others = (other for other in sorted(top.glob(f"{path.name}-*")) if _is_private(other))
    found = path if _is_private(path) else next(others, None)
    if found is not None:
        return found
    import tempfile  # noqa: PLC0415 (rarely needed)

    try:
        return Path(tempfile.mkdtemp(prefix=f"{path.name}-", dir=top))
    except OSError as error:
        raise SandboxStartupError(f"directory '{path}': {error.strerror}: set XDG_RUNTIME_DIR") from error


@contextmanager
def in_directory(path: Path) -> Iterator[None]:
    """Name the directory in an error of the system that names no file, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@cache
def run_directory() -> Path:
    """Return the directory of bundles and of the state of containers, which a restart of the machine removes."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and os.access(given, os.W_OK):
        return private_directory(Path(given) / "pysbx")
    if os.geteuid() == 0:
        return private_directory(Path("/run/pysbx"))
    import tempfile  # noqa: PLC0415 (rarely needed)

    try:
        top = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise SandboxStartupError(
            "no directory is writable for the bundles of sandboxes: mount a file system at /tmp, or set XDG_RUNTIME_DIR"
        ) from error
    return private_directory(_own_below(Path(top)))


def remove_left_sockets(directory: Path) -> None:
    """Remove the sockets of programs that were killed. A program that has just bound one may not listen yet."""
    import socket  # noqa: PLC0415 (few programs need it)

    above = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # a path may be longer than unix(7) allows
    try:
        for path in directory.iterdir():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as tried, contextlib.suppress(OSError):
                about = path.lstat()
                if not stat.S_ISSOCK(about.st_mode) or about.st_mtime > time.time() - BOUND_SEC:
                    continue
                try:  # of another type, so that one that listens gets no connection
                    tried.connect(f"/proc/self/fd/{above}/{path.name}")
                except ConnectionRefusedError:
                    path.unlink(missing_ok=True)
    finally:
        os.close(above)


@cache
def entered_directory() -> Path:
    """Return the run directory, or for root one that users of its processes can enter: XDG_RUNTIME_DIR is closed."""
    found = run_directory()
    if os.geteuid() == 0 and not all(parent.stat().st_mode & stat.S_IXOTH for parent in found.parents):
        return private_directory(Path("/run/pysbx"))
    return found


@cache
def cache_directory() -> Path:
    """Return the directory of installed dependencies. Users may delete it while no sandbox runs."""
    given = os.environ.get("XDG_CACHE_HOME")
    return private_directory((Path(given) if given else Path.home() / ".cache") / "pysbx")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock against other threads and programs. Another program may remove the file of a lock that it holds."""
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                same = False
            if same:
                yield
                return


def state_directory() -> Path:
    """Return the directory of what is remembered from one program to the next, such as the history of a prompt."""
    given = os.environ.get("XDG_STATE_HOME")
    return private_directory((Path(given) if given else Path.home() / ".local/state") / "pysbx")


def check_replaceable(path: Path) -> None:
    """Check that a new file may take the place of what a path names. If root calls, a device would be gone for all.

    Raises:
        OSError: it is, or leads to, a device, a pipe or a socket.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(errno.EINVAL, "is no regular file, and is not replaced by one", str(path))


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file so that other programs see either no file or the whole content.

    Raises:
        OSError: it cannot be written, or see check_replaceable.
    """
    import tempfile  # noqa: PLC0415 (rarely needed)

    check_replaceable(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with in_directory(path.parent), open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        Path(name).rename(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
