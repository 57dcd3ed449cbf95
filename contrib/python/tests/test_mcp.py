"""`pysbx mcp`: its tools, as a client of the protocol's own package sees them, over standard input and over HTTP."""

# once: a server says the same to its clients as root
# slow: starts a server for most tests

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)

from pysbx.service.mcp.kept_files import EACH, WITH_LINKS, KeptFiles
from pysbx.service.mcp.tool_results import MAX_TEXT, image_of, text_file_of
from pysbx.version import VERSION
from tests.clients import Server, text_of
from tests.packages import make_wheel
from tests.servers import BEST_EFFORT, server
from tests.test_command import pysbx
from tests.test_display import RICH
from tests.test_forged import TWICE
from tests.test_service import SLEEP


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server with limits of its own."""
    server = Server("--memory", "300", "--timeout", "20", "--allow-profile", "minimal")
    yield server
    server.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with what a virtualenv has, and a package to be asked for."""
    folder = tmp_path_factory.mktemp("large")
    make_wheel(folder, "thing", "1.0", "version = 1\n")
    options = ("--virtualenv", sys.prefix, "--memory", "1024", "--processes", "128", "--wheels", str(folder))
    offered = ("--allow-package", "thing", "--allow-profile", "data-science", "--output-limit", "1000000")
    server = Server(*options, *offered, XDG_CACHE_HOME=str(folder / "cache"))
    yield server
    server.close()


def test_a_client_needs_no_stream_of_the_test_that_first_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client) -> int:
        return len((await client.list_tools()).tools)

    # As it is if a test with capsys imports the client.
    monkeypatch.setattr(inspect.unwrap(stdio_client), "__defaults__", (io.StringIO(),))
    mcp = Server()
    assert mcp.run(test) > 0
    mcp.close()


def test_fewer_tools_can_be_offered() -> None:
    async def names(client: Client) -> list[tuple[str, str | None]]:
        return [(tool.name, tool.title) for tool in (await client.list_tools()).tools]

    server = Server("--tools", "run_python,list_profiles")
    assert server.run(names) == [("run_python", "Run Python"), ("list_profiles", "List profiles")]
    server.close()
    assert "there is no 'run': there are run_python, " in pysbx("mcp", BEST_EFFORT, "--tools", "run").stderr


