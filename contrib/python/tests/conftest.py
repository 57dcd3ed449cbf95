"""The fixtures of all tests: a runtime that exists, a virtualenv to use, no containers left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx import Sandbox
from pysbx.base import directories, runtime
from pysbx.calls.prepare import _prepared, prepare
from pysbx.container import payload, ready
from pysbx.options.options import make_options
from tests.browser import Browser, browser


def containers() -> list[str]:
    """Return the names of the containers that the runtime knows below our state root."""
    listed = subprocess.run(runtime.command("list", "--format", "json"), capture_output=True, check=True)
    return [entry["id"] for entry in json.loads(listed.stdout) or []]


def own_containers() -> int:
    """Return the number of containers of this process, without those that wait for a call, or end just now."""
    ready.close()
    return len([name for name in containers() if f"-{os.getpid()}-" in name])


def descriptors() -> int:
    """Return the number of open descriptors of this process, without those of containers that wait for a call."""
    ready.close()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After every test: no container of this process is left, when those that wait have been removed."""
    root = runtime.state_root()  # which is found once, and not where the first test wants it
    yield
    ready.close()
    # The directories of containers, because this is done two thousand times, and a program takes milliseconds to start.
    assert [name for name in os.listdir(root) if f"-{os.getpid()}-" in name] == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a file: a start takes more CPU time than most tests with a page of their own."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def warm_starts() -> None:
    """Warm starts, or a reason why there are none."""
    if reason := runtime.build_snapshot(str(prepare(make_options()).path)):
        pytest.skip(reason)


@pytest.fixture
def session(warm_starts: None) -> Iterator[Sandbox]:
    """A session to be forked or saved."""
    with Sandbox(warm="require") as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path for a saved session."""
    return tmp_path / "session"


@pytest.fixture
def virtualenv() -> str:
    """The virtualenv in which the tests run, with numpy, pandas and pyarrow."""
    if sys.prefix == sys.base_prefix:
        pytest.skip("the tests do not run in a virtualenv")
    return sys.prefix


@pytest.fixture
def own_cache(tmp_path: Path) -> Iterator[None]:
    """No installed set but those of this test. No later test uses files of this cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        directories.cache_directory.cache_clear()
        yield
        ready.close()
    for found in directories.cache_directory, payload.directory, _prepared:
        found.cache_clear()


@pytest.fixture
def wheels(tmp_path: Path, own_cache: None) -> Path:
    """An empty folder for wheels, and a cache of its own."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder
