"""The way out of a sandbox with named hosts: HTTP CONNECT, plain HTTP and SOCKS5 on a Unix socket, outside of it.

The sandbox has no network of its own, so this is the only way. Names are resolved here, after they have been found on
the list, and the connection goes to the very address that was checked. See RFC 9110, 9.3.6, RFC 9112, 3.2, RFC 1928.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import hashlib
import ipaddress
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pysbx.base.directories import locked, private_directory, remove_left_sockets, run_directory
from pysbx.errors import with_extra
from pysbx.network import relay
from pysbx.network.host_rules import (
    CHANGE_CIPHER,
    HANDSHAKE,
    MAX_RECORD,
    MESSAGE_HEADER,
    RECORD_HEADER,
    Address,
    Handshake,
    NotAllowedError,
    RefusedError,
    UnreachableError,
    is_elsewhere,
    is_public,
    may_be_hello,
    parse_authority,
    server_name,
)
from pysbx.network.relay import Account, End, Reader, Room, SocketEnd, Writer
from pysbx.network.routes import is_public_elsewhere
from pysbx.options.declaration import wrong
from pysbx.options.network import HTTPS_PORT, WEB_PORTS, Entry
from pysbx.options.secrets import Secret, opened

if TYPE_CHECKING:
    from pysbx.network.authority import Authority
    from pysbx.network.http_request import Request

# Seconds within which a client has to name its destination, and to send the first bytes for it.
HEAD_SEC = 10.0
CONNECT_TIMEOUT_SEC = 20.0
MAX_ADDRESSES = 4
# Connections that the kernel keeps until the proxy accepts them; they cost this process no descriptor.
BACKLOG = 128
# Seconds before the proxy accepts again, after it has closed a connection at once or found no descriptor.
PAUSE_SEC, SHORTAGE_SEC = 0.01, 0.5
# RFC 1928: version, "no authentication", CONNECT, a name as address; replies.
SOCKS, NO_AUTHENTICATION, CONNECT, NAME, SUCCEEDED, NOT_ALLOWED, UNREACHABLE = 5, 0, 1, 3, 0, 2, 4
# The names of a directory of one program, and in it of the file with the authorities that its sandboxes trust.
OWN, AUTHORITIES = "own-", "authorities.pem"
SWITCHING = b"HTTP/1.1 101 "

Resolve = Callable[[str, int], Awaitable[list[str]]]
T = TypeVar("T")


async def system_resolve(name: str, port: int) -> list[str]:
    """Return the addresses of a name, as this machine resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def within(seconds: float, task: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the proxies' event loop and return its result.

    Raises:
        RefusedError: it takes longer.
    """
    try:
        return await asyncio.wait_for(task, seconds)
    except (TimeoutError, asyncio.TimeoutError):
        raise RefusedError(f"the connection has not said within {seconds:g} seconds what it is for") from None


class Proxy:
    """Serves one list of hosts."""

    def __init__(
        self,
        hosts: tuple[Entry, ...],
        allowed: Callable[[Address], bool] = is_public_elsewhere,
        resolve: Resolve = system_resolve,
    ) -> None:
        """Prepare a proxy for one list of hosts.

        Args:
            hosts: the list.
            allowed: which addresses a name may stand for. For a private entry the rule is is_elsewhere.
            resolve: how names become addresses.
        """
        self._entries = hosts
        self._allowed = allowed
        self._resolve = resolve
        self._secrets: tuple[Secret, ...] = ()
        self._authority: Authority | None = None
        self._trusted = ""

    def add(self, secrets: tuple[Secret, ...], authority: Authority | None, trusted: str) -> None:
        """Read the requests for hosts that have rules or secrets.

        Args:
            secrets: fields that are added to requests.
            authority: which the sandbox trusts, if TLS has to be ended here.
            trusted: file with the authorities by which hosts are verified; "" for those of Python.
        """
        self._secrets, self._authority, self._trusted = secrets, authority, trusted

    async def serve(self, reader: Reader, writer: Writer, account: Account | None = None) -> None:
        """Serve a connection to its end."""
        inner = SocketEnd(reader, writer, account or Account(Room()))
        try:
            with contextlib.suppress(OSError, RefusedError):
                first = await within(HEAD_SEC, inner.read())
                inner.keep(first)
                if first[:1] == bytes([SOCKS]):
                    await self._serve_socks(inner)
                elif first:
                    await self._serve_http(inner)
        finally:
            await inner.close()

    async def _serve_http(self, inner: End) -> None:
        try:
            request = await within(HEAD_SEC, read_request(inner))
            if request.method != "CONNECT":
                request.check(self._entries_for(request.name, request.port), self._secrets)
            outer = await self._connect(request.name, request.port, inner.account)
        except RefusedError as error:
            await refuse(inner, error)
            return
        try:
            if request.method == "CONNECT":
                await inner.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._tunnel(request.name, request.port, inner, outer)
            else:
                await relay.join(inner, outer, forward(request, inner, outer))
        finally:
            await outer.close()

    async def _serve_socks(self, inner: End) -> None:
        reply = bytes([0, 1, 0, 0, 0, 0, 0, 0])
        try:
            name, port = await within(HEAD_SEC, read_socks(inner))
            outer = await self._connect(name, port, inner.account)
        except RefusedError as error:
            code = UNREACHABLE if isinstance(error, UnreachableError) else NOT_ALLOWED
            await inner.write(bytes([SOCKS, code]) + reply)
            return
        try:
            await inner.write(bytes([SOCKS, SUCCEEDED]) + reply)
            await self._tunnel(name, port, inner, outer)
        finally:
            await outer.close()

    def _entries_for(self, name: str, port: int) -> list[Entry]:
        """Return the entries of the list that allow a host and port: at least one."""
        if found := [entry for entry in self._entries if entry.allows(name, port)]:
            return found
        raise NotAllowedError(f"host '{name}', port {port}, is not among the hosts of this sandbox")

    async def _connect(self, name: str, port: int, account: Account) -> SocketEnd:
        """Connect to a host of the list."""
        entries = self._entries_for(name, port)
        private = any(entry.private for entry in entries)
        # A lookup occupies a thread of this process until the system's resolver gives up.
        async with account.lookups:
            try:
                found = await self._resolve(name, port)
            except OSError as error:
                raise UnreachableError(f"host '{name}' cannot be resolved: {error.strerror}") from error
        addresses = {text: ipaddress.ip_address(text) for text in found}
        allowed = is_elsewhere if private else self._allowed
        try:
            usable = [text for text, address in addresses.items() if allowed(address)]
        except OSError as error:
            raise NotAllowedError(f"host '{name}' may be this machine: no routes: {error.strerror}") from error
        if not usable and not private and any(map(is_public, addresses.values())):
            raise NotAllowedError(f"host '{name}' has no address outside of this machine")
        if not usable and not private and any(map(is_elsewhere, addresses.values())):
            raise NotAllowedError(f"host '{name}' has no address outside of private networks")
        if not usable:
            raise NotAllowedError(f"host '{name}' has no address that a sandbox may reach")
        for address in usable[:MAX_ADDRESSES]:
            with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
                # An address, so that nothing is resolved a second time.
                reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_TIMEOUT_SEC)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                return SocketEnd(reader, writer, account)
        raise UnreachableError(f"host '{name}', port {port}, does not answer")

    async def _tunnel(self, name: str, port: int, inner: End, outer: End) -> None:
        """Serve a tunnel to its end. If there are rules or secrets for its requests, its TLS ends here."""
        only = all(entry.of_requests for entry in self._entries_for(name, port))
        if self._authority and (only or any(one.tls and one.entry.allows(name, port) for one in self._secrets)):
            first = await within(HEAD_SEC, inner.read())
            inner.keep(first)
            if first[:1] == bytes([HANDSHAKE]):
                await self._open(name, port, inner, outer, self._authority)
                return
        await relay.join(inner, outer, self._forth(name, port, inner, outer))

    async def _open(self, name: str, port: int, inner: End, outer: End, authority: Authority) -> None:
        """Serve the only request of a TLS connection."""
        from pysbx.network.tls import TlsEnd, client_context  # noqa: PLC0415 (few sandboxes need it)

        inner.keep(await within(HEAD_SEC, read_hello(inner, name)))
        client = TlsEnd(inner, authority.context(name))
        await within(HEAD_SEC, client.handshake())
        server = TlsEnd(outer, client_context(self._trusted), name)
        try:
            request = await within(HEAD_SEC, read_request(client, (name, port), tls=True))
            request.check(self._entries_for(name, port), self._secrets)
            await within(CONNECT_TIMEOUT_SEC, server.handshake())
        except OSError as error:
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror
            await refuse(client, UnreachableError(f"host '{name}', port {port}: no TLS with it: {reason}"))
        except RefusedError as error:
            await refuse(client, error)
        else:
            await relay.join(client, server, forward(request, client, server))
            return
        await client.finish()

    async def _forth(self, name: str, port: int, inner: End, outer: End) -> None:
        """Pass on the bytes of a tunnel, once it is certain that they are for the host."""
        # If a server speaks first, its client may be silent for long; the limit for idle connections applies.
        first = await (within(HEAD_SEC, inner.read()) if port in WEB_PORTS else inner.read())
        if not first:
            await outer.finish()
            return
        inner.keep(first)
        entries = self._entries_for(name, port)
        of_requests = all(entry.of_requests for entry in entries)
        if first[0] == HANDSHAKE or port == HTTPS_PORT:
            if of_requests:
                raise RefusedError("only some requests are allowed, and this is no TLS that the proxy can end")
            await outer.write(await within(HEAD_SEC, read_hello(inner, name)))
            await pass_hellos(inner, outer, name)
        elif of_requests or port in WEB_PORTS or await within(HEAD_SEC, speaks_http(inner)):
            try:
                request = await within(HEAD_SEC, read_request(inner, (name, port)))
                request.check(entries, self._secrets)
            except RefusedError as error:
                await refuse(inner, error)
                raise
            await forward(request, inner, outer)
            return
        await relay.pump(inner, outer)


async def read_request(inner: End, tunnel: tuple[str, int] | None = None, *, tls: bool = False) -> Request:
    """Read the head of an HTTP request."""
    from pysbx.network.http_request import END, MAX_HEAD, Request  # noqa: PLC0415 (h11 is loaded with the first request)

    return Request(await inner.until(END, MAX_HEAD), tunnel, tls=tls)


async def refuse(inner: End, error: RefusedError) -> None:
    """Answer a request that is refused."""
    text = f"{error}\n".encode("ascii", "backslashreplace")
    # Most clients show only the status line.
    status = "403 Forbidden"
    if isinstance(error, (NotAllowedError, UnreachableError)):
        status = f"{502 if isinstance(error, UnreachableError) else 403} {error}"
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    await inner.write(head.encode("ascii", "backslashreplace") + text)


async def read_socks(inner: End) -> tuple[str, int]:
    """Return the name and port that a SOCKS client asks for."""
    methods = await inner.exactly((await inner.exactly(2))[1])
    if NO_AUTHENTICATION not in methods:
        raise RefusedError("there is no authentication")
    await inner.write(bytes([SOCKS, NO_AUTHENTICATION]))
    version, command, _, kind = await inner.exactly(4)
    if version != SOCKS or command != CONNECT or kind != NAME:
        raise RefusedError("only connections to names are made")
    name = await inner.exactly((await inner.exactly(1))[0])
    port = int.from_bytes(await inner.exactly(2), "big")
    return parse_authority(f"{name.decode('latin-1')}:{port}")


async def read_hello(inner: End, name: str) -> bytes:
    """Return the records with a ClientHello for a host."""
    hello, passed = Handshake(), bytearray()
    while True:
        if not (data := await inner.read()):
            raise RefusedError("the TLS handshake ends in its middle")
        passed += data
        if (message := hello.feed(data)) is not None:
            break
    if server_name(message) != name:
        raise RefusedError("the TLS handshake is for another host")
    inner.keep(bytes(hello.rest))
    return bytes(passed[: len(passed) - len(hello.rest)])


async def pass_hellos(inner: End, outer: End, name: str) -> None:
    """Pass on the records in which a TLS client may send a second ClientHello, which has to be for the host too.

    A server asks for it with HelloRetryRequest, and may read the name anew: RFC 8446, 4.1.2. A record of type
    change_cipher_spec may come before it. After any other record there is none that is not encrypted.
    """
    while True:
        header = await inner.exactly(RECORD_HEADER)
        size = int.from_bytes(header[3:], "big")
        if header[0] == CHANGE_CIPHER and size <= MAX_RECORD:
            await outer.write(header + await inner.exactly(size))
            continue
        begin = await inner.exactly(min(size, MESSAGE_HEADER)) if header[0] == HANDSHAKE else b""
        inner.keep(header + begin)
        if not may_be_hello(begin):
            return
        await outer.write(await within(HEAD_SEC, read_hello(inner, name)))


async def speaks_http(inner: End) -> bool:
    """Tell whether a connection begins as HTTP does."""
    from pysbx.network.http_request import is_http  # noqa: PLC0415 (h11 is loaded with the first request)

    data = await inner.read()
    while (found := is_http(data)) is None:
        if not (more := await inner.read()):
            raise RefusedError("the connection ends before it can be told what it is")
        data += more
    inner.keep(data)
    return found


async def forward(request: Request, inner: End, outer: End) -> None:
    """Pass on one request, and no byte that follows it: the next request could be for another host."""
    inner.asked = True
    await outer.write(request.head())
    data = b""
    while not await pass_body(request, data, outer):
        if not (data := await inner.read()):
            raise RefusedError("the HTTP request ends in its middle")
    if request.upgrade and (await outer.first()).startswith(SWITCHING):
        inner.keep(request.after())
        await relay.pump(inner, outer)
    elif not request.after() and not await inner.read():
        await outer.finish()


async def pass_body(request: Request, data: bytes, outer: End) -> bool:
    """Pass on a part of a request's body, and tell whether it was the last."""
    for piece in request.body(data):
        if piece is None:
            return True
        await outer.write(piece)
    return False


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of this process's proxies, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="pysbx-proxy", daemon=True).start()
    return loop


@cache
def _room(process: int) -> Room:
    """Return the places for connections, which all proxies of this process share."""
    return Room()


_tasks: set[asyncio.Task[None]] = set()
_starting = threading.Lock()  # two threads may need the same proxy


def _forget() -> None:
    """In a fork, where another thread may have held the lock."""
    global _starting  # noqa: PLW0603
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _spawn(task: Coroutine[Any, Any, None]) -> None:
    """Run a task to its end: the event loop alone has only a weak reference to it."""
    running = asyncio.get_running_loop().create_task(task)
    _tasks.add(running)
    running.add_done_callback(_tasks.discard)


async def _accept(listener: socket.socket, proxy: Proxy, room: Room) -> None:
    """Accept connections as long as there is room for one more to be served or to wait."""
    loop = asyncio.get_running_loop()
    while True:
        await room.accepted.acquire()
        try:
            connection, _ = await loop.sock_accept(listener)
        except OSError:  # no descriptor is left, or the peer has gone
            room.accepted.release()
            await asyncio.sleep(SHORTAGE_SEC)
            continue
        if account := room.enter(relay.sandbox_of(connection)):
            _spawn(_serve(connection, proxy, account, room))
        else:
            connection.close()
            room.accepted.release()
            await asyncio.sleep(PAUSE_SEC)


async def _serve(connection: socket.socket, proxy: Proxy, account: Account, room: Room) -> None:
    """Serve a connection once its sandbox and this process have a place for it."""
    async with room.place(account):
        await account.pay()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
        except OSError:
            connection.close()
            return
        await proxy.serve(reader, writer, account)


def _remove(path: Path, process: int) -> None:
    """Remove a socket at the end of the program, and with the last one a directory of one program."""
    if os.getpid() != process:  # in a fork
        return
    path.unlink(missing_ok=True)
    for key, own in list(_owned.items()):
        if own.path == path.parent and not any(map(Path.is_socket, own.path.iterdir())):
            del _owned[key]
            _remove_own(own.path, own.lock)


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
def _start(hosts: tuple[Entry, ...], secrets: tuple[Secret, ...], trusted: str, process: int) -> str:
    directory = directory_for(hosts, secrets, trusted)
    path = directory / str(process)
    path.unlink(missing_ok=True)
    remove_left_sockets(directory)
    proxy = Proxy(hosts)
    for own in _owned.values():
        if own.path == directory:
            proxy.add(secrets, own.authority, trusted)

    async def listen() -> None:
        listener = _bind(directory, path.name)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        # The sandbox's user connects. If root calls, no other process has that user; the directories above belong to
        # the caller.
        path.chmod(0o666)
        _spawn(_accept(listener, proxy, _room(process)))

    asyncio.run_coroutine_threadsafe(listen(), _loop(process)).result()
    atexit.register(_remove, path, process)
    return path.name


class _Own(NamedTuple):
    """A directory of this program and its forks, with a random name, and its authority if one is needed.

    A sandbox finds no socket in it that adds other secrets than its own, and its path says nothing about them.
    """

    path: Path
    lock: int
    authority: Authority | None


_owned: dict[Any, _Own] = {}


def _own(hosts: tuple[Entry, ...], secrets: tuple[Secret, ...], trusted: str) -> _Own:
    """Return the directory for some hosts and secrets."""
    key = hosts, secrets, trusted
    if key not in _owned:
        made = _make_own(hosts, secrets, trusted)
        if _owned.setdefault(key, made) is not made:  # another thread was faster
            _remove_own(made.path, made.lock)
    return _owned[key]


def _make_own(hosts: tuple[Entry, ...], secrets: tuple[Secret, ...], trusted: str) -> _Own:
    names = opened(hosts, secrets)
    authority = None
    if names:
        try:
            from pysbx.network.authority import Authority  # noqa: PLC0415 (an extra, which few sandboxes need)
        except ModuleNotFoundError as error:
            what = f"host '{names[0]}': the proxy has to read requests in TLS, and there is no module {error.name}"
            raise wrong("secrets" if secrets else "allow_network", f"{what}: {with_extra('secrets')}") from error
        authority = Authority(names)
    top = private_directory(run_directory() / "proxies")
    with locked(top / "lock"):
        for left in top.glob(f"{OWN}*"):  # by a program that was killed
            if (lock := _hold(left)) >= 0:
                _remove_own(left, lock)
        path = (
            top / f"{OWN}{os.urandom(16).hex()}"
        )  # other users may enter the one above if root calls, but not list it
        path.mkdir()
        made = _Own(path, _hold(path), authority)
    if authority:
        others = Path(trusted).read_bytes() if trusted else b""
        (path / AUTHORITIES).write_bytes(others.rstrip() + b"\n" + authority.certificate.encode())
        (path / AUTHORITIES).chmod(0o644)
    path.chmod(0o755)
    atexit.register(_remove, path / str(os.getpid()), os.getpid())
    return made


def _hold(directory: Path) -> int:
    """Lock a directory until the descriptor is closed, in forks too; return that, or -1 if another program has it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


def _remove_own(path: Path, lock: int) -> None:
    import shutil  # noqa: PLC0415 (few sandboxes need it)

    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def directory_for(hosts: tuple[Entry, ...], secrets: tuple[Secret, ...] = (), trusted: str = "") -> Path:
    """Return the directory of the sockets of all proxies for this, which is mounted into the sandbox.

    Args:
        hosts: the list.
        secrets: what is added to requests. With some, the directory is of this program alone.
        trusted: file with the authorities that this machine trusts, or "".
    """
    if secrets or opened(hosts, secrets):
        return _own(hosts, secrets, trusted).path
    name = hashlib.sha256(",".join(map(str, hosts)).encode()).hexdigest()[:24]
    directory = private_directory(run_directory() / "proxies") / name
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)  # independent of the caller's umask
    return directory


def ensure(hosts: tuple[Entry, ...], secrets: tuple[Secret, ...] = (), trusted: str = "") -> str:
    """Start the proxy for some hosts, if there is none in this process; return the name of its socket.

    The arguments are those of directory_for.
    """
    with _starting:
        return _start(hosts, secrets, trusted, os.getpid())
