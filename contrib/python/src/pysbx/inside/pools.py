"""Lets the code use pools of processes: they have the size of the sandbox, and a child finds what __main__ has.

Interpreters before 3.13, or with -I, do not read the variable with the number of CPUs.

Since Python 3.14 the server of `forkserver` starts children. They execute the file of __main__ to find its functions.
Without a file they fail, and multiprocessing.Pool waits for ever. So the default is `fork`, as before 3.14.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def count_cpus() -> None:
    """Let functions of os return the number that a variable has, as Python 3.13 does."""
    count = os.environ.get("PYTHON_CPU_COUNT", "")
    known = sys.version_info >= (3, 13) and not sys.flags.ignore_environment
    if count.isdecimal() and not known:
        for name in {"cpu_count", "process_cpu_count"}.intersection(dir(os)):
            setattr(os, name, lambda: int(count))


def _fork_by_default(context: Any) -> None:
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) is None and getattr(main, "__spec__", None) is None:
        context._default_context._default_context = context._concrete_contexts["fork"]


PATCHES = {"multiprocessing.context": _fork_by_default}
