"""`pysbx deps`, `profiles`, `doctor`, `warm`: what there is, as a table or as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pysbx.base.text import visible
from pysbx.calls.execution import run_chosen
from pysbx.calls.prepare import prepare
from pysbx.machine import doctor
from pysbx.options import command_line, profiles
from pysbx.options.options import make_options
from pysbx.packages import dependencies

ACTIONS = {"list": "show them", "remove": "remove some", "install": "make one"}
COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}
# The width of a table that another program reads.
UNBOUNDED = 100_000
MARKS = {"ok": "ok", "warning": "warning", "failure": "FAILURE"}


class _Console(Console):
    """A console that lets main() decide what happens when its output has no reader any more."""

    def on_broken_pipe(self) -> None:
        """Raise what has been caught again."""
        raise BrokenPipeError


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below the names of columns. On a terminal they fit; for another program nothing is cut or wrapped."""
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        table.add_row(*(escape(visible(cell)) for cell in row))
    (_Console() if sys.stdout.isatty() else _Console(width=UNBOUNDED)).print(table)


def print_json(content: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(content, indent=2))


def add_deps(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `pysbx deps`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        action = actions.add_parser(name, help=text)
        action.add_argument("--json", action="store_true", help="print JSON")
        if name == "remove":
            action.add_argument("sets", nargs="+", metavar="SET", help="key of a set, or its only requirement")
        if name == "install":
            command_line.add_source(action)
            action.add_argument("requirements", nargs="+", metavar="REQUIREMENT", help="as in 'pandas>=2'")
        action.set_defaults(function=deps)


def deps(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx deps list|remove|install`."""
    if arguments.action == "install":
        prepare(make_options(**command_line.given(arguments), dependencies=arguments.requirements))
    found = dependencies.remove(arguments.sets) if arguments.action == "remove" else dependencies.installed()
    if arguments.action == "install":
        found = found[:1]
    if arguments.json:
        print_json([dataclasses.asdict(item) for item in found])
        return 0
    rows = [
        (item.key, ", ".join(item.requirements), item.python, f"{item.size / 2**20:.1f} MiB", ago(item.used))
        for item in found
    ]
    first = "removed" if arguments.action == "remove" else "set"
    print_table((first, "requirements", "python", "size", "used"), rows)
    return 0


def ago(when: float) -> str:
    """Return how long ago a time is, in words."""
    seconds = time.time() - when
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'s' if number > 1 else ''} ago"
    return "just now"


def add_profiles(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pysbx profiles`."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of a profile, or path of its file")
    parser.set_defaults(function=show_profiles)


def show_profiles(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx profiles [NAME]`."""
    found = [profiles.load(name) for name in ([arguments.name] if arguments.name else profiles.names())]
    if arguments.json or arguments.name:
        content = [
            {
                **dataclasses.asdict(item),
                "analysis": json.loads(item.analysis or "{}"),
                "landlock": json.loads(item.landlock or "{}"),
            }
            for item in found
        ]
        print_json(content[0] if arguments.name else content)
        return 0
    rows = [(item.name, item.description, f"{item.limits.get('memory_mb', '')} MiB") for item in found]
    print_table(("profile", "for", "memory"), rows)
    return 0


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx doctor`."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=show_doctor)


def show_doctor(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx doctor`; the exit code is 1 if no sandbox can be created."""
    found = doctor.examine()
    if arguments.json:
        print_json([dataclasses.asdict(check) for check in found])
    else:
        console = _Console()
        for check in found:
            mark = f"[{COLOURS[check.status]}]{MARKS[check.status]:8}[/]"
            # Not wrapped, because users copy the remedy.
            console.print(f"{mark} [bold]{escape(check.name)}[/]: {escape(check.found)}", soft_wrap=True)
            if check.remedy and check.status != "ok":
                console.print(f"         [dim]do:[/] {escape(check.remedy)}", soft_wrap=True)
    return int(any(check.status == "failure" for check in found))


def add_warm(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx warm`."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    command_line.add(parser)
    parser.set_defaults(function=warm)


def warm(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx warm`: create everything that a first call would have to create."""
    chosen = make_options(**command_line.given(arguments))
    began = time.monotonic()
    bundle = prepare(chosen)
    reason = bundle.build_snapshot()
    prepared = time.monotonic() - began
    done = run_chosen(chosen, "")
    if done.cold_reason:  # also of a snapshot that was made, and cannot be continued
        reason = done.cold_reason
    content = {"prepared_sec": prepared, "warm": done.warm, "run_sec": done.usage.wall_sec, "reason": reason}
    if arguments.json:
        print_json(content)
    else:
        state = "warm" if done.warm else f"cold: {visible(reason)}" if reason else "cold"
        print(f"prepared in {prepared:.2f} s; a run takes {done.usage.wall_sec * 1000:.0f} ms, {state}")
    return 0
