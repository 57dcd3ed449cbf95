"""A workspace: a session as frameworks of agents want it, with files by absolute path and whole outputs of commands.

Commands and uses of files go on beside each other. All of it can be used from several threads.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pysbx.base.threads import run_interrupted
from pysbx.calls.execution import Execution, as_bytes, as_text
from pysbx.calls.processes import Command
from pysbx.calls.program import CommandTimeoutError, Completed, Program
from pysbx.calls.session import Sandbox
from pysbx.container.exchange import MALFORMED
from pysbx.errors import (
    ForgedAnswerError,
    SandboxError,
    SandboxFileError,
    SandboxFileNotFoundError,
    SandboxFileTooLargeError,
)
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import make_options

T = TypeVar("T")

MIB = 1024 * 1024
# Bytes of either stream of a command, of a file, and of a piece of a file; and entries of a directory.
OUTPUT, FILE, PIECE, ENTRIES = 10 * MIB, 100 * MIB, 4 * MIB, 100_000
KINDS = ("file", "directory", "other")
# Exit codes of a command that was killed: as timeout(1) has it, and as the shell does.
TIMED_OUT, KILLED = 124, 137


@dataclass(frozen=True)
class Entry:
    """A file or directory; of a link, what it leads to.

    Attributes:
        name: the last part of its path.
        path: its absolute path.
        kind: "file", "directory" or "other", as a device or a link to nothing is.
        size: bytes.
        mtime: when it was changed, in seconds since 1970.
        mode: its permissions, such as 0o644.
    """

    name: str
    path: str
    kind: str
    size: int
    mtime: float
    mode: int

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"


def _entry(path: str, about: list[Any]) -> Entry:
    """Return an entry of an answer, which may be forged."""
    types = (str, str, int, float, int)
    if len(about) != len(types) or not all(map(isinstance, about, types)) or about[1] not in KINDS:
        raise ForgedAnswerError(MALFORMED)
    return Entry(about[0], path, *about[1:])


# Workspaces of this process by their reference; those of other processes are found by their sessions.
_known: weakref.WeakValueDictionary[str, Workspace] = weakref.WeakValueDictionary()


class Workspace:
    """A session with files by absolute path, and commands whose output is whole. It starts at its first use.

    Attributes:
        sandbox: the session.
    """

    def __init__(self, sandbox: Sandbox | None = None, **options: Unpack[SandboxOptions]) -> None:
        """Take a session, or prepare one.

        Args:
            sandbox: the session; by default a new one.
            options: those of a new session.
        """
        self.sandbox = sandbox or Sandbox(**options)
        self._options = None if sandbox else options  # of another session, while there may be one
        self._id = ""
        self._begin, self._root = threading.Lock(), ""

    @property
    def id(self) -> str:
        """A reference by which attach() finds it, also in another process of the user, while this one lives."""
        with self._begin:
            if not self._id:
                self._id = self.sandbox.reference
                _known[self._id] = self
        return self._id

    @staticmethod
    def attach(reference: str) -> Workspace:
        """Return the workspace that has a reference. close() of one of another process lets its session go on.

        Raises:
            SandboxError: there is none, or its session has ended.
        """
        found = _known.get(reference)
        if found is None:
            try:
                return Workspace(Sandbox.attach(reference))
            except ValueError as error:
                raise SandboxError(str(error)) from error
        if found.sandbox.ended:
            raise SandboxError(f"the session has ended: {found.sandbox.ended}")
        return found

    @property
    def root(self) -> str:
        """The directory where commands begin, without links."""
        self._root = self._root or self.realpath("/work")
        return self._root

    def absolute(self, path: str | os.PathLike[str]) -> str:
        """Return a path, which may be relative to the root, as an absolute one."""
        return posixpath.join("/work", os.fspath(path))

    def exec(
        self,
        command: Command,
        stdin: bytes = b"",
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        limit: int = OUTPUT,
        merged: bool = False,
        begun: Callable[[Program], None] | None = None,
    ) -> Completed:
        """Run a command to its end, and return all of its output.

        It does not wait for processes that the command leaves in the background, and they go on.

        Args:
            command: a program and its arguments; or a string for the shell, which is bash if the sandbox has it.
            stdin: its input.
            cwd: where it begins; by default the root.
            env: variables besides those of the session.
            timeout_sec: seconds until it is killed with all processes of its session; None for any time.
            limit: bytes of either stream that are accepted.
            merged: whether standard error goes to standard output.
            begun: called with the program, whose stop() kills it.

        Raises:
            CommandTimeoutError: its time is over.
            OutputLimitError: it has written more than the limit.
            SandboxFileError: it cannot begin in that directory.
            SandboxError: the session has ended.
            TypeError, ValueError: an argument is wrong.
        """
        if timeout_sec is not None and not 0 < timeout_sec < threading.TIMEOUT_MAX:
            raise ValueError(f"timeout_sec: {timeout_sec!r} is not a number of seconds")
        program = self.sandbox._open_program(command, cwd=self.absolute(cwd), env=env, merged=merged)
        if begun is not None:
            begun(program)
        return program.communicate(stdin, timeout_sec, limit)

    def stat(self, path: str | os.PathLike[str]) -> Entry:
        """Return what is at a path, where links lead.

        Raises:
            SandboxFileError: this and all that follow; its class says why.
        """
        path = as_text(path, "path")
        found = self.sandbox._place("stat", path).get("about")
        return _entry(path, [posixpath.basename(path.rstrip("/")), *(found if isinstance(found, list) else ())])

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether a file or directory is at a path."""
        with contextlib.suppress(SandboxFileNotFoundError):
            self.stat(path)
            return True
        return False

    def list(self, path: str | os.PathLike[str]) -> list[Entry]:
        """Return the entries of a directory by name."""
        path = as_text(path, "path")
        entries = self.sandbox._place("list", path, limit=ENTRIES).get("entries")
        if not isinstance(entries, list) or not all(isinstance(one, list) and one for one in entries):
            raise ForgedAnswerError(MALFORMED)
        return [_entry(posixpath.join(path, str(one[0])), one) for one in entries]

    def make_directory(self, path: str | os.PathLike[str]) -> None:
        """Make a directory, and those above it; one that exists is no error."""
        self.sandbox._place("make", path)

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Remove a file, a link, or a directory with its content, but no directory that the sandbox needs."""
        self.sandbox._place("remove", path)

    def realpath(self, path: str | os.PathLike[str]) -> str:
        """Return a path without links and "..", which may lead to nothing."""
        found = self.sandbox._place("resolve", path).get("path")
        if not isinstance(found, str) or not found.startswith("/"):
            raise ForgedAnswerError(MALFORMED)
        return found

    def read(self, path: str | os.PathLike[str], limit: int = FILE) -> bytes:
        """Return the content of a file.

        Raises:
            SandboxFileTooLargeError: it has more bytes than the limit.
        """
        path, content, state = as_text(path, "path"), bytearray(), None
        piece = min(PIECE, self.sandbox.options.answer_limit // 2)
        while True:
            answer = self.sandbox._place("read", path, offset=len(content), limit=min(piece, limit + 1 - len(content)))
            part, now = answer.get("content"), answer.get("state")
            if not isinstance(part, bytes) or len(part) > piece:
                raise ForgedAnswerError(MALFORMED)
            if content and now != state:
                raise SandboxFileError(f"file '{path}': it was changed while it was read", path)
            content, state = content + part, now
            if len(content) > limit:
                raise SandboxFileTooLargeError(f"file '{path}': larger than {limit} bytes", path)
            if len(part) < piece:
                return bytes(content)

    def write(self, path: str | os.PathLike[str], content: bytes | str, mode: int | None = None) -> None:
        """Write a file: all of it, or nothing. Directories above it are made; a link leads to the file.

        Args:
            path: absolute.
            content: its content.
            mode: its permissions; by default those that it has.

        Raises:
            TypeError: the path or content is of another type; besides those of stat.
        """
        content, token = as_bytes(content, "content"), secrets.token_hex(8)
        for offset in range(0, max(1, len(content)), PIECE):
            part = content[offset : offset + PIECE]
            last = offset + PIECE >= len(content)
            self.sandbox._place("write", path, token=token, offset=offset, content=part, last=last, mode=mode)

    def renew(self) -> None:
        """If its own session has ended, put a new one in its place, without names and files; not after close()."""
        with self._begin:
            if self.sandbox.ended and self._options is not None:
                self.sandbox.close()
                self.sandbox, self._id, self._root = Sandbox(**self._options), "", ""

    def close(self) -> None:
        """End the session and all of its processes, for good."""
        with self._begin:  # or a session that is just being prepared would go on
            self._options = None
            self.sandbox.close()


class Opened:
    """The beginning of an adapter. A use that finds that the session has ended fails, and the next has a new one."""

    def __init__(
        self, workspace: Workspace | None = None, *, limit: int = OUTPUT, **options: Unpack[SandboxOptions]
    ) -> None:
        """Take a workspace, or prepare one.

        Args:
            workspace: by default a new one.
            limit: bytes of either stream of a command that are accepted; the command is killed at more.
            options: those of a new workspace; timeout_sec may be the default of commands.
        """
        self._workspace = workspace or Workspace(**options)
        self._limit = limit

    @property
    def workspace(self) -> Workspace:
        """The session; a new one if it has ended."""
        self._workspace.renew()
        return self._workspace

    def _options(self, timeout: float | None, **options: Any) -> dict[str, Any]:
        """Return the options of a command that has both streams in one; without a time it has that of the sandbox."""
        seconds = self.workspace.sandbox.options.timeout_sec if timeout is None else timeout
        return {"timeout_sec": seconds or None, "limit": self._limit, "merged": True, **options}


def gathered(fields: Iterable[str], given: Any) -> Any:
    """Return the arguments of a framework's model, with those that are no fields in options, where they are checked.

    The model would drop them without a word: a limit that was asked for.
    """
    if not isinstance(given, dict):
        return given  # a model that has been made before
    fields = {*fields}
    named = {name: value for name, value in given.items() if name not in fields}
    options = {**given.get("options", {}), **named}
    make_options(**options)
    return {name: value for name, value in given.items() if name in fields} | {"options": options}


def lost(sandbox: Sandbox) -> str:
    """Return what a model has to know after code: a line, if the session has ended; otherwise ""."""
    return "the session has ended: its names and files are gone\n" if sandbox.ended else ""


def shown(*streams: bytes) -> str:
    """Return output as text."""
    return b"".join(streams).decode(errors="replace")


def stopped(error: SandboxError) -> tuple[str, int]:
    """Return the output of a command that was killed, with the reason at its end, and its exit code."""
    code = TIMED_OUT if isinstance(error, CommandTimeoutError) else KILLED
    return f"{shown(getattr(error, 'stdout', b''))}\n[{error}]\n", code


async def in_thread(work: Callable[[], T]) -> T:
    """Do something with a workspace in a thread; it takes no long time, so it is not interrupted."""
    return await run_interrupted(work, lambda: None)


async def run_async(sandbox: Sandbox, source: str, timeout_sec: float | None = None) -> Execution:
    """Run source text in a session. If the task is cancelled, the code is interrupted."""
    return await run_interrupted(lambda: sandbox.run(source, timeout_sec=timeout_sec), sandbox.interrupt)


async def exec_async(
    workspace: Workspace,
    command: Command,
    stdin: bytes = b"",
    *,
    on_output: Callable[[str, bytes], None] | None = None,
    **options: Any,
) -> Completed:
    """Run a command: see Workspace.exec. If the task is cancelled, the command is killed.

    Args:
        workspace: where.
        command: the command.
        stdin: its input.
        on_output: see Program.
        options: those of Workspace.exec.
    """
    running: list[Program] = []

    def begin(program: Program) -> None:
        program.on_output = on_output
        running.append(program)

    def interrupt() -> None:
        for one in running:
            one.stop()

    return await run_interrupted(lambda: workspace.exec(command, stdin, begun=begin, **options), interrupt)
