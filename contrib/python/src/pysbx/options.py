"""All that a caller says about a sandbox, and the way from there to a bundle."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pysbx import bundle, interpreter, payload, profiles
from pysbx.interpreter import Interpreter, Mount
from pysbx.policy import Policy, make_policy
from pysbx.profiles import Profile
from pysbx.progress import installing

PATHS = frozenset({"virtualenv", "rootfs", "wheels"})
TEXTS = PATHS | {"index_url", "image", "profile"}


@dataclass(frozen=True)
class Options:
    """What to run in: see Policy for the limits.

    Attributes:
        policy: limits and surroundings.
        dependencies: requirements to be installed, as in a requirements file, with hashes if wanted.
        index_url: of the index they come from; by default the one that pip is configured to use.
        wheels: directory of wheels that they come from, instead of an index.
        disable_cache: install them anew for this program.
        virtualenv: directory of a virtualenv or conda environment whose Python and packages are used. Its pyvenv.cfg is
            read, its Python is not run on the host.
        rootfs: directory of a root file system whose Python is used.
        image: name of an image whose Python is used; Podman fetches it.
        profile: name or path of a profile: its limits hold where nothing else is said.
        analysis: the stages of the static analysis, as JSON; a profile brings it.
    """

    policy: Policy = field(default_factory=Policy)
    dependencies: tuple[str, ...] = ()
    index_url: str = ""
    wheels: str = ""
    disable_cache: bool = False
    virtualenv: str = ""
    rootfs: str = ""
    image: str = ""
    profile: str = ""
    analysis: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no text, and two roots at once."""
        for name in sorted(TEXTS):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a text")
        if sum(map(bool, (self.virtualenv, self.rootfs, self.image))) > 1:
            raise ValueError("virtualenv, rootfs and image exclude each other")

    def interpreter(self) -> Interpreter:
        """Return the interpreter that is meant."""
        if self.virtualenv:
            return interpreter.virtualenv_interpreter(self.virtualenv)
        if self.rootfs:
            return interpreter.rootfs_interpreter(self.rootfs)
        if self.image:
            from pysbx import images  # noqa: PLC0415 (few sandboxes are made of one)

            return interpreter.rootfs_interpreter(images.rootfs_of(self.image))
        return interpreter.host_interpreter()


def _with_profile(base: Options, profile: Profile) -> Options:
    changes = {**profile.limits, "preload": profile.preload, "seccomp": profile.seccomp, "landlock": profile.landlock}
    try:
        policy = make_policy(base.policy, **changes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"profile '{profile.name}': limits: {error}") from error
    return replace(base, policy=policy, analysis=profile.analysis)


# What a caller may say: fields of Options, and what make_policy takes.
OWN = frozenset(item.name for item in fields(Options)) - {"policy"}
ACCEPTED = OWN | {item.name for item in fields(Policy)} | {"allow_network"}
# What the package itself says is not for callers.
SHOWN = sorted(ACCEPTED - {"analysis", "network", "private_hosts", "session"})


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in ACCEPTED:
            from pysbx import hints  # noqa: PLC0415 (for an error only)

            advice = hints.closest(name, SHOWN)
            raise TypeError(f"'{name}' is not an option of a sandbox: {advice or 'there are'} {', '.join(SHOWN)}")


def _normalise_all(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return requirements in their normal form; without any, nothing is imported that installs them."""
    if not requirements:
        return ()
    from pysbx import dependencies  # noqa: PLC0415 (most sandboxes have none)

    return dependencies.normalise_all(requirements)


def make_options(base: Options | None = None, **given: Any) -> Options:
    """Return options from keyword arguments: the fields of Options, and those make_policy takes.

    Raises:
        TypeError: an argument is none of these.
        ValueError: a value cannot be meant.
    """
    _refuse_unknown(given)
    base = base or Options()
    if given.get("profile"):
        base = _with_profile(base, profiles.load(str(given["profile"])))
    mine: dict[str, Any] = {name: given.pop(name) for name in tuple(given) if name in OWN}
    for name in TEXTS & mine.keys():
        if isinstance(mine[name], os.PathLike):
            mine[name] = os.fspath(mine[name])
        mine[name] = mine[name] or ""
        if name in PATHS and mine[name] and isinstance(mine[name], str):
            mine[name] = str(Path(mine[name]).absolute())
    if "dependencies" in mine:
        mine["dependencies"] = _normalise_all(mine["dependencies"] or ())
    kept = {name: getattr(base, name) for name in OWN}
    return Options(policy=make_policy(base.policy, **given), **{**kept, **mine})


@lru_cache(maxsize=256)
def _prepared(options: Options) -> tuple[bundle.Bundle, tuple[Mount, ...]]:
    found, policy = options.interpreter(), options.policy
    if not options.dependencies:
        return bundle.prepare(policy, found), ()
    if options.wheels and not Path(options.wheels).is_dir():
        raise ValueError(f"wheels: '{options.wheels}' is not a directory")
    from pysbx import dependencies  # noqa: PLC0415 (most sandboxes have none)

    wanted = dependencies.Wanted(options.dependencies, options.index_url, options.wheels)
    with installing(", ".join(options.dependencies)) as progress:
        site = dependencies.ensure(wanted, found, fresh=options.disable_cache, progress=progress)
    if not policy.preload:
        policy = replace(policy, preload=dependencies.modules(site, wanted))
    extra = (Mount(str(site), dependencies.TARGET),)
    return bundle.prepare(policy, found, extra, (dependencies.TARGET,)), extra


def prepare(options: Options) -> bundle.Bundle:
    """Return the bundle for these options; made once, and again if somebody has cleaned up."""
    made, extra = _prepared(options)
    sources = (Path(mount.source) for mount in (*extra, *options.policy.mounts))
    needed = (made.path / "config.json", payload.directory(), *sources)
    if not all(path.exists() for path in needed):
        _prepared.cache_clear()
        payload.directory.cache_clear()
        made, extra = _prepared(options)
    return made
