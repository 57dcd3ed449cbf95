"""The snapshots that callers of a server have made of their sessions: each caller has a directory of its own.

A caller gives a name, and never a path. The snapshots outlive their session and the server.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pysbx.base.directories import private_directory, state_directory
from pysbx.calls import saved
from pysbx.calls.session import Sandbox
from pysbx.errors import SandboxError
from pysbx.service.connections.problems import KEPT, NO_SNAPSHOT, REQUEST, Problem

# Bytes that the snapshots of a caller may have together.
MOST_BYTES = 4 << 30


@dataclass(frozen=True)
class Kept:
    """A snapshot that is kept.

    Attributes:
        name: which its caller has chosen.
        size: of its file, in bytes.
        made: when it was made, in seconds since 1970.
    """

    name: str
    size: int
    made: float


class Snapshots:
    """The snapshots of all callers, which other programs of the user can be adding to."""

    def __init__(self, most: int) -> None:
        """Take the number of snapshots that a caller may have."""
        self.most = most
        # So that two of a caller cannot both take the last room.
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @staticmethod
    def _directory(owner: str) -> Path:
        name = hashlib.sha256(owner.encode()).hexdigest()[:32]
        return private_directory(private_directory(state_directory() / "service-sessions") / name)

    def _place(self, owner: str, name: str) -> Path:
        if not saved.NAME.fullmatch(name):
            raise Problem(REQUEST, f"snapshot: {name!r:.100} is no name: {saved.NAME_RULE}")
        return self._directory(owner) / name

    def listed(self, owner: str) -> list[Kept]:
        """Return the snapshots of a caller, by name."""
        found = []
        for path in sorted(self._directory(owner).iterdir()):
            if saved.NAME.fullmatch(path.name):
                with suppress(FileNotFoundError):  # it has just been removed
                    found.append(_kept(path))
        return found

    def write(self, owner: str, name: str, sandbox: Sandbox) -> Kept:
        """Make a snapshot of a session, which replaces one of the same name.

        Raises:
            Problem: the caller has no room for it, or this is no name.
            SandboxError: the session cannot be saved.
        """
        path = self._place(owner, name)
        others = [one for one in self.listed(owner) if one.name != name]
        if len(others) >= self.most:
            raise Problem(KEPT, f"snapshots: {self.most} is the most")
        left = MOST_BYTES - sum(one.size for one in others)
        with _named(path):
            try:
                sandbox._snapshot_to(path, left)
            except saved.TooLargeError:
                said = f"snapshots: {MOST_BYTES >> 20} MiB together is the most: remove one"
                raise Problem(KEPT, said) from None
        try:
            return _kept(path)
        except FileNotFoundError:
            raise Problem(NO_SNAPSHOT, f"snapshot: '{name}' was removed while it was made") from None

    def restore(self, owner: str, name: str, sandbox: Sandbox) -> None:
        """Let a session that was not used yet begin from a snapshot.

        Raises:
            Problem: the caller has no such snapshot.
            SandboxError: it cannot be restored, or not with these options.
        """
        path = self._existing(owner, name)
        with _named(path):
            sandbox._begin_from(path)

    def remove(self, owner: str, name: str) -> None:
        """Remove a snapshot.

        Raises:
            Problem: the caller has no such snapshot.
        """
        self._existing(owner, name).unlink(missing_ok=True)

    def _existing(self, owner: str, name: str) -> Path:
        path = self._place(owner, name)
        if not path.exists():
            raise Problem(NO_SNAPSHOT, f"snapshot: there is no '{name}'")
        return path


def _kept(path: Path) -> Kept:
    about = path.stat()
    return Kept(path.name, about.st_size, about.st_mtime)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error name a snapshot as its caller does, and not the directory of the server."""
    try:
        yield
    except SandboxError as error:
        error.args = tuple(part.replace(str(path), path.name) if isinstance(part, str) else part for part in error.args)
        raise
