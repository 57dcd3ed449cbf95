"""Signals are for the user's code: between two runs of it, the exception of a handler would end the process."""

from __future__ import annotations

import functools
import os

# Module signal calls methods of handlers, and so the code of the user, which may also replace its functions.
from _signal import SIG_IGN, SIGINT, default_int_handler, getsignal, raise_signal, valid_signals  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from types import FrameType
from typing import Any

from .channel import Message
from .ending import complain
from .failure import describe

SIGNALS = tuple(valid_signals())


def begin() -> None:
    """Let os.system() raise what an interrupt raises elsewhere: it ignores SIGINT, which only its command gets."""
    system = os.system

    @functools.wraps(system)
    def interruptible(command: Any) -> int:
        status = system(command)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == SIGINT:
            raise_signal(SIGINT)
        return status

    interruptible.__module__ = "os"  # pickle looks there for it
    os.system = interruptible


class Interrupts:
    """Holds off signals, except while the user's code runs, which finds the handlers that it has set last.

    SIGINT is ignored meanwhile. The handlers of all other signals are called before the next run, once for each signal
    that has come. An exception of theirs is printed, as in an interactive Python.
    """

    def __init__(self) -> None:
        # The process may have inherited another handler: a program in the background of a shell ignores SIGINT.
        self._handlers: dict[int, Any] = {SIGINT: default_int_handler}
        self._due: dict[int, FrameType | None] = {}
        self._noting = self._note  # each access makes another method
        set_handler(SIGINT, SIG_IGN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._due[number] = frame

    def _hold(self) -> None:
        """Replace the handlers of the user's code. A handler that is due runs first, and may raise."""
        self._handlers[SIGINT] = set_handler(SIGINT, SIG_IGN)
        for number in SIGNALS:
            handler = getsignal(number)
            if callable(handler) and handler is not self._noting:
                self._handlers[number] = handler
                set_handler(number, self._noting)

    def _release(self) -> None:
        for number, handler in list(self._handlers.items()):
            set_handler(number, handler)
            if number != SIGINT:
                del self._handlers[number]

    def _call_due(self) -> None:
        """Call the handlers of the signals that have come between two runs."""
        while self._due:
            number, frame = self._due.popitem()
            try:
                self._handlers[number](number, frame)
            except BaseException as error:  # a late alarm, for example
                complain(error)

    def plainly(self, work: Callable[[], Message]) -> Message:
        """Return the answer of a function of ours that waits for a program. SIGINT is KeyboardInterrupt meanwhile.

        Programs that it starts begin with the default action, which they would not have if it were ignored here.
        """
        answer: Message = {}
        try:
            set_handler(SIGINT, default_int_handler)
            answer = work()
        except KeyboardInterrupt as error:  # just before the work, or behind it
            answer = answer or {"exit_code": 1, "error": describe(error)}
        held = False
        while not held:
            try:
                set_handler(SIGINT, SIG_IGN)
                held = True
            except KeyboardInterrupt:
                continue
        return answer

    def during(self, work: Callable[[], Message]) -> Message:
        """Return the answer of a function that runs the user's code.

        If that code has just ended, or has not begun, the exception of the handler is the answer.
        """
        raised: BaseException | None = None
        answer: Message = {}
        try:
            self._call_due()
            self._release()
            answer = work()
        except BaseException as error:
            raised = error
        held = False
        while not held:
            try:
                self._hold()
                held = True
            except BaseException as error:
                raised = error
        return answer if raised is None else {"exit_code": 1, "error": describe(raised)}
