"""Shell commands and processes in the background of a session: the requests for them, and what they answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pysbx.base.handles import Handle
from pysbx.calls.execution import MAX_FILES, as_bytes, as_text, as_texts
from pysbx.container.exchange import MALFORMED, text
from pysbx.errors import ForgedAnswerError, SandboxError, SandboxTimeoutError
from pysbx.options.declaration import MOST
from pysbx.options.options import Options

Message = dict[str, Any]
Command = str | Iterable[str | os.PathLike[str]]
Ask = Callable[[Message, float], Message]

MAX_PROCESSES = 1000
MAX_COMMAND = 1000
MAX_PID = (1 << 31) - 1
INSPECTED = "the profile inspects Python code, and cannot inspect commands: use one that does not enforce its analysis"


@dataclass(frozen=True)
class ProcessOutput:
    """The output of a process in the background since it was read last.

    Attributes:
        stdout: the end of its standard output, up to output_limit.
        stderr: the same of its standard error.
        left_out: bytes of both that were more than that.
        exit_code: that of the process, if it has ended; otherwise None.
        open: whether more can come. Processes that it has started may write after its end.
    """

    stdout: str = ""
    stderr: str = ""
    left_out: int = 0
    exit_code: int | None = None
    open: bool = True


def refuse_inspected(options: Options, what: str = "command") -> None:
    """Refuse commands if a profile enforces its static analysis, which they would circumvent.

    Raises:
        SandboxError: it does.
    """
    stages = json.loads(options.analysis or "{}").values()
    if any(rule.get("stage") == "enforce" for rule in stages):
        raise SandboxError(f"{what}: {INSPECTED}")


def command_request(
    op: str, command: Command, options: Options, cwd: str | os.PathLike[str], env: Mapping[str, str] | None
) -> Message:
    """Return the request to start a command.

    Raises:
        SandboxError: see refuse_inspected.
        TypeError: a value is of another type.
        ValueError: there is no program.
    """
    refuse_inspected(options)
    given = command if isinstance(command, str) else as_texts(command, "command")
    if not given:
        raise ValueError("command: it is empty")
    variables = {} if env is None else dict(env)
    if any(not isinstance(part, str) for item in variables.items() for part in item):
        raise TypeError("env: names and values must be strings")
    return {"op": op, "command": given, "cwd": as_text(cwd, "cwd"), "env": variables}


def number_of(given: int | str) -> int:
    """Return the number of a signal, which may be given as a name such as "INT" or "SIGINT".

    Raises:
        ValueError: there is no such signal.
    """
    try:
        if isinstance(given, str):
            return int(signal.Signals[given if given.startswith("SIG") else f"SIG{given}"])
        return int(signal.Signals(given))
    except (KeyError, ValueError):
        raise ValueError(f"signal: {given!r:.80} is neither the number nor the name of one") from None


def check_started(answer: Message) -> int:
    """Return the number of the process that was started.

    Raises:
        SandboxError: it could not be started.
    """
    error, pid = answer.get("error"), answer.get("pid")
    if isinstance(error, dict):
        raise SandboxError(f"the command cannot be started: {text(error, 'message')}")
    if not isinstance(pid, int) or not 0 < pid <= MAX_PID:
        raise ForgedAnswerError(MALFORMED)
    return pid


def _code(value: object) -> int | None:
    return value & 0xFF if isinstance(value, int) else None


class Process(Handle):
    """A process in the background of a session."""

    def __init__(self, ask: Ask, pid: int, command: str, limit: int, last_code: int | None = None) -> None:
        """Refer to a process that has been started; see Sandbox.start."""
        self.pid = pid
        self.command = command
        self.last_code = last_code
        self._ask = ask
        self._limit = limit

    def __repr__(self) -> str:
        """Return it as the prompt shows it."""
        return f"<Process {self.pid}: {self.command}>"

    def _act(self, action: str, wait_sec: float = 0.0, **more: Any) -> Message:
        request = {"op": "process", "action": action, "pid": self.pid, "wait_sec": wait_sec, **more}
        answer = self._ask(request, wait_sec)
        error = answer.get("error")
        if isinstance(error, dict):
            raise SandboxError(f"process {self.pid}: {text(error, 'message')}")
        return answer

    def read(self, wait_sec: float = 0.0) -> ProcessOutput:
        """Return what it has written since the last call.

        Args:
            wait_sec: seconds to wait at most until there is something, or it has ended.

        Raises:
            SandboxError: the session has ended, or does not know the process any more.
            ValueError: the time is none.
        """
        answer = self._act("read", _seconds(wait_sec), end=False)
        streams = [answer.get(name) for name in ("stdout", "stderr")]
        left_out = answer.get("left_out")
        if (
            not all(isinstance(data, bytes) and len(data) <= self._limit for data in streams)
            or type(left_out) is not int
        ):
            raise ForgedAnswerError(MALFORMED)
        stdout, stderr = (bytes(data).decode("utf-8", "replace") for data in streams if data is not None)
        return ProcessOutput(
            stdout, stderr, max(0, left_out), _code(answer.get("exit_code")), answer.get("open") is True
        )

    def write(self, data: bytes | str, *, close: bool = False) -> None:
        """Write to its standard input.

        Args:
            data: what to write.
            close: whether this is the end of its input.

        Raises:
            SandboxError: it has ended, or does not read.
            ValueError: it is too much.
        """
        content = as_bytes(data, "data")
        if len(content) > MAX_FILES:
            raise ValueError(f"data: more than {MAX_FILES} bytes")
        written = self._act("write", data=content, close=close).get("written")
        if written != len(content):
            raise SandboxError(f"process {self.pid}: it has read {written} of {len(content)} bytes of its input")

    def signal(self, number: int | str) -> None:
        """Send a signal, such as signal.SIGINT or "INT", to it and to the processes that it has started.

        Raises:
            SandboxError: it has ended.
            ValueError: there is no such signal.
        """
        self._act("signal", signal=number_of(number))

    def wait(self, timeout_sec: float = 30.0) -> int:
        """Wait for its end, and return its exit code: 128 and the number of the signal, if one has ended it.

        Raises:
            SandboxTimeoutError: it goes on.
            ValueError: the time is none.
        """
        code = _code(self._act("read", _seconds(timeout_sec), end=True).get("exit_code"))
        if code is None:
            raise SandboxTimeoutError(
                f"process {self.pid}: it has not ended after {timeout_sec:g} seconds", timeout_sec
            )
        return code

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or None as long as it runs."""
        return _code(self._act("read", end=True).get("exit_code"))


def _seconds(given: float) -> float:
    """Refuse a time that is none; 0 is one."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < MOST:
        raise ValueError(f"wait_sec: {given!r} is not a number of seconds")
    return float(given)


def processes_of(answer: Message, ask: Ask, limit: int) -> list[Process]:
    """Return the processes in an answer.

    Raises:
        ForgedAnswerError: it is malformed.
    """
    found = answer.get("processes")
    if not isinstance(found, list) or len(found) > MAX_PROCESSES:
        raise ForgedAnswerError(MALFORMED)
    made = []
    for item in found:
        if not isinstance(item, list) or len(item) != 3 or type(item[0]) is not int or not isinstance(item[1], str):
            raise ForgedAnswerError(MALFORMED)
        made.append(Process(ask, item[0], item[1][:MAX_COMMAND], limit, _code(item[2])))
    return made
