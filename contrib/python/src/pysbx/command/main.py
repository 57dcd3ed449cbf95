"""The table of commands, and what all of them have in common: errors, exit codes, completion."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from pysbx.command import completion, installing, options, run, serve, show
from pysbx.errors import DependencyInstallError, SandboxError

# The runtime's own failures, as Podman has them.
FAILURE = 125


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pysbx", description="Run Python nobody has read, in a sandbox.")
    parser.add_argument("--version", action=installing.ShowVersion, help="show the version and the runtime")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser(
        "run",
        help="run a program",
        description="Run a program, and exit as it does. What follows it is the program's, as for python.",
        usage="pysbx run [OPTION]... (-c CODE | -m MODULE | FILE | -) [ARGUMENT]...",
    )
    what = one.add_mutually_exclusive_group()
    what.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help="source text, and its arguments")
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module of the sandbox, and its arguments")
    one.add_argument("--file", dest="files", action="append", metavar="PATH", help="put this file into /work")
    one.add_argument("--stdin", metavar="PATH", help="what it reads from standard input; - for our own")
    one.add_argument("--output", metavar="DIR", help="write what it leaves in /output here")
    one.add_argument("--raw", action="store_true", help="let control characters through to a terminal")
    one.add_argument("--json", action="store_true", help="print the outcome as JSON")
    options.add(one)
    one.add_argument(
        "file", nargs=argparse.REMAINDER, metavar="FILE", help="a file, or - for standard input, and its arguments"
    )
    one.set_defaults(function=run.run)

    one = commands.add_parser("shell", help="type statements into a session")
    one.add_argument("--raw", action="store_true", help="let control characters through to a terminal")
    options.add(one)
    one.set_defaults(function=run.shell)

    one = commands.add_parser("warm", help="make what a first call would have to make")
    one.add_argument("--json", action="store_true", help="print the outcome as JSON")
    options.add(one)
    one.set_defaults(function=show.warm)

    one = commands.add_parser("deps", help="installed sets of dependencies")
    actions = one.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in (("list", "show them"), ("prune", "remove them"), ("install", "make one")):
        action = actions.add_parser(name, help=text)
        action.add_argument("--json", action="store_true", help="print JSON")
        if name == "prune":
            action.add_argument("--days", type=float, default=0.0, metavar="N", help="only those not used for so long")
        if name == "install":
            options.add_source(action)
            action.add_argument("requirements", nargs="+", metavar="REQUIREMENT", help="such as 'pandas>=2'")
        action.set_defaults(function=show.deps)

    one = commands.add_parser("profiles", help="show the profiles, or one of them")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("name", nargs="?", metavar="NAME", help="of a profile, or the path of its file")
    one.set_defaults(function=show.show_profiles)

    one = commands.add_parser("doctor", help="say what this machine lacks, and what to do about it")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(function=show.show_doctor)

    installing.add(commands.add_parser("runtime", help="install the runtime of this package, or remove it"))

    for name, text, otherwise in (
        ("serve", "run code for other programs, by HTTP", "default: http.sock in the package's directory"),
        ("mcp", "be a tool of a language model, by the Model Context Protocol", "default: standard input and output"),
    ):
        one = commands.add_parser(name, help=text, description="Of the sandbox's limits no caller gets more.")
        serve.add(one, otherwise=otherwise)
        options.add(one)
        one.set_defaults(function=serve.serve)

    one = commands.add_parser("completion", help="print the completion for a shell")
    one.add_argument("shell", choices=("bash", "zsh", "fish"))
    one.set_defaults(function=lambda arguments: completion.show(parser, arguments.shell))
    return parser


def _reason(error: OSError) -> str:
    """Return what an error of the system says of which file, without Python's brackets and number."""
    if error.filename is None or error.strerror is None:
        return error.strerror or str(error)
    return f"'{error.filename}': {error.strerror}"


def _closed_pipe() -> int:
    """Return the code for output that nobody reads any more, as a shell has it of programs that SIGPIPE ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python tries once more when it ends, and would complain then.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    return 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: its arguments; by default those of this program.

    Returns:
        The exit code: the sandboxed program's, 125 when there could be no sandbox, 2 for wrong arguments, 141 when
        nobody reads the output any more.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        code = int(arguments.function(arguments))
        print(end="", flush=True)  # now, when a reader that is gone can still be told from a failure
        return code
    except DependencyInstallError as error:
        if error.output.strip() and error.output.strip() not in str(error):
            print(run.visible(error.output), file=sys.stderr)
        print(f"pysbx: {run.visible(str(error))}", file=sys.stderr)
    except SandboxError as error:
        print(f"pysbx: {run.visible(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        print(f"pysbx: {_reason(error)}", file=sys.stderr)
        return 2
    except (ValueError, TypeError) as error:
        print(f"pysbx: {run.visible(options.spoken(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return FAILURE
