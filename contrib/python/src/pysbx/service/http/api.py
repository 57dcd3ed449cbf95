"""The HTTP service: its routes, with requests and answers. Jobs and sessions do the work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, get_args

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, SkipValidation
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from pysbx.calls.execution import CheckedFiles, Execution, checked_files, run_chosen
from pysbx.calls.prepare import prepare
from pysbx.calls.session import Sandbox
from pysbx.errors import SandboxError, SandboxFileError
from pysbx.options import hints
from pysbx.options.options import Options
from pysbx.options.profiles import Profile
from pysbx.packages.progress import install_progress
from pysbx.service.connections.admission import caller, is_known
from pysbx.service.connections.disconnect import unless_gone
from pysbx.service.connections.json_bounds import LISTED, MAX_ARGUMENTS, MAX_FILES, check_files
from pysbx.service.connections.problems import (
    JSON,
    NO_FILE,
    NO_METRICS,
    PLAIN,
    REFUSED,
    REQUEST,
    Kind,
    Problem,
    answered_with,
    clean,
    file_problem,
    meant,
    problem_of,
)
from pysbx.service.http.bodies import NO_CONTENT, Binary, Strict, content_of, reported
from pysbx.service.http.callbacks import WithTools, add_tool_results, callback_of, check_streamed
from pysbx.service.http.checkpoints import add_checkpoints
from pysbx.service.http.fields import with_limits
from pysbx.service.http.idempotency import Idempotent
from pysbx.service.http.openapi import CONTENT, CONTENT_BODY, EVENTS, METRICS, PROBLEM, Described
from pysbx.service.http.pages import add_pages
from pysbx.service.http.report import Report, report_of
from pysbx.service.http.simple_api import add_plain, blocked_in, rules_of
from pysbx.service.observe.metrics import Meters
from pysbx.service.sandboxes.callbacks import EVENT, Book, OnOutput, heard
from pysbx.service.sandboxes.choices import LIMITS, Choices
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.preparation import Prepared
from pysbx.service.sandboxes.readiness import Probe, Readiness
from pysbx.service.sandboxes.sessions import Session, Sessions, check_timeout
from pysbx.service.sandboxes.state import State
from pysbx.version import VERSION

T = TypeVar("T")

EVENT_STREAM = "text/event-stream"
# No cache keeps a stream, and nginx hands on each event when it comes.
AT_ONCE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
# Seconds between signs of life, so that either side notices when the other is gone.
ALIVE_SEC = 15.0
MAX_ERRORS = 10
METHOD = 405
# Types that a body may have instead of an object.
OF_JSON = {list: "an array", str: "a string", bool: "true or false"}
# Of pydantic: the type of the error about a member that a model does not have, and the parts of its path: body, name.
UNKNOWN, TOP = "extra_forbidden", 2


class _FilePath(Convertor[str]):
    """The path of a file within a URL: unlike Starlette's {…:path}, with newlines, also as its last character."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("file", _FilePath())


@with_limits
class SandboxRequest(Strict):
    """The sandbox that a caller asks for. The server's own value holds for each member that is missing."""

    profile: str | None = Field(None, description="name of a profile, of GET /v1/profiles")
    packages: list[str] = Field([], max_length=50, description="names of packages, of GET /v1/profiles")


class Program(Strict):
    """Source text, its arguments and its input."""

    code: str
    argv: list[str] = Field([], max_length=MAX_ARGUMENTS)
    stdin: str | Binary = Field("", description="what it reads from standard input")


class SessionProgram(Program):
    """A program for a session, and its own limit of time."""

    timeout_sec: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="seconds until KeyboardInterrupt; the session goes on"
    )


class SessionRequest(SandboxRequest, WithTools):
    """The sandbox of a session, its tools, and the snapshot from which it continues."""

    snapshot: str | None = Field(None, description="name of a snapshot, of GET /v1/snapshots")


class RunRequest(SandboxRequest, Program, WithTools):
    """A program, and the sandbox for it."""

    # files_of checks the contents: pydantic would describe each wrong one, which takes long.
    files: dict[str, SkipValidation[str | Binary]] = Field(
        {}, description="content by path relative to /work", json_schema_extra={"maxProperties": MAX_FILES}
    )


