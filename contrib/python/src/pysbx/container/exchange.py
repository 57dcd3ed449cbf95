"""A request and its answer: from what the sandbox says, or from its end without an answer, to an exception."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pysbx.errors import (
    ForgedAnswerError,
    SandboxError,
    SandboxExecutionError,
    SandboxMemoryError,
    SandboxStartupError,
    SandboxTimeoutError,
    SerializationError,
    Violation,
)
from pysbx.inside.wire import GAVE_UP
from pysbx.options.options import Options

if TYPE_CHECKING:
    from pysbx.container.bundle import Bundle
    from pysbx.container.container import Container, Message
    from pysbx.container.process import Ended

INTERRUPTED, KILLED = 128 + 2, 128 + 9
UNKNOWN = 1  # the exit code of a process whose own code is not known.
# The kernel sends SIGKILL at the hard limit of CPU time. See setrlimit(2).
KILLS = "it has killed itself, or reached a limit that it has set (RLIMIT_CPU), or the host is out of memory"
UNREPORTED = "the end of the process is not known: its runtime was killed"
MAX_TEXT = 64 * 1024
MAX_NAMES, MAX_NAME, MAX_CAUSES = 2000, 200, 10
NO_INPUT = "a function has no standard input: pass the text as an argument"
MALFORMED = "the sandbox gave a malformed answer"
NOT_BEGUN = "its interpreter has not started within two minutes: the machine is too busy, or an import does not end"


def text(message: Message, key: str) -> str:
    """Return a string of an answer, cut to a length that can be searched, or "" if the value is not a string."""
    value = message.get(key)
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def names_of(described: Message) -> list[str]:
    """Return the names that were in scope, according to a described error: as many as can be compared quickly."""
    names = described.get("names")
    found = names[:MAX_NAMES] if isinstance(names, list) else []
    return [name for name in found if isinstance(name, str) and len(name) <= MAX_NAME]


def violations_of(answer: Message) -> tuple[Violation, ...]:
    """Return what the static analysis has found, according to an answer."""
    found = answer.get("violations")
    items = found if isinstance(found, list) else []
    return tuple(
        Violation(str(item[1])[:MAX_NAME], item[2] if isinstance(item[2], int) else 0, str(item[3])[:MAX_NAME])
        for item in items[:1000]
        if isinstance(item, list) and len(item) == 4
    )


def hint_for(
    kind: str, message: str, names: Iterable[object] = (), options: Options | None = None, *, wrapped: bool = False
) -> str | None:
    """Return the remedy for an error, or None: see hints.hint. With options, none that they follow or refuse."""
    if options is not None and not options.hints:
        return None
    from pysbx.options import hints  # noqa: PLC0415 (most runs end without an error)

    contained = options is None or options.isolation == "container"
    found = hints.hint(kind, message, names, contained=contained, wrapped=wrapped)
    followed = found and options is not None and hints.is_followed(found, options)
    return hints.next_one(found) if found and followed else found


def hint_of(described: Message, options: Options | None) -> str | None:
    """Return the remedy for an error as the sandbox describes it, or for the nearest one that it came from, or None."""
    if described.get("no_hint") is True:
        return None
    causes = described.get("causes")
    chain = [described, *(causes[:MAX_CAUSES] if isinstance(causes, list) else ())]
    for one in chain:
        if isinstance(one, dict):
            known, wrapped = names_of(one), one is not described
            if found := hint_for(text(one, "type"), text(one, "message"), known, options, wrapped=wrapped):
                return found
    return None


def execution_error(described: object, options: Options) -> SandboxError:
    """Return the exception for an error as the sandbox describes it."""
    if not isinstance(described, dict):
        return ForgedAnswerError(MALFORMED)
    kind, message = text(described, "type"), text(described, "message")
    if described.get("memory") is True:
        said = f" ({message})" if message else ""
        return SandboxMemoryError(f"out of memory: {options.memory_mb} MiB allowed{said}", options.memory_mb)
    found = hint_of(described, options)
    if kind == "EOFError" and found:  # a decorated function has no option for its standard input
        found = NO_INPUT
    return SandboxExecutionError(kind or "Exception", message, text(described, "traceback"), found)


def timeout_error(timeout_sec: float, end: str = "killed") -> SandboxTimeoutError:
    """Return the exception for a deadline that has passed."""
    return SandboxTimeoutError(f"not done after {timeout_sec:g} seconds: {end}", timeout_sec)


def crash(ended: Ended, cpu_sec: float = 0.0) -> str:
    """Return the name of the signal that has ended a process, and what is known of its cause; "" for an exit code.

    Args:
        ended: the end, as the kernel has reported it.
        cpu_sec: the CPU time that was used, in seconds.
    """
    if not ended.signal:
        return UNREPORTED if ended.code < 0 else ""
    import signal  # noqa: PLC0415 (for an error only)

    name = f"{signal.Signals(ended.signal).name}, {signal.strsignal(ended.signal)}"
    if ended.signal == signal.SIGKILL:
        return f"{name} after {cpu_sec:.1f} seconds of CPU time: {KILLS}"
    return name


def _reason_given(ended: Ended, said: str) -> str:
    """Return why the worker in the sandbox has ended, if it said so at its end; otherwise ""."""
    import signal  # noqa: PLC0415 (for an error only)

    lines = said.splitlines()
    if ended.signal != signal.SIGABRT or not lines or not lines[-1].startswith(GAVE_UP):
        return ""
    return lines[-1].removeprefix("pysbx: ")


def ended_error(ended: Ended, container: Container, bundle: Bundle) -> SandboxError:
    """Return the exception for a container that ended without an answer."""
    from pysbx.container import limits  # noqa: PLC0415 (it is imported: a bundle has them)

    options, by = bundle.options, bundle.enforcement.by
    # The limit counts in ticks, the usage is exact. On a busy machine the two may differ much.
    spent = container.usage.cpu_sec >= limits.cpu_seconds(options) / 2 and not options.session
    if ended.code == KILLED and by["cpu"] == "rlimit" and spent:
        said = f"{limits.cpu_seconds(options)} seconds of CPU time are spent: killed"
        return SandboxTimeoutError(said, options.timeout_sec)
    # The worker ends with that code itself if memory is too small for its answer, and without a status of the kernel's
    # nothing else is known.
    if ended.code == KILLED and (ended.oom_kills or not ended.signal):
        return SandboxMemoryError(f"OOM-killed: {options.memory_mb} MiB allowed", options.memory_mb)
    # The caller of a function finds the last output in the exception; the caller of a program takes it from the
    # container.
    said = container.streams.outputs[2].text()
    name = _reason_given(ended, said) or crash(ended, container.usage.cpu_sec)
    why = f"the process ended with code {ended.code} before it answered{name and f': {name}'}"
    # The code is negative if a signal has ended the runtime itself, or if another part of the program took the status.
    code = ended.code if ended.code >= 0 else UNKNOWN
    return SandboxExecutionError("ProcessExit", why, said, hint_for("Crash", name, (), options), code, crash=name)


def exchange(
    container: Container,
    bundle: Bundle,
    request: Message,
    *,
    last: bool,
    timeout_sec: float | None = None,
    patience: float | None = None,
    passed: int = -1,
) -> Message:
    """Send a request and return the answer, or raise the exception that describes why there is none."""
    from pysbx.container.process import Deadline, Ended, NoAnswer, TooLarge  # noqa: PLC0415 (for the first call)

    seconds = bundle.options.timeout_sec if timeout_sec is None else timeout_sec
    try:
        return container.exchange(request, seconds, last=last, patience=patience, passed=passed)
    except Deadline:
        if container.version is None:
            raise SandboxStartupError(NOT_BEGUN) from None
        raise timeout_error(seconds) from None
    except NoAnswer as other:
        raise ForgedAnswerError(f"the sandbox sent {other}") from None
    except TooLarge as large:
        raise SerializationError(f"the answer {large}") from None
    except Ended as ended:
        if container.interrupted and ended.code == INTERRUPTED:
            raise timeout_error(seconds, "interrupted, which has ended its process") from None
        raise ended_error(ended, container, bundle) from None
