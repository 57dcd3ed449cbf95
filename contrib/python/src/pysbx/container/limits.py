"""The enforcement of limits on this machine: by cgroup if the runtime can, otherwise by rlimits.

An rlimit counts for each process or address space, a cgroup for all of them together: a sandbox with eight processes
may use eight times the memory under rlimits. So the result of a call says which it was.
See cgroup-v2.rst in the kernel's documentation, setrlimit(2).
"""

from __future__ import annotations

import json
import math
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pysbx.base import probe_cache, process_ids
from pysbx.base.directories import private_directory, run_directory
from pysbx.base.option_names import current
from pysbx.base.runtime import Refusal, environment, find_runtime, kill, try_to_create
from pysbx.container import memory_without_cgroup, quotas, reaper
from pysbx.errors import LimitsNotEnforceableError
from pysbx.options.declaration import MIB
from pysbx.options.network import Network
from pysbx.options.options import Options
from pysbx.version import VERSION

Json = dict[str, Any]

CPU_PERIOD_USEC = 100_000
# Address space that an interpreter maps and never touches: shared libraries, arenas of threads.
ADDRESS_SPACE_SPARE = 1024 * MIB
# The init of a sandbox is a process of its own, which the program's limit does not count.
INIT = 1
CONTROLLERS = ("memory", "cpu", "pids")
# The managers of cgroups, as options of the runtime, in the order in which they are tried. The runtime itself creates a
# cgroup beside the caller's. systemd creates one for a user with a session, whose own cgroup is not delegated.
MANAGERS: tuple[tuple[str, ...], ...] = ((), ("--systemd-cgroup",))
# sd_booted(3)
SYSTEMD = "/run/systemd/system"
# Seconds for which other programs use the results of trial containers. Later a cgroup may have gained or lost
# processes, and cgroups beside it may be possible or not.
FOUND_SEC = 600.0
FOUND = "limits"
# The host name counts as a parameter of the kernel: a filter around this program may refuse to set it.
HOST_NAME = "hostname"


@dataclass(frozen=True)
class Enforcement:
    """The mechanism that enforces each limit.

    Attributes:
        by: "cgroup" or "rlimit" for memory, cpu and pids.
        reason: the runtime's words on the first controller that is not available, or "".
        manager: the one of MANAGERS by which it is done.
        code: of the reason.
    """

    by: Mapping[str, str]
    reason: str
    manager: tuple[str, ...] = ()
    code: str = ""

    @property
    def missing(self) -> list[str]:
        """The controllers that are not available."""
        return [name for name, by in self.by.items() if by != "cgroup"]


def resources(options: Options, controllers: tuple[str, ...]) -> Json:
    """Return linux.resources of the OCI configuration for the controllers that are available."""
    bytes_allowed = options.memory_mb * MIB
    everything: Json = {
        "memory": {"limit": bytes_allowed},
        "cpu": {"quota": max(1000, int(options.cpus * CPU_PERIOD_USEC)), "period": CPU_PERIOD_USEC},
        "pids": {"limit": options.max_processes + INIT},
    }
    if _swap_is_on():
        everything["memory"]["swap"] = bytes_allowed
    found = {name: everything[name] for name in controllers}
    if options.io_mb_per_sec:
        found["blockIO"] = _block_io(options.io_mb_per_sec)
    return found


def _block_io(mb_per_sec: float) -> Json:
    """Return linux.resources.blockIO for all disks of the machine. The kernel refuses partitions: they are included."""
    rate = max(1, int(mb_per_sec * MIB))
    disks = []
    for name in sorted(os.listdir("/sys/block")):
        if probe_cache.text_of(f"/sys/block/{name}/size").strip() not in ("", "0"):
            major, _, minor = probe_cache.text_of(f"/sys/block/{name}/dev").strip().partition(":")
            disks.append({"major": int(major), "minor": int(minor), "rate": rate})
    return {"throttleReadBpsDevice": disks, "throttleWriteBpsDevice": disks}


def require_bandwidth(options: Options, found: Enforcement) -> None:
    """Refuse io_mb_per_sec without the controller, because nothing could replace it.

    Raises:
        LimitsNotEnforceableError: with the runtime's own words.
    """
    if complaint := _without_bandwidth(options.io_mb_per_sec, found.manager):
        raise LimitsNotEnforceableError(
            f"{current().options['io']}, but no cgroup controller for io: {complaint.message}", complaint.code
        )


@cache
def _without_bandwidth(mb_per_sec: float, manager: tuple[str, ...]) -> Refusal | None:
    return _complaint((), manager, wanted=Options(io_mb_per_sec=mb_per_sec))


@cache
def _swap_is_on() -> bool:
    with open("/proc/swaps", encoding="ascii", errors="replace") as file:
        return len(file.readlines()) > 1


