"""Sandbox.changes(): what code has changed, as a difference, written to a directory of the host, or discarded."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from pysbx import Mount, Sandbox, SandboxError, SandboxPausedError
from pysbx.base import trees
from pysbx.base.placing import GIT_RUNS
from pysbx.calls import baseline
from pysbx.calls.changes import SHOWN
from pysbx.calls.differences import unified

BARE = """
import os, pathlib
for name in ("objects", "refs"):
    os.makedirs(f"bare/{name}")
    pathlib.Path(f"bare/{name}/x").touch()
pathlib.Path("bare/HEAD").write_text("ref: refs/heads/main")
pathlib.Path("bare/config").write_text("[core]\\nbare=false\\nworktree=.\\nfsmonitor=\\"touch ../pwned; false\\"")
pathlib.Path("HEAD").write_text("<head>")
paths = [f"{name}/hooks/x" for name in (".g\\u200cit", "GIT~1", ".git. ", ".git::$DATA", "a\\\\.git")]
for name in ["own.git/config", "\\u9805.git/x", *paths]:
    os.makedirs(os.path.dirname(name), exist_ok=True)
    pathlib.Path(name).write_text("x")
"""
# An agent does this with a repository.
EDIT = """
import os, pathlib
pathlib.Path("kept/old.py").write_text("one\\ntwo\\nthree\\n")
os.remove("gone/file")
os.rmdir("gone")
os.makedirs("new/deep")
pathlib.Path("new/deep/run.sh").write_text("#!/bin/sh\\n")
os.chmod("new/deep/run.sh", 0o755)
"""
EDITED = {
    ("kept/old.py", "changed", "file", 14),
    ("gone/file", "removed", "file", 4),
    ("new/deep/run.sh", "added", "file", 10),
}


def make_repository(top: Path) -> Path:
    """Create a small repository, and return its path."""
    for path, text in {"kept/old.py": "one\n2\nthree\n", "gone/file": "text", "same": "same\n"}.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    (top / "same").chmod(0o755)
    return top


def listed(session: Sandbox) -> set[tuple[str, str, str, int]]:
    """Return the changes of a session."""
    return {(one.path, one.kind, one.type, one.size) for one in session.changes()}


def run(session: Sandbox, source: str) -> None:
    """Run source text that must not fail."""
    done = session.run("import socket; bind = lambda path: socket.socket(socket.AF_UNIX).bind(path)\n" + source)
    assert done.error is None, done.error


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_an_agent_edits_a_copy_and_its_changes_are_committed(tmp_path: Path, isolation: Any) -> None:
    top = make_repository(tmp_path / "repository")
    (top / "link").symlink_to("same")
    with Sandbox(isolation=isolation) as session:
        assert session.put_directory(top) == ("link",)
        assert session.shell("test -x same").exit_code == int(isolation == "process")  # without modes
        assert session.changes() == []
        run(session, EDIT)
        assert listed(session) == EDITED
        done = session.commit(top)
        assert (set(done.written), done.removed, done.refused) == (
            {"kept/old.py", "new/deep/run.sh"},
            ("gone/file",),
            {},
        )
        assert session.changes() == []
        run(session, "open('same', 'a').write('more')")
        assert listed(session) == {("same", "changed", "file", 9)}
    assert (top / "kept/old.py").read_text() == "one\ntwo\nthree\n"
    assert not (top / "gone").exists()
    assert os.access(top / "new/deep/run.sh", os.X_OK) or isolation == "process"
    assert (top / "same").read_text() == "same\n"
    assert sorted(path.name for path in top.rglob(".pysbx*")) == []


def test_a_difference_is_what_patch_takes(tmp_path: Path) -> None:
    top, other = make_repository(tmp_path / "repository"), make_repository(tmp_path / "other")
    with Sandbox() as session:
        session.put_directory(top)
        run(session, EDIT + "open('kept/old.py', 'a').write('no newline')\nopen('a b', 'w').write('spaces\\n')")
        text = "".join(change.diff() for change in session.changes())
        assert (
            "--- a/kept/old.py\n+++ b/kept/old.py\n@@ -1,3 +1,4 @@\n one\n-2\n+two\n three\n+no newline\n\\ No" in text
        )
        assert "--- a/gone/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n" in text
        session.commit(top)
    subprocess.run(["patch", "-s", "-p1", "-d", str(other)], input=text, text=True, check=True)
    read = {path.relative_to(other): path.read_bytes() for path in other.rglob("*") if path.is_file()}
    assert read == {path.relative_to(top): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_a_module_that_is_replaced_within_the_second_is_imported_as_it_is() -> None:
    with Sandbox() as session:
        for number in "123":
            session.put({"module.py": f"value = {number}\n"})
            assert session.shell("python3 -c 'import module; print(module.value)'").stdout == f"{number}\n"
            run(session, f"import importlib, module; assert importlib.reload(module).value == {number}")
        assert listed(session) == set()  # commit() writes no compiled files to the host


def test_the_files_of_put_are_the_start_and_discard_brings_it_back() -> None:
    with Sandbox() as session:
        session.put({"a": "one", "/output/b": "two", "d/c": "three"})
        run(
            session,
            "import os, pathlib\nos.remove('a'); os.mkdir('a'); open('a/inner', 'w').close(); os.symlink('/etc', 'l')",
        )
        run(
            session,
            "open('/output/b', 'w').write('TWO'); bind('/output/pipe'); os.makedirs('x/y/z'); os.chdir('x/y')",
        )
        assert listed(session) == {
            ("a", "removed", "file", 3),
            ("a/inner", "added", "file", 0),
            ("l", "added", "link", 0),
            ("/output/b", "changed", "file", 3),
            ("/output/pipe", "added", "other", 0),
        }
        session.discard()
        assert session.changes() == []
        assert session.files() == {"a": 3, "d/c": 5, "/output/b": 3}
        assert [session.get(name) for name in ("a", "/output/b")] == [b"one", b"two"]
        assert session.shell("pwd; ls").stdout.split() == ["/work", "a", "d"]
        session.put({"e": "five"})
        for name in ("a", "e/"):
            session.remove(name)
        session.put({"d/c": "four"})
        assert session.changes() == []  # the caller has done this
        run(session, "open('own', 'w').write('x'); os.remove('d/c')")
        session.mark()
        assert session.changes() == []
        run(session, "os.remove('own')")
        session.discard()
        assert session.files() == {"own": 1, "/output/b": 3}


@pytest.mark.usefixtures("warm_starts")
def test_a_fork_has_changes_of_its_own() -> None:
    with Sandbox(warm="require") as session:
        session.put({"a": "one"})
        with session.fork() as fork:
            run(fork, "open('a', 'w').write('two')")
            assert (listed(session), listed(fork)) == (set(), {("a", "changed", "file", 3)})
            assert fork.changes()[0].diff().splitlines()[3] == "-one"
            fork.discard()
            assert fork.get("a") == b"one"


def test_a_saved_session_knows_the_start(tmp_path: Path) -> None:
    """Changes from before it was saved are committed after it was restored, also removals."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("a", "b", "gone"):
        (project / name).write_text(f"{name}\n")
    with Sandbox(warm="require") as session:
        session.put_directory(project)
        run(session, "open('a', 'w').write('A\\n'); import os; os.remove('gone')")
        session.snapshot(tmp_path / "saved")
    with Sandbox.restore(tmp_path / "saved") as session:
        assert [(one.kind, one.path) for one in session.changes()] == [("changed", "a"), ("removed", "gone")]
        assert "-a\n+A\n" in session.changes()[0].diff()
        done = session.commit(project)
        assert (done.written, done.removed, done.refused) == (("a",), ("gone",), {})
        assert session.changes() == []
    with Sandbox.restore(tmp_path / "saved") as session:
        session.discard()
        assert (session.get("a"), session.get("gone")) == (b"a\n", b"gone\n")


