"""The options of a sandbox. Each is declared here, once: name, type, default, check, help and command line option.

Type checkers and editors read the types, as in `@sandbox(memory_mb=256)`. They ignore the metadata of Annotated, which
is for the rest of the package: see declaration.py. Help lists the options in this order.
"""

# Without `from __future__ import annotations`: OPTIONS reads the annotations themselves, not their text.

import os
import sys
from collections.abc import Iterable, Mapping
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
    keep_network,
    keep_path,
    keep_text,
    keep_variables,
    list_of,
    one_network,
    parse_mount,
    parse_variable,
)
from pysbx.options.mount import Mount

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    from typing import Optional as Unpack  # for programs that evaluate annotations

__all__ = ["SandboxOptions", "Unpack"]

LEAST_MEMORY_MB = 16
REQUIREMENTS_FILE = Also("--requirements", "FILE", "install what this requirements file lists", "-r {}")


def _requirements(name: str, given: Any) -> tuple[str, ...]:
    """Return requirements in their normal form; without any, no module is imported that installs them."""
    if not given:
        return ()
    from pysbx.options import requirements  # noqa: PLC0415 (most sandboxes have none)

    return requirements.normalise_all(given)


class SandboxOptions(TypedDict, total=False):
    """The options of a sandbox, all of which may be left out. See Options and Policy for the meanings."""

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
        Option(30.0, "time limit, by the clock", check=Number(), flag=Flag("--timeout", "SECONDS"), offered=True),
    ]
    cpus: Annotated[
        float, Option(1.0, "number of CPUs, such as 0.5", check=Number(), flag=Flag("--cpus", "N"), offered=True)
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
        ),
    ]
    installer: Annotated[
        Literal["pip", "uv"],
        Option("pip", "program that installs dependencies", flag=Flag("--installer", installs=True)),
    ]
    dependencies: Annotated[
        Iterable[str] | None,
        Option(
            (),
            "install this, such as 'pandas>=2' or ./project",
            keep=_requirements,
            flag=Flag("--with", "REQUIREMENT", several=True, also=REQUIREMENTS_FILE),
        ),
    ]
    allow_network: Annotated[
        Literal[False] | str | Iterable[str] | None,
        Option(
            "none",
            "allow this host name; or localhost, host",
            keep=keep_network,
            flag=Flag("--network", "HOST", several=True, collect=one_network),
            field="network",
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
        ),
    ]
    notebook: Annotated[
        bool,
        Option(False, "allow await at the top level, and lines with % and !", flag=Flag("--notebook", const=True)),
    ]
    limits: Annotated[
        Literal["best", "strict"],
        Option("best", "fail if a cgroup controller is missing", flag=Flag("--strict", const="strict")),
    ]
    warm: Annotated[
        Literal["auto", "require", "off"],
        Option("auto", "start from a prewarmed interpreter", flag=Flag("--warm")),
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
        bool, Option(False, "install dependencies again for this program", flag=Flag("--disable-cache", const=True))
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
