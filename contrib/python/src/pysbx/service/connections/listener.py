"""The door of a server: accepts connections, as many as there may be, and closes those that keep it waiting.

uvicorn bounds requests, and not connections: one that sends nothing is never closed, and asyncio accepts connections
until there are no descriptors. So the listening socket is kept here. See accept(2), unix(7) for SO_PEERCRED.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from pysbx.service.connections.connection_limits import LATE, Bounds
from pysbx.service.connections.problems import CONNECTIONS, SHORT_OF, Problem
from pysbx.service.connections.rate import PATIENCE_SEC, RATE
from pysbx.service.connections.slices import Turns

logger = logging.getLogger(__name__)

# Connections that are accepted before the others get their turn.
BATCH = 16
# Seconds that connections wait in the backlog if the machine lacks a resource.
REST_SEC = 0.5
SWEEP_SEC = 0.5
# Seconds for a request that is on its way. So long, a connection keeps its place. One without a place waits twice that
# time.
GRACE_SEC = 1.0
HANDSHAKE_SEC = 5.0
RETRY_SEC = 2
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
# One customer gets a network of this size: RFC 6177.
IPV6_PREFIX = 64
UNREAD = 1 << 16
# Bytes of an answer that the kernel keeps before the network takes them; it asks for more when half are left. By
# default it keeps megabytes: of a slow client, that looks like an answer that stands still.
UNSENT = int(RATE * PATIENCE_SEC / 2)


class Guest(asyncio.Protocol):
    """A connection, as the door sees it; it calls Listener.left() when it has ended."""

    @property
    def waiting_since(self) -> float | None:
        """Time of the loop's clock since which it has no request, in seconds; None while it has one."""
        raise NotImplementedError

    def check(self, now: float) -> None:
        """Close the connection if it has kept the server waiting for too long."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close the connection at once, even if no request has begun."""
        raise NotImplementedError


