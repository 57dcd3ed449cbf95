"""The code execution of Dify: its workflows send programs, and read the JSON that these print.

Dify shows the member message to its user, but only if the status is 200. Any text in `error` fails the step of the
workflow, so warnings stay out of it. See https://github.com/langgenius/dify-sandbox, internal/service.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from pysbx.calls.execution import run_chosen
from pysbx.options.requirements import name_of
from pysbx.service.connections.disconnect import unless_gone
from pysbx.service.connections.problems import FAULT, REQUEST, Problem, answered_with, problem_of
from pysbx.service.http.report import Report, report_of
from pysbx.service.http.simple_api import with_traceback
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs

LANGUAGE = "python3"


class DifyProgram(BaseModel):
    """A program. Dify also asks for the network, with each: that is the administrator's choice."""

    language: str
    code: str
    preload: str = Field("", description="comes before the code")


class DifyAnswer(BaseModel):
    """An answer of Dify's sandbox."""

    code: int = Field(description="0, or the negative status of HTTP of a problem")
    message: str
    data: dict[str, Any] | None


def refusal(error: Exception) -> DifyAnswer:
    """Return the answer that has the text of a problem."""
    problem = problem_of(error)
    if problem.kind is FAULT:
        raise error
    answered_with.set(problem)
    return DifyAnswer(code=-problem.kind.status, message=str(problem), data=None)


def unsupported(language: str) -> DifyAnswer:
    """Return the answer to a request for another language."""
    return refusal(Problem(REQUEST, f"unsupported language '{language:.100}': this server runs {LANGUAGE} only"))


def error_of(report: Report) -> str:
    """Return why a program has failed, or ""."""
    if report.error is None and report.exit_code == 0:
        return "the output was cut: see --output-limit" if report.truncated and not report.left_out else ""
    return f"exit code {report.exit_code}\n{report.stderr or (report.error.message if report.error else '')}"


def add_dify(app: FastAPI, offer: Choices, jobs: Jobs) -> None:
    """Add the routes to an application."""

    @app.post("/v1/sandbox/run", name="dify_run")
    async def run(request: Request, program: DifyProgram) -> DifyAnswer:
        """Run a program of Dify in a fresh sandbox."""
        if program.language != LANGUAGE:
            return unsupported(program.language)
        code = f"{program.preload}\n{program.code}" if program.preload else program.code
        try:
            options = await jobs.aside(offer.options)
            work = jobs.run(lambda cancel: run_chosen(options, code, cancel=cancel), options, code=code)
            if (done := await unless_gone(request, work)) is None:
                return DifyAnswer(code=-499, message="the client has gone", data=None)
            report = await jobs.aside(lambda: with_traceback(report_of(done)))
        except Exception as error:
            return refusal(error)
        result = {**report.model_dump(include={"stdout", "stderr", "exit_code"}), "error": error_of(report)}
        return DifyAnswer(code=0, message="success", data=result)

    @app.get("/v1/sandbox/dependencies", name="dify_dependencies")
    async def dependencies(language: str) -> DifyAnswer:
        """List the packages of the sandbox."""
        if language != LANGUAGE:
            return unsupported(language)
        listed = [{"name": name_of(one), "version": one.partition("==")[2]} for one in offer.base.dependencies]
        return DifyAnswer(code=0, message="success", data={"dependencies": listed})
