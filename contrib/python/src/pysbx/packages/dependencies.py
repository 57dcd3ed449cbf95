"""Sets of installed packages: each is made once, by pip in a sandbox that alone has a network, and kept.

A set is a directory, named by what it was made from, that sandboxes see read-only. Sets know nothing of each other, so
those that conflict live side by side, and the host's own packages stay as they are.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from packaging.utils import canonicalize_name

from pysbx.base import log, trees
from pysbx.base.directories import cache_directory, locked, private_directory
from pysbx.container.interpreter import Interpreter
from pysbx.errors import DependencyInstallError
from pysbx.options.requirements import is_project, name_of, normalise, normalise_all, split_project
from pysbx.packages import installers
from pysbx.packages.installers import TARGET, Progress
from pysbx.packages.sources import of_indexes, of_wheels

__all__ = [
    "TARGET",
    "InstalledSet",
    "Wanted",
    "ensure",
    "installed",
    "modules",
    "name_of",
    "normalise",
    "normalise_all",
]

# The directory of a distribution's metadata: https://packaging.python.org/en/latest/specifications/recording-installed-packages/.
METADATA = ".dist-info"
# A package in its file RECORD, and bounds of what is read: distributions, bytes of a file direct_url.json, bytes of all
# files RECORD, and modules.
PACKAGE = re.compile(r"^([^/,\"\s]{1,100})/__init__\.py,", re.MULTILINE)
MAX_DISTRIBUTIONS, MAX_ORIGIN, MAX_METADATA, MAX_MODULES = 2000, 1 << 14, 1 << 24, 100
# Importing a package does not always import the modules that its users need.
WORKING_MODULES = {"matplotlib": "matplotlib.pyplot"}


@dataclass(frozen=True)
class Wanted:
    """A set of requirements, and the place that they come from.

    Attributes:
        requirements: as in a requirements file, normalised and sorted.
        index_url: of an index, or "" for the one this machine is configured to use.
        wheels: a directory of wheels that is used instead of an index, or "".
        extra_index_urls: of further indexes.
        installer: "pip" or "uv".
    """

    requirements: tuple[str, ...] = ()
    index_url: str = ""
    wheels: str = ""
    extra_index_urls: tuple[str, ...] = ()
    installer: str = "pip"


@dataclass(frozen=True)
class InstalledSet:
    """A set that is there.

    Attributes:
        key: its name.
        requirements: what it was made from.
        python: the interpreter it was made for.
        size: in bytes.
        used: when it was last asked for, in seconds since 1970.
    """

    key: str
    requirements: tuple[str, ...]
    python: str
    size: int
    used: float


def _top() -> Path:
    return private_directory(cache_directory() / "dependencies")


def _state(project: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, mode, size and time of the files of a project: another build is due when one has changed."""
    top = Path(project)
    if top.is_file():
        about = top.stat()
        yield top.name, about.st_mode, about.st_size, about.st_mtime_ns
        return
    count = 0
    for folder, names, files in os.walk(top):
        count += len(names) + len(files)
        # os.walk of Python before 3.12 calls itself for each level.
        if count > trees.MAX_ENTRIES or len(Path(folder).relative_to(top).parts) > trees.MAX_DEPTH:
            most = f"{trees.MAX_ENTRIES} files, or {trees.MAX_DEPTH} directories within each other"
            raise DependencyInstallError(f"project '{project}': more than {most}: remove what is no part of it")
        names[:] = sorted(name for name in names if not any(fnmatch(name, pattern) for pattern in installers.NOT_BUILT))
        for name in sorted(files):
            path = Path(folder, name)
            about = path.lstat()
            yield str(path.relative_to(top)), about.st_mode, about.st_size, about.st_mtime_ns


def _key(wanted: Wanted, interpreter: Interpreter) -> str:
    parts = [wanted.requirements, wanted.index_url, wanted.wheels, interpreter.program, interpreter.version]
    where = [platform.machine(), *platform.libc_ver()]
    projects = [list(_state(split_project(item)[0])) for item in wanted.requirements if is_project(item)]
    more = [wanted.extra_index_urls, wanted.installer, projects]
    return hashlib.sha256(json.dumps([parts, where, more]).encode()).hexdigest()[:24]


def ensure(wanted: Wanted, interpreter: Interpreter, *, fresh: bool = False, progress: Progress | None = None) -> Path:
    """Return the directory of a set, installing it if it is not there.

    Args:
        wanted: the set.
        interpreter: for which it is made.
        fresh: install one for this program, whatever is there; it goes when the program ends.
        progress: called with what pip says.

    Raises:
        DependencyInstallError: pip failed; its words are in the error.
    """
    key = _key(wanted, interpreter)
    if fresh:
        # A set of this program alone: the sets that other programs use stay as they are.
        key = f"{key}-{secrets.token_hex(4)}"
        atexit.register(trees.remove, _top() / key)
    path = _top() / key
    if (path / "set.json").exists():
        os.utime(path / "set.json")
        return path / "site"
    with locked(_top() / f".{key}.lock"):
        if not (path / "set.json").exists():
            _make(wanted, interpreter, path, progress)
    return path / "site"


