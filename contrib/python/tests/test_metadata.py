"""The metadata of the package: licence, classifiers, and the addresses that its publisher names."""

# once: the caller's rights make no difference

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_build import describe

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
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 16)} <= set(found["classifiers"])


def test_the_tools_of_its_own_tests_are_no_extras() -> None:
    """The package has no requirement of its own tests: they are dependency groups."""
    extras = set(metadata("")["optional-dependencies"])
    assert {"arrow", "mcp", "service"} <= extras
    assert not {"test", "fuzz"} & extras


def test_a_development_version_names_its_commit(tmp_path: Path) -> None:
    place = tmp_path / "contrib/python"
    (place / "src/pysbx").mkdir(parents=True)
    shutil.copy(PROJECT / "hatch_build.py", place)

    def built(version: str) -> str:
        (place / "src/pysbx/version.py").write_text(f'VERSION = "{version}"\n')
        command = [sys.executable, "-c", "import hatch_build; print(hatch_build.built_version())"]
        return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout.strip()

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.test", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert built("9.0.0.dev0") == "9.0.0.dev0"  # an archive
    git("init", "--quiet")
    assert built("9.0.0.dev0") == "9.0.0.dev0"  # there is no commit yet
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    assert built("9.0.0.dev0") == f"9.0.0.dev0+g{git('rev-parse', '--short=12', 'HEAD')}"
    for version in ("9.0.0", "9.0.0.dev0+g0123456789ab"):
        assert built(version) == version


def test_without_an_address_there_are_no_urls() -> None:
    assert not metadata("").get("urls")


@pytest.mark.parametrize("end", ["", "/"])
def test_the_publisher_names_the_address(end: str) -> None:
    urls = metadata(f"https://forge.test/someone/pysbx-runtime{end}")["urls"]
    assert urls["Homepage"] == "https://forge.test/someone/pysbx-runtime"
    for label, page in (("Changelog", "CHANGELOG.md"), ("Security", "SECURITY.md")):
        assert urls[label] == f"https://forge.test/someone/pysbx-runtime/blob/main/{page}"
        assert (PROJECT / "../.." / page).is_file()


def description_in_wheel(folder: Path, address: str) -> str:
    """Return the long description in the METADATA of a wheel that is built with this address."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "PYSBX_URL": address}, capture_output=True, check=True)
    (made,) = folder.glob("*.whl")
    with zipfile.ZipFile(made) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        found = email.message_from_bytes(wheel.read(name))
        assert f'\nVERSION = "{found["Version"]}"\n' in wheel.read("pysbx/version.py").decode()
    assert found["Description-Content-Type"] == "text/markdown"
    return str(found.get_payload())


@pytest.mark.parametrize("address", ["https://forge.test/someone/pysbx-runtime", ""])
def test_an_index_shows_the_description_without_broken_links(address: str, tmp_path: Path) -> None:
    """Links to files of the repository lead to its address, and are text if there is none."""
    shown = description_in_wheel(tmp_path, address)
    page = (PROJECT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]*)\)", page)
    files = [link for link in links if not link.startswith("https://")]
    assert "../docs/pages/reference/python-api.md" in files and "THREAT-MODEL.md" in files
    led = re.findall(r"\]\(([^)]*)\)", shown)
    if not address:
        assert led == [link for link in links if link not in files]
        assert "- Threat model: what holds" in shown
        return
    assert len(led) == len(links)
    for link in led:
        assert link.startswith("https://")
        if link.startswith(address):
            assert (PROJECT / "../.." / link.removeprefix(f"{address}/blob/main/").partition("#")[0]).is_file()
    assert f"[Threat model]({address}/blob/main/contrib/python/THREAT-MODEL.md)" in shown


def test_brackets_in_code_are_no_links() -> None:
    page = "```python\nf[0](x)\n```\n`f[0](x)` [label](a/../b.md#part)\n"
    assert describe(page, "") == page.replace("[label](a/../b.md#part)", "label")
    assert "[label](https://forge.test/x/blob/main/contrib/python/b.md#part)" in describe(page, "https://forge.test/x")


@pytest.mark.parametrize("address", ["forge.test/x", "http://forge.test/x", "https://forge.test/a b", "https://"])
def test_another_kind_of_address_is_refused(address: str) -> None:
    said = read(address)
    assert said.returncode != 0
    assert f"PYSBX_URL: {address!r} is not an address" in said.stderr
