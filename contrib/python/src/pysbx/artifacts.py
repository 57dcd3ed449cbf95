"""The files that a run leaves, read from outside of its sandbox, however the run has ended.

/output and /work are file systems in memory, of the container alone. A descriptor that this program opens when the
sandbox begins keeps such a file system until it is closed, after the container has ended: proc(5), "/proc/pid/root".
Nothing in it is trusted. Each step opens one name beneath a directory, and follows no link. See openat(2), O_NOFOLLOW.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# Bounds of what is looked at: of directories within each other, of files, of the characters of all their paths
# together, and of the paths that are reported.
MAX_DEPTH, MAX_FILES, MAX_CHARACTERS, MAX_LEFT_OUT = 64, 20_000, 4 << 20, 1000
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO without a writer must not stop the reader.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The kernel's clock for files moves in steps: a file that was changed so short ago may have been changed twice.
STEP_NS = 20_000_000
# Bytes of a file that is compared only, and not returned.
MAX_COMPARED = 1 << 26


class Collected(NamedTuple):
    """The files of a run.

    Attributes:
        files: contents by path.
        left_out: paths of files that are too large together, or cannot be read; each once, unless it changes.
    """

    files: dict[str, bytes]
    left_out: tuple[str, ...]


class _Seen(NamedTuple):
    """A file as it was when it was collected last.

    Attributes:
        about: inode, size, and time of the last change, which code cannot set.
        recent: whether it had been changed so shortly before that another change would have the same time.
        content: a hash of its content, if it matters.
    """

    about: tuple[int, int, int]
    recent: bool
    content: bytes


def _seen(about: os.stat_result, now: int) -> _Seen:
    recent = about.st_ctime_ns > now - STEP_NS
    return _Seen((about.st_ino, about.st_size, about.st_ctime_ns), recent, b"")


class _LeftOut(Exception):
    """A file is not returned."""

    def __init__(self, seen: _Seen) -> None:
        self.seen = seen
        super().__init__()


class _Place(NamedTuple):
    """A name in a directory that is open.

    Attributes:
        top: "output" or "work".
        path: relative to that.
        directory: descriptor of the directory that the name is in.
        name: the name.
    """

    top: str
    path: str
    directory: int
    name: str


class Directories:
    """/output and /work of a sandbox."""

    def __init__(self, pid: int, root: Path, *, beside: bool = False) -> None:
        """Open them.

        Args:
            pid: a process of the sandbox.
            root: the root of its bundle, to which the root of the process is compared: its number may have become that
                of another process.
            beside: the process has no root of its own, and the directories are those in `root`.
        """
        self.complaint = ""
        self._descriptors: dict[str, int] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        try:
            top = os.open(root if beside else f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self.complaint = f"/output: {error.strerror}"
            return
        try:
            if not os.path.samestat(os.fstat(top), root.stat()):
                raise ProcessLookupError(None, "the sandbox has ended")
            for name in ("output", "work"):
                self._descriptors[name] = os.open(name, DIRECTORY, dir_fd=top)
        except OSError as error:
            self.complaint = f"/output: {error.strerror}"
        finally:
            os.close(top)

    def close(self) -> None:
        """Give the file systems up; once more is no error."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def note(self, patterns: Iterable[str], only: Iterable[str] | None = None) -> None:
        """Take files that exist now for collected.

        Args:
            patterns: see collect().
            only: paths relative to /work; None means all files.
        """
        before = dict(self._seen)
        self._look(tuple(patterns), 0, wanted=False)
        if only is not None:
            keys = {("work", path) for path in only}
            self._seen = before | {key: seen for key, seen in self._seen.items() if key in keys}

    def collect(self, patterns: Iterable[str], limit: int) -> Collected:
        """Return the files that are new, or have changed, since the last call.

        Args:
            patterns: of files of /work, as PurePosixPath.match takes them; of /output all are meant.
            limit: bytes of all files together.
        """
        found, left_out = self._look(tuple(patterns), limit, wanted=True)
        return Collected(found, tuple(([self.complaint] if self.complaint else []) + left_out))

    def _look(self, patterns: tuple[str, ...], limit: int, *, wanted: bool) -> tuple[dict[str, bytes], list[str]]:
        """Return contents by path and the paths of files left out, and remember the files."""
        found: dict[str, bytes] = {}
        left_out: list[str] = []
        seen: dict[tuple[str, str], _Seen] = {}
        now = time.time_ns()
        characters = 0
        for count, place in enumerate(self._places(patterns, left_out)):
            characters += len(place.path)
            if count == MAX_FILES or characters > MAX_CHARACTERS:
                left_out.append(f"all files after the first {count}")
                break
            path = place.path if place.top == "output" or place.path not in found else f"work/{place.path}"
            try:
                content, seen[place[:2]] = self._content(place, limit if wanted else MAX_COMPARED, now, wanted=wanted)
            except OSError:  # a process of the session has just removed it
                continue
            except _LeftOut as file:
                seen[place[:2]] = file.seen
                _report(path, left_out)
                continue
            if content is not None and wanted:
                found[path] = content
                limit -= len(content)
        self._seen = seen
        return found, left_out

    def _content(self, place: _Place, limit: int, now: int, *, wanted: bool) -> tuple[bytes | None, _Seen]:
        """Return the content of a file, or None if it is not a new one, and what to remember of it.

        Raises:
            _LeftOut: it is a new one, but cannot be read, or is larger than the limit.
            FileNotFoundError: it is gone.
        """
        about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        before, seen = self._seen.get(place[:2]), _seen(about, now)
        unchanged = before is not None and before.about == seen.about
        if before is not None and unchanged and not before.recent:
            return None, seen._replace(recent=False)
        if not wanted and not seen.recent:
            return None, seen
        content = b""
        try:
            with open(os.open(place.name, FILE, dir_fd=place.directory), "rb") as file:
                about = os.fstat(file.fileno())
                seen = _seen(about, now)
                if not stat.S_ISREG(about.st_mode):
                    return None, seen
                # It may be growing.
                content = b"" if about.st_size > limit else file.read(limit + 1)
            too_large = about.st_size > limit or len(content) > limit
        except FileNotFoundError:
            raise
        except OSError:
            too_large = True
        if too_large and unchanged:
            return None, seen
        if too_large:
            raise _LeftOut(seen)
        seen = seen._replace(content=hashlib.sha256(content).digest())
        return None if before is not None and unchanged and before.content == seen.content else content, seen

    def _places(self, patterns: tuple[str, ...], left_out: list[str]) -> Iterator[_Place]:
        """Yield the files of /output, and those of /work that match a pattern."""
        for top, descriptor in self._descriptors.items():
            if top == "output":
                yield from _below(_Place(top, "", descriptor, "."), left_out)
            elif patterns:
                for place in _below(_Place(top, "", descriptor, "."), []):
                    if any(PurePosixPath(place.path).match(pattern) for pattern in patterns):
                        yield place


def _below(place: _Place, left_out: list[str], depth: int = 0) -> Iterator[_Place]:
    """Yield the regular files of a directory by name, then those of the directories in it.

    Args:
        place: the directory.
        left_out: gets the paths of directories that cannot be read, or are too deep.
        depth: directories above it.
    """
    directory = -1
    try:
        if depth > MAX_DEPTH:
            raise OSError
        directory = os.open(place.name, DIRECTORY, dir_fd=place.directory)
        with os.scandir(directory) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries if _is_wanted(entry)}
        above = f"{place.path}/" if depth else ""
        for name in sorted(kinds, key=lambda name: (kinds[name], name)):
            inner = _Place(place.top, f"{above}{name}", directory, name)
            if kinds[name]:
                yield from _below(inner, left_out, depth + 1)
            else:
                yield inner
    except FileNotFoundError:  # a process of the session has just removed it
        pass
    except OSError:
        _report(f"{place.path}/", left_out)
    finally:
        if directory >= 0:
            os.close(directory)


def _report(path: str, left_out: list[str]) -> None:
    if len(left_out) < MAX_LEFT_OUT:
        left_out.append(path)


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
