"""Which hosts a sandbox may reach: names against a list, addresses against the private ranges, TLS against the name."""

from __future__ import annotations

import ipaddress
import re

MAX_PORT = 65535
# A name without a dot at its end, as RFC 1123, 2.1, with the underscores that some zones have.
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{LABEL}\.)*{LABEL}")
# inet_aton(3) takes "127.1", "2130706433" and "0x7f.1" for addresses.
ADDRESS = re.compile(r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")
# RFC 8446, 4.1.2, 4.2 and 5.1; RFC 6066, 3.
CHANGE_CIPHER, HANDSHAKE, CLIENT_HELLO, SERVER_NAME, HOST_NAME, ENCRYPTED_HELLO = 0x14, 0x16, 1, 0, 0, 0xFE0D
MAJOR_VERSION, MAX_RECORD, RECORD_HEADER, MESSAGE_HEADER = 3, 1 << 14, 5, 4
MAX_HELLO = 1 << 16
MAX_HELLO_OF_SERVERS = 1 << 18  # more than servers read: OpenSSL accepts 131 396 bytes.
# Addresses that lead to this machine, or that a router or the kernel translates: they may contain an address of another
# family. See the registries iana-ipv4-special-registry and iana-ipv6-special-registry.
NOT_AN_END = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",  # this network, RFC 791
            "127.0.0.0/8",
            "169.254.0.0/16",
            "192.88.99.0/24",  # relays of 6to4, RFC 7526
            "224.0.0.0/4",
            "240.0.0.0/4",  # reserved, and broadcast.
            "::/8",  # unspecified, loopback, IPv4-compatible, -mapped (::ffff:0:0/96), -translated (::ffff:0:0:0/96)
            "64:ff9b::/96",  # NAT64, RFC 6052.
            "64:ff9b:1::/48",  # local NAT64, RFC 8215
            "100::/64",  # discard, RFC 6666.
            "2001::/32",  # Teredo, RFC 4380
            "2002::/16",  # 6to4, RFC 3056
            "fe80::/10",
            "fec0::/10",  # site-local, RFC 3879
            "ff00::/8",
            # Clouds offer services to each of their machines, with the credentials of that machine. Most of these have
            # link-local addresses, and the others have the ones below.
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:42::42/128",
            "fd00:c1::a9fe:a9fe/128",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    )
)
# Addresses that no host of the internet has. The table of is_global depends on the version of Python, and lacks some.
NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments, RFC 6890
            "2001::/23",  # protocol assignments, RFC 2928
            "2001:db8::/32",
            "3fff::/20",  # documentation, RFC 9637
        ),
    )
)
GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # RFC 4291, 2.4, as far as the IANA assigns it

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(Exception):
    """A connection that is not allowed; the text says why."""


class NotAllowedError(RefusedError):
    """A connection to a host that is not allowed. The text contains no more of the request than the checked name."""


class UnreachableError(RefusedError):
    """A connection that is allowed, and cannot be made. The text is like that of NotAllowedError."""


def is_name(text: str) -> bool:
    """Tell whether a string is a host name in lower case. A name whose last label is a number is an address."""
    return NAME.fullmatch(text) is not None and ADDRESS.search(text) is None


def parse_authority(text: str, port: int | None = None) -> tuple[str, int]:
    """Return the name, in lower case and without a dot at its end, and the port of an authority.

    Args:
        text: "name:port", from a request.
        port: the port that is meant if the text has none; None if it must have one.

    Raises:
        RefusedError: it is anything else: an address, userinfo, a number that is not written plainly.
    """
    found = re.fullmatch(r"(?P<name>[^:]*?)\.?(?::(?P<port>[1-9][0-9]{0,4}))?", text.lower(), re.ASCII)
    if not found or not is_name(found["name"]) or not (given := int(found["port"] or port or 0)) or given > MAX_PORT:
        raise RefusedError("the target is not a host name with a port")
    return found["name"], given


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to the internet at large: not to a host, a site, a cloud's own services."""
    if not is_elsewhere(address) or not address.is_global:
        return False
    if address.version == 6 and address not in GLOBAL_UNICAST:
        return False
    return not any(address in network for network in NOT_PUBLIC)


