"""The terminal of `pysbx serve`: GET /v1/sessions/ID/terminal as a WebSocket, by a client that others use too."""

# once: a WebSocket is the same for root

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.servers import TOKEN, Server, server, wait_until

OTHER = "another-token-for-tests"
SECONDS = 30.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("terminal") / "tokens"
    tokens.write_text(f"{TOKEN}\n{OTHER}\n")
    options = ["--token-file", str(tokens), "--allow-profile", "minimal", "--log-level", "info"]
    with server(*options, listen="127.0.0.1:0", token=TOKEN, warnings=True) as running:
        yield running


@pytest.fixture
def session(service: Server) -> Iterator[str]:
    """The identifier of a session."""
    identifier = str(service.post("/v1/sessions").json()["id"])
    yield identifier
    service.client.delete(f"/v1/sessions/{identifier}")


def terminal(service: Server, session: str, query: str = "", token: str = TOKEN, **given: Any) -> ClientConnection:
    """Open a terminal of a session."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = f"ws://{service.address}/v1/sessions/{session}/terminal{query}"
    made: ClientConnection = connect(address, additional_headers=headers, compression=None, **given)
    return made


def said(client: ClientConnection, wanted: str) -> str:
    """Return what a terminal shows, until it contains a text."""
    shown = b""
    while wanted.encode() not in shown[-2000:]:
        part = client.recv(SECONDS)
        assert isinstance(part, bytes), (part, shown[-2000:])
        shown += part
    return shown.decode()


def end(client: ClientConnection) -> tuple[list[str], int, str]:
    """Return the text messages that come until the end, and its code and reason."""
    texts = []
    with pytest.raises(ConnectionClosed) as ended:
        while True:
            part = client.recv(SECONDS)
            texts += [part] if isinstance(part, str) else []
    assert ended.value.rcvd is not None
    return texts, ended.value.rcvd.code, ended.value.rcvd.reason


def refusal(service: Server, session: str, query: str = "", **given: Any) -> tuple[int, str, str]:
    """Return status, type and detail of the problem instead of a terminal."""
    with pytest.raises(InvalidStatus) as refused:
        terminal(service, session, query, **given)
    answer = refused.value.response
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = json.loads(answer.body or b"")
    return answer.status_code, problem["type"].rpartition(":")[2], problem["detail"]


def commands(service: Server, session: str) -> str:
    """Return the commands that run in a session."""
    answer = service.post(f"/v1/sessions/{session}/shell", command="cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    return str(answer.json()["stdout"])


def test_a_shell_has_a_terminal_of_the_size_that_the_client_wants(service: Server, session: str) -> None:
    with terminal(service, session, "?rows=30&columns=100") as client:
        client.send(b"stty size; tty\n")
        shown = said(client, "/dev/pts/")
        assert "30 100" in shown
        client.send('{"rows": 50, "columns": 132}')
        client.send(b"stty size; exit 7\n")
        assert "50 132" in said(client, "50 132")
        assert end(client) == (['{"exit_code": 7}'], 1000, "")


def test_python_in_the_terminal_sees_the_files_of_the_session(service: Server, session: str) -> None:
    service.client.put(f"/v1/sessions/{session}/files/given", content=b"from the client")
    with terminal(service, session, "?program=python") as client:
        said(client, ">>> ")
        client.send(b"open('given').read().upper()\n")
        said(client, "'FROM THE CLIENT'")


def test_the_end_of_the_connection_ends_the_programs(service: Server, session: str) -> None:
    with terminal(service, session) as client:
        client.send(b"(trap '' HUP; sleep 5322) & sleep 5323\n")
        wait_until(lambda: all(one in commands(service, session) for one in ("sleep 5322", "sleep 5323")))
        client.socket.shutdown(socket.SHUT_RDWR)  # without a word
    wait_until(lambda: "sleep 532" not in commands(service, session))
    with terminal(service, session) as again:
        again.send(b"echo a''gain\n")
        said(again, "again")


def test_a_websocket_at_another_path_is_no_such_route(tmp_path: Path) -> None:
    from websockets.sync.client import unix_connect

    with server(listen=f"unix:{tmp_path}/s") as running, pytest.raises(InvalidStatus) as refused:
        unix_connect(f"{tmp_path}/s", "ws://pysbx/v1/shell")
    assert refused.value.response.status_code == 404
    problem = json.loads(refused.value.response.body or b"")
    assert problem["detail"] == "/v1/shell is no WebSocket"
    assert any("GET /v1/shell 404 " in line for line in running.log)


def test_a_session_has_one_terminal(service: Server, session: str) -> None:
    with terminal(service, session) as client:
        assert refusal(service, session)[:2] == (409, "terminal")
        client.send(b"echo still he''re\n")
        said(client, "still here")
    wait_until(lambda: refused_or_open(service, session))


def refused_or_open(service: Server, session: str) -> bool:
    """Tell whether a terminal can be opened, and close it."""
    try:
        with terminal(service, session):
            return True
    except InvalidStatus:
        return False


def test_the_end_of_the_session_ends_the_terminal(service: Server, session: str) -> None:
    with terminal(service, session) as client:
        client.send(b"echo re''ady\n")
        said(client, "ready")
        assert service.client.delete(f"/v1/sessions/{session}").status_code == 204
        assert end(client) == ([], 1001, "the session has ended: its owner has ended it")


def test_much_output_waits_for_its_reader(service: Server, session: str) -> None:
    with terminal(service, session, max_queue=1) as client:
        client.send(b"yes | head -c 300000; echo en''d\n")
        time.sleep(1)
        assert said(client, "end").count("y\r\n") >= 150_000 - 1
        client.send(b"yes\n")
        said(client, "y\r\ny")
        client.send(b"\x03")
        client.send(b"echo en''d\n")
        said(client, "end")


def test_who_may_not_have_a_terminal_gets_a_problem(service: Server, session: str) -> None:
    assert refusal(service, session, token="")[:2] == (401, "token")
    assert refusal(service, session, token="x" * 20)[:2] == (401, "token")
    assert refusal(service, session, token=OTHER)[:2] == (404, "no-session")
    assert refusal(service, "none")[:2] == (404, "no-session")
    assert refusal(service, session, origin="http://elsewhere.example")[:2] == (403, "origin")
    with terminal(service, session, origin=f"http://{service.address}") as client:
        client.send(b"exit\n")
        end(client)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("?rows=0", "rows: 0 is not a number"),
        ("?columns=x", "columns: 'x' is not a number"),
        ("?rows=" + "9" * 5000, "rows: '999"),
        ("?program=perl", "program: 'perl' is not among: shell, python"),
        ("?size=3", "size: there is no such parameter"),
    ],
)
def test_a_query_that_means_nothing_gets_a_problem(service: Server, session: str, query: str, detail: str) -> None:
    status, kind, said_so = refusal(service, session, query)
    assert (status, kind) == (422, "request")
    assert said_so.startswith(detail)


def test_a_profile_that_inspects_code_has_no_terminal(service: Server) -> None:
    identifier = service.post("/v1/sessions", profile="minimal").json()["id"]
    assert refusal(service, identifier)[:2] == (422, "refused")
    service.client.delete(f"/v1/sessions/{identifier}")


@pytest.mark.parametrize(
    ("message", "code"),
    [("x", 1007), ("[]", 1007), ('{"rows": 1}', 1007), ('{"rows": "1", "columns": 80}', 1007), (b"x" * 70_000, 1009)],
)
def test_a_message_that_means_nothing_ends_the_terminal(
    service: Server, session: str, message: str | bytes, code: int
) -> None:
    with terminal(service, session) as client:
        client.send(message)
        assert end(client)[1] == code
    wait_until(lambda: refused_or_open(service, session))


EMPTY = b"\x80\0\0\0\0"  # a length of 0, masked, and the mask


@pytest.mark.parametrize(
    ("first", "frame"),
    [(b"\x02" + EMPTY, b"\x00"), (b"", b"\x82"), (b"", b"\x89"), (b"", b"\x8a")],
    ids=["parts of a message", "messages", "pings", "pongs"],
)
def test_very_many_frames_without_content_end_the_terminal(
    service: Server, session: str, first: bytes, frame: bytes
) -> None:
    with terminal(service, session) as client:
        client.socket.sendall(first + (frame + EMPTY) * 2000)
        assert end(client)[1:] == (1008, "more than 1000 small frames at once, or 500 a second")
    wait_until(lambda: refused_or_open(service, session))


def test_frames_with_content_may_be_as_many_as_the_program_takes(service: Server, session: str) -> None:
    with terminal(service, session) as client:
        for number in range(1500):
            client.send(b": a line of %06d\n" % number)
        client.send(b"echo en''d\n")
        said(client, "end")


def test_who_does_not_wait_for_the_answer_gets_none(service: Server, session: str) -> None:
    place = f"/v1/sessions/{session}"
    run = threading.Thread(target=service.post, args=(f"{place}/run",), kwargs={"code": "import time; time.sleep(5)"})
    run.start()
    wait_until(lambda: service.client.get(place).json()["running"])
    host, _, port = service.address.rpartition(":")
    headers = {"Host": "x", "Authorization": f"Bearer {TOKEN}", "Upgrade": "websocket", "Connection": "Upgrade"}
    headers |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": "13"}
    lines = [f"GET {place}/terminal HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=SECONDS) as channel:
        channel.sendall("\r\n".join(lines).encode())
        time.sleep(0.5)  # the head is not followed by this, but the terminal waits for the turn of the session
        channel.sendall(b"\x82" + EMPTY)
        with contextlib.suppress(ConnectionResetError):
            assert channel.recv(1) == b""
    assert time.monotonic() - began < 4
    run.join()


def test_a_terminal_without_input_ends_with_its_session(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    with server("--idle", "2", listen=address) as running:
        identifier = running.post("/v1/sessions").json()["id"]
        from websockets.sync.client import unix_connect

        uri = f"ws://pysbx/v1/sessions/{identifier}/terminal"
        with unix_connect(f"{tmp_path}/s", uri, compression=None) as client:
            client.send(b"while echo x; do sleep 0.1; done\n")
            until = time.monotonic() + 4
            while time.monotonic() < until:  # input is use, output is none
                client.send(b"\n")
                time.sleep(0.2)
            assert end(client)[1:] == (1001, "the session has ended: it was not used for 2 seconds")


def test_the_log_has_one_line_for_a_terminal(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    with server(listen=address) as running:
        identifier = running.post("/v1/sessions").json()["id"]
        from websockets.sync.client import unix_connect

        with unix_connect(f"{tmp_path}/s", f"ws://pysbx/v1/sessions/{identifier}/terminal") as client:
            client.send(b"exit\n")
            end(client)
    line = next(line for line in running.log if "/terminal" in line)
    assert f"GET /v1/sessions/{identifier[:6]}…/terminal 101 " in line
    assert identifier not in "".join(running.log)


def test_a_server_that_stops_ends_its_terminals(tmp_path: Path) -> None:
    from websockets.sync.client import unix_connect

    with contextlib.ExitStack() as clients:
        with server(listen=f"unix:{tmp_path}/s", errors=True) as running:
            identifier = running.post("/v1/sessions").json()["id"]
            address = f"ws://pysbx/v1/sessions/{identifier}/terminal"
            client = clients.enter_context(unix_connect(f"{tmp_path}/s", address, compression=None))
            client.send(b"(trap '' HUP TERM; sleep 5324) & echo re''ady; sleep 5325\n")
            said(client, "ready")
            identifier = running.post("/v1/sessions").json()["id"]
            address = f"ws://pysbx/v1/sessions/{identifier}/terminal"
            clients.enter_context(unix_connect(f"{tmp_path}/s", address, max_queue=1)).send(b"yes\n")
            time.sleep(1)  # the client does not read what it says
            began = time.monotonic()
        assert time.monotonic() - began < SECONDS  # it has waited for nothing that a client could delay
        assert running.process.returncode == 0
        assert end(client)[1] == 1001


def test_a_session_with_a_terminal_is_not_forked_and_goes_on(service: Server, session: str) -> None:
    service.post(f"/v1/sessions/{session}/run", code="x = 41")
    with terminal(service, session) as client:
        client.send(b"echo re''ady\n")
        said(client, "ready")
        refused = service.client.post(f"/v1/sessions/{session}/fork")
        assert refused.status_code == 422
        assert refused.json()["detail"] == "the session cannot be forked: a terminal is open: close it"
        client.send(b"echo still he''re\n")
        said(client, "still here")
        assert service.post(f"/v1/sessions/{session}/run", code="x + 1").json()["value"] == "42"
    wait_until(lambda: service.client.post(f"/v1/sessions/{session}/fork").status_code == 201)
