"""The simulation of contrib/k8s/capacity, compared with a service that runs; and the tables of its page."""

# once: a server says the same to its clients as root

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.servers import TOKEN, Server, server

pytest.importorskip("simpy", reason="the simulation needs SimPy")
ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "contrib/k8s/capacity/capacity.py"
PAGE = ROOT / "contrib/docs/pages/explanation/capacity.md"
# Each attempt measures the time of a call again, because other programs may use the CPUs.
ATTEMPTS = 4
# Calls that wait for something else, and calls that need a CPU; with the tolerance that the page states. Other programs
# change the time of the second within a burst.
WAITING_CODE, BUSY_CODE = "import time; time.sleep(0.2)", "sum(number * number for number in range(1_500_000))"
CASES = [(WAITING_CODE, 2, 32, 20, 0.25), (WAITING_CODE, 4, 8, 20, 0.25), (BUSY_CODE, 2, 32, 20, 0.5)]


def load() -> Any:
    """Return the program as a module."""
    spec = importlib.util.spec_from_file_location("capacity", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = ModuleType("capacity")
    sys.modules["capacity"] = module  # dataclasses look for it
    module.__dict__.update(importlib.util.module_from_spec(spec).__dict__)
    spec.loader.exec_module(module)
    return module


capacity = load()


def calls(service: Server, code: str, clients: int, each: int = 1) -> tuple[list[float], int, float]:
    """Let clients call at the same time, and return the latencies, the number of refusals, and the whole time."""
    latencies: list[float] = []
    refused: list[float] = []
    barrier = threading.Barrier(clients + 1)

    def client() -> None:
        with httpx.Client(
            base_url=f"http://{service.address}", timeout=60, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client:
            client.get("/healthz")
            barrier.wait()
            for _ in range(each):
                asked = time.monotonic()
                status = client.post("/v1/run", json={"code": code}).status_code
                (latencies if status == 200 else refused).append(time.monotonic() - asked)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    return latencies, len(refused), time.monotonic() - began


def compare(service: Server, code: str, pool: Any, burst: int, tolerance: float) -> list[str]:
    """Measure a burst, simulate it with the times of calls around it, and return what is not within the tolerance."""
    before = calls(service, code, pool.slots, 4)[0]
    measured, refused, duration = calls(service, code, burst)
    times = before + calls(service, code, pool.slots, 4)[0]
    expected = capacity.simulate(pool, [0.0] * burst, times)
    pairs = {
        "throughput": (len(measured) / duration, expected.throughput),
        "mean wait": (statistics.mean(measured) - statistics.mean(times), statistics.mean(expected.waits)),
        "longest latency": (max(measured), max(expected.latencies)),
    }
    wrong = [
        f"{name}: measured {real:.2f}, simulated {simulated:.2f}"
        for name, (real, simulated) in pairs.items()
        if abs(real - simulated) > tolerance * simulated
    ]
    print(pool, burst, pairs, refused)
    assert expected.refused == max(0, burst - pool.slots - pool.waiting)
    # A number is exact, unless a client came late.
    return wrong if refused == expected.refused else [*wrong, f"{refused} refusals, not {expected.refused}"]


@pytest.mark.parametrize("case", CASES)
def test_a_burst_goes_as_the_simulation_says(
    monkeypatch: pytest.MonkeyPatch, case: tuple[str, int, int, int, float]
) -> None:
    code, slots, waiting, burst, tolerance = case
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    pool = capacity.Pool(1, slots, waiting)
    options = ("--at-once", str(slots), "--waiting", str(waiting))
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        service.run("1")
        for _ in range(ATTEMPTS):
            wrong = compare(service, code, pool, burst, tolerance)
            if not wrong:
                return
    pytest.fail("; ".join(wrong))


def test_more_pods_wait_less_and_refuse_less() -> None:
    arrivals = [0.0] * 200
    few, many = (capacity.simulate(capacity.Pool(pods, 4, 8), arrivals, [0.2], 1.0) for pods in (2, 8))
    assert many.wait(95) < few.wait(95)
    assert many.refused < few.refused
    assert (few.given_up, many.given_up) == (0, 0)
    assert len(few.latencies) == len(many.latencies) == 200
    assert few.throughput <= 2 * 4 / 0.2


def test_a_client_that_does_not_repeat_a_call_gives_up() -> None:
    found = capacity.simulate(capacity.Pool(1, 2, 3), [0.0] * 10, [1.0])
    assert (found.refused, found.given_up, len(found.latencies)) == (5, 5, 5)
    assert sorted(found.waits) == [0.0, 0.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("command", ["figures", "burst"])
def test_the_page_has_the_tables_of_the_program(command: str) -> None:
    said = subprocess.run([sys.executable, str(PROGRAM), command], capture_output=True, text=True, check=True).stdout
    assert said in PAGE.read_text(encoding="utf-8")


def test_the_figures_are_those_of_the_page_about_performance() -> None:
    page = (ROOT / "contrib/docs/pages/explanation/performance.md").read_text(encoding="utf-8")
    for text in (
        f"| a decorated function that does nothing | {capacity.CALL_SEC['nothing'] * 1000:.1f} ms |",
        f"| … that imports pandas | {capacity.CALL_SEC['pandas'] * 1000:.1f} ms |",
        f"| ten threads | {capacity.THREADS:.2f} times the throughput of one |",
        f"Ten of them need {capacity.WARM_MIB} MiB each",
        f"A cold one needs {capacity.COLD_MIB} MiB.",
    ):
        assert text in page, text
