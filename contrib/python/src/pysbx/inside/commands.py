"""Programs that a request starts in the sandbox: shell commands, and processes in the background.

A command writes to the standard streams of the sandbox, as a program of the user's code does. A process in the
background has pipes. A thread reads them, so that the process never waits for a reader; of what is not read by the
caller, the end is kept.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep
from typing import Any

from .failure import describe
from .paths import moved
from .stdin import standard_input

Message = dict[str, Any]

SHELLS = ("/bin/bash", "/bin/sh")
CHUNK = 1 << 16
NOT_FOUND = 127
INTERRUPTED = 128 + signal.SIGINT
# Seconds that an interrupted command has for its own end, and that a process has to read its input.
GRACE_SEC = 0.5
WRITE_SEC = 1.0
LOOK_SEC = 0.02
# Processes that are remembered; of those the ones that have ended are forgotten first.
MOST = 100
MAX_SHOWN = 200


def shell_path() -> str:
    """Return the path of the shell that runs commands."""
    return next((path for path in SHELLS if os.path.exists(path)), SHELLS[-1])


def arguments_of(command: Any) -> list[str]:
    """Return the argument vector of a command: a string is for the shell."""
    if isinstance(command, str):
        return [shell_path(), "-c", command]
    return [str(part) for part in command]


def _has_sessions() -> bool:
    """Tell whether a process may leave this group: without a container, all of it is ended together."""
    return moved("/work") == "/work"


def start_program(request: Message, **streams: Any) -> subprocess.Popen[bytes]:
    """Start the command of a request in a session of its own: see setsid(2). Only a container allows that."""
    environment = {**os.environ, **request["env"]}
    return subprocess.Popen(
        arguments_of(request["command"]),
        cwd=moved(request["cwd"]) or None,
        env=environment,
        start_new_session=_has_sessions(),
        **streams,
    )


def _code_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process as a shell has it, or None if it has not ended."""
    code = process.poll()
    return None if code is None else code if code >= 0 else 128 - code


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to a command and the processes of its session. Return False if it has ended."""
    try:
        (os.killpg if _has_sessions() else os.kill)(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _not_started(error: Exception) -> Message:
    return {"exit_code": NOT_FOUND, "error": {**describe(error), "traceback": "", "no_hint": True}}


def shell(request: Message) -> Message:
    """Carry out a request "shell": run a command to its end."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with standard_input(request["stdin"]):
            process = start_program(request)
        return {"exit_code": process.wait() and _code_of(process)}
    except KeyboardInterrupt:
        if process is not None:
            _end(process)
        error = {"type": "KeyboardInterrupt", "message": "the command was interrupted"}
        return {"exit_code": INTERRUPTED, "error": error}
    except (OSError, ValueError) as error:  # ValueError: no argument can have such a character
        return _not_started(error)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and the processes of its group."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            _signal_group(process, number)
            process.wait(GRACE_SEC)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
    _signal_group(process, signal.SIGKILL)


