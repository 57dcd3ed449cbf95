"""`pysbx shell`: a prompt whose statements run in one session."""

from __future__ import annotations

import argparse
import codeop
import contextlib
import os
import re
import readline
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pysbx.base.directories import state_directory
from pysbx.base.option_names import spoken_as
from pysbx.base.text import CONTROLS, writer
from pysbx.base.threads import Cancel
from pysbx.calls.execution import Execution, unsaid
from pysbx.calls.session import Sandbox
from pysbx.container.process import Cancelled
from pysbx.errors import SandboxError
from pysbx.options import command_line
from pysbx.options.options import make_options
from pysbx.version import VERSION

HISTORY, MAX_HISTORY = "history", 10_000
INDENT = "    "
# Ctrl-C that code catches: so many times, and the session is ended.
ENOUGH = 3
INTERRUPTED = 130
CHUNK = 4096
NETWORK = {"none": "no network", "localhost": "a network of its own", "host": "the network of the host"}


def add_shell(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pysbx shell`."""
    parser.add_argument("--raw", action="store_true", help="pass control characters to the terminal")
    command_line.add(parser)
    parser.set_defaults(function=shell)


def is_typed() -> bool:
    """Tell whether statements come from a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Remember the lines that are typed from one shell to the next; without a place for them, do without."""
    if not is_typed():
        yield
        return
    path: Path | None = None
    with contextlib.suppress(OSError, SandboxError, RuntimeError):
        path = state_directory() / HISTORY
        path.touch(mode=0o600)
        readline.read_history_file(path)
    before = readline.get_current_history_length()
    try:
        yield
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                readline.set_history_length(MAX_HISTORY)
                if hasattr(readline, "append_history_file"):  # libedit lacks it
                    # Another shell may have written lines meanwhile.
                    readline.append_history_file(readline.get_current_history_length() - before, path)
                else:
                    readline.write_history_file(path)


def _completer(session: Sandbox) -> Callable[[str, int], str | None]:
    """Return a function for readline that completes names of the session."""
    found: list[str] = []

    def complete(text: str, number: int) -> str | None:
        if number == 0:
            found.clear()
            if not text.strip():
                return INDENT
            with contextlib.suppress(SandboxError):
                # The sandbox has made the names, and the terminal shows them.
                found.extend(name for name in session._complete(text) if not re.search(CONTROLS, name))
        return found[number] if number < len(found) else None

    return complete


class _Keyboard:
    """The lines that are typed while a statement runs: they go into a pipe that the sandbox reads.

    The sandbox does not get the terminal itself, because a program can type into its terminal. Lines that the statement
    has not read are for the prompt.
    """

    def __init__(self) -> None:
        self.unread: list[str] = []

    @contextlib.contextmanager
    def passed(self) -> Iterator[int]:
        """Yield the descriptor that the statement reads from."""
        reading, writing = os.pipe()
        waking, wake = os.pipe()
        feeder = threading.Thread(target=self._feed, args=(writing, waking))
        feeder.start()
        try:
            yield reading
        finally:
            os.close(wake)
            feeder.join()
            os.close(waking)
            os.set_blocking(reading, False)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(reading, CHUNK):
                    self.unread += data.decode(errors="replace").splitlines()
            os.close(reading)

    @staticmethod
    def _feed(writing: int, waking: int) -> None:
        os.set_blocking(writing, False)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(waking, select.POLLIN)
        try:
            while not any(descriptor == waking for descriptor, _ in poll.poll()):
                data = os.read(0, CHUNK)
                if not data:  # Ctrl-D: the end of its input
                    return
                with contextlib.suppress(BlockingIOError):  # as a terminal does if nothing reads for long
                    os.write(writing, data)
        except OSError:  # the terminal is gone
            pass
        finally:
            os.close(writing)


class _Shell:
    """A session, and the terminal or file that its statements come from."""

    def __init__(self, session: Sandbox, arguments: argparse.Namespace, cancel: Cancel) -> None:
        self._session = session
        self._cancel = cancel
        self._write, self._complain = (writer(stream, raw=arguments.raw) for stream in (sys.stdout, sys.stderr))
        self._keyboard = _Keyboard()
        self._typed = is_typed()
        self._pressed = 0

    def greet(self) -> None:
        """Say what the prompt leads to."""
        options = self._session.options
        self._session.files()  # it begins
        version = ".".join(map(str, self._session._python or ()))
        network = NETWORK.get(options.allow_network.kind) or str(options.allow_network)
        limits = f"{network}, {options.memory_mb} MiB, {options.timeout_sec:g} seconds for each statement"
        self._write(f"Python {version} in a sandbox of pysbx {VERSION}: {limits}\n")
        self._write("Ctrl-C interrupts a statement, Ctrl-D ends the shell\n")

    def _line(self, prompt: str) -> str:
        if self._keyboard.unread:
            line = self._keyboard.unread.pop(0)
            self._write(f"{prompt}{line}\n")
            return line
        return input(prompt)

    def _on_interrupt(self, *_: object) -> None:
        self._pressed += 1
        if self._pressed < ENOUGH:
            self._session.interrupt()
        else:
            self._cancel.set()

    def _run(self, source: str) -> Execution:
        self._pressed = 0
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            if not self._typed:
                return self._session._run_typed(source)
            with self._keyboard.passed() as reading:
                return self._session._run_typed(source, reading)
        finally:
            signal.signal(signal.SIGINT, before)

    def statement(self, source: str) -> int | None:
        """Run a statement, and show how it went; return an exit code if it was the last one."""
        try:
            done = self._run(source)
        except Cancelled:
            self._complain("pysbx: the statement catches Ctrl-C: the session is ended\n")
            return INTERRUPTED
        if done.value is not None:
            self._write(f"{done.value}\n")
        if done.error is not None:
            self._complain(unsaid(done))
            if done.error.hint:
                self._complain(f"hint: {done.error.hint}\n")
        return done.exit_code if done.exited or self._session.ended else None

    def loop(self) -> int:
        """Read and run statements until there are no more; return the exit code."""
        pending: list[str] = []
        while True:
            try:
                pending.append(self._line("... " if pending else ">>> "))
            except EOFError:
                print()
                return 0
            except KeyboardInterrupt:
                print()
                pending.clear()
                continue
            source = "\n".join(pending)
            if self._goes_on(source):
                continue
            pending.clear()
            code = self.statement(source)
            if code is not None:
                return code

    def _goes_on(self, source: str) -> bool:
        """Tell whether a statement needs further lines."""
        if self._session.options.notebook and source.lstrip().startswith(("%", "!")):
            return source.endswith("\\")
        try:
            return codeop.compile_command(source, symbol="single") is None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return False  # the sandbox reports the error, also for source that is nested too deeply


def shell(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx shell`: a prompt whose statements run in one session."""
    write, complain = writer(sys.stdout, raw=arguments.raw), writer(sys.stderr, raw=arguments.raw)
    cancel = Cancel()
    chosen = make_options(**command_line.given(arguments))
    started = Sandbox._chosen(chosen, on_stdout=write, on_stderr=complain, cancel=cancel.descriptor)
    restored = vars(arguments).get("restore")
    try:
        if restored:
            started._begin_from(restored)
        with spoken_as("command", ["."]), started as session, _history():
            readline.set_completer(_completer(session))
            by_libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if by_libedit else "tab: complete")
            made = _Shell(session, arguments, cancel)
            if is_typed():
                made.greet()
            return made.loop()
    finally:
        cancel.close()
