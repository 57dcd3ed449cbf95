"""Tools of callers: code calls a function, the stream of its run tells the caller, and the caller sends the answer.

A call has an identifier that cannot be guessed, and only the caller whose code it is may answer it. A run has limited
calls and bytes, and a call a limit of time. No thread waits for an answer.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from pysbx.calls.tools import Tools, from_schema
from pysbx.service.connections.problems import NO_CALL, Problem, clean

OnOutput = Callable[[str, str], None]

# Of a run: calls, bytes of JSON of all arguments, seconds of a call, and threads that make events of calls.
MAX_CALLS, MAX_BYTES, CALL_SEC, AT_ONCE = 1000, 4 << 20, 60.0, 8
EVENT = "tool_call"
NO_STREAM = "the caller hears of calls only while it reads the stream of the run (Accept: text/event-stream)"
# They mean something else where they are raised.
UNFIT = (StopIteration, StopAsyncIteration)


class Book:
    """The calls of all callers that wait for an answer."""

    def __init__(self) -> None:
        """Begin without a call."""
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[str, Future[Any]]] = {}

    def add(self, owner: str) -> tuple[str, Future[Any]]:
        """Keep a call until it has its answer; return its identifier, and what becomes that."""
        identifier, future = secrets.token_urlsafe(18), Future[Any]()
        with self._lock:
            self._waiting[identifier] = owner, future
        future.add_done_callback(lambda _: self._forget(identifier))
        return identifier, future

    def _forget(self, identifier: str) -> None:
        with self._lock:
            self._waiting.pop(identifier, None)

    def take(self, owner: str, identifier: str) -> Future[Any]:
        """Return what becomes the answer to a caller's call; a call has one answer.

        Raises:
            Problem: no such call waits. The call of another caller counts as none.
        """
        with self._lock:
            whose, future = self._waiting.get(identifier, ("", None))
            if future is None or whose != owner:
                raise Problem(NO_CALL, "it has never been, has its answer, or its time is over")
            del self._waiting[identifier]
        return future


class Callback:
    """The tools of a caller, for one run or session.

    Attributes:
        tools: the functions.
    """

    def __init__(self, book: Book, owner: str, described: Sequence[Mapping[str, Any]]) -> None:
        """Take tools, each with the members name, description and parameters, a JSON schema.

        Raises:
            ValueError: they are not allowed, such as a name that no function can have.
        """
        self._book, self._owner, self._described = book, owner, described
        self._lock = threading.Lock()
        self._tell: OnOutput | None = None
        self._left = 0
        self._futures: set[Future[Any]] = set()
        functions = {one["name"]: self._function(**one) for one in described}
        if len(functions) < len(described):
            raise ValueError("tools: two of them have the same name")
        self.tools = Tools(
            functions, max_calls=MAX_CALLS, max_bytes=MAX_BYTES, timeout_sec=CALL_SEC, max_concurrent=AT_ONCE
        )

    def again(self) -> Callback:
        """Return the same tools for another session."""
        return Callback(self._book, self._owner, self._described)

    def _function(
        self, name: str, description: str, parameters: Mapping[str, Any], *, is_async: bool = False
    ) -> Callable[..., Any]:
        def tell(arguments: dict[str, Any]) -> Any:
            return self._ask(name, arguments)

        return from_schema(name, tell, description, parameters, is_async=is_async)

    def begin(self, tell: OnOutput | None) -> None:
        """Hand calls on, until end()."""
        with self._lock:
            self._tell, self._left = tell, MAX_BYTES

    def end(self) -> None:
        """Hand no call on: those that wait fail."""
        with self._lock:
            self._tell = None
            futures = list(self._futures)
        for future in futures:
            settle(future, RuntimeError(NO_STREAM))

    def _ask(self, name: str, arguments: Mapping[str, Any]) -> Future[Any]:
        """Tell the caller of a call, and return what its answer will be in: a thread of the run."""
        identifier, future = self._book.add(self._owner)
        try:
            text = self._json({"id": identifier, "name": name, "arguments": arguments})
            with self._lock:
                tell = self._tell
                if tell is None:
                    raise RuntimeError(NO_STREAM)
                self._left -= len(text)
                self._futures.add(future)
            future.add_done_callback(self._drop)
            tell(EVENT, text)
        except BaseException:
            future.cancel()
            raise
        return future

    def _drop(self, future: Future[Any]) -> None:
        with self._lock:
            self._futures.discard(future)

    def _json(self, call: Mapping[str, Any]) -> str:
        """Return a call as JSON, which may be several times as long as what came from the sandbox."""
        parts, left = list[str](), self._left
        for part in json.JSONEncoder(allow_nan=False, ensure_ascii=False).iterencode(call):
            left -= len(part)
            if left < 0:
                raise ValueError(f"the arguments of the tools of this run have more than {MAX_BYTES} bytes")
            parts.append(part)
        return clean("".join(parts))


@contextlib.contextmanager
def heard(callback: Callback | None, tell: OnOutput | None) -> Iterator[None]:
    """Let a caller hear of the calls of its tools while the block runs."""
    if callback is None:
        yield
        return
    callback.begin(tell)
    try:
        yield
    finally:
        callback.end()


def settle(future: Future[Any], answer: Any) -> None:
    """Give a call its answer, or the exception that it raises, unless it has just ended."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def error_of(kind: str, message: str) -> Exception:
    """Return the exception that a caller answers with: one of Python's own by its name, or RuntimeError."""
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, UNFIT):
        with contextlib.suppress(TypeError):  # it takes other arguments
            return found(message)
    return RuntimeError(f"{kind}: {message}" if kind else message)
