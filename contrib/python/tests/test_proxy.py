"""The way out of a sandbox with named hosts: what passes, what does not, with real servers and real TLS."""

# once: the proxy is a program of the caller

from __future__ import annotations

import asyncio
import ctypes
import functools
import http.server
import ipaddress
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pysbx import Mount, run_code
from pysbx.network.host_rules import RefusedError, handshake, is_elsewhere, is_public, server_name
from pysbx.network.http_request import Request
from pysbx.network.proxy import Proxy, ensure
from pysbx.options.network import Entry, parse_network

Serve = Callable[..., AbstractContextManager[int]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]
PUBLIC_ADDRESS, PRIVATE_ADDRESS = "93.184.216.34", "10.44.55.66"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1", True), ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False),
        ("192.168.1.1", False), ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False),
        ("255.255.255.255", False), ("224.0.0.1", False), ("198.18.0.1", False), ("192.0.2.1", False), ("::1", False),
        ("::", False), ("fe80::1", False), ("fd00::1", False), ("ff02::1", False), ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", False), ("64:ff9b::7f00:1", False), ("64:ff9b::808:808", False), ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False), ("::127.0.0.1", False), ("::ffff:0:7f00:1", False),
        ("fec0::1", False), ("4000::1", False), ("2606:4700::1%lo", False), ("192.88.99.1", False),
        ("168.63.129.16", False),
    ],
)  # fmt: skip
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


def test_addresses_of_the_own_configuration() -> None:
    for address, allowed in (
        ("10.0.0.1", True),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("::ffff:127.1.1.1", False),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("0.1.2.3", False),
        ("fd00::1", True),
        ("fd00::1%lo", False),
    ):
        assert is_elsewhere(ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("entry", "name", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "notexample.org", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:22", "example.org", 22, True),
        ("example.org:22", "example.org", 443, False),
        ("private:example.org", "example.org", 443, True),
        ("private:*.example.org:22", "www.example.org", 22, True),
        ("private:22", "private", 22, True),
    ],
)
def test_entries(entry: str, name: str, port: int, allowed: bool) -> None:
    assert parse_network([entry]).entries[0].allows(name, port) is allowed


@pytest.mark.parametrize(
    "name",
    [
        "10.0.0.1",
        "1",
        "[::1]",
        "::1",
        "a b",
        "-x",
        "*",
        "http://x.org",
        "x.org/",
        "x.org:",
        "",
        "private:",
        "private:10.0.0.1",
        "private:10.0.0.1:80",
        "private:private:x.org",
        "other:x.org",
    ],
)
def test_what_is_not_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        parse_network([name])


def test_entries_for_private_networks() -> None:
    """The entries are in order. A name without a dot has a port, or begins with "private:"."""
    given = ["Private:*.DB.example:5432", "private:80", "private:db", "db.example", "private:db"]
    found = parse_network(given)
    assert (found.kind, str(found)) == ("hosts", "db.example, private:*.db.example:5432, private:80, private:db")
    assert [entry.private for entry in found.entries] == [False, True, False, True]


def test_a_network_that_is_a_word() -> None:
    assert [parse_network(given).kind for given in (None, False, "none")] == ["none"] * 3
    assert parse_network([]) == parse_network(None)
    assert [str(parse_network(word)) for word in ("localhost", "host")] == ["localhost", "host"]
    with pytest.raises(ValueError, match='did you mean "host", which stands alone'):
        parse_network(["host"])


