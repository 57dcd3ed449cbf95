"""`pysbx serve --agent-sandbox`: the runtime API of Kubernetes' agent-sandbox, by that project's own Python client."""

# once: a server says the same to its clients as root

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.servers import TOKEN, Server, server

agent = pytest.importorskip("k8s_agent_sandbox", reason="the client needs Python 3.10 and packages of its own")


@pytest.fixture(scope="module")
def service() -> Iterator[Server]:
    """A server at a TCP port, with a variable for callers and a secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSBX_TOKEN", TOKEN)
        patch.setenv("SANDBOX_ID", "box-1")
        patch.setenv("SANDBOX_API_TOKEN", "not for callers")
        with server("--agent-sandbox", listen="127.0.0.1:0", token=TOKEN) as found:
            yield found


@pytest.fixture
def sandbox(service: Server) -> Any:
    """The upstream client's handle of a sandbox, with the direct way to a URL that it has."""
    from k8s_agent_sandbox.commands.command_executor import CommandExecutor
    from k8s_agent_sandbox.connector import SandboxConnector
    from k8s_agent_sandbox.files.filesystem import Filesystem
    from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

    config = SandboxDirectConnectionConfig(api_url=f"http://{service.address}", extra_headers={"X-Pysbx-Token": TOKEN})
    unused: Any = None  # a helper that asks a cluster
    connector = SandboxConnector("box", "default", config, unused)

    class Handle:
        commands = CommandExecutor(connector, None, "test")
        files = Filesystem(connector, None, "test")

    yield Handle
    connector.close()