def peer_of(connection: socket.socket) -> str:
    """Return the peer of a connection: a user, an IPv4 address, or an IPv6 network.

    Raises:
        OSError: it has been closed meanwhile.
    """
    if connection.family == socket.AF_UNIX:
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        return f"user {CREDENTIALS.unpack(found)[1]}"
    address = ipaddress.ip_address(connection.getpeername()[0].partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


def _refusal(reason: str) -> bytes:
    """Return a whole answer, for a connection of which no request is read."""
    problem = Problem(CONNECTIONS, reason, retry_sec=RETRY_SEC)
    content = json.dumps(problem.content()).encode()
    headers = {**problem.headers(), "Content-Length": str(len(content)), "Connection": "close"}
    first = f"HTTP/1.1 {problem.kind.status} {HTTPStatus(problem.kind.status).phrase}"
    return "\r\n".join([first, *(f"{name}: {headers[name]}" for name in headers), "", ""]).encode() + content


class Listener:
    """A listening socket, and the connections that have come through it.

    Attributes:
        turns: of the connections, for what they have sent.
        refused: see __init__.
    """

    def __init__(
        self,
        listener: socket.socket,
        bounds: Bounds,
        welcome: Callable[[Listener], Guest],
        tls: ssl.SSLContext | None = None,
        *,
        refused: Callable[[str], None],
    ) -> None:
        """Prepare a door, which open() opens.

        Args:
            listener: the socket; it stays the caller's.
            bounds: how many connections there may be.
            welcome: makes the protocol of a connection.
            tls: the certificate, for a server with TLS.
            refused: counts a problem, by its name, of which no application knows.
        """
        self.turns = Turns()
        self.refused = refused
        self._listener = listener
        self._bounds = bounds
        self._welcome = welcome
        # Only with TLS, asyncio takes a limit of time: a client may leave the handshake unfinished.
        self._tls: dict[str, Any] = {"ssl": tls, "ssl_handshake_timeout": HANDSHAKE_SEC} if tls is not None else {}
        self._guests: dict[Guest, str] = {}  # and their peers
        self._of_peer: Counter[str] = Counter()
        self._late: deque[tuple[float, socket.socket, str]] = deque()  # connections without a place, and since when
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False

    def open(self) -> None:
        """Begin to accept connections."""
        self._listener.setblocking(False)
        with contextlib.suppress(OSError):  # it is no socket of TCP; those that are inherit this from it
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        self._open = True
        self._listen()
        asyncio.get_running_loop().call_later(SWEEP_SEC, self._sweep)

    def close(self) -> None:
        """Accept no more connections. Connections that have a place stay, and are still watched."""
        self._open = False
        while self._late:
            self._refuse(*self._late.popleft()[1:])
        asyncio.get_running_loop().remove_reader(self._listener)

    def left(self, guest: Guest) -> None:
        """Note the end of a connection; a second call is no error."""
        peer = self._guests.pop(guest, None)
        if peer is not None:
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]

    def _listen(self) -> None:
        if self._open:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for guest in tuple(self._guests):
            guest.check(loop.time())
        for _ in range(len(self._late)):
            since, connection, peer = self._late.popleft()
            if self._has_room(peer, GRACE_SEC):
                self._enter(connection, peer)
            elif since > loop.time() - 2 * GRACE_SEC:
                self._late.append((since, connection, peer))
            else:
                self._refuse(connection, peer)
        loop.call_later(SWEEP_SEC, self._sweep)

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in SHORT_OF:
                    self._rest(error)
                    return
                continue  # it was closed before it was accepted
            try:
                connection.setblocking(False)
                self._receive(connection, peer_of(connection))
            except OSError:  # it has been closed meanwhile
                connection.close()

    def _rest(self, error: OSError) -> None:
        """Leave connections in the backlog for a while: asked again at once, the kernel would refuse at once."""
        logger.warning("connections wait for %g seconds: accept: %s", REST_SEC, error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        for _ in range(BATCH):
            self._make_room()
        loop.call_later(REST_SEC, self._listen)

    def _receive(self, connection: socket.socket, peer: str) -> None:
        many = len(self._late) >= LATE
        if self._has_room(peer, 0 if many else GRACE_SEC):
            self._enter(connection, peer)
        elif many:
            self._refuse(connection, peer)
        else:
            self._late.append((asyncio.get_running_loop().time(), connection, peer))

    def _has_room(self, peer: str, grace_sec: float) -> bool:
        return (self._of_peer[peer] < self._bounds.per_peer or self._make_room(peer, grace_sec)) and (
            len(self._guests) < self._bounds.connections or self._make_room(None, grace_sec)
        )

    def _enter(self, connection: socket.socket, peer: str) -> None:
        guest = self._welcome(self)
        self._guests[guest] = peer
        self._of_peer[peer] += 1
        task = asyncio.ensure_future(self._let_in(connection, guest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _let_in(self, connection: socket.socket, guest: Guest) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: guest, connection, **self._tls)
        except (ssl.SSLError, ConnectionError) as error:  # of the client's making
            logger.info("a connection has ended before its TLS handshake: %s", error.strerror or error)
            connection.close()
            self.left(guest)
        except OSError as error:
            logger.warning("a connection cannot be watched: %s", error.strerror)
            connection.close()
            self.left(guest)

    def _make_room(self, peer: str | None = None, grace_sec: float = 0) -> bool:
        """Close the connection that has been without a request for longest, and tell whether there was one."""
        latest = asyncio.get_running_loop().time() - grace_sec
        waiting = [
            (since, guest)
            for guest, its in self._guests.items()
            if peer in (None, its) and (since := guest.waiting_since) is not None and since <= latest
        ]
        if not waiting:
            return False
        guest = min(waiting, key=lambda item: item[0])[1]
        guest.leave()
        self.left(guest)
        return True

    def _refuse(self, connection: socket.socket, peer: str) -> None:
        bounds = self._bounds
        reason = f"there are {bounds.connections}, which is the most"
        if self._of_peer[peer] >= bounds.per_peer:
            reason = f"{peer} has {bounds.per_peer}, which is the most of one peer"
        logger.warning("a connection was refused: %s", reason)
        self.refused(CONNECTIONS.name)
        with connection, contextlib.suppress(OSError):
            # Closing with unread bytes would reset the connection, and the client would lose the answer.
            with contextlib.suppress(BlockingIOError):
                connection.recv(UNREAD)
            connection.send(_refusal(reason))
            connection.shutdown(socket.SHUT_WR)
