"""Make bundles like Podman's: the same namespaces, mounts, masked paths, capabilities and filter.

The seccomp profile is that of containers-common, resolved for the capabilities like in Podman: see
containers-seccomp.json(5) and https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp.
"""

import glob
import json
import platform
import re
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PROFILE = Path("/usr/share/containers/seccomp.json")
# The names of an architecture in the profile's conditions.
ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
NATIVE = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
]
MASKED = [
    *(f"/proc/{name}" for name in ("acpi", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi")),
    *("/proc/timer_list", "/proc/timer_stats"),
    *("/sys/firmware", "/sys/fs/selinux", "/sys/devices/virtual/powercap"),
]
MASKED_GLOB = "/sys/devices/system/cpu/cpu*/thermal_throttle"
READONLY = [f"/proc/{name}" for name in ("asound", "bus", "fs", "irq", "sys", "sysrq-trigger")]
MOUNTS = [
    ("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
    ),
    ("/dev/mqueue", "mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ["rprivate", "nosuid", "noexec", "nodev", "relatime", "ro"]),
    ("/dev/shm", "tmpfs", "shm", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
]
DEVICE_RULES = [{"allow": False, "access": "rwm"}]


def kernel_version() -> tuple[int, ...]:
    """Return the first two numbers of the running kernel's version."""
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def applies(rule: Json, machine: str) -> bool:
    """Return whether the conditions of a rule of the profile apply to our capabilities on this machine."""
    includes = rule.get("includes") or {}
    excludes = rule.get("excludes") or {}
    arch = ARCHITECTURES[machine]
    if any(cap not in CAPABILITIES for cap in includes.get("caps") or []):
        return False
    if any(cap in CAPABILITIES for cap in excludes.get("caps") or []):
        return False
    if includes.get("arches") and arch not in includes["arches"]:
        return False
    if arch in (excludes.get("arches") or []):
        return False
    minimum = includes.get("minKernel")
    return not minimum or kernel_version() >= tuple(int(number) for number in minimum.split("."))


def seccomp() -> Json:
    """Return the default profile of containers-common in the form of the OCI specification."""
    profile = json.loads(PROFILE.read_text())
    machine = platform.machine()
    native = NATIVE[machine]
    architectures = [native]
    for entry in profile.get("archMap") or []:
        if entry["architecture"] == native:
            architectures += entry.get("subArchitectures") or []
    syscalls = []
    for rule in profile["syscalls"]:
        if applies(rule, machine):
            kept = {"names": rule["names"], "action": rule["action"]}
            kept |= {key: rule[key] for key in ("errnoRet", "args") if rule.get(key)}
            syscalls.append(kept)
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": architectures,
        "syscalls": syscalls,
    }


def config(rootfs: Path, program: list[str], *, filtered: bool, devices: bool) -> Json:
    """Return a config.json. `filtered` adds the seccomp profile, `devices` the rules for the devices cgroup."""
    linux: Json = {
        "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup")],
        "maskedPaths": MASKED + sorted(glob.glob(MASKED_GLOB)),
        "readonlyPaths": READONLY,
        "sysctl": {"net.ipv4.ping_group_range": "0 0"},
    }
    if filtered:
        linux["seccomp"] = seccomp()
    if devices:
        linux["resources"] = {"devices": DEVICE_RULES}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0, "umask": 0o022},
            "args": program,
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root",
                "container=bench",
            ],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
        },
        "root": {"path": str(rootfs)},
        "hostname": "bench",
        "mounts": [
            {"destination": destination, "type": kind, "source": source, "options": options}
            for destination, kind, source, options in MOUNTS
        ],
        "linux": linux,
    }


def write(folder: Path, content: Json) -> None:
    """Write a bundle."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content, indent=1))


def write_bundles(folder: Path, rootfs: Path) -> dict[str, Path]:
    """Write the measured bundles below folder and return their paths by name."""
    once = ["/bin/true"]
    idle = ["/bin/sleep", "1000000"]
    configs = {
        "plain": config(rootfs, once, filtered=False, devices=False),
        "seccomp": config(rootfs, once, filtered=True, devices=False),
        "podman": config(rootfs, once, filtered=True, devices=True),
        "idle": config(rootfs, idle, filtered=True, devices=False),
    }
    for name, content in configs.items():
        write(folder / name, content)
    return {name: folder / name for name in configs}