class Started(BaseModel):
    """A session that has been started."""

    id: str
    idle_sec: float = Field(description="it ends when it is not used for so long")


class SessionInfo(BaseModel):
    """A session that there is."""

    id: str
    age_sec: float
    unused_sec: float = Field(description="since its last use")
    running: bool
    paused: bool
    parked: bool = Field(description="it is on the disk, and the next use brings it back")
    profile: str
    dependencies: list[str]


class SessionList(BaseModel):
    """The sessions of the caller."""

    sessions: list[SessionInfo]


class Listing(BaseModel):
    """The files of a session."""

    files: dict[str, int] = Field(description="size by path: relative to /work, or absolute")


class ChangeInfo(BaseModel):
    """A file that code has changed."""

    path: str = Field(description="relative to /work, or absolute")
    kind: str = Field(description="added, changed, removed, or unread if it cannot be read")
    type: str = Field(description="file, link, directory or other")
    size: int


class ChangeList(BaseModel):
    """The files of a session that differ from what was put there."""

    changes: list[ChangeInfo]


class ProfileInfo(BaseModel):
    """A profile that may be chosen."""

    name: str
    description: str
    limits: dict[str, int | float]
    allowed_imports: list[str] = Field(description="modules; empty if the profile has no rule for imports")
    blocked: int = Field(description="number of calls and attributes that it has rules for")
    stages: dict[str, str] = Field(description="enforce, observe or off, by stage of the analysis")


def profile_info(name: str, profile: Profile, limits: dict[str, int | float]) -> ProfileInfo:
    """Return what callers may know of a profile."""
    rules = rules_of(profile)
    return ProfileInfo(
        name=name,
        description=profile.description,
        limits=limits,
        allowed_imports=sorted(rules.get("imports", {}).get("allowed", ())),
        blocked=blocked_in(profile),
        stages={stage: rule["stage"] for stage, rule in rules.items()},
    )


class Choice(BaseModel):
    """The profiles, packages and limits on offer."""

    python: str
    modules: list[str] = Field(description="popular third-party modules that are installed")
    profiles: list[ProfileInfo]
    packages: list[str]
    limits: dict[str, int | float] = Field(description="the defaults, which are also the maximum")


class Health(BaseModel):
    """That the server is there."""

    status: str = "ok"


def info_of(session: Session) -> SessionInfo:
    """Return what its owner may know of a session."""
    now, running = time.monotonic(), session.turn.locked()
    return SessionInfo(
        id=session.id,
        age_sec=round(now - session.began, 3),
        unused_sec=0.0 if running else round(now - session.used, 3),
        running=running,
        paused=session.sandbox.paused,
        parked=session.sandbox.parked,
        profile=session.options.profile,
        dependencies=list(session.options.dependencies),
    )


def options_of(offer: Choices, wish: SandboxRequest) -> Options:
    """Return the sandbox that a request asks for."""
    return offer.options(wish.profile, wish.packages, wish.model_dump(include=set(LIMITS)))


def choice_of(offer: Choices, found: Prepared) -> Choice:
    """Return the profiles, packages and limits on offer."""
    infos = [profile_info(name, profile, offer.limits(name)) for name, profile in offer.profiles.items()]
    return Choice(
        python=found.python,
        modules=list(found.modules),
        profiles=infos,
        packages=sorted(offer.packages),
        limits=offer.limits(),
    )


def input_of(program: Program) -> bytes:
    """Return the bytes that a program reads from standard input."""
    with meant("stdin: "):
        return content_of(program.stdin)


def files_of(request: RunRequest) -> CheckedFiles:
    """Return the files of a request: checked and decoded here, and nowhere else."""
    check_files(len(request.files))
    found = {}
    for name, content in request.files.items():
        given: object = content  # as JSON has it
        if isinstance(given, dict) and given.keys() == {"base64"} and isinstance(given["base64"], str):
            given = Binary.model_construct(base64=given["base64"])
        if not isinstance(given, (str, Binary)):
            raise Problem(REQUEST, f"files: '{name}': neither a string nor an object with the string base64")
        with meant(f"file '{name}': "):
            found[name] = content_of(given)
    with meant():
        return checked_files(found)


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


