"""The things that the package keeps on disk: sets of dependencies, images, snapshots, and sessions of ended programs.

Nothing is removed that a container uses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pysbx.base import runtime, trees
from pysbx.base.directories import cache_directory, locked, private_directory
from pysbx.errors import SandboxError
from pysbx.packages import dependencies, images

# Seconds after which the rest of an installation, or a container without a program, is not in progress any more.
ABANDONED_SEC = 86400.0
STARTED_SEC = 60.0
# Entries of an image whose sizes are added up.
MAX_COUNTED = 10_000_000


@dataclass(frozen=True)
class Item:
    """One thing on disk.

    Attributes:
        kind: one of KINDS.
        name: its name there.
        about: its meaning for a user.
        size: in bytes.
        used: when it was last used, in seconds since 1970.
        path: its directory, or "".
    """

    kind: str
    name: str
    about: str
    size: int
    used: float
    path: str = ""


def _size(top: Path) -> int:
    """Return the bytes of a directory's files. Files deeper than a walk goes do not count."""
    total = 0
    with contextlib.suppress(trees.TooMany, OSError), trees.opened_top(top) as place:
        for size in trees.sizes(place, lambda *_: None, MAX_COUNTED):
            total += size
    return total


def _dependencies() -> Iterator[Item]:
    top = cache_directory() / "dependencies"
    for item in dependencies.installed():
        path = str(top / item.key)
        yield Item("dependencies", item.key, ", ".join(item.requirements), item.size, item.used, path)


def _images() -> Iterator[Item]:
    for path in images.unpacked():
        yield Item("images", path.name, f"image {path.name[:12]}", _size(path), images.used(path), str(path))


def _runtime_json(*arguments: str) -> list[dict[str, Any]]:
    done = runtime.call(*arguments, "--format", "json")
    if done.returncode != 0:
        raise SandboxError(done.stderr.strip() or f"pysbx-runtime {arguments[0]}: exit code {done.returncode}")
    return json.loads(done.stdout or "null") or []


def _snapshots() -> Iterator[Item]:
    for entry in _runtime_json("warm", "list"):
        about = entry.get("preload") or entry.get("state", "")
        yield Item("snapshots", entry["key"], about, entry["size"], max(entry["used"], entry["built"]))


def _sessions() -> Iterator[Item]:
    """Yield containers whose program has ended without removing them: it was killed together with its watcher."""
    for entry in _runtime_json("list"):
        owner = re.match(r"python-(\d+)-", entry["id"])
        created = datetime.fromisoformat(entry["created"].replace("Z", "+00:00")[:19] + "+00:00").timestamp()
        if owner and not os.path.exists(f"/proc/{owner[1]}") and created < time.time() - STARTED_SEC:
            yield Item("sessions", entry["id"], f"of process {owner[1]}, which has ended", 0, created)


def _remove_directory(item: Item) -> None:
    lock = Path(item.path).parent / f".{item.name}.lock"
    with locked(lock):
        trees.remove(Path(item.path))
        lock.unlink(missing_ok=True)


def _remove_snapshot(item: Item) -> None:
    runtime.call("warm", "prune", item.name)


def _remove_session(item: Item) -> None:
    runtime.kill(item.name)


# For each kind: how its items are found, and how one is removed.
KINDS: dict[str, tuple[Callable[[], Iterator[Item]], Callable[[Item], None]]] = {
    "dependencies": (_dependencies, _remove_directory),
    "images": (_images, _remove_directory),
    "sessions": (_sessions, _remove_session),
    "snapshots": (_snapshots, _remove_snapshot),
}


def _in_use() -> set[str]:
    """Return the directories of the host that containers of the package have mounted."""
    found: set[str] = set()
    for entry in _runtime_json("list"):
        try:
            config = json.loads((Path(entry["bundle"]) / "config.json").read_text())
        except (OSError, ValueError):
            continue
        found.update(mount["source"] for mount in config["mounts"] if mount.get("type") == "bind")
    return found


def _is_in_use(item: Item, sources: set[str]) -> bool:
    return bool(item.path) and any(source == item.path or source.startswith(f"{item.path}/") for source in sources)


def items(kinds: Iterable[str] = tuple(KINDS)) -> list[Item]:
    """Return everything of these kinds, the most recently used first.

    Raises:
        SandboxError: the runtime cannot say what there is.
    """
    found = [item for kind in kinds for item in KINDS[kind][0]()]
    return sorted(found, key=lambda item: item.used, reverse=True)


def chosen(found: Iterable[Item], days: float, size: float | None) -> list[Item]:
    """Return the items to be removed.

    Args:
        found: items, the most recently used first.
        days: those that were unused for so long.
        size: bytes that all others may have together; the most recently used are kept. None: any number.
    """
    limit, kept, removed = time.time() - days * 86400, 0, []
    for item in found:
        # A session of an ended program serves no purpose, so its age does not matter.
        if item.kind == "sessions" or item.used <= limit or (size is not None and kept + item.size > size):
            removed.append(item)
        else:
            kept += item.size
    return removed


def _sweep() -> None:
    """Remove what killed installations have left, and locks of things that are gone."""
    for name in ("dependencies", "images", "payload"):
        top = private_directory(cache_directory() / name)
        for path in (*top.glob(".new-*"), *top.glob(".export-*")):
            if path.lstat().st_mtime < time.time() - ABANDONED_SEC:
                trees.remove(path)
        for lock in top.glob(".*.lock"):
            if not (top / lock.name[1:].removesuffix(".lock")).exists() and lock.stat().st_mtime < time.time() - 60:
                with locked(lock):
                    lock.unlink(missing_ok=True)


def clean(
    kinds: Iterable[str] = tuple(KINDS), *, days: float = 30.0, size: float | None = None, dry_run: bool = False
) -> list[Item]:
    """Remove what was unused for long or takes too much space; return it.

    Raises:
        SandboxError: the runtime cannot say what there is.
        ValueError: a number is negative.
    """
    for name, number in (("days", days), ("size", size)):
        if number is not None and not number >= 0:
            raise ValueError(f"{name}: {number!r} is not a number from 0 on")
    sources = _in_use()
    unused = [item for item in items(kinds) if not _is_in_use(item, sources)]
    removed = chosen(unused, days, size)
    if not dry_run:
        for item in removed:
            KINDS[item.kind][1](item)
        _sweep()
    return [replace(item, path="") for item in removed]
