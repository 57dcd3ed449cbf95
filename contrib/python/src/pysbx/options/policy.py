"""The limits and surroundings of a sandbox, as one immutable value that is checked when it is created."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from pysbx.options.declaration import MIB, Network
from pysbx.options.keywords import OPTIONS, default
from pysbx.options.mount import Mount

__all__ = ["MIB", "Policy", "make_policy"]


@dataclass(frozen=True)
class Policy:
    """The limits and surroundings of a sandbox.

    Attributes:
        memory_mb: memory of all processes together, in MiB.
        timeout_sec: time by the clock, in seconds, from the call to the answer.
        cpus: CPU time in seconds, for each second by the clock.
        max_processes: processes and threads at the same time.
        file_size_mb: largest file that may be written, in MiB.
        tmp_mb: size of /tmp, /work, /output and /dev/shm, each, in MiB; their files count as memory.
        io_mb_per_sec: data of each disk that all processes together read, and write, in MiB per second; 0: any amount.
        network: see parse_network.
        mounts: further files and directories of the host.
        workdir: the directory where code starts. Files that are put into a sandbox are in /work all the same.
        env: environment variables; the host's own are never passed on.
        limits: "best" replaces missing cgroup controllers by rlimits; "strict" refuses to run without them.
        output_limit: bytes of each stream that are kept.
        answer_limit: bytes of an answer, files included, that are accepted.
        preload: modules that a prewarmed interpreter imports.
        landlock: ruleset for the annotation run.pysbx.landlock, as JSON, or "".
        seccomp: the list of system calls: see profiles.allowed_calls.
        warm: "auto", "require" or "off", as the annotation run.pysbx.warm has it.
        isolation: "container"; or "process" for a process without one, which keeps fewer promises: see isolation.py.
    """

    memory_mb: int = default("memory_mb")
    timeout_sec: float = default("timeout_sec")
    cpus: float = default("cpus")
    max_processes: int = default("max_processes")
    file_size_mb: int = default("file_size_mb")
    tmp_mb: int = default("tmp_mb")
    io_mb_per_sec: float = default("io_mb_per_sec")
    network: Network = default("allow_network")  # noqa: RUF009 (a string, which cannot be changed)
    mounts: tuple[Mount, ...] = default("mounts")
    workdir: str = default("workdir")
    env: tuple[tuple[str, str], ...] = default("env")
    limits: Literal["best", "strict"] = default("limits")
    output_limit: int = default("output_limit")
    answer_limit: int = default("answer_limit")
    preload: tuple[str, ...] = default("preload")
    landlock: str = default("landlock")
    seccomp: str = default("seccomp")
    warm: Literal["auto", "require", "off"] = default("warm")
    isolation: Literal["container", "process"] = default("isolation")
    # Set by profiles: the interpreter is started as `python3 -I`.
    isolated: bool = field(default=False, repr=False)
    # Set by sessions, which may last many times the limit of one run.
    session: bool = field(default=False, repr=False)
    # Set by the installer of dependencies alone: its hosts come from the configuration of the machine.
    private_hosts: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse values that are not allowed."""
        for declared in DECLARED.values():
            declared.check(getattr(self, declared.field))


# The fields of a Policy, and the declarations of those that callers may give, by name of the keyword argument.
FIELDS = frozenset(item.name for item in fields(Policy))
DECLARED = {name: declared for name, declared in OPTIONS.items() if declared.field in FIELDS}


def make_policy(base: Policy | None = None, **changes: Any) -> Policy:
    """Return a policy from keyword arguments as callers write them.

    Args:
        base: the values of all other fields; by default the defaults.
        changes: options of SandboxOptions that a Policy keeps, as callers write them.

    Raises:
        TypeError: there is no such field.
        SandboxOptionError: a value is not allowed.
    """
    kept = {}
    for name, value in changes.items():
        if name not in DECLARED:
            raise TypeError(f"'{name}' is not a limit of a sandbox: there are {', '.join(sorted(DECLARED))}")
        kept[DECLARED[name].field] = DECLARED[name].keep(value)
    return replace(base or Policy(), **kept)
