"""Every seed through its fuzz target, so that what a fuzzer once found is proven without one."""

# once: the caller's rights make no difference

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fuzz.targets import SECONDS, TARGETS

SEEDS = Path(__file__).parent / "fuzz" / "seeds"
ALL = sorted(path.relative_to(SEEDS) for path in SEEDS.glob("*/*"))


def test_every_target_has_seeds() -> None:
    assert {path.parts[0] for path in ALL} == set(TARGETS)


@pytest.mark.parametrize("seed", ALL, ids=str)
def test_seed(seed: Path) -> None:
    data = (SEEDS / seed).read_bytes()
    began = time.process_time()
    TARGETS[seed.parts[0]](data)
    assert time.process_time() - began < SECONDS[seed.parts[0]] + 5  # the first imports libraries
