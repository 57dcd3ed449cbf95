"""Functions of the host that code in the sandbox calls by name.

Each run has a socket of its own for them, so a call that was cut off in the middle spoils no answer of the worker. The
thread that calls reads the answer itself. Any thread, and any task of asyncio, may call meanwhile: a thread of ours
then reads on when the first one has its answer.

The functions are in a module, and in builtins, where any name of the program takes precedence. A name in __main__ alone
would be missing in the program's modules, and one there could not be told from the program's own.
"""

from __future__ import annotations

import _thread
import ast
import asyncio
import builtins
import contextlib
import importlib
import inspect
import itertools
import os
import sys
import time
import types
import typing
from _socket import SHUT_RDWR, socket, socketpair
from collections.abc import Callable
from concurrent.futures import Future
from importlib.machinery import ModuleSpec
from typing import Any

from . import frames, scalars, wire
from .encode import encode
from .refusal import Unserializable
from .wire import TOOL_ANSWER, TOOL_CALL, TOOL_RAISED, TOOL_VALUE

Message = dict[str, Any]
# The module with the functions. The second name is for programs that have no module of this name themselves.
MODULE, SHORT = "pysbx_tools", "tools"
ENDED = "no run of the session is in progress, or the host has ended the calls of this one"
NONE = "no run with tools is in progress: if the session was restored, pass tools= to restore()"
JOIN_SEC = 1.0
CHUNK = 1 << 16
_Parameter = inspect.Parameter
KINDS = (
    _Parameter.POSITIONAL_ONLY,
    _Parameter.POSITIONAL_OR_KEYWORD,
    _Parameter.VAR_POSITIONAL,
    _Parameter.KEYWORD_ONLY,
    _Parameter.VAR_KEYWORD,
)
SCOPE = {**vars(typing), **vars(builtins)}


class ToolError(RuntimeError):
    """A tool has failed.

    Attributes:
        type: the name of the exception's class outside, or "" if the call itself was not possible.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.type = kind


ToolError.__module__ = MODULE


def _reader() -> Any:
    """Return the host's module that reads values. There, the package is called pysbx; a program may have another one.

    The sandbox believes the host. So the bounds of that module are of no use here, and do no harm.
    """
    host = types.ModuleType("pysbx")
    host.__path__ = [os.path.join(os.path.dirname(__file__), "host")]
    ours = {"pysbx": host, "pysbx.inside": sys.modules[__package__]}
    ours |= {f"pysbx.inside.{module.__name__.rpartition('.')[2]}": module for module in (frames, scalars, wire)}
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "pysbx"}
    sys.modules.update(ours)
    try:
        found: Any = importlib.import_module("pysbx.calls.decode")
        found.UNEXPECTED = "return dataclasses.asdict(…) of it, or the value of a member of an enumeration"
        found.tables.with_extra = lambda _: "the sandbox needs it as a dependency"
        return found
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "pysbx"]:
            del sys.modules[name]
        sys.modules.update(before)


reader = _reader()


def _find_class(module: str, name: str) -> type | None:
    """Return a class of the host that the sandbox has too."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if isinstance(found, type) else None


