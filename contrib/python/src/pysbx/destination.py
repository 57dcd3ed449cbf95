"""Which hosts a sandbox may reach: names against a list, addresses against the private ranges, TLS against the name."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

# Without a port in its entry, a name is good for the web.
WEB_PORTS = (80, 443)
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# RFC 8446, 4.1.2 and RFC 6066, 3.
HANDSHAKE, CLIENT_HELLO, SERVER_NAME, ENCRYPTED_HELLO = 0x16, 1, 0, 0xFE0D
MAX_HELLO = 1 << 16

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(Exception):
    """A connection that is not allowed; the text says why."""


class UnreachableError(RefusedError):
    """One that is allowed, and cannot be made."""


@dataclass(frozen=True)
class Entry:
    """One name of the list: "example.org", "*.example.org" (what is below it), each with a port if wanted."""

    name: str
    below: bool
    port: int | None

    def allows(self, name: str, port: int) -> bool:
        """Tell whether a host and port are meant."""
        if port not in ((self.port,) if self.port else WEB_PORTS):
            return False
        return name.endswith(f".{self.name}") if self.below else name == self.name


def parse_entry(text: str) -> Entry:
    """Return an entry of the list, which policy.parse_network has checked."""
    name, _, port = text.partition(":")
    return Entry(name.removeprefix("*.").lower(), name.startswith("*."), int(port) if port else None)


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to the internet at large: not to a host, a site, a cloud's own services."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.sixtofour is not None or address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def is_elsewhere(address: Address) -> bool:
    """Tell whether an address is another machine's: the rule for hosts that the machine's own configuration names."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_elsewhere(address.ipv4_mapped)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


class _Reader:
    """Reads the fields of a TLS message; beyond its end it raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, size: int) -> bytes:
        if self.place + size > len(self.data):
            raise IndexError
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> bytes:
        return self.take(self.number(size))


def handshake(data: bytes) -> bytes | None:
    """Return the ClientHello in the TLS records at the beginning of a connection, or None if more has to come.

    Raises:
        RefusedError: there is something else.
    """
    message = b""
    reader = _Reader(data)
    while True:
        try:
            kind = reader.number(1)
            reader.take(2)
            message += reader.block(2)
        except IndexError:
            if len(data) > MAX_HELLO:
                raise RefusedError("the TLS handshake does not begin") from None
            return None
        if kind != HANDSHAKE or message[:1] != bytes([CLIENT_HELLO]):
            raise RefusedError("the connection does not begin with a TLS ClientHello")
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            return message[4 : 4 + int.from_bytes(message[1:4], "big")]


def server_name(hello: bytes) -> str:
    """Return the name in a ClientHello, lower case; "" if there is none.

    Raises:
        RefusedError: it is malformed, or hides the name.
    """
    try:
        reader = _Reader(hello)
        reader.take(2 + 32)
        for size in (1, 2, 1):  # session, cipher suites, compression methods
            reader.block(size)
        extensions = _Reader(reader.block(2))
        found = ""
        while extensions.place < len(extensions.data):
            kind, content = extensions.number(2), extensions.block(2)
            if kind == ENCRYPTED_HELLO:
                raise RefusedError("the name in the TLS handshake is encrypted")
            if kind == SERVER_NAME:
                names = _Reader(_Reader(content).block(2))
                names.take(1)
                found = names.block(2).decode("ascii").lower()
                if names.place != len(names.data):
                    raise RefusedError("the TLS handshake has several names")
        return found
    except (IndexError, UnicodeDecodeError):
        raise RefusedError("the TLS handshake is malformed") from None
