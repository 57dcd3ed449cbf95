"""Paths beneath a root that is not trusted: every step by openat2(2) with that root as "/".

As runtime/base/path.h does it: no symbolic link of the root leads outside of it, and none of /proc is followed at all.
The standard library has no function for this system call.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator

# linux/openat2.h; the number is the same on every architecture but alpha.
OPENAT2 = 437
RESOLVE_NO_MAGICLINKS, RESOLVE_IN_ROOT = 0x02, 0x10
# A rename anywhere on the machine makes the kernel give up with EAGAIN.
MAX_RACES = 128
O_PATH = os.O_PATH  # Linux only, as this package
DIRECTORY_MODE, FILE_MODE = 0o755, 0o644


class _How(ctypes.Structure):
    """struct open_how."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_in_root(root: int, path: str, flags: int = O_PATH) -> int:
    """Return a new descriptor of a path, resolved with the root as "/".

    Args:
        root: a descriptor of the root directory.
        path: absolute, or relative to the root.
        flags: of open(2), without O_CREAT: an existing file is opened.

    Raises:
        OSError: there is none, it leads through a link of /proc, or the kernel is older than Linux 5.6 (ENOSYS).
    """
    if flags & os.O_CREAT:
        raise ValueError("open_in_root makes no files: use write_in_root")
    library = ctypes.CDLL(None, use_errno=True)
    how = _How(flags | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    code = errno.EAGAIN
    for _ in range(MAX_RACES):
        arguments = (ctypes.c_long(root), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        descriptor = int(library.syscall(ctypes.c_long(OPENAT2), *arguments))
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


@contextlib.contextmanager
def opened(root: int, path: str, flags: int = O_PATH) -> Iterator[int]:
    """Open a path as open_in_root does, and close it at the end of the with statement."""
    descriptor = open_in_root(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_file(root: int, path: str) -> bool:
    """Tell whether a regular file is at a path."""
    try:
        with opened(root, path) as found:
            return stat.S_ISREG(os.fstat(found).st_mode)
    except OSError:
        return False


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"path '{path}' has '..'")
    return parts


def make_directory(root: int, path: str) -> None:
    """Make a directory, and those above it that are missing.

    Each step is resolved from the root, as a process in the root resolves it. mkdir(2) follows no link in the last
    place, so a link to nothing is an error.

    Raises:
        OSError: a part of it is no directory, or a link that leads to nothing.
    """
    done = "/"
    for part in _parts(path):
        # The path exists, and may be a directory or a link to one: opening it tells.
        with opened(root, done, O_PATH | os.O_DIRECTORY) as above, contextlib.suppress(FileExistsError):
            os.mkdir(part, DIRECTORY_MODE, dir_fd=above)
        done = f"{done.rstrip('/')}/{part}"
        try:
            os.close(open_in_root(root, done, O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            # The path is a link to a missing directory. The directory is created where the link leads within the root.
            make_directory(root, _target(root, done))


def _target(root: int, path: str) -> str:
    """Return where a link leads, as an absolute path of the root without '..'."""
    above, _, name = path.rpartition("/")
    with opened(root, above or "/", O_PATH | os.O_DIRECTORY) as directory:
        return os.path.normpath(os.path.join("/", above, os.readlink(name, dir_fd=directory)))


def write_in_root(root: int, path: str, content: bytes = b"") -> None:
    """Create a file with a content, and the directories above it. An existing file gets the content unless it is empty.

    Raises:
        OSError: it cannot be made, or a link that leads to nothing is in its place.
    """
    above, _, name = f"/{'/'.join(_parts(path))}".rpartition("/")
    make_directory(root, above or "/")
    with opened(root, above or "/", O_PATH | os.O_DIRECTORY) as directory:
        try:
            # O_EXCL follows no link in the last place.
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE, dir_fd=directory)
        except FileExistsError:
            made = open_in_root(root, path, os.O_WRONLY | os.O_TRUNC if content else O_PATH)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(made, left) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(made)


def make_public(root: int) -> None:
    """Give everything beneath a root the modes for other users, independent of the umask; links are left alone."""
    for _, directories, files, directory in os.fwalk(".", dir_fd=root, follow_symlinks=False):
        os.fchmod(directory, DIRECTORY_MODE)
        for name in files + directories:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                os.chmod(name, FILE_MODE, dir_fd=directory)
