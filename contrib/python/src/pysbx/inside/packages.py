"""Packages that the host adds to a running session."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .failure import describe
from .paths import moved

# In memory, and not among the files of the session. Without a container there is no file system for them alone.
SITE = "/.packages" if os.path.isdir("/.packages") else moved("/tmp/.packages")


def versions(names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that are there."""
    from importlib import metadata  # most sessions get no packages

    found = {}
    for name in names:
        try:
            found[name] = str(metadata.version(name))
        except Exception:  # there is none, or the program has put something else there
            continue
    return found


def add(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "packages": write parts of files, and let imports of this process and its children find them.

    The first request says how many bytes will come: if there is no room for them, nothing is written. A request
    with names asks only for the versions of these packages.
    """
    if "names" in request:
        return {"versions": versions(request["names"])}
    try:
        os.makedirs(SITE, exist_ok=True)
        about = os.statvfs(SITE)
        free = about.f_bavail * about.f_frsize
        if free < request["size"]:
            return {"free": free}
        for name, offset, content in request["parts"]:
            path = os.path.join(SITE, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(content)
            if name.startswith("bin/"):  # the modes of files do not come with them
                os.chmod(path, 0o755)
    except OSError as error:
        return {"error": describe(error)}
    if SITE not in sys.path:
        sys.path.append(SITE)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{before}:{SITE}" if before else SITE
        os.environ["PATH"] = f"{SITE}/bin:{os.environ.get('PATH', os.defpath)}"
    importlib.invalidate_caches()
    return {}
