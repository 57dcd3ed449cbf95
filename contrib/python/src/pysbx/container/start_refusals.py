"""The caller's option that makes a start impossible, by what the runtime or the interpreter says.

Such a start is the caller's refusal. Without this, a limit that is too small would look like a fault of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pysbx.base.option_names import current
from pysbx.container import limits
from pysbx.errors import SandboxOptionError
from pysbx.options.declaration import wrong
from pysbx.options.options import Options

Reason = Callable[[Options, "re.Match[str]"], str]


def _allow_more(option: str) -> str:
    return f" ({current().options[option]})"


def _memory_of_snapshot(options: Options, found: re.Match[str]) -> str:
    least = limits.least_memory_mb(address_space=int(found[1]), data=int(found[2]))
    return f"{options.memory_mb} is less than the snapshot needs, {least}" + _allow_more("memory")


def _memory(options: Options, _: object = None) -> str:
    return f"{options.memory_mb} is too little for the start of the interpreter" + _allow_more("memory")


def _directory(options: Options, found: re.Match[str]) -> str:
    return f"'{options.workdir}': {found[1]}"


def _module(_: Options, found: re.Match[str]) -> str:
    return f"'{found[1]}' cannot be imported: {found[2]}"


def _processes(options: Options, _: object) -> str:
    return f"{options.max_processes} is too few for the threads that the imports start" + _allow_more("processes")


# The text says so again, without another attempt, until retryAfter of warm.json is over.
REQUIRED = r"=require: (?:the snapshot could not be made, [^:]*: )?"
# A pattern of the text, the option, and the function that returns what is wrong with its value.
CAUSES: tuple[tuple[str, str, Reason], ...] = (
    (
        r"RLIMIT_\w+ is smaller than the snapshot, which needs (\d+) bytes of address space and (\d+) of data",
        "memory_mb",
        _memory_of_snapshot,
    ),
    (rf"\bMemoryError\b|{REQUIRED}import \S+: OSError: \[Errno 12\]", "memory_mb", _memory),
    (
        rf"{REQUIRED}(?:import \S+|the imports [^:]*): .*(?:can't start new thread|temporarily unavailable)",
        "max_processes",
        _processes,
    ),
    (rf"{REQUIRED}import (\S+): (ModuleNotFoundError: .*)", "preload", _module),
    (r"^chdir to `.*`: (.*)", "workdir", _directory),
)


def refusal_of(said: str, options: Options, *, oom_kills: int = 0) -> SandboxOptionError | None:
    """Return the refusal of an option because of which a container did not come to life, or None.

    Args:
        said: the text of the runtime or of the interpreter.
        options: the one that the container had.
        oom_kills: how many of its processes the kernel has OOM-killed.
    """
    for pattern, option, reason in CAUSES:
        found = re.search(pattern, said, re.MULTILINE)
        if found is not None:
            return wrong(option, reason(options, found))
    return wrong("memory_mb", _memory(options)) if oom_kills else None