@pytest.mark.parametrize(
    ("entry", "method", "target", "allowed"),
    [
        ("GET web.test", "GET", "/any?query", True),
        ("GET web.test", "POST", "/any", False),
        ("GET web.test", "HEAD", "/any", False),
        ("get,HEAD web.test", "HEAD", "/any", True),
        ("web.test/v1/*", "DELETE", "/v1/x/y?z=/../..", True),
        ("web.test/v1/*", "GET", "/v1", False),
        ("web.test/v1/*", "GET", "/v2/x", False),
        ("web.test/v1/*", "GET", "/V1/x", False),
        ("web.test/v1/*", "GET", "//v1/x", False),
        ("web.test/r/*/issues", "GET", "/r/one/issues", True),
        ("web.test/r/*/issues", "GET", "/r/one/two/issues", False),
        ("web.test/r/a-b", "GET", "/r/a%2Db", True),
        ("web.test/r/caf%C3%A9", "GET", "/r/caf%c3%a9", True),
        # Paths that some servers take for /v2.
        *(("web.test/v1/*", "GET", f"/v1/{up}v2", False) for up in (
            "../", "./../", "%2e%2e/", ".%2E/", "..%2f", "%2e%2e%2f", "..%5c", "..\\", "%252e%252e/", "..%252f", "..;/",
            "..;x=1/", "..%3b/", "%c0%ae%c0%ae/", "%c0%af../", "%ef%bc%8e%ef%bc%8e/", "..%00/", "..%20/", "%e2%80%a5/",
            "x//", ".../", "%", "%zz/",
        )),
        ("OPTIONS web.test", "OPTIONS", "*", True),
        ("web.test/v1/*", "OPTIONS", "*", False),
    ],
)  # fmt: skip
def test_rules_by_method_and_path(entry: str, method: str, target: str, allowed: bool) -> None:
    """A rule is for requests. A path that servers may read as another one matches no rule, and all rules add up."""
    rule, host = parse_network([entry]).entries[0], "Host: web.test\r\n\r\n"

    def passes(*entries: Entry, fields: str = "") -> bool:
        try:
            text = f"{method} {target} HTTP/1.1\r\n{fields}{host}"
            Request(text.encode(), ("web.test", 80)).check(list(entries))
        except RefusedError:
            return False
        return True

    assert passes(rule) is allowed
    assert passes(parse_network(["PUT web.test/other"]).entries[0], rule) is allowed
    for field in ("X-HTTP-Method-Override: PUT", "x_method_override: PUT", "X-Original-URL: /v2", "X-Rewrite-Url: /v2"):
        assert not passes(rule, fields=f"{field}\r\n")
    assert "\\" in target or passes(rule, parse_network(["web.test"]).entries[0])


