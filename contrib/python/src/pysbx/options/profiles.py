"""Profiles: named sets of limits and rules, from config/profiles, or from a file of the caller's.

A profile is a JSON or YAML object. "extends" names another, whose lists are lengthened and whose other values are
replaced.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pysbx.base import trees
from pysbx.errors import SandboxOptionError, with_extra
from pysbx.options.declaration import json_object

Json = dict[str, Any]

STAGES = ("imports", "calls", "attributes", "patterns")
WORDS = ("enforce", "observe", "off")
# The list of each stage.
LISTS = {"imports": "allowed", "calls": "blocked", "attributes": "blocked", "patterns": "rules"}
# How many violations are reported of code that is refused.
REPORTED = ("all", "first")
PATTERNS = ("secret", "sql", "weak-hash", "deserialization", "path-traversal")
SHIPPED = Path(__file__).parents[1] / "profiles"
# Of a file, which may be a stranger's.
MAX_BYTES = 1 << 20
KEYS = frozenset(
    {
        *("description", "dependencies", "extends", "isolated", "landlock", "limits", "preload", "seccomp"),
        *("violations", *STAGES),
    }
)
YAML = (".yaml", ".yml")
SUFFIXES = (".json", *YAML)
SECCOMP = "seccomp"
# Keys with several values, and what they have to be.
GIVEN: dict[str, type] = {"limits": dict, "isolated": bool, "preload": list, "dependencies": list}
KINDS = {dict: "an object", list: "a list", bool: "true or false"}
# The content that a file has to have, for errors.
ALLOWED = {
    "profile": "an object with keys of a profile, such as extends and limits,",
    "seccomp": "an object with 'allow', a list of names of system calls,",
}


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile, complete. load returns the same object each time.

    Attributes:
        name: its name, or the path of its file.
        description: what it is for, in a sentence.
        limits: options of a sandbox by name.
        isolated: whether the interpreter is started as `python3 -I`.
        preload: modules that a prewarmed interpreter has imported already.
        dependencies: requirements that are installed for it.
        analysis: the stages of the static analysis, as JSON: what the sandbox is sent.
        violations: "all" that the analysis finds, or the "first" of code that is refused.
        seccomp: name of the list of system calls.
        landlock: the ruleset for the runtime, as JSON, or "".
    """

    name: str
    description: str
    limits: Json
    isolated: bool
    preload: tuple[str, ...]
    dependencies: tuple[str, ...]
    analysis: str
    violations: str
    seccomp: str
    landlock: str


def names() -> list[str]:
    """Return the names of the profiles that come with the package."""
    found = (entry.name for entry in SHIPPED.iterdir())
    return sorted(name.removesuffix(".json") for name in found if name.endswith(".json") and name != f"{SECCOMP}.json")


def _wrong(option: str, name: str, reason: str) -> SandboxOptionError:
    """Return the error about a file that an option names."""
    return SandboxOptionError(f"{option} '{name}': {reason}", option)


