"""Time for tests that generate their input: as much as the caller grants, from a seed that a failure names."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

USUAL_SEC = 60
SECONDS = float(os.environ.get("TEST_DIFFERENTIAL_SEC", USUAL_SEC))
# An ordinary run always tries the same first inputs. A long one should try others than the one before.
SEED = os.environ.get("TEST_DIFFERENTIAL_SEED") or (str(random.randrange(1 << 32)) if SECONDS > USUAL_SEC else "0")
ROUND = 20
TIMEOUT = SECONDS + 300


def explore(inputs: SearchStrategy[object], check: Callable[..., None], share: float, rounds: int) -> None:
    """Call a check with inputs until its time is over; a failure shows the smallest input that was found.

    Args:
        inputs: what is generated.
        check: fails by an exception.
        share: the part of all time that it gets.
        rounds: the most rounds of an ordinary run, so that a faster machine does not try other inputs.
    """
    end = time.monotonic() + SECONDS * share
    number = int(SEED)
    while time.monotonic() < end and (SECONDS > USUAL_SEC or number - int(SEED) < rounds):
        limited = settings(
            max_examples=ROUND, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        try:
            seed(number)(limited(given(inputs)(check)))()
        except Exception as error:
            pytest.fail(f"with TEST_DIFFERENTIAL_SEED={number}: {error}\n{chr(10).join(notes(error))}", pytrace=False)
        number += 1


def notes(error: BaseException) -> list[str]:
    """Return what hypothesis adds to an exception: the input."""
    return list(getattr(error, "__notes__", ()))
