"""The steps of Python at the end of a program, and those of them that end each part of a session."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import os
import signal
import stat
import sys
from typing import Any

from . import main_module
from .failure import describe, users_part

# They buffer writes; all other streams write through one of them.
HOLDING = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
NOT_OURS_TO_FLUSH = ("/dev/", "/proc/")
STREAMS = ("stdout", "stderr")
# As they are before the program may replace them.
PYTHONS_HOOK = sys.__excepthook__
run_exit_functions = atexit._run_exitfuncs
MISSING = object()
# Exit codes: of KeyboardInterrupt, as after the signal; and of Python if its output cannot be written.
INTERRUPTED = 128 + signal.SIGINT
UNWRITTEN = 120
# Of the last search, or of the start, if there was no file: all open descriptors, each with what it leads to.
_no_files: dict[int, tuple[int, int]] = {}


def exit_code(error: SystemExit) -> int:
    """Return the code with which Python would end; any other object than a number is printed, as Python does."""
    try:
        code = error.code
    except BaseException:  # a property of the user's
        code = error  # type: ignore[assignment]
    if code is None:
        return 0
    if issubclass(type(code), int):
        number = int.__pos__(code)  # type: ignore[arg-type]  # whatever methods a subclass has
        return number & 0xFF if -(1 << 63) <= number < 1 << 63 else 0xFF  # it does not fit into a long
    _print(code)
    return 1


def _print(code: object) -> None:
    """Print what a program gave to sys.exit()."""
    try:
        text = str(code)
    except BaseException:  # a __str__ of the user's
        text = ""
    if getattr(sys, "stderr", None) is None:
        _write_error(text)
    else:
        with contextlib.suppress(BaseException):  # it is closed, or of a class of the user's
            sys.stderr.write(text)
    _write_error("\n")


def _write_error(text: str) -> None:
    """Write to sys.stderr, or to its descriptor if the user's code has closed or replaced it."""
    try:
        sys.stderr.write(text)
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))


def complain(error: BaseException, source: str = "") -> None:
    """Print the traceback of an exception; see describe()."""
    with contextlib.suppress(Exception):  # closed, or of a class of the user's
        sys.stderr.write(describe(error, source)["traceback"])


def _ignore(error: BaseException, where: object) -> None:
    """Print an exception that changes nothing, as Python does."""
    _write_error(f"Exception ignored in: {where!r}\n")
    complain(error)


def show(error: BaseException, source: str = "") -> tuple[int, bool]:
    """End with an exception that is not caught: call the sys.excepthook of the user's code, if there is one.

    Returns:
        The exit code, and whether the exception has been shown: not if the hook is Python's own.
    """
    code = INTERRUPTED if type(error) is KeyboardInterrupt else 1
    hook: Any = getattr(sys, "excepthook", MISSING)
    if hook is PYTHONS_HOOK:
        return code, False
    if hook is MISSING:
        _write_error("sys.excepthook is missing\n")
        complain(error, source)
        return code, True
    try:
        hook(type(error), error, users_part(error.__traceback__))
    except SystemExit as second:
        return exit_code(second), True
    except BaseException as second:
        _write_error("Error in sys.excepthook:\n")
        complain(second, source)
        _write_error("\nOriginal exception was:\n")
        complain(error, source)
    return code, True


def flush() -> None:
    """Write out the text that the user's code has printed, even if it has replaced its streams."""
    for name in STREAMS:
        with contextlib.suppress(Exception):  # closed, replaced, deleted, or full
            getattr(sys, name).flush()


def _identity(number: int) -> tuple[int, int]:
    """Return what tells an open file from others. Pipes and sockets, which change with each run, are all the same."""
    about = os.fstat(number)
    kind = stat.S_IFMT(about.st_mode)
    return (kind, 0) if kind in (stat.S_IFSOCK, stat.S_IFIFO) else (about.st_dev, about.st_ino)


def note_descriptors(channel: int) -> None:
    """Note the descriptors that are open before the program: the standard streams and the worker's socket."""
    numbers = (0, 1, 2, channel)
    with contextlib.suppress(OSError):  # a stream is closed
        if not any(stat.S_ISREG(os.fstat(number).st_mode) for number in numbers):
            _no_files.update({number: _identity(number) for number in numbers})


def _is_known() -> bool:
    """Tell whether exactly the descriptors of the last search are open. The size tells their number since Linux 6.2."""
    try:
        known = bool(_no_files) and os.stat("/proc/self/fd").st_size == len(_no_files)
        return known and all(_identity(number) == found for number, found in _no_files.items())
    except OSError:
        return False


def _has_files() -> bool:
    """Tell whether files are open for writing. Searching all objects for them takes long if there are many."""
    if _is_known():
        return False
    _no_files.clear()
    found, paths = {}, False
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # that of the listing itself
            path = os.readlink(f"/proc/self/fd/{number}")
            found[number] = _identity(number)
            if path.startswith("/") and not path.startswith(NOT_OURS_TO_FLUSH):
                paths = True
                if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    if not paths:
        _no_files.update(found)
    return False


def flush_files() -> None:
    """Write out the buffers of files that were not closed, because the host reads artifacts and files next.

    Files only: the reader of a pipe may be waiting for something else.
    """
    if not _has_files():
        return
    for thing in gc.get_objects():
        if issubclass(type(thing), HOLDING):  # isinstance() asks the thing as well
            with contextlib.suppress(Exception):  # closed, or full
                if stat.S_ISREG(os.fstat(thing.fileno()).st_mode):
                    thing.flush()


def _write_out() -> bool:
    """Flush the standard streams, and tell whether that succeeded; see flush_std_files() in Python/pylifecycle.c."""
    succeeded = True
    for name in STREAMS:
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException as error:
            succeeded = False
            if name == "stdout":
                _ignore(error, stream)
    return succeeded


def end_program(code: int) -> int:
    """Take the steps of Python at any end of a program.

    Wait for threads, call the functions of atexit, and let go of the modules of the user's code.

    Args:
        code: the exit code.

    Returns:
        The exit code, which is another one if output could not be written.
    """
    modules = getattr(sys, "modules", None)  # a program can empty or remove it
    threading = modules.get("threading") if modules else None
    if threading is not None:
        try:
            threading._shutdown()  # executors as well, which are waited for in there
        except BaseException as error:  # of a function that was registered
            _ignore(error, threading)
    run_exit_functions()
    written = _write_out()
    with contextlib.suppress(Exception):  # the program has changed sys or its modules
        main_module.end()
    return code if written else UNWRITTEN
