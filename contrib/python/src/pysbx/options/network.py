"""The network of a sandbox: what a caller writes as allow_network, parsed once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

from pysbx.options.declaration import listed, wrong

# The name of a host with an optional port, and an entry of allow_network. "private:80" is a port of the host "private".
HOST_NAME = r"(?i:(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?)"
HOST_ENTRY = rf"(?P<private>(?i:private:)(?!\d+\Z))?(?P<host>{HOST_NAME})"
# The requests that an entry is for: "GET,HEAD example.org/v1/*". A "/" alone may be the end of a copied URL.
METHOD = r"[A-Z]+(?:-[A-Z]+)*"  # those of the IANA's registry have this form
METHODS = rf"(?:(?P<methods>(?i:{METHOD}(?:,{METHOD})*)) +)?"
PATH = r"(?P<path>/.+)?"
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
        methods: the only methods of HTTP requests; () for all.
        path: a pattern for their paths; "" for all.
    """

    name: str
    below: bool = False
    port: str = ""
    private: bool = False
    methods: tuple[str, ...] = ()
    path: str = ""

    def __str__(self) -> str:
        """Return the entry as callers write it."""
        port = self.port and f":{self.port}"
        methods = self.methods and f"{','.join(self.methods)} "
        return f"{methods or ''}{'private:' * self.private}{'*.' * self.below}{self.name}{port}{self.path}"

    @property
    def of_requests(self) -> bool:
        """Whether the entry allows only some HTTP requests, and not each connection."""
        return bool(self.methods or self.path)

    def permits(self, method: str, path: str) -> bool:
        """Tell whether the entry allows a method and a normal path at its host."""
        if self.methods and method not in self.methods:
            return False
        from pysbx.options.request_rules import path_matches  # noqa: PLC0415 (few entries have a path)

        return not self.path or path_matches(self.path, path)

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


def parse_network(
    given: Literal[False] | str | Iterable[str | Mapping[str, Any]] | None, name: str = "allow_network"
) -> Network:
    """Return the network that a caller means.

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
    names = (given,) if isinstance(given, (str, Mapping)) else listed(name, given, "host names")
    rules = (rule for host in names for rule in (_written(name, host) if isinstance(host, Mapping) else [host]))
    entries = sorted({parse_entry(name, rule) for rule in rules}, key=str)
    return Network("hosts", tuple(entries)) if entries else Network()


def _written(name: str, rule: Mapping[str, Any]) -> list[str]:
    """Return the entries for a rule {"host": …, "methods": […], "paths": […]}: one for each path."""
    host, methods, paths = (rule.get(key) for key in ("host", "methods", "paths"))
    lists = [listed(name, given, "strings") for given in (methods, paths)]
    if {*rule} - {"host", "methods", "paths"} or not all(isinstance(one, str) for one in (host, *lists[0], *lists[1])):
        form = '{"host": "example.org", "methods": ["GET"], "paths": ["/v1/*"]}'
        raise wrong(name, f"{dict(rule)!r:.200} is not a rule such as {form}")
    for key, given in zip(("methods", "paths"), lists, strict=True):
        if rule.get(key) is not None and not given:
            raise wrong(name, f"'{host}' has no {key}, which would allow none: leave '{key}' out to allow all")
    return [f"{','.join(lists[0])} {host}{path}".lstrip() for path in lists[1] or [""]]


def parse_entry(name: str, host: object) -> Entry:
    """Return an entry of the list; see parse_network."""
    found = re.fullmatch(METHODS + HOST_ENTRY + PATH, host) if isinstance(host, str) else None
    if found is None or re.fullmatch(r"[\d.]+(:\d+)?", found["host"]):
        forms = "example.org, *.example.org, example.org:443, private:db.example.org:5432 or GET example.org/v1/*"
        raise wrong(name, f"{host!r} is not a host name such as {forms}")
    named = f"{found['private'] or ''}{found['host']}"
    if not {".", ":"} & {*named}:
        raise wrong(name, _why_no_name(named))
    methods = sorted(set((found["methods"] or "").upper().split(","))) if found["methods"] else ()
    if refused := {"CONNECT", "TRACE"} & {*methods}:
        raise wrong(name, f"{host!r}: {refused.pop()} is no method for a rule")
    path = found["path"] or ""
    if path:
        from pysbx.options.request_rules import normal_path  # noqa: PLC0415 (few entries have a path)

        try:
            path = normal_path(path)
        except ValueError as error:
            raise wrong(name, f"{host!r}: the path {error}") from None
    text, _, port = found["host"].lower().partition(":")
    private = found["private"] is not None
    return Entry(text.removeprefix("*."), text.startswith("*."), port, private, tuple(methods), path)


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
