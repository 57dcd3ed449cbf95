"""A file or directory of the host that a sandbox sees."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass


def absolute_path(path: str) -> str:
    """Return a path of the host as an absolute one without "..".

    The directory before a ".." is resolved as the kernel does it: beside a link means beside its target. The part
    after the last ".." keeps its name, even if it is a link.
    """
    from pathlib import Path  # noqa: PLC0415 (many sandboxes have no mount)

    parts = Path(path).absolute().parts
    if ".." not in parts:
        return path if path.startswith("/") else str(Path(*parts))
    behind = len(parts) - parts[::-1].index("..")
    return str(Path(os.path.realpath(Path(*parts[:behind])), *parts[behind:]))


@dataclass(frozen=True, init=False)
class Mount:
    """A file or directory of the host in the sandbox.

    Attributes:
        source: path on the host; a relative one is made absolute.
        target: absolute path in the sandbox; by default the same.
        readonly: whether the sandbox may only read it.
    """

    source: str
    target: str
    readonly: bool

    def __init__(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str] = "", readonly: bool = True
    ) -> None:
        """Check both paths, and fill in the target.

        Raises:
            TypeError: one is neither a string nor a path.
            ValueError: the target is not absolute, or no file can have such a name.
        """
        outer, inner = os.fspath(source), os.fspath(target)
        for path in (outer, inner):
            if not isinstance(path, str) or "\0" in path or not outer:
                raise ValueError(f"mount {path!r}: must be a path")
        if inner and not inner.startswith("/"):
            raise ValueError(f"mount {inner!r}: the target must be an absolute path of the sandbox")
        outer = absolute_path(outer)
        inner = posixpath.normpath(f"/{inner.lstrip('/')}") if inner else outer
        for name, value in (("source", outer), ("target", inner), ("readonly", readonly)):
            object.__setattr__(self, name, value)
