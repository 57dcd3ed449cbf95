"""`pysbx serve`: what it answers, over a Unix socket, to clients that are well-behaved and to others."""

# once: a server says the same to its clients as root

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from pysbx.container.limits import enforcement
from pysbx.version import VERSION
from tests.servers import Server, containers_of, server, wait_until
from tests.test_fork import CODE

SLEEP = "import time; time.sleep(25)"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a Unix socket."""
    path = tmp_path_factory.mktemp("service") / "socket"
    options = ("--at-once", "4", "--artifact-size", "1", "--allow-profile", "minimal")
    with server(*options, listen=f"unix:{path}") as found:
        yield found


def problem(answer: httpx.Response) -> dict[str, Any]:
    """Return the problem in an answer: each says what, why, and what to do."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    content: dict[str, Any] = answer.json()
    assert content["status"] == answer.status_code
    assert all(content[name] for name in ("type", "title", "detail", "remedy"))
    return content


def test_a_run(service: Server) -> None:
    done = service.run("import sys\nprint('out'); print('err', file=sys.stderr)\n6 * 7", argv=["a"])
    assert (done["stdout"], done["stderr"], done["value"], done["exit_code"]) == ("out\n", "err\n", "42", 0)
    assert done["error"] is None
    assert done["usage"]["wall_sec"] > 0
    assert set(done["limits"]) == {"memory", "cpu", "pids"}
    assert service.run("import sys; print(sys.argv[1:])", argv=["a", "--b"])["stdout"] == "['a', '--b']\n"


def test_what_the_code_does_wrong_is_no_error_of_http(service: Server) -> None:
    done = service.run("total = 1\nprint(totl)")
    assert (done["exit_code"], done["error"]["type"], done["error"]["line"]) == (1, "NameError", 2)
    assert "total" in done["error"]["hint"]
    assert service.run("import sys; sys.exit(3)")["exit_code"] == 3
    dead = service.run("import os, sys; print('last words', file=sys.stderr); os._exit(3)")
    assert (dead["stderr"], dead["exit_code"]) == ("last words\n", 3)
    late = service.run("import time; time.sleep(60)", timeout_sec=0.5)
    assert (late["timed_out"], late["exit_code"]) == (True, 124)


def test_a_hint_is_for_a_caller_of_the_service(service: Server) -> None:
    hint = service.run("import seaborn_of_nobody, pandas")["error"]["hint"]
    assert "dependencies=" not in hint
    hint = service.run("import cv2")["error"]["hint"]
    assert hint.endswith("ask the operator of this server for opencv-python")
    assert service.run("def f(n): return f(n, 10.0)\nf(1)", memory_mb=64.0)["exit_code"] == 1


def test_files_go_in_and_come_out(service: Server) -> None:
    binary = bytes(range(256))
    files = {"a.txt": "text", "b/c": {"base64": base64.b64encode(binary).decode()}}
    source = "open('/output/copy', 'wb').write(open('b/c', 'rb').read()); open('a.txt').read()"
    done = service.run(source, files=files)
    assert done["value"] == "'text'"
    (artifact,) = done["artifacts"]
    assert (artifact["name"], artifact["size"]) == ("copy", 256)
    assert base64.b64decode(artifact["base64"]) == binary


def test_a_program_reads_what_it_is_given(service: Server) -> None:
    assert service.run("input()", stdin="one\n")["value"] == "'one'"
    assert service.run("open(0, 'rb').read()", stdin={"base64": "/wA="})["value"] == repr(b"\xff\0")
    refused = problem(service.client.post("/v1/run", json={"code": "1", "stdin": {"base64": "!"}}))
    assert refused["detail"].startswith("stdin: ")
    session = service.client.post("/v1/sessions", json={}).json()["id"]
    for given, value in (("two\n", "'two\\n'"), ("", "''")):
        answer = service.client.post(f"/v1/sessions/{session}/run", json={"code": "open(0).read()", "stdin": given})
        assert answer.json()["value"] == value
    assert service.client.delete(f"/v1/sessions/{session}").status_code == 204


def test_artifacts_are_bounded(service: Server) -> None:
    done = service.run("open('/output/large', 'wb').write(bytes(2 << 20)); open('/output/small', 'wb').write(b'1')")
    assert [artifact["name"] for artifact in done["artifacts"]] == ["small"]
    assert done["truncated"] is True


