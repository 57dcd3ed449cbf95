"""The files that a run leaves, read from outside of its sandbox, however the run has ended.

/output and /work are file systems in memory, of the container alone. A descriptor that this program opens when the
sandbox begins keeps such a file system until it is closed, after the container has ended: proc(5), "/proc/pid/root".
Nothing in it is trusted: see trees.py.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pysbx.base import trees

# Bounds of what is looked at besides those of trees.py: of files, of the characters of all their paths together, and of
# the paths that are reported.
MAX_FILES, MAX_CHARACTERS, MAX_LEFT_OUT, MAX_UNCOLLECTED = 20_000, 4 << 20, 1000, 100
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
        self._empty = 0  # see _changed: when /output had no file
        try:
            top = os.open(root if beside else f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self.complaint = f"/output: {error.strerror}"
            return
        try:
            if not os.path.samestat(os.fstat(top), root.stat()):
                raise ProcessLookupError(None, "the sandbox has ended")
            for name in ("output", "work"):
                self._descriptors[name] = os.open(name, trees.DIRECTORY, dir_fd=top)
        except OSError as error:
            self.complaint = f"/output: {error.strerror}"
        finally:
            os.close(top)

    def tops(self) -> dict[str, int]:
        """Return a descriptor of each by name: "output", "work". They are closed with this."""
        return dict(self._descriptors)

    def close(self) -> None:
        """Give the file systems up; once more is no error."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def note(self, patterns: Iterable[str], only: Iterable[str] | None = None) -> None:
        """Take files that exist now for collected.

        Args:
            patterns: see collect().
            only: paths relative to /work, or absolute; None means all files.
        """
        before = dict(self._seen)
        self._look(tuple(patterns), 0, wanted=False)
        if only is not None:
            keys = {("output", path[8:]) if path.startswith("/output/") else ("work", path) for path in only}
            self._seen = before | {key: seen for key, seen in self._seen.items() if key in keys}

    def collect(self, patterns: Iterable[str], limit: int) -> Collected:
        """Return the files that are new, or have changed, since the last call.

        Args:
            patterns: of files of /work, as PurePosixPath.match takes them; of /output all are meant.
            limit: bytes of all files together.
        """
        found, left_out = self._look(tuple(patterns), limit, wanted=True)
        return Collected(found, tuple(([self.complaint] if self.complaint else []) + left_out))

    def uncollected(
        self, patterns: Iterable[str], known: Collection[str], returned: Mapping[str, bytes]
    ) -> tuple[str, ...]:
        """Return the names in /work that no pattern means, apart from hidden and known ones; "/" ends directories.

        Args:
            patterns: see collect().
            known: names that are left out.
            returned: contents by path. Figures are copied to /output, and what has only copies is left out.
        """
        copies = {PurePosixPath(path).name: content for path, content in returned.items() if content}
        found = []
        with contextlib.suppress(KeyError, OSError), os.scandir(self._descriptors["work"]) as entries:
            for entry in entries:
                path, is_directory = PurePosixPath(entry.name), entry.is_dir(follow_symlinks=False)
                if entry.name.startswith(".") or entry.name in known or any(map(path.match, patterns)):
                    continue
                if copies and self._is_copied(entry.name, copies, is_directory=is_directory):
                    continue
                if is_directory or entry.is_file(follow_symlinks=False):
                    found.append(f"{entry.name}/" if is_directory else entry.name)
        return tuple(sorted(found)[:MAX_UNCOLLECTED])

    def _is_copied(self, name: str, copies: dict[str, bytes], *, is_directory: bool) -> bool:
        """Tell whether a name in /work is a file that has a copy of this name, or a directory of such files only.

        A copy is compared once, and taken out: a sandbox may have many large files.
        """
        top = trees.Place(name, self._descriptors["work"], name)
        others: list[str] = []
        try:
            files = trees.walk(top, lambda path, _: others.append(path), 2 * len(copies)) if is_directory else [top]
            same = [(copy := copies.pop(file.name)) == trees.read(file, len(copy)) for file in files]
        except (KeyError, OSError, trees.TooMany):
            return False
        return bool(same) and all(same) and not others

    def _look(self, patterns: tuple[str, ...], limit: int, *, wanted: bool) -> tuple[dict[str, bytes], list[str]]:
        """Return contents by path and the paths of files left out, and remember the files."""
        found: dict[str, bytes] = {}
        left_out: list[str] = []
        seen: dict[tuple[str, str], _Seen] = {}
        now = time.time_ns()
        changed = self._changed(now)
        if changed and changed == self._empty and not patterns:
            return found, left_out
        characters = 0
        for count, (top, place) in enumerate(self._places(patterns, left_out)):
            characters += len(place.path)
            if count == MAX_FILES or characters > MAX_CHARACTERS:
                left_out.append(f"all files after the first {count}")
                break
            path = place.path if top == "output" or place.path not in found else f"work/{place.path}"
            key, most = (top, place.path), limit if wanted else MAX_COMPARED
            try:
                content, seen[key] = self._content(place, self._seen.get(key), most, now, wanted=wanted)
            except FileNotFoundError:  # a process of the session has just removed it
                continue
            except OSError:  # its directory may be listed only
                _report(path, left_out)
                continue
            except _LeftOut as file:
                seen[key] = file.seen
                _report(path, left_out)
                continue
            if content is not None and wanted:
                found[path] = content
                limit -= len(content)
        self._seen = seen
        self._empty = 0 if left_out or any(top == "output" for top, _ in seen) else changed
        return found, left_out

    def _changed(self, now: int) -> int:
        """Return when /output was changed last; 0 if it has directories, or the next change may have the same time."""
        if "output" not in self._descriptors:
            return 0
        about = os.fstat(self._descriptors["output"])
        return about.st_ctime_ns if about.st_nlink == 2 and about.st_ctime_ns < now - STEP_NS else 0

    @staticmethod
    def _content(
        place: trees.Place, before: _Seen | None, limit: int, now: int, *, wanted: bool
    ) -> tuple[bytes | None, _Seen]:
        """Return the content of a file, or None if it is not a new one, and what to remember of it.

        Raises:
            _LeftOut: it is a new one, but cannot be read, or is larger than the limit.
            OSError: it is gone (ENOENT), or what is known of a file is out of reach.
        """
        about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        seen = _seen(about, now)
        unchanged = before is not None and before.about == seen.about
        if before is not None and unchanged and not before.recent:
            return None, seen._replace(recent=False)
        if not wanted and not seen.recent:
            return None, seen
        content = b""
        try:
            with trees.open_file(place) as file:
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
        import hashlib  # noqa: PLC0415 (few calls leave files)

        seen = seen._replace(content=hashlib.sha256(content).digest())
        return None if before is not None and unchanged and before.content == seen.content else content, seen

    def _places(self, patterns: tuple[str, ...], left_out: list[str]) -> Iterator[tuple[str, trees.Place]]:
        """Yield the files of /output, and those of /work that match a pattern, each with "output" or "work"."""

        def refuse(path: str, _: str) -> None:
            if path.endswith("/"):
                _report(path, left_out)

        for top, descriptor in self._descriptors.items():
            place = trees.Place("", descriptor, ".")
            try:
                if top == "output":
                    yield from ((top, file) for file in trees.walk(place, refuse))
                elif patterns:
                    for file in trees.walk(place, lambda *_: None):
                        if any(PurePosixPath(file.path).match(pattern) for pattern in patterns):
                            yield top, file
            except trees.TooMany:
                left_out.append(f"files of /{top}: there are more than {trees.MAX_ENTRIES}")


def _report(path: str, left_out: list[str]) -> None:
    if len(left_out) < MAX_LEFT_OUT:
        left_out.append(path)
