"""The units of `pysbx service install`, and `pysbx serve` with a socket of systemd."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from pysbx.base.managed_files import is_ours
from pysbx.command import main, service
from pysbx.command.service import check_visible, content
from pysbx.service.connections import systemd
from pysbx.service.connections.access import Access, Address, listen
from tests.servers import BEST_EFFORT, PROGRAM, wait_until

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
# systemd-analyze multiplies the exposure by ten. The rest is what sandboxes need: see the comments in the unit.
MOST_EXPOSURE = 19


def installed(prefix: Path) -> list[Path]:
    """Return the files below a directory."""
    return sorted(path for path in prefix.rglob("*") if path.is_file())


def test_install_writes_units_and_uninstall_removes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--", "--memory", "1024", "--allow-package", "a b$c%d"]
    assert main(["service", "install", "--prefix", str(tmp_path), "--listen", "127.0.0.1:8000", *options]) == 0
    said, warned = capsys.readouterr()
    assert "at 127.0.0.1:8000 without a token: add -- --token-file FILE" in warned
    found = {path.name: path.read_text() for path in installed(tmp_path)}
    assert {"pysbx.socket", "pysbx.service"} <= set(found)
    assert ("pysbx.conf" in found) == (os.geteuid() == 0)
    assert "ListenStream=127.0.0.1:8000\n" in found["pysbx.socket"]
    assert f"ExecStart={sys.executable} -I -m pysbx serve --listen systemd" in found["pysbx.service"]
    assert found["pysbx.service"].count('--memory 1024 --allow-package "a b$$c%%d"\n') == 1
    assert "enable --now pysbx.socket" in said
    assert "restart" not in said
    # A service that runs already keeps its options and its address until it is restarted.
    assert main(["service", "install", "--prefix", str(tmp_path), "--listen", "127.0.0.1:8000"]) == 0
    assert capsys.readouterr().out.endswith("try-restart pysbx.service\n")
    assert main(["service", "install", "--prefix", str(tmp_path), "--", "--memory", "512"]) == 0
    said, warned = capsys.readouterr()
    assert (said.endswith("try-restart pysbx.socket pysbx.service\n"), warned) == (True, "")
    place = ["--prefix", str(tmp_path), "--listen", "127.0.0.1:8000"]
    assert main(["service", "install", *place, "--", "--token-file", "/etc/pysbx/token"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["service", "install", "--prefix", str(tmp_path), "--", "--memory", "512"]) == 0
    assert "--memory 512" in next(path for path in installed(tmp_path) if path.name == "pysbx.service").read_text()
    assert main(["service", "uninstall", "--prefix", str(tmp_path)]) == 0
    assert installed(tmp_path) == []


@pytest.mark.parametrize("change", ["[Socket]\n", "{}SocketMode=0666\n", "\n{}"])
def test_a_changed_unit_is_neither_replaced_nor_removed(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--prefix", str(tmp_path)]
    assert main(["service", "install", *place, "--", "--memory", "1024"]) == 0
    other = next(path for path in installed(tmp_path) if path.name == "pysbx.socket")
    other.write_text(text := change.format(other.read_text()))
    assert main(["service", "install", *place]) == 2
    assert f"'{other}' was changed" in capsys.readouterr().err
    assert "--memory 1024" in next(path for path in installed(tmp_path) if path.name == "pysbx.service").read_text()
    assert main(["service", "uninstall", *place]) == 0
    assert f"kept, because it was changed, or was not written by this command: {other}" in capsys.readouterr().out
    assert installed(tmp_path) == [other]
    assert other.read_text() == text
    assert main(["service", "install", "--force", *place]) == 0
    assert is_ours(other)
    other.write_text(text)
    assert main(["service", "uninstall", "--force", *place]) == 0
    assert installed(tmp_path) == []


def test_an_option_cannot_add_a_line() -> None:
    with pytest.raises(ValueError, match="characters that a unit cannot contain"):
        content("pysbx.service", "", ["--memory", "1\nUser=root"], system=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--memroy", "1024"], "unrecognized arguments: --memroy"),
        (["--memory", "much"], "--memory"),
        (["--token-file", "tokens"], "--token-file: 'tokens' must be an absolute path"),
        (["--listen", "127.0.0.1:8000"], "--listen: name the address before '--'"),
        (["--tls-cert=../cert.pem"], "--tls-cert: '../cert.pem' must be an absolute path"),
    ],
)
def test_options_with_which_the_service_would_not_start(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["service", "install", "--prefix", str(tmp_path), "--", *options])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert reason in capsys.readouterr().err
    assert installed(tmp_path) == []


def test_files_that_the_service_cannot_see(monkeypatch: pytest.MonkeyPatch) -> None:
    check_visible("/usr/bin/python3", "")
    for path in (
        "/root/venv/bin/python",
        "/home/ann/.local/bin/python3",
        "/run/user/1000/python",
        "/tmp/venv/bin/python",
    ):
        with pytest.raises(
            ValueError, match=rf"^service: '{path}' is below '/[a-z/]+', which the service cannot see: do"
        ):
            check_visible(path, "do")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        link = Path(folder, "python")
        link.symlink_to("/root/.pyenv/python3")
        with pytest.raises(ValueError, match=r"'/root/\.pyenv/python3' is below '/root'"):
            check_visible(str(link), "")
        monkeypatch.setattr(service, "HIDDEN", (str(link),))  # as /home is a link where it is in /var
        with pytest.raises(ValueError, match="cannot see"):
            check_visible("/root/.pyenv/python3", "")


@pytest.mark.parametrize("hidden", ["/var/tmp/venv/bin/python", "--token-file=/home/ann/token"])
def test_an_installation_that_the_service_cannot_see_writes_nothing(
    hidden: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3" if hidden.startswith("--") else hidden)
    monkeypatch.setattr(service, "__file__", "/opt/pysbx/service.py")
    written: list[object] = []
    monkeypatch.setattr(service, "write_whole", lambda *given: written.append(given))
    assert main(["service", "install", "--", *([hidden] if hidden.startswith("--") else [])]) != 0
    assert written == []
    assert "which the service cannot see: " in capsys.readouterr().err


def test_the_unit_of_a_user_needs_no_namespaces() -> None:
    # A user's manager cannot make the place for the second /proc, and in a user namespace root is unknown, so the
    # service would trust no directory. tests/vm/service.bats starts both units.
    names = ("BindPaths", "PrivateUsers", "PrivateMounts", "PrivateTmp", "ProtectKernelTunables", "ProtectKernelLogs")
    for system in (True, False):
        lines = content("pysbx.service", "", [], system=system).split("\n")
        found = {line.partition("=")[0] for line in lines}
        assert found & set(names) == (set(names) if system else set())
        assert {"NoNewPrivileges", "SystemCallFilter", "RestrictNamespaces", "Delegate"} <= found


def units(folder: Path) -> Path:
    """Write the units for the manager of the system, and return the one of the service."""
    for name in ("pysbx.socket", "pysbx.service"):
        (folder / name).write_text(content(name, "", ["--memory", "600"], system=True))
    return folder / "pysbx.service"


@needs_systemd
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    unit = units(tmp_path)
    command = ["systemd-analyze", "verify", "--man=no", str(unit), str(tmp_path / "pysbx.socket")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # Other units of the machine may be wrong.
    assert "pysbx" not in done.stderr, done.stderr


def test_five_slow_starts_that_fail_are_the_last() -> None:
    quadlet = Path(__file__).parents[2] / "service/quadlet/pysbx.container"
    for text in (content("pysbx.service", "", [], system=True), quadlet.read_text()):
        found = dict(line.split("=", 1) for line in text.split("\n") if line.partition("=")[2].isdecimal())
        interval, burst, pause, start = (
            int(found[name]) for name in ("StartLimitIntervalSec", "StartLimitBurst", "RestartSec", "TimeoutStartSec")
        )
        assert burst * (pause + start) < interval
        # systemd ignores these lines, and says nothing, elsewhere than in this section.
        assert text.index("[Unit]") < text.index("StartLimitIntervalSec=") < text.index("\n[", text.index("[Unit]"))


@needs_systemd
@pytest.mark.skipif(os.geteuid() != 0, reason="systemd-analyze security makes directories in /run")
def test_the_service_is_hardened(tmp_path: Path) -> None:
    unit = units(tmp_path)
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSURE}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="there is no systemd-socket-activate")
def test_the_first_connection_starts_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSBX_TOKEN", raising=False)
    path = tmp_path / "s"
    command = ["systemd-socket-activate", "-E", "PATH", "-E", "PYSBX_RUNTIME", "-E", "HOME", "-E", "XDG_RUNTIME_DIR"]
    command += ["-E", "XDG_CACHE_HOME", "-E", "NOTIFY_SOCKET", "-l", str(path)]
    command += [*PROGRAM, "serve", BEST_EFFORT, "--listen", "systemd"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states:
        states.bind(str(tmp_path / "notify"))
        states.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(path.exists)
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=60) as client:
                assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            assert states.recv(100) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
            assert process.returncode == 0, said
            assert states.recv(100) == b"STOPPING=1"
        finally:
            process.kill()
            process.wait()
    assert f"pysbx: HTTP service at unix:{path}\n" in said
    assert path.exists(), "the socket is systemd's"


@pytest.mark.parametrize(
    ("name", "directory", "mode", "is_refused"),
    [
        ("", 0o755, 0o666, True),  # as a unit without SocketMode= has it
        ("", 0o755, 0o660, False),
        ("", 0o700, 0o666, False),  # as in the runtime directory of a user
        ("\0pysbx-test-of-all-users", 0o700, 0o600, True),  # an abstract socket has no modes
    ],
)
def test_a_socket_of_systemd_that_all_users_reach_needs_a_token(
    name: str, directory: int, mode: int, *, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All users enter /tmp, and not each $TMPDIR.
    with tempfile.TemporaryDirectory(dir="/tmp") as top, socket.socket(socket.AF_UNIX) as made:
        made.bind(name or f"{top}/s")
        made.listen()
        Path(top).chmod(directory)
        if not name:
            Path(f"{top}/s").chmod(mode)
        monkeypatch.setattr(systemd, "inherited", made.dup)
        monkeypatch.setattr(systemd, "make_room", lambda: None)
        with pytest.raises(ValueError, match="needs a token") if is_refused else contextlib.nullcontext():
            listen(Address(inherited=True), Access()).close()
        listen(Address(inherited=True), Access(("0123456789abcdef",))).close()


def test_a_port_of_systemd_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as made:
        monkeypatch.setattr(systemd, "inherited", made.dup)
        with pytest.raises(ValueError, match=f"127.0.0.1:{made.getsockname()[1]} needs a token"):
            listen(Address(inherited=True), Access())


def test_without_a_socket_of_systemd_it_does_not_start() -> None:
    command = [*PROGRAM, "serve", BEST_EFFORT, "--listen", "systemd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "systemd has not handed one socket on" in done.stderr
