"""Read the code blocks of a Markdown page, and the comments before them about running it.

README.md in this directory describes the comments. Used by execute.py, outside and inside of the environment of a page.
"""

from __future__ import annotations

import configparser
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import] # comes with the extra "yaml" of pysbx
from markdown_it import MarkdownIt  # type: ignore[import] # comes with pysbx, by way of rich

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    tomllib = None  # type: ignore[assignment]

RUN = ("sh", "console", "python")
OUTPUT = ("output", "text")
# These do not affect later blocks. They do not run, but must be well-formed.
DATA = ("json", "toml", "ini", "yaml")
KINDS = ("not run", "fails", "user", "file", "in")
# Systems in which a block runs that changes its host, and the tests that run it there.
SYSTEMS = {"clean": "tests/fresh/recipes", "fresh": "tests/fresh/readme"}
COMMENT = re.compile(r"<!--\s*(?P<kind>[a-z ]+?)\s*(?::\s*(?P<value>.*?)\s*)?-->", re.DOTALL)
FILE_NAME = re.compile(r"#\s*(?P<name>[\w.-]+\.py)\s*")


class PageError(ValueError):
    """A page does not follow the rules. The text names the line."""


@dataclass
class Block:
    """A code block of a page.

    Attributes:
        line: where it begins, from 1.
        language: the word behind the fence.
        text: its lines.
        not_run: the reason why it does not run, or "".
        fails: the exit status that it must have.
        user: whether an ordinary user runs it.
        file: the file that receives the text, instead of a run, or "".
        system: the word of SYSTEMS for the system in which it runs, or "" for the environment of the page.
        output: the output that it must have; None if the page shows none.
    """

    line: int
    language: str
    text: str
    not_run: str = ""
    fails: int = 0
    user: bool = False
    file: str = ""
    system: str = ""
    output: str | None = None

    @property
    def runs(self) -> bool:
        """Return whether the block is a program."""
        return self.language in RUN and not self.not_run and not self.file and not self.system


@dataclass
class _Before:
    """The instructions in the comments directly before a block."""

    values: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, line: int) -> None:
        """Read the comments of a piece of HTML, and ignore those that are not for this test."""
        for match in COMMENT.finditer(text):
            kind, value = match["kind"], match["value"] or ""
            if kind not in KINDS:
                continue
            if (kind == "user") != (not value):
                raise PageError(f"line {line}: comment '{kind}': {'takes no' if value else 'needs a'} value")
            self.values[kind] = " ".join(value.split())


def _check_data(block: Block) -> None:
    try:
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml" and tomllib is not None:
            tomllib.loads(block.text)
        elif block.language == "ini":
            configparser.ConfigParser(strict=False, interpolation=None).read_string(block.text)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.text))
    except (ValueError, configparser.Error, yaml.YAMLError) as error:
        raise PageError(f"line {block.line}: not {block.language}: {error}") from error


def _block(token: Any, before: _Before, *, user: bool) -> Block:
    line = token.map[0] + 1
    language = token.info.strip()
    if language not in (*RUN, *OUTPUT, *DATA):
        known = ", ".join((*RUN, *OUTPUT, *DATA))
        raise PageError(f"line {line}: language '{language}' of a code block: use one of {known}")
    said = before.values
    status = said.get("fails", "0")
    if not status.isdigit():
        raise PageError(f"line {line}: comment 'fails': '{status}' is not an exit status")
    place, system = said.get("file", ""), said.get("in", "")
    block = Block(line, language, token.content, said.get("not run", ""), int(status), user, place, system)
    if system and (system not in SYSTEMS or place or block.not_run or user):
        raise PageError(f"line {line}: comment 'in': use one of {', '.join(SYSTEMS)}, and no comment beside it")
    if block.file.startswith("/") or ".." in Path(block.file).parts:
        raise PageError(f"line {line}: comment 'file': '{block.file}' leaves the directory of the page")
    if language in DATA:
        _check_data(block)
    return block


def name_of(block: Block) -> str:
    """Return the name of the file from which a Python block runs: the name in its first line, if there is one."""
    named = FILE_NAME.match(block.text)
    return named["name"] if named else f"line-{block.line}.py"


def read(path: Path) -> list[Block]:
    """Return the blocks of a page, in order.

    Raises:
        PageError: a block is indented instead of fenced, or one of the rules is broken.
    """
    blocks: list[Block] = []
    before, user, last = _Before(), False, None
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8")):
        if token.type == "code_block":
            raise PageError(f"line {(token.map or [0])[0] + 1}: indented code block: use a fence and a language")
        if token.type == "html_block":
            before.add(token.content, (token.map or [0])[0] + 1)
            user = user or "user" in before.values
        elif token.type == "fence":
            block = _block(token, before, user=user)
            if block.language in OUTPUT and last is not None and last.runs and not before.values:
                last.output = block.text
            blocks.append(block)
            before, last = _Before(), block
        else:
            if before.values.keys() - {"user"}:
                kind = next(iter(before.values))
                raise PageError(f"line {(token.map or [0])[0] + 1}: comment '{kind}' is not directly before a block")
            before, last = _Before(), None
    return blocks
