"""run_code: source text in a fresh sandbox, and a full report of how it went."""

from __future__ import annotations

import errno
import os
import posixpath
import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pysbx.base import log
from pysbx.base.option_names import current
from pysbx.calls.tools import Tools, as_tools
from pysbx.container.exchange import exchange, hint_for, hint_of, text, violations_of
from pysbx.container.streams import output_callback
from pysbx.errors import (
    FILE_ERRORS,
    NO_ROOM,
    ForgedAnswerError,
    SandboxError,
    SandboxExecutionError,
    SandboxFileError,
    SandboxFileTooLargeError,
    SandboxInvalidPathError,
    SandboxMemoryError,
    SandboxTimeoutError,
    SerializationError,
    Violation,
)
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import Options, make_options

if TYPE_CHECKING:
    from pysbx.container.bundle import Bundle
    from pysbx.container.container import Container, Message, Usage
    from pysbx.container.process import Cancelled

NAME = "<sandbox>"
WORK = "/work"
MAIN = "__main__"
# Where the files of a caller may be.
PLACES = ("/work/", "/output/", "/tmp/")
TIMED_OUT = 124  # the exit code of timeout(1)
KILLED = 137
MAX_NAME = 4096
# Characters of a traceback that are looked for in the output: it may be cut.
MAX_SAID = 200
MAX_BUNDLES = 1000
MAX_NAMED = 10
MIME_TYPE = r"[\w.+-]{1,64}/[\w.+-]{1,128}"
# A request is held in memory by both sides.
MAX_FILES = 256 * 1024 * 1024

# Names of an exception that ends a run, and how the run went.
CANCELLED = "cancelled"
ENDINGS = {
    "Timeout": "timeout",
    "MemoryError": "memory",
    "PolicyViolation": "violation",
    "Crash": "crash",
    "Cancelled": CANCELLED,
}
OK, EXCEPTION, EXIT = "ok", "exception", "exit"

# With any type of name, a literal may have contents of both types: a union of two mappings has no common one.
Files = Mapping[Any, bytes | str]


@dataclass(frozen=True)
class ExecutionError:
    """The exception with which code ended.

    Attributes:
        type: name of its class.
        message: its text.
        line: line of the source where it happened, or None.
        traceback: as Python prints it.
        hint: what to try, or None.
        shown: whether the program has a sys.excepthook of its own, which has shown it or has chosen not to.
    """

    type: str
    message: str
    line: int | None = None
    traceback: str = ""
    hint: str | None = None
    shown: bool = False


def _no_usage() -> Usage:
    from pysbx.container.container import Usage  # noqa: PLC0415 (of an Execution that no sandbox has made)

    return Usage()


