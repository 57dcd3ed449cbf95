"""Memory that is reserved, so that the worker can still answer when the user's code has used up all other memory.

It is only address space until a write to it: where the kernel counts pages, it costs none.
"""

from __future__ import annotations

import mmap

# Describing an error and gathering what goes with it takes less.
SIZE = 4 << 20


class KeptBack:
    """Around the user's code, in a with statement."""

    def __init__(self) -> None:
        self._room: mmap.mmap | None = None

    def __enter__(self) -> None:
        """Reserve it, if as much memory is left besides: this code may be the one that frees the rest."""
        try:
            self._room = mmap.mmap(-1, 3 * SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._room.resize(SIZE)
        except (MemoryError, OSError):
            self._room = None

    def __exit__(self, *exception: object) -> None:
        """Release the memory."""
        if self._room is not None:
            self._room.close()
            self._room = None