@pytest.mark.parametrize(
    ("given", "entries"),
    [
        ([{"host": "api.test"}], "api.test"),
        ({"host": "api.test", "methods": ["POST", "get"]}, "GET,POST api.test"),
        ([{"host": "private:api.test:8080", "methods": ["GET"], "paths": ["/b/*", "/a"]}, "db.test:5432"],
         "GET private:api.test:8080/a, GET private:api.test:8080/b/*, db.test:5432"),
        ("GET *.api.test/v1/*", "GET *.api.test/v1/*"),
    ],
)  # fmt: skip
def test_two_forms_of_a_rule(given: Any, entries: str) -> None:
    assert str(parse_network(given)) == entries
    assert parse_network(entries.split(", ")) == parse_network(given)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("GET x.test/../a", "the path has a segment of dots"),
        ("x.test/a%2fb", "the path has an encoded slash"),
        ("x.test//a", "the path has an empty segment"),
        ("x.test/a?b", "the path is not one"),
        ("x.test/a b", "the path is not one"),
        ("TRACE x.test", "TRACE is no method for a rule"),
        ("GET 10.0.0.1/x", "is not a host name"),
        ({"host": "x.test", "methods": []}, "has no methods, which would allow none"),
        ({"host": "x.test", "method": ["GET"]}, "is not a rule such as"),
        ({"host": "x.test", "paths": "/a"}, "is not a list"),
        ({"methods": ["GET"]}, "is not a rule such as"),
    ],
)
def test_what_is_not_a_rule(rule: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_network([rule])


def test_a_rule_applies_to_each_way_to_its_host(tmp_path: Path) -> None:
    """Through CONNECT and SOCKS too. Bytes that are no HTTP request do not reach the host, and TLS would hide one."""
    with web_server() as port:
        proxy, host = local(f"GET web.test:{port}/a/*"), f"Host: web.test:{port}\r\n\r\n"
        connect = f"CONNECT web.test:{port} HTTP/1.1\r\n\r\n"
        good, bad = (f"GET {path} HTTP/1.1\r\n{host}".encode() for path in ("/a/x", "/b"))
        said = through(proxy, request(f"GET http://web.test:{port}/a/x HTTP/1.1\r\n{host}"), tmp_path)
        assert said.endswith(b"/a/x")
        refusal = f"HTTP/1.1 403 host 'web.test' allows GET web.test:{port}/a/*, and no other request\r\n".encode()
        for said in (
            through(proxy, request(f"GET http://web.test:{port}/b HTTP/1.1\r\n{host}"), tmp_path),
            through(proxy, request(f"POST http://web.test:{port}/a/x HTTP/1.1\r\n{host}"), tmp_path),
            through(proxy, tunnel(connect, bad), tmp_path),
        ):
            assert said.startswith(refusal)
        assert b" 200 " in through(proxy, tunnel(connect, good), tmp_path)
        assert through(proxy, tunnel(connect, b"\0\1\2\r\n\r\n"), tmp_path).startswith(b"HTTP/1.1 403")
        assert through(proxy, tunnel(connect, hello_for("web.test")), tmp_path) == b""


def hello_for(name: str | None) -> bytes:
    """Return what a TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_the_name_in_a_handshake() -> None:
    whole = hello_for("Example.org")
    hello = handshake(whole)
    assert hello is not None and server_name(hello) == "example.org"
    nameless = handshake(hello_for(None))
    assert nameless is not None and server_name(nameless) == ""
    for size in range(len(whole)):
        assert handshake(whole[:size]) is None
    # The same in records of one byte each.
    body = whole[5:]
    assert handshake(b"".join(whole[:3] + b"\0\1" + body[n : n + 1] for n in range(len(body)))) == hello


def test_damaged_handshakes() -> None:
    hello = handshake(hello_for("example.org"))
    assert hello is not None
    for size in range(1, len(hello)):
        try:
            assert server_name(hello[:size]) in ("", "example.org")
        except RefusedError:
            continue
    for data in (b"\x17\3\3\0\1x", b"\x16\3\3\0\1\2", b"GET / HTTP/1.1\r\n" + bytes(70000)):
        with pytest.raises(RefusedError):
            handshake(data)


class Greeter(http.server.BaseHTTPRequestHandler):
    """A web server that answers with its name and the request."""

    def do_GET(self) -> None:
        """Answer."""
        body = f"{self.headers['Host']} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def web_server(
    address: str = "127.0.0.1", port: int = 0, certificate: Path | None = None, namespace: str = ""
) -> Iterator[int]:
    """Run a web server, in another network namespace if its file is given, and yield its port."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def listen() -> Server:
        if namespace:
            with open(namespace) as file:  # of this thread only, which ends; the socket stays there.
                assert ctypes.CDLL(None).setns(file.fileno(), 0) == 0
        return Server((address, port), Greeter)

    with ThreadPoolExecutor(1) as threads:
        server = threads.submit(listen).result()
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with its key for web.test and other.test."""
    if shutil.which("openssl") is None:
        pytest.skip("program openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {path} -out {path}.crt -subj /CN=web.test"
    names = "subjectAltName=DNS:web.test,DNS:other.test"
    subprocess.run([*command.split(), "-addext", names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


def through(proxy: Proxy, talk: Talk, path: Path) -> Any:
    """Run a client against a proxy."""

    async def both() -> Any:
        server = await asyncio.start_unix_server(proxy.serve, path / "proxy")
        reader, writer = await asyncio.open_unix_connection(path / "proxy")
        try:
            return await asyncio.wait_for(talk(reader, writer), 20)
        finally:
            writer.close()
            server.close()

    return asyncio.run(both())


def local(*hosts: str) -> Proxy:
    """Return a proxy for which every name is this machine, and that is allowed."""

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    return Proxy(parse_network(hosts).entries, lambda address: True, resolve)


def request(text: str) -> Talk:
    """Return a client that sends a text and returns all that comes back."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(text.encode("latin-1"))
        return await reader.read(-1)

    return talk


def tunnel(head: str, inner: bytes) -> Talk:
    """Return a client that opens a tunnel, sends something through it, and returns the beginning of what comes back."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer:
            return answer
        writer.write(inner)
        return await reader.read(1000)

    return talk


@pytest.mark.parametrize("garbage", [b"", b"\5", b"\5\1", b"\5\0", b"\4\1\0\0", b"\0" * 70000, b"x" * 200_000])
def test_garbage_ends_the_connection(garbage: bytes, tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(garbage)
        writer.write_eof()
        return await reader.read(-1)

    assert len(through(local("web.test"), talk, tmp_path)) < 300


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("10.0.0.1", b"502 host 'web.test', port 443, does not answer"),
        ("fd12:3456::1", b"502 host 'web.test', port 443, does not answer"),
        *((address, b"403 host 'web.test' has no address that a sandbox may reach") for address in (
            "127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
            "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
        )),
    ],
)  # fmt: skip
def test_a_private_entry_reaches_other_machines_and_no_services_of_a_cloud(
    address: str, said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def resolve(name: str, port: int) -> list[str]:
        return [address]

    async def connect(host: str, port: int) -> None:
        asked.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", connect)
    proxy = Proxy(parse_network(["private:web.test"]).entries, resolve=resolve)
    assert said in through(proxy, request("CONNECT web.test:443 HTTP/1.1\r\n\r\n"), tmp_path)
    assert asked == ([(address, 443)] if said.startswith(b"502") else [])


def test_socks(tmp_path: Path) -> None:
    def socks(kind: int, address: bytes, port: int) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            writer.write(b"\5\1\0")
            assert await reader.readexactly(2) == b"\5\0"
            writer.write(bytes([5, 1, 0, kind]) + address + port.to_bytes(2, "big"))
            answer = await reader.readexactly(10)
            if answer[1]:
                return answer
            writer.write(b"GET /s HTTP/1.0\r\nHost: web.test\r\n\r\n")
            return await reader.read(-1)

        return talk

    with web_server() as port:
        proxy = local(f"web.test:{port}")
        assert through(proxy, socks(3, b"\x08web.test", port), tmp_path).endswith(f"web.test:{port} /s".encode())
        assert through(proxy, socks(3, b"\x0aother.test", port), tmp_path)[1] == 2
        assert through(proxy, socks(1, socket.inet_aton("127.0.0.1"), port), tmp_path)[1] == 2
        assert through(proxy, socks(3, b"\x08dead.test", 1), tmp_path)[1] == 2
        assert through(local("dead.test:1"), socks(3, b"\x09dead.test", 1), tmp_path)[1] == 4  # host unreachable
        assert through(proxy, socks(4, bytes(15) + b"\1", port), tmp_path)[1] == 2


# From inside a sandbox.

FETCH = """
import urllib.request, urllib.error, socket, sys
def fetch(url):
    try: return urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error: return error.read().decode()
    except OSError as error: return f'{type(error).__name__} {error}'
"""


def test_a_sandbox_reaches_nothing_that_is_not_named() -> None:
    done = run_code(FETCH + "print(fetch('http://other.test/'))", allow_network=["web.test"])
    assert "'other.test', port 80, is not among the hosts" in done.stdout


def test_a_sandbox_has_no_names_and_no_other_way() -> None:
    done = run_code(
        FETCH + "try: print(socket.getaddrinfo('web.test', 80))\nexcept OSError as e: print('unresolved')\n"
        "try: socket.create_connection(('93.184.216.34', 80), timeout=5)\nexcept OSError as e: print(e.errno)\n"
        "print([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])",
        allow_network=["web.test"],
    )
    assert done.stdout == "unresolved\n101\n['lo']\n"


def test_threads_may_need_the_same_proxy_at_once() -> None:
    together = threading.Barrier(4)

    def start(number: int) -> str:
        together.wait()
        return ensure(parse_network([f"host{number // 4}.example"]).entries)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(start, range(80))) == {str(os.getpid())}


@pytest.fixture
def internet() -> Iterator[Serve]:
    """Another machine with a public and a private address, and names for both. It yields web_server for there."""
    if os.geteuid() != 0 or "TEST_HOME" not in os.environ:
        pytest.skip("needs a network namespace of its own in which addresses can be set: contrib/python/check, as root")
    hosts = Path("/etc/hosts")
    before = hosts.read_text()
    # The other machine is a network namespace, which lives as long as this program.
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1) as there:
        assert there.stdout is not None
        there.stdout.readline()
        inside = ["nsenter", f"--net=/proc/{there.pid}/ns/net"]
        for line in (
            f"ip link add near type veth peer name far netns {there.pid}",
            "ip address add 192.0.2.1/24 dev near",
            "ip link set near up",
            *(f"ip route add {address}/32 dev near" for address in (PUBLIC_ADDRESS, PRIVATE_ADDRESS)),
        ):
            subprocess.run(line.split(), check=True)
        for line in (
            *(f"ip address add {address}/32 dev far" for address in (PUBLIC_ADDRESS, PRIVATE_ADDRESS)),
            "ip link set far up",
            "ip route add 192.0.2.0/24 dev far",
        ):
            subprocess.run([*inside, *line.split()], check=True)
        added = f"{PUBLIC_ADDRESS} web.test other.test\n127.0.0.1 inner.test\n{PRIVATE_ADDRESS} site.test\n"
        hosts.write_text(f"{before}\n{added}")
        try:
            yield functools.partial(web_server, namespace=f"/proc/{there.pid}/ns/net")
        finally:
            hosts.write_text(before)
            subprocess.run(["ip", "link", "delete", "near"], check=True)
            there.communicate()


def test_a_sandbox_reaches_the_hosts_that_are_named(internet: Serve, certificate: Path) -> None:
    source = FETCH + (
        "import ssl\nssl._create_default_https_context = lambda: ssl.create_default_context(cafile='/ca.crt')\n"
        "for url in ('http://web.test/x', 'https://web.test/y', 'https://other.test/', 'http://inner.test/'):\n"
        "    print(fetch(url))"
    )
    with internet(PUBLIC_ADDRESS, 80), internet(PUBLIC_ADDRESS, 443, certificate), web_server("127.0.0.1", 80):
        done = run_code(
            source,
            allow_network=["web.test", "inner.test"],
            mounts=[Mount(f"{certificate}.crt", "/ca.crt")],
        )
    said = done.stdout.splitlines()
    assert said[:2] == ["web.test /x", "web.test /y"]
    assert "Tunnel connection failed: 403 host 'other.test', port 443, is not among the hosts" in said[2]
    assert "no address that a sandbox may reach" in said[3]


def test_a_sandbox_reaches_a_private_address_whose_name_the_caller_has_marked(internet: Serve) -> None:
    source = FETCH + "for name in ('site.test', 'inner.test', 'other.test'): print(fetch(f'http://{name}:8080/'))"
    with internet(PRIVATE_ADDRESS, 8080), web_server("127.0.0.1", 8080):
        done = run_code(source, allow_network=["private:site.test:8080", "private:inner.test:8080"])
        assert done.stdout.splitlines() == [
            "site.test:8080 /",
            "host 'inner.test' has no address that a sandbox may reach",
            "",
            "host 'other.test', port 8080, is not among the hosts of this sandbox",
            "",
        ]
        source = "import urllib.request; urllib.request.urlopen('http://site.test:8080/')"
        done = run_code(source, allow_network=["site.test:8080"])
        assert done.error is not None
        assert done.error.message == "HTTP Error 403: host 'site.test' has no address outside of private networks"
        assert 'allow_network=["private:host.example"]' in str(done.error.hint)


@pytest.mark.parametrize("address", [PUBLIC_ADDRESS, "2606:4700:9999::1"])
def test_an_address_of_this_machine_needs_the_mark_of_a_private_one(address: str, tmp_path: Path) -> None:
    """Its services would take the sandbox for a program of this machine."""
    if os.geteuid() != 0 or "TEST_HOME" not in os.environ:
        pytest.skip("needs a network namespace of its own in which addresses can be set: contrib/python/check, as root")

    async def resolve(name: str, port: int) -> list[str]:
        return [address]

    # Without nodad, an address of IPv6 cannot be used at once.
    subprocess.run(["ip", "address", "add", address, "dev", "lo", *["nodad"] * (":" in address)], check=True)
    try:
        with web_server(address) as port:
            asked = request(f"GET http://web.test:{port}/ HTTP/1.1\r\nHost: web.test:{port}\r\n\r\n")
            marked = Proxy(parse_network([f"private:web.test:{port}"]).entries, resolve=resolve)
            assert through(marked, asked, tmp_path).startswith(b"HTTP/1.0 200 ")
            plain = Proxy(parse_network([f"web.test:{port}"]).entries, resolve=resolve)
            assert b"403 host 'web.test' has no address outside of this machine" in through(plain, asked, tmp_path)
    finally:
        subprocess.run(["ip", "address", "del", address, "dev", "lo"], check=True)


def test_a_sandbox_cannot_reach_another_name_on_the_same_address(internet: Serve, certificate: Path) -> None:
    source = (
        "import socket, ssl\n"
        "raw = socket.create_connection(('127.0.0.1', 1080))\n"
        "raw.sendall(b'CONNECT web.test:443 HTTP/1.1\\r\\n\\r\\n')\nassert b'200' in raw.recv(1000)\n"
        "context = ssl.create_default_context(cafile='/ca.crt')\n"
        "try: context.wrap_socket(raw, server_hostname='other.test')\n"
        "except (ssl.SSLError, OSError) as error: print('refused')"
    )
    with internet(PUBLIC_ADDRESS, 443, certificate):
        mounts = [Mount(f"{certificate}.crt", "/ca.crt")]
        assert run_code(source, allow_network=["web.test"], mounts=mounts).stdout == "refused\n"


def test_with_the_network_of_the_host() -> None:
    with web_server() as port:
        done = run_code(FETCH + f"print(fetch('http://127.0.0.1:{port}/h'))", allow_network="host")
    assert done.stdout == f"127.0.0.1:{port} /h\n"
