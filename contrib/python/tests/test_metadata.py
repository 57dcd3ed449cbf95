"""The metadata of the package: licence, classifiers, and the addresses that its publisher names."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent


def read(address: str) -> subprocess.CompletedProcess[str]:
    """Let the build backend print the metadata, with this address of the repository."""
    return subprocess.run(
        (sys.executable, "-m", "hatchling", "metadata"),
        cwd=PROJECT, env={**os.environ, "PYSBX_URL": address}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def metadata(address: str) -> dict[str, Any]:
    """Return the metadata with this address of the repository."""
    said = read(address)
    assert said.returncode == 0, said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def test_licence_and_classifiers() -> None:
    found = metadata("")
    assert found["license"] == "Apache-2.0"
    assert "Operating System :: POSIX :: Linux" in found["classifiers"]


def test_without_an_address_there_are_no_urls() -> None:
    assert not metadata("").get("urls")


@pytest.mark.parametrize("end", ["", "/"])
def test_the_publisher_names_the_address(end: str) -> None:
    urls = metadata(f"https://forge.test/someone/pysbx-runtime{end}")["urls"]
    assert urls["Homepage"] == "https://forge.test/someone/pysbx-runtime"
    for label, page in (("Changelog", "CHANGELOG.md"), ("Security", "SECURITY.md")):
        assert urls[label] == f"https://forge.test/someone/pysbx-runtime/blob/main/{page}"
        assert (PROJECT / "../.." / page).is_file()


@pytest.mark.parametrize("address", ["forge.test/x", "http://forge.test/x", "https://forge.test/a b", "https://"])
def test_another_kind_of_address_is_refused(address: str) -> None:
    said = read(address)
    assert said.returncode != 0
    assert f"PYSBX_URL: {address!r} is not an address" in said.stderr