class Background:
    """A process in the background, and the output of it that the caller has not read yet."""

    def __init__(self, request: Message) -> None:
        """Start it.

        Args:
            request: its command, and with "keep" the bytes of each stream that are kept.

        Raises:
            OSError, ValueError: it cannot be started.
        """
        command = request["command"]
        self.command = command if isinstance(command, str) else " ".join(map(str, command))
        pipe = subprocess.PIPE
        self.process = start_program(request, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        self._keep = request["keep"]
        self._lock = allocate_lock()
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._left_out = 0
        self._open = True
        os.set_blocking(self.process.stdin.fileno(), False)  # type: ignore[union-attr]
        # A signal for the process goes to a thread that does not block it: the main thread is to get all of them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            start_new_thread(self._collect, ())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _collect(self) -> None:
        """Read both streams until they end. Then nothing more is kept open: open pipes cannot be forked."""
        pipes = [pipe for pipe in (self.process.stdout, self.process.stderr) if pipe is not None]
        streams = {pipe.fileno(): name for pipe, name in zip(pipes, self._kept, strict=True)}
        poll = select.poll()
        for descriptor in streams:
            poll.register(descriptor, select.POLLIN)
        while streams:
            for descriptor, _ in poll.poll():
                try:
                    data = os.read(descriptor, CHUNK)
                except OSError:  # the user's code has closed it
                    data = b""
                if data:
                    self._add(streams[descriptor], data)
                else:
                    poll.unregister(descriptor)
                    del streams[descriptor]
        for pipe in (*pipes, self.process.stdin):
            if pipe is not None:
                pipe.close()
        self._open = False

    def _add(self, name: str, data: bytes) -> None:
        with self._lock:
            kept = self._kept[name]
            kept += data
            extra = max(0, len(kept) - self._keep)
            del kept[:extra]
            self._left_out += extra

    def has_news(self) -> bool:
        """Tell whether there is output to read, or there will be none."""
        return any(self._kept.values()) or (not self._open and _code_of(self.process) is not None)

    def read(self) -> Message:
        """Return the output that has come since the last call, and the exit code, if the process has ended."""
        code = _code_of(self.process)
        with self._lock:
            found: Message = {name: bytes(kept) for name, kept in self._kept.items()}
            found |= {"left_out": self._left_out, "exit_code": code, "open": self._open}
            for kept in self._kept.values():
                kept.clear()
            self._left_out = 0
        return found

    def write(self, data: bytes, *, close: bool) -> int:
        """Write to its standard input as much as it reads within a second, and return the number of bytes."""
        stream, rest, deadline = self.process.stdin, memoryview(data), monotonic() + WRITE_SEC
        if stream is None or stream.closed:
            raise BrokenPipeError("its standard input is closed")
        while rest:
            try:
                rest = rest[os.write(stream.fileno(), rest) :]
            except BlockingIOError:
                if monotonic() > deadline:
                    break
                sleep(LOOK_SEC)
        if close and not rest:
            stream.close()
        return len(data) - len(rest)


_known: dict[int, Background] = {}


def _forget() -> None:
    """Forget processes that have ended, the oldest first, if there are too many."""
    for pid in [pid for pid, one in _known.items() if _code_of(one.process) is not None]:
        if len(_known) < MOST:
            return
        del _known[pid]


def start(request: Message) -> Message:
    """Carry out a request "start"."""
    _forget()
    try:
        made = Background(request)
    except (OSError, ValueError, RuntimeError) as error:  # the last: there can be no further thread
        return _not_started(error)
    _known[made.process.pid] = made
    return {"pid": made.process.pid}


def _wait(request: Message, one: Background) -> None:
    """Wait for what the request wants: output, or the end."""
    deadline = monotonic() + request["wait_sec"]
    while monotonic() < deadline:
        if _code_of(one.process) is not None if request["end"] else one.has_news():
            return
        sleep(LOOK_SEC)


def _read(request: Message, one: Background) -> Message:
    _wait(request, one)
    return one.read() if not request["end"] else {"exit_code": _code_of(one.process)}


def _write(request: Message, one: Background) -> Message:
    return {"written": one.write(request["data"], close=request["close"])}


def _signal(request: Message, one: Background) -> Message:
    if not _signal_group(one.process, request["signal"]):
        raise ProcessLookupError("it has ended")
    return {}


ACTIONS = {"read": _read, "write": _write, "signal": _signal}


def act(request: Message) -> Message:
    """Carry out a request "process": do something with a process in the background."""
    one = _known.get(request["pid"])
    try:
        if one is None:
            raise ProcessLookupError("there is no such process of the session")
        return ACTIONS[request["action"]](request, one)
    except KeyboardInterrupt:
        return {"error": {"type": "KeyboardInterrupt", "message": "the wait was interrupted"}}
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return {"error": {"type": type(error).__name__, "message": text}}


def listing(request: Message) -> Message:
    """Carry out a request "processes": list those in the background."""
    return {"processes": [[pid, one.command[:MAX_SHOWN], _code_of(one.process)] for pid, one in _known.items()]}