def _complaint(
    controllers: tuple[str, ...],
    manager: tuple[str, ...],
    parameters: Mapping[str, str] | None = None,
    wanted: Options | None = None,
) -> Refusal | None:
    """Return the runtime's error about a container with these limits, or None if it would create one."""
    kinds = ["mount", "pid", "cgroup", "user", *(("ipc", "network", "uts") if parameters else ())]
    kernel = dict(parameters or {})
    host_name = kernel.pop(HOST_NAME, "")
    user, group = process_ids.ids_of_sandbox(b"probe")
    config = {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/none"], "cwd": "/"},
        "root": {"path": "rootfs"},
        "linux": {
            "namespaces": [{"type": kind} for kind in kinds],
            "uidMappings": [{"containerID": 0, "hostID": user, "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": group, "size": 1}],
            "resources": resources(wanted or Options(), controllers),
            "sysctl": kernel,
        },
        **({"hostname": host_name} if host_name else {}),
    }
    import tempfile  # noqa: PLC0415 (most programs find this out from an earlier one)

    # If this program is killed meanwhile, its watcher removes the container. The bundle is removed as an unused one.
    with tempfile.TemporaryDirectory(dir=private_directory(run_directory() / "bundles")) as name:
        bundle = Path(name)
        bundle.chmod(0o711)  # the sandbox's user may be another one
        (bundle / "rootfs").mkdir()
        # A program for `create`, which only looks for it and never starts it.
        (bundle / "rootfs" / "none").touch(mode=0o755)
        (bundle / "config.json").write_text(json.dumps(config))
        container = f"{reaper.prefix()}probe-{bundle.name}"
        # Only a trial shows which controllers are available, because that depends on the container's cgroup.
        complaint = try_to_create(container, name, manager)
        if not complaint:
            kill(container)
            return None
    # Any other container's cgroup would be refused in the same way, and this one has never existed.
    return complaint._replace(message=complaint.message.replace(f"/{container}'", "/…'"))


def _enforcement(manager: tuple[str, ...]) -> Enforcement:
    complaint = _complaint(CONTROLLERS, manager)
    if complaint is None:
        return Enforcement(dict.fromkeys(CONTROLLERS, "cgroup"), "", manager)
    complaints = {name: _complaint((name,), manager) for name in CONTROLLERS}
    first = next(filter(None, complaints.values()), complaint)
    by = {name: "rlimit" if found else "cgroup" for name, found in complaints.items()}
    return Enforcement(by, first.message, manager, first.code)


def _try_managers() -> Enforcement:
    best = _enforcement(MANAGERS[0])
    for manager in MANAGERS[1:] if os.path.isdir(SYSTEMD) else ():
        if not best.missing:
            break
        best = min(best, _enforcement(manager), key=lambda found: len(found.missing))
    return best


def _try_parameters() -> frozenset[str]:
    wanted = _wanted_parameters()
    if not _complaint((), MANAGERS[0], wanted):
        return frozenset()
    return frozenset(name for name, value in wanted.items() if _complaint((), MANAGERS[0], {name: value}))


def _wanted_parameters() -> dict[str, str]:
    parameters = quotas.parameters() | memory_without_cgroup.parameters(
        Options(allow_network=Network("localhost")), counted=False
    )
    return {**parameters, HOST_NAME: "sandbox"}


def _cgroups() -> list[str]:
    """Return the kernel's settings of the caller's cgroup and of the one above it."""
    own = next(
        (line[3:] for line in probe_cache.text_of("/proc/self/cgroup").splitlines() if line.startswith("0::")), ""
    )
    mounts = (
        line.split(" ") for line in probe_cache.text_of("/proc/self/mountinfo").splitlines() if " - cgroup2 " in line
    )
    top = next((fields[4] for fields in mounts), "")
    said = [own, top]
    for directory in (f"{top}{own}", os.path.dirname(f"{top}{own}")):
        if os.path.isdir(directory):
            about = os.stat(directory)
            said.append(f"{about.st_ino} {about.st_uid} {about.st_gid} {about.st_mode:o}")
        said += [
            probe_cache.text_of(f"{directory}/cgroup.{name}") for name in ("controllers", "subtree_control", "type")
        ]
    return said


def _circumstances() -> list[object]:
    """Return the circumstances that decide which limits the runtime can enforce for the caller."""
    runtime = find_runtime()
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("cgroup", "mnt", "net", "user")]
    boot = probe_cache.text_of("/proc/sys/kernel/random/boot_id")
    caller = [os.geteuid(), os.getegid(), *os.getgroups(), probe_cache.text_of("/proc/self/uid_map"), environment()]
    wanted = [VERSION, CONTROLLERS, _wanted_parameters()]
    return [runtime, probe_cache.identity(runtime), boot, spaces, _cgroups(), os.path.isdir(SYSTEMD), caller, wanted]


