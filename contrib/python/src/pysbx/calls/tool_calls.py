"""The calls of tools: what a sandbox asks for, and the threads that carry it out.

A run gets a socket for its calls. The thread that waits for the outcome of the run reads them, and never more than
their limits allow; a few other threads call the functions. The sandbox sends the position of a function in a list, and
arguments that decode.py reads. So code there reaches no function that is not listed, and nothing is unpickled. A socket
belongs to one run of one sandbox: an answer has no other way to go.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import math
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pysbx.base import log
from pysbx.calls.decode import decode
from pysbx.calls.tools import Tools, bound_names
from pysbx.container import unpatched
from pysbx.errors import SandboxError, SerializationError
from pysbx.inside import frames
from pysbx.inside.encode import encode
from pysbx.inside.refusal import Unserializable
from pysbx.inside.wire import TOOL_ANSWER, TOOL_CALL, TOOL_RAISED, TOOL_VALUE

if TYPE_CHECKING:
    from pysbx.container.container import Container

Message = dict[str, Any]

CHUNK = 1 << 16
MAX_TEXT = 1 << 14  # characters of an exception
PLAIN = (type(None), bool, int, float, str, bytes)
# Seconds for which a thread waits for more to do.
IDLE_SEC = 1.0


class _Threads:
    """Threads that do one thing after the other. Runs share them: to start one takes longer than a call."""

    def __init__(self) -> None:
        """Begin without threads."""
        self.forget()

    def forget(self) -> None:
        """Know of no threads: after a fork, they are the parent's."""
        self._lock = threading.Lock()
        self._idle: list[tuple[threading.Lock, list[Callable[[], None]]]] = []

    def do(self, job: Callable[[], None]) -> None:
        """Do something in a thread, the one that was the last to wait.

        Raises:
            RuntimeError: there cannot be a further thread.
        """
        with self._lock:
            woken, jobs = self._idle.pop() if self._idle else (None, [])
            jobs.append(job)
        if woken is None:
            threading.Thread(target=self._work, args=(jobs,), name="pysbx-tool", daemon=True).start()
        else:
            woken.release()

    def _work(self, jobs: list[Callable[[], None]]) -> None:
        woken = threading.Lock()
        woken.acquire()
        me = (woken, jobs)
        while jobs:
            jobs.pop()()
            with self._lock:
                self._idle.append(me)
            if not woken.acquire(timeout=IDLE_SEC):
                with self._lock:
                    if me in self._idle:
                        self._idle.remove(me)
                        return
                woken.acquire()  # there is something to do now


_threads = _Threads()
os.register_at_fork(after_in_child=_threads.forget)


class CallOverflow(Exception):
    """A sandbox has sent more than its limits allow, or something that is no call. It gets no more answers."""


@dataclass(eq=False)
class Call:
    """A call that has come in.

    Attributes:
        number: the number that its answer repeats.
        position: that of the function in the list of tools.
        arguments: they are not decoded yet.
        deadline: when it raises TimeoutError, by time.monotonic().
        began: when its function was called.
        found: what its function has returned, if that is a Future: no thread waits for it.
    """

    number: int
    position: int
    arguments: bytes
    deadline: float
    began: float = 0.0
    found: Future[Any] | None = None


class CallReader:
    """Reads the calls of one run from any bytes that its sandbox sends. It keeps no more than is allowed."""

    def __init__(self, tools: int, calls: int, size: int) -> None:
        """Prepare to read."""
        self._tools, self._calls, self._left = tools, calls, size
        self.incoming = bytearray()
        self._head: tuple[int, int, int] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Take bytes, and yield the calls that are whole now: number, position, arguments.

        Raises:
            CallOverflow: there are more or larger calls than allowed, or one is of a function that is not listed.
        """
        self.incoming += data
        while True:
            if self._head is None:
                if len(self.incoming) < TOOL_CALL.size:
                    return
                self._head = TOOL_CALL.unpack_from(self.incoming)
                del self.incoming[: TOOL_CALL.size]
                self._check(*self._head[1:])
            number, position, size = self._head
            if len(self.incoming) < size:
                return
            arguments = bytes(memoryview(self.incoming)[:size])
            del self.incoming[:size]
            self._head = None
            yield number, position, arguments

    def _check(self, position: int, size: int) -> None:
        self._calls -= 1
        self._left -= size
        if position >= self._tools:
            raise CallOverflow("it has called a function that is not listed")
        if self._calls < 0 or self._left < 0:
            raise CallOverflow("its calls are more, or larger, than allowed")


def open_arguments(data: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, by position and by name.

    Raises:
        SerializationError: the bytes are not those of arguments.
    """
    found = decode(data)
    if not isinstance(found, list) or len(found) != 2 or type(found[0]) is not list or type(found[1]) is not dict:
        raise SerializationError("a call without arguments")
    if not all(type(name) is str for name in found[1]):
        raise SerializationError("a call with an argument whose name is not a string")
    return found[0], found[1]


