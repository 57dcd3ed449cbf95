"""Sandbox: one container that lasts for several runs and keeps their state."""

from __future__ import annotations

import _thread
import contextlib
import errno
import math
import os
import re
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pysbx.base.option_names import current
from pysbx.calls.baseline import Baseline
from pysbx.calls.session_files import Filed
from pysbx.calls.tools import Tools
from pysbx.container.exchange import text
from pysbx.errors import (
    SandboxError,
    SandboxOptionError,
    SandboxStartupError,
)
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from pysbx.calls.saved import Checkpoint, Saved
    from pysbx.container.container import Message

# The runtime's code when it could begin a container, but could not restore the process in it.
UNFIT = "snapshot-unfit"
# How fork(2) fails at the limit of processes.
NO_PROCESS = re.compile(rf"^\[Errno {errno.EAGAIN}\]")
# Its codes for failures of this machine. For the first, it matters where the file is.
DISK = "disk"
OF_THE_MACHINE = (DISK, "too-large", "resources")
# Forks that start at the same time.
AT_ONCE = 4
LOOK_SEC = 0.001
SAVED_REMEDY = " (end what is not plain memory first: close files and sockets, delete shared memory)"


def _refusal(reason: str, done: str = "forked") -> SandboxError:
    return SandboxError(f"the session cannot be {done}: {reason}")


def _with_remedy(reason: str) -> str:
    """Return why a process was not copied; if that is a limit of processes, with the option."""
    return f"{reason} ({current().options['processes']})" if NO_PROCESS.search(reason) else reason


class _Copy(NamedTuple):
    """A copy of the process of a session, and what the session is besides.

    Attributes:
        container: the name of its container.
        pid: of the copy.
        number: of the copy, for the worker in the sandbox.
        state: the rest, which the worker in a sandbox gets back.
        sites: see Saved.
        baseline: see Saved.
    """

    container: str
    pid: int
    number: int
    state: Message
    sites: list[Path]
    baseline: Baseline


