"""The end of a process that the user's code has created by os.fork(), and that returns to the worker.

Only its parent answers. The child ends by itself, as `python` does at the end of a program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from . import main_module
from .ending import INTERRUPTED, complain, end_program, exit_code, flush, flush_files, show

Result = TypeVar("Result")


def _code_of(error: BaseException | None, source: str) -> int:
    """Return the code with which Python would end after an exception, which is printed, or after none."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return exit_code(error)
    main_module.keep(error)
    code, shown = show(error, source)
    if not shown:
        complain(error, source)
    return code


def _end(errors: list[BaseException], source: str) -> NoReturn:
    """End this process after at most one exception. Its frames keep what the program is about to let go."""
    code = 1
    try:
        error = errors.pop() if errors else None
        interrupted = type(error) is KeyboardInterrupt
        code = _code_of(error, source)
        error = None
        code = end_program(code)
        flush_files()
        flush()
        if interrupted and code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:  # its streams may be closed
        os._exit(code)


def only_here(work: Callable[[], Result], source: str = "") -> Result:
    """Call a function that runs the user's code; a child that it has created does not return from this.

    Args:
        work: the function.
        source: see describe().

    Returns:
        What it returns.
    """
    here = os.getpid()
    raised: list[BaseException] = []
    result: Any = None
    try:
        result = work()
    except BaseException as error:
        if os.getpid() == here:
            raise
        raised.append(error)
    if os.getpid() != here:
        result = None
        _end(raised, source)
    return result  # type: ignore[no-any-return]
