"""Sandbox.install(): packages for a session that runs already."""

from __future__ import annotations

from pathlib import Path

import pytest

from pysbx import DependencyInstallError, Sandbox, SandboxError
from tests.packages import make_wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two packages, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    make_wheel(tmp_path, "large", "1.0", f"text = '{'x' * 3_000_000}'\n")
    return tmp_path


def test_packages_are_added_to_a_session(wheels: Path) -> None:
    with Sandbox(wheels=wheels) as session:
        missing = session.run("kept = 41; import thing").error
        assert missing is not None
        assert missing.type == "ModuleNotFoundError"
        session.install("thing")
        assert session.run("import thing; kept + thing.version").value == "42"
        assert session.shell(["python3", "-c", "import thing; print(thing.version)"]).stdout == "1\n"
        assert session.files() == {}
        session.install("thing")
        session.install()
        with pytest.raises(DependencyInstallError, match="none-such"):
            session.install("none-such")
        with pytest.raises(ValueError, match=r"dependencies: "):
            session.install("not a requirement")
        assert session.run("kept").value == "41"


def test_packages_that_do_not_fit_leave_the_session(wheels: Path) -> None:
    with Sandbox(wheels=wheels, tmp_mb=2) as session:
        session.run("kept = 41")
        with pytest.raises(SandboxError, match=r"do not fit into the session: .*No space left.*allow more: tmp_mb"):
            session.install("large")
        assert session.run("kept").value == "41"
