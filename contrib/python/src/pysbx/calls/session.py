"""Sandbox: one container that lasts for several runs and keeps their state."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pysbx.base import runtime, trees
from pysbx.base.directories import write_whole
from pysbx.base.option_names import current
from pysbx.calls.baseline import Baseline
from pysbx.calls.call import Result, find_class_for, open_answer, request_for
from pysbx.calls.execution import (
    TIMED_OUT,
    Execution,
    Files,
    answered,
    as_text,
    as_texts,
    check_file,
    check_put,
    checked_files,
    checked_input,
    execution,
    run_request,
    unanswered,
)
from pysbx.calls.prepare import prepare, site_of
from pysbx.calls.processes import Command, Process, check_started, command_request, processes_of
from pysbx.calls.tools import Tools, as_tools
from pysbx.container import ready
from pysbx.container.bundle import Bundle
from pysbx.container.container import Container, Message, Usage
from pysbx.container.exchange import MALFORMED, exchange, hint_for, text, timeout_error
from pysbx.container.streams import forward, output_callback
from pysbx.errors import (
    ForgedAnswerError,
    SandboxError,
    SandboxFileTooLargeError,
    SandboxOptionError,
    SandboxPausedError,
    SandboxStartupError,
)
from pysbx.options.keywords import OPTIONS, SandboxOptions, Unpack
from pysbx.options.options import Options, make_options

if TYPE_CHECKING:
    from pysbx.calls.attach import Reference
    from pysbx.calls.changes import Change, Changes, Commit, Sides
    from pysbx.calls.forward import Forward
    from pysbx.calls.program import Program
    from pysbx.calls.saved import Checkpoint, Saved
    from pysbx.calls.terminal import Terminal
    from pysbx.calls.tool_calls import ToolHost

# The runtime's code when it could begin a container, but could not restore the process in it.
UNFIT = "snapshot-unfit"
# How fork(2) fails at the limit of processes.
NO_PROCESS = re.compile(rf"^\[Errno {errno.EAGAIN}\]")
# Failures of a disk, which has no room or forbids writing.
NO_SPACE = re.compile("|".join(map(re.escape, map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)))))
# Forks that start at the same time.
AT_ONCE = 4
# Seconds from the interrupt at the end of the time of a run until the session is killed.
PATIENCE_SEC = 3.0
# Seconds for requests that run no code of the user's, however short the limit of that is.
OWN_SEC = 30.0
INTERRUPTED = "KeyboardInterrupt"
Hears = Callable[[str], None]
# The requests that carry out code, which can be interrupted; and those whose outcome is an Execution.
REPORTED = ("run", "shell")
CODE = (*REPORTED, "call", "complete")
# Those during which the code may call tools.
CALLING = ("run", "call")
# Of a prompt: seconds for the names that continue what was typed, and bounds of them.
COMPLETE_SEC = 2.0
MAX_TYPED, MAX_COMPLETIONS = 200, 200
# Of packages that are added: bytes of a request, and of a page, in which a file system in memory counts.
PART, PAGE = 4 << 20, 4096
SAVED_REMEDY = " (end what is not plain memory first: close files and sockets, delete shared memory)"


def _refuse_entry(path: str, reason: str) -> NoReturn:
    remedy = "`pysbx clean dependencies --all` removes the set"
    raise SandboxError(f"the packages cannot be added to the session: {path!r:.100}: {reason}: {remedy}")


def size_of_site(site: Path) -> int:
    """Return the bytes that the files of installed packages take.

    Raises:
        SandboxError: an entry is not a file that can be sent, or there are too many.
    """
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


def _refusal(reason: str, done: str = "forked") -> SandboxError:
    return SandboxError(f"the session cannot be {done}: {reason}")


def _with_remedy(reason: str) -> str:
    """Return why a process was not copied; if that is a limit of processes, with the option."""
    return f"{reason} ({current().options['processes']})" if NO_PROCESS.search(reason) else reason


def _is_file(item: tuple[object, object]) -> bool:
    """Tell whether an item of a list of files is a name and a size."""
    name, size = item
    return isinstance(name, str) and type(size) is int and size >= 0


def _marked(late: str) -> str:
    """Return text that processes and threads of earlier runs have written after the end of these, with a mark."""
    end = "" if late.endswith("\n") else "\n"
    return f"[late output of an earlier run]\n{late}{end}[end of late output]\n"


def _hand_on_late(container: Container, *, between: bool) -> str:
    """Return the text of earlier runs, with a mark, and hand it on as standard error.

    Args:
        container: the container.
        between: no run is in progress, so all text is such.
    """
    heard, container.streams.on_output = container.streams.on_output, None
    try:
        said = container.streams.take_late(between=between)
    finally:
        container.streams.on_output = heard
    marked = _marked(said) if said else ""
    if marked and heard is not None:
        heard("stderr", marked)
    return marked


def _note_timeout(fields: dict[str, Any], seconds: float, options: Options) -> None:
    """Change the fields of an Execution if its code has ended by the interrupt at the end of its time."""
    error = fields["error"]
    if error is not None and error.type == INTERRUPTED:
        said = str(timeout_error(seconds, "interrupted"))
        fields["error"] = replace(error, type="Timeout", message=said, hint=hint_for("Timeout", said, (), options))
        fields |= {"timed_out": True, "exit_code": TIMED_OUT}


class Sandbox:
    """A session: names, modules and files of one run are there in the next.

    Use it in a with statement. Runs of one session follow each other; sessions are independent. A run that takes too
    long is interrupted, and the session goes on. A run that does not end then, or that ends the process, ends the
    session: later calls raise SandboxError.
    """

    def __init__(
        self,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        options: Options | None = None,
        cancel: int = -1,
        **changes: Unpack[SandboxOptions],
    ) -> None:
        """Prepare the session; it starts at its first use.

        Args:
            on_stdout: called with text of standard output as it comes.
            on_stderr: called with text of standard error as it comes.
            tools: functions of this program that the code may call, by name: see Tools.
            options: the sandbox; by default the default one.
            cancel: see Container; not of the session's forks.
            changes: options of the sandbox by name, as of the decorator; timeout_sec is that of each run.
        """
        chosen = make_options(options, **changes)
        self._tools: ToolHost | None = None
        if (listed := as_tools(tools)) is not None:
            from pysbx.calls.tool_calls import ToolHost  # noqa: PLC0415 (few sessions have some)

            self._tools = ToolHost(listed)
        self.options = replace(chosen, session=True, tools=self._tools is not None)
        self._on_output = output_callback(on_stdout, on_stderr)
        # The streams that have a callback. Of calls, the text of the others goes to sys.stderr.
        self._heard = [name for name, given in (("stdout", on_stdout), ("stderr", on_stderr)) if given]
        self._container: Container | None = None
        self._bundle: Bundle | None = None
        self._ended = ""
        self._sites: list[Path] = []  # of the packages that were added
        self._shares_streams = False  # with processes or threads of earlier runs
        self._checkpoints: list[Checkpoint] = []
        self._parked: Saved | None = None
        self._spent_sec = 0.0  # CPU time of containers that this session had before
        self._cancel = cancel
        self._paused = False
        self._baseline = Baseline()
        self._reference: Reference | None = None
        self._lock = threading.RLock()
        self._forwards: list[Forward] = []
        self._terminals: list[Terminal] = []

    def __enter__(self) -> Sandbox:
        """Start the session."""
        self._started()
        return self

    def __exit__(self, *exception: object) -> None:
        """End the session and all its processes."""
        self.close()

    @overload
    def fork(self) -> Sandbox: ...

    @overload
    def fork(self, count: int) -> list[Sandbox]: ...

    def fork(self, count: int | None = None) -> Sandbox | list[Sandbox]:
        """Return a second session that continues from the state of this one, in a sandbox of its own.

        The second session has the same memory, files of /work, /output, /tmp and /dev/shm, and working directory. From
        now on the two are independent. Random numbers differ, except those of generators that the code has created
        itself. This session goes on, also after a refusal.

        Args:
            count: return a list of so many sessions. This one is saved once, and they share memory until they write.

        Raises:
            SandboxError: this session cannot be forked; the text says why. It must have been started warm, and what
                it has besides memory and files cannot be copied: threads, processes, open files, shared memory.
        """
        if count is not None and (type(count) is not int or count < 0):
            raise ValueError(f"count: {count!r} is not a number of sessions")
        made = [self._another() for _ in range(1 if count is None else count)]
        try:
            with self._lock, self._capture("forked") as saved:
                for first in range(0, len(made), AT_ONCE):
                    some = made[first : first + AT_ONCE]
                    for one in some:
                        one._begin_saved(saved)
                    for one in some:
                        one._continue(saved, "forked")
        except BaseException:
            for one in made:
                one.close()
            raise
        return made[0] if count is None else made

    def _fork_into(self, fork: Sandbox) -> None:
        """Let another session continue from the state of this one; see fork().

        Args:
            fork: has the same options, its own callbacks and descriptor to cancel it, and was not used yet.

        Raises:
            SandboxError: as fork(); the other session has ended then.
        """
        try:
            with self._lock, self._capture("forked") as saved:
                fork._continue_from(saved, "forked")
        except BaseException:
            fork.close()
            raise

    def _another(self) -> Sandbox:
        """Return a session with the options and callbacks of this one, which has not begun."""
        made = Sandbox(options=self.options, tools=None if self._tools is None else self._tools.tools)
        made._on_output, made._heard = self._on_output, self._heard
        return made

    def _capture(self, done: str) -> Saved:
        """Return the present state in a file without a name.

        Args:
            done: with the session, for an error: "forked" or "saved".
        """
        from pysbx.calls.saved import capture  # noqa: PLC0415 (few sessions need it)

        try:
            saved = capture(lambda descriptor: self._save(descriptor, done), self._sites)
        except OSError as error:
            raise _refusal(error.strerror or str(error), done) from error
        saved.baseline = self._baseline.copy()
        return saved

    def _begin_saved(self, saved: Saved) -> None:
        """Let a new container start from a saved state; _continue() waits for it."""
        self._bundle = prepare(self.options)
        self._container = Container(self._bundle, self._on_output, self._cancel, snapshot=saved.descriptor)

    def _continue_from(self, saved: Saved, done: str) -> None:
        """Begin in a new container, from a saved state: see _continue."""
        try:
            self._begin_saved(saved)
            self._continue(saved, done)
        except BaseException:
            self.close()
            raise

    def _continue(self, saved: Saved, done: str) -> None:
        """Wait for a container that starts from a saved state, and restore the rest. After an error it has ended.

        Args:
            saved: the state.
            done: with the session, for an error: "forked" or "restored".
        """
        container = self._started()[0]
        try:
            try:
                answer = self._exchange({"op": "continue", **saved.state})
            except SandboxOptionError as error:
                if done == "restored":
                    raise
                raise _refusal(str(error), done) from error  # of the state, and no option of this call
            except SandboxStartupError as error:
                if error.code != UNFIT:
                    raise
                raise _refusal(str(error), done) from error
            if answer.get("refused"):
                raise _refusal(text(answer, "refused"), done)
            if isinstance(answer.get("error"), dict):  # no room for the files
                said = f"{text(answer['error'], 'message')}: {current().options['memory']}"
                raise _refusal(said, done)
            for site in saved.sites:
                self._add_packages(site)
            if saved.baseline is not None:
                self._baseline = saved.baseline.copy()
            container.note(self.options.collect)
        except BaseException:
            self.close()
            raise

    def _save(self, descriptor: int, done: str, *, lasting: bool = False) -> Message:
        """Write a copy of the session's process to a file, and return the rest of its state.

        Args:
            descriptor: of the file.
            done: see _capture.
            lasting: whether another program may restore it.
        """
        from pysbx.calls.saved import STATE  # noqa: PLC0415 (few sessions need it)

        container = self._started()[0]
        if not all(one.ended for one in self._terminals):
            raise _refusal("a terminal is open: close it", done)
        container.identify_sender(wanted=True)
        answer = self._exchange({"op": "fork"})
        sender = container.sender
        container.identify_sender(wanted=False)
        if not container.warm:
            raise _refusal(f"it was started cold: {current().options['cold']}", done)
        if answer.get("refused"):
            raise _refusal(_with_remedy(text(answer, "refused")), done)
        try:
            said = runtime.save_process(container.name, sender, descriptor)
        finally:
            limit = self.options.answer_limit // 2
            state = self._exchange({"op": "forked", "limit": limit, "lasting": lasting})
        if said:
            raise _refusal(said if NO_SPACE.search(said) else said + SAVED_REMEDY, done)
        if state.get("refused"):
            raise _refusal(text(state, "refused"), done)
        return {name: state[name] for name in STATE if name in state}

    def snapshot(self, path_or_name: str | os.PathLike[str]) -> Path:
        """Save the session to a file, for Sandbox.restore() in this or another program; it goes on.

        The file has all data of the session. Only its owner may read it. An existing one is replaced as a whole.

        Args:
            path_or_name: a name, such as "analysis", which `pysbx sessions list` shows; or a path, which is an
                os.PathLike or has a slash.

        Returns:
            The path of the file.

        Raises:
            SandboxError: as fork(); or it cannot be written.
            TypeError: the argument is of another type.
            ValueError: there can be no such name.
        """
        from pysbx.calls import saved  # noqa: PLC0415 (few sessions need it)

        path = saved.place(path_or_name)
        with self._lock:
            self._started()
            if self._sites:
                raise _refusal("packages were added by install(): start it with these dependencies instead", "saved")
            self._exchange({"op": "list"})  # it has begun, and its version is known
            saved.write(path, lambda file: self._save(file, "saved", lasting=True), self.options, self._python)
        return path

    @classmethod
    def restore(
        cls,
        path_or_name: str | os.PathLike[str],
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        options: Options | None = None,
        **changes: Unpack[SandboxOptions],
    ) -> Sandbox:
        """Return a session that continues from a file of snapshot(); the file can be restored again.

        Limits, network and mounts are those of this call. Options that the process has in its memory must be as they
        were: dependencies, env, image, rootfs, virtualenv.

        Args:
            path_or_name: see snapshot.
            on_stdout: see the class.
            on_stderr: the same.
            tools: the same.
            options: the same.
            changes: the same.

        Raises:
            SandboxError: there is no such session of the caller's; it is damaged; or kernel, CPU, interpreter,
                libraries, runtime or options differ. The text says which.
            TypeError: an argument is of another type.
            ValueError: there can be no such name.
        """
        made = cls(on_stdout=on_stdout, on_stderr=on_stderr, tools=tools, options=options, **changes)
        made._begin_from(path_or_name)
        return made

    def _begin_from(self, path_or_name: str | os.PathLike[str]) -> None:
        """Begin with the state of a file of snapshot(); see restore."""
        from pysbx.calls import saved  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            try:
                found = saved.read(saved.place(path_or_name), self.options)
            except BaseException:
                self.close()
                raise
            with found:
                self._continue_from(found, "restored")

    def checkpoint(self) -> Checkpoint:
        """Return the present state, memory and files, for rollback(); the session goes on.

        A session has at most 16, which take at most 4 GiB together. They end with the session.

        Raises:
            SandboxError: as fork(); or there are too many.
        """
        from pysbx.calls.saved import MOST_BYTES, MOST_CHECKPOINTS, Checkpoint  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            if len(self._checkpoints) >= MOST_CHECKPOINTS:
                raise SandboxError(f"the session has {MOST_CHECKPOINTS} checkpoints, which is the most: remove one")
            made = Checkpoint(self._capture("saved"), self._remove_checkpoint)
            if made.size + sum(one.size for one in self._checkpoints) > MOST_BYTES:
                made.saved.close()
                raise SandboxError(f"the checkpoints take more than {MOST_BYTES >> 30} GiB together: remove one")
            self._checkpoints.append(made)
        return made

    def _remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._lock:
            self._checkpoints = [one for one in self._checkpoints if one is not checkpoint]
            checkpoint.saved.close()

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint, in a new container; also from a session that has ended, but was not closed.

        Processes, terminals and forwarded ports of the present state end. Random numbers differ from those that
        followed the checkpoint before. After an error the present state is kept.

        Raises:
            SandboxError: the checkpoint is of another session, or was removed; or it cannot be restored.
        """
        with self._lock:
            if checkpoint not in self._checkpoints:
                raise SandboxError("the checkpoint is of another session, or was removed")
            self._replace(checkpoint.saved)

    def park(self) -> None:
        """Save the session to a file without a name, and end its container; the next use continues from there.

        The file takes disk space until then, and goes with this program.

        Raises:
            SandboxError: as fork(); or a port is forwarded. The session goes on then.
        """
        with self._lock:
            if self._container is None and not self._ended:  # it has not begun, or is parked
                return
            self._started()
            if any(one.listener.fileno() >= 0 for one in self._forwards):
                raise _refusal("a port is forwarded: close it", "parked")
            self._parked = self._capture("parked")
            self._drop_container()

    def _hang_up(self) -> None:
        for one in self._forwards:
            one.close()
        for terminal in self._terminals:
            terminal.hang_up()

    def _drop_container(self) -> None:
        self._hang_up()
        self._forwards, self._terminals, self._shares_streams = [], [], False
        if self._container is not None:
            self._container.close()
            self._spent_sec += self._container.usage.cpu_sec
            self._container = None

    def _replace(self, saved: Saved) -> None:
        """Continue from a saved state, in a new container instead of the present one."""
        made = self._another()
        made._cancel = self._cancel
        made._continue_from(saved, "restored")
        self._drop_container()
        self._forget_parked()
        self._container, self._bundle, self._sites = made._container, made._bundle, made._sites
        self._baseline, self._paused, self._ended = made._baseline, False, ""

    def _forget_parked(self) -> None:
        if self._parked is not None:
            self._parked.close()
            self._parked = None

    @property
    def reference(self) -> str:
        """A text by which other processes of the same user find the session while this one lives: see attach."""
        from pysbx.calls.attach import Reference  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            if self._ended:
                raise SandboxError(f"the session has ended: {self._ended}")
            self._reference = self._reference or Reference(self)
            return self._reference.text

    @staticmethod
    def attach(reference: str) -> Sandbox:
        """Return the session of another process of the same user. Uses take turns; close() lets it go on.

        It cannot be forked from here, and call() is not possible.

        Raises:
            SandboxError: that process has ended.
            ValueError: this is no reference.
        """
        from pysbx.calls.attach import Attached  # noqa: PLC0415 (few programs need it)

        class AttachedSandbox(Attached, Sandbox):
            """A session of another process."""

        return AttachedSandbox(reference)

    def close(self) -> None:
        """End the session; once more is no error."""
        if self._reference is not None:
            self._reference.close()
        with self._lock:
            self._hang_up()
            if self._container is not None:
                self._container.close()
            for checkpoint in self._checkpoints:
                checkpoint.saved.close()
            self._checkpoints = []
            self._forget_parked()
            self._baseline = Baseline()
            self._ended = self._ended or "it has been closed"

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs: from another thread, or a signal handler.

        While none runs nothing happens.
        """
        # An interpreter that is still starting would end.
        if self._container is not None and self._container.has_begun():
            self._container.interrupt()

    def pause(self) -> None:
        """Freeze all processes of the session, after the run in progress. Memory and files are kept.

        Until resume() every use but close() is an error.

        Raises:
            SandboxError: the session has ended, or has no cgroup of its own.
        """
        with self._lock:
            if self._paused:
                return
            container = self._started()[0]
            if not container.has_begun():
                self.files()  # wait until there is a container
            if said := container.freeze(frozen=True):
                raise SandboxError(f"the session cannot be paused: {said}")
            self._paused = True

    def resume(self) -> None:
        """Let a paused session go on; one that is not paused does anyway.

        Raises:
            SandboxError: the session has ended.
        """
        with self._lock:
            paused, self._paused = self._paused, False
            container = self._started()[0]
            if paused and (said := container.freeze(frozen=False)):
                raise SandboxError(f"the session cannot be resumed: {said}")

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        return self._paused and not self._ended

    @property
    def _python(self) -> tuple[int, int] | None:
        """Major and minor version of its Python, as the sandbox says; None before its first use."""
        return None if self._container is None else self._container.version

    @property
    def ended(self) -> str:
        """Why the session has ended; "" while it can go on."""
        return self._ended

    @property
    def _cpu_sec(self) -> float:
        """CPU time that all processes of the session have used, also between runs, in seconds.

        It is at most ten milliseconds old.
        """
        return self._spent_sec + (0.0 if self._container is None else self._container.recent_cpu_sec)

    def _started(self) -> tuple[Container, Bundle]:
        if self._ended:
            raise SandboxError(f"the session has ended: {self._ended}")
        if self._paused:
            raise SandboxPausedError("the session is paused: resume() it first")
        if self._parked is not None:
            self._replace(self._parked)
        if self._container is None or self._bundle is None:
            self._bundle = prepare(self.options)
            self._container = ready.take(self._bundle, self._on_output, self._cancel)
        return self._container, self._bundle

    def _exchange(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Message:
        if self._tools is not None and not self._tools.connected and request["op"] in CALLING:
            if passed >= 0:
                raise SandboxError("the session has tools, and its code cannot be typed at a prompt")
            with self._tools.connect() as (about, way):
                return self._exchange(request | about, timeout_sec, way)
        container, bundle = self._started()
        patience = None
        heard = container.streams.on_output
        if request["op"] in CODE:
            patience = PATIENCE_SEC
            request = {**request, "asks_shared": True}
        else:
            container.streams.on_output = None
        try:
            answer = exchange(
                container, bundle, request, last=False, timeout_sec=timeout_sec, patience=patience, passed=passed
            )
            self._shares_streams |= answer.get("shared") is True
            return answer
        except BaseException as error:
            # In the middle of an exchange there is no way back to its beginning.
            self._ended = str(error) or type(error).__name__
            container.kill()
            if request["op"] not in REPORTED:  # its files are collected yet
                container.close()
            raise
        finally:
            container.streams.on_output = heard

    def _separate_streams(self, container: Container) -> None:
        """Give the next run streams of its own if processes or threads of earlier ones have the present ones."""
        if not self._shares_streams:
            return
        self._shares_streams = False
        with contextlib.ExitStack() as given:
            for number, end in container.streams.renew(given).items():
                self._exchange({"op": "stream", "number": number}, passed=end)

    def run(
        self,
        source: str,
        argv: Iterable[str | os.PathLike[str]] = (),
        stdin: bytes | str = b"",
        *,
        timeout_sec: float | None = None,
        on_stdout: Hears | None = None,
        on_stderr: Hears | None = None,
    ) -> Execution:
        """Run source text in the session.

        Args:
            source: the program, or the next part of one.
            argv: arguments for this run.
            stdin: what it reads from standard input; the next run finds that empty.
            timeout_sec: seconds until it gets KeyboardInterrupt; by default those of the session. If it goes on for
                three seconds more, the session is killed.
            on_stdout: called with text of standard output of this run as it comes, instead of the session's callback.
            on_stderr: the same of standard error.

        Raises:
            SandboxError: the session has ended, or could not be started.
            TypeError: an argument is of another type.
            ValueError: the input is too large, or the limit of time is none.
        """
        arguments = ["-c", *as_texts(argv, "argv")]
        request = run_request(source, self.options, last=False, argv=arguments, stdin=stdin)
        return self._carry_out_heard(request, timeout_sec, on_stdout, on_stderr)

    def _run_typed(self, source: str, stdin: int = -1) -> Execution:
        """Run source text that was typed at a prompt: its value gets the name `_`.

        Args:
            source: the text.
            stdin: a descriptor that it reads from: a pipe, because the code could type into a terminal. -1 is none.
        """
        request = run_request(source, self.options, last=False, argv=[""], prompt=True)
        return self._carry_out(request, None, stdin)

    def _complete(self, typed: str) -> list[str]:
        """Return the names in the session that begin with a text, as for a prompt; none if that takes too long."""
        with self._lock:
            answer = self._exchange({"op": "complete", "text": typed[:MAX_TYPED]}, COMPLETE_SEC)
        found = answer.get("names")
        names = found[:MAX_COMPLETIONS] if isinstance(found, list) else []
        return [name for name in names if isinstance(name, str) and len(name) <= MAX_TYPED]

    def _carry_out_heard(
        self,
        request: Message,
        timeout_sec: float | None,
        on_stdout: Hears | None,
        on_stderr: Hears | None,
        passed: int = -1,
    ) -> Execution:
        """Carry out a request for a run whose output goes to callbacks of its own, if it has any."""
        with self._lock:
            container = self._started()[0]
            own = {"stdout": on_stdout, "stderr": on_stderr}
            before = container.streams.on_output

            def heard(name: str, said: str) -> None:
                one = own[name]
                if one is not None:
                    one(said)
                elif before is not None:
                    before(name, said)

            container.streams.on_output = heard if any(own.values()) else before
            try:
                return self._carry_out(request, timeout_sec, passed)
            finally:
                container.streams.on_output = before

    def _exchange_in_turn(self, request: Message, timeout_sec: float | None, passed: int = -1) -> Message:
        """Send a request that runs no code of the user's, and return the answer."""
        with self._lock:
            return self._exchange(request, timeout_sec, passed)

    def _carry_out(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Execution:
        """Carry out a request for a run, and return how it went; see run and exchange.exchange."""
        if timeout_sec is not None:
            OPTIONS["timeout_sec"].check(timeout_sec)
        with self._lock:
            container, bundle = self._started()
            late = _hand_on_late(container, between=True)
            began, spent = time.monotonic(), container.recent_cpu_sec
            try:
                self._separate_streams(container)
                fields = answered(self._exchange(request, timeout_sec, passed), self.options)
                if container.interrupted:
                    seconds = self.options.timeout_sec if timeout_sec is None else timeout_sec
                    _note_timeout(fields, seconds, self.options)
            except SandboxError as error:
                fields = unanswered(error, self.options)
            used = container.usage
            usage = Usage(time.monotonic() - began, max(0.0, used.cpu_sec - spent), used.peak_memory_mb)
            done = execution(fields, container, bundle, usage, self.options.collect)
            late += _hand_on_late(container, between=False)
            if self._ended:
                container.close()
            return replace(done, stderr=f"{late}{done.stderr}") if late else done

    def shell(
        self,
        command: Command,
        stdin: bytes | str = b"",
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        on_stdout: Hears | None = None,
        on_stderr: Hears | None = None,
    ) -> Execution:
        """Run a shell command in the session, and wait for its end.

        Args:
            command: a string for the shell, which is bash if the sandbox has it; or a program and its arguments.
            stdin: what it reads from standard input.
            cwd: the directory where it starts; by default the current one of the session.
            env: variables that it gets besides those of the session.
            timeout_sec: seconds until it is ended; by default those of the session, which goes on.
            on_stdout: see run.
            on_stderr: the same.

        Returns:
            How it went. The exit code is that of the command: 127 if it cannot be started.

        Raises:
            SandboxError: the session has ended, or a profile enforces the static analysis of code.
            TypeError: an argument is of another type.
            ValueError: the input is too large, or the limit of time is none.
        """
        request = command_request("shell", command, self.options, cwd, env)
        return self._carry_out_heard(request | {"stdin": checked_input(stdin)}, timeout_sec, on_stdout, on_stderr)

    def start(
        self, command: Command, *, cwd: str | os.PathLike[str] = "", env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a command in the background.

        Args:
            command: see shell.
            cwd: the same.
            env: the same.

        Raises:
            SandboxError: it cannot be started; or as shell.
            TypeError: an argument is of another type.
        """
        request = command_request("start", command, self.options, cwd, env)
        pid = check_started(self._ask(request | {"keep": self._keep}))
        said = command if isinstance(command, str) else " ".join(request["command"])
        return Process(self._ask, pid, said, self._keep)

    def _process(self, pid: int) -> Process:
        """Return a process in the background by its number; a use of it says whether there is one."""
        return Process(self._ask, pid, "", self._keep)

    def processes(self) -> list[Process]:
        """Return the processes in the background: those that run, and the last ones that have ended."""
        return processes_of(self._ask({"op": "processes"}), self._ask, self._keep)

    @property
    def _keep(self) -> int:
        return self.options.output_limit

    def _ask(self, request: Message, wait_sec: float = 0.0) -> Message:
        """Send a request that takes no time but a wait that it names, and return the answer."""
        with self._lock:
            return self._exchange(request, self.options.timeout_sec + wait_sec)

    def terminal(
        self,
        command: Command = "",
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
    ) -> Terminal:
        """Start a program at a terminal of the session; runs of the session go on beside it.

        Args:
            command: see shell; by default a shell that reads commands.
            rows: lines of the terminal.
            columns: characters of a line.
            cwd: see shell.
            env: the same; TERM is xterm-256color.

        Raises:
            SandboxError: the program cannot be started; or as shell.
            TypeError: an argument is of another type.
            ValueError: a terminal cannot have this size.
        """
        from pysbx.calls.terminal import LIMIT, NEEDS_CONTAINER, SHELL, Terminal, check_size  # noqa: PLC0415 (few sessions need it)

        check_size(rows, columns)
        if self.options.isolation == "process":
            raise SandboxError(NEEDS_CONTAINER)
        self._terminals = [one for one in self._terminals if not one.closed]
        if len(self._terminals) >= LIMIT:
            raise SandboxError(f"the session has {LIMIT} terminals, which is the most: close one")
        request = command_request("terminal", command or SHELL, self.options, cwd, env)
        request |= {"rows": rows, "columns": columns}
        made = Terminal(self._open(request, "the terminal cannot be started", socket.SOCK_SEQPACKET))
        try:
            made.begin()
        except BaseException:
            made.close()
            raise
        self._terminals.append(made)
        return made

    def forward(self, port: int) -> Forward:
        """Return a local socket that leads to a port of the session, where a server of it listens.

        It is a Unix socket, `forward.path`, which only the user of this program can use. The server may start
        later.

        Raises:
            SandboxError: the session has ended, or its options allow it no network.
            ValueError: there is no such port.
        """
        from pysbx.calls.forward import Forward, check_port  # noqa: PLC0415 (asyncio: few sessions need it)

        made = Forward(check_port(port))
        try:
            made.begin(self._open_control())
        except BaseException:
            made.close()
            raise
        self._forwards.append(made)
        return made

    def _open_control(self) -> socket.socket:
        """Start a process in the sandbox that connects to its ports, and return the socket by which it is told to.

        Raises:
            SandboxError: see forward.
        """
        if self.options.allow_network.kind == "none":
            raise SandboxError(f"the session has no network: {current().options['loopback']}")
        return self._open({"op": "forward"}, "the port cannot be forwarded", socket.SOCK_STREAM)

    def _open(self, request: Message, failed: str, kind: int) -> socket.socket:
        """Start a process in the sandbox that serves a socket, and return the other end of it.

        Args:
            request: what the process does.
            failed: what has failed if it cannot be started, for the error.
            kind: of the socket.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs:
            try:
                with self._lock:
                    answer = self._exchange(request, max(self.options.timeout_sec, OWN_SEC), theirs.fileno())
                if isinstance(answer.get("error"), dict):
                    raise SandboxError(f"{failed}: {text(answer['error'], 'message')}")
            except BaseException:
                ours.close()
                raise
        return ours

    def _open_program(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        merged: bool = False,
    ) -> Program:
        """Start a program with pipes; other uses of the session go on beside it.

        Args:
            command: see shell.
            cwd: the same.
            env: the same.
            merged: whether its standard error goes to its standard output.

        Raises:
            SandboxError: see shell.
            TypeError: an argument is of another type.
        """
        from pysbx.calls.program import NEEDS_CONTAINER, Program  # noqa: PLC0415 (few sessions need it)

        if self.options.isolation == "process":
            raise SandboxError(NEEDS_CONTAINER)
        request = command_request("program", command, self.options, cwd, env) | {"merged": merged}
        return Program(self._open(request, "the program cannot be started", socket.SOCK_SEQPACKET))

    def _place(self, action: str, path: str, **more: Any) -> Message:
        """Ask for something to be done with a file or directory, and return the answer: see inside/places.py.

        Raises:
            SandboxFileError: that is not possible; its class says why.
        """
        answer = self._ask({"op": "place", "action": action, "path": path, **more}, OWN_SEC)
        check_file(answer, path)
        return answer

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        result: Result = "typed",
        types: Iterable[type] = (),
        **named: Any,
    ) -> Any:
        """Call a function in the session and return what it returns; see call.call.

        Raises:
            SandboxError: one of its subclasses.
            ValueError: there is no such result.
        """
        request = request_for(self.options, function, arguments, named, result)
        with self._lock:
            container, bundle = self._started()
            try:
                answer = self._exchange(request)
            finally:
                # Output of the function does not belong to the next run, which has a limit of its own.
                for name, said in container.streams.take_all().items():
                    if said and name not in self._heard:
                        forward(said)
            error = answer.get("error")
            if container.interrupted and isinstance(error, dict) and error.get("type") == INTERRUPTED:
                raise timeout_error(bundle.options.timeout_sec, "interrupted")
        return open_answer(answer, self.options, result, find_class_for(function, types))

    def put(self, files: Files | Mapping[Path, bytes | str]) -> None:
        """Write files, by path relative to /work, or absolute in /work, /output or /tmp: all of them, or none.

        Raises:
            TypeError: a name is no path, or a content neither text nor bytes.
            ValueError: all of it is too large.
            SandboxFileError: one cannot be written; its class says why. SandboxInvalidPathError is a ValueError too.
        """
        self._put_files(checked_files(files))

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
            for files, programs in parts(files_of(directory, left_out)):
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

    def commit(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> Commit:
        """Write the changes of /work to a directory of the host, such as the one that put_directory() has read.

        Each file is replaced at once. No link is followed, on either side. Links, special files and what is in .git
        are refused, and so is a file that the host has changed meanwhile.

        Args:
            directory: of the host.
            overwrite: whether files that the host has changed are replaced and removed too.

        Returns:
            What was written, removed and refused.

        Raises:
            SandboxError: see changes.
            OSError: the directory cannot be opened.
        """
        with self._changes() as changes:
            return changes.commit(directory, overwrite=overwrite)

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
        self._ask({"op": "restore", "keep": keep, "mounts": list(mounts)}, OWN_SEC)

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
            raise SandboxFileTooLargeError(f"file '{name}': larger than {most} bytes", name)
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
            for one in checked_files({name: b""}):
                self._baseline.files.pop(one, None)

    def install(self, *requirements: str) -> None:
        """Add packages to the session, such as "pandas>=2". They come from where dependencies= of the session would.

        pip runs in a sandbox of its own, so the session needs no network. Modules that are imported already stay.

        Raises:
            DependencyInstallError: pip failed.
            SandboxError: the session has ended, or has no room for the packages.
            SandboxOptionError: a requirement is none.
        """
        site = site_of(make_options(self.options, dependencies=requirements)) if requirements else None
        if site is not None:
            self._add_packages(site)

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
        """Write a file of the sandbox to a path of the host; the name is the caller's, never the sandbox's."""
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
