"""Files that a sandbox has left, written beneath a directory of the host: no link is followed, each file is whole.

Each step opens one name beneath a directory that is open, as in trees.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator

from pysbx.base import trees
from pysbx.base.beneath import O_PATH

PLACE = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A repository's own directory has programs that git runs: hooks, and commands in its settings. Any directory with a
# file HEAD like this one may be such a directory: see git-config(1), safe.bareRepository. Some file systems find it by
# other names too, as git knows: they fold case, drop characters that are not shown, or have short names.
REPOSITORY, HEAD = (".git", "git~1"), re.compile(rb"ref:\s*refs/|[0-9a-fA-F]{40}")
SEPARATOR = re.compile(r"[/\\]")
# A colon and what follows it, and the characters that Unicode calls Default_Ignorable_Code_Point.
DROPPED = re.compile(
    r":.*|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]",
    re.DOTALL,
)
GIT_RUNS = "git runs programs of such a directory: copy it by hand if you trust the code"
# Bytes of HEAD that are looked at: git reads 255.
HEAD_SIZE = 4096
MODE, EXECUTABLE = 0o666, 0o777  # the umask is the caller's


def _parts(path: str) -> tuple[list[str], str]:
    """Return the directories of a path beneath another one, and its name."""
    *directories, name = path.split("/")
    if not name or {"", ".", ".."} & {*directories, name}:
        raise OSError(errno.EINVAL, "no path beneath a directory", path)
    return directories, name


def _entered(here: int, part: str) -> int:
    """Open a directory in one that is open, which is closed then."""
    inner = os.open(part, PLACE, dir_fd=here)
    os.close(here)
    return inner


@contextlib.contextmanager
def above(top: int, path: str, *, make: bool) -> Iterator[trees.Place]:
    """Open the directory of a path, step by step.

    Args:
        top: a descriptor of the directory that the path is beneath.
        path: relative, without "..".
        make: create the directories that are missing.

    Raises:
        OSError: one is missing (ENOENT), a link or no directory (ENOTDIR).
    """
    directories, name = _parts(path)
    here = os.dup(top)
    try:
        for part in directories:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            here = _entered(here, part)
        yield trees.Place(path, here, name)
    finally:
        os.close(here)


def refuse_git(top: int, path: str, content: bytes | None) -> None:
    """Refuse a path in a directory that git takes for its own, or would take for it with this content.

    Args:
        top: a descriptor of the directory that the path is beneath.
        path: relative, without "..".
        content: of the file; None if it is removed.

    Raises:
        OSError: with the reason.
    """
    names = [DROPPED.sub("", name).rstrip(" .") for name in SEPARATOR.split(path.lower())]
    is_head = names[-1] == "head" and content is not None and HEAD.match(content)
    if is_head or not set(names).isdisjoint(REPOSITORY) or _is_in_repository(top, path):
        raise OSError(0, GIT_RUNS)


def _is_in_repository(top: int, path: str) -> bool:
    """Tell whether a directory of a path has a file HEAD as git wants it."""
    directories, _ = _parts(path)
    here = os.dup(top)
    try:
        for part in (".", *directories):
            here = _entered(here, part)
            if _has_head(here):
                return True
    except OSError:  # it is missing, and so are those in it
        return False
    finally:
        os.close(here)
    return False


def _has_head(directory: int) -> bool:
    """Tell whether a directory of the host has a file HEAD as git wants it; a link counts too."""
    try:
        with trees.open_file(trees.Place("HEAD", directory, "HEAD")) as file:
            return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and HEAD.match(file.read(HEAD_SIZE)) is not None
    except OSError as error:
        return error.errno == errno.ELOOP


def state(place: trees.Place) -> os.stat_result | None:
    """Return what is at a place, or None for nothing.

    Raises:
        OSError: it is no regular file.
    """
    try:
        about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "the host has a link, a directory or a special file there", place.path)
    return about


def replace(place: trees.Place, content: bytes, before: os.stat_result | None, *, executable: bool) -> None:
    """Write a file, which takes the place of another at once, and gets its owner and modes.

    Raises:
        OSError: it cannot be written; the other is as it was.
    """
    part = f".pysbx-{secrets.token_hex(8)}"
    file = os.open(part, NEW, EXECUTABLE if executable else MODE, dir_fd=place.directory)
    try:
        with open(file, "wb") as written:
            written.write(content)
            if before is not None:
                with contextlib.suppress(PermissionError):  # it stays the caller's
                    os.fchown(file, before.st_uid, before.st_gid)
                os.fchmod(file, before.st_mode & 0o777)
        os.rename(part, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=place.directory)
        raise


def remove(top: int, place: trees.Place) -> None:
    """Remove a file, and the directories above it that are empty then."""
    os.unlink(place.name, dir_fd=place.directory)
    path = place.path
    while path := path.rpartition("/")[0]:
        try:
            with above(top, path, make=False) as directory:
                os.rmdir(directory.name, dir_fd=directory.directory)
        except OSError:
            return
