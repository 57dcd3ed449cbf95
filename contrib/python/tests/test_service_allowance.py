"""The allowance of callers of `pysbx serve`, its audit log, its TLS, and the spans of OpenTelemetry."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pysbx import Sandbox
from pysbx.command import main
from pysbx.service.asgi import App
from pysbx.service.connections.problems import Problem
from pysbx.service.sandboxes import snapshots
from pysbx.service.sandboxes.allowance import HOUR_SEC, Allowance, Ledger
from pysbx.service.sandboxes.snapshots import Snapshots
from tests.servers import BEST_EFFORT, TOKEN, containers_of, metric, server, wait_until

OTHER = "another-token-for-tests"


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    """A file with two tokens."""
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n{OTHER}\n")
    return str(path)


def refusal(answer: httpx.Response) -> dict[str, Any]:
    """Return the content of an answer that is a refusal because the allowance is used."""
    found: dict[str, Any] = answer.json()
    assert (answer.status_code, found["type"]) == (429, "urn:pysbx:problem:allowance"), answer.text
    assert 0 < int(answer.headers["retry-after"]) <= HOUR_SEC
    assert found["remedy"] == (
        "remove one that you have" if "sessions" in found["detail"] else "wait for Retry-After seconds"
    )
    return found


def test_calls_of_a_token_in_an_hour(tokens: str, tmp_path: Path) -> None:
    options = ("--token-file", tokens, "--calls-per-hour", "3")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect(OTHER) as other:
        for number in range(3):
            assert service.run(str(number))["value"] == str(number)
        assert "calls: 3 in an hour" in refusal(service.post("/v1/run", code="4"))["detail"]
        refusal(service.post("/v1/sessions"))
        refusal(service.post("/execute", code="print(1)"))
        assert other.post("/v1/run", json={"code": "5"}).json()["value"] == "5"
        assert service.client.get("/v1/profiles").status_code == 200
        text = service.client.get("/metrics").text
    found = {
        sample.labels["problem"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "pysbx_problems_total" and sample.value
    }
    assert found == {"allowance": 3}


def test_a_token_with_many_requests_does_not_keep_out_another(tokens: str) -> None:
    options = ("--token-file", tokens, "--at-once", "1", "--waiting", "15")
    body = {"code": "import time; time.sleep(0.5)"}
    with (
        server(*options, listen="127.0.0.1:0", token=TOKEN) as service,
        service.connect(OTHER) as other,
        ThreadPoolExecutor(20) as pool,
    ):
        service.run("1")
        many = [pool.submit(service.client.post, "/v1/run", json=body) for _ in range(20)]
        wait_until(lambda: sum(one.done() for one in many) == 8)
        # Eight are refused. The others have a place, and another caller's requests come in between.
        assert other.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
        assert sum(one.done() for one in many) <= 11
        answers = [one.result() for one in many]
        found = Counter(answer.status_code for answer in answers)
        assert found == {200: 12, 429: 8}, found
        refused = next(answer.json() for answer in answers if answer.status_code == 429)
        assert refused["detail"] == "12 of your requests are being worked on or wait, and others need the rest"


def test_two_tokens_with_many_requests_do_not_keep_out_a_third(tmp_path: Path) -> None:
    names = [TOKEN, OTHER, "a-third-token-for-tests"]
    (tmp_path / "tokens").write_text("\n".join(names))
    options = ("--token-file", str(tmp_path / "tokens"), "--at-once", "1", "--waiting", "7", "--drain", "0")
    body = {"code": "import time; time.sleep(5)"}
    with (
        server(*options, listen="127.0.0.1:0", token=TOKEN) as service,
        service.connect(names[1]) as second,
        service.connect(names[2]) as third,
        ThreadPoolExecutor(16) as pool,
    ):
        service.run("1")
        for client, places in ((service.client, 6), (second, 2)):
            many = [pool.submit(client.post, "/v1/run", json=body) for _ in range(8)]
            wait_until(lambda many=many, places=places: sum(one.done() for one in many) >= 8 - places)
        answer = third.get("/v1/sessions")
        service.process.send_signal(signal.SIGTERM)
    assert answer.status_code == 200, answer.text


def test_of_two_places_a_token_gets_one(tokens: str) -> None:
    options = ("--token-file", tokens, "--at-once", "1", "--waiting", "1")
    with (
        server(*options, listen="127.0.0.1:0", token=TOKEN) as service,
        service.connect(OTHER) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        slow = pool.submit(service.run, "import time; time.sleep(2)")
        wait_until(lambda: metric(service, "pysbx_running") == 1)
        refused = service.post("/v1/run", code="1")
        assert refused.status_code == 429 and "others need the rest" in refused.json()["detail"], refused.text
        assert other.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
        assert slow.result()["exit_code"] == 0


def test_cpu_time_of_a_token_in_an_hour(tokens: str) -> None:
    options = ("--token-file", tokens, "--cpu-per-hour", "0.3")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect(OTHER) as other:
        assert service.run("1")["value"] == "1"
        spins = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
        assert service.run(spins)["exit_code"] == 0
        assert "CPU time: 0.3 seconds" in refusal(service.post("/v1/run", code="1"))["detail"]
        assert other.post("/v1/run", json={"code": "5"}).json()["value"] == "5"


def test_a_run_that_its_client_gives_up_counts(tokens: str, tmp_path: Path) -> None:
    path, code = tmp_path / "audit.jsonl", "print('begun', flush=True)\nwhile True: pass"
    options = ("--token-file", tokens, "--cpu-per-hour", "100", "--audit-log", str(path))
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:

        def spent() -> float:
            text = service.client.get("/metrics").text
            return sum(map(float, re.findall(r"^pysbx_cpu_seconds_total{.*} (.*)$", text, re.MULTILINE)))

        with pytest.raises(httpx.ReadTimeout):
            service.client.post("/v1/run", json={"code": code}, timeout=1)
        wait_until(lambda: len(events(path, "run")) == 1)
        events_too = {"Accept": "text/event-stream"}
        with service.client.stream("POST", "/v1/run", json={"code": code}, headers=events_too) as answer:
            assert "begun" in next(line for line in answer.iter_lines() if line.startswith("data:"))
            time.sleep(1)
        wait_until(lambda: len(events(path, "run")) == 2)
        place = service.post("/v1/sessions").headers["location"]
        with pytest.raises(httpx.ReadTimeout):
            service.client.post(f"{place}/run", json={"code": code}, timeout=1)
        service.client.delete(place)
        wait_until(lambda: len(events(path, "run")) == 3)
        used, limit = spent(), service.client.get("/v1/sessions").headers["ratelimit"]
    runs = events(path, "run")
    assert [(run["outcome"], run["exit_code"]) for run in runs[:2]] == [("cancelled", 137)] * 2
    assert {run["code_sha256"] for run in runs} == {hashlib.sha256(code.encode()).hexdigest()}
    assert used > 0.4
    assert int(limit.partition(";r=")[2].partition(";")[0]) <= 100 - used


def left(answer: httpx.Response) -> dict[str, int]:
    """Return what is left of each allowance, according to the header fields of an answer."""
    policies, limits = (answer.headers[name].split(", ") for name in ("ratelimit-policy", "ratelimit"))
    assert policies == ['"calls";q=2;w=3600', '"cpu-seconds";q=100;w=3600']
    found = [re.fullmatch(r'"([a-z-]+)";r=([0-9]+);t=([0-9]+)', limit) for limit in limits]
    assert all(one and 3500 < int(one[3]) <= 3600 for one in found)
    return {one[1]: int(one[2]) for one in found if one}


def test_each_answer_says_what_is_left(tokens: str) -> None:
    options = ("--token-file", tokens, "--calls-per-hour", "2", "--cpu-per-hour", "100")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect(OTHER) as other:
        assert left(service.client.get("/v1/profiles")) == {"calls": 2, "cpu-seconds": 100}
        assert left(service.post("/v1/run", code="1")) == {"calls": 1, "cpu-seconds": 99}
        # Of an event stream before its run.
        events = service.client.post("/v1/run", json={"code": "1"}, headers={"Accept": "text/event-stream"})
        assert left(events)["calls"] == 1
        assert left(service.client.get("/v1/sessions"))["calls"] == 0
        refused = service.post("/v1/run", code="1")
        assert (refused.status_code, left(refused)["calls"]) == (429, 0)
        assert left(other.get("/v1/profiles"))["calls"] == 2
        assert "ratelimit" not in service.client.get("/health").headers


def test_cpu_time_of_a_session_counts(tokens: str) -> None:
    """That of its runs, of its processes in the background, and of its terminal, which ends when no time is left."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    options = ("--token-file", tokens, "--cpu-per-hour", "2")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        session = service.post("/v1/sessions").json()["id"]
        spins = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        done = service.post(f"/v1/sessions/{session}/run", code=spins).json()
        assert 0.2 < done["usage"]["cpu_sec"] < 1.5
        address = f"ws://{service.address}/v1/sessions/{session}/terminal?program=python"
        with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}, compression=None) as client:
            client.send(b"while True: pass\n\n")
            with pytest.raises(ConnectionClosed) as ended:
                while True:
                    client.recv(60)
        assert ended.value.rcvd is not None and ended.value.rcvd.code == 1001
        assert ended.value.rcvd.reason == "its caller has used its allowance of CPU time"
        problem = refusal(service.post(f"/v1/sessions/{session}/run", code="1"))
        assert "CPU time: 2 seconds in an hour is the most" in problem["detail"]