@dataclass(frozen=True)
class Execution:
    """How code went.

    Attributes:
        stdout: the text that it wrote to standard output, up to output_limit, with a mark where it was cut.
        stderr: the same; the traceback of an exception that ended it is there, as Python prints it.
        exit_code: that of `python3`: 0; 1 after an exception, but 130 after KeyboardInterrupt; the code of sys.exit();
            120 if output could not be written. 124 after a timeout; 137 if it was killed.
        value: repr of the last expression, or None if the code ends with a statement or with None.
        error: the exception that ended it, or None.
        timed_out: whether a limit of time has ended it.
        truncated: whether output was cut, or a file was left out of the artifacts.
        artifacts: content of the files it wrote to /output, by relative path, however it ended; and of those in /work
            that the option collect means. In a session, the files that are new or changed.
        displays: the objects that it has displayed, in order, and its value: text by MIME type. JSON is serialised, and
            binary data is base64. An object is here if it has another form than plain text, or by display().
        left_out: paths of files that are too large together for answer_limit, or that cannot be read.
        uncollected: names of files that it wrote to /work, which are not among the artifacts. In a session they stay.
        usage: time and memory; in a session, the time of this run alone.
        limits: "cgroup" or "rlimit" for memory, cpu and pids: how they were enforced.
        violations: what the static analysis observed.
        warm: whether a prewarmed interpreter ran it, as the sandbox itself reports.
        isolation: "container", or "process" if the caller has chosen to have none.
        exited: whether it asked for its end, by sys.exit() or exit(); a session goes on all the same.
        cold_reason: why no prewarmed interpreter ran it, in words; None if one did.
        cold_code: the same as a code of the runtime.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    value: str | None = None
    error: ExecutionError | None = None
    timed_out: bool = False
    truncated: bool = False
    artifacts: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    usage: Usage = field(default_factory=_no_usage)
    limits: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    warm: bool = False
    isolation: str = "container"
    exited: bool = False
    left_out: tuple[str, ...] = ()
    displays: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    uncollected: tuple[str, ...] = ()
    cold_reason: str | None = None
    cold_code: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has, with the content of the artifacts in base64, as the HTTP service does."""
        found = asdict(replace(self, artifacts={}))
        found["artifacts"] = [
            {"name": name, "size": len(data), "base64": b2a_base64(data, newline=False).decode()}
            for name, data in self.artifacts.items()
        ]
        return found

    def to_json(self, indent: int | None = None) -> str:
        """Return it as a JSON object; see to_dict."""
        import json  # noqa: PLC0415 (few callers want it)

        return json.dumps(self.to_dict(), indent=indent)

    def to_text(self) -> str:
        """Return it as a model reads it best: output and value, then what went wrong and what to try, then files."""
        parts = [self.stdout, self.stderr and f"[stderr]\n{self.stderr}", self.value or ""]
        if self.error is not None:
            said = unsaid(self)
            if self.timed_out and not said:  # the traceback is that of the interrupt
                said = f"{self.error.type}: {self.error.message}"
            parts += [said, advice(self)]
        elif self.exit_code:
            parts.append(f"[exit code {self.exit_code}]")
        if self.left_out:
            named = ", ".join(self.left_out[:MAX_NAMED])
            more = "" if len(self.left_out) <= MAX_NAMED else f" and {len(self.left_out) - MAX_NAMED} more"
            parts.append(f"[files were left out, write smaller ones: {named}{more}]")
        elif self.truncated:
            parts.append("[output was left out: print less]")
        if self.uncollected:
            parts.append(f"[not returned, write to /output: {', '.join(self.uncollected[:MAX_NAMED])}]")
        if self.artifacts:
            named = ", ".join(f"{name} ({len(data)} bytes)" for name, data in self.artifacts.items())
            parts.append(f"[files: {named}]")
        if not any(parts) and self.displays:  # those with a plain text have printed it
            parts.append(f"[displayed: {', '.join(sorted({kind for one in self.displays for kind in one}))}]")
        return "\n".join(part.rstrip("\n") for part in parts if part) or "[no output]"


def outcome_of(done: Execution) -> str:
    """Return in a word how a run went: one of ENDINGS, ok, exception, or exit for a code other than 0."""
    if done.timed_out:
        return ENDINGS["Timeout"]
    if done.error is not None:
        return ENDINGS.get(done.error.type, EXCEPTION)
    return EXIT if done.exit_code else OK


def _log(done: Execution) -> None:
    """Log how a run went: at level INFO if a limit, the analysis or a signal has ended it, otherwise DEBUG."""
    outcome = outcome_of(done)
    usual = outcome in (OK, EXIT, EXCEPTION)
    reason = "" if usual or done.error is None else f": {done.error.message}"
    start = f"cold ({done.cold_reason})" if done.cold_reason else "warm" if done.warm else "cold"
    about = (start, done.usage.wall_sec, done.usage.cpu_sec)
    text = "run ended: %s, exit code %d, %s, %.3f s, %.3f s of CPU%s"
    log.write(log.RUN, log.DEBUG if usual else log.INFO, text, outcome, done.exit_code, *about, reason)


def unsaid(done: Execution) -> str:
    """Return the error of a run as text, or "" if it is on its standard error, where Python prints it."""
    if done.error is None or done.error.shown:
        return ""
    last = f"{done.error.type}: {done.error.message}\n"
    said = done.error.traceback or last
    if not done.error.traceback or said[-MAX_SAID:] not in done.stderr:
        return said
    # The traceback of a session's timeout ends in KeyboardInterrupt.
    return last if done.timed_out else ""


