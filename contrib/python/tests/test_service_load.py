"""`pysbx serve` under load and faults. TEST_LOAD_SEC=300 makes the load last five minutes."""

# once: a server says the same to its clients as root

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import statistics
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pysbx.base.runtime import find_runtime
from tests.servers import BEST_EFFORT, PROGRAM, TOKEN, Server, children_of, containers_of, metric, server, wait_until

LOAD_SEC = int(os.environ.get("TEST_LOAD_SEC", "8"))
AT_ONCE, WAITING = 2, 2
# Twice the places that there are.
CLIENTS = 2 * (AT_ONCE + WAITING)
MOST_GROWTH_KIB = 24 * 1024
MOST_LATENCY_SEC = 20.0
SCRIPT = Path(__file__).with_name("load.lua")
# The lines of the script among those of wrk.
OUR_LINE = re.compile(r"(answer|wrong|errors) \d").match
KILLED_RUNS = 50
DAY_SEC = 86400
# A clock that is wrong by as many seconds as a file says.
CLOCK = Path(__file__).with_name("clock.c")


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1])


@dataclass
class Load:
    """The answers that wrk received, and the use of resources by the service meanwhile.

    Attributes:
        statuses: number of answers by status.
        accepted: for each run, the second in which it was asked for, and its latency in seconds.
        failures: number of broken connections and of wrong answers.
        memory: resident memory in KiB, at equal distances of time.
        descriptors: number of open descriptors at the same times.
    """

    statuses: Counter[int]
    accepted: list[tuple[int, float]]
    failures: int
    memory: list[int]
    descriptors: list[int]

    def latencies(self, quarter: int) -> list[float]:
        """Return the latencies of accepted requests in one quarter of the time, 0 to 3."""
        return [latency for at, latency in self.accepted if int(4 * at / LOAD_SEC) == quarter]


def load(service: Server, clients: int) -> Load:
    """Let clients ask for runs as fast as they are answered."""
    command = ["wrk", "--threads", str(clients), "--connections", str(clients), "--duration", f"{LOAD_SEC}s"]
    command += ["--timeout", "60s", "--script", str(SCRIPT), f"http://{service.address}", "--", TOKEN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = Load(Counter(), [], 0, [], [])
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()))
    reader.start()
    while process.poll() is None:
        found.memory.append(memory_of(service.process.pid))
        found.descriptors.append(len(os.listdir(f"/proc/{service.process.pid}/fd")))
        time.sleep(LOAD_SEC / 200)
    reader.join()
    assert process.returncode == 0, "".join(said)
    for kind, *numbers in map(str.split, filter(OUR_LINE, said)):
        if kind == "answer":
            at, status, microseconds = map(int, numbers)
            found.statuses[status] += 1
            if status == 200:
                found.accepted.append((at, microseconds / 1e6))
        else:
            found.failures += int(numbers[0])
    return found


@pytest.mark.timeout(LOAD_SEC + 180)
@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_twice_the_load_is_refused_with_429_and_nothing_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    options = ("--at-once", str(AT_ONCE), "--waiting", str(WAITING), "--log-level", "warning")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        service.run("1")
        found = load(service, CLIENTS)
        print(found.statuses, [statistics.quantiles(found.latencies(quarter), n=100)[98] for quarter in range(4)])
        print(found.memory[:: len(found.memory) // 8], found.descriptors[:: len(found.descriptors) // 8])
        assert set(found.statuses) == {200, 429}, found.statuses
        assert found.failures == 0
        # The machine may be busy with other work, so the bounds are those of the first quarter.
        first, last = found.latencies(0), found.latencies(3)
        assert statistics.median(last) < 3 * statistics.median(first) + 0.1
        assert max(latency for _, latency in found.accepted) < MOST_LATENCY_SEC
        # The first quarter of the time fills caches and the pools of the allocator.
        quarter = len(found.memory) // 4
        assert max(found.memory) - found.memory[quarter] < MOST_GROWTH_KIB
        assert max(found.descriptors[quarter:]) <= max(found.descriptors[:quarter]) + CLIENTS
        # wrk does not wait for the last answers.
        wait_until(lambda: containers_of(service.process.pid) == [])
        wait_until(lambda: metric(service, "pysbx_running") == metric(service, "pysbx_waiting") == 0)
        refused = metric(service, 'pysbx_problems_total{problem="busy"}')
        assert found.statuses[429] <= refused <= found.statuses[429] + CLIENTS


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    """Start a server that a test kills."""
    command = [*PROGRAM, "serve", BEST_EFFORT, "--listen", f"unix:{path}", "--log-level", "error", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(path.exists)
    return process


def test_the_next_service_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    runs = KILLED_RUNS
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


def test_a_runtime_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "runtime"
    there.mkdir()
    program = there / "pysbx-runtime"
    shutil.copy(find_runtime(), program)
    # As root it may need the dynamic one, which is beside it in a build.
    dynamic = Path(find_runtime()).with_name("pysbx-runtime-dynamic")
    if dynamic.exists():
        shutil.copy(dynamic, there)
    monkeypatch.setenv("PYSBX_RUNTIME", str(program))
    with server(listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
        assert service.run("1")["value"] == "1"
        program.chmod(0)
        answer = service.post("/v1/run", code="1")
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:pysbx:problem:no-sandbox"), answer.text
        assert "pysbx doctor" in answer.json()["remedy"]
        wait_until(lambda: metric(service, 'pysbx_problems_total{problem="no-sandbox"}') == 1)
        program.chmod(stat.S_IRWXU)
        assert service.run("6 * 7")["value"] == "42"


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler for the library that moves the clock")
def test_a_jump_of_the_clock_ends_no_session_and_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0\n")
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(library), str(CLOCK)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_OFFSET_FILE", str(clock))
    options = ("--idle", "60", "--calls-per-hour", "5", "--log-level", "warning", "--log-format", "json")
    process = start(tmp_path / "s", *options, "--audit-log", str(tmp_path / "audit"))
    try:
        way = httpx.HTTPTransport(uds=str(tmp_path / "s"))
        with httpx.Client(transport=way, base_url="http://x", timeout=60) as client:
            place = client.post("/v1/sessions", json={}).headers["location"]
            client.post(f"{place}/run", json={"code": "x = 41"})
            for jump in (400 * DAY_SEC, -400 * DAY_SEC):
                clock.write_text(f"{jump}\n")
                time.sleep(0.5)
                answer = client.post(f"{place}/run", json={"code": "x + 1", "timeout_sec": 20})
                assert answer.json()["value"] == "42", answer.text
                assert 0 <= client.get(place).json()["age_sec"] < 60
            client.post("/v1/run", json={"code": "1"})
            numbers = client.get("/metrics").text
            for name in ("pysbx_run_seconds", "pysbx_request_seconds", "pysbx_queue_seconds"):
                sums = re.findall(rf"^{name}_sum\S* (\S+)$", numbers, re.MULTILINE)
                assert sums
                assert all(0 <= float(total) < 60 for total in sums)
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
    years = {json.loads(event)["time"][:4] for event in events}
    assert len(years) > 1
