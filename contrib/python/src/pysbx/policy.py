"""What a sandbox may do: one immutable value, checked when it is made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from pysbx.interpreter import Mount

MIB = 1024 * 1024
MOST = 1 << 31  # of seconds, processors, MiB: what follows from them fits the kernel's numbers
LEAST_MEMORY_MB = 16
WHOLE = ("memory_mb", "max_processes", "file_size_mb", "tmp_mb", "output_limit", "answer_limit")
HOST_NAME = r"(?i:(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?)"
Network = Literal["none", "localhost", "host"] | tuple[str, ...]


def parse_network(given: bool | str | Iterable[str] | None) -> Network:
    """Return the network a caller means: nothing, "localhost", "host" (or True), or names of hosts.

    Raises:
        ValueError: a name is not one, or is an address: those are refused, they would go round the names.
    """
    if given is None or given is False or given == "none":
        return "none"
    if given is True or given == "host":
        return "host"
    if given == "localhost":
        return "localhost"
    names = (given,) if isinstance(given, str) else listed("allow_network", given, "host names")
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(HOST_NAME, name) or re.fullmatch(r"[\d.]+(:\d+)?", name):
            raise ValueError(
                f"allow_network: {name!r} is not a host name such as example.org, *.example.org or example.org:443"
            )
    return tuple(sorted({name.lower() for name in names})) or "none"


@dataclass(frozen=True)
class Policy:
    """The limits and surroundings of a sandbox.

    Attributes:
        memory_mb: memory, in MiB.
        timeout_sec: time by the clock, in seconds, from the call to the answer.
        cpus: processors' worth of time.
        max_processes: processes and threads at once.
        file_size_mb: largest file that may be written, in MiB.
        tmp_mb: size of /tmp, /work, /output and /dev/shm, each, in MiB; what is in them counts as memory.
        network: see parse_network.
        mounts: further files and directories of the host.
        workdir: where code starts; files that are put into a sandbox are in /work all the same.
        env: environment variables; the host's own are never passed on.
        limits: "best" lets rlimits stand in for cgroup controllers that are not there; "strict" refuses.
        output_limit: bytes of each stream that are kept.
        answer_limit: bytes of an answer, files included, that are accepted.
        preload: modules that a prewarmed interpreter has imported already.
        landlock: ruleset for the annotation run.pysbx.landlock, as JSON, or "".
        seccomp: the list of system calls: see profiles.allowed_calls.
        warm: "auto", "require" or "off", as the annotation run.pysbx.warm has it.
    """

    memory_mb: int = 512
    timeout_sec: float = 30.0
    cpus: float = 1.0
    max_processes: int = 64
    file_size_mb: int = 64
    tmp_mb: int = 64
    network: Network = "none"
    mounts: tuple[Mount, ...] = ()
    workdir: str = "/work"
    env: tuple[tuple[str, str], ...] = ()
    limits: Literal["best", "strict"] = "best"
    output_limit: int = 50 * 1024
    answer_limit: int = 64 * MIB
    preload: tuple[str, ...] = ()
    landlock: str = ""
    seccomp: str = "seccomp"
    warm: Literal["auto", "require", "off"] = "auto"
    # Set by sessions: they may go on for many times the limit of one run.
    session: bool = field(default=False, repr=False)
    # Set by the installer of dependencies alone: its hosts come from the configuration of the machine.
    private_hosts: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        self._check_numbers()
        self._check_texts()
        self._check_lists()

    def _check_numbers(self) -> None:
        for name in ("memory_mb", "timeout_sec", "cpus", "max_processes", "file_size_mb", "tmp_mb", "answer_limit"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value < float("inf"):
                raise ValueError(f"{name}: {value!r} is not a positive number")
            if value > MOST and name != "answer_limit":
                raise ValueError(f"{name}: {value!r} is more than {MOST}")
        if self.memory_mb < LEAST_MEMORY_MB:
            raise ValueError(f"memory_mb: {self.memory_mb!r} is less than an interpreter takes, {LEAST_MEMORY_MB}")
        if not _is_number(self.output_limit) or self.output_limit < 0:
            raise ValueError(f"output_limit: {self.output_limit!r} is not a number from 0 on")
        for name in WHOLE:
            # As a float such a number would get as far as the kernel's interfaces, whose complaints name no argument.
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a whole number: write it as an int")

    def _check_texts(self) -> None:
        for name, words in (("limits", ("best", "strict")), ("warm", ("auto", "require", "off"))):
            if getattr(self, name) not in words:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(words)}")
        for name in ("workdir", "landlock", "seccomp"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a text")
        if not self.workdir.startswith("/") or ".." in self.workdir.split("/"):
            raise ValueError(f"workdir: '{self.workdir}' is not an absolute path without '..'")

    def _check_lists(self) -> None:
        for mount in self.mounts:
            if not isinstance(mount, Mount):
                raise ValueError(f"mounts: {mount!r} is not a pysbx.Mount, such as Mount('/srv/data', '/data')")
        for module in self.preload:
            if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
                raise ValueError(f"preload: {module!r} is not the name of a module")
        for key, value in self.env:
            if not isinstance(key, str) or not isinstance(value, str):
                raise ValueError(f"env: {key!r}: {value!r} are not two texts")
            if not key or "=" in key or "\0" in key + value:
                raise ValueError(f"env: '{key}' cannot be a variable")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def listed(name: str, given: object, kind: str) -> tuple[Any, ...]:
    """Return the items of an option that takes several.

    Raises:
        ValueError: it is one text, whose letters would be taken for the items, or nothing that has items.
    """
    if given is None:
        return ()
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ValueError(f"{name}: {given!r} is not a list of {kind}")
    return tuple(given)


def make_policy(base: Policy | None = None, **changes: Any) -> Policy:
    """Return a policy from keyword arguments as callers write them.

    Args:
        base: where what is not mentioned comes from; by default the defaults.
        changes: fields of Policy; allow_network as parse_network takes it, env as a mapping.

    Raises:
        TypeError: an argument is none of these.
        ValueError: a value cannot be meant.
    """
    if "allow_network" in changes:
        changes["network"] = parse_network(changes.pop("allow_network"))
    known = {item.name for item in fields(Policy)}
    for name in changes.keys() - known:
        limits = ", ".join(sorted(known - {"private_hosts", "session"}))
        raise TypeError(f"'{name}' is not a limit of a sandbox: there are {limits}")
    if "env" in changes:
        given = changes["env"] if changes["env"] is not None else {}
        if not isinstance(given, Mapping):
            raise ValueError(f"env: {given!r} is not a mapping of names to texts")
        changes["env"] = tuple(sorted(given.items(), key=lambda item: str(item[0])))
    if isinstance(changes.get("workdir"), os.PathLike):
        changes["workdir"] = os.fspath(changes["workdir"])
    for name, kind in (("mounts", "pysbx.Mount"), ("preload", "names of modules")):
        if name in changes:
            changes[name] = listed(name, changes[name], kind)
    return replace(base or Policy(), **changes)
