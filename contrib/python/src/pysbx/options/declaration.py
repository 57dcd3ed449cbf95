"""How an option of a sandbox is declared, and the checks and conversions that declarations use.

keywords.py has the declarations. The command line, the HTTP service, the MCP tools, the checks of values and the
messages of errors are derived from them. The classes are named tuples, because Python creates these sooner than
dataclasses, at every start of a program.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pysbx.base.option_names import current
from pysbx.errors import SandboxOptionError
from pysbx.options.mount import Mount, absolute_path

MIB = 1024 * 1024
MOST = 1 << 31  # of seconds, CPUs and MiB: the kernel's numbers have room for what follows from them
RULESET = '{"filesystem": {"read": ["/"], "write": ["/tmp"]}}'

Keep = Callable[[str, Any], Any]  # (name, given): return the value in the form in which it is kept
# Variables by which Python looks for its own library elsewhere.
NOT_THE_CALLERS = ("PYTHONHOME", "PYTHONPLATLIBDIR")
Check = Callable[[str, Any], None]  # (name, kept): raise SandboxOptionError unless the value is allowed


def wrong(name: str, reason: str) -> SandboxOptionError:
    """Return the error about the value of an option."""
    return SandboxOptionError(f"{name}: {reason}", name)


class Also(NamedTuple):
    """A second option of the command line for the same keyword, which stands for a value in a certain form.

    Attributes:
        name: the option, with its dashes.
        metavar: how help shows the value.
        help: the meaning.
        form: the value of the keyword, with "{}" in place of the option's.
    """

    name: str
    metavar: str
    help: str
    form: str


class Flag(NamedTuple):
    """An option of the command line.

    Attributes:
        name: the option, with its dashes.
        metavar: how help shows the value; "" if the choices of a Literal are shown.
        parse: makes a value of a string; by default the number type of the option does, or the string is the value.
        several: whether the option may be repeated; the values form a list.
        collect: makes the keyword argument of that list.
        const: the value that the option stands for; "" if it takes one.
        installs: whether the option says for which Python, and from where, packages are installed.
        also: a second option, whose values join those of this one.
    """

    name: str
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    several: bool = False
    collect: Callable[[list[Any]], Any] | None = None
    const: str | bool = ""
    installs: bool = False
    also: Also | None = None


class Option(NamedTuple):
    """The declaration of an option: the metadata of its annotation in keywords.SandboxOptions.

    Attributes:
        default: the value, in the form in which it is kept, if the caller gives none.
        help: the meaning, as a noun phrase or an imperative: for the command line and the HTTP service.
        check: refuses a value that is not allowed.
        keep: converts what the caller gives to the form in which it is kept.
        flag: the option of the command line, if there is one.
        offered: whether a caller of a server may choose the value, up to the server's own. Then it is settable too.
        settable: whether the user's configuration may set it.
        of_profile: whether a profile may set it, among its limits.
    """

    default: Any
    help: str
    check: Check | None = None
    keep: Keep | None = None
    flag: Flag | None = None
    offered: bool = False
    settable: bool = False
    of_profile: bool = True


class Declared(NamedTuple):
    """An option together with its name and type, which its annotation has.

    Attributes:
        name: the keyword argument, which is also the name in JSON.
        type: the type that type checkers see: int, float, a Literal, and so on.
        option: everything else.
    """

    name: str
    type: Any
    option: Option

    @property
    def choices(self) -> tuple[str, ...]:
        """The strings that are allowed, if only these are."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def parse(self) -> Callable[[str], Any]:
        """The function that makes a value of the string of a variable; the items of a list have blanks between."""
        if self.option.flag is not None and self.option.flag.several:
            return str.split
        return self.type if self.type in (int, float) else str

    def keep(self, given: Any) -> Any:
        """Return a value of the caller in the form in which it is kept.

        Raises:
            SandboxOptionError: it cannot be converted.
        """
        return given if self.option.keep is None else self.option.keep(self.name, given)

    def check(self, kept: Any) -> None:
        """Refuse a value that is not allowed.

        Raises:
            SandboxOptionError: the text begins with the name of the option.
        """
        if self.choices and kept not in self.choices:
            raise wrong(self.name, f"{kept!r} is not one of {', '.join(self.choices)}")
        if self.type is bool and not isinstance(kept, bool):
            raise wrong(self.name, f"{kept!r} is neither True nor False")
        if self.option.check is not None:
            self.option.check(self.name, kept)


