"""Files that come into a session and out of it."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import errno
import os
import pickle
import re
import time
from pathlib import Path

import pytest

from pysbx import Sandbox, errors


@pytest.mark.root
def test_a_file_that_is_larger_than_an_answer_may_be_names_the_limit() -> None:
    with Sandbox(answer_limit=1 << 20) as session:
        session.run("open('large', 'wb').write(bytes(1 << 20))")
        with pytest.raises(
            errors.SandboxError, match=r"larger than \d+ bytes, half of answer_limit: raise answer_limit"
        ):
            session.get("large")


def test_files() -> None:
    with Sandbox() as session:
        session.put({"a/b.txt": "text"})
        assert session.run("open('a/b.txt').read()").value == "'text'"
        session.run("open('c', 'wb').write(b'123')")
        assert session.get("c") == b"123"
        assert session.files() == {"a/b.txt": 4, "c": 3}
        with pytest.raises(errors.SandboxError, match="larger than 2 bytes"):
            session.get("c", limit=2)
        with pytest.raises(errors.SandboxError, match="No such file"):
            session.get("none")
        with pytest.raises(ValueError, match="must be a relative path"):
            session.put({"../x": b""})


def test_files_are_put_by_absolute_path_too() -> None:
    with Sandbox() as session:
        session.put({"/work/a/../b": "1", "/output/c": "2", "/tmp/d/e": "3", "f": "4"})
        look = "[open(name).read() for name in ('/work/b', '/output/c', '/tmp/d/e', 'f')]"
        assert session.run(look).value == "['1', '2', '3', '4']"
        assert session.run("open('/output/g', 'w').close()").artifacts == {"g": b""}
        session.remove("/tmp/d/e")
        for path in ("/etc/x", "/work/../etc/x", "/", "/work", "/output/", "/tmp/../x", "..", "a\0b"):
            with pytest.raises(errors.SandboxInvalidPathError) as caught:
                session.put({path: b""})
            assert isinstance(caught.value, ValueError)


def test_a_file_that_does_not_fit_leaves_nothing() -> None:
    with Sandbox(tmp_mb=8) as session:
        session.put({"kept": "before"})
        session.run("import os; os.chmod('kept', 0o640)")
        with pytest.raises(
            errors.SandboxFileTooLargeError, match=r"file 'large': 16384 KiB, and \d+ are free: .*tmp_mb"
        ) as caught:
            session.put({"kept": "after", "small": "1", "large": "x" * (16 << 20)})
        assert caught.value.path == "large"
        with pytest.raises(errors.SandboxIsADirectoryError):  # for another of the files
            session.put({"kept": "after", "both": "", "both/inner": ""})
        assert session.files() == {"kept": 6}
        assert session.shell("rmdir both").exit_code == 0
        session.put("kept", "after")
        assert session.run("open('kept').read(), oct(os.stat('kept').st_mode), os.listdir()").value == (
            "('after', '0o100640', ['kept'])"
        )


MAKE = """
import os
os.mkdir('d'); os.symlink('loop', 'loop'); open('big', 'w').write('x' * 30)
open('zero', 'w').close(); os.chmod('zero', 0)
"""


@pytest.mark.parametrize(
    ("path", "kind", "also", "number"),
    [
        ("none", errors.SandboxFileNotFoundError, FileNotFoundError, errno.ENOENT),
        ("d", errors.SandboxIsADirectoryError, IsADirectoryError, errno.EISDIR),
        ("big/x", errors.SandboxNotADirectoryError, NotADirectoryError, errno.ENOTDIR),
        ("zero", errors.SandboxPermissionError, PermissionError, errno.EACCES),
        ("big", errors.SandboxFileTooLargeError, OSError, errno.EFBIG),
        ("/dev/full", errors.SandboxNotRegularFileError, OSError, errno.ENXIO),
        ("loop", errors.SandboxInvalidPathError, OSError, errno.ELOOP),
        ("a\0b", errors.SandboxInvalidPathError, ValueError, errno.EINVAL),
    ],
)
def test_an_error_says_why_there_is_no_file(
    path: str, kind: type[errors.SandboxFileError], also: type[Exception], number: int
) -> None:
    with Sandbox() as session:
        session.run(MAKE)
        with pytest.raises(kind) as caught:
            session.get(path, limit=20)
        assert isinstance(caught.value, also)
        again = pickle.loads(pickle.dumps(caught.value))
        for error in (caught.value, again):
            assert (error.errno, error.path, str(error)) == (number, path, str(caught.value))
        assert session.run("1").value == "1"


def test_a_file_is_found_after_runs_that_left_none() -> None:
    with Sandbox() as session:
        for _ in range(3):
            session.run("1")
            time.sleep(0.05)
        # As many descriptors are open as before.
        done = session.run("import os; os.close(0); text = open('/output/text', 'w'); text.write('not closed')")
    assert dict(done.artifacts) == {"text": b"not closed"}


def test_the_time_of_runs_does_not_bound_files() -> None:
    content = bytes(8 << 20)
    with Sandbox(timeout_sec=0.001) as session:
        session.put("large", content)
        assert session.get("large") == content
        assert session.files() == {"large": len(content)}


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/dev/fd"])
def test_what_is_no_file_is_refused_and_does_not_end_the_session(path: str) -> None:
    with Sandbox(timeout_sec=10) as session:
        session.run("x = 1")
        with pytest.raises(errors.SandboxError, match=rf"^file '{path}': .*(is not a file|Is a directory)"):
            session.get(path)
        assert session.run("x").value == "1"
        assert session.get("/proc/self/comm")  # it has a size of 0, and content


def test_a_file_that_cannot_be_read_keeps_nothing_else_back() -> None:
    source = """
