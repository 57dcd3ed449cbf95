"""Runs source text as `python` would run a script, in a __main__ that lasts as long as the sandbox."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import itertools
import linecache
import os
import re
import runpy
import sys
from contextlib import suppress
from types import CodeType
from typing import Any

from . import display, figures, main_module, own_files, patches, pools
from .child import only_here
from .ending import complain, end_program, exit_code, flush_files, show
from .failure import describe, without_our_frames
from .paths import moved
from .room import KeptBack
from .stdin import standard_input

PROMPT_PATCHES = pools.PATCHES | figures.PATCHES | display.PATCHES
# The flag of code that awaits something at its top level, and functions that need a running event loop.
AWAITS = 0x80  # inspect.CO_COROUTINE
OF_LOOPS = ("create_task", "ensure_future", "get_running_loop")
PATCHES = PROMPT_PATCHES | display.TABLES
_runs = itertools.count(1)
# The flag of code that leaves annotations as text, of a session that has imported this from __future__.
ANNOTATIONS = 0x100_0000  # __future__.annotations.compiler_flag
_kept_flags = 0
# The beginning of a source that names its encoding, in a comment of its first two lines or by a byte order mark.
DECLARED = re.compile(rb"\xef\xbb\xbf|(?:[ \t\f]*(?:#.*)?\r?\n)?[ \t\f]*#.*?coding[:=][ \t]*[-\w.]")


def has_own_directory() -> bool:
    """Tell whether the first entry of sys.path is the directory of the program: see PYTHONSAFEPATH and `python3 -I`."""
    return not sys.flags.isolated and not getattr(sys.flags, "safe_path", False)  # it is new in Python 3.11


def next_name(name: str) -> str:
    """Return a name for a run's source. Each run has one of its own, because functions of earlier runs keep theirs.

    Args:
        name: that of the first, such as "<sandbox>".
    """
    number = next(_runs)
    return name if number == 1 else f"{name.removesuffix('>')} {number}>"


def _evaluate(code: CodeType, scope: dict[str, Any], *, in_loop: bool) -> Any:
    """Execute a part of a program, in the event loop of the notebook if the program needs it."""
    if not in_loop:
        return eval(code, scope)
    from .notebook import run_awaiting

    return run_awaiting(code, scope)


def _begins_tasks(statements: list[ast.stmt]) -> bool:
    """Tell whether statements that are no definitions name a function that needs a running event loop."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    nodes = (node for one in statements if not isinstance(one, functions) for node in ast.walk(one))
    return any(getattr(node, "attr", getattr(node, "id", "")) in OF_LOOPS for node in nodes)


def _is_quiet(source: str | bytes, last: ast.Expr) -> bool:
    """Tell whether a semicolon follows the last expression of a notebook's cell: then its value is not shown."""
    if not isinstance(source, str) or last.end_lineno is None:
        return False
    lines = source.split("\n")[last.end_lineno - 1 : last.end_lineno]
    return any(line.encode()[last.end_col_offset :].lstrip().startswith(b";") for line in lines)


