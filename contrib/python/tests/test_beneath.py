"""Paths beneath a root that is not trusted: where links lead, and what is refused."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysbx.base import beneath


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A descriptor of an empty root, beside a directory of the host."""
    (tmp_path / "root").mkdir()
    (tmp_path / "host").mkdir()
    descriptor = os.open(tmp_path / "root", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("up", ["", "../../../../../../../../../.."])
def test_links_end_within_the_root(root: int, tmp_path: Path, up: str) -> None:
    (tmp_path / "root/link").symlink_to(f"{up}{tmp_path}/host")
    beneath.make_directory(root, "/link/a/b")
    beneath.write_in_root(root, "/link/c/file", b"content")
    beneath.write_in_root(root, "/link/c/file")
    inside = tmp_path / "root" / str(tmp_path)[1:] / "host"
    assert os.listdir(tmp_path / "host") == []
    assert (inside / "a/b").is_dir()
    assert (inside / "c/file").read_text() == "content"
    assert beneath.is_file(root, "/link/c/file")
    assert not beneath.is_file(root, "/link/c")


def test_a_link_in_the_place_of_a_file_is_not_written_through(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/file").symlink_to(tmp_path / "host/file")
    with pytest.raises(FileNotFoundError):
        beneath.write_in_root(root, "/file", b"content")
    (tmp_path / "host/file").write_text("host")
    with pytest.raises(FileNotFoundError):
        beneath.write_in_root(root, "/file", b"content")
    assert (tmp_path / "host/file").read_text() == "host"
    assert not beneath.is_file(root, "/file")


def test_links_of_proc_and_circles_are_refused(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/a").symlink_to("b")
    (tmp_path / "root/b").symlink_to("a")
    proc = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY)
    try:
        for directory, path in ((root, "/a/x"), (proc, "/cwd"), (proc, "/root/etc")):
            with pytest.raises(OSError, match="symbolic links") as caught:
                beneath.make_directory(directory, path) if directory == root else beneath.open_in_root(directory, path)
            assert caught.value.errno == errno.ELOOP
    finally:
        os.close(proc)


@pytest.mark.parametrize("path", ["..", "/a/../b", "../a"])
def test_no_way_up(root: int, path: str) -> None:
    with pytest.raises(ValueError, match=r"\.\."):
        beneath.make_directory(root, path)
    with pytest.raises(ValueError, match=r"\.\."):
        beneath.write_in_root(root, path)


def test_modes_do_not_depend_on_the_umask_and_stay_within(root: int, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.chmod(0o700)
    before = os.umask(0o077)
    try:
        beneath.write_in_root(root, "/a/file", b"1")
    finally:
        os.umask(before)
    (tmp_path / "root/a/link").symlink_to(host)
    (tmp_path / "root/pipe").mkdir()
    os.mkfifo(tmp_path / "root/pipe/fifo", 0o600)
    beneath.make_public(root)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("root", "root/a", "root/a/file", "host")]
    assert modes == [0o755, 0o755, 0o644, 0o700]
    assert stat.S_IMODE((tmp_path / "root/pipe/fifo").stat().st_mode) == 0o600


def test_no_descriptor_stays_open(root: int, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        beneath.write_in_root(root, "/a/b/c", b"1")
        with pytest.raises(NotADirectoryError):
            beneath.write_in_root(root, "/a/b/c/d", b"1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    root = os.open("/dev", os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            beneath.write_in_root(root, "/full", b"text")
    finally:
        os.close(root)
    assert caught.value.filename == "/full"
