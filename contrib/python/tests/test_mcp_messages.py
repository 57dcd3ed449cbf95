"""`pysbx mcp` as it reads messages, over standard input and over HTTP: order, cancelling, signals, tokens, bounds."""

# once: a server says the same to its clients as root
# slow: starts a server for most tests

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from pysbx.base import directories
from pysbx.base.runtime import find_runtime
from pysbx.command import main
from pysbx.container.interpreter import host_interpreter
from pysbx.packages import dependencies
from tests.clients import answer_of, begin, run_of, send, text_of
from tests.packages import make_wheel
from tests.servers import TOKEN, containers_of, server, wait_until
from tests.test_service import SLEEP
from tests.test_service_bounds import quickest


def test_a_client_that_knows_no_links_gets_the_address_of_a_file_as_text() -> None:
    """Resource links are new in 2025-06-18. A client of an earlier version refuses the whole result."""
    process = begin(run_of(1, "open('/output/a b.bin', 'wb').write(b'\\0')"), version="2025-03-26")
    assert process.stdin is not None
    assert process.stdout is not None
    _, block = answer_of(process)["result"]["content"]
    uri = re.fullmatch(r"\[a b\.bin: resource (sandbox://[0-9a-f]{16}/a%20b\.bin)\]", block["text"])
    assert uri is not None
    send(process, {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": uri[1]}})
    assert answer_of(process)["result"]["contents"][0]["blob"] == "AA=="
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_client_that_has_waited_in_vain_for_server_discover_may_begin_with_initialize() -> None:
    """The AI SDK waits 750 ms, in which no server starts, then goes on over the same connection."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    }
    probe = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": meta}}
    process = begin(run_of(1, "6 * 7"), before=(probe,))
    assert answer_of(process)["result"]["structuredContent"]["value"] == "42"
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_server_answers_before_its_packages_are_installed(tmp_path: Path) -> None:
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    code = "import thing; thing.version"
    with locked_sets(tmp_path / "cache", tmp_path):
        process = begin(
            run_of(1, code),
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            arguments=("--with", "thing", "--wheels", str(tmp_path)),
            XDG_CACHE_HOME=str(tmp_path / "cache"),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        listed = answer_of(process)
        assert listed["id"] == 2
        tools = {tool["name"]: tool["description"] for tool in listed["result"]["tools"]}
        assert "Being installed, the first run waits: thing." in tools["run_python"]
    done = answer_of(process)
    assert (done["id"], done["result"]["structuredContent"]["value"]) == (1, "1")
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_server_answers_before_a_first_sandbox_has_run(tmp_path: Path) -> None:
    # A machine on which no sandbox starts until a file is there.
    slow, go = tmp_path / "slow", tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do /bin/sleep 0.1; done"
    slow.write_text(f'#!/bin/sh\ncase " $* " in *" run "*) {waits} ;; esac\nexec {find_runtime()} "$@"\n')
    slow.chmod(0o755)
    tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    process = begin(tools, run_of(2, "42"), PYSBX_RUNTIME=str(slow))
    assert process.stdin is not None
    assert process.stdout is not None
    listed = answer_of(process)
    assert "modules are not known yet" in listed["result"]["tools"][0]["description"]
    go.touch()
    assert answer_of(process)["result"]["structuredContent"]["value"] == "42"
    while "Python 3" not in listed["result"]["tools"][0]["description"]:
        send(process, tools)
        listed = answer_of(process)
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


@contextmanager
def locked_sets(cache: Path, wheels: Path) -> Iterator[None]:
    """Keep every program from installing the set of `thing`, as another program does that is installing it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        directories.cache_directory.cache_clear()
        wanted = dependencies.Wanted(("thing",), "", str(wheels))
        with directories.locked(dependencies._top() / f".{dependencies._key(wanted, host_interpreter())}.lock"):
            yield
    directories.cache_directory.cache_clear()


def test_packages_that_cannot_be_installed_are_told(tmp_path: Path) -> None:
    process = begin(
        run_of(1, "1"),
        arguments=("--with", "nothing", "--wheels", str(tmp_path)),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answer = answer_of(process)["result"]
    assert answer["isError"]
    assert "packages cannot be installed" in answer["content"][0]["text"]
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_signal_ends_a_server_and_what_runs() -> None:
    process = begin(run_of(1, SLEEP))
    assert process.stdin is not None
    assert process.stdout is not None
    wait_until(lambda: len(containers_of(process.pid)) == 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert containers_of(process.pid) == []
    process.stdin.close()
    process.stdout.close()


def test_a_client_that_is_killed_leaves_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    process = begin(run_of(1, "1"))
    assert process.stdin is not None
    assert process.stdout is not None
    assert answer_of(process)["id"] == 1
    process.stdout.close()

    def has_ended() -> bool:
        with suppress(BrokenPipeError):
            send(process, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        return process.poll() is not None

    wait_until(has_ended, 30)  # its input is open, so it ends because an answer cannot be written
    assert process.returncode == 0
    with suppress(BrokenPipeError):
        process.stdin.close()
    assert "Traceback" not in capfd.readouterr().err


def test_over_http_a_signal_ends_what_runs_and_its_caller_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine on which it takes a while to end a sandbox.
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" delete "*) /bin/sleep 2 ;; esac\nexec {find_runtime()} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PYSBX_RUNTIME", str(slow))
    accept = {"Accept": "application/json, text/event-stream"}
    with ThreadPoolExecutor(1) as pool, server(listen=f"unix:{tmp_path}/s", command="mcp") as service:
        call = pool.submit(service.client.post, "/mcp", json=run_of(1, SLEEP), headers=accept)
        wait_until(lambda: len(containers_of(service.process.pid)) == 1)
        service.process.send_signal(signal.SIGTERM)
        assert "the server is stopping" in call.result().text


def test_half_a_character_is_replaced_and_the_call_answered() -> None:
    # To the letter, that is: half of one, the other half, a whole one, and an escape of Python's.
    code = r"print(ascii('\ud83d|\uDE00|\ud83d\ude00|\\ud83d'))"
    message = json.dumps(run_of(1, "CODE")).replace("CODE", code)
    process = begin()
    assert process.stdin is not None
    assert process.stdout is not None
    send(process, message, run_of(2, "2"))
    impatient = threading.Timer(60, process.kill)
    impatient.start()
    answers = {answer["id"]: answer["result"] for answer in (answer_of(process) for _ in range(2))}
    impatient.cancel()
    assert answers[1]["structuredContent"]["stdout"] == r"'\ufffd|\ufffd|\U0001f600|\ud83d'" + "\n"
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_cancelled_calls_malformed_messages_and_the_end_of_input() -> None:
    process = begin(run_of(1, SLEEP))
    assert process.stdin is not None
    assert process.stdout is not None
    wait_until(lambda: len(containers_of(process.pid)) == 1)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}}
    send(process, cancelled, "no json", "[" * 10_000, run_of(2, "print(7)"))
    wait_until(lambda: containers_of(process.pid) == [], 5)
    found: dict[str, Any] = {}
    while found.get("id") != 2:
        found = answer_of(process)
    assert found["result"]["content"][0]["text"] == "7"
    send(process, run_of(3, SLEEP))
    wait_until(lambda: len(containers_of(process.pid)) == 1)
    process.stdin.close()
    assert process.wait(10) == 0
    assert containers_of(process.pid) == []
    process.stdout.close()


def test_over_http_sessions_belong_to_tokens(tmp_path: Path) -> None:
    other = "another-token-for-tests"
    (tmp_path / "tokens").write_text(f"{TOKEN}\n{other}\n")
    with server("--token-file", f"{tmp_path}/tokens", listen="127.0.0.1:0", command="mcp") as service:
        url = f"http://{service.address}/mcp"

        @asynccontextmanager
        async def talking(token: str, mode: Literal["legacy", "auto"]) -> AsyncIterator[Client]:
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30) as way,
                Client(streamable_http_client(url, http_client=way), mode=mode) as client,
            ):
                yield client

        async def test(mode: Literal["legacy", "auto"]) -> None:
            async with talking(TOKEN, mode) as mine, talking(other, mode) as theirs:
                started = await mine.call_tool("start_session", {})
                session = {"session_id": started.structured_content["session_id"]}
                await mine.call_tool("run_in_session", {**session, "code": "x = 41"})
                refused = await theirs.call_tool("run_in_session", {**session, "code": "x + 1"})
                assert "no such session" in text_of(refused)
                done = await mine.call_tool("run_in_session", {**session, "code": "x + 1"})
                assert text_of(done) == "42"
                await mine.call_tool("run_in_session", {**session, "code": "open('/output/f', 'wb').write(b'\\xff')"})
                kept = (await mine.list_resources()).resources[0]
                assert (await theirs.list_resources()).resources == []
                assert len((await mine.read_resource(kept.uri)).contents) == 1
                with pytest.raises(MCPError, match="no such file"):
                    await theirs.read_resource(kept.uri)

        asyncio.run(test("legacy"))  # with a handshake, as the protocol was until 2025
        asyncio.run(test("auto"))
        assert service.client.post("/mcp", json=run_of(1, "1")).status_code == 401
        assert service.client.get("/mcp", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 405


def test_over_http_a_client_that_goes_ends_what_it_runs(tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/s", command="mcp") as service:
        pid = service.process.pid

        async def test() -> None:
            async with (
                httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=f"{tmp_path}/s"), timeout=30) as way,
                Client(streamable_http_client("http://pysbx/mcp", http_client=way)) as client,
            ):
                call = asyncio.ensure_future(client.call_tool("run_python", {"code": SLEEP}))
                await asyncio.to_thread(wait_until, lambda: len(containers_of(pid)) == 1)
                call.cancel()
                await asyncio.to_thread(wait_until, lambda: containers_of(pid) == [])
                assert text_of(await client.call_tool("run_python", {"code": "42"})) == "42"

        asyncio.run(test())
        # As the protocol was until 2025, where a client that cancels says so, to a server that keeps no sessions.
        with pytest.raises(httpx.ReadTimeout):
            accept = {"Accept": "application/json, text/event-stream"}
            service.client.post("/mcp", json=run_of(1, SLEEP), headers=accept, timeout=1)
        wait_until(lambda: containers_of(pid) == [])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ({"code": "1", "files": {str(number): "" for number in range(300_000)}}, 413, "1000 files are the most"),
        # A string is read as JSON where something else is wanted.
        ({"code": "1", "files": "[" + "[]," * 2_000_000 + "[]]"}, 200, "more than 4000 parts"),
        ({"code": "1", "files": {str(number): "" for number in range(1001)}}, 200, "1001 of them are more than 1000"),
        ({"code": "import os; len(os.listdir())", "files": {str(n): "x" * 4000 for n in range(1000)}}, 200, '"1000"'),
        ({"code": "for i in range(3000): open(f'/output/{i}', 'w')"}, 200, '"truncated":true'),
    ],
)
def test_over_http_a_call_of_many_parts_keeps_nothing_else_waiting(
    arguments: dict[str, Any], status: int, said: str, tmp_path: Path
) -> None:
    message = run_of(1, "") | {"params": {"name": "run_python", "arguments": arguments}}
    with server(listen=f"unix:{tmp_path}/s", command="mcp") as service:
        longest, answer = quickest(service, "/mcp", json.dumps(message).encode(), status)
        assert longest < 0.1
        assert said in answer.text
        assert len(answer.content) < 200_000


def test_over_http_without_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--listen", "127.0.0.1:0"]) == 2
    assert "needs a token" in capsys.readouterr().err
