"""`pysbx kernel`: a Jupyter kernel whose code runs in a sandbox."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from pysbx.base import children
from pysbx.base.text import visible, writer
from pysbx.errors import SandboxError
from pysbx.options import command_line
from pysbx.options.declaration import keep_path
from pysbx.options.keywords import OPTIONS
from pysbx.options.mount import Mount
from pysbx.options.options import Options

# Options whose value may be a path.
MAYBE_PATHS = ("profile", "seccomp")


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `pysbx kernel`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = actions.add_parser("install", help="let Jupyter offer a kernel that runs in a sandbox")
    make.add_argument("--name", default="pysbx", metavar="NAME", help="name of the kernel: pysbx by default")
    make.add_argument("--display-name", metavar="TEXT", help="the name that Jupyter shows")
    make.add_argument("--prefix", metavar="DIR", help="install below DIR/share/jupyter, not for this user")
    command_line.add(make)
    make.set_defaults(function=install)
    for name, text, function in (("list", "list such kernels", show), ("uninstall", "remove one", uninstall)):
        action = actions.add_parser(name, help=text)
        action.add_argument("--prefix", metavar="DIR", help="of kernels that were installed with it")
        if name == "uninstall":
            which = action.add_mutually_exclusive_group(required=True)
            by_place: dict[str, Any] = {"nargs": "?", "default": argparse.SUPPRESS}  # or the absent one would count
            which.add_argument("kernel", metavar="NAME", help="its name, as `kernel list` shows it", **by_place)
            which.add_argument("--name", dest="kernel", metavar="NAME", help="the same, as for install")
        action.set_defaults(function=function)
    start = actions.add_parser("run", help="be a kernel: Jupyter calls this")
    start.add_argument("-f", dest="connection", required=True, metavar="FILE", help="the connection file")
    start.add_argument("rest", nargs="*", metavar="WORD", help="what Jupyter appends, for ipykernel")
    command_line.add(start)
    start.set_defaults(function=run)


def _directory(prefix: str | None) -> Path:
    """Return where Jupyter looks for kernels: https://docs.jupyter.org/en/latest/use/jupyter-directories.html."""
    if prefix:
        return Path(prefix).absolute() / "share/jupyter/kernels"
    data = os.environ.get("JUPYTER_DATA_DIR")
    own = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return (Path(data) if data else Path(own) / "jupyter").absolute() / "kernels"


def _text(name: str, value: Any) -> str:
    """Return the value of an option as it is typed. Paths are absolute, because Jupyter starts kernels elsewhere."""
    if isinstance(value, Mount):
        return f"{value.source}:{value.target}{'' if value.readonly else ':rw'}"
    if isinstance(value, tuple):
        return "=".join(value)
    if OPTIONS[name].option.keep is keep_path or (name in MAYBE_PATHS and os.path.exists(value)):
        return str(keep_path(name, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def words_of(arguments: argparse.Namespace) -> list[str]:
    """Return the options of the sandbox as words of a command line."""
    words = []
    for declared, flag in command_line.FLAGS:
        value = getattr(arguments, declared.name, None)
        if value is None:
            continue
        if flag.const != "":
            words.append(flag.name)
        else:
            values = value if flag.several else [value]
            words += [f"{flag.name}={_text(declared.name, one)}" for one in values]
    return words


def _build(options: Options) -> str:
    """Create the snapshot of a kernel, if it is to start warm; return "", or the reason why there is none."""
    from pysbx.base.runtime import build_snapshot  # noqa: PLC0415 (as pysbx.kernel)
    from pysbx.calls.prepare import prepare  # noqa: PLC0415

    bundle = prepare(options)
    if options.warm == "off":
        return ""
    print("pysbx: preparing the kernel's snapshot, perhaps for a minute", file=sys.stderr, flush=True)
    return build_snapshot(str(bundle.path), bundle.enforcement.manager)


def install(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx kernel install`: prepare the sandbox, then write the specification."""
    from pysbx import kernel  # noqa: PLC0415 (asyncio)

    kernel.check_name(arguments.name)  # before packages are installed, which takes long
    made = kernel.kernel_options(**command_line.given(arguments))
    reason = _build(made)
    if reason and made.dependencies and not arguments.preload:
        # A package that needs a minute, or cannot be in a snapshot, is imported by cells. The kernel still starts warm.
        before, arguments.preload = reason, list(kernel.PRELOAD)
        made = kernel.kernel_options(**command_line.given(arguments))
        reason = _build(made)
        if not reason:
            said = "the packages are imported by cells, not before (--preload names some that are)"
            print(f"pysbx: {said}: {before}", file=sys.stderr)
    if reason and made.warm == "require":
        raise SandboxError(f"the kernel is not installed, because it could not start warm: {reason}")
    if reason:
        arguments.warm = "off"  # to try it again takes up to a minute, and Jupyter waits no longer
        print(f"pysbx: the kernel starts cold until this command is repeated: {reason}", file=sys.stderr)
    about = kernel.describe(made)
    title = arguments.display_name or f"Python in a sandbox ({arguments.name})"
    # The interpreter by its path: Jupyter may belong to another one. It starts in the directory of the notebook.
    argv = children.module("pysbx", "kernel", "run", *words_of(arguments))
    directory = _directory(arguments.prefix)
    lost = kernel.lost_options(directory, arguments.name, argv)
    path = kernel.install(directory, arguments.name, title, argv, about, shared=bool(arguments.prefix))
    if lost:
        said = f"kernel '{arguments.name}' no longer has {shlex.join(lost)}: repeat the command with them to keep them"
        print(visible(f"pysbx: {said}"), file=sys.stderr)
    print(f"kernel '{arguments.name}' is installed in {path}")
    if all(mount.readonly for mount in made.mounts):
        said = "what its cells write ends with it: --mount DIR:/work/DIR:rw lets it use a directory of yours"
        print(f"pysbx: {said}", file=sys.stderr)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx kernel list`."""
    from pysbx import kernel  # noqa: PLC0415 (asyncio)

    directory = _directory(arguments.prefix)
    found = kernel.installed(directory)
    for name, title in found:
        print(visible(f"{name}  {title}"))
    if not found:
        print(visible(f"pysbx: {directory} has no kernel of pysbx: `pysbx kernel install` makes one"), file=sys.stderr)
    return 0


def uninstall(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx kernel uninstall`."""
    from pysbx import kernel  # noqa: PLC0415 (asyncio)

    directory = _directory(arguments.prefix)
    kernel.uninstall(directory, arguments.kernel)
    print(f"kernel '{arguments.kernel}' is removed from {directory}")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx kernel run`."""
    from pysbx import kernel  # noqa: PLC0415 (asyncio)

    made = kernel.kernel_options(**command_line.given(arguments))
    said, failed = (writer(stream, raw=False) for stream in (sys.stdout, sys.stderr))
    return kernel.run(arguments.connection, made, said, failed, arguments.rest)
