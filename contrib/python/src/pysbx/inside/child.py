"""The end of a process that the user's code has created by os.fork(), and that returns to the worker.

Only its parent answers. The child ends by itself, as `python` does at the end of a program.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import NoReturn

from .ending import complain, end_program, exit_code, flush, flush_files


def _code_of(error: BaseException | None, source: str) -> int:
    """Return the code with which Python would end after an exception, which is printed, or after none."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return exit_code(error)
    complain(error, source)
    return 1


def _end(error: BaseException | None, source: str) -> NoReturn:
    code = 1
    try:
        code = _code_of(error, source)
        end_program()
        flush_files()
        flush()
    finally:  # its streams may be closed
        os._exit(code)


class OnlyHere:
    """Surrounds the user's code, in a with statement: a child that it has created does not leave the block."""

    def __init__(self, source: str = "") -> None:
        """Begin.

        Args:
            source: see describe().
        """
        self._source = source

    def __enter__(self) -> None:
        """Remember which process this is."""
        self._pid = os.getpid()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End a process that is another one."""
        if os.getpid() != self._pid:
            _end(error, self._source)
