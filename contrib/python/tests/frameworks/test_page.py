"""The programs of the page about frameworks, each as it is there, with the output that is there."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/pages/how-to/frameworks.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```output\n(.*?)```", re.DOTALL)
SECTIONS = {
    part.partition("\n")[0]: found.groups()
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")
    if (found := PROGRAM.search(part)) is not None
}


@pytest.mark.parametrize("section", SECTIONS)
def test_program(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, output = SECTIONS[section]
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(file), run_name="__main__")
    shown, wanted = capsys.readouterr().out.splitlines(), output.splitlines()
    if wanted[0] == "...":
        shown, wanted = shown[1 - len(wanted) :], wanted[1:]
    assert shown == wanted


def test_the_programs_are_found() -> None:
    assert len(SECTIONS) == 7
