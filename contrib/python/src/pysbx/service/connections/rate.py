"""The slowest pace of a client: bytes that are on their way, in either direction, must keep moving.

A limit on the whole time would cut off large uploads over slow lines; a limit on each pause lets one byte now and then
hold a connection for ever. So each byte buys time, up to a bound.
"""

from __future__ import annotations

# Seconds that a transfer may stand still.
PATIENCE_SEC = 10.0
# Bytes a second that keep it going.
RATE = 16 * 1024


class Rate:
    """One transfer: the time by which more of it must have come."""

    def __init__(self, now: float, patience_sec: float = PATIENCE_SEC) -> None:
        """Begin at a time of a monotonic clock."""
        self._patience_sec = patience_sec
        self.until = now + patience_sec

    def moved(self, count: int, now: float) -> None:
        """Note bytes that have been transferred."""
        self.until = min(self.until + count / RATE, now + self._patience_sec)
