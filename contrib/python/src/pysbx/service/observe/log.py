"""The log of a server: lines on standard error, of which each kind gets only a few a minute.

Records of requests (the logger ACCESS) are not counted: there is one for each, and only with the level info.

A caller can cause the same error as often as it sends requests. The kind of a record is its line in the program. For
an exception, its class and the line where it was raised belong to the kind too. So the number of kinds does not depend
on the requests of callers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

# Records of one kind that are written in a period; the rest is counted.
EACH, PERIOD_SEC = 5, 60.0
# Characters of a record. Messages may quote a request.
MAX_LENGTH, EXAMPLE = 8192, 200
MAX_KINDS = 1000

# Loggers: of the package, of requests, of requests that are refused.
PACKAGE, ACCESS, REFUSED = "pysbx", "pysbx.access", "pysbx.refused"

Kind = tuple[object, ...]


@dataclass
class _Seen:
    """The records of one kind in the current period."""

    since: float
    level: str
    example: str
    written: int = 0
    suppressed: int = 0


def kind_of(record: logging.LogRecord) -> Kind:
    """Return the kind of a record. Refusals come from one line, and have a name."""
    kind: Kind = (record.pathname, record.lineno, getattr(record, "fields", {}).get("problem", ""))
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

    def __init__(self, form: str = "text", *, dated: bool = False) -> None:
        """Create a handler that has seen no record yet, and writes text or json; text may begin with the time."""
        super().__init__()
        self._json, self._dated = form == "json", dated
        self._seen: dict[Kind, _Seen] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        if record.name == ACCESS:
            self._write(self.format(record))
            return
        now = time.monotonic()
        self._report(now - PERIOD_SEC)
        kind = kind_of(record)
        if kind not in self._seen and len(self._seen) >= MAX_KINDS:
            kind = ()  # all others are one kind
        seen = self._seen.get(kind)
        if seen is None:
            seen = self._seen[kind] = _Seen(now, record.levelname, message_of(record, EXAMPLE))
        if seen.written < EACH:
            seen.written += 1
            self._write(self.format(record))
        else:
            seen.suppressed += 1

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text, with the traceback of its exception."""
        text = message_of(record, MAX_LENGTH)
        trace = ""
        if record.exc_info and record.exc_info[1] is not None:
            # The end of a traceback says most.
            trace = logging.Formatter().formatException(record.exc_info)[-MAX_LENGTH:]
        if not self._json:
            return "\n".join(filter(None, (self._line(record.levelname, text), trace)))
        return self._object(record.levelname, record.name, text, getattr(record, "fields", {}), trace)

    def _line(self, level: str, text: str) -> str:
        return f"{timestamp()} {level}: {text}" if self._dated else f"{level}: {text}"

    def _object(self, level: str, logger: str, message: str, fields: Mapping[str, object], trace: str = "") -> str:
        about = {"time": timestamp(), "level": level.lower(), "logger": logger, "message": message, **fields}
        return json.dumps({**about, "traceback": trace} if trace else about)

    def greet(self, text: str) -> None:
        """Say that the server is there, at any level."""
        dated = f"{timestamp()} {text}" if self._dated else text
        self._write(self._object("INFO", PACKAGE, text, {}) if self._json else dated)

    def report(self) -> None:
        """Say how many records were suppressed in periods that are over; to be called from time to time."""
        with self.lock or contextlib.nullcontext():
            self._report(time.monotonic() - PERIOD_SEC)

    def close(self) -> None:
        """Say how many records were suppressed until now, and get no more."""
        logging.getLogger().removeHandler(self)
        with self.lock or contextlib.nullcontext():
            self._report(float("inf"))
        super().close()

    def _report(self, begun_before: float) -> None:
        for kind, seen in tuple(self._seen.items()):
            if seen.since <= begun_before:
                del self._seen[kind]
                if seen.suppressed:
                    text = f"{seen.suppressed} more like this were not logged: {seen.example}"
                    as_json = self._object(seen.level, PACKAGE, text, {}) if self._json else ""
                    self._write(as_json or self._line(seen.level, text))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # its reader has ended, or it is closed
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def timestamp() -> str:
    """Return the time as it is in each line, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def install(level: str = "info", form: str = "text") -> Log:
    """Make a log that gets the records of the package, and from warnings on those of libraries as well.

    Args:
        level: of the package, as command.serve names it.
        form: text or json. Text has the time, unless the journal of systemd adds it.
    """
    log, root = Log(form, dated=not os.environ.get("JOURNAL_STREAM")), logging.getLogger()
    for other in tuple(root.handlers):
        root.removeHandler(other)
    root.addHandler(log)
    root.setLevel(logging.WARNING)
    logging.getLogger(PACKAGE).setLevel(level.upper())
    return log
