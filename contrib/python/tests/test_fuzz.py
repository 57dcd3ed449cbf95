"""Every seed through its fuzz target, so that what a fuzzer once found is proven without one."""

# once: the caller's rights make no difference

from __future__ import annotations

import tarfile
import time
from pathlib import Path

import pytest

from tests.fuzz.targets import SECONDS, TARGETS

SEEDS = Path(__file__).parent / "fuzz" / "seeds"


def seeds() -> dict[str, tuple[str, bytes]]:
    """Return the target and the bytes of each seed, from the archives of tests/fuzz/add-seed."""
    found = {}
    for path in sorted(SEEDS.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None, member.name
                found[f"{path.stem}/{member.name}"] = path.stem, file.read()
    return found


ALL = seeds()


def test_every_target_has_seeds() -> None:
    assert {target for target, _ in ALL.values()} == set(TARGETS)


@pytest.mark.parametrize("seed", ALL)
def test_seed(seed: str) -> None:
    target, data = ALL[seed]
    began = time.process_time()
    TARGETS[target](data)
    assert time.process_time() - began < SECONDS[target] + 5  # the first imports libraries
