"""How a run went, and what is at a path, as JSON: in a form that every client can read. MCP has it without FastAPI."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from pysbx.calls.execution import Execution
from pysbx.calls.processes import Process
from pysbx.container.artifacts import MAX_LEFT_OUT
from pysbx.errors import Violation
from pysbx.frameworks.workspace import Entry, Workspace
from pysbx.service.connections.json_bounds import LISTED, MAX_FILES
from pysbx.service.connections.problems import REFUSED, Problem, clean


class Failure(BaseModel):
    """The exception that ended the code."""

    type: str
    message: str
    line: int | None = None
    traceback: str = ""
    hint: str | None = Field(None, description="what to try")


class Artifact(BaseModel):
    """A file that the code has left in /output."""

    name: str
    size: int
    base64: str


class Used(BaseModel):
    """The resources that the run has used. The sandbox itself reports the memory: null if it was killed."""

    wall_sec: float
    cpu_sec: float
    peak_memory_mb: float | None


class Finding(BaseModel):
    """A violation that the static analysis of the profile found."""

    rule: str
    line: int
    message: str


class Ended(BaseModel):
    """How a run went, in short. An error or timeout of the code is an outcome, and not an error of the service."""

    stdout: str
    stderr: str
    exit_code: int
    value: str | None = Field(description="repr of a last expression that is not None")
    error: Failure | None
    timed_out: bool
    truncated: bool = Field(description="output was cut, or a file of /output left out")
    left_out: list[str] = Field([], description="files of /output that are too large together, or cannot be read")
    uncollected: list[str] = Field([], description="files of /work, which are not returned: write to /output")
    isolation: str = Field("container", description="container, or process if the operator has chosen to have none")
    session_ended: str = Field("", description="why the session cannot go on; empty if it can")


class Report(Ended):
    """How a run went."""

    displays: list[dict[str, str]] = Field(
        [], description="objects that the code has displayed: text by MIME type; binary data is base64"
    )
    artifacts: list[Artifact]
    usage: Used
    limits: dict[str, str] = Field(description="what stands behind each limit: cgroup or rlimit")
    violations: list[Finding]
    warm: bool
    cold_reason: str | None = Field(None, description="why the interpreter was not a prewarmed one; null if it was")
    cold_code: str | None = Field(None, description="the same as a code of the runtime, such as imports-refused")


def failure_of(done: Execution) -> Failure | None:
    """Return the exception of a run."""
    if done.error is None:
        return None
    error = done.error
    return Failure(
        type=clean(error.type),
        message=clean(error.message),
        line=error.line,
        traceback=clean(error.traceback),
        hint=None if error.hint is None else clean(error.hint),
    )


def finding_of(violation: Violation) -> Finding:
    """Return a violation in its other form."""
    return Finding(rule=clean(violation.rule), line=violation.line, message=clean(violation.message))


def ended(done: Execution, session_ended: str) -> dict[str, Any]:
    """Return the fields of Ended."""
    return dict(
        Ended(
            stdout=clean(done.stdout),
            stderr=clean(done.stderr),
            exit_code=done.exit_code,
            value=None if done.value is None else clean(done.value),
            error=failure_of(done),
            timed_out=done.timed_out,
            truncated=done.truncated,
            left_out=[clean(name) for name in done.left_out],
            uncollected=[clean(name) for name in done.uncollected],
            isolation=done.isolation,
            session_ended=clean(session_ended),
        )
    )


def within_bounds(done: Execution) -> Execution:
    """Return a run with as many files as are handed on."""
    if len(done.artifacts) <= MAX_FILES:
        return done
    names = list(done.artifacts)
    kept = {name: done.artifacts[name] for name in names[:MAX_FILES]}
    left_out = (*done.left_out, *names[MAX_FILES:])[:MAX_LEFT_OUT]
    return replace(done, artifacts=kept, left_out=left_out, truncated=True)


def report_of(done: Execution, session_ended: str = "") -> Report:
    """Return the report on a run."""
    done = within_bounds(done)
    return Report(
        **ended(done, session_ended),
        artifacts=[
            Artifact(name=clean(name), size=len(data), base64=base64.b64encode(data).decode())
            for name, data in done.artifacts.items()
        ],
        displays=[{kind: clean(data) for kind, data in bundle.items()} for bundle in done.displays],
        usage=Used(wall_sec=done.usage.wall_sec, cpu_sec=done.usage.cpu_sec, peak_memory_mb=done.usage.peak_memory_mb),
        limits=dict(done.limits),
        violations=[finding_of(violation) for violation in done.violations],
        warm=done.warm,
        cold_reason=None if done.cold_reason is None else clean(done.cold_reason),
        cold_code=None if done.cold_code is None else clean(done.cold_code),
    )


class ProcessStarted(BaseModel):
    """A process that has been started."""

    pid: int


class ProcessInfo(BaseModel):
    """A process in the background."""

    pid: int
    command: str = Field(description="its beginning")
    exit_code: int | None = Field(description="null as long as it runs")


class ProcessList(BaseModel):
    """The processes of a session: those that run, and the last ones that have ended."""

    processes: list[ProcessInfo]


class NewText(BaseModel):
    """The output of a process since it was read last."""

    stdout: str
    stderr: str
    left_out: int = Field(description="bytes that were more than is kept")
    exit_code: int | None = Field(description="null as long as it runs")


def process_list(processes: Iterable[Process]) -> ProcessList:
    """Return what is known of the processes."""
    return ProcessList(
        processes=[ProcessInfo(pid=one.pid, command=clean(one.command), exit_code=one.last_code) for one in processes]
    )


class EntryInfo(BaseModel):
    """A file or directory; of a link, what it leads to."""

    name: str
    path: str
    kind: str = Field(description="file, directory or other")
    size: int
    mtime: float = Field(description="when it was changed, in seconds since 1970")


class EntryList(BaseModel):
    """The entries of a directory by name."""

    entries: list[EntryInfo]


class RealPath(BaseModel):
    """A path without links."""

    path: str


def info_of(entry: Entry) -> EntryInfo:
    """Return an entry in its other form."""
    return EntryInfo(
        name=clean(entry.name), path=clean(entry.path), kind=entry.kind, size=entry.size, mtime=entry.mtime
    )


def listed(workspace: Workspace, path: str) -> list[EntryInfo]:
    """Return the entries of a directory.

    Raises:
        Problem: it has too many.
    """
    found = workspace.list(path)
    if len(found) > LISTED:
        raise Problem(REFUSED, f"{path}: it has {len(found)} entries, and {LISTED} are listed at most: list by code")
    return list(map(info_of, found))