def test_tools_are_described_for_a_model(small: Server) -> None:
    async def test(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        files = {"put_file", "get_file", "list_files"}
        sessions = {
            f"{verb}_session"
            for verb in ("start", "run_in", "end", "fork", "interrupt", "pause", "resume", "checkpoint", "rollback")
        } | {"list_sessions", "snapshot_session", "list_snapshots", "remove_snapshot"}
        processes = {f"{verb}_process" for verb in ("start", "read", "write", "signal")} | {"list_processes"}
        files |= {"exec_command", "stat_path", "list_directory", "real_path", "make_directory", "remove_path"}
        assert set(tools) == files | sessions | processes | {"run_python", "run_command", "list_profiles"}
        said = tools["run_python"].description or ""
        assert all(part in said for part in ("No network", "300 MiB", "20 seconds", "/output"))
        assert len(said) < 600
        for tool in tools.values():
            assert tool.input_schema["additionalProperties"] is False
            for whole in filter(None, (tool.input_schema, tool.output_schema)):
                assert (whole["type"], "properties" in whole) == ("object", True)
                assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(whole)
                parts = list(parts_of(whole))
                # Some clients refuse all tools if this is a schema of its own.
                assert all(isinstance(part.get("additionalProperties", True), bool) for part in parts)
                assert all(part.get("$ref", "#/$defs/").startswith("#/$defs/") for part in parts)
        schema = tools["run_python"].output_schema
        assert schema is not None and schema["title"] == "Outcome"
        assert {"stdout", "value", "error"} <= set(schema["properties"])
        assert client.server_info is not None and client.server_info.version == VERSION
        assert client.instructions is not None and "Runs Python" in client.instructions
        listed = await client.call_tool("list_profiles", {})
        limits = {item["name"]: item["limits"] for item in listed.structured_content["profiles"]}
        assert {name: one["memory_mb"] for name, one in limits.items()} == {"minimal": 256}

    small.run(test)


def test_long_output_is_whole_in_the_text_only(small: Server) -> None:
    """Some clients hand both forms of a result on to the model."""

    async def test(client: Client) -> None:
        code = "print('START'); print('\N{SNOWMAN}' * 10000); print('END')"
        for done in (
            await client.call_tool("run_python", {"code": code}),
            await client.call_tool("run_python", {"code": f"import sys; sys.stdout = sys.stderr; {code}"}),
            await client.call_tool("run_python", {"code": "'START' + '\N{SNOWMAN}' * 10000 + 'END'"}),
            await client.call_tool("run_python", {"code": "raise ValueError('START' + '\N{SNOWMAN}' * 10000 + 'END')"}),
        ):
            assert text_of(done).count("\N{SNOWMAN}") in (10000, 10001)  # a traceback has the line of the program
            found = [part for part in texts_in(done.structured_content) if "\N{SNOWMAN}" in part]
            assert found
            for part in found:
                assert len(part.encode()) < 8100
                assert part.rindex("START") < part.index("[truncated: ") < part.rindex("END")
        short = await client.call_tool("run_python", {"code": "print('y' * 7000)"})
        assert short.structured_content["stdout"] == "y" * 7000 + "\n"

    small.run(test)


def test_code_as_in_a_notebook() -> None:
    async def test(client: Client) -> None:
        (tool,) = (tool for tool in (await client.list_tools()).tools if tool.name == "run_python")
        assert "As in a notebook: await at the top level" in str(tool.description)
        code = "import asyncio\nwords = !echo one\nawait asyncio.sleep(0, words)"
        assert (await client.call_tool("run_python", {"code": code})).structured_content["value"] == "['one']"

    server = Server("--notebook")
    try:
        server.run(test)
    finally:
        server.close()


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a schema."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts_of(inner)


def texts_in(part: Any) -> list[str]:
    """Return all texts in structured data."""
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [text for one in inner for text in texts_in(one)]


def test_running_and_sessions(small: Server) -> None:
    async def test(client: Client) -> None:
        done = await client.call_tool("run_python", {"code": "print(open('a').read())\n6 * 7", "files": {"a": "text"}})
        assert (done.is_error, text_of(done)) == (False, "text\n42")
        assert done.structured_content["value"] == "42"
        done = await client.call_tool("run_python", {"code": "input() + input()", "stdin": "4\n\N{SNOWMAN}\n"})
        assert done.structured_content["value"] == "'4\N{SNOWMAN}'"
        failed = await client.call_tool("run_python", {"code": "total = 1\nprint(totl)"})
        assert not failed.is_error  # the tool has done what it was asked for
        assert "line 2" in text_of(failed)
        assert "Hint: " in text_of(failed)
        assert failed.structured_content["error"]["type"] == "NameError"
        late = await client.call_tool("run_python", {"code": "import time; time.sleep(60)", "timeout_sec": 0.5})
        assert not late.is_error
        assert "0.5 seconds" in text_of(late)

        started = await client.call_tool("start_session", {})
        session = {"session_id": started.structured_content["session_id"]}
        await client.call_tool("run_in_session", {**session, "code": "x = 41"})
        again = await client.call_tool("run_in_session", {**session, "code": "x + int(input())", "stdin": "1"})
        assert again.structured_content["value"] == "42"
        empty = await client.call_tool("run_in_session", {**session, "code": "input()"})
        assert empty.structured_content["error"]["type"] == "EOFError"
        content = base64.b64encode(bytes(range(256))).decode()
        await client.call_tool("put_file", {**session, "path": "a/b", "content": content, "encoding": "base64"})
        size = await client.call_tool("run_in_session", {**session, "code": "len(open('a/b', 'rb').read())"})
        assert text_of(size) == "256"
        binary = (await client.call_tool("get_file", {**session, "path": "a/b"})).content[0]
        assert isinstance(binary, EmbeddedResource)
        assert json.loads(binary.model_dump_json())["resource"]["blob"] == content
        await client.call_tool("put_file", {**session, "path": "t", "content": "hello"})
        shown = (await client.call_tool("get_file", {**session, "path": "t"})).content[0]
        assert isinstance(shown, EmbeddedResource)
        assert isinstance(shown.resource, TextResourceContents)
        assert shown.resource.text == "hello"
        await client.call_tool("put_file", {**session, "path": "t", "content": "é" * MAX_TEXT})
        shown = (await client.call_tool("get_file", {**session, "path": "t"})).content[0]
        assert isinstance(shown, EmbeddedResource)
        assert isinstance(shown.resource, TextResourceContents)
        assert shown.resource.text == "é" * MAX_TEXT
        assert "null byte" in text_of(await client.call_tool("get_file", {**session, "path": "a\0b"}))
        last = {"code": "import os, sys; print('last words', file=sys.stderr); os._exit(3)"}
        ended = await client.call_tool("run_in_session", {**session, **last})
        assert text_of(ended).startswith("[stderr]\nlast words\n[exit code 3]\n[the session has ended")
        assert text_of(await client.call_tool("run_python", last)) == "[stderr]\nlast words\n[exit code 3]"
        gone = await client.call_tool("run_in_session", {**session, "code": "x"})
        assert gone.is_error
        assert "start another" in text_of(gone)

    small.run(test)


def test_an_answer_to_an_earlier_request_is_told(small: Server) -> None:
    async def test(client: Client) -> None:
        started = await client.call_tool("start_session", {})
        session = {"session_id": started.structured_content["session_id"]}
        assert text_of(await client.call_tool("run_in_session", {**session, "code": TWICE})) == "early"
        done = await client.call_tool("run_in_session", {**session, "code": "2"})
        assert not done.is_error
        assert done.structured_content["value"] is None
        assert "[the session has ended: the sandbox sent what is no answer to this request" in text_of(done)

    small.run(test)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run_python", {"code": "1", "profile": "/etc/passwd"}, "not one of: minimal"),
        ("run_python", {"code": "1", "packages": ["six"]}, "is not there: this server offers none"),
        ("run_python", {"code": "1", "timeout_sec": 21}, "more than this server allows, 20"),
        ("run_python", {"code": "1", "timeout_sec": -1}, "greater than 0"),
        ("run_python", {"code": "1", "files": {"../x": ""}}, "'../x'"),
        ("run_python", {}, "code"),
        ("run_python", {"code": "1", "timeout": 5}, "has no such argument: did you mean 'timeout_sec'?"),
        ("end_session", {"session_id": "x", "memory_mb": 5}, "end_session has no such argument: there are session_id"),
        ("run_in_session", {"session_id": "x", "code": "1"}, "no such session"),
        ("end_session", {"session_id": "x"}, "no such session"),
        ("get_file", {"session_id": "x", "path": "/etc/passwd"}, "no such session"),
        ("put_file", {"session_id": "x", "path": "a", "content": "?", "encoding": "base64"}, "content: "),
    ],
)
def test_what_cannot_be_meant_is_told(small: Server, tool: str, arguments: dict[str, Any], said: str) -> None:
    result = small.run(lambda client: client.call_tool(tool, arguments))
    assert result.is_error
    assert said in text_of(result)
    assert "Traceback" not in text_of(result)


