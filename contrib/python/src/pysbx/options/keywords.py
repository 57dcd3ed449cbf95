"""The options of a sandbox. Each is declared here, once: name, type, default, check, help and command line option.

SandboxOptions has what callers write, and Options what is kept of it. Type checkers and editors read the types, as in
`@sandbox(memory_mb=256)`. They ignore the metadata of Annotated, which is for the rest of the package: declaration.py
has its classes. Help and the reference list the options in this order: contrib/docs/options-table writes the latter.
"""

# Without `from __future__ import annotations`: OPTIONS reads the annotations themselves, not their text.

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_args

from pysbx.options.declaration import (
    MIB,
    Also,
    Declared,
    Flag,
    Number,
    Option,
    check_directory,
    check_landlock,
    check_modules,
    check_mounts,
    check_patterns,
    check_text,
    check_urls,
    check_variables,
    keep_directory,
    keep_path,
    keep_text,
    keep_variables,
    list_of,
    parse_mount,
    parse_variable,
)
from pysbx.options.mount import Mount
from pysbx.options.network import Network, keep_network, one_network

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    from typing import Optional as Unpack  # for programs that evaluate annotations

__all__ = ["Options", "SandboxOptions", "Unpack"]

LEAST_MEMORY_MB = 16
REQUIREMENTS_FILE = Also("--requirements", "FILE", "install what this requirements file lists", "-r {}")


def _requirements(name: str, given: Any) -> tuple[str, ...]:
    """Return requirements in their normal form; without any, no module is imported that installs them."""
    if not given:
        return ()
    from pysbx.options import requirements  # noqa: PLC0415 (most sandboxes have none)

    return requirements.normalise_all(given)


def _secrets(name: str, given: Any) -> tuple[Any, ...]:
    """Return secrets as they are kept; without any, no module is imported."""
    if not given:
        return ()
    from pysbx.options import secrets  # noqa: PLC0415 (most sandboxes have none)

    return secrets.keep_secrets(name, given)


def _read_secrets(path: str) -> Mapping[str, Any]:
    from pysbx.options import secrets  # noqa: PLC0415 (few commands have some)

    return secrets.read_secrets(path)


