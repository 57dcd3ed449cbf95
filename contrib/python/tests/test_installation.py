"""`pysbx runtime install` and `uninstall`, which runtime is used, and `python -m pysbx`."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pysbx.base import runtime
from pysbx.base.directories import write_whole
from pysbx.errors import SandboxStartupError
from pysbx.machine import installation
from pysbx.version import VERSION

FILES = {
    "bin/pysbx-runtime": "program",
    "libexec/pysbx-runtime-dynamic": "program",
    "share/man/man8/pysbx-runtime.8": "see /usr/local/share/pysbx-runtime",
    "share/pysbx-runtime/containers.conf.d/50-pysbx.conf": 'pysbx-runtime = ["/usr/local/bin/pysbx-runtime"]',
}


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the package a tree, as a wheel has it."""
    tree = tmp_path / "bundled"
    for name, content in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    (tree / "bin/pysbx-runtime").chmod(0o755)
    monkeypatch.setattr(installation, "TREE", tree)
    monkeypatch.setattr(installation, "BUNDLED", tree / "bin/pysbx-runtime")
    monkeypatch.setattr(runtime, "BUNDLED", tree / "bin/pysbx-runtime")
    monkeypatch.delenv("PYSBX_RUNTIME", raising=False)
    runtime.choose_runtime.cache_clear()
    return tree


@pytest.fixture(autouse=True)
def choose_again() -> object:
    """Let other tests choose the runtime anew."""
    yield
    runtime.choose_runtime.cache_clear()


def listed(prefix: Path) -> set[str]:
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}


def test_install_copies_everything_and_names_the_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    assert set(installation.install(prefix)) == set(FILES)
    assert listed(prefix) == {*FILES, str(installation.MANIFEST)}
    assert os.access(prefix / "bin/pysbx-runtime", os.X_OK)
    assert os.access(prefix / "libexec/pysbx-runtime-dynamic", os.X_OK)
    drop_in = (prefix / "share/pysbx-runtime/containers.conf.d/50-pysbx.conf").read_text()
    assert drop_in == f'pysbx-runtime = ["{prefix}/bin/pysbx-runtime"]'
    assert (prefix / "share/man/man8/pysbx-runtime.8").read_text() == f"see {prefix}/share/pysbx-runtime"


