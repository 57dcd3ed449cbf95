"""The way out of a sandbox with named hosts: HTTP CONNECT, plain HTTP and SOCKS5 on a Unix socket, outside of it.

The sandbox has no network of its own, so this is the only way. Names are resolved here, after they have been found on
the list, and the connection goes to the very address that was looked at. See RFC 9110, 9.3.6, RFC 9112, 3.2, RFC 1928.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from pysbx.destination import (
    HANDSHAKE,
    Address,
    RefusedError,
    UnreachableError,
    handshake,
    is_elsewhere,
    is_public,
    parse_entry,
    server_name,
)
from pysbx.places import private_directory, run_directory
from pysbx.policy import Policy

CHUNK = 1 << 16
MAX_HEAD = 1 << 16
MAX_CONNECTIONS = 128
CONNECT_TIMEOUT_SEC = 20.0
HTTPS_PORT, HTTP_PORT = 443, 80
# RFC 9110, 5.6.2 and 5.5: a server may take for the end of a line, or for a name, what is neither.
METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
# RFC 1928: version, "no authentication", CONNECT, a name as address; replies "succeeded", "not allowed".
SOCKS, NO_AUTHENTICATION, CONNECT, NAME, SUCCEEDED, NOT_ALLOWED = 5, 0, 1, 3, 0, 2

Resolve = Callable[[str, int], Awaitable[list[str]]]
Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


async def system_resolve(name: str, port: int) -> list[str]:
    """Return the addresses of a name, as this machine resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Proxy:
    """Serves one list of hosts."""

    def __init__(
        self, hosts: tuple[str, ...], allowed: Callable[[Address], bool] = is_public, resolve: Resolve = system_resolve
    ) -> None:
        """Describe it.

        Args:
            hosts: the list, as policy.parse_network has it.
            allowed: which addresses a name may stand for.
            resolve: how names become addresses.
        """
        self._entries = tuple(parse_entry(host) for host in hosts)
        self._allowed = allowed
        self._resolve = resolve
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """Serve a connection to its end."""
        async with self._room:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                first = await reader.readexactly(1)
                if first == bytes([SOCKS]):
                    await self._serve_socks(reader, writer)
                else:
                    await self._serve_http(first, reader, writer)
            writer.close()

    async def _serve_http(self, first: bytes, reader: Reader, writer: Writer) -> None:
        head = first + await reader.readuntil(b"\r\n\r\n")
        request, _, rest = head.partition(b"\r\n")
        try:
            method, target, _ = request.decode("ascii").split(" ")
            if not METHOD.fullmatch(method):
                raise RefusedError("the HTTP request is malformed")
            if method == "CONNECT":
                name, _, port = target.rpartition(":")
                outer = await self._connect(name, int(port))
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._tunnel(name, int(port), (reader, writer), outer)
                return
            parts = urlsplit(target)
            if parts.scheme != "http" or not parts.hostname:
                raise RefusedError("only http:// goes without CONNECT")
            path = parts._replace(scheme="", netloc="").geturl() or "/"
            # One request a connection: the next one could be for another host.
            kept = [
                line for line in rest[:-4].split(b"\r\n") if not line.lower().startswith((b"proxy-", b"connection:"))
            ]
            check_host(kept, parts.hostname)
            outer = await self._connect(parts.hostname, parts.port or HTTP_PORT)
            begin = f"{method} {path} HTTP/1.1".encode("ascii")
            outer[1].write(b"\r\n".join([begin, *kept, b"Connection: close", b"", b""]))
            await pump_both((reader, writer), outer)
        except (RefusedError, ValueError) as error:
            text = f"{error}\n".encode()
            # Most clients show the status line, and not what follows it. A target is ASCII here, or it is no target.
            status = f"502 {error}" if isinstance(error, UnreachableError) else "403 Forbidden"
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
            writer.write(head + text)
            await writer.drain()

    async def _serve_socks(self, reader: Reader, writer: Writer) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        if NO_AUTHENTICATION not in methods:
            return
        writer.write(bytes([SOCKS, NO_AUTHENTICATION]))
        _, command, _, kind = await reader.readexactly(4)
        reply = bytes([0, 1, 0, 0, 0, 0, 0, 0])
        try:
            if command != CONNECT or kind != NAME:
                raise RefusedError("only connections to names are made")
            name = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
            port = int.from_bytes(await reader.readexactly(2), "big")
            outer = await self._connect(name, port)
        except (RefusedError, ValueError):
            writer.write(bytes([SOCKS, NOT_ALLOWED]) + reply)
            await writer.drain()
            return
        writer.write(bytes([SOCKS, SUCCEEDED]) + reply)
        await self._tunnel(name, port, (reader, writer), outer)

    async def _connect(self, given: str, port: int) -> tuple[Reader, Writer]:
        """Connect to a host of the list."""
        name = given.lower().rstrip(".")
        if not any(entry.allows(name, port) for entry in self._entries):
            raise RefusedError(f"host '{name}', port {port}, is not among the hosts of this sandbox")
        try:
            found = await self._resolve(name, port)
        except OSError as error:
            raise UnreachableError(f"host '{name}' cannot be resolved: {error.strerror}") from error
        usable = [text for text in found if self._allowed(ipaddress.ip_address(text.partition("%")[0]))]
        if not usable:
            raise RefusedError(f"host '{name}' has no address outside of private networks")
        for address in usable:
            with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_TIMEOUT_SEC)
        raise UnreachableError(f"host '{name}', port {port}, does not answer")

    async def _tunnel(self, name: str, port: int, inner: tuple[Reader, Writer], outer: tuple[Reader, Writer]) -> None:
        """Join two connections; what comes first from inside has to be for the host that was named."""
        back = asyncio.ensure_future(pump(outer[0], inner[1]))
        try:
            outer[1].write(await first_words(inner[0], name.lower().rstrip("."), port))
            await pump(inner[0], outer[1])
            await back
        except RefusedError:
            back.cancel()
        finally:
            outer[1].close()