class SandboxOptions(TypedDict, total=False):
    """The options of a sandbox, all of which may be left out, as callers write them."""

    memory_mb: Annotated[
        int,
        Option(
            512,
            "memory limit",
            check=Number(whole=True, least=LEAST_MEMORY_MB, why="an interpreter takes"),
            flag=Flag("--memory", "MIB"),
            offered=True,
        ),
    ]
    timeout_sec: Annotated[
        float,
        Option(
            30.0,
            "time limit, by the clock",
            check=Number(),
            flag=Flag("--timeout", "SECONDS"),
            offered=True,
        ),
    ]
    cpus: Annotated[
        float,
        Option(1.0, "number of CPUs, such as 0.5", check=Number(), flag=Flag("--cpus", "N"), offered=True),
    ]
    max_processes: Annotated[
        int,
        Option(
            64,
            "processes and threads at the same time",
            check=Number(whole=True),
            flag=Flag("--processes", "N"),
            offered=True,
        ),
    ]
    file_size_mb: Annotated[
        int,
        Option(
            64,
            "size of the largest file",
            check=Number(whole=True),
            flag=Flag("--file-size", "MIB"),
            offered=True,
        ),
    ]
    tmp_mb: Annotated[
        int,
        Option(
            64,
            "size of /tmp, /work and /output, each",
            check=Number(whole=True),
            flag=Flag("--tmp-size", "MIB"),
            offered=True,
        ),
    ]
    io_mb_per_sec: Annotated[
        float,
        Option(
            0,
            "MiB a second that are read from each disk, and written to it; 0: any number",
            check=Number(least=0),
            flag=Flag("--io-rate", "MIB"),
            settable=True,
        ),
    ]
    output_limit: Annotated[
        int,
        Option(
            50 * 1024,
            "bytes to keep of each output stream",
            check=Number(whole=True, least=0, most=None),
            flag=Flag("--output-limit", "BYTES"),
            offered=True,
        ),
    ]
    answer_limit: Annotated[
        int,
        Option(
            64 * MIB,
            "bytes of an answer, files included",
            check=Number(whole=True, most=None),
            flag=Flag("--answer-limit", "BYTES"),
            settable=True,
        ),
    ]
    profile: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "use these limits and rules, see `pysbx profiles`",
            check=check_text,
            keep=keep_text,
            flag=Flag("--profile", "NAME"),
            settable=True,
            of_profile=False,
        ),
    ]
    virtualenv: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "use the Python and packages of this virtualenv or conda environment",
            check=check_text,
            keep=keep_path,
            flag=Flag("--virtualenv", "DIR", installs=True),
            of_profile=False,
        ),
    ]
    rootfs: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "use this root file system's Python",
            check=check_text,
            keep=keep_path,
            flag=Flag("--rootfs", "DIR", installs=True),
            of_profile=False,
        ),
    ]
    image: Annotated[
        str | None,
        Option(
            "",
            "use the Python of this image; Podman fetches it",
            check=check_text,
            keep=keep_text,
            flag=Flag("--image", "NAME", installs=True),
            of_profile=False,
        ),
    ]
    index_url: Annotated[
        str | None,
        Option(
            "",
            "install dependencies from this index",
            check=check_text,
            keep=keep_text,
            flag=Flag("--index-url", "URL", installs=True),
            settable=True,
            of_profile=False,
        ),
    ]
    extra_index_urls: Annotated[
        Iterable[str] | None,
        Option(
            (),
            "install dependencies from this index too",
            check=check_urls,
            keep=list_of("URLs"),
            flag=Flag("--extra-index-url", "URL", several=True, installs=True),
            settable=True,
            of_profile=False,
        ),
    ]
    wheels: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "install dependencies from this directory of wheels",
            check=check_text,
            keep=keep_path,
            flag=Flag("--wheels", "DIR", installs=True),
            settable=True,
            of_profile=False,
        ),
    ]
    installer: Annotated[
        Literal["pip", "uv"],
        Option(
            "pip",
            "program that installs dependencies",
            flag=Flag("--installer", installs=True),
            settable=True,
            of_profile=False,
        ),
    ]
    dependencies: Annotated[
        Iterable[str] | None,
        Option(
            (),
            "install this, such as 'pandas>=2' or ./project",
            keep=_requirements,
            flag=Flag("--with", "REQUIREMENT", several=True, also=REQUIREMENTS_FILE),
            of_profile=False,
        ),
    ]
    allow_network: Annotated[
        Literal[False] | str | Iterable[str | Mapping[str, Any]] | None,
        Option(
            Network(),
            "allow this host name, or only requests such as 'GET example.org/v1/*'; or localhost, host",
            keep=keep_network,
            flag=Flag("--network", "HOST", several=True, collect=one_network),
        ),
    ]
    secrets: Annotated[
        Mapping[str, Mapping[str, str]] | None,
        Option(
            (),
            "add these fields to requests for a host, outside of the sandbox; a file has a table of TOML for each host",
            keep=_secrets,
            flag=Flag("--secrets", "FILE", parse=_read_secrets),
            of_profile=False,
        ),
    ]
    mounts: Annotated[
        Iterable[Mount] | None,
        Option(
            (),
            "mount a file or directory of the host",
            check=check_mounts,
            keep=list_of("pysbx.Mount"),
            flag=Flag("--mount", "SOURCE[:TARGET[:rw]]", parse=parse_mount, several=True),
        ),
    ]
    reference: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "show this directory, read-only, as /reference",
            check=check_text,
            keep=keep_path,
            flag=Flag("--reference", "DIR"),
            of_profile=False,
        ),
    ]
    config_dir: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "",
            "keep settings of matplotlib and Jupyter in this directory",
            check=check_text,
            keep=keep_path,
            flag=Flag("--config-dir", "DIR"),
            of_profile=False,
        ),
    ]
    env: Annotated[
        Mapping[str, str] | None,
        Option(
            (),
            "set this variable",
            check=check_variables,
            keep=keep_variables,
            flag=Flag("--env", "NAME=VALUE", parse=parse_variable, several=True, collect=dict),
        ),
    ]
    preload: Annotated[
        Iterable[str] | None,
        Option(
            (),
            "import this in prewarmed interpreters",
            check=check_modules,
            keep=list_of("names of modules"),
            flag=Flag("--preload", "MODULE", several=True),
        ),
    ]
    collect: Annotated[
        Iterable[str] | None,
        Option(
            (),
            "return files of /work too, such as '*.csv'",
            check=check_patterns,
            keep=list_of("patterns"),
            flag=Flag("--collect", "PATTERN", several=True),
            of_profile=False,
        ),
    ]
    notebook: Annotated[
        bool,
        Option(
            False,
            "allow await at the top level, and lines with % and !",
            flag=Flag("--notebook", const=True),
            of_profile=False,
        ),
    ]
    hints: Annotated[
        bool,
        Option(
            True,
            "hints say what to try after an error of the code",
            flag=Flag("--no-hints", const=False),
            of_profile=False,
        ),
    ]
    limits: Annotated[
        Literal["best", "strict"],
        Option("best", "fail if a cgroup controller is missing", flag=Flag("--strict", const="strict"), settable=True),
    ]
    warm: Annotated[
        Literal["auto", "require", "off"],
        Option("auto", "start from a prewarmed interpreter", flag=Flag("--warm"), settable=True),
    ]
    ready: Annotated[
        int,
        Option(
            1,
            "containers to keep ready for calls with these options, from the second call on",
            check=Number(whole=True, least=0, most=64),
            flag=Flag("--ready", "N"),
            settable=True,
            of_profile=False,
        ),
    ]
    isolation: Annotated[
        Literal["container", "process"],
        Option("container", "run in a container, or without one and with fewer promises", flag=Flag("--isolation")),
    ]
    workdir: Annotated[
        str | os.PathLike[str],
        Option(
            "/work",
            "directory where the code starts",
            check=check_directory,
            keep=keep_directory,
            flag=Flag("--workdir", "DIR"),
        ),
    ]
    disable_cache: Annotated[
        bool,
        Option(
            False,
            "install dependencies again for this program",
            flag=Flag("--disable-cache", const=True),
            of_profile=False,
        ),
    ]
    landlock: Annotated[
        str, Option("", "Landlock ruleset, as JSON", check=check_landlock, flag=Flag("--landlock", "JSON"))
    ]
    seccomp: Annotated[
        str,
        Option(
            "seccomp",
            "list of the system calls that are allowed",
            check=check_text,
            flag=Flag("--seccomp", "NAME"),
        ),
    ]


