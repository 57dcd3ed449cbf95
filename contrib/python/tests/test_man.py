"""The pages of which pysbx(1) and profiles(5) are made describe everything that the package accepts."""

# once: the caller's rights make no difference

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx.command.main import make_parser
from pysbx.options import profiles

PAGES = Path(__file__).parents[2] / "docs/pages/reference"


def words(page: str) -> set[str]:
    """Return the words that a page has as code."""
    code = re.findall(r"`([^`\n]+)`", (PAGES / page).read_text(encoding="utf-8"))
    return {word for text in code for word in re.split(r"[\s=,:|()\[\]{}\"]+", text)}


def commands(parser: argparse.ArgumentParser, name: str = "pysbx") -> Iterator[tuple[str, list[str]]]:
    """Yield the words of a command and the names of its options, then those of the commands below it."""
    yield name, [name for action in parser._actions for name in action.option_strings]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, its in action.choices.items():
                yield from commands(its, f"{name} {below}")


@pytest.mark.parametrize(("command", "options"), list(commands(make_parser())), ids=lambda value: str(value)[:20])
def test_pysbx_describes_every_command_and_option(command: str, options: list[str]) -> None:
    """The page has each command, with each option that its parser knows."""
    page = (PAGES / "pysbx-command.md").read_text(encoding="utf-8")
    assert re.search(rf"`{command}\b", page)
    assert set(options) - {"-h", "--help"} <= words("pysbx-command.md") | words("options.md")


def test_profiles_describes_every_key() -> None:
    """The page has each key of a profile, of its stages, each word of a stage, and each pattern."""
    shipped = {key for name in profiles.names() for key in profiles._complete(name)["limits"]}
    named = words("profiles.md") | words("options.md")
    assert {*profiles.KEYS, *profiles.WORDS, *profiles.LISTS.values(), *profiles.PATTERNS, "stage"} <= words(
        "profiles.md"
    )
    assert shipped <= named
