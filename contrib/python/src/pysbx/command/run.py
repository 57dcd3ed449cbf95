"""`pysbx run` and `pysbx shell`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import errno
import json
import os
import re
import shlex
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from pysbx.base.directories import write_whole
from pysbx.base.option_names import spoken_as
from pysbx.base.text import visible, writer
from pysbx.calls.execution import MAIN, MAX_FILES, MAX_NAMED, WORK, Execution, run_chosen, unsaid
from pysbx.container.container import Container
from pysbx.options import command_line
from pysbx.options.options import make_options
from pysbx.packages.progress import install_progress

# The program has ended well, but not all of its files could be written. The code is that of wrong arguments.
INCOMPLETE = 2
# The end of a zip archive begins so, and is at most so long, with a comment.
ZIP_END, MAX_ZIP_END = b"PK\x05\x06", 22 + 0xFFFF
# Ctrl-C that a program catches: so many times, and it is killed.
ENOUGH = 3


def _has_room(arguments: argparse.Namespace, name: str) -> bool:
    """Tell whether a file can be put into /work: a mount there may be read-only, or its files belong to the host."""
    path = PurePosixPath(WORK, name)
    return not any(PurePosixPath(mount.target) in (path, *path.parents) for mount in arguments.mounts or ())


def _script(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return source, name and arguments of a script, and all files; the script is one of them if there is room.

    A directory or zip archive with a __main__.py is a program too, as for python3.
    """
    # A word behind "--" is not an option, even if it begins with a dash.
    name, *rest = (arguments.file[1:] if arguments.file[:1] == ["--"] else arguments.file) or ["-"]
    files = _files(arguments.files or [])
    if name == "-":
        if arguments.stdin == "-":
            raise ValueError("--stdin: the program comes from standard input too: put one of the two into a file")
        if sys.stdin and sys.stdin.isatty():
            print("pysbx: type the program, and Ctrl-D at its end", file=sys.stderr)
        return {"source": _input("-"), "name": name, "argv": rest, "files": files}
    base = _base(name)
    if Path(name).is_dir():
        if not Path(name, "__main__.py").is_file():
            raise ValueError(f"'{name}' is a directory without a __main__.py: name the file of its program")
        files = _files([*(arguments.files or []), name])
        return {"source": b"", "module": MAIN, "name": base, "argv": rest, "files": files}
    if base.endswith(".ipynb"):
        advice = f"write its cells to one first: jupyter nbconvert --to script {shlex.quote(name)}"
        raise ValueError(f"'{name}' is a notebook, and not a program: {advice}")
    with_script = _files([*(arguments.files or []), name])
    if ZIP_END in with_script[base][-MAX_ZIP_END:]:
        return {"source": b"", "module": MAIN, "name": base, "argv": rest, "files": with_script}
    source = with_script[base]
    if _has_room(arguments, base):
        name, files = base, with_script
    return {"source": source, "name": name, "argv": rest, "files": files}


