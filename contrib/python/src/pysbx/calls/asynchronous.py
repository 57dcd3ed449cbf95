"""run_code and sessions for programs that use asyncio: each call runs in a thread, and can be cancelled."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pysbx.base.threads import run_in_thread, run_interrupted
from pysbx.calls.call import Result
from pysbx.calls.execution import Execution, Files, run_code
from pysbx.calls.processes import Command, Process, ProcessOutput
from pysbx.calls.session import Sandbox
from pysbx.calls.terminal import ENDED, Terminal, data_packets, size_packet
from pysbx.errors import SandboxError
from pysbx.inside.wire import TERMINAL_PACKET
from pysbx.options.keywords import SandboxOptions, Unpack
from pysbx.options.options import Options

if TYPE_CHECKING:
    from pysbx.calls.forward import Forward

T = TypeVar("T")
Use = Callable[[Callable[[], Any]], Awaitable[Any]]


async def run_code_async(
    source: str,
    *,
    files: Files | Mapping[Path, bytes | str] | None = None,
    argv: Iterable[str | os.PathLike[str]] = (),
    stdin: bytes | str = b"",
    module: str = "",
    name: str = "-c",
    on_stdout: Callable[[str], None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    options: Options | None = None,
    **changes: Unpack[SandboxOptions],
) -> Execution:
    """Run source text as a program in a fresh sandbox: see run_code. Cancelling it kills the sandbox.

    The callbacks are called in another thread. At most 32 calls run at once; further ones wait.
    """
    return await run_in_thread(
        lambda cancel: run_code(
            source,
            files=files,
            argv=argv,
            stdin=stdin,
            module=module,
            name=name,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            options=options,
            cancel=cancel,
            **changes,
        )
    )


class AsyncTerminal:
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


class AsyncProcess:
    """A process in the background of a session, for asyncio: see Process.

    Uses of the session take turns, so a read or a wait keeps others waiting. Cancelling it ends it.
    """

    def __init__(self, use: Use, process: Process) -> None:
        """Take a process: see AsyncSandbox.start."""
        self._use, self._process = use, process
        self.pid, self.command = process.pid, process.command

    def __repr__(self) -> str:
        """Return it as the prompt shows it."""
        return f"<AsyncProcess {self.pid}: {self.command}>"

    async def read(self, wait_sec: float = 0.0) -> ProcessOutput:
        """Return what it has written since the last call: see Process.read."""
        done: ProcessOutput = await self._use(lambda: self._process.read(wait_sec))
        return done

    async def write(self, data: bytes | str, *, close: bool = False) -> None:
        """Write to its standard input: see Process.write."""
        await self._use(lambda: self._process.write(data, close=close))

    async def signal(self, number: int | str) -> None:
        """Send a signal to it and the processes that it has started: see Process.signal."""
        await self._use(lambda: self._process.signal(number))

    async def wait(self, timeout_sec: float = 30.0) -> int:
        """Wait for its end, and return its exit code: see Process.wait."""
        code: int = await self._use(lambda: self._process.wait(timeout_sec))
        return code

    async def exit_code(self) -> int | None:
        """Return its exit code, or None as long as it runs."""
        code: int | None = await self._use(lambda: self._process.exit_code)
        return code


class AsyncSandbox:
    """A session for asyncio: see Sandbox. Use it in an `async with` statement.

    Cancelling a run interrupts its code, and the session goes on.

    Attributes:
        sandbox: the session itself. Its methods block.
    """

    def __init__(
        self,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        options: Options | None = None,
        **changes: Unpack[SandboxOptions],
    ) -> None:
        """Prepare the session; see Sandbox. The callbacks are called in another thread."""
        self.sandbox = Sandbox(on_stdout=on_stdout, on_stderr=on_stderr, options=options, **changes)
        self._turn = asyncio.Lock()  # uses wait for each other here, and not in a thread

    async def __aenter__(self) -> AsyncSandbox:
        """Start the session."""
        await self._use(self.sandbox.__enter__)
        return self

    async def __aexit__(self, *exception: object) -> None:
        """End the session and all its processes."""
        await self.close()

    async def _use(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await run_interrupted(work, self.sandbox.interrupt)

    async def run(
        self,
        source: str,
        argv: Iterable[str | os.PathLike[str]] = (),
        stdin: bytes | str = b"",
        *,
        timeout_sec: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> Execution:
        """Run source text in the session: see Sandbox.run. The callbacks are called in another thread."""
        heard = {"on_stdout": on_stdout, "on_stderr": on_stderr}
        return await self._use(lambda: self.sandbox.run(source, argv, stdin, timeout_sec=timeout_sec, **heard))

    async def shell(
        self,
        command: Command,
        stdin: bytes | str = b"",
        *,
        cwd: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> Execution:
        """Run a shell command in the session: see Sandbox.shell. The callbacks are called in another thread."""
        options: dict[str, Any] = {"cwd": cwd, "env": env, "timeout_sec": timeout_sec}
        options |= {"on_stdout": on_stdout, "on_stderr": on_stderr}
        return await self._use(lambda: self.sandbox.shell(command, stdin, **options))

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        result: Result = "typed",
        types: Iterable[type] = (),
        **named: Any,
    ) -> Any:
        """Call a function in the session: see Sandbox.call."""
        return await self._use(lambda: self.sandbox.call(function, *arguments, result=result, types=types, **named))

    async def put(self, files: Files | Mapping[Path, bytes | str]) -> None:
        """Write files, by path relative to /work, or absolute: see Sandbox.put."""
        await self._use(lambda: self.sandbox.put(files))

    async def get(self, path: str | os.PathLike[str], limit: int | None = None) -> bytes:
        """Return the content of a file: see Sandbox.get."""
        return await self._use(lambda: self.sandbox.get(path, limit))

    async def remove(self, path: str | os.PathLike[str]) -> None:
        """Remove a file: see Sandbox.remove."""
        await self._use(lambda: self.sandbox.remove(path))

    async def files(self) -> dict[str, int]:
        """Return the files of the session with their sizes: see Sandbox.files."""
        return await self._use(self.sandbox.files)

    async def save(self, path: str | os.PathLike[str], target: os.PathLike[str] | str) -> None:
        """Write a file of the sandbox to a path of the host: see Sandbox.save."""
        await self._use(lambda: self.sandbox.save(path, target))

    async def install(self, *requirements: str) -> None:
        """Add packages to the session: see Sandbox.install. It cannot be cancelled before pip is done."""
        await self._use(lambda: self.sandbox.install(*requirements))

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

    async def forward(self, port: int) -> Forward:
        """Return a local socket that leads to a port of the session: see Sandbox.forward.

        asyncio connects to it by `asyncio.open_unix_connection(forward.path)`.
        """
        return await self._use(lambda: self.sandbox.forward(port))

    async def fork(self) -> AsyncSandbox:
        """Return a second session that continues from the state of this one: see Sandbox.fork."""
        made = AsyncSandbox(options=self.sandbox.options)
        made.sandbox = await self._use(self.sandbox.fork)
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
    def ended(self) -> str:
        """Why the session has ended; "" while it can go on."""
        return self.sandbox.ended