import os
for name in ("first", "second", "third"):
    with open(f"/output/{name}", "w") as file:
        file.write(name)
os.chmod("/output/second", 0)
print("said")
42
"""
    with Sandbox() as session:
        done = session.run(source)
        assert (done.error, done.exit_code, done.stdout, done.value) == (None, 0, "said\n", "42")
        closed = {"second": b"second"} if os.geteuid() == 0 else {}  # the caller reads it, and root may
        assert done.artifacts == {"first": b"first", "third": b"third"} | closed
        assert (done.left_out, done.truncated) == (() if closed else ("second",), not closed)


def test_paths_are_taken_where_a_path_is_meant(tmp_path: Path) -> None:
    with Sandbox() as session:
        session.put({Path("a/b"): "text"})
        assert session.get(Path("a/b")) == b"text"
        session.save(Path("a/b"), tmp_path / "copy")
        with pytest.raises(IsADirectoryError, match=f"name the file in it, too: '{re.escape(str(tmp_path))}'$"):
            session.save("a/b", str(tmp_path))
        assert session.run("import sys; sys.argv", argv=(Path("x"), "y")).value == "['-c', 'x', 'y']"
    assert (tmp_path / "copy").read_bytes() == b"text"


def test_files_that_are_open_are_whole_between_runs() -> None:
    with Sandbox() as session:
        done = session.run("out = open('/output/a', 'w'); out.write('hi'); log = open('log', 'w'); log.write('x')")
        assert dict(done.artifacts) == {"a": b"hi"}
        assert session.get("log") == b"x"
        done = session.run("out.write(' again'); 1 / 0")
        assert dict(done.artifacts) == {"a": b"hi again"}


@pytest.mark.root
def test_saving_a_file_does_not_follow_what_the_sandbox_made(tmp_path: Path) -> None:
    with Sandbox() as session:
        session.run("import os; os.symlink('/etc/passwd', 'link')")
        session.save("link", tmp_path / "copy")
    assert b"sandbox:x:0" in (tmp_path / "copy").read_bytes()
