"""The options of a sandbox, for every command that creates one: derived from their declarations."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any

from pysbx.options.declaration import Declared, Flag
from pysbx.options.keywords import OPTIONS

# The options that the command line has, with their flags.
FLAGS = [(declared, declared.option.flag) for declared in OPTIONS.values() if declared.option.flag is not None]


SIZES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
# By the name that help shows for a value: what a number without a unit counts, the units, and an example.
UNITS: dict[str, tuple[float, Mapping[str, float], str]] = {
    "MIB": (SIZES["m"], SIZES, "MiB, such as 512, 512m or 1g"),
    "BYTES": (1, SIZES, "bytes, such as 65536 or 64k"),
    "SECONDS": (1, TIMES, "seconds, such as 90, 90s or 2m"),
}


def with_unit(metavar: str, kind: type) -> Callable[[str], Any]:
    """Return the conversion of a number that may have a unit, as Docker and Podman take them."""
    counted, units, example = UNITS[metavar]

    def convert(text: str) -> Any:
        # 1gb and 1GiB are 1g.
        short = re.sub(r"(?<=[kmgt])i?b$", "", text.lower()) if units is SIZES else text.lower()
        unit = next((unit for unit in units if short.endswith(unit)), "")
        try:
            if not unit:
                return kind(text)
            value = float(short[: -len(unit)]) * units[unit] / counted
            if kind is float or value.is_integer():
                return kind(value)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of {example}")

    return convert


def spoken(message: str, arguments: argparse.Namespace) -> str:
    """Return the text of an error about a keyword of make_options with the name of the option that was given for it."""
    keyword, colon, rest = message.partition(":")
    flags = {declared.name: flag for declared, flag in FLAGS}
    if (flag := flags.get(keyword)) is None:
        return message
    chosen = flag.name
    if flag.also is not None:
        given = getattr(arguments, keyword, None) or ()
        # The text begins with the wrong value; otherwise the fault is in what the second option names.
        itself = any(rest.startswith(f" {one!r}") for one in given)
        in_file = any(one.startswith(flag.also.form.format("")) for one in given)
        chosen = flag.also.name if in_file and not itself else chosen
    return f"{chosen}{colon}{rest}"


def _add_one(group: argparse._ActionsContainer, declared: Declared, flag: Flag) -> None:
    """Add an option to a parser, or to a group of it."""
    given: dict[str, Any] = {"dest": declared.name, "help": declared.option.help.replace("%", "%%")}
    if flag.const != "":
        group.add_argument(flag.name, action="store_const", const=flag.const, **given)
        return
    if declared.choices:
        given["choices"] = declared.choices
    else:
        given["metavar"] = flag.metavar
        given["type"] = flag.parse or (declared.type if declared.type in (int, float) else None)
        if flag.metavar in UNITS:
            given["type"] = with_unit(flag.metavar, declared.type)
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
