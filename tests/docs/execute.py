#!/usr/bin/env python3
"""Run the blocks of a page, one after the other, in one shell and one directory; print TAP without a plan.

tests/docs/run calls this with --needs to learn the needs of a page, and without in the environment of the page.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from page import RUN, SYSTEMS, Block, PageError, name_of, read

# The first snapshot of pandas on a busy machine is the slowest step of a page.
TIMEOUT_SEC = 300
PROMPT = "$ "
CONTINUED = "> "


class Shell:
    """A bash that reads one command file after the other, so that variables and directories persist."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        """Start it.

        Args:
            directory: of the page.
            scratch: where command files and outputs go.
        """
        self._scratch = scratch
        self._number = len(list(scratch.iterdir()))
        self.status = 0
        reading, writing = os.pipe()
        self._answers = reading
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, cwd=directory, pass_fds=[writing],
            text=True, start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        self._writing = writing

    def run(self, text: str, *, strict: bool) -> str:
        """Run commands and return their output.

        Args:
            text: the commands; initially `$?` is the exit status of the previous ones.
            strict: whether they end after the first one that fails.
        """
        self._number += 1
        commands, output = self._scratch / f"{self._number}.sh", self._scratch / f"{self._number}.out"
        commands.write_text(text)
        stdin = self._process.stdin
        assert stdin is not None
        # A console block may use `$?` of the previous commands. In a strict block it would be a failure.
        before = "set -eo pipefail" if strict else f"set +e -o pipefail; (exit {self.status})"
        stdin.write(f"{before}; . {commands} </dev/null >{output} 2>&1; echo $? >&{self._writing}\n")
        stdin.flush()
        self.status = self._answer()
        return output.read_text(errors="replace") if output.exists() else ""

    def _answer(self) -> int:
        """Return the exit status that the shell reports. If it reports none, it has ended."""
        if not select.select([self._answers], [], [], TIMEOUT_SEC)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            print(f"# not finished after {TIMEOUT_SEC} seconds: killed")
            # A daemon that a block has started may have the other end of the pipe. Reading would not end.
            return self._process.wait()
        answer = os.read(self._answers, 16)
        return int(answer) if answer else self._process.wait()

    def has_ended(self) -> bool:
        """Return whether a command has ended the shell."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the shell and its descendants."""
        if not self.has_ended():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def matches(shown: str, found: str) -> bool:
    """Return whether an output equals the one on the page: "..." stands for any text of a line, or for any lines."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            parts = (re.escape(part) for part in line.rstrip().split("..."))
            pattern += r"[^\n]*".join(parts) + r"[ \t]*\n"
    text = found.rstrip()
    return re.fullmatch(pattern, f"{text}\n" if text else "") is not None


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block, each with the output that the page shows."""
    command, output = "", ""
    for line in block.text.splitlines(keepends=True):
        if line.startswith(PROMPT):
            if command:
                yield command, output
            command, output = line.removeprefix(PROMPT), ""
        elif line.startswith(CONTINUED) and command and not output:
            command += line.removeprefix(CONTINUED)
        elif command:
            output += line
        else:
            raise PageError(f"line {block.line}: a console block begins with '{PROMPT}'")
    yield command, output


def compare(shown: str | None, found: str) -> list[str]:
    """Return the differences of an output."""
    if shown is None or matches(shown, found):
        return []
    return ["the page shows:", *shown.splitlines(), "the output is:", *found.splitlines()]


def run_console(shell: Shell, block: Block) -> list[str]:
    """Run a console block, command by command."""
    commands = list(commands_of(block))
    for number, (command, output) in enumerate(commands):
        found = shell.run(command, strict=False)
        if wrong := compare(output or None, found):
            return [f"$ {command.rstrip()}", *wrong]
        looked_at = number + 1 < len(commands) and "$?" in commands[number + 1][0]
        expected = block.fails if number + 1 == len(commands) else 0
        if shell.status != expected and not looked_at:
            status = f"exit status {shell.status}, expected {expected}"
            return [f"$ {command.rstrip()}", status, *found.splitlines()]
        if shell.has_ended():
            return [f"$ {command.rstrip()}", "it has ended the shell"]
    return []


def run_block(shell: Shell, block: Block, directory: Path) -> list[str]:
    """Run a block; return its errors, line by line."""
    if block.language == "console":
        return run_console(shell, block)
    text = block.text
    if block.language == "python":
        (directory / name_of(block)).write_text(text)
        text = f"python3 {name_of(block)}\n"
    found = shell.run(text, strict=block.language == "sh")
    if shell.status != block.fails:
        return [f"exit status {shell.status}, expected {block.fails}", *found.splitlines()]
    return compare(block.output, found)


def run_page(page: Path, title: str, *, user: bool, system: str = "") -> bool:
    """Run the blocks of a page for one kind of user, or those for a system, and return whether one has failed."""
    directory, scratch = Path.cwd() / "page", Path.cwd() / "scratch"
    scratch.mkdir()
    shell, broken = Shell(directory, scratch), False
    for block in read(page):
        name = f"{title}:{block.line}"
        if block.user != user or (system and block.system != system):
            continue
        if system:
            block.system = ""  # it is the one in which this runs
        if block.file:
            (directory / block.file).parent.mkdir(parents=True, exist_ok=True)
            (directory / block.file).write_text(block.text)
        elif (block.not_run or block.system) and block.language in RUN:
            why = block.not_run or f"changes its host: {SYSTEMS[block.system]} runs it"
            print(f"ok - {name} # SKIP {why}", flush=True)
        elif block.runs:
            if shell.has_ended():  # by the previous block, which had to fail, or has
                shell = Shell(directory, scratch)
            wrong = run_block(shell, block, directory)
            print(f"{'not ' if wrong else ''}ok - {name}", *(f"# {line}" for line in wrong), sep="\n", flush=True)
            broken |= bool(wrong)
    shell.close()
    return broken


def print_needs(page: Path) -> None:
    """Print the needs of a page: "root", "user": blocks for them; "podman", "index": used by the blocks."""
    blocks = read(page)
    text = "".join(block.text for block in blocks if block.runs)
    for user, word in ((False, "root"), (True, "user")):
        if any(block.user == user and (block.runs or block.not_run) for block in blocks):
            print(word)
    if "podman" in text:
        print("podman")
    if re.search(r"\bpip3? |--with\b|dependencies=", text):
        print("index")


def main() -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--needs", action="store_true", help="print the needs of the page, and run nothing")
    parser.add_argument("--user", action="store_true", help="run the blocks of an ordinary user, not those of root")
    parser.add_argument("--in", dest="system", choices=SYSTEMS, default="", help="run the blocks for this system only")
    parser.add_argument("page", type=Path)
    parser.add_argument("title", nargs="?", default="")
    options = parser.parse_args()
    title = options.title or str(options.page)
    try:
        if options.needs:
            print_needs(options.page)
            return 0
        return int(run_page(options.page, title, user=options.user, system=options.system))
    except PageError as error:
        print(f"{title}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
