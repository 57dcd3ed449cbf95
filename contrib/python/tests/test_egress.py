"""The proxy of a sandbox with named hosts, attacked: which bytes reach a server, with which name, at which address."""

# once: the proxy is a program of the caller
# slow: waits for hosts that do not answer

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

import pysbx.network.proxy
from pysbx.network import relay
from pysbx.network.host_rules import Address, is_public
from pysbx.network.http_request import is_http
from pysbx.network.proxy import Proxy
from pysbx.options.network import parse_network

HOSTS = ("good.example", "db.example:8080", "*.wild.example")
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"
Addresses = list[str]


@dataclass
class Origin:
    """A server to which every connection of the proxy leads.

    Attributes:
        answer: what it sends after the first bytes that it gets.
        greeting: what it sends before.
        asked: addresses and ports to which the proxy meant to connect.
        got: what has come, of all connections.
    """

    answer: bytes = OK
    greeting: bytes = b""
    asked: list[tuple[str, int]] = field(default_factory=list)
    got: bytes = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer once, and keep all that comes."""
        writer.write(self.greeting)
        while data := await reader.read(1 << 16):
            self.got += data
            writer.write(self.answer)
            self.answer = b""
            await writer.drain()
        writer.close()


Exchange = Callable[..., tuple[bytes, Origin]]


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Exchange:
    """Return a function that sends something through a proxy and returns what came back, and the server's view."""
    connect = asyncio.open_connection

    def run(
        *pieces: bytes | tuple[bytes, ...],
        allowed: Callable[[Address], bool] = lambda address: True,
        names: Callable[[str], Addresses] = lambda name: ["127.0.0.1"],
        origin: Origin | None = None,
    ) -> tuple[bytes, Origin]:
        there = origin or Origin()

        async def resolve(name: str, port: int) -> Addresses:
            return names(name)

        async def talk() -> bytes:
            server = await asyncio.start_server(there.serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]

            async def redirected(host: str, asked: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                there.asked.append((host, asked))
                return await connect("127.0.0.1", port)

            monkeypatch.setattr(asyncio, "open_connection", redirected)
            return await client(Proxy(parse_network(HOSTS).entries, allowed, resolve), pieces, there)

        return asyncio.run(talk()), there

    return run


async def client(proxy: Proxy, pieces: tuple[bytes | tuple[bytes, ...], ...], there: Origin) -> bytes:
    """Send pieces, each after an answer to the one before, and return all answers; the parts of a piece come apart.

    While the server has not answered yet an answer or the end has to come; later, a moment of silence will do.
    """
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=near)
    served = asyncio.ensure_future(proxy.serve(*await asyncio.open_unix_connection(sock=far)))
    said = b""
    for piece in pieces:
        for part in (piece,) if isinstance(piece, bytes) else piece:
            writer.write(part)
            await asyncio.sleep(0.01)
        try:
            if not (more := await asyncio.wait_for(reader.read(1 << 16), 20 if there.answer else 0.3)):
                break
        except (TimeoutError, asyncio.TimeoutError):
            assert not there.answer
            continue
        except OSError:
            break
        said += more
    writer.close()
    served.cancel()
    await asyncio.gather(served, return_exceptions=True)
    return said


def connect_to(target: str) -> bytes:
    """Return the request for a tunnel."""
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


def extension(kind: int, content: bytes) -> bytes:
    """Return an extension of a ClientHello."""
    return struct.pack(">HH", kind, len(content)) + content


def names_of(*entries: tuple[int, bytes]) -> bytes:
    """Return the extension server_name with these entries: type and name."""
    content = b"".join(bytes([kind]) + struct.pack(">H", len(name)) + name for kind, name in entries)
    return extension(0, struct.pack(">H", len(content)) + content)


def hello(*extensions: bytes, after: bytes = b"", size: int = 1 << 14) -> bytes:
    """Return a ClientHello, in records of at most this size."""
    joined = b"".join(extensions)
    body = b"\x03\x03" + b"R" * 32 + b"\0\0\2\x13\x01\1\0" + struct.pack(">H", len(joined)) + joined + after
    message = b"\1" + len(body).to_bytes(3, "big") + body
    pieces = [message[place : place + size] for place in range(0, len(message), size)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(piece)) + piece for piece in pieces)


