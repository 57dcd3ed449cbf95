"""Findings of a program hold for the next one, in the same circumstances and not for long."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pysbx import run_code
from pysbx.base import probe_cache
from pysbx.base.directories import run_directory
from pysbx.calls.prepare import prepare
from pysbx.container import limits, payload
from pysbx.errors import LimitsNotEnforceableError, SandboxStartupError
from pysbx.options.options import make_options
from tests.servers import killed_owner


@pytest.fixture
def found() -> limits.Enforcement:
    """The finding about limits; the next test gets a finding of its own."""
    limits.forget()
    limits._found.cache_clear()
    return limits.enforcement()


def try_it_out() -> list[str]:
    """Return which commands of the runtime another program needs besides its one sandbox."""
    program = """
import sys
from pysbx import run_code
from pysbx.base import runtime
plain = runtime.command
def command(*arguments, **others):
    print(next(one for one in arguments if one.isalpha() and one != "json"), file=sys.stderr)
    return plain(*arguments, **others)
runtime.command = command
run_code("1")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_what_a_program_has_found_out_holds_for_the_next(found: limits.Enforcement) -> None:
    assert try_it_out() == ["run"]
    limits.forget()
    assert try_it_out()[0] == "create"
    assert try_it_out() == ["run"]
    limits._found.cache_clear()
    assert limits.enforcement().by == found.by


def test_a_finding_holds_for_its_circumstances(found: limits.Enforcement, monkeypatch: pytest.MonkeyPatch) -> None:
    circumstances = limits._circumstances()
    assert probe_cache.load(limits.FOUND, circumstances) is not None
    assert probe_cache.load(limits.FOUND, [*circumstances, "other"]) is None
    assert probe_cache.load(limits.FOUND, circumstances, age=-1) is None
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert limits._circumstances() != circumstances


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "null",
        "[1, 2]",
        '[{"memory": "cgroup"}, "", [], []]',
        '[{"memory": "none", "cpu": "cgroup", "pids": "cgroup"}, "", [], []]',
        '[{"memory": "cgroup", "cpu": "cgroup", "pids": "cgroup"}, "", ["--root", "/"], []]',
        '[{"memory": "cgroup", "cpu": "cgroup", "pids": "cgroup"}, "", [], ["other"]]',
    ],
)
def test_a_finding_that_is_none_is_made_anew(found: limits.Enforcement, content: str) -> None:
    probe_cache._path(limits.FOUND, limits._circumstances()).write_text(content)
    limits._found.cache_clear()
    assert limits.enforcement().by == found.by


def save_another(by: str) -> None:
    """Let an earlier program have found something else."""
    kinds = dict.fromkeys(limits.CONTROLLERS, by)
    probe_cache.save(limits.FOUND, limits._circumstances(), [kinds, "by a test", [], [], ""])
    limits._found.cache_clear()


def test_nothing_is_refused_because_of_an_earlier_finding(found: limits.Enforcement) -> None:
    save_another("rlimit")
    assert limits.enforcement().reason == "by a test"
    if found.missing:
        with pytest.raises(LimitsNotEnforceableError) as raised:
            run_code("1", limits="strict")
        assert "by a test" not in str(raised.value)
    else:
        assert run_code("1", limits="strict").limits["memory"] == "cgroup"
    assert limits.enforcement().by == found.by


def test_a_finding_by_which_nothing_starts_is_forgotten(found: limits.Enforcement, tmp_path: Path) -> None:
    if not found.missing:
        pytest.skip("all controllers can be had here: no finding is wrong in a way that hinders a start")
    save_another("cgroup")
    program = "from pysbx import run_code; run_code('1', tmp_mb=17)"
    command = [sys.executable, "-c", program]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2))
    assert SandboxStartupError.__name__ in first.stderr
    assert (second.stderr, second.returncode) == ("", 0)
    limits._found.cache_clear()


def test_a_program_that_is_killed_while_it_tries_out_limits_leaves_nothing() -> None:
    program = """
import os, time
from pysbx.container import limits
print(os.getpid(), flush=True)
limits.kill = lambda _: time.sleep(1000)
limits._complaint((), ())
"""

    def bundles_of_trials() -> set[Path]:
        return {path.parents[1] for path in run_directory().glob("bundles/*/rootfs/none")}

    before = bundles_of_trials()
    killed_owner(program, 1)
    (left,) = bundles_of_trials() - before
    os.utime(left, (1, 1))
    prepare(make_options(env={"TEST": str(left)}))
    assert not left.exists()


def test_a_changed_file_of_the_payload_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("1")
    os.utime(path, (1, 1))
    files = [("a/module.py", str(path))]
    first = payload._content(files)
    path.write_text("2")
    os.utime(path, (1, 1))
    assert payload._content(files) != first
    kept = probe_cache._path("payload", [[*files[0], *probe_cache.identity(str(path))]])
    assert not kept.exists()  # written to just now: it may be written to again
    kept.write_text(json.dumps("x" * 24))
    assert payload._content(files) == "x" * 24


def test_a_bound_of_disks_is_refused_without_its_controller() -> None:
    if "io" in probe_cache.text_of("/sys/fs/cgroup/cgroup.controllers").split():
        pytest.skip("this machine has the controller: tests/vm/pysbx.bats tests the bound")
    for _ in range(2):
        with pytest.raises(LimitsNotEnforceableError) as io:
            run_code("1", io_mb_per_sec=5)
        # The cgroup of the trial is not named, because it has never existed.
        assert re.match(r"io_mb_per_sec, but no cgroup controller for io: (?!.*probe-).", str(io.value))
    assert run_code("6 * 7").value == "42"


def test_the_copied_files_have_no_labels_of_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner/module.py").write_text("value = 1\n")
    try:
        for path in source, source / "inner", source / "inner/module.py":
            os.setxattr(path, "user.label", b"of the source")
    except OSError:
        pytest.skip("this file system has no attributes")
    monkeypatch.setattr(payload, "_sources", lambda: {"copied": source})
    made = tmp_path / "made"
    payload._make(made)
    assert (made / "copied/inner/module.py").read_text() == "value = 1\n"
    assert list((made / "copied/inner/__pycache__").glob("module.*.pyc"))
    assert not any(os.listxattr(path) for path in made.rglob("*"))
