"""Checkpoints, parked sessions, and several forks: states that a program keeps."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pysbx import Sandbox, SandboxError
from pysbx.base import runtime
from pysbx.base.directories import cache_directory
from pysbx.calls import saved
from tests.conftest import descriptors, own_containers
from tests.test_fork import value

pytestmark = pytest.mark.usefixtures("warm_starts")


def test_a_checkpoint_brings_memory_and_files_back(session: Sandbox) -> None:
    value(session, "x = [1]")
    session.put({"kept": "1", "changed": "1"})
    before = descriptors()
    first = session.checkpoint()
    value(session, "import os; x.append(2); os.remove('kept'); open('changed', 'w').write('2'); os.mkdir('made')")
    second = session.checkpoint()
    look = "import os; x, sorted(os.listdir()), open('changed').read()"
    for _ in range(2):
        session.rollback(first)
        assert value(session, look) == "([1], ['changed', 'kept'], '1')"
        session.rollback(second)
        assert value(session, look) == "([1, 2], ['changed', 'made'], '2')"
    assert own_containers() == 1
    first.remove()
    first.remove()
    assert (first.removed, second.removed) == (True, False)
    with session.fork() as other, pytest.raises(SandboxError, match="of another session, or was removed"):
        other.rollback(second)
    with pytest.raises(SandboxError, match="of another session, or was removed"):
        session.rollback(first)
    assert value(session, "x") == "[1, 2]"
    second.remove()
    assert descriptors() == before + 1  # its present container ends with a socket


def test_changes_are_compared_with_the_files_of_the_checkpoint(session: Sandbox) -> None:
    session.put({"kept": "1"})
    point = session.checkpoint()
    value(session, "open('made', 'w').write('2')")
    session.mark()
    session.park()
    assert session.changes() == []
    value(session, "open('kept', 'w').write('3')")
    session.pause()
    session.rollback(point)
    assert (session.paused, session.changes()) == (False, [])
    value(session, "open('kept', 'w').write('4')")
    assert [one.path for one in session.changes()] == ["kept"]
    session.discard()
    assert session.get("kept") == b"1"


def test_a_session_that_has_ended_goes_back_to_a_checkpoint(session: Sandbox) -> None:
    value(session, "x = 1")
    point = session.checkpoint()
    spent = session._cpu_sec
    session.run("import os; os._exit(3)")
    with pytest.raises(SandboxError, match="has ended"):
        session.run("x")
    session.rollback(point)
    assert value(session, "x") == "1"
    assert session._cpu_sec > spent
    session.close()
    assert point.removed
    with pytest.raises(SandboxError, match="was removed"):
        session.rollback(point)


def test_the_number_and_size_of_checkpoints_are_bounded(
    session: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(saved, "MOST_CHECKPOINTS", 2)
    points = [session.checkpoint() for _ in range(2)]
    with pytest.raises(SandboxError, match="has 2 checkpoints, which is the most: remove one"):
        session.checkpoint()
    points[0].remove()
    monkeypatch.setattr(saved, "MOST_BYTES", points[1].size + 1)
    before = descriptors()
    with pytest.raises(SandboxError, match=r"the checkpoints take more than .* together"):
        session.checkpoint()
    assert descriptors() == before
    session.rollback(points[1])
    assert value(session, "1") == "1"


def test_forks_share_large_blocks_until_they_write_or_resize_them(session: Sandbox) -> None:
    value(session, "data = bytes(range(251)) * 160000; size = len(data); grown, cut = bytearray(data), bytearray(data)")
    rollup = "{l.split()[0]: int(l.split()[1]) << 10 for l in open('/proc/self/smaps_rollup') if l.endswith('kB\\n')}"
    with session.fork() as fork, fork.fork() as second:
        for one in fork, second:
            value(one, "sum(data[::4096])")
            shared = f"(lambda found: found['Anonymous:'] < size < found['Rss:'])({rollup})"
            assert value(one, shared) == "True"
            value(one, "del cut[size // 2:]; cut.extend(data); grown.extend(data); grown[0] = 7")
            assert value(one, "cut[:size // 2] == data[:size // 2] and cut[size // 2:] == data") == "True"
            assert value(one, "grown[1:size] == data[1:] and grown[size:] == data and grown[0]") == "7"
    assert value(session, "grown == cut == data") == "True"


def test_several_forks_share_one_file_of_memory(session: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    value(session, "x = [str(n) for n in range(200000)]; y = 0")
    saves: list[int] = []
    save = runtime.save_process

    def counted(container: str, pid: int, descriptor: int, **more: bool) -> tuple[Any, int | None]:
        saves.append(pid)
        return save(container, pid, descriptor, **more)

    monkeypatch.setattr(runtime, "save_process", counted)
    before = descriptors()
    forks = session.fork(4)
    assert len(saves) == 1
    for number, fork in enumerate(forks):
        assert value(fork, f"y += {number}; len(x), y") == f"(200000, {number})"
    rollup = "{l.split()[0]: int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.endswith('kB\\n')}"
    found = value(forks[0], f"(lambda found: found['Private_Dirty:'] < found['Rss:'] * 0.7)({rollup})")
    assert found == "True"
    for fork in forks:
        fork.close()
    assert descriptors() == before
    steps: list[str] = []
    for step in Sandbox._begin_saved, Sandbox._continue:

        def noted(*arguments: Any, step: Any = step) -> None:
            steps.append(step.__name__)
            step(*arguments)

        monkeypatch.setattr(Sandbox, step.__name__, noted)
    more = session.fork(6)
    assert [value(fork, "len(x)") for fork in more] == ["200000"] * 6
    begin, go_on = "_begin_saved", "_continue"
    assert steps == [*[begin] * 4, *[go_on, begin] * 2, *[go_on] * 4]  # one that goes on lets the next one begin
    for fork in more:
        fork.close()
    assert session.fork(0) == []
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match="count"):
            session.fork(wrong)  # type: ignore[arg-type]


def test_a_parked_session_has_no_container_until_its_next_use(session: Sandbox) -> None:
    session.put({"data": "1"})
    value(session, "x = 41")
    files = sorted(os.listdir(cache_directory()))
    before = descriptors()
    for _ in range(2):
        session.park()
        session.park()
        assert own_containers() == 0
        session.interrupt()
        assert (session.ended, sorted(os.listdir(cache_directory()))) == ("", files)
        assert value(session, "x + 1, open('data').read()") == "(42, '1')"
        assert own_containers() == 1
    assert descriptors() == before + 1  # its present container ends with a socket
    session.park()
    point = session.checkpoint()
    value(session, "x = 42")
    session.park()
    session.rollback(point)
    assert value(session, "x") == "41"
    session.park()
    with session.fork() as fork:
        assert value(fork, "x") == "41"
    session.park()
    session.close()
    with pytest.raises(SandboxError, match="has been closed"):
        session.run("x")


def test_a_session_that_has_not_begun_has_nothing_to_park() -> None:
    made = Sandbox()
    made.park()
    assert own_containers() == 0
    made.close()


def test_a_forwarded_port_or_added_packages_are_named(path: Path) -> None:
    with Sandbox(warm="require", allow_network="localhost") as made:
        with made.forward(8000), pytest.raises(SandboxError, match="cannot be parked: a port is forwarded: close it"):
            made.park()
        made._sites.append(path)
        with pytest.raises(SandboxError, match=r"packages were added by install\(\)"):
            made.snapshot(path)
        made._sites.clear()
