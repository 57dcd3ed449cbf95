"""Tools of callers over HTTP: code calls a function, an event tells the caller, and the caller sends the answer."""

# once: a server says the same to its clients as root

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pysbx import run_code
from pysbx.service.connections.problems import Problem
from pysbx.service.sandboxes import callbacks
from tests.servers import Server, server, wait_until
from tests.test_service import problem

STREAM = {"Accept": "text/event-stream"}
SEARCH = {
    "name": "search",
    "description": "Search the library.",
    "parameters": {
        "properties": {
            "query": {"type": "string", "description": "words"},
            "limit": {"type": "integer"},
            "order": {"type": "string", "default": "name"},
        },
        "required": ["query", "order"],  # as zod has it: what has a default, too
    },
}
TOKENS = ("first-token-for-tests-only", "second-token-for-tests-only")
Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two callers."""
    file = tmp_path_factory.mktemp("service") / "tokens"
    file.write_text("\n".join(TOKENS))
    file.chmod(0o600)
    with server("--token-file", str(file), listen="127.0.0.1:0", token=TOKENS[0]) as found:
        yield found


def run(service: Server, path: str, answer: Answer, **content: Any) -> dict[str, Any]:
    """Run code, answer its calls, and return the result."""
    with service.client.stream("POST", path, json=content, headers=STREAM) as stream:
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if kind in {"result", "problem"}:
                    return data
                if kind == "tool_call" and (found := answer(data)) is not None:
                    assert service.post(f"/v1/tool_results/{data['id']}", **found).status_code == 204
    raise AssertionError("the stream has no end")


def test_code_calls_a_tool_of_the_caller(service: Server) -> None:
    calls = []

    def answer(call: dict[str, Any]) -> dict[str, Any]:
        calls.append((call["name"], call["arguments"]))
        return {"value": {"found": [call["arguments"]["query"].upper(), None, 1.5]}}

    code = "help(search); x = search('caf\\xe9', limit=3)['found']; y = search(query='b')['found'][0]; (x, y)"
    done = run(service, "/v1/run", answer, code=code, tools=[SEARCH])
    assert done["value"] == "(['CAF\xc9', None, 1.5], 'B')"
    assert calls == [("search", {"query": "caf\xe9", "limit": 3}), ("search", {"query": "b"})]
    assert "search(query: str, *, limit: int = None, order: str = 'name')\n    Search the library." in done["stdout"]


@pytest.mark.parametrize(
    ("code", "error", "raised"),
    [
        ("search('a')", {"type": "KeyError", "message": "a"}, "KeyError: 'a'"),
        ("search('a')", {"type": "Unknown", "message": "a"}, "RuntimeError: Unknown: a"),
        ("search('a')", {"type": "SystemExit", "message": "a"}, "RuntimeError: SystemExit: a"),
        ("search({1})", None, "TypeError: Object of type set is not JSON serializable"),
        ("search(float('nan'))", None, "ValueError: Out of range float values are not JSON compliant"),
        ("search()", None, "TypeError: "),
        ("search([None] * 1_000_000)", None, "ValueError: the arguments of the tools of this run have more"),
    ],
)
def test_errors_are_exceptions_in_the_code(service: Server, code: str, error: Any, raised: str) -> None:
    done = run(service, "/v1/run", lambda _: {"error": error}, code=code, tools=[SEARCH])
    assert done["error"]["traceback"].rstrip().splitlines()[-1].startswith(raised)


def test_a_session_keeps_its_tools(service: Server) -> None:
    place = service.post("/v1/sessions", tools=[SEARCH]).headers["Location"]

    def answer(call: dict[str, Any]) -> dict[str, Any]:
        return {"value": call["arguments"]["query"] * 2}

    for number in "12":
        assert run(service, f"{place}/run", answer, code=f"search('{number}')")["value"] == f"'{number * 2}'"
    without = service.post(f"{place}/run", code="search('a')").json()
    assert "only while it reads the stream" in without["error"]["message"]
    fork = service.post(f"{place}/fork").headers["Location"]
    assert run(service, f"{fork}/run", answer, code="search('f')")["value"] == "'ff'"
    for one in (place, fork):
        service.client.delete(one)


def test_a_thousand_calls_are_in_flight(service: Server) -> None:
    """The caller answers none of them before it has heard of all."""
    heard: list[dict[str, Any]] = []
    connection = http.client.HTTPConnection(service.address)  # which takes a tenth of the time of httpx
    headers = {"Authorization": f"Bearer {TOKENS[0]}", "Content-Type": "application/json"}

    def answer(call: dict[str, Any]) -> None:
        heard.append(call)
        if len(heard) == 1000:
            for one in reversed(heard):
                body = json.dumps({"value": 2 * one["arguments"]["query"]})
                connection.request("POST", f"/v1/tool_results/{one['id']}", body, headers)
                with connection.getresponse() as got:
                    assert got.status == 204

    code = "import asyncio\nasync def main(): return await asyncio.gather(*(search(query=n) for n in range(1000)))\n"
    # A list or map that is not there is null for the JSON of Go.
    tool = SEARCH | {"async": True, "parameters": {"type": None, "properties": None, "required": None}}
    done = run(service, "/v1/run", answer, code=f"{code}asyncio.run(main()) == list(range(0, 2000, 2))", tools=[tool])
    connection.close()
    assert done["value"] == "True", done["error"]


def test_only_the_caller_answers_and_only_once(service: Server) -> None:
    said = []

    def answer(call: dict[str, Any]) -> None:
        path = f"/v1/tool_results/{call['id']}"
        with service.connect(TOKENS[1]) as other:
            said.append(other.post(path, json={"value": "of another"}))
        said.append(service.post(path, value=1, more=2))
        assert service.post(path, value="own").status_code == 204
        said.append(service.post(path, value="again"))

    assert run(service, "/v1/run", answer, code="search('a')", tools=[SEARCH])["value"] == "'own'"
    assert [problem(one)["type"].rpartition(":")[2] for one in said] == ["no-call", "request", "no-call"]
    assert problem(service.post("/v1/tool_results/none", value=1))["status"] == 404


def test_a_caller_that_goes_leaves_no_call(service: Server) -> None:
    place = service.post("/v1/sessions", tools=[SEARCH]).headers["Location"]
    code = "try: search('a')\nexcept RuntimeError as error: print(error)\nelse: print('answered')"
    with service.client.stream(
        "POST", f"{place}/run", json={"code": code + "\nlast = error"}, headers=STREAM
    ) as stream:
        identifier = next(json.loads(line[6:])["id"] for line in stream.iter_lines() if line.startswith("data: "))
    wait_until(lambda: not service.client.get(place).json()["running"])
    assert service.post(f"/v1/tool_results/{identifier}", value=1).status_code == 404
    service.client.delete(place)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([{"name": "not a name"}], "tools: 'not a name' is not a name"),
        ([{"name": "a"}, {"name": "a"}], "tools: two of them have the same name"),
        ([{"name": "a", "parameters": {"properties": []}}], "tools.0.parameters.properties: "),
        ([{"name": "a", "parameters": {"required": [1]}}], "tools.0.parameters.required.0: "),
        ([{"name": f"a{number}"} for number in range(101)], "tools: "),
    ],
)
def test_wrong_tools_are_refused(service: Server, tools: list[Any], said: str) -> None:
    for path, content in (("/v1/run", {"code": "1"}), ("/v1/sessions", {})):
        assert problem(service.post(path, tools=tools, **content))["detail"].startswith(said)


def test_a_run_without_a_stream_has_no_tools(service: Server) -> None:
    assert "text/event-stream" in problem(service.post("/v1/run", code="1", tools=[SEARCH]))["detail"]


def test_a_call_without_an_answer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of it then, for the caller to answer."""
    monkeypatch.setattr(callbacks, "CALL_SEC", 0.05)
    book, told = callbacks.Book(), list[str]()
    callback = callbacks.Callback(book, "a", [{"name": "f", "description": "", "parameters": {}}])
    with callbacks.heard(callback, lambda _, text: told.append(text)):
        done = run_code("f()", tools=callback.tools)
    assert done.error is not None
    assert (done.error.type, "f() has not returned within 0.05 seconds") == ("TimeoutError", done.error.message)
    with pytest.raises(Problem):
        book.take("a", json.loads(told[0])["id"])
