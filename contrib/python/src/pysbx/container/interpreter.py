"""The part of a file system that a sandbox sees: an interpreter, the libraries that it needs, and nothing else.

There are three sources: the host's interpreter (also if it is the base of a virtualenv), a virtualenv or conda
environment, and a root file system that may be hostile. Everything is mounted read-only into a root that is otherwise
empty.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pysbx.base import trees
from pysbx.base.option_names import current
from pysbx.errors import SandboxStartupError
from pysbx.options.mount import Mount

# Of the host's system: programs, libraries, their data, and of /etc what programs and the dynamic linker follow.
SYSTEM = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib32",
    # For compilers: packages that come as source have parts in C.
    "/usr/include",
    "/usr/libexec/gcc",
    # Data of programs, such as fonts, types of files, and the modules of Perl.
    "/usr/share",
    "/etc/alternatives",
    "/etc/mime.types",
    "/etc/ld.so.cache",
)
# Paths that are links into /usr on today's systems, and directories or files of their own on others.
MERGED = ("/bin", "/lib", "/lib64", "/lib32", "/etc/os-release")
# Of a conda environment. Not its settings, which may hold secrets: tokens of channels in .condarc, variables in
# conda-meta/state and etc/conda. And the first environment has all others, and the packages, below itself.
# https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html
CONDA = ("bin", "lib", "libexec", "share", "ssl", "include", "targets")
# Directories of certificates: only for a sandbox that has a network.
CERTIFICATES = ("/etc/ssl/certs", "/etc/pki", "/usr/share/ca-certificates", "/usr/lib/ssl")
# The host's authorities in one file, by the names of several distributions. A distribution's pip and requests open it
# when they are imported, so every sandbox has it.
AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# Its place in a sandbox with another root file system.
AUTHORITY = "/.authorities.pem"
# Where a root file system has its Python.
PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3")
# Directories that the sandbox has of its own, and does not take from a root file system.
OWN = frozenset({"proc", "sys", "dev", "tmp", "run", "work", "output", ".pysbx"})
# Bytes of a file pyvenv.cfg, which has a few lines, and of a path.
MAX_SETTINGS, PATH_MAX = 1 << 16, 4096
# Where the standard library is below a prefix: lib64 on Fedora (sys.platlibdir).
LIBRARIES = ("lib", "lib64")


@dataclass(frozen=True)
class Interpreter:
    """A Python, and the files that it needs.

    Attributes:
        program: its path in the sandbox.
        mounts: the directories and files that it needs.
        links: symbolic links of the root directory, as (path, target).
        version: (major, minor), or None where that is known only inside.
        foreign: whether it is not the Python of this program.
        root: whether it comes from a root file system that is not the host's, whose links are not followed here.
        variables: those of the image that the root comes from.
        search: the directories of the image's PATH.
    """

    program: str
    mounts: tuple[Mount, ...]
    links: tuple[tuple[str, str], ...]
    version: tuple[int, int] | None
    foreign: bool = False
    root: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    search: tuple[str, ...] = ()


def _existing(paths: tuple[str, ...]) -> list[Mount]:
    return [Mount(path) for path in paths if os.path.exists(path)]


@cache
def _system() -> tuple[tuple[Mount, ...], tuple[tuple[str, str], ...]]:
    """Return the mounts of the system, and the links of the root directory."""
    mounts = _existing(tuple(path for path in SYSTEM if not os.path.islink(path)))
    links = []
    for path in MERGED:
        if os.path.islink(path):
            links.append((path, os.readlink(path)))
        elif os.path.exists(path):
            mounts.append(Mount(path))
    return tuple(mounts), tuple(links)


def _prefix(prefix: str) -> list[Mount]:
    """Return the mounts of an installation; a prefix that holds more than Python is taken in parts."""
    if prefix == "/usr":
        return []
    if prefix == "/usr/local":
        return _existing(("/usr/local/bin", "/usr/local/lib"))
    if Path(prefix) in (Path("/"), Path.home(), *Path.home().parents):
        raise SandboxStartupError(
            f"interpreter prefix '{prefix}': holds more than Python, and is not shown to a sandbox"
        )
    if _is_conda(prefix):
        return _existing(tuple(f"{prefix}/{part}" for part in CONDA))
    return [Mount(prefix)]


def _is_conda(directory: str) -> bool:
    return os.path.isdir(f"{directory}/conda-meta")


def _by_name(prefix: str, name: str) -> list[Mount]:
    """Return the mounts of an installation, under another name of its prefix."""
    return [Mount(mount.source, name + mount.source.removeprefix(prefix)) for mount in _prefix(prefix)]


def _below(path: str, mounts: Sequence[Mount]) -> bool:
    return any(Path(path).is_relative_to(mount.target) for mount in mounts)


def _installed(prefix: str, executable: str, version: tuple[int, int]) -> Interpreter:
    program = os.path.realpath(executable)
    system, links = _system()
    mounts = list(system)
    real = os.path.realpath(prefix)
    mounts += _prefix(real)
    if prefix != real:
        # It finds its library by the path that started it: uv's virtualenvs have a path that is a link.
        mounts += _by_name(real, prefix)
    if not _below(program, mounts):
        mounts.append(Mount(program))
    return Interpreter(program, tuple(mounts), links, version)


@cache
def host_interpreter() -> Interpreter:
    """Return the interpreter that runs this very program, or the one its virtualenv was made from."""
    if sys.implementation.name != "cpython":
        raise SandboxStartupError(f"{sys.implementation.name} is not CPython: use {current().options['another']}")
    executable = getattr(sys, "_base_executable", None) or sys.executable
    return _installed(sys.base_prefix, executable, sys.version_info[:2])


@cache
def virtualenv_interpreter(directory: str) -> Interpreter:
    """Return the interpreter of a virtualenv or conda environment, with the packages installed there.

    Nothing of it is executed here. Its pyvenv.cfg names the installation that the sandbox is shown.

    Raises:
        SandboxStartupError: the directory holds none, or its files do not say which.
    """
    root = Path(directory).absolute()
    python = root / "bin" / "python"
    if _is_conda(str(root)):
        if not python.is_file():
            raise SandboxStartupError(f"virtualenv '{root}': no bin/python there")
        return replace(_installed(str(root), str(python), _version(root, {})), foreign=True)
    if not (root / "pyvenv.cfg").is_file():
        raise SandboxStartupError(f"virtualenv '{root}': neither pyvenv.cfg nor conda-meta there")
    settings = _settings(root)
    version, home = _version(root, settings), settings.get("home", "")
    prefix = _prefix_of(root, home, version)
    names = (os.path.join(home, name) for name in (f"python{version[0]}.{version[1]}", "python3", "python"))
    executable = next((name for name in names if os.path.isfile(name)), None)
    if executable is None or not python.exists():
        raise SandboxStartupError(f"virtualenv '{root}': no Python in '{home if python.exists() else python.parent}'")
    base = _installed(prefix, executable, version)
    if not _below(os.path.realpath(python), [*base.mounts, Mount(os.path.realpath(root))]):
        # It would be shown to the sandbox as a program, although it may be any file.
        raise SandboxStartupError(f"virtualenv '{root}': bin/python is not the interpreter of '{home}'")
    # The link bin/python may pass through directories that are not shown, so each file of the chain is mounted. If the
    # chain passes through another name of the installation, that name is mounted as well, because Python looks for its
    # library beside it.
    mounts = [*base.mounts, Mount(str(root))]
    installation = os.path.realpath(prefix)
    link = os.readlink(python) if python.is_symlink() else str(python)
    step = os.path.normpath(root / "bin" / link)
    while not _below(step, mounts):
        names = (str(parent) for parent in Path(step).parents if os.path.realpath(parent) == installation)
        name = next(names, None)
        shown = _by_name(installation, name) if name else []
        mounts += shown if _below(step, shown) else [Mount(os.path.realpath(step), step)]
        step = (
            os.path.normpath(os.path.join(os.path.dirname(step), os.readlink(step))) if os.path.islink(step) else step
        )
    return Interpreter(str(python), tuple(mounts), base.links, base.version, foreign=True)


def _settings(root: Path) -> dict[str, str]:
    """Return what pyvenv.cfg says, by names in lower case; see site.py and PEP 405."""
    try:
        text = trees.read_path(root / "pyvenv.cfg", MAX_SETTINGS).decode(errors="surrogateescape")
    except OSError as error:
        raise SandboxStartupError(f"virtualenv '{root}': pyvenv.cfg: {error.strerror}") from error
    lines = text.splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    found = {name.strip().lower(): value.strip() for name, _, value in pairs}
    home = os.fsencode(found.get("home", ""))
    if b"\0" in home or len(home) >= PATH_MAX:
        raise SandboxStartupError(f"virtualenv '{root}': pyvenv.cfg: home is not a path")
    return found


def _version(root: Path, settings: dict[str, str]) -> tuple[int, int]:
    """Return the version: venv calls it "version", virtualenv and uv "version_info".

    conda has no such file, but its bin/python is a link to a name that contains the version.
    """
    program = os.path.basename(os.path.realpath(root / "bin" / "python")).removeprefix("python")
    for text in (settings.get("version_info", ""), settings.get("version", ""), program):
        if found := re.match(r"(\d{1,3})\.(\d{1,3})(\.|$)", text):
            return int(found[1]), int(found[2])
    raise SandboxStartupError(
        f"virtualenv '{root}': neither pyvenv.cfg nor the file that bin/python leads to has a version in it"
    )


def _prefix_of(root: Path, home: str, version: tuple[int, int]) -> str:
    """Return the prefix of an installation from the directory of its programs, as Python does (Modules/getpath.py)."""
    if not os.path.isabs(home):
        raise SandboxStartupError(f"virtualenv '{root}': pyvenv.cfg: home = '{home}' is not an absolute path")
    library = f"python{version[0]}.{version[1]}"
    # Distributions have links from one directory of programs to another.
    for start in (home, os.path.realpath(home), os.path.dirname(os.path.realpath(f"{home}/{library}"))):
        for parent in Path(os.path.normpath(start)).parents:
            # "/lib" is a link into /usr on most systems: that is the prefix there.
            if parent != Path("/") and any((parent / name / library / "os.py").is_file() for name in LIBRARIES):
                return str(parent)
    raise SandboxStartupError(f"virtualenv '{root}': no standard library of {library} above '{home}'")


def rootfs_interpreter(directory: str, called: str = "", variables: Mapping[str, str] | None = None) -> Interpreter:
    """Return the Python of a root file system, whose top-level directories are mounted into the sandbox's own root.

    Args:
        directory: its path.
        called: what an error names instead of the path.
        variables: of the image that it comes from. Its PATH says where Python is looked for first.

    Raises:
        SandboxStartupError: there is no Python in it.
    """
    from pysbx.base import beneath  # noqa: PLC0415 (ctypes: few sandboxes have such a root)

    path = Path(directory).absolute()
    called = called or f"rootfs '{path}'"
    own = dict(variables or {})
    search = tuple(name for name in own.pop("PATH", "").split(":") if name.startswith("/"))
    pythons = (*(posixpath.join(name, "python3") for name in search), *PYTHONS)
    mounts, links = [], []
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxStartupError(f"{called}: {error.strerror}") from error
    try:
        for name in sorted(set(os.listdir(root)) - OWN):
            mode = os.stat(name, dir_fd=root, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links.append((f"/{name}", os.readlink(name, dir_fd=root)))
            elif stat.S_ISDIR(mode) and (name != "mnt" or os.listdir(path / name)):  # an empty one is bundle.py's
                mounts.append(Mount(str(path / name), f"/{name}"))
        program = next((name for name in pythons if beneath.is_file(root, name)), None)
    except OSError as error:
        raise SandboxStartupError(f"{called}: {error.strerror}") from error
    finally:
        os.close(root)
    if program is None:
        where = " or ".join(dict.fromkeys([*search, "/usr/local/bin", "/usr/bin"]))
        raise SandboxStartupError(f"{called}: no python3 in {where}; links out of the root do not count")
    return Interpreter(
        *(program, tuple(mounts), tuple(links), None),
        foreign=True,
        root=True,
        variables=tuple(sorted(own.items())),
        search=search,
    )


def trusted() -> str:
    """Return the file with the authorities that this machine trusts, or ""."""
    return next((os.path.realpath(path) for path in AUTHORITIES if os.path.exists(path)), "")


@cache
def certificates(*, root: bool = False, network: bool = True) -> tuple[Mount, ...]:
    """Return the mounts by which programs in the sandbox find the host's certificate authorities.

    Args:
        root: the files are those of a root file system, which need not have the host's directories. The sandbox gets
            one file, AUTHORITY, and a variable that names it.
        network: whether the sandbox has a network. Without one it gets only what libraries open when they are imported.
    """
    if root:
        return (Mount(found, AUTHORITY),) if network and (found := trusted()) else ()
    system = _system()[0]
    directories = _existing(CERTIFICATES) if network else []
    shown = [*system, *directories]
    # A link in a directory that is shown may lead to one that is not.
    names = {name for path in AUTHORITIES if os.path.exists(path) for name in (path, os.path.realpath(path))}
    files = [Mount(name) for name in sorted(names) if not _below(name, shown)]
    return tuple([mount for mount in directories if not _below(mount.target, system)] + files)