GOOD = names_of((0, b"good.example"))
EVIL = names_of((0, b"evil.example"))
TRAILING = extension(0, GOOD[4:] + b"x")


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:443", "[::1]:443", "2130706433:443", "0x7f.1:443", "localhost:443", "good.example:22",
        "good.example:0443", "good.example:65979", "evil.good.example:443", "good.example.evil:443",
        "good.example\0.evil:443", "good.example@evil:443", "evil#good.example:443", "good.example:443:443",
        "wild.example:443", "xwild.example:443", "a..wild.example:443", ".wild.example:443", "good.example..:443",
        "xn--good.example:443", "\uff47ood.example:443", "good.example:-443", "good.example: 443", "good.example:4_43",
        "good.example:\u0664\u0664\u0663", "good.example\\:443", "good.example:443/", "1.wild.example.:4430",
        "good.example", "good.example:x",
    ],
)  # fmt: skip
def test_targets_that_are_refused(target: str, exchange: Exchange) -> None:
    for head in (connect_to(target), f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()):
        said, origin = exchange(head, hello(names_of((0, target.rpartition(":")[0].encode()))))
        assert re.match(
            rb"HTTP/1\.1 403 (Forbidden|host '[a-z0-9.-]+', port \d+, is not among the hosts of this sandbox)\r\n", said
        )
        assert origin.asked == []


@pytest.mark.parametrize("target", ["good.example:443", "GOOD.example.:443", "a.b.wild.example:443"])
def test_targets_that_are_reached(target: str, exchange: Exchange) -> None:
    first = hello(names_of((0, target.rpartition(":")[0].rstrip(".").encode())))
    for head in (connect_to(target), f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()):
        said, origin = exchange(head, first)
        assert said.endswith(OK)
        assert origin.got == first


TLS_REFUSED = {
    "another name": hello(EVIL),
    "no name": hello(),
    "another name, and the right one after it": hello(EVIL, GOOD),
    "the right name, and another one after it": hello(GOOD, EVIL),
    "the right name twice": hello(GOOD, GOOD),
    "two names in one extension": hello(names_of((0, b"good.example"), (0, b"evil.example"))),
    "an entry of another type before": hello(names_of((1, b"evil.example"), (0, b"good.example"))),
    "an entry of another type": hello(names_of((1, b"good.example"))),
    "no entry": hello(extension(0, b"\0\0")),
    "bytes after the entry": hello(TRAILING),
    "bytes after the extensions": hello(GOOD, after=b"x"),
    "another extension twice": hello(GOOD, extension(23, b""), extension(23, b"")),
    "an encrypted name": hello(GOOD, extension(0xFE0D, b"x" * 30)),
    "a dot at the end": hello(names_of((0, b"good.example."))),
    "a NUL": hello(names_of((0, b"good.example\0evil"))),
    "an empty record": b"\x16\3\1\0\0" + hello(GOOD),
    "a record longer than there are": b"\x16\3\1\x40\1" + b"\1\0\x40\0" + bytes(1 << 14),
    "a second message in the record": b"\x16\3\1" + struct.pack(">H", len(hello(GOOD)) - 4) + hello(GOOD)[5:] + b"\1",
    "another version of the record": b"\x16\2" + hello(GOOD)[2:],
    "SSL 2": b"\x80\x2e\1\3\1" + b"x" * 60,
    "plain HTTP": GET,
}


@pytest.mark.parametrize("data", TLS_REFUSED.values(), ids=TLS_REFUSED)
def test_handshakes_that_are_refused(data: bytes, exchange: Exchange) -> None:
    _, origin = exchange(connect_to("good.example:443"), data)
    assert origin.got == b""


@pytest.mark.parametrize(
    "data",
    [
        hello(GOOD), hello(names_of((0, b"GOOD.example"))), hello(GOOD, size=1), hello(GOOD, size=40),
        hello(GOOD, extension(0xFFCE, b"x" * 30)), hello(GOOD) + b"\x14\3\3\0\1\1\x17\3\3\0\5early",
    ],
)  # fmt: skip
def test_handshakes_that_pass_unchanged(data: bytes, exchange: Exchange) -> None:
    _, origin = exchange(connect_to("good.example:443"), data)
    assert origin.got == data


