"""Why a container does not start, and what to do: an option of the caller, or something around this program.

The first is the caller's refusal: otherwise a limit that is too small would look like a fault of the machine. For the
second the runtime says which step was refused by a kernel, an engine or a distribution. Here the cause is looked for,
and named with the option that allows the step. See user_namespaces(7), proc(5), apparmor.d(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pysbx.base.option_names import current
from pysbx.container import limits
from pysbx.errors import SandboxOptionError
from pysbx.options.declaration import wrong
from pysbx.options.options import Options

# The profile for AppArmor, which the packages and `make install` put into /etc/apparmor.d.
PROFILE = "/etc/apparmor.d/pysbx-runtime"
SHIPPED = "share/pysbx-runtime/apparmor/pysbx-runtime"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"


class Setting(NamedTuple):
    """A setting of the kernel that forbids user namespaces.

    Attributes:
        path: its file.
        value: the value that forbids them.
        remedy: what to do.
        everybody: whether it concerns root too.
    """

    path: str
    value: str
    remedy: str
    everybody: bool


SETTINGS = (
    Setting("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000", True),
    Setting("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1", False),
)


def text_of(path: str) -> str:
    """Return the content of a small file, or "" if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def forbidding() -> Setting | None:
    """Return the setting that forbids user namespaces to this program, if there is one."""
    for setting in SETTINGS:
        if text_of(setting.path) == setting.value and (setting.everybody or os.geteuid() != 0):
            return setting
    return None


def needs_profile() -> bool:
    """Tell whether AppArmor restricts user namespaces, and no profile allows them to the runtime."""
    if os.geteuid() == 0 or text_of(APPARMOR) != "1":
        return False
    from pysbx.base.runtime import find_runtime  # noqa: PLC0415 (on such systems only)

    return os.path.realpath(find_runtime()) not in text_of(PROFILE)


def load_profile() -> str:
    """Return the commands that install the profile for AppArmor, and let it apply to the runtime that is used."""
    from pysbx.base.runtime import BUNDLED, USUAL_PLACES, choose_runtime, find_runtime  # noqa: PLC0415 (for an error only)

    if find_runtime() == str(BUNDLED):
        named = "use the runtime that the profile names: export PYSBX_RUNTIME=/usr/local/bin/pysbx-runtime"
        return f"install the profile for AppArmor: sudo pysbx runtime install; then {named}"
    program = Path(choose_runtime().path)
    shipped = next((place for parent in program.parents if (place := parent / SHIPPED).exists()), None)
    if shipped is None or str(program) not in USUAL_PLACES:
        return f"install the runtime below /usr/local, and its profile as {PROFILE}: sudo make install"
    return f"install the profile for AppArmor: sudo cp {shipped} {PROFILE} && sudo apparmor_parser --replace {PROFILE}"


def is_filtered() -> bool:
    """Tell whether a filter of system calls holds this program."""
    return re.search(r"^Seccomp:\s*2$", text_of("/proc/self/status"), re.MULTILINE) is not None


class Confinement(NamedTuple):
    """The security module that confines this program, and its name for that.

    Attributes:
        module: its name.
        label: the profile of AppArmor, or the type of SELinux.
    """

    module: str
    label: str


# The file of a security module for a program that it confines, and its content: /proc/PID/attr in proc(5).
# SELinux has the second file for itself, or AppArmor has, on kernels before 5.8.
LABELS = (
    ("AppArmor", "/proc/self/attr/apparmor/current", r"(.+) \(enforce\)"),
    ("AppArmor", "/proc/self/attr/current", r"(.+) \(enforce\)"),
    ("SELinux", "/proc/self/attr/current", r"[^:\s]+:[^:\s]+:([^:\s]+):\S+"),
)
# The option of an engine, and the field of Kubernetes, that let a container have sandboxes.
ALLOWED_BY = {
    "AppArmor": (
        "AppArmor's profile",
        "--security-opt apparmor=unconfined, or with appArmorProfile: {type: Unconfined} (Kubernetes)",
    ),
    "SELinux": (
        "SELinux's type",
        "--security-opt label=disable, or with --security-opt label=type:pysbx_serve_t or seLinuxOptions: "
        "{type: pysbx_serve_t} (Kubernetes) where contrib/k8s/selinux is installed",
    ),
}


def confinement() -> Confinement | None:
    """Return the security module that confines this program, as engines let it confine containers, if one does."""
    for module, path, pattern in LABELS:
        if found := re.fullmatch(pattern, text_of(path).rstrip("\0")):
            return Confinement(module, found[1])
    return None


