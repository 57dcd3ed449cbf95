"""The configuration file and the variables PYSBX_…: defaults of options, below those of a call and of a profile."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pysbx import SandboxOptionError, run_code
from pysbx.command import main
from pysbx.machine import doctor
from pysbx.options import configuration
from pysbx.options.keywords import OPTIONS
from pysbx.options.options import make_options

Write = Callable[[str], Path]
ALL = """
memory_mb = 700
timeout_sec = 12.5
index_url = "https://one.example/simple/"
extra_index_urls = ["https://two.example/simple/"]
installer = "uv"
limits = "best"
warm = "off"

[clean]
days = 7
size_mb = 100
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes the user's configuration file."""
    monkeypatch.setenv("PYSBX_CONFIG", str(tmp_path / "pysbx/config.toml"))

    def to(text: str) -> Path:
        path = tmp_path / "pysbx/config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
        return path

    return to


def test_a_file_gives_defaults(write: Write) -> None:
    write("")
    assert make_options().memory_mb == 512
    write(ALL)
    found = make_options()
    assert (found.memory_mb, found.timeout_sec, found.warm) == (700, 12.5, "off")
    assert (found.index_url, found.extra_index_urls) == (
        "https://one.example/simple/",
        ("https://two.example/simple/",),
    )
    assert found.installer == "uv"
    assert configuration.of_clean() == (7, 100)
    assert make_options(memory_mb=800, index_url="").memory_mb == 800
    assert make_options(index_url="").index_url == ""
    done = run_code("import resource; resource.getrlimit(resource.RLIMIT_DATA)")
    assert (done.error, done.warm) == (None, False)


def test_variables_come_before_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("memory_mb = 700\ntimeout_sec = 12\n")
    monkeypatch.setenv("PYSBX_MEMORY_MB", "900")
    monkeypatch.setenv("PYSBX_EXTRA_INDEX_URLS", "https://a.example/ https://b.example/")
    found = make_options()
    assert (found.memory_mb, found.timeout_sec) == (900, 12)
    assert found.extra_index_urls == ("https://a.example/", "https://b.example/")


def test_a_profile_comes_before_both(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "mine.json"
    profile.write_text(json.dumps({"limits": {"memory_mb": 300}}))
    write(f'memory_mb = 700\ncpus = 2.0\nprofile = "{profile}"\n')
    found = make_options()
    assert (found.memory_mb, found.cpus) == (300, 2.0)
    assert make_options(memory_mb=800).memory_mb == 800
    assert make_options(profile=None).memory_mb == 700


def test_doctor_says_what_to_correct(write: Write) -> None:
    write("memory_mb =\n")
    check = doctor._start()
    assert (check.status, check.remedy) == ("failure", "correct this file or variable")


def test_the_place_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pysbx/config.toml"
    path.parent.mkdir()
    path.write_text("memory_mb = 650\n")
    path.chmod(0o600)
    monkeypatch.delenv("PYSBX_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert make_options().memory_mb == 650
    monkeypatch.setenv("PYSBX_CONFIG", "")  # none
    assert make_options().memory_mb == 512
    monkeypatch.setenv("PYSBX_CONFIG", f"{tmp_path}/none")  # its limits would silently not hold
    with pytest.raises(SandboxOptionError, match=r"^PYSBX_CONFIG: '.*/none': No such file"):
        make_options()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memory = 1\n", "'memory' cannot be set: there are answer_limit"),
        ('allow_network = "host"\n', "'allow_network' cannot be set: this option belongs to the call"),
        ("memory_mb = 1\n", "memory_mb: 1 is less than"),
        ("memory_mb =\n", "Invalid value"),
        ('installer = "apt"\n', "installer: 'apt' is not one of pip, uv"),
        ("clean = 1\n", "'clean' cannot be set"),
        ("[clean]\nyears = 1\n", "'clean.years' cannot be set"),
    ],
)
def test_a_wrong_file_is_named(write: Write, text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(SandboxOptionError) as caught:
        make_options()
    assert str(caught.value).startswith(f"'{path}': ")
    assert said in str(caught.value)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for value, said in (("x", "PYSBX_MEMORY_MB: 'x' is not a number"), ("1", "PYSBX_MEMORY_MB: memory_mb: 1 is less")):
        monkeypatch.setenv("PYSBX_MEMORY_MB", value)
        assert main(["run", "-c", "1"]) == 2
        assert said in capsys.readouterr().err


def test_a_file_that_others_can_change_is_refused(write: Write) -> None:
    path = write("memory_mb = 700\n")
    path.chmod(0o666)
    with pytest.raises(SandboxOptionError, match="others can change it"):
        make_options()


def test_clean_reads_the_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("[clean]\ndays = -1\n")
    assert main(["clean", "sessions"]) == 2
    assert "clean.days: -1 is not a number from 0 on" in capsys.readouterr().err


def test_what_a_request_may_choose_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further options can be set too: see the table in reference/options.md."""
    assert {name for name, declared in OPTIONS.items() if declared.option.offered} < configuration.SETTABLE.keys()
    assert not {"allow_network", "mounts", "env", "landlock", "seccomp"} & configuration.SETTABLE.keys()
    monkeypatch.setenv("PYSBX_IO_MB_PER_SEC", "2.5")
    assert make_options().io_mb_per_sec == 2.5


def test_no_file_is_read_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert configuration.defaults() == {}
    assert os.listdir(tmp_path) == []
