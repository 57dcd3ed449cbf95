"""The sessions of a server. Each belongs to the caller that has started it, and ends when it is idle for long."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from pysbx.base.threads import AGAIN_SEC, Cancel, look_at
from pysbx.calls.baseline import Baseline
from pysbx.calls.execution import Execution
from pysbx.calls.processes import Command
from pysbx.calls.program import CommandTimeoutError, Completed, OutputLimitError, Program
from pysbx.calls.saved import Checkpoint
from pysbx.calls.session import Sandbox
from pysbx.calls.terminal import Terminal
from pysbx.container.process import Cancelled
from pysbx.frameworks.workspace import OUTPUT, Workspace
from pysbx.options.options import Options
from pysbx.service.connections.problems import ENDED, NO_SESSION, REQUEST, SESSIONS, Problem, killed
from pysbx.service.sandboxes.allowance import Allowance, Ledger
from pysbx.service.sandboxes.callbacks import Callback, OnOutput, heard
from pysbx.service.sandboxes.jobs import Jobs
from pysbx.service.sandboxes.snapshots import Kept, Snapshots

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Sessions that have ended, of which it is still known why.
REMEMBERED = 1000
RETRY_SEC = 10
# Checkpoints of a session that are kept: each takes as much disk as the session has memory, at most.
MOST_POINTS = 2
# Seconds between two looks at the sessions, at most.
LOOK_SEC = 5.0
SPENT = "its caller has used its allowance of CPU time"
# Characters of an identifier in the log. The whole of it would let a reader use the session: see access_log.py.
SHOWN = 6


class Session:
    """A session, from its start until its sandbox has ended."""

    def __init__(self, owner: str, options: Options, callback: Callback | None = None) -> None:
        """Prepare the session; it starts at its first use."""
        self.callback = callback
        self.id = secrets.token_urlsafe(18)
        self.owner = owner
        self.cancel = Cancel()
        self.turn = asyncio.Lock()  # uses wait for each other here, and not in a thread
        self.began = self.used = time.monotonic()
        self.options = options
        self.has_run = self.has_terminal = False
        self.program: Program | None = None
        self.stays = False  # since its last use it could not be parked
        self.terminal: Terminal | None = None
        self.terminal_end = ""  # why it was ended
        self.charged_sec = 0.0
        self.points: dict[int, Checkpoint] = {}
        self._last_point = 0
        self.sent: dict[str, bytes] = {}  # digests of artifacts by name
        self.on_output: OnOutput | None = None
        self.sandbox = Sandbox._chosen(
            options,
            tools=callback.tools if callback is not None else None,
            cancel=self.cancel.descriptor,
            on_stdout=lambda text: self._hand_on("stdout", text),
            on_stderr=lambda text: self._hand_on("stderr", text),
        )
        self.sandbox._baseline = Baseline(keeps=False)  # its changes are only listed

    def keep_point(self, sandbox: Sandbox) -> int:
        """Make a checkpoint, remove the oldest if there are too many then, and return its number."""
        made = sandbox.checkpoint()
        self._last_point += 1
        self.points[self._last_point] = made
        if len(self.points) > MOST_POINTS:
            self.points.pop(min(self.points)).remove()
        return self._last_point

    def roll_back(self, sandbox: Sandbox, number: int) -> None:
        """Go back to a checkpoint.

        Raises:
            Problem: it is not kept.
        """
        point = self.points.get(number)
        if point is None:
            raise Problem(REQUEST, f"checkpoint: the session keeps {', '.join(map(str, self.points)) or 'none'}")
        sandbox.rollback(point)

    def news(self, done: Execution) -> Execution:
        """Return a run with the artifacts that an earlier run has not left as they are: those were sent already."""
        digests = {name: hashlib.sha256(data).digest() for name, data in done.artifacts.items()}
        new = {name: data for name, data in done.artifacts.items() if self.sent.get(name) != digests[name]}
        self.sent = digests
        return replace(done, artifacts=new)

    def _hand_on(self, stream: str, text: str) -> None:
        if self.on_output is not None:
            self.on_output(stream, text)


def check_timeout(session: Session, timeout_sec: float | None) -> None:
    """Refuse a limit of a run that is more than that of its session, which ends the session."""
    most = session.options.timeout_sec
    if timeout_sec is not None and timeout_sec > most:
        raise Problem(REQUEST, f"timeout_sec: {timeout_sec:g} is more than this session allows, {most:g}")


class Sessions:
    """The sessions that there are, and why others have ended."""

    def __init__(
        self,
        jobs: Jobs,
        most: int,
        idle_sec: float,
        ledger: Ledger | None = None,
        *,
        park_sec: float | None = None,
        snapshots: int = 16,
    ) -> None:
        """Create a set without sessions.

        Args:
            jobs: the threads in which they are used.
            most: sessions at a time.
            idle_sec: seconds without use after which one is ended.
            ledger: may refuse a caller a further one.
            park_sec: seconds without use after which one is parked, or None.
            snapshots: the most that a caller may have.
        """
        self.idle_sec = idle_sec
        self.snapshots = Snapshots(snapshots)
        self._park_sec = park_sec
        self._jobs = jobs
        self._most = most
        self._ledger = ledger or Ledger(Allowance())
        self._known: dict[str, Session] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()

    async def start(self, owner: str, options: Options, callback: Callback | None = None) -> Session:
        """Start a session for a caller, perhaps with tools of the caller.

        Raises:
            Problem: there are too many, or the server is stopping.
            SandboxError: it cannot be started.
        """
        # Not by a run: its Execution would hide that the session could not begin.
        return await self._begin(owner, options, callback, lambda new: self._use(new, lambda sandbox: sandbox.files()))

    async def fork(self, session: Session) -> Session:
        """Start a second session that continues from the state of a session, after the uses that wait already.

        Raises:
            Problem: there are too many, or the session has ended meanwhile.
            SandboxError: it cannot be forked.
        """
        forked = await self._begin(
            session.owner,
            session.options,
            session.callback.again() if session.callback is not None else None,
            lambda new: self.use(session, lambda sandbox: sandbox._fork_into(new.sandbox)),
        )
        forked.sent = session.sent
        return forked

    async def restore(self, owner: str, options: Options, name: str, callback: Callback | None = None) -> Session:
        """Start a session that continues from a snapshot of its caller.

        Raises:
            Problem: there is none; or see start.
            SandboxError: it cannot be restored.
        """
        work = lambda sandbox: self.snapshots.restore(owner, name, sandbox)  # noqa: E731 (it is one)
        return await self._begin(owner, options, callback, lambda new: self._use(new, work))

    async def snapshot(self, session: Session, name: str) -> Kept:
        """Make a snapshot of a session, after the uses that wait already.

        Raises:
            Problem: its caller has no room for it.
            SandboxError: it cannot be saved.
        """
        async with self.snapshots.turns[session.owner]:
            return await self.use(session, lambda sandbox: self.snapshots.write(session.owner, name, sandbox))

    async def _begin(
        self,
        owner: str,
        options: Options,
        callback: Callback | None,
        work: Callable[[Session], Awaitable[object]],
    ) -> Session:
        self._ledger.check_sessions(len(self.of(owner)))
        if len(self._known) >= self._most:
            raise Problem(SESSIONS, f"there are {self._most}, which is the most", retry_sec=RETRY_SEC)
        session = Session(owner, options, callback)
        self._known[session.id] = session
        try:
            await work(session)
        except BaseException:
            await asyncio.shield(self._end(session, "it could not be started"))
            raise
        return session

    def of(self, owner: str) -> list[Session]:
        """Return the sessions of a caller, the oldest first."""
        return [session for session in self._known.values() if session.owner == owner]

    def __len__(self) -> int:
        """Return the number of sessions of all callers."""
        return len(self._known)

    def find(self, owner: str, identifier: str) -> Session:
        """Return a caller's session.

        Raises:
            Problem: it has ended, or there is none. The session of another caller counts as none.
        """
        session = self._known.get(identifier)
        if session is not None and session.owner == owner:
            return session
        whose, why = self._ended.get(identifier, ("", ""))
        if why and whose == owner:
            raise Problem(ENDED, why)
        raise Problem(NO_SESSION, "it has never been, ended long ago, or ended when the service stopped")

    async def use(self, session: Session, work: Callable[[Sandbox], T], code: str = "") -> T:
        """Use a session, after the uses that wait already.

        Raises:
            Problem: it has ended meanwhile.
            SandboxError: what the work raises.
        """
        try:
            return await self._use(session, work, code)
        finally:
            if session.sandbox.ended:
                await asyncio.shield(self._end(session, session.sandbox.ended))

    async def _use(self, session: Session, work: Callable[[Sandbox], T], code: str = "") -> T:
        await session.turn.acquire()
        # A caller that is cancelled while it waits for its turn is not served. If its work has begun, code is
        # interrupted, and other work goes on. It keeps the turn, so the next caller waits here, and not in a thread, of
        # which there are few.
        task = asyncio.ensure_future(self._in_turn(session, work, code))
        task.add_done_callback(look_at)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if code and not task.done():
                interrupts = asyncio.ensure_future(self._interrupt_again(session))
                task.add_done_callback(lambda _: interrupts.cancel())
            raise

    async def _interrupt_again(self, session: Session) -> None:
        """Interrupt the code of a session until this is cancelled: it may catch an interrupt."""
        while True:
            await self.interrupt(session)
            await asyncio.sleep(AGAIN_SEC)

    async def _in_turn(self, session: Session, work: Callable[[Sandbox], T], code: str) -> T:
        spent = 0.0

        def measured(_: int) -> T:
            nonlocal spent
            try:
                return work(session.sandbox)
            finally:
                spent = session.sandbox._cpu_sec

        try:
            if session.sandbox.ended:
                raise self._has_ended(session)
            start = not session.has_run
            done = await self._jobs.run(measured, session.options, start=start, code=code, in_session=True)
            session.has_run = session.has_run or isinstance(done, Execution)
            return done
        except Cancelled:
            raise self._has_ended(session) from None
        finally:
            self._charge(session, spent)
            session.used, session.stays = time.monotonic(), False
            session.turn.release()

    def _charge(self, session: Session, spent: float) -> None:
        """Count what is new of the CPU time of a session: of runs, terminals, and processes in the background."""
        if spent > session.charged_sec:
            self._ledger.spend(session.owner, spent - session.charged_sec)
            session.charged_sec = spent

    def _has_ended(self, session: Session) -> Problem:
        _, why = self._ended.get(session.id, ("", session.sandbox.ended))
        return Problem(ENDED, why)

    async def run(
        self,
        session: Session,
        source: str,
        argv: tuple[str, ...] = (),
        stdin: bytes = b"",
        on_output: OnOutput | None = None,
        *,
        timeout_sec: float | None = None,
    ) -> Execution:
        """Run source text in a session."""
        check_timeout(session, timeout_sec)

        def work(sandbox: Sandbox) -> Execution:
            session.on_output = on_output
            try:
                with heard(session.callback, on_output):
                    return sandbox.run(source, argv, stdin, timeout_sec=timeout_sec)
            finally:
                session.on_output = None

        return await self.use(session, work, source)

    async def shell(
        self, session: Session, command: Command, stdin: bytes = b"", cwd: str = "", *, timeout_sec: float | None = None
    ) -> Execution:
        """Run a shell command in a session: see Sandbox.shell."""
        check_timeout(session, timeout_sec)
        given = list(command) if not isinstance(command, str) else command
        said = given if isinstance(given, str) else " ".join(map(str, given))  # for the audit log
        return await self.use(
            session, lambda sandbox: sandbox.shell(given, stdin, cwd=cwd, timeout_sec=timeout_sec), said
        )

    async def execute(
        self,
        session: Session,
        command: Command,
        stdin: bytes,
        timeout_sec: float | None,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command in a session, and return all of its output: see Workspace.exec.

        Raises:
            Problem: it was killed; with the beginning of its output.
        """
        check_timeout(session, timeout_sec)
        seconds = timeout_sec or session.options.timeout_sec or None
        limit = min(OUTPUT, session.options.answer_limit // 2)

        def begun(program: Program) -> None:
            session.program = program

        def work(sandbox: Sandbox) -> Completed:
            try:
                return Workspace(sandbox).exec(
                    command, stdin, cwd=cwd, env=env, timeout_sec=seconds, limit=limit, begun=begun
                )
            except (CommandTimeoutError, OutputLimitError) as error:
                raise killed(error, error.stdout, error.stderr) from error
            finally:
                session.program = None

        said = command if isinstance(command, str) else " ".join(map(str, command))
        return await self.use(session, work, said)

    async def interrupt(self, session: Session) -> None:
        """Raise KeyboardInterrupt in the code that runs in a session, or kill its command. If none runs, do nothing."""
        if (program := session.program) is not None:
            program.stop()
        await asyncio.to_thread(session.sandbox.interrupt)

    async def end(self, session: Session) -> None:
        """End a session, even while it runs."""
        await self._end(session, "its owner has ended it")

    async def _end(self, session: Session, why: str) -> None:
        if self._known.pop(session.id, None) is None:
            return  # another task is ending it
        logger.info("session %s… ended: %s", session.id[:SHOWN], why)
        self._ended[session.id] = (session.owner, why)
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        session.cancel.set()
        await asyncio.to_thread(session.sandbox.close)
        self._charge(session, session.sandbox._cpu_sec)
        session.cancel.close()

    async def watch(self) -> None:
        """Count CPU time, and end sessions that are not used and terminals that may not go on, until cancelled."""
        while True:
            await asyncio.sleep(min(self.idle_sec / 4, (self._park_sec or LOOK_SEC) / 4, LOOK_SEC))
            for one in tuple(self._known.values()):
                self._charge(one, await asyncio.to_thread(getattr, one.sandbox, "_cpu_sec"))
                if one.terminal is not None and not self._ledger.has_cpu_left(one.owner):
                    one.terminal_end = SPENT
                    one.terminal.hang_up()
            await self._park_unused()
            limit = time.monotonic() - self.idle_sec
            idle = [one for one in self._known.values() if one.used < limit and not one.turn.locked()]
            await asyncio.gather(*(self._end(one, f"it was not used for {self.idle_sec:g} seconds") for one in idle))

    async def _park_unused(self) -> None:
        """Park the sessions that are not used, one after the other; one that cannot be parked stays as it is."""
        limit = time.monotonic() - (self._park_sec or math.inf)
        for one in tuple(self._known.values()):
            sandbox = one.sandbox
            if one.used >= limit or one.stays or one.turn.locked() or sandbox.parked or sandbox.paused:
                continue
            async with one.turn:
                try:
                    await asyncio.to_thread(sandbox.park)
                except Exception as error:
                    one.stays = True
                    logger.info("session %s… stays in memory: %s", one.id[:SHOWN], error)
                else:
                    logger.info("session %s… was parked", one.id[:SHOWN])
            if sandbox.ended:
                await self._end(one, sandbox.ended)

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self._end(one, "the server is stopping") for one in tuple(self._known.values())))