def _compiled(tree: Any, name: str, mode: str, flags: int) -> CodeType:
    """Compile a tree, as deeply as a text: up to 3.11 CPython counts a level of a text as a third of one."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3 * limit)
    try:
        code: CodeType = compile(tree, name, mode, flags, dont_inherit=True)
    finally:
        sys.setrecursionlimit(limit)
    return code


def _refuse_other_bytes(source: bytes, name: str) -> None:
    """Raise what `python3 FILE` raises, and compile() does not: comments too are in UTF-8, unless it says otherwise."""
    try:
        source.decode()
    except UnicodeDecodeError as error:
        if DECLARED.match(source):
            return
        line = source.count(b"\n", 0, error.start) + 1
        said = f"Non-UTF-8 code starting with '\\x{source[error.start]:02x}' in file {name} on line {line}"
        said += ", but no encoding declared; see https://peps.python.org/pep-0263/ for details"
        raise SyntaxError(said, (name, line, None, None)) from None


def _as_text(source: str | bytes) -> str:
    """Return source text that Python has compiled, for tracebacks. In comments it may have bytes of any encoding."""
    if isinstance(source, str):
        return source
    try:
        return importlib.util.decode_source(source)
    except (SyntaxError, UnicodeDecodeError):
        return source.decode(errors="replace")


def execute(
    source: str | bytes,
    name: str,
    scope: dict[str, Any],
    *,
    shown: str | bytes = "",
    notebook: bool = False,
    prompt: bool = False,
    has_value: bool = True,
) -> str | None:
    """Execute source text and return the repr of its last expression, if it ends with one that is not None.

    Args:
        source: the text; bytes have an encoding as in a file.
        name: its name in tracebacks.
        scope: the names.
        shown: the text for tracebacks, if that is another one.
        notebook: whether it may await at its top level, and a semicolon at its end hides the value.
        prompt: whether the value gets the name `_`, as at a prompt.
        has_value: whether there is a repr; of a program it could fail, print something or take long.
    """
    global _kept_flags  # noqa: PLW0603 (the state of a session)
    if isinstance(source, bytes):
        _refuse_other_bytes(source, name)
    # Not by ast.parse(), which would stand in the traceback of an error that the parser finds.
    tree: Any = compile(source, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    # A last line without an end would move the carets of a traceback by one.
    text = _as_text(shown or source)
    linecache.cache[name] = (len(text), None, f"{text}\n".splitlines(keepends=True), name)
    last = tree.body.pop() if has_value and tree.body and isinstance(tree.body[-1], ast.Expr) else None
    flags = _kept_flags | (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if notebook else 0)
    body = _compiled(tree, name, "exec", flags) if tree.body else None
    _kept_flags |= body.co_flags & ANNOTATIONS if body else 0
    end = _compiled(ast.Expression(last.value), name, "eval", flags) if last else None
    in_loop = notebook and (_begins_tasks(tree.body) or any(code and code.co_flags & AWAITS for code in (body, end)))
    if body:
        _evaluate(body, scope, in_loop=in_loop)
    if not end:
        return None
    value = _evaluate(end, scope, in_loop=in_loop)
    if value is None:
        return None
    if prompt:
        builtins._ = value  # type: ignore[attr-defined]
    if notebook and last and _is_quiet(source, last):
        return None
    return display.show_value(value)


def _failure(uncaught: list[BaseException], name: str, *, last: bool) -> dict[str, Any]:
    """End with an exception that is not handled any more, and return what the answer says of it.

    Args:
        uncaught: a list with the exception. It is emptied, because its frames keep what the program is about to let go.
        name: that of the source.
        last: whether the program ends with it.
    """
    error = uncaught.pop()
    described = describe(error, name)
    if last:
        main_module.keep(error)
    code, shown = only_here(lambda: show(error, name), name)
    if not shown:
        complain(error, name)
    return {"error": described, "exit_code": code, "shown": shown}


def _work(request: dict[str, Any], name: str) -> str | None:
    """Execute the source or module of a request, and return the value of the source."""
    # Which warnings were shown, by text and line: those of this source are others, as in a cell of a notebook.
    main_module.names().pop("__warningregistry__", None)
    with KeptBack():
        if request["module"] == "__main__":  # that of a directory or zip archive
            runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
            return None
        if request["module"]:
            runpy._get_module_details(request["module"])  # type: ignore[attr-defined]  # an ImportError is an error
            runpy._run_module_as_main(request["module"])  # type: ignore[attr-defined]
            return None
        return execute(
            request["source"],
            name,
            main_module.names(),
            shown=request["original"],
            notebook=request.get("notebook", False),
            prompt=request.get("prompt", False),
            has_value=request.get("notebook", False) or not request["is_file"],
        )


def _carry_out(request: dict[str, Any], name: str, answer: dict[str, Any]) -> list[BaseException]:
    """Run the user's code and leave its figures; return an exception that was not caught, if there is one.

    It is in a list, which the caller empties. The frames of the exception refer to the frame of this function. If that
    referred to the exception, they would be a cycle. A collection ends the objects of a cycle in any order, and so may
    close a file before the text above it has been written.
    """
    uncaught: list[BaseException] = []
    try:
        with standard_input(request.pop("stdin"), request["passed"]):
            answer["value"] = only_here(lambda: _work(request, name), name)
    except SystemExit as error:
        answer["exit_code"], answer["exited"] = exit_code(error), True
    except BaseException as error:
        uncaught.append(without_our_frames(error))
    try:
        only_here(figures.output_all, name)
    except BaseException as error:  # a figure that cannot be drawn, or an interrupt
        if not uncaught:
            uncaught.append(without_our_frames(error))
    return uncaught


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "run" and return the answer: exit code, whether by SystemExit, value, error."""
    module = request["module"]
    name = request["name"] if module else next_name(request["name"])
    name = moved(name)
    sys.argv[:] = [moved(word) for word in request["argv"][:1]] + request["argv"][1:]
    if request["is_file"]:
        if module or has_own_directory():
            sys.path[: has_own_directory()] = [name if module else os.path.dirname(name)]
        main_module.set_file(name)
    if has_own_directory():
        own_files.forget_hidden(sys.path[0])
    if request.get("kernel"):  # which shows figures and objects itself
        from . import notebook
        from .commands import shell_path

        os.environ.setdefault("SHELL", shell_path())  # of `!` lines
        with suppress(OSError):  # another mount may hide it
            os.chdir(request["directory"])
        with suppress(OSError):  # it leads a session of its own
            os.setpgid(0, 0)  # ipykernel interrupts the processes of its group, if it leads one
        notebook.hints.update(request["hints"])
        patches.install({**pools.PATCHES, **notebook.PATCHES, **display.PILLOW})
    else:
        patches.install(PROMPT_PATCHES if request.get("prompt") else PATCHES)
    display.begin(request["display_limit"])
    answer: dict[str, Any] = {"exit_code": 0, "exited": False, "value": None, "error": None}
    uncaught = _carry_out(request, name, answer)
    if uncaught:
        answer |= _failure(uncaught, name, last=request["last"])
    if request["last"]:
        answer["exit_code"] = only_here(lambda: end_program(answer["exit_code"]))
    answer |= display.take()
    flush_files()
    return answer
