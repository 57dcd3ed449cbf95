"""The steps of Python at the end of a program, and those of them that end each part of a session."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import os
import stat
import sys

from .failure import describe

# They buffer writes; all other streams write through one of them.
HOLDING = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
NOT_OURS_TO_FLUSH = ("/dev/", "/proc/")


def exit_code(error: SystemExit) -> int:
    """Return the code with which Python would end; a string is printed, as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def complain(error: BaseException, source: str = "") -> None:
    """Print the traceback of an exception; see describe()."""
    sys.stderr.write(describe(error, source)["traceback"])


def flush() -> None:
    """Write out the text that the user's code has printed, even if it has replaced its streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, replaced, or full
            stream.flush()


def _has_files() -> bool:
    """Tell whether files are open for writing. Searching all objects for them takes long if there are many."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself
            path = os.readlink(f"/proc/self/fd/{number}")
            writable = fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            if writable and path.startswith("/") and not path.startswith(NOT_OURS_TO_FLUSH):
                return True
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


def end_program() -> None:
    """Take the steps of Python at any end of a program: wait for threads, call the functions of atexit."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()  # executors as well, which are waited for in there
        except BaseException as error:  # of a function that was registered
            complain(error)
    atexit._run_exitfuncs()
