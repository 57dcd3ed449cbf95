"""The programs in contrib/examples: each prints the comment at its end."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))
MOST_LINES = 40


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example(file: Path, tmp_path: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    done = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, timeout=150, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    assert len(lines) <= MOST_LINES


def test_each_adapter_has_an_example() -> None:
    assert len(EXAMPLES) == 9
