"""Pages of other servers: none can call the service, unless --allow-origin names its origin."""

# once: a browser sees the same as root

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx.command import main
from tests.browser import PROGRAM, Browser
from tests.servers import TOKEN, server

OTHER = "https://notebook.example"
# Headers by which a browser asks before it sends a request of another origin.
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
# A page's request, and what it gets to see.
FETCH = """fetch(%s, {method: "POST", headers: {"Authorization": "Bearer %s", "Content-Type": "application/json"},
  body: JSON.stringify({code: "6 * 7"})}).then(answer => answer.json()).then(done => done.value, error => error.name)"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of an empty page."""

    def do_GET(self) -> None:
        """Send it."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def other_page() -> Iterator[str]:
    """Serve a page, and return its origin."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{pages.server_address[1]}"
        pages.shutdown()


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(TOKEN)
    return str(tmp_path / "token")


@pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")
@pytest.mark.parametrize(("allowed", "sees"), [(False, "TypeError"), (True, "42")])
def test_a_browser_lets_a_page_of_an_allowed_origin_call(
    chromium: Browser, tokens: str, *, allowed: bool, sees: str
) -> None:
    with other_page() as origin, chromium.page() as page:
        options = ("--allow-origin", origin) if allowed else ()
        with server("--token-file", tokens, *options, listen="127.0.0.1:0", token=TOKEN, warnings=True) as service:
            page.go(origin)
            assert page.value(FETCH % (json.dumps(f"http://{service.address}/v1/run"), TOKEN)) == sees


def test_without_the_option_no_answer_permits_anything(tokens: str) -> None:
    with server("--token-file", tokens, listen="127.0.0.1:0", token=TOKEN) as service:
        asked = service.client.options("/v1/run", headers={"Origin": OTHER, **ASKS})
        done = service.client.post("/v1/run", json={"code": "1"}, headers={"Origin": OTHER})
        with service.connect() as stranger:
            refused = stranger.options("/v1/run", headers={"Origin": OTHER, **ASKS})
    assert (asked.status_code, refused.status_code) == (405, 401)
    assert done.json()["value"] == "1", "the token decides, for programs too that send the header"
    for answer in (asked, done, refused):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_the_answers_to_an_allowed_origin(tokens: str) -> None:
    options = ("--token-file", tokens, "--allow-origin", OTHER, "--allow-origin", "http://localhost:3000")
    with server(*options, listen="127.0.0.1:0", token=TOKEN) as service, service.connect() as stranger:
        asked = stranger.options("/v1/run", headers={"Origin": OTHER, **ASKS})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, OTHER)
        assert asked.headers["access-control-allow-headers"] == "authorization,content-type"
        assert "POST" in asked.headers["access-control-allow-methods"]
        done = service.client.post("/v1/run", json={"code": "6 * 7"}, headers={"Origin": OTHER})
        assert (done.json()["value"], done.headers["access-control-allow-origin"]) == ("42", OTHER)
        assert "Origin" in done.headers["vary"]
        assert {"RateLimit", "Retry-After"} <= set(done.headers["access-control-expose-headers"].split(", "))
        # A page learns why it was refused.
        unknown = stranger.post("/v1/run", json={"code": "1"}, headers={"Origin": OTHER})
        assert (unknown.status_code, unknown.headers["access-control-allow-origin"]) == (401, OTHER)
        for origin in ("https://notebook.example.test", "http://notebook.example", f"{OTHER}:8443", "null"):
            for answer in (
                stranger.options("/v1/run", headers={"Origin": origin, **ASKS}),
                service.client.post("/v1/run", json={"code": "1"}, headers={"Origin": origin}),
            ):
                assert "access-control-allow-origin" not in answer.headers
        # Cookies, and what a browser keeps of a proxy's login, are not permitted.
        assert "access-control-allow-credentials" not in {*asked.headers, *done.headers}


def test_without_tokens_a_request_for_a_page_of_another_server_is_refused(tmp_path: Path) -> None:
    with server("--allow-origin", OTHER, listen=f"unix:{tmp_path}/s") as service:

        def status(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return service.client.post("/v1/run", json={"code": "1"}, headers=named).status_code

        assert status() == 200  # a program
        assert status(Origin="http://pysbx") == 200  # the service's own page
        assert status(Origin="https://public.example", Sec_Fetch_Site="same-origin") == 200  # the same, behind a proxy
        assert status(Origin=OTHER, Sec_Fetch_Site="cross-site") == 200
        refused = service.client.post("/v1/run", json={"code": "1"}, headers={"Origin": "https://evil.example"})
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:pysbx:problem:origin")
        assert "--allow-origin" in refused.json()["remedy"]
        assert status(Origin="null") == 403
        assert status(Origin="https://a.example", Sec_Fetch_Site="same-site") == 403
        assert service.client.get("/v1/profiles", headers={"Origin": "https://evil.example"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["*", "null", "", "notebook.example", f"{OTHER}/", f"{OTHER}/a", "https://A.example", f"{OTHER}:443"]
)
def test_what_is_no_origin_is_refused(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--best-effort", "--allow-origin", origin]) == 2
    assert f"allow_origin: '{origin}'" in capsys.readouterr().err


def test_over_mcp_too(tokens: str) -> None:
    options = ("--token-file", tokens, "--allow-origin", OTHER)
    with server(*options, listen="127.0.0.1:0", token=TOKEN, command="mcp") as service:
        asked = service.client.options("/mcp", headers={"Origin": OTHER, **ASKS})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, OTHER)
        unknown = service.client.options("/mcp", headers={"Origin": "https://evil.example", **ASKS})
        assert "access-control-allow-origin" not in unknown.headers
