"""The options that say what a sandbox is, for every command that makes one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pysbx.interpreter import Mount

# option, keyword of make_options, type, how it is shown, help
NUMBERS: tuple[tuple[str, str, Any, str, str], ...] = (
    ("--memory", "memory_mb", int, "MIB", "memory limit"),
    ("--timeout", "timeout_sec", float, "SECONDS", "time limit, by the clock"),
    ("--cpus", "cpus", float, "N", "number of CPUs, such as 0.5"),
    ("--processes", "max_processes", int, "N", "processes and threads at the same time"),
    ("--tmp-size", "tmp_mb", int, "MIB", "size of /tmp, /work and /output, each"),
    ("--output-limit", "output_limit", int, "BYTES", "bytes to keep of each output stream"),
)
TEXTS = (
    ("--profile", "profile", "NAME", "use these limits and rules, see `pysbx profiles`"),
    ("--virtualenv", "virtualenv", "DIR", "use the Python and packages of this virtualenv or conda environment"),
    ("--rootfs", "rootfs", "DIR", "use this root file system's Python"),
    ("--image", "image", "NAME", "use the Python of this image; Podman fetches it"),
    ("--index-url", "index_url", "URL", "install dependencies from this index"),
    ("--wheels", "wheels", "DIR", "install dependencies from this directory of wheels"),
)


# Of the same kind, by keyword: what add() has to say more of.
OTHERS = {
    "dependencies": "--with",
    "allow_network": "--network",
    "mounts": "--mount",
    "env": "--env",
    "preload": "--preload",
    "limits": "--strict",
    "warm": "--warm",
}


def spoken(message: str) -> str:
    """Return the text of an error about a keyword of make_options with the name that the command line has for it."""
    keyword, colon, rest = message.partition(":")
    options = {name: option for option, name, *_ in (*NUMBERS, *TEXTS)} | OTHERS
    return f"{options.get(keyword, keyword)}{colon}{rest}"


def parse_mount(text: str) -> Mount:
    """Return the mount for SOURCE[:TARGET[:rw]]."""
    source, *rest = text.split(":")
    if len(rest) > 2 or rest[1:] not in ([], ["ro"], ["rw"]):
        raise argparse.ArgumentTypeError(f"'{text}' is not SOURCE[:TARGET[:ro|:rw]]")
    try:
        return Mount(str(Path(source).absolute()), rest[0] if rest else "", readonly=rest[1:] != ["rw"])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_variable(text: str) -> tuple[str, str]:
    """Return the variable for NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command's parser."""
    group = parser.add_argument_group("the sandbox")
    for option, name, kind, shown, text in NUMBERS:
        group.add_argument(option, dest=name, type=kind, metavar=shown, help=text)
    for option, name, shown, text in TEXTS:
        group.add_argument(option, dest=name, metavar=shown, help=text)
    group.add_argument(
        "--with", dest="dependencies", action="append", metavar="REQUIREMENT", help="install this, such as 'pandas>=2'"
    )
    group.add_argument(
        "--network",
        dest="allow_network",
        action="append",
        metavar="HOST",
        help="allow this host name; or localhost, host",
    )
    group.add_argument(
        "--mount",
        dest="mounts",
        action="append",
        type=parse_mount,
        metavar="SOURCE[:TARGET[:rw]]",
        help="mount a file or directory of the host",
    )
    group.add_argument(
        "--env", dest="env", action="append", type=parse_variable, metavar="NAME=VALUE", help="set this variable"
    )
    group.add_argument(
        "--preload", dest="preload", action="append", metavar="MODULE", help="import this in prewarmed interpreters"
    )
    group.add_argument(
        "--strict",
        dest="limits",
        action="store_const",
        const="strict",
        help="fail if a cgroup controller is missing",
    )
    group.add_argument("--warm", choices=("auto", "require", "off"), help="start from a prewarmed interpreter")


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that say for which Python dependencies are installed, and from where."""
    for option, name, shown, text in TEXTS:
        if name != "profile":
            parser.add_argument(option, dest=name, metavar=shown, help=text)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for make_options that were on the command line."""
    names = [*(name for _, name, *_ in (*NUMBERS, *TEXTS)), *OTHERS]
    found = {name: getattr(arguments, name) for name in names if getattr(arguments, name, None) is not None}
    network = found.get("allow_network")
    if network is not None and len(network) == 1 and network[0] in ("none", "localhost", "host"):
        found["allow_network"] = network[0]
    if "env" in found:
        found["env"] = dict(found["env"])
    return found
