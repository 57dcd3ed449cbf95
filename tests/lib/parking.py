"""A module for a container whose program can be saved and restored: checkpoint.bats."""

from __future__ import annotations

TYPE_CHECKING = False  # the program must not import typing
if TYPE_CHECKING:
    from collections.abc import Callable

# The agent stores its function here.
__pysbx_park__: Callable[[int, int], bool] | None = None


def park(descriptor: int = -1, milliseconds: int = -1) -> bool:
    """Wait for the descriptor, the time or a checkpoint; tell whether this process has been restored."""
    assert __pysbx_park__ is not None
    return __pysbx_park__(descriptor, milliseconds)