def encode_answer(value: Any, path: str) -> bytes:
    """Return a value as bytes, with tables in a form that needs no pyarrow in the sandbox, if they have one.

    Raises:
        Unserializable: it has no form in the codec.
    """
    frames.writing.plainly = True
    try:
        return encode(value, path)
    except Unserializable:
        pass
    finally:
        frames.writing.plainly = False
    return encode(value, path)


def describe(error: BaseException) -> list[Any]:
    """Return what a sandbox learns of an exception: class and text, and of one of Python's own the arguments."""
    kind = type(error)
    try:
        text = str(error)[:MAX_TEXT]
    except BaseException:  # a class may have any __str__
        text = ""
    if kind.__module__ != "builtins" or not isinstance(error, Exception):
        return [kind.__name__, text, None]
    arguments = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:
        arguments = [error.errno, error.strerror, error.filename]
    with contextlib.suppress(Exception):  # an argument has no form in the codec, or is of a class of the caller's
        if len(encode(arguments)) <= MAX_TEXT and _is_plain(arguments):
            return [kind.__name__, text, arguments]
    return [kind.__name__, text, [text]]


def _is_plain(arguments: list[Any]) -> bool:
    """Tell whether an exception has arguments that every sandbox has."""
    return all(type(one) in PLAIN for one in arguments)


class _Run:
    """The calls of one run: reads them, and sends their answers. A Container waits for its descriptors."""

    def __init__(self, host: ToolHost, ours: unpatched.socket, poll: select.poll) -> None:
        tools = host.tools
        self.host, self.socket = host, ours
        self.context = contextvars.copy_context()
        self.futures: set[Future[Any]] = set()  # of calls that an event loop carries out
        self._reader = CallReader(len(tools.specs), tools.max_calls, tools.max_bytes)
        self._left = tools.max_bytes
        self._lock = threading.Lock()
        self._outgoing = bytearray()
        self._pending: dict[Call, None] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        ours.setblocking(False)
        self._poll = poll
        poll.register(self._wake, select.POLLIN)
        self._want(select.POLLIN)
        self._reads = True

    def __contains__(self, descriptor: int) -> bool:
        """Tell whether serve() has to know that a descriptor can be read or written."""
        return descriptor in (self.socket.fileno(), self._wake)

    def close(self) -> None:
        """Answer no further call, and drop those that have not begun."""
        self._want(0)
        self._poll.unregister(self._wake)
        with self._lock:
            self._pending.clear()
            futures = list(self.futures)
            self.socket.close()
            os.close(self._wake)
        for future in futures:
            future.cancel()

    def is_pending(self, call: Call) -> bool:
        """Tell whether an answer to a call is awaited."""
        return call in self._pending

    def answer(self, call: Call, kind: int, content: bytes) -> bool:
        """Send an answer, unless the call has been answered already; tell whether it was sent."""
        with self._lock:
            if call not in self._pending:
                return False
            del self._pending[call]
            if len(content) > self._left:
                said = f"the answers of the tools of this run have more than {self.host.tools.max_bytes} bytes"
                kind, content = TOOL_RAISED, encode(["ValueError", "", [said]])
            else:
                self._left -= len(content)
            waiting = bool(self._outgoing)
            self._outgoing += TOOL_ANSWER.pack(call.number, kind, len(content)) + content
            if not waiting:
                self._flush()
            if self._outgoing and not waiting:
                os.eventfd_write(self._wake, 1)  # the thread sends the rest
        return True

    def _flush(self) -> None:
        try:
            sent = self.socket.send(self._outgoing, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except OSError:  # the sandbox has ended
            sent = len(self._outgoing)
        del self._outgoing[:sent]

    def _want(self, events: int) -> None:
        """Wait for these events of the socket."""
        if events:
            self._poll.register(self.socket.fileno(), events)
        else:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self.socket.fileno())

    def serve(self, descriptor: int, events: int) -> None:
        """Read calls, or send more of the answers."""
        if descriptor == self._wake:
            os.eventfd_read(self._wake)
        elif self._reads and events & ~select.POLLOUT:
            self._reads = self._take()
            if self._reads and not self._outgoing:
                return
        with self._lock:
            if self._outgoing:
                self._flush()
            wanted = (select.POLLIN if self._reads else 0) | (select.POLLOUT if self._outgoing else 0)
        self._want(wanted)

    def _take(self) -> bool:
        """Read once, and tell whether more may come."""
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        try:
            for number, position, arguments in self._reader.feed(data):
                call = Call(number, position, arguments, time.monotonic() + self.host.tools.timeout_sec)
                with self._lock:
                    self._pending[call] = None
                self.host.submit(self, call)
        except CallOverflow as error:
            log.write(log.TOOL, log.WARNING, "calls of tools ended: %s", error)
            with self._lock:
                self._pending.clear()
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
            return False
        return True

    def expire(self) -> float:
        """Answer the calls whose time is over, and return when that of the next one is, by time.monotonic()."""
        while True:
            with self._lock:
                call = next(iter(self._pending), None)  # all have the same time
            if call is None:
                return math.inf
            if call.deadline > time.monotonic():
                return call.deadline
            name = self.host.tools.specs[call.position]["name"]
            said = f"{name}() has not returned within {self.host.tools.timeout_sec:g} seconds"
            self.answer(call, TOOL_RAISED, encode(["TimeoutError", "", [said]]))
            if call.found is not None:
                call.found.cancel()


