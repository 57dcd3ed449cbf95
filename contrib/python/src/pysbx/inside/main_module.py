"""The module __main__ of the user's code, which ends before the process does, as Python ends it.

At the end of a program, Python lets go of all modules. Then archives that are still open are completed, and __del__
methods run. See Py_FinalizeEx() and finalize_modules() in CPython's Python/pylifecycle.c.
"""

from __future__ import annotations

import atexit
import builtins
import sys

# The functions themselves, because the program may replace them; see interrupts.py.
from _signal import SIG_DFL, getsignal, valid_signals  # type: ignore[import-not-found]
from _signal import signal as set_handler
from gc import collect, isenabled
from types import ModuleType
from typing import Any

from .failure import users_part
from .paths import moved

# Where modules of the user's own code are. Those of Python and of installed packages stay: they may be many, and the
# process ends soon.
OWN = tuple(map(moved, ("/work/", "/output/", "/tmp/", "/dev/shm/")))
# Python lets go of these first, in this order. They may refer to the user's code, whose names then live on.
STREAMS = ("stdin", "stdout", "stderr")
HOOKS = ("excepthook", "displayhook", "unraisablehook")
LAST = ("last_type", "last_value", "last_traceback", "last_exc")

# The module. Nothing else of ours keeps it or its names: they must end when it does.
_held: list[ModuleType] = []


def begin(fork: object) -> None:
    """Put an empty module __main__ in place.

    In a prewarmed interpreter, collections do not see the objects of the preloaded modules, and do not write to their
    pages. The last exit handler of such an interpreter shows them again, for an end that this process does not have.

    Args:
        fork: the function that a prewarmed interpreter has given to the worker, from the same module as that handler.
    """
    handler: Any = getattr(getattr(fork, "__self__", None), "leave", None)
    atexit.unregister(handler)
    module = ModuleType("__main__")
    vars(module).update({"__builtins__": builtins, "__loader__": vars(builtins)["__loader__"]})
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    sys.modules.pop("__main__", None)  # modules that come later stand behind it
    sys.modules["__main__"] = module
    _held[:] = [module]


def names() -> dict[str, Any]:
    """Return the names of the module."""
    return vars(_held[0])


def set_file(path: str) -> None:
    """Give the module the names that it has if Python runs a file."""
    from importlib.machinery import SourceFileLoader

    module = vars(_held[0])
    module |= {"__file__": path, "__loader__": SourceFileLoader("__main__", path)}
    if sys.version_info < (3, 15):
        module["__cached__"] = None


def keep(error: BaseException) -> None:
    """Keep an exception that ends the program until the module ends, with the names of its frames, as Python does."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, users_part(error.__traceback__)
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def _forget_references() -> None:
    """Let go of what the interpreter itself keeps of the user's code: handlers of signals, streams, an exception."""
    for number in valid_signals():
        if callable(getsignal(number)):
            set_handler(number, SIG_DFL)
    _put_back(sys, *STREAMS)
    for name in LAST:
        vars(sys).pop(name, None)


def _put_back(module: ModuleType, *names: str) -> None:
    for name in names:
        setattr(module, name, getattr(module, f"__{name}__", None))


def _forget_hooks() -> None:
    """Let go of the hooks, and collect what they have kept, when nothing can be printed any more."""
    for name in STREAMS:
        setattr(sys, name, None)
    _put_back(sys, *HOOKS)
    if "threading" in sys.modules:
        _put_back(sys.modules["threading"], "excepthook")
    collect()
    _put_back(sys, *STREAMS)


def _is_own(module: object) -> bool:
    file = getattr(module, "__file__", None) if type(module) is ModuleType else None
    return type(file) is str and file.startswith(OWN)


def _own_modules() -> list[str]:
    """Return the names of modules of the user's code, without a look at those that were there before."""
    found = []
    for name, module in reversed(sys.modules.items()):
        if name == "__main__":
            break
        if _is_own(module):
            found.append(name)
    return found


def end() -> None:
    """Let go of the module, and of the user's other modules. Further calls do nothing."""
    if not _held:
        return
    if isenabled():
        collect()
    _forget_references()
    for name in _own_modules():
        del sys.modules[name]
    if sys.modules.get("__main__") is _held.pop():
        del sys.modules["__main__"]
    collect()
    _forget_hooks()
