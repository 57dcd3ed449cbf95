"""The short interface of `pysbx serve`: GET /healthz, GET /profile, POST /execute. The client is urllib."""

# once: a server says the same to its clients as root

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import TOKEN, Server, server


@pytest.fixture(scope="module")
def service() -> Iterator[Server]:
    """A server without a profile of its own, at a TCP port."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSBX_TOKEN", TOKEN)
        with server(listen="127.0.0.1:0", token=TOKEN) as found:
            yield found


def ask(service: Server, path: str, content: dict[str, Any] | None = None, token: str = TOKEN) -> tuple[int, Any]:
    """Send a request, and return the status and the JSON of the answer."""
    data = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"http://{service.address}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_program_is_run(service: Server) -> None:
    status, done = ask(service, "/execute", {"code": "import math\nprint(math.sqrt(2))", "timeout": 5})
    assert status == 200
    assert (done["stdout"], done["stderr"], done["exit_code"]) == ("1.4142135623730951\n", "", 0)
    assert done["timed_out"] is False


def test_an_exception_is_in_stderr(service: Server) -> None:
    status, done = ask(service, "/execute", {"code": "print('a')\n1 / 0"})
    assert (status, done["stdout"], done["exit_code"]) == (200, "a\n", 1)
    assert done["stderr"].endswith("ZeroDivisionError: division by zero\n")
    assert done["stderr"].count("ZeroDivisionError") == 1


def test_the_first_violation_is_an_error_of_the_request(service: Server) -> None:
    code = "print('ran')\neval('1')\nimport subprocess\nimport socket\n"
    status, refused = ask(service, "/execute", {"code": code})
    assert status == 400
    # The stage for imports comes first, and within a stage the lines decide.
    assert refused == {
        "error": "Code validation failed",
        "violations": ["line 3: module 'subprocess' is not among the allowed ones [import]"],
    }
    assert ask(service, "/execute", {"code": " \n"}) == (400, {"error": "No code provided", "violations": []})


def test_a_limit_of_time_is_the_callers_up_to_the_servers(service: Server) -> None:
    status, done = ask(service, "/execute", {"code": "import time; time.sleep(60)", "timeout": 0.5})
    assert (status, done["exit_code"], done["timed_out"]) == (200, 124, True)
    for wrong in (31, 0, -1, "1", True):
        status, refused = ask(service, "/execute", {"code": "1", "timeout": wrong})
        assert (status, refused["status"]) == (422, 422), wrong
        assert "timeout" in refused["detail"]


def test_the_profile_is_told(service: Server) -> None:
    status, about = ask(service, "/profile")
    assert (status, about["name"]) == (200, "minimal")
    assert "math" in about["allowed_imports"] and "os" not in about["allowed_imports"]
    assert about["blocklist_entries"] > 20
    assert {"imports", "calls", "attributes"} <= set(about["scan_stages"]["pre"])


def test_without_a_name_no_profile_is_on_offer(service: Server) -> None:
    """The first use of data-science installs 546 MiB from an index, and the caller's limit of time is not for that."""
    assert ask(service, "/v1/profiles")[1]["profiles"] == []
    for path in ("/v1/run", "/v1/sessions"):
        for name in ("data-science", "minimal"):
            status, refused = ask(service, path, {**({"code": "1"} if path == "/v1/run" else {}), "profile": name})
            assert (status, refused["detail"]) == (422, f"profile: '{name}' is not there: this server offers none")


def test_only_health_needs_no_token(service: Server) -> None:
    assert ask(service, "/healthz", token="") == (200, {"status": "ok"})
    for path in ("/profile", "/execute"):
        assert ask(service, path, token="")[0] == 401


@pytest.mark.usefixtures("service")  # which sets the token
def test_the_profile_is_the_servers(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"description": "Mine.", "imports": {"stage": "enforce", "allowed": ["os"]}}))
    with server("--profile", str(path), listen=f"unix:{tmp_path}/socket", token=TOKEN) as found:
        about = found.client.get("/profile").json()
        assert (about["name"], about["description"], about["allowed_imports"]) == (str(path), "Mine.", ["os"])
        assert found.post("/execute", code="import os\nprint(os.getpid())").json()["stdout"] == "2\n"
        assert found.post("/execute", code="import math").status_code == 400