def test_figures_are_images(large: Server) -> None:
    async def test(client: Client) -> None:
        source = (
            "import matplotlib.pyplot as plot\nplot.plot([1, 2])\nopen('/output/note.txt', 'w').write('seen')\n"
            "open('/output/fake.png', 'w').write('no image')"
        )
        done = await client.call_tool("run_python", {"code": source})
        kinds = sorted(block.type for block in done.content)
        assert kinds == ["image", "resource", "resource", "text"], text_of(done)
        image = next(block for block in done.content if isinstance(block, ImageContent))
        assert image.mime_type == "image/png"
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        assert "numpy, pandas" in (await client.list_tools()).tools[0].description  # type: ignore[operator]

    large.run(test)


def test_files_that_are_no_text_and_no_image_or_too_large_are_resources(small: Server) -> None:
    """A sandbox of one run is gone when the client sees the names of its files."""
    picture = r"b'\x89PNG\r\n\x1a\n' + bytes(900_000)"

    async def test(client: Client) -> None:
        async def read(link: ContentBlock) -> bytes:
            assert isinstance(link, ResourceLink), link
            (found,) = (await client.read_resource(link.uri)).contents
            assert isinstance(found, BlobResourceContents)
            assert (found.mime_type, link.size) == (link.mime_type, len(base64.b64decode(found.blob)))
            return base64.b64decode(found.blob)

        code = f"open('/output/a b.xlsx', 'wb').write(b'PK\\0'); open('/output/b.png', 'wb').write({picture})"
        _, table, image = (await client.call_tool("run_python", {"code": code})).content
        assert (await read(table), len(await read(image))) == (b"PK\0", 900_008)
        assert isinstance(table, ResourceLink)
        assert table.name == "a b.xlsx"
        listed = (await client.list_resources()).resources
        assert [one.name for one in listed[:2]] == ["b.png", "a b.xlsx"]
        started = (await client.call_tool("start_session", {})).structured_content
        session = {"session_id": started["session_id"]}
        await client.call_tool("run_in_session", {**session, "code": f"open('b.png', 'wb').write({picture})"})
        (whole,) = (await client.call_tool("get_file", {**session, "path": "b.png"})).content
        assert len(await read(whole)) == 900_008
        await client.call_tool("end_session", session)
        assert len(await read(whole)) == 900_008
        for _ in range(5):  # 7 MiB each, and 32 are kept
            await client.call_tool("run_python", {"code": "open('/output/z', 'wb').write(bytes(7 << 20))"})
        assert len((await client.list_resources()).resources) == 4
        with pytest.raises(MCPError, match="no such file, or newer ones have taken its place"):
            await read(whole)

    small.run(test)


