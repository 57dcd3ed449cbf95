"""A terminal: a program at a pseudo-terminal of the sandbox, and a process that connects it with the host.

Packets on the way are a letter and what belongs to it: see wire.py. See pty(7), tty_ioctl(4), credentials(7).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from typing import Any

from .commands import arguments_of
from .wire import (
    EXIT_CODE,
    ROWS_AND_COLUMNS,
    TERMINAL_BEGUN,
    TERMINAL_DATA,
    TERMINAL_END,
    TERMINAL_FAILED,
    TERMINAL_PACKET,
    TERMINAL_SIZE,
)

Message = dict[str, Any]

# Bytes that are read at once. With its letter that is a packet.
CHUNK = TERMINAL_PACKET - 1
# Seconds that programs have for their own end, after the hangup.
GRACE_SEC = 0.5
LOOK_SEC, LOOK_MS = 0.02, 20
GONE = select.POLLHUP | select.POLLERR
NOT_FOUND = 127
# A shell keeps its history in memory: a file would be one of the session.
VARIABLES = {"TERM": "xterm-256color", "HISTFILE": "/dev/null"}


def _resize(descriptor: int, rows: int, columns: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _become(slave: int, said: int, request: Message) -> None:
    """Become the program; if that fails, write why."""
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in signal.valid_signals():
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for descriptor in (0, 1, 2):
            os.dup2(slave, descriptor)
        if request["cwd"]:
            os.chdir(request["cwd"])
        argv = arguments_of(request["command"])
        os.execvpe(argv[0], argv, {**os.environ, **VARIABLES, **request["env"]})
    except (OSError, ValueError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        os.write(said, f"{where}{reason}".encode(errors="replace"))
    finally:
        os._exit(NOT_FOUND)


def processes_of(session: int) -> list[int]:
    """Return the processes of a session: see proc(5), /proc/PID/stat."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) == session:
                    found.append(int(name))
    return found


class _Terminal:
    """The terminal, as the process sees it that connects it."""

    def __init__(self, control: int, request: Message) -> None:
        """Start the program.

        Args:
            control: the way to the host.
            request: its command, directory, variables and size.

        Raises:
            OSError: there is no terminal, or the program cannot be started.
        """
        self._control = control
        self._master, slave = pty.openpty()
        _resize(self._master, request["rows"], request["columns"])
        # Written to by the interpreter when a signal comes.
        self._woken, wake = os.pipe()
        for descriptor in (self._woken, wake, self._master, control):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        heard, said = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _become(slave, said, request)
        os.close(slave)
        os.close(said)
        failed = os.read(heard, CHUNK)
        os.close(heard)
        if failed:
            os.waitpid(self._pid, 0)
            raise OSError(0, failed.decode())
        self._session = self._pid
        self._to_host, self._to_program = b"", b""
        self._hung_up = False

    def _take(self) -> bool:
        """Take a packet of the host, and tell whether there was one."""
        try:
            packet = os.read(self._control, TERMINAL_PACKET)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if packet[:1] == TERMINAL_DATA:
            self._to_program = packet[1:]
        elif packet[:1] == TERMINAL_SIZE:
            _resize(self._master, *ROWS_AND_COLUMNS.unpack(packet[1:]))
        return bool(packet)

    def _read(self) -> bool:
        """Read what the program has written, and tell whether there can be more."""
        try:
            data = os.read(self._master, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # EIO: no program has it open any more
            return False
        self._to_host = TERMINAL_DATA + data
        return True

    def _give(self) -> bool:
        """Write what waits, and tell whether the host still listens."""
        with contextlib.suppress(BlockingIOError):
            if self._to_program:
                self._to_program = self._to_program[os.write(self._master, self._to_program) :]
        try:
            if self._to_host:
                os.write(self._control, self._to_host)
                self._to_host = b""
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def connect(self) -> int | None:
        """Hand bytes on until the program ends, whose exit code is returned, or until the host leaves: None then."""
        while True:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.register(self._control, select.POLLOUT if self._to_host else 0)
            poll.register(self._master, select.POLLOUT if self._to_program else 0)
            if not self._to_program:
                poll.modify(self._control, select.POLLIN | (select.POLLOUT if self._to_host else 0))
            if not self._to_host:
                poll.modify(self._master, select.POLLIN | (select.POLLOUT if self._to_program else 0))
            ready = dict(poll.poll(LOOK_MS if self._hung_up else None))
            if ready.get(self._control, 0) & GONE:
                return None
            if ready.get(self._woken):
                os.read(self._woken, CHUNK)
            if ready.get(self._control, 0) & select.POLLIN and not self._take():
                return None
            if ready.get(self._master, 0) & (select.POLLIN | select.POLLHUP) and not self._to_host:
                self._hung_up = not self._read()
            if not self._give():
                return None
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """Hang up, and end the programs of the terminal."""
        session = self._session
        os.close(self._master)  # the kernel sends SIGHUP to the shell, and to the job in the foreground
        deadline = time.monotonic() + GRACE_SEC
        while left := processes_of(session):
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            self._wait()
            time.sleep(LOOK_SEC)

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._session, os.WNOHANG)

    def say_end(self, code: int) -> None:
        """Send the rest of the output, and the exit code; a host that does not read it gets neither."""
        os.set_blocking(self._control, True)
        with contextlib.suppress(OSError):
            while self._to_host or (self._read() and self._to_host):
                os.write(self._control, self._to_host)
                self._to_host = b""
            os.write(self._control, TERMINAL_END + EXIT_CODE.pack(code if code >= 0 else 128 - code))


def _serve(control: int, request: Message) -> None:
    """Be the process that connects a terminal."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        terminal = _Terminal(control, request)
    except (OSError, ValueError) as error:
        os.write(control, TERMINAL_FAILED + (str(getattr(error, "strerror", None) or error)).encode(errors="replace"))
        return
    os.write(control, TERMINAL_BEGUN)
    code = terminal.connect()
    if code is not None:
        terminal.say_end(code)
    os.close(control)
    terminal.end()


def start(request: Message, channel: int, serve: Callable[[int, Message], None] = _serve) -> None:
    """Start a terminal. Its processes are children of the container's init, and not of this one.

    Args:
        request: see _Terminal, and "passed": the way to the host.
        channel: descriptor that they must not keep.
        serve: what the process does that connects the host.
    """
    control = request["passed"]
    pid = os.fork()
    if pid == 0:
        try:
            os.close(channel)
            if os.fork() == 0:
                serve(control, request)
        finally:
            os._exit(0)
    os.close(control)
    os.waitpid(pid, 0)
