"""The checks before a request reaches anything else: token, free slot, size, time of arrival.

An ASGI application around another; see https://asgi.readthedocs.io/en/latest/specs/www.html. The body is read here, as
a whole. So all requests together hold at most the number of slots times the size of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

from pysbx.service.connections.access import Access
from pysbx.service.connections.origins import SAFE, check_page
from pysbx.service.connections.problems import BUSY, LARGE, MALFORMED, PLAIN, SLOW, TOKEN, Problem, answered_with
from pysbx.service.connections.rate import PATIENCE_SEC, RATE, Rate

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Check = Callable[[bytes], Awaitable[None]]

# A client that sends slowly, or does not read its answer, must not keep a slot for ever. BODY_SEC is the time that a
# body may stand still: see Rate. The connection watches answers, because it knows how much of them has gone. SEND_SEC
# is for answers that come in parts, and is far more than any part takes.
BODY_SEC = PATIENCE_SEC
SEND_SEC = 900.0
RETRY_SEC = 2
# One caller of several has at most so many slots for each that is still free: alone, three quarters of all.
SHARE = 3
# Bytes of a request line with all headers. The server itself counts only those that have not come at once.
MAX_HEAD = 16 * 1024
# The part in front of a path if a client takes this server for a proxy: RFC 9112, section 3.2.2.
TARGET = re.compile(r"https?://[^/]*", re.IGNORECASE)
# Routes that need no token and disclose nothing: programs that start and watch servers ask for them.
# Of ASGI: the extension by which a WebSocket is refused, and where the types of its events begin.
DENIAL = "websocket.http.response"
OPEN = ("/health", "/healthz", "/readyz")
# A route that needs no slot: its numbers are most needed while all slots are taken.
NUMBERS = "/metrics"

# The caller whose request is being answered.
caller: ContextVar[str] = ContextVar("caller", default="")
# True if the caller is authenticated; open routes also serve anonymous callers.
is_known: ContextVar[bool] = ContextVar("is_known", default=False)


class Gone(Exception):
    """The client has gone before its request was whole, or does not take the answer."""


def has_denial(scope: Scope) -> bool:
    """Tell whether a WebSocket can be refused by a whole answer of HTTP."""
    return DENIAL in (scope.get("extensions") or {})


async def send_problem(problem: Problem, send: Send, kind: str = "http.response") -> None:
    """Answer with a problem; `kind` begins the types of the events."""
    answered_with.set(problem)
    content = json.dumps(problem.content()).encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers().items()]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": f"{kind}.start", "status": problem.kind.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": content})


def _header(scope: Scope, name: bytes) -> str:
    found: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for key, value in found if key == name), "")


def _by_name(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def credential(scope: Scope) -> str:
    """Return what a request says in Authorization, or in X-Pysbx-Token: some proxies keep the first to themselves.

    Dify and LibreChat send X-Api-Key.
    """
    token = _header(scope, b"x-pysbx-token") or _header(scope, b"x-api-key")
    return _header(scope, b"authorization") or (f"Bearer {token}" if token else "")


def check_framing(scope: Scope) -> None:
    """Refuse a request whose end a proxy in front may see elsewhere: it would take the rest for another request.

    See RFC 9112, section 6.1. The server itself refuses other doubtful requests.
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Problem(MALFORMED, "it has both Content-Length and Transfer-Encoding")
    if b"transfer-encoding" in names and scope["http_version"] == "1.0":
        raise Problem(MALFORMED, "it has a Transfer-Encoding, which HTTP/1.0 does not know")


def check_head(scope: Scope) -> None:
    """Refuse a head that is too large, however it has come."""
    size = len(scope["path"]) + len(scope.get("query_string", b""))
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEAD:
        raise Problem(MALFORMED, f"its head has more than {MAX_HEAD} bytes")


def take_origin(scope: Scope) -> None:
    """Take scheme and host off a target that has them."""
    origin = TARGET.match(scope["path"])
    if origin is not None:
        scope["path"] = scope["path"][origin.end() :] or "/"