async def stream(
    jobs: Jobs,
    start: Callable[[OnOutput], Awaitable[Execution]],
    ended: Callable[[], str] = lambda: "",
    *,
    abandon: bool,
    gone: Callable[[], None] = lambda: None,
) -> AsyncIterator[str]:
    """Yield a run as server-sent events: installations and output as they come, then result or problem.

    Args:
        jobs: the threads.
        start: begins the run; is given what is to be called with output.
        ended: returns why the session has ended, or "".
        abandon: cancel the run when the client goes.
        gone: called when the client goes before the end.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[str, str] | None]()

    def on_output(kind: str, text: str) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (kind, text))

    def over(task: asyncio.Future[Execution]) -> None:
        if not task.cancelled():
            task.exception()  # seen, in case the client is gone and the result has no reader
        queue.put_nowait(None)

    task = asyncio.ensure_future(start(on_output))
    task.add_done_callback(over)
    try:
        while True:
            try:
                item = await asyncio.wait_for(queue.get(), ALIVE_SEC)
            except asyncio.TimeoutError:
                yield ": still running\n\n"
                continue
            if item is None:
                break
            yield (
                f"event: {EVENT}\ndata: {item[1]}\n\n"
                if item[0] == EVENT
                else _event(item[0], {"text": clean(item[1])})
            )
        try:
            done, why = task.result(), ended()
            yield await jobs.aside(lambda: f"event: result\ndata: {report_of(done, why).model_dump_json()}\n\n")
        except Exception as error:
            yield _event("problem", problem_of(error).content())
    finally:
        if not task.done():
            gone()
        if abandon:
            task.cancel()


def _answer(problem: Problem) -> Response:
    answered_with.set(problem)
    return Response(json.dumps(problem.content()), problem.kind.status, problem.headers())


def _reason(error: dict[str, Any], known: Iterable[str]) -> str:
    """Return what is wrong with a member; for one that does not exist, the name that is most like it."""
    name = error["loc"][-1]
    if error["type"] != UNKNOWN or len(error["loc"]) != TOP or not isinstance(name, str):
        return str(error["msg"])
    return f"there is no such member: {hints.closest(name, known) or 'there are'} {', '.join(known)}"


def _described(errors: list[dict[str, Any]], known: Iterable[str]) -> str:
    lines = [
        f"{'.'.join(map(str, error['loc'][1:])) or 'the body'}: {_reason(error, known)}"
        for error in errors[:MAX_ERRORS]
    ]
    return clean("; ".join(lines))


def _members(request: Request) -> list[str]:
    """Return the names of the members that the body of a request may have."""
    body = getattr(request.scope.get("route"), "body_field", None)
    given = body.field_info.annotation if body is not None else None
    models = (one for one in (given, *get_args(given)) if isinstance(one, type) and issubclass(one, BaseModel))
    return [name for model in models for name in model.model_fields]  # of a body that may be left out, the first


def allowed_methods(request: Request) -> tuple[str, ...]:
    """Return the methods of the route that a request names: several routes may have the same path."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return tuple(sorted(found | ({"HEAD"} if "GET" in found else set())))


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = list(error.errors())
        for one in errors:
            if one["type"] == "json_invalid":
                reason = one.get("ctx", {}).get("error", one["msg"])
                return _answer(Problem(JSON, f"at character {one['loc'][-1]}: {reason}"))
            if one["loc"] == ("body",):
                return _answer(Problem(JSON, _other_body(request, one)))
        return _answer(Problem(REQUEST, _described(errors, _members(request))))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, UnicodeDecodeError):  # of the body
            return _answer(Problem(JSON, _other_coding(request, error.__cause__)))
        kind = PLAIN.get(error.status_code, Kind("http", error.status_code, "that is not possible", PLAIN[404].remedy))
        allow = allowed_methods(request) if error.status_code == METHOD else ()
        return _answer(Problem(kind, f"{request.method} {clean(request.url.path):.200}: {error.detail}", allow=allow))

    async def known(request: Request, error: Exception) -> Response:
        return _answer(problem_of(error))

    # The last is for unexpected exceptions: the client gets an answer, and the server logs the exception.
    for kind in (Problem, SandboxError, OSError, Exception):
        app.add_exception_handler(kind, known)