def _declared(name: str, annotation: Any) -> Declared:
    kind, option = get_args(annotation)
    return Declared(name, kind, option)


# The declarations by name of the keyword argument.
OPTIONS = {name: _declared(name, annotation) for name, annotation in SandboxOptions.__annotations__.items()}


def default(name: str) -> Any:
    """Return the default of an option, in the form in which it is kept."""
    return OPTIONS[name].option.default


@dataclass(frozen=True)
class Options:
    """The options of one sandbox, as they are kept. make_options makes a value, and checks what its caller has given.

    The fields have the names of SandboxOptions, which says what they mean. The last ones are the package's own.

    Attributes:
        analysis: the stages of the static analysis, as JSON; a profile brings it.
        violations: "all" that the analysis finds, or the "first" of code that is refused; a profile says which.
        isolated: whether the interpreter is started as `python3 -I`; a profile says so.
        session: whether this is a session, which may last many times the limit of one run.
        tools: whether its code calls functions of this program.
    """

    memory_mb: int = default("memory_mb")
    timeout_sec: float = default("timeout_sec")
    cpus: float = default("cpus")
    max_processes: int = default("max_processes")
    file_size_mb: int = default("file_size_mb")
    tmp_mb: int = default("tmp_mb")
    io_mb_per_sec: float = default("io_mb_per_sec")
    output_limit: int = default("output_limit")
    answer_limit: int = default("answer_limit")
    profile: str = default("profile")
    virtualenv: str = default("virtualenv")
    rootfs: str = default("rootfs")
    image: str = default("image")
    index_url: str = default("index_url")
    extra_index_urls: tuple[str, ...] = default("extra_index_urls")
    wheels: str = default("wheels")
    installer: Literal["pip", "uv"] = default("installer")
    dependencies: tuple[str, ...] = default("dependencies")
    allow_network: Network = default("allow_network")  # noqa: RUF009 (a named tuple, which cannot be changed)
    secrets: tuple[Any, ...] = default("secrets")  # of secrets.Secret
    mounts: tuple[Mount, ...] = default("mounts")
    reference: str = default("reference")
    config_dir: str = default("config_dir")
    env: tuple[tuple[str, str], ...] = default("env")
    preload: tuple[str, ...] = default("preload")
    collect: tuple[str, ...] = default("collect")
    notebook: bool = default("notebook")
    hints: bool = default("hints")
    limits: Literal["best", "strict"] = default("limits")
    warm: Literal["auto", "require", "off"] = default("warm")
    ready: int = default("ready")
    isolation: Literal["container", "process"] = default("isolation")
    workdir: str = default("workdir")
    disable_cache: bool = default("disable_cache")
    landlock: str = default("landlock")
    seccomp: str = default("seccomp")
    analysis: str = ""
    violations: str = "all"
    isolated: bool = field(default=False, repr=False)
    session: bool = field(default=False, repr=False)
    tools: bool = field(default=False, repr=False)