class Admission:
    """The application in front of another."""

    def __init__(
        self,
        application: Application,
        access: Access,
        slots: int,
        size: int,
        *,
        methods: str = "",
        check: Check | None = None,
        pages: Iterable[str] = (),
        origins: Iterable[str] = (),
        fields: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        """Put a gate before an application.

        Args:
            application: what is behind it.
            access: the tokens.
            slots: requests at a time.
            size: bytes of a body.
            methods: those that are answered, with blanks between them; "" for all.
            check: raises the problem with the body of a POST, which is JSON.
            pages: further routes that need no token.
            origins: those whose pages may call.
            fields: returns further header fields of the answers to a caller.
        """
        self._fields = fields
        self._origins = frozenset(origins)
        self._open = frozenset((*OPEN, *pages))
        self._application = application
        self._access = access
        self._slots = slots
        self._size = size
        self._methods = methods.split()
        self._check = check
        self._taken: Counter[str] = Counter()  # slots by caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer why not."""
        if scope["type"] == "websocket":
            await self._open_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        try:
            check_framing(scope)
            check_head(scope)
            take_origin(scope)
            who = self._access.caller(credential(scope))
            is_known.set(who is not None)
            if scope["path"] in self._open:
                await self._application(scope, receive, send)
                return
            if who is None:
                raise Problem(TOKEN, "this server knows its callers by a token")
            caller.set(who)
            send = self._with_fields(who, send)
            if not self._access and scope["method"] not in SAFE:
                check_page(_by_name(scope), self._origins)
            if self._methods and scope["method"] not in self._methods:
                detail = f"{scope['method']} is not among: {', '.join(self._methods)}"
                raise Problem(PLAIN[405], detail, allow=self._methods)
            if scope["path"] == NUMBERS and scope["method"] in SAFE:
                await self._application(scope, receive, send)
                return
            self._check_slots(who)
        except Problem as problem:
            await send_problem(problem, send)
            return
        self._taken[who] += 1
        try:
            await self._let_through(who, scope, receive, send)
        finally:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]

    def _check_slots(self, who: str) -> None:
        """Refuse a request if no slot is free, or if the rest of them is kept for other callers."""
        mine, left = self._taken[who], self._slots - self._taken.total() - 1
        busy = "requests are being worked on or wait"
        if left < 0:
            raise Problem(BUSY, f"{self._slots} {busy}", retry_sec=RETRY_SEC)
        if self._access.are_several and mine and mine >= SHARE * left:
            raise Problem(BUSY, f"{mine} of your {busy}, and others need the rest", retry_sec=RETRY_SEC)

    def _with_fields(self, who: str, send: Send) -> Send:
        """Return a function that sends answers with the header fields of a caller."""
        fields = self._fields
        if fields is None:
            return send

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in fields(who).items()]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return send_with_fields

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a WebSocket through. It takes no slot, because each belongs to a session, of which there are few."""
        try:
            check_head(scope)
            take_origin(scope)
            who = self._access.caller(credential(scope))
            if who is None:
                raise Problem(TOKEN, "this server knows its callers by a token")
            # Browsers let any page open a WebSocket: see RFC 6455, section 10.2.
            check_page(_by_name(scope), self._origins)
            if self._methods:
                raise Problem(PLAIN[404], "this server has no WebSockets")
        except Problem as problem:
            await receive()
            if has_denial(scope):
                await send_problem(problem, send, DENIAL)
            else:
                answered_with.set(problem)
                await send({"type": "websocket.close"})
            return
        caller.set(who)
        await self._application(scope, receive, send)

    async def _let_through(self, who: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(scope, receive)
            if self._check is not None and scope["method"] == "POST":
                await self._check(body)
        except asyncio.TimeoutError:
            detail = f"its body stood still for {BODY_SEC:g} seconds, or came with less than {RATE} bytes a second"
            await send_problem(Problem(SLOW, detail), send)
            return
        except Problem as problem:
            await send_problem(problem, send)
            return
        except Gone:
            return
        given = [body]

        async def send_in_time(message: Message) -> None:
            try:
                await asyncio.wait_for(send(message), SEND_SEC)
            except asyncio.TimeoutError:
                raise Gone from None

        async def replay() -> Message:
            if given:
                return {"type": "http.request", "body": given.pop(), "more_body": False}
            return await receive()

        caller.set(who)
        with contextlib.suppress(Gone):
            await self._application(scope, replay, send_in_time)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        announced = _header(scope, b"content-length")
        size, parts, more, clock = 0, [], True, asyncio.get_running_loop().time
        pace = Rate(clock(), BODY_SEC)
        if announced.isdecimal() and int(announced) > self._size:
            raise self._too_large()
        while more:
            message = await asyncio.wait_for(receive(), pace.until - clock())
            if message["type"] == "http.disconnect":
                raise Gone
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            parts.append(part)
            size += len(part)
            pace.moved(len(part), clock())
            if size > self._size:
                raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem(LARGE, f"more than {self._size} bytes", more={"limit": self._size})