def advice(done: Execution) -> str:
    """Return the hint of a run as a line for a model, or ""."""
    return f"Hint: {done.error.hint}\n" if done.error is not None and done.error.hint else ""


def as_text(value: object, what: str) -> str:
    """Return a string as it is, and a path as a string.

    Raises:
        TypeError: it is neither.
    """
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str):
        raise TypeError(f"{what}: {value!r} is neither a string nor a path")
    return found


def as_texts(values: object, what: str) -> list[str]:
    """Return several strings; paths become strings.

    Raises:
        TypeError: they are not several, or one is neither.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{what}: {values!r} is not a list of strings")
    return [as_text(value, what) for value in values]


def _content_of(value: object) -> str:
    """Return the remedy, if a path or an open file was given in place of its content."""
    if isinstance(value, os.PathLike):
        return ": pass its content, such as path.read_bytes()"
    return ": pass its content, such as file.read()" if hasattr(value, "read") else ""


def as_bytes(value: object, what: str) -> bytes:
    """Return the content of a file, which may be a string, as bytes.

    Raises:
        TypeError: it is neither.
        ValueError: it is a string that UTF-8 cannot encode.
    """
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{what}: {type(value).__name__} is neither a string nor bytes{_content_of(value)}")
    return value.encode() if isinstance(value, str) else bytes(value)


class CheckedFiles(dict[str, bytes]):
    """Files to put into a sandbox, which checked_files has made; it does not check them again."""


def safe_name(name: object) -> str | None:
    """Return a relative path below a folder in normal form, or None if it is not one."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME or "\0" in name:
        return None
    from pathlib import PurePosixPath  # noqa: PLC0415 (few runs have files)

    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) == ".":
        return None
    return str(path)


def _place(name: str) -> str | None:
    """Return a path relative to /work, or an absolute one in /output or /tmp, in normal form; None for any other."""
    path = posixpath.normpath(name)
    if not posixpath.isabs(path):
        return safe_name(path)
    place = next((one for one in PLACES if path.startswith(one)), "")
    inner = safe_name(path.removeprefix(place)) if place else None
    return inner if inner is None or place == PLACES[0] else place + inner


def checked_files(files: Files) -> CheckedFiles:
    """Return files to put into a sandbox, as bytes, by path relative to /work, or absolute in /output or /tmp.

    An empty one whose name ends with a slash is a directory, as in a zip archive.

    Raises:
        SandboxInvalidPathError: a name leads elsewhere. It is a ValueError.
        ValueError: all of it is too large.
        TypeError: a name is no path, or a content neither a string nor bytes.
    """
    if isinstance(files, CheckedFiles):
        return files
    found = CheckedFiles()
    if not isinstance(files, Mapping):
        raise TypeError(f"files: {type(files).__name__} is not a mapping of names to contents")
    for given, content in files.items():
        name = as_text(given, "files")
        path = _place(name) if name else None
        if path is None:
            reason = "must be a relative path that stays in /work, or an absolute one in /work, /output or /tmp"
            raise SandboxInvalidPathError(f"file '{name!s:.{MAX_NAME}}': {reason}", str(name))
        held = as_bytes(content, f"file '{name}'")
        found[path if held or not name.endswith("/") else f"{path}/"] = held
    if sum(map(len, found.values())) > MAX_FILES:
        raise ValueError(f"files: more than {MAX_FILES} bytes: mount a directory instead")
    return found


def check_file(answer: Message, name: str) -> None:
    """Raise the error in the answer to a request for a file, if there is one."""
    said = answer.get("error")
    if not isinstance(said, dict):
        return
    number = said.get("errno")
    kind = FILE_ERRORS.get(number if isinstance(number, int) else 0, SandboxFileError)
    more = number if isinstance(number, int) and number in errno.errorcode else 0
    raise kind(f"file '{name}': {text(said, 'message')}", name, more)


