"""The short interface of simple code sandboxes, beside /v1: GET /healthz, GET /profile and POST /execute.

All callers get one profile: the server's, or `minimal` if the server has none and names no others. Code that violates
it is an error of the request here, with status 400 and the first violation, and a traceback is part of stderr.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from pysbx.calls.execution import Execution, run_chosen
from pysbx.options import profiles
from pysbx.options.options import Options
from pysbx.options.profiles import LISTS, Profile
from pysbx.service.connections.disconnect import unless_gone
from pysbx.service.connections.problems import clean
from pysbx.service.http.openapi import PROBLEM
from pysbx.service.http.report import Report, report_of
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs

DEFAULT = "minimal"
# A violation is found before the code runs.
BEFORE = "pre"


class PlainProfile(BaseModel):
    """The rules for the code of all callers."""

    name: str = Field(description="empty if there are no rules")
    description: str
    allowed_imports: list[str]
    blocklist_entries: int = Field(description="number of calls and attributes that code may not use")
    scan_stages: dict[str, list[str]] = Field(description="the stages that refuse code, before (pre) and after (post)")


class PlainProgram(BaseModel):
    """A program and its limit of time."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(json_schema_extra={"pattern": r"\S"})
    timeout: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="seconds")] = None


class Refusal(BaseModel):
    """The reasons why code was not run."""

    error: str
    violations: list[str]


# Status 400 is also that of a body which is not JSON.
REFUSALS: dict[int | str, Any] = {
    400: {"model": Refusal, "content": PROBLEM["default"]["content"], "description": "the code was not run"}
}


def profile_name(offer: Choices) -> str:
    """Return the name of the profile of this interface, or ""."""
    return offer.base.profile or (DEFAULT if DEFAULT in (offer.profiles or (DEFAULT,)) else "")


def described(name: str) -> PlainProfile:
    """Return what a profile says; "" is none."""
    if not name:
        return PlainProfile(name="", description="", allowed_imports=[], blocklist_entries=0, scan_stages=_stages([]))
    profile = profiles.load(name)
    rules = rules_of(profile)
    return PlainProfile(
        name=name,
        description=profile.description,
        allowed_imports=sorted(rules.get("imports", {}).get("allowed", ())),
        blocklist_entries=blocked_in(profile),
        scan_stages=_stages([stage for stage, rule in rules.items() if rule["stage"] == "enforce"]),
    )


def _stages(before: list[str]) -> dict[str, list[str]]:
    return {BEFORE: before, "post": []}


def rules_of(profile: Profile) -> dict[str, Any]:
    """Return the stages of a profile's analysis by name."""
    found: dict[str, Any] = json.loads(profile.analysis or "{}")
    return found


def blocked_in(profile: Profile) -> int:
    """Return the number of names that a profile blocks."""
    rules = rules_of(profile)
    return sum(len(rules.get(stage, {}).get(LISTS[stage], ())) for stage in ("calls", "attributes"))


def options_of(offer: Choices, name: str, timeout: float | None) -> Options:
    """Return the sandbox of this interface, with a caller's limit of time."""
    # The server's own profile is in its base already.
    chosen = None if name == offer.base.profile else name
    return offer.options(chosen or None, (), {"timeout_sec": timeout}, simple=True)


def with_traceback(report: Report) -> Report:
    """Return a report whose stderr ends with the traceback, as that of a Python program does."""
    said = "" if report.error is None else report.error.traceback
    if not said or said.rstrip() in report.stderr:
        return report
    between = "" if not report.stderr or report.stderr.endswith("\n") else "\n"
    return report.model_copy(update={"stderr": f"{report.stderr}{between}{said.rstrip()}\n"})


def answer(done: Execution) -> Response:
    """Return the answer to a program that has run, or was refused."""
    if done.error is not None and done.error.type == "PolicyViolation":
        found = [clean(str(violation)) for violation in done.violations]
        return JSONResponse(Refusal(error="Code validation failed", violations=found).model_dump(), 400)
    return Response(with_traceback(report_of(done)).model_dump_json(), media_type="application/json")


def add_plain(app: FastAPI, offer: Choices, jobs: Jobs, *, execute: bool = True) -> None:
    """Add the routes of this interface to an application, POST /execute only if that is asked for."""
    name = profile_name(offer)
    about = described(name)

    @app.get("/profile", name="profile")
    async def profile() -> PlainProfile:
        """Say which rules hold for POST /execute."""
        return about

    if execute:
        _add_execute(app, offer, jobs, name)


def _add_execute(app: FastAPI, offer: Choices, jobs: Jobs, name: str) -> None:
    @app.post("/execute", name="execute", response_model=Report, responses=REFUSALS)
    async def execute(request: Request, program: PlainProgram) -> Response:
        """Run a program in a fresh sandbox with the profile of GET /profile."""
        if not program.code.strip():
            return JSONResponse(Refusal(error="No code provided", violations=[]).model_dump(), 400)
        options = await jobs.aside(lambda: options_of(offer, name, program.timeout))
        code = program.code
        work = jobs.run(lambda cancel: run_chosen(options, code, cancel=cancel), options, code=code)
        done = await unless_gone(request, work)
        return Response(status_code=499) if done is None else await jobs.aside(lambda: answer(done))
