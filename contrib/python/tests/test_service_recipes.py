"""Recipes of contrib/service, followed: nginx with TLS, OpenTelemetry; tests/fresh/recipes follows Prometheus."""

# once: other programs see the same service as root

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from pysbx.service.observe.metrics import GAUGES, TABLE
from tests.servers import TOKEN, containers_of, server, wait_until
from tests.test_service_allowance import make_certificate

RECIPES = Path(__file__).parents[2] / "service"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SUFFIXES = re.compile(r"_(total|bucket|sum|count)$")


def free_port() -> int:
    """Return a port at which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """Run a program until the end of a test."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Return a text in which names of the recipe are those of the test; each has to be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def nginx(folder: Path, site: str) -> list[str]:
    """Return the command of nginx with a configuration that it accepts."""
    places = "".join(f"{name}_temp_path {folder}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    places += f"client_body_temp_path {folder}/body; access_log off;"
    # As root, workers would be another user, which cannot reach the test's directory.
    user = "user root; " if os.geteuid() == 0 else ""
    main = f"{user}daemon off; pid {folder}/pid; error_log {folder}/error; events {{}} http {{ {places}\n{site}\n}}"
    (folder / "nginx.conf").write_text(main)
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    return command


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_gives_new_versions_of_librechat_a_key(tmp_path: Path) -> None:
    page = (RECIPES.parent / "docs/pages/how-to/dify-librechat.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    port, own = free_port(), free_port()
    addresses = (("172.17.0.1:8195", f"127.0.0.1:{port}"), ("172.17.0.1:8194", f"127.0.0.1:{own}"))
    command = nginx(tmp_path, changed(block, *addresses, (" TOKEN;", f" {TOKEN};")))
    signed, program = {"Authorization": "Bearer of.no.interest"}, {"lang": "py", "code": "print(6 * 7)"}
    (tmp_path / "token").write_text(TOKEN)
    options = ("--compatible", "librechat", "--token-file", str(tmp_path / "token"))
    with server(*options, listen=f"127.0.0.1:{own}"), running(command, tmp_path / "log"):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=signed, timeout=60) as client:
            wait_until(lambda: _answers(client))
            assert client.post("/v1/exec", json=program).json()["stdout"] == "42\n"
        assert httpx.post(f"http://127.0.0.1:{own}/v1/exec", json=program, headers=signed).status_code == 401


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_with_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "x")
    (tmp_path / "token").write_text(TOKEN)
    port = free_port()
    site = changed(
        (RECIPES / "nginx.conf").read_text(),
        ("/run/pysbx.sock", f"{tmp_path}/s"),
        ("listen 443 ", f"listen 127.0.0.1:{port} "),
        ("/etc/pysbx/cert.pem", str(certificate)),
        ("/etc/pysbx/key.pem", str(key)),
    )
    command = nginx(tmp_path, site)
    options = ("--token-file", str(tmp_path / "token"))
    with server(*options, listen=f"unix:{tmp_path}/s", token=TOKEN) as service, running(command, tmp_path / "log"):
        assert service.run("1")["value"] == "1"
        trusting = ssl.create_default_context(cafile=str(certificate))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting, timeout=60) as client:
            wait_until(lambda: _answers(client))
            assert client.post("/v1/run", json={"code": "1"}).status_code == 401
            assert client.get("/").text.startswith("<!doctype html>")
            client.headers.update(headers)
            assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            # Output comes while the program runs.
            code = "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('second')"
            accept = {"Accept": "text/event-stream"}
            with client.stream("POST", "/v1/run", json={"code": code}, headers=accept) as answer:
                times = {line: time.monotonic() for line in answer.iter_lines() if line.startswith("data: ")}
            came = [when for line, when in times.items() if "first" in line and '"stdout":' not in line]
            assert max(times.values()) - came[0] > 2
            # Requests after a pause: the service has kept the connection.
            time.sleep(6)
            assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            place = f"/v1/sessions/{client.post('/v1/sessions', json={}).json()['id']}/terminal"
            told = client.get(place)
            assert (told.status_code, "a proxy has to pass on" in told.json()["detail"]) == (404, True)
            with connect(f"wss://127.0.0.1:{port}{place}", ssl=trusting, additional_headers=headers) as terminal:
                terminal.send(b"exit 7\r")
                while isinstance(last := terminal.recv(60), bytes):
                    pass
                assert json.loads(last) == {"exit_code": 7}


def _answers(client: httpx.Client) -> bool:
    with suppress(httpx.HTTPError):
        return client.get("/health").status_code == 200
    return False


def test_alerts_use_metrics_that_exist() -> None:
    known = {f"pysbx_{name}" for name, *_ in (*TABLE, *GAUGES)}
    used = (RECIPES / "pysbx-rules.yml").read_text()
    names = {SUFFIXES.sub("", name) for name in re.findall(r"\bpysbx_\w+", used)}
    assert names <= known, names - known


def test_opentelemetry_gets_the_spans_of_a_request_and_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They continue the caller's trace, and nothing of the tracing reaches the sandbox."""
    for kind in ("METRICS", "LOGS"):
        monkeypatch.setenv(f"OTEL_{kind}_EXPORTER", "none")
    instrument = [f"{Path(sys.executable).parent}/opentelemetry-instrument", "--traces_exporter", "console"]
    trace = "0af7651916cd43dd8448eb211c80319c"
    with server(listen=f"unix:{tmp_path}/s", before=instrument) as service:
        headers, gone = ({"traceparent": f"00-{one}-b7ad6b7169203331-01"} for one in (trace, trace[::-1]))
        answer = service.client.post("/v1/run", json={"code": "6 * 7"}, headers=headers)
        assert answer.json()["value"] == "42"
        assert service.run("import os\n[name for name in os.environ if 'OTEL' in name]")["value"] == "[]"
        assert service.run("import sys\n[name for name in sys.modules if 'opentelemetry' in name]")["value"] == "[]"
        with pytest.raises(httpx.ReadTimeout):  # the client goes
            service.client.post("/v1/run", json={"code": "import time; time.sleep(60)"}, headers=gone, timeout=2)
        wait_until(lambda: containers_of(service.process.pid) == [])
    text, found, cancelled = capfd.readouterr().out.strip(), {}, {}
    while text:
        span, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].lstrip()
        if trace in span["context"]["trace_id"]:
            found[span["name"]] = span["attributes"]
        elif trace[::-1] in span["context"]["trace_id"]:
            cancelled[span["name"]] = span["attributes"]
    assert found["POST /v1/run"]["http.response.status_code"] == 200
    run = found["sandbox"]
    assert (run["pysbx.outcome"], run["pysbx.exit_code"]) == ("ok", 0)
    assert (cancelled["POST /v1/run"]["http.response.status_code"], cancelled["sandbox"]["pysbx.outcome"]) == (
        499,
        "cancelled",
    )
