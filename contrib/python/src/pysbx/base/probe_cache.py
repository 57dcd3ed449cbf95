"""Findings that take about as long as a sandbox, kept for the programs that start soon afterwards.

A finding is stored under the circumstances in which it was made. In other circumstances, or when it is too old, it is
made again. The directory belongs to the caller alone, as the bundles do that follow from the findings.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from pysbx.base.directories import private_directory, run_directory, write_whole

# No finding is used for longer than this; see `age` of load().
DAY_SEC = 86400.0


def _path(kind: str, circumstances: object) -> Path:
    import hashlib  # noqa: PLC0415 (it loads OpenSSL, and a program may make no sandbox)

    name = hashlib.sha256(json.dumps(circumstances).encode()).hexdigest()[:24]
    return private_directory(run_directory() / "findings") / f"{kind}-{name}.json"


def load(kind: str, circumstances: object, age: float = DAY_SEC) -> Any:
    """Return a finding, or None if there is none that applies.

    Args:
        kind: what was to be found out.
        circumstances: everything that the finding depends on, as JSON has it.
        age: for how many seconds after it was made the finding may be used.
    """
    path = _path(kind, circumstances)
    try:
        if not 0 <= time.time() - path.stat().st_mtime <= age:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def save(kind: str, circumstances: object, content: object) -> None:
    """Store a finding, and remove those that are too old for any use. A full file system is no reason to fail."""
    path = _path(kind, circumstances)
    with contextlib.suppress(OSError):
        for other in path.parent.iterdir():
            if abs(time.time() - other.stat().st_mtime) > DAY_SEC:
                other.unlink(missing_ok=True)
        write_whole(path, json.dumps(content).encode(), 0o600)


def forget(kind: str) -> None:
    """Remove all findings of a kind."""
    for path in (private_directory(run_directory() / "findings")).glob(f"{kind}-*.json"):
        path.unlink(missing_ok=True)


def text_of(path: str) -> str:
    """Return the content of a file of the kernel, or "" if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def identity(path: str) -> list[int]:
    """Return numbers that change when a file is replaced or written to: see inode(7)."""
    found = os.stat(path)
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
