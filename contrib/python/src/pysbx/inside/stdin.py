"""Standard input of a run: the bytes that the host has sent, as a file in memory; otherwise /dev/null."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from .paths import moved


def _put(descriptor: int) -> None:
    """Make a descriptor standard input, also of programs that the code starts."""
    if descriptor:
        os.dup2(descriptor, 0)
        os.close(descriptor)
    else:  # the code has closed what was there
        os.set_inheritable(0, True)


def _file_with(content: bytes) -> int:
    """Return a descriptor of a file that can only be read."""
    try:
        made = os.memfd_create("stdin")
    # It is refused where nothing would count its memory, and a Python built with an old C library lacks it.
    except (OSError, AttributeError):
        here = moved("/tmp")
        made = os.open(here if here != "/tmp" else "/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        with open(made, "wb", closefd=False) as file:
            file.write(content)
        return os.open(f"/proc/self/fd/{made}", os.O_RDONLY)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard input") from None
    finally:
        os.close(made)


def _open_again() -> None:
    """Let standard input be there, and empty, if an earlier run of the session has closed it, as exit() does."""
    if getattr(sys.stdin, "closed", False):
        try:
            os.fstat(0)
        except OSError:
            _put(os.open(os.devnull, os.O_RDONLY))
        sys.stdin = sys.__stdin__ = open(  # type: ignore[misc]  # noqa: SIM115 (for the runs that come)
            0, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False
        )


@contextlib.contextmanager
def standard_input(content: bytes, descriptor: int = -1) -> Iterator[None]:
    """Let the code read these bytes from standard input while the block runs; afterwards it is /dev/null again.

    Args:
        content: the bytes.
        descriptor: standard input itself, instead of bytes; it is closed.

    Raises:
        OSError: it is larger than a file may be.
    """
    if not content and descriptor < 0:
        _open_again()
        yield
        return
    before = sys.stdin, sys.__stdin__
    _put(descriptor if descriptor >= 0 else _file_with(content))
    try:
        # The old stream may still buffer input of an earlier run. As that of python3, the new one keeps ends of lines.
        with open(0, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False) as stream:
            sys.stdin = sys.__stdin__ = stream  # type: ignore[misc]
            yield
    finally:
        sys.stdin, sys.__stdin__ = before  # type: ignore[misc]
        _put(os.open(os.devnull, os.O_RDONLY))