def _make(wanted: Wanted, interpreter: Interpreter, path: Path, progress: Progress | None) -> None:
    """Install a set, and log that: it takes long."""
    names, began = ", ".join(wanted.requirements), time.monotonic()
    log.write(log.INSTALL, log.INFO, "installing %s", names)
    made = Path(tempfile.mkdtemp(dir=_top(), prefix=".new-"))
    try:
        _install(wanted, interpreter, made, progress)
        made.rename(path)
    except DependencyInstallError as error:
        log.write(log.INSTALL, log.WARNING, "not installed: %s", error)
        raise
    finally:
        trees.remove(made)
    log.write(log.INSTALL, log.INFO, "installed %s in %.1f s", names, time.monotonic() - began)


def _install(wanted: Wanted, interpreter: Interpreter, made: Path, progress: Progress | None) -> None:
    (made / "site").mkdir()
    for path in (made, made / "site"):
        path.chmod(0o755)  # independent of the caller's umask
    source = of_wheels(wanted.wheels) if wanted.wheels else of_indexes(wanted.index_url, wanted.extra_index_urls)
    job = installers.Job(wanted.requirements, source, interpreter, made / "site")
    size = installers.install(job, wanted.installer, progress)
    about = {"requirements": wanted.requirements, "python": interpreter.program, "size": size, "made": time.time()}
    (made / "set.json").write_text(json.dumps(about))


def modules(site: Path, wanted: Wanted) -> tuple[str, ...]:
    """Return the modules of the requirements themselves, without those of their own dependencies.

    A hostile package may have written any metadata. A module of a distribution that cannot be read is left out.
    """
    names = set(map(name_of, wanted.requirements))
    found: set[str] = set()
    left = MAX_METADATA
    with trees.opened_top(site) as top, os.scandir(top.directory) as entries:
        distributions = (entry.name for entry in entries if entry.name.endswith(METADATA))
        for distribution in islice(distributions, MAX_DISTRIBUTIONS):
            with contextlib.suppress(OSError):
                record = _record_of(trees.Place(distribution, top.directory, distribution), names, left)
                left -= len(record)
                found |= packages_of(record, distribution.removesuffix(METADATA).rpartition("-")[0])
    return tuple(sorted(found)[:MAX_MODULES])


def _record_of(place: trees.Place, names: Collection[str], limit: int) -> bytes:
    """Return the file RECORD of a distribution if it is one of the requirements, by name or as a project of the host.

    Args:
        place: the directory of its metadata.
        names: of the requirements.
        limit: bytes of the file.
    """
    with trees.opened(place) as directory:
        if canonicalize_name(place.name.removesuffix(METADATA).rpartition("-")[0]) not in names:
            origin = trees.read(trees.Place("", directory, "direct_url.json"), MAX_ORIGIN)
            if f"file://{installers.COPIES}/".encode() not in origin:
                return b""
        return trees.read(trees.Place("", directory, "RECORD"), limit)


def packages_of(record: bytes, distribution: str = "") -> set[str]:
    """Return the names of packages in a file RECORD, which may have any content.

    If one of them has the name of the distribution, it is the only one. Packages beside it may need more than the
    distribution requires, as `adbc_driver_duckdb` of duckdb, or be tests.
    """
    found = set(filter(str.isidentifier, PACKAGE.findall(record.decode(errors="replace"))))
    main = {name for name in found if canonicalize_name(name) == canonicalize_name(distribution)}
    return {WORKING_MODULES.get(name, name) for name in main or found}


def installed() -> list[InstalledSet]:
    """Return the installed sets; the first is the one used last."""
    found = []
    for path in _top().iterdir():
        try:
            about = json.loads((path / "set.json").read_text())
            used = (path / "set.json").stat().st_mtime
        except (OSError, ValueError):
            continue
        requirements = tuple(about["requirements"])
        found.append(InstalledSet(path.name, requirements, about["python"], about["size"], used))
    return sorted(found, key=lambda item: item.used, reverse=True)


def _remove(item: InstalledSet) -> None:
    """Remove a set, unless another program is making it."""
    with locked(_top() / f".{item.key}.lock"):
        trees.remove(_top() / item.key)


def remove(names: Collection[str]) -> list[InstalledSet]:
    """Remove the sets with these keys, or with these requirements alone; return them.

    Raises:
        ValueError: there is none with such a key or requirement. Nothing is removed.
    """
    there = installed()
    found = []
    for name in names:
        named = [item for item in there if item.key == name or item.requirements == (name,)]
        if not named:
            raise ValueError(f"there is no set '{name}': `pysbx deps list` shows their keys")
        found += named
    for item in found:
        _remove(item)
    return found
