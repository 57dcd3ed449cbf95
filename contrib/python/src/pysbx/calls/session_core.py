"""The heart of a session: a container, requests to it one after the other, and code that runs in it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from pysbx.base.handles import Handle
from pysbx.base.option_names import current
from pysbx.calls.baseline import Baseline
from pysbx.calls.call import Result, find_class_for, open_answer, request_for
from pysbx.calls.execution import (
    TIMED_OUT,
    Execution,
    answered,
    as_texts,
    checked_input,
    execution,
    note_cancelled,
    run_request,
    unanswered,
)
from pysbx.calls.tools import Tools, as_tools
from pysbx.container.exchange import exchange, hint_for, text, timeout_error
from pysbx.container.streams import check_callbacks, forward, output_callback
from pysbx.errors import (
    SandboxError,
    SandboxPausedError,
)
from pysbx.options.keywords import OPTIONS, SandboxOptions, Unpack
from pysbx.options.options import Options, make_options

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from pysbx.calls.attach import Reference
    from pysbx.calls.forward import Forward
    from pysbx.calls.processes import Command, Process
    from pysbx.calls.program import Program
    from pysbx.calls.saved import Checkpoint, Saved
    from pysbx.calls.terminal import Terminal
    from pysbx.calls.tool_calls import ToolHost
    from pysbx.container.bundle import Bundle
    from pysbx.container.container import Container, Message

# Seconds from the interrupt at the end of the time of a run until the session is killed.
PATIENCE_SEC = 3.0
# Seconds for requests that run no code of the user's, however short the limit of that is.
OWN_SEC = 30.0
INTERRUPTED = "KeyboardInterrupt"
Hears = Callable[[str], None]
P = ParamSpec("P")
T = TypeVar("T")
# The requests that carry out code, which can be interrupted; and those whose outcome is an Execution.
REPORTED = ("run", "shell")
CODE = (*REPORTED, "call", "complete")
# Those during which the code may call tools.
CALLING = ("run", "call")
# Of a prompt: seconds for the names that continue what was typed, and bounds of them.
COMPLETE_SEC = 2.0
MAX_TYPED, MAX_COMPLETIONS = 200, 200


def _marked(late: str) -> str:
    """Return text that processes and threads of earlier runs have written after the end of these, with a mark."""
    end = "" if late.endswith("\n") else "\n"
    return f"[late output of an earlier run]\n{late}{end}[end of late output]\n"


def _hand_on_late(container: Container, *, between: bool) -> str:
    """Return the text of earlier runs, with a mark, and hand it on as standard error.

    Args:
        container: the container.
        between: no run is in progress, so all text is such.
    """
    heard, container.streams.on_output = container.streams.on_output, None
    try:
        said = container.streams.take_late(between=between)
    finally:
        container.streams.on_output = heard
    marked = _marked(said) if said else ""
    if marked and heard is not None:
        heard("stderr", marked)
    return marked


def _note_timeout(fields: dict[str, Any], seconds: float, options: Options) -> None:
    """Change the fields of an Execution if its code has ended by the interrupt at the end of its time."""
    error = fields["error"]
    if error is not None and error.type == INTERRUPTED:
        said = str(timeout_error(seconds, "interrupted"))
        fields["error"] = replace(error, type="Timeout", message=said, hint=hint_for("Timeout", said, (), options))
        fields |= {"timed_out": True, "exit_code": TIMED_OUT}


class Core(Handle, ABC):
    """A session without its files and without saved states: see Sandbox."""

    def __init__(
        self,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        **changes: Unpack[SandboxOptions],
    ) -> None:
        """Prepare the session; it starts at its first use.

        Args:
            on_stdout: called with text of standard output as it comes.
            on_stderr: called with text of standard error as it comes.
            tools: functions of this program that the code may call, by name: see Tools.
            changes: options of the sandbox by name, as of the decorator; timeout_sec is that of each run.
        """
        self._prepare(make_options(**changes), on_stdout, on_stderr, tools)

    def _prepare(
        self,
        chosen: Options,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        cancel: int = -1,
    ) -> None:
        """Prepare the session with options that are checked already.

        Args:
            chosen: the sandbox.
            on_stdout: see the class, as on_stderr and tools.
            on_stderr: the same.
            tools: the same.
            cancel: see Container; not of the session's forks.
        """
        self._tools: ToolHost | None = None
        if (listed := as_tools(tools)) is not None:
            from pysbx.calls.tool_calls import ToolHost  # noqa: PLC0415 (few sessions have some)

            self._tools = ToolHost(listed)
        self.options = replace(chosen, session=True, tools=self._tools is not None)
        self._on_output = output_callback(on_stdout, on_stderr)
        # The streams that have a callback. Of calls, the text of the others goes to sys.stderr.
        self._heard = [name for name, given in (("stdout", on_stdout), ("stderr", on_stderr)) if given]
        self._container: Container | None = None
        self._bundle: Bundle | None = None
        self._ended = ""
        self._sites: list[Path] = []  # of the packages that were added
        self._shares_streams = False  # with processes or threads of earlier runs
        self._checkpoints: list[Checkpoint] = []
        self._parked: Saved | None = None
        self._copies = 0  # of its process, that it has made; they are numbered
        self._saves: set[int] = set()  # numbers of those that are being saved
        self._spent_sec = 0.0  # CPU time of containers that this session had before
        self._cancel = cancel
        self._paused = False
        self._baseline = Baseline()
        self._reference: Reference | None = None
        self._lock = threading.RLock()
        self._forwards: list[Forward] = []
        self._terminals: list[Terminal] = []

    def __repr__(self) -> str:
        """Return its state and its packages."""
        named = f", {', '.join(self.options.dependencies)}" if self.options.dependencies else ""
        if self._ended:
            state = f"ended: {self._ended}"
        elif self._paused or self._parked is not None:
            state = "paused" if self._paused else "parked"
        else:
            state = "not started" if self._container is None else "started"
        return f"<{type(self).__name__}: {state}{named}>"

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs: from another thread, or a signal handler.

        While none runs nothing happens.
        """
        container = self._container  # which another thread may be parking
        # An interpreter that is still starting would end.
        if container is not None and container.has_begun():
            container.interrupt()

    @property
    def _python(self) -> tuple[int, int] | None:
        """Major and minor version of its Python, as the sandbox says; None before its first use."""
        return None if self._container is None else self._container.version

    @property
    def ended(self) -> str:
        """Why the session has ended; "" while it can go on."""
        return self._ended

    @property
    def _cpu_sec(self) -> float:
        """CPU time that all processes of the session have used, also between runs, in seconds.

        It is at most ten milliseconds old.
        """
        return self._spent_sec + (0.0 if self._container is None else self._container.recent_cpu_sec)

    @abstractmethod
    def _replace(self, saved: Saved) -> None:
        """Continue from a saved state, in a new container instead of the present one."""

    @property
    def _is_of_parent(self) -> bool:
        """Whether this process is a fork of the one that has the session: two would read each other's answers."""
        if self._container is None:
            return False
        from pysbx.container import reaper  # noqa: PLC0415 (for the first call)

        return not reaper.owns(self._container.name)

    def _refuse_fork(self) -> None:
        """Raise an error in a fork of the process that has the session."""
        if self._is_of_parent:
            advice = "make another one here, or take its reference before the fork, and attach() to that"
            raise SandboxError(f"the session belongs to the process of which this one is a fork: {advice}")

    def _started(self) -> tuple[Container, Bundle]:
        if self._ended:
            raise SandboxError(f"the session has ended: {self._ended}")
        self._refuse_fork()
        if self._paused:
            raise SandboxPausedError("the session is paused: resume it first")
        if self._parked is not None:
            self._replace(self._parked)
        if self._container is None or self._bundle is None:
            from pysbx.calls.prepare import prepare  # noqa: PLC0415 (for the first call)
            from pysbx.container import ready  # noqa: PLC0415 (for the first call)

            self._bundle = prepare(self.options)
            self._container = ready.take(self._bundle, self._on_output, self._cancel)
        return self._container, self._bundle

    def _exchange(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Message:
        if self._tools is not None and not self._tools.connected and request["op"] in CALLING:
            if passed >= 0:
                raise SandboxError("the session has tools, and its code cannot be typed at a prompt")
            with self._tools.connect(self._started()[0]) as (about, way):
                return self._exchange(request | about, timeout_sec, way)
        container, bundle = self._started()
        patience = None
        heard = container.streams.on_output
        if request["op"] in CODE:
            patience = PATIENCE_SEC
            request = {**request, "asks_shared": True}
        else:
            container.streams.on_output = None
            if timeout_sec is None:
                timeout_sec = self._own_sec()
        try:
            answer = exchange(
                container, bundle, request, last=False, timeout_sec=timeout_sec, patience=patience, passed=passed
            )
            self._shares_streams |= answer.get("shared") is True
            return answer
        except BaseException as error:
            # In the middle of an exchange there is no way back to its beginning.
            said, kind = str(error), type(error).__name__
            self._ended = said if said and isinstance(error, SandboxError) else f"{kind}: {said}" if said else kind
            container.kill()
            if request["op"] not in REPORTED:  # its files are collected yet
                container.close()
            raise
        finally:
            container.streams.on_output = heard

    def _separate_streams(self, container: Container) -> None:
        """Give the next run streams of its own if processes or threads of earlier ones have the present ones."""
        if not self._shares_streams:
            return
        self._shares_streams = False
        with contextlib.ExitStack() as given:
            for number, end in container.streams.renew(given).items():
                if self._exchange({"op": "stream", "number": number}, passed=end).get("kept") is True:
                    container.streams.keep(number)

    def run(
        self,
        source: str,
        argv: Iterable[str | os.PathLike[str]] = (),
        stdin: bytes | str = b"",
        *,
        timeout_sec: float | None = None,
        on_stdout: Hears | None = None,
        on_stderr: Hears | None = None,
    ) -> Execution:
        """Run source text in the session.

        Args:
            source: the program, or the next part of one.
            argv: arguments for this run.
            stdin: what it reads from standard input; the next run finds that empty.
            timeout_sec: seconds until it gets KeyboardInterrupt; by default those of the session. If it goes on for
                three seconds more, the session is killed.
            on_stdout: called with text of standard output of this run as it comes, instead of the session's callback.
            on_stderr: the same of standard error.

        Raises:
            SandboxError: the session has ended, or could not be started.
            TypeError: an argument is of another type.
            ValueError: the input is too large, or the limit of time is none.
        """
        arguments = ["-c", *as_texts(argv, "argv")]
        request = run_request(source, self.options, last=False, argv=arguments, stdin=stdin)
        return self._carry_out_heard(request, timeout_sec, on_stdout, on_stderr)

    def _run_typed(self, source: str, stdin: int = -1) -> Execution:
        """Run source text that was typed at a prompt: its value gets the name `_`.

        Args:
            source: the text.
            stdin: a descriptor that it reads from: a pipe, because the code could type into a terminal. -1 is none.
        """
        request = run_request(source, self.options, last=False, argv=[""], prompt=True)
        return self._carry_out(request, None, stdin)

    def _complete(self, typed: str) -> list[str]:
        """Return the names in the session that begin with a text, as for a prompt; none if that takes too long."""
        with self._lock:
            answer = self._exchange({"op": "complete", "text": typed[:MAX_TYPED]}, COMPLETE_SEC)
        found = answer.get("names")
        names = found[:MAX_COMPLETIONS] if isinstance(found, list) else []
        return [name for name in names if isinstance(name, str) and len(name) <= MAX_TYPED]

    def _carry_out_heard(
        self,
        request: Message,
        timeout_sec: float | None,
        on_stdout: Hears | None,
        on_stderr: Hears | None,
        passed: int = -1,
    ) -> Execution:
        """Carry out a request for a run whose output goes to callbacks of its own, if it has any."""
        check_callbacks(on_stdout, on_stderr)
        with self._lock:
            container = self._started()[0]
            own = {"stdout": on_stdout, "stderr": on_stderr}
            before = container.streams.on_output

            def heard(name: str, said: str) -> None:
                one = own[name]
                if one is not None:
                    one(said)
                elif before is not None:
                    before(name, said)

            container.streams.on_output = heard if any(own.values()) else before
            try:
                return self._carry_out(request, timeout_sec, passed)
            finally:
                container.streams.on_output = before

    def _exchange_in_turn(self, request: Message, timeout_sec: float | None, passed: int = -1) -> Message:
        """Send a request that runs no code of the user's, and return the answer."""
        with self._lock:
            return self._exchange(request, timeout_sec, passed)

    def _carry_out(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Execution:
        """Carry out a request for a run, and return how it went; see run and exchange.exchange."""
        if timeout_sec is not None:
            OPTIONS["timeout_sec"].check(timeout_sec)
        from pysbx.container.container import Usage  # noqa: PLC0415 (for the first call)
        from pysbx.container.process import Cancelled  # noqa: PLC0415 (for the first call)

        def used() -> Usage:
            found = container.usage
            return Usage(time.monotonic() - began, max(0.0, found.cpu_sec - spent), found.peak_memory_mb)

        with self._lock:
            container, bundle = self._started()
            late = _hand_on_late(container, between=True)
            began, spent = time.monotonic(), container.recent_cpu_sec
            try:
                self._separate_streams(container)
                fields = answered(self._exchange(request, timeout_sec, passed), self.options)
                if container.interrupted:
                    seconds = self.options.timeout_sec if timeout_sec is None else timeout_sec
                    _note_timeout(fields, seconds, self.options)
            except SandboxError as error:
                fields = unanswered(error, self.options)
            except Cancelled as ended:
                note_cancelled(ended, container, bundle, used())
                raise
            done = execution(fields, container, bundle, used(), self.options.collect)
            late += _hand_on_late(container, between=False)
            if self._ended:
                container.close()
            return replace(done, stderr=f"{late}{done.stderr}") if late else done

    def shell(
        self,
        command: Command,
        stdin: bytes | str = b"",
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        on_stdout: Hears | None = None,
        on_stderr: Hears | None = None,
    ) -> Execution:
        """Run a shell command in the session, and wait for its end.

        Args:
            command: a string for the shell, which is bash if the sandbox has it; or a program and its arguments.
            stdin: what it reads from standard input.
            cwd: the directory where it starts; by default the current one of the session.
            env: variables that it gets besides those of the session.
            timeout_sec: seconds until it is ended; by default those of the session, which goes on.
            on_stdout: see run.
            on_stderr: the same.

        Returns:
            How it went. The exit code is that of the command: 127 if it cannot be started.

        Raises:
            SandboxError: the session has ended, or a profile enforces the static analysis of code.
            TypeError: an argument is of another type.
            ValueError: the input is too large, or the limit of time is none.
        """
        from pysbx.calls.processes import command_request  # noqa: PLC0415 (few sessions need it)

        request = command_request("shell", command, self.options, cwd, env)
        return self._carry_out_heard(request | {"stdin": checked_input(stdin)}, timeout_sec, on_stdout, on_stderr)

    def start(
        self, command: Command, *, cwd: str | os.PathLike[str] = "", env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a command in the background.

        Args:
            command: see shell.
            cwd: the same.
            env: the same.

        Raises:
            SandboxError: it cannot be started; or as shell.
            TypeError: an argument is of another type.
        """
        from pysbx.calls.processes import Process, check_started, command_request  # noqa: PLC0415 (few sessions need it)

        request = command_request("start", command, self.options, cwd, env)
        pid = check_started(self._ask(request | {"keep": self._keep}))
        said = command if isinstance(command, str) else " ".join(request["command"])
        return Process(self._ask, pid, said, self._keep)

    def _process(self, pid: int) -> Process:
        """Return a process in the background by its number; a use of it says whether there is one."""
        from pysbx.calls.processes import Process  # noqa: PLC0415 (few sessions need it)

        return Process(self._ask, pid, "", self._keep)

    def processes(self) -> list[Process]:
        """Return the processes in the background: those that run, and the last ones that have ended."""
        from pysbx.calls.processes import processes_of  # noqa: PLC0415 (few sessions need it)

        return processes_of(self._ask({"op": "processes"}), self._ask, self._keep)

    @property
    def _keep(self) -> int:
        return self.options.output_limit

    def _own_sec(self) -> float:
        """Return the seconds for a request that runs no code of the user's."""
        return max(self.options.timeout_sec, OWN_SEC)

    def _ask(self, request: Message, wait_sec: float = 0.0) -> Message:
        """Send a request that takes no time but a wait that it names, and return the answer."""
        with self._lock:
            return self._exchange(request, self._own_sec() + wait_sec)

    def terminal(
        self,
        command: Command = "",
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
    ) -> Terminal:
        """Start a program at a terminal of the session; runs of the session go on beside it.

        Args:
            command: see shell; by default a shell that reads commands.
            rows: lines of the terminal.
            columns: characters of a line.
            cwd: see shell.
            env: the same; TERM is xterm-256color.

        Raises:
            SandboxError: the program cannot be started; or as shell.
            TypeError: an argument is of another type.
            ValueError: a terminal cannot have this size.
        """
        import socket  # noqa: PLC0415 (few sessions need it)

        from pysbx.calls.processes import command_request  # noqa: PLC0415 (few sessions need it)
        from pysbx.calls.terminal import LIMIT, NEEDS_CONTAINER, SHELL, Terminal, check_size  # noqa: PLC0415 (few sessions need it)

        check_size(rows, columns)
        if self.options.isolation == "process":
            raise SandboxError(NEEDS_CONTAINER)
        self._terminals = [one for one in self._terminals if not one.closed]
        if len(self._terminals) >= LIMIT:
            raise SandboxError(f"the session has {LIMIT} terminals, which is the most: close one")
        request = command_request("terminal", command or SHELL, self.options, cwd, env)
        request |= {"rows": rows, "columns": columns}
        made = Terminal(self._open(request, "the terminal cannot be started", socket.SOCK_SEQPACKET))
        try:
            made.begin()
        except BaseException:
            made.close()
            raise
        self._terminals.append(made)
        return made

    def forward(self, port: int) -> Forward:
        """Return a local socket that leads to a port of the session, where a server of it listens.

        It is a Unix socket, `forward.path`, which only the user of this program can use. The server may start
        later.

        Raises:
            SandboxError: the session has ended, or its options allow it no network.
            ValueError: there is no such port.
        """
        from pysbx.calls.forward import Forward, check_port  # noqa: PLC0415 (asyncio: few sessions need it)

        made = Forward(check_port(port))
        try:
            made.begin(self._open_control())
        except BaseException:
            made.close()
            raise
        self._forwards.append(made)
        return made

    def _open_control(self) -> socket.socket:
        """Start a process in the sandbox that connects to its ports, and return the socket by which it is told to.

        Raises:
            SandboxError: see forward.
        """
        if self.options.allow_network.kind == "none":
            raise SandboxError(f"the session has no network: {current().options['loopback']}")
        import socket  # noqa: PLC0415 (few sessions need it)

        return self._open({"op": "forward"}, "the port cannot be forwarded", socket.SOCK_STREAM)

    def _open(self, request: Message, failed: str, kind: int) -> socket.socket:
        """Start a process in the sandbox that serves a socket, and return the other end of it.

        Args:
            request: what the process does.
            failed: what has failed if it cannot be started, for the error.
            kind: of the socket.
        """
        import socket  # noqa: PLC0415 (few sessions need it)

        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs:
            try:
                with self._lock:
                    answer = self._exchange(request, passed=theirs.fileno())
                if isinstance(answer.get("error"), dict):
                    raise SandboxError(f"{failed}: {text(answer['error'], 'message')}")
            except BaseException:
                ours.close()
                raise
        return ours

    def _open_program(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        merged: bool = False,
    ) -> Program:
        """Start a program with pipes; other uses of the session go on beside it.

        Args:
            command: see shell.
            cwd: the same.
            env: the same.
            merged: whether its standard error goes to its standard output.

        Raises:
            SandboxError: see shell.
            TypeError: an argument is of another type.
        """
        import socket  # noqa: PLC0415 (few sessions need it)

        from pysbx.calls.processes import command_request  # noqa: PLC0415 (few sessions need it)
        from pysbx.calls.program import NEEDS_CONTAINER, Program  # noqa: PLC0415 (few sessions need it)

        if self.options.isolation == "process":
            raise SandboxError(NEEDS_CONTAINER)
        request = command_request("program", command, self.options, cwd, env) | {"merged": merged}
        return Program(self._open(request, "the program cannot be started", socket.SOCK_SEQPACKET))

    @overload
    def call(
        self,
        function: Callable[..., T],
        /,
        *arguments: Any,
        result: Result,
        types: Iterable[type] = ...,
        **named: Any,
    ) -> T: ...
    @overload
    def call(self, function: Callable[..., T], /, *arguments: Any, types: Iterable[type], **named: Any) -> T: ...
    @overload
    def call(self, function: Callable[P, Coroutine[Any, Any, T]], /, *arguments: P.args, **named: P.kwargs) -> T: ...
    @overload
    def call(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T: ...
    def call(
        self,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        result: Any = "typed",
        types: Any = (),
        **named: Any,
    ) -> Any:
        """Call a function in the session and return what it returns; see call.call.

        Raises:
            SandboxError: one of its subclasses.
            ValueError: there is no such result.
        """
        request = request_for(self.options, function, arguments, named, result)
        with self._lock:
            container, bundle = self._started()
            try:
                answer = self._exchange(request)
            finally:
                # Output of the function does not belong to the next run, which has a limit of its own.
                for name, said in container.streams.take_all().items():
                    if said and name not in self._heard:
                        forward(said)
            error = answer.get("error")
            if container.interrupted and isinstance(error, dict) and error.get("type") == INTERRUPTED:
                raise timeout_error(bundle.options.timeout_sec, "interrupted")
        return open_answer(answer, self.options, result, find_class_for(function, types))
