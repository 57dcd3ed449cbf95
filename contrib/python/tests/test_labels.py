"""Labels of SELinux: the categories of a sandbox, and its own configuration.

The policy itself needs a kernel that enforces it: tests/vm/pysbx.bats.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx import Mount, SandboxStartupError
from pysbx.base.directories import run_directory
from pysbx.base.runtime import Choice
from pysbx.calls.prepare import prepare
from pysbx.container import labels
from pysbx.container.bundle import Bundle
from pysbx.container.container import Container
from pysbx.options.options import make_options


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """Return a copy of a bundle with the labels that add() writes where the policy has them."""
    made = prepare(make_options())
    path = Path(shutil.copytree(made.path, tmp_path / "bundle", symlinks=True))
    config = json.loads((path / "config.json").read_text())
    config["process"]["selinuxLabel"], config["linux"]["mountLabel"] = labels.PROCESS, labels.FILES
    (path / "config.json").write_text(json.dumps(config))
    return Bundle(path, made.options, made.enforcement, labelled=True)


@contextlib.contextmanager
def individual(bundle: Bundle) -> Iterator[tuple[str, str, int]]:
    """Yield the labels of a sandbox, and the descriptor of its lock."""
    config, lock = labels.individual(bundle.path)
    try:
        content = json.loads(Path(f"/proc/self/fd/{config}").read_text())
        yield content["process"]["selinuxLabel"], content["linux"]["mountLabel"], lock
    finally:
        os.close(config)
        os.close(lock)


def is_taken(label: str) -> bool:
    """Tell whether another sandbox could not get the categories of a label."""
    low, high = (int(name[1:]) for name in label.rpartition(":")[2].split(","))
    with open(run_directory() / "categories", "r+b") as file:
        lock = labels.FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, low * labels.CATEGORIES + high, 1, 0)
        try:
            fcntl.fcntl(file, labels.F_OFD_SETLK, lock)
        except BlockingIOError:
            return True
        return False


def test_each_sandbox_has_two_categories_of_its_own_in_both_labels(bundle: Bundle) -> None:
    with contextlib.ExitStack() as running:
        found = [running.enter_context(individual(bundle))[:2] for _ in range(100)]
    assert len({process for process, _ in found}) == 100
    for process, files in found:
        categories = process.removeprefix(f"{labels.PROCESS}:")
        low, high = (int(name[1:]) for name in categories.split(","))
        assert 0 <= low < high < 1024
        assert files == f"{labels.FILES}:{categories}"


def test_categories_are_free_again_when_the_process_that_inherited_the_lock_has_ended(bundle: Bundle) -> None:
    with individual(bundle) as (label, _, lock):
        runtime = subprocess.Popen(["sleep", "1000"], pass_fds=(lock,))
        assert is_taken(label)
    assert is_taken(label)
    runtime.kill()
    runtime.wait()
    assert not is_taken(label)


def test_too_many_sandboxes_are_an_error(bundle: Bundle) -> None:
    with open(run_directory() / "categories", "a+b") as file:
        every = labels.FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file, labels.F_OFD_SETLK, every)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(SandboxStartupError, match="no pair of SELinux categories is free"):
            labels.individual(bundle.path)
        assert os.listdir("/proc/self/fd") == before


def test_the_runtime_gets_the_configuration_of_the_sandbox(bundle: Bundle) -> None:
    if os.path.exists("/sys/fs/selinux/enforce"):
        pytest.skip("this kernel has SELinux, so the runtime does not refuse a label")
    asked = r"process\.selinuxLabel: 'system_u:system_r:pysbx_sandbox_t:s0:c\d+,c\d+' is asked for"
    with pytest.raises(SandboxStartupError, match=asked), Container(bundle) as container:
        container.exchange({"op": "run"}, 30, last=True)


def test_a_mount_that_the_sandbox_may_write_to_decides_the_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "obstacle", lambda: "")
    for readonly, label in ((True, labels.PROCESS), (False, labels.WRITER)):
        made = prepare(make_options(mounts=[Mount(str(tmp_path), "/given", readonly=readonly)]))
        assert made.labelled
        config = json.loads((made.path / "config.json").read_text())
        assert (config["process"]["selinuxLabel"], config["linux"]["mountLabel"]) == (label, labels.FILES)


def test_without_selinux_a_configuration_has_no_label() -> None:
    if os.path.exists("/sys/fs/selinux/enforce"):
        pytest.skip("this kernel has SELinux, for which tests/vm/pysbx.bats tests the labels")
    made = prepare(make_options())
    assert not made.labelled
    assert "selinuxLabel" not in (made.path / "config.json").read_text()
    assert labels.obstacle() == "there is no SELinux on this machine"


def test_the_policy_that_doctor_names_belongs_to_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, shipped = tmp_path / "bin/pysbx-runtime", tmp_path / labels.SHIPPED
    monkeypatch.setattr(labels, "choose_runtime", lambda: Choice(str(program), "it is installed"))
    assert labels.remedy() == "as root: semodule --install config/selinux/pysbx.cil"
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    assert labels.remedy() == f"as root: semodule --install {shipped}"
