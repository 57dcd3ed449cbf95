"""`pysbx clean`: what was unused for long or takes too much space is removed, and nothing that is in use."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from pysbx import Sandbox, install_progress, run_code
from pysbx.base import directories
from pysbx.base.runtime import build_snapshot, call, try_to_create
from pysbx.calls.prepare import prepare
from pysbx.command import main
from pysbx.machine import cleaning
from pysbx.options.options import make_options
from pysbx.packages import dependencies
from tests.packages import make_deep, make_wheel

MONTH = 40 * 86400


@pytest.fixture
def wheels(wheels: Path) -> Path:
    """A folder of wheels, and a cache of its own."""
    for name in ("thing", "other"):
        make_wheel(wheels, name, "1.0", f"name = '{name}'\n")
    return wheels


def install(wheels: Path, *names: str) -> None:
    """Install sets, by uv, because that takes a tenth of the time."""
    for name in names:
        assert run_code(f"import {name}", dependencies=[name], wheels=wheels, installer="uv").error is None


def age(requirement: str, seconds: float) -> None:
    """Make a set look unused for some time."""
    (found,) = (item for item in dependencies.installed() if item.requirements == (requirement,))
    about = directories.cache_directory() / "dependencies" / found.key / "set.json"
    os.utime(about, (time.time() - seconds,) * 2)


def names_of(items: list[cleaning.Item]) -> list[str]:
    return [item.about for item in items]


def test_sets_go_after_a_month(wheels: Path) -> None:
    install(wheels, "thing", "other")
    assert cleaning.clean(["dependencies"]) == []
    age("thing", MONTH)
    assert names_of(cleaning.clean(["dependencies"], dry_run=True)) == ["thing"]
    assert names_of(cleaning.clean(["dependencies"])) == ["thing"]
    assert [item.requirements for item in dependencies.installed()] == [("other",)]
    # No lock of it stays behind, and it can be installed again.
    assert len(list((directories.cache_directory() / "dependencies").glob(".*.lock"))) == 1
    install(wheels, "thing")


def test_by_size_those_stay_that_were_used_last(wheels: Path) -> None:
    install(wheels, "thing", "other")
    age("thing", 60)
    size = next(item.size for item in dependencies.installed() if item.requirements == ("other",))
    assert names_of(cleaning.clean(["dependencies"], size=size)) == ["thing"]
    assert names_of(cleaning.clean(["dependencies"], size=0)) == ["other"]


def test_what_a_session_uses_stays(wheels: Path) -> None:
    with Sandbox(dependencies=["thing"], wheels=wheels) as session:
        session.run("import thing")
        assert cleaning.clean(["dependencies"], days=0) == []
        assert session.run("import thing.__init__ as again; again.name").value == "'thing'"
    assert names_of(cleaning.clean(["dependencies"], days=0)) == ["thing"]


def test_images(wheels: Path) -> None:
    image = "a" * 64
    folder = directories.private_directory(directories.cache_directory() / "images") / image
    folder.mkdir()
    (folder / "file").write_bytes(bytes(1000))
    (item,) = cleaning.items(["images"])
    assert (item.name, item.size) == (image, 1000)
    make_deep(folder, 3000)  # deeper than a path or a stack can be
    os.utime(folder, (1, 1))
    assert [item.name for item in cleaning.clean(["images"])] == [image]
    assert not folder.exists()


def test_snapshots() -> None:
    assert build_snapshot(str(prepare(make_options(preload=["colorsys"])).path)) == ""
    (found,) = (item for item in cleaning.items(["snapshots"]) if "colorsys" in item.about)
    assert found.size > 0
    assert time.time() - found.used < 600
    removed = cleaning.clean(["snapshots"], days=0)
    assert found.name in [item.name for item in removed]
    assert "colorsys" not in str(cleaning.items(["snapshots"]))


def test_a_session_whose_program_was_killed_with_its_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = prepare(make_options())
    name = "python-4194305-00000000-1"  # no process has this number: see PID_MAX_LIMIT of the kernel
    assert try_to_create(name, str(bundle.path), bundle.enforcement.manager) is None
    try:
        assert name not in [item.name for item in cleaning.items(["sessions"])]  # it may have just been made
        monkeypatch.setattr(cleaning, "STARTED_SEC", -1.0)
        assert [item.name for item in cleaning.clean(["sessions"])] == [name]
        assert call("state", name).returncode != 0
    finally:
        call("delete", "--force", name)


def test_the_command(wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(wheels, "thing")
    assert main(["clean", "dependencies", "images", "--size", "inf"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["clean", "dependencies", "--all", "--json"]) == 0
    (removed,) = json.loads(capsys.readouterr().out)
    assert (removed["kind"], removed["about"]) == ("dependencies", "thing")
    for arguments in (["all"], ["--days", "-1"], ["--all", "--days", "1"]):
        assert main(["clean", *arguments]) == 2
        assert capsys.readouterr().err.startswith("pysbx: ")


def test_tables_for_other_programs_are_whole(wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(wheels, "thing")
    long = [str(wheels / "thing-1.0-py3-none-any.whl"), str(wheels / "other-1.0-py3-none-any.whl")]
    run_code("import thing", dependencies=long, wheels=wheels)
    assert main(["deps", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for item in dependencies.installed():
        assert any(line.split()[0] == item.key and ", ".join(item.requirements) in line for line in lines)
    assert main(["deps", "install", "--wheels", str(wheels), "other"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_notebook_tells_of_an_installation(wheels: Path) -> None:
    import nbclient
    import nbformat

    call = f"run_code('import thing', dependencies=['thing'], wheels={str(wheels)!r})"
    sources = (f"from pysbx import run_code\ndone = {call}", f"done = {call}", "print(done.error)")
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    book = nbformat.reads(
        json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}), as_version=4
    )  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(book, timeout=120).execute()
    first, second, third = (cell.outputs for cell in book.cells)
    assert re.fullmatch(
        r"pysbx: installing thing\npysbx: installed thing in \d+ s\n", "".join(one["text"] for one in first)
    )
    assert second == []
    assert third[0]["text"] == "None\n"


def test_progress_of_an_installation(wheels: Path) -> None:
    said: list[str] = []
    with install_progress(said.append):
        run_code("import thing", dependencies=["thing"], wheels=wheels)
    assert "Successfully installed thing-1.0" in "".join(said)
    count = len(said)
    with install_progress(said.append):
        run_code("import thing", dependencies=["thing"], wheels=wheels)
    install(wheels, "other")
    assert len(said) == count
