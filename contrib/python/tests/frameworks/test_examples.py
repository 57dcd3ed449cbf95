"""The programs in contrib/examples: each prints the comment at its end.

They run in this process, which has imported their frameworks already. That takes a third of their time.
"""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.py"))
MOST_LINES = 40


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = file.read_text(encoding="utf-8").splitlines()
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    assert len(lines) <= MOST_LINES


def test_each_adapter_has_an_example() -> None:
    assert len(EXAMPLES) == 11
