"""The options of a sandbox, for every command that creates one: derived from their declarations."""

from __future__ import annotations

import argparse
from typing import Any

from pysbx.options.declaration import Declared, Flag
from pysbx.options.keywords import OPTIONS

# The options that the command line has, with their flags.
FLAGS = [(declared, declared.option.flag) for declared in OPTIONS.values() if declared.option.flag is not None]


def spoken(message: str) -> str:
    """Return the text of an error about a keyword of make_options with the name that the command line has for it."""
    keyword, colon, rest = message.partition(":")
    options = {declared.name: flag.name for declared, flag in FLAGS}
    return f"{options.get(keyword, keyword)}{colon}{rest}"


def _add_one(group: argparse._ActionsContainer, declared: Declared, flag: Flag) -> None:
    """Add an option to a parser, or to a group of it."""
    given: dict[str, Any] = {"dest": declared.name, "help": declared.option.help.replace("%", "%%")}
    if flag.const:
        group.add_argument(flag.name, action="store_const", const=flag.const, **given)
        return
    if declared.choices:
        given["choices"] = declared.choices
    else:
        given["metavar"] = flag.metavar
        given["type"] = flag.parse or (declared.type if declared.type in (int, float) else None)
    if flag.several:
        given["action"] = "append"
    group.add_argument(flag.name, **given)
    if flag.also is not None:
        also = flag.also
        group.add_argument(
            also.name, dest=declared.name, action="append", metavar=also.metavar, type=also.form.format, help=also.help
        )


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command's parser."""
    group = parser.add_argument_group("the sandbox")
    for declared, flag in FLAGS:
        _add_one(group, declared, flag)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that say for which Python dependencies are installed, and from where."""
    for declared, flag in FLAGS:
        if flag.installs:
            _add_one(parser, declared, flag)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for make_options that were on the command line."""
    found = {}
    for declared, flag in FLAGS:
        value = getattr(arguments, declared.name, None)
        if value is not None:
            found[declared.name] = flag.collect(value) if flag.collect else value
    return found
