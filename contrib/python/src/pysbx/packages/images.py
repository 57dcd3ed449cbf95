"""Root file systems of images: fetched by Podman, unpacked once, named by the image's id.

Podman only fetches and unpacks. The sandbox is created like every other one. Of the image's configuration it uses the
variables.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from pysbx.base import children, trees
from pysbx.base.directories import cache_directory, locked, private_directory
from pysbx.errors import PodmanNotInstalledError, SandboxStartupError

# Podman's images have few nodes outside of /dev. This bounds the length of tar's command line.
MOST_NODES = 1000
IMAGE_ID = re.compile(r"[0-9a-f]{64}")


def _podman(*arguments: str) -> str:
    """Run Podman and return what it prints."""
    program = shutil.which("podman")
    if program is None:
        raise PodmanNotInstalledError("Podman, which fetches images, is not installed: install the package podman")
    done = children.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxStartupError(f"podman {arguments[0]}: {done.stderr.strip()}")
    return str(done.stdout).strip()


def rootfs_of(name: str) -> tuple[str, dict[str, str]]:
    """Return the directory of an image's root file system, and the variables of its configuration.

    Args:
        name: as `podman pull` takes it; an image that is here already is not fetched again.
    """
    if name.startswith("-"):
        raise ValueError(f"image: '{name}' is not the name of an image")
    try:
        image = _podman("image", "inspect", "--format", "{{.Id}}", name)
    except PodmanNotInstalledError:
        raise
    except SandboxStartupError:
        image = _podman("pull", "--quiet", name).splitlines()[-1]
    if not IMAGE_ID.fullmatch(image):
        raise SandboxStartupError(f"image '{name}': podman says '{image}', which is not an id")
    top = private_directory(cache_directory() / "images")
    path = top / image
    lock = top / f".{image}.lock"
    with locked(lock):
        os.utime(lock)  # its time is that of the last use: a change of the directory would make snapshots stale
        if not path.is_dir():
            made = Path(tempfile.mkdtemp(dir=top, prefix=".new-"))
            try:
                _unpack(image, made)
                made.chmod(0o755)
                made.rename(path)
            finally:
                trees.remove(made)
    return str(path), _variables(image)


def _variables(image: str) -> dict[str, str]:
    """Return the variables of an image that a sandbox can have."""
    listed = json.loads(_podman("image", "inspect", "--format", "{{json .Config.Env}}", image) or "null") or []
    pairs = (str(item).partition("=") for item in listed)
    return {name: value for name, equals, value in pairs if name and equals and "\0" not in name + value}


def unpacked() -> list[Path]:
    """Return the directories of the images that are there."""
    top = private_directory(cache_directory() / "images")
    return [path for path in top.iterdir() if IMAGE_ID.fullmatch(path.name)]


def used(path: Path) -> float:
    """Return when an image was last used, in seconds since 1970."""
    try:
        return (path.parent / f".{path.name}.lock").stat().st_mtime
    except FileNotFoundError:
        return path.stat().st_mtime


def _nodes(archive: str, image: str) -> list[str]:
    """Return the names of devices and pipes in an archive: files that no sandbox needs, and only root can create."""
    found = []
    with tarfile.open(archive, "r:") as file:
        while member := file.next():
            file.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
            if member.isdev() and not member.name.removeprefix("./").startswith("dev/"):
                found.append(member.name)
                if len(found) > MOST_NODES:
                    raise SandboxStartupError(f"image '{image}' has more than {MOST_NODES} devices and pipes")
    return found


def _unpack(image: str, target: Path) -> None:
    """Unpack an image: a container that never runs is exported."""
    container = _podman("create", "--network", "none", image, "true").splitlines()[-1]
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as folder:
            _podman("export", "--output", f"{folder}/rootfs.tar", container)
            # GNU tar creates links last, so that no link can lead later files out of the directory. Without the same
            # permissions, no file is setuid or setgid.
            command = ["tar", "--extract", f"--file={folder}/rootfs.tar", f"--directory={target}", "--no-same-owner"]
            command += ["--no-same-permissions", "--exclude=./dev/*", "--exclude=dev/*", "--anchored", "--no-wildcards"]
            command += [f"--exclude={name}" for name in _nodes(f"{folder}/rootfs.tar", image)]
            done = children.run(command, capture_output=True, text=True, check=False, umask=0o022)
            if done.returncode != 0:
                raise SandboxStartupError(f"image '{image}' cannot be unpacked: {done.stderr.strip()}")
    finally:
        _podman("rm", "--force", container)
