"""For ../../../tests/self/flaky, which names this file: tests that fail as often as TEST_FAILURES says."""

# once: for tests/self/flaky, which asks in how many modes it runs

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("word", ["plain", "with - dash and [bracket] :: colons"])
def test_fails_at_first(word: str) -> None:
    """Fail the first times, and leave a file for each."""
    scratch = Path(os.environ["TEST_SCRATCH"])
    marks = list(scratch.glob(f"{len(word)}.*"))
    if len(marks) < int(os.environ["TEST_FAILURES"]):
        (scratch / f"{len(word)}.{len(marks)}").touch()
        pytest.fail(f"failure {len(marks) + 1} of {word}")


@pytest.mark.root
def test_passes() -> None:
    """Pass, so that one can see that it is not run again."""


@pytest.mark.all
def test_is_only_for_make_check_all() -> None:
    """Pass."""
