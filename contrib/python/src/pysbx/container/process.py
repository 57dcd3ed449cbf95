"""The runtime's process of a container, from its start to its end, and the exceptions for an end without an answer."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections.abc import Mapping

from pysbx.base import children, runtime
from pysbx.container import unpatched
from pysbx.errors import SandboxStartupError

# Descriptors. The runtime continues a process from the first. A process between reports the end of the runtime by the
# second. The runtime writes to the third how the program has ended. The next two are those of labels.individual(). The
# caller asks the runtime at ORDER to compare the files of the snapshot, and gets the answer there.
SNAPSHOT, REPORT, STATUS, CONFIGURATION, CATEGORIES, ORDER, BASE = 3, 4, 5, 6, 7, 8, 9
PIDFD_OPEN = 434  # the same number on every architecture


class Deadline(Exception):
    """The time is over. The container has been killed."""


class Ended(Exception):
    """The container ended without an answer. It is gone.

    Attributes:
        code: its exit code; 128 and the number of the signal that ended its program. Negative if the runtime did not
            report it.
        signal: that number, or 0 if the process ended by itself.
        oom_kills: how many of its processes the kernel has OOM-killed; 0 without a cgroup of its own for memory.
    """

    def __init__(self, code: int, signal: int = 0, oom_kills: int = 0) -> None:
        self.code = code
        self.signal = signal
        self.oom_kills = oom_kills
        super().__init__(f"exit code {code}")


class Cancelled(Exception):
    """The caller has changed its mind. The container has been killed.

    Attributes:
        done: an Execution, how far the run had come; None if no code was run.
    """

    done: object = None


class NoAnswer(Exception):
    """The sandbox sent no answer to the request; the text says what it sent. The container has been killed."""


class TooLarge(Exception):
    """The answer is larger than allowed; the text says in what. The container has been killed."""


def open_process(pid: int) -> int:
    """Return a new descriptor of a process: os.pidfd_open().

    The function is missing in a Python that was built to run on every Linux (uv's, for one), with a C library that is
    older than the system call. See pidfd_open(2).
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import ctypes  # noqa: PLC0415 (most never need it)

    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.syscall(PIDFD_OPEN, pid, 0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    return descriptor


def _above(descriptor: int, least: int) -> int:
    """Return a copy of a descriptor with a number above another one."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least + 1)


class Process:
    """A process of the runtime, or the process between, in a process group of its own.

    Attributes:
        pid: its number.
        pidfd: its descriptor, or -1 after close().
        reports: whether it is the process between.
    """

    def __init__(
        self,
        arguments: list[str],
        streams: Mapping[int, int],
        inherited: Mapping[int, int],
        failed: contextlib.ExitStack,
    ) -> None:
        """Start it.

        Args:
            arguments: the runtime's.
            streams: its first three descriptors, by number.
            inherited: other descriptors, by the numbers above.
            failed: gets the descriptor of the reports, for an error of a later step. An error here closes it too.
        """
        self._report = -1
        with contextlib.ExitStack() as given:
            # The copies get no close-on-exec flag; everything else the child would inherit has it (PEP 446). A number
            # below 3 among ours, in a program that closed its own streams, must not be overwritten before it is used.
            actions = []
            for number, end in streams.items():
                safe = end
                if end < 3:
                    safe = _above(end, BASE)
                    given.callback(os.close, safe)
                actions.append((os.POSIX_SPAWN_DUP2, safe, number))
            passed = [(descriptor, number) for number, descriptor in inherited.items()]
            self.reports = not children.are_reported()
            if self.reports:
                self._report, reporting = os.pipe()
                failed.callback(os.close, self._report)
                given.callback(os.close, reporting)
                passed.append((reporting, REPORT))
                arguments = children.reporting(arguments, REPORT)
            # The last: one of the descriptors above may have such a number. A number of these is moved out of the way.
            for descriptor, number in passed:
                safe = _above(descriptor, BASE)
                given.callback(os.close, safe)
                actions.append((os.POSIX_SPAWN_DUP2, safe, number))
            try:
                self.pid = os.posix_spawn(
                    arguments[0],
                    arguments,
                    runtime.environment(),
                    file_actions=actions,
                    setpgroup=0,
                    setsigmask=(),
                    setsigdef=children.IGNORED,
                )
            except OSError as error:
                raise SandboxStartupError(f"program '{arguments[0]}': {error.strerror}") from error
        try:
            self.pidfd = open_process(self.pid)
        except OSError:
            # Without its socket the interpreter ends, and has not been given any code.
            failed.close()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            raise

    def has_ended(self, timeout: float) -> bool:
        """Wait for its end; not by select(2), which knows descriptors below 1024 only."""
        poll = unpatched.make_poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def send_signal(self, number: int) -> None:
        """Send a signal to its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def reap(self) -> children.End | None:
        """Wait for its end, and return it, or None if it is not known."""
        end = None
        try:
            _, status, used = os.wait4(self.pid, 0)
            end = children.End(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
        except ChildProcessError:  # another part of this program waits for all children, or ignores SIGCHLD
            pass
        return children.read_report(self._report) if self.reports else end

    def close(self) -> None:
        """Close its descriptors."""
        for descriptor in (self.pidfd, self._report):
            if descriptor >= 0:
                os.close(descriptor)
        self.pidfd = self._report = -1
