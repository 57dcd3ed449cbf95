"""Install the runtime of this package where Podman and other programs find it, and remove it again.

The package contains the tree that `make install` creates, so the places are the same. A manifest at the prefix lists
the installed files with their checksums: no other file is ever overwritten or removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pysbx.base.directories import write_whole
from pysbx.base.runtime import BUNDLED
from pysbx.errors import SandboxError

TREE = BUNDLED.parent.parent
MANIFEST = PurePosixPath("share/pysbx-runtime/installed.json")
# The prefix that the texts below share/ name.
TEXT_PREFIX = b"/usr/local"
# In a prefix, these would need quotes in one of those texts.
SPECIAL = set("\"'\\$` \t\n")


class InstallationError(SandboxError):
    """The runtime cannot be installed or removed there."""


class _Manifest:
    """The installed files, each with the checksums that it may have, and the directories that were created."""

    def __init__(self, prefix: Path) -> None:
        self.path = prefix / MANIFEST
        self.files: dict[str, list[str]] = {}
        self.directories: list[str] = []
        try:
            content: Any = json.loads(self.path.read_bytes())
            self.files = {_inside(name): [str(item) for item in sums] for name, sums in content["files"].items()}
            self.directories = [_inside(name) for name in content["directories"]]
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InstallationError(f"'{self.path}' is damaged: remove it, and the files by hand") from error

    def write(self) -> None:
        content = {"files": self.files, "directories": self.directories}
        write_whole(self.path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())

    def owns(self, prefix: Path, name: str) -> bool:
        """Tell whether a file is there as it was installed."""
        path = prefix / name
        return not path.is_symlink() and path.is_file() and _sum(path.read_bytes()) in self.files.get(name, [])


def _inside(name: str) -> str:
    """Return a relative path, or raise ValueError if it leads out of the prefix."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(name)
    return str(path)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _contents(prefix: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield name, content and mode of each file of the package, with the prefix in the texts."""
    for path in sorted(TREE.rglob("*")):
        if path.is_file():
            name = path.relative_to(TREE).as_posix()
            content = path.read_bytes()
            if name.startswith("share/"):
                content = content.replace(TEXT_PREFIX, bytes(prefix))
            yield name, content, 0o644 if name.startswith("share/") else 0o755


def _create_parents(prefix: Path, name: str, manifest: _Manifest) -> None:
    """Create the directories of a file, and record those that were not there."""
    missing = [parent for parent in PurePosixPath(name).parents if not (prefix / parent).exists()]
    (prefix / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    manifest.directories += [str(parent) for parent in reversed(missing) if parent.parts]


def install(prefix: Path) -> list[str]:
    """Copy the runtime, its manual pages, completions and configuration below a prefix; return the files' names.

    Raises:
        InstallationError: this package has no runtime, or a file is there that it did not install.
        ValueError: the prefix cannot be named in the configuration.
        OSError: the system refused.
    """
    if not BUNDLED.is_file():
        raise InstallationError("this package was built without a runtime: use `make install`, or install a wheel")
    if SPECIAL & set(str(prefix)):
        raise ValueError(f"--prefix: '{prefix}' has a blank, a quote, '\\', '$' or '`': choose another directory")
    manifest = _Manifest(prefix)
    contents = list(_contents(prefix))
    foreign = [
        str(prefix / name)
        for name, *_ in contents
        if ((prefix / name).exists() or (prefix / name).is_symlink()) and not manifest.owns(prefix, name)
    ]
    if foreign:
        advice = "remove them, or choose another --prefix"
        raise InstallationError(f"not installed by `pysbx runtime install`, or changed: {', '.join(foreign)}: {advice}")
    before = dict(manifest.files)
    _create_parents(prefix, str(MANIFEST), manifest)
    # An installation that is interrupted can be repeated: until the end, both checksums are right.
    manifest.files = before | {name: [*before.get(name, []), _sum(content)] for name, content, _ in contents}
    manifest.write()
    for name, content, mode in contents:
        _create_parents(prefix, name, manifest)
        write_whole(prefix / name, content, mode)
    for name in before.keys() - {name for name, *_ in contents}:
        if manifest.owns(prefix, name):
            (prefix / name).unlink()
    manifest.files = {name: [_sum(content)] for name, content, _ in contents}
    manifest.write()
    return list(manifest.files)


def uninstall(prefix: Path) -> tuple[list[str], list[str]]:
    """Remove what install() copied; return the paths of removed files, and of those kept because they have changed.

    Raises:
        InstallationError: nothing was installed there.
        OSError: the system refused.
    """
    manifest = _Manifest(prefix)
    if not manifest.files:
        raise InstallationError(
            f"'{manifest.path}' is not there: `pysbx runtime install` has installed nothing below '{prefix}'"
        )
    removed, kept = [], []
    for name in manifest.files:
        path = prefix / name
        if manifest.owns(prefix, name):
            path.unlink()
            removed.append(str(path))
        elif path.exists() or path.is_symlink():
            kept.append(str(path))
    manifest.path.unlink()
    for name in sorted(manifest.directories, key=lambda name: name.count("/"), reverse=True):
        directory = prefix / name
        if directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir()):
            directory.rmdir()
    return removed, kept
