"""Defaults of options that a user sets once: in a file, or in variables that begin with PYSBX_.

A value of a call counts first, then that of a profile, of a variable, of the file, and last the built-in one. Options
that open a sandbox (network, mounts, variables, rules) are not among them: these belong to the call that needs them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pysbx.errors import SandboxOptionError
from pysbx.options.keywords import OPTIONS

# The options that may be set, and how the string of a variable becomes a value.
SETTABLE: dict[str, Callable[[str], Any]] = {
    name: declared.parse for name, declared in OPTIONS.items() if declared.option.settable or declared.option.offered
}
# The table [clean] of the file: defaults of `pysbx clean`.
CLEAN = ("days", "size_mb")
PREFIX = "PYSBX_"


def file_path() -> str:
    """Return the path of the file: $PYSBX_CONFIG, or pysbx/config.toml in the directory of configurations."""
    given = os.environ.get("PYSBX_CONFIG")
    if given is not None:
        return given
    top = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(top, "pysbx", "config.toml")


def _read(path: str) -> str | None:
    """Return the text of the file, or None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if about.st_uid not in (0, os.geteuid()) or stat.S_IMODE(about.st_mode) & 0o022:
                advice = "only you and root may be able to write to it"
                raise SandboxOptionError(f"'{path}': others can change it: {advice}", "configuration")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SandboxOptionError(f"'{path}': {reason}", "configuration") from error


def _table(path: str) -> dict[str, Any]:
    """Return the content of the file, whose keys have been checked."""
    text = _read(path) if path else None
    if text is None and path and os.environ.get("PYSBX_CONFIG") == path:  # otherwise its limits would silently not hold
        raise SandboxOptionError(f"PYSBX_CONFIG: '{path}': No such file or directory", "configuration")
    if text is None:
        return {}
    from pysbx.options.requirements import read_toml  # noqa: PLC0415 (few users have such a file)

    try:
        found = read_toml(text)
    except ValueError as error:
        raise SandboxOptionError(f"'{path}': {error}", "configuration") from error
    clean = found.get("clean", {})
    unknown = [name for name in found if name not in SETTABLE and name != "clean"]
    unknown += [f"clean.{name}" for name in clean if name not in CLEAN] if isinstance(clean, dict) else ["clean"]
    if unknown:
        advice = f"there are {', '.join(sorted(SETTABLE))}, and in [clean] {', '.join(CLEAN)}"
        if unknown[0] in OPTIONS:
            advice = f"this option belongs to the call; {advice}"
        raise SandboxOptionError(f"'{path}': '{unknown[0]}' cannot be set: {advice}", "configuration")
    return found


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what variables set, by option."""
    found = {}
    for name, parse in SETTABLE.items():
        text = environment.get(f"{PREFIX}{name.upper()}")
        if text is not None:
            try:
                found[name] = parse(text)
            except ValueError:
                raise SandboxOptionError(f"{PREFIX}{name.upper()}: {text!r} is not a number", name) from None
    return found


def defaults() -> dict[str, Any]:
    """Return the options that the user has set, as make_options takes them.

    Raises:
        SandboxOptionError: the file or a variable has something that is not allowed. Its text names the origin.
    """
    # Not from os.environ.items(), which decodes each variable.
    names = [os.fsdecode(name) for name in os.environb if name.startswith(PREFIX.encode())]
    values = {name: os.environ[name] for name in names}
    path = file_path()
    try:
        about = os.stat(path)
        state = (path, about.st_mtime_ns, about.st_ino, about.st_size)
    except OSError:
        state = (path, 0, 0, 0)
    return dict(_defaults(state, tuple(sorted(values.items()))))


@lru_cache(maxsize=8)
def _defaults(state: tuple[str, int, int, int], values: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    found = {name: value for name, value in _table(state[0]).items() if name != "clean"}
    for origin, given in ((f"'{state[0]}'", found), ("a variable", _variables(dict(values)))):
        for name, value in given.items():
            try:
                OPTIONS[name].check(OPTIONS[name].keep(value))
            except SandboxOptionError as error:
                where = origin if origin.startswith("'") else f"{PREFIX}{name.upper()}"
                raise SandboxOptionError(f"{where}: {error}", name) from error
        found = found | given
    return found


def of_clean() -> tuple[float | None, float | None]:
    """Return the days and the size in MiB that the file sets for `pysbx clean`, each None if it does not.

    Raises:
        SandboxOptionError: one is no number from 0 on, or see defaults.
    """
    path = file_path()
    table = _table(path).get("clean", {})
    for name in CLEAN:
        value = table.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise SandboxOptionError(f"'{path}': clean.{name}: {value!r} is not a number from 0 on", "configuration")
    return table.get("days"), table.get("size_mb")
