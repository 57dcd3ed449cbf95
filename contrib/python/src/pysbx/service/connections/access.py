"""Access to a server: the tokens of its callers, and the addresses at which it may listen.

A Unix socket is guarded by the file system. Everywhere else, on loopback too, a caller needs a token: other users of
the machine and pages in a browser reach the server. Other users reach some Unix sockets of systemd, too.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pysbx.base.directories import locked, run_directory
from pysbx.service.connections import systemd

VARIABLE = "PYSBX_TOKEN"
MIN_TOKEN = 16
# As it can stand in a header: RFC 6750, section 2.1.
TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{MIN_TOKEN},}}")
# Connections that wait to be accepted: the kernel lowers it. nginx answers with 502 if a Unix socket has no room.
BACKLOG = 4096


class Access:
    """The tokens of a server; each is a caller, whose sessions are its own."""

    def __init__(self, tokens: tuple[str, ...] = (), file: str | None = None) -> None:
        """Take the tokens; without any, all programs that reach the server are the same caller.

        Args:
            tokens: one for each caller.
            file: where they were read, for reload.

        Raises:
            ValueError: one is too short, or cannot stand in a header.
        """
        self.file = file
        if not all(TOKEN.fullmatch(token) for token in tokens):
            raise ValueError(
                f"token: at least {MIN_TOKEN} letters, digits and ._~+/=- are wanted: `openssl rand -hex 32` makes one"
            )
        self._digests = tuple(hashlib.sha256(token.encode()).digest() for token in tokens)

    def __bool__(self) -> bool:
        """Tell whether callers need a token."""
        return bool(self._digests)

    @property
    def are_several(self) -> bool:
        """Whether there may be more than one caller."""
        return len(self._digests) > 1

    def reload(self) -> None:
        """Read the file of the tokens again. Callers whose token is gone are refused from now on.

        Raises:
            OSError, ValueError: see read_tokens; then the tokens stay.
        """
        self._digests = read_tokens(self.file)._digests

    def caller(self, authorization: str) -> str | None:
        """Return the name of a caller, by the header Authorization, or None if the token is not known."""
        if not self._digests:
            return ""
        scheme, _, token = authorization.partition(" ")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # All are compared, each in constant time.
        known = [hmac.compare_digest(digest, one) for one in self._digests]
        return digest.hex() if any(known) and scheme.lower() == "bearer" else None


def read_tokens(file: str | None) -> Access:
    """Return the tokens in a file, one a line, or the one in the environment, which is then removed from it.

    Raises:
        OSError: the file cannot be read.
        ValueError: there is nothing in it, or no token.
    """
    given = os.environ.pop(VARIABLE, "")
    if file is None:
        return Access((given,) if given else ())
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise ValueError(f"token file '{file}': {error}") from error
    found = tuple(filter(None, lines))
    if not found:
        raise ValueError(f"token file '{file}': it is empty")
    for number, line in enumerate(lines, 1):
        if len(line.split()) > 1:  # a name before the token would be a token itself
            raise ValueError(f"token file '{file}', line {number}: one token a line, and nothing else")
    return Access(found, file)


@dataclass(frozen=True)
class Address:
    """Where to listen: a path, or a host and a port; or the socket that systemd hands on, which has one of these."""

    path: str = ""
    host: str = ""
    port: int = 0
    inherited: bool = False

    def __str__(self) -> str:
        """Return the address as it is written on the command line."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address for unix:PATH, HOST:PORT or systemd.

    Raises:
        ValueError: it is none of them.
    """
    if text == "systemd":
        return Address(inherited=True)
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Address(path=str(Path(text.removeprefix("unix:")).absolute()))
    host, sign, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not sign or not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise ValueError(f"listen: '{text}' is neither unix:PATH nor HOST:PORT nor systemd")
    return Address(host=host, port=int(port))


def default_address() -> Address:
    """Return the socket in the package's own directory, which no other user may enter."""
    return Address(path=str(run_directory() / "http.sock"))


