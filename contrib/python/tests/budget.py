"""Time for tests that generate their input: as much as the caller grants, from a seed that a failure names."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

USUAL_SEC = 60
SECONDS = float(os.environ.get("TEST_DIFFERENTIAL_SEC", USUAL_SEC))
# An ordinary run always tries the same first inputs. A long one should try others than the one before.
SEED = os.environ.get("TEST_DIFFERENTIAL_SEED") or (str(random.randrange(1 << 32)) if SECONDS > USUAL_SEC else "0")
ROUND = 20
TIMEOUT = SECONDS + 300


def explore(
    inputs: SearchStrategy[object], check: Callable[..., None], share: float, rounds: int,
    show: Callable[[Any], str] = repr,
) -> None:  # fmt: skip
    """Call a check with inputs until its time is over; a failure shows the smallest input that was found.

    Args:
        inputs: what is generated.
        check: fails by an exception.
        share: the part of all time that it gets.
        rounds: the most rounds of an ordinary run, so that a faster machine does not try other inputs.
        show: returns the text of an input.
    """
    end = time.monotonic() + SECONDS * share
    number = int(SEED)
    while time.monotonic() < end and (SECONDS > USUAL_SEC or number - int(SEED) < rounds):
        limited = settings(
            max_examples=ROUND, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        failing: list[str] = []

        def checked(case: object) -> None:
            # A check may change its input.
            text = show(case)
            try:
                check(case)
            except Exception:
                failing.append(text)  # noqa: B023 # hypothesis calls with the smallest at last
                raise

        try:
            seed(number)(limited(given(inputs)(checked)))()
        except Exception as error:
            smallest = "".join(failing[-1:])
            pytest.fail(f"with TEST_DIFFERENTIAL_SEED={number}: {error}\nwith the input\n{smallest}", pytrace=False)
        number += 1
