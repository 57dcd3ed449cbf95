"""Records for Python's logging, below the logger "pysbx": runs, kills, refusals, installations.

A program that has not imported logging has no handler for them either. So this module does not import it, which would
take time at each start.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysbx.calls.execution import Execution

PACKAGE, RUN, INSTALL = "pysbx", "pysbx.run", "pysbx.install"
DEBUG, INFO, WARNING = 10, 20, 30

# Names of an exception that ends a run, and how the run went.
ENDINGS = {"Timeout": "timeout", "MemoryError": "memory", "PolicyViolation": "violation", "Crash": "crash"}
OK, EXCEPTION, EXIT = "ok", "exception", "exit"


def write(logger: str, level: int, message: str, *values: object) -> None:
    """Log a message, if the program uses logging. Without a handler it is not printed, as Python does with warnings."""
    if (logging := sys.modules.get("logging")) is not None:
        package = logging.getLogger(PACKAGE)
        if not package.handlers:
            package.addHandler(logging.NullHandler())
        logging.getLogger(logger).log(level, message, *values)


def outcome_of(done: Execution) -> str:
    """Return in a word how a run went: one of ENDINGS, ok, exception, or exit for a code other than 0."""
    if done.timed_out:
        return ENDINGS["Timeout"]
    if done.error is not None:
        return ENDINGS.get(done.error.type, EXCEPTION)
    return EXIT if done.exit_code else OK


def ran(done: Execution) -> None:
    """Log how a run went: at level INFO if a limit, the analysis or a signal has ended it, otherwise DEBUG."""
    outcome = outcome_of(done)
    usual = outcome in (OK, EXIT, EXCEPTION)
    reason = "" if usual or done.error is None else f": {done.error.message}"
    about = ("warm" if done.warm else "cold", done.usage.wall_sec, done.usage.cpu_sec)
    text = "run ended: %s, exit code %d, %s, %.3f s, %.3f s of CPU%s"
    write(RUN, DEBUG if usual else INFO, text, outcome, done.exit_code, *about, reason)