class Connection:
    """The way to the host during one run: sends calls, and gives each answer to its caller."""

    def __init__(self, descriptor: int, calls: int, size: int) -> None:
        """Take a socket.

        Args:
            descriptor: the socket.
            calls: how many calls there may be.
            size: bytes of the arguments of all of them.
        """
        self.descriptor = descriptor
        self.owner = os.getpid()
        self.most_calls, self.most_bytes = calls, size
        self._calls = self._bytes = 0
        self._lock = _thread.allocate_lock()
        self._waiting: dict[int, Future[tuple[int, bytes]]] = {}
        self._numbers = itertools.count(1)
        self._open = True
        # The lock of the caller that reads answers, and its thread. Only "with" surely gives a lock back when an
        # exception of a signal comes.
        self._reader = (_thread.allocate_lock(), 0)
        self._answer: tuple[Any, list[bytes]] = (None, [])  # the head of the present one, and parts of what comes next
        self._started: list[int] = []  # the thread, once there is one
        self._thread = 0  # its number for the kernel, from its beginning on
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def call(self, position: int, arguments: bytes) -> tuple[int, bytes]:
        """Make a call and return its answer; this thread reads it, if no other one does.

        Raises:
            ToolError: there cannot be a further call.
        """
        own, number = _thread.allocate_lock(), next(self._numbers)
        try:
            with own:
                future = self.send(position, arguments, number, own)
                try:
                    while self._reader[0] is own and not future.done():
                        self._receive()
                except (OSError, EOFError, MemoryError):
                    self._give_up()
            return future.result()
        finally:
            self._waiting.pop(number, None)
            with self._lock:
                if self._reader[0] is own and self._waiting:
                    self._start()

    def send(self, position: int, arguments: bytes, number: int = 0, own: Any = None) -> Future[tuple[int, bytes]]:
        """Send a call and return what its answer will be in.

        Args:
            position: that of the function in the host's list.
            arguments: encoded.
            number: that of the call; 0 for the next one.
            own: a lock that the caller holds while it would read answers itself.

        Raises:
            ToolError: there cannot be a further call.
        """
        if os.getpid() != self.owner:  # its answer would go to the program
            raise ToolError("only the program itself can call tools: not a process that it has started")
        with self._lock:
            if not self._open:
                raise ToolError(ENDED)
            if self._calls >= self.most_calls:
                raise ToolError(f"this run has made {self.most_calls} calls of tools, which is the most")
            if self._bytes + len(arguments) > self.most_bytes:
                raise ToolError(f"the arguments of the calls of this run have more than {self.most_bytes} bytes")
            reader, thread = self._reader
            if reader.locked() and thread == _thread.get_ident():
                raise ToolError("a handler of a signal cannot call a tool while its thread waits for another call")
            if not self._started and not reader.locked():
                if own is None:
                    self._start()
                else:
                    self._reader = (own, _thread.get_ident())
            self._calls += 1
            self._bytes += len(arguments)
            number = number or next(self._numbers)
            future = self._waiting[number] = Future()
            self._write(TOOL_CALL.pack(number, position, len(arguments)) + arguments)
        return future

    def _start(self) -> None:
        """Start the thread, if there is none."""
        if not self._started:
            # In one step, so that no exception of a signal comes between: two threads would share the answers.
            self._started.extend(map(_thread.start_new_thread, (self._read,), ((),)))

    def _write(self, content: bytes) -> None:
        """Write a whole call, also if a signal comes, whose exception is raised behind it."""
        rest = memoryview(content)
        sizes: list[int] = []
        raised: BaseException | None = None
        try:
            while sum(sizes) < len(content):
                try:
                    # In one step, so that no exception of a signal comes between the call and its result.
                    sizes.extend(map(os.write, (self.descriptor,), (rest[sum(sizes) :],)))
                except BlockingIOError:
                    os.set_blocking(self.descriptor, True)
                except OSError:
                    self._open = False
                    raise ToolError(ENDED) from None
                except BaseException as error:
                    raised = error
        finally:
            self._open = self._open and sum(sizes) in (0, len(content))
        if raised is not None:
            raise raised

    def _take(self, parts: list[bytes], size: int) -> bytes:
        """Return so many bytes; parts has those that have come already."""
        while (got := sum(map(len, parts))) < size:
            try:
                parts.extend(map(os.read, (self.descriptor,), (min(size - got, CHUNK),)))  # in one step, as above
            except BlockingIOError:
                os.set_blocking(self.descriptor, True)
                continue
            if not parts[-1]:
                raise EOFError
        return b"".join(parts)

    def _receive(self) -> None:
        """Read an answer, and give it to its caller. After an exception of a signal, the next reader goes on."""
        head, parts = self._answer
        if head is None:
            self._answer = head, parts = TOOL_ANSWER.unpack(self._take(parts, TOOL_ANSWER.size)), []
        number, kind, size = head
        content = self._take(parts, size)
        future = self._waiting.get(number)
        if future is not None and (future.running() or future.set_running_or_notify_cancel()):
            future.set_result((kind, content))
        self._waiting.pop(number, None)
        self._answer = (None, [])

    def _read(self) -> None:
        """Read answers until there are no more: the thread."""
        self._thread = _thread.get_native_id()
        try:
            while True:
                self._receive()
        except (OSError, EOFError, MemoryError):
            self._give_up()
        finally:
            self._done.release()

    def _give_up(self) -> None:
        """End the calls that wait for answers: there are no more."""
        self._open = False
        with self._lock:
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for future in waiting:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(ToolError(ENDED))

    def close(self) -> Callable[[], None] | None:
        """End all calls, and the thread; return what closes the socket, unless code in the sandbox has closed it.

        That would wake the host before it has the outcome of the run.
        """
        with self._lock:
            self._open = False
        end = None
        with contextlib.suppress(OSError):
            end = socket(fileno=self.descriptor)
            if self._started or self._reader[0].locked():
                end.shutdown(SHUT_RDWR)
                if self._reader[0].acquire(timeout=JOIN_SEC):  # another thread has read the end
                    self._reader[0].release()
        if self._started and self._done.acquire(timeout=JOIN_SEC):
            # The kernel has it a moment longer, and a session with a thread cannot be forked.
            until = time.monotonic() + JOIN_SEC
            while os.path.exists(f"/proc/self/task/{self._thread}") and time.monotonic() < until:
                time.sleep(0)
        return None if end is None else end.close


_connection: Connection | None = None
_specs = b""


def _refuse(name: str, arguments: dict[str, Any]) -> None:
    """Raise the error for the argument that has no form in the codec."""
    for one, value in arguments.items():
        try:
            encode(value, one)
        except Unserializable as error:
            raise TypeError(f"{name}(): {error.path}: {error.reason}") from None
    raise TypeError(f"{name}(): the arguments are too large together, or nested too deeply")