def test_a_commit_leaves_out_what_is_excluded(tmp_path: Path) -> None:
    top = make_repository(tmp_path)
    with Sandbox() as session:
        session.put_directory(top)
        run(session, EDIT + "open('a.log', 'w').write('x'); open('new/b.log', 'w').write('x')")
        with Sandbox.attach(session.reference) as attached:
            done = attached.commit(top, exclude=["*.log", "new/deep", "gone"])
        assert (done.written, done.removed, done.refused) == (("kept/old.py",), (), {})
        assert (top / "gone/file").exists() and not (top / "new").exists()
        done = session.commit(top, exclude=("*.log",))
        assert (done.written, done.removed) == (("new/deep/run.sh",), ("gone/file",))
        assert {change.path for change in session.changes()} == {"a.log", "new/b.log"}
        with pytest.raises(TypeError, match="exclude"):
            session.commit(top, exclude="*.log")


def test_a_commit_follows_no_link_and_refuses_by_name(tmp_path: Path) -> None:
    top, outside = make_repository(tmp_path / "repository"), tmp_path / "outside"
    outside.mkdir()
    (top / "kept/HEAD").mkdir()
    subprocess.run(["git", "init", "--quiet", "--bare", str(top / "own.git")], check=True)
    with Sandbox() as session:
        session.put_directory(top)
        run(session, EDIT + "os.makedirs('.git/hooks'); open('.git/hooks/pre-commit', 'w').write('#!/bin/sh')")
        run(session, "os.symlink('/etc/passwd', 'l'); bind('pipe'); open('led', 'w').close(); os.mkdir('same2')")
        run(session, "os.remove('same'); open('there', 'w').write('x')")
        # A directory that git takes for a repository, with settings that name a program; and one that it does not.
        run(session, BARE)
        # Meanwhile, on the host.
        (top / "new").symlink_to(outside)
        (top / "led").symlink_to(outside / "led")
        (top / "there").mkdir()
        (top / "gone/file").write_text("mine")
        done = session.commit(top)
        other = "the host has another file there than the session had at its start: overwrite=True ignores that"
        gits = [f"{name}/hooks/x" for name in (".g\u200cit", "GIT~1", ".git. ", ".git::$DATA", "a\\.git")]
        assert done.refused == {
            **dict.fromkeys((".git/hooks/pre-commit", "bare/HEAD", "own.git/config", *gits), GIT_RUNS),
            "l": "it is no regular file: link",
            "pipe": "it is no regular file: other",
            "led": "the host has a link, a directory or a special file there",
            "there": "the host has a link, a directory or a special file there",
            "new/deep/run.sh": "Not a directory",
            "gone/file": other,
        }
        bare = "bare/config", "bare/objects/x", "bare/refs/x"
        assert (set(done.written), done.removed) == ({"HEAD", "\u9805.git/x", *bare, "kept/old.py"}, ("same",))
        subprocess.run(["git", "status"], cwd=top / "bare", capture_output=True, check=False)
        assert not (top / "pwned").exists()
        assert list(outside.iterdir()) == []
        assert session.commit(top, overwrite=True).removed == ("gone/file",)
        with pytest.raises(FileNotFoundError):
            session.commit(tmp_path / "nowhere")


