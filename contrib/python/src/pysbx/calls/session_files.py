"""The files of a session, what code has changed in them, and packages that are added."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pysbx.base.option_names import current
from pysbx.calls.execution import (
    Files,
    as_text,
    as_texts,
    check_file,
    check_put,
    checked_files,
)
from pysbx.calls.session_core import Core
from pysbx.container.exchange import MALFORMED, text
from pysbx.errors import (
    ForgedAnswerError,
    SandboxError,
    SandboxFileTooLargeError,
)
from pysbx.options.options import make_options

if TYPE_CHECKING:
    from pathlib import Path

    from pysbx.calls.changes import Change, Changes, Commit, Sides
    from pysbx.container.container import Message

# Of packages that are added: bytes of a request, and of a page, in which a file system in memory counts.
PART, PAGE = 4 << 20, 4096


def _refuse_entry(path: str, reason: str) -> NoReturn:
    remedy = "`pysbx clean dependencies --all` removes the set"
    raise SandboxError(f"the packages cannot be added to the session: {path!r:.100}: {reason}: {remedy}")


def size_of_site(site: Path) -> int:
    """Return the bytes that the files of installed packages take.

    Raises:
        SandboxError: an entry is not a file that can be sent, or there are too many.
    """
    from pysbx.base import trees  # noqa: PLC0415 (few sessions need it)

    with trees.opened_top(site) as top:
        try:
            return sum(-(-size // PAGE) * PAGE for size in trees.sizes(top, _refuse_entry))
        except trees.TooMany:
            raise SandboxError("the packages have too many files: start a session with dependencies=") from None


def parts_of_site(site: Path, left: int) -> Iterator[list[tuple[str, int, bytes]]]:
    """Yield the files of installed packages in parts, each with its path and its place in the file.

    The sandbox has a part twice while it writes it.

    Args:
        site: the directory.
        left: bytes of all files.

    Raises:
        SandboxError: there are more, or an entry is not a file that can be sent.
    """
    parts: list[tuple[str, int, bytes]] = []
    size = 0
    from pysbx.base import trees  # noqa: PLC0415 (few sessions need it)

    with trees.opened_top(site) as top:
        for place in trees.walk(top, _refuse_entry):
            try:
                content = trees.read(place, left)
            except OSError as error:
                _refuse_entry(place.path, error.strerror or str(error))
            left -= len(content)
            for offset in range(0, len(content) or 1, PART):
                parts.append((place.path, offset, content[offset : offset + PART]))
                size += len(parts[-1][2])
                if size >= PART:
                    yield parts
                    parts, size = [], 0
    yield parts


def _is_file(item: tuple[object, object]) -> bool:
    """Tell whether an item of a list of files is a name and a size."""
    name, size = item
    return isinstance(name, str) and type(size) is int and size >= 0


class Filed(Core):
    """A session with its files: see Sandbox."""

    def _place(self, action: str, path: str | os.PathLike[str], **more: Any) -> Message:
        """Ask for something to be done with a file or directory, and return the answer: see inside/places.py.

        Raises:
            TypeError: the path is of another type.
            SandboxFileError: that is not possible; its class says why.
        """
        path = as_text(path, "path")
        answer = self._ask({"op": "place", "action": action, "path": path, **more})
        check_file(answer, path)
        return answer

    def put(self, files: Files | str | os.PathLike[str], content: bytes | str | None = None) -> None:
        """Write files, by path relative to /work, or absolute in /work, /output or /tmp: all of them, or none.

        Args:
            files: contents by path; or one path, whose content comes next.
            content: of the one file.

        Raises:
            TypeError: a name is no path, or a content neither text nor bytes.
            ValueError: all of it is too large.
            SandboxFileError: one cannot be written; its class says why. SandboxInvalidPathError is a ValueError too.
        """
        self._put_files(checked_files(cast("Files", files if content is None else {files: content})))

    def _put_files(self, named: Mapping[str, bytes], executable: Iterable[str] = ()) -> None:
        """Write files whose paths have been checked; the executable ones get such modes."""
        programs = list(executable)
        with self._lock:
            answer = self._exchange({"op": "put", "files": named, **({"executable": programs} if programs else {})})
            if self._container is not None:
                self._container.note(self.options.collect, named)
            check_put(answer, named)
            self._baseline.note(named, programs)

    def put_directory(self, directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Write the regular files of a directory of the host to /work; return the paths of links and other files.

        Raises:
            SandboxError: a file cannot be read, or written; those before it are there.
            ValueError: it has too many files, or too large ones.
        """
        from pysbx.calls.changes import files_of, parts  # noqa: PLC0415 (few sessions need it)

        left_out: list[str] = []
        with self._lock:
            for files, programs in parts(files_of(as_text(directory, "directory"), left_out)):
                self._put_files(files, programs)
        return tuple(left_out)

    @contextlib.contextmanager
    def _changes(self) -> Iterator[Changes]:
        from pysbx.calls.changes import Changes  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            if not self._paused:
                self._started()
                if self._container is None or self._container.directories is None:
                    self.files()
            if self._ended or self._container is None or self._bundle is None or self._container.directories is None:
                raise SandboxError(f"the session has ended: {self._ended}")
            if complaint := self._container.directories.complaint:
                raise SandboxError(f"the changes of the session cannot be read: {complaint}")
            own = [mount.target for mount in self.options.mounts]
            mounts = [one for one in self._bundle.targets if one in own or one not in ("/work", "/output")]
            yield Changes(self, self._container.directories.tops(), mounts)

    def changes(self) -> list[Change]:
        """Return what code has added, changed and removed in /work and /output since the start.

        Files of put() and put_directory() belong to the start, and commit(), discard() and mark() begin anew.

        Raises:
            SandboxError: the session has ended, or has too many files.
        """
        with self._changes() as changes:
            return [found.change for found in changes.find()]

    def _changed_sides(self, path: str) -> Sides:
        """Return a file at the start and now; see Changes.sides."""
        with self._changes() as changes:
            return changes.sides(path)

    def commit(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, exclude: Iterable[str] = ()
    ) -> Commit:
        """Write the changes of /work to a directory of the host, such as the one that put_directory() has read.

        Each file is replaced at once. No link is followed, on either side. Links, special files and what is in .git
        are refused, and so is a file that the host has changed meanwhile.

        Args:
            directory: of the host.
            overwrite: whether files that the host has changed are replaced and removed too.
            exclude: patterns of files and directories that stay as they are, as PurePath.match takes them.

        Returns:
            What was written, removed and refused.

        Raises:
            SandboxError: see changes.
            OSError: the directory cannot be opened.
        """
        with self._changes() as changes:
            patterns = as_texts(exclude, "exclude")
            return changes.commit(as_text(directory, "directory"), overwrite=overwrite, exclude=patterns)

    def discard(self) -> None:
        """Bring /work and /output back to the state of the start.

        Raises:
            SandboxError: see changes; or a process of the session keeps changing them.
        """
        from pysbx.calls.changes import discard  # noqa: PLC0415 (few sessions need it)

        with self._changes() as changes:
            discard(self, changes)

    def _restore_files(self, keep: list[str], mounts: Iterable[str]) -> None:
        """Remove all files of /work and /output but those to be kept."""
        self._ask({"op": "restore", "keep": keep, "mounts": list(mounts)})

    def mark(self) -> None:
        """Take the present files for those of the start.

        Raises:
            SandboxError: see changes.
        """
        with self._changes() as changes:
            changes.mark()

    def get(self, path: str | os.PathLike[str], limit: int | None = None) -> bytes:
        """Return the content of a file.

        Args:
            path: relative to /work, or absolute, in the sandbox.
            limit: bytes accepted at most; by default half of answer_limit.

        Raises:
            SandboxFileError: it cannot be had; its class says why, such as SandboxFileNotFoundError.
            TypeError: an argument is of another type.
        """
        name = as_text(path, "path")
        largest = self.options.answer_limit
        most = largest // 2 if limit is None else limit
        if not isinstance(most, int):
            raise TypeError(f"limit: {most!r} is not a number of bytes")
        with self._lock:
            answer = self._exchange({"op": "get", "path": name, "limit": max(0, min(most, largest))})
        check_file(answer, name)
        content = answer.get("content")
        if not isinstance(content, bytes) or len(content) > most:
            more = (
                f", half of {current().options['answer']}: {current().options['larger_copy']}" if limit is None else ""
            )
            raise SandboxFileTooLargeError(f"file '{name}': larger than {most} bytes{more}", name)
        return content

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Remove a file.

        Args:
            path: relative to /work, or absolute in /work, /output or /tmp, in the sandbox.

        Raises:
            SandboxFileError: it cannot be removed; its class says why.
            TypeError: the path is of another type.
        """
        name = as_text(path, "path")
        with self._lock:
            answer = self._exchange({"op": "remove", "path": name})
            check_file(answer, name)
            for one in checked_files({name.rstrip("/"): b""}):
                self._baseline.files.pop(one, None)

    def install(self, *requirements: str) -> None:
        """Add packages to the session, such as "pandas>=2". They come from where dependencies= of the session would.

        pip runs in a sandbox of its own, so the session needs no network. Packages that are there already stay.

        Raises:
            DependencyInstallError: pip failed.
            SandboxError: the session has ended, has no room for the packages, or has one in another version.
            SandboxOptionError: a requirement is none.
        """
        from pysbx.calls.prepare import site_of  # noqa: PLC0415 (few sessions need it)

        options = make_options(self.options, dependencies=requirements)
        self._check_versions(options.dependencies)
        site = site_of(options) if requirements else None
        if site is not None:
            self._add_packages(site)

    def _check_versions(self, requirements: Sequence[str]) -> None:
        """Raise SandboxError if a package is there in a version that is not wanted: imports would find that."""
        from pysbx.options.requirements import is_met, name_of  # noqa: PLC0415 (few sessions need it)

        wanted = [(name, one) for one in requirements if (name := name_of(one))]
        answer = self._ask({"op": "packages", "names": [name for name, _ in wanted]}) if wanted else {}
        found = answer.get("versions")
        for name, requirement in wanted:
            version = found.get(name) if isinstance(found, dict) else None
            if isinstance(version, str) and not is_met(requirement, version[:100]):
                said = f"the session has {name} {version:.100} already, and cannot replace a package"
                raise SandboxError(f"{requirement}: {said}: start one with dependencies=[{requirement!r}]")

    def _add_packages(self, site: Path) -> None:
        """Send installed packages to the session."""
        size = size_of_site(site)
        with self._lock:
            for number, parts in enumerate(parts_of_site(site, size)):
                answer = self._exchange({"op": "packages", "size": 0 if number else size, "parts": parts})
                reason = text(answer["error"], "message") if isinstance(answer.get("error"), dict) else ""
                if isinstance(answer.get("free"), int):
                    reason = f"{size >> 20} MiB, and {answer['free'] >> 20} are free"
                if reason:
                    said = f"{reason}: {current().options['memory']}"
                    raise SandboxError(f"the packages do not fit into the session: {said}")
            self._sites.append(site)

    def save(self, path: str | os.PathLike[str], target: os.PathLike[str] | str) -> None:
        """Write a file of the sandbox to a path of the host; the name is the caller's, never the sandbox's.

        Raises:
            SandboxFileError: the sandbox has no such file.
            OSError: the target is a directory, or cannot be written.
        """
        from pathlib import Path  # noqa: PLC0415 (few sessions need it)

        from pysbx.base.directories import write_whole  # noqa: PLC0415 (few sessions need it)

        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, "is a directory: name the file in it, too", os.fspath(target))
        write_whole(Path(target).absolute(), self.get(path))

    def files(self) -> dict[str, int]:
        """Return the files of /work, by relative path, and of /output, with their sizes in bytes.

        Raises:
            SandboxError: the session has ended, or gave an answer that cannot be read.
        """
        with self._lock:
            answer = self._exchange({"op": "list"})
        found = answer.get("files")
        if not isinstance(found, dict) or not all(map(_is_file, found.items())):
            raise ForgedAnswerError(MALFORMED)
        return found
