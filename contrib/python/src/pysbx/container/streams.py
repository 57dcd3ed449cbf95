"""The output streams of a container: their pipes, and the text that has come through them."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable
from typing import Any

from pysbx.base.text import writer
from pysbx.container import unpatched
from pysbx.container.output import Output

OutputCallback = Callable[[str, str], None]

CHUNK = 1 << 16
COROUTINE = 0x80  # inspect.CO_COROUTINE
NAMES = {1: "stdout", 2: "stderr"}
# The number of the streams of earlier runs, and how many of these are read at most.
LATE = 0
MOST_LATE = 16
READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def forward(text: str) -> None:
    """Write output of a function to the standard error of this program, safely for a terminal."""
    stream = sys.stderr
    with contextlib.suppress(OSError, ValueError):  # closed, or without a reader
        if stream is not None:
            writer(stream, raw=False)(text)


def check_callbacks(on_stdout: object, on_stderr: object) -> None:
    """Raise TypeError if a callback for output cannot be called, or would have to be awaited."""
    for name, given in (("on_stdout", on_stdout), ("on_stderr", on_stderr)):
        function: Any = getattr(given, "func", given)  # functools.partial
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if given is not None and not callable(given):
            raise TypeError(f"{name}: {type(given).__name__} cannot be called: give a function of the text")
        if code is not None and code.co_flags & COROUTINE:
            way = "lambda text: loop.call_soon_threadsafe(queue.put_nowait, text)"
            raise TypeError(f"{name}: {code.co_name}() is async, and nothing awaits it: give a function, such as {way}")


def output_callback(
    on_stdout: Callable[[str], None] | None,
    on_stderr: Callable[[str], None] | None,
    otherwise: Callable[[str], None] | None = None,
) -> OutputCallback:
    """Return a callback for containers that passes the text of each stream to its own callback.

    Args:
        on_stdout: for standard output.
        on_stderr: for standard error.
        otherwise: for a stream without a callback; by default its text is not passed on.

    Raises:
        TypeError: see check_callbacks().
    """
    check_callbacks(on_stdout, on_stderr)
    targets = {"stdout": on_stdout or otherwise, "stderr": on_stderr or otherwise}

    def hand_on(stream: str, text: str) -> None:
        target = targets[stream]
        if target is not None:
            target(text)

    return hand_on


class Streams:
    """The output streams of one container.

    Attributes:
        on_output: the callback for text; see Container.
        outputs: the text since the last call of take(), by stream.
    """

    def __init__(self, limit: int, poll: select.poll, on_output: OutputCallback | None) -> None:
        """Open no pipe yet.

        Args:
            limit: of the text of each stream, in bytes.
            poll: gets the descriptors that are read.
            on_output: the callback.
        """
        self.on_output = on_output
        self.outputs = {number: Output(limit) for number in (LATE, *NAMES)}
        self._poll = poll
        self._pipes: dict[int, int] = {}  # numbers by descriptors
        self._before: dict[int, int] = {}  # the same, before the last renew()
        self._begun = False
        # Output before the greeting may be an error of the runtime, which is not the program's output.
        self._held: list[tuple[int, str]] = []

    def __contains__(self, descriptor: int) -> bool:
        """Tell whether a descriptor is one of the pipes."""
        return descriptor in self._pipes

    def open(self, given: contextlib.ExitStack) -> dict[int, int]:
        """Return the ends of new pipes for the sandbox, by number. The stack closes them."""
        ends = {}
        for number in NAMES:
            reading, ends[number] = os.pipe()
            given.callback(os.close, ends[number])
            os.set_blocking(reading, False)
            self._pipes[reading] = number
            self._poll.register(reading, READABLE)
        return ends

    def renew(self, given: contextlib.ExitStack) -> dict[int, int]:
        """Return the ends of new pipes for the worker, by stream, or none if too many are read already.

        From now on all text from the present pipes is late. The new ones have their owner, which may open /dev/stdout.
        """
        if len(self._pipes) > MOST_LATE:
            return {}
        owner = os.fstat(next(iter(self._pipes))) if self._pipes else None
        self._before, self._pipes = self._pipes, dict.fromkeys(self._pipes, LATE)
        ends = self.open(given)
        if owner is not None and owner.st_uid != os.geteuid():
            for end in ends.values():
                os.fchown(end, owner.st_uid, owner.st_gid)
        return ends

    def keep(self, number: int) -> None:
        """Take back renew() for a stream: the worker could not take its end."""
        for descriptor, before in self._before.items():
            if before == number and descriptor in self._pipes:
                self._pipes[descriptor] = number

    def read(self, descriptor: int) -> bool:
        """Read once from a pipe and tell whether there may be more."""
        number = self._pipes[descriptor]
        try:
            data = unpatched.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._poll.unregister(descriptor)
            del self._pipes[descriptor]
            os.close(descriptor)
            return False
        text = self.outputs[number].add(data)
        if number != LATE:
            self._hand_on(number, text)
        return True

    def drain(self) -> None:
        """Read what was written before the answer; a flood that goes on is cut after what a pipe holds."""
        # A read of an empty pipe would raise an exception, which takes longer.
        for descriptor in unpatched.readable(self._poll, self._pipes):
            for _ in range(32):
                if not self.read(descriptor):
                    break

    def begin(self) -> None:
        """Hand text on from now on: the program has begun."""
        self._begun = True
        self._release()

    def _hand_on(self, number: int, text: str) -> None:
        if text:
            self._held.append((number, text))
        if self._begun:
            self._release()

    def _release(self) -> None:
        while self._held:
            number, text = self._held.pop(0)
            if self.on_output is not None:
                self.on_output(NAMES[number], text)

    def take(self, number: int) -> tuple[str, bool]:
        """Return the text that came through a stream since the last call, and whether it was cut."""
        self._hand_on(number, self.outputs[number].rest())
        self._release()
        return self.outputs[number].take()

    def take_all(self) -> dict[str, str]:
        """Return the text of each stream since the last call by name; none if no program has begun."""
        return {name: self.take(number)[0] for number, name in NAMES.items()} if self._begun else {}

    def take_late(self, *, between: bool) -> str:
        """Return the text of earlier runs since the last call: between two requests, all that has come."""
        if between and self._begun:
            self.drain()
        late = self.outputs[LATE].take()[0]
        return late + "".join(self.take_all().values()) if between else late

    def close(self) -> None:
        """Close the pipes."""
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = {}
