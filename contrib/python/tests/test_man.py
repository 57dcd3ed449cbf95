"""The manual pages pysbx(1) and profiles(5) describe everything that the package accepts."""

# once: the caller's rights make no difference

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx.command.main import make_parser
from pysbx.options import profiles

PAGES = Path(__file__).parents[2] / "man"


def commands(parser: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the words of a command and the names of its options, then those of the commands below it."""
    yield words, [name for action in parser._actions for name in action.option_strings]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, f"{words} {name}".strip())


@pytest.mark.parametrize(("words", "options"), list(commands(make_parser())), ids=lambda value: str(value)[:20])
def test_pysbx_describes_every_command_and_option(words: str, options: list[str]) -> None:
    """The page has each command, with each option that its parser knows."""
    page = (PAGES / "pysbx.1").read_text(encoding="utf-8")
    assert re.search(rf"^\.It Cm {words}\b", page, re.MULTILINE)
    lines = "\n".join(re.findall(r"^\.It .*$", page, re.MULTILINE))
    for name in options:
        assert re.search(rf"\bFl {name.removeprefix('-').replace('-', 'Fl ', 1)}(?![\w-])", lines), name


def test_profiles_describes_every_key() -> None:
    """The page has each key of a profile, of its stages, each word of a stage, and each pattern."""
    page = (PAGES / "profiles.5").read_text(encoding="utf-8")
    shipped = {key for name in profiles.names() for key in profiles._complete(name)["limits"]}
    for word in {*profiles.KEYS, *profiles.WORDS, *profiles.LISTS.values(), *profiles.PATTERNS, "stage", *shipped}:
        assert re.search(rf"^\.(?:It )?Li (?:.* )?{re.escape(word)}(?: |$)", page, re.MULTILINE), word
