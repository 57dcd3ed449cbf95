"""A module for a container whose process can be forked into another one: warm-fork.bats."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # the session must not import typing
if TYPE_CHECKING:
    from collections.abc import Callable

# The agent stores its function here.
__pysbx_fork__: Callable[[int, bytes], int] | None = None


def fork(word: bytes = b"parked") -> int:
    """Fork; the fork parks, and reports it in the volume /shared."""
    assert __pysbx_fork__ is not None
    report = os.open("/shared/parked", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    pid = __pysbx_fork__(report, word)
    if pid:
        os.close(report)
    return pid


def wait() -> None:
    """Wait until the test lets the first process continue."""
    while not os.path.exists("/shared/release"):
        time.sleep(0.01)
