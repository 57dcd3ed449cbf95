"""The fields of its manifest that a pod of Kubernetes needs for sandboxes in it, each with a look at this process.

A pod that may create namespaces needs more than the defaults, and each missing field shows in another place. See
https://kubernetes.io/docs/tasks/configure-pod-container/security-context/, user_namespaces(7), proc(5),
capabilities(7), apparmor(7), selinux(8).
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from pysbx.base import children
from pysbx.container.start_refusals import confinement, forbidding, is_filtered, text_of

# The kubelet gives it to each container.
VARIABLE = "KUBERNETES_SERVICE_HOST"
ALL_IDS = 2**32 - 1
# The first steps of a sandbox: a user namespace with a mount namespace, and a change of its mounts. In a process of its
# own, because the namespaces cannot be left again. It ends with the error number of the step that fails. The flags are
# CLONE_NEWUSER and CLONE_NEWNS, MS_REC and MS_PRIVATE.
PROBE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
failed = libc.unshare(0x10020000) or libc.mount(b"none", b"/", None, 0x44000, None)
sys.exit(ctypes.get_errno() if failed else 0)
"""


class Field(NamedTuple):
    """A field of the manifest.

    Attributes:
        text: the field, as the manifest has it.
        reason: what is so without it.
        status: "failure" if no sandbox can be created without it, "warning" if the pod has more rights than it needs.
        is_missing: the look at this process.
    """

    text: str
    reason: str
    status: Literal["warning", "failure"]
    is_missing: Callable[[], bool]


def in_pod() -> bool:
    """Tell whether this program is in a pod."""
    return VARIABLE in os.environ


def _status(name: str) -> int:
    """Return a number of /proc/self/status, or 0 if it is not there."""
    found = re.search(rf"^{name}:\s*([0-9a-f]+)$", text_of("/proc/self/status"), re.MULTILINE)
    return int(found[1], 16) if found else 0


def _has_ids_of_node() -> bool:
    return text_of("/proc/self/uid_map").split() == ["0", "0", str(ALL_IDS)]


def _is_proc_masked() -> bool:
    """Tell whether something is mounted over a part of /proc."""
    return any(line.split()[4].startswith("/proc/") for line in text_of("/proc/self/mountinfo").splitlines())


def _refusal() -> int:
    """Return the error number of the first refused step of a sandbox, or 0 if none is refused or known."""
    if forbidding() is not None:
        return 0
    try:
        done = children.run([sys.executable, "-I", "-S", "-c", PROBE], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return 0
    return max(done.returncode, 0)


def _are_namespaces_filtered() -> bool:
    """Tell whether a filter, and neither the kernel's settings nor a security module, refuses namespaces or mounts."""
    return is_filtered() and _refusal() not in (0, errno.EACCES)


def _is_refused_by_selinux() -> bool:
    """Tell whether SELinux refuses namespaces or mounts. The kernel has this error for security modules alone."""
    found = confinement()
    return found is not None and found.module == "SELinux" and _refusal() == errno.EACCES


def _is_root_writable() -> bool:
    return not os.statvfs("/").f_flag & os.ST_RDONLY


def _is_unwritable(path: Path) -> bool:
    while not path.exists() and path != path.parent:
        path = path.parent
    return not os.access(path, os.W_OK)


def _has_no_tmp() -> bool:
    try:
        return _is_unwritable(Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()))
    except FileNotFoundError:  # Python has tried all directories
        return True


def _has_no_cache() -> bool:
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return _is_unwritable(Path(given) if given else Path.home() / ".cache")
    except RuntimeError:  # the user has no home
        return True


CONTAINER = "containers[].securityContext"
FIELDS = (
    Field("hostUsers: false", "the pod's users are users of the node", "warning", _has_ids_of_node),
    Field(f"{CONTAINER}.procMount: Unmasked", "parts of /proc are hidden", "failure", _is_proc_masked),
    Field(
        "securityContext.seccompProfile: {type: Localhost, localhostProfile: pysbx-serve.json} or {type: Unconfined}",
        "a filter of system calls refuses user namespaces",
        "failure",
        _are_namespaces_filtered,
    ),
    Field(
        "securityContext.seLinuxOptions: {type: pysbx_serve_t}, with contrib/k8s/selinux on the node",
        "the pod's type of SELinux refuses namespaces or mounts",
        "failure",
        _is_refused_by_selinux,
    ),
    Field(
        "securityContext.runAsNonRoot: true, runAsUser: 1000", "it runs as root", "warning", lambda: os.geteuid() == 0
    ),
    Field(
        f"{CONTAINER}.capabilities: {{drop: [ALL]}}", "it has capabilities", "warning", lambda: _status("CapBnd") != 0
    ),
    Field(
        f"{CONTAINER}.allowPrivilegeEscalation: false",
        "set-user-ID programs gain privileges",
        "warning",
        lambda: _status("NoNewPrivs") == 0,
    ),
    Field(f"{CONTAINER}.readOnlyRootFilesystem: true", "the root is writable", "warning", _is_root_writable),
    Field("volumes: an emptyDir at /tmp", "no directory for sandboxes is writable", "failure", _has_no_tmp),
    Field(
        "volumes: an emptyDir at /var/cache/pysbx, or at $XDG_CACHE_HOME",
        "packages cannot be kept",
        "warning",
        _has_no_cache,
    ),
)


def missing() -> list[Field]:
    """Return the fields that the manifest of this pod lacks, in the order of the manifest."""
    return [field for field in FIELDS if field.is_missing()]
