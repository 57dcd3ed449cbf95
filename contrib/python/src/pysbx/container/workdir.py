"""Whether the directory exists where code starts, so that a missing one is the caller's refusal.

The runtime makes a missing one if it may, as engines expect. That depends on the user that calls, and the new directory
may be one of the host, in a mount.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from pysbx.options.declaration import wrong

# As the kernel has it: path_resolution(7).
MAX_LINKS = 40
TOP = PurePosixPath("/")


def check(workdir: str, root: str, mounts: Iterable[dict[str, Any]]) -> None:
    """Refuse a directory that does not exist in the sandbox.

    Args:
        workdir: absolute, without "..".
        root: the directory of the host that is the root of the sandbox.
        mounts: those of the OCI configuration.

    Raises:
        SandboxOptionError: there is no such directory.
    """
    places = {TOP: {"type": "bind", "source": root}, **{PurePosixPath(one["destination"]): one for one in mounts}}
    path: PurePosixPath | None = PurePosixPath(workdir)
    for _ in range(MAX_LINKS):
        if path is None:
            return
        if any(place.is_relative_to(path) for place, mount in places.items() if _is_directory(mount)):
            return
        above = next(place for place in (path, *path.parents) if place in places)
        mount = places[above]
        if mount["type"] == "tmpfs":
            break
        if mount["type"] != "bind":
            return
        found, path = _follow(mount["source"], above, path)
        if not found:
            break
    raise wrong("workdir", f"'{workdir}' is not a directory in the sandbox")


def _is_directory(mount: dict[str, Any]) -> bool:
    return mount["type"] != "bind" or os.path.isdir(mount["source"])


def _follow(source: str, above: PurePosixPath, path: PurePosixPath) -> tuple[bool, PurePosixPath | None]:
    """Look for a directory of a mount on the host.

    Returns:
        Whether it may exist, and the path in the sandbox to which a link leads.
    """
    rest = path.relative_to(above)
    parts = [rest, *rest.parents]  # the last is "."
    for part in reversed(parts):
        name = os.path.join(source, part) if part.parts else source
        try:
            kind = os.lstat(name).st_mode
            if part.parts and stat.S_ISLNK(kind):
                target = (above / part).parent / os.readlink(name) / rest.relative_to(part)
                return True, PurePosixPath(os.path.normpath(target))
        except PermissionError:
            return True, None  # the sandbox may have the access that this process has not
        except OSError:
            return False, None
        if part.parts and not stat.S_ISDIR(kind):
            return False, None
    return True, None
