"""The files of the package itself in a sandbox: the program that carries out calls, cloudpickle and msgpack.

They are copied once to a directory whose name is a hash of their content. So the sandbox's user can read them,
independent of how the package was installed, and they are one mount.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import struct
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pysbx.base import probe_cache, trees
from pysbx.base.directories import cache_directory, entered_directory, in_directory, private_directory
from pysbx.errors import SandboxStartupError

TARGET = "/.pysbx"
MODULE = "pysbx_inside"
# Modules that a prewarmed interpreter imports before those of the caller.
PRELOAD = (f"{MODULE}.worker", "asyncio")
TOOLS = f"{MODULE}.tools"
# Modules of this side that read values: a sandbox with tools reads with them what the tools return.
READERS = ("errors.py", "calls/__init__.py", "calls/decode.py", "calls/tables.py")
# The argument of -c, because Python would open a file and search it for a zip archive at every start. A module that is
# imported before it begins comes from the prewarmed interpreter.
PROGRAM = f"from {MODULE}.worker import main; main()"
# Characters that separate the names of a list of modules and directories to preload.
SEPARATORS = " ,"
LIBRARIES = ("cloudpickle", "msgpack")
PROGRAMS = f"/{MODULE}/programs"
FIGURES, FONTS = f"/{MODULE}/matplotlibrc", f"/{MODULE}/fonts.conf"
SETTLED_SEC = 2.0
PROXIES = "/run/pysbx-proxies"


def command(*, isolated: bool, path: Iterable[str]) -> list[str]:
    """Return the arguments of an interpreter that carries out requests.

    Args:
        isolated: as `python3 -I`. It ignores PYTHONPATH, so the program adds the directories itself.
        path: the directories where it looks for modules first.
    """
    if not isolated:
        return ["-s", "-c", PROGRAM]
    return ["-I", "-c", f"import sys; sys.path[:0] = {list(path)!r}; {PROGRAM}"]


def preloaded(modules: Iterable[str], *, isolated: bool, path: Iterable[str]) -> str:
    """Return the annotation that names what a prewarmed interpreter imports: see command()."""
    shown = [name for name in path if isolated and not any(mark in name for mark in SEPARATORS)]
    return ",".join([*shown, *PRELOAD, *modules])


def _source(library: str) -> Path:
    found = importlib.util.find_spec(library)
    if found is None or not found.origin:
        raise SandboxStartupError(f"library '{library}', which the package needs, is not installed")
    return Path(found.origin).parent


def _sources() -> dict[str, Path]:
    return {MODULE: Path(__file__).parents[1] / "inside", **{name: _source(name) for name in LIBRARIES}}


def _files() -> list[tuple[str, str]]:
    """Return the name in the sandbox and the path of each file, sorted."""
    found = []
    for library, source in _sources().items():
        for top, directories, names in os.walk(source):
            directories[:] = [name for name in directories if name != "__pycache__"]
            paths = (os.path.join(top, name) for name in names)
            found += [(f"{library}/{os.path.relpath(path, source)}", path) for path in paths if os.path.isfile(path)]
    found += [(f"{MODULE}/host/{name}", str(Path(__file__).parents[1] / name)) for name in READERS]
    return sorted(found)


def _content(files: list[tuple[str, str]]) -> str:
    """Return a name for the content of files: a hash, which an earlier program may have computed."""
    identities = [[name, path, *probe_cache.identity(path)] for name, path in files]
    kept = probe_cache.load("payload", identities)
    if isinstance(kept, str):
        return kept
    import hashlib  # noqa: PLC0415

    content = hashlib.sha256()
    for name, path in files:
        content.update(f"{name}\0".encode() + Path(path).read_bytes())
    found = content.hexdigest()[:24]
    # The kernel's clock for files moves in steps: a file that was written just now may be written to again unnoticed.
    if max(os.stat(path).st_ctime for _, path in files) < time.time() - SETTLED_SEC:
        probe_cache.save("payload", identities, found)
    return found


def _loaded_part(content: bytes) -> bytes:
    """Return a shared library without what is behind its segments: names and debugging information; see elf(5).

    No loader reads that. But the runtime reads the whole file at each start, because it is in memory.
    """
    if content[:6] != b"\x7fELF\2\1":  # 64 bits, little-endian
        return content
    first, sections = struct.unpack_from("<QQ", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    ends = [sum(struct.unpack_from("<Q16xQ", content, first + number * size + 8)) for number in range(count)]
    end = max(ends, default=0)
    if not first + size * count <= end <= sections <= len(content):
        return content
    return content[:40] + bytes(8) + content[48:60] + bytes(4) + content[64:end]


def _open_to_read(directory: Path) -> None:
    for top, _, files in os.walk(directory):
        os.chmod(top, 0o755)
        for name in files:
            os.chmod(os.path.join(top, name), 0o755 if top.endswith(PROGRAMS) else 0o644)


def _top(*, lasting: bool) -> Path:
    if lasting:
        # Without a home, a program has a place in the run directory only.
        with contextlib.suppress(SandboxStartupError, OSError, RuntimeError):
            top = private_directory(cache_directory() / "payload")
            if os.access(top, os.W_OK) and not os.statvfs(top).f_flag & os.ST_NOEXEC:
                return top
    return private_directory(entered_directory() / "payload")


@cache
def directory(*, lasting: bool = True) -> Path:
    """Return the directory that is mounted at TARGET; create it if it does not exist for this version yet.

    Args:
        lasting: prefer a place that outlives a restart of the machine: a saved session counts on the same files.
    """
    path = _top(lasting=lasting) / _content(_files())
    if not path.is_dir():
        with in_directory(path.parent):
            _make(path)
    return path


def _make(path: Path) -> None:
    """Copy and compile the files of the directory; another program may be doing the same."""
    import compileall  # noqa: PLC0415 (most programs find it made)
    import py_compile  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    made = Path(tempfile.mkdtemp(dir=path.parent, prefix=".new-"))
    try:
        for name, source in _files():
            target = made / name
            target.parent.mkdir(parents=True, exist_ok=True)
            # Only the content. The label that SELinux gave to the source may be forbidden here.
            target.write_bytes(_loaded_part(Path(source).read_bytes()))
        # Hashes, not times, say whether compiled files are valid: they are never written again in there.
        compileall.compile_dir(
            made, quiet=2, stripdir=str(made), prependdir=TARGET,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
        _open_to_read(made)
        made.rename(path)
    except OSError:
        trees.remove(made)
        if not path.is_dir():
            raise
