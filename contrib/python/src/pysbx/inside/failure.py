"""Describes an exception of the user's code: without our own frames, and with the names that were in scope."""

from __future__ import annotations

import builtins
import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

OURS = __file__.rpartition("/")[0] + "/"
MAX_TEXT, MAX_MARK = 64 * 1024, 64
MAX_NAMES, MAX_NAME = 2000, 200
MAX_LINE = 50
# The functions of subprocess and os that raise the error of a program that is not there.
STARTERS = ("_execute_child", "_posix_spawn", "_execvpe")
# Pools of processes pass only the text of a worker's traceback on, which ends with its error.
REMOTE_ERROR = re.compile(r"^(?:\w+\.)*(\w+): (.*)$", re.MULTILINE)
MAX_CAUSES, MAX_CAUSE = 10, 4000
# Python 3.12 itself prints so many of the last frames. Each costs 30 microseconds, and recursion may have a million.
MAX_FRAMES = 1000


def cut(text: str) -> str:
    """Return a text as an answer may have it: of a longer one the beginning and the end, with a mark between them."""
    if len(text) <= MAX_TEXT:
        return text
    half = (MAX_TEXT - MAX_MARK) // 2
    return f"{text[:half]}\n[truncated: {len(text) - 2 * half} characters left out]\n{text[-half:]}"


