"""`pysbx runtime` and `pysbx --version`: the runtime in use, and the one of this package for other programs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pysbx.version import VERSION


def version_text() -> str:
    """Return what `pysbx --version` prints."""
    from pysbx.base.runtime import choose_runtime  # noqa: PLC0415
    from pysbx.errors import SandboxError  # noqa: PLC0415 (--version has no other use for the package)

    lines = [f"pysbx {VERSION}"]
    try:
        choice = choose_runtime()
        lines.append(f"runtime: {choice.path}: {choice.reason}")
        if choice.unused:
            lines.append(f"not used: {choice.unused} on PATH: set PYSBX_RUNTIME to use it")
    except SandboxError as error:
        lines.append(f"runtime: none: {error}")
    return "\n".join(lines)


def default_prefix() -> str:
    """Return where the runtime is installed: for all users by root, otherwise for this user."""
    return "/usr/local" if os.geteuid() == 0 else str(Path.home() / ".local")


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Add `install` and `uninstall` to the parser of `pysbx runtime`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in (
        ("install", "copy runtime, manual pages, completions and the drop-in for Podman to a prefix"),
        ("uninstall", "remove what `pysbx runtime install` copied"),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("--prefix", metavar="DIR", help="/usr/local for root, otherwise ~/.local")
        action.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx runtime install` or `pysbx runtime uninstall`."""
    from pysbx.machine import apparmor, installation  # noqa: PLC0415 (no other command needs them)

    prefix = Path(arguments.prefix or default_prefix()).absolute()
    if arguments.action == "install":
        count = len(installation.install(prefix))
        drop_in = prefix / "share/pysbx-runtime/containers.conf.d/50-pysbx.conf"
        target = "/etc" if os.geteuid() == 0 else "~/.config"
        print(f"{count} files are installed below {prefix}")
        print(f"for Podman: install -D -m 0644 -t {target}/containers/containers.conf.d {drop_in}")
        if os.geteuid() == 0 and (said := apparmor.install(prefix)):
            print(said)
        return 0
    if os.geteuid() == 0 and (said := apparmor.uninstall(prefix)):
        print(said)
    removed, kept = installation.uninstall(prefix)
    print(f"{len(removed)} files are removed below {prefix}")
    for path in kept:
        print(f"kept, because it has changed since: {path}")
    return 0
