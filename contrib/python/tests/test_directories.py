"""Directories of the host that options name: /reference, read-only, and /config, which lasts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysbx import Mount, Sandbox, SandboxError, run_code
from pysbx.options.options import make_options


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a reference and a place for settings, from which relative paths lead."""
    (tmp_path / "books").mkdir()
    (tmp_path / "books/page").write_text("text")
    (tmp_path / "settings").mkdir()
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_reference_can_only_be_read(folder: Path) -> None:
    done = run_code("print(open('/reference/page').read()); open('/reference/new', 'w')", reference="books")
    assert done.stdout == "text\n"
    assert done.error is not None and done.error.type in ("OSError", "PermissionError")
    assert os.listdir(folder / "books") == ["page"]


def test_settings_last_from_one_sandbox_to_the_next(folder: Path, virtualenv: str) -> None:
    source = "import matplotlib\nprint(matplotlib.get_configdir(), matplotlib.rcParams['lines.linewidth'])"
    with Sandbox(config_dir=Path("settings"), virtualenv=virtualenv, memory_mb=1024) as session:
        session.run("import os; os.makedirs('/config/matplotlib')")
        session.run("open(os.environ['MPLCONFIGDIR'] + '/matplotlibrc', 'w').write('lines.linewidth: 7\\n')")
    done = run_code(source, config_dir="settings", virtualenv=virtualenv, memory_mb=1024)
    assert done.stdout == "/config/matplotlib 7.0\n"
    plot = "import matplotlib.pyplot as plt; plt.plot([1, 2])"
    done = run_code(plot, config_dir="settings", virtualenv=virtualenv, memory_mb=1024)
    assert list(done.artifacts) == ["figure-1.png"]
    saved = folder / "settings/matplotlib/matplotlibrc"
    assert (saved.read_text(), saved.stat().st_uid) == ("lines.linewidth: 7\n", os.geteuid())
    names = "import os; [os.environ[n] for n in ('XDG_CONFIG_HOME', 'IPYTHONDIR', 'JUPYTER_CONFIG_DIR')]"
    expected = "['/config', '/mine', '/config/jupyter']"
    assert run_code(names, config_dir="settings", env={"IPYTHONDIR": "/mine"}).value == expected


def test_options_are_made_of_options(folder: Path) -> None:
    once = make_options(reference="books", config_dir="settings", mounts=[Mount(folder / "books", "/data")])
    again = make_options(once, memory_mb=100)
    assert again.mounts == once.mounts
    assert [mount.target for mount in once.mounts] == ["/data", "/reference", "/config"]


def test_a_directory_that_is_not_there_is_named(folder: Path) -> None:
    for options in ({"reference": "none"}, {"config_dir": "none"}):
        with pytest.raises(SandboxError, match=f"mount '{folder}/none': No such file"):
            run_code("1", **options)  # type: ignore[arg-type]
