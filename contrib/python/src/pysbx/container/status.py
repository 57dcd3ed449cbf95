"""The status file of a container: what its runtime writes of the beginning and the end of the program, a line each."""

from __future__ import annotations

import contextlib
import os
import re
import select
from typing import NamedTuple

from pysbx.container import unpatched
from pysbx.container.bundle import WITHOUT_CONTAINER

LINE = re.compile(r"(exited|killed) (\d{1,3})(?: oom-kills (\d{1,9}))?")
CHUNK = 1 << 16
# Milliseconds to wait for the reason of a cold start, which the runtime writes before the interpreter begins.
REASON_MS = 1000


class ColdStart(NamedTuple):
    """The reason why an interpreter was not started warm.

    Attributes:
        code: one of the runtime's: see the page on errors and exit codes.
        reason: the same in words.
    """

    code: str
    reason: str


UNCONTAINED = ColdStart("warm-off", WITHOUT_CONTAINER)


class Status:
    """The reading end of a pipe that is a runtime's status file.

    Attributes:
        theirs: the other end, which the runtime gets; the caller closes it.
        cold: why the interpreter was started cold, if the runtime has said so.
        error: code and detail of the runtime's error.
        signal: the signal that ended the program, or 0.
        code: the program's exit code, or 128 and the signal; None while it is not known.
        oom_kills: how many of its processes the kernel has OOM-killed.
    """

    def __init__(self) -> None:
        self._descriptor, self.theirs = os.pipe()
        self._text = ""
        self.cold: ColdStart | None = None
        self.error = ("", "")
        self.signal = self.oom_kills = 0
        self.code: int | None = None

    def read(self) -> None:
        """Read what the runtime has written by now."""
        os.set_blocking(self._descriptor, False)
        # It may have been killed, and a process that it has left holds the pipe.
        with contextlib.suppress(BlockingIOError):
            self._text += unpatched.read(self._descriptor, CHUNK).decode("utf-8", "replace")
        *lines, self._text = self._text.split("\n")
        for line in lines:
            word, _, rest = line.partition(" ")
            code, _, said = rest.partition(" ")
            if word == "cold":
                self.cold = ColdStart(code, said)
            elif word == "error":
                self.error = (code, said)
            elif end := LINE.fullmatch(line):
                number = int(end[2])
                self.signal = number if word == "killed" else 0
                self.oom_kills = int(end[3] or 0)
                self.code = 128 + number if self.signal else number

    def wait_for_cold(self) -> ColdStart | None:
        """Return the reason of a cold start; None if the runtime gives none."""
        if self.cold is None and self._descriptor >= 0:
            poll = unpatched.make_poll()
            poll.register(self._descriptor, select.POLLIN)
            poll.poll(REASON_MS)
            self.read()
        return self.cold

    def close(self) -> None:
        """Close the pipe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
