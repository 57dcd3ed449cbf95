"""The words of hints and errors: options have other names in Python, in the command, over HTTP and in tools of MCP."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

OPERATOR = "ask the operator of this server"
# In errors that callers of a server get because of options that only its operator has.
OF_A_SERVER: Final = {
    "answer": "the server's limit for an answer",
    "larger_copy": f"{OPERATOR} for --artifact-size",
    "strict": "limits='strict'",
    "io": "io_mb_per_sec",
    "another": "a server with another one",
    "process": "a server with --isolation process",
    "container": "a server with containers",
    "notebook": f"{OPERATOR} for --notebook, which allows it",
    "loopback": f"{OPERATOR} for a loopback of its own",
    "cold": "start another one, or ask the operator of this server, whose log says why",
}
# The words of hints and errors about an option, by interface. A caller of a server gets no more than its limits.
OPTIONS: Final[dict[str, dict[str, str]]] = {
    "python": {
        "memory": "allow more: memory_mb",
        "time": "allow more: timeout_sec",
        "file_size": "allow more: file_size_mb",
        "room": "allow more: tmp_mb",
        "written": "allow more: file_size_mb or tmp_mb",
        "processes": "allow more: max_processes",
        "network": 'allow_network=["host.example"] names hosts',
        "hosts": "those of allow_network",
        "private": 'allow_network=["private:host.example"] allows such an address',
        "loopback": 'allow_network="localhost" gives it one of its own',
        "stdin": "pass its text with stdin=",
        "files": "pass files=, or mount them",
        "package": 'add dependencies=["{0}"]',
        "own": "import it outside of the function, or pass its file with files=",
        "answer": "answer_limit",
        "larger_copy": "raise answer_limit",
        "strict": "limits='strict'",
        "io": "io_mb_per_sec",
        "another": "virtualenv=, rootfs= or image=",
        "process": "isolation='process'",
        "container": "isolation='container'",
        "notebook": "notebook=True allows it",
        "cold": "ask for warm='require', which says why",
    },
    "command": {
        "memory": "allow more: --memory",
        "time": "allow more: --timeout",
        "file_size": "allow more: --file-size",
        "room": "allow more: --tmp-size",
        "written": "allow more: --file-size or --tmp-size",
        "processes": "allow more: --processes",
        "network": "--network host.example allows a host",
        "hosts": "those of --network",
        "private": "--network private:host.example allows such an address",
        "loopback": "--network localhost gives it one of its own",
        "stdin": "give it a file with --stdin, or what comes through a pipe with --stdin -",
        "files": "add --file PATH, or --mount",
        "package": "add --with {0}",
        "own": "add --file {0}",
        "answer": "--answer-limit",
        "larger_copy": "raise --answer-limit",
        "strict": "--strict",
        "io": "--io-rate",
        "another": "--virtualenv, --rootfs or --image",
        "process": "--isolation process",
        "container": "--isolation container",
        "notebook": "--notebook allows it",
        "cold": "ask for --warm require, which says why",
    },
    "http": {
        "memory": "allow more, up to the limit of the service: memory_mb",
        "time": "allow more, up to the limit of the service: timeout_sec",
        "file_size": "allow more, up to the limit of the service: file_size_mb",
        "room": "allow more, up to the limit of the service: tmp_mb",
        "written": "allow more, up to the limit of the service: file_size_mb or tmp_mb",
        "processes": "allow more, up to the limit of the service: max_processes",
        "network": f"{OPERATOR} to allow hosts",
        "hosts": "those that the operator allows",
        "private": f"{OPERATOR} to allow that",
        "stdin": "send its text as stdin",
        "files": "send them in files, or put them into the session",
        "package": 'add "{0}" to packages',
        "operator": f"{OPERATOR} for {{0}}",
        **OF_A_SERVER,
    },
    "mcp": {
        "memory": f"{OPERATOR} for more memory",
        "time": "allow more, up to the server's limit: timeout_sec",
        "file_size": f"{OPERATOR} for larger files",
        "room": f"{OPERATOR} for more room",
        "written": f"{OPERATOR} for larger files or more room",
        "processes": f"{OPERATOR} for more processes",
        "network": f"{OPERATOR} to allow hosts",
        "hosts": "those that the operator allows",
        "private": f"{OPERATOR} to allow that",
        "stdin": "pass its text as stdin",
        "files": "pass them as files, or use put_file",
        "package": 'add "{0}" to packages',
        "operator": f"{OPERATOR} for {{0}}",
        **OF_A_SERVER,
    },
}
AGAIN: Final = "repeat its `pysbx kernel install` with {}, shut the kernel down, and start it"
# The words of hints in a Jupyter kernel.
KERNEL: Final[dict[str, str]] = {
    name: AGAIN.format(said)
    for name, said in {
        "memory": "more --memory",
        "time": "more --timeout",
        "file_size": "more --file-size",
        "room": "more --tmp-size",
        "written": "more --file-size or --tmp-size",
        "processes": "more --processes",
        "network": "--network host.example",
        "private": "--network private:host.example",
        "loopback": "--network localhost",
        "files": "--mount DIR:/data",
        "package": "--with {0}",
        "own": "--mount {0}/{{0}}.py:/work/{{0}}.py",
    }.items()
} | {"hosts": "those of --network", "stdin": "a cell with ! has none"}


@dataclass(frozen=True)
class Words:
    """The interface where a hint will be read.

    Attributes:
        options: one of OPTIONS.
        places: directories with files of the caller's own, which are no packages to install.
        offered: names of the packages that a caller of a server may ask for, in normal form; None means any.
    """

    options: dict[str, str] = field(default_factory=lambda: OPTIONS["python"])
    places: tuple[str, ...] = (".",)
    offered: frozenset[str] | None = None

    def package(self, name: str) -> str:
        """Return how a package is added."""
        known = self.offered is None or normal_name(name) in self.offered
        return self.options["package" if known else "operator"].format(name)

    def own_file(self, module: str) -> str:
        """Return the file or directory of a module beside the caller's program, or ""."""
        for place in self.places:
            path = os.path.join(place, module)
            if os.path.isfile(f"{path}.py"):
                return os.path.normpath(f"{path}.py")
            if os.path.isfile(f"{path}/__init__.py"):
                return os.path.normpath(path)
        return ""

    def own(self, path: str) -> str:
        """Return how a module of the caller's own gets into the sandbox.

        Args:
            path: its file or directory, or "" if a program here would find it elsewhere.
        """
        if path and self.options is OPTIONS["command"]:
            mounted = f"--mount {shlex.quote(f'{path}:/work/{os.path.basename(path)}')}"
            return f"add {mounted}" if os.path.isdir(path) else self.options["own"].format(shlex.quote(path))
        return self.options["own"].format(path or "PATH")


_current = Words()


def current() -> Words:
    """Return the words of the interface that this program has."""
    return _current


def normal_name(package: str) -> str:
    """Return the name of a package in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", package.strip()).lower()


@contextmanager
def spoken_as(interface: str, places: Iterable[str] = (), offered: Iterable[str] | None = None) -> Iterator[None]:
    """Let hints have the words of an interface, in all threads of this program, while the block runs.

    Args:
        interface: a key of OPTIONS.
        places: see Words.
        offered: see Words; names in any form.
    """
    global _current  # noqa: PLW0603 (a program has one interface; the threads of a server share it)
    before = _current
    names = None if offered is None else frozenset(map(normal_name, offered))
    _current = Words(OPTIONS[interface], tuple(places), names)
    try:
        yield
    finally:
        _current = before