def _confined() -> str:
    """Return the remedy if a security module holds this program."""
    found = confinement()
    # Programs outside of containers have a type of SELinux too, which allows them what they need.
    if found is None or (found.module == "SELinux" and "container" not in found.label):
        return ""
    name, options = ALLOWED_BY[found.module]
    return (
        f"{name} '{found.label}' of the container around this program refuses that: start it with {options}"
    ) + _otherwise()


def _otherwise() -> str:
    return f"; or choose fewer promises: {current().options['process']}"


def _masked_proc() -> str:
    return (
        "start the container around this program with --security-opt unmask=ALL (Podman), "
        "--security-opt systempaths=unconfined (Docker), or procMount: Unmasked with hostUsers: false (Kubernetes)"
    ) + _otherwise()


def _no_namespaces() -> str:
    setting = forbidding()
    if setting is not None:
        return setting.remedy + _otherwise()
    if needs_profile():
        return load_profile() + _otherwise()
    if confined := _confined():
        return confined
    if not is_filtered():
        return ""
    return (
        "a filter of system calls refuses user namespaces: start the container around this program with "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined (Docker), or with seccompProfile: "
        "Unconfined, procMount: Unmasked (Kubernetes)"
    ) + _otherwise()


def _no_mapping() -> str:
    if needs_profile():
        return load_profile() + _otherwise()
    if os.geteuid() != 0:
        return ""
    return (
        "root has too few capabilities for a user namespace: start the container around this program with --user 1000, "
        "or with --cap-add SETUID --cap-add SETGID --cap-add SETFCAP"
    )


def _not_permitted() -> str:
    return load_profile() + _otherwise() if needs_profile() else _confined()


# The code of the runtime's error, and the functions that return the remedy, or "" if the cause is another one.
REMEDIES: dict[str, tuple[Callable[[], str], ...]] = {
    "proc-masked": (_masked_proc,),
    "no-namespaces": (_no_namespaces,),
    "no-id-mapping": (_no_mapping, _not_permitted),
    "not-permitted": (_not_permitted,),
}


def remedy_for(code: str) -> str:
    """Return the remedy for the runtime's refusal to create a container, or "" if none is known.

    Args:
        code: of the runtime's error.
    """
    return next(filter(None, (remedy() for remedy in REMEDIES.get(code, ()))), "")


Reason = Callable[[Options, str], str]


def _allow_more(option: str) -> str:
    return f" ({current().options[option]})"


def _memory_of_snapshot(options: Options, said: str) -> str:
    needs = dict(word.split("=") for word in said.split() if word.startswith("RLIMIT_") and "=" in word)
    least = limits.least_memory_mb(address_space=int(needs["RLIMIT_AS"]), data=int(needs["RLIMIT_DATA"]))
    return f"{options.memory_mb} is less than the snapshot needs, {least}" + _allow_more("memory")


def _memory(options: Options, _: str = "") -> str:
    return f"{options.memory_mb} is too little for the start of the interpreter" + _allow_more("memory")


def _as_said(_: Options, said: str) -> str:
    return said


def _processes(options: Options, _: str) -> str:
    return f"{options.max_processes} is too few for the threads that the imports start" + _allow_more("processes")


# The code of the runtime's error, the option, and the function that returns what is wrong with its value.
CAUSES: dict[str, tuple[str, Reason]] = {
    "limits-too-small": ("memory_mb", _memory_of_snapshot),
    "no-workdir": ("workdir", _as_said),
}
# The words of Python and of the C library for a limit that the interpreter has reached, in an import or at its start.
WORDS: tuple[tuple[str, str, Reason], ...] = (
    (r"\bMemoryError\b|\[Errno 12\]", "memory_mb", _memory),
    (r"can't start new thread|temporarily unavailable", "max_processes", _processes),
)
IMPORTS = "imports-refused"
NOT_FOUND = "ModuleNotFoundError: "


def refusal_of(code: str, said: str, options: Options, *, oom_kills: int = 0) -> SandboxOptionError | None:
    """Return the refusal of an option because of which a container did not come to life, or None.

    Args:
        code: of the runtime's error; "" if it had none, so that the interpreter has ended itself.
        said: the detail of the error, or what is on standard error.
        options: the one that the container had.
        oom_kills: how many of its processes the kernel has OOM-killed.
    """
    if code in CAUSES:
        option, reason = CAUSES[code]
        return wrong(option, reason(options, said))
    for pattern, option, reason in WORDS if code in ("", IMPORTS) else ():
        if re.search(pattern, said):
            return wrong(option, reason(options, said))
    if code == IMPORTS and NOT_FOUND in said:
        return wrong("preload", said)
    return wrong("memory_mb", _memory(options)) if oom_kills else None
