"""What a sandbox may do: one immutable value, checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from pysbx.interpreter import Mount

MIB = 1024 * 1024
MOST = 1 << 31  # of seconds, processors, MiB: what follows from them fits the kernel's numbers
LEAST_MEMORY_MB = 16
HOST_NAME = re.compile(
    r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?", re.IGNORECASE
)
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
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not HOST_NAME.fullmatch(name) or re.fullmatch(r"[\d.]+(:\d+)?", name):
            raise ValueError(
                f"allow_network: '{name}' is not a host name such as example.org, *.example.org or example.org:443"
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
        tmp_mb: size of /tmp, of /work and of /output, each, in MiB; what is in them counts as memory.
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
        for name in ("memory_mb", "timeout_sec", "cpus", "max_processes", "file_size_mb", "tmp_mb", "answer_limit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ValueError(f"{name}: {value!r} is not a positive number")
            if value > MOST and name != "answer_limit":
                raise ValueError(f"{name}: {value!r} is more than {MOST}")
        if self.memory_mb < LEAST_MEMORY_MB:
            raise ValueError(f"memory_mb: {self.memory_mb!r} is less than an interpreter takes, {LEAST_MEMORY_MB}")
        if self.output_limit < 0:
            raise ValueError(f"output_limit: {self.output_limit} is negative")
        for name, words in (("limits", ("best", "strict")), ("warm", ("auto", "require", "off"))):
            if getattr(self, name) not in words:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(words)}")
        if not self.workdir.startswith("/") or ".." in self.workdir.split("/"):
            raise ValueError(f"workdir: '{self.workdir}' is not an absolute path without '..'")
        for module in self.preload:
            if not all(part.isidentifier() for part in module.split(".")):
                raise ValueError(f"preload: '{module}' is not the name of a module")
        for key, value in self.env:
            if not key or "=" in key or "\0" in key + value:
                raise ValueError(f"env: '{key}' cannot be a variable")


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
    for name in changes:
        if name not in known:
            raise TypeError(
                f"'{name}' is not an option of a sandbox: {', '.join(sorted(known - {'private_hosts', 'session'}))}"
            )
    if isinstance(changes.get("env"), Mapping):
        changes["env"] = tuple(sorted(changes["env"].items()))
    for name in ("mounts", "preload"):
        if name in changes:
            changes[name] = tuple(changes[name])
    return replace(base or Policy(), **changes)
