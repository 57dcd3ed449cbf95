"""Trees that a sandbox has written: what a walk finds and refuses, within which bounds, and how they are removed."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from pysbx.base import trees
from tests.packages import make_deep


def found(top: Path, most: int = 1000) -> tuple[list[str], dict[str, str]]:
    """Return the paths that a walk yields, and those that it refuses with the reasons."""
    refused: dict[str, str] = {}
    with trees.opened_top(top) as place:
        return [file.path for file in trees.walk(place, refused.__setitem__, most)], refused


def test_a_walk_yields_regular_files_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/secret").touch()
    top = tmp_path / "top"
    (top / "b/c").mkdir(parents=True)
    for name in ("a", "z", "b/one", "b/c/two"):
        (top / name).touch()
    for name, target in (("b/up", "../.."), ("link", tmp_path / "host/secret"), ("directory", tmp_path / "host")):
        (top / name).symlink_to(target)
    os.mkfifo(top / "pipe")
    files, refused = found(top)
    assert files == ["a", "z", "b/one", "b/c/two"]
    assert refused == dict.fromkeys(["directory", "link", "pipe", "b/up"], trees.NO_FILE)


def test_a_walk_has_bounds(tmp_path: Path) -> None:
    make_deep(tmp_path, trees.MAX_DEPTH)
    assert found(tmp_path) == (["directory/" * trees.MAX_DEPTH + "file"], {})
    make_deep(tmp_path / "directory" / "directory", 0)
    with pytest.raises(trees.TooMany):
        found(tmp_path, trees.MAX_DEPTH)
    shutil.rmtree(tmp_path / "directory")
    make_deep(tmp_path, 3000)
    assert found(tmp_path) == ([], {"directory/" * (trees.MAX_DEPTH + 1): trees.DEEP})


def test_only_regular_files_are_read_and_not_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 40)
    with trees.opened_top(tmp_path) as top:
        place = {name: trees.Place(name, top.directory, name) for name in os.listdir(tmp_path)}
        assert trees.read(place["file"], 5) == b"12345"
        for name, limit, number in (
            ("file", 4, errno.EFBIG),
            ("hole", 1 << 20, errno.EFBIG),
            ("link", 5, errno.ELOOP),
            ("pipe", 5, errno.EINVAL),
        ):
            with pytest.raises(OSError, match=r".") as caught:
                trees.read(place[name], limit)
            assert caught.value.errno == number


def test_a_tree_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir(mode=0o755)
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(tmp_path / "host")
    make_deep(top, 3000)
    (top / "shut").mkdir()
    make_deep(top / "shut", 2)
    # A removal that was killed has left something, and modes keep its owner out.
    (top / ".gone-1").mkdir()
    (top / ".gone-1/file").touch()
    for name in ("shut/directory", "shut", "."):
        (top / name).chmod(0)
    trees.remove(top)
    assert os.listdir(tmp_path) == ["host"]
    assert (tmp_path / "host").stat().st_mode & 0o777 == 0o755
    trees.remove(top)


def test_a_link_in_the_place_of_a_tree_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "host/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("host")
    trees.remove(tmp_path / "link")
    assert (tmp_path / "host/inner").is_dir()


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    make_deep(tmp_path, 100)
    before = len(os.listdir("/proc/self/fd"))
    found(tmp_path)
    with pytest.raises(trees.TooMany):
        found(tmp_path, 10)
    with trees.opened_top(tmp_path) as top, pytest.raises(IsADirectoryError):
        trees.read(trees.Place("directory", top.directory, "directory"), 10)  # it was a file when it was found
    with pytest.raises(IsADirectoryError):
        trees.read_path(tmp_path, 10)
    trees.remove(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
