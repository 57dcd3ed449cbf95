"""The view of an administrator of `pysbx serve`: log, metrics, readiness."""

# once: a server says the same to its clients as root

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pysbx import run_code
from pysbx.base.runtime import find_runtime
from pysbx.service.observe.metrics import GAUGES, TABLE
from pysbx.service.sandboxes.readiness import HOLDS_SEC
from tests.forked import Forked
from tests.packages import make_wheel
from tests.servers import BEST_EFFORT, TOKEN, Server, server, wait_until
from tests.test_command import PROGRAM, pysbx


def numbers(service: Server) -> dict[tuple[str, ...], float]:
    """Return the metrics of a server: value by name and values of labels."""
    answer = service.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    samples = [sample for family in families for sample in family.samples]
    return {(one.name, *(one.labels[label] for label in sorted(one.labels))): one.value for one in samples}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSBX_TOKEN", TOKEN)
        path = tmp_path_factory.mktemp("operation") / "socket"
        with server("--allow-profile", "minimal", listen=f"unix:{path}", token=TOKEN) as found:
            yield found


def test_metrics_take_no_slot(tmp_path: Path) -> None:
    options = ("--at-once", "1", "--waiting", "0")
    stream = {"Accept": "text/event-stream"}
    body = {"code": "import time; print(1, flush=True); time.sleep(20)"}
    with (
        server(*options, listen=f"unix:{tmp_path}/s") as service,
        service.client.stream("POST", "/v1/run", json=body, headers=stream) as answer,
    ):
        lines = answer.iter_lines()  # without it, the connection is closed
        next(lines)
        assert service.post("/v1/run", code="1").status_code == 429
        assert service.client.post("/metrics").status_code == 429
        assert numbers(service)["pysbx_running",] == 1


def test_problems_of_the_alerts_are_counted_from_zero(service: Server) -> None:
    rules = (Path(__file__).parents[2] / "service" / "pysbx-rules.yml").read_text()
    names = {name for found in re.findall(r'problem=~?"([^"]+)"', rules) for name in found.split("|")}
    assert names
    assert names <= {name[1] for name in numbers(service) if name[0] == "pysbx_problems_total"}