def test_files_with_long_names_and_little_content_are_not_kept_without_end() -> None:
    """The code chooses the number and the names of its files: a name in the memory of the server counts too."""
    code = """
import os
folder = "/output/" + "/".join(["a" * 200] * 10)
os.makedirs(folder)
for number in range(100):
    open(f"{folder}/{number}", "wb").write(b"\\xff")
"""

    async def test(client: Client) -> None:
        await client.call_tool("run_python", {"code": code})
        oldest = (await client.list_resources()).resources[-1]
        assert len((await client.read_resource(oldest.uri)).contents) == 1
        for _ in range(4):  # of 1.6 MB each, and 4 MiB are kept
            await client.call_tool("run_python", {"code": code})
        with pytest.raises(MCPError, match="no such file, or newer ones have taken its place"):
            await client.read_resource(oldest.uri)

    little = Server("--artifact-size", "1")
    try:
        little.run(test)
    finally:
        little.close()


def test_results_of_one_caller_that_are_made_at_once_keep_their_files() -> None:
    """A result is made outside of the event loop, in which a client asks for the list of files meanwhile."""
    kept = KeptFiles(40 * EACH)
    link = kept.linking(cast("Any", SimpleNamespace(request_context=SimpleNamespace(protocol_version=WITH_LINKS))))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as pool:
            made = [pool.submit(lambda: [link("name", b"x") for _ in range(300)]) for _ in range(4)]
            while not all(one.done() for one in made):
                assert len(kept.listed()) < 40
    finally:
        sys.setswitchinterval(interval)
    assert sum(len(one.result()) for one in made) == 1200
    assert len(kept.listed()) == 39


def test_every_result_is_below_a_megabyte(large: Server) -> None:
    """Clients refuse larger ones."""

    async def test(client: Client) -> None:
        async def size(tool: str, **arguments: Any) -> int:
            done = await client.call_tool(tool, arguments)
            assert not done.is_error, text_of(done)
            return len(done.model_dump_json().encode())

        started = (await client.call_tool("start_session", {})).structured_content
        session = {"session_id": started["session_id"]}
        output = "import sys\nfor stream in sys.stdout, sys.stderr: stream.write('\\1' * 900_000)\n'\\\\' * 900_000"
        image = r"b'\x89PNG\r\n\x1a\n' + bytes(200_000)"
        files = f"for number in range(9): open(f'/output/{{number}}', 'wb').write({image})\n"
        names = "for number in range(900): open(f'/output/' + 'n' * 250 + str(number), 'wb').write(b'\\0')\n"
        most = 1 << 20
        assert await size("run_python", code=output) < most
        assert 700_000 < await size("run_python", code=files) < most
        assert 300_000 < await size("run_in_session", **session, code=files + names + output) < most
        assert 300_000 < await size("list_files", **session) < most
        command = "head -c 900000 /dev/zero; head -c 900000 /dev/zero >&2"
        assert await size("run_command", **session, command=command) < most
        begun = (await client.call_tool("start_process", {**session, "command": command})).structured_content
        await asyncio.sleep(1)
        assert 500_000 < await size("read_process", **session, pid=begun["pid"]) < most
        await client.call_tool("end_session", session)

    large.run(test)


def test_a_displayed_image_is_sent(small: Server) -> None:
    async def test(client: Client) -> None:
        done = await client.call_tool("run_python", {"code": f"{RICH}\ndisplay(Rich())"})
        assert text_of(done) == "plain"
        assert [block.type for block in done.content] == ["text", "image"]

    small.run(test)


