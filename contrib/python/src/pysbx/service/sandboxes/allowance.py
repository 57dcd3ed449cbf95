"""The allowance of each caller: calls and CPU time in an hour, and sessions at the same time.

Hours are counted from the first call of a caller, so that callers do not begin anew at the same moment. A run that has
begun is never cut off: the last one may use more CPU time than was left. Its own limits still bound it. A terminal has
no such limit, and ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from pysbx.service.connections.problems import ALLOWANCE, KEPT, Problem

HOUR_SEC = 3600.0


@dataclass(frozen=True)
class Allowance:
    """The bounds of each caller. None is without a bound.

    Attributes:
        calls: runs of code and uses of sessions that need a sandbox, in an hour.
        cpu_sec: CPU time in an hour.
        sessions: at the same time.
    """

    calls: int | None = None
    cpu_sec: float | None = None
    sessions: int | None = None


@dataclass
class _Used:
    """The part of its allowance that a caller has used."""

    since: float
    calls: int = 0
    cpu_sec: float = 0.0


class Ledger:
    """The use that callers have made of their allowance. There are as many entries as callers with a token."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing used.

        Args:
            allowance: of each caller.
            clock: in seconds. It must not jump, as the time of day does.
        """
        self._allowance = allowance
        self._clock = clock
        self._used: dict[str, _Used] = {}

    def _of(self, caller: str) -> _Used:
        now = self._clock()
        found = self._used.get(caller)
        if found is None or now - found.since >= HOUR_SEC:
            found = self._used[caller] = _Used(now)
        return found

    def _refusal(self, used: _Used, detail: str) -> Problem:
        # In this order, a sum of floats is never rounded up to more than an hour.
        wait = math.ceil(HOUR_SEC - (self._clock() - used.since))
        return Problem(ALLOWANCE, detail, retry_sec=max(wait, 1))

    def take(self, caller: str) -> None:
        """Count a call.

        Raises:
            Problem: the caller has used its allowance.
        """
        most, used = self._allowance, self._of(caller)
        if most.calls is not None and used.calls >= most.calls:
            raise self._refusal(used, f"calls: {most.calls} in an hour is the most")
        if most.cpu_sec is not None and used.cpu_sec >= most.cpu_sec:
            raise self._refusal(used, f"CPU time: {most.cpu_sec:g} seconds in an hour is the most")
        used.calls += 1

    def spend(self, caller: str, cpu_sec: float) -> None:
        """Count the CPU time of a run or a session."""
        self._of(caller).cpu_sec += cpu_sec

    def has_cpu_left(self, caller: str) -> bool:
        """Tell whether a caller may use more CPU time."""
        most = self._allowance.cpu_sec
        return most is None or self._of(caller).cpu_sec < most

    def fields(self, caller: str) -> dict[str, str]:
        """Return the header fields that tell a caller its allowance of an hour, and what is left of it.

        See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
        """
        now = self._clock()
        used = self._used.get(caller)
        if used is None or now - used.since >= HOUR_SEC:
            used = _Used(now)
        rest_sec = math.ceil(HOUR_SEC - (now - used.since))
        most = self._allowance
        bounds = {"calls": (most.calls, used.calls), "cpu-seconds": (most.cpu_sec, used.cpu_sec)}
        policies, limits = [], []
        for name, (quota, spent) in bounds.items():
            if quota is not None:
                policies.append(f'"{name}";q={math.ceil(quota)};w={int(HOUR_SEC)}')
                limits.append(f'"{name}";r={max(0, int(quota - spent))};t={rest_sec}')
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(limits)} if limits else {}

    def check_sessions(self, there_are: int) -> None:
        """Refuse a further session of a caller that has so many.

        Raises:
            Problem: that is the most.
        """
        most = self._allowance.sessions
        if most is not None and there_are >= most:
            raise Problem(KEPT, f"sessions: {most} of one caller is the most", retry_sec=10)
