"""From what callers give, profiles and configuration to one value: see make_options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pysbx.errors import SandboxOptionError
from pysbx.options import configuration
from pysbx.options.declaration import wrong
from pysbx.options.keywords import OPTIONS, Options
from pysbx.options.mount import Mount

if TYPE_CHECKING:
    from pysbx.options.profiles import Profile

__all__ = ["Options", "make_options"]

# The remedy for options that isolation="process" does not have.
BESIDE = "; virtualenv names installed packages"
NOT_INSTALLED = {"rootfs": BESIDE, "image": BESIDE, "dependencies": f", and pip is run in a container{BESIDE}"}
# Where the sandbox has the directories that options name, and the variables by which programs find their settings.
REFERENCE, CONFIG = "/reference", "/config"
SETTINGS = {
    "XDG_CONFIG_HOME": CONFIG,
    "MPLCONFIGDIR": f"{CONFIG}/matplotlib",
    "MATPLOTLIBRC": f"{CONFIG}/matplotlib/matplotlibrc",  # that of the bundle would take precedence
    "IPYTHONDIR": f"{CONFIG}/ipython",
    "JUPYTER_CONFIG_DIR": f"{CONFIG}/jupyter",
}
BUILT_IN = Options()
ROOTS = ("virtualenv", "rootfs", "image")
SHOWN = sorted(OPTIONS)
LIMITS = sorted(name for name, declared in OPTIONS.items() if declared.option.of_profile)


def _kept(name: str, given: Any) -> Any:
    """Return what a caller has given for an option, in the form in which it is kept."""
    value = OPTIONS[name].keep(given)
    OPTIONS[name].check(value)
    return value


@cache
def _of_profile(profile: Profile) -> Mapping[str, Any]:
    """Return what a profile sets besides dependencies, by field of Options."""
    own = {"preload": profile.preload, "seccomp": profile.seccomp, "landlock": profile.landlock}
    unset = {one: value for one, value in own.items() if value == OPTIONS[one].option.default}
    limits = {**profile.limits, **own}
    try:
        for one in limits:
            if one not in LIMITS:
                raise TypeError(f"'{one}' is not a limit of a sandbox: there are {', '.join(LIMITS)}")
        found = unset | {one: _kept(one, value) for one, value in limits.items() if one not in unset}
    except (TypeError, ValueError) as error:
        raise SandboxOptionError(f"profile '{profile.name}': limits: {error}", "profile") from error
    return found | {"isolated": profile.isolated, "analysis": profile.analysis, "violations": profile.violations}


def _dependencies(values: Mapping[str, Any], profile: Profile) -> tuple[str, ...]:
    """Return dependencies with those of a profile, except for packages that the caller names.

    A virtualenv, root or image has packages of its own, and the profile's could be others.
    """
    own: tuple[str, ...] = values["dependencies"]
    if not profile.dependencies or any(values[root] for root in ROOTS):
        return own
    from pysbx.options import requirements  # noqa: PLC0415 (most sandboxes have none)

    try:
        wanted = requirements.normalise_all(profile.dependencies)
    except ValueError as error:
        raise SandboxOptionError(f"profile '{profile.name}': {error}", "profile") from error
    named = set(map(requirements.name_of, own))
    missing = [requirement for requirement in wanted if requirements.name_of(requirement) not in named]
    return tuple(sorted((*own, *missing)))


def _with_directories(values: dict[str, Any]) -> dict[str, Any]:
    """Return values whose mounts and variables have the directories that they name."""
    named = []
    if values["reference"]:
        named.append(Mount(values["reference"], REFERENCE))
    if values["config_dir"]:
        named.append(Mount(values["config_dir"], CONFIG, readonly=False))
        values = {**values, "env": tuple((SETTINGS | dict(values["env"])).items())}
    targets = {mount.target for mount in named}
    return {**values, "mounts": (*(mount for mount in values["mounts"] if mount.target not in targets), *named)}


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    """Refuse two roots at once, and what isolation="process" does not have."""
    if sum(bool(values[root]) for root in ROOTS) > 1:
        raise SandboxOptionError("virtualenv, rootfs and image exclude each other", "virtualenv")
    if values["isolation"] == "process":
        for name, advice in NOT_INSTALLED.items():
            if values[name]:
                raise wrong(name, f"needs isolation='container': a process has the root of its caller{advice}")
    if values["secrets"]:
        from pysbx.options.secrets import check_covered  # noqa: PLC0415 (most sandboxes have none)

        check_covered(values["allow_network"], values["secrets"])


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in OPTIONS:
            from pysbx.options import hints  # noqa: PLC0415 (for an error only)

            advice = hints.closest(name, SHOWN) or "there are"
            raise TypeError(f"'{name}' is not an option of a sandbox: {advice} {', '.join(SHOWN)}")


def make_options(base: Options | None = None, **given: Any) -> Options:
    """Return options from keyword arguments: those of SandboxOptions, and no others; see values_of."""
    return base if base is not None and not given else Options(**values_of(base, given))


def values_of(base: Options | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of Options from keyword arguments.

    Each value that the caller gives is checked here, once. All others have been checked before. Without a base, the
    user's configuration gives the defaults.

    Raises:
        TypeError: there is no such option.
        SandboxOptionError: a value is not allowed.
    """
    _refuse_unknown(given)
    values = dict(vars(base or BUILT_IN))
    if base is None:
        configured = configuration.defaults()
        if "profile" in configured:
            given = {"profile": configured.pop("profile"), **given}
        values |= {name: OPTIONS[name].keep(value) for name, value in configured.items()}
    profile = None
    if given.get("profile"):
        from pysbx.options import profiles  # noqa: PLC0415 (many sandboxes have none)

        profile = profiles.load(str(given["profile"]))
        values |= _of_profile(profile)
    values = _with_directories(values | {name: _kept(name, value) for name, value in given.items()})
    if profile is not None:
        values["dependencies"] = _dependencies(values, profile)
    _refuse_contradictions(values)
    return values
