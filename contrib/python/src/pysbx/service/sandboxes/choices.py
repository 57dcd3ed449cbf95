"""The choice that a server's administrator gives to callers: limits up to the server's own, profiles, packages.

Everything else about a sandbox, such as network and mounts, is the administrator's alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pysbx.base.option_names import normal_name
from pysbx.errors import SandboxOptionError
from pysbx.options import profiles
from pysbx.options.declaration import MIB
from pysbx.options.keywords import OPTIONS
from pysbx.options.options import Options, values_of
from pysbx.options.requirements import name_of, normalise
from pysbx.service.connections.problems import REQUEST, Problem, meant

LIMITS = tuple(name for name, declared in OPTIONS.items() if declared.option.offered)
# A profile or packages change these. All else, such as network and mounts, stays the server's.
CHOSEN = ("profile", "dependencies", "preload", "landlock", "seccomp", "analysis", "violations")
# Each set of limits makes a bundle on disk, and perhaps a snapshot. Callers must not be able to make any number.
MAX_VARIETY = 512


def _refused(detail: str) -> Problem:
    return Problem(REQUEST, detail)


def _not_offered(member: str, name: str, offered: Iterable[str], more: str = "") -> Problem:
    choice = ", ".join(offered)
    return _refused(
        f"{member}: '{name}' is not " + (f"one of: {choice}" if choice else "there: this server offers none") + more
    )


class Choices:
    """The limits, profiles and packages that callers may choose."""

    def __init__(
        self, base: Options, allowed_profiles: Iterable[str], packages: Iterable[str], artifact_mb: int
    ) -> None:
        """Prepare an offer.

        Args:
            base: the sandbox of a caller that asks for nothing. No caller gets more than its limits.
            allowed_profiles: names of profiles to choose from. There are no others: the first use of a profile with
                packages installs them, and the limits of the call do not hold for that.
            packages: requirements that callers may ask for by name.
            artifact_mb: MiB that the artifacts of a run have at most, and a file of a session.

        Raises:
            ValueError: there is no such profile, or a requirement is malformed.
        """
        # Of an answer, half may be artifacts: see run_request.
        self.base = replace(base, answer_limit=2 * artifact_mb * MIB)
        self.profiles = {name: profiles.load(name) for name in allowed_profiles}
        self.packages: dict[str, str] = {}
        for given in packages:
            try:
                requirement = normalise(given)
            except SandboxOptionError as error:
                raise ValueError(f"--allow-package: {str(error).partition(': ')[2]}") from error
            if not name_of(requirement):
                raise ValueError(f"--allow-package: '{requirement}' is a path, and callers ask for packages by name")
            self.packages[name_of(requirement)] = requirement
        self._seen: set[tuple[Any, ...]] = set()
        self._lock = threading.Lock()

    def options(
        self,
        profile: str | None = None,
        packages: Sequence[str] = (),
        limits: Mapping[str, Any] | None = None,
        *,
        simple: bool = False,
    ) -> Options:
        """Return the sandbox that a caller gets.

        Args:
            profile: one of those that are offered; its limits are cut to the server's.
            packages: names of those that are offered.
            limits: of LIMITS, those that the caller has named.
            simple: for the interface of simple_api, whose profile need not be on offer, and which names one violation.

        Raises:
            Problem: that is not on offer; the text says what is.
        """
        chosen: dict[str, Any] = {}
        if profile is not None:
            if profile not in self.profiles and not simple:
                raise _not_offered("profile", profile, self.profiles)
            chosen["profile"] = profile
        if wanted := self._requirements(profile, packages):
            chosen["dependencies"] = [*self.base.dependencies, *wanted]
        given = {name: value for name, value in (limits or {}).items() if value is not None}
        for name, value in given.items():
            if value > (most := getattr(self.base, name)):
                raise _refused(f"{name}: {value} is more than this server allows, {most}")
        with meant():
            values = self._cut(values_of(self.base, chosen | given))
        return self._counted(values | {"violations": "first"} if simple else values)

    def _requirements(self, profile: str | None, names: Sequence[str]) -> list[str]:
        """Return the requirements that packages mean, without those that the sandbox has anyway."""
        if not names:
            return []
        own = self.profiles[profile].dependencies if profile in self.profiles else ()
        there = {name_of(one) for one in (*self.base.dependencies, *map(normalise, own))} - {""}
        wanted = []
        for name in names:
            found = self.packages.get(normal_name(name))
            if found is not None:
                wanted.append(found)
            elif normal_name(name) not in there:
                raise _not_offered("packages", name, self.packages, " (what the Python has itself needs no entry)")
        return wanted

    def _cut(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the server's own options, with what a caller's choice may change of them."""
        own = vars(self.base)
        return own | {name: min(wanted[name], own[name]) for name in LIMITS} | {name: wanted[name] for name in CHOSEN}

    def _counted(self, values: dict[str, Any]) -> Options:
        # These two are not in a bundle, or only as whole seconds.
        kind = tuple((values | {"timeout_sec": math.ceil(values["timeout_sec"]), "output_limit": 0}).values())
        with self._lock:
            if kind not in self._seen and len(self._seen) >= MAX_VARIETY:
                raise _refused(
                    f"limits: this server has been asked for {MAX_VARIETY} different sets of them, and makes no more: "
                    "leave them out, or use round numbers that were used before"
                )
            self._seen.add(kind)
        return Options(**values)

    def limits(self, profile: str | None = None) -> dict[str, int | float]:
        """Return the limits of a caller that names none, by name."""
        values = vars(self.base) if profile is None else self._cut(values_of(self.base, {"profile": profile}))
        return {name: values[name] for name in LIMITS}