def check_put(answer: Message, files: Mapping[str, bytes]) -> None:
    """Raise the error in the answer to a request "put", if there is one."""
    said = answer.get("error")
    if not isinstance(said, dict):
        return
    name, free, words = text(said, "path"), said.get("free"), current().options
    if "path" not in said:  # the request was not read
        name = next(iter(files)) if len(files) == 1 else ""
        whose = f"file '{name}'" if name else f"{len(files)} files"
        reason = f"{text(said, 'message')}: {words['memory']}"
        raise SandboxFileTooLargeError(f"{whose}: {reason}", name, errno.ENOMEM)
    if said.get("errno") in NO_ROOM and name in files and isinstance(free, int):
        size = len(files[name]) >> 10
        reason = f"{size} KiB, and {free >> 10} are free: {words['room']}"
        if said["errno"] == errno.EFBIG:
            reason = f"{size} KiB are too large for one file: {words['file_size']}"
        raise SandboxFileTooLargeError(f"file '{name}': {reason}", name, said["errno"])
    check_file(answer, name)


def checked_input(stdin: bytes | str) -> bytes:
    """Return what a program reads from standard input, as bytes.

    Raises:
        TypeError: it is neither text nor bytes.
        ValueError: it is too large.
    """
    content = as_bytes(stdin, "stdin")
    if len(content) > MAX_FILES:
        raise ValueError(f"stdin: more than {MAX_FILES} bytes: mount a file instead")
    return content


def run_request(
    source: str | bytes,
    options: Options,
    *,
    last: bool,
    argv: list[str],
    module: str = "",
    stdin: bytes | str = b"",
    file: str = "",
    prompt: bool = False,
) -> Message:
    """Return the request for source text, or for a module to be run as a program.

    Args:
        source: the text.
        options: the sandbox.
        last: whether the sandbox ends with it.
        argv: what it finds in sys.argv.
        module: a module to run instead.
        stdin: what it reads from standard input.
        file: where the text lies in the sandbox, if it does.
        prompt: whether it was typed at a prompt: its value gets the name `_`.

    Raises:
        TypeError: the source is no text, or the input neither text nor bytes.
        ValueError: the input is too large.
    """
    if not isinstance(source, (str, bytes)):
        raise TypeError(f"source: {type(source).__name__} is not the text of a program{_content_of(source)}")
    if isinstance(source, str):  # a file of Windows may begin with this mark, which Python skips in bytes
        source = source.removeprefix("\ufeff")
    analysis = {}
    if options.analysis:
        import json  # noqa: PLC0415 (few sandboxes have one)

        analysis = json.loads(options.analysis)
    return {
        "op": "run",
        "source": source,
        "analysis": analysis,
        "violations": options.violations,
        "name": file or NAME,
        "is_file": bool(file),
        "argv": argv,
        "stdin": checked_input(stdin),
        "module": module,
        "last": last,
        "notebook": options.notebook,
        "prompt": prompt,
        "display_limit": options.answer_limit // 4,  # of characters, most of which have one byte
    }


def _error(answer: Message, options: Options | None) -> ExecutionError | None:
    described = answer.get("error")
    if not isinstance(described, dict):
        return None
    line = described.get("line")
    kind, message = text(described, "type"), text(described, "message")
    return ExecutionError(
        kind,
        message,
        line if isinstance(line, int) else None,
        text(described, "traceback"),
        hint_of(described, options),
        answer.get("shown") is True,
    )


def _displays(answer: Message) -> tuple[Mapping[str, str], ...]:
    """Return the objects that code has displayed; leave out what is no bundle."""
    found = answer.get("displays")
    items = found[:MAX_BUNDLES] if isinstance(found, list) else []
    bundles = (_forms(item) for item in items if isinstance(item, dict))
    return tuple(filter(None, bundles))


def _forms(bundle: dict[Any, Any]) -> dict[str, str]:
    """Return the parts of a bundle that have the form of one."""
    texts = ((kind, data) for kind, data in bundle.items() if isinstance(kind, str) and isinstance(data, str))
    return {kind: data for kind, data in texts if re.fullmatch(MIME_TYPE, kind)}


