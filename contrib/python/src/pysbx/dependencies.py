"""Sets of installed packages: each is made once, by pip in a sandbox that alone has a network, and kept.

A set is a directory, named by what it was made from, that sandboxes see read-only. Sets know nothing of each other, so
those that conflict live side by side, and the host's own packages stay as they are.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pysbx import bundle, children, journal
from pysbx.container import Container, Message
from pysbx.declaration import listed, wrong
from pysbx.errors import DependencyInstallError, SandboxError, SandboxTimeoutError
from pysbx.exchange import exchange
from pysbx.interpreter import Interpreter, Mount
from pysbx.places import cache_directory, private_directory
from pysbx.policy import make_policy

TARGET = "/.dependencies"
INSTALLER = "/.installer"
WHEELS = "/.wheels"
# A foreign Python has a pip that fits it. If it has none, it gets the pip of this program, which may be too old for it.
PIP = f'import runpy, sys; sys.path.append("{INSTALLER}"); runpy.run_module("pip", run_name="__main__", alter_sys=True)'
# PEP 508 without URLs: packages come from the index or the directory of wheels.
REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?P<extras>\[[\w\s,.-]*\])?\s*"
    r"(?P<versions>(?:\(?\s*(?:[<>=!~]=?=?)\s*[\w.*+!-]+\s*,?\s*\)?)*)"
    r"(?P<marker>;[^#\n]*?)?(?P<hashes>(?:\s+--hash=sha(?:256|384|512):[0-9a-f]+)*)\s*"
)
# Importing a package does not always import the modules that its users need.
WORKING_MODULES = {"matplotlib": "matplotlib.pyplot"}
HASH = re.compile(r"--hash=\S+")
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
# The limits of an installation, in which packages are unpacked, and some are compiled.
LIMITS: dict[str, Any] = {
    "memory_mb": 4096,
    "timeout_sec": 1800.0,
    "cpus": 4.0,
    "max_processes": 256,
    "file_size_mb": 4096,
    "tmp_mb": 4096,
    "output_limit": 1 << 20,
    "warm": "off",
}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A set of requirements, and the place that they come from.

    Attributes:
        requirements: as in a requirements file, normalised and sorted.
        index_url: of an index, or "" for the one this machine is configured to use.
        wheels: a directory of wheels that is used instead of an index, or "".
    """

    requirements: tuple[str, ...] = ()
    index_url: str = ""
    wheels: str = ""


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


def normalise(requirement: str) -> str:
    """Return a requirement in its normal form.

    Raises:
        SandboxOptionError: it is not a name with versions; options of pip, paths and URLs are not.
    """
    match = REQUIREMENT.fullmatch(requirement.strip()) if isinstance(requirement, str) else None
    if match is None:
        raise wrong("dependencies", f"{requirement!r} is not a requirement such as 'pandas>=2'")
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    extras = ",".join(
        sorted(part.strip().lower() for part in (match["extras"] or "[]")[1:-1].split(",") if part.strip())
    )
    versions = ",".join(sorted(part for part in re.sub(r"[\s()]", "", match["versions"]).split(",") if part))
    marker = f" ; {match['marker'][1:].strip()}" if match["marker"] else ""
    hashes = "".join(f" {part}" for part in sorted(HASH.findall(match["hashes"])))
    return f"{name}{f'[{extras}]' if extras else ''}{versions}{marker}{hashes}"


def name_of(requirement: str) -> str:
    """Return the name of the package in a requirement in normal form."""
    return re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0]


