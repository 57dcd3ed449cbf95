"""From the options of a sandbox to its bundle: interpreter, packages, configuration."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pysbx.base.directories import in_directory, run_directory
from pysbx.container import bundle, interpreter, payload
from pysbx.container.interpreter import Interpreter
from pysbx.options.declaration import wrong
from pysbx.options.mount import Mount
from pysbx.options.options import Options
from pysbx.packages.progress import installing

MOST_PREPARED = 256
_used: dict[Options, bundle.Bundle] = {}


def interpreter_of(options: Options) -> Interpreter:
    """Return the interpreter that the options name."""
    if options.virtualenv:
        return interpreter.virtualenv_interpreter(options.virtualenv)
    if options.rootfs:
        return interpreter.rootfs_interpreter(options.rootfs)
    if options.image:
        from pysbx.packages import images  # noqa: PLC0415 (few sandboxes are made of one)

        path, variables = images.rootfs_of(options.image)
        return interpreter.rootfs_interpreter(path, f"image '{options.image}'", variables)
    return interpreter.host_interpreter()


def _bundle(
    options: Options, found: Interpreter, extra: tuple[Mount, ...] = (), paths: tuple[str, ...] = ()
) -> bundle.Bundle:
    """Return the bundle of a container or, with isolation="process", of a process; the arguments are those of both."""
    with in_directory(run_directory()):
        if options.isolation == "process":
            from pysbx.container import isolation  # noqa: PLC0415 (few sandboxes are such)

            return isolation.prepare(options, found, extra, paths)
        return bundle.prepare(options, found, extra, paths)


@lru_cache(maxsize=MOST_PREPARED)
def _prepared(options: Options) -> tuple[bundle.Bundle, tuple[Mount, ...]]:
    for name, path in (("reference", options.reference), ("config_dir", options.config_dir)):
        if path and Path(path).exists() and not Path(path).is_dir():
            raise wrong(name, f"'{path}' is not a directory")
    found = interpreter_of(options)
    if not options.dependencies:
        return _bundle(options, found), ()
    if options.wheels and not Path(options.wheels).is_dir():
        raise wrong("wheels", f"'{options.wheels}' is not a directory")
    bundle.check_sources(options.mounts)  # an installation may take minutes
    from pysbx.packages import dependencies  # noqa: PLC0415 (most sandboxes have none)

    wanted = dependencies.Wanted(
        options.dependencies, options.index_url, options.wheels, options.extra_index_urls, options.installer
    )
    with installing(", ".join(options.dependencies)) as progress:
        site = dependencies.ensure(wanted, found, fresh=options.disable_cache, progress=progress)
    if not options.preload:
        options = replace(options, preload=dependencies.modules(site, wanted))
    extra = (Mount(str(site), dependencies.TARGET),)
    return _bundle(options, found, extra, (dependencies.TARGET,)), extra


def site_of(options: Options) -> Path:
    """Return the directory with the installed dependencies of options that have some. It is created once."""
    return Path(_prepared(options)[1][0].source)


def prepared(options: Options) -> bundle.Bundle | None:
    """Return the bundle that an earlier call has used; another program may have removed it since."""
    return _used.get(options)


def prepare(options: Options) -> bundle.Bundle:
    """Return the bundle for these options. It is created once, and again if another program has removed it."""
    made, extra = _prepared(options)
    sources = (mount.source for mount in (*extra, *options.mounts))
    contained = options.isolation != "process"
    root = (f"{made.path}/rootfs",) if contained else ()
    needed = (f"{made.path}/config.json", *root, payload.directory(lasting=contained), *sources)
    if not all(map(os.path.exists, needed)):
        _prepared.cache_clear()
        payload.directory.cache_clear()
        made, extra = _prepared(options)
    if len(_used) >= MOST_PREPARED:
        _used.clear()
    _used[options] = made
    return made