def answered(answer: Message, options: Options | None = None) -> dict[str, Any]:
    """Return the fields of an Execution in the sandbox's answer; leave out values of a wrong type."""
    violations = violations_of(answer)
    if violations and "exit_code" not in answer:
        reasons = "; ".join(map(str, violations))
        error = ExecutionError("PolicyViolation", reasons, violations[0].line)
        return {"exit_code": 1, "error": error, "violations": violations}
    code, value = answer.get("exit_code"), answer.get("value")
    return {
        "exit_code": code & 0xFF if isinstance(code, int) else 1,
        "exited": answer.get("exited") is True,
        "value": text(answer, "value") if isinstance(value, str) else None,
        "error": _error(answer, options),
        "violations": violations,
        "displays": _displays(answer),
        "truncated": bool(answer.get("displays_left_out")),
    }


def _ended_by(kind: str, error: SandboxError, options: Options) -> ExecutionError:
    return ExecutionError(kind, str(error), hint=hint_for(kind, str(error), (), options))


def unanswered(error: SandboxError, options: Options) -> dict[str, Any]:
    """Return the fields of an Execution that ended without an answer; raise an error that is not the code's."""
    if isinstance(error, SandboxTimeoutError):
        return {"exit_code": TIMED_OUT, "timed_out": True, "error": _ended_by("Timeout", error, options)}
    if isinstance(error, SandboxMemoryError):
        return {"exit_code": KILLED, "error": _ended_by("MemoryError", error, options)}
    if isinstance(error, (ForgedAnswerError, SerializationError)):  # the latter: it is too large
        return {"exit_code": KILLED, "error": _ended_by(type(error).__name__, error, options)}
    if isinstance(error, SandboxExecutionError) and error.exit_code is not None:
        crashed = ExecutionError("Crash", error.crash, hint=error.hint) if error.crash else None
        return {"exit_code": error.exit_code, "error": crashed}
    raise error


def _uncollected(
    container: Container, bundle: Bundle, patterns: Iterable[str], known: Iterable[str], files: dict[str, bytes]
) -> tuple[str, ...]:
    """Return the names of what a run has left in /work, apart from mounts, known files, their directories, copies."""
    if container.directories is None or WORK in [mount.target for mount in bundle.options.mounts]:
        return ()
    top = PLACES[0]
    paths = [*(name if name.startswith("/") else top + name for name in known), *bundle.targets]
    names = {path.removeprefix(top).partition("/")[0] for path in paths if path.startswith(top)}
    return container.directories.uncollected(tuple(patterns), names | {"__pycache__"}, files)


def execution(  # noqa: PLR0917 (each of another type)
    fields: dict[str, Any],
    container: Container,
    bundle: Bundle,
    usage: Usage,
    collect: Iterable[str],
    given: Iterable[str] | None = None,
) -> Execution:
    """Return the Execution for a run in a container; `given` are the files that the caller has put there."""
    files, left_out = container.collect(collect)
    known = None if given is None else [*given, *(files if collect else ())]
    stdout, stdout_cut = container.streams.take(1)
    stderr, stderr_cut = container.streams.take(2)
    done = Execution(
        stdout=stdout,
        stderr=stderr,
        truncated=bool(fields.pop("truncated", False)) or bool(left_out) or stdout_cut or stderr_cut,
        artifacts=files,
        left_out=left_out,
        uncollected=() if known is None else _uncollected(container, bundle, collect, known, files),
        usage=usage,
        **_start_of(container, bundle),
        **fields,
    )
    _log(done)
    return done


def _start_of(container: Container, bundle: Bundle) -> dict[str, Any]:
    """Return the fields of an Execution about how its sandbox was made."""
    cold = container.cold
    return {
        "limits": dict(bundle.enforcement.by),
        "warm": container.warm,
        "isolation": bundle.options.isolation,
        "cold_reason": cold and cold.reason,
        "cold_code": cold and cold.code,
    }