# Of options, by the ends of their names. The first that fits counts.
UNITS = {"_mb": " of MiB", "_mb_per_sec": " of MiB per second", "_sec": " of seconds"}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Number(NamedTuple):
    """The check of a number.

    Attributes:
        whole: whether it must be an int.
        least: the smallest that is allowed; None means any number above 0.
        why: the reason for `least`, which follows "less than".
        most: the largest that is allowed, or None.
    """

    whole: bool = False
    least: int | None = None
    why: str = ""
    most: int | None = MOST

    def __call__(self, name: str, value: Any) -> None:
        """Refuse any other value."""
        if self.least == 0:
            if not _is_number(value) or not value >= 0:
                raise wrong(name, f"{value!r} is not a number from 0 on")
        elif not _is_number(value) or not 0 < value < float("inf"):
            unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
            digits = f": write {value}, without quotes" if isinstance(value, str) and value.isdecimal() else ""
            raise wrong(name, f"{value!r} is not a positive number{unit}{digits}")
        if self.most is not None and value > self.most:
            raise wrong(name, f"{value!r} is more than {self.most}")
        if self.least is not None and value < self.least:
            raise wrong(name, f"{value!r} is less than {self.why}, {self.least}")
        # As a float such a number would reach the kernel's interfaces, whose complaints name no argument.
        if self.whole and not isinstance(value, int):
            raise wrong(name, f"{value!r} is not a whole number: write it as an int")


def check_text(name: str, value: Any) -> None:
    """Refuse a value that is not a string, or that the kernel takes for no path, nor for anything else."""
    if not isinstance(value, str):
        raise wrong(name, f"{value!r} is not a string")
    try:
        unusable = b"\0" in os.fsencode(value)
    except UnicodeEncodeError:
        unusable = True
    if unusable:
        raise wrong(name, f"{value!r:.80} has a null character, or half a character")


def json_object(text: str, allowed: str) -> dict[str, Any]:
    """Return the object that a JSON text contains.

    Args:
        text: the text.
        allowed: the objects that are allowed, for the error: "a ruleset such as …".

    Raises:
        ValueError: the text says what is wrong, and what is allowed.
    """
    import json  # noqa: PLC0415 (few options are JSON)

    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}; {allowed} is expected") from None
    except RecursionError:
        raise ValueError(f"JSON of too many levels; {allowed} is expected") from None
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object; {allowed} is expected")
    return found


def check_json(name: str, value: Any, allowed: str) -> dict[str, Any]:
    """Refuse a value that is neither "" nor the text of a JSON object; return the object."""
    check_text(name, value)
    try:
        return json_object(value, allowed) if value else {}
    except ValueError as error:
        raise wrong(name, f"{value!r:.80}: {error}") from None


def check_landlock(name: str, value: Any) -> None:
    """Refuse a value that is neither "" nor a ruleset of the annotation run.pysbx.landlock, as JSON.

    The runtime checks the paths and words in it. The parts to which the package adds paths are checked here.
    """
    allowed = f"a ruleset such as '{RULESET}', or \"\" for that of the package,"
    filesystem = check_json(name, value, allowed).get("filesystem", {})
    if not isinstance(filesystem, dict) or not isinstance(filesystem.get("write", []), list):
        place = "filesystem" if not isinstance(filesystem, dict) else "filesystem.write"
        kind = "an object with lists of paths" if place == "filesystem" else "a list of paths"
        raise wrong(name, f"{place} is not {kind}; {allowed} is expected")


def check_directory(name: str, value: Any) -> None:
    """Refuse a value that is not an absolute path."""
    check_text(name, value)
    if not value.startswith("/"):
        raise wrong(name, f"'{value}' is not an absolute path of the sandbox")


# A mount on one of these would hide what every sandbox needs. One below them is possible.
OWN_DIRECTORIES = ("/", "/.pysbx", "/dev", "/proc")


