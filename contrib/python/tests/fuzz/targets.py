"""The targets of the fuzzer: each function takes any bytes, and raises when the code breaks its promises.

A promise is in the docstring of what is called: the exceptions that it may raise, and what holds of a result.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import h11
import uvicorn
import wsproto
from uvicorn.server import ServerState
from wsproto.events import BytesMessage, CloseConnection, Pong

from pysbx.calls import tables
from pysbx.calls.call import open_answer
from pysbx.calls.decode import decode
from pysbx.calls.tool_calls import CallOverflow, CallReader, open_arguments
from pysbx.container import answer_frame
from pysbx.errors import SandboxError, SerializationError
from pysbx.inside.wire import TOOL_CALL
from pysbx.network.host_rules import RefusedError, handshake, server_name
from pysbx.network.http_request import END, Request
from pysbx.options import hints
from pysbx.options.options import make_options
from pysbx.options.requirements import normalise, of_script
from pysbx.packages.dependencies import packages_of
from pysbx.service.connections.access import Access
from pysbx.service.connections.admission import Admission
from pysbx.service.connections.listener import Guest, Listener
from pysbx.service.connections.protocol import Protocol
from pysbx.service.connections.slices import Intake, Turns
from pysbx.service.connections.upgrade import Upgraded
from pysbx.service.sandboxes.callbacks import MAX_BYTES, Book, Callback, heard, settle

NAMES = ("values", "number", "read_table", "größe")
OPTIONS = make_options()
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


class Colour(enum.Enum):
    """An enumeration that an answer may name."""

    RED = "r"


@dataclass
class Point:
    """A dataclass that an answer may name."""

    x: int
    tags: list[str] = field(default_factory=list)


def find_class(module: str, name: str) -> type | None:
    """Return one of the classes above."""
    return {"Colour": Colour, "Point": Point}.get(name) if module == "m" else None


def decode_target(data: bytes) -> None:
    """Decode an answer: it is a value or a SerializationError."""
    with contextlib.suppress(SerializationError):
        decode(data, find_class)


def _count(value: Any) -> int:
    """Return the number of elements of a value, itself included, without recursion."""
    found, rest = 0, [value]
    while rest:
        item = rest.pop()
        found += 1
        if isinstance(item, dict):
            rest += [*item, *item.values()]
        elif isinstance(item, list):
            rest += item
    return found


def frame_target(data: bytes) -> None:
    """Count the elements of a frame: never fewer than there are. Then read the answer that it may be."""
    announced = answer_frame.elements(data, 1 << 62)
    try:
        value = answer_frame.unpack(data)
    except Exception:  # as its docstring says
        return
    if _count(value) > announced:
        raise AssertionError(f"{announced} elements are announced, and there are {_count(value)}")
    if isinstance(value, dict):
        with contextlib.suppress(SandboxError):
            open_answer(value, OPTIONS, "typed", find_class)


def _table_of(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except Exception:  # as its docstring says
        return None


def tables_target(data: bytes) -> None:
    """Read an Arrow stream as each kind of table: it is one that can be used, and no larger than its bytes."""
    table = _table_of(tables.read, data)
    if table is not None and table.nbytes > len(data):
        raise AssertionError(f"{len(data)} bytes have become {table.nbytes}")
    for read in (tables.to_pandas, tables.to_polars):
        found = _table_of(read, data)
        # pandas cannot print its own times in a named time zone beyond the year 9999 (seed pandas-late-times).
        with contextlib.suppress(NotImplementedError, OverflowError):
            repr(found)


def hello_target(data: bytes) -> None:
    """Read a ClientHello: whole, cut off, and its content by itself."""
    with contextlib.suppress(RefusedError):
        server_name(data)
    cut = data[0] % len(data) if data else 0
    try:
        hello = handshake(data)
    except RefusedError:
        return
    if hello is None:
        # A ClientHello that is not whole must not be whole with fewer bytes.
        if handshake(data[:cut]) is not None:
            raise AssertionError("a part is whole, and all of it is not")
        return
    with contextlib.suppress(RefusedError):
        name = server_name(hello)
        if name != name.lower() or not name.isascii():
            raise AssertionError(f"a strange name: {name!r}")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def check_request(sent: bytes, name: str) -> None:
    """Check that what the proxy sends to a web server is a request for the host, to this server as well."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(sent)
    server.receive_data(b"")
    event = server.next_event()
    if not isinstance(event, h11.Request):
        raise AssertionError(f"a request went through that is none: {sent!r}")
    hosts = [value.lower().partition(b":")[0] for key, value in event.headers if key == b"host"]
    if hosts != [name.encode()]:
        raise AssertionError(f"a request for {hosts} went through: {sent!r}")


