"""Sandbox.install(): packages for a session that runs already."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysbx import DependencyInstallError, Sandbox, SandboxError
from pysbx.calls.prepare import site_of
from pysbx.options.options import make_options
from tests.packages import make_source, make_wheel


@pytest.fixture
def wheels(tmp_path: Path, own_cache: None) -> Path:
    """A directory with two packages, and a cache of its own."""
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    make_wheel(tmp_path, "large", "1.0", f"text = '{'x' * 5_000_000}'\n")
    return tmp_path


@pytest.mark.root
def test_packages_are_added_to_a_session(wheels: Path) -> None:
    with Sandbox(wheels=wheels) as session:
        missing = session.run("kept = 41; import thing").error
        assert missing is not None and missing.type == "ModuleNotFoundError"
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


def test_another_version_of_a_package_that_is_there_is_refused(wheels: Path) -> None:
    """Imports find the one that was there first, so the new one would have no effect."""
    make_wheel(wheels, "thing", "2.0", "version = 2\n")
    with Sandbox(wheels=wheels, dependencies=["thing<2"]) as session:
        session.install("thing", "thing<3", "thing>1; python_version<'3'", "large")
        said = r"thing>=2: the session has thing 1\.0 already, .*: start one with dependencies=\['thing>=2'\]"
        with pytest.raises(SandboxError, match=said):
            session.install("Thing >= 2")
        with pytest.raises(SandboxError, match=r"large==2: the session has large 1\.0 already"):
            session.install("large==2")
        assert session.run("import thing; thing.version").value == "1"


def test_packages_that_do_not_fit_leave_the_session(wheels: Path) -> None:
    make_wheel(wheels, "larger", "1.0", f"text = '{'x' * 20_000_000}'\n")
    with Sandbox(wheels=wheels, memory_mb=64) as session:
        session.run("kept = 41")
        with pytest.raises(SandboxError, match=r"session: \d+ MiB, and 32 are free: allow more: memory_mb"):
            session.install("larger")
        assert session.run("kept, __import__('os').listdir('/.packages')").value == "(41, [])"


def test_packages_have_room_of_their_own_and_are_in_forks(wheels: Path) -> None:
    with Sandbox(wheels=wheels, tmp_mb=2, warm="require") as session:
        session.install("large")
        assert session.run("import os; os.path.exists('/tmp/.packages')").value == "False"
        with session.fork() as fork:
            for one in (session, fork):
                assert one.run("import large; len(large.text)").value == "5000000"


@pytest.mark.root
def test_a_set_that_a_hostile_package_has_left_leads_nowhere(wheels: Path) -> None:
    """The build of a package can write links into the set. None is followed, in sets of earlier versions too."""
    make_source(wheels, "hostile", "os.symlink('/etc/hostname', '/.dependencies/note.txt')")
    with Sandbox(wheels=wheels) as session:
        with pytest.raises(DependencyInstallError, match=r"'note\.txt', which cannot be used"):
            session.install("hostile")
        site = site_of(make_options(session.options, dependencies=["thing"]))
        (wheels / "secret").write_text("of the host")
        for name, target in (("file", wheels / "secret"), ("directory", wheels)):
            (site / name).symlink_to(target)
            with pytest.raises(SandboxError, match=f"'{name}': neither a regular file nor a directory"):
                session.install("thing")
            (site / name).unlink()
        os.mkfifo(site / "thing" / "pipe")
        with pytest.raises(SandboxError, match="'thing/pipe': neither a regular file nor a directory"):
            session.install("thing")
        assert session.shell("ls -A /tmp").stdout == ""