def normalise_all(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return requirements in their normal form, sorted, each once."""
    items = listed("dependencies", requirements, "strings such as 'pandas>=2'")
    return tuple(sorted({normalise(requirement) for requirement in items}))


def _top() -> Path:
    return private_directory(cache_directory() / "dependencies")


def _key(wanted: Wanted, interpreter: Interpreter) -> str:
    parts = [wanted.requirements, wanted.index_url, wanted.wheels, interpreter.program, interpreter.version]
    where = [platform.machine(), *platform.libc_ver()]
    return hashlib.sha256(json.dumps([parts, where]).encode()).hexdigest()[:24]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock against other threads and programs."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
        atexit.register(shutil.rmtree, _top() / key, ignore_errors=True)
    path = _top() / key
    if (path / "set.json").exists():
        os.utime(path / "set.json")
        return path / "site"
    with _locked(_top() / f".{key}.lock"):
        if not (path / "set.json").exists():
            _make(wanted, interpreter, path, progress)
    return path / "site"


def _make(wanted: Wanted, interpreter: Interpreter, path: Path, progress: Progress | None) -> None:
    """Install a set, and log that: it takes long."""
    names, began = ", ".join(wanted.requirements), time.monotonic()
    journal.write(journal.INSTALL, journal.INFO, "installing %s", names)
    made = Path(tempfile.mkdtemp(dir=_top(), prefix=".new-"))
    try:
        _install(wanted, interpreter, made, progress)
        made.rename(path)
    except DependencyInstallError as error:
        journal.write(journal.INSTALL, journal.WARNING, "not installed: %s", error)
        raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    journal.write(journal.INSTALL, journal.INFO, "installed %s in %.1f s", names, time.monotonic() - began)


def _install(wanted: Wanted, interpreter: Interpreter, made: Path, progress: Progress | None) -> None:
    (made / "site").mkdir()
    for path in (made, made / "site"):
        path.chmod(0o755)  # independent of the caller's umask
    found = importlib.util.find_spec("pip")
    if found is None or not found.origin:
        raise DependencyInstallError("pip, which installs dependencies, is not installed beside this package")
    mounts = [Mount(str(Path(found.origin).parent), f"{INSTALLER}/pip")]
    shown: list[Mount] = []
    arguments = ["install", "--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    arguments += ["--progress-bar", "off", "--root-user-action", "ignore", "--target", TARGET]
    if wanted.wheels:
        shown.append(Mount(wanted.wheels, WHEELS))
        arguments += ["--no-index", "--find-links", WHEELS]
        policy = make_policy(**LIMITS)
    else:
        index, hosts = _index(wanted.index_url)
        arguments += ["--index-url", index]
        arguments += [part for path in AUTHORITIES if os.path.exists(path) for part in ("--cert", path)][:2]
        policy = replace(make_policy(**LIMITS, allow_network=hosts), private_hosts=True)
    if any("--hash=" in requirement for requirement in wanted.requirements):
        arguments.append("--require-hashes")
    # This directory, which no other program uses yet, is the only place of the host that it may write to.
    shown.append(Mount(str(made / "site"), TARGET, readonly=False))
    policy = replace(policy, mounts=tuple(shown))
    prepared = bundle.prepare(policy, interpreter, tuple(mounts), () if interpreter.foreign else (INSTALLER,))
    code, output = _run_pip(prepared, [*arguments, "-r", "requirements.txt"], wanted, progress)
    if code != 0:
        raise DependencyInstallError(f"{', '.join(wanted.requirements)}: {_reason(output)}", output)
    size = sum(file.lstat().st_size for file in made.rglob("*"))
    about = {"requirements": wanted.requirements, "python": interpreter.program, "size": size, "made": time.time()}
    (made / "set.json").write_text(json.dumps(about))


def _reason(output: str) -> str:
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return errors[-1] if errors else "pip failed"


def _run_pip(made: bundle.Bundle, arguments: list[str], wanted: Wanted, progress: Progress | None) -> tuple[int, str]:
    """Run pip in a sandbox of its own; return its exit code and its output."""
    said: list[str] = []

    def listen(stream: str, text: str) -> None:
        said.append(text)
        if progress is not None:
            progress(text)

    files = {"requirements.txt": "".join(f"{line}\n" for line in wanted.requirements).encode()}
    run: Message = {"op": "run", "source": PIP, "name": "pip", "module": "", "stdin": b"", "argv": ["pip", *arguments]}
    run |= {"last": True, "display_limit": 0}
    with Container(made, listen, keeps_files=False) as container:
        try:
            exchange(container, made, {"op": "put", "files": files}, last=False)
            answer = exchange(container, made, run, last=True)
            container.take_all()  # hand on the end of its output, with the traceback of an error
        except SandboxTimeoutError as error:
            raise DependencyInstallError(str(error), "".join(said)) from error
        except SandboxError as error:
            raise DependencyInstallError(f"pip could not run: {error}", "".join(said)) from error
    code = answer.get("exit_code")
    return code if isinstance(code, int) else 1, "".join(said)


@cache
def _configuration() -> dict[str, str]:
    """Return the settings of pip on this machine: from files and the environment, otherwise its built-in ones."""
    program = "from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.file_storage_domain)"
    listed = children.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    built = children.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    found = dict(re.findall(r"^[\w:.-]*\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE))
    simple, _, storage = built.stdout.strip().partition(" ")
    return {"built-in": simple, "built-in-files": storage, **found}


def _index(given: str) -> tuple[str, list[str]]:
    """Return the URL of the index, and the hosts that an installation from it talks to."""
    configured = _configuration()
    index = given or configured.get("index-url") or configured["built-in"]
    parts = urlsplit(index)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DependencyInstallError(f"index '{index}': not an http or https URL")
    hosts = [f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname]
    if index == configured["built-in"]:
        hosts.append(configured["built-in-files"])
    return index, hosts


def modules(site: Path, wanted: Wanted) -> tuple[str, ...]:
    """Return the modules of the requirements themselves, without those of their own dependencies."""
    names = set(map(name_of, wanted.requirements))
    found = set()
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        if re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower() in names:
            for file in distribution.files or ():
                if file.parts[1:] == ("__init__.py",) and file.parts[0].isidentifier():
                    found.add(WORKING_MODULES.get(file.parts[0], file.parts[0]))
    return tuple(sorted(found))


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


def prune(older_than_days: float = 0.0) -> list[InstalledSet]:
    """Remove the sets that were unused for some days, and the rest of killed installations; return the sets."""
    if not older_than_days >= 0:
        raise ValueError(f"days: {older_than_days!r} is negative")
    limit = time.time() - older_than_days * 86400
    removed = [item for item in installed() if item.used <= limit]
    for item in removed:
        with _locked(_top() / f".{item.key}.lock"):
            shutil.rmtree(_top() / item.key, ignore_errors=True)
    for path in _top().glob(".new-*"):
        if path.stat().st_mtime < time.time() - 86400:
            shutil.rmtree(path, ignore_errors=True)
    return removed
