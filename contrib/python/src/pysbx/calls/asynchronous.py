"""run_code and sessions for programs that use asyncio: each call runs in a thread, and can be cancelled."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from pysbx.base.handles import Handle
from pysbx.base.threads import run_in_thread, run_interrupted
from pysbx.calls.call import Result
from pysbx.calls.execution import Execution, Files, run_chosen
from pysbx.calls.processes import Command, Process
from pysbx.calls.session import Sandbox
from pysbx.calls.terminal import ENDED, Terminal, data_packets, size_packet
from pysbx.calls.tools import Tools, as_tools
from pysbx.errors import SandboxError
from pysbx.inside.wire import TERMINAL_PACKET
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import Options, make_options

P = ParamSpec("P")
T = TypeVar("T")
Use = Callable[[Callable[[], Any]], Awaitable[Any]]


def _in_thread(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that calls one of Sandbox or Process in a thread: its parameters and text are the same."""

    @functools.wraps(method)
    async def called(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        done: T = await self._use(lambda: method(self._blocking, *arguments, **named))
        return done

    return called


async def run_code_async(
    source: str | bytes,
    *,
    files: Files | None = None,
    argv: Iterable[str | os.PathLike[str]] = (),
    stdin: bytes | str = b"",
    module: str = "",
    name: str = "-c",
    on_stdout: Callable[[str], None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
    **changes: Unpack[SandboxOptions],
) -> Execution:
    """Run source text as a program in a fresh sandbox: see run_code. Cancelling it kills the sandbox.

    The callbacks are called in another thread, and so are tools, unless they are asynchronous. At most 32 calls run at
    once; further ones wait.
    """
    listed = as_tools(tools)
    if listed is not None:
        listed = listed.in_loop(asyncio.get_running_loop())
    return await run_in_thread(
        lambda cancel: run_chosen(
            make_options(**changes),
            source,
            files=files,
            argv=argv,
            stdin=stdin,
            module=module,
            name=name,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            tools=listed,
            cancel=cancel,
        )
    )


def _close_all(sessions: Iterable[Sandbox]) -> None:
    for one in sessions:
        one.close()


class AsyncTerminal(Handle):
    """A program at a terminal, for asyncio: see Terminal. Close it, or use it in an `async with` statement.

    The socket of the terminal is not closed before the tasks that wait for it have heard of the end.
    """

    def __init__(self, terminal: Terminal) -> None:
        """Take a terminal: see AsyncSandbox.terminal."""
        self._terminal = terminal
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        terminal.socket.setblocking(False)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program, once read() has come to the end; None before, or if it is not known."""
        return self._terminal.exit_code

    async def read(self) -> bytes:
        """Return the output that comes next; b"" at its end, when the program has ended."""
        async with self._reading:
            if self._terminal.ended:
                return b""
            try:
                packet = await asyncio.get_running_loop().sock_recv(self._terminal.socket, TERMINAL_PACKET)
            except OSError:  # the process in the sandbox that has the terminal is gone
                packet = b""
            return self._terminal.taken(packet)

    async def write(self, data: bytes) -> None:
        """Type bytes: see Terminal.write."""
        await self._send(data_packets(data))

    async def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size: see Terminal.resize."""
        await self._send([size_packet(rows, columns)])

    async def _send(self, packets: list[bytes]) -> None:
        async with self._writing:
            try:
                for packet in packets:
                    await asyncio.get_running_loop().sock_sendall(self._terminal.socket, packet)
            except OSError as error:
                raise SandboxError(ENDED) from error

    async def close(self) -> None:
        """Hang up: see Terminal.close."""
        self._terminal.closed = True
        self._terminal.hang_up()
        async with self._reading, self._writing:
            self._terminal.close()

    async def __aenter__(self) -> AsyncTerminal:
        """Return it."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close it."""
        await self.close()


class AsyncProcess(Handle):
    """A process in the background of a session, for asyncio: see Process.

    Uses of the session take turns, so a read or a wait keeps others waiting. Cancelling it ends it.
    """

    def __init__(self, use: Use, process: Process) -> None:
        """Take a process: see AsyncSandbox.start."""
        self._use, self._blocking = use, process
        self.pid, self.command = process.pid, process.command

    def __repr__(self) -> str:
        """Return it as the prompt shows it."""
        return f"<AsyncProcess {self.pid}: {self.command}>"

    read = _in_thread(Process.read)
    write = _in_thread(Process.write)
    signal = _in_thread(Process.signal)
    wait = _in_thread(Process.wait)

    async def exit_code(self) -> int | None:
        """Return its exit code, or None as long as it runs."""
        code: int | None = await self._use(lambda: self._blocking.exit_code)
        return code


class AsyncSandbox(Handle):
    """A session for asyncio: see Sandbox. Use it in an `async with` statement.

    Cancelling a run interrupts its code, and the session goes on. Callbacks are called in another thread. An
    installation cannot be cancelled before pip is done. asyncio connects to a forwarded port by
    `asyncio.open_unix_connection(forward.path)`.

    Attributes:
        sandbox: the session itself. Its methods block.
    """

    def __init__(
        self,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        **changes: Unpack[SandboxOptions],
    ) -> None:
        """Prepare the session; see Sandbox. Asynchronous tools run in the event loop of its uses."""
        self.sandbox = Sandbox(on_stdout=on_stdout, on_stderr=on_stderr, tools=tools, **changes)
        self._turn = asyncio.Lock()  # uses wait for each other here, and not in a thread

    def __repr__(self) -> str:
        """Return what the session itself says."""
        return f"<Async{repr(self.sandbox)[1:]}"

    async def __aenter__(self) -> AsyncSandbox:
        """Start the session."""
        await self._use(self.sandbox.__enter__, Sandbox.close)
        return self

    async def __aexit__(self, *exception: object) -> None:
        """End the session and all its processes."""
        await self.close()

    async def _use(self, work: Callable[[], T], discard: Callable[[T], None] | None = None) -> T:
        async with self._turn:
            if self.sandbox._tools is not None:
                self.sandbox._tools.loop = asyncio.get_running_loop()
            return await run_interrupted(work, self.sandbox.interrupt, discard)

    @property
    def _blocking(self) -> Sandbox:
        return self.sandbox

    run = _in_thread(Sandbox.run)
    shell = _in_thread(Sandbox.shell)
    put = _in_thread(Sandbox.put)
    put_directory = _in_thread(Sandbox.put_directory)
    changes = _in_thread(Sandbox.changes)
    commit = _in_thread(Sandbox.commit)
    discard = _in_thread(Sandbox.discard)
    mark = _in_thread(Sandbox.mark)
    get = _in_thread(Sandbox.get)
    remove = _in_thread(Sandbox.remove)
    files = _in_thread(Sandbox.files)
    save = _in_thread(Sandbox.save)
    install = _in_thread(Sandbox.install)
    forward = _in_thread(Sandbox.forward)
    snapshot = _in_thread(Sandbox.snapshot)
    checkpoint = _in_thread(Sandbox.checkpoint)
    rollback = _in_thread(Sandbox.rollback)
    park = _in_thread(Sandbox.park)
    pause = _in_thread(Sandbox.pause)
    resume = _in_thread(Sandbox.resume)

    @overload
    async def call(
        self,
        function: Callable[..., T],
        /,
        *arguments: Any,
        result: Result,
        types: Iterable[type] = ...,
        **named: Any,
    ) -> T: ...
    @overload
    async def call(self, function: Callable[..., T], /, *arguments: Any, types: Iterable[type], **named: Any) -> T: ...
    @overload
    async def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], /, *arguments: P.args, **named: P.kwargs
    ) -> T: ...
    @overload
    async def call(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T: ...
    async def call(
        self,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        result: Any = "typed",
        types: Any = (),
        **named: Any,
    ) -> Any:
        """Call a function in the session: see Sandbox.call."""
        return await self._use(lambda: self.sandbox.call(function, *arguments, result=result, types=types, **named))

    async def start(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
    ) -> AsyncProcess:
        """Start a command in the background: see Sandbox.start."""
        return AsyncProcess(self._use, await self._use(lambda: self.sandbox.start(command, cwd=cwd, env=env)))

    async def processes(self) -> list[AsyncProcess]:
        """Return the processes in the background: see Sandbox.processes."""
        return [AsyncProcess(self._use, one) for one in await self._use(self.sandbox.processes)]

    @overload
    async def fork(self) -> AsyncSandbox: ...

    @overload
    async def fork(self, count: int) -> list[AsyncSandbox]: ...

    async def fork(self, count: int | None = None) -> AsyncSandbox | list[AsyncSandbox]:
        """Return a second session that continues from the state of this one, or several: see Sandbox.fork."""
        if count is None:
            return self._of(await self._use(self.sandbox.fork, Sandbox.close))
        forks = await self._use(lambda: self.sandbox.fork(count), _close_all)
        return [self._of(one) for one in forks]

    @classmethod
    def _of(cls, sandbox: Sandbox) -> AsyncSandbox:
        made = cls()
        made.sandbox = sandbox
        return made

    @classmethod
    async def restore(
        cls,
        path_or_name: str | os.PathLike[str],
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        tools: Tools | Mapping[str, Callable[..., Any]] | None = None,
        **changes: Unpack[SandboxOptions],
    ) -> AsyncSandbox:
        """Return a session that continues from a file of snapshot(): see Sandbox.restore."""
        made = cls(on_stdout=on_stdout, on_stderr=on_stderr, tools=tools, **changes)
        await made._use(lambda: made.sandbox._begin_from(path_or_name), lambda _: made.sandbox.close())
        return made

    @property
    def reference(self) -> str:
        """A text by which other processes of the same user find the session: see Sandbox.reference."""
        return self.sandbox.reference

    @staticmethod
    async def attach(reference: str) -> AsyncSandbox:
        """Return the session of another process: see Sandbox.attach."""
        made = AsyncSandbox()
        made.sandbox = await asyncio.to_thread(Sandbox.attach, reference)
        return made

    async def terminal(
        self,
        command: Command = "",
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
    ) -> AsyncTerminal:
        """Start a program at a terminal of the session: see Sandbox.terminal. Runs of the session go on beside it."""
        start = functools.partial(self.sandbox.terminal, command, rows=rows, columns=columns, cwd=cwd, env=env)
        return AsyncTerminal(await self._use(start))

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs: see Sandbox.interrupt."""
        await asyncio.to_thread(self.sandbox.interrupt)

    async def close(self) -> None:
        """End the session; once more is no error."""
        await self._use(self.sandbox.close)

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        return self.sandbox.paused

    @property
    def parked(self) -> bool:
        """Whether the session is parked."""
        return self.sandbox.parked

    @property
    def ended(self) -> str:
        """Why the session has ended; "" while it can go on."""
        return self.sandbox.ended

    @property
    def options(self) -> Options:
        """Return the options of the session."""
        return self.sandbox.options
