"""The table of commands, and their common parts: errors, exit codes, completion."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, TextIO

# The runtime's own failures, as Podman has them.
FAILURE = 125
# For each command: the module whose function add_NAME adds its options, and its help.
COMMANDS = {
    "run": ("run", "run a program"),
    "shell": ("shell", "type statements into a session"),
    "sessions": ("sessions", "list, show, restore or remove saved sessions"),
    "kernel": ("kernel", "run the kernel of a Jupyter notebook in a sandbox"),
    "warm": ("show", "install dependencies and build the snapshot before a first call"),
    "deps": ("show", "list, remove or install sets of dependencies"),
    "clean": ("clean", "remove what was unused for long: dependencies, images, snapshots, sessions"),
    "profiles": ("show", "list the profiles, or print one"),
    "doctor": ("show", "report what this machine lacks, and how to add it"),
    "runtime": ("installing", "install the runtime of this package, or remove it"),
    "serve": ("serve", "run code for other programs, over HTTP"),
    "mcp": ("serve", "be a tool of a language model, with the Model Context Protocol"),
    "service": ("service", "install the units of systemd for `serve`, or remove them"),
    "completion": ("completion", "print the completion for a shell"),
}


class _ShowVersion(argparse.Action):
    """Print the version of the package, then which runtime is used and why, and exit."""

    def __init__(self, option_strings: list[str], **others: Any) -> None:
        super().__init__(option_strings, nargs=0, **{**others, "dest": argparse.SUPPRESS})

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print, and exit with 0 even if there is no runtime."""
        print(import_module("pysbx.command.installing").version_text(), flush=True)
        parser.exit()


# Words of other programs, and what they are here.
MEANT = {
    "-e": "--env",
    "-r": "--requirements",
    "--cpu-limit": "--cpus",
    "--host": "--listen",
    "--input": "--stdin",
    "--mem-limit": "--memory",
    "--package": "--with",
    "--packages": "--with",
    "--pip": "--with",
    "--port": "--listen",
    "--time-limit": "--timeout",
    "--volume": "--mount",
    "help": "--help",
    "version": "--version",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the error with a suggestion, and exit with 2."""
        from difflib import get_close_matches  # noqa: PLC0415 (for an error only)

        below = [
            parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for parser in action.choices.values()
        ]
        known = {name: action for parser in (self, *below) for name, action in parser._option_string_actions.items()}
        # Programs in Python have other words for the same options.
        meant = {f"--{action.dest.replace('_', '-')}": name for name, action in reversed(known.items())} | MEANT
        words = [part.split("=")[0].strip("'") for part in message.partition(": ")[2].split() if part.strip("'")]
        if choice := re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)", message):
            known, words = dict.fromkeys([*re.findall(r"[\w-]+", choice[2]), "--help", "--version"]), [choice[1]]
        elif message.startswith(("ambiguous option", "argument ")):  # it names what it could match, or a known option
            words = []
        near = next((near[0] for word in words if (near := get_close_matches(meant.get(word, word), known, 1))), "")
        super().error(f"{message}: did you mean {near}?" if near and near not in words else message)


def make_parser(wanted: str | None = None, names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        wanted: the only command that gets its options, and whose module is imported; by default all do.
        names: the commands that there are.
    """
    # argparse makes a formatter for each option, which asks for the width of the terminal unless it is given.
    quick = partial(argparse.HelpFormatter, width=80)
    parser = _Parser(prog="pysbx", description="Run untrusted Python code in a sandbox.", formatter_class=quick)
    parser.add_argument("--version", action=_ShowVersion, help="show the version and the runtime")
    parser.set_defaults(make_parser=make_parser)  # for the completion
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module, text = COMMANDS[name]
        one = commands.add_parser(name, help=text, formatter_class=quick)
        if wanted in (None, name):
            add: Callable[[argparse.ArgumentParser], None]
            add = getattr(import_module(f"pysbx.command.{module}"), f"add_{name}")
            add(one)
        one.formatter_class = argparse.HelpFormatter
    parser.formatter_class = argparse.HelpFormatter
    return parser


def _reason(error: OSError) -> str:
    """Return the file and the reason of an error of the system, without Python's brackets and number."""
    if error.filename is None or error.strerror is None:
        return error.strerror or str(error)
    return f"'{error.filename}': {error.strerror}"


def _flush(stream: TextIO) -> None:
    """Write out a stream of this program, and raise the error once only: Python tries again at its end."""
    try:
        stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        raise


def _closed_pipe() -> int:
    """Return the exit code for output that has no reader any more: a shell's code for a program that SIGPIPE ends."""
    with contextlib.suppress(BrokenPipeError):
        _flush(sys.stdout)
    return 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: its arguments; by default those of this program.

    Returns:
        The exit code: the sandboxed program's, 125 when there could be no sandbox, 2 for wrong arguments, 141 when
        nobody reads the output any more.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    if sys.platform == "win32":
        from pysbx.errors import unsupported  # noqa: PLC0415 (other modules cannot be imported there)

        print(f"pysbx: {unsupported()}", file=sys.stderr)
        return FAILURE
    wanted = next((word for word in given if not word.startswith("-")), "")
    # With the command first, help and errors are about that command alone.
    names = [wanted] if wanted in COMMANDS and given[0] == wanted else COMMANDS
    try:
        return _carry_out(make_parser(wanted, names).parse_args(given))
    except BrokenPipeError:
        return _closed_pipe()


def _carry_out(arguments: argparse.Namespace) -> int:
    """Call the function of a command, print its error if it fails, and return the exit code."""
    # Later than the parser, which has nothing left to do for --version and --help.
    from pysbx.base.option_names import spoken_as  # noqa: PLC0415
    from pysbx.base.text import visible  # noqa: PLC0415
    from pysbx.errors import NO_ROOM, DependencyInstallError, SandboxError  # noqa: PLC0415
    from pysbx.options.command_line import spoken  # noqa: PLC0415

    try:
        with spoken_as("command"):
            code = int(arguments.function(arguments))
        print(end="", flush=True)  # now, while a reader that is gone can be distinguished from a failure
        return code
    except DependencyInstallError as error:
        if error.output.strip() and error.output.strip() not in str(error):
            print(visible(error.output), file=sys.stderr)
        print(f"pysbx: {visible(str(error))}", file=sys.stderr)
    except (ValueError, TypeError) as error:  # before SandboxError, for SandboxOptionError is both
        print(f"pysbx: {visible(spoken(str(error), arguments))}", file=sys.stderr)
        return 2
    except SandboxError as error:
        print(f"pysbx: {visible(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"pysbx: {_reason(error)}", file=sys.stderr)
        # Without a name of a file, it is the command's own output that has no room.
        if error.filename is None or error.errno not in NO_ROOM:
            return 2
    except KeyboardInterrupt:
        return 130
    return FAILURE


def program() -> NoReturn:
    """Run the command line and end the process with its exit code.

    Python ends as usual, but does not search all objects for cycles of garbage first. The search takes a tenth of the
    time of `pysbx run`, and frees memory that ends with the process.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the program began
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # main has reported it
            _flush(stream)
    gc.freeze()
    sys.exit(code)
