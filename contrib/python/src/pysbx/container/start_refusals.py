"""The caller's option that makes a start impossible, by the code of the runtime's error, or by Python's words.

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

Reason = Callable[[Options, str], str]


def _allow_more(option: str) -> str:
    return f" ({current().options[option]})"


def _memory_of_snapshot(options: Options, said: str) -> str:
    needs = dict(word.split("=") for word in said.split() if word.startswith("RLIMIT_") and "=" in word)
    least = limits.least_memory_mb(address_space=int(needs["RLIMIT_AS"]), data=int(needs["RLIMIT_DATA"]))
    return f"{options.memory_mb} is less than the snapshot needs, {least}" + _allow_more("memory")


def _memory(options: Options, _: str = "") -> str:
    return f"{options.memory_mb} is too little for the start of the interpreter" + _allow_more("memory")


def _as_said(_: Options, said: str) -> str:
    return said


def _processes(options: Options, _: str) -> str:
    return f"{options.max_processes} is too few for the threads that the imports start" + _allow_more("processes")


# The code of the runtime's error, the option, and the function that returns what is wrong with its value.
CAUSES: dict[str, tuple[str, Reason]] = {
    "limits-too-small": ("memory_mb", _memory_of_snapshot),
    "no-workdir": ("workdir", _as_said),
}
# The words of Python and of the C library for a limit that the interpreter has reached, in an import or at its start.
WORDS: tuple[tuple[str, str, Reason], ...] = (
    (r"\bMemoryError\b|\[Errno 12\]", "memory_mb", _memory),
    (r"can't start new thread|temporarily unavailable", "max_processes", _processes),
)
IMPORTS = "imports-refused"
NOT_FOUND = "ModuleNotFoundError: "


def refusal_of(code: str, said: str, options: Options, *, oom_kills: int = 0) -> SandboxOptionError | None:
    """Return the refusal of an option because of which a container did not come to life, or None.

    Args:
        code: of the runtime's error; "" if it had none, so that the interpreter has ended itself.
        said: the detail of the error, or what is on standard error.
        options: the one that the container had.
        oom_kills: how many of its processes the kernel has OOM-killed.
    """
    if code in CAUSES:
        option, reason = CAUSES[code]
        return wrong(option, reason(options, said))
    for pattern, option, reason in WORDS if code in ("", IMPORTS) else ():
        if re.search(pattern, said):
            return wrong(option, reason(options, said))
    if code == IMPORTS and NOT_FOUND in said:
        return wrong("preload", said)
    return wrong("memory_mb", _memory(options)) if oom_kills else None