def note_cancelled(ended: Cancelled, container: Container, bundle: Bundle, usage: Usage) -> None:
    """Note how far a run had come that its caller has given up: its time counts all the same."""
    error = ExecutionError("Cancelled", "its caller has given it up")
    ended.done = Execution(exit_code=KILLED, error=error, usage=usage, **_start_of(container, bundle))
    _log(ended.done)


def run_code(
    source: str | bytes,
    *,
    files: Files | None = None,
    argv: Iterable[str | os.PathLike[str]] = (),
    stdin: bytes | str = b"",
    module: str = "",
    name: str = "-c",
    on_stdout: Callable[[str], None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
    **changes: Unpack[SandboxOptions],
) -> Execution:
    """Run source text as a program in a fresh sandbox.

    Args:
        source: the program.
        files: put into its working directory, /work, by relative path.
        argv: its arguments.
        stdin: what it reads from standard input.
        module: the name of a module to run instead, as `python -m` does.
        name: of the program. A relative one is that of a file in /work, which has the source unless it is in `files`:
            the program's __file__, its sys.argv[0], and its name in tracebacks. Any other is sys.argv[0] alone.
        on_stdout: called with text of standard output as it comes.
        on_stderr: called with text of standard error as it comes.
        tools: functions of this program that the code may call, by name: see Tools.
        changes: options of the sandbox by name, as of the decorator.

    Returns:
        How it went. An error or timeout of the code raises no exception here.

    Raises:
        SandboxError: the sandbox could not be made.
        SandboxOptionError: an option has a value that is not allowed.
        ValueError, TypeError: another argument is not allowed, or there is no such option.
    """
    return run_chosen(
        make_options(**changes),
        source,
        files=files,
        argv=argv,
        stdin=stdin,
        module=module,
        name=name,
        on_stdout=on_stdout,
        on_stderr=on_stderr,
        tools=tools,
    )


def run_chosen(
    chosen: Options,
    source: str | bytes,
    *,
    files: Files | None = None,
    argv: Iterable[str | os.PathLike[str]] = (),
    stdin: bytes | str = b"",
    module: str = "",
    name: str = "-c",
    on_stdout: Callable[[str], None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
    cancel: int = -1,
    begun: Callable[[Container], None] | None = None,
) -> Execution:
    """Run source text as a program in a sandbox whose options are checked already: see run_code.

    The module MAIN is that of the directory or zip archive of this name among the files. `begun` is called with the
    container, which can be interrupted from then on.
    """
    from pysbx.calls.prepare import prepare  # noqa: PLC0415 (for the first call)
    from pysbx.container import ready  # noqa: PLC0415 (for the first call)
    from pysbx.container.process import Cancelled  # noqa: PLC0415 (for the first call)

    module, name = as_text(module, "module"), as_text(name, "name")
    named = checked_files(files if files is not None else {})
    if not module and not name.startswith("-") and safe_name(name) == name and name not in named:
        named = CheckedFiles(named | {name: as_bytes(source, "source")})
    file = f"{WORK}/{name}" if module == MAIN or (name in named and not module) else ""
    arguments = [file or module or name, *as_texts(argv, "argv")]
    request = run_request(source, chosen, last=True, argv=arguments, module=module, stdin=stdin, file=file)
    host = None
    if (listed := as_tools(tools)) is not None:
        from pysbx.calls.tool_calls import ToolHost  # noqa: PLC0415 (few runs have some)

        host = ToolHost(listed)
        chosen = replace(chosen, tools=True)
    bundle = prepare(chosen)
    with ExitStack() as held, ready.take(bundle, output_callback(on_stdout, on_stderr), cancel) as container:
        try:
            if begun is not None:
                begun(container)
            if named:
                check_put(exchange(container, bundle, {"op": "put", "files": named}, last=False), named)
                container.note(chosen.collect)
            about, way = ({}, -1) if host is None else held.enter_context(host.connect(container))
            fields = answered(exchange(container, bundle, request | about, last=True, passed=way), chosen)
        except SandboxError as error:
            container.kill()
            fields = unanswered(error, chosen)
        except Cancelled as ended:
            note_cancelled(ended, container, bundle, container.usage)
            raise
        return execution(fields, container, bundle, container.usage, chosen.collect, named)