def test_limits_hold_for_each_request(service: Server) -> None:
    assert service.run("print('x' * 100)", output_limit=10)["truncated"] is True
    done = service.run("x = bytes(200 << 20)", memory_mb=64)
    assert done["error"]["type"] == "MemoryError"
    for name, value in (("memory_mb", 513), ("timeout_sec", 31), ("cpus", 1.5), ("max_processes", 65)):
        answer = service.post("/v1/run", code="1", **{name: value})
        assert answer.status_code == 422
        assert problem(answer)["detail"].startswith(f"{name}: ")


def test_profiles(service: Server) -> None:
    choice = service.client.get("/v1/profiles").json()
    limits = {profile["name"]: profile["limits"] for profile in choice["profiles"]}
    assert {name: one["memory_mb"] for name, one in limits.items()} == {"minimal": 256}
    assert choice["limits"]["memory_mb"] == 512
    assert choice["python"].startswith("3.")
    # All violations are listed, and POST /execute has the first one.
    refused = service.run("print('ran')\neval('1')\nimport subprocess\nimport socket\n", profile="minimal")
    assert refused["error"]["type"] == "PolicyViolation"
    found = [(one["rule"], one["line"]) for one in refused["violations"]]
    assert found == [("call", 2), ("import", 3), ("import", 4)]
    (minimal,) = choice["profiles"]
    about = service.client.get("/profile").json()
    assert (minimal["allowed_imports"], minimal["blocked"]) == (about["allowed_imports"], about["blocklist_entries"])
    assert minimal["stages"]["imports"] == "enforce"
    for name in ("none", "/etc/passwd", "../minimal", "seccomp", "data-science"):
        answer = service.post("/v1/run", code="1", profile=name)
        assert answer.status_code == 422
        assert "is not one of: minimal" in problem(answer)["detail"]
    answer = service.post("/v1/run", code="1", packages=["six"])
    assert "'six' is not there: this server offers none" in problem(answer)["detail"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "at character"),
        (b"\xff\xfe\x00", 400, ""),
        (b"[1]", 400, "it is an array"),
        (b"1", 400, "it is a number"),
        (b"", 400, "there is none"),
        (b"[" * 3000, 400, ""),
        (b"[" * 100_000, 413, "4000 parts"),
        (b'{"code": 1}', 422, "code: "),
        (b'{"code": "1", "code2": "1"}', 422, "code2: "),
        (b'{"code": "1", "memory_mb": "64"}', 422, "memory_mb: "),
        (b'{"code": "1", "memory_mb": true}', 422, "memory_mb: "),
        (b'{"code": "1", "memory_mb": -1}', 422, "memory_mb: "),
        (b'{"code": "1", "memory_mb": 0}', 422, "memory_mb: "),
        (b'{"code": "1", "memory_mb": ' + b"9" * 400 + b"}", 422, "memory_mb: "),
        (b'{"code": "1", "memory_mb": ' + b"9" * 5000 + b"}", 400, ""),
        (b'{"code": "1", "timeout_sec": NaN}', 422, "timeout_sec: "),
        (b'{"code": "1", "timeout_sec": 1e999}', 422, "timeout_sec: "),
        (b'{"code": "1", "allow_network": "host"}', 422, "allow_network: "),
        (b'{"code": "1", "mounts": []}', 422, "mounts: "),
        (b'{"code": "1", "files": {"../x": ""}}', 422, "'../x'"),
        (b'{"code": "1", "files": {"/etc/x": ""}}', 422, "'/etc/x'"),
        (b'{"code": "1", "files": {"x": "\\ud800"}}', 422, "file 'x'"),
        (b'{"code": "1", "files": {"x": {"base64": "?"}}}', 422, "file 'x'"),
        (b'{"code": "1", "files": {"x": {"base64": "QQ==", "size": 1}}}', 422, "files: 'x': neither a string nor"),
        (b'{"code": "1", "files": ["x"]}', 422, "files: Input should be a valid dictionary"),
        (b'{"code": "1", "argv": "x"}', 422, "argv: "),
        (b'{"code": "1", "packages": ["--index-url=x"]}', 422, "packages: "),
    ],
)
def test_malformed_requests(service: Server, body: bytes, status: int, said: str) -> None:
    answer = service.client.post("/v1/run", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert said in problem(answer)["detail"]


def test_a_body_without_its_type(service: Server) -> None:
    """As curl -d sends it."""
    form = "application/x-www-form-urlencoded"
    answer = service.client.post("/v1/run", content=b'{"code": "1"}', headers={"Content-Type": form})
    assert (answer.status_code, problem(answer)["detail"]) == (400, f"its Content-Type is '{form}'")
    assert "Content-Type: application/json" in problem(answer)["remedy"]


@pytest.mark.parametrize("coding", ["latin-1", "gzip"])
def test_a_body_that_is_not_utf_8(service: Server, coding: str) -> None:
    head = {"Content-Type": "application/json"}
    if coding == "gzip":
        head["Content-Encoding"] = coding
    answer = service.client.post("/v1/run", content='{"code": "\'é\'"}'.encode("latin-1"), headers=head)
    said = "it is not UTF-8 at byte 11" if coding == "latin-1" else "its Content-Encoding is 'gzip'"
    assert (answer.status_code, problem(answer)["detail"]) == (400, said)
    assert "in UTF-8" in problem(answer)["remedy"]


def test_places_that_are_not_there(service: Server) -> None:
    for method, path, status in (("GET", "/none", 404), ("GET", "/redoc", 404), ("PUT", "/v1/run", 405)):
        answer = service.client.request(method, path)
        assert answer.status_code == status
        assert problem(answer)["status"] == status


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/run", {"POST"}),
        ("GET", "/v1/run", {"POST"}),
        ("POST", "/v1/sessions/x/files/y", {"GET", "HEAD", "PUT"}),
        ("DELETE", "/health", {"GET", "HEAD"}),
    ],
)
def test_a_method_that_is_not_there_is_told_with_those_that_are(
    service: Server, method: str, path: str, allowed: set[str]
) -> None:
    answer = service.client.request(method, path)
    assert answer.status_code == 405
    assert allowed <= set(answer.headers["allow"].split(", "))
    assert method not in answer.headers["allow"]


