"""Requests and answers that are too large for the memory of the sandbox."""

from __future__ import annotations

import pytest

from pysbx import Sandbox, SandboxError, SandboxMemoryError, limits, sandbox

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


def test_a_session_goes_on_after_a_request_that_does_not_fit() -> None:
    needs_rlimits()
    with Sandbox(memory_mb=64, timeout_sec=60) as session:
        with pytest.raises(SandboxError, match="no room for the request"):
            session.put({"large": bytes(100 * MIB)})
        assert session.run("1").value == "1"


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