def check_mounts(name: str, value: Any) -> None:
    """Refuse an item that is not a Mount, or that hides a directory which the sandbox needs."""
    for mount in value:
        if not isinstance(mount, Mount):
            raise wrong(name, f"{mount!r} is not a pysbx.Mount, such as Mount('/srv/data', '/data')")
        if mount.target in OWN_DIRECTORIES:
            raise wrong(name, f"the target '{mount.target}' is the sandbox's own: choose another one, such as '/data'")


def check_modules(name: str, value: Any) -> None:
    """Refuse an item that is not the name of a module."""
    for module in value:
        if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
            raise wrong(name, f"{module!r} is not the name of a module")


def check_patterns(name: str, value: Any) -> None:
    """Refuse an item that is not a pattern of relative paths."""
    for pattern in value:
        check_text(name, pattern)
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise wrong(name, f"'{pattern}' is not a pattern of files of /work, such as '*.csv' or 'results/*'")


def check_urls(name: str, value: Any) -> None:
    """Refuse an item that is not a string such as https://index.example/simple/."""
    for url in value:
        check_text(name, url)
        if not re.match(r"https?://[^/\s]", url) or re.search(r"\s", url):
            raise wrong(name, f"'{url}' is not an http or https URL")


def check_variables(name: str, value: Any) -> None:
    """Refuse an item that is not the name and value of an environment variable."""
    for key, text in value:
        if not isinstance(key, str) or not isinstance(text, str):
            raise wrong(name, f"{key!r}: {text!r} are not two strings")
        if not key or "=" in key or "\0" in key + text:
            raise wrong(name, f"'{key}' cannot be a variable")
        try:
            (key + text).encode()
        except UnicodeEncodeError:
            raise wrong(name, f"{key!r}: {text!r:.80} has bytes that are not UTF-8: pass them in a file") from None
        if key in NOT_THE_CALLERS:
            other = current().options["another"]
            raise wrong(name, f"'{key}' would name another Python than the sandbox's: use {other}")


def listed(name: str, given: object, kind: str) -> tuple[Any, ...]:
    """Return the items of an option that takes several.

    Args:
        name: the option.
        given: the caller's value; None means no items.
        kind: the kind of the items, in the plural.

    Raises:
        SandboxOptionError: the value is one string, whose letters would be taken for the items, or has no items.
    """
    if given is None:
        return ()
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise wrong(name, f"{given!r} is not a list of {kind}")
    return tuple(given)


def list_of(kind: str) -> Keep:
    """Return the conversion of an option that takes several items of a kind, which is in the plural."""
    return lambda name, given: listed(name, given, kind)


def keep_variables(name: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Return environment variables as sorted pairs."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise wrong(name, f"{given!r} is not a mapping of names to strings")
    return tuple(sorted(given.items(), key=lambda item: str(item[0])))


def keep_text(name: str, given: Any) -> Any:
    """Return a string or path as a string, and None as ""."""
    return (os.fspath(given) if isinstance(given, os.PathLike) else given) or ""


def keep_directory(name: str, given: Any) -> Any:
    """Return a path of the sandbox as a string without ".."; any other value is left to check_directory."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    return posixpath.normpath(f"/{text.lstrip('/')}") if isinstance(text, str) and text.startswith("/") else text


def keep_path(name: str, given: Any) -> Any:
    """Return a path of the host as an absolute one, and None as ""."""
    text = keep_text(name, given)
    return absolute_path(text) if text and isinstance(text, str) else text


def parse_mount(text: str) -> Mount:
    """Return the mount for SOURCE[:TARGET[:rw]].

    Raises:
        argparse.ArgumentTypeError: the text has another form, or a path is not absolute.
    """
    from argparse import ArgumentTypeError  # noqa: PLC0415 (only the command line calls this)

    source, *rest = text.split(":")
    if len(rest) > 2 or rest[1:] not in ([], ["ro"], ["rw"]):
        raise ArgumentTypeError(f"'{text}' is not SOURCE[:TARGET[:ro|:rw]]")
    try:
        return Mount(source, rest[0] if rest else "", readonly=rest[1:] != ["rw"])
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def parse_variable(text: str) -> tuple[str, str]:
    """Return the variable for NAME=VALUE.

    Raises:
        argparse.ArgumentTypeError: the text has another form.
    """
    from argparse import ArgumentTypeError  # noqa: PLC0415 (only the command line calls this)

    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value