def _prepare(name: str, signature: inspect.Signature, given: tuple[Any, Any]) -> tuple[Connection, bytes]:
    """Return the way of a call, and its arguments."""
    try:
        bound = signature.bind(*given[0], **given[1])
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None
    try:
        arguments = encode([list(given[0]), given[1]])
    except Unserializable:
        arguments = b""
    if not arguments:
        _refuse(name, bound.arguments)
    if _connection is None:
        raise ToolError(NONE)
    return _connection, arguments


def _open_answer(name: str, answer: tuple[int, bytes]) -> Any:
    """Return the value of an answer, or raise its exception."""
    kind, content = answer
    try:
        value = reader.decode(content, _find_class)
    except reader.SerializationError as error:
        raise ToolError(f"{name}() has returned something that this sandbox cannot read: {error}") from None
    if kind != TOOL_RAISED:
        return value
    called, message, arguments = value
    found = getattr(builtins, called, None)
    made: BaseException | None = None
    if arguments is not None and isinstance(found, type) and issubclass(found, Exception):
        with contextlib.suppress(TypeError):  # the tool has changed the arguments of its exception
            made = found(*arguments)
    raise made or ToolError(f"{called}: {message}" if message else called, called)


def _annotation(text: str | None) -> Any:
    """Return what an annotation means here, or its text if its names are of the host."""
    if text is None:
        return inspect.Parameter.empty
    try:
        return eval(text, dict(SCOPE))
    except Exception:
        return text


def _default(text: str | None) -> Any:
    if text is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(text)
    except ValueError:
        return ...


def _signature(spec: Message) -> inspect.Signature:
    parameters = [
        inspect.Parameter(name, KINDS[kind], default=_default(default), annotation=_annotation(annotation))
        for name, kind, annotation, default in spec["parameters"]
    ]
    return inspect.Signature(parameters, return_annotation=_annotation(spec["returns"]))


def _function(position: int, spec: Message) -> Callable[..., Any]:
    """Return the function for a tool."""
    name, signature = spec["name"], _signature(spec)

    def call(*positional: Any, **named: Any) -> Any:
        connection, arguments = _prepare(name, signature, (positional, named))
        return _open_answer(name, connection.call(position, arguments))

    async def call_async(*positional: Any, **named: Any) -> Any:
        connection, arguments = _prepare(name, signature, (positional, named))
        return _open_answer(name, await asyncio.wrap_future(connection.send(position, arguments)))

    made: Any = call_async if spec["async"] else call
    made.__name__ = made.__qualname__ = name
    made.__module__, made.__doc__ = MODULE, spec["doc"]
    made.__signature__ = signature
    made.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    made.__annotations__["return"] = signature.return_annotation
    for one in [one for one, value in made.__annotations__.items() if value is inspect.Parameter.empty]:
        del made.__annotations__[one]
    return made  # type: ignore[no-any-return]


class _Finder:
    """Finds the module under its short name, behind all modules of the program."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        """Return the module's, which there is already."""
        return ModuleSpec(SHORT, _Finder) if name == SHORT and MODULE in sys.modules else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(_: ModuleSpec) -> types.ModuleType:
        """Return another module with the same functions."""
        made = types.ModuleType(SHORT, sys.modules[MODULE].__doc__)
        vars(made).update({name: value for name, value in vars(sys.modules[MODULE]).items() if name[:2] != "__"})
        return made

    @staticmethod
    def exec_module(_: types.ModuleType) -> None:
        """Do nothing."""


def _define(specs: list[Message]) -> None:
    """Make the functions: as a module, and as names that all modules have unless they have their own."""
    made = types.ModuleType(MODULE, "Functions of the program that runs this sandbox.")
    functions = {spec["name"]: _function(position, spec) for position, spec in enumerate(specs)}
    vars(made).update({"ToolError": ToolError, "__all__": list(functions), **functions})
    sys.modules[MODULE] = made
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    for name, function in functions.items():
        if not hasattr(builtins, name):
            setattr(builtins, name, function)


def begin(about: Message, descriptor: int) -> None:
    """Take the socket for the calls of the run that comes next, and make the functions if they are not there yet."""
    global _connection, _specs  # noqa: PLW0603
    _connection = Connection(descriptor, about["calls"], about["bytes"])
    if _specs != about["specs"]:
        _define(reader.decode(about["specs"], _find_class))
        _specs = about["specs"]


def end() -> Callable[[], None] | None:
    """End the calls of the run, and return what closes its socket."""
    global _connection
    ended, _connection = _connection, None
    return None if ended is None else ended.close()


def rehearse() -> None:
    """Make a call, and answer it, in a copy of a prewarmed interpreter: see hand_over() in bootstrap.py."""
    host, here = socketpair()
    parameters = [["number", 1, "int", None]]
    spec = {"name": "rehearse", "doc": "", "async": False, "parameters": parameters, "returns": "int"}
    begin({"specs": encode([spec]), "calls": 1, "bytes": 1000}, here.detach())
    value = encode(2)
    host.send(TOOL_ANSWER.pack(1, TOOL_VALUE, len(value)) + value)
    sys.modules[MODULE].rehearse(1)
    end()


__pysbx_rehearse__ = rehearse