def listen(address: Address, access: Access) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ValueError: the address needs a token, and there is none; or another server listens there; or it cannot be used.
    """
    if address.inherited:
        found = systemd.inherited()
        if not access and _is_open_to_all(found):
            refusal = _needs_token(address_of(found))
            found.close()
            raise refusal
        systemd.make_room()
        return found
    if address.path:
        try:
            return _listen_at_path(Path(address.path))
        except OSError as error:  # which names no file when it is of a socket
            raise ValueError(f"listen: '{error.filename or address.path}': {error.strerror or error}") from error
    if not access:
        raise _needs_token(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have such a name
        raise ValueError(f"listen: {address}: {getattr(error, 'strerror', None) or error}") from error
    made = socket.socket(family, kind, protocol)  # asyncio sets TCP_NODELAY only if it knows the protocol
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise ValueError(f"listen: {address}: {error.strerror}") from error
    return made


def _needs_token(address: Address) -> ValueError:
    return ValueError(
        f"listen: {address} needs a token, for more than one user reaches it: --token-file, or {VARIABLE}; "
        "or listen at unix:PATH; a unit of systemd has SocketMode=0660"
    )


def _is_open_to_all(listener: socket.socket) -> bool:
    """Tell whether each user of this machine reaches a socket that systemd has made: see SocketMode= of its units."""
    name = listener.getsockname()
    if listener.family != socket.AF_UNIX or not isinstance(name, str):  # an abstract name has bytes
        return True
    path = Path(name)
    try:
        entered = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
        return entered and bool(path.lstat().st_mode & stat.S_IWOTH)
    except OSError:  # the service does not see it: it is in a container, or its unit hides the directory
        return False


def check_proxies(named: Iterable[str]) -> None:
    """Refuse what is no address of a proxy: uvicorn would take it for a name that no peer has.

    Raises:
        ValueError: one is neither an address nor a network.
    """
    for one in named:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            advice = "give the address or network of the proxy, such as 127.0.0.1 or 10.0.0.0/8"
            raise ValueError(f"trusted_proxy: {error}: {advice}") from None


def is_exposed(address: Address) -> bool:
    """Tell whether other machines may reach an address."""
    if address.path:
        return False
    try:
        return not ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host != "localhost"


def address_of(listener: socket.socket) -> Address:
    """Return the address of a socket that systemd has handed on."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        path = name if isinstance(name, str) else "@" + name[1:].decode(errors="replace")
        return Address(path=path, inherited=True)
    return Address(host=name[0], port=name[1], inherited=True)


def _listen_at_path(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        # Of two servers that start at once, one must not take the other's socket for one that was left behind. Other
        # users could lock the directory of the socket for ever.
        with locked(run_directory() / "listening"):
            path.parent.stat()  # an error of bind(2) does not tell that it is missing
            if _is_left_behind(path):
                path.unlink()
            before = os.umask(0o177)
            try:
                made.bind(str(path))
            finally:
                os.umask(before)
            made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _is_left_behind(path: Path) -> bool:
    """Tell whether there is a socket at which no server listens any more."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ValueError(f"listen: '{path}' exists and is not a socket: choose another path")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX) as asker:
        asker.setblocking(False)
        try:
            asker.connect(str(path))
        except ConnectionRefusedError:
            return True
        except BlockingIOError:
            pass  # its queue of connections is full, so it has to be alive
    raise ValueError(f"listen: another server listens at '{path}': stop it, or choose another path")


def unlisten(address: Address, listener: socket.socket) -> None:
    """Remove the socket of a server that has ended, and no other one."""
    if not address.path or address.inherited:
        return
    # Closed by now, or about to be; a server that has taken the address since would answer.
    listener.close()
    path = Path(address.path)
    try:
        if _is_left_behind(path):
            path.unlink()
    except (OSError, ValueError):
        return
