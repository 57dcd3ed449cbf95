"""Directory trees that code in a sandbox has written, read and removed from outside. Nothing in them is trusted.

Each step opens one name beneath a directory that is open, and follows no link: openat(2), O_NOFOLLOW. Only regular
files are read. Depth, number and bytes are bounded. The system never gets a path as long as the tree is deep.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

# Bounds of a walk: directories within each other, and entries of all directories together.
MAX_DEPTH, MAX_ENTRIES = 64, 250_000
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A file may have as many bytes of disk more than its size.
PAGE = 4096
# A FIFO without a writer must not stop the reader.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Reasons for which a walk leaves something out. Another reason is that of the system.
NO_FILE = "neither a regular file nor a directory"
DEEP = f"below more than {MAX_DEPTH} directories"

# Called with the path of what a walk leaves out, and the reason. The path of a directory ends with "/".
Refuse = Callable[[str, str], None]


class Place(NamedTuple):
    """A name in a directory that is open.

    Attributes:
        path: relative to the top of the tree.
        directory: descriptor of the directory that the name is in.
        name: the name.
    """

    path: str
    directory: int
    name: str


class TooMany(Exception):
    """A tree has more entries than a walk looks at."""


@contextlib.contextmanager
def opened(place: Place) -> Iterator[int]:
    """Open a directory, and close it at the end of the with statement.

    Raises:
        OSError: it is a link or no directory, or cannot be read.
    """
    descriptor = os.open(place.name, DIRECTORY, dir_fd=place.directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_top(path: str | os.PathLike[str]) -> Iterator[Place]:
    """Open the top of a tree, whose path is the caller's own, and close it at the end of the with statement."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Place("", descriptor, ".")
    finally:
        os.close(descriptor)


def walk(top: Place, refuse: Refuse, most: int = MAX_ENTRIES) -> Iterator[Place]:
    """Yield the regular files of a directory by name, then those of the directories in it.

    Args:
        top: the directory.
        refuse: called with everything else that is not a directory, and with directories that are too deep or cannot
            be read. If it returns, the walk goes on.
        most: entries of all directories together.

    Raises:
        TooMany: there are more.
    """
    yield from _below(top, refuse, iter(range(most)), 0)


def _below(place: Place, refuse: Refuse, left: Iterator[int], depth: int) -> Iterator[Place]:
    if depth > MAX_DEPTH:
        refuse(f"{place.path}/", DEEP)
        return
    above = f"{place.path}/" if depth else ""
    try:
        with opened(place) as directory:
            directories = _entries(directory, left)
            for name in sorted(directories, key=lambda name: (directories[name] is True, name)):
                inner = Place(f"{above}{name}", directory, name)
                if directories[name]:
                    yield from _below(inner, refuse, left, depth + 1)
                elif directories[name] is False:
                    yield inner
                else:
                    refuse(inner.path, NO_FILE)
    except FileNotFoundError:  # a process of the sandbox has just removed it
        pass
    except OSError as error:
        refuse(f"{place.path}/", error.strerror or str(error))


def _entries(directory: int, left: Iterator[int]) -> dict[str, bool | None]:
    """Return the entries of a directory: True for a directory, False for a regular file, None for anything else."""
    found: dict[str, bool | None] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if next(left, None) is None:
                raise TooMany
            is_file = entry.is_file(follow_symlinks=False)
            found[entry.name] = False if is_file else entry.is_dir(follow_symlinks=False) or None
    return found


def open_file(place: Place) -> BinaryIO:
    """Open what was found to be a file, and may be a link, a pipe or a directory by now.

    Raises:
        OSError: it is a link or a directory, or cannot be read.
    """
    # Given a descriptor of a directory, open() would leave it open.
    return open(place.name, "rb", opener=lambda name, _: os.open(name, FILE, dir_fd=place.directory))


def read(place: Place, limit: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it is no regular file, has more bytes than the limit (EFBIG), or cannot be read.
    """
    with open_file(place) as file:
        return _content(file, place.path, limit)


def read_path(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a regular file whose path is the caller's own, and whose content may be a stranger's."""
    with open(path, "rb", opener=lambda name, _: os.open(name, FILE & ~os.O_NOFOLLOW)) as file:
        return _content(file, str(path), limit)


def _content(file: BinaryIO, called: str, limit: int) -> bytes:
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", called)
    # It may be growing.
    content = b"" if about.st_size > limit else file.read(limit + 1)
    if max(about.st_size, len(content)) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", called)
    return content


def sizes(top: Place, refuse: Refuse, most: int = MAX_ENTRIES) -> Iterator[int]:
    """Yield the bytes of each file that a walk finds, including blocks that lie behind its end."""
    for place in walk(top, refuse, most):
        with contextlib.suppress(FileNotFoundError):
            about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
            yield max(about.st_size, about.st_blocks * 512 - PAGE)


def remove(path: Path) -> None:
    """Remove a directory with all that is in it, as far as the caller may. A link in its place stays, as does a file.

    Its directories may lie within each other deeper than a path or a stack can be. So each is moved up before it is
    removed, and no path has more than two names below the directory.
    """
    try:
        top = _open_writable(str(path), None)
    except OSError:
        return
    # The rest of a removal that was killed has other names.
    moved = f".gone-{os.urandom(4).hex()}"
    try:
        waiting, count = [""], 0
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):  # it stays, and its directory with it
                here = _open_writable(name or ".", top)
                try:
                    for inner, is_directory in _listed(here):
                        if not is_directory:
                            os.unlink(inner, dir_fd=here)
                        elif name:
                            count += 1
                            # To rename a directory, its entry ".." is written.
                            os.close(_open_writable(inner, here))
                            os.rename(inner, f"{moved}-{count}", src_dir_fd=here, dst_dir_fd=top)
                            waiting.append(f"{moved}-{count}")
                        else:
                            waiting.append(inner)
                finally:
                    os.close(here)
                if name:
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        path.rmdir()


def _listed(directory: int) -> list[tuple[str, bool]]:
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _open_writable(name: str, directory: int | None) -> int:
    """Open a directory whose modes may be any, and give it modes with which its owner can remove what is in it."""
    # chmod(2) follows links, and O_PATH needs no permission to read.
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        beneath = f"/proc/self/fd/{found}"
        with contextlib.suppress(PermissionError):  # root without the capability for it may still be able to remove
            os.chmod(beneath, 0o700)
        return os.open(beneath, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(found)
