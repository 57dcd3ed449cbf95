"""Use of a session from another process of the same user, by a reference, while the process that has started it lives.

The reference names a Unix socket that only the user can open. Requests and answers are msgpack, never pickle: the
answers are the sandbox's. Uses take turns, also those of several processes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgpack

from pysbx import errors
from pysbx.base.directories import private_directory, remove_left_sockets, run_directory
from pysbx.calls.changes import Change, Commit, Sides
from pysbx.calls.execution import Execution, ExecutionError, as_texts
from pysbx.container.container import Message, Usage
from pysbx.container.streams import check_callbacks
from pysbx.errors import SandboxError, SandboxFileError, Violation
from pysbx.options.network import Network
from pysbx.options.options import Options

Hears = Callable[[str], None]

REFERENCE = re.compile(r"pysbx-[0-9a-f]{32}")
SIZE = struct.Struct("!I?")  # of a message, and whether a descriptor comes after it
DESCRIPTOR = struct.Struct("=i")
UCRED = struct.Struct("=iII")  # unix(7), SO_PEERCRED
LARGEST = 1 << 30
# Processes that are attached at a time. Each may have a second connection, by which it interrupts.
MOST = 16
FULL = f"{MOST} processes use the session already, or interrupt it: close it in one of them, or try again"
# Seconds before the next connection is accepted, after the program had no descriptor or thread for one.
SHORTAGE_SEC = 0.1
# Requests to the sandbox, and methods of the session. Others would change what the first process knows of it.
REQUESTS = ("complete", "forward", "get", "list", "place", "process", "processes", "program", "start", "terminal")
RUNS = ("run", "shell")
METHODS = ("discard", "install", "mark", "pause", "_put_files", "remove", "resume", "_changed_sides")
GONE = "the process that has started it has ended, or has closed it"
ELSEWHERE = "only the process that has started the session can do that"


def _directory() -> Path:
    return private_directory(run_directory() / "sessions")


def _packed(message: object) -> bytes:
    return bytes(msgpack.packb(message, unicode_errors="surrogatepass", default=str))


def _send(connection: socket.socket, message: object, passed: int = -1) -> None:
    content = _packed(message)
    if len(content) > LARGEST:
        raise ValueError(f"a request or answer has more than {LARGEST} bytes")
    connection.sendall(SIZE.pack(len(content), passed >= 0) + content)
    if passed >= 0:
        socket.send_fds(connection, [b"\0"], [passed])


def _received(connection: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(min(size - len(content), 1 << 20))
        if not part:
            raise EOFError
        content += part
    return bytes(content)


def _receive(connection: socket.socket) -> tuple[Any, int]:
    """Return a message, and the descriptor that came with it, or -1.

    Raises:
        EOFError, OSError: the other side is gone.
    """
    size, passes = SIZE.unpack(_received(connection, SIZE.size))
    if size > LARGEST:
        raise EOFError
    message = msgpack.unpackb(_received(connection, size), unicode_errors="surrogatepass", strict_map_key=False)
    if not passes:
        return message, -1
    # socket.recv_fds ignores its flags.
    _, rights, _, _ = connection.recvmsg(1, socket.CMSG_LEN(DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC)
    return message, DESCRIPTOR.unpack(rights[0][2])[0] if rights else -1


def _described(error: Exception) -> list[Any]:
    state = {**vars(error), **({"errno": error.errno} if isinstance(error, SandboxFileError) else {})}
    return [type(error).__name__, list(map(str, error.args)), state]


def _raise(name: str, texts: list[str], state: dict[str, Any]) -> NoReturn:
    kinds: dict[str, type[Exception]] = {"TypeError": TypeError, "ValueError": ValueError}
    kind: Any = kinds.get(name) or getattr(errors, name, SandboxError)
    if issubclass(kind, SandboxFileError):
        raise kind(texts[0], state["path"], state["errno"])
    error = kind.__new__(kind, *texts)
    vars(error).update(state)
    raise error


def _execution(found: dict[str, Any]) -> Execution:
    error = found["error"]
    return Execution(
        **found
        | {
            "error": None if error is None else ExecutionError(**error),
            "usage": Usage(**found["usage"]),
            "violations": tuple(Violation(**one) for one in found["violations"]),
            **{name: tuple(found[name]) for name in ("left_out", "displays", "uncollected")},
        }
    )


class Reference:
    """The socket of a session, which a thread serves.

    Attributes:
        text: by which other processes find it.
    """

    def __init__(self, session: Any) -> None:
        """Listen.

        Raises:
            SandboxError: there is no private directory for the socket.
        """
        self.text = f"pysbx-{secrets.token_hex(16)}"
        self._session, self._creator = session, os.getpid()
        self._path = _directory() / f"{self.text}.sock"
        self._connections: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            remove_left_sockets(_directory())
            self._listener.bind(str(self._path))
            os.chmod(self._path, 0o600)
            self._listener.listen(MOST)
            threading.Thread(target=self._accept, name="pysbx-attach", daemon=True).start()
        except (OSError, RuntimeError) as error:  # the last: no thread is left
            self.close()
            raise SandboxError(f"socket '{self._path}': {getattr(error, 'strerror', error)}") from error

    def close(self) -> None:
        """End all connections; once more is no error."""
        if os.getpid() == self._creator:
            self._path.unlink(missing_ok=True)
            for one in (self._listener, *self._connections):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._listener.close()

    def _accept(self) -> None:
        while self._listener.fileno() >= 0:  # until it is closed
            try:
                self._accept_one()
            except (OSError, RuntimeError):  # no descriptor is left, or no thread
                time.sleep(SHORTAGE_SEC)

    def _accept_one(self) -> None:
        connection, _ = self._listener.accept()
        with contextlib.ExitStack() as failed:
            failed.callback(connection.close)
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
            if UCRED.unpack(peer)[1] not in (0, os.geteuid()) or len(self._connections) >= 2 * MOST:
                return
            do = self._done if len(self._connections) < MOST else self._done_beside
            self._connections.add(connection)
            failed.callback(self._connections.discard, connection)
            threading.Thread(target=self._serve, args=(connection, do), name="pysbx-attached", daemon=True).start()
            failed.pop_all()

    def _serve(self, connection: socket.socket, do: Callable[..., Any]) -> None:
        try:
            # The last two: bytes that are no request.
            with connection, contextlib.suppress(EOFError, OSError, ValueError, msgpack.UnpackException):
                while True:
                    request, passed = _receive(connection)
                    try:
                        self._answer(connection, request, passed, do)
                    finally:
                        if passed >= 0:
                            os.close(passed)
        finally:
            self._connections.discard(connection)

    def _answer(self, connection: socket.socket, request: Message, passed: int, do: Callable[..., Any]) -> None:
        def heard(stream: str) -> Hears:
            def send(text: str) -> None:
                with contextlib.suppress(OSError):  # the other process is gone; its run goes on
                    _send(connection, {"output": [stream, text]})

            return send

        try:
            answer = {"answer": do(request, passed, heard)}
        except Exception as error:
            answer = {"error": _described(error)}
        _send(connection, answer)

    def _done(self, request: Message, passed: int, heard: Callable[[str], Hears]) -> Any:
        session, what = self._session, request["do"]
        if what in METHODS:
            return getattr(session, what)(*request["arguments"])
        others: dict[str, Callable[[], Any]] = {
            "about": lambda: _about(session),
            "interrupt": session.interrupt,
            "run": lambda: self._run(request, passed, heard),
            "ask": lambda: session._exchange_in_turn(request["request"], request["timeout_sec"], passed),
            "changes": lambda: [[one.path, one.kind, one.type, one.size] for one in session.changes()],
            "commit": lambda: asdict(session.commit(request["directory"], **request["options"])),
        }
        allowed = {"ask": REQUESTS, "run": RUNS}.get(what)
        if what not in others or (allowed and request["request"]["op"] not in allowed):
            raise SandboxError(ELSEWHERE)
        return others[what]()

    def _done_beside(self, request: Message, *_: Any) -> Any:
        """Interrupt, and refuse everything else."""
        if request["do"] != "interrupt":
            raise SandboxError(FULL)
        return self._session.interrupt()

    def _run(self, request: Message, passed: int, heard: Callable[[str], Hears]) -> Message:
        out, err = (heard(name) if name in request["heard"] else None for name in ("stdout", "stderr"))
        done = self._session._carry_out_heard(request["request"], request["timeout_sec"], out, err, passed)
        return asdict(done)


def _about(session: Any) -> Message:
    """Return what requests depend on: options that are numbers or texts, and the kind of network."""
    options = session.options
    plain = {name: value for name, value in vars(options).items() if isinstance(value, (int, float, str))}
    state = {"paused": session.paused, "parked": session.parked}
    return {"options": plain, "network": options.allow_network.kind, **state}


class _Link:
    """A connection to the process that has started a session."""

    def __init__(self, reference: str) -> None:
        if not REFERENCE.fullmatch(reference):
            raise ValueError(f"reference: {reference!r:.100} is not one of a session")
        self._path = _directory() / f"{reference}.sock"
        self._lock = threading.Lock()
        self._socket = self._connect()

    def _connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(str(self._path))
        except OSError as error:
            made.close()
            raise SandboxError(f"there is no session with this reference: {GONE}") from error
        return made

    def call(self, request: Message, on_output: Callable[[str, str], None] | None = None, passed: int = -1) -> Any:
        """Send a request, and return its answer.

        Raises:
            SandboxError: the session has ended; or what the other process has raised.
            ConnectionError: the other process is gone.
        """
        with self._lock:
            return self._exchange(self._socket, request, on_output, passed)

    def call_beside(self, request: Message) -> Any:
        """Do the same while a call of another thread waits."""
        with self._connect() as connection:
            return self._exchange(connection, request, None, -1)

    @staticmethod
    def _exchange(
        connection: socket.socket, request: Message, on_output: Callable[[str, str], None] | None, passed: int
    ) -> Any:
        try:
            _send(connection, request, passed)
            while "output" in (answer := _receive(connection)[0]):
                if on_output is not None:
                    on_output(*answer["output"])
        except (EOFError, OSError) as error:
            raise ConnectionError(GONE) from error
        if "error" in answer:
            _raise(*answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """Close it, also while a call waits."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _there(name: str, about: str) -> Any:
    """Return a method that calls the one of that name in the process that has started the session."""

    def called(self: Attached, *arguments: Any) -> Any:
        given = [one if isinstance(one, (str, dict, list)) else os.fspath(one) for one in arguments]
        return self._call({"do": name, "arguments": given})

    called.__doc__ = about
    return called


