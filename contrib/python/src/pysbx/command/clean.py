"""`pysbx clean`: remove what was unused for long, or takes too much space."""

from __future__ import annotations

import argparse
import dataclasses

from pysbx.command.show import ago, print_json, print_table
from pysbx.machine import cleaning
from pysbx.options import configuration
from pysbx.options.command_line import with_unit

DAYS = 30.0


def add_clean(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx clean`."""
    parser.description = "Remove what was unused for long. Nothing that a container uses is removed."
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"only these: {', '.join(cleaning.KINDS)}")
    parser.add_argument("--days", type=float, metavar="N", help="what was unused for N days (30)")
    parser.add_argument(
        "--size", type=with_unit("MIB", float), metavar="MIB", help="keep at most this, of what was used last"
    )
    parser.add_argument("--all", action="store_true", help="everything")
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=clean)


def clean(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx clean`."""
    for kind in arguments.kinds:
        if kind not in cleaning.KINDS:
            raise ValueError(f"KIND: '{kind}' is not one of {', '.join(cleaning.KINDS)}")
    for flag, number in (("--days", arguments.days), ("--size", arguments.size)):
        if number is not None and not number >= 0:
            raise ValueError(f"{flag}: {number:g} is not a number from 0 on")
    if arguments.all and (arguments.days is not None or arguments.size is not None):
        raise ValueError("--all: --days and --size would keep some")
    configured, size = configuration.of_clean()
    days = next(value for value in (arguments.days, configured, DAYS) if value is not None)
    size = size if arguments.size is None else arguments.size
    removed = cleaning.clean(
        arguments.kinds or tuple(cleaning.KINDS),
        days=0.0 if arguments.all else days,
        size=None if size is None or arguments.all else size * 2**20,
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        print_json([dataclasses.asdict(item) for item in removed])
        return 0
    rows = [(item.kind, item.name, item.about, f"{item.size / 2**20:.1f} MiB", ago(item.used)) for item in removed]
    if rows:
        head = "would be removed" if arguments.dry_run else "removed"
        print_table((head, "name", "for", "size", "used"), rows)
    return 0
