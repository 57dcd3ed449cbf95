"""Shell commands and processes in the background of a session, over HTTP and as tools of MCP."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients import by_stdio, text_of
from tests.servers import Server, server
from tests.test_service import problem, start


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a Unix socket."""
    path = tmp_path_factory.mktemp("service") / "socket"
    with server("--allow-profile", "minimal", listen=f"unix:{path}") as found:
        yield found


def test_a_command_over_http(service: Server) -> None:
    place = start(service)
    service.post(f"{place}/run", code="a = 41")
    done = service.post(f"{place}/shell", command="cat; echo wrong >&2; exit 3", stdin="in\n").json()
    assert (done["stdout"], done["stderr"], done["exit_code"], done["error"]) == ("in\n", "wrong\n", 3, None)
    done = service.post(f"{place}/shell", command=["printf", "%s", "a b"], cwd="/tmp").json()
    assert (done["stdout"], done["exit_code"]) == ("a b", 0)
    done = service.post(f"{place}/shell", command="sleep 60", timeout_sec=0.3).json()
    assert (done["timed_out"], done["exit_code"], done["session_ended"]) == (True, 124, "")
    assert service.post(f"{place}/run", code="a + 1").json()["value"] == "42"
    wrongs: list[dict[str, Any]] = [{"command": ""}, {"command": []}, {"command": 5}, {}]
    for wrong in (*wrongs, {"command": "ls", "timeout_sec": 31}):
        answer = service.post(f"{place}/shell", **wrong)
        assert answer.status_code == 422
        assert problem(answer)["detail"].startswith(("command", "timeout_sec: 31"))
    service.client.delete(place)


def test_a_process_over_http(service: Server) -> None:
    place = start(service)
    answer = service.post(f"{place}/processes", command="while read line; do echo got $line; done; exit 5")
    assert answer.status_code == 201
    pid = answer.json()["pid"]
    here = f"{place}/processes/{pid}"
    assert service.post(f"{here}/write", data="one\n").status_code == 204
    assert service.post(f"{here}/read", wait_sec=10).json() == {
        "stdout": "got one\n",
        "stderr": "",
        "left_out": 0,
        "exit_code": None,
        "open": True,
    }
    command = "while read line; do echo got $line; done; exit 5"
    listed = service.client.get(f"{place}/processes").json()["processes"]
    assert listed == [{"pid": pid, "command": command, "exit_code": None}]
    assert service.post(f"{here}/write", data={"base64": ""}, close=True).status_code == 204
    while (last := service.post(f"{here}/read", wait_sec=10).json())["open"]:
        pass
    assert last["exit_code"] == 5
    gone = service.post(f"{here}/signal", signal="KILL")
    assert (gone.status_code, problem(gone)["detail"]) == (422, f"process {pid}: it has ended")
    assert "no such process" in problem(service.post(f"{place}/processes/99999/read"))["detail"]
    other = service.post(f"{place}/processes", command="sleep 60").json()["pid"]
    assert problem(service.post(f"{place}/processes/{other}/signal", signal="X"))["detail"].startswith("signal: 'X'")
    assert service.post(f"{place}/processes/{other}/signal", signal="TERM").status_code == 204
    service.client.delete(place)
    assert service.post(f"{here}/read").status_code == 410


def test_a_profile_that_inspects_code_allows_no_command(service: Server) -> None:
    place = start(service, profile="minimal")
    for request in ("shell", "processes"):
        assert "cannot inspect commands" in problem(service.post(f"{place}/{request}", command="id"))["detail"]
    service.client.delete(place)


async def use_tools() -> None:
    async with by_stdio() as client:

        async def call(tool: str, **arguments: Any) -> Any:
            done = await client.call_tool(tool, arguments)
            assert not done.is_error, text_of(done)
            return done.structured_content

        session = (await call("start_session"))["session_id"]
        done = await call("run_command", session_id=session, command="cat; exit 3", stdin="in\n")
        assert (done["stdout"], done["exit_code"]) == ("in\n", 3)
        late = await call("run_command", session_id=session, command="sleep 60", timeout_sec=0.3)
        assert (late["timed_out"], late["session_ended"]) == (True, "")
        pid = (await call("start_process", session_id=session, command="cat"))["pid"]
        await call("write_process", session_id=session, pid=pid, text="one\n")
        assert (await call("read_process", session_id=session, pid=pid, wait_sec=10))["stdout"] == "one\n"
        await call("signal_process", session_id=session, pid=pid)
        while (await call("read_process", session_id=session, pid=pid, wait_sec=5))["exit_code"] is None:
            pass
        listed = (await call("list_processes", session_id=session))["processes"]
        assert listed == [{"pid": pid, "command": "cat", "exit_code": 143}]
        refused = await client.call_tool("run_command", {"session_id": session, "command": ""})
        assert refused.is_error
        assert "command: it is empty" in text_of(refused)
        await call("end_session", session_id=session)


def test_the_tools_of_a_model() -> None:
    asyncio.run(use_tools())
