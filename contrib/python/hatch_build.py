"""Put the licence into source archives, the runtime into wheels, and the publisher's address into both."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# The pages of a repository: label and path below its address.
PAGES = {
    "Homepage": "",
    "Source": "",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Security": "/blob/main/SECURITY.md",
    "Issues": "/issues",
}


class MetadataHook(MetadataHookInterface):
    """Name the address of the repository, which only its publisher knows: variable PYSBX_URL, `make wheel URL=…`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the project's URLs, or none without an address.

        Args:
            metadata: the table `project`.

        Raises:
            ValueError: the address is not one of https.
        """
        address = os.environ.get("PYSBX_URL", "")
        if address and not re.fullmatch(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+)*/?", address):
            raise ValueError(f"PYSBX_URL: {address!r} is not an address such as https://HOST/OWNER/pysbx-runtime")
        metadata["urls"] = {label: address.rstrip("/") + path for label, path in PAGES.items()} if address else {}


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