class Attached:
    """The part of a Sandbox that is another one for a session of another process: see Sandbox.attach."""

    _ended: str

    def __init__(self, reference: str) -> None:
        """Connect to that process.

        Raises:
            SandboxError: it has ended, or the session has too many users.
            ValueError: this is no reference.
        """
        self._link, self._ended = _Link(reference), ""
        try:
            about = self._call({"do": "about"})
        except SandboxError:
            self._link.close()
            raise
        network = Network(about["network"])
        self._prepare(Options(**about["options"] | {"allow_network": network}))  # type: ignore[attr-defined]
        self._name = reference

    def __repr__(self) -> str:
        """Return that it is another process's, and why it has ended; its reference would let a reader use it."""
        return f"<Sandbox: {f'ended: {self._ended}' if self._ended else 'of another process'}>"

    def __enter__(self) -> Any:
        """Return it."""
        return self

    @property
    def reference(self) -> str:
        """The reference by which it was found."""
        return self._name

    @property
    def paused(self) -> bool:
        """Whether the session is paused."""
        return not self._ended and bool(self._call({"do": "about"})["paused"])

    @property
    def parked(self) -> bool:
        """Whether the session is parked."""
        return not self._ended and bool(self._call({"do": "about"})["parked"])

    def close(self) -> None:
        """Let the session go: it goes on."""
        self._link.close()
        self._ended = self._ended or "this process has detached from it"

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs; see Sandbox.interrupt."""
        if self._ended:
            self._started()
        try:
            self._link.call_beside({"do": "interrupt"})
        except ConnectionError as error:  # of this connection, not of the one that the session's other calls use
            raise SandboxError(f"the session cannot be interrupted: {error}") from error

    def park(self) -> None:
        """Refuse: only the process that has started the session can."""
        self._started()

    def _started(self) -> NoReturn:
        if self._ended:
            raise SandboxError(f"the session has ended: {self._ended}")
        raise SandboxError(ELSEWHERE)

    def _call(self, request: Message, on_output: Callable[[str, str], None] | None = None, passed: int = -1) -> Any:
        if self._ended:
            self._started()
        try:
            return self._link.call(request, on_output, passed)
        except ConnectionError:
            self._ended = self._ended or GONE
            self._started()

    def _exchange(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Message:
        found: Message = self._call({"do": "ask", "request": request, "timeout_sec": timeout_sec}, passed=passed)
        return found

    def _carry_out_heard(
        self,
        request: Message,
        timeout_sec: float | None,
        on_stdout: Hears | None,
        on_stderr: Hears | None,
        passed: int = -1,
    ) -> Execution:
        """Carry out a request for a run; see Sandbox."""
        check_callbacks(on_stdout, on_stderr)
        hears = {"stdout": on_stdout, "stderr": on_stderr}

        def heard(stream: str, text: str) -> None:
            one = hears.get(stream)
            if one is not None:
                one(text)

        wanted = [name for name, one in hears.items() if one is not None]
        message = {"do": "run", "request": request, "timeout_sec": timeout_sec, "heard": wanted}
        return _execution(self._call(message, heard, passed))

    def _carry_out(self, request: Message, timeout_sec: float | None = None, passed: int = -1) -> Execution:
        """Carry out a request for a run; see Sandbox."""
        return self._carry_out_heard(request, timeout_sec, None, None, passed)

    def _put_files(self, named: Mapping[str, bytes], executable: Iterable[str] = ()) -> None:
        """Write files whose paths have been checked."""
        self._call({"do": "_put_files", "arguments": [dict(named), list(executable)]})

    def changes(self) -> list[Change]:
        """Return what code has changed; see Sandbox.changes."""
        found = self._call({"do": "changes"})
        return [Change(path, kind, of, size, partial(self._changed_sides, path)) for path, kind, of, size in found]

    def commit(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, exclude: Iterable[str] = ()
    ) -> Commit:
        """Write the changes of /work to a directory; see Sandbox.commit."""
        options = {"overwrite": overwrite, "exclude": as_texts(exclude, "exclude")}
        done = self._call({"do": "commit", "directory": os.path.abspath(directory), "options": options})
        return Commit(tuple(done["written"]), tuple(done["removed"]), done["refused"])

    @contextlib.contextmanager
    def _changes(self) -> Any:
        self._started()
        yield

    def _changed_sides(self, path: str) -> Sides:
        """Return a file at the start and now; see Sandbox."""
        found = self._call({"do": "_changed_sides", "arguments": [path]})
        return found if isinstance(found, str) else (found[0], found[1])

    pause = _there("pause", "See Sandbox.pause.")
    resume = _there("resume", "See Sandbox.resume.")
    mark = _there("mark", "See Sandbox.mark.")
    discard = _there("discard", "See Sandbox.discard.")
    remove = _there("remove", "See Sandbox.remove.")
    install = _there("install", "See Sandbox.install.")
