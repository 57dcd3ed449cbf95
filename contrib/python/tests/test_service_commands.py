"""Shell commands and processes in the background of a session, over HTTP and as tools of MCP."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
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
    assert (
        "no such process" in problem(service.client.post(f"{place}/processes/99999/read"))["detail"]
    )  # without a body
    other = service.post(f"{place}/processes", command="sleep 60").json()["pid"]
    assert problem(service.post(f"{place}/processes/{other}/signal", signal="X"))["detail"].startswith("signal: 'X'")
    assert service.post(f"{place}/processes/{other}/signal", signal="TERM").status_code == 204
    service.client.delete(place)
    assert service.post(f"{here}/read").status_code == 410


def test_a_command_with_whole_output_over_http(service: Server) -> None:
    place = start(service)
    both = "cat; printf '\\377' >&2; echo $A; pwd; exit 3"
    done = service.post(f"{place}/exec", command=both, stdin={"base64": "AA=="}, cwd="/tmp", env={"A": "b"})
    assert done.json() == {"exit_code": 3, "stdout": "\0b\n/tmp\n", "stderr": {"base64": "/w=="}, "started": True}
    whole = service.post(f"{place}/exec", command=["seq", "300000"]).json()["stdout"]
    assert whole.splitlines() == [str(number) for number in range(1, 300001)]
    assert service.post(f"{place}/exec", command=["no-such-program"]).json()["exit_code"] == 127
    late = service.post(f"{place}/exec", command="echo begun; sleep 987 & sleep 987", timeout_sec=0.5)
    assert late.status_code == 422
    assert (problem(late)["type"], problem(late)["stdout"]) == ("urn:pysbx:problem:timed-out", "begun\n")
    assert (
        "987" not in service.post(f"{place}/exec", command="cat /proc/[0-9]*/cmdline | tr '\\0' ' '").json()["stdout"]
    )
    large = problem(service.post(f"{place}/exec", command=["yes"]))
    assert (large["type"], large["stdout"][:4]) == ("urn:pysbx:problem:output-limit", "y\ny\n")
    for wrong, said in (
        ({"command": []}, "command: it is empty"),
        ({"command": "ls", "timeout_sec": 31}, "timeout_sec: 31 is more"),
        ({"command": "ls", "stdin": {"base64": "x"}}, "stdin: "),
        ({"command": "ls", "env": {"A": 1}}, "env.A: "),
    ):
        assert problem(service.post(f"{place}/exec", **wrong))["detail"].startswith(said)
    nowhere = problem(service.post(f"{place}/exec", command="ls", cwd="/none"))
    assert (nowhere["status"], nowhere["code"]) == (404, "file_not_found")
    service.client.delete(place)


PLACES = "mkdir -p dir/deep full; echo text >dir/file; ln -s dir/file link; ln -s nowhere lost"
# Requests for which there is an error, and its code, over HTTP and MCP.
REFUSED = (
    ("stat", "stat_path", "/work/none", 404, "file_not_found"),
    ("stat", "stat_path", "/work/lost", 404, "file_not_found"),
    ("stat", "stat_path", "work", 422, "invalid_path"),
    ("stat", "stat_path", "/work/a\0b", 422, "invalid_path"),
    ("list", "list_directory", "/work/dir/file", 422, "not_a_directory"),
    ("mkdir", "make_directory", "/work/dir/file", 422, "file_exists"),
    ("mkdir", "make_directory", "/proc/made", 404, "file_not_found"),
    ("remove", "remove_path", "/work", 422, "invalid_path"),
    ("remove", "remove_path", "/etc/passwd", 422, "permission_denied"),
)


def test_places_over_http(service: Server) -> None:
    place = start(service)
    service.post(f"{place}/exec", command=PLACES)

    def ask(what: str, path: str) -> httpx.Response:
        method = "POST" if what in ("mkdir", "remove") else "GET"
        return service.client.request(method, f"{place}/{what}", params={"path": path})

    found = ask("stat", "/work/link").json()
    assert (found["name"], found["kind"], found["size"], found["mtime"] > 1e9) == ("link", "file", 5, True)
    assert [(one["path"], one["kind"]) for one in ask("list", "/work/dir").json()["entries"]] == [
        ("/work/dir/deep", "directory"),
        ("/work/dir/file", "file"),
    ]
    assert ask("realpath", "/work/dir/../link").json() == {"path": "/work/dir/file"}
    assert [ask("mkdir", "/work/a/b").status_code for _ in range(2)] == [204, 204]
    assert ask("stat", "/work/a/b").json()["kind"] == "directory"
    assert ask("remove", "/work/a").status_code == 204
    assert ask("stat", "/work/a").status_code == 404
    for what, _, path, status, code in REFUSED:
        said = problem(ask(what, path))
        assert (said["status"], said["code"], what, path) == (status, code, what, path)
    for method, path, code in (
        ("GET", "none", "file_not_found"),
        ("GET", "dir", "is_directory"),
        ("GET", "/dev/zero", "not_regular_file"),
        ("PUT", "dir", "is_directory"),
        ("PUT", "/etc/x", "invalid_path"),
        ("DELETE", "none", "file_not_found"),
    ):
        assert problem(service.client.request(method, f"{place}/files/{path}"))["code"] == code
    assert "path: " in problem(service.client.get(f"{place}/stat"))["detail"]
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
        words = {"session_id": session, "argv": ["sh", "-c", "cat; echo $A; pwd"]}
        done = await call("exec_command", **words, stdin="aW4K", encoding="base64", cwd="/tmp", env={"A": "b"})
        assert done == {"exit_code": 0, "stdout": "in\nb\n/tmp\n", "stderr": "", "encoding": "text"}
        assert (await call("exec_command", session_id=session, argv=["printf", "\\377"]))["stdout"] == "/w=="
        await call("exec_command", session_id=session, argv=["sh", "-c", PLACES])
        assert (await call("stat_path", session_id=session, path="/work/link"))["size"] == 5
        listed = await call("list_directory", session_id=session, path="/work/dir")
        assert [one["name"] for one in listed["entries"]] == ["deep", "file"]
        assert (await call("real_path", session_id=session, path="/work/link"))["path"] == "/work/dir/file"
        await call("make_directory", session_id=session, path="/work/a/b")
        await call("remove_path", session_id=session, path="/work/a")
        for _, tool, path, _, code in REFUSED:
            refused = await client.call_tool(tool, {"session_id": session, "path": path})
            assert (refused.is_error, (refused.meta or {}).get("code"), path) == (True, code, path)
            assert text_of(refused).endswith(f"[{code}]")
        for argv, kind in ((["sleep", "60"], "timed-out"), (["seq", "300000"], "output-limit")):
            late = await client.call_tool("exec_command", {"session_id": session, "argv": argv, "timeout_sec": 2})
            assert (late.is_error, (late.meta or {}).get("problem")) == (True, kind)
        refused = await client.call_tool("run_command", {"session_id": session, "command": ""})
        assert refused.is_error
        assert "command: it is empty" in text_of(refused)
        await call("end_session", session_id=session)


def test_the_tools_of_a_model() -> None:
    asyncio.run(use_tools())
