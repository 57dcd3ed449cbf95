"""Put the licence into source archives, the runtime into wheels, and commit and publisher's address into both.

The address is in the project's URLs, and in the links of the description, which an index shows without the repository.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
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
# The directory of the description in the repository. An archive of the source has it elsewhere.
HERE = "contrib/python"
# A link of Markdown to a file of the repository: its label, the path, and the place in it.
LINK = re.compile(r"\[([^\[\]]+)\]\((?![a-z]+:|#)([^()\s#]+)(#[^()\s]*)?\)")
# Code in which brackets are no links: blocks and spans.
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
# The file of the version, and its line.
VERSIONED, VERSION = "pysbx/version.py", re.compile(r'(?<=^VERSION = ")[^"]*', re.MULTILINE)


def built_version() -> str:
    """Return the version: of a development version with the commit, such as 0.3.0.dev0+g0123456789ab.

    A source archive has it already. Without a repository, or without git, the commit is not known.
    """
    here = Path(__file__).resolve().parent
    (version,) = VERSION.findall((here / "src" / VERSIONED).read_text(encoding="utf-8"))
    commit, top = "", here.parent.parent
    if ".dev" in version and "+" not in version and (top / ".git").exists():
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            command = ["git", "-C", str(top), "rev-parse", "--short=12", "HEAD"]
            commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{version}+g{commit}" if commit else version


def describe(text: str, address: str) -> str:
    """Return a page whose links to files of the repository lead to its address, or are text without one.

    Args:
        text: the page.
        address: of the repository, or "".
    """

    def lead(link: re.Match[str]) -> str:
        label, path, place = link[1], posixpath.normpath(posixpath.join(HERE, link[2])), link[3] or ""
        return f"[{label}]({address}/blob/main/{path}{place})" if address else label

    parts = CODE.split(text)
    return "".join(part if number % 2 else LINK.sub(lead, part) for number, part in enumerate(parts))


class MetadataHook(MetadataHookInterface):
    """Name the address of the repository, which only its publisher knows: variable PYSBX_URL, `make wheel URL=…`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the project's URLs, or none without an address, and the description.

        Args:
            metadata: the table `project`.

        Raises:
            ValueError: the address is not one of https.
        """
        address = os.environ.get("PYSBX_URL", "")
        if address and not re.fullmatch(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+)*/?", address):
            raise ValueError(f"PYSBX_URL: {address!r} is not an address such as https://HOST/OWNER/pysbx-runtime")
        address = address.rstrip("/")
        metadata["urls"] = {label: address + path for label, path in PAGES.items()} if address else {}
        page = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": describe(page, address)}


class BuildHook(BuildHookInterface[Any]):
    """Decide on what only the moment of the build knows."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add files to the archive, and the platform to the name of a wheel with programs.

        Args:
            version: of the target's format.
            build_data: what hatchling lets a hook change.
        """
        if version != "editable":
            top = "src/" if self.target_name == "sdist" else ""
            build_data["force_include"][self._write_version()] = top + VERSIONED
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

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what initialize() has written."""
        del version, build_data, artifact_path
        if self._written:
            shutil.rmtree(self._written)

    _written = ""

    def _write_version(self) -> str:
        """Write the file of the version with the version that is built, and return its path."""
        self._written = tempfile.mkdtemp()
        text = Path(self.root, "src", VERSIONED).read_text(encoding="utf-8")
        path = Path(self._written, "version.py")
        path.write_text(VERSION.sub(self.metadata.version, text), encoding="utf-8")
        path.chmod(0o644)
        return str(path)