class Sandbox(Filed):
    """A session: names, modules and files of one run are there in the next.

    Use it in a with statement. A session that is dropped ends too, with a ResourceWarning. Runs of one session follow
    each other; sessions are independent. A run that takes too long is interrupted, and the session goes on. A run that
    does not end then, or that ends the process, ends the session: later calls raise SandboxError.
    """

    @classmethod
    def _chosen(
        cls,
        options: Options,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        cancel: int = -1,
    ) -> Sandbox:
        """Return a session whose options are checked already: see Core._prepare."""
        made = cls.__new__(cls)
        made._prepare(options, on_stdout, on_stderr, tools, cancel)
        return made

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
            for one in made[:1]:
                one._expect(self)
            with self._capture("forked") as saved:
                for begins, goes_on in zip_longest(made, [*[None] * (AT_ONCE - 1), *made]):
                    if begins is not None:
                        begins._begin_saved(saved)
                    if goes_on is not None:
                        goes_on._continue(saved, "forked")
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
            fork._expect(self)
            with self._capture("forked") as saved:
                fork._continue_from(saved, "forked")
        except BaseException:
            fork.close()
            raise

    def _another(self) -> Sandbox:
        """Return a session with the options and callbacks of this one, which has not begun."""
        made = Sandbox._chosen(self.options, tools=None if self._tools is None else self._tools.tools)
        made._on_output, made._heard = self._on_output, self._heard
        return made

    def _capture(self, done: str) -> Saved:
        """Return the present state in a file without a name.

        Args:
            done: with the session, for an error: "forked" or "saved".
        """
        from pysbx.calls.saved import capture  # noqa: PLC0415 (few sessions need it)

        copy: _Copy | None = None

        def save(descriptor: int) -> tuple[Message, int]:
            nonlocal copy
            base = None
            for differences in (True, False):
                copy = self._copy(done)
                base = self._save(copy, descriptor, done, differences=differences)
                if base is not None:
                    break
            assert copy is not None and base is not None
            return copy.state, base

        try:
            saved = capture(save)
        except OSError as error:
            raise _refusal(error.strerror or str(error), done) from error
        if copy is not None:
            saved.sites, saved.baseline = copy.sites, copy.baseline
        return saved

    def _expect(self, source: Sandbox) -> None:
        """Let a container begin that waits for the state of another session, which is saved meanwhile."""
        if source._container is not None and source._container.warm and not source._paused:
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Let a container begin that waits for a saved state. The runtime gives such a one no SELinux label."""
        from pysbx.calls.prepare import prepare  # noqa: PLC0415 (for the first call)
        from pysbx.container import ready  # noqa: PLC0415 (for the first call)

        self._bundle = prepare(self.options)
        if not self._bundle.labelled:
            self._container = ready.take_for_state(self._bundle, self._on_output, self._cancel)

    def _begin_saved(self, saved: Saved) -> None:
        """Let a container start from a saved state; _continue() waits for it."""
        from pysbx.container.container import Container  # noqa: PLC0415 (for the first call)

        if self._container is None:
            self._begin_waiting()
        if self._container is not None:
            self._container.restore(saved.descriptor, saved.base)
        elif self._bundle is not None:
            parts = saved.descriptor, saved.base
            self._container = Container(self._bundle, self._on_output, self._cancel, *parts)

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

    def _copy(self, done: str, *, lasting: bool = False) -> _Copy:
        """Make a copy of the session's process, which is not saved yet; the session can be used again at once.

        Args:
            done: see _capture.
            lasting: whether another program may restore it.
        """
        from pysbx.calls.saved import STATE  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            container = self._started()[0].name
            self._copies = number = self._copies + 1
            pid = self._park_copy(done, number)
            try:
                limit = self.options.answer_limit // 2
                more = current().options["larger_copy"]
                state = self._exchange({"op": "forked", "limit": limit, "more": more, "lasting": lasting})
                if state.get("refused"):
                    raise _refusal(text(state, "refused"), done)
            except BaseException:
                self._drop_copy(container, number)
                raise
            known = {name: state[name] for name in STATE if name in state}
            self._saves.add(number)
            return _Copy(container, pid, number, known, list(self._sites), self._baseline.copy())

    def _wait_for_saves(self) -> None:
        """Let other threads save the copies that they have made. They need no lock for that."""
        from pysbx.base import runtime  # noqa: PLC0415 (few sessions need it)

        until = time.monotonic() + runtime.COMMAND_TIMEOUT_SEC
        while self._saves and time.monotonic() < until:
            time.sleep(LOOK_SEC)

    def _drop_copy(self, container: str, number: int) -> None:
        """End a copy that will not be saved. It has ended already if its container has."""
        with contextlib.suppress(SandboxError), self._lock:
            self._saves.discard(number)
            if self._container is not None and self._container.name == container:
                self._exchange({"op": "drop", "copy": number})

    def _park_copy(self, done: str, number: int) -> int:
        """Let the process in the sandbox copy itself; return the pid of the copy."""
        container = self._started()[0]
        if not all(one.ended for one in self._terminals):
            raise _refusal("a terminal is open: close it", done)
        container.identify_sender(wanted=True)
        answer = self._exchange({"op": "fork", "copy": number})
        sender = container.sender
        container.identify_sender(wanted=False)
        if not container.warm:
            raise _refusal(f"it was started cold: {current().options['cold']}", done)
        if answer.get("refused"):
            raise _refusal(_with_remedy(text(answer, "refused")), done)
        return sender

    def _save(self, copy: _Copy, descriptor: int, done: str, *, differences: bool = False) -> int | None:
        """Write a copy of the session's process to a file, and end it; return base of Saved, or None to try again.

        Args:
            copy: the copy.
            descriptor: of the file.
            done: see _capture.
            differences: whether the file has only pages that are not in the session's snapshot.
        """
        from pysbx.base import runtime  # noqa: PLC0415 (few sessions need it)

        try:
            try:
                refusal, base = runtime.save_process(copy.container, copy.pid, descriptor, differences=differences)
            finally:
                self._saves.discard(copy.number)
        except BaseException:
            self._drop_copy(copy.container, copy.number)
            raise
        if refusal and refusal.code == DISK:
            place = os.path.dirname(os.readlink(f"/proc/self/fd/{descriptor}"))
            raise _refusal(f"{refusal.detail} (in '{place}')", done)
        if refusal:
            raise _refusal(refusal.detail + ("" if refusal.code in OF_THE_MACHINE else SAVED_REMEDY), done)
        return base

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
        self._snapshot_to(path)
        return path

    def _snapshot_to(self, path: Path, most: float = math.inf) -> None:
        """Save the session to a file of at most so many bytes; see snapshot."""
        from pysbx.calls import saved  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            self._started()
            if self._sites:
                raise _refusal("packages were added by install(): start it with these dependencies instead", "saved")
            self._exchange({"op": "list"})  # it has begun, and its version is known
            python = self._python

        def save(descriptor: int) -> tuple[Message, Baseline]:
            copy = self._copy("saved", lasting=True)
            self._save(copy, descriptor, "saved")
            return copy.state, copy.baseline

        saved.write(path, save, self.options, python, most)

    @classmethod
    def restore(
        cls,
        path_or_name: str | os.PathLike[str],
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
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
            changes: the same.

        Raises:
            SandboxError: there is no such session of the caller's; it is damaged; or kernel, CPU, interpreter,
                libraries, runtime or options differ. The text says which.
            TypeError: an argument is of another type.
            ValueError: there can be no such name.
        """
        made = cls(on_stdout=on_stdout, on_stderr=on_stderr, tools=tools, **changes)
        made._begin_from(path_or_name)
        return made

    def _begin_from(self, path_or_name: str | os.PathLike[str]) -> None:
        """Begin with the state of a file of snapshot(); see restore."""
        from pysbx.calls import saved  # noqa: PLC0415 (few sessions need it)

        with self._lock:
            try:
                found = saved.read(saved.place(path_or_name), self.options, self._begin_waiting)
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
        from pysbx.container import ready  # noqa: PLC0415 (for the first call)

        def check(size: int) -> None:
            if len(self._checkpoints) >= MOST_CHECKPOINTS:
                raise SandboxError(f"the session has {MOST_CHECKPOINTS} checkpoints, which is the most: remove one")
            if size + sum(one.size for one in self._checkpoints) > MOST_BYTES:
                raise SandboxError(f"the checkpoints take more than {MOST_BYTES >> 30} GiB together: remove one")

        check(0)
        if self._bundle is not None:
            ready.expect_state(self._bundle)
        made = Checkpoint(self._capture("saved"), weakref.WeakMethod(self._remove_checkpoint))
        with self._lock:
            try:
                self._started()
                check(made.size)
            except BaseException:
                made.saved.close()
                raise
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
            self._refuse_fork()
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

    @property
    def parked(self) -> bool:
        """Whether the session is parked: see park."""
        return self._parked is not None and self._container is None and not self._ended

    def _hang_up(self) -> None:
        for one in self._forwards:
            one.close()
        for terminal in self._terminals:
            terminal.hang_up()

    def _drop_container(self, *, wait: bool = False) -> None:
        self._hang_up()
        self._forwards, self._terminals, self._shares_streams = [], [], False
        if self._container is not None:
            self._wait_for_saves()
            self._spent_sec += self._container.usage.cpu_sec
            container, self._container = self._container, None
            if wait:
                container.close()
            else:
                from pysbx.container import ready  # noqa: PLC0415 (for the first call)

                ready.end(container)

    def _replace(self, saved: Saved) -> None:
        """Continue from a saved state, in a new container instead of the present one."""
        made = self._another()
        made._cancel = self._cancel
        made._continue_from(saved, "restored")
        self._drop_container()
        self._forget_parked()
        self._container, self._bundle, self._sites = made._container, made._bundle, made._sites
        made._container = None  # otherwise it ends with the object
        self._baseline, self._paused, self._ended = made._baseline, False, ""

    def _forget_parked(self) -> None:
        if self._parked is not None:
            self._parked.close()
            self._parked = None

    @property
    def reference(self) -> str:
        """A text by which other processes of the same user find the session while this one lives: see attach.

        From then on the session lasts until close(), also if this program drops it.
        """
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
        """End the session and all its processes; once more is no error. A fork of this program ends nothing."""
        if self._container is not None and self._is_of_parent:
            self._container.abandon()
            self._container, self._ended = None, "it has been closed"
            return
        if self._reference is not None:
            self._reference.close()
        with self._lock:
            self._drop_container(wait=True)
            for checkpoint in self._checkpoints:
                checkpoint.saved.close()
            self._checkpoints = []
            self._forget_parked()
            self._baseline = Baseline()
            self._ended = self._ended or "it has been closed"

    def __del__(self) -> None:
        """Let a session end that was dropped without close().

        This can run in any thread at any time, so another thread does all that waits. Low-level, because threading has
        locks that this thread may hold. When the program ends, its watcher removes the container: see reaper.
        """
        if sys.is_finalizing() or not self._holds_anything():
            return
        said = f"unclosed {self!r}"
        if self._is_of_parent:
            self.close()
            return
        _thread.start_new_thread(self.close, ())
        warnings.warn(said, ResourceWarning, stacklevel=2, source=self)

    def _holds_anything(self) -> bool:
        if "_lock" not in vars(self):  # its options were refused
            return False
        running = self._container is not None and self._container.is_open
        return running or bool(self._forwards or self._checkpoints or self._parked)

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
            self._wait_for_saves()
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