def test_head_is_answered_like_get(service: Server) -> None:
    for path in ("/health", "/healthz", "/v1/profiles", "/openapi.json"):
        head, get = service.client.head(path), service.client.get(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))
    assert service.client.head("/none").status_code == 404


def test_a_member_that_does_not_exist_is_told_with_the_one_that_is_meant(service: Server) -> None:
    refused = problem(service.post("/v1/run", code="1", timeout=10.0))
    assert refused["detail"].startswith("timeout: there is no such member: did you mean 'timeout_sec'?"), refused
    assert "'code'" in problem(service.post("/execute", cod="1", code="1"))["detail"]
    refused = problem(service.post("/v1/sessions", name="x"))
    assert "memory_mb, " in refused["detail"], refused


def test_a_member_that_is_null_counts_as_missing(service: Server) -> None:
    nothing = dict.fromkeys(("argv", "stdin", "files", "tools", "packages", "profile", "memory_mb", "timeout_sec"))
    done = service.post("/v1/run", code="import sys; sys.argv[1:], input", **nothing).json()
    assert done["exit_code"] == 0 and done["value"].startswith("([], "), done
    place = start(service, tools=None, packages=None, snapshot=None)
    assert service.post(f"{place}/run", code="6 * 7", argv=None, stdin=None).json()["value"] == "42"
    assert service.post(f"{place}/exec", command="pwd", cwd=None, env=None, stdin=None).json()["stdout"] == "/work\n"
    service.client.delete(place)
    refused = problem(service.post("/v1/run", code=None))
    assert refused["detail"] == "code: Input should be a valid string"
    # And clients are told so.
    about = service.client.get("/openapi.json").json()["components"]["schemas"]["RunRequest"]
    assert about["required"] == ["code"]
    assert all({"type": "null"} in member["anyOf"] for name, member in about["properties"].items() if name != "code")


