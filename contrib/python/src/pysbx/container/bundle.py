"""Bundles of the OCI specification: a root that is empty but for mount points, and a config.json.

A bundle depends only on the options and the interpreter. So one is created for each such pair, and all calls with it
use the bundle, also at the same time. Data that differs between calls goes in through a socket. See
https://github.com/opencontainers/runtime-spec/blob/main/config.md and config-linux.md.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pysbx.base import process_ids, runtime, trees
from pysbx.base.directories import private_directory, run_directory
from pysbx.container import labels, limits, memory_without_cgroup, payload, quotas, sockets
from pysbx.container.interpreter import AUTHORITY, Interpreter, certificates, trusted
from pysbx.errors import SandboxStartupError
from pysbx.inside.wire import COLD_REASON, RELAY_PORT
from pysbx.options import profiles
from pysbx.options.declaration import MIB, NOT_THE_CALLERS
from pysbx.options.mount import Mount
from pysbx.options.options import Options

Json = dict[str, Any]

# The only user of a sandbox. Its number is 0, because root sets up a user namespace of one user. It has no capability,
# not even in the bounding set. If root calls, it is a user of the host that no other process has: see process_ids.py.
SANDBOX_ID = 0

PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin")
UNUSED_SEC = 30 * 86400
HIDDEN = ("nosuid", "nodev")
TEMPORARY = ("/tmp", "/work", "/output")
# Names by which programs know these directories elsewhere: models the first one, from other sandboxes.
OTHER_NAMES = (("/mnt/data", "../work"), ("/var/tmp", "../tmp"))
# Of a session, for packages that are added later: see inside/packages.py.
PACKAGES = "/.packages"
# The kernel keeps at most some hundred KiB of output for each: see memory_without_cgroup.py, SPARE.
TERMINALS = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "max=8")
MASKED = tuple(
    f"/proc/{name}"
    for name in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")
)
READONLY = tuple(f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"))
# clone(2) with any CLONE_NEW* flag; where clone3(2) is absent the C library falls back to clone.
NEW_NAMESPACES = 0x7E020000
ENOSYS = 38
WITHOUT_CONTAINER = "without a container, every interpreter starts cold"
# If root calls, a file in a writable mount belongs to root outside. With these bits it would be a program that runs as
# root for every user of the host. The tables name the arguments with the mode, and the flags that give it a meaning.
# openat2(2) has both in memory, which a filter cannot read.
SET_ID_BITS = 0o6000
MODES = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
OPENED = {"open": (1, 2), "openat": (2, 3)}
# Refused as by a file system that has none. Then cp -p, sed -i and install, which try to set an ACL, set the mode. Any
# other error ends them.
ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")
# A second barrier, which mounts cannot change. It is best effort, because older kernels support less of it.
LANDLOCK: Json = {
    "filesystem": {"read": ["/"], "write": [*TEMPORARY, "/dev/shm"]},
    "scope": ["abstract-unix-socket", "signal"],
    "enforcement": "best-effort",
}
# The variables from which programs and libraries learn how many threads or processes to start. `nproc` reads that of
# OpenMP, and Python 3.13 the last one; inside/pools.py tells other interpreters.
CPU_COUNTS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS", "LOKY_MAX_CPU_COUNT", "GOMAXPROCS", "PYTHON_CPU_COUNT",
)  # fmt: skip
FILES = {
    "etc/passwd": f"sandbox:x:{SANDBOX_ID}:{SANDBOX_ID}::/work:/bin/sh\n",
    "etc/group": f"sandbox:x:{SANDBOX_ID}:\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk.

    Attributes:
        path: its directory.
        options: what it was made for.
        enforcement: what stands behind its limits.
        labelled: its configuration has labels of SELinux, to which each sandbox adds categories.
        targets: the paths of its mounts, also of those of the interpreter.
    """

    path: Path
    options: Options
    enforcement: limits.Enforcement
    labelled: bool = False
    targets: tuple[str, ...] = ()

    def build_snapshot(self) -> str:
        """Create the snapshot of a prewarmed interpreter; return "", or the reason why there is none."""
        if self.options.isolation == "process":
            return WITHOUT_CONTAINER
        return runtime.build_snapshot(str(self.path), self.enforcement.manager)


def _packages(options: Options) -> Json:
    """Return the mount for packages of a session. Others have one too, but read-only: so the same snapshot fits."""
    if not options.session:
        return _tmpfs(PACKAGES, 1, "ro")
    return _tmpfs(PACKAGES, memory_without_cgroup.packages_mb(options))