CHANGE = b"\x14\3\3\0\1\1"


@pytest.mark.parametrize(
    "second",
    [hello(EVIL), CHANGE + hello(EVIL), hello(EVIL, size=1), hello(EVIL, size=50)],
    ids=["whole", "after a change of cipher", "in records of one byte", "in two records"],
)
def test_a_second_handshake_for_another_host_is_refused(second: bytes, exchange: Exchange) -> None:
    for pieces in ((hello(GOOD) + second,), (hello(GOOD), second), (hello(GOOD), (second[:9], second[9:]))):
        _, origin = exchange(connect_to("good.example:443"), *pieces)
        assert b"evil" not in origin.got
        assert origin.got in (hello(GOOD), hello(GOOD) + CHANGE)


@pytest.mark.parametrize(
    "second",
    [
        hello(GOOD), CHANGE + hello(GOOD), b"\x16\3\3\0\5\x10\0\0\1x" + CHANGE + b"\x16\3\3\0\x28" + b"\1\7" * 20,
        CHANGE + b"\x16\3\3\0\x28" + b"\1\7" * 20, CHANGE + b"\x17\3\3\0\5\1evil",
    ],
)  # fmt: skip
def test_what_follows_a_handshake_passes(second: bytes, exchange: Exchange) -> None:
    more = b"\x17\3\3\0\4evil"
    _, origin = exchange(connect_to("good.example:443"), hello(GOOD), second, more)
    assert origin.got == hello(GOOD) + second + more


# Heads of which two parsers may make two things, or that are for another host; without the request line.
HEADS_REFUSED = {
    "another Host": b"Host: evil",
    "two Hosts": b"Host: good.example\r\nHost: evil",
    "the right Host twice": b"Host: good.example\r\nHost: good.example",
    "no Host": b"X: y",
    "an empty Host": b"Host:",
    "Host with userinfo": b"Host: good.example:80@evil",
    "Host with another port": b"Host: good.example:81",
    "Host with a list": b"Host: good.example, evil",
    "a bare LF": b"X: y\nHost: evil\r\nHost: good.example",
    "a bare CR": b"X: y\rHost: evil\r\nHost: good.example",
    "a folded line": b"X: a\r\n Host: evil\r\nHost: good.example",
    "a line folded by a tab": b"X: a\r\n\tb\r\nHost: good.example",
    "a first line that is folded": b" X: a\r\nHost: good.example",
    "a space before the colon": b"Host : evil\r\nHost: good.example",
    "a tab before the colon": b"Host\t: evil\r\nHost: good.example",
    "no colon": b"Host\r\nHost: good.example",
    "no name": b": x\r\nHost: good.example",
    "a tab": b"Host:\tgood.example",
    "a vertical tab": b"Host: good.example\x0bevil",
    "a NUL": b"Host: good.example\r\nX: \0",
    "a DEL": b"Host: good.example\r\nX: \x7f",
    "two lengths": b"Host: good.example\r\nContent-Length: 1\r\nContent-Length: 2",
    "no number as length": b"Host: good.example\r\nContent-Length: +1",
    "a length and a coding": b"Host: good.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
    "two codings": b"Host: good.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "an unknown coding": b"Host: good.example\r\nTransfer-Encoding: xchunked",
    "a coding that is not the last": b"Host: good.example\r\nTransfer-Encoding: chunked, identity",
}
LINES_REFUSED = {
    "another host in the target": b"GET http://evil/ HTTP/1.1",
    "another port in the target": b"GET http://good.example:81/ HTTP/1.1",
    "userinfo in the target": b"GET http://evil@good.example/ HTTP/1.1",
    "another host after userinfo": b"GET http://good.example@evil/ HTTP/1.1",
    "a backslash in the target": b"GET http://evil\\@good.example/ HTTP/1.1",
    "a backslash in the path": b"GET http://good.example/\\evil HTTP/1.1",
    "a fragment": b"GET http://good.example/#x HTTP/1.1",
    "another scheme": b"GET https://good.example/ HTTP/1.1",
    "a scheme that is not HTTP": b"GET ftp://good.example/ HTTP/1.1",
    "no scheme": b"GET good.example HTTP/1.1",
    "one word": b"NONSENSE",
    "an asterisk": b"GET * HTTP/1.1",
    "a tunnel": b"CONNECT evil:80 HTTP/1.1",
    "a tab in the target": b"GET http://go\tod.example/ HTTP/1.1",
    "a tab as separator": b"GET\thttp://good.example/ HTTP/1.1",
    "two spaces": b"GET  http://good.example/ HTTP/1.1",
    "a space in the target": b"GET http://good.example/ /evil HTTP/1.1",
    "a byte above ASCII": b"GET http://good.example/\xff HTTP/1.1",
    "a NUL in the target": b"GET http://good.example/\0 HTTP/1.1",
    "an LF in the target": b"GET http://good.example/a\nHost:evil HTTP/1.1",
    "an LF at the end": b"GET http://good.example/ HTTP/1.1\nHost:evil",
    "a line end in the method": b"GET\r\nX http://good.example/ HTTP/1.1",
    "an empty line before": b"\r\nGET http://good.example/ HTTP/1.1",
    "a blank before": b" GET http://good.example/ HTTP/1.1",
    "the preface of HTTP/2": b"PRI * HTTP/2.0",
    "another version": b"GET http://good.example/ HTTP/1.2",
    "no version": b"GET http://good.example/",
}
HOST = b"Host: good.example"


