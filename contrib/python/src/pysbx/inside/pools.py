"""Lets the code use pools of processes: a child finds the functions of __main__, although that has no file.

Since Python 3.14 the server of `forkserver` starts children. They execute the file of __main__ to find its functions.
Without a file they fail, and multiprocessing.Pool waits for ever. So the default is `fork`, as before 3.14.
"""

from __future__ import annotations

import sys
from typing import Any


def _fork_by_default(context: Any) -> None:
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) is None and getattr(main, "__spec__", None) is None:
        context._default_context._default_context = context._concrete_contexts["fork"]


PATCHES = {"multiprocessing.context": _fork_by_default}