def test_commands_of_the_upstream_client(sandbox: Any) -> None:
    done = sandbox.commands.run("echo out; echo err >&2; pwd; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.timed_out) == ("out\n/work\n", "err\n", 3, False)
    done = sandbox.commands.run("sleep 20", command_timeout=0.5)
    assert done.timed_out
    assert sandbox.commands.run("no-such-program").exit_code == 127


def test_files_of_the_upstream_client(sandbox: Any) -> None:
    sandbox.files.write("a.txt", "text")
    sandbox.files.write("data/ü b.bin", io.BytesIO(bytes(range(256)) * 1000))
    assert sandbox.files.read("a.txt") == b"text"
    assert sandbox.files.read("data/ü b.bin") == bytes(range(256)) * 1000
    assert sandbox.files.exists("data")
    assert not sandbox.files.exists("b.txt")
    found = {entry.name: (entry.type, entry.size) for entry in sandbox.files.list(".")}
    assert (found["a.txt"], found["data"][0]) == (("file", 4), "directory")
    [entry] = sandbox.files.list("data")
    assert (entry.name, entry.size) == ("ü b.bin", 256_000)
    assert abs(datetime.now(timezone.utc) - entry.modified) < timedelta(minutes=10)
    # A command sees the files, and what it writes can be read.
    assert sandbox.commands.run("cat a.txt; mkdir -p sub; echo more >sub/c").stdout == "text"
    assert sandbox.files.read("sub/c") == b"more\n"
    with pytest.raises(agent.exceptions.SandboxRequestError) as caught:
        sandbox.files.read("b.txt")
    assert caught.value.status_code == 404


def test_files_of_the_second_generation(service: Server) -> None:
    files = "/v1/files"
    assert service.client.put(f"{files}/one/two%2Frun.sh?mode=0755", content=b"echo 42").status_code == 204
    assert service.post("/execute", command="one/two/run.sh || sh one/two/run.sh").json()["stdout"] == "42\n"
    [entry] = service.client.get(f"{files}/one/two").json()["entries"]
    assert (entry["name"], entry["size"], entry["type"], entry["mode"]) == ("run.sh", 7, "file", "0755")
    assert datetime.fromisoformat(entry["modified_at"].replace("Z", "+00:00")).tzinfo is not None
    got = service.client.get(f"{files}/one/two/run.sh")
    assert (got.content, got.headers["content-type"]) == (b"echo 42", "application/octet-stream")
    assert service.client.head(f"{files}/one/two/run.sh").status_code == 200
    assert service.client.head(f"{files}/one/three").status_code == 404
    form = {"file": ("ignored", b"by a form")}
    assert service.client.put(f"{files}/form.txt", files=form).status_code == 204
    assert service.client.get(f"{files}/form.txt").content == b"by a form"
    refused = service.client.delete(f"{files}/one")
    assert (refused.status_code, refused.json()["code"]) == (409, "FAILED_PRECONDITION")
    assert service.client.delete(f"{files}/one?recursive=true").status_code == 204
    missing = service.client.get(f"{files}/one")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert missing.headers["content-type"] == "application/problem+json"
    assert service.client.delete(f"{files}/one").status_code == 404


def test_paths_stay_in_the_sandbox(service: Server) -> None:
    service.post(
        "/execute", command="ln -s /etc outside; ln -s nowhere dangling; ln -s a-directory link; mkdir a-directory"
    )
    for path in ("%2E%2E/etc", "outside", "outside/passwd", "a/%2E%2E/%2E%2E/%2E%2E/etc"):
        answer = service.client.get(f"/v1/files/{path}")
        assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED"), path
        assert service.client.get(f"/list/{path}").status_code == 403
    assert service.client.put("/v1/files/%2E%2E/x", content=b"").status_code == 403
    assert service.client.delete("/v1/files/?recursive=true").status_code == 403
    # A link is deleted itself, and not its target.
    assert service.client.delete("/v1/files/link").status_code == 204
    assert service.client.get("/exists/a-directory").json() == {"path": "a-directory", "exists": True}
    assert service.client.delete("/v1/files/dangling").status_code == 204


def test_health_and_metadata(service: Server) -> None:
    alive = service.connect().get("/v1/health")  # without a token
    assert (alive.status_code, alive.json()["status"]) == (200, "ok")
    assert service.connect().get("/v1/metadata").status_code == 401
    assert service.client.get("/v1/metadata").json() == {"env": {"SANDBOX_ID": "box-1"}}


def test_the_first_page_is_health_for_programs_and_a_page_for_browsers(service: Server) -> None:
    client = service.connect()  # without a token
    alive = client.get("/", headers={"Accept": "*/*"})
    assert (alive.status_code, alive.json()["status"], alive.headers["vary"]) == (200, "ok", "Accept")
    assert client.head("/").status_code == 200
    page = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.content == client.get("/", headers={"Accept": "text/html"}).content


def test_a_token_in_the_other_header(service: Server) -> None:
    client = service.connect()
    for headers, status in (({"X-Pysbx-Token": TOKEN}, 200), ({"X-Pysbx-Token": TOKEN[1:]}, 401), ({}, 401)):
        assert client.get("/v1/metadata", headers=headers).status_code == status
    # Authorization counts if there are both.
    both = {"X-Pysbx-Token": TOKEN, "Authorization": "Bearer wrong"}
    assert client.get("/v1/metadata", headers=both).status_code == 401


def test_wrong_requests_are_refused(service: Server) -> None:
    assert service.post("/execute", code="1").status_code == 422
    assert service.post("/execute", command="true", timeout_seconds=-1).status_code == 422
    assert service.post("/execute", command="true", timeout_seconds=10_000).status_code == 422
    assert service.client.post("/upload", files={"other": b"x"}).status_code == 422
    assert (
        service.client.post("/upload", content=b"x", headers={"Content-Type": "multipart/form-data"}).status_code == 400
    )
    assert service.client.put("/v1/files/x?mode=9", content=b"").status_code == 422
    assert service.client.get("/v1/files/a%00b").status_code == 422


def test_a_session_that_has_ended_is_followed_by_another(service: Server) -> None:
    service.post("/execute", command="echo kept >kept")
    for session in service.client.get("/v1/sessions").json()["sessions"]:
        assert service.client.delete(f"/v1/sessions/{session['id']}").status_code == 204
    assert service.post("/execute", command="ls").json() == {
        "stdout": "", "stderr": "", "exit_code": 0, "timed_out": False
    }  # fmt: skip
    assert len(service.client.get("/v1/sessions").json()["sessions"]) == 1


def test_without_the_option_there_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    with server(listen="127.0.0.1:0", token=TOKEN) as plain:
        assert plain.client.get("/v1/health").status_code == 404
        assert plain.post("/execute", command="true").status_code == 422
        assert plain.post("/execute", code="print(1)").json()["stdout"] == "1\n"


def test_a_time_that_has_no_date_is_no_error_of_the_service(service: Server) -> None:
    [session] = service.client.get("/v1/sessions").json()["sessions"]
    code = "import os\nopen('/work/old', 'w').close()\nos.utime('/work/old', (2**40, 2**40))"
    assert service.post(f"/v1/sessions/{session['id']}/run", code=code).json()["error"] is None
    refused = service.client.get("/v1/files/")
    assert (refused.status_code, refused.json()["detail"][:15]) == (422, "'old': its time")
    assert service.client.delete("/v1/files/old").status_code == 204
