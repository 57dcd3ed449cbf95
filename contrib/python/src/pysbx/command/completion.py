"""`pysbx completion`: what a shell offers, taken from the parser of the command line.

Options where a word begins with "-"; where a value of an option is due, its choices; else the choices of arguments.
Where there is nothing to offer, the shell offers files.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from pysbx import profiles

# The choices of values for which the parser accepts any string.
KNOWN = {"profile": profiles.names, "profiles": profiles.names, "name": profiles.names}


@dataclass(frozen=True)
class Option:
    """An option: its names, what it is for, and the values to choose from; None if it takes none."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...] | None


@dataclass
class Command:
    """A command, by its words ("deps install"), with what may follow it."""

    words: str
    options: list[Option] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


def _choices(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    known = KNOWN.get(action.dest)
    return tuple(known()) if known else ()


def commands(parser: argparse.ArgumentParser, words: str = "") -> Iterator[Command]:
    """Yield the command of a parser, and those below it."""
    found = Command(words)
    for action in parser._actions:
        if action.option_strings:
            values = None if action.nargs == 0 else _choices(action)
            found.options.append(Option(tuple(action.option_strings), action.help or "", values))
        else:
            found.arguments += _choices(action)
    yield found
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, f"{words} {name}".strip())


def _bash(parser: argparse.ArgumentParser) -> Iterator[str]:
    found = list(commands(parser))
    yield "_pysbx() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command= words= options='
    # Bash takes "=" for a word.
    yield '    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi'
    yield '    if ((COMP_CWORD > 1)); then command="${COMP_WORDS[1]}"; fi'
    nested = {command.words.partition(" ")[0] for command in found if " " in command.words}
    for name in sorted(nested):
        yield f'    if [[ $command == {name} ]] && ((COMP_CWORD > 2)); then command="{name} ${{COMP_WORDS[2]}}"; fi'
    yield '    case "$command" in'
    for command in found:
        names = " ".join(name for option in command.options for name in option.names)
        yield f"        '{command.words}') options='{names}' words='{' '.join(command.arguments)}' ;;"
    yield "    esac"
    yield '    [[ $word != -* ]] || words="$options"'
    yield '    case "$command $before" in'
    for command in found:
        for option in command.options:
            if option.values is not None:
                places = "|".join(f"'{command.words} {name}'" for name in option.names)
                yield f"        {places}) words='{' '.join(option.values)}' ;;"
    yield "    esac"
    # Not by mapfile, because zsh lacks it. No word contains a blank.
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _pysbx pysbx"


def _zsh(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield "autoload -U +X compinit && compinit"
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash(parser)


def _fish(parser: argparse.ArgumentParser) -> Iterator[str]:
    for command in commands(parser):
        first, _, second = command.words.partition(" ")
        condition = f"__fish_seen_subcommand_from {first}" if first else "__fish_use_subcommand"
        if second:
            condition += f"; and __fish_seen_subcommand_from {second}"
        line = f"complete -c pysbx -n {shlex.quote(condition)}"
        if command.arguments:
            yield f"{line} -f -a {shlex.quote(' '.join(command.arguments))}"
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            values = "" if option.values is None else " -r"
            if option.values:
                values = f" -x -a {shlex.quote(' '.join(option.values))}"
            yield f"{line} {names}{values} -d {shlex.quote(option.help)}"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `pysbx completion`."""
    parser.add_argument("shell", choices=tuple(SHELLS))
    parser.set_defaults(function=show)


def show(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx completion`."""
    from pysbx.command.main import make_parser  # noqa: PLC0415 (which imports this module)

    print("\n".join(SHELLS[arguments.shell](make_parser())))
    return 0
