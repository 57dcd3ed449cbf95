"""The files of a session at its start, which its changes are compared to: what the caller has put there."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# Bytes of contents that are kept, and of those that stay in memory.
KEPT, IN_MEMORY = 512 << 20, 1 << 20
OUTPUT = "/output/"


class Known(NamedTuple):
    """A file at the start: its size, hash, modes, and its place among the contents that are kept, or -1."""

    size: int
    digest: bytes
    executable: bool
    offset: int


class _Kept:
    """Contents in a file without a name. Forks share it."""

    def __init__(self) -> None:
        import tempfile  # noqa: PLC0415 (few programs have a session with files)

        from pysbx.base.directories import cache_directory  # noqa: PLC0415 (the same)

        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(cache_directory()))  # noqa: SIM115 (it has no name)
        self._lock, self._size = threading.Lock(), 0

    def add(self, content: bytes) -> int:
        """Keep a content; return its place, or -1 if there is no room."""
        with self._lock:
            offset = self._size
            if offset + len(content) > KEPT:
                return -1
            try:
                self._file.seek(offset)
                self._file.write(content)
                self._file.flush()
            except OSError:  # the disk is full
                return -1
            self._size += len(content)
            return offset

    def read(self, offset: int, size: int) -> bytes:
        """Return a content."""
        with self._lock:
            self._file.seek(offset)
            return self._file.read(size)


class Baseline:
    """The files of a session at the start."""

    def __init__(self, *, keeps: bool = True) -> None:
        """Begin with none.

        Args:
            keeps: whether contents are kept, for differences and discard().
        """
        self.files: dict[str, Known] = {}
        self.overflow = False
        self._keeps = keeps
        self._kept: _Kept | None = None

    def copy(self) -> Baseline:
        """Return the same for a fork."""
        other = Baseline(keeps=self._keeps)
        other.files, other.overflow, other._kept = dict(self.files), self.overflow, self._kept
        return other

    def note(self, files: Mapping[str, bytes], executable: Iterable[str] = ()) -> None:
        """Take files, by path as checked_files has it, for those of the start."""
        from pysbx.container.artifacts import MAX_FILES  # noqa: PLC0415 (the same)

        programs = set(executable)
        for path, content in files.items():
            if not path.endswith("/") and (not path.startswith("/") or path.startswith(OUTPUT)):
                self.overflow |= len(self.files) >= MAX_FILES and path not in self.files
                if not self.overflow:
                    known = self.files.get(path)
                    same = known is not None and known.executable
                    self.files[path] = self._known(content, path in programs or same)

    def _known(self, content: bytes, executable: bool) -> Known:
        offset = -1
        if self._keeps:
            self._kept = self._kept or _Kept()
            offset = self._kept.add(content)
        import hashlib  # noqa: PLC0415 (the same)

        return Known(len(content), hashlib.sha256(content).digest(), executable, offset)

    def packed(self) -> dict[str, Any]:
        """Return it as plain values, for the file of a saved session."""
        files = {path: [*known[:-1], self.content(path)] for path, known in self.files.items()}
        return {"keeps": self._keeps, "overflow": self.overflow, "files": files}

    @classmethod
    def unpacked(cls, found: Any) -> Baseline:
        """Return it again. The file may say anything.

        Raises:
            ValueError: it cannot be read.
        """
        from pysbx.calls.execution import checked_files  # noqa: PLC0415 (a circle)

        try:
            made = cls(keeps=bool(found["keeps"]))
            made.overflow = bool(found["overflow"])
            if set(checked_files(dict.fromkeys(found["files"], b""))) != set(found["files"]):
                raise ValueError("a path is not as checked_files has it")
            for path, (size, digest, executable, content) in found["files"].items():
                if isinstance(content, bytes):
                    made.files[path] = made._known(content, bool(executable))
                else:
                    made.files[path] = Known(operator.index(size), memoryview(digest).tobytes(), bool(executable), -1)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError("it is damaged: its files at the start cannot be read") from error
        return made

    def content(self, path: str) -> bytes | None:
        """Return the content of a file at the start, or None if it was not kept."""
        known = self.files[path]
        if known.offset < 0 or self._kept is None:
            return None
        return self._kept.read(known.offset, known.size)
