"""Runs source text as `python` would run a script, in a __main__ that lasts as long as the sandbox."""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import os
import runpy
import sys
import types
from typing import Any

from . import display, figures, patches
from .child import OnlyHere
from .ending import end_program, exit_code, flush_files
from .failure import describe
from .room import KeptBack
from .stdin import standard_input

_runs = itertools.count(1)


def fresh_main() -> dict[str, Any]:
    """Put an empty module __main__ in place and return its names."""
    module = types.ModuleType("__main__")
    vars(module).update({"__builtins__": __builtins__, "__annotations__": {}})
    sys.modules["__main__"] = module
    return vars(module)


def next_name(name: str) -> str:
    """Return a name for a run's source. Each run has one of its own, because functions of earlier runs keep theirs.

    Args:
        name: that of the first, such as "<sandbox>".
    """
    number = next(_runs)
    return name if number == 1 else f"{name.removesuffix('>')} {number}>"


def execute(source: str, name: str, scope: dict[str, Any]) -> str | None:
    """Execute source text and return the repr of its last expression, if it ends with one that is not None."""
    # Not by ast.parse(), which would stand in the traceback of an error that the parser finds.
    tree: Any = compile(source, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    # A last line without an end would move the carets of a traceback by one.
    linecache.cache[name] = (len(source), None, f"{source}\n".splitlines(keepends=True), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec", dont_inherit=True), scope)
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), scope)
    return None if value is None else display.show_value(value)


def _failure(error: BaseException, name: str) -> dict[str, Any]:
    """Print the traceback of an exception, and return what the answer says of it."""
    described = describe(error, name)
    with contextlib.suppress(Exception):  # closed, replaced, or full
        sys.stderr.write(described["traceback"])
    return {"exit_code": 1, "error": described}


def run(request: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "run" and return the answer: exit code, whether by SystemExit, value, error."""
    name = next_name(request["name"]) if request["source"] else request["name"]
    sys.argv[:] = request["argv"]
    if os.path.isabs(name):  # it is a file's
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = os.path.dirname(name)
        scope["__file__"] = name
    patches.install(figures.PATCHES | display.PATCHES)
    display.begin(request["display_limit"])
    answer: dict[str, Any] = {"exit_code": 0, "exited": False, "value": None, "error": None}
    try:
        with standard_input(request.pop("stdin")), OnlyHere(name), KeptBack():
            if request["module"]:
                runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
            else:
                answer["value"] = execute(request["source"], name, scope)
    except SystemExit as error:
        answer["exit_code"], answer["exited"] = exit_code(error), True
    except BaseException as error:
        answer |= _failure(error, name)
    try:
        with OnlyHere(name):
            figures.output_all()
    except BaseException as error:  # a figure that cannot be drawn, or an interrupt
        if answer["error"] is None:
            answer |= _failure(error, name)
    if request["last"]:
        with OnlyHere():
            end_program()
    answer |= display.take()
    flush_files()
    return answer
