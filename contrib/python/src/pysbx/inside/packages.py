"""Packages that the host adds to a running session."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .failure import describe

# In memory, and not among the files of the session.
SITE = "/tmp/.packages"


def add(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request "packages": write files, and let imports of this process and its children find them."""
    try:
        for name, content in request["files"].items():
            path = os.path.join(SITE, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
    except OSError as error:
        return {"error": describe(error)}
    if SITE not in sys.path:
        sys.path.append(SITE)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{before}:{SITE}" if before else SITE
    importlib.invalidate_caches()
    return {}