@pytest.mark.parametrize("lines", HEADS_REFUSED.values(), ids=HEADS_REFUSED)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_heads_that_are_refused(lines: bytes, version: bytes, exchange: Exchange) -> None:
    for target, pieces in ((b"/", (connect_to("good.example:80"),)), (b"http://good.example/", ())):
        said, origin = exchange(*pieces, b"POST %s HTTP/%s\r\n%s\r\n\r\n" % (target, version, lines))
        assert origin.got == b""
        assert b"403 Forbidden" in said


@pytest.mark.parametrize("line", LINES_REFUSED.values(), ids=LINES_REFUSED)
def test_request_lines_that_are_refused(line: bytes, exchange: Exchange) -> None:
    for pieces in ((connect_to("good.example:80"),), ()):
        said, origin = exchange(*pieces, line + b"\r\n" + HOST + b"\r\n\r\n")
        assert origin.got == b""
        assert b"HTTP/1.1 403 " in said


def test_outside_of_a_tunnel_the_target_has_the_host(exchange: Exchange) -> None:
    said, origin = exchange(GET)
    assert (said[:13], origin.got) == (b"HTTP/1.1 403 ", b"")


def test_a_head_is_written_anew(exchange: Exchange) -> None:
    sent = b"X-One:  1 \r\nProxy-Authorization: x\r\nConnection: keep-alive\r\nKeep-Alive: 9\r\nTE: trailers\r\n"
    sent += b"Upgrade: h2c\r\n"
    for pieces, target in (
        ((), b"HTTP://Good.Example:80/a?b"),
        ((connect_to("good.example:80"),), b"/a?b"),
        ((connect_to("good.example:80"),), b"http://good.example/a?b"),
    ):
        head = b"GET %s HTTP/1.1\r\nHost: GOOD.example:80\r\n%s\r\n" % (target, sent)
        said, origin = exchange(*pieces, head)
        assert said.endswith(OK)
        assert origin.got == b"GET /a?b HTTP/1.1\r\nHost: good.example\r\nX-One: 1\r\nConnection: close\r\n\r\n"


def test_only_one_request_goes_through_a_connection(exchange: Exchange) -> None:
    second = b"GET /2 HTTP/1.1\r\nHost: evil\r\n\r\n"
    for pieces, target in (((), b"http://good.example/"), ((connect_to("good.example:80"),), b"/")):
        first = b"GET %s HTTP/1.1\r\nHost: good.example\r\n\r\n" % target
        for rest in ((first + second,), (first, second)):
            said, origin = exchange(*pieces, *rest)
            assert said.endswith(OK)
            assert origin.got.count(b"HTTP/1.1") == 1


def test_an_answer_says_that_the_connection_ends(exchange: Exchange) -> None:
    get = b"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n"
    fields = b"\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"
    for status, close in ((b"HTTP/1.1 200 OK", True), (b"HTTP/1.0 404 None", True), (b"HTTP/1.1 103 Early", False)):
        for pieces in ((get,), (connect_to("good.example:80"), GET)):
            said, _ = exchange(*pieces, origin=Origin(status + fields))
            assert said.endswith(status + b"\r\nConnection: Close" * close + fields)
    raw = b"220 ready\r\n"
    assert exchange(connect_to("db.example:8080"), b"EHLO x\r\n", b"", origin=Origin(b"", raw))[0].endswith(raw)