def test_a_model_is_not_told_of_options_that_it_lacks(small: Server) -> None:
    async def test(client: Client) -> list[str]:
        codes = ("import numpy", "bytes(10**10)", "input()", "open('x')")
        return [text_of(await client.call_tool("run_python", {"code": code})) for code in codes]

    said = small.run(test)
    assert "ask the operator of this server for numpy" in said[0]
    assert "ask the operator of this server for more memory" in said[1]
    assert "pass its text as stdin" in said[2]
    assert "pass them as files" in said[3]


def test_an_image_is_sent_once(small: Server) -> None:
    draw = r"x = open('/output/figure-1.png', 'wb').write(b'\x89PNG\r\n\x1a\n')"

    async def test(client: Client) -> None:
        async def kinds(session: str, code: str) -> list[str]:
            done = await client.call_tool("run_in_session", {"session_id": session, "code": code})
            assert len(done.structured_content["files"]) == len(done.content) - 1
            return [block.type for block in done.content]

        started = await client.call_tool("start_session", {})
        session = started.structured_content["session_id"]
        assert await kinds(session, draw) == ["text", "image"]
        assert await kinds(session, "1 + 1") == ["text"]
        assert await kinds(session, "x = open('/output/figure-1.png', 'ab').write(b'x')") == ["text", "image"]
        forked = (await client.call_tool("fork_session", {"session_id": session})).structured_content["session_id"]
        assert await kinds(forked, "2") == ["text"]
        assert await kinds(session, "import os; os.unlink('/output/figure-1.png')") == ["text"]
        assert await kinds(session, draw) == ["text", "image"]
        for one in (session, forked):
            await client.call_tool("end_session", {"session_id": one})

    small.run(test)


def test_sessions_are_listed_forked_and_interrupted(small: Server) -> None:
    async def test(client: Client) -> None:
        async def call(tool: str, **arguments: Any) -> Any:
            done = await client.call_tool(tool, arguments)
            assert not done.is_error, text_of(done)
            return done.structured_content

        first = (await call("start_session"))["session_id"]
        await call("run_in_session", session_id=first, code="a = [1]; open('x', 'w').write('12')")
        second = (await call("fork_session", session_id=first))["session_id"]
        await call("run_in_session", session_id=second, code="a.append(2)")
        for session, value in ((first, "[1]"), (second, "[1, 2]")):
            assert (await call("run_in_session", session_id=session, code="a"))["value"] == value
        assert (await call("list_files", session_id=second))["files"] == {"x": 2}
        slow = asyncio.ensure_future(call("run_in_session", session_id=first, code=SLEEP))
        while not any(one["running"] for one in (await call("list_sessions"))["sessions"]):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # until its code runs
        await call("interrupt_session", session_id=first)
        await call("pause_session", session_id=second)
        paused = await client.call_tool("list_files", {"session_id": second})
        assert "the session is paused" in text_of(paused)
        await call("resume_session", session_id=second)
        assert (await slow)["error"]["type"] == "KeyboardInterrupt"
        late = await call("run_in_session", session_id=first, code=SLEEP, timeout_sec=0.3)
        assert (late["timed_out"], late["session_ended"]) == (True, "")
        said = await client.call_tool("run_in_session", {"session_id": first, "code": SLEEP, "timeout_sec": 0.3})
        assert "\nTimeout: not done after 0.3 seconds: interrupted\n" in text_of(said)
        assert {one["session_id"] for one in (await call("list_sessions"))["sessions"]} >= {first, second}
        for session in (first, second):
            await call("end_session", session_id=session)

    small.run(test)


def test_states_of_a_session_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def test(client: Client) -> None:
        async def call(tool: str, **arguments: Any) -> Any:
            done = await client.call_tool(tool, arguments)
            assert len(done.model_dump_json()) < 1 << 20
            return text_of(done) if done.is_error else done.structured_content

        first = {"session_id": (await call("start_session"))["session_id"]}
        await call("run_in_session", **first, code="a = [1]")
        point = await call("checkpoint_session", **first)
        await call("run_in_session", **first, code="a.append(2)")
        assert (await call("snapshot_session", **first, name="one"))["name"] == "one"
        assert await call("rollback_session", **first, **point) == {"result": "rolled back"}
        assert (await call("run_in_session", **first, code="a"))["value"] == "[1]"
        assert "checkpoint: the session keeps 1" in await call("rollback_session", **first, checkpoint=7)
        await call("end_session", **first)
        again = {"session_id": (await call("start_session", snapshot="one"))["session_id"]}
        assert (await call("run_in_session", **again, code="a"))["value"] == "[1, 2]"
        assert [one["name"] for one in (await call("list_snapshots"))["snapshots"]] == ["one"]
        await call("remove_snapshot", name="one")
        for tool, argument in (("start_session", "snapshot"), ("remove_snapshot", "name")):
            assert "there is no 'one'" in await call(tool, **{argument: "one"})
            assert "is no name" in await call(tool, **{argument: "../one"})

    server = Server()
    try:
        server.run(test)
    finally:
        server.close()