def test_sessions_of_a_token(tokens: str) -> None:
    options = ("--token-file", tokens, "--sessions-per-caller", "1")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect(OTHER) as other:
        place = service.post("/v1/sessions").headers["location"]
        assert "sessions: 1 of one caller" in refusal(service.post("/v1/sessions"))["detail"]
        refusal(service.client.post(f"{place}/fork"))
        assert other.post("/v1/sessions", json={}).status_code == 201
        assert service.client.delete(place).status_code == 204
        assert service.post("/v1/sessions").status_code == 201


def test_snapshots_of_a_token(tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They outlive the session and the service, and no other caller finds them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = ("--token-file", tokens, "--snapshots-per-caller", "2")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        place = service.post("/v1/sessions").headers["location"]
        service.post(f"{place}/run", code="x = [1]; open('file', 'w').write('1')")
        for name in ("one", "two", "one"):
            made = service.post(f"{place}/snapshot", name=name)
            assert (made.status_code, made.json()["name"]) == (201, name), made.text
        assert "snapshots: 2 is the most" in refusal_of_snapshots(service.post(f"{place}/snapshot", name="three"))
        for wrong in ("../one", ".one", "", "a/b", "x" * 65, "one\n"):
            assert service.post(f"{place}/snapshot", name=wrong).status_code == 422, wrong
            assert service.post("/v1/sessions", snapshot=wrong).status_code == 422, wrong
        service.post(f"{place}/run", code="import threading as t; e = t.Event(); t.Thread(target=e.wait).start()")
        assert "thread" in service.post(f"{place}/snapshot", name="one").json()["detail"]
        service.client.delete(place)
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect(OTHER) as other:
        for _ in range(2):
            place = service.post("/v1/sessions", snapshot="one", memory_mb=200).headers["location"]
            assert service.post(f"{place}/run", code="x.append(2); x").json()["value"] == "[1, 2]"
            assert service.client.get(f"{place}/files/file").text == "1"
        assert other.get("/v1/snapshots").json() == {"snapshots": []}
        for answer in (other.post("/v1/sessions", json={"snapshot": "one"}), other.delete("/v1/snapshots/one")):
            assert (answer.status_code, answer.json()["type"]) == (404, "urn:pysbx:problem:no-snapshot")
        assert [one["name"] for one in service.client.get("/v1/snapshots").json()["snapshots"]] == ["one", "two"]
        (path,) = (tmp_path / "state").rglob("two")
        path.write_bytes(b"damaged")
        damaged = service.post("/v1/sessions", snapshot="two")
        assert (damaged.status_code, damaged.json()["detail"]) == (
            *(422, "saved session 'two': it is not a saved session, or its end is missing"),
        )
        assert service.client.delete("/v1/snapshots/two").status_code == 204
        assert service.client.delete("/v1/snapshots/two").status_code == 404
        assert len(service.client.get("/v1/sessions").json()["sessions"]) == 2


def refusal_of_snapshots(answer: httpx.Response) -> str:
    """Return why there is no room for a further snapshot; time does not help."""
    found: dict[str, str] = answer.json()
    assert (answer.status_code, found["type"]) == (429, "urn:pysbx:problem:allowance"), answer.text
    assert "retry-after" not in answer.headers
    assert found["remedy"] == "remove one that you have"
    return found["detail"]


def test_the_snapshots_of_a_caller_take_a_bounded_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = Snapshots(9)
    with Sandbox(warm="require") as session:
        made = kept.write("a", "one", session)
        monkeypatch.setattr(snapshots, "MOST_BYTES", made.size * 3 // 2)
        kept.write("a", "one", session)  # takes the place of the first
        with pytest.raises(Problem, match="MiB together is the most: remove one"):
            kept.write("a", "two", session)
        kept.write("b", "two", session)
        assert [one.name for one in kept.listed("a")] == ["one"]
        assert [path.name for path in kept._directory("a").iterdir()] == ["one"]
        assert session.run("1").value == "1"


class Removed(Sandbox):
    """A session whose snapshot another request removes as soon as it is made."""

    def _snapshot_to(self, path: Path, most: float = 1 << 30) -> None:
        super()._snapshot_to(path, most)
        path.unlink()


def test_a_snapshot_that_is_removed_meanwhile_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = Snapshots(9)
    with Removed(warm="require") as session, pytest.raises(Problem, match="'one' was removed while it was made"):
        kept.write("a", "one", session)
    (kept._directory("a") / "gone").symlink_to("nowhere")  # as a file that is gone when it is looked at
    assert kept.listed("a") == []


def test_an_unused_session_is_parked_until_its_next_use(tmp_path: Path) -> None:
    with server("--park-after", "0.4", listen=f"unix:{tmp_path}/s") as service:
        parked, busy = (service.post("/v1/sessions").headers["location"] for _ in range(2))
        service.post(f"{parked}/run", code="x = 41")
        service.post(f"{busy}/run", code="import threading as t; e = t.Event(); t.Thread(target=e.wait).start()")
        for _ in range(2):
            wait_until(lambda: service.client.get(parked).json()["parked"])
            wait_until(lambda: len(containers_of(service.process.pid)) == 1)  # its container ends just now
            assert service.post(f"{parked}/run", code="x + 1").json()["value"] == "42"
        assert service.client.get(busy).json()["parked"] is False
        assert service.post(f"{busy}/run", code="e.is_set()").json()["value"] == "False"
    said = "".join(service.log)
    assert "was parked" in said
    assert re.search(r"session .{6}… stays in memory: the session cannot be parked: a thread is running", said)


@pytest.mark.parametrize("begin", [1000.0, 130335.11016455])  # the sum of the second with 3600 is rounded up
def test_an_hour_later_the_allowance_is_whole_again(begin: float) -> None:
    now = [begin]
    ledger = Ledger(Allowance(calls=2, cpu_sec=5), lambda: now[0])
    ledger.take("one")
    ledger.take("one")
    ledger.take("two")
    ledger.spend("two", 6)
    for caller in ("one", "two"):
        with pytest.raises(Problem) as caught:
            ledger.take(caller)
        assert caught.value.retry_sec == HOUR_SEC
    assert ledger.fields("one")["RateLimit"] == '"calls";r=0;t=3600, "cpu-seconds";r=5;t=3600'
    now[0] += HOUR_SEC - 0.5
    with pytest.raises(Problem) as caught:
        ledger.take("one")
    assert caught.value.retry_sec == 1
    now[0] += 1
    assert ledger.fields("one")["RateLimit"] == '"calls";r=2;t=3600, "cpu-seconds";r=5;t=3600'
    ledger.take("one")
    ledger.take("two")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--calls-per-hour", "0"), "calls_per_hour: 0 is not a positive number"),
        (("--tls-key", "/none"), "tls_key: a key is of no use without its certificate"),
        (("--tls-cert", "/none"), "tls: '/none'"),
        (("--audit-log", "/none/audit"), "audit log '/none/audit': No such file or directory"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    from tests.servers import BEST_EFFORT, PROGRAM

    command = [*PROGRAM, "serve", BEST_EFFORT, "--listen", f"unix:{tmp_path}/s", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind in an audit log."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


def test_the_audit_log_has_an_event_for_each_request_and_run(tokens: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    options = ("--token-file", tokens, "--audit-log", str(path), "--allow-profile", "minimal")
    code = "print('a secret text')"
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        service.run(code)
        service.run("import os", profile="minimal")
        place = service.post("/v1/sessions").headers["location"]
        service.client.post(f"{place}/run", json={"code": "1 / 0"})
        with service.connect("a-token-that-is-not-known") as stranger:
            assert stranger.post("/v1/run", json={"code": "1"}).status_code == 401
        first = path.rename(tmp_path / "audit.1")
        service.process.send_signal(signal.SIGHUP)
        wait_until(path.exists)
        service.run("6 * 7")
    assert path.stat().st_mode & 0o777 == 0o600
    caller = hashlib.sha256(TOKEN.encode()).hexdigest()
    for event in map(json.loads, [*first.read_text().splitlines(), *path.read_text().splitlines()]):
        assert abs(datetime.fromisoformat(event["time"]).timestamp() - time.time()) < 120
    text = first.read_text()
    assert not [one for one in (TOKEN, "a secret text", place.rpartition("/")[2]) if one in text]
    runs = events(first, "run")
    assert [run["outcome"] for run in runs] == ["ok", "violation", "exception"]
    assert {run["caller"] for run in runs} == {caller}
    assert runs[0]["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
    assert runs[1]["violations"] == ["import"]
    requests = events(first, "request")
    assert (requests[0]["method"], requests[0]["route"], requests[0]["address"]) == ("POST", "/v1/run", "127.0.0.1")
    assert [one["caller"] for one in requests if one["status"] == 401] == [None]
    assert [run["outcome"] for run in events(path, "run")] == ["ok"]


def sources(path: Path, *options: str, **headers: str) -> set[str]:
    """Return the addresses in the audit log of a server that gets a request with a wrong token and these headers."""
    with server(*options, "--audit-log", str(path), listen="127.0.0.1:0", token=TOKEN) as service:
        wrong = {"Authorization": "Bearer wrong-token-wrong-token"}
        assert service.client.post("/v1/run", json={"code": "1"}, headers={**headers, **wrong}).status_code == 401
    return {event["address"] for event in events(path, "request") if event["status"] == 401}


def test_the_audit_log_believes_no_header_about_the_client(
    tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {
        "X-Forwarded-For": "192.0.2.7",
        "Forwarded": "for=192.0.2.7",
        **dict.fromkeys(("X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP"), "192.0.2.7"),
    }
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # of uvicorn
    assert sources(tmp_path / "none", "--token-file", tokens, **named) == {"127.0.0.1"}
    other = ("--token-file", tokens, "--trusted-proxy", "10.0.0.0/8")
    assert sources(tmp_path / "other", *other, **named) == {"127.0.0.1"}


def test_the_audit_log_believes_a_proxy_that_is_named(tokens: str, tmp_path: Path) -> None:
    options = ("--token-file", tokens, "--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8")
    # The client has written the first one itself. The last one is that of another proxy.
    chain = {"X-Forwarded-For": "198.51.100.9, 192.0.2.7, 10.0.0.3"}
    assert sources(tmp_path / "named", *options, **chain) == {"192.0.2.7"}


@pytest.mark.parametrize("name", ["*", "localhost", "10.0.0.1/8", "", "unix:/run/x"])
def test_a_proxy_is_named_by_its_address(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", BEST_EFFORT, "--trusted-proxy", name]) == 2
    assert "give the address or network of the proxy, such as 127.0.0.1 or 10.0.0.0/8" in capsys.readouterr().err


def test_events_that_are_lost_are_counted(tokens: str) -> None:
    options = ("--token-file", tokens, "--audit-log", "/dev/full")
    with server(*options, listen="127.0.0.1:0", token=TOKEN, errors=True) as service:
        assert service.run("1")["value"] == "1"
        assert "pysbx_audit_lost_total 2.0" in service.client.get("/metrics").text
    assert "ERROR: audit log: an event is lost: No space left on device\n" in service.log


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += f" -keyout {key} -out {certificate} -subj /CN={name} -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(command.split(), check=True, capture_output=True)
    return certificate, key


def name_of_peer(address: str) -> str:
    """Return the name in the certificate that a server shows."""
    host, _, port = address.rpartition(":")
    shown = subprocess.run(
        ["openssl", "s_client", "-connect", f"{host}:{port}"], input="", capture_output=True, text=True, check=False
    ).stdout
    return next(line for line in shown.splitlines() if line.startswith("subject="))


def test_tls_with_a_certificate_that_is_replaced(tokens: str, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "first")
    options = ("--token-file", tokens, "--tls-cert", str(certificate), "--tls-key", str(key))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with server(*options, listen="127.0.0.1:0", token=TOKEN, errors=True) as service:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(
            base_url=f"https://{service.address}", verify=trusting, headers=headers, timeout=60
        ) as client:
            assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            with client.stream(
                "POST", "/v1/run", json={"code": "print(1)"}, headers={"Accept": "text/event-stream"}
            ) as answer:
                assert "event: stdout" in answer.read().decode()
        with pytest.raises(httpx.HTTPError):
            service.client.get("/health")  # without TLS
        assert "first" in name_of_peer(service.address)
        key.write_text("nonsense")
        service.process.send_signal(signal.SIGHUP)
        time.sleep(2)
        assert "first" in name_of_peer(service.address), "the old certificate serves"
        make_certificate(tmp_path, "second")  # and no signal: a client of ACME may know nothing of this service
        wait_until(lambda: "second" in name_of_peer(service.address))
    assert any("the old certificate is used" in line for line in service.log)


def test_tokens_are_read_again_while_sessions_go_on(tmp_path: Path) -> None:
    path, other = tmp_path / "tokens", "b" * 32
    path.write_text(TOKEN)
    with server("--token-file", str(path), listen="127.0.0.1:0", token=TOKEN, errors=True) as service:
        place = service.post("/v1/sessions").headers["location"]
        with service.connect(other) as stranger:
            assert stranger.post("/v1/run", json={"code": "1"}).status_code == 401
            path.write_text(f"{TOKEN}\n{other}\n")
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: stranger.post("/v1/run", json={"code": "1"}).status_code == 200)
            path.write_text("short")  # which is no token
            service.process.send_signal(signal.SIGHUP)
            time.sleep(2)
            assert stranger.post("/v1/run", json={"code": "1"}).status_code == 200
            path.write_text(TOKEN)
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: stranger.post("/v1/run", json={"code": "1"}).status_code == 401)
        assert service.client.post(f"{place}/run", json={"code": "1"}).status_code == 200
    assert any("the tokens stay as they were: token: at least" in line for line in service.log)


def test_a_secret_of_kubernetes_is_read_again_without_a_signal(tmp_path: Path) -> None:
    """The kubelet replaces a link, through which all members of the Secret are reached."""
    other, path = "b" * 32, tmp_path / "token"

    def bring(version: str, token: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(token)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    bring("..1", TOKEN)
    path.symlink_to("..data/token")
    with server("--token-file", str(path), listen="127.0.0.1:0", token=TOKEN) as service:
        assert service.client.post("/v1/run", json={"code": "1"}).status_code == 200
        bring("..2", other)
        wait_until(lambda: service.client.post("/v1/run", json={"code": "1"}).status_code == 401)
        with service.connect(other) as renewed:
            assert renewed.post("/v1/run", json={"code": "1"}).status_code == 200


def test_a_token_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """As rsync writes it; and a change of the owner or mode is no newer either."""
    path = tmp_path / "token"
    path.write_text(TOKEN)
    before = path.stat()
    with server("--token-file", str(path), listen="127.0.0.1:0", token=TOKEN) as service:
        assert service.client.get("/v1/profiles").status_code == 200
        path.write_text("b" * len(TOKEN))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        wait_until(lambda: service.client.get("/v1/profiles").status_code == 401)


def test_a_handshake_that_does_not_end_is_ended(tokens: str, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "x")
    options = ("--token-file", tokens, "--tls-cert", str(certificate), "--tls-key", str(key))
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service:
        host, _, port = service.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as silent:
            began = time.monotonic()
            assert silent.recv(1) == b""
            assert 3 < time.monotonic() - began < 20


@pytest.fixture
def spans() -> Iterator[Any]:
    """The spans that a program with the SDK of OpenTelemetry gets."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    yield kept
    provider.shutdown()


def test_a_request_and_its_run_are_spans_of_the_callers_trace(spans: Any) -> None:
    from opentelemetry import trace

    trace_id = "0af7651916cd43dd8448eb211c80319c"

    async def ask() -> None:
        queue: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        said: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        app = App("--best-effort", needs_token=False)
        life = asyncio.ensure_future(app({"type": "lifespan"}, queue.get, said.put))
        await queue.put({"type": "lifespan.startup"})
        assert (await said.get())["type"] == "lifespan.startup.complete"
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
            answer = await client.post("/v1/run", json={"code": "6 * 7"}, headers=headers)
            assert answer.json()["value"] == "42"
            with trace.get_tracer("program").start_as_current_span("program"):
                for carried in ({}, headers):
                    assert (await client.get("/v1/sessions/0123456789abcdef", headers=carried)).status_code == 404
        await queue.put({"type": "lifespan.shutdown"})
        await life

    asyncio.run(ask())
    run, request, *within, around = spans.get_finished_spans()
    assert (run.name, request.name) == ("sandbox", "POST /v1/run")
    assert request.attributes["http.response.status_code"] == 200
    assert (request.attributes["url.path"], request.attributes["url.scheme"]) == ("/v1/run", "http")
    assert run.attributes["pysbx.outcome"] == "ok"
    assert {f"{span.context.trace_id:032x}" for span in (run, request)} == {trace_id}
    assert run.parent == request.context
    # The span of a program around the application has read the headers: what it asks for is below it.
    assert [(span.name, span.kind, span.parent) for span in within] == [
        ("GET /v1/sessions/{identifier}", trace.SpanKind.INTERNAL, around.context)
    ] * 2
    assert [span.attributes["url.path"] for span in within] == ["/v1/sessions/012345…"] * 2  # as in the log
