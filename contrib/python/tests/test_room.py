"""Requests and answers that are too large for the memory of the sandbox."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from pysbx import Sandbox, SandboxError, SandboxFileTooLargeError, SandboxMemoryError, run_code, sandbox
from pysbx.container import limits

MIB = 1 << 20


def needs_rlimits() -> None:
    """Skip where the kernel kills what takes too much memory, instead of refusing it."""
    if limits.enforcement().by["memory"] == "cgroup":
        pytest.skip("memory is limited by cgroup")


@pytest.mark.parametrize("size", [40 * MIB, 200 * MIB])
def test_arguments_that_do_not_fit_are_want_of_memory(size: int) -> None:
    @sandbox(memory_mb=64, timeout_sec=60)
    def take(content: bytes) -> int:
        return len(content)

    with pytest.raises(SandboxMemoryError, match="64 MiB allowed"):
        take(bytes(size))


@pytest.mark.parametrize("tools", [{}, {"one": lambda: 1}], ids=["alone", "with a descriptor"])
def test_a_session_goes_on_after_requests_that_do_not_fit(tools: dict[str, Callable[..., Any]]) -> None:
    needs_rlimits()
    with Sandbox(memory_mb=64, timeout_sec=60, tools=tools) as session:
        for _ in range(2):
            with pytest.raises(SandboxError, match="no room for the request"):
                session.put({"large": bytes(100 * MIB)})
            error = session.run("1", stdin=bytes(100 * MIB)).error
            assert error is not None and error.message == "no room for the request"
            assert session.run("len(__import__('os').listdir('/proc/self/fd')) < 9").value == "True"


def test_files_that_do_not_fit_into_memory_are_named() -> None:
    needs_rlimits()
    large, reason = bytes(100 * MIB), "no room for the request: allow more: memory_mb"
    with pytest.raises(SandboxFileTooLargeError, match=rf"^file 'main\.py': {reason}$") as one:
        run_code(large, name="main.py", memory_mb=64)
    assert (one.value.filename, one.value.errno) == ("main.py", errno.ENOMEM)
    with pytest.raises(SandboxFileTooLargeError, match=f"^2 files: {reason}$"):
        run_code("1", files={"one": large, "other": b""}, memory_mb=64)


def test_a_value_that_does_not_fit_twice_is_want_of_memory() -> None:
    needs_rlimits()
    with Sandbox(memory_mb=160, timeout_sec=60) as session:
        with pytest.raises(SandboxMemoryError, match="160 MiB allowed"):
            session.call(lambda: bytes(60 * MIB))
        assert session.run("1").value == "1"


def test_a_file_that_does_not_fit_is_want_of_memory() -> None:
    needs_rlimits()
    with Sandbox(memory_mb=64, tmp_mb=200, answer_limit=200 * MIB, timeout_sec=60) as session:
        session.run("with open('large', 'wb') as file: file.truncate(60 << 20)")
        with pytest.raises(SandboxError, match="'large'"):
            session.get("large")
        assert session.run("1").value == "1"


def test_a_session_does_not_keep_the_room_of_an_answer() -> None:
    used = "int(open('/proc/self/statm').read().split()[1]) * 4096"
    with Sandbox(memory_mb=512, timeout_sec=60) as session:
        before = int(session.run(used).value or 0)
        assert len(session.call(lambda: bytes(40 * MIB))) == 40 * MIB
        assert int(session.run(used).value or 0) - before < 20 * MIB


@pytest.mark.parametrize("more", ["'a' * 1_000_000", "'a' * 1000", "[{}]"])
def test_a_program_that_takes_all_memory_is_told_of_its_own_error_only(more: str) -> None:
    needs_rlimits()
    source = f"x = []\nwhile True:\n    x.append({more})"
    done = run_code(source, memory_mb=96, timeout_sec=120)
    assert done.error is not None, done.stderr
    assert (done.exit_code, done.error.type) == (1, "MemoryError")
    assert done.error.line == 3 or more == "[{}]"  # of the smallest things there is none left to note the line with
    assert done.error.hint is not None
    assert ".pysbx" not in done.stderr

    @sandbox(memory_mb=96, timeout_sec=120)
    def call() -> None:
        exec(source, {})

    with pytest.raises(SandboxMemoryError, match="96 MiB allowed"):
        call()


@pytest.mark.root
def test_a_session_goes_on_when_all_memory_is_taken() -> None:
    needs_rlimits()
    with Sandbox(memory_mb=96, timeout_sec=120) as session:
        for _ in range(3):
            done = session.run("x = []\nwhile True:\n    x.append('a' * 100_000)")
            assert done.error is not None and done.error.type == "MemoryError"
        assert session.run("len(x) > 100").value == "True"
        assert session.run("x.clear(); len(bytes(40 << 20))").value == str(40 * MIB)


def test_numpys_want_of_memory_has_a_hint(virtualenv: str) -> None:
    done = run_code("import numpy; numpy.ones(10**12)", virtualenv=virtualenv, memory_mb=1024)
    assert done.error is not None and "memory_mb" in (done.error.hint or "")