def test_images_are_known_by_their_content() -> None:
    assert image_of(b"\x89PNG\r\n\x1a\n" + bytes(5 << 20)) is None
    found = image_of(b"RIFF....WEBPVP8 ")
    assert found is not None and found.mime_type == "image/webp"
    assert image_of(b"<svg onload=...>") is None
    assert text_file_of("x", b"a" * (MAX_TEXT + 1)) is None
    assert text_file_of("x", b"a\0") is None


def test_packages_that_are_allowed(large: Server) -> None:
    async def test(client: Client) -> None:
        assert "by packages: thing" in ((await client.list_tools()).tools[0].description or "")
        done = await client.call_tool(
            "run_python", {"code": "import thing; thing.version", "packages": ["thing"], "profile": "data-science"}
        )
        assert "module 'thing'" in text_of(done)
        done = await client.call_tool("run_python", {"code": "import thing; thing.version", "packages": ["thing"]})
        assert text_of(done) == "1"

    large.run(test)


async def hears_progress(client: Client) -> None:
    started = await client.call_tool("start_session", {})
    session = {"session_id": started.structured_content["session_id"]}
    for tool, more in (("run_python", {}), ("run_in_session", session)):
        heard: asyncio.Queue[tuple[float, str | None]] = asyncio.Queue()

        async def hear(progress: float, total: float | None, message: str | None, into: Any = heard) -> None:
            into.put_nowait((progress, message))

        call = asyncio.ensure_future(client.call_tool(tool, {**more, "code": SLEEP}, progress_callback=hear))
        first, second = [await asyncio.wait_for(heard.get(), 30) for _ in range(2)]
        assert 0 < first[0] < second[0]
        assert "seconds" in (first[1] or "")
        call.cancel()
    await client.call_tool("end_session", session)


def test_a_client_hears_that_a_run_goes_on(small: Server, tmp_path: Path) -> None:
    small.run(hears_progress)

    async def test(mode: Literal["legacy", "auto"]) -> None:
        async with (
            httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=f"{tmp_path}/s"), timeout=30) as way,
            Client(streamable_http_client("http://pysbx/mcp", http_client=way), mode=mode) as client,
        ):
            await hears_progress(client)

    with server(listen=f"unix:{tmp_path}/s", command="mcp"):
        asyncio.run(test("legacy"))
        asyncio.run(test("auto"))


def test_a_call_that_is_cancelled_is_interrupted_and_the_session_goes_on(small: Server) -> None:
    async def test(client: Client) -> None:
        started = await client.call_tool("start_session", {})
        session = {"session_id": started.structured_content["session_id"]}
        await client.call_tool("run_in_session", {**session, "code": "kept = 5"})
        for tool, work in (("run_in_session", {"code": SLEEP}), ("run_command", {"command": "sleep 1000"})):
            call = asyncio.ensure_future(client.call_tool(tool, {**session, **work}))
            await asyncio.sleep(1)  # until its code runs
            call.cancel()
            done = await asyncio.wait_for(client.call_tool("run_in_session", {**session, "code": "kept"}), 15)
            assert text_of(done) == "5"
        await client.call_tool("end_session", session)

    small.run(test)


def test_cancelled_runs_of_a_session_take_no_places() -> None:
    server = Server("--at-once", "2", "--timeout", "60")

    async def test(client: Client) -> None:
        started = await client.call_tool("start_session", {})
        session = {"session_id": started.structured_content["session_id"]}
        for code in ("import time; time.sleep(60)", "x = 1", "x = 2"):
            call = asyncio.ensure_future(client.call_tool("run_in_session", {**session, "code": code}))
            await asyncio.sleep(0.5)
            call.cancel()
        # The first goes on, with one of the two places; the others never begin.
        assert text_of(await asyncio.wait_for(client.call_tool("run_python", {"code": "42"}), 20)) == "42"
        await client.call_tool("end_session", session)

    server.run(test)
    server.close()
