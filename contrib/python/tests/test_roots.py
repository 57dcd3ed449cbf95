"""Where a sandbox's Python comes from: a virtualenv, a root file system, an image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pysbx import PodmanNotInstalledError, SandboxStartupError, run_code
from pysbx.interpreter import Mount, host_interpreter

ABOUT = "import sys, os; print(sys.prefix, sys.version_info[:2], sorted(os.listdir('/')))"


def test_by_default_it_is_this_interpreter() -> None:
    assert run_code("import sys; print(sys.version)").stdout.strip() == sys.version
    assert run_code("import sys; print(sys.prefix)").stdout.strip() == sys.base_prefix


def test_a_virtualenv_with_its_packages(virtualenv: str) -> None:
    done = run_code("import sys, pysbx, pytest; print(sys.prefix, pytest.__version__)", virtualenv=virtualenv)
    assert done.stdout == f"{virtualenv} {pytest.__version__}\n"
    error = run_code("import pysbx").error  # which nobody has installed for the base
    assert error is not None
    assert error.message == "No module named 'pysbx'"


def test_a_virtualenv_whose_python_is_found_through_a_link(tmp_path: Path) -> None:
    """As uv makes them: the directory of the interpreter has a second name, without the patch level."""
    found = host_interpreter()
    stdlib = Path(sysconfig.get_path("stdlib"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    place = tmp_path / "pythons" / "full"
    (place / "bin").mkdir(parents=True)
    shutil.copy(found.program, place / "bin" / version)
    ignored = shutil.ignore_patterns("__pycache__", "test", "config-*", "idlelib", "*-packages", "sitecustomize.py")
    shutil.copytree(stdlib, place / stdlib.relative_to(sys.base_prefix), symlinks=True, ignore=ignored)
    (tmp_path / "pythons" / "short").symlink_to("full")
    home = tmp_path / "env"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(tmp_path / "pythons" / "short" / "bin" / version)
    (home / "pyvenv.cfg").write_text(f"home = {tmp_path}/pythons/short/bin\n")
    done = run_code("import sys, json; print(sys.prefix, json.__file__)", virtualenv=str(home))
    assert done.error is None, done.stderr
    assert done.stdout.split() == [str(home), f"{tmp_path}/pythons/short/lib/{version}/json/__init__.py"]


def test_a_directory_that_is_no_virtualenv(tmp_path: Path) -> None:
    with pytest.raises(SandboxStartupError, match=r"pyvenv\.cfg"):
        run_code("1", virtualenv=str(tmp_path))


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """A root file system with a Python: links to nothing of the host, so a copy of its interpreter."""
    found = host_interpreter()
    if not found.program.startswith("/usr/bin/"):
        pytest.skip("the interpreter is not the system's: copying it would take more than /usr")
    root = tmp_path / "root"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    ignored = shutil.ignore_patterns("__pycache__", "test", "config-*", "idlelib", "pydoc_data", "sitecustomize.py")
    shutil.copytree(f"/usr/lib/{version}", root / "usr/lib" / version, symlinks=True, ignore=ignored)
    (root / "usr/bin").mkdir()
    shutil.copy(found.program, root / "usr/bin/python3")
    needed = subprocess.run(
        ["ldd", found.program, *root.rglob("*.so")], capture_output=True, text=True, check=True
    ).stdout
    for library in sorted({word for word in needed.split() if word.startswith("/") and not word.endswith(":")}):
        target = root / library.lstrip("/")
        if not library.startswith(str(root)) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    return root


def test_a_root_file_system(rootfs: Path) -> None:
    before = sorted(os.listdir(rootfs))
    done = run_code(ABOUT + "\nprint(os.path.exists('/usr/bin/env'))", rootfs=str(rootfs))
    assert done.error is None, done.error
    assert done.stdout.startswith("/usr ")
    assert done.stdout.endswith("False\n")
    assert sorted(os.listdir(rootfs)) == before


def test_a_root_without_python(tmp_path: Path) -> None:
    with pytest.raises(SandboxStartupError, match="no python3"):
        run_code("1", rootfs=str(tmp_path))


def test_an_image() -> None:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive:
        pytest.skip("no image: contrib/python/check makes one")
    name = "localhost/pysbx-test"
    imported = subprocess.run(
        ["podman", "import", "--quiet", archive, name], capture_output=True, text=True, check=False
    )
    assert imported.returncode == 0, imported.stderr
    done = run_code(ABOUT, image=name)
    assert done.error is None, done.error
    assert done.stdout.startswith("/usr ")
    assert "user:x:1000" in run_code("print(open('/etc/passwd').read())", image=name).stdout
    left = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True).stdout
    assert left == ""


def test_an_image_without_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PodmanNotInstalledError, match="podman"):
        run_code("1", image="localhost/none")


@pytest.mark.parametrize("paths", [("relative", "/x"), ("/x", "relative"), ("/x/../y", "/x"), ("/x", "/y/../z")])
def test_mounts_are_absolute(paths: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        Mount(*paths)


def test_a_mount_that_is_not_there() -> None:
    with pytest.raises(SandboxStartupError, match="nonexistent"):
        run_code("1", mounts=[Mount("/nonexistent/x", "/x")])