def is_elsewhere(address: Address) -> bool:
    """Tell whether an address is neither loopback nor special: the rule for hosts that may have private addresses."""
    return getattr(address, "scope_id", None) is None and not any(address in network for network in NOT_AN_END)


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

    def more(self) -> bool:
        return self.place < len(self.data)

    def end(self) -> None:
        if self.more():
            raise IndexError


class Handshake:
    """Collects a ClientHello from TLS records. It looks at every byte once, however they come.

    Attributes:
        rest: what came after the last whole record.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self._message = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes, and return the ClientHello without its header once it is whole, or None before that.

        Raises:
            RefusedError: there is something else.
        """
        self._seen += len(data)
        self.rest += data
        while len(self.rest) >= RECORD_HEADER:
            kind, major = self.rest[:2]
            size = int.from_bytes(self.rest[3:RECORD_HEADER], "big")
            if kind != HANDSHAKE or major != MAJOR_VERSION or not 0 < size <= MAX_RECORD:
                raise RefusedError("the connection does not begin with a TLS ClientHello")
            if len(self.rest) < RECORD_HEADER + size:
                break
            self._message += self.rest[RECORD_HEADER : RECORD_HEADER + size]
            del self.rest[: RECORD_HEADER + size]
            if self._whole():
                return bytes(self._message[MESSAGE_HEADER:])
        if self.rest and self.rest[0] != HANDSHAKE:
            raise RefusedError("the connection does not begin with a TLS ClientHello")
        if self._seen > MAX_HELLO:
            raise RefusedError("the TLS handshake is too long")
        return None

    def _whole(self) -> bool:
        if self._message[0] != CLIENT_HELLO:
            raise RefusedError("the connection does not begin with a TLS ClientHello")
        if len(self._message) < MESSAGE_HEADER:
            return False
        size = MESSAGE_HEADER + int.from_bytes(self._message[1:MESSAGE_HEADER], "big")
        if size > MAX_HELLO or len(self._message) > size:
            raise RefusedError("the TLS handshake is too long")
        return len(self._message) == size


def may_be_hello(begin: bytes) -> bool:
    """Tell whether a server may take a record of type handshake for a ClientHello, by its first four bytes or fewer."""
    size = int.from_bytes(begin[1:MESSAGE_HEADER], "big") if len(begin) >= MESSAGE_HEADER else 0
    return begin[:1] == bytes([CLIENT_HELLO]) and size <= MAX_HELLO_OF_SERVERS


def handshake(data: bytes) -> bytes | None:
    """Return the ClientHello in the TLS records at the beginning of a connection, or None if more has to come.

    Raises:
        RefusedError: there is something else.
    """
    return Handshake().feed(data)


def server_name(hello: bytes) -> str:
    """Return the name in a ClientHello, lower case; "" if there is none.

    Raises:
        RefusedError: it is malformed, hides the name, or has more than one that a server may choose from.
    """
    try:
        reader = _Reader(hello)
        reader.take(2 + 32)
        for size in (1, 2, 1):  # session, cipher suites, compression methods
            reader.block(size)
        extensions = _Reader(reader.block(2))
        reader.end()
        found: dict[int, bytes] = {}
        while extensions.more():
            kind, content = extensions.number(2), extensions.block(2)
            if kind in found:
                raise RefusedError("the TLS handshake has an extension twice")
            found[kind] = content
        if ENCRYPTED_HELLO in found:
            raise RefusedError("the name in the TLS handshake is encrypted")
        return _only_name(found[SERVER_NAME]) if SERVER_NAME in found else ""
    except (IndexError, UnicodeDecodeError):
        raise RefusedError("the TLS handshake is malformed") from None


def _only_name(content: bytes) -> str:
    """Return the name in the extension server_name, which has to have one entry, of the only type there is."""
    extension = _Reader(content)
    names = _Reader(extension.block(2))
    extension.end()
    kind, name = names.number(1), names.block(2).decode("ascii").lower()
    if names.more():
        raise RefusedError("the TLS handshake has several names")
    if kind != HOST_NAME or not is_name(name):
        raise RefusedError("the name in the TLS handshake is not a host name")
    return name