def test_bodies_end_where_the_proxy_says(exchange: Exchange) -> None:
    smuggled = b"GET /2 HTTP/1.1\r\nHost: evil\r\n\r\n"
    head = b"POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\n"
    _, origin = exchange(head + b"Content-Length: 5\r\n\r\nhe", b"llo" + smuggled)
    assert origin.got.endswith(b"\r\n\r\nhello")
    assert b"Content-Length: 5\r\n" in origin.got
    chunks = b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nHost: evil\r\n\r\n" + smuggled
    _, origin = exchange(head + b"Transfer-Encoding: chunked\r\n\r\n", chunks)
    assert origin.got.endswith(b"\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
    for wrong in (b"3\nhel\r\n", b"0x3\r\nhel\r\n", b"-3\r\nhel\r\n", b"3\r\nhelxx"):
        _, origin = exchange(head + b"Transfer-Encoding: chunked\r\n\r\n" + wrong + b"0\r\n\r\n" + smuggled)
        assert b"evil" not in origin.got


def test_a_protocol_is_switched_when_the_server_says_so(exchange: Exchange) -> None:
    head = b"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n"
    head += b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
    said, origin = exchange(head, b"frame", origin=Origin(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"))
    assert said.startswith(b"HTTP/1.1 101 ")
    assert origin.got.endswith(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nframe")
    _, origin = exchange(head, GET)
    assert origin.got.endswith(b"Upgrade: websocket\r\n\r\n")


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1", b"get / HTTP/1.1", b"NEW / HTTP/1.1", b"\r\n\r\n GET / HTTP/1.1", b"GET\t/\tHTTP/1.0",
        b"GET /", b"X / http/1.1", b"POST / HTTP/1.1",
    ],
)  # fmt: skip
def test_http_is_for_the_host_on_other_ports_too(line: bytes, exchange: Exchange) -> None:
    data = line + b"\r\nHost: evil\r\n\r\n"
    for piece in (data, (data[:2], data[2:])):
        said, origin = exchange(connect_to("db.example:8080"), piece)
        assert origin.got == b""
        assert b"403 Forbidden" in said
    _, origin = exchange(connect_to("db.example:8080"), hello(GOOD))
    assert origin.got == b""


def test_http_and_tls_for_the_host_pass_on_other_ports(exchange: Exchange) -> None:
    _, origin = exchange(connect_to("db.example:8080"), GET.replace(b"good.example", b"db.example:8080"))
    assert origin.got == b"GET / HTTP/1.1\r\nHost: db.example:8080\r\nConnection: close\r\n\r\n"
    _, origin = exchange(connect_to("db.example:8080"), hello(names_of((0, b"db.example"))))
    assert origin.got.startswith(b"\x16\3\1")


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x08\x04\xd2\x16\x2f", b"*1\r\n$4\r\nPING\r\n", b"SSH-2.0-x\r\n", b"get key\r\n", b"EHLO x\r\n",
        b"AMQP\0\0\x09\1", b"G\0\0\0", b"X \0",
    ],
)  # fmt: skip
def test_other_protocols_pass_on_other_ports(data: bytes, exchange: Exchange) -> None:
    assert is_http(data) is False
    said, origin = exchange(connect_to("db.example:8080"), data, b"", origin=Origin(b"done", greeting=b"220 ready\r\n"))
    assert b"220 ready\r\n" in said
    assert origin.got == data


def test_socks_names_a_host_or_nothing(exchange: Exchange) -> None:
    def ask(kind: int, address: bytes, port: int, command: int = 1) -> bytes:
        return b"\5\1\0" + bytes([5, command, 0, kind]) + address + struct.pack(">H", port)

    said, origin = exchange(ask(3, b"\x0cgood.example", 443), hello(GOOD), b"")
    assert origin.got == hello(GOOD)
    for request in (
        ask(1, b"\x7f\0\0\1", 443), ask(4, bytes(15) + b"\1", 443), ask(3, b"\4evil", 443), ask(3, b"\0", 443),
        ask(3, b"\x0cgood.example", 443, 2), ask(3, b"\x0cgood.example", 443, 3),
        ask(3, b"\x11good.example\0evil", 443), ask(3, b"\x11good.example:443:", 443),
        ask(3, b"\x0cgood.example", 0), b"\4\1\1\xbb\x7f\0\0\1\0",
    ):  # fmt: skip
        said, origin = exchange(request, hello(GOOD), b"")
        assert origin.asked == []
        assert b"\5\0\0" not in said[2:]


