"""The options of a sandbox as they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pysbx.errors import SandboxOptionError
from pysbx.options import configuration, profiles
from pysbx.options.declaration import check_json, wrong
from pysbx.options.keywords import OPTIONS, default
from pysbx.options.mount import Mount
from pysbx.options.policy import Policy, make_policy
from pysbx.options.profiles import Profile

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


@dataclass(frozen=True)
class Options:
    """The sandbox to run in; policy has its limits.

    Attributes:
        policy: limits and surroundings.
        dependencies: requirements to be installed, as in a requirements file, with hashes if wanted.
        index_url: of the index they come from; by default the one that pip is configured to use.
        extra_index_urls: of further indexes.
        wheels: directory of wheels that they come from, instead of an index.
        installer: "pip" or "uv".
        disable_cache: install them anew for this program.
        virtualenv: directory of a virtualenv or conda environment whose Python and packages are used. Its pyvenv.cfg is
            read, its Python is not run on the host.
        rootfs: directory of a root file system whose Python is used.
        image: name of an image whose Python is used; Podman fetches it.
        profile: name or path of a profile: its limits hold where nothing else is said.
        collect: patterns of files of /work that are returned with those of /output.
        reference: directory of the host that is read-only at /reference.
        config_dir: directory of the host where programs keep their settings from one sandbox to the next.
        notebook: whether code may await at its top level, and have lines that begin with % and !.
        analysis: the stages of the static analysis, as JSON; a profile brings it.
        violations: "all" that the analysis finds, or the "first" of code that is refused; a profile says which.
    """

    policy: Policy = field(default_factory=Policy)
    dependencies: tuple[str, ...] = default("dependencies")
    index_url: str = default("index_url")
    extra_index_urls: tuple[str, ...] = default("extra_index_urls")
    wheels: str = default("wheels")
    installer: str = default("installer")
    disable_cache: bool = default("disable_cache")
    virtualenv: str = default("virtualenv")
    rootfs: str = default("rootfs")
    image: str = default("image")
    profile: str = default("profile")
    collect: tuple[str, ...] = default("collect")
    reference: str = default("reference")
    config_dir: str = default("config_dir")
    notebook: bool = default("notebook")
    analysis: str = ""
    violations: str = profiles.REPORTED[0]

    def __post_init__(self) -> None:
        """Refuse values that are not allowed, and two roots at once."""
        for declared in DECLARED.values():
            declared.check(getattr(self, declared.field))
        check_json("analysis", self.analysis, f"an object with the stages {', '.join(profiles.STAGES)}")
        if sum(map(bool, (self.virtualenv, self.rootfs, self.image))) > 1:
            raise SandboxOptionError("virtualenv, rootfs and image exclude each other", "virtualenv")
        if self.policy.isolation == "process":
            for name in ("rootfs", "image", "dependencies"):
                if getattr(self, name):
                    reason = f"needs isolation='container': a process has the root of its caller{NOT_INSTALLED[name]}"
                    raise wrong(name, reason)


def _with_profile(base: Options, profile: Profile) -> Options:
    changes = {**profile.limits, "preload": profile.preload, "seccomp": profile.seccomp, "landlock": profile.landlock}
    try:
        policy = replace(make_policy(base.policy, **changes), isolated=profile.isolated)
    except (TypeError, ValueError) as error:
        raise SandboxOptionError(f"profile '{profile.name}': limits: {error}", "profile") from error
    return replace(base, policy=policy, analysis=profile.analysis, violations=profile.violations)


def _with_its_dependencies(options: Options, profile: Profile) -> Options:
    """Return options with the dependencies of a profile, except for packages that the options name themselves.

    A virtualenv, root or image has packages of its own, and the profile's could be others.
    """
    if not profile.dependencies or options.virtualenv or options.rootfs or options.image:
        return options
    from pysbx.options import requirements  # noqa: PLC0415 (most sandboxes have none)

    try:
        wanted = requirements.normalise_all(profile.dependencies)
    except ValueError as error:
        raise SandboxOptionError(f"profile '{profile.name}': {error}", "profile") from error
    named = set(map(requirements.name_of, options.dependencies))
    missing = [requirement for requirement in wanted if requirements.name_of(requirement) not in named]
    return replace(options, dependencies=tuple(sorted((*options.dependencies, *missing))))


def _with_directories(options: Options) -> Options:
    """Return options whose policy has the mounts and variables of the directories that they name."""
    policy, named = options.policy, []
    if options.reference:
        named.append(Mount(options.reference, REFERENCE))
    if options.config_dir:
        named.append(Mount(options.config_dir, CONFIG, readonly=False))
        policy = replace(policy, env=tuple((SETTINGS | dict(policy.env)).items()))
    targets = {mount.target for mount in named}
    others = [mount for mount in policy.mounts if mount.target not in targets]
    return replace(options, policy=replace(policy, mounts=(*others, *named))) if named else options


# The fields of Options itself, and the declarations of those that callers may give.
OWN = frozenset(item.name for item in fields(Options)) - {"policy"}
DECLARED = {name: declared for name, declared in OPTIONS.items() if declared.field in OWN}
SHOWN = sorted(OPTIONS)


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in OPTIONS:
            from pysbx.options import hints  # noqa: PLC0415 (for an error only)

            meant = {declared.field: declared.name for declared in OPTIONS.values()}.get(name, "")
            advice = f"did you mean '{meant}'?" if meant else hints.closest(name, SHOWN)
            raise TypeError(f"'{name}' is not an option of a sandbox: {advice or 'there are'} {', '.join(SHOWN)}")


def _with_defaults(given: dict[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Return the options that the user has configured, and the caller's with the configured profile."""
    configured = configuration.defaults()
    if "profile" in configured:
        given = {"profile": configured.pop("profile"), **given}
    own = {name: DECLARED[name].keep(configured.pop(name)) for name in tuple(configured) if name in DECLARED}
    return Options(policy=make_policy(**configured), **own), given


def make_options(base: Options | None = None, **given: Any) -> Options:
    """Return options from keyword arguments: those of SandboxOptions, and no others.

    The fields of Options and Policy that only the package sets, such as session, are not among them. Without a base,
    the user's configuration gives the defaults.

    Raises:
        TypeError: there is no such option.
        SandboxOptionError: a value is not allowed.
    """
    _refuse_unknown(given)
    if base is None:
        base, given = _with_defaults(given)
    profile = profiles.load(str(given["profile"])) if given.get("profile") else None
    if profile is not None:
        base = _with_profile(base, profile)
    kept = {name: DECLARED[name].keep(given.pop(name)) for name in tuple(given) if name in DECLARED}
    made = _with_directories(replace(base, policy=make_policy(base.policy, **given), **kept))
    return made if profile is None else _with_its_dependencies(made, profile)