async def first_words(reader: Reader, name: str, port: int) -> bytes:
    """Return what a client sends first, once it is sure that it is meant for the host.

    Raises:
        RefusedError: it is meant for another one, or does not say.
    """
    data = await reader.read(CHUNK)
    if not data:
        return data
    if data[0] == HANDSHAKE or port == HTTPS_PORT:
        while (hello := handshake(data)) is None:
            more = await reader.read(CHUNK)
            if not more:
                raise RefusedError("the TLS handshake ends in its middle")
            data += more
        if server_name(hello) != name:
            raise RefusedError("the TLS handshake is for another host")
    elif port == HTTP_PORT:
        while b"\r\n\r\n" not in data:
            more = await reader.read(CHUNK)
            if not more or len(data) > MAX_HEAD:
                raise RefusedError("the HTTP request has no end")
            data += more
        check_host(data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:], name)
    return data


def check_host(lines: list[bytes], name: str) -> None:
    """Refuse the header of an HTTP request that does not name the host, once, or that others may read differently."""
    if not all(map(FIELD.fullmatch, lines)):
        raise RefusedError("the HTTP request is malformed")
    hosts = [line.partition(b":")[2].strip().lower() for line in lines if line.lower().startswith(b"host:")]
    if len(hosts) != 1 or hosts[0].partition(b":")[0].decode("latin-1") != name.lower().rstrip("."):
        raise RefusedError("the HTTP request is for another host")


async def pump(reader: Reader, writer: Writer) -> None:
    """Copy until the end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def pump_both(inner: tuple[Reader, Writer], outer: tuple[Reader, Writer]) -> None:
    """Copy both ways, and close what was opened."""
    await asyncio.gather(pump(inner[0], outer[1]), pump(outer[0], inner[1]))
    outer[1].close()


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of this process's proxies, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="pysbx-proxy", daemon=True).start()
    return loop


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        path.unlink(missing_ok=True)


def _bind(directory: Path, name: str) -> socket.socket:
    """Return a socket that is bound beneath a directory, whose path may be longer than unix(7) allows."""
    above = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(f"/proc/self/fd/{above}/{name}")
        return bound
    finally:
        os.close(above)


@cache
def _start(hosts: tuple[str, ...], private: bool, process: int) -> str:
    directory = directory_for(hosts, private=private)
    path = directory / str(process)
    path.unlink(missing_ok=True)

    async def listen() -> None:
        proxy = Proxy(hosts, is_elsewhere if private else is_public)
        await asyncio.start_unix_server(proxy.serve, sock=_bind(directory, path.name), limit=MAX_HEAD)
        # The sandbox's user connects, which for root's sandboxes is nobody else's; the directories above are ours.
        path.chmod(0o666)

    asyncio.run_coroutine_threadsafe(listen(), _loop(process)).result()
    atexit.register(_remove, path, process)
    return path.name


def directory_for(hosts: tuple[str, ...], *, private: bool) -> Path:
    """Return the directory of the sockets of all proxies with this list, which is what a sandbox gets to see."""
    name = hashlib.sha256(",".join(hosts).encode()).hexdigest()[:24]
    top = private_directory(run_directory() / "proxies")
    directory = top / f"{'site' if private else 'public'}-{name}"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)  # whatever the caller's umask
    return directory


def ensure(policy: Policy) -> str:
    """Start the proxy for a policy in this process, if it wants one and there is none; return its socket's name."""
    if not isinstance(policy.network, tuple):
        return ""
    return _start(policy.network, policy.private_hosts, os.getpid())