def proxy_target(data: bytes) -> None:
    """Read a request as the proxy does, and write it anew: it is refused, or a server reads it as the proxy did."""
    head, end, rest = data.partition(END)
    try:
        request = Request(head + end)
        if request.method == "CONNECT":
            return
        sent = request.head()
    except RefusedError:
        return
    check_request(sent, request.name)
    with contextlib.suppress(RefusedError):
        for _ in request.body(rest):
            pass


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the number of bytes of the body; as every application, refuse methods that it does not know."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    content = b"%d" % size
    headers = [(b"content-length", b"%d" % len(content))]
    status = 200 if scope["method"] in METHODS else 405
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class Transport(asyncio.Transport):
    """A connection of the service, which keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.sent += bytes(data)

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def abort(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def get_write_buffer_size(self) -> int:
        """Return that all is taken at once."""
        return 0

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.closed

    def pause_reading(self) -> None:
        """There is nothing more to read."""

    def resume_reading(self) -> None:
        """There is nothing more to read."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is none."""


class OpenListener:
    """A door at which nothing is counted."""

    def __init__(self) -> None:
        self.turns = Turns()

    def left(self, guest: Guest) -> None:
        """The connection has ended."""

    def refused(self, problem: str) -> None:
        """A request has been refused."""


class Complaints(logging.Handler):
    """The records of a server about exceptions that reach no caller."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.texts.append(self.format(record))


@functools.cache
def _service() -> tuple[uvicorn.Config, Complaints]:
    gate = Admission(_application, Access(), 4, 1 << 16)
    config = uvicorn.Config(gate, access_log=False, log_config=None, server_header=False, http=Protocol, ws="none")
    config.load()
    complaints = Complaints()
    logging.getLogger("uvicorn.error").addHandler(complaints)
    logging.getLogger("uvicorn.error").propagate = False
    return config, complaints


async def _talk(config: uvicorn.Config, data: bytes) -> bytes:
    transport = Transport()
    protocol = Protocol(config, ServerState(), {}, cast("Listener", OpenListener()))
    protocol.connection_made(transport)
    if data:  # to h11 no bytes are the end, of which a loop tells in another way
        protocol.data_received(data)
    while protocol.tasks or (cast("Intake", protocol.transport).held and not transport.closed):
        await asyncio.sleep(0)
        if transport.closed or protocol.conn.their_state in (h11.SEND_BODY, h11.IDLE):
            protocol.connection_lost(None)  # what is not there will not come
    protocol.connection_lost(None)
    return transport.sent


def service_target(data: bytes) -> None:
    """Send bytes to a server's connection: nothing fails but the request, and every answer is HTTP."""
    config, complaints = _service()
    complaints.texts.clear()
    sent = _loop().run_until_complete(asyncio.wait_for(_talk(config, data), 10))
    if complaints.texts:
        raise AssertionError(complaints.texts[0])
    if sent and not sent.startswith(b"HTTP/1.1 "):
        raise AssertionError(f"no answer: {sent[:80]!r}")


