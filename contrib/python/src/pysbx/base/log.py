"""Records for Python's logging, below the logger "pysbx": runs, kills, refusals, installations, tools.

A program that has not imported logging has no handler for them either. So this module does not import it, which would
take time at each start.
"""

from __future__ import annotations

import contextlib
import sys

PACKAGE, RUN, INSTALL, TOOL = "pysbx", "pysbx.run", "pysbx.install", "pysbx.tool"
DEBUG, INFO, WARNING = 10, 20, 30


def write(logger: str, level: int, message: str, *values: object) -> None:
    """Log a message, if the program uses logging. Without a handler it is not printed, as Python does with warnings."""
    if "logging" in sys.modules:
        import logging  # noqa: PLC0415 (another thread may be importing it just now: this waits until it is whole)

        package = logging.getLogger(PACKAGE)
        if not package.handlers:
            package.addHandler(logging.NullHandler())
        try:
            logging.getLogger(logger).log(level, message, *values)
        except Exception:
            # Of a handler. It must not end a thread that others need. Handlers of Python print theirs as well.
            if logging.raiseExceptions:
                import traceback  # noqa: PLC0415 (few handlers fail)

                with contextlib.suppress(OSError, ValueError):  # nothing reads standard error, or it is closed
                    traceback.print_exc()
