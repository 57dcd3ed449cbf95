"""The metrics of a server, for Prometheus. Without the package prometheus-client nothing is counted.

contrib/docs/pages/reference/metrics.md documents the names. Labels have few values: no path, no identifier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pysbx.calls.execution import Execution, outcome_of

try:
    import prometheus_client as prometheus
except ModuleNotFoundError:  # the extra `metrics` of the package
    prometheus = None  # type: ignore[assignment]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
# name, kind, help, labels
TABLE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("requests", "Counter", "Requests that were answered", ("method", "route", "status")),
    ("request_seconds", "Histogram", "Time from the head of a request to the end of its answer", ("route",)),
    ("runs", "Counter", "Runs of code", ("caller", "outcome")),
    ("run_seconds", "Histogram", "Time of a run by the clock", ("caller",)),
    ("cpu_seconds", "Counter", "CPU time of runs", ("caller",)),
    ("starts", "Counter", "Starts of sandboxes", ("caller", "start", "reason")),
    ("limits", "Counter", "Limits that runs have hit", ("caller", "limit")),
    ("queue_seconds", "Histogram", "Time that calls waited for a free slot", ("caller",)),
    ("problems", "Counter", "Requests and connections that were refused or failed", ("problem",)),
    ("leftovers", "Counter", "Sandboxes of an earlier service that were removed at the start", ()),
    ("audit_lost", "Counter", "Events that the audit log could not take", ()),
)
GAUGES = (
    ("running", "Calls that have a slot"),
    ("waiting", "Calls that wait for a slot"),
    ("sessions", "Sessions of all callers"),
)
# Problems of the alerts in contrib/service. They are there from the start, because Prometheus sees no increase in a
# series that begins with 1.
ALERTED = ("busy", "exhausted", "fault", "no-sandbox", "too-many-connections")


# Characters of the digest of a token, by which a caller is named.
NAME = 8


def name_of(caller: str) -> str:
    """Return the name of a caller for logs and metrics: the beginning of the SHA-256 of its token."""
    return caller[:NAME] or "-"


class Meters:
    """The numbers of one server."""

    def __init__(self) -> None:
        """Begin with zero."""
        self._found: dict[str, Any] = {}
        if prometheus is None:
            return
        # The times at which counters began would be series of their own.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = prometheus.CollectorRegistry()
        for name, kind, text, labels in TABLE:
            more = {"buckets": SECONDS} if kind == "Histogram" else {}
            made = getattr(prometheus, kind)(f"pysbx_{name}", text, labels, registry=self._registry, **more)
            self._found[name] = made
        for problem in ALERTED:
            self._found["problems"].labels(problem=problem)

    def __bool__(self) -> bool:
        """Tell whether anything is counted."""
        return bool(self._found)

    def _add(self, meter: str, value: float, **labels: str) -> None:
        found = self._found.get(meter)
        if found is None:
            return
        labelled = found.labels(**labels) if labels else found
        (labelled.observe if meter.endswith("_seconds") and hasattr(found, "observe") else labelled.inc)(value)

    def watch(self, gauge: str, value: Callable[[], float]) -> None:
        """Let a gauge have the value that a function returns, whenever it is asked for."""
        if self:
            text = dict(GAUGES)[gauge]
            prometheus.Gauge(f"pysbx_{gauge}", text, registry=self._registry).set_function(value)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        known = method if method in METHODS else "other"
        self._add("requests", 1, method=known, route=route, status=str(status))
        self._add("request_seconds", seconds, route=route)

    def waited(self, caller: str, seconds: float) -> None:
        """Count the time that a call has waited for a slot."""
        self._add("queue_seconds", seconds, caller=caller)

    def ran(self, caller: str, done: Execution) -> None:
        """Count a run."""
        outcome = outcome_of(done)
        self._add("runs", 1, caller=caller, outcome=outcome)
        self._add("run_seconds", done.usage.wall_sec, caller=caller)
        self._add("cpu_seconds", done.usage.cpu_sec, caller=caller)
        if outcome in ("timeout", "memory"):
            self._add("limits", 1, caller=caller, limit=outcome)
        if done.truncated:
            self._add("limits", 1, caller=caller, limit="output")

    def started(self, caller: str, start: str, reason: str) -> None:
        """Count a start of a sandbox."""
        self._add("starts", 1, caller=caller, start=start, reason=reason)

    def refused(self, problem: str) -> None:
        """Count a request or connection that was refused or failed, by the name of its problem."""
        self._add("problems", 1, problem=problem)

    def removed(self, count: int) -> None:
        """Count sandboxes of an earlier service that were removed."""
        self._add("leftovers", count)

    def audit_lost(self) -> None:
        """Count an event that the audit log could not take."""
        self._add("audit_lost", 1)

    def text(self) -> tuple[bytes, str]:
        """Return all numbers in the format of Prometheus, and its media type."""
        return prometheus.generate_latest(self._registry), "text/plain; version=0.0.4; charset=utf-8"