UPGRADE = (
    b"GET /v1/sessions/x/terminal HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MAX_MESSAGE = 1 << 16


async def _terminal(scope: Any, receive: Any, send: Any) -> None:
    """Accept a WebSocket, and answer each message with its size, as it must be."""
    del scope
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        content = message["bytes"] if message.get("bytes") is not None else message["text"].encode()
        if len(content) > MAX_MESSAGE:
            raise AssertionError(f"a message of {len(content)} bytes")
        await send({"type": "websocket.send", "bytes": b"%d" % len(content)})


@functools.cache
def _sockets() -> tuple[uvicorn.Config, Complaints]:
    complaints = _service()[1]
    config = uvicorn.Config(
        _terminal, log_config=None, ws=cast("Any", Upgraded), ws_max_size=MAX_MESSAGE, ws_per_message_deflate=False
    )
    config.load()
    return config, complaints


async def _send_frames(config: uvicorn.Config, data: bytes) -> bytes:
    transport = Transport()
    intake = Intake(transport, Turns(), lambda _: True)
    protocol = Upgraded(config, ServerState(), {}, lambda: None)
    protocol.connection_made(cast("asyncio.Transport", intake))
    protocol.data_received(UPGRADE)
    while not protocol.handshake_complete:
        await asyncio.sleep(0)
    if data:
        protocol.data_received(data)
    for _ in range(3):  # the application reads what a slice has brought, and then the next one comes
        await asyncio.sleep(0)
        while intake.held and not transport.closed:
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    while protocol.tasks:
        await asyncio.sleep(0)
    return transport.sent


def frames_target(data: bytes) -> None:
    """Send bytes to a WebSocket: nothing fails, no message is too large, and the answers are frames of a server."""
    config, complaints = _sockets()
    complaints.texts.clear()
    sent = _loop().run_until_complete(asyncio.wait_for(_send_frames(config, data), 10))
    if complaints.texts:
        raise AssertionError(complaints.texts[0])
    head, _, frames = sent.partition(END)
    if not head.startswith(b"HTTP/1.1 101 "):
        raise AssertionError(f"no WebSocket: {sent[:80]!r}")
    client = wsproto.connection.Connection(wsproto.ConnectionType.CLIENT, trailing_data=frames)
    for event in client.events():
        if isinstance(event, CloseConnection):
            return  # an answer to what has no meaning, or to the client's own
        if not isinstance(event, (BytesMessage, Pong)):
            raise AssertionError(f"a strange answer: {event}")


def explain_target(data: bytes) -> None:
    """Explain an output."""
    text = data.decode("utf-8", "surrogateescape")
    found = hints.explain(text, NAMES)
    if found is not None and (not found.type or (found.hint is not None and not found.hint)):
        raise AssertionError(f"an empty report: {found}")


def script_target(data: bytes) -> None:
    """Read the metadata of a script: they are malformed, or requirements in normal form."""
    with contextlib.suppress(ValueError):
        found = of_script(data.decode(errors="replace"))
        assert [normalise(item) for item in found.dependencies] == list(found.dependencies)
        found.check_python((3, 11))


def metadata_target(data: bytes) -> None:
    """Read the list of files that a package has left: each name of a package can be imported."""
    for name in packages_of(data):
        assert all(part.isidentifier() for part in name.split("."))
        assert len(name) <= 100


def tools_target(data: bytes) -> None:
    """Read calls of tools in pieces: only of tools that are listed, and no more than allowed. Then their arguments."""
    tools, most, size = 3, 20, 1 << 12
    reader = CallReader(tools, most, size)
    calls: list[bytes] = []
    step = 1 + data[0] % 64 if data else 1
    with contextlib.suppress(CallOverflow):
        for start in range(0, len(data), step):
            for _, position, arguments in reader.feed(data[start : start + step]):
                assert position < tools
                calls.append(arguments)
            assert len(calls) <= most
            assert sum(map(len, calls)) + len(reader.incoming) <= size + TOOL_CALL.size + step
    for arguments in calls:
        with contextlib.suppress(SerializationError):
            positional, named = open_arguments(arguments)
            assert type(positional) is list
            assert all(type(name) is str for name in named)
            _tell_of_call(positional, named)


def _tell_of_call(positional: list[Any], named: dict[str, Any]) -> None:
    """Tell a caller over HTTP of a call: its event is JSON, and no larger than allowed. Its answer ends it."""
    book, told = Book(), list[str]()
    callback = Callback(book, "", [{"name": "f", "description": "", "parameters": {"properties": {"it": {}}}}])
    with heard(callback, lambda _, text: told.append(text)):
        try:
            future = callback.tools.functions["f"](*positional, **named)
        except (TypeError, ValueError, RecursionError):
            assert not told
            return
        (text,) = told
        assert len(text) <= MAX_BYTES
        call = json.loads(text.encode())
        assert book.take("", call["id"]) is future
        settle(future, 1)
        assert future.result(0) == 1


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decode": decode_target,
    "frame": frame_target,
    "tables": tables_target,
    "hello": hello_target,
    "proxy": proxy_target,
    "service": service_target,
    "frames": frames_target,
    "explain": explain_target,
    "script": script_target,
    "metadata": metadata_target,
    "tools": tools_target,
}
# Seconds of CPU time that one input may take; a second is what decode itself allows for sets (decode.HASHING_SEC).
SECONDS = dict.fromkeys(TARGETS, 1.0) | {"decode": 3.0, "tools": 3.0}
