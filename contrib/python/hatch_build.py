"""Put the licence into source archives, and the runtime into the wheels that build-wheel makes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """Decide on what only the moment of the build knows."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add files to the archive, and the platform to the name of a wheel with programs.

        Args:
            version: of the target's format.
            build_data: what hatchling lets a hook change.
        """
        del version
        licence = Path(self.root, "LICENSE")
        tree = os.environ.get("PYSBX_BUNDLE")
        if self.target_name == "sdist" and licence.is_symlink():
            # Hatchling would archive the link, which leads out of the archive.
            build_data["force_include"].pop(str(licence), None)
            build_data["force_include"][str(licence.resolve())] = "LICENSE"
        if self.target_name == "wheel" and tree:
            build_data["force_include"][tree] = "pysbx/bundled"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{os.environ['PYSBX_PLATFORM']}"