def test_runs_and_starts_are_counted(service: Server) -> None:
    who = hashlib.sha256(TOKEN.encode()).hexdigest()[:8]
    service.run("print(1)")
    wait_until(lambda: ("pysbx_starts_total", who, "first", "cold") in numbers(service) or service.run("1")["warm"])
    before = numbers(service)
    service.run("1")
    service.run("1 / 0")
    service.run("import time; time.sleep(60)", timeout_sec=0.5)
    service.run("print('x' * 100)", output_limit=10)
    service.run("import socket", profile="minimal")
    service.post("/v1/run", code="1", memory_mb=10**6)
    refused = before.get(("pysbx_problems_total", "request"), 0)
    wait_until(lambda: service.refused("request") == refused + 1)  # counted behind the answer
    after = numbers(service)

    def more(*name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    outcomes = {
        outcome: more("pysbx_runs_total", who, outcome) for outcome in ("ok", "exception", "timeout", "violation")
    }
    assert outcomes == {"ok": 2, "exception": 1, "timeout": 1, "violation": 1}
    assert more("pysbx_limits_total", who, "timeout") == 1
    assert more("pysbx_limits_total", who, "output") == 1
    assert more("pysbx_requests_total", "POST", "/v1/run", "200") == 5
    assert more("pysbx_requests_total", "POST", "/v1/run", "422") == 1
    assert more("pysbx_run_seconds_count", who) == 5
    assert more("pysbx_queue_seconds_count", who) == 5
    # Of the half second that one of them takes, a busy machine gives it a part.
    assert more("pysbx_cpu_seconds_total", who) > 0.05
    assert more("pysbx_starts_total", who, "", "warm") >= 3
    assert (after[("pysbx_running",)], after[("pysbx_waiting",)]) == (0, 0)


def test_sessions_are_counted_and_start_once(service: Server) -> None:
    place = service.post("/v1/sessions").headers["location"]
    assert numbers(service)[("pysbx_sessions",)] == 1
    service.post(f"{place}/run", code="1")
    before = numbers(service)
    service.post(f"{place}/run", code="1")
    after = numbers(service)
    starts = [name for name in after if name[0] == "pysbx_starts_total"]
    assert [after[name] for name in starts] == [before[name] for name in starts]
    service.client.delete(place)
    assert numbers(service)[("pysbx_sessions",)] == 0


def test_labels_have_few_values(service: Server) -> None:
    for number in range(20):
        service.client.get(f"/none/{number}")
        service.client.request(f"X{number}", "/health")
        service.client.get(f"/v1/sessions/{number}")
        service.client.head(f"/v1/sessions/{number}/files")
    labels = {name[1:3] for name in numbers(service) if name[0] == "pysbx_requests_total"}
    assert ("GET", "other") in labels
    assert ("GET", "/v1/sessions/{identifier}") in labels
    assert ("HEAD", "/v1/sessions/{identifier}/files") in labels
    assert ("HEAD", "other") not in labels
    assert not any("1" in part.replace("/v1/", "") for label in labels for part in label), labels


def test_metrics_need_a_token_and_readiness_none(service: Server) -> None:
    with service.connect() as stranger:
        assert stranger.get("/metrics").status_code == 401
        answer = stranger.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert answer.json()["sandbox"] == "ok"
    assert answer.json()["profiles"] == {}  # whose names and states are not for strangers
    assert service.client.get("/readyz").json()["profiles"].keys() == {"", "minimal"}


def test_readiness_runs_one_sandbox_for_all_who_ask(service: Server) -> None:
    def ask(_: int) -> Any:
        with service.connect() as stranger:
            return stranger.get("/readyz").json()["seconds"]

    time.sleep(HOLDS_SEC)
    with ThreadPoolExecutor(10) as pool:
        assert len(set(pool.map(ask, range(10)))) == 1


def test_without_the_extras_it_is_told() -> None:
    program = (
        "import sys; sys.modules.update(prometheus_client=None, yaml=None)\n"
        "from pysbx.service.observe.metrics import Meters\n"
        "from pysbx.options import profiles\n"
        "meters = Meters(); meters.watch('running', int); meters.refused('x'); assert not meters\n"
        "open('p.yaml', 'w').close()\n"
        "try: profiles.load('p.yaml')\n"
        "except ValueError as error: print(error)"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (
        "the package 'yaml' is missing: install the wheel of pysbx with the extra 'yaml', or write JSON" in done.stdout
    ), done.stderr


def test_the_names_are_documented(service: Server) -> None:
    page = Path(__file__).parents[2] / "docs/pages/reference/metrics.md"
    told = set(re.findall(r"`(pysbx_\w+)`", page.read_text()))
    service.run("1")
    bare = {re.sub(r"_(bucket|count|sum|created)$", "", name[0]) for name in numbers(service)}
    assert bare == told


def test_the_labels_are_documented() -> None:
    page = Path(__file__).parents[2] / "docs/pages/reference/metrics.md"
    rows = [row.split("|") for row in page.read_text().splitlines() if row.startswith("| `pysbx_")]
    told = {row[1].strip(" `").removesuffix("_total"): re.findall(r"`(\w+)`", row[3]) for row in rows}
    assert told == {f"pysbx_{name}": list(labels) for name, _, _, labels in TABLE} | {
        f"pysbx_{name}": [] for name, _ in GAUGES
    }
    # A metric for each token: what an operator has to tell apart.
    for name in ("pysbx_starts", "pysbx_run_seconds", "pysbx_queue_seconds", "pysbx_limits", "pysbx_runs"):
        assert "caller" in told[name]


def test_the_log_says_what_happens(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ("--log-format", "json", "--token-file", str(tmp_path / "token"))
    logs = run_some(options, tmp_path)
    records = [json.loads(line) for line in logs]
    assert all(record["time"].endswith("+00:00") and record["level"] and record["logger"] for record in records)
    assert records[0]["message"].startswith("pysbx: HTTP service at ") or records[0]["level"] == "info"
    access = [record for record in records if record["logger"] == "pysbx.access"]
    assert ("POST", "/v1/run", 200) in [(one["method"], one["path"], one["status"]) for one in access]
    assert {one["caller"] for one in access if one["status"] == 401} == {"-"}
    assert {len(one["caller"]) for one in access if one["status"] == 200} == {8}
    assert any(one["path"].endswith("…/run") for one in access)  # the identifier of a session is a secret
    texts = [record["message"] for record in records]
    assert any(text.startswith("run ended: timeout, exit code 124") for text in texts)
    assert any(text.startswith("run ended: violation") for text in texts)
    assert [one["message"].partition(" caller ")[2] for one in records if one.get("problem") == "token"] == [
        "-: the token is missing or wrong: this server knows its callers by a token"
    ]
    assert any(re.fullmatch(r"session .{6}… ended: the server is stopping", text) for text in texts)
    assert TOKEN not in "".join(logs)


def run_some(options: tuple[str, ...], folder: Path) -> list[str]:
    """Start a server, send it some requests, and return its log."""
    path = folder / "s"
    options = ("--allow-profile", "minimal", *options)
    command = ["serve", BEST_EFFORT, "--listen", f"unix:{path}", *options]
    process = Forked(command, stderr=subprocess.PIPE, text=True)
    wait_until(path.exists)
    way = httpx.HTTPTransport(uds=str(path), retries=3)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(transport=way, base_url="http://x", timeout=60, headers=headers) as client:
        client.post("/v1/run", json={"code": "1"}, headers={"Authorization": ""})
        client.post("/v1/run", json={"code": "1"})
        client.post("/v1/run", json={"code": "import time; time.sleep(60)", "timeout_sec": 0.3})
        client.post("/v1/run", json={"code": "import os", "profile": "minimal"})
        place = client.post("/v1/sessions", json={}).headers["location"]
        client.post(f"{place}/run", json={"code": "1"})
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    return said.splitlines()


def test_a_signal_during_the_start_does_not_end_the_server(tmp_path: Path) -> None:
    """SIGHUP asks for files to be read again, which are being read for the first time."""
    tokens, path = tmp_path / "tokens", tmp_path / "s"
    os.mkfifo(tokens)
    command = [*PROGRAM, "serve", "--best-effort", "--listen", f"unix:{path}", "--token-file", str(tokens)]
    with subprocess.Popen(command) as process:
        with tokens.open("w") as file:  # as soon as the server reads it
            process.send_signal(signal.SIGHUP)
            file.write(TOKEN)
        wait_until(path.exists)
        process.kill()


def test_a_server_has_one_address() -> None:
    done = pysbx("serve", "--listen", "127.0.0.1:1", "--listen", "unix:/tmp/s")
    assert done.returncode == 2
    assert "--listen: a server has one address: put a proxy before it, or start two servers" in done.stderr


def test_a_level_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)  # whose journal would add the time
    assert not [line for line in run_some(("--log-level", "error"), tmp_path) if " INFO: " in line]
    debug = run_some(("--log-level", "debug"), tmp_path)
    assert any(" DEBUG: run ended: ok, exit code 0, " in line for line in debug)
    assert any(" INFO: POST /v1/run 200 " in line for line in debug)
    assert all(re.match(r"2[0-9-]{9}T[0-9:.]{12}\+00:00 [A-Za-z]+: ", line) for line in debug), debug


def test_a_profile_that_cannot_be_prepared_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYSBX_TOKEN", raising=False)
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    profiles = {
        "good": {"dependencies": ["thing"], "preload": ["thing"]},
        "cold": {"preload": ["nothing_of_that_name"]},
        "bad": {"dependencies": ["nothing"]},
    }
    options = ["--wheels", str(tmp_path)]
    for name, content in profiles.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        options += ["--allow-profile", str(tmp_path / f"{name}.json")]
    with server(*options, listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
        wait_until(lambda: "preparing" not in service.client.get("/readyz").json()["profiles"].values(), 60)
        answer = service.client.get("/readyz")
        assert answer.status_code == 503
        states = {Path(name).stem: state for name, state in answer.json()["profiles"].items()}
        assert (states[""], states["good"]) == ("ready", "ready")
        assert "No module named 'nothing_of_that_name'" in states["cold"]
        assert states["cold"].startswith("cold: ")
        assert states["bad"].startswith("failed: ")
        assert answer.json()["sandbox"] == "ok"
        run = service.run("1", profile=next(name for name in answer.json()["profiles"] if "cold" in name))
        assert (run["warm"], run["cold_code"]) == (False, "imports-refused")
        assert "No module named 'nothing_of_that_name'" in run["cold_reason"]
    log = "".join(service.log)
    assert re.search("WARNING: cold start: profile '.*cold.json': .*nothing_of_that_name", log)
    assert "cold.json' starts cold each time: " in log and "bad.json' cannot be prepared: " in log
    assert "INFO: installing thing\n" in log
    assert re.search(r"INFO: installed thing in [0-9.]+ s\n", log)


def test_a_limit_that_is_shorter_than_a_cold_start_is_for_callers_only(tmp_path: Path) -> None:
    with server("--timeout", "0.001", listen=f"unix:{tmp_path}/s", token=TOKEN) as service:
        assert service.client.get("/v1/profiles").json()["python"].startswith("3.")
        assert service.run("import time; time.sleep(60)")["timed_out"]


def test_a_server_whose_runtime_is_gone_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "runtime"
    shutil.copytree(
        Path(find_runtime()).parent, there, ignore=lambda folder, names: [n for n in names if "pysbx" not in n]
    )
    program = there / "pysbx-runtime"
    monkeypatch.setenv("PYSBX_RUNTIME", str(program))
    monkeypatch.delenv("PYSBX_TOKEN", raising=False)
    with server(listen=f"unix:{tmp_path}/s", warnings=True, errors=True) as service:
        assert service.client.get("/readyz").json()["ready"] is True
        program.chmod(0)
        wait_until(lambda: service.client.get("/readyz").status_code == 503)
        found = service.client.get("/readyz").json()
        assert (found["ready"], found["sandbox"] != "ok") == (False, True)
        program.chmod(stat.S_IRWXU)
        wait_until(lambda: service.client.get("/readyz").status_code == 200)


def test_the_package_logs_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pysbx"):
        run_code("1")
        run_code("import time; time.sleep(60)", timeout_sec=0.3)
        run_code("import os", profile="minimal")
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in found] == ["DEBUG", "INFO", "INFO"]
    assert [text.split(",")[0] for _, text in found] == ["run ended: ok", "run ended: timeout", "run ended: violation"]


def test_without_logging_nothing_is_printed_or_imported() -> None:
    program = (
        "import sys, pysbx; pysbx.run_code('1'); assert 'logging' not in sys.modules\n"
        "import logging, pysbx.base.log; pysbx.base.log.write('pysbx.x', 30, 'printed?')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
