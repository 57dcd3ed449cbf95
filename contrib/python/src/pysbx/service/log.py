"""The log of a server: lines on standard error, of which each kind gets only a few a minute.

A caller can cause the same error as often as it sends requests. The kind of a record is its place in the program. For
an exception, its class and the place where it was raised belong to the kind too. So the number of kinds does not depend
on the requests of callers.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from dataclasses import dataclass

# Records of one kind that are written in a period; the rest is counted.
EACH, PERIOD_SEC = 5, 60.0
# Characters of a record. Messages may quote a request.
MAX_LENGTH, EXAMPLE = 8192, 200
MAX_KINDS = 1000

Kind = tuple[object, ...]


@dataclass
class _Seen:
    """The records of one kind in the current period."""

    since: float
    example: str
    written: int = 0
    suppressed: int = 0


def kind_of(record: logging.LogRecord) -> Kind:
    """Return the kind of a record."""
    kind: Kind = (record.pathname, record.lineno)
    if not record.exc_info or record.exc_info[0] is None:
        return kind
    trace = record.exc_info[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace is not None else ()
    return (*kind, record.exc_info[0], *where)


def printable(text: str) -> str:
    """Return a string on one line, with control characters as escapes: it must not look like another record."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def message_of(record: logging.LogRecord, length: int) -> str:
    """Return the message of a record, cut to a length, or, if its arguments do not fit, what it is made from."""
    try:
        return printable(record.getMessage()[:length])
    except (TypeError, ValueError, KeyError):
        return printable(repr(record.msg)[:length])


class Log(logging.Handler):
    """Write records to standard error, a bounded number of each kind."""

    def __init__(self) -> None:
        """Create a handler that has seen no record yet."""
        super().__init__()
        self._seen: dict[Kind, _Seen] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        now = time.monotonic()
        self._report(now - PERIOD_SEC)
        kind = kind_of(record)
        if kind not in self._seen and len(self._seen) >= MAX_KINDS:
            kind = ()  # all others are one kind
        seen = self._seen.get(kind)
        if seen is None:
            seen = self._seen[kind] = _Seen(now, message_of(record, EXAMPLE))
        if seen.written < EACH:
            seen.written += 1
            self._write(self.format(record))
        else:
            seen.suppressed += 1

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text, with the traceback of its exception."""
        text = f"{record.levelname}: {message_of(record, MAX_LENGTH)}"
        if record.exc_info and record.exc_info[1] is not None:
            # The end of a traceback says most.
            text += f"\n{logging.Formatter().formatException(record.exc_info)[-MAX_LENGTH:]}"
        return text

    def report(self) -> None:
        """Say how many records were suppressed in periods that are over; to be called from time to time."""
        with self.lock or contextlib.nullcontext():
            self._report(time.monotonic() - PERIOD_SEC)

    def close(self) -> None:
        """Say how many records were suppressed until now."""
        with self.lock or contextlib.nullcontext():
            self._report(float("inf"))
        super().close()

    def _report(self, begun_before: float) -> None:
        for kind, seen in tuple(self._seen.items()):
            if seen.since <= begun_before:
                del self._seen[kind]
                if seen.suppressed:
                    self._write(f"WARNING: {seen.suppressed} more like this were not logged: {seen.example}")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # its reader has ended, or it is closed
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def install() -> Log:
    """Make a log that gets all records from warnings on, of libraries as well."""
    log, root = Log(), logging.getLogger()
    for other in tuple(root.handlers):
        root.removeHandler(other)
    root.addHandler(log)
    root.setLevel(logging.WARNING)
    return log
