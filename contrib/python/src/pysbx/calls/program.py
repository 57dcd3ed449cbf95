"""A program with pipes in a session: the caller's end of the way to it, and how the program ended."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from pysbx.errors import FILE_ERRORS, ForgedAnswerError, SandboxError, SandboxFileError, SandboxTimeoutError
from pysbx.inside.wire import (
    EXIT_CODE,
    PROGRAM_NOWHERE,
    PROGRAM_STDERR,
    TERMINAL_BEGUN,
    TERMINAL_DATA,
    TERMINAL_END,
    TERMINAL_FAILED,
    TERMINAL_PACKET,
)

NAMES = {TERMINAL_DATA: "stdout", PROGRAM_STDERR: "stderr"}
CHUNK = TERMINAL_PACKET - 1
# Seconds until a program must be killed after it was told to end.
STOP_SEC = 10.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126
NO_PROGRAM = (2, 20)  # ENOENT, ENOTDIR
NEEDS_CONTAINER = "commands of a workspace are part of a container: leave isolation='process' out, or use shell()"
STOPPED, LOST = "it was stopped", "the session has ended, or a program in it has killed the process that connects it"


@dataclass(frozen=True)
class Completed:
    """How a program ended.

    Attributes:
        exit_code: as a shell has it: 127 if there is no such program, 126 if it cannot be executed.
        stdout: all that it wrote to standard output.
        stderr: the same of standard error, or why it could not be started.
        started: whether it was started.
    """

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    started: bool = True


class CommandTimeoutError(SandboxTimeoutError, TimeoutError):
    """The time of a program is over; it and the processes of its session were killed.

    Attributes:
        stdout: what it has written until then.
        stderr: the same of standard error.
    """

    stdout = stderr = b""


class OutputLimitError(SandboxError):
    """A program has written more than is accepted; it was killed as after its time.

    Attributes:
        stdout: the beginning of its standard output, up to the limit.
        stderr: the same of standard error.
    """

    stdout = stderr = b""


class Program:
    """A program with pipes: see Sandbox._open_program.

    Attributes:
        on_output: called with "stdout" or "stderr" and bytes, as they come, by the thread of communicate().
    """

    def __init__(self, control: socket.socket) -> None:
        """Take the way to it."""
        self.on_output: Callable[[str, bytes], None] | None = None
        self._socket = control
        self._written: dict[bytes, bytearray] = {TERMINAL_DATA: bytearray(), PROGRAM_STDERR: bytearray()}
        self._stopped = False

    def stop(self) -> None:
        """Kill it and the processes of its session: from another thread, while communicate() waits."""
        self._stopped = True
        with contextlib.suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_WR)

    def communicate(self, stdin: bytes, timeout_sec: float | None, limit: int) -> Completed:
        """Send all of its input, and wait for its end.

        Args:
            stdin: its input.
            timeout_sec: seconds until it is killed; None for any time.
            limit: bytes of either stream that are accepted.

        Raises:
            CommandTimeoutError: its time is over.
            OutputLimitError: it has written more.
            SandboxFileError: there is no directory where it could begin; its class says why.
            SandboxError: the session has ended, or it was stopped.
        """
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        try:
            done = self._exchange(memoryview(stdin), deadline, limit)
        except TimeoutError:
            self._kill()
            error = CommandTimeoutError(
                f"the command has not ended after {timeout_sec:g} seconds: killed", timeout_sec or 0
            )
            error.stdout, error.stderr = map(bytes, self._written.values())
            raise error from None
        except BaseException as error:
            self._kill()
            if isinstance(error, OutputLimitError):
                error.stdout, error.stderr = (bytes(one[:limit]) for one in self._written.values())
            raise
        finally:
            self._socket.close()
        return done

    def _kill(self) -> None:
        """Have it killed, and wait until that is done: then the sandbox closes its end."""
        self.stop()
        self._socket.settimeout(STOP_SEC)
        deadline = time.monotonic() + STOP_SEC
        with contextlib.suppress(OSError):
            while self._socket.recv(TERMINAL_PACKET) and time.monotonic() < deadline:
                continue

    def _exchange(self, rest: memoryview, deadline: float | None, limit: int) -> Completed:
        self._socket.setblocking(False)
        ended = False
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                for _, events in selector.select(left):
                    if events & selectors.EVENT_READ:
                        done = self._take(limit)
                        if done is not None:
                            return done
                    if events & selectors.EVENT_WRITE and not ended:
                        ended = not rest
                        with contextlib.suppress(BlockingIOError, ConnectionError):  # it may have ended
                            self._socket.send(TERMINAL_DATA + rest[:CHUNK])
                            rest = rest[CHUNK:]
                    if ended:
                        selector.modify(self._socket, selectors.EVENT_READ)

    def _take(self, limit: int) -> Completed | None:
        """Take a packet, and return how the program ended if it says so."""
        try:
            packet = self._socket.recv(TERMINAL_PACKET)
        except (BlockingIOError, ConnectionResetError):  # the latter: it has ended before it had all of its input
            return None
        letter, content = packet[:1], packet[1:]
        if not packet:
            raise SandboxError(f"the end of the command is not known: {STOPPED if self._stopped else LOST}")
        if letter in self._written:
            self._written[letter] += content
            if self.on_output is not None:
                self.on_output(NAMES[letter], content)
            if len(self._written[letter]) > limit:
                raise OutputLimitError(f"the command has written more than {limit} bytes: killed")
        elif letter == TERMINAL_END and len(content) == EXIT_CODE.size:
            stdout, stderr = map(bytes, self._written.values())
            return Completed(EXIT_CODE.unpack(content)[0] & 0xFF, stdout, stderr)
        elif letter in (TERMINAL_FAILED, PROGRAM_NOWHERE) and len(content) > EXIT_CODE.size:
            return self._failed(letter, EXIT_CODE.unpack(content[: EXIT_CODE.size])[0], content[EXIT_CODE.size :])
        elif packet != TERMINAL_BEGUN:
            raise ForgedAnswerError("the sandbox gave a malformed answer")
        return None

    @staticmethod
    def _failed(letter: bytes, number: int, reason: bytes) -> Completed:
        if letter == PROGRAM_NOWHERE:
            kind = FILE_ERRORS.get(number, SandboxFileError)
            raise kind(f"the command cannot begin in its directory: {reason.decode(errors='replace'):.500}", "", number)
        code = NOT_FOUND if number in NO_PROGRAM else NOT_EXECUTABLE
        return Completed(code, b"", b"the command cannot be started: " + reason + b"\n", started=False)