def _as_found(content: Any) -> tuple[Enforcement, frozenset[str]] | None:
    """Return the finding of an earlier program, or None if it is malformed."""
    try:
        by, reason, manager, refused, code = content
        found = Enforcement({name: by[name] for name in CONTROLLERS}, reason, tuple(manager), code)
        texts = isinstance(reason, str) and isinstance(code, str)
        known = found.manager in MANAGERS and texts and set(refused) <= set(_wanted_parameters())
        return (found, frozenset(refused)) if known and set(found.by.values()) <= {"cgroup", "rlimit"} else None
    except (TypeError, ValueError, KeyError):
        return None


@cache
def _found() -> tuple[Enforcement, frozenset[str], bool]:
    """Return both findings, and whether an earlier program has made them."""
    circumstances = _circumstances()
    kept = _as_found(probe_cache.load(FOUND, circumstances, FOUND_SEC))
    if kept:
        return *kept, True
    best, refused = _try_managers(), _try_parameters()
    probe_cache.save(FOUND, circumstances, [dict(best.by), best.reason, best.manager, sorted(refused), best.code])
    return best, refused, False


def enforcement() -> Enforcement:
    """Find out, once, which controllers the runtime can use for the caller, and by which manager."""
    return _found()[0]


def refused_parameters() -> frozenset[str]:
    """Find out, once, which kernel parameters this kernel does not let a container's own namespaces have."""
    return _found()[1]


def look_again() -> None:
    """Discard a finding of an earlier program before a sandbox is refused because of it."""
    if _found()[2]:
        forget()
        _found.cache_clear()


def forget() -> None:
    """Discard the finding, because no container could be started with it."""
    probe_cache.forget(FOUND)


def parameters(options: Options, found: Enforcement) -> dict[str, str]:
    """Return linux.sysctl of the OCI configuration: bounds of the container's own namespaces."""
    wanted = quotas.parameters() | memory_without_cgroup.parameters(options, counted=found.by["memory"] == "cgroup")
    return {name: value for name, value in wanted.items() if name not in refused_parameters()}


def address_space(options: Options) -> int:
    """Return the address space of a process, in bytes, if no controller counts its memory."""
    return 2 * options.memory_mb * MIB + ADDRESS_SPACE_SPARE


def least_memory_mb(*, address_space: int, data: int) -> int:
    """Return the least memory_mb whose rlimits allow a process so many bytes of address space and of data."""
    return max(math.ceil(data / MIB), math.ceil((address_space - ADDRESS_SPACE_SPARE) / (2 * MIB)))


def memory_bound(options: Options) -> int:
    """Return the most memory that a sandbox can hold, in bytes, if no controller counts it."""
    return memory_without_cgroup.bound(options, address_space(options))


def require_cgroups(options: Options, found: Enforcement) -> None:
    """Refuse when limits="strict" and a controller is missing.

    Raises:
        LimitsNotEnforceableError: with the runtime's own words, which name the remedy.
    """
    if found.missing:
        without = found.by["memory"] != "cgroup"
        said = f" (rlimits bound memory by {memory_bound(options) // MIB} MiB only)" if without else ""
        lacking = f"no cgroup controller for {', '.join(found.missing)}: {found.reason}{said}"
        raise LimitsNotEnforceableError(f"{current().options['strict']}, but {lacking}", found.code)


def cpus(options: Options) -> int:
    """Return the number of CPUs that a sandbox counts: half a CPU is one, and it has no more than its caller has."""
    return min(math.ceil(options.cpus), len(os.sched_getaffinity(0)))


def cpu_seconds(options: Options) -> int:
    """Return the CPU time, in seconds, that a process may use if there is no CPU controller."""
    return math.ceil(options.timeout_sec * options.cpus) + 1  # for its start, which the time limit does not count


def rlimits(options: Options, found: Enforcement) -> list[Json]:
    """Return process.rlimits of the OCI configuration: those that always hold, and those that replace a controller."""
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": options.file_size_mb * MIB,
        "RLIMIT_MEMLOCK": 64 * 1024,
        **quotas.rlimits(),
    }
    if found.by["memory"] == "rlimit":
        wanted["RLIMIT_DATA"] = options.memory_mb * MIB
        wanted["RLIMIT_AS"] = address_space(options)
    if found.by["cpu"] == "rlimit" and not options.session:
        wanted["RLIMIT_CPU"] = cpu_seconds(options)
    if found.by["pids"] == "rlimit":
        wanted["RLIMIT_NPROC"] = options.max_processes + INIT
    return [allowed(name, value) for name, value in wanted.items()]


def allowed(name: str, value: int) -> Json:
    """Return an entry of process.rlimits, which is not above the caller's own limit."""
    hard = resource.getrlimit(getattr(resource, name))[1] if hasattr(resource, name) else resource.RLIM_INFINITY
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    return {"type": name, "soft": most, "hard": most}