def _yaml_object(text: str, allowed: str) -> Json:
    """Return the object that a YAML text contains; see json_object."""
    try:
        import yaml  # noqa: PLC0415 (what an extra of the package brings)
    except ModuleNotFoundError:
        raise ValueError(f"the package 'yaml' is missing: {with_extra('yaml')}, or write JSON") from None

    class Loader(yaml.SafeLoader):
        """Reads `off` as a word, as YAML 1.2 does."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, words) for tag, words in found if tag != "tag:yaml.org,2002:bool"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))
    try:
        found = yaml.load(text, Loader)
    except RecursionError:
        raise ValueError(f"YAML of too many levels; {allowed} is expected") from None
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}; {allowed} is expected") from None
    # Dates and other values that JSON does not have are no part of a profile.
    try:
        return json_object(json.dumps(found), allowed)
    except TypeError as error:
        raise ValueError(f"not a value of JSON: {error}; {allowed} is expected") from None


def _read(option: str, name: str, base: Path | None = None) -> tuple[Json, Path | None]:
    """Read the file that an option names: one that comes with the package, or a path.

    Args:
        option: "profile" or "seccomp".
        name: the name or path.
        base: the directory of the file that extends this one, to which the path is relative.

    Returns:
        The content, and the directory of the file; None if it comes with the package.
    """
    shipped = SHIPPED / f"{name}.json"
    if "/" not in name and "\0" not in name and shipped.is_file():
        path, folder = shipped, None
    elif name.endswith(SUFFIXES):
        path = (base / name if base else Path(name)).absolute()
        folder = path.parent
    else:
        there = names() if option == "profile" else [SECCOMP]
        raise _wrong(option, name, f"not one of {', '.join(there)}, nor a path that ends in {', '.join(SUFFIXES)}")
    try:
        read = _yaml_object if path.name.endswith(YAML) else json_object
        return read(trees.read_path(path, MAX_BYTES).decode("utf-8"), ALLOWED[option]), folder
    except OSError as error:
        raise _wrong(option, str(path), error.strerror or str(error)) from error
    except ValueError as error:  # also of a name that no file can have, and of bytes that are not UTF-8
        raise _wrong(option, name, str(error)) from error


def _join(below: Json, above: Json) -> Json:
    joined = {**below}
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and key != "landlock":
            joined[key] = _join(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            joined[key] = [*old, *(item for item in value if item not in old)]
        else:
            joined[key] = value
    return joined


def _complete(name: str, base: Path | None = None, seen: tuple[str, ...] = ()) -> Json:
    if name in seen:
        raise _wrong("profile", name, f"extends itself: {' > '.join(seen)}")
    content, folder = _read("profile", name, base)
    if unknown := sorted(set(content) - KEYS):
        raise _wrong("profile", name, f"'{unknown[0]}' is not a key of a profile: {', '.join(sorted(KEYS))}")
    if "extends" in content:
        below = content.pop("extends")
        if not isinstance(below, str):
            raise _wrong("profile", name, f"extends: {below!r} is not the name or path of a profile")
        content = _join(_complete(below, folder, (*seen, name)), content)
    return content


def _check_stage(profile: str, stage: str, rules: Any) -> Json:
    if not isinstance(rules, dict) or set(rules) - {"stage", LISTS[stage]}:
        raise _wrong("profile", profile, f"{stage}: an object with 'stage' and '{LISTS[stage]}' is expected")
    if rules.get("stage") not in WORDS:
        raise _wrong("profile", profile, f"{stage}.stage: {rules.get('stage')!r} is not one of {', '.join(WORDS)}")
    items = rules.get(LISTS[stage], [])
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise _wrong("profile", profile, f"{stage}.{LISTS[stage]}: a list of strings is expected")
    if stage == "patterns" and set(items) - set(PATTERNS):
        raise _wrong("profile", profile, f"{stage}.rules: each must be one of {', '.join(PATTERNS)}")
    return {"stage": rules["stage"], LISTS[stage]: items}


@cache
def load(name: str) -> Profile:
    """Return a profile.

    Args:
        name: of one that comes with the package, or the path of a file that ends in one of SUFFIXES.

    Raises:
        SandboxOptionError: there is none, or it is not well-formed; the text names the place.
    """
    content = _complete(name)
    stages = {stage: _check_stage(name, stage, content[stage]) for stage in STAGES if stage in content}
    limits, isolated, preload, dependencies = (content.get(key, kind()) for key, kind in GIVEN.items())
    for key, kind in GIVEN.items():
        if not isinstance(content.get(key, kind()), kind):
            raise _wrong("profile", name, f"{key}: {KINDS[kind]} is expected")
    violations = content.get("violations", REPORTED[0])
    if violations not in REPORTED:
        raise _wrong("profile", name, f"violations: {violations!r} is not one of {', '.join(REPORTED)}")
    landlock = content.get("landlock")
    return Profile(
        name,
        str(content.get("description", "")),
        limits,
        isolated,
        tuple(preload),
        tuple(dependencies),
        json.dumps(stages) if stages else "",
        violations,
        str(content.get("seccomp", SECCOMP)),
        json.dumps(landlock) if landlock else "",
    )


@cache
def allowed_calls(name: str = SECCOMP) -> tuple[str, ...]:
    """Return the system calls that a sandbox may make without a condition.

    Args:
        name: of the list that comes with the package, or the path of a file that ends in one of SUFFIXES.

    Raises:
        SandboxOptionError: there is none, or it is not well-formed.
    """
    allowed = _read("seccomp", name)[0].get("allow")
    if not isinstance(allowed, list) or not all(isinstance(call, str) for call in allowed):
        raise _wrong("seccomp", name, "'allow' has to be a list of names of system calls")
    return tuple(allowed)