def _tmpfs(target: str, size_mb: int, *options: str) -> Json:
    return {
        "destination": target,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": [
            *HIDDEN,
            *options,
            f"size={size_mb * MIB}",
            f"nr_inodes={memory_without_cgroup.files_of_tmpfs(size_mb)}",
            "mode=1777",
        ],
    }


def _bind(mount: Mount, *, follow: bool = True) -> Json:
    access = ["rro"] if mount.readonly else ["rw"]
    if not follow:
        access.append("src-nofollow")
    return {
        "destination": mount.target,
        "type": "bind",
        "source": mount.source,
        "options": ["rbind", "rprivate", *HIDDEN, *access],
    }


def _shared(mount: Mount, ids: Json | None) -> Json:
    """Return a mount of the caller: files of the caller's user belong to the sandbox's user inside."""
    entry = _bind(mount)
    if ids:
        entry["uidMappings"] = [ids | {"containerID": os.geteuid()}]
        entry["gidMappings"] = [ids | {"containerID": os.getegid()}]
        entry["options"][0] = "bind"
    return entry


def _without_set_id_bits() -> Iterator[tuple[str, list[Json]]]:
    """Yield the system calls that set the mode of a file, and their rules: no program becomes setuid or setgid."""
    for name, mode in MODES.items():
        yield name, [quotas.allow(name, quotas.argument(mode, "MASKED_EQ", SET_ID_BITS))]
    creates = os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY
    for name, (flags, mode) in OPENED.items():
        conditions = quotas.argument(flags, "MASKED_EQ", creates), quotas.argument(mode, "MASKED_EQ", SET_ID_BITS)
        yield name, [quotas.allow(name, condition) for condition in conditions]
    yield "openat2", [{"names": ["openat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}]


def seccomp(options: Options, found: limits.Enforcement) -> Json:
    """Return linux.seccomp of the OCI configuration."""
    families, allowed = sockets.rules(options.allow_network, profiles.allowed_calls(options.seccomp))
    special = dict(quotas.conditional())
    if os.geteuid() == 0:
        special |= _without_set_id_bits()
    if found.by["memory"] != "cgroup":
        special |= memory_without_cgroup.conditional(limits.refused_parameters())
    rules: list[Json] = [
        {"names": [name for name in allowed if name not in special], "action": "SCMP_ACT_ALLOW"},
        *(rule for name in special if name in allowed for rule in special[name]),
        {
            "names": ["clone"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
        },
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
    ]
    if refused := [name for name in ATTRIBUTES if name not in allowed]:
        rules.append({"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EOPNOTSUPP})
    rules += families
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": rules}


def module_path(options: Options, paths: Iterable[str]) -> list[str]:
    """Return the directories where the sandbox looks for modules first: the caller's are among them."""
    own = dict(options.env).get("PYTHONPATH", "")
    return [payload.TARGET, *([own] if own else []), *paths]


def directories(options: Options, paths: Iterable[str]) -> list[str]:
    """Return module_path() as Python has it in sys.path: each directory once, and absolute."""
    names = ":".join(module_path(options, paths)).split(":")
    return list(dict.fromkeys(os.path.normpath(os.path.join(options.workdir, name)) for name in names))


def environment(options: Options, interpreter: Interpreter, paths: Iterable[str]) -> list[str]:
    """Return process.env of the OCI configuration."""
    paths = tuple(paths)
    beside = os.path.dirname(interpreter.program)
    usual = (*PROGRAMS, payload.TARGET + payload.PROGRAMS)
    search = (*interpreter.search, *(name for name in usual if name not in interpreter.search))
    variables = {
        # As in an environment that is activated: programs of packages, python3, and what is installed beside it.
        "PATH": ":".join((*(f"{path}/bin" for path in paths), *(() if beside in search else (beside,)), *search)),
        "HOME": "/work",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONPATH": ":".join(module_path(options, paths)),
        # A source that is replaced within the second, by one of the same size, would be taken for its compiled file.
        "PYTHONDONTWRITEBYTECODE": "1",
        # The code is user 0 and cannot change owners. As for other users, tar makes its files the user's own.
        "TAR_OPTIONS": "--no-same-owner",
        "PIP_ROOT_USER_ACTION": "ignore",
        # Debian's pip would explain how to protect the system (PEP 668), of which nothing is left after the sandbox.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        # Its backend is not in MPLBACKEND, which would take precedence over that of a Jupyter kernel. All roots have
        # one file, and one for the fc-list that it runs, because an import of matplotlib sees their inodes.
        "MATPLOTLIBRC": payload.TARGET + payload.FIGURES,
        # Files that an import creates there are no condition of a snapshot: the next sandbox does not need them.
        "MPLCONFIGDIR": "/dev/shm/matplotlib",
        **dict.fromkeys(CPU_COUNTS, str(limits.cpus(options))),
    }
    if paths:  # so nbconvert finds its templates, and Jupyter the kernels of packages
        variables["JUPYTER_PATH"] = ":".join(f"{path}/share/jupyter" for path in paths)
    # Those of an image that the sandbox does not set itself. The language is the image's.
    ignored = {*variables, *NOT_THE_CALLERS, "PYTHONPATH"} - {"LANG"}
    variables.update((name, value) for name, value in interpreter.variables if name not in ignored)
    if not interpreter.root:
        variables["FONTCONFIG_FILE"] = payload.TARGET + payload.FONTS
    if options.allow_network.kind == "none":
        variables["PIP_RETRIES"] = "1"  # it names the reason in a tenth of the time
    elif interpreter.root:
        variables["SSL_CERT_FILE"] = AUTHORITY
    if options.allow_network.kind == "hosts":
        address = f"127.0.0.1:{RELAY_PORT}"
        # The port speaks SOCKS5 too, but some clients give up at a "socks5h" for which they have no module.
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            variables[name] = variables[name.upper()] = f"http://{address}"
    variables.update((name, value) for name, value in options.env if name != "PYTHONPATH")
    variables[COLD_REASON] = ""  # the runtime fills it in, if it cannot continue the imports
    return [f"{name}={value}" for name, value in variables.items()]


def _landlock(options: Options) -> str:
    """Return the Landlock ruleset of the options as JSON, with its writable mounts added."""
    rules: Json = json.loads(options.landlock) if options.landlock else copy.deepcopy(LANDLOCK)
    writable = rules.get("filesystem", {}).get("write")
    if writable is not None:
        writable += [mount.target for mount in options.mounts if not mount.readonly]
        writable.append(PACKAGES)
    if options.allow_network.kind != "none":
        # The network and the proxy decide where it may connect to.
        rules.setdefault("network", {"bind": "any", "connect": "any"})
    return json.dumps(rules)


def _annotations(options: Options, path: list[str]) -> dict[str, str]:
    own = (payload.TOOLS,) if options.tools else ()
    modules = payload.preloaded((*own, *options.preload), isolated=options.isolated, path=path)
    found = {"run.pysbx.warm": options.warm, "run.pysbx.preload": modules}
    found["run.pysbx.landlock"] = _landlock(options)
    return found


def _namespaces(options: Options) -> list[Json]:
    kinds = ["pid", "ipc", "uts", "mount", "cgroup", "user"]
    if options.allow_network.kind != "host":
        kinds.append("network")
    return [{"type": kind} for kind in kinds]


def _idmaps(content: Json) -> tuple[Json, Json]:
    """Return the user and group maps of a container: the caller's ids or, for root, ids that the host does not use."""
    user, group = process_ids.ids_of_sandbox(json.dumps(content, sort_keys=True).encode())
    return (
        {"containerID": SANDBOX_ID, "hostID": user, "size": 1},
        {"containerID": SANDBOX_ID, "hostID": group, "size": 1},
    )


def configuration(options: Options, interpreter: Interpreter, extra: tuple[Mount, ...], paths: tuple[str, ...]) -> Json:
    """Return config.json.

    Args:
        options: what the sandbox may do.
        interpreter: what it sees of a file system.
        extra: mounts of the package itself: its payload, dependencies, the proxy's socket.
        paths: directories in the sandbox where modules are looked for.
    """
    found = limits.enforcement()
    path = directories(options, paths)
    controllers = tuple(name for name, by in found.by.items() if by == "cgroup")
    shown = [*interpreter.mounts, *extra]
    # A directory of an untrusted root may have become a link since the host listed it.
    held = interpreter.mounts if interpreter.root else ()
    shown += certificates(root=interpreter.root, network=options.allow_network.kind != "none")
    if options.allow_network.kind == "host" and os.path.exists("/etc/resolv.conf"):
        shown.append(Mount(os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"))
    linux: Json = {
        "namespaces": _namespaces(options),
        "maskedPaths": list(MASKED),
        "readonlyPaths": list(READONLY),
        "seccomp": seccomp(options, found),
        "sysctl": limits.parameters(options, found),
        "resources": limits.resources(options, controllers),
    }
    content: Json = {
        "ociVersion": "1.0.2",
        **({} if limits.HOST_NAME in limits.refused_parameters() else {"hostname": "sandbox"}),
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "user": {"uid": SANDBOX_ID, "gid": SANDBOX_ID, "umask": 0o022},
            "args": [interpreter.program, *payload.command(isolated=options.isolated, path=path)],
            "env": environment(options, interpreter, paths),
            "cwd": options.workdir,
            "noNewPrivileges": True,
            "rlimits": limits.rlimits(options, found),
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": [
                    "nosuid",
                    "noexec",
                    "mode=755",
                    "size=65536",
                    f"nr_inodes={memory_without_cgroup.FILES_OF_DEV}",
                ],
            },
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": list(TERMINALS)},
            _tmpfs("/dev/shm", options.tmp_mb, "noexec"),
            *(_tmpfs(target, options.tmp_mb) for target in TEMPORARY),
            _packages(options),
            # After those, because a mount may lie below one of them.
            *(_bind(mount, follow=mount not in held) for mount in shown),
        ],
        "linux": linux,
        "annotations": _annotations(options, path),
    }
    users, groups = _idmaps(content | {"shared": [str(mount) for mount in options.mounts]})
    linux["uidMappings"], linux["gidMappings"] = [users], [groups]
    # A container's root may be unable to map ids of a mount: then its files have no owner in the sandbox.
    mapped = users["hostID"] != os.geteuid() and process_ids.opens_for_others()
    content["mounts"] += [_shared(mount, users if mapped else None) for mount in options.mounts]
    return content


def _files(options: Options) -> dict[str, str]:
    """Return the files of the root. sysconf(3) counts the CPUs by the last one, which only a mount of sysfs has."""
    last = limits.cpus(options) - 1
    return FILES | {"sys/devices/system/cpu/online": f"0-{last}\n" if last else "0\n"}


def _links(interpreter: Interpreter, config: Json) -> list[tuple[str, str]]:
    """Return the links of the root. A mount, or the link of an image, at the path of a link or above it replaces it."""
    mounted = [f"{mount['destination']}/" for mount in config["mounts"]]
    links = [link for link in interpreter.links if not f"{link[0]}/".startswith(tuple(mounted))]
    taken = (*mounted, *(f"{name}/" for name, _ in links))
    others = [(f"{name}/", (name, target)) for name, target in OTHER_NAMES]
    return links + [
        link for path, link in others if not any(path.startswith(one) or one.startswith(path) for one in taken)
    ]


def _write_root(root: int, config: Json, links: Iterable[tuple[str, str]], files: Mapping[str, str]) -> None:
    """Write files, and a place for each mount, into an empty directory."""
    from pysbx.base import beneath  # noqa: PLC0415 (most programs find their bundle made)

    try:
        # The links of a root that the caller names may lead anywhere. The following files are created where they lead
        # within the root.
        for name, target in links:
            beneath.make_directory(root, os.path.dirname(name))
            os.symlink(target, name[1:], dir_fd=root)
        for name, text in files.items():
            beneath.write_in_root(root, name, text.encode())
        for mount in config["mounts"]:
            if _is_file(mount):
                beneath.write_in_root(root, mount["destination"])
            else:
                beneath.make_directory(root, mount["destination"])
        # Independent of the caller's umask: if root calls, the sandbox's user is another one.
        beneath.make_public(root)
    except OSError as error:
        where = f"'{error.filename}' cannot be made in the sandbox's root"
        raise SandboxStartupError(f"{where}: {error.strerror}") from error


def _is_file(mount: Json) -> bool:
    return mount["type"] == "bind" and not os.path.isdir(mount["source"])


def _root_for(config: Json, links: Iterable[tuple[str, str]], files: Mapping[str, str]) -> Path:
    """Return the directory that is the root of all bundles with these mount points; create it if it does not exist yet.

    Imports read files of it. If each bundle had its own ones, an option such as timeout_sec, which no import can see,
    would make another snapshot.
    """
    links = list(links)
    import hashlib  # noqa: PLC0415 (it loads OpenSSL, and a program may make no sandbox)

    about = [sorted((mount["destination"], _is_file(mount)) for mount in config["mounts"]), links, files]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    path = private_directory(run_directory() / "roots") / key

    def write(made: Path) -> None:
        (made / "rootfs").mkdir()
        root = os.open(made / "rootfs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write_root(root, config, links, files)
        finally:
            os.close(root)

    if (path / "rootfs").is_dir():
        os.utime(path)  # not the root itself, whose times imports can see
    else:
        _make(path, write)
    return path / "rootfs"


def _forget_unused(top: Path, used: Collection[Path] = ()) -> None:
    """Remove what no program has begun to use for long. A program that still uses one creates it again."""
    for path in top.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another program has renamed or removed it just now
            if path.stat().st_mtime < time.time() - UNUSED_SEC and path not in used:
                trees.remove(path)


def _used_roots(bundles: Path) -> Iterator[Path]:
    """Yield the directories of the roots that bundles have."""
    for bundle in bundles.iterdir():
        with contextlib.suppress(OSError):  # it has a root of its own, or has just been renamed or removed
            yield (bundle / "rootfs").readlink().parent


def _make(path: Path, write: Callable[[Path], None]) -> None:
    """Create a directory whose name is a hash of its content, and which does not exist yet.

    Args:
        path: the directory.
        write: writes the content into the directory that it is given.
    """
    import tempfile  # noqa: PLC0415 (most programs find their bundle made)

    made = Path(tempfile.mkdtemp(dir=path.parent, prefix=".new-"))
    made.chmod(0o755)
    try:
        write(made)
        made.rename(path)
    except SandboxStartupError:
        trees.remove(made)
        raise
    except OSError:
        # Another program was first, and its directory is the same.
        trees.remove(made)
        if not path.is_dir():
            raise


def _make_bundle(path: Path, config: Json, links: Iterable[tuple[str, str]], files: Mapping[str, str]) -> None:
    """Create a bundle, and remove the unused ones. Its rootfs is a link to a directory that other bundles have too."""
    _forget_unused(path.parent)
    roots = private_directory(run_directory() / "roots")
    _forget_unused(roots, set(_used_roots(path.parent)))
    root = _root_for(config, links, files)
    if (path / "rootfs").is_dir():  # only its root was missing
        return
    config["root"]["path"] = str(root)

    def write(made: Path) -> None:
        (made / "rootfs").symlink_to(root)
        # It has the caller's variables, and root's directories may be open to others: see directories.py.
        (made / "config.json").touch(mode=0o600)
        (made / "config.json").write_text(json.dumps(config))

    _make(path, write)


def check_sources(mounts: Iterable[Mount]) -> None:
    """Refuse mounts whose source does not exist; the runtime would name them by their index in its configuration."""
    for mount in mounts:
        try:
            os.stat(mount.source)
        except OSError as error:
            raise SandboxStartupError(f"mount '{mount.source}': {error.strerror}") from error


def prepare(
    options: Options, interpreter: Interpreter, extra: tuple[Mount, ...] = (), paths: tuple[str, ...] = ()
) -> Bundle:
    """Return the bundle for options and an interpreter; create it if it does not exist yet.

    Raises:
        LimitsNotEnforceableError: limits="strict" or io_mb_per_sec, and a controller is missing.
        SandboxStartupError: the directories of the package are not safe to use, or there is nothing to mount.
        SandboxOptionError: the directory where code starts does not exist.
    """
    import hashlib  # noqa: PLC0415 (it loads OpenSSL, and a program may make no sandbox)

    found = limits.enforcement()
    if options.limits == "strict":
        if found.missing:
            limits.look_again()
            found = limits.enforcement()
        limits.require_cgroups(options, found)
    if options.io_mb_per_sec:
        limits.require_bandwidth(options, found)
    if options.allow_network.kind == "hosts":
        from pysbx.network import proxy  # noqa: PLC0415 (asyncio takes longer to import than a container to start)

        proxies = proxy.directory_for(options.allow_network.entries, options.secrets, trusted())
        extra = (Mount(str(proxies), payload.PROXIES), *extra)
    extra = (Mount(str(payload.directory()), payload.TARGET), *extra)
    check_sources(options.mounts)
    config = configuration(options, interpreter, extra, paths)
    labelled = labels.add(config)
    # A mount point in the bundle is a file or a directory, depending on its source.
    kinds = [os.path.isdir(mount.source) for mount in options.mounts]
    files = _files(options)
    links = _links(interpreter, config)
    about = json.dumps([config, kinds, links, files], sort_keys=True)
    key = hashlib.sha256(about.encode()).hexdigest()[:24]
    path = private_directory(run_directory() / "bundles") / key
    if (path / "rootfs").is_dir():
        os.utime(path)
    else:
        _make_bundle(path, config, links, files)
    if options.workdir not in TEMPORARY:
        from pysbx.container import workdir  # noqa: PLC0415 (few programs choose a directory)

        workdir.check(options.workdir, str(path / "rootfs"), config["mounts"])
    return Bundle(path, options, found, labelled, tuple(mount["destination"] for mount in config["mounts"]))
