"""The options of a sandbox by name and type: what type checkers and editors know of `@sandbox(memory_mb=256)`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypedDict

from pysbx.interpreter import Mount

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    from typing import Optional as Unpack  # for who evaluates annotations

__all__ = ["SandboxOptions", "Unpack"]


class SandboxOptions(TypedDict, total=False):
    """What may be said about a sandbox; what is left out is as by default. See Options and Policy for the meanings."""

    memory_mb: int
    timeout_sec: float
    cpus: float
    max_processes: int
    file_size_mb: int
    tmp_mb: int
    limits: Literal["best", "strict"]
    output_limit: int
    answer_limit: int
    allow_network: bool | str | Iterable[str] | None
    mounts: Iterable[Mount] | None
    workdir: str | os.PathLike[str]
    env: Mapping[str, str] | None
    dependencies: Iterable[str] | None
    index_url: str | None
    wheels: str | os.PathLike[str] | None
    disable_cache: bool
    virtualenv: str | os.PathLike[str] | None
    rootfs: str | os.PathLike[str] | None
    image: str | None
    profile: str | os.PathLike[str] | None
    preload: Iterable[str] | None
    warm: Literal["auto", "require", "off"]
    landlock: str
    seccomp: str