def _other_coding(request: Request, error: UnicodeDecodeError) -> str:
    """Return why a body is no text."""
    coding = request.headers.get("content-encoding")
    return f"its Content-Encoding is '{clean(coding):.100}'" if coding else f"it is not UTF-8 at byte {error.start}"


def _other_body(request: Request, error: Mapping[str, Any]) -> str:
    """Return what a body is that is no object."""
    found = error.get("input")
    if error["type"] == "missing" or found is None:
        return "there is none, or it is null"
    if isinstance(found, bytes):
        return f"its Content-Type is '{clean(request.headers.get('content-type', '')):.100}'"
    return f"it is {OF_JSON.get(type(found), 'a number')}"


def _install(options: Options, packages: Iterable[str], on_output: OnOutput) -> None:
    """Install the packages of a run if they are not there, with an event before it and one after it.

    The events name the caller's packages only: the output of pip would also name the index of the operator.
    """
    told: list[str] = []

    def tell(_: str) -> None:
        if not told:
            told.append(", ".join(packages))
            on_output("installing", told[0])

    with install_progress(tell):
        prepare(options)
    if told:
        on_output("installed", told[0])


def _add_runs(app: FastAPI, offer: Choices, jobs: Jobs, book: Book) -> None:
    @app.post("/v1/run", response_model=Report, responses=EVENTS)
    async def run(request: Request, wanted: RunRequest) -> Response:
        """Run a program in a fresh sandbox; with Accept: text/event-stream, its output is sent as it comes."""
        options, files, stdin = await jobs.aside(
            lambda: (options_of(offer, wanted), files_of(wanted), input_of(wanted))
        )
        is_stream, callback = EVENT_STREAM in request.headers.get("accept", ""), callback_of(book, wanted)
        check_streamed(callback, is_stream=is_stream)

        def work(cancel: int, on_output: OnOutput | None) -> Execution:
            given: dict[str, Any] = {"argv": tuple(wanted.argv), "stdin": stdin}
            if on_output is not None:
                if options.dependencies:
                    _install(options, wanted.packages, on_output)
                given |= {
                    "on_stdout": lambda text: on_output("stdout", text),
                    "on_stderr": lambda text: on_output("stderr", text),
                }
            if callback is not None:
                given["tools"] = callback.tools
            with heard(callback, on_output):
                return run_chosen(options, wanted.code, files=files, cancel=cancel, **given)

        def begin(run_it: Callable[[int], Execution]) -> Awaitable[Execution]:
            return jobs.run(run_it, options, code=wanted.code)

        if is_stream:
            return StreamingResponse(
                stream(jobs, lambda on_output: begin(lambda cancel: work(cancel, on_output)), abandon=True),
                media_type=EVENT_STREAM,
                headers=AT_ONCE,
            )
        done = await unless_gone(request, begin(lambda cancel: work(cancel, None)))
        return Response(status_code=499) if done is None else await jobs.aside(lambda: reported(done))


