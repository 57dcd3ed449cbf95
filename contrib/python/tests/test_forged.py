"""Answers that the sandbox's code writes itself: it shares its process with the worker, and so its socket."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pysbx import (
    ForgedAnswerError,
    Mount,
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    SerializationError,
    run_code,
    sandbox,
)
from tests.servers import server

# frame() sends an answer to the request that is being worked on, whose mark stands in the worker's memory.
FORGE = """
import msgpack, os, struct, sys
def worker():
    found = sys._getframe()
    while found.f_code.co_name != 'main': found = found.f_back
    return found.f_locals['channel']
channel = worker()
def frame(data, mark=None):
    data = memoryview(struct.pack('<Q16s', len(data), channel._mark if mark is None else mark) + data)
    while data: data = data[os.write(channel.descriptor, data):]
"""


@pytest.mark.parametrize(
    "forged",
    [
        "os.write(3, b'\\xff' * 8)",
        "os.write(3, b'\\xff' * 24)",
        "os.write(3, struct.pack('<Q16s', 1 << 60, channel._mark))",
        "frame(msgpack.packb({'value': b'\\x01'}), bytes(16))",
        "frame(msgpack.packb({'hello': [3, 11]}), bytes(16))",
        "frame(b'\\xc1')",
        "frame(b'\\x91' * 100000)",
        "frame(msgpack.packb([1]))",
        "frame(msgpack.packb({'value': 1}))",
        "frame(msgpack.packb({'value': b'\\xc1'}))",
        "frame(msgpack.packb({'error': 1}))",
        "frame(msgpack.packb({'error': {'type': 1, 'message': [], 'names': [1, {}], 'traceback': b''}}))",
        "frame(msgpack.packb({'unserializable': [1, 2]}))",
        "frame(msgpack.packb({'unserializable': [1, [], {}]}))",
        "frame(msgpack.packb({'hello': 1}))",
        "frame(msgpack.packb({'value': b'\\xc1', 'peak_kib': 'x'}))",
        "frame(msgpack.packb({'value': b'\\xc1', 'peak_kib': -1 << 60}))",
        "frame(msgpack.packb({'violations': [[1, 2, 3, 4], 5]}))",
        "frame(msgpack.packb({'exit_code': 'x', 'value': 1, 'artifacts': {'../../evil': b'x', 1: b''}}))",
        "os.close(3)",
        "frame(b'\\x80') or frame(b'\\x80')",
    ],
)
def test_a_forged_answer_is_an_error_or_an_answer_and_nothing_else(forged: str) -> None:
    source = FORGE + forged + "\nos._exit(0)\n"

    @sandbox(timeout_sec=20)
    def forge() -> None:
        exec(source, {})

    with pytest.raises(SandboxError):
        forge()
    done = run_code(source, timeout_sec=20)
    assert all(not name.startswith(("/", "..")) for name in done.artifacts)
    assert isinstance(done.exit_code, int)


def test_an_answer_that_would_be_unpickled_elsewhere_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"touch {mark}"

    @sandbox
    def forge() -> None:
        import msgpack

        class Attack:
            def __reduce__(self) -> tuple[object, ...]:
                return os.system, (command,)

        import pickle

        scope: dict[str, Any] = {}
        exec(FORGE, scope)
        scope["frame"](msgpack.packb({"value": pickle.dumps(Attack()), "pickle": pickle.dumps(Attack())}))
        os._exit(0)

    with pytest.raises(SerializationError):
        forge()
    assert not mark.exists()


def test_an_error_made_to_keep_the_host_busy() -> None:
    @sandbox(timeout_sec=20)
    def forge() -> None:
        import msgpack

        names = [f"{number}" * 50 for number in range(100_000)]
        error = {"type": "NameError", "message": "name '" + "a" * 20_000_000 + "' is not defined", "names": names}
        data = msgpack.packb({"error": error})
        scope: dict[str, Any] = {}
        exec(FORGE, scope)
        scope["frame"](data)
        os._exit(0)

    began = time.monotonic()
    with pytest.raises(SandboxExecutionError) as caught:
        forge()
    assert len(caught.value.error_message) <= 64 * 1024
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "files", ["{'a': float('inf')}", "{'a': 'x'}", "{'a': []}", "{'a': -1}", "{'a': True}", "{b'a': 1}", "[]", "None"]
)
def test_a_forged_list_of_files_is_an_error(files: str) -> None:
    with Sandbox() as session:
        session.run(f"{FORGE}x = msgpack.packb({{'files': {files}}})\nchannel.write = lambda message: frame(x)")
        with pytest.raises(SandboxError, match="malformed"):
            session.files()


def test_an_answer_of_many_small_elements_is_refused_unread() -> None:
    @sandbox(memory_mb=256, timeout_sec=20)
    def forge() -> None:
        data = b"\x81\xa1a\xdd\x01\x00\x00\x00" + b"\x80" * (1 << 24)
        scope: dict[str, Any] = {}
        exec(FORGE, scope)
        scope["frame"](data)
        os._exit(0)

    with pytest.raises(SerializationError, match="more than 1000000 elements"):
        forge()


@pytest.mark.parametrize("hello", ["1", "['a', 'b']", "[float('inf'), 1]", "[1, float('nan')]", "None"])
def test_a_greeting_that_is_none(hello: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    source = f"import os, struct, msgpack\ndata = msgpack.packb({{'hello': {hello}}})\n"
    source += "os.write(0, struct.pack('<Q16s', len(data), bytes(16)) + data)"
    (tmp_path / "sitecustomize.py").write_text(source)
    found = run_code("1", mounts=[Mount(tmp_path, "/first")], env={"PYTHONPATH": "/first:/.pysbx"}, warm="off")
    assert found.error is not None and found.error.type == "ForgedAnswerError"
    assert "malformed greeting" in found.error.message


@pytest.mark.parametrize(
    "sent",
    [
        "frame(x, bytes(16))",
        "frame(x, bytes(range(16)))",
        "os.write(channel.descriptor, bytes(7))",
        "os.write(channel.descriptor, struct.pack('<Q16s', 100, bytes(16)))",
    ],
)
def test_what_code_sends_without_the_mark_of_a_request_ends_the_session(sent: str) -> None:
    with Sandbox() as session:
        done = session.run(f"{FORGE}x = msgpack.packb({{'exit_code': 0, 'value': 'forged'}})\n{sent}")
        assert done.error is not None and (done.value, done.error.type) == (None, "ForgedAnswerError")
        assert "no answer to this request" in done.error.message
        with pytest.raises(SandboxError, match=r"session has ended: .*no answer to this request"):
            session.run("1")


TWICE = FORGE + "frame(msgpack.packb({'exit_code': 0, 'value': 'early', 'files': {}, 'content': b''}))\n'late'"


@pytest.mark.parametrize("work", [Sandbox.files, lambda one: one.get("x"), lambda one: one.put({"x": "1"})])
def test_a_late_answer_is_not_taken_for_that_to_the_next_request(work: Callable[[Sandbox], object]) -> None:
    with Sandbox() as session:
        assert session.run(TWICE).value == "early"
        with pytest.raises(ForgedAnswerError, match="no answer to this request"):
            work(session)
        assert "no answer to this request" in session.ended


def test_marks_of_earlier_requests_are_of_no_use() -> None:
    with Sandbox() as session:
        session.run(f"{FORGE}old = channel._mark; x = msgpack.packb({{'exit_code': 0, 'value': 'forged'}})")
        done = session.run("frame(x, old)")
        assert (done.value, done.exit_code) == (None, 137)


def test_callers_of_a_server_are_told_that_answers_do_not_belong_to_their_requests(tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/s") as service:
        place = f"/v1/sessions/{service.post('/v1/sessions').json()['id']}"
        assert service.post(f"{place}/run", code=TWICE).json()["value"] == "early"
        answer = service.post(f"{place}/run", code="2").json()
        assert (answer["value"], answer["error"]["type"]) == (None, "ForgedAnswerError")
        assert "no answer to this request" in answer["session_ended"]
        answer = service.post(f"{place}/run", code="3").json()
        assert (answer["status"], answer["type"]) == (410, "urn:pysbx:problem:session-ended")
        assert "no answer to this request" in answer["detail"]
        assert service.run("4")["value"] == "4"
