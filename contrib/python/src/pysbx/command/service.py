"""`pysbx service`: the units of systemd that start `pysbx serve` at the first connection."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from pysbx.base import children
from pysbx.base.directories import write_whole
from pysbx.base.managed_files import is_ours, marked
from pysbx.service.settings import add_serve

UNITS = Path(__file__).parents[1] / "units"
ADVICE = "Change it by drop-ins: systemctl edit"
# file, its directory for root below the prefix, and whether users have it as well
FILES = (
    ("pysbx.socket", "etc/systemd/system", True),
    ("pysbx.service", "etc/systemd/system", True),
    ("pysbx.conf", "etc/sysusers.d", False),
)
# Directives that a user's manager cannot carry out, or that have no meaning there. A second /proc needs a directory in
# /run, and without it nothing may cover a part of the first. The kernel guards those files by their permissions. With
# PrivateUsers, root is an unknown user, so nothing tells that directories are those of root.
NOT_FOR_USERS = frozenset(
    "User Group CapabilityBoundingSet AmbientCapabilities PrivateDevices ProtectClock ProtectKernelModules ProtectHome "
    "BindPaths ProtectKernelTunables ProtectKernelLogs PrivateUsers "
    "ProtectSystem PrivateTmp PrivateMounts PrivateNetwork IPAddressDeny RestrictAddressFamilies ProtectProc "
    "RuntimeDirectory RuntimeDirectoryMode CacheDirectory CacheDirectoryMode "
    "Environment TasksMax".split()
)

# Directories that ProtectHome= and PrivateTmp= of root's unit hide from the service.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
ELSEWHERE = (
    "install pysbx in a virtual environment elsewhere, such as /opt/pysbx, with an interpreter such as /usr/bin/python3"
)
NO_TOKEN = (
    "pysbx: the service will not start at {} without a token: add -- --token-file FILE, or set PYSBX_TOKEN in a drop-in"
)
# Options of `pysbx serve` that name files.
FILE_OPTIONS = ("token_file", "tls_cert", "tls_key", "audit_log")


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add `install` and `uninstall` to the parser of `pysbx service`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, force in (
        ("install", "write pysbx.socket and pysbx.service, for all users by root, otherwise for this user", "replace"),
        ("uninstall", "remove them, but keep files that were changed", "remove also"),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("--prefix", metavar="DIR", default="/", help="write below this directory (/)")
        action.add_argument("--force", action="store_true", help=f"{force} files that were changed")
        action.set_defaults(function=run)
        if name == "install":
            action.add_argument(
                "--listen", metavar="ADDRESS", default="", help="path or HOST:PORT (/run/pysbx.sock, or %%t/pysbx.sock)"
            )
            action.add_argument("options", nargs="*", metavar="-- OPTION", help="options of `pysbx serve`")


def _places(prefix: str, *, system: bool) -> dict[str, Path]:
    """Return the paths of the files by their names."""
    if system:
        return {name: Path(prefix, folder, name) for name, folder, _ in FILES}
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").absolute()
    return {name: Path(prefix, *home.parts[1:], "systemd/user", name) for name, _, user in FILES if user}


def quoted(word: str) -> str:
    """Return an argument as a unit file has it: see "Quoting" in systemd.syntax(7), and systemd.unit(5) for %."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not escaped or shlex.quote(word) != word else escaped


def content(name: str, listen: str, options: list[str], *, system: bool) -> str:
    """Return the text of a file.

    Raises:
        ValueError: an option or the address cannot stand in a unit.
    """
    for word in (listen, *options):
        if not word.isprintable():
            raise ValueError(f"service: {word!r} has characters that a unit cannot contain")
    address = listen or ("/run/pysbx.sock" if system else "%t/pysbx.sock")
    # Another interpreter than the one that runs now may lack the package.
    program = " ".join(quoted(word) for word in children.module("pysbx"))
    text = (UNITS / name).read_text(encoding="utf-8")
    text = text.replace("@PYSBX@", program).replace("@OPTIONS@", "".join(f" {quoted(word)}" for word in options))
    text = text.replace("@LISTEN@", f"ListenStream={address}")
    if not system:
        text = "\n".join(line for line in text.split("\n") if line.partition("=")[0] not in NOT_FOR_USERS)
    return marked(text, "pysbx service install", ADVICE)