def test_a_commit_keeps_the_modes_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "a").chmod(0o640)
    with Sandbox() as session:
        session.put_directory(tmp_path)
        run(session, "import os\nopen('a', 'w').write('2'); os.chmod('a', 0o777); open('b', 'w').close()")
        session.commit(tmp_path)
    assert ((tmp_path / "a").read_text(), stat.S_IMODE((tmp_path / "a").stat().st_mode)) == ("2", 0o640)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) & 0o111 == 0


def test_a_mount_is_the_hosts_and_no_change(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("host")
    tmp_path.chmod(0o777)
    for target in ("/work/mount", "/work"):
        with Sandbox(mounts=[Mount(str(tmp_path), target, readonly=False)]) as session:
            run(session, "open('own', 'w').close()")
            assert listed(session) == ({("own", "added", "file", 0)} if target != "/work" else set())
            session.discard()
            assert (tmp_path / "theirs").read_text() == "host"


def test_hostile_trees_are_read_within_bounds() -> None:
    with Sandbox(tmp_mb=64, file_size_mb=64) as session:
        session.put({"closed/a": "a", "b": "b"})
        run(session, "import os\nos.truncate('b', 64 << 20); open('large', 'w').truncate(64 << 20)")
        run(session, "for _ in range(70): os.mkdir('d'); os.chdir('d')\nopen('deep', 'w').close(); os.chdir('/work')")
        deep = "d" + "/d" * trees.MAX_DEPTH
        found = {one.path: one for one in session.changes()}
        assert found[deep].kind == "unread"
        assert found["b"].diff() == f"'b': changed, more than {SHOWN} bytes\n"
        assert found["large"].size == 64 << 20
        run(session, "open('b', 'wb').write(b'\\0\\1')")
        assert found["b"].diff() == "Binary files a/b and b/b differ\n"
        run(session, "for i in range(20001): open(f'/output/{i}' if i % 2 else f'/work/{i}', 'w').close()")
        with pytest.raises(SandboxError, match="more than 20000 files"):
            session.changes()


def test_directories_of_any_mode_are_read_and_discarded() -> None:
    with Sandbox() as session:
        session.put({"listed/a": "a", "fixed/b": "b"})
        run(session, "import os\nos.mkdir('own'); open('own/c', 'w').close()")
        run(session, "os.chmod('listed', 0o444); os.chmod('fixed', 0o555); os.chmod('own', 0o444)")
        # Root may enter what is closed to its owner.
        assert {one.path for one in session.changes()} == {"own/c", *(["listed/a"] if os.geteuid() else [])}
        session.discard()
        assert session.changes() == []
        assert session.files() == {"listed/a": 1, "fixed/b": 1}


@pytest.mark.parametrize("closed", ["/work", "/work/d", "/work/link/d", "/output"])
def test_what_cannot_be_read_is_not_removed_from_the_host(tmp_path: Path, closed: str) -> None:
    for name in ("a", "d/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("host")
    with Sandbox() as session:
        session.put_directory(tmp_path)
        session.put({"/output/c": "c"})
        run(
            session,
            "import os\nos.mkdir('link'); os.rename('d', 'link/d'); os.symlink('link/d', 'd')" * ("link" in closed),
        )
        run(session, f"import os\nos.chmod({closed!r}, 0)")
        found = {one.path: one.kind for one in session.changes()}
        assert "removed" not in found.values()
        if os.geteuid() != 0:  # root may read it
            assert found[{"/output": "/output", "/work": "."}.get(closed, closed.removeprefix("/work/"))] == "unread"
        assert session.commit(tmp_path).removed == ()
        assert (tmp_path / "a").exists() and (tmp_path / "d/b").exists()
        session.discard()
        assert session.changes() == []


def test_a_file_whose_directory_can_only_be_listed_is_named() -> None:
    with Sandbox() as session:
        done = session.run(
            "import os\nos.mkdir('/output/d'); open('/output/d/f', 'w').close(); os.chmod('/output/d', 0o444)"
        )
        assert {*done.artifacts, *done.left_out} == {"d/f"}


def test_a_file_that_is_a_directory_now_is_compared_again_and_again() -> None:
    with Sandbox() as session:
        session.put({"a": "a"})
        run(session, "import os\nos.remove('a'); os.mkdir('a')")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            (change,) = session.changes()
            assert change.diff() == "'a': changed, Is a directory\n"
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_difference_takes_bounded_time() -> None:
    hostile = (
        b"".join(b"%d\n" % (i % 7) for i in range(SHOWN // 2)),
        b"".join(b"%d\n" % (i * i % 11) for i in range(SHOWN // 2)),
    )
    began = time.process_time()
    assert unified("x", *hostile).count("\n") > SHOWN // 2
    assert time.process_time() - began < 60


def test_deep_directories_and_large_files_take_no_long_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code may leave 20,000 files, and git's HEAD is looked for in each directory above each of them."""
    opened: list[str] = []
    open_path = os.open

    def counted(path: str, flags: int, *arguments: int, **more: int) -> int:
        opened.append(path)
        return open_path(path, flags, *arguments, **more)

    deep = tmp_path
    for _ in range(60):
        deep /= "a"
        deep.mkdir()
        (deep / "HEAD").write_bytes(b" " * (1 << 20))
    with Sandbox() as session:
        run(session, f"import os\nos.makedirs('{'a/' * 60}')\nopen('{'a/' * 60}x', 'w').close()")
        assert len(session.changes()) == 1
        before = int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])
        monkeypatch.setattr(os, "open", counted)
        assert session.commit(tmp_path).written == (f"{'a/' * 60}x",)
        monkeypatch.undo()
        after = int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])
    assert (deep / "x").exists()
    assert len(opened) < 6 * 60
    assert after - before < 4 << 20


def test_a_paused_session_can_be_looked_at_and_a_closed_one_not() -> None:
    with Sandbox() as session:
        assert session.changes() == []
        run(session, "open('a', 'w').write('text\\n')")
        session.pause()
        (change,) = session.changes()
        assert change.diff() == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+text\n"
        with pytest.raises(SandboxPausedError):
            session.discard()
    for use in (session.changes, change.diff, session.mark):
        with pytest.raises(SandboxError, match="it has been closed"):
            use()


def test_what_was_not_kept_is_not_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "KEPT", 10)
    with Sandbox() as session:
        session.put({"a": "small", "b": "larger than that"})
        run(session, "open('a', 'w').close(); open('b', 'w').close()")
        small, large = session.changes()
        assert "-small" in small.diff()
        assert large.diff() == "'b': changed, its content at the start was not kept\n"
        with pytest.raises(SandboxError, match="file 'b': its content at the start was not kept"):
            session.discard()
        assert session.files() == {"a": 0, "b": 0}
