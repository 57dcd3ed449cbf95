"""The clock of the machine, as a service notices that it was set.

Nothing in the service depends on that clock but the times in its logs: limits, ages and allowances have the monotonic
one. So an operator has to know when those times jump.
"""

from __future__ import annotations

import time

# Seconds by which a clock has to differ: more than what it loses or wins, or what NTP corrects at most in a second.
LEAST_SEC = 10.0
DRIFT = 0.001


class Clock:
    """Compares the clock with the monotonic one, which cannot be set, and which stops while a machine sleeps."""

    def __init__(self) -> None:
        """Begin with the clock as it is."""
        self._time, self._monotonic = time.time(), time.monotonic()

    def jump(self) -> float:
        """Return by how many seconds the clock was set since the last call, negative if it was set back, or 0."""
        now, monotonic = time.time(), time.monotonic()
        passed = monotonic - self._monotonic
        by = now - self._time - passed
        self._time, self._monotonic = now, monotonic
        return by if abs(by) > LEAST_SEC + DRIFT * passed else 0.0
