"""Spans of OpenTelemetry for requests and runs, if the package opentelemetry-api is installed.

The API does nothing until the program configures it, which `opentelemetry-instrument pysbx serve` does. The names of
attributes are those of the semantic conventions for HTTP, and pysbx.* for runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pysbx.calls.execution import Execution, outcome_of
from pysbx.container.process import Cancelled
from pysbx.version import VERSION

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:
    trace = propagate = None  # type: ignore[assignment]

# Headers of W3C Trace Context, by which a caller continues its own trace. Others, such as baggage, may be of any size.
CARRIED = (b"traceparent", b"tracestate")
SERVERS = 500
OUTCOME = "pysbx.outcome"


@contextmanager
def request_span(method: str, headers: Any) -> Iterator[Any]:
    """Trace a request; yields the span, or None."""
    if trace is None:
        yield None
        return
    carrier = {name.decode(): value.decode("latin-1") for name, value in headers if name in CARRIED}
    tracer = trace.get_tracer("pysbx", VERSION)
    context: Any = propagate.extract(carrier)
    kind = trace.SpanKind.SERVER
    if trace.get_current_span().get_span_context().is_valid:
        # A program around the application traces this request already, and has read the headers.
        context, kind = None, trace.SpanKind.INTERNAL
    with tracer.start_as_current_span(method, context=context, kind=kind) as span:
        yield span


def answered(span: Any, method: str, route: str, status: int, more: Mapping[str, str]) -> None:
    """Note the answer to a request, with more attributes."""
    if span is None or not span.is_recording():
        return
    span.update_name(f"{method} {route}")
    about = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
    span.set_attributes({**about, **more})
    if status >= SERVERS:
        span.set_status(trace.StatusCode.ERROR)


@contextmanager
def run_span(name: str) -> Iterator[Any]:
    """Trace a run, with the time that it waits for a slot; yields the span, or None."""
    if trace is None:
        yield None
        return
    with trace.get_tracer("pysbx", VERSION).start_as_current_span(name) as span:
        try:
            yield span
        except (asyncio.CancelledError, Cancelled):
            span.set_attribute(OUTCOME, "cancelled")
            raise


def ran(span: Any, done: Execution, waited_sec: float) -> None:
    """Note how a run went."""
    if span is None or not span.is_recording():
        return
    about: Mapping[str, Any] = {
        OUTCOME: outcome_of(done),
        "pysbx.warm": done.warm,
        "pysbx.exit_code": done.exit_code,
        "pysbx.cpu_sec": done.usage.cpu_sec,
        "pysbx.wall_sec": done.usage.wall_sec,
        "pysbx.queue_sec": waited_sec,
        "pysbx.violations": len(done.violations),
    }
    span.set_attributes(dict(about))