def test_uninstall_leaves_what_was_there(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/other").write_text("other")
    installation.install(prefix)
    removed, kept = installation.uninstall(prefix)
    assert (len(removed), kept) == (len(FILES), [])
    assert [str(path.relative_to(prefix)) for path in prefix.rglob("*")] == ["bin", "bin/other"]


def test_uninstall_keeps_a_file_that_has_changed(tmp_path: Path) -> None:
    installation.install(tmp_path / "prefix")
    changed = tmp_path / "prefix/share/pysbx-runtime/containers.conf.d/50-pysbx.conf"
    changed.write_text("mine")
    assert installation.uninstall(tmp_path / "prefix")[1] == [str(changed)]
    assert listed(tmp_path / "prefix") == {"share/pysbx-runtime/containers.conf.d/50-pysbx.conf"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_install_overwrites_no_file_of_another_origin(tmp_path: Path, name: str) -> None:
    there = tmp_path / "prefix" / name
    there.parent.mkdir(parents=True)
    there.symlink_to("/nonexistent")
    with pytest.raises(installation.InstallationError, match=f"{there}.*remove them"):
        installation.install(tmp_path / "prefix")
    there.unlink()
    there.write_text(FILES[name])
    with pytest.raises(installation.InstallationError, match="not installed by"):
        installation.install(tmp_path / "prefix")
    assert listed(tmp_path / "prefix") == {name}


def test_a_later_version_replaces_the_files_of_an_earlier_one(tmp_path: Path, bundled: Path) -> None:
    prefix = tmp_path / "prefix"
    installation.install(prefix)
    (bundled / "bin/pysbx-runtime").write_text("later program")
    (bundled / "libexec/pysbx-runtime-dynamic").unlink()
    installation.install(prefix)
    assert (prefix / "bin/pysbx-runtime").read_text() == "later program"
    assert not (prefix / "libexec/pysbx-runtime-dynamic").exists()
    installation.uninstall(prefix)
    assert not list(prefix.rglob("*"))


def test_an_interrupted_installation_can_be_repeated(
    tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "prefix"
    installation.install(prefix)
    for name in FILES:
        (bundled / name).write_text("later")

    def fail(path: Path, content: bytes, mode: int = 0o644) -> None:
        if path.name == "pysbx-runtime-dynamic":
            raise OSError(28, "No space left on device")
        write_whole(path, content, mode)

    monkeypatch.setattr("pysbx.machine.installation.write_whole", fail)
    with pytest.raises(OSError, match="No space"):
        installation.install(prefix)
    monkeypatch.setattr("pysbx.machine.installation.write_whole", write_whole)
    installation.install(prefix)
    assert {(prefix / name).read_text() for name in FILES} == {"later"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", *(f'{{"files": {{"{name}": []}}, "directories": []}}' for name in ("../outside", "/etc/passwd", "."))],
)
def test_a_damaged_manifest_removes_nothing(tmp_path: Path, content: str) -> None:
    prefix, outside = tmp_path / "prefix", tmp_path / "outside"
    outside.write_text("")
    installation.install(prefix)
    (prefix / installation.MANIFEST).write_text(content)
    for function in (installation.install, installation.uninstall):
        with pytest.raises(installation.InstallationError, match="damaged"):
            function(prefix)
    assert outside.exists()


def test_nothing_to_remove_and_nothing_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(installation.InstallationError, match="has installed nothing"):
        installation.uninstall(tmp_path / "prefix")
    with pytest.raises(ValueError, match="choose another directory"):
        installation.install(tmp_path / "a prefix")
    monkeypatch.setattr(installation, "BUNDLED", tmp_path / "none")
    with pytest.raises(installation.InstallationError, match="built without a runtime"):
        installation.install(tmp_path / "prefix")


def test_the_bundled_runtime_comes_before_the_one_on_path(
    tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "bin"
    directory.mkdir()
    other = directory / "pysbx-runtime"
    shutil.copy(bundled / "bin/pysbx-runtime", other)
    monkeypatch.setenv("PATH", str(directory))
    assert runtime.choose_runtime() == runtime.Choice(
        str(bundled / "bin/pysbx-runtime"), "it is part of this package", str(other)
    )
    monkeypatch.setenv("PYSBX_RUNTIME", str(other))
    runtime.choose_runtime.cache_clear()
    assert runtime.choose_runtime() == runtime.Choice(str(other), "PYSBX_RUNTIME names it")
    monkeypatch.delenv("PYSBX_RUNTIME")
    (bundled / "bin/pysbx-runtime").unlink()
    runtime.choose_runtime.cache_clear()
    assert runtime.choose_runtime() == runtime.Choice(str(other), "it is the first one on PATH")


def test_without_a_runtime_the_error_names_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime, "BUNDLED", tmp_path / "none")
    monkeypatch.setattr(runtime, "USUAL_PLACES", (str(tmp_path / "usual"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxStartupError, match=f"without one.* PATH nor {tmp_path}/usual.*PYSBX_RUNTIME"):
        runtime.find_runtime()


def test_version_and_python_m(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSBX_RUNTIME": str(tmp_path / "bundled/bin/pysbx-runtime")}
    for variables, line in (
        (environment, f"runtime: {environment['PYSBX_RUNTIME']}: PYSBX_RUNTIME names it"),
        ({**environment, "PYSBX_RUNTIME": "/none"}, "runtime: none: program pysbx-runtime not found"),
    ):
        command = [sys.executable, "-m", "pysbx", "--version"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == f"pysbx {VERSION}"
        assert done.stdout.splitlines()[1].startswith(line)


def test_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pysbx", "runtime", "uninstall", "--prefix", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "has installed nothing" in done.stderr) == (125, True)


def test_the_manifest_is_readable_by_all(tmp_path: Path) -> None:
    installation.install(tmp_path / "prefix")
    manifest = tmp_path / "prefix" / installation.MANIFEST
    assert manifest.stat().st_mode & 0o777 == 0o644
    assert json.loads(manifest.read_text())["files"].keys() == FILES.keys()


def test_a_profile_of_apparmor_that_its_parser_refuses_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/vm/apparmor.bats installs, changes and removes the shipped one."""
    from pysbx.machine import apparmor

    shipped = tmp_path / "prefix/share/pysbx-runtime/apparmor/pysbx-runtime"
    shipped.parent.mkdir(parents=True)
    shipped.write_text("profile {")
    monkeypatch.setattr(apparmor, "PROFILE", str(tmp_path / "apparmor.d/pysbx-runtime"))
    monkeypatch.setattr(apparmor, "DIRECTORY", tmp_path / "apparmor.d")
    assert apparmor.install(tmp_path / "prefix") == ""  # a machine without AppArmor
    (tmp_path / "apparmor.d").mkdir()
    assert apparmor.install(tmp_path / "prefix").startswith("AppArmor: no profile is installed: ")
    assert not any((tmp_path / "apparmor.d").iterdir())


def test_where_apparmor_restricts_user_namespaces_the_remedy_is_the_profile(
    tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only Ubuntu has this setting. No remedy switches the protection off for the whole machine."""
    from pysbx.base import runtime
    from pysbx.container import start_refusals
    from pysbx.machine import doctor

    setting, profile, prefix = tmp_path / "setting", tmp_path / "profile", tmp_path / "prefix"
    refused = "no-namespaces"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for module in (start_refusals, doctor):
        monkeypatch.setattr(module, "APPARMOR", str(setting))
        monkeypatch.setattr(module, "PROFILE", str(profile))

    def remedy() -> str:
        runtime.choose_runtime.cache_clear()
        check = doctor._namespaces()
        assert (check.status, check.found) == ("failure", f"{setting} is 1, and {profile} does not name this runtime")
        assert start_refusals.remedy_for(refused).startswith(check.remedy)
        assert "sysctl" not in check.remedy
        return check.remedy

    setting.write_text("0\n")
    assert doctor._namespaces().status == "ok"
    setting.write_text("1\n")
    program = prefix / "bin/pysbx-runtime"
    program.parent.mkdir(parents=True)
    shutil.copy(bundled / "bin/pysbx-runtime", program)
    monkeypatch.setenv("PYSBX_RUNTIME", str(program))
    assert remedy().endswith(f"and its profile as {profile}: sudo make install")
    monkeypatch.setattr(runtime, "USUAL_PLACES", (str(program),))
    shipped = prefix / start_refusals.SHIPPED
    shipped.parent.mkdir(parents=True)
    shipped.write_text(f"profile pysbx-runtime {program} flags=(unconfined) {{ userns, }}\n")
    assert f"sudo cp {shipped} {profile} && sudo apparmor_parser --replace {profile}" in remedy()
    monkeypatch.delenv("PYSBX_RUNTIME")
    assert "sudo pysbx runtime install" in remedy()  # the one of the package
    monkeypatch.setenv("PYSBX_RUNTIME", str(program))
    runtime.choose_runtime.cache_clear()
    profile.write_bytes(shipped.read_bytes())  # as the remedy says
    assert doctor._namespaces().status == "ok"
    assert "profile" not in start_refusals.remedy_for(refused)
