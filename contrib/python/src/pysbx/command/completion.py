"""`pysbx completion`: the completion of a shell, which shtab writes from the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pysbx.options import profiles

SHELLS = ("bash", "zsh", "fish")
# The choices of values for which the parser accepts any string.
KNOWN = {"profile": profiles.names, "profiles": profiles.names, "name": profiles.names}
# Values that are paths of the host, by the names that help shows for them.
FILES = ("PATH", "PATH[:NAME]", "FILE", "SOURCE[:TARGET[:rw]]")
DIRECTORIES = ("DIR",)
# Bash takes "=" for a word, which shtab does not expect.
BASH = """
_pysbx() {
    local words=() place=$COMP_CWORD i
    for i in "${!COMP_WORDS[@]}"; do
        if [[ ${COMP_WORDS[i]} != = ]]; then
            words+=("${COMP_WORDS[i]}")
        elif ((i == COMP_CWORD)); then
            words+=("")
        elif ((i < COMP_CWORD)); then
            place=$((place - 1))
        fi
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$place
    _shtab_pysbx
}
complete -o bashdefault -o default -F _pysbx pysbx
"""


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser, and of those below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion for a shell."""
    import shtab  # noqa: PLC0415 (no other command needs it)

    for action in _actions(parser):
        if action.choices is None and action.dest in KNOWN:
            action.choices = KNOWN[action.dest]()
        if action.metavar in FILES or action.dest in ("file", "code"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell)) + (BASH if shell == "bash" else "")


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `pysbx completion`."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(function=show)


def show(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx completion`."""
    print(script(arguments.make_parser(), arguments.shell))
    return 0
