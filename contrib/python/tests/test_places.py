"""Where the package keeps its files, and what it refuses to use; what its README shows."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgpack import _cmsgpack

from pysbx import SandboxStartupError
from pysbx.base.directories import private_directory, run_directory
from pysbx.calls.execution import run_chosen
from pysbx.calls.prepare import prepare
from pysbx.container import payload
from pysbx.options.options import make_options
from tests.packages import make_wheel


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert private_directory(made) == made


def test_what_others_must_see_they_see_whatever_the_umask_is(tmp_path: Path) -> None:
    """The user in root's sandboxes is another one. The path is longer than that of a socket may be."""
    below = tmp_path / ("long" * 30)
    below.mkdir()
    make_wheel(below, "thing", "1.0", "version = 1\n")
    source = (
        "import socket, thing\n"
        "proxy = socket.create_connection(('127.0.0.1', 1080), 10)\n"
        "proxy.sendall(b'CONNECT elsewhere.example:443 HTTP/1.1\\r\\n\\r\\n')\n"
        "thing.version, proxy.recv(12)"
    )
    program = (
        "from pysbx import run_code\n"
        f"done = run_code({source!r}, dependencies=['thing'], wheels='{below}', allow_network=['example.org'])\n"
        "print(done.value, done.error)\n"
    )
    new = {name: str(private_directory(below / name)) for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | new, umask=0o077, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(1, b'HTTP/1.1 403') None\n", done.stderr


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/tmp")
    for name in ("open", "file", "link"):
        with pytest.raises(SandboxStartupError):
            private_directory(tmp_path / name)


def test_a_directory_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(SandboxStartupError, match="replace"):
        private_directory(above / "mine")
    above.chmod(0o1777)
    private_directory(above / "mine")
    if os.geteuid() == 0:
        above.chmod(0o755)
        os.chown(above, 4711, 4711)
        with pytest.raises(SandboxStartupError, match="replace"):
            private_directory(above / "mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the home of another user")
def test_in_the_home_of_another_user_nothing_is_made(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, 4711)
    with pytest.raises(SandboxStartupError, match="others can replace"):
        private_directory(tmp_path / ".cache" / "pysbx")
    assert os.listdir(tmp_path) == []


def test_a_trusted_directory_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volume, other = tmp_path / "volume", tmp_path / "other"
    for directory in (volume, other):
        directory.mkdir()
        directory.chmod(0o777)
    monkeypatch.setenv("PYSBX_TRUSTED_DIRECTORIES", f"/nowhere:{volume}")
    assert private_directory(volume / "mine").stat().st_mode & 0o066 == 0
    # It is trusted itself, and nothing else is: neither its neighbour nor what others made in it.
    with pytest.raises(SandboxStartupError, match="PYSBX_TRUSTED_DIRECTORIES"):
        private_directory(other / "mine")
    (volume / "inner").mkdir()
    (volume / "inner").chmod(0o777)
    with pytest.raises(SandboxStartupError, match="replace"):
        private_directory(volume / "inner/mine")


def test_without_a_directory_for_bundles_the_error_names_the_remedy() -> None:
    program = (
        "import tempfile\n"
        "tempfile._candidate_tempdir_list = lambda: ['/proc']\n"
        "from pysbx import SandboxError\nfrom pysbx.base.directories import run_directory\n"
        "try:\n    run_directory()\nexcept SandboxError as error:\n    print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    if os.geteuid() == 0:
        pytest.skip("root's bundles are below /run")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "mount a file system at /tmp, or set XDG_RUNTIME_DIR" in done.stdout


# A directory below /tmp has a known name, so another user may have taken it, or the user has opened it.
TAKEN = {"writable": "mkdir -m 777", "readable": "mkdir -m 755", "a link": "ln -s .", "a file": "touch"}
if os.geteuid() == 0:
    TAKEN["another user's"] = "install -d -m 700 -o 4712"


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_a_directory_that_is_taken_stops_no_user(take: str) -> None:
    user = os.geteuid() or 4711
    become: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        top = Path(name)
        top.chmod(0o1777)
        subprocess.run([*take.split(), top / f"pysbx-{user}"], check=True)
        (top / f"pysbx-{user}-other").symlink_to(f"pysbx-{user}")
        command = [sys.executable, "-c", "from pysbx.base.directories import run_directory; print(run_directory())"]
        environment = {"TMPDIR": name, "PATH": os.environ["PATH"]}
        said = [subprocess.check_output(command, env=environment, text=True, **become) for _ in range(2)]
        # It has another name, which the next program finds.
        assert said[0] == said[1]
        made = Path(said[0][:-1])
        assert re.fullmatch(rf"{name}/pysbx-{user}-\w{{8}}", str(made))
        assert (made.stat().st_uid, made.stat().st_mode & 0o7777) == (user, 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_the_documented_lines_find_no_socket_of_another_user() -> None:
    page = Path(__file__).parents[2] / "docs/pages/how-to/service.md"
    lines = re.findall(r"^socket=none\n.*?^done\n", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    user = 1_000_000 + os.getpid()
    top = Path(f"/tmp/pysbx-{user}")
    command = ["bash", "-euc", f"{lines[0]}echo $socket"]
    options: dict[str, Any] = {"env": {"PATH": os.environ["PATH"]}, "user": user, "text": True}
    top.mkdir(mode=0o755)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"{top}/http.sock")
        assert subprocess.check_output(command, **options) == "none\n"
        os.chown(top, user, user)
        assert subprocess.check_output(command, **options) == f"{top}/http.sock\n"
    finally:
        shutil.rmtree(top)


def test_bundles_belong_to_the_caller_alone() -> None:
    made = prepare(make_options())
    assert made.path.is_relative_to(run_directory())
    # Others may enter it where the user of root's sandboxes has to: then they need the name of what they look for.
    assert run_directory().stat().st_mode & 0o066 == 0
    assert (made.path / "config.json").stat().st_mode & 0o077 == 0


def test_bundles_that_nobody_uses_go() -> None:
    old = prepare(make_options(env={"TEST": "old"})).path
    os.utime(old, (1, 1))
    new = prepare(make_options(env={"TEST": str(time.time())})).path
    assert new.is_dir()
    assert not old.exists()


def test_libraries_of_the_payload_are_without_what_no_loader_reads(tmp_path: Path) -> None:
    whole = Path(_cmsgpack.__file__)
    part = payload._loaded_part(whole.read_bytes())
    assert len(part) < whole.stat().st_size
    assert payload._loaded_part(part) == part
    path = tmp_path / whole.name
    path.write_bytes(part)
    program = f"""import msgpack, sys
from importlib.util import module_from_spec, spec_from_file_location
module = module_from_spec(spec := spec_from_file_location('msgpack._cmsgpack', {str(path)!r}))
spec.loader.exec_module(module)
print(list(module.Packer().pack([1])))"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[145, 1]"
    for other in (b"", b"\x7fELF", b"import this\n" * 20):
        assert payload._loaded_part(other) == other


def test_what_is_shared_with_sandboxes_is_readable_and_not_writable_for_others() -> None:
    for file in payload.directory().rglob("*"):
        mode = file.stat().st_mode
        assert mode & 0o004, file
        assert not mode & 0o022, file


def test_what_somebody_has_deleted_is_made_again() -> None:
    program = (
        "import shutil\nfrom pysbx import run_code\nfrom pysbx.base.directories import run_directory\n"
        "from pysbx.container import payload\n"
        "for path in (run_directory() / 'bundles', run_directory() / 'roots', payload.directory()):\n"
        "    assert run_code('1').exit_code == 0\n    shutil.rmtree(path)\nprint(run_code('6 * 7').value)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_the_first_example_of_the_readme() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```\s+```output\n(.*?)```", readme, re.DOTALL)
    assert example is not None
    done = subprocess.run([sys.executable, "-c", example[1]], capture_output=True, text=True, check=True)
    assert done.stdout == example[2]


def test_a_bundle_that_several_threads_need_at_once_also_without_its_root() -> None:
    def needed(number: int) -> bool:
        path = prepare(make_options(timeout_sec=200 + number)).path
        return (path / "config.json").is_file() and (path / "rootfs/etc/hosts").is_file()

    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            assert all(pool.map(needed, [number] * 8))
        shutil.rmtree(run_directory() / "roots")
        assert all(pool.map(needed, [0] * 8))
    assert run_chosen(make_options(timeout_sec=200), "1").value == "1"
