"""The network of a sandbox: what a caller writes as allow_network, parsed once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast, get_args

from pysbx.options.declaration import listed, wrong

# The name of a host with an optional port, and an entry of allow_network. "private:80" is a port of the host "private".
HOST_NAME = r"(?i:(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?)"
HOST_ENTRY = rf"(?P<private>(?i:private:)(?!\d+\Z))?(?P<host>{HOST_NAME})"
Mode = Literal["none", "localhost", "host"]
MODES = get_args(Mode)  # networks that are a word, and no list of hosts
# The ports that an entry without a port allows: those of the web.
HTTP_PORT, HTTPS_PORT = 80, 443
WEB_PORTS = (HTTP_PORT, HTTPS_PORT)


class Entry(NamedTuple):
    """One name of the list: "example.org", "*.example.org" (what is below it), each with a port if wanted.

    Attributes:
        name: the name, in lower case, without "*.".
        below: whether the names below it are meant.
        port: the only port, as it was written; "" for those of the web.
        private: whether the name may stand for an address of a private network: the entry began with "private:".
    """

    name: str
    below: bool = False
    port: str = ""
    private: bool = False

    def __str__(self) -> str:
        """Return the entry as callers write it."""
        port = self.port and f":{self.port}"
        return f"{'private:' * self.private}{'*.' * self.below}{self.name}{port}"

    def allows(self, name: str, port: int) -> bool:
        """Tell whether the entry allows a host and port."""
        if port not in ((int(self.port),) if self.port and int(self.port) else WEB_PORTS):
            return False
        return name.endswith(f".{self.name}") if self.below else name == self.name


class Network(NamedTuple):
    """The network of a sandbox.

    Attributes:
        kind: "none"; "localhost", a loopback of its own; "host", that of the host; or "hosts", some hosts by name.
        entries: the hosts.
    """

    kind: Literal[Mode, "hosts"] = "none"
    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        """Return the network as callers write it."""
        return ", ".join(map(str, self.entries)) or self.kind


def parse_network(given: Literal[False] | str | Iterable[str] | None, name: str = "allow_network") -> Network:
    """Return the network that a caller means.

    Args:
        given: the caller's value.
        name: the option, for the error.

    Raises:
        SandboxOptionError: a name is not a host name. Addresses are refused: they would circumvent the names. True is
            refused, and a word that may be a misspelt mode: neither says how much to open.
    """
    if given is None or given is False:
        return Network()
    if isinstance(given, str) and given in MODES:
        return Network(cast("Mode", given))
    if not isinstance(given, Iterable):
        whole = 'the whole network of this machine, with its loopback, is "host"'
        raise wrong(name, f'{given!r} is not a list of host names, such as ["example.org"]; {whole}')
    names = (given,) if isinstance(given, str) else listed(name, given, "host names")
    entries = sorted({_parse_entry(name, host) for host in names}, key=str)
    return Network("hosts", tuple(entries)) if entries else Network()


def _parse_entry(name: str, host: object) -> Entry:
    """Return an entry of the list; see parse_network."""
    found = re.fullmatch(HOST_ENTRY, host) if isinstance(host, str) else None
    if found is None or re.fullmatch(r"[\d.]+(:\d+)?", found["host"]):
        forms = "example.org, *.example.org, example.org:443 or private:db.example.org:5432"
        raise wrong(name, f"{host!r} is not a host name such as {forms}")
    if not {".", ":"} & {*found[0]}:
        raise wrong(name, _why_no_name(found[0]))
    text, _, port = found["host"].lower().partition(":")
    return Entry(text.removeprefix("*."), text.startswith("*."), port, private=found["private"] is not None)


def _why_no_name(word: str) -> str:
    """Return why a word is no host name here: it has neither a dot nor a port, and may be a misspelt mode."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for an error)

    near = get_close_matches(word.lower(), MODES, 1)
    meant = f'did you mean "{near[0]}", which stands alone?' if near else f"the words are {', '.join(MODES)}."
    return f"{word!r} is not a host name with a dot: {meant} Give a host without a dot its port, such as {word}:443"


def keep_network(name: str, given: Any) -> Network:
    """Return the network that a caller means: see parse_network."""
    return parse_network(given, name)


def one_network(given: list[str]) -> list[str] | str:
    """Return the networks of the command line: the only one, if it is a word and not a host name."""
    return given[0] if len(given) == 1 and given[0] in MODES else given