class ToolHost:
    """Carries out the calls of one sandbox."""

    def __init__(self, tools: Tools) -> None:
        """Prepare."""
        self.tools = tools
        self.loop = tools.loop
        self.connected = False
        self._functions = list(tools.functions.values())
        self._bound = list(map(bound_names, self._functions))
        self._specs = encode(tools.specs)  # once, because each run says what the tools are
        self._calls: deque[tuple[_Run, Call]] = deque()
        self._lock = threading.Lock()
        self._busy = 0  # threads that carry out calls

    @contextlib.contextmanager
    def connect(self, container: Container) -> Iterator[tuple[Message, int]]:
        """Let a container answer calls while it waits for the outcome of a run, and the block runs.

        Yield what the request says of the tools, and the socket to pass with it.
        """
        if not hasattr(select, "poll"):
            raise SandboxError("tools: with eventlet no other thread runs while this one waits for the sandbox")
        ours, theirs = unpatched.make_pair()
        with contextlib.closing(theirs):
            container.beside = run = _Run(self, ours, container.poll)
            self.connected = True
            try:
                tools = self.tools
                yield (
                    {"tools": {"specs": self._specs, "calls": tools.max_calls, "bytes": tools.max_bytes}},
                    theirs.fileno(),
                )
            finally:
                self.connected = False
                container.beside = None
                run.close()

    def submit(self, run: _Run, call: Call) -> None:
        """Let a thread carry out a call."""
        with self._lock:
            self._calls.append((run, call))
            if self._busy >= self.tools.max_concurrent:
                return
            self._busy += 1
        _threads.do(self._work)

    def _work(self) -> None:
        """Carry out calls until there are no more."""
        while True:
            with self._lock:
                if not self._calls:
                    self._busy -= 1
                    return
                run, call = self._calls.popleft()
            if run.is_pending(call):
                self._carry_out(run, call)
            else:
                name = self.tools.specs[call.position]["name"]
                log.write(log.TOOL, log.INFO, "tool %s dropped, %d bytes of arguments", name, len(call.arguments))
            del run, call

    def _carry_out(self, run: _Run, call: Call) -> None:
        name = self.tools.specs[call.position]["name"]
        kind, outcome = TOOL_VALUE, "returned"
        try:
            value = self._value(run, call, name)
            if isinstance(value, Future):
                call.found = value
                run.futures.add(value)
                value.add_done_callback(lambda _: self.submit(run, call))
                return
            try:
                content = encode_answer(value, f"what {name}() returns")
            except Unserializable as error:
                raise TypeError(f"{error.path}: {error.reason.replace('leave', 'enter')}") from None
        except BaseException as error:
            kind, content = TOOL_RAISED, encode(describe(error))
            outcome = f"raised {type(error).__name__}"
        outcome += "" if run.answer(call, kind, content) else " too late"
        text = "tool %s %s, %.4f s, %d bytes of arguments, %d bytes of answer"
        duration = time.monotonic() - call.began
        log.write(log.TOOL, log.INFO, text, name, outcome, duration, len(call.arguments), len(content))

    def _value(self, run: _Run, call: Call, name: str) -> Any:
        """Return the value of a call, or the Future that will have it."""
        if call.found is not None:
            run.futures.discard(call.found)
            return call.found.result(0)
        call.began = time.monotonic()
        try:
            positional, named = open_arguments(call.arguments)
        except SerializationError as error:
            raise TypeError(f"{name}(): its arguments cannot leave the sandbox: {error}") from None
        return run.context.copy().run(self._call, run, call, positional, named)

    def _call(self, run: _Run, call: Call, positional: list[Any], named: dict[str, Any]) -> Any:
        if bound := self._bound[call.position] & named.keys():
            raise TypeError(f"got an unexpected keyword argument '{min(bound)}'")
        value = self._functions[call.position](*positional, **named)
        if not inspect.isawaitable(value):
            return value

        async def awaited() -> Any:
            return await value

        left = max(0.0, call.deadline - time.monotonic())
        if self.loop is None or self.loop.is_closed():
            return asyncio.run(asyncio.wait_for(awaited(), left))
        future = asyncio.run_coroutine_threadsafe(awaited(), self.loop)
        run.futures.add(future)
        try:
            return future.result(left)
        except FutureTimeoutError:
            future.cancel()
            raise
        finally:
            run.futures.discard(future)
