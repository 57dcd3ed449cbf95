"""`pysbx sessions`: the sessions that Sandbox.snapshot() has saved by name."""

from __future__ import annotations

import argparse
import dataclasses

from pysbx.calls import saved
from pysbx.command.shell import shell
from pysbx.command.show import ago, print_json, print_table
from pysbx.errors import SandboxError
from pysbx.options import command_line

ACTIONS = {
    "list": "show them",
    "show": "show what a session was saved with",
    "restore": "type statements into one, which stays as it was saved",
    "remove": "remove some",
}
# How options are written that a session does not have.
UNSET = ("", "()", "None")


def add_sessions(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `pysbx sessions`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        action = actions.add_parser(name, help=text)
        if name in ("list", "show"):
            action.add_argument("--json", action="store_true", help="print JSON")
        if name == "remove":
            action.add_argument("sessions", nargs="+", metavar="NAME", help="name of a session, or path of its file")
        elif name != "list":
            action.add_argument("restore", metavar="NAME", help="name of a session, or path of its file")
        if name == "restore":
            action.add_argument("--raw", action="store_true", help="pass control characters to the terminal")
            command_line.add(action)
        action.set_defaults(function=shell if name == "restore" else sessions)


def sessions(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx sessions list|show|remove`."""
    if arguments.action == "list":
        return _list(as_json=arguments.json)
    if arguments.action == "show":
        return _show(saved.describe(saved.place(arguments.restore)), as_json=arguments.json)
    for name in arguments.sessions:
        saved.remove(name)
    return 0


def _list(*, as_json: bool) -> int:
    found, reasons = [], {}
    for name in saved.names():
        try:
            found.append(saved.describe(saved.place(name)))
        except SandboxError as error:
            reasons[name] = str(error)
    if as_json:
        broken = [{"name": name, "error": reason} for name, reason in reasons.items()]
        print_json([*map(dataclasses.asdict, found), *broken])
        return 0
    rows = [(one.name, one.python, f"{one.size / 2**20:.1f} MiB", ago(one.made)) for one in found]
    print_table(("session", "python", "size", "saved"), [*rows, *((name, "", "", reasons[name]) for name in reasons)])
    return 0


def _show(found: saved.Description, *, as_json: bool) -> int:
    if as_json:
        print_json(dataclasses.asdict(found))
        return 0
    rows = [("file", found.path), ("size", f"{found.size / 2**20:.1f} MiB"), ("saved", ago(found.made))]
    rows += [("python", found.python), ("pysbx", found.package)]
    rows += [(name, text) for name, text in found.options.items() if name != "isolated" and text not in UNSET]
    print_table(("session", found.name), rows)
    return 0
