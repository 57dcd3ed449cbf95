"""AsyncSandbox and run_code_async: calls that can be cancelled, and that do not block the event loop."""

# once: the caller's rights make no difference

from __future__ import annotations

import asyncio
import functools
import inspect
import io
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pysbx import AsyncSandbox, Sandbox, SandboxError, SandboxTimeoutError, run_code_async
from pysbx.calls.asynchronous import AsyncProcess
from pysbx.calls.processes import Process
from tests.conftest import containers

BUSY = "import time; time.sleep(60)"
API = Path(__file__).parents[2] / "docs/pages/reference/sessions.md"


def test_programs_run_at_the_same_time() -> None:
    async def main() -> None:
        seen: list[str] = []
        source = "import time; print('said'); time.sleep(1); 42"
        began = time.monotonic()
        several = [run_code_async(source, on_stdout=seen.append, memory_mb=100) for _ in range(3)]
        assert [done.value for done in await asyncio.gather(*several)] == ["42"] * 3
        assert time.monotonic() - began < 30
        assert "".join(seen) == "said\n" * 3

    asyncio.run(main())


def test_an_async_callback_is_refused() -> None:
    """Nothing would await it, and the output would be lost."""

    async def hear(text: str) -> None:
        raise AssertionError

    class Listener:
        async def hear(self, text: str) -> None:
            raise AssertionError(text)

    async def main() -> None:
        callbacks: list[Any] = [hear, Listener().hear, functools.partial(hear)]
        for one in callbacks:
            with pytest.raises(
                TypeError, match=r"on_stdout: hear\(\) is async, and nothing awaits it: give a function"
            ):
                await run_code_async("print(1)", on_stdout=one)
            with pytest.raises(TypeError, match=r"on_stderr: hear\(\) is async"):
                AsyncSandbox(on_stderr=one)
        async with AsyncSandbox() as session:
            with pytest.raises(TypeError, match=r"on_stdout: hear\(\) is async"):
                await session.run("print(1)", on_stdout=callbacks[0])
            with pytest.raises(TypeError, match="on_stderr: StringIO cannot be called"):
                await session.shell("echo", on_stderr=io.StringIO())  # type: ignore[arg-type]
            assert (await session.run("1")).value == "1"
            with Sandbox.attach(session.sandbox.reference) as same, pytest.raises(TypeError, match="is async"):
                same.run("print(1)", on_stdout=callbacks[0])

    asyncio.run(main())


def test_a_program_that_is_cancelled_leaves_no_sandbox() -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run_code_async(BUSY), 1)
        assert containers() == []

    asyncio.run(main())


async def in_session(test: Callable[[AsyncSandbox], Awaitable[None]]) -> None:
    async with AsyncSandbox() as session:
        await test(session)
    with pytest.raises(SandboxError, match="has ended: it has been closed"):
        await session.run("1")


def test_a_session() -> None:
    async def test(session: AsyncSandbox) -> None:
        await session.put({"a.txt": "text"})
        assert (await session.run("open('a.txt').read()")).value == "'text'"
        assert (await session.shell("cat a.txt; exit 3")).exit_code == 3
        assert await session.call(len, "four") == 4
        assert await session.get("a.txt") == b"text"
        assert await session.files() == {"a.txt": 4}
        await session.remove("a.txt")
        assert await session.files() == {}
        assert (await session.run(BUSY, timeout_sec=0.5)).timed_out
        assert session.ended == ""

    asyncio.run(in_session(test))


def test_a_session_for_asyncio_has_every_documented_method() -> None:
    (table,) = (part for part in API.read_text(encoding="utf-8").split("\n\n") if "`interrupt()`" in part)
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)", row.split("|")[1])} - {"options"}
    assert {"run", "start", "processes", "install", "save", "forward", "ended"} <= named
    assert named <= set(dir(AsyncSandbox))
    for name in sorted(named - {"ended", "options", "parked", "paused", "reference"}):
        assert inspect.iscoroutinefunction(getattr(AsyncSandbox, name)), name
        # The same arguments as that of Sandbox, in the same order.
        ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (AsyncSandbox, Sandbox))
        assert {one: (it.kind, it.default) for one, it in ours.items()} == {
            one: (it.kind, it.default) for one, it in theirs.items()
        }, name
    assert {name for name in dir(Process) if not name.startswith("_")} - {"last_code"} <= set(dir(AsyncProcess))