def users_part(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our own frames at its beginning."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def without_our_frames(error: BaseException) -> BaseException:
    """Return an exception whose traceback begins with the user's code, as hooks and functions of atexit expect it."""
    own_traceback: Any = BaseException.__dict__["__traceback__"]  # a class of the user's may have another one
    own_traceback.__set__(error, users_part(own_traceback.__get__(error)))
    return error


def _is_of_tool(tb: TracebackType | None) -> bool:
    """Tell whether a function of the host has raised an exception: see tools._open_answer()."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    code = tb and tb.tb_frame.f_code
    return bool(code and (code.co_filename, code.co_name) == (f"{OURS}tools.py", "_open_answer"))


def is_of_program(error: BaseException, tb: TracebackType | None) -> bool:
    """Tell whether the file that an exception names is a program that could not be started."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return isinstance(error, FileNotFoundError) and bool(tb and tb.tb_frame.f_code.co_name in STARTERS)


def chain(error: BaseException) -> Iterator[tuple[str, str, BaseException]]:
    """Yield type and message of an error, and of the nearest ones that it came from or that are in its group.

    It ends before one of a function of the host, or of a program that is missing: hints are about the sandbox.
    """
    groups: Any = getattr(builtins, "BaseExceptionGroup", ())  # it is new in Python 3.11
    waiting: list[BaseException | None] = [error]
    for _ in range(MAX_CAUSES):
        one = waiting.pop(0) if waiting else None
        if one is None or is_of_program(one, one.__traceback__) or _is_of_tool(one.__traceback__):
            return
        kind, text = type(one).__name__, str(one)
        found = [*REMOTE_ERROR.findall(text)][-1:] if kind.endswith("RemoteTraceback") else [(kind, text)]
        yield from ((*pair, one) for pair in found)
        cause = one.__cause__ if one.__cause__ is not None or one.__suppress_context__ else one.__context__
        waiting += [*(one.exceptions if isinstance(one, groups) else ()), *([cause] if cause else ())]


def _causes(error: BaseException) -> list[dict[str, Any]]:
    """Return type, message and names of the errors that one came from, the nearest first."""
    return [
        {"type": kind, "message": text[:MAX_CAUSE], "names": _known(one, users_part(one.__traceback__))}
        for kind, text, one in chain(error)
        if one is not error
    ]


def _known(error: BaseException, tb: TracebackType | None) -> list[str]:
    try:
        found = {name for name in _names(error, tb) if isinstance(name, str) and len(name) <= MAX_NAME}
        return sorted(found)[:MAX_NAMES]
    except BaseException:  # a __dir__ of the user's, or there is no such directory
        return []


def _names(error: BaseException, tb: TracebackType | None) -> list[str]:
    """Return the names that the missing name of an error may mean, the line of a SyntaxError, or places of a module."""
    if isinstance(error, SyntaxError):
        return [error.text[:MAX_LINE]] if type(error.text) is str else []
    if isinstance(error, FileNotFoundError):
        return os.listdir(os.path.dirname(error.filename) or ".") if type(error.filename) is str else []
    if isinstance(error, ModuleNotFoundError):
        return _places(error.name) if type(error.name) is str else []
    while tb is not None and tb.tb_next is not None and not isinstance(error, KeyError):
        tb = tb.tb_next
    if isinstance(error, NameError) and tb is not None:
        frame = tb.tb_frame
        return [*frame.f_locals, *frame.f_globals, *vars(builtins)]
    if isinstance(error, AttributeError) and getattr(error, "obj", None) is not None:
        return dir(error.obj)
    return _keys(tb) if isinstance(error, KeyError) else []


def _keys(tb: TracebackType | None) -> list[str]:
    """Return the keys of the dicts, and the columns of the tables, that the functions of a traceback see.

    Of other objects no method is called: it could ask a server, load a library or wait.
    """
    found: set[Any] = set()
    pandas: Any = sys.modules.get("pandas")
    kinds = (dict, *(getattr(pandas, name) for name in ("DataFrame", "Series") if hasattr(pandas, name)))
    scope = dict(tb.tb_frame.f_globals) if tb is not None else {}
    while tb is not None and len(found) < MAX_NAMES:
        for name, value in [*scope.items(), *tb.tb_frame.f_locals.items()]:
            if name != "__builtins__" and issubclass(type(value), kinds):
                found.update(itertools.islice(value.keys(), MAX_NAMES))
        scope, tb = {}, tb.tb_next
    return [*found]


def _places(module: str) -> list[str]:
    """Return the directories that have a module, at most two levels below the working directory."""
    found = []
    for folder, inner, files in os.walk("."):
        if f"{module}.py" in files or os.path.isfile(f"{folder}/{module}/__init__.py"):
            found.append(folder[2:])
        if folder.count("/") == 2:
            inner.clear()
    return [folder for folder in found if folder]


def _line(error: BaseException, tb: TracebackType | None, source: str) -> int | None:
    """Return the innermost line of the user's source."""
    if isinstance(error, SyntaxError) and type(error.filename) is str and error.filename == source:
        return error.lineno if type(error.lineno) is int and abs(error.lineno) < 1 << 63 else None
    line = None
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == source:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _suggestion(error: BaseException) -> str:
    """Return what Python adds to an error about a name: "Did you mean". Before 3.12 only its own hook knows it."""
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.__excepthook__(type(error), error, None)
        said = sys.stderr.getvalue()
    finally:
        sys.stderr = before
    found = re.search(r"\. Did you mean: '[^']*'\?$", said.rstrip("\n"))
    return found[0] if found else ""


def _formatted(error: BaseException, tb: TracebackType | None) -> str:
    """Return a traceback as Python prints it."""
    limit = None if hasattr(sys, "tracebacklimit") else -MAX_FRAMES
    report = traceback.TracebackException(type(error), error, tb, limit=limit)
    part: Any = report
    one: Any = error
    while sys.version_info < (3, 12) and part is not None and one is not None:
        if isinstance(one, (NameError, AttributeError)) and isinstance(part._str, str):
            part._str += _suggestion(one)
        cause = part.__cause__ is not None
        part, one = (part.__cause__, one.__cause__) if cause else (part.__context__, one.__context__)
    return "".join(report.format())


def describe(error: BaseException, source: str = "") -> dict[str, Any]:
    """Return an exception as a message: type, message, traceback, line, names, causes, whether memory ran out, no_hint.

    The last is true if a function of the host has raised it, or a program is missing: the host's hints are about files
    and modules of the sandbox.
    """
    try:
        message = str(error)
    except BaseException as second:  # a __str__ of the user's
        message = f"<{type(second).__name__} in __str__>"
    tb = users_part(error.__traceback__)
    try:
        text = _formatted(error, tb)
    except BaseException as second:
        text = f"{type(error).__name__}: <the traceback cannot be printed: {type(second).__name__}>\n"
    of_tool = _is_of_tool(tb)
    try:
        causes = _causes(error)
    except BaseException:  # a __str__ of the user's
        causes = []
    # Frames of ours that are left are those of chained exceptions.
    text = re.sub(rf'  File "{re.escape(OURS)}.*\n(?:    .*\n)*', "", text)
    return {
        "type": type(error).__qualname__,
        "message": message[:MAX_TEXT],
        "traceback": cut(text),
        "line": _line(error, tb, source),
        "names": [] if of_tool else _known(error, tb),
        "causes": causes,
        "memory": isinstance(error, MemoryError) and not of_tool,
        "no_hint": of_tool or is_of_program(error, tb),
    }
