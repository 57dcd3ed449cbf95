"""Secrets that a sandbox uses and never sees: fields that the proxy outside adds to requests for a host.

No text of this module has a value, and none is shown, logged, copied or pickled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from pysbx.options.declaration import wrong
from pysbx.options.network import HTTP_PORT, HTTPS_PORT, Entry, Network, parse_entry

FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TEXT = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")
SCHEME = re.compile(r"(?:^|(?<= ))(?i:(?P<scheme>https?)://)")
# They belong to a connection or to the framing, which are the proxy's.
RESERVED = frozenset(
    "connection content-length expect host keep-alive proxy-authenticate proxy-authorization proxy-connection te"
    " trailer transfer-encoding upgrade".split()
)


class Value:
    """The value of a field, which only reveal() returns."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep a text."""
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        """Return the same for every value."""
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        """Tell whether another value is the same."""
        return isinstance(other, Value) and other._text == self._text

    def __hash__(self) -> int:
        """Return the hash of the text, which Python seeds."""
        return hash(self._text)

    def __deepcopy__(self, memo: object) -> Value:
        """Return itself."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: what is pickled travels into a sandbox."""
        raise TypeError("a secret is not pickled: it would leave this process")


class Secret(NamedTuple):
    """A field that the proxy adds.

    Attributes:
        entry: the host with its port, and the requests.
        tls: whether the requests come through TLS; otherwise they are plain HTTP.
        field: the name.
        value: the value.
    """

    entry: Entry
    tls: bool
    field: str
    value: Value

    def __str__(self) -> str:
        """Return the field and where it goes."""
        return f"{self.field} for {'https' if self.tls else 'http'}://{self.entry}"


def keep_secrets(name: str, given: Any) -> tuple[Secret, ...]:
    """Return the secrets that a caller writes as {"api.example.org": {"Authorization": "Bearer …"}}.

    A key may begin with "http://": then the field goes into plain HTTP, and otherwise only into TLS.

    Raises:
        SandboxOptionError: something is not allowed. The text has no value.
    """
    form = '{"api.example.org": {"Authorization": "Bearer …"}}'
    if not isinstance(given or {}, Mapping):
        raise wrong(name, f"a {type(given).__name__} is not a mapping such as {form}")
    found: dict[tuple[Entry, bool, str], Secret] = {}
    for host, fields in (given or {}).items():
        if not isinstance(fields, Mapping) or not fields:
            remedy = "fields of requests to a host; a variable of the program belongs to env"
            raise wrong(name, f"{host!r}: its fields are not a mapping such as in {form}: {remedy}")
        entry, tls = _target(name, host)
        for field, text in fields.items():
            if not isinstance(field, str) or not FIELD.fullmatch(field):
                raise wrong(name, f"{host!r}: the name of a field is not one such as Authorization")
            if field.lower() in RESERVED:
                raise wrong(name, f"{host!r}: {field} belongs to the connection and cannot be set")
            if not isinstance(text, str) or not TEXT.fullmatch(text):
                raise wrong(name, f"{host!r}: the value of {field} is not a string of printable ASCII characters")
            if (key := (entry, tls, field.lower())) in found:
                raise wrong(name, f"{host!r}: {field} is there twice")
            found[key] = Secret(entry, tls, field, Value(text))
    return tuple(found.values())


def _target(name: str, host: object) -> tuple[Entry, bool]:
    """Return the entry of a key, with its port, and whether it is for TLS."""
    scheme = SCHEME.search(host) if isinstance(host, str) else None
    tls = scheme is None or scheme["scheme"].lower() == "https"
    entry = parse_entry(name, SCHEME.sub("", host, count=1) if isinstance(host, str) else host)
    if entry.below:
        raise wrong(name, f"{host!r}: a secret is for one host, and not for all below a name")
    if tls and entry.port == str(HTTP_PORT):
        raise wrong(name, f"{host!r}: port 80 is plain HTTP: begin with http:// if the secret may be sent in the clear")
    return entry._replace(private=False, port=entry.port or str(HTTPS_PORT if tls else HTTP_PORT)), tls


def check_covered(network: Network, secrets: tuple[Secret, ...]) -> None:
    """Refuse a secret for a host that the network does not allow."""
    for secret in secrets:
        name, port = secret.entry.name, int(secret.entry.port)
        if not any(entry.allows(name, port) for entry in network.entries):
            raise wrong("secrets", f"host '{name}', port {port}, is not among the hosts of allow_network")


def opened(entries: tuple[Entry, ...], secrets: tuple[Secret, ...]) -> tuple[str, ...]:
    """Return the names of the hosts at whose connections the proxy has to end the TLS of the sandbox."""
    ruled = {entry.name for entry in entries if entry.of_requests and entry.port != str(HTTP_PORT)}
    return tuple(sorted(ruled | {secret.entry.name for secret in secrets if secret.tls}))


class SecretsFile(dict[str, Any]):
    """The content of a file with secrets. Its text is the path: a kernel's specification and command line have that."""

    def __init__(self, path: str, content: dict[str, Any]) -> None:
        """Keep the path and the content."""
        super().__init__(content)
        self.path = os.path.abspath(path)

    def __str__(self) -> str:
        """Return the path."""
        return self.path

    __repr__ = __str__


def read_secrets(path: str) -> SecretsFile:
    """Return the secrets in a file of TOML, with a table for each host.

    Raises:
        argparse.ArgumentTypeError: it cannot be read, or is malformed.
    """
    from argparse import ArgumentTypeError  # noqa: PLC0415 (only the command line calls this)

    from pysbx.options.requirements import read_toml  # noqa: PLC0415 (few programs have secrets)

    try:
        with open(path, encoding="utf-8") as file:
            return SecretsFile(path, read_toml(file.read()))
    except OSError as error:
        raise ArgumentTypeError(f"'{path}': {error.strerror}") from error
    except UnicodeDecodeError:
        raise ArgumentTypeError(f"'{path}': not UTF-8") from None
    except ValueError:  # its text may quote the file
        raise ArgumentTypeError(
            f"'{path}': not TOML, with a table such as [\"api.example.org\"] for each host"
        ) from None