def _program(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return source, module, name, arguments and files of the program, as run_code takes them."""
    for option, rest in (("-c", arguments.code), ("-m", arguments.module)):
        if rest is not None and not rest:
            raise ValueError(f"{option}: an argument is expected")
    if arguments.code is None and arguments.module is None:
        return _script(arguments)
    files = _files(arguments.files or [])
    # argparse ends the arguments of an option at "--", and takes it and the following ones for those of a file.
    words = [*(arguments.code or arguments.module), *arguments.file]
    if arguments.code is not None:
        return {"source": words[0], "argv": words[1:], "files": files}
    return {"source": "", "module": words[0], "argv": words[1:], "files": files}


def as_json(done: Execution) -> str:
    """Return an Execution as JSON; artifacts by their sizes."""
    content = dataclasses.asdict(done)
    content["artifacts"] = {name: len(data) for name, data in done.artifacts.items()}
    return json.dumps(content, indent=2)


def check_writable(directory: Path) -> None:
    """Raise OSError if no file can be written there. This runs before the program, so that its work is not lost."""
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


def save(done: Execution, directory: str) -> list[str]:
    """Write the artifacts below a directory of the host; return an error for each that cannot be written.

    Their names have been checked, but not against the links that lie in the directory.
    """
    from pysbx.base import placing, trees  # noqa: PLC0415 (few runs have files)

    top = Path(directory)
    complaints = []
    for name, data in done.artifacts.items():
        path = top / name
        try:
            top.mkdir(parents=True, exist_ok=True)
            there = next(parent for parent in path.parents if parent.exists())
            if not there.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, f"'{there}' exists and is not a directory")
            if not there.resolve().is_relative_to(top.resolve()):
                raise PermissionError(errno.EPERM, f"'{there}' leads out of '{top}'")
            with trees.opened_top(top) as opened:
                real = there.resolve().relative_to(top.resolve()) / path.relative_to(there)
                placing.refuse_git(opened.directory, str(real), data)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        except OSError as error:
            complaints.append(f"pysbx: --output: '{path}' is not written: {error.strerror or error}\n")
    return complaints


def _base(path: str) -> str:
    """Return the last part of a path, also of one such as "..", which has none of its own."""
    return os.path.basename(os.path.abspath(path))


def _named_file(text: str) -> tuple[Path, str]:
    """Return the path of a file or directory, and its name in /work: PATH, or PATH:NAME."""
    path, colon, name = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), _base(text)
    return Path(path), name


def _below(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name in /work and the path of a file, or of each file below a directory."""
    if not path.is_dir():
        yield name, str(path)
        return
    for top, folders, names in os.walk(path):
        folders.sort()
        for one in (*folders, *sorted(names)):
            mode = os.lstat(os.path.join(top, one)).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                reason = "neither a regular file nor a directory: remove it, or mount the directory"
                raise ValueError(f"--file: '{os.path.join(top, one)}': {reason}")
        inner = PurePosixPath(name, Path(top).relative_to(path))
        yield from ((str(inner / one), os.path.join(top, one)) for one in sorted(names))


def _files(paths: list[str]) -> dict[str, bytes]:
    """Return the contents of files by the names that they get in /work; of a directory, of all files below it."""
    chosen: dict[str, str] = {}
    for text in paths:
        for name, path in _below(*_named_file(text)):
            other = chosen.setdefault(name, path)
            if other != path:
                advice = f"give one another name, as in {path}:NAME"
                raise ValueError(f"--file: '{other}' and '{path}' would both be /work/{name}: {advice}")
    content, room = {}, MAX_FILES
    for name, path in chosen.items():
        content[name] = _read(path, room=room)
        room -= len(content[name])
    return content


def _read(path: str, stream: BinaryIO | None = None, room: int = MAX_FILES) -> bytes:
    """Return the content of a file, which may be a stranger's, or of a stream."""
    with contextlib.nullcontext(stream) if stream else Path(path).open("rb") as file:
        content = file.read(room + 1)
    if len(content) > room:
        raise ValueError(f"'{path}': more than {MAX_FILES} bytes: mount its directory instead")
    return content


def _input(path: str | None) -> bytes:
    """Return what the program reads from standard input."""
    if path == "-":
        return _read(path, sys.stdin.buffer) if sys.stdin else b""  # closed, as by <&-
    return _read(path) if path else b""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx run`."""
    parser.description = "Run a program, and exit as it does. Arguments after it belong to it, as for python."
    parser.usage = "pysbx run [OPTION]... (-c CODE | -m MODULE | FILE | -) [ARGUMENT]..."
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help="run this text, with arguments")
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run this module, with arguments")
    parser.add_argument(
        "--file", dest="files", action="append", metavar="PATH[:NAME]", help="put this file or directory into /work"
    )
    parser.add_argument("--stdin", metavar="PATH", help="file for its standard input; - for that of this command")
    parser.add_argument("--output", metavar="DIR", help="write the files of /output to this directory")
    parser.add_argument("--raw", action="store_true", help="pass control characters to the terminal")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="say at the end how it started, and what it used")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what the program prints, and errors")
    command_line.add(parser)
    parser.add_argument(
        "file", nargs=argparse.REMAINDER, metavar="FILE", help="run this file, or - for standard input, with arguments"
    )
    parser.set_defaults(function=run)


def _named(names: tuple[str, ...]) -> str:
    """Return names in a row, of many the first ones and the number of the others."""
    shown = ", ".join(name.replace("\n", "\\n") for name in names[:MAX_NAMED])  # a line of ours, and none of the code
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def _places(arguments: argparse.Namespace) -> list[str]:
    """Return the directory where python3 would look for modules first."""
    if arguments.code is not None or arguments.module is not None:
        return ["."]
    words = [word for word in arguments.file if word != "--"]
    return [os.path.dirname(words[0]) or "."] if words and words[0] != "-" else ["."]


def _with_metadata(program: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """Return options with the packages that a script names in its metadata, except for those of the command line.

    A virtualenv, root or image has packages of its own.
    """
    if b"# /// script" not in program["source"]:
        return chosen
    from pysbx.calls.prepare import interpreter_of  # noqa: PLC0415 (few scripts have metadata)
    from pysbx.options import requirements  # noqa: PLC0415 (few scripts have metadata)

    found = requirements.of_script(program["source"].decode(errors="replace"))
    wanted = make_options(**chosen)
    found.check_python(interpreter_of(wanted).version)
    if wanted.virtualenv or wanted.rootfs or wanted.image:
        return chosen
    named = set(map(requirements.name_of, wanted.dependencies))
    missing = [item for item in found.dependencies if requirements.name_of(item) not in named]
    return chosen | {"dependencies": [*chosen.get("dependencies", ()), *missing]}


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[Container], None]]:
    """Pass Ctrl-C on to the program while the block runs; the third one, or one before it has begun, ends the program.

    Yields:
        The function that has to be called with the container.
    """
    running: list[Container] = []
    pressed = 0

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if not running or not running[0].has_begun():
            raise KeyboardInterrupt
        if pressed == ENOUGH:
            print("\npysbx: the program catches Ctrl-C: it is killed", file=sys.stderr)
            raise KeyboardInterrupt
        running[0].interrupt()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield running.append
    finally:
        signal.signal(signal.SIGINT, before)


def run(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx run` and exit as the program did."""
    program = _program(arguments)
    chosen = command_line.given(arguments)
    if arguments.code is None and arguments.module is None:
        chosen = _with_metadata(program, chosen)
    if arguments.output:
        check_writable(Path(arguments.output))
    callbacks: dict[str, Any] = {}
    if not arguments.json:
        callbacks["on_stdout"] = writer(sys.stdout, raw=arguments.raw)
        callbacks["on_stderr"] = writer(sys.stderr, raw=arguments.raw)
    with spoken_as("command", _places(arguments)), _interrupts() as begun:
        stdin = _input(arguments.stdin)
        with install_progress(lambda _: None) if arguments.quiet else contextlib.nullcontext():
            done = run_chosen(make_options(**chosen), **program, stdin=stdin, **callbacks, begun=begun)
    complaints = save(done, arguments.output) if arguments.output else []
    say = writer(sys.stderr, raw=arguments.raw)
    code = done.exit_code or (INCOMPLETE if complaints else 0)
    if arguments.json:
        print(as_json(done))
        if not arguments.quiet:
            say("".join(_left(done, arguments)))
    else:
        remarks = "".join(_remarks(done, arguments))
        say(remarks + _misplaced(remarks, program["argv"]))
    say("".join(complaints))
    return code


def _misplaced(remarks: str, argv: list[str]) -> str:
    """Return a hint for the first option that remarks advise, and that is there already, after the program."""
    given = {word.partition("=")[0] for word in argv}
    for option in re.findall(r"--[a-z-]+", remarks):
        if option in given:
            return f"hint: {option} after the program is an argument of the program: put it right after 'pysbx run'\n"
    return ""


def _left(done: Execution, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield which files end with the sandbox, in lines."""
    if done.artifacts and not arguments.output:
        sizes = tuple(f"{name} ({-(-len(data) // 1024)} KiB)" for name, data in done.artifacts.items())
        yield f"pysbx: left {_named(sizes)}: --output DIR keeps them\n"
    if done.uncollected:
        yield f"pysbx: left in /work: {_named(done.uncollected)}: write to /output, or add --collect PATTERN\n"


def _remarks(done: Execution, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what the command says after a program, in lines."""
    if done.error is not None and (done.error.traceback or not done.violations):
        yield unsaid(done)
        if done.error.hint:
            yield f"hint: {done.error.hint}\n"
    yield from (f"{violation}\n" for violation in done.violations)
    if arguments.quiet:
        return
    if done.left_out:
        yield f"pysbx: too large together (--answer-limit), or not readable; left out: {_named(done.left_out)}\n"
    elif done.truncated:
        yield "\npysbx: output was cut (--output-limit)\n"
    yield from _left(done, arguments)
    if arguments.verbose:
        used = done.usage
        memory = f", {used.peak_memory_mb:.0f} MiB at most" if used.peak_memory_mb else ""
        state = "warm" if done.warm else f"cold ({visible(done.cold_reason or 'no reason is known')})"
        yield f"pysbx: started {state}; {used.wall_sec:.3f} s, {used.cpu_sec:.3f} s of CPU{memory}\n"
