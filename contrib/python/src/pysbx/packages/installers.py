"""The programs that install packages, pip and uv, each in a sandbox of its own that alone has a network.

uv is many times faster. It takes a package from the first index that has it, and pip the highest version of all.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sysconfig
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pysbx.container import bundle
from pysbx.container.container import Container, Message
from pysbx.container.exchange import exchange
from pysbx.container.interpreter import Interpreter
from pysbx.container.process import Cancelled
from pysbx.errors import DependencyInstallError, SandboxError, SandboxTimeoutError
from pysbx.options.declaration import wrong
from pysbx.options.mount import Mount
from pysbx.options.options import Options, make_options
from pysbx.options.requirements import is_project, split_project
from pysbx.packages import disk_limit
from pysbx.packages.sources import Source

TARGET = "/.dependencies"
INSTALLER = "/.installer"
PROJECTS = "/.projects"
# Building writes into the project, so pip gets a copy.
COPIES = "/tmp/projects"
# Directories of a project that no build reads.
NOT_BUILT = frozenset(
    {".git", ".hg", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", "*.egg-info"}
)
COPY_LINES = (
    "import os, shutil, sys",
    f'for name in os.listdir("{PROJECTS}") if os.path.isdir("{PROJECTS}") else ():',
    f'    for part in os.listdir(f"{PROJECTS}/{{name}}"):',
    f'        source, copy = f"{PROJECTS}/{{name}}/{{part}}", f"{COPIES}/{{name}}/{{part}}"',
    f'        os.makedirs(f"{COPIES}/{{name}}", exist_ok=True)',
    "        if os.path.isdir(source):",
    f"            ignored = shutil.ignore_patterns(*{sorted(NOT_BUILT)!r})",
    "            shutil.copytree(source, copy, symlinks=True, ignore=ignored)",
    "        else:",
    "            shutil.copy(source, copy)",
)
COPY = "".join(f"{line}\n" for line in COPY_LINES)
# A foreign Python has a pip that fits it. If it has none, it gets the pip of this program, which may be too old for it.
# The pip of a distribution opens a file of certificates of that distribution when it starts. Another root may lack it.
PIP_LINES = (
    "import os, runpy, sys",
    f'sys.path.append("{INSTALLER}")',
    "try:",
    "    from pip._vendor import certifi",
    '    if "SSL_CERT_FILE" in os.environ and not os.path.exists(certifi.where()):',
    '        certifi.where = lambda: os.environ["SSL_CERT_FILE"]',
    "except ImportError:",
    "    pass",
    'runpy.run_module("pip", run_name="__main__", alter_sys=True)',
)
PIP = "".join(f"{line}\n" for line in PIP_LINES)
UV = f'import subprocess, sys; sys.exit(subprocess.call(["{INSTALLER}/uv", *sys.argv[1:]]))'
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

# The words of pip and uv for a certificate with an unknown authority.
UNKNOWN_AUTHORITY = ("CERTIFICATE_VERIFY_FAILED", "invalid peer certificate: UnknownIssuer")
# The marks with which uv begins the lines of an error.
# The last of pip's attempts, and in it what the proxy of the sandbox says.
GIVEN_UP = re.compile(r"Retrying \(Retry\(total=0,.*?after connection broken by '?(?P<error>.*)")
TUNNEL = re.compile(r"Tunnel connection failed: \d+ (?P<reason>[^\")]+)")
UV_MARKS = "\u00d7\u2570\u2500\u25b6\u2502 "
# The output of a package's own build, as pip shows it, and how much of its end an error repeats.
BUILD = re.compile(r"\u2570\u2500> \[\d+ lines of output\]\n(.*?)^ *\[end of output\]", re.DOTALL | re.MULTILINE)
MAX_BUILD = 1000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """An installation.

    Attributes:
        requirements: in normal form.
        source: the places that packages come from.
        interpreter: for which they are installed.
        site: the directory of the host where they will be.
    """

    requirements: tuple[str, ...]
    source: Source
    interpreter: Interpreter
    site: Path


@dataclass(frozen=True)
class _Way:
    """One of the two programs, for a job: its mounts, the source that starts it, its arguments, and its variables."""

    mounts: tuple[Mount, ...]
    paths: tuple[str, ...]
    program: str
    arguments: list[str]
    environment: dict[str, str]


def _pip(job: Job) -> _Way:
    found = importlib.util.find_spec("pip")
    if found is None or not found.origin:
        raise DependencyInstallError("pip, which installs dependencies, is not installed beside this package")
    arguments = ["install", "--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    arguments += ["--progress-bar", "off", "--root-user-action", "ignore", "--target", TARGET]
    paths = () if job.interpreter.foreign else (INSTALLER,)
    mount = Mount(str(Path(found.origin).parent), f"{INSTALLER}/pip")
    return _Way((mount,), paths, PIP, [*arguments, *job.source.pip_arguments()], job.source.environment())


def find_uv() -> str:
    """Return the path of uv: that of this environment, otherwise the first one on PATH.

    Raises:
        SandboxOptionError: there is none.
    """
    beside = os.path.join(sysconfig.get_path("scripts"), "uv")
    found = beside if os.access(beside, os.X_OK) else shutil.which("uv")
    if not found:
        raise wrong("installer", "uv is not installed: pip install uv")
    return os.path.realpath(found)


def _uv(job: Job) -> _Way:
    arguments = ["pip", "install", "--no-config", "--no-cache", "--no-progress", "--color", "never"]
    arguments += ["--python", job.interpreter.program, "--target", TARGET, "--link-mode", "copy"]
    arguments += ["--compile-bytecode"]  # as pip does: no sandbox can write to the set, so each import would compile it
    variables = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **job.source.environment()}
    mount = Mount(find_uv(), f"{INSTALLER}/uv")
    return _Way((mount,), (), UV, [*arguments, *job.source.uv_arguments()], variables)


INSTALLERS: dict[str, Callable[[Job], _Way]] = {"pip": _pip, "uv": _uv}


def _requirement_lines(job: Job) -> tuple[list[str], list[Mount]]:
    """Return the lines of requirements.txt, and the mounts of projects of the host."""
    lines, mounts = [], []
    for number, requirement in enumerate(job.requirements):
        if not is_project(requirement):
            lines.append(requirement)
            continue
        path, extras = split_project(requirement)
        name = Path(path).name or "project"
        mounts.append(Mount(path, f"{PROJECTS}/{number}/{name}"))
        lines.append(f"{COPIES}/{number}/{name}{extras}")
    return lines, mounts


def install(job: Job, installer: str = "pip", progress: Progress | None = None) -> int:
    """Install the requirements of a job, and return the bytes of all files.

    Raises:
        DependencyInstallError: it failed, and the installer's words are in the error; or it has written more than
            allowed: see disk_limit.py.
        SandboxOptionError: it is not installed itself.
    """
    way = INSTALLERS[installer](job)
    lines, projects = _requirement_lines(job)
    arguments = [*way.arguments]
    if any("--hash=" in line for line in lines) and "--require-hashes" not in arguments:
        arguments.append("--require-hashes")
    # The site, which no other program uses yet, is the only place of the host that it may write to.
    shown = (*job.source.mounts, *projects, Mount(str(job.site), TARGET, readonly=False))
    # The hosts come from the configuration of the machine, and may be in its own network.
    hosts = [f"private:{host}" for host in job.source.hosts]
    options = replace(make_options(Options(), **LIMITS, env=way.environment, allow_network=hosts), mounts=shown)
    prepared = bundle.prepare(options, job.interpreter, way.mounts, way.paths)
    files = {"requirements.txt": "".join(f"{line}\n" for line in lines).encode(), **job.source.files()}
    program = COPY + way.program if projects else way.program
    command = [installer, *arguments, "-r", "requirements.txt"]
    # A user finds the path that was asked for, and not the one in the sandbox.
    what = ", ".join(job.requirements)
    try:
        with disk_limit.Watch(job.site) as watch:
            code, output = _run(prepared, program, command, files, progress=progress, watch=watch)
        size = disk_limit.measured(job.site)
    except disk_limit.Exceeded as error:
        raise DependencyInstallError(f"{what}: {error}") from None
    if code != 0:
        raise DependencyInstallError(f"{what}: {reason_of(output, installer)}", output)
    return size


def _run(
    made: bundle.Bundle,
    program: str,
    command: list[str],
    files: dict[str, bytes],
    *,
    progress: Progress | None,
    watch: disk_limit.Watch,
) -> tuple[int, str]:
    """Run an installer in a sandbox of its own; return its exit code and its output."""
    said: list[str] = []

    def listen(stream: str, text: str) -> None:
        said.append(text)
        if progress is not None:
            progress(text)

    run: Message = {"op": "run", "source": program, "name": command[0], "module": "", "stdin": b"", "argv": command}
    run |= {"is_file": False, "last": True, "display_limit": 0}
    with Container(made, listen, watch.cancel, keeps_files=False) as container:
        try:
            exchange(container, made, {"op": "put", "files": files}, last=False)
            answer = exchange(container, made, run, last=True)
            container.streams.take_all()  # hand on the end of its output, with the traceback of an error
        except Cancelled:
            raise disk_limit.Exceeded(watch.reason) from None
        except SandboxTimeoutError as error:
            raise DependencyInstallError(str(error), "".join(said)) from error
        except SandboxError as error:
            raise DependencyInstallError(f"{command[0]} could not run: {error}", "".join(said)) from error
    code = answer.get("exit_code")
    return code if isinstance(code, int) else 1, "".join(said)


def reason_of(output: str, installer: str) -> str:
    """Return what an installer's output says about why it failed: a line, and the end of a failed build's output.

    pip indents what a pip says that it has called itself, for example to fetch the tools of a build.
    """
    lines = [line.strip() for line in output.splitlines()]
    if any(said in line for line in lines for said in UNKNOWN_AUTHORITY):
        return "the certificate of the index is not known here: name its authority in pip's configuration (global.cert)"
    if installer == "uv":
        said = [line.lstrip(UV_MARKS) for line in lines if line.startswith((*UV_MARKS, "error: "))]
        return " ".join(said) or "uv failed"
    # pip goes on without the index, and says last that there is no such package.
    if given_up := next(filter(None, map(GIVEN_UP.search, lines)), None):
        told = TUNNEL.search(given_up["error"])
        return f"the index cannot be reached: {told['reason'] if told else given_up['error'][:300]}"
    errors = [line[len("ERROR: ") :] for line in lines if line.startswith(("ERROR: ", "error: "))]
    failed = errors[-1] if errors else "pip failed"
    if built := BUILD.search(output):
        return f"{failed}:\n{textwrap.dedent(built[1]).strip()[-MAX_BUILD:]}"
    return failed
