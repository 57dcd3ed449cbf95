"""The files of a session that its code has added, changed and removed, and what becomes of these changes.

The caller has given the state of the start: an empty directory, and what `put` wrote. The host remembers it, and reads
/work and /output itself, from outside. Nothing in them is trusted: see base/trees.py.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn, Protocol

from pysbx.base import beneath, placing, trees
from pysbx.calls.baseline import KEPT, OUTPUT, Baseline, Known
from pysbx.calls.differences import unified
from pysbx.calls.execution import MAX_FILES
from pysbx.container.artifacts import MAX_CHARACTERS, MAX_LEFT_OUT
from pysbx.container.artifacts import MAX_FILES as MOST
from pysbx.errors import SandboxError
from pysbx.options.options import Options

# Bytes of a file that is compared by lines, and of the files of one request.
SHOWN, PART = 1 << 20, 16 << 20
# A file at the start and now, each None if there is none; or why they are not compared.
Sides = tuple[bytes | None, bytes | None] | str
LOST = "its content at the start was not kept"
UNREAD = "it cannot be read"
# Errors of a path that leads to nothing. After others, such as that of a directory without permissions, it may exist.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True)
class Change:
    """A file of a session that differs from the start.

    Attributes:
        path: relative to /work, or absolute in /output; "." for /work itself, if it cannot be read.
        kind: "added", "changed" or "removed"; "unread" if it cannot be read, as a directory without permissions.
        type: "file", "link", "directory" or "other" for what is there now; "file" if it was removed.
        size: bytes of a file; of a removed one, before.
    """

    path: str
    kind: str
    type: str
    size: int
    _sides: Callable[[], Sides] | None = field(default=None, repr=False, compare=False)

    def diff(self) -> str:
        """Return the differences as `diff -u` shows them; a line that says so if the file is no text, or is large.

        They are read now. The code has chosen the text, so a terminal must not get it as it is.

        Raises:
            SandboxError: the session has ended.
        """
        sides = self._sides() if self._sides is not None and self.type == "file" else f"{self.kind} {self.type}"
        if isinstance(sides, str):
            return f"{self.path!r}: {sides}\n"
        return unified(self.path.lstrip("/"), *sides)


@dataclass(frozen=True)
class Commit:
    """The outcome of a commit.

    Attributes:
        written: paths of the files that were written.
        removed: paths of those that were removed.
        refused: the reason for each path that was left as it was.
    """

    written: tuple[str, ...]
    removed: tuple[str, ...]
    refused: Mapping[str, str]


class _Session(Protocol):
    """The part of a session that changes need."""

    _baseline: Baseline
    options: Options

    def _changed_sides(self, path: str) -> Sides: ...

    def _put_files(self, named: Mapping[str, bytes], executable: Iterable[str] = ()) -> None: ...

    def _restore_files(self, keep: list[str], mounts: Iterable[str]) -> None: ...


class _Found(NamedTuple):
    """A change, and the file itself while it is open."""

    change: Change
    place: trees.Place | None = None
    executable: bool = False


class Changes:
    """The changes of a session, under its lock."""

    def __init__(self, session: _Session, tops: Mapping[str, int], mounts: Iterable[str]) -> None:
        """Take a session."""
        self._session, self._baseline = session, session._baseline
        self.mounts = tuple(mount for mount in mounts if f"{mount}/".startswith(("/work/", OUTPUT)))
        self._tops = {top: one for top, one in tops.items() if f"/{top}" not in self.mounts}
        self._limit = session.options.file_size_mb << 20

    def _is_mounted(self, path: str) -> bool:
        return any(_whole(path) == mount or _whole(path).startswith(f"{mount}/") for mount in self.mounts)

    def find(self) -> Iterator[_Found]:
        """Yield the changes: the files of /work, then those of /output, then what was removed.

        Raises:
            SandboxError: there are too many files.
        """
        if self._baseline.overflow:
            raise SandboxError(f"more than {MOST} files were put into the session: its changes are not known")
        left = dict(self._baseline.files)
        unread: list[str] = []
        count = characters = 0
        for top, descriptor in self._tops.items():
            others: list[str] = []
            prefix = OUTPUT if top == "output" else ""
            try:
                for place in trees.walk(trees.Place("", descriptor, "."), lambda path, _: others.append(path)):  # noqa: B023
                    path = prefix + place.path
                    count, characters = count + 1, characters + len(path)
                    if count > MOST or characters > MAX_CHARACTERS:
                        raise trees.TooMany
                    if not self._is_mounted(path) and (found := self._of_file(path, place, left.pop(path, None))):
                        yield found
            except trees.TooMany:
                raise SandboxError(f"the session has more than {MOST} files: its changes are too many") from None
            for name in others[:MOST]:
                path = (prefix + name).rstrip("/") or "."
                if not self._is_mounted(path):
                    kind = "unread" if name.endswith("/") else "changed" if left.pop(path, None) else "added"
                    unread += [f"/{top}/{name.lstrip('/')}"] if kind == "unread" else []
                    yield _Found(Change(path, kind, _type(descriptor, name), 0))
        for path, known in left.items():
            if not self._is_mounted(path) and not _whole(path).startswith(tuple(unread)):
                kind = self._kind_of_missing(path)
                if kind:
                    yield _Found(Change(path, kind, "file", known.size, self._reader(path)))

    def _of_file(self, path: str, place: trees.Place, known: Known | None) -> _Found | None:
        kind, size, mode = "added" if known is None else "changed", 0, 0
        try:
            about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
            size, mode = about.st_size, about.st_mode
            same = known is not None and size == known.size
            if same and known is not None and hashlib.sha256(trees.read(place, known.size)).digest() == known.digest:
                return None
        except FileNotFoundError:  # a process of the session has just removed it
            return None
        except OSError:
            kind = "unread"
        return _Found(Change(path, kind, "file", size, self._reader(path)), place, bool(mode & stat.S_IXUSR))

    def _kind_of_missing(self, path: str) -> str:
        """Return what has become of a file that the walk has not found; "" if a link leads to it: put() follows it."""
        top = "output" if path.startswith(OUTPUT) else "work"
        if top not in self._tops:
            return ""
        try:
            with beneath.opened(self._tops[top], path.removeprefix(OUTPUT)) as found:
                return "" if stat.S_ISREG(os.fstat(found).st_mode) else "removed"
        except OSError as error:
            return "removed" if error.errno in GONE else "unread"

    def _reader(self, path: str) -> Callable[[], Sides]:
        return partial(self._session._changed_sides, path)

    def sides(self, path: str) -> Sides:
        """Return a file at the start and now, each None if there is none; or why they are not compared."""
        known = self._baseline.files.get(path)
        old = None
        if known is not None:
            old = self._baseline.content(path) if known.size <= SHOWN else None
            if old is None:
                return f"changed, {LOST if known.size <= SHOWN else f'more than {SHOWN} bytes'}"
        top = "output" if path.startswith(OUTPUT) else "work"
        try:
            with placing.above(self._tops[top], path.removeprefix(OUTPUT), make=False) as place:
                return old, trees.read(place, SHOWN)
        except (FileNotFoundError, NotADirectoryError):
            return old, None
        except OSError as error:
            return f"changed, {error.strerror or UNREAD}"

    def commit(self, directory: str | os.PathLike[str], *, overwrite: bool, exclude: Collection[str]) -> Commit:
        """Write the changes of /work to a directory: see Sandbox.commit."""
        written: dict[str, bytes] = {}
        programs, removed, refused = [], [], {}
        left = max(KEPT, self._session.options.tmp_mb << 20)
        with trees.opened_top(directory) as top:
            for found in self.find():
                path = found.change.path
                above = (PurePosixPath(path), *PurePosixPath(path).parents)
                if path.startswith("/") or any(one.match(pattern) for pattern in exclude for one in above):
                    continue
                try:
                    content = self._checked(found, min(left, self._limit))
                    self._put(top.directory, path, content, found.executable, overwrite)
                except OSError as error:
                    refused[path] = error.strerror or UNREAD
                    continue
                if content is None:
                    removed.append(path)
                    del self._baseline.files[path]
                else:
                    left -= len(content)
                    written[path] = b""
                    programs += [path] if found.executable else []
                    self._baseline.note({path: content}, programs[-1:])
        return Commit(tuple(written), tuple(removed), refused)

    @staticmethod
    def _checked(found: _Found, limit: int) -> bytes | None:
        """Return the content of a file that may be committed; None if it was removed."""
        change = found.change
        if change.kind == "removed":
            return None
        if found.place is None:
            raise OSError(0, UNREAD if change.kind == "unread" else f"it is no regular file: {change.type}")
        return trees.read(found.place, limit)

    def _put(self, top: int, path: str, content: bytes | None, executable: bool, overwrite: bool) -> None:
        known = self._baseline.files.get(path)
        placing.refuse_git(top, path, content)
        try:
            with placing.above(top, path, make=content is not None) as place:
                before = placing.state(place)
                if not (before is None or overwrite or _is_either(place, before.st_size, known, content)):
                    said = (
                        "the host has another file there than the session had at its start: overwrite=True ignores that"
                    )
                    raise OSError(0, said)
                if content is not None:
                    placing.replace(place, content, before, executable=executable)
                elif before is not None:
                    placing.remove(top, place)
        except FileNotFoundError:
            if content is not None:
                raise

    def mark(self) -> None:
        """Take the present state for that of the start: see Sandbox.mark."""
        made = self._baseline.copy()
        for found in self.find():
            path = found.change.path
            if found.place is not None:
                with contextlib.suppress(OSError):
                    content = trees.read(found.place, self._limit)
                    made.files.pop(path, None)
                    made.note({path: content}, [path] if found.executable else [])
            elif found.change.kind == "removed":
                del made.files[path]
        self._session._baseline = made

    def lost(self) -> tuple[list[str], list[str]]:
        """Return the paths that are as at the start, and those whose content has to come back.

        Raises:
            SandboxError: a content was not kept.
        """
        different = {found.change.path for found in self.find()}
        back = [path for path in different if path in self._baseline.files]
        for path in back:
            if self._baseline.files[path].offset < 0:
                raise SandboxError(f"file '{path}': {LOST}, so the changes cannot be discarded")
        return [path for path in self._baseline.files if path not in different], back


def _whole(path: str) -> str:
    return path if path.startswith("/") else f"/work/{path}"


def _is_either(place: trees.Place, size: int, known: Known | None, content: bytes | None) -> bool:
    """Tell whether a file of the host is as the session had it at its start, or has the new content already."""
    if size not in (-1 if known is None else known.size, -1 if content is None else len(content)):
        return False
    there = trees.read(place, size)
    return there == content or (known is not None and hashlib.sha256(there).digest() == known.digest)


def _type(top: int, path: str) -> str:
    """Return what is at a path that is no regular file."""
    kind = 0
    with contextlib.suppress(OSError), beneath.opened(top, path.rstrip("/"), beneath.O_PATH | os.O_NOFOLLOW) as found:
        kind = os.fstat(found).st_mode
    return "link" if stat.S_ISLNK(kind) else "directory" if stat.S_ISDIR(kind) or path.endswith("/") else "other"


def discard(session: _Session, changes: Changes) -> None:
    """Bring the state of the start back: see Sandbox.discard."""
    for _ in range(2):  # a file that a link leads to is as at the start until the link is removed
        keep, back = changes.lost()
        session._restore_files(keep, changes.mounts)
        baseline = session._baseline
        for part in parts((path, baseline.content(path) or b"", baseline.files[path].executable) for path in back):
            session._put_files(*part)
        different = [found.change.path for found in changes.find()]
        if not different:
            return
    raise SandboxError(f"'{different[0]}': it is not as at the start: a process of the session may change it")


def parts(files: Iterable[tuple[str, bytes, bool]]) -> Iterator[tuple[dict[str, bytes], list[str]]]:
    """Yield files in parts for one request each, with the paths of those that are executable."""
    contents: dict[str, bytes] = {}
    programs: list[str] = []
    size = 0
    for path, content, executable in files:
        contents[path] = content
        programs += [path] if executable else []
        size += len(content)
        if size >= PART:
            yield contents, programs
            contents, programs, size = {}, [], 0
    if contents:
        yield contents, programs


def files_of(directory: str | os.PathLike[str], left_out: list[str]) -> Iterator[tuple[str, bytes, bool]]:
    """Yield the regular files of a directory of the host: path, content, and whether it is executable.

    Args:
        directory: the directory.
        left_out: gets the paths of everything else but directories.

    Raises:
        SandboxError: it cannot be read.
        ValueError: it has too many files, or too large ones.
    """

    def refuse(path: str, reason: str) -> None:
        if path.endswith("/"):
            _unreadable(path, reason)
        if len(left_out) < MAX_LEFT_OUT:
            left_out.append(path)

    left = MAX_FILES
    try:
        with trees.opened_top(Path(directory)) as top:
            for number, place in enumerate(trees.walk(top, refuse)):
                try:
                    content = trees.read(place, left)
                    about = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
                except OSError as error:
                    _unreadable(place.path, error.strerror or str(error))
                left -= len(content)
                if number >= MOST:
                    raise trees.TooMany
                yield place.path, content, bool(about.st_mode & stat.S_IXUSR)
    except trees.TooMany:
        raise ValueError(f"directory '{directory}': more than {MOST} files: mount it instead") from None
    except OSError as error:
        raise SandboxError(f"directory '{directory}': {error.strerror}") from error


def _unreadable(path: str, reason: str) -> NoReturn:
    raise SandboxError(f"'{path}': {reason}: it cannot be put into the session")
