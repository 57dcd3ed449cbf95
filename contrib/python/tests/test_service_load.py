"""`pysbx serve` under load and faults. TEST_LOAD_SEC=300 makes the load last five minutes."""

# once: a server says the same to its clients as root

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from pysbx.runtime import find_runtime
from tests.servers import BEST_EFFORT, PROGRAM, Server, children_of, containers_of, server, wait_until

LOAD_SEC = float(os.environ.get("TEST_LOAD_SEC", "8"))
AT_ONCE, WAITING = 2, 2
# Twice the places that there are.
CLIENTS = 2 * (AT_ONCE + WAITING)
MOST_GROWTH_KIB = 24 * 1024
MOST_LATENCY_SEC = 20.0
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1])


def metric(service: Server, name: str) -> float:
    """Return the value of a series, such as pysbx_runs_total{…}, or 0."""
    lines = service.client.get("/metrics").text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def test_twice_the_load_is_refused_with_429_and_nothing_grows(tmp_path: Path) -> None:
    options = ("--at-once", str(AT_ONCE), "--waiting", str(WAITING), "--log-level", "warning")
    with server(*options, listen=f"unix:{tmp_path}/s") as service:
        service.run("1")
        statuses: Counter[int] = Counter()
        times: list[float] = []
        samples: list[int] = []
        lock, until = threading.Lock(), time.monotonic() + LOAD_SEC

        def load(_: int) -> None:
            with service.connect() as client:
                while time.monotonic() < until:
                    began = time.monotonic()
                    answer = client.post("/v1/run", json={"code": "sum(range(10**5))"})
                    with lock:
                        statuses[answer.status_code] += 1
                        if answer.status_code == 200:
                            assert answer.json()["value"] == "4999950000"
                            times.append(time.monotonic() - began)
                        else:
                            assert int(answer.headers["retry-after"]) > 0
                        samples.append(memory_of(service.process.pid))
                    if answer.status_code != 200:
                        time.sleep(0.05)

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(load, range(CLIENTS)))
        assert set(statuses) == {200, 429}, statuses
        assert max(times) < MOST_LATENCY_SEC, statistics.quantiles(times)
        # The first quarter of the time fills caches and the pools of the allocator.
        assert max(samples) - samples[len(samples) // 4] < MOST_GROWTH_KIB
        assert containers_of(service.process.pid) == []
        assert metric(service, 'pysbx_problems_total{problem="busy"}') == statuses[429]
        assert metric(service, "pysbx_running") == metric(service, "pysbx_waiting") == 0


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    """Start a server that a test kills."""
    command = [*PROGRAM, "serve", BEST_EFFORT, "--listen", f"unix:{path}", "--log-level", "error", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(path.exists)
    return process


def test_the_next_service_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    runs = 6
    process = start(tmp_path / "s", "--at-once", str(runs))
    path = tmp_path / "s"

    def run(_: int) -> None:
        way = httpx.HTTPTransport(uds=str(path), retries=3)
        with httpx.Client(transport=way, base_url="http://x", timeout=60) as one, pytest.raises(httpx.HTTPError):
            one.post("/v1/run", json={"code": "import time; time.sleep(60)", "timeout_sec": 30})

    with ThreadPoolExecutor(runs) as pool:
        asked = pool.map(run, range(runs))
        wait_until(lambda: len(containers_of(process.pid)) == runs, 60)
        # The watcher and each runtime would remove them: kill these too, as the end of a cgroup does. First they are
        # stopped, so that none of them sees the end of another.
        killed = [process.pid, *(int(child.name) for child in children_of(process.pid))]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in killed:
                os.kill(pid, number)
        process.communicate()
        list(asked)
    left = len(containers_of(process.pid))
    assert left > 0
    path.unlink()
    process = start(path, "--log-level", "warning")
    try:
        way = httpx.HTTPTransport(uds=str(path), retries=3)
        with httpx.Client(transport=way, base_url="http://x", timeout=60) as client:
            assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            assert containers_of(killed[0]) == []
            assert f"pysbx_leftovers_total {left}.0\n" in client.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert f"WARNING: {left} sandboxes that an earlier service had left behind were removed\n" in said


def test_a_second_service_leaves_the_sandboxes_of_the_first_alone(tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/one") as first:
        place = first.post("/v1/sessions").headers["location"]
        first.client.post(f"{place}/run", json={"code": "x = 41"})
        with server(listen=f"unix:{tmp_path}/two") as second:
            assert second.run("1")["value"] == "1"
        assert first.client.post(f"{place}/run", json={"code": "x + 1"}).json()["value"] == "42"


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


def test_a_runtime_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "runtime"
    there.mkdir()
    program = there / "pysbx-runtime"
    shutil.copy(find_runtime(), program)
    monkeypatch.setenv("PYSBX_RUNTIME", str(program))
    with server(listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
        assert service.run("1")["value"] == "1"
        program.chmod(0)
        answer = service.post("/v1/run", code="1")
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:pysbx:problem:no-sandbox"), answer.text
        assert "pysbx doctor" in answer.json()["remedy"]
        assert metric(service, 'pysbx_problems_total{problem="no-sandbox"}') == 1
        program.chmod(stat.S_IRWXU)
        assert service.run("6 * 7")["value"] == "42"


@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed")
def test_a_jump_of_the_clock_ends_no_session_and_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    monkeypatch.setenv("LD_PRELOAD", str(FAKETIME[0]))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    options = ("--idle", "60", "--calls-per-hour", "5", "--log-format", "json", "--audit-log", str(tmp_path / "audit"))
    process = start(tmp_path / "s", *options)
    try:
        way = httpx.HTTPTransport(uds=str(tmp_path / "s"))
        with httpx.Client(transport=way, base_url="http://x", timeout=60) as client:
            place = client.post("/v1/sessions", json={}).headers["location"]
            client.post(f"{place}/run", json={"code": "x = 41"})
            for jump in ("+400d", "-400d"):
                clock.write_text(f"{jump}\n")
                time.sleep(0.5)
                answer = client.post(f"{place}/run", json={"code": "x + 1", "timeout_sec": 20})
                assert answer.json()["value"] == "42", answer.text
                assert 0 <= client.get(place).json()["age_sec"] < 60
            client.post("/v1/run", json={"code": "1"})
            refused = client.post("/v1/run", json={"code": "1"})
            assert (refused.status_code, int(refused.headers["retry-after"]) > 3000) == (429, True)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()
    # The jump was real for the service: its audit log has other years.
    events = (tmp_path / "audit").read_text().splitlines()
    years = {json.loads(event)["time"] // (365 * 86400 * 1000) for event in events}
    assert len(years) > 1