@pytest.mark.parametrize(
    "address",
    [
        "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::808:808",
        "fe80::1%lo", "2606:4700::1%lo", "169.254.169.254", "0.0.0.0", "0.1.2.3", "100.64.0.1", "::127.0.0.1",
        "::8.8.8.8", "fec0::1", "::ffff:0:7f00:1", "::ffff:0:808:808", "2002:808:808::1", "2001::1", "ff0e::1",
        "240.0.0.1", "224.0.0.1", "168.63.129.16", "192.88.99.1", "4000::1", "5f00::1", "3fff::1", "2001:20::1",
    ],
)  # fmt: skip
def test_addresses_of_special_purpose_are_refused(address: str, exchange: Exchange) -> None:
    said, origin = exchange(connect_to("good.example:443"), hello(GOOD), allowed=is_public, names=lambda _: [address])
    assert said.startswith(b"HTTP/1.1 403 host 'good.example' has no address ")
    assert origin.asked == []


def test_the_address_that_was_checked_is_connected_to(exchange: Exchange) -> None:
    answers = [["127.0.0.1", "93.184.216.34"], ["127.0.0.1"]]
    _, origin = exchange(connect_to("good.example:443"), hello(GOOD), allowed=is_public, names=lambda _: answers.pop(0))
    assert origin.asked == [("93.184.216.34", 443)]
    assert ipaddress.ip_address(origin.asked[0][0]).is_global
    assert answers == [["127.0.0.1"]]  # a second answer would have been another one


def test_silent_and_idle_connections_are_closed(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pysbx.network.proxy, "HEAD_SEC", 0.1)
    monkeypatch.setattr(relay, "IDLE_SEC", 0.1)
    for pieces in (
        (b"",), (b"CONNECT good.example:443 HTTP/1.1\r\n",), (b"\5",), (b"\5\1\0",), (b"\5\1\0\5\1\0\3\x0cgood",),
        (connect_to("good.example:443"),), (connect_to("good.example:443"), b"\x16\3\1\0\x50\1"),
        (connect_to("good.example:80"), b"GET / HTTP/1.1\r\n"), (connect_to("db.example:8080"), b"LIST "),
        (connect_to("db.example:8080"),), (connect_to("db.example:8080"), b"\0raw"),
    ):  # fmt: skip
        ends: list[bytes] = []
        monkeypatch.setitem(globals(), "client", until_closed(ends))
        exchange(*pieces)
        assert ends == [b"closed"], pieces


def until_closed(ends: list[bytes]) -> Callable[[Proxy, tuple[bytes, ...], Origin], Awaitable[bytes]]:
    """Return a client that sends all pieces and notes whether the proxy closes the connection."""

    async def talk(proxy: Proxy, pieces: tuple[bytes, ...], there: Origin) -> bytes:
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=near)
        served = asyncio.ensure_future(proxy.serve(*await asyncio.open_unix_connection(sock=far)))
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.02)
        await asyncio.wait_for(served, 20)
        await reader.read(-1)
        ends.append(b"closed")
        writer.close()
        return b""

    return talk


def test_a_refusal_after_the_end_of_the_server_is_no_failure_of_the_proxy(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox could fill the caller's log with tracebacks."""

    class Gone(Origin):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            del reader  # nothing is awaited
            writer.write(OK)
            writer.close()

    ends: list[bytes] = []
    monkeypatch.setitem(globals(), "client", until_closed(ends))
    exchange(connect_to("good.example:80"), GET.replace(b"good", b"evil"), origin=Gone())
    assert ends == [b"closed"]


def test_the_parser_is_loaded_with_the_first_request() -> None:
    source = "import pysbx.network.proxy, sys; print('h11' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout
    assert said == "False\n"
