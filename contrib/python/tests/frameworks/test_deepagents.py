"""The standard tests that LangChain has for sandboxes of deepagents, as they are."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from pysbx.errors import DependencyInstallError
from pysbx.frameworks.deepagents import PysbxBackend
from pysbx.frameworks.workspace import Workspace


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


def test_an_agent_goes_on_after_a_command_that_kills_its_session(tmp_path: Path) -> None:
    backend = PysbxBackend()
    before = backend.id
    backend.execute("(sleep 0.3; kill -9 2) >/dev/null 2>&1 &")
    time.sleep(1)
    said = backend.execute("true")
    assert said.exit_code == 137
    assert "SIGKILL" in said.output and said.output.endswith("its names and files are gone\n")
    assert backend.execute("echo again").output == "again\n"
    assert Workspace.attach(backend.id).exec("echo found").stdout == b"found\n"
    assert backend.id != before
    assert "the session has ended" in asyncio.run(backend.aexecute("kill -9 2; sleep 5")).output
    assert "SIGKILL" in str(backend.upload_files([("/work/a", b"1")])[0].error)
    assert backend.upload_files([("/work/a", b"1")])[0].error is None
    backend.close()
    with pytest.raises(DependencyInstallError):  # no model can help with that
        PysbxBackend(dependencies=["none-such"], wheels=str(tmp_path)).execute("true")
