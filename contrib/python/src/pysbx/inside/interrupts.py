"""SIGINT is for the user's code: between two runs of it, the signal would end the process."""

from __future__ import annotations

import signal
from collections.abc import Callable

from .channel import Message
from .failure import describe


class Interrupts:
    """Ignores SIGINT, except while the user's code runs, which finds the handler that it has set last."""

    def __init__(self) -> None:
        # The process may have inherited another handler: a program in the background of a shell ignores SIGINT.
        self._handler: signal.Handlers | Callable[..., object] | int | None = signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def during(self, work: Callable[[], Message]) -> Message:
        """Return the answer of a function that runs the user's code.

        If that code has just ended, or has not begun, the exception of the handler is the answer.
        """
        raised: BaseException | None = None
        answer: Message = {}
        try:
            signal.signal(signal.SIGINT, self._handler)
            answer = work()
        except BaseException as error:
            raised = error
        while True:
            try:  # it runs the handler first, if one is due, and does nothing else when that raises
                self._handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
                break
            except BaseException as error:
                raised = error
        return answer if raised is None else {"exit_code": 1, "error": describe(raised)}
