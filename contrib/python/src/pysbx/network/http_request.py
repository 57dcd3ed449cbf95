"""HTTP requests on their way out of a sandbox: each is parsed by h11, checked, and written anew from what was parsed.

The server never sees the bytes that the sandbox sent as a head, so it cannot read them differently. See RFC 9112, 2.2,
3.2, 5 and 6.3, and RFC 9110, 7.6.1. Only the proxy imports this module, when the first request comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import h11

from pysbx.network.host_rules import NotAllowedError, RefusedError, parse_authority
from pysbx.options.network import HTTP_PORT, HTTPS_PORT, Entry
from pysbx.options.request_rules import normal_path
from pysbx.options.secrets import Secret

MAX_HEAD = 1 << 16
END = b"\r\n\r\n"
# Lines of printable characters, each with CR LF; none begins with a space. h11 alone takes a bare LF for the end of a
# line and joins folded lines, as RFC 9112 permits: so do some servers, and others do not.
HEAD = re.compile(rb"(?:[\x21-\x7e\x80-\xff][\x20-\x7e\x80-\xff]*\r\n)+\r\n")
HOST_LINE = re.compile(rb"\r\nhost *:", re.IGNORECASE)
VERSIONS = (b"1.0", b"1.1")
# They concern one connection, and the proxy's are others. Host and the framing are written anew.
DROPPED = frozenset(
    b"connection host keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade".split()
)
# Servers and their frameworks take the method or the path from these.
OVERRIDES = frozenset(
    b"x-http-method x-http-method-override x-method-override x-original-url x-original-uri x-rewrite-url".split()
)
ABSOLUTE = re.compile(r"http://(?P<authority>[^/?]*)(?P<path>/[^?]*)?(?P<query>\?.*)?", re.IGNORECASE)
NOT_IN_TARGET = re.compile(r"[\\#]")

# Beginnings that a server at any port may take for HTTP. A method of the registry as the first word decides; otherwise
# the end of the line does. Binary protocols differ in their first bytes.
BLANK, WORD = rb"[\t\r\n ]*", rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}"
METHODS = rb"(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|TRACE|CONNECT|PRI)"
IS_HTTP = re.compile(BLANK + rb"(?:" + METHODS + rb"[\t ]|" + WORD + rb"[\t ][^\n]*?(?i:HTTP/))")
MAY_BE_HTTP = re.compile(BLANK + rb"(?:" + WORD + rb"(?:[\t ][^\n\0]*)?)?")
MAX_UNDECIDED = 1 << 12


def is_http(data: bytes) -> bool | None:
    """Tell whether the beginning of a connection is that of an HTTP request; None if more has to come."""
    if IS_HTTP.match(data):
        return True
    if not MAY_BE_HTTP.fullmatch(data):
        return False
    return True if len(data) > MAX_UNDECIDED else None


class Request:
    """A request that was accepted.

    Attributes:
        method: its method.
        name: the host it is for, lower case.
        port: the port it is for.
    """

    def __init__(self, head: bytes, tunnel: tuple[str, int] | None = None, *, tls: bool = False) -> None:
        """Parse a request.

        Args:
            head: all up to the empty line, which is included.
            tunnel: the name and port that the connection leads to; None if the request has to name them.
            tls: whether it came through TLS.

        Raises:
            RefusedError: it is malformed, for another host, or such that two parsers may differ about it.
        """
        if not HEAD.fullmatch(head):
            raise RefusedError("the HTTP request is malformed: it has control characters, a bare LF or folded lines")
        # The target of CONNECT names the host, and is not passed on; many clients leave Host out.
        if head.startswith(b"CONNECT ") and not HOST_LINE.search(head):
            head = head.replace(b"\r\n", b"\r\nHost: \r\n", 1)
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._parser.receive_data(head)
        try:
            event = self._parser.next_event()
        except h11.RemoteProtocolError as error:
            raise RefusedError(f"the HTTP request is malformed: {error}") from None
        if not isinstance(event, h11.Request):
            raise RefusedError("the HTTP request is malformed")
        self._event, self._tls = event, tls
        self._added: dict[bytes, Secret] = {}
        self.method = event.method.decode("ascii")
        self._check_framing()
        self.name, self.port, self._path = self._target(event.target.decode("ascii"), tunnel)
        self._check_host()
        without_body = self.method == "GET" and not self.chunked and not self._values(b"content-length")
        self.upgrade = without_body and self._values(b"upgrade") == [b"websocket"]

    def _values(self, name: bytes) -> list[bytes]:
        return [value.strip().lower() for key, value in self._event.headers if key == name]

    def _check_framing(self) -> None:
        version, coding = self._event.http_version, self._values(b"transfer-encoding")
        if version not in VERSIONS:
            raise RefusedError("the HTTP request is of another version than 1.0 and 1.1")
        if coding and (version == b"1.0" or self._values(b"content-length") or coding != [b"chunked"]):
            raise RefusedError("the HTTP request does not say plainly where it ends")
        self.chunked = bool(coding)

    def _target(self, target: str, tunnel: tuple[str, int] | None) -> tuple[str, int, str]:
        """Return name, port and path of the request."""
        if NOT_IN_TARGET.search(target):
            raise RefusedError("the HTTP request has a target that is not a URL")
        if self.method == "CONNECT" and tunnel is None:
            return *parse_authority(target), ""
        if self.method == "CONNECT":
            raise RefusedError("a tunnel leads through no other one")
        if tunnel and (target.startswith("/") or (self.method, target) == ("OPTIONS", "*")):
            return *tunnel, target
        found = ABSOLUTE.fullmatch(target)
        if not found or self._tls:
            raise RefusedError("only http:// goes without CONNECT")
        name, port = parse_authority(found["authority"], HTTP_PORT)
        if tunnel and (name, port) != tunnel:
            raise RefusedError("the HTTP request is for another host")
        return name, port, (found["path"] or "/") + (found["query"] or "")

    def _check_host(self) -> None:
        hosts = [value.decode("latin-1") for value in self._values(b"host")]
        if len(hosts) != 1:
            raise RefusedError("the HTTP request does not have one Host")
        if hosts == [""] and self.method == "CONNECT":
            return
        if parse_authority(hosts[0], self.port) != (self.name, self.port):
            raise RefusedError("the HTTP request is for another host")

    def check(self, entries: list[Entry], secrets: tuple[Secret, ...] = ()) -> None:
        """Refuse a request that no entry for its host permits, and note the secrets that it gets.

        Raises:
            NotAllowedError: the text says what is permitted.
        """
        here = [one for one in secrets if one.tls == self._tls and one.entry.allows(self.name, self.port)]
        if here and self.method == "TRACE":  # the answer has the fields of the request
            raise NotAllowedError(f"host '{self.name}' has secrets, and the request is a TRACE")
        only = all(entry.of_requests for entry in entries)
        path = self._path.partition("?")[0]
        if only or any(secret.entry.of_requests for secret in here):
            rules = f"host '{self.name}' allows {', '.join(map(str, entries)):.300}"
            try:
                path = path if path == "*" else normal_path(path)
            except ValueError as error:
                raise NotAllowedError(f"{rules}; the path of the request {error}") from None
            if only and not any(entry.permits(self.method, path) for entry in entries):
                raise NotAllowedError(f"{rules}, and no other request")
            if any(name.replace(b"_", b"-") in OVERRIDES for name, _ in self._event.headers):
                raise NotAllowedError(f"{rules}; the request has a field that may change its method or path")
        for secret in here:
            if secret.entry.permits(self.method, path):
                self._added[secret.field.lower().replace("_", "-").encode()] = secret

    def head(self) -> bytes:
        """Return the head as the server gets it: in origin form, and the only one of its connection."""
        version = self._event.http_version
        lines = [b" ".join((self._event.method, self._path.encode("ascii"), b"HTTP/" + version))]
        default = HTTPS_PORT if self._tls else HTTP_PORT
        lines.append(f"Host: {self.name}{'' if self.port == default else f':{self.port}'}".encode("ascii"))
        dropped = DROPPED | self._added.keys()
        fields = self._event.headers.raw_items()
        # Some servers do not tell "_" from "-" in a name.
        lines += [
            b"%s: %s" % (name, value)
            for name, value in fields
            if name.lower().replace(b"_", b"-") not in dropped and name.lower() != b"content_length"
        ]
        lines += [f"{added.field}: {added.value.reveal()}".encode("ascii") for added in self._added.values()]
        if self.chunked:
            lines.append(b"Transfer-Encoding: chunked")
        lines += [b"Connection: Upgrade", b"Upgrade: websocket"] if self.upgrade else [b"Connection: close"]
        return b"\r\n".join(lines) + END

    def body(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the pieces of the body for the server, and None at its end.

        Args:
            data: what came next from the client.

        Raises:
            RefusedError: it is malformed.
        """
        if data:
            self._parser.receive_data(data)
        try:
            while isinstance(event := self._parser.next_event(), (h11.Data, h11.EndOfMessage)):
                if isinstance(event, h11.EndOfMessage):
                    # Trailers are dropped: no rule says which of them a server takes for part of the head.
                    if self.chunked:
                        yield b"0" + END
                    yield None
                    return
                yield b"%x\r\n%s\r\n" % (len(event.data), bytes(event.data)) if self.chunked else bytes(event.data)
        except h11.RemoteProtocolError as error:
            raise RefusedError(f"the HTTP request is malformed: {error}") from None

    def after(self) -> bytes:
        """Return the bytes after the end of the request."""
        return self._parser.trailing_data[0]
