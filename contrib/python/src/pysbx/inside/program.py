"""A program with pipes, and a process that connects it with the host. Packets on the way: see wire.py.

The program has a session of its own: see setsid(2). If the host leaves before the program ends, all processes of that
session are killed. Processes that the program has left in the background go on after its end. The process reads their
output, so that they get no SIGPIPE.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from typing import Any

from . import terminal
from .commands import start_program
from .paths import moved
from .terminal import GONE, LOOK_SEC, processes_of
from .wire import (
    EXIT_CODE,
    PROGRAM_NOWHERE,
    PROGRAM_STDERR,
    TERMINAL_BEGUN,
    TERMINAL_DATA,
    TERMINAL_END,
    TERMINAL_FAILED,
    TERMINAL_PACKET,
)

Message = dict[str, Any]

CHUNK = TERMINAL_PACKET - 1
KILL_SEC = 5.0
MOST_DESCRIPTORS = 1 << 20
LEFT = GONE | select.POLLRDHUP


def _waiting(descriptor: int) -> int:
    """Return the number of bytes that a pipe holds: see FIONREAD in pipe(7)."""
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0])


class _Program:
    """The program, as the process sees it that connects it."""

    def __init__(self, control: int, request: Message) -> None:
        """Start the program.

        Raises:
            OSError, ValueError: it cannot be started.
        """
        self._control = control
        self._woken, wake = os.pipe()  # written to by the interpreter when a signal comes
        for descriptor in (self._woken, wake):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        pipe = subprocess.PIPE
        stderr = subprocess.STDOUT if request["merged"] else pipe
        self._process = start_program(request, stdin=pipe, stdout=pipe, stderr=stderr, bufsize=0)
        outputs = ((self._process.stdout, TERMINAL_DATA), (self._process.stderr, PROGRAM_STDERR))
        self._outputs = {stream.fileno(): letter for stream, letter in outputs if stream is not None}
        self._stdin = self._process.stdin
        self._input = b""
        os.set_blocking(self._stdin.fileno(), False)  # type: ignore[union-attr]

    def _take(self) -> bool:
        """Take input from the host, and tell whether the host is still there."""
        try:
            packet = os.read(self._control, TERMINAL_PACKET)
        except OSError:
            return False
        self._input = packet[1:] if self._stdin is not None else b""
        if packet == TERMINAL_DATA:
            self._close_input()
        return bool(packet)

    def _close_input(self) -> None:
        self._input = b""
        if self._stdin is not None:
            self._stdin.close()
        self._stdin = None

    def _give(self) -> None:
        """Write input to the program."""
        try:
            self._input = self._input[os.write(self._stdin.fileno(), self._input) :]  # type: ignore[union-attr]
        except BlockingIOError:
            pass
        except OSError:  # it does not read any more
            self._close_input()

    def _hand_on(self, descriptor: int, most: int = CHUNK) -> int:
        """Send output to the host, and return the number of bytes; 0 is the end of the stream."""
        data = os.read(descriptor, most)
        if data:
            os.write(self._control, self._outputs[descriptor] + data)
        else:
            del self._outputs[descriptor]
        return len(data)

    def connect(self) -> bool:
        """Hand bytes on until the program ends; return whether the host is still there then."""
        while self._process.poll() is None:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.register(self._control, select.POLLRDHUP | (0 if self._input else select.POLLIN))
            for descriptor in self._outputs:
                poll.register(descriptor, select.POLLIN)
            if self._input and self._stdin is not None:
                poll.register(self._stdin.fileno(), select.POLLOUT)
            ready = dict(poll.poll())
            if ready.get(self._control, 0) & LEFT:
                return False
            if ready.pop(self._woken, 0):
                os.read(self._woken, CHUNK)
            if ready.pop(self._control, 0) and not self._take():
                return False
            for descriptor in ready:
                if descriptor in self._outputs:
                    self._hand_on(descriptor)
                else:
                    self._give()
        return True

    def say_end(self) -> None:
        """Send what the program has written until its end, and its exit code."""
        for descriptor in list(self._outputs):
            left = _waiting(descriptor)
            while left > 0:  # no more than that: a process in the background may write faster than this one reads
                left -= self._hand_on(descriptor, min(left, CHUNK))
        code = self._process.returncode
        os.write(self._control, TERMINAL_END + EXIT_CODE.pack(code if code >= 0 else 128 - code))

    def discard(self) -> None:
        """Read what is still written until there is no process that could."""
        self._close_input()
        poll = select.poll()
        for descriptor in self._outputs:
            poll.register(descriptor, select.POLLIN)
        while self._outputs:
            for descriptor, _ in poll.poll():
                if not os.read(descriptor, CHUNK):
                    poll.unregister(descriptor)
                    del self._outputs[descriptor]

    def kill(self) -> None:
        """Kill the processes of the program's session."""
        deadline = time.monotonic() + KILL_SEC
        while (left := processes_of(self._process.pid)) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(LOOK_SEC)


def _begin(control: int, request: Message) -> _Program | None:
    """Start the program, or send why that is not possible."""
    letter = PROGRAM_NOWHERE
    try:
        if request["cwd"]:
            os.chdir(moved(request["cwd"]))
        letter = TERMINAL_FAILED
        program = _Program(control, request | {"cwd": ""})
    except (OSError, ValueError) as error:
        number = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        os.write(control, (letter + EXIT_CODE.pack(number) + reason.encode(errors="replace"))[:CHUNK])
        return None
    os.write(control, TERMINAL_BEGUN)
    return program


def _serve(control: int, request: Message) -> None:
    """Be the process that connects a program."""
    os.setsid()
    # A program begins with the default actions, and keeps none of the descriptors of the user's code open.
    for number in signal.valid_signals() - {signal.SIGPIPE}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.closerange(3, control)
    os.closerange(control + 1, MOST_DESCRIPTORS)
    program = _begin(control, request)
    if program is None:
        return
    there = False
    with contextlib.suppress(OSError):  # the host has left
        there = program.connect()
        if there:
            program.say_end()
    if there:
        os.close(control)
        program.discard()
    else:
        program.kill()


def start(request: Message, channel: int) -> None:
    """Start a program: see terminal.start."""
    terminal.start(request, channel, _serve)
