"""A third of the time of these tests are imports, which make no garbage: collections took a sixth of it."""

from __future__ import annotations

import gc

gc.set_threshold(100_000, 50, 100)
