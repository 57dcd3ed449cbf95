"""What the package itself puts into a sandbox: the program that carries out calls, cloudpickle and msgpack.

It is copied once to a directory of its own, named by its content: so it is readable for the sandbox's user wherever
and however the package was installed, and it is one mount.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import os
import py_compile
import shutil
import tempfile
from functools import cache
from pathlib import Path

from pysbx.errors import SandboxStartupError
from pysbx.places import private_directory, run_directory

TARGET = "/.pysbx"
MODULE = "pysbx_inside"
# What a prewarmed interpreter has imported before anybody's own modules.
PRELOAD = (f"{MODULE}.worker", "asyncio")
# Given by -c: a file would be opened and searched for a zip archive at every start. What is imported before it begins
# was so by the prewarmed interpreter that it continues from.
PROGRAM = f"import sys; warm = '{MODULE}.worker' in sys.modules; from {MODULE}.worker import main; main(warm=warm)"
LIBRARIES = ("cloudpickle", "msgpack")
PROXIES = "/run/pysbx-proxies"


def _source(library: str) -> Path:
    found = importlib.util.find_spec(library)
    if found is None or not found.origin:
        raise SandboxStartupError(f"library '{library}', which the package needs, is not installed")
    return Path(found.origin).parent


def _sources() -> dict[str, Path]:
    return {MODULE: Path(__file__).parent / "inside", **{name: _source(name) for name in LIBRARIES}}


def _files(source: Path) -> list[Path]:
    return sorted(file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _open_to_read(directory: Path) -> None:
    for top, _, files in os.walk(directory):
        os.chmod(top, 0o755)
        for name in files:
            os.chmod(os.path.join(top, name), 0o644)


@cache
def directory() -> Path:
    """Return the directory that is mounted at TARGET, making it if there is none for this version yet."""
    content = hashlib.sha256()
    for name, source in _sources().items():
        for file in _files(source):
            content.update(f"{name}/{file.relative_to(source)}\0".encode() + file.read_bytes())
    path = private_directory(run_directory() / "payload") / content.hexdigest()[:24]
    if path.is_dir():
        return path
    made = Path(tempfile.mkdtemp(dir=path.parent, prefix=".new-"))
    try:
        for name, source in _sources().items():
            shutil.copytree(source, made / name, ignore=shutil.ignore_patterns("__pycache__"))
        # Hashes, not times, say whether compiled files are valid: they are never written again in there.
        compileall.compile_dir(
            made, quiet=2, stripdir=str(made), prependdir=TARGET,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
        _open_to_read(made)
        made.rename(path)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not path.is_dir():
            raise
    return path
