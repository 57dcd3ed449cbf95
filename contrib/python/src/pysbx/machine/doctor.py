"""Report the features that this machine offers to sandboxes and those that it lacks, with remedies."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pysbx.base import children, runtime
from pysbx.calls.execution import run_chosen, run_code
from pysbx.calls.prepare import prepare
from pysbx.container import interpreter, labels, limits
from pysbx.container.start_refusals import (
    APPARMOR,
    PROFILE,
    confinement,
    forbidding,
    load_profile,
    needs_profile,
    remedy_for,
    text_of,
)
from pysbx.errors import SandboxError, SandboxOptionError
from pysbx.machine import pod
from pysbx.options.options import make_options

# Why there is no sandbox. A disk that is full or read-only is an OSError.
REFUSALS = (SandboxError, OSError)

Status = Literal["ok", "warning", "failure"]

OLDEST_KERNEL = (5, 12)
# The same number on every architecture: syscalls(2).
LANDLOCK_CREATE_RULESET, LANDLOCK_CREATE_RULESET_VERSION = 444, 1
LANDLOCK_SCOPES_ABI = 6


@dataclass(frozen=True)
class Check:
    """One result of the examination.

    Attributes:
        name: what it is.
        status: "failure" when no sandbox can be had without it, "warning" when something is less than it could be.
        found: how it is here.
        remedy: what to do, or "".
    """

    name: str
    status: Status
    found: str
    remedy: str = ""


def _kernel() -> Check:
    release = platform.release()
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    if platform.system() != "Linux" or version < OLDEST_KERNEL:
        return Check("kernel", "failure", f"{platform.system()} {release}", "boot Linux 5.12 or later")
    return Check("kernel", "ok", release)


def _runtime() -> Check:
    try:
        path = runtime.find_runtime()
        said = children.run([path, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    except SandboxError as error:
        remedy = "install a wheel of pysbx, or in a clone of pysbx-runtime: make && sudo make install"
        return Check("runtime", "failure", str(error), remedy)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("runtime", "failure", f"{error}", "install the runtime again: make && sudo make install")
    if not said.startswith("pysbx-runtime version "):
        found = f"{path} is another program: {said[:80]!r}"
        return Check("runtime", "failure", found, "set PYSBX_RUNTIME to the path of pysbx-runtime, or unset it")
    choice = runtime.choose_runtime()
    unused = f"; '{choice.unused}' on PATH is not used: set PYSBX_RUNTIME to use it" if choice.unused else ""
    return Check("runtime", "ok", f"{path}: {said.splitlines()[0]}; {choice.reason}{unused}")


def _namespaces() -> Check:
    setting = forbidding()
    if setting is not None:
        return Check("user namespaces", "failure", f"{setting.path} is {setting.value}", setting.remedy)
    if needs_profile():
        found = f"{APPARMOR} is 1, and {PROFILE} does not name this runtime"
        return Check("user namespaces", "failure", found, load_profile())
    return Check("user namespaces", "ok", "allowed by the kernel's settings")


def _pod() -> Check | None:
    """Examine the manifest of the pod that this program is in, if it is in one."""
    if not pod.in_pod():
        return None
    fields = pod.missing()
    if not fields:
        return Check("pod", "ok", "its manifest has every field that sandboxes need")
    found = "; ".join(field.reason for field in fields)
    remedy = "set in the pod's manifest, below spec: " + "; ".join(field.text for field in fields)
    return Check("pod", min(field.status for field in fields), found, remedy)


def _start() -> Check:
    try:
        done = run_code("1 + 1", timeout_sec=60)
    except REFUSALS as error:
        usual = "see the page Troubleshooting of the documentation"
        if isinstance(error, SandboxOptionError):  # of the configuration
            usual = "correct this file or variable"
        remedy = remedy_for(getattr(error, "code", "")) or usual
        return Check("a sandbox", "failure", str(error).removesuffix(f": {remedy}"), remedy)
    if done.value != "2":
        return Check("a sandbox", "failure", done.stderr or f"exit code {done.exit_code}", "report this as a bug")
    return Check("a sandbox", "ok", f"starts and ends in {done.usage.wall_sec * 1000:.0f} ms")


def _process() -> Check:
    name = "isolation process"
    try:
        done = run_code("1 + 1", timeout_sec=60, isolation="process")
    except REFUSALS as error:
        return Check(name, "warning", f"not possible, and used on request only: {error}")
    if done.value != "2":
        return Check(name, "warning", done.stderr or f"exit code {done.exit_code}", "report this as a bug")
    return Check(name, "ok", "possible without a container, with fewer promises, and used on request only")


def _warm() -> Check:
    try:
        options = make_options(timeout_sec=60)
        bundle = prepare(options)
        reason = bundle.build_snapshot()
        done = run_chosen(options, "1")
    except REFUSALS as error:
        return Check("warm start", "warning", str(error))
    if done.warm:
        return Check("warm start", "ok", f"from a prewarmed interpreter, in {done.usage.wall_sec * 1000:.0f} ms")
    found = f"every sandbox starts its interpreter cold: {reason or done.cold_reason}"
    return Check("warm start", "warning", found, "see WARM START in pysbx-runtime(8)")


def _delegation(code: str) -> str:
    """Return how this program gets the controllers of cgroups.

    Args:
        code: of the runtime's error about the first that is not available.
    """
    if pod.in_pod():
        return (
            "a pod has no cgroups to change: its limits hold for all sandboxes together, and rlimits for each process"
        )
    if code == "cgroup-read-only":
        return "an engine gives its containers no cgroups to change: rlimits bound each process of a sandbox instead"
    if os.geteuid() == 0:
        return "mount cgroup v2 with its controllers: boot with systemd.unified_cgroup_hierarchy=1"
    if not os.path.isdir(limits.SYSTEMD):
        return "as root, make a cgroup for this user, change its owner, and start this program in it: cgroups(7)"
    return (
        "in /etc/systemd/system/user@.service.d/delegate.conf: [Service] Delegate=cpu cpuset io memory pids; "
        "then systemctl daemon-reload, and log in again"
    )


def _cgroups() -> Check:
    try:
        limits.look_again()
        found = limits.enforcement()
    except REFUSALS as error:
        return Check("limits", "failure", str(error))
    if not found.missing:
        return Check("limits", "ok", "memory, CPU and processes by cgroup")
    reason = f"rlimits, not cgroup, for {', '.join(found.missing)}: {found.reason}"
    return Check("limits", "warning", reason, _delegation(found.code))


def _subordinate_ids() -> Check:
    if os.geteuid() == 0:
        return Check("subordinate ids", "ok", "not needed by root")
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        found = f"user {os.geteuid()} has no name: Podman needs one, sandboxes do not"
        return Check("subordinate ids", "warning", found, f"useradd --uid {os.geteuid()} NAME")
    for path in ("/etc/subuid", "/etc/subgid"):
        if not re.search(rf"^({re.escape(name)}|{os.geteuid()}):", text_of(path), re.MULTILINE):
            remedy = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}"
            return Check(
                "subordinate ids", "warning", f"none for {name} in {path}: Podman needs them, sandboxes do not", remedy
            )
    return Check("subordinate ids", "ok", "there")


def _landlock() -> Check:
    flags = ctypes.c_uint32(LANDLOCK_CREATE_RULESET_VERSION)
    abi = ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), flags)
    if abi < 1:
        return Check(
            "Landlock",
            "warning",
            "not in this kernel, or not enabled",
            "boot with lsm=landlock,… (CONFIG_LANDLOCK)",
        )
    if abi < LANDLOCK_SCOPES_ABI:
        return Check("Landlock", "warning", f"ABI {abi}: without scopes of signals and sockets", "Linux 6.12 or later")
    return Check("Landlock", "ok", f"ABI {abi}")


def _selinux() -> Check:
    enforce = text_of("/sys/fs/selinux/enforce")
    if not enforce:
        # Containers may not see the policy.
        held_by = confinement()
        if held_by and held_by.module == "SELinux":
            return Check("SELinux", "ok", f"sandboxes have the type of the container around them, {held_by.label}")
        return Check("SELinux", "ok", "not on this machine")
    mode = "enforcing" if enforce == "1" else "permissive"
    reason = labels.obstacle()
    if reason:
        found = f"{mode}; sandboxes have the label of this program, because {reason}"
        return Check("SELinux", "warning", found, labels.remedy())
    found = f"{mode}; each sandbox has a label of its own"
    return Check("SELinux", "ok" if enforce == "1" else "warning", found)


def _interpreter() -> Check:
    try:
        found = interpreter.host_interpreter()
    except SandboxError as error:
        return Check("interpreter", "failure", str(error))
    try:
        others = os.stat(found.program).st_mode & 0o005 == 0o005
    except OSError as error:
        return Check("interpreter", "failure", f"{found.program}: {error.strerror}")
    if os.geteuid() == 0 and not others:
        return Check("interpreter", "failure", f"{found.program}: others cannot run it", f"chmod o+rx {found.program}")
    return Check("interpreter", "ok", found.program)


def _pip() -> Check:
    if importlib.util.find_spec("pip") is None:
        return Check("pip", "warning", "not installed, so dependencies cannot be installed", "python -m ensurepip")
    return Check("pip", "ok", "there")


def _podman() -> Check:
    path = shutil.which("podman")
    if path is None:
        return Check("Podman", "warning", "not installed; only images need it", "install the package podman")
    said = children.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Check("Podman", "ok", said or path)


# A check that does not concern this machine returns None.
CHECKS: tuple[Callable[[], Check | None], ...] = (
    _kernel, _runtime, _namespaces, _pod, _interpreter, _start, _process, _warm, _cgroups, _landlock, _selinux, _pip,
    _subordinate_ids, _podman,
)  # fmt: skip


def examine() -> list[Check]:
    """Examine everything; the most important results come first."""
    return [found for check in CHECKS if (found := check()) is not None]
