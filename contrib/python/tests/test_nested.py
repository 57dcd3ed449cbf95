"""Sandboxes in the containers of other engines: what works with which options, and what a refusal advises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pysbx.base import runtime

ENGINES = Path(__file__).parents[3] / "build/engines/bin"
NAME = "localhost/pysbx-nested"
HARD = "--user 1000 --cap-drop all --read-only --security-opt no-new-privileges"
# The program in the container: a sandbox of each kind, the reasons of those that are refused, and the advice of doctor.
PROGRAM = """
import json
from pysbx import SandboxError, run_code
from pysbx.machine import doctor
said = {}
for kind in ("container", "process"):
    try:
        done = run_code("import os; [40 + 2, os.getpid()]", isolation=kind)
        assert done.error is None, done.error
        number, first = eval(done.value)
        said[kind] = [done.isolation, number, first == 2]
    except SandboxError as error:
        said[kind] = str(error)
said["warm"] = run_code("1").warm if isinstance(said["container"], list) else None
said["doctor"] = doctor._start().remedy
print(json.dumps(said))
"""
# The kind, the value, and whether the code is process 2, the child of the init in a pid namespace of its own.
IN_A_CONTAINER, IN_A_PROCESS = ["container", 42, True], ["process", 42, False]
Engine = Callable[[str], dict[str, Any]]


def _mounts() -> list[str]:
    """Return the options that show the package and the runtime to a container."""
    if sys.version_info[:2] != _version_of_image():
        pytest.skip("the image has another version of Python")
    library = next(Path("/usr/lib").glob("*/libseccomp.so.2"), None)
    if library is None:
        pytest.skip("no libseccomp to show to the container")
    packages = next(path for path in sys.path if path.startswith(sys.prefix) and path.endswith("site-packages"))
    program = Path(runtime.find_runtime()).parent
    found = []
    for source, target in ((packages, "/opt/site"), (program, "/opt/runtime"), (library, library)):
        found += ["--volume", f"{source}:{target}:ro"]
    variables = {"PYTHONPATH": "/opt/site", "PYSBX_RUNTIME": f"/opt/runtime/{Path(runtime.find_runtime()).name}"}
    variables |= {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"}
    return [*found, *(word for name, value in variables.items() for word in ("--env", f"{name}={value}"))]


def _version_of_image() -> tuple[int, ...]:
    listed = subprocess.run(["tar", "--list", "--file", _archive()], capture_output=True, text=True, check=True).stdout
    name = next(line for line in listed.splitlines() if line.startswith("./usr/bin/python3."))
    return tuple(map(int, name.removeprefix("./usr/bin/python").split(".")))


def _archive() -> str:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive:
        pytest.skip("no image: contrib/python/check makes one")
    return archive


def _said(command: list[str], options: str) -> dict[str, Any]:
    line = [*command, "run", "--rm", "--network", "none", "--tmpfs", "/tmp:mode=1777", *_mounts(), *options.split()]
    done = subprocess.run([*line, NAME, "python3", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def podman() -> Engine:
    """Podman with the runtime of the distribution, as the user of the tests."""
    # crun loads the filter for devices only with CAP_SYS_RESOURCE, which root may lack.
    names = ("crun", "runc") if os.geteuid() else ("runc", "crun")
    outer = next(filter(None, map(shutil.which, names)), None)
    if shutil.which("podman") is None or outer is None:
        pytest.skip("no Podman, or no runtime of the distribution")
    subprocess.run(["podman", "import", "--quiet", _archive(), NAME], capture_output=True, check=True)
    return lambda options: _said(["podman", "--runtime", outer], options)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Docker with its own runtime, as root."""
    if os.geteuid() != 0 or not (ENGINES / "dockerd").exists():
        pytest.skip("no Docker (tests/setup/engines), or not root")
    top = Path("/run/pysbx-nested")
    top.mkdir()
    variables = {**os.environ, "PATH": f"{ENGINES}:{os.environ['PATH']}", "DOCKER_HOST": f"unix://{top}/socket"}
    arguments = [
        "dockerd", "--host", variables["DOCKER_HOST"], "--data-root", f"{top}/data", "--exec-root", f"{top}/exec",
        "--pidfile", f"{top}/pid", "--exec-opt", "native.cgroupdriver=cgroupfs", "--storage-driver", "overlay2",
        "--bridge", "none", "--iptables=false",
    ]  # fmt: skip
    command = ["env", *(f"{name}={variables[name]}" for name in ("PATH", "DOCKER_HOST")), "docker"]
    with (top / "log").open("wb") as log, subprocess.Popen(arguments, env=variables, stdout=log, stderr=log) as daemon:
        try:
            deadline = time.monotonic() + 60
            while subprocess.run([*command, "version"], capture_output=True, check=False).returncode != 0:
                assert time.monotonic() < deadline, (top / "log").read_text()
                time.sleep(0.1)
            subprocess.run([*command, "import", _archive(), NAME], capture_output=True, check=True)
            yield lambda options: _said(command, options)
        finally:
            daemon.terminate()


ADVICE = "--security-opt unmask=ALL (Podman), --security-opt systempaths=unconfined (Docker), or procMount: Unmasked"


@pytest.mark.parametrize(
    "options",
    ["", "--read-only", "--user 1000", HARD, "--security-opt seccomp=unconfined", "--cap-add SYS_ADMIN"],
)
def test_podman_by_default_hides_parts_of_proc(podman: Engine, options: str) -> None:
    said = podman(options)
    assert "proc is not permitted here" in said["container"]
    assert ADVICE in said["container"]
    assert said["container"].endswith("or choose fewer promises: isolation='process'")
    assert ADVICE in said["doctor"]
    assert said["process"] == IN_A_PROCESS


@pytest.mark.parametrize(
    "options", ["", "--read-only", "--user 1000", HARD, "--user 1000 --security-opt seccomp=unconfined"]
)
def test_podman_with_unmask_all_has_full_sandboxes(podman: Engine, options: str) -> None:
    said = podman(f"--security-opt unmask=ALL {options}")
    assert (said["container"], said["process"], said["doctor"]) == (IN_A_CONTAINER, IN_A_PROCESS, "")


def test_podman_with_root_and_without_capabilities(podman: Engine) -> None:
    said = podman("--cap-drop all --security-opt unmask=ALL")
    assert "--user 1000" in said["container"] and "--cap-add SETFCAP" in said["container"]
    assert said["process"].startswith("root cannot give the process a user of its own")
    assert said["process"].endswith("with --user 1000, or with " + " ".join(
        f"--cap-add {name}" for name in ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID")
    ))  # fmt: skip


@pytest.mark.parametrize("options", ["", "--read-only --tmpfs /run", "--user 1000", HARD])
def test_docker_by_default_refuses_namespaces(docker: Engine, options: str) -> None:
    said = docker(options)
    assert "clone with new namespaces" in said["container"]
    for word in ("--security-opt seccomp=unconfined", "--security-opt systempaths=unconfined", "seccompProfile"):
        assert word in said["container"]
        assert word in said["doctor"]
    assert said["process"] == IN_A_PROCESS


@pytest.mark.parametrize("options", ["", "--user 1000", HARD])
def test_docker_without_its_filter_and_masks_has_full_sandboxes(docker: Engine, options: str) -> None:
    said = docker(f"--security-opt seccomp=unconfined --security-opt systempaths=unconfined {options}")
    assert (said["container"], said["process"]) == (IN_A_CONTAINER, IN_A_PROCESS)
