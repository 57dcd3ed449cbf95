"""`pysbx serve`, and a session that is saved, on a full disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pysbx import Sandbox, SandboxError
from pysbx.base.directories import private_directory
from pysbx.service.observe.audit import Audit
from tests.servers import PROGRAM, metric, server


@contextmanager
def small_disk(where: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a size."""
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_is_told_and_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(disk))
        with server(listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
            assert service.run("1")["value"] == "1"
            with (disk / "fill").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
                while True:
                    file.write(b"x" * 4096)
            # Another limit needs another bundle.
            answer = service.post("/v1/run", code="1", memory_mb=333)
            found = answer.json()
            assert answer.status_code in (500, 503), answer.text
            name = found["type"].rpartition(":")[2]
            assert "No space left on device" in found["detail"]
            assert metric(service, f'pysbx_problems_total{{problem="{name}"}}') == 1
            (disk / "fill").unlink()
            assert service.run("6 * 7", memory_mb=333)["value"] == "42"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_that_cannot_be_written_is_no_mistake_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk))
        with server(listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
            session = "/v1/sessions/" + service.post("/v1/sessions").json()["id"]
            assert service.post(f"{session}/snapshot", name="one").status_code == 201
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            answer = service.post(f"{session}/snapshot", name="two")
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:pysbx:problem:exhausted")
            assert "Read-only file system" in answer.json()["detail"]
            assert service.post(f"{session}/run", code="6 * 7").json()["value"] == "42"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_doctor_gives_its_whole_report_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(disk))
        (disk / "pysbx").mkdir(mode=0o700)
        with (disk / "fill").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 4096)
        done = subprocess.run([*PROGRAM, "doctor", "--json"], capture_output=True, text=True, check=False)
    found = {check["name"]: check["status"] for check in json.loads(done.stdout)}
    assert (done.returncode, found["limits"], found["kernel"]) == (1, "failure", "ok")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("meanwhile", ["nothing", "SIGHUP", "a restart"])
def test_the_audit_log_goes_on_with_whole_lines(tmp_path: Path, meanwhile: str) -> None:
    lost: list[bool] = []
    with small_disk(tmp_path / "disk", "64k") as disk:
        (disk / "fill").write_bytes(bytes(8 << 10))
        audit = Audit(str(disk / "audit"), lambda: lost.append(True))

        def note(path: str) -> None:
            audit.request("GET", path, 200, caller="", route=path, peer=None)

        while len(lost) < 3:
            note("/before")
        (disk / "fill").unlink()
        if meanwhile == "SIGHUP":
            audit.reopen()
        elif meanwhile == "a restart":
            audit.close()
            audit = Audit(str(disk / "audit"))
        note("/after")
        note("/after")
        audit.close()
        *_, torn, one, two = (disk / "audit").read_text().splitlines()
    with pytest.raises(ValueError, match="char"):
        json.loads(torn)
    assert [json.loads(line)["path"] for line in (one, two)] == ["/after", "/after"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_session_goes_on_if_there_is_no_room_to_save_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk, Sandbox(warm="require") as session:
        assert session.run("x = 41").warm
        monkeypatch.setattr("pysbx.calls.saved.cache_directory", lambda: private_directory(disk / "cache"))
        for use in (session.checkpoint, session.park, session.fork, lambda: session.snapshot(disk / "session")):
            with pytest.raises(SandboxError, match=r"cannot be .*: No space left on device ") as error:
                use()
            assert re.search(rf"(saved|parked|forked): .* \(in '{re.escape(str(disk))}(/cache)?'\)$", str(error.value))
        assert session.run("open('large', 'wb').write(bytes(4 << 20))").exit_code == 0
        (disk / "file").write_text("before")
        with pytest.raises(OSError, match=re.escape(f"No space left on device: '{disk}'")):
            session.save("large", disk / "file")
        assert (disk / "file").read_text() == "before"
        (disk / "file").unlink()
        assert [path.name for path in disk.rglob("*")] == ["cache"]
        assert session.run("x + 1").value == "42"