def _add_sessions(app: FastAPI, offer: Choices, jobs: Jobs, sessions: Sessions, book: Book) -> None:
    def find(identifier: str) -> Session:
        return sessions.find(caller.get(), identifier)

    @app.post("/v1/sessions", status_code=201, name="start_session")
    async def start(response: Response, wanted: SessionRequest | None = None) -> Started:
        """Start a session: names, modules and files of one run are there in the next."""
        given = wanted or SessionRequest(profile=None, packages=[], tools=[], snapshot=None)
        options, callback = await jobs.aside(lambda: options_of(offer, given)), callback_of(book, given)
        if given.snapshot is None:
            session = await sessions.start(caller.get(), options, callback)
        else:
            session = await sessions.restore(caller.get(), options, given.snapshot, callback)
        response.headers["Location"] = f"/v1/sessions/{session.id}"
        return Started(id=session.id, idle_sec=sessions.idle_sec)

    @app.post("/v1/sessions/{identifier}/run", response_model=Report, responses=EVENTS, name="run_in_session")
    async def run(request: Request, identifier: str, program: SessionProgram) -> Response:
        """Run source text in a session; it goes on to its end when the client does not wait for it."""
        session, argv, limit = find(identifier), tuple(program.argv), program.timeout_sec
        check_timeout(session, limit)
        stdin = await jobs.aside(lambda: input_of(program))
        if EVENT_STREAM in request.headers.get("accept", ""):
            return StreamingResponse(
                stream(
                    jobs,
                    lambda on_output: sessions.run(session, program.code, argv, stdin, on_output, timeout_sec=limit),
                    lambda: session.sandbox.ended,
                    abandon=False,
                    gone=session.callback.end if session.callback is not None else lambda: None,
                ),
                media_type=EVENT_STREAM,
                headers=AT_ONCE,
            )
        done = await sessions.run(session, program.code, argv, stdin, timeout_sec=limit)
        return await jobs.aside(lambda: reported(done, session.sandbox.ended))

    _add_files(app, sessions, find)

    @app.get("/v1/sessions", name="list_sessions")
    async def listing() -> SessionList:
        """List the sessions of the caller."""
        return SessionList(sessions=[info_of(session) for session in sessions.of(caller.get())])

    @app.get("/v1/sessions/{identifier}", name="get_session")
    async def info(identifier: str) -> SessionInfo:
        """Say what a session does."""
        return info_of(find(identifier))

    @app.post("/v1/sessions/{identifier}/fork", status_code=201, name="fork_session")
    async def fork(response: Response, identifier: str) -> Started:
        """Start a second session that continues from the state of this one."""
        session = await sessions.fork(find(identifier))
        response.headers["Location"] = f"/v1/sessions/{session.id}"
        return Started(id=session.id, idle_sec=sessions.idle_sec)

    @app.post("/v1/sessions/{identifier}/interrupt", name="interrupt_session", **NO_CONTENT)
    async def interrupt(identifier: str) -> None:
        """Raise KeyboardInterrupt in the code that runs in a session; the session goes on."""
        await sessions.interrupt(find(identifier))

    @app.post("/v1/sessions/{identifier}/pause", name="pause_session", **NO_CONTENT)
    async def pause(identifier: str) -> None:
        """Freeze a session after the uses that wait already; memory and files are kept."""
        await sessions.use(find(identifier), lambda sandbox: sandbox.pause())

    @app.post("/v1/sessions/{identifier}/resume", name="resume_session", **NO_CONTENT)
    async def resume(identifier: str) -> None:
        """Let a paused session go on."""
        await sessions.use(find(identifier), lambda sandbox: sandbox.resume())

    @app.delete("/v1/sessions/{identifier}", name="end_session", **NO_CONTENT)
    async def end(identifier: str) -> None:
        """End a session, even while it runs."""
        await sessions.end(find(identifier))


def _add_files(app: FastAPI, sessions: Sessions, find: Callable[[str], Session]) -> None:
    async def of_file(session: Session, work: Callable[[Sandbox], T]) -> T:
        try:
            return await sessions.use(session, work)
        except SandboxFileError as error:
            raise file_problem(NO_FILE, error) from error

    @app.get("/v1/sessions/{identifier}/files", name="list_files")
    async def files(identifier: str) -> Listing:
        """List the files of a session."""
        found = await sessions.use(find(identifier), lambda sandbox: sandbox.files())
        if len(found) > LISTED:
            raise Problem(REFUSED, f"the session has {len(found)} files, and {LISTED} are listed at most: list by code")
        return Listing(files={clean(name): size for name, size in found.items()})

    @app.get("/v1/sessions/{identifier}/changes", name="list_changes")
    async def changes(identifier: str) -> ChangeList:
        """List what code has added, changed and removed in /work and /output, compared to the files that were put."""
        found = await sessions.use(find(identifier), lambda sandbox: sandbox.changes())
        if len(found) > LISTED:
            raise Problem(REFUSED, f"the session has {len(found)} changes, and {LISTED} are listed at most")
        infos = [ChangeInfo(path=clean(one.path), kind=one.kind, type=one.type, size=one.size) for one in found]
        return ChangeList(changes=infos)

    @app.put(
        "/v1/sessions/{identifier}/files/{path:file}",
        name="put_file",
        openapi_extra=CONTENT_BODY,
        **NO_CONTENT,
    )
    async def put(identifier: str, path: str, request: Request) -> None:
        """Write a file, by its path relative to /work, or its absolute one; the body is its content."""
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            # It would become the file, with the boundaries of its parts.
            raise Problem(REQUEST, "the body is a form: send the content alone, as curl --upload-file does")
        with meant():
            files = checked_files({path: await request.body()})
        await sessions.use(find(identifier), lambda sandbox: sandbox.put(files))

    @app.get("/v1/sessions/{identifier}/files/{path:file}", response_class=Response, name="get_file", responses=CONTENT)
    async def get(identifier: str, path: str) -> Response:
        """Read a file, by its path relative to /work, or its absolute one: /v1/sessions/ID/files//output/x."""
        content = await of_file(find(identifier), lambda sandbox: sandbox.get(path))
        # A browser must not show it as a page, even if it is one.
        headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @app.delete("/v1/sessions/{identifier}/files/{path:file}", name="delete_file", **NO_CONTENT)
    async def delete(identifier: str, path: str) -> None:
        """Remove a file of /work, /output or /tmp."""
        await of_file(find(identifier), lambda sandbox: sandbox.remove(path))