def test_processes_in_the_background() -> None:
    async def test(session: AsyncSandbox) -> None:
        counter = await session.start("while read line; do echo ${#line}; done; exit 3")
        assert await counter.exit_code() is None
        await counter.write("three\n", close=True)
        assert await counter.wait() == 3
        assert (await counter.read(wait_sec=5)).stdout == "5\n"
        sleeper = await session.start(["sleep", "1000"], cwd="/tmp", env={"A": "b"})
        assert {one.pid for one in await session.processes()} == {counter.pid, sleeper.pid}
        with pytest.raises(SandboxTimeoutError):
            await sleeper.wait(timeout_sec=0.1)
        # A wait that is cancelled does not keep the session.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sleeper.wait(timeout_sec=1000), 0.5)
        assert (await session.run("6 * 7")).value == "42"
        await sleeper.signal("TERM")
        assert await sleeper.wait() == 128 + 15

    asyncio.run(in_session(test))


def test_cancelling_a_run_interrupts_it_and_the_session_goes_on() -> None:
    async def test(session: AsyncSandbox) -> None:
        await session.run("x = 41")
        for use in (lambda: session.run(BUSY), lambda: session.shell("sleep 60"), lambda: session.call(time.sleep, 60)):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(use(), 1)
        assert (await session.run("x + 1")).value == "42"

    asyncio.run(in_session(test))


def test_uses_of_a_session_take_turns_and_the_loop_goes_on() -> None:
    async def test(session: AsyncSandbox) -> None:
        first = asyncio.ensure_future(session.run("import time; time.sleep(1); seen = [1]"))
        second = asyncio.ensure_future(session.run("seen.append(2); seen"))
        third = asyncio.ensure_future(session.run("seen.append(3)"))
        await asyncio.sleep(0.3)
        assert not first.done()
        third.cancel()  # it has not begun
        assert (await second).value == "[1, 2]"
        assert (await session.run("seen")).value == "[1, 2]"

    asyncio.run(in_session(test))


def test_a_session_whose_making_is_cancelled_is_closed() -> None:
    async def cancelled(making: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(making)
        await asyncio.sleep(0.004)
        task.cancel()
        await asyncio.wait([task])
        for made in [] if task.cancelled() else task.result() if isinstance(task.result(), list) else [task.result()]:
            await made.close()

    async def main() -> None:
        async with AsyncSandbox(ready=0, warm="require") as session:
            await session.run("x = 1")
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(4):
                await cancelled(session.fork())
                await cancelled(session.fork(2))
                await cancelled(AsyncSandbox(ready=0).__aenter__())
            until = time.monotonic() + 10
            while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < until:
                await asyncio.sleep(0.01)
            assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())


def test_a_fork() -> None:
    async def main() -> None:
        async with AsyncSandbox(warm="require") as session:
            await session.run("x = 1")
            async with await session.fork() as fork:
                await fork.run("x = 2")
                assert (await session.run("x")).value == "1"
                assert (await fork.run("x")).value == "2"
            forks = await session.fork(2)
            assert [(await one.run("x")).value for one in forks] == ["1", "1"]
            for one in forks:
                await one.close()

    asyncio.run(main())


def test_a_saved_session_and_a_checkpoint(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox(warm="require") as session:
            await session.run("x = 1")
            point = await session.checkpoint()
            await session.run("x = 2")
            await session.park()
            assert repr(session) == "<AsyncSandbox: parked>"
            assert (await session.run("x")).value == "2"
            path = await session.snapshot(tmp_path / "session")
            await session.rollback(point)
            assert (await session.run("x")).value == "1"
        async with await AsyncSandbox.restore(path) as restored:
            assert (await restored.run("x")).value == "2"

    asyncio.run(main())


def test_a_terminal_and_runs_beside_it() -> None:
    async def test(session: AsyncSandbox) -> None:
        async with await session.terminal(rows=30, columns=100) as shell:
            await shell.resize(31, 101)
            await shell.write(b"stty size; read line; echo got $line; exit 3\n")
            assert (await session.run("6 * 7")).value == "42"
            shown = b""
            while part := await shell.read():
                shown += part
                if part.endswith(b"31 101\r\n"):
                    await shell.write(b"typed\n")
            assert (b"got typed" in shown, shell.exit_code) == (True, 3)
        with pytest.raises(SandboxError, match="the terminal has ended"):
            await shell.write(b"x")

    asyncio.run(in_session(test))


def test_closing_a_terminal_ends_a_read_that_waits() -> None:
    async def test(session: AsyncSandbox) -> None:
        for end in ("terminal", "session"):
            shell = await session.terminal(["sleep", "1000"])
            reading = asyncio.ensure_future(shell.read())
            await asyncio.sleep(0.1)
            assert not reading.done()
            await (shell if end == "terminal" else session).close()
            assert await asyncio.wait_for(reading, 30) == b""
            assert shell.exit_code is None

    asyncio.run(in_session(test))


def test_a_read_of_a_terminal_can_be_cancelled() -> None:
    async def test(session: AsyncSandbox) -> None:
        async with await session.terminal(["cat"]) as shell:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(shell.read(), 0.2)
            await shell.write(b"typed\n")
            assert b"typed" in await shell.read()

    asyncio.run(in_session(test))