def check_options(options: list[str]) -> list[str]:
    """Refuse options that `pysbx serve` does not have, and files that it would look for elsewhere.

    Args:
        options: of `pysbx serve`, as in a unit, which starts programs in the root directory.

    Returns:
        The paths of the files.

    Raises:
        SystemExit: `pysbx serve` does not take the options. The reason has been printed.
        ValueError: the name of a file is relative, or there is an address.
    """
    parser = argparse.ArgumentParser(prog="pysbx service install --", add_help=False)
    add_serve(parser)
    given = parser.parse_args(options)
    if given.listen:
        raise ValueError("service: --listen: name the address before '--': the service listens where pysbx.socket does")
    files = {name: path for name in FILE_OPTIONS if (path := getattr(given, name))}
    for name, path in files.items():
        if not Path(path).is_absolute():
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"service: {option}: '{path}' must be an absolute path, because the service starts in '/'")
    return [str(path) for path in files.values()]


def check_visible(path: str, advice: str) -> None:
    """Refuse a file that root's service cannot see.

    Args:
        path: of the file. Links count: that of a virtual environment leads to another interpreter.
        advice: what to do.

    Raises:
        ValueError: it is in a directory that the unit hides.
    """
    for one in (path, os.path.realpath(path)):
        for hidden in HIDDEN:
            if any(Path(one).is_relative_to(top) for top in (hidden, os.path.realpath(hidden))):
                raise ValueError(f"service: '{one}' is below '{hidden}', which the service cannot see: {advice}")


def run(arguments: argparse.Namespace) -> int:
    """Carry out `pysbx service install` or `pysbx service uninstall`."""
    system = os.geteuid() == 0
    places = _places(arguments.prefix, system=system)
    if arguments.action == "install":
        return _install(arguments, places, system=system)
    return _uninstall(places, force=arguments.force)


def _install(arguments: argparse.Namespace, places: dict[str, Path], *, system: bool) -> int:
    files = check_options(arguments.options)
    # Below another prefix the units are for another machine.
    if system and arguments.prefix == "/":
        for needed in (sys.executable, __file__):
            check_visible(needed, ELSEWHERE)
        for needed in files:
            check_visible(needed, "put it elsewhere, such as in /etc/pysbx or /var/log/pysbx")
    listen = arguments.listen.removeprefix("unix:")
    texts = {path: content(name, listen, arguments.options, system=system) for name, path in places.items()}
    # All are looked at before one is written.
    for path in texts:
        if path.exists() and not arguments.force and not is_ours(path):
            raise ValueError(
                f"service: '{path}' was changed, or was not written by this command: move your changes to a drop-in, "
                "or replace it with --force"
            )
    before = {path: path.read_bytes() for path in texts if path.exists()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
        print(path)
    if listen and listen[0] not in "/%@" and not any(one.startswith("--token-file") for one in arguments.options):
        print(NO_TOKEN.format(listen), file=sys.stderr)
    user = "" if system else "--user "
    if system:
        print("systemd-sysusers")
    print(f"systemctl {user}daemon-reload\nsystemctl {user}enable --now pysbx.socket")
    if places["pysbx.service"] in before:
        socket = places["pysbx.socket"]
        moved = "" if before.get(socket) == texts[socket].encode() else "pysbx.socket "
        print(f"systemctl {user}try-restart {moved}pysbx.service")
    return 0


def _uninstall(places: dict[str, Path], *, force: bool) -> int:
    for path in places.values():
        if not path.exists():
            continue
        if force or is_ours(path):
            path.unlink()
        else:
            print(f"kept, because it was changed, or was not written by this command: {path}: --force removes it")
    return 0
