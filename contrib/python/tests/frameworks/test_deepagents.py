"""The standard tests that LangChain has for sandboxes of deepagents, as they are."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from pysbx.frameworks.deepagents import PysbxBackend


class TestPysbx(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[PysbxBackend]:
        backend = PysbxBackend()
        yield backend
        backend.close()


def test_limits() -> None:
    backend = PysbxBackend(limit=1000, timeout_sec=1)
    late = backend.execute("echo beginning; sleep 60")
    assert (late.exit_code, late.truncated) == (124, False)
    assert late.output.startswith("beginning\n")
    long = asyncio.run(backend.aexecute("yes"))
    assert (long.exit_code, long.truncated) == (137, True)
    assert [one.error for one in backend.upload_files([("/etc/x", b""), ("/work/a\0b", b"")])] == [
        "permission_denied",
        "invalid_path",
    ]
    backend.close()
