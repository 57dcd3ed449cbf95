"""Requests that may be sent again: Idempotency-Key, for a client whose connection has broken.

A POST with a key goes on to its end without its client, and its answer is kept for a minute. The same request with the
same key gets that answer, and nothing runs again. See draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import BUSY, IDEMPOTENCY, REQUEST, Problem

KEPT_SEC = 60.0
# Of a caller; and of the bodies of all answers.
MAX_KEYS, MAX_BYTES = 1000, 64 << 20
RETRY_SEC = 1
SUCCESS = range(200, 300)
# The draft has a string in quotation marks; most clients leave these out.
KEY = re.compile(r'"?([\x21\x23-\x7e]{1,255})"?')


@dataclass(eq=False)
class _Answer:
    """The answer to a request, as far as it has come.

    Attributes:
        request: a hash of the request.
        until: when it is forgotten; never while the request is worked on.
        start: its first message, with status and headers; None before it, and if its body is not kept.
        body: its content.
        is_kept: whether the body is.
    """

    request: bytes
    until: float = math.inf
    start: Message | None = None
    body: bytearray = field(default_factory=bytearray)
    is_kept: bool = True


def _hash(scope: Scope, body: bytes) -> bytes:
    """Return a hash of what makes two requests the same."""
    parts = [scope["path"].encode(), scope.get("query_string", b""), body]
    for wanted in (b"accept", b"content-type"):
        parts.append(b",".join(value for name, value in scope["headers"] if name == wanted))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


async def _never() -> Message:
    """Wait for ever: the request goes on when its client has gone."""
    await asyncio.Event().wait()
    raise AssertionError


class Idempotent:
    """The application in front of another; a caller's keys are its own."""

    def __init__(self, app: ASGIApp, respond: Callable[[Problem], ASGIApp]) -> None:
        """Put it before an application."""
        self._app, self._respond = app, respond
        self._answers: dict[str, dict[str, _Answer]] = {}
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, unless its key has an answer."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        given = [value for name, value in scope["headers"] if name == b"idempotency-key"] if is_post else []
        if not given:
            await self._app(scope, receive, send)
            return
        body: bytes = (await receive()).get("body", b"")  # all of it: see Admission
        try:
            key, made, is_new = self._find(b",".join(given).decode("latin-1"), _hash(scope, body))
        except Problem as problem:
            await self._respond(problem)(scope, receive, send)
            return
        if is_new:
            await self._work(key, made, body, scope, send)
            return
        start = made.start or {}
        await send({**start, "headers": [*start["headers"], (b"idempotency-replayed", b"true")]})
        await send({"type": "http.response.body", "body": bytes(made.body)})

    def _find(self, given: str, request: bytes) -> tuple[str, _Answer, bool]:
        """Return a key, its answer, and whether that is yet to be made."""
        found = KEY.fullmatch(given)
        if found is None:
            raise Problem(REQUEST, "Idempotency-Key: not 1 to 255 visible characters of ASCII")
        self._forget()
        answers = self._answers.setdefault(caller.get(), {})
        before = answers.get(found[1])
        if before is None:
            if len(answers) >= MAX_KEYS:
                raise Problem(BUSY, f"Idempotency-Key: {MAX_KEYS} keys are in use", retry_sec=int(KEPT_SEC))
            made = answers[found[1]] = _Answer(request)
            return found[1], made, True
        if before.request != request:
            raise Problem(REQUEST, "Idempotency-Key: another request has this key: use a new one")
        if before.until == math.inf:
            raise Problem(IDEMPOTENCY, "the first one is still being worked on", retry_sec=RETRY_SEC)
        if not before.is_kept:
            raise Problem(IDEMPOTENCY, "it has been carried out, and its answer was too large to keep")
        return found[1], before, False

    def _forget(self) -> None:
        """Forget the answers whose time is over."""
        now = time.monotonic()
        for who, answers in tuple(self._answers.items()):
            for key in [key for key, one in answers.items() if one.until < now]:
                self._drop(answers.pop(key))
            if not answers:
                del self._answers[who]

    def _drop(self, answer: _Answer) -> None:
        self._size -= len(answer.body)
        answer.body, answer.start, answer.is_kept = bytearray(), None, False

    def _keep(self, answer: _Answer, part: bytes) -> None:
        """Keep a part of an answer. If there is no room, drop the oldest of the caller with the most bytes."""
        if answer.is_kept:
            answer.body += part
            self._size += len(part)
        while self._size > MAX_BYTES:
            most = max(self._answers.values(), key=lambda answers: sum(len(one.body) for one in answers.values()))
            self._drop(next(one for one in most.values() if one.body))

    async def _work(self, key: str, made: _Answer, body: bytes, scope: Scope, send: Send) -> None:
        """Carry out a request, also without its client."""
        who, given, status = caller.get(), [body], 0

        async def receive() -> Message:
            return {"type": "http.request", "body": given.pop(), "more_body": False} if given else await _never()

        async def keep(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                made.start, status = message, message["status"]
            self._keep(made, message.get("body", b""))
            with contextlib.suppress(Exception):  # the client has gone
                await send(message)

        try:
            await self._app(scope, receive, keep)
        finally:
            made.until = time.monotonic() + KEPT_SEC
            if status not in SUCCESS:  # nothing was done, and the client may try again
                self._drop(self._answers[who].pop(key))