def test_the_description_says_all_that_a_generated_client_needs(service: Server) -> None:
    about = service.client.get("/openapi.json").json()
    assert (about["info"]["version"], about["info"]["title"]) == (VERSION, "pysbx")
    places = {one["operationId"]: one for methods in about["paths"].values() for one in methods.values()}
    names = {"health", "healthz", "profiles", "run", "start_session", "run_in_session", "end_session"}
    names |= {"profile", "execute", "list_sessions", "get_session", "fork_session", "interrupt_session", "delete_file"}
    names |= {"checkpoint_session", "rollback_session", "exec_command", "stat_path", "list_directory", "real_path"}
    names |= {"make_directory", "remove_path", "answer_tool_call"}
    names |= {"checkpoint_session", "rollback_session", "snapshot_session", "list_snapshots", "remove_snapshot"}
    names |= {"list_changes", "pause_session", "resume_session"}
    names |= {"readyz", "metrics", "run_command", "list_processes"}
    names |= {f"{verb}_process" for verb in ("start", "read", "write", "signal")}
    assert set(places) == names | {"list_files", "put_file", "get_file"}
    binary = {"application/octet-stream"}
    assert set(places["put_file"]["requestBody"]["content"]) == binary
    assert set(places["get_file"]["responses"]["200"]["content"]) == binary
    for name in ("run", "run_in_session"):
        assert set(places[name]["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    posts = [methods["post"] for methods in about["paths"].values() if "post" in methods]
    assert all(post["parameters"][-1]["name"] == "Idempotency-Key" for post in posts)
    for place in places.values():
        problems = place["responses"]["default"]["content"]["application/problem+json"]
        assert problems["schema"]["$ref"] == "#/components/schemas/Problem"
    for name in ("start_session", "read_process"):  # their bodies may be left out
        body = places[name]["requestBody"]
        assert not body.get("required") and set(body["content"]["application/json"]["schema"]) == {"$ref"}, name
    told = problem(service.post("/v1/run", nothing=1))
    assert set(about["components"]["schemas"]["Problem"]["required"]) == set(told)
    for name in ("RunRequest", "Tool", "Parameters", "Problem"):
        assert not [one for one in about["components"]["schemas"][name]["properties"].values() if "default" in one]
    assert about["security"] == [{"token": []}, {}]
    assert about["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_hostile_answers_stay_data(service: Server) -> None:
    done = service.run("'\\ud800' + chr(0x1F600)")
    assert done["exit_code"] == 0
    raw = service.post("/v1/run", code="raise Exception('\\ud83d' + '\\x00')")
    assert raw.json()["error"]["message"] == "\N{REPLACEMENT CHARACTER}\0"
    done = service.run("import os; os.symlink('/etc/passwd', '/output/x'); open(b'/output/\\xff\\n', 'w')")
    assert len(done["artifacts"]) <= 1
    assert service.run("'\\x00' in chr(0)")["value"] == "True"
    assert service.run("\0")["exit_code"] == 1
    answer = service.client.post(
        "/v1/run", content=b'{"code": "\\ud800"}', headers={"Content-Type": "application/json"}
    )
    assert answer.json()["exit_code"] == 1


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Yield the events of a stream, and when they came."""
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: ")), time.monotonic()


def test_output_is_streamed(service: Server) -> None:
    source = "import sys, time\nprint('a'); time.sleep(4); print('b', file=sys.stderr); 'c'"
    with service.client.stream(
        "POST", "/v1/run", json={"code": source}, headers={"Accept": "text/event-stream"}
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        found = list(events(answer.iter_lines()))
    assert [(kind, data.get("text", data.get("value"))) for kind, data, _ in found] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("result", "'c'"),
    ]
    assert found[1][2] - found[0][2] > 0.4  # however late the first is noticed


def test_a_stream_of_a_request_that_cannot_be_meant_is_none(service: Server) -> None:
    answer = service.client.post(
        "/v1/run", json={"code": "1", "memory_mb": 9999}, headers={"Accept": "text/event-stream"}
    )
    assert answer.status_code == 422
    problem(answer)


def start(service: Server, **wish: Any) -> str:
    """Start a session and return its place."""
    answer = service.post("/v1/sessions", **wish)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


def test_sessions(service: Server) -> None:
    place, other = start(service), start(service, timeout_sec=5, memory_mb=128)
    assert service.post(f"{place}/run", code="x = 41").json()["exit_code"] == 0
    assert service.post(f"{place}/run", code="x + 1").json()["value"] == "42"
    assert service.post(f"{other}/run", code="'x' in globals()").json()["value"] == "False"
    with service.client.stream(
        "POST", f"{place}/run", json={"code": "print(x)"}, headers={"Accept": "text/event-stream"}
    ) as answer:
        assert [kind for kind, *_ in events(answer.iter_lines())] == ["stdout", "result"]
    assert service.post(f"{place}/run", code="print(x)").json()["stdout"] == "41\n"
    for one in (place, other):
        assert service.client.delete(one).status_code == 204
        assert service.client.delete(one).status_code == 410
    assert problem(service.post(f"{place}/run", code="1"))["detail"] == "its owner has ended it"
    assert containers_of(service.process.pid) == []


def test_files_of_a_session(service: Server) -> None:
    place = start(service)
    content = bytes(range(256))
    assert service.client.put(f"{place}/files/a/b%20c", content=content).status_code == 204
    assert service.post(f"{place}/run", code="open('/output/o', 'w').write('1')").json()["exit_code"] == 0
    assert service.client.get(f"{place}/files").json() == {"files": {"a/b c": 256, "/output/o": 1}}
    answer = service.client.get(f"{place}/files/a/b%20c")
    assert (answer.content, answer.headers["content-type"]) == (content, "application/octet-stream")
    assert service.client.get(f"{place}/files/%2Foutput/o").content == b"1"
    for name in ("none", "a%00b"):
        assert problem(service.client.get(f"{place}/files/{name}"))["status"] == 404
    for name in ("%2Fetc%2Fx", "a%2F..%2F..%2Fx", "%2E%2E%2Fx"):
        answer = service.client.put(f"{place}/files/{name}", content=b"")
        assert answer.status_code == 422, name
    assert problem(service.client.get(f"{place}/files/%2Fetc%2Fshadow"))["status"] == 404
    answer = service.client.put(f"{place}/files/form", files={"file": b"text"})
    assert (answer.status_code, "the body is a form" in problem(answer)["detail"]) == (422, True)
    named = {"Content-Type": "Multipart/Form-Data; boundary=x"}
    assert service.client.put(f"{place}/files/form", content=b"--x--", headers=named).status_code == 422
    assert "form" not in service.client.get(f"{place}/files").json()["files"]
    service.post(f"{place}/run", code="open('large', 'wb').write(bytes(2 << 20))")
    large = problem(service.client.get(f"{place}/files/large"))
    assert "larger than" in large["detail"]
    assert (large["status"], large["title"], large["code"]) == (422, "the file is too large", "too_large")
    assert "--artifact-size" in large["remedy"]
    service.client.delete(place)


def test_names_of_files_with_newlines(service: Server) -> None:
    place = start(service)
    for name in ("a", "a%0A", "%0Aa", "a%0Ab"):
        assert service.client.put(f"{place}/files/{name}", content=name.encode()).status_code == 204, name
    assert set(service.client.get(f"{place}/files").json()["files"]) == {"a", "a\n", "\na", "a\nb"}
    for name in ("a", "a%0A", "%0Aa", "a%0Ab"):
        assert service.client.get(f"{place}/files/{name}").content == name.encode()
    service.client.delete(place)


def test_sessions_are_listed_and_looked_at(service: Server) -> None:
    assert service.client.get("/v1/sessions").json() == {"sessions": []}
    places = [start(service), start(service, profile="minimal")]
    listed = service.client.get("/v1/sessions").json()["sessions"]
    assert [f"/v1/sessions/{one['id']}" for one in listed] == places
    assert [one["profile"] for one in listed] == ["", "minimal"]
    assert not any(one["running"] for one in listed)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(service.post, f"{places[0]}/run", code="import time; time.sleep(60)")
        wait_until(lambda: service.client.get(places[0]).json()["running"])
        about = service.client.get(places[0]).json()
        assert about["age_sec"] > 0
        assert about["unused_sec"] == 0
        time.sleep(0.5)  # until its code runs
        assert service.client.post(f"{places[0]}/interrupt").status_code == 204
        done = slow.result().json()
    assert (done["error"]["type"], done["session_ended"]) == ("KeyboardInterrupt", "")
    assert service.post(f"{places[0]}/run", code="6 * 7").json()["value"] == "42"
    for place in places:
        assert service.client.delete(place).status_code == 204
        assert service.client.get(place).status_code == 410


def test_the_changes_of_a_session_are_listed(service: Server) -> None:
    place = start(service)
    for name in ("a", "b"):
        service.client.put(f"{place}/files/{name}", content=b"text")
    service.post(
        f"{place}/run", code="import os; os.remove('a'); open('b', 'w').write('TEXT'); os.symlink('b', '\\udc80')"
    )
    assert service.client.get(f"{place}/changes").json()["changes"] == [
        {"path": "b", "kind": "changed", "type": "file", "size": 4},
        {"path": "\ufffd", "kind": "added", "type": "link", "size": 0},
        {"path": "a", "kind": "removed", "type": "file", "size": 4},
    ]
    service.client.delete(place)


def test_a_session_is_paused_and_resumed(service: Server) -> None:
    place = start(service)
    service.post(f"{place}/run", code="a = 41")
    assert service.client.post(f"{place}/pause").status_code == 204
    assert service.client.get(place).json()["paused"] is True
    refused = service.post(f"{place}/run", code="a")
    assert (refused.status_code, problem(refused)["type"]) == (409, "urn:pysbx:problem:paused")
    assert service.client.post(f"{place}/resume").status_code == 204
    assert service.post(f"{place}/run", code="a + 1").json()["value"] == "42"
    assert service.client.post(f"{place}/pause").status_code == 204
    assert service.client.delete(place).status_code == 204


def test_a_session_is_forked(service: Server) -> None:
    place = start(service)
    service.post(f"{place}/run", code="a = [1]; open('x', 'w').write('old')")
    answer = service.client.post(f"{place}/fork")
    assert answer.status_code == 201, answer.text
    other = answer.headers["location"]
    assert other != place
    with service.client.stream(
        "POST", f"{other}/run", json={"code": "a.append(2); print(a)"}, headers={"Accept": "text/event-stream"}
    ) as stream:
        assert [(kind, data.get("text")) for kind, data, _ in events(stream.iter_lines())] == [
            ("stdout", "[1, 2]\n"),
            ("result", None),
        ]
    assert service.client.get(f"{other}/files/x").content == b"old"
    assert service.post(f"{place}/run", code="a").json()["value"] == "[1]"
    service.post(f"{place}/run", code="import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()")
    before = len(service.client.get("/v1/sessions").json()["sessions"])
    refused = service.client.post(f"{place}/fork")
    assert refused.status_code == 422
    assert "thread" in problem(refused)["detail"]
    assert len(service.client.get("/v1/sessions").json()["sessions"]) == before
    for one in (place, other):
        assert service.client.delete(one).status_code == 204


def test_a_session_goes_back_to_a_checkpoint(service: Server) -> None:
    place = start(service)
    for number in (1, 2, 3):
        service.post(f"{place}/run", code=f"a = {number}; open('x', 'w').write('{number}')")
        made = service.client.post(f"{place}/checkpoint")
        assert (made.status_code, made.json()) == (201, {"checkpoint": number})
    for number in (2, 3, 2):
        assert service.post(f"{place}/rollback", checkpoint=number).status_code == 204
        assert service.post(f"{place}/run", code="a").json()["value"] == str(number)
        assert service.client.get(f"{place}/files/x").text == str(number)
    for wrong in (1, 4, -1):
        refused = service.post(f"{place}/rollback", checkpoint=wrong)
        assert refused.status_code == 422
        assert problem(refused)["detail"] == "checkpoint: the session keeps 2, 3"
    service.post(f"{place}/run", code="import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()")
    refused = service.client.post(f"{place}/checkpoint")
    assert (refused.status_code, "thread" in problem(refused)["detail"]) == (422, True)
    assert service.post(f"{place}/rollback", checkpoint=3).status_code == 204
    assert service.client.post(f"{place}/checkpoint").json() == {"checkpoint": 4}
    service.client.delete(place)


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        ({"memory_mb": 24}, CODE, "memory_mb: 24 is less than the snapshot needs, 4"),
        ({"max_processes": 1}, "1", "up to the limit of the service: max_processes"),
    ],
)
def test_a_fork_that_the_limits_of_its_session_forbid_is_the_callers_refusal(
    service: Server, limit: dict[str, int], code: str, said: str
) -> None:
    if "memory_mb" in limit and enforcement().by["memory"] == "cgroup":
        pytest.skip("a cgroup bounds memory, and no rlimit")
    place = start(service, **limit)
    assert service.post(f"{place}/run", code=code).json()["error"] is None
    refused = service.client.post(f"{place}/fork")
    assert refused.status_code == 422, refused.text
    assert problem(refused)["type"] == "urn:pysbx:problem:refused"
    assert said in problem(refused)["detail"]
    assert service.post(f"{place}/run", code="6 * 7").json()["value"] == "42"
    service.client.delete(place)


def test_files_of_a_session_are_deleted(service: Server) -> None:
    place = start(service)
    service.client.put(f"{place}/files/a", content=b"1")
    service.post(f"{place}/run", code="open('/output/b', 'w').write('1')")
    for name in ("a", "%2Foutput%2Fb"):
        assert service.client.delete(f"{place}/files/{name}").status_code == 204
    assert service.client.get(f"{place}/files").json() == {"files": {}}
    for name, why in (("a", "No such file"), ("%2Fetc%2Fpasswd", "neither in /work"), ("..%2Fetc%2Fx", "neither in")):
        answer = service.client.delete(f"{place}/files/{name}")
        assert (answer.status_code, why in problem(answer)["detail"]) == (404, True), answer.text
    service.client.delete(place)


def test_the_time_of_runs_does_not_bound_the_start_of_a_session(service: Server) -> None:
    place = start(service, timeout_sec=0.001)
    assert service.post(f"{place}/run", code="import time; time.sleep(60)").json()["timed_out"]
    service.client.delete(place)
    assert containers_of(service.process.pid) == []


def test_a_session_that_ends_by_itself_says_why(service: Server) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)"
    for code, why in ((stubborn, "not done after 2 seconds"), ("import os; os._exit(5)", "code 5")):
        place = start(service, timeout_sec=2)
        assert why in service.post(f"{place}/run", code=code).json()["session_ended"]
        answer = service.post(f"{place}/run", code="1")
        assert answer.status_code == 410
        assert why in problem(answer)["detail"]
    found = problem(service.client.get("/v1/sessions/none/files"))
    assert (found["status"], "when the service stopped" in found["detail"]) == (404, True)


def test_runs_of_one_session_take_turns_and_others_go_on(service: Server) -> None:
    place = start(service)
    with ThreadPoolExecutor(8) as pool:
        service.post(f"{place}/run", code="n = 0")
        slow = [pool.submit(service.post, f"{place}/run", code="import time; time.sleep(1); n += 1") for _ in range(6)]
        service.run("1")
        assert not all(answer.done() for answer in slow)
        assert [answer.result().status_code for answer in slow] == [200] * 6
    assert service.post(f"{place}/run", code="n").json()["value"] == "6"
    service.client.delete(place)


def test_a_session_can_be_ended_while_it_runs(service: Server) -> None:
    place = start(service)
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(service.post(f"{place}/run", code=SLEEP)))
    thread.start()
    time.sleep(2)
    began = time.monotonic()
    assert service.client.delete(place).status_code == 204
    thread.join()
    assert time.monotonic() - began < 15
    assert problem(answers[0])["detail"] == "its owner has ended it"


def test_a_request_with_a_key_is_carried_out_once(service: Server) -> None:
    session = f"/v1/sessions/{service.post('/v1/sessions').json()['id']}/run"
    code = "import time; count = globals().get('count', 0) + 1; time.sleep(1.5); count"

    def ask(key: str, timeout: float = 30, **more: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key}
        return service.client.post(session, json={"code": code, **more}, headers=headers, timeout=timeout)

    with pytest.raises(httpx.TimeoutException):
        ask('"first"', timeout=0.5)
    running = ask("first")
    assert (running.status_code, running.headers["retry-after"]) == (409, "1")
    assert "still being worked on" in problem(running)["detail"]
    wait_until(lambda: ask("first").status_code == 200)
    again = ask("first")
    assert (again.json()["value"], again.headers["idempotency-replayed"]) == ("1", "true")
    assert ask("second").json()["value"] == "2"
    assert "another request has this key" in problem(ask("first", stdin="x"))["detail"]
    assert problem(ask("not a key"))["status"] == 422
    # Nothing was done: the client corrects its request.
    assert [ask("third", argv=1).status_code, ask("third").json()["value"]] == [422, "3"]
    assert service.client.delete(session.removesuffix("/run")).status_code == 204


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_who_goes_away_leaves_nothing_running(service: Server, accept: str) -> None:
    request: dict[str, Any] = {"json": {"code": SLEEP}, "headers": {"Accept": accept}, "timeout": 0.7}
    with (
        service.connect() as client,
        pytest.raises(httpx.ReadTimeout),
        client.stream("POST", "/v1/run", **request) as answer,
    ):
        answer.read()
    wait_until(lambda: containers_of(service.process.pid) == [])
