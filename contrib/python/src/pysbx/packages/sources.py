"""The places that packages come from: indexes, directories of wheels, and the configuration of pip on this machine.

See https://pip.pypa.io/en/stable/topics/configuration/.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pysbx.base import children
from pysbx.container.interpreter import AUTHORITIES
from pysbx.errors import DependencyInstallError
from pysbx.options.declaration import wrong
from pysbx.options.mount import Mount
from pysbx.options.network import HOST_NAME

WHEELS = "/.wheels"
LINKS = "/.links"
# In /work, where files are put that an installer gets.
AUTHORITY = "/work/authority.pem"
# Variables that name a file or a directory of certificate authorities, in the order in which pip looks at them.
VARIABLES_OF_REQUESTS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# The sections of pip's configuration that count for `pip install`; a later one overrides an earlier one.
SECTIONS = ("global", "install", ":env:")
# Settings of pip that are handed on as they are: those with a value, which may be a list, and switches.
VALUES = ("only-binary", "no-binary", "trusted-host", "timeout", "retries")
SWITCHES = ("pre", "prefer-binary", "require-hashes")
# uv has another name for some of them, and lacks the others.
UV_NAMES = {"only-binary": "--only-binary", "no-binary": "--no-binary", "trusted-host": "--allow-insecure-host"}
UV_SWITCHES = {"pre": "--prerelease=allow", "require-hashes": "--require-hashes"}


@dataclass(frozen=True)
class Source:
    """The places, for an installation in a sandbox.

    Attributes:
        indexes: URLs; the first is the main one. Without any, only `links` are searched.
        links: directories in the sandbox and URLs where files of packages are.
        hosts: the hosts that an installation talks to, as names with ports.
        mounts: directories and files of the host that it reads.
        authority: the file in the sandbox with the certificate authorities, or "".
        authorities: its content.
        settings: of pip's configuration: those of VALUES and SWITCHES, each with its values.
        constraints: the contents of files of constraints.
    """

    indexes: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    authority: str = ""
    authorities: bytes = b""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()

    def pip_arguments(self) -> list[str]:
        """Return the arguments of `pip install`."""
        found = [*self._places()]
        found += ["--cert", self.authority] if self.authority else []
        for name, values in self.settings.items():
            found += [f"--{name}"] if name in SWITCHES else [f"--{name}={value}" for value in values]
        return found

    def uv_arguments(self) -> list[str]:
        """Return the arguments of `uv pip install`."""
        found = [*self._places()]
        for name, values in self.settings.items():
            if name in UV_NAMES:
                found += [f"{UV_NAMES[name]}={value}" for value in values]
            elif name in UV_SWITCHES:
                found.append(UV_SWITCHES[name])
        return found

    def environment(self) -> dict[str, str]:
        """Return variables for programs that build packages: they run pip again, and it gets no arguments of this."""
        found = {"PIP_CERT": self.authority, "SSL_CERT_FILE": self.authority} if self.authority else {}
        return found | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def files(self) -> dict[str, bytes]:
        """Return the files that the installer gets, by name."""
        found = {f"constraints-{number}.txt": text.encode() for number, text in enumerate(self.constraints)}
        return found | ({os.path.basename(AUTHORITY): self.authorities} if self.authorities else {})

    def _places(self) -> list[str]:
        found = ["--no-index"] if not self.indexes else ["--index-url", self.indexes[0]]
        found += [f"--extra-index-url={url}" for url in self.indexes[1:]]
        found += [f"--find-links={place}" for place in self.links]
        for number in range(len(self.constraints)):
            found += ["-c", f"constraints-{number}.txt"]
        return found


@cache
def configuration() -> dict[str, tuple[str, ...]]:
    """Return the settings of pip on this machine, from files and the environment, and the index that is built in.

    The keys are names as in a configuration file, with dashes. "built-in" has the URL of the index and the name of the
    host of its files.

    Raises:
        DependencyInstallError: pip is not where this package is.
    """
    program = "from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.file_storage_domain)"
    # The current directory, which may be a stranger's, must not be one in which these look for pip.
    listed = children.run(children.module("pip", "config", "list"), capture_output=True, text=True, check=False)
    built = children.run(children.python(program), capture_output=True, text=True, check=False)
    if built.returncode != 0:
        reason = next(iter(str(built.stderr).splitlines()[-1:]), f"exit code {built.returncode}")
        raise DependencyInstallError(f"pip does not run ({reason}): install it in the environment that has pysbx")
    by_section: dict[str, dict[str, tuple[str, ...]]] = {section: {} for section in SECTIONS}
    for line in str(listed.stdout).splitlines():
        match = re.fullmatch(r"(global|install|:env:)\.([\w-]+)=(.*)", line)
        if match is None:
            continue
        try:
            value = ast.literal_eval(match[3])
        except (ValueError, SyntaxError):
            continue
        by_section[match[1]][match[2]] = tuple(str(value).split())
    found: dict[str, tuple[str, ...]] = {"built-in": tuple(str(built.stdout).split())}
    for section in SECTIONS:
        found |= by_section[section]
    return found


def _host_of(name: str, url: str) -> str:
    """Return host and port of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong(name, f"'{url}' is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wrong(name, f"'{url}' is not an http or https URL")
    if not re.fullmatch(HOST_NAME, parts.hostname) or re.fullmatch(r"[\d.]+", parts.hostname):
        advice = "give it a name in /etc/hosts, and use that"
        raise wrong(name, f"'{url}' has an address, and an installation reaches hosts by name: {advice}")
    return f"{parts.hostname}:{port}" if port else parts.hostname


def _is_on(values: tuple[str, ...]) -> bool:
    return bool(values) and values[0].lower() not in ("0", "no", "false", "off")


def _read_authorities(*places: str) -> bytes:
    """Return the content of a file, or each certificate once of several files and of those in directories."""
    paths = [Path(place).expanduser() for place in places]
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if len(files) == 1 and files == paths:
        return files[0].read_bytes()
    found = [match for file in files if file.is_file() for match in CERTIFICATE.findall(file.read_bytes())]
    return b"".join(match + b"\n" for match in dict.fromkeys(found))


def _authority(configured: Mapping[str, tuple[str, ...]]) -> tuple[str, bytes]:
    """Return the file with certificate authorities in the sandbox, and its content; "" if there is none.

    As for pip, its configuration comes first, then the variables of requests. Otherwise those of OpenSSL count, each in
    the place of one of its defaults. OpenSSL ignores a variable that names nothing.
    """
    named = {"pip's configuration: cert": next(iter(configured.get("cert", ())), "")}
    named |= {name: os.environ.get(name, "") for name in VARIABLES_OF_REQUESTS}
    for name, given in named.items():
        if given:
            try:
                return AUTHORITY, _read_authorities(given)
            except OSError as error:
                raise DependencyInstallError(f"{name}: '{given}': {error.strerror}") from error
    file = os.environ.get("SSL_CERT_FILE") or next((path for path in AUTHORITIES if os.path.exists(path)), "")
    places = [place for place in (file, *os.environ.get("SSL_CERT_DIR", "").split(":")) if os.path.exists(place)]
    try:
        found = _read_authorities(*places)
    except OSError as error:
        raise DependencyInstallError(f"certificates: '{error.filename}': {error.strerror}") from error
    return (AUTHORITY, found) if found else ("", b"")


def _links(places: Iterable[str]) -> tuple[list[str], list[str], list[Mount]]:
    """Return links, hosts and mounts for find-links of pip's configuration: URLs and directories."""
    links, hosts, mounts = [], [], []
    for number, place in enumerate(places):
        if place.startswith(("http://", "https://")):
            links.append(place)
            hosts.append(_host_of("find-links of pip's configuration", place))
            continue
        path = os.path.expanduser(unquote(place.removeprefix("file://")))
        if not os.path.exists(path):
            raise DependencyInstallError(f"pip's configuration: find-links: '{path}' does not exist")
        mounts.append(Mount(path, f"{LINKS}/{number}"))
        links.append(f"{LINKS}/{number}")
    return links, hosts, mounts


def of_wheels(directory: str) -> Source:
    """Return the source for a directory of wheels, which takes the place of every index.

    pip gets the host's certificate authorities here too, because it may open them when it starts.

    Raises:
        DependencyInstallError: a variable names certificates that cannot be read.
    """
    authority, authorities = _authority({})
    mounts = (Mount(directory, WHEELS),)
    return Source(links=(WHEELS,), mounts=mounts, authority=authority, authorities=authorities)


def of_indexes(index_url: str, extra_index_urls: tuple[str, ...]) -> Source:
    """Return the source for indexes.

    Args:
        index_url: of the main index; "" for the one that pip is configured to use.
        extra_index_urls: of further ones, besides those of the configuration if the main one is the configuration's.

    Raises:
        SandboxOptionError: a URL is not allowed.
        DependencyInstallError: the configuration of pip names a file that does not exist.
    """
    configured = configuration()
    built_in = configured["built-in"][0] if configured["built-in"] else ""
    own = not index_url
    main = index_url or next(iter(configured.get("index-url", ())), built_in)
    indexes = [main, *extra_index_urls, *(configured.get("extra-index-url", ()) if own else ())]
    hosts = [_host_of("extra_index_urls" if url in extra_index_urls else "index_url", url) for url in indexes]
    if built_in in indexes:
        hosts += configured["built-in"][1:]
    links, more_hosts, mounts = _links(configured.get("find-links", ()) if own else ())
    if own and not index_url and _is_on(configured.get("no-index", ())):
        indexes, hosts = [], []
    authority, authorities = _authority(configured)
    settings = {name: configured[name] for name in VALUES if configured.get(name)}
    settings |= {name: () for name in SWITCHES if _is_on(configured.get(name, ()))}
    try:
        constraints = tuple(Path(path).expanduser().read_text() for path in configured.get("constraint", ()))
    except (OSError, UnicodeDecodeError) as error:
        raise DependencyInstallError(f"pip's configuration: constraint: {error}") from error
    every_host = tuple(dict.fromkeys([*hosts, *more_hosts]))
    return Source(
        tuple(indexes), tuple(links), every_host, tuple(mounts), authority, authorities, settings, constraints
    )
