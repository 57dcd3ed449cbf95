"""`pysbx serve` and `pysbx mcp`: requests of which it is doubtful where they end, sent as no client would."""

# once: a server says the same to its clients as root

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.servers import Server, server, wait_until

BODY = b'{"code": "6 * 7"}'
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HEAD = b"POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
NEXT = b"GET /v1/profiles HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server("--request-size", "1", listen=f"unix:{tmp_path_factory.mktemp('framing')}/s", warnings=True) as found:
        yield found


def talk(service: Server, sent: bytes, *, to_the_end: bool) -> bytes:
    """Send bytes as they are and return the answer; to the end of the connection, or up to that of a JSON object."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(30)
        channel.connect(service.address.removeprefix("unix:"))
        found = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # it does not read all of it
            channel.sendall(sent)
        with suppress(ConnectionResetError):
            while part := channel.recv(1 << 16):
                found += part
                if not to_the_end and found.endswith(b"}"):
                    break
        return found


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (LENGTH + CHUNKED, CHUNKS),
        (CHUNKED + b"Content-Length: 4\r\n", CHUNKS),
        (CHUNKED + b"content-length: %d\r\n" % (len(CHUNKS) + len(NEXT)), CHUNKS),
        (LENGTH + b"Content-Length: 5\r\n", BODY),
        (b"Content-Length: +%d\r\n" % len(BODY), BODY),
        (b"Content-Length: 0x%x\r\n" % len(BODY), BODY),
        (b"Content-Length: -1\r\n", BODY),
        (b"Content-Length: 99999999999999999999999\r\n", BODY),
        (CHUNKED * 2, CHUNKS),
        (b"Transfer-Encoding: identity, chunked\r\n", CHUNKS),
        (b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
        (b"Transfer-Encoding: xchunked\r\n", CHUNKS),
        (b"Transfer-Encoding : chunked\r\n", CHUNKS),
        (b"Transfer-Encoding:\x0bchunked\r\n", CHUNKS),
        (LENGTH + b"X: a\0b\r\n", BODY),
        (LENGTH + b"X: a\rb\r\n", BODY),
        (LENGTH + b"Host: y\r\n", BODY),
        (LENGTH + b"X: " + b"a" * (1 << 20) + b"\r\n", BODY),
        (LENGTH + b"X: " + b"a" * (20 << 10) + b"\r\n", BODY),
    ],
)
def test_a_request_whose_end_is_doubtful_is_refused_and_nothing_follows_it(
    service: Server, head: bytes, body: bytes
) -> None:
    before = service.refused("malformed")
    found = talk(service, HEAD + head + b"\r\n" + body + NEXT, to_the_end=True)
    header, _, content = found.partition(b"\r\n\r\n")
    wait_until(lambda: service.refused("malformed") == before + 1)
    assert header.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in header
    told = json.loads(content)  # and nothing behind it
    assert (told["type"], told["status"]) == ("urn:pysbx:problem:malformed", 400)


def test_chunks_of_http_1_0_are_refused(service: Server) -> None:
    found = talk(service, HEAD.replace(b"/1.1", b"/1.0") + CHUNKED + b"\r\n" + CHUNKS, to_the_end=True)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.0" in found.partition(b"\r\n\r\n")[2]


def test_what_takes_long_to_read_is_refused(service: Server) -> None:
    body = b"1\r\n \r\n" * 20_000
    began = time.monotonic()
    found = talk(service, HEAD + CHUNKED + b"\r\n" + body, to_the_end=True)
    assert found.startswith(b"HTTP/1.1 400 ")
    found = talk(service, HEAD + b"a:b\r\n" * 20_000 + LENGTH + b"\r\n" + BODY, to_the_end=True)
    assert found.startswith(b"HTTP/1.1 400 ")
    # As many again, behind a request that is answered first.
    found = talk(service, NEXT + HEAD + b"a:b\r\n" * 20_000 + LENGTH + b"\r\n" + BODY, to_the_end=True)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1 400 ") == 1
    assert time.monotonic() - began < 1


def test_after_an_answer_no_other_is_sent_for_what_cannot_be_read(service: Server) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(30)
        channel.connect(service.address.removeprefix("unix:"))
        channel.sendall(HEAD + CHUNKED + b"\r\n100001\r\n" + bytes((1 << 20) + 1))
        found = b""
        while not found.endswith(b"}"):
            found += channel.recv(1 << 16)
        assert found.startswith(b"HTTP/1.1 413 ")
        channel.sendall(b"\r\nNONSENSE\r\n")
        assert channel.recv(1 << 16) == b""


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\0\x01\0\r\n\r\n", b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_request_is_told(service: Server, sent: bytes) -> None:
    content = talk(service, sent, to_the_end=True).partition(b"\r\n\r\n")[2]
    assert json.loads(content)["title"] == "this is not an HTTP request"


@pytest.mark.parametrize(
    "chunks",
    [
        b"-1\r\n" + BODY,
        b"1_1\r\n%s\r\n0\r\n\r\n" % BODY,
        b"%x;a\nb\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
        b"%x\r\n%sXX0\r\n\r\n" % (len(BODY), BODY),
    ],
)
def test_chunks_that_are_none_are_refused_and_nothing_follows_them(service: Server, chunks: bytes) -> None:
    found = talk(service, HEAD + CHUNKED + b"\r\n" + chunks + NEXT, to_the_end=True)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (LENGTH, BODY),
        (LENGTH * 2, BODY),
        (CHUNKED, CHUNKS),
        (CHUNKED, b"%x;name=value\r\n%s\r\n0\r\nContent-Length: 3\r\n\r\n" % (len(BODY), BODY)),
        (LENGTH + b"X: y\r\n " + CHUNKED, BODY),  # which is a second line of X
    ],
)
def test_what_is_not_doubtful_is_answered_and_so_is_the_next(service: Server, head: bytes, body: bytes) -> None:
    last = NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    found = talk(service, HEAD + head + b"\r\n" + body + last, to_the_end=True)
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert b'"value":"42"' in found and b'"profiles":' in found


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_told_before_it_has_ended(service: Server, announced: bool) -> None:
    part = b"100000\r\n" + bytes(1 << 20) + b"\r\n1\r\n"
    sent = HEAD + (b"Content-Length: 1048577\r\n\r\n" if announced else CHUNKED + b"\r\n" + part + b"x")
    assert talk(service, sent, to_the_end=False).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_an_end_is_not_read_for_ever(service: Server) -> None:
    deadline = time.monotonic() + 60
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(30)
        channel.connect(service.address.removeprefix("unix:"))
        channel.sendall(HEAD + b"Content-Length: 1048577\r\n\r\n")
        assert channel.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while time.monotonic() < deadline:
                channel.sendall(b" ")
                time.sleep(0.02)


@pytest.mark.parametrize("origin", [b"http://pysbx", b"HTTPS://127.0.0.1:80"])
def test_a_target_may_have_its_host(service: Server, origin: bytes) -> None:
    sent = HEAD.replace(b" /v1", b" " + origin + b"/v1") + b"Connection: close\r\n" + LENGTH + b"\r\n" + BODY
    assert b'"value":"42"' in talk(service, sent, to_the_end=True)


def test_a_long_path_is_told_in_short(service: Server) -> None:
    found = service.client.get("/" + "a" * 10_000)
    assert found.status_code == 404
    assert len(found.text) < 1000


def test_over_mcp_as_well(tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/s", command="mcp") as service:
        sent = HEAD.replace(b"/v1/run", b"/mcp") + LENGTH + CHUNKED + b"\r\n" + CHUNKS + NEXT
        found = talk(service, sent, to_the_end=True)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.count(b"HTTP/1.1 ") == 1