def _add_operation(app: FastAPI, probe: Probe, meters: Meters) -> None:
    @app.get("/healthz", name="healthz")
    @app.get("/health")
    async def health() -> Health:
        """Say that the server is there; without a token, too."""
        return Health()

    @app.get("/readyz", name="readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Run a sandbox, and say whether the server can do its work; without a token, reasons are left out."""
        found = await probe.ask()
        response.status_code = 200 if found.ready else 503
        return found if is_known.get() else probe.for_stranger(found)

    @app.get("/metrics", name="metrics", response_class=Response, responses=METRICS)
    async def metrics() -> Response:
        """Return numbers for Prometheus."""
        if not meters:
            raise Problem(NO_METRICS, "the package prometheus-client is not installed")
        text, kind = meters.text()
        return Response(text, media_type=kind)


def make_api(works: State) -> FastAPI:
    """Return the application; an Admission belongs before it."""
    from pysbx.service.http.agent_sandbox import add_agent_sandbox  # noqa: PLC0415 (it uses this module)
    from pysbx.service.http.commands import add_commands  # noqa: PLC0415 (the same)
    from pysbx.service.http.dify import add_dify  # noqa: PLC0415 (beside those)
    from pysbx.service.http.librechat import add_librechat  # noqa: PLC0415 (beside those)
    from pysbx.service.http.terminals import add_terminals  # noqa: PLC0415 (beside that)
    from pysbx.service.http.workspace import add_workspace  # noqa: PLC0415 (beside that)

    offer, jobs, sessions = works.offer, works.jobs, works.sessions

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.ensure_future(sessions.watch())
        yield
        watch.cancel()

    # FastAPI's pages of documentation load programs from elsewhere. Its spans have the identifiers of sessions, and
    # do not belong to the span of the request. Its redirections know neither a mount nor a proxy with TLS.
    app = Described(
        title="pysbx",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False},
        lifespan=life,
        responses=PROBLEM,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(Idempotent, respond=_answer)
    app.most = offer.limits()
    found = works.preparation.found
    assert found is not None, "the sandbox is prepared"
    choice = choice_of(offer, found)

    @app.get("/v1/profiles")
    async def profiles() -> Choice:
        """Say what there is to choose from."""
        return choice

    _add_problems(app)
    _add_operation(app, works.probe, works.meters)
    book = Book()
    add_tool_results(app, book)
    _add_runs(app, offer, jobs, book)
    add_plain(app, offer, jobs, execute=not works.agent_sandbox)
    if works.agent_sandbox:
        add_agent_sandbox(app, offer, sessions)
    if "dify" in works.compatible:
        add_dify(app, offer, jobs)
    if "librechat" in works.compatible:
        add_librechat(app, offer, jobs)
    add_pages(app, agent_sandbox=works.agent_sandbox)
    _add_sessions(app, offer, jobs, sessions, book)
    add_commands(app, jobs, sessions, lambda identifier: sessions.find(caller.get(), identifier))
    add_workspace(app, jobs, sessions, lambda identifier: sessions.find(caller.get(), identifier))
    add_checkpoints(app, sessions, lambda identifier: sessions.find(caller.get(), identifier))
    add_terminals(app, sessions, lambda identifier: sessions.find(caller.get(), identifier))
    return app
