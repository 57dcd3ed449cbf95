"""Ready containers: created before the call that uses them."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pysbx import Mount, Sandbox, run_code, sandbox
from pysbx.base import runtime
from pysbx.container import ready
from pysbx.container.container import Container
from tests.conftest import containers, descriptors
from tests.servers import BEST_EFFORT, containers_of, wait_until
from tests.servers import PROGRAM as COMMAND

PROGRAM = """
import os, signal, sys
from pysbx import Sandbox, run_code
from pysbx.container import ready
from pysbx.container.container import Container
from tests.test_ready import waiting
run_code("pass"), run_code("pass")
[one] = waiting(1)
print(one.name, flush=True)
END
"""
FOR_STATE = """
session = Sandbox(warm="require", ready=1)
point = session.run("1") and session.checkpoint()
two = next(other for other in waiting(2) if other is not one)
print(two.name, flush=True)
"""


@pytest.fixture(autouse=True, scope="module")
def snapshot() -> None:
    """Let starts be warm: none is kept otherwise."""
    run_code("pass", warm="require", ready=0)


class Slow:
    """An argument that takes its time to be packed."""

    def __init__(self, number: int) -> None:
        """Keep a number."""
        self.number = number

    def __reduce__(self) -> Any:
        """Take more time than a comparison of files is valid for in a test."""
        time.sleep(0.1)
        return Slow, (self.number,)


def waiting(count: int) -> list[Container]:
    """Return the containers that wait, once there are so many."""
    end = time.monotonic() + 30
    while True:
        found = [container for pool in ready._pools.values() for container, _ in pool.waiting]
        if len(found) == count or time.monotonic() > end:
            assert len(found) == count
            return found
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """Return the children of a process's first thread."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def prepared(**options: object) -> Container:
    """Return the container that waits after two calls with these options."""
    for _ in range(2):
        run_code("pass", **options)  # type: ignore[arg-type]
    [one] = waiting(1)
    return one


@pytest.mark.root
def test_the_second_call_leaves_one_that_the_third_uses() -> None:
    run_code("pass")
    assert waiting(0) == []
    run_code("pass")
    [first] = waiting(1)
    assert run_code("import os; print(os.getpid())").exit_code == 0
    assert first._usage is not None
    [second] = waiting(1)
    assert second.name != first.name


def test_none_waits_with_ready_0_and_several_with_more() -> None:
    for _ in range(3):
        run_code("pass", ready=0)
    assert waiting(0) == []
    run_code("pass", ready=3)
    assert len({container.name for container in waiting(3)}) == 3


@pytest.mark.parametrize("preload", ["", "numpy"])
def test_a_container_that_waits_has_little_memory_and_uses_no_time(preload: str, virtualenv: str) -> None:
    options: dict[str, Any] = {"virtualenv": virtualenv, "preload": [preload], "memory_mb": 1024} if preload else {}
    run_code("pass", warm="require", ready=0, **options)
    one = prepared(**options)

    def uses_time() -> bool:
        before = one.recent_cpu_sec
        time.sleep(0.3)
        return one.recent_cpu_sec != before

    wait_until(lambda: not uses_time())  # it is created first
    [init] = children_of(one._process.pid)
    [worker] = children_of(init)
    status = Path(f"/proc/{worker}/status").read_text()
    assert "Name:\tpython" in status
    assert int(status.partition("RssAnon:")[2].split()[0]) < 4 * 1024


def test_state_is_that_of_one_call() -> None:
    code = "import os, random, time, uuid; print(os.listdir('/work'), random.random(), uuid.uuid4(), time.time())"
    run_code(code)
    seen = {run_code(code + "; open('/work/file', 'w')").stdout for _ in range(5)}
    assert len({text.split()[1] for text in seen}) == len({text.split()[2] for text in seen}) == 5
    assert {text.split()[0] for text in seen} == {"[]"}


def _replaced(path: Path) -> None:
    path.with_suffix(".new").write_text("2")
    path.with_suffix(".new").replace(path)


def _moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("other"))
    path.parent.mkdir()
    path.write_text("2")


@pytest.mark.root
@pytest.mark.parametrize("change", [_replaced, _moved])
def test_a_mount_shows_what_its_path_names_at_the_call(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "shown" / "value"
    path.parent.mkdir()
    path.write_text("1")
    shown = path if change is _replaced else path.parent
    options = {"mounts": [Mount(str(shown), "/mnt/shown")]}
    inside = "/mnt/shown" if change is _replaced else "/mnt/shown/value"
    prepared(**options)
    change(path)
    assert run_code(f"print(open({inside!r}).read())", **options).stdout == "2\n"  # type: ignore[arg-type]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_one_is_not_used_after_a_mount_beneath_its_directories_has_come_or_gone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"mounts": [Mount(str(tmp_path), "/mnt/shown")]}
    place, elsewhere = tmp_path / "a place", tmp_path.with_name("elsewhere")
    place.mkdir()
    elsewhere.mkdir()

    def is_used_after(*command: str) -> bool:
        one = prepared(**options)
        subprocess.run(command, check=True)
        run_code("pass", **options)
        return one.version is not None

    assert not is_used_after("mount", "-t", "tmpfs", "none", str(place))
    assert not is_used_after("umount", str(place))
    assert is_used_after("mount", "-t", "tmpfs", "none", str(elsewhere))
    assert is_used_after("umount", str(elsewhere))


@pytest.mark.parametrize("changed", ["later", "first", "here"])
def test_a_module_that_has_changed_is_imported_anew(tmp_path: Path, changed: str) -> None:
    """It is another file, or one that an import finds before it: in a directory of sys.path, or where the code runs."""
    for name in "later", "first", "here":
        (tmp_path / name).mkdir()
    (tmp_path / "later/changing.py").write_text("value = 1\n")
    options: dict[str, Any] = {
        "mounts": [Mount(str(tmp_path), "/mnt/modules")],
        "env": {"PYTHONPATH": "/mnt/modules/first:/mnt/modules/later"},
        "workdir": "/mnt/modules/here",
        "preload": ["changing"],
    }
    # A container that has started cold would fit, because it imports the module later. So there is a snapshot first.
    assert run_code("pass", warm="require", ready=0, **options).warm
    for _ in range(3):
        assert run_code("import changing; print(changing.value)", **options).stdout == "1\n"
    [one] = waiting(1)
    (tmp_path / changed / "changing.py").write_text("value = 22\n")
    assert run_code("import changing; print(changing.value)", **options).stdout == "22\n"
    assert one.version is None  # it got no request


def test_times_that_modules_keep_are_those_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "timed.py").write_text("import time\nbegan = time.time()\n")
    options: dict[str, Any] = {"mounts": [Mount(str(tmp_path), "/mnt/modules")], "preload": ["timed"]}
    options["env"] = {"PYTHONPATH": "/mnt/modules"}
    one = prepared(**options)
    time.sleep(2)
    done = run_code("import time, timed; print(time.time() - timed.began)", **options)
    assert float(done.stdout) < 1.5
    assert one.version is not None


def test_one_that_was_asked_long_ago_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files may have changed while the request was prepared."""

    @sandbox
    def double(number: Slow) -> int:
        return 2 * number.number

    one = prepared()
    monkeypatch.setattr(ready, "VALID_SEC", 0.05)
    assert double(Slow(21)) == 42
    assert one.version is None


def test_the_time_limit_counts_from_the_call() -> None:
    prepared(timeout_sec=1)
    time.sleep(1.2)
    done = run_code("import time; time.sleep(0.1)", timeout_sec=1)
    assert not done.timed_out
    assert done.usage.wall_sec < 1


def test_a_session_uses_one_too() -> None:
    for _ in range(2):
        with Sandbox() as session:
            session.run("1")
    [one] = waiting(1)
    with Sandbox() as session:
        assert session.run("6 * 7").value == "42"
        assert session._container is one


@pytest.mark.parametrize("reaches", [False, True])
def test_a_session_is_parked_before_its_container_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaches: bool
) -> None:
    """But not if its programs could still write to the caller's files. close() waits always."""
    kill, held = Container.kill, threading.Event()

    def killed(container: Container) -> None:
        held.wait(60)
        kill(container)

    mounts = [Mount(str(tmp_path), "/shared", readonly=not reaches)]
    with Sandbox(mounts=mounts, warm="require") as session:
        name = session.run("1") and session._container.name  # type: ignore[union-attr]
        with monkeypatch.context() as patched:
            patched.setattr(Container, "kill", killed)
            if reaches:
                held.set()
            session.park()
            assert (name in containers()) is not reaches
            held.set()
            ready.close()
        assert name not in containers()
        name = session.run("1") and session._container.name  # type: ignore[union-attr]
    assert name not in containers()


@pytest.mark.parametrize("compared", [False, True])
def test_one_that_was_removed_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch, compared: bool) -> None:
    """Also after it has compared its files."""
    one, ask = prepared(), Container.order

    def end() -> None:
        runtime.kill(one.name)
        assert one._process.has_ended(30)

    def order(container: Container) -> None:
        ask(container)
        assert container._order is not None
        assert select.select([container._order], [], [], 30)[0]
        end()

    if compared:
        monkeypatch.setattr(ready, "VALID_SEC", 60)
        monkeypatch.setattr(Container, "order", order)
    else:
        end()
    assert run_code("print(6 * 7)").stdout == "42\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="containers of the tests' user have no cgroup to freeze")
def test_one_that_is_frozen_is_replaced_at_once() -> None:
    """Its worker would answer nothing, and the call would end with its time."""
    one = prepared()
    wait_until(lambda: runtime.call("pause", one.name).returncode == 0)  # it may still be creating
    assert run_code("print(6 * 7)").stdout == "42\n"
    assert one.name not in containers()


def test_calls_of_threads_do_not_share_one() -> None:
    prepared()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(run_code("print(6 * 7)").stdout)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["42\n"] * 4


def test_a_fork_of_the_program_has_none_and_its_calls_have_their_own() -> None:
    one = prepared()
    child = os.fork()
    if child == 0:
        right = not ready._pools and run_code("print(6 * 7)").stdout == "42\n"
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run_code("print(6 * 7)").stdout == "42\n"
    assert one._usage is not None


def test_calls_need_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ready.close()
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        if thread.name == "pysbx-ready":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(ready, "_thread", None)
        patch.setattr(threading.Thread, "start", fails)
        for _ in range(3):
            assert run_code("print(6 * 7)").stdout == "42\n"
    assert run_code("print(6 * 7)").stdout == "42\n"


def test_it_is_removed_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared()
    monkeypatch.setattr(ready, "KEPT_SEC", 0.01)
    with ready._changed:
        ready._changed.notify_all()
    waiting(0)
    ready.close()  # until the thread has removed it
    assert [name for name in containers() if f"-{os.getpid()}-" in name] == []


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_end_of_the_program_removes_it(end: str) -> None:
    """Also one that waits for the state of a session."""
    command = [sys.executable, "-c", PROGRAM.replace("END", FOR_STATE + end)]
    program = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert program.returncode in (0, -signal.SIGKILL)
    names = set(program.stdout.split())
    assert len(names) == 2
    wait_until(lambda: not names & {*containers()})


def test_options_that_are_used_once_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "MOST_POOLS", 2)
    for number in range(4):
        run_code("pass", env={"NUMBER": str(number)})
    assert len(ready._pools) == 2


@pytest.mark.root
@pytest.mark.parametrize("call", [lambda: run_code("pass"), sandbox(lambda: None)])
def test_many_calls_leave_nothing(call: Callable[[], object]) -> None:
    for _ in range(3):
        call()
    before = held()
    for _ in range(random.choice((50, 51))):
        call()
    assert held() == before


def held() -> tuple[int, list[str], list[str], int]:
    """Return the descriptors, containers, cgroups and processes of this program, when no container waits any more."""
    opened = descriptors()
    cgroups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"*python-{os.getpid()}-*")]
    children = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return (
        opened,
        [name for name in containers() if f"-{os.getpid()}-" in name],
        cgroups,
        len("".join(children).split()),
    )


def test_the_answer_of_a_call_comes_before_the_end_of_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    late: list[str] = []

    def hear(text: str) -> None:
        if answered.is_set():
            late.append(text)

    @sandbox(on_stdout=hear)
    def stay() -> int:
        """Let the answer come, and the process stay, which writes."""
        from pysbx_inside import worker  # type: ignore[import-not-found] # the sandbox has it

        def write_on(_: int) -> None:
            while os.write(1, b"late\n"):
                time.sleep(0.05)

        worker.os = type("Staying", (), {**vars(os), "_exit": write_on})
        return 6 * 7

    monkeypatch.setattr(ready, "GRACE_SEC", 3.0)
    one = prepared()
    assert stay() == 42
    answered.set()
    assert one.name in containers()
    wait_until(lambda: one.name not in containers())
    wait_until(lambda: one._usage is not None)  # a thread counts it after that
    assert late == []  # it is the output of no call: another one has begun meanwhile


@pytest.mark.parametrize("reaches", [{"writable": True}, {"allow_network": ["example.org"]}, {}])
def test_a_call_that_reaches_outside_waits_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaches: dict[str, Any]
) -> None:
    """A program that goes on could still write to the caller's files, or send."""
    writable = reaches.pop("writable", False)
    options: dict[str, Any] = {"mounts": [Mount(tmp_path, "/data", readonly=not writable)], **reaches}
    handed: list[Container] = []

    def hand(container: Container) -> bool:
        handed.append(container)
        return False

    monkeypatch.setattr(ready, "_let_end", hand)

    @sandbox(**options)
    def double(number: int) -> int:
        return 2 * number

    prepared(**options)
    assert double(21) == 42
    assert len(handed) == (0 if writable or reaches else 1)


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], object]]]:
    """Start `pysbx serve`, and return it with a function that lets it run code."""
    command = [*COMMAND, "serve", BEST_EFFORT, "--listen", f"unix:{folder}/s"]
    process = subprocess.Popen(command, env={**os.environ, "PYSBX_READY": "1"}, stderr=subprocess.DEVNULL, text=True)
    wait_until((folder / "s").exists)
    way = httpx.HTTPTransport(uds=f"{folder}/s", retries=10, verify=False)
    with httpx.Client(transport=way, base_url="http://pysbx", timeout=60, verify=False) as client:
        yield process, lambda: client.post("/v1/run", json={"code": "6 * 7"}).json()["value"]


@contextmanager
def offered(_: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], object]]]:
    """Do the same with `pysbx mcp`."""
    from tests.clients import answer_of, begin, run_of, send

    def run() -> object:
        send(process, run_of(1, "6 * 7"))
        return answer_of(process)["result"]["content"][0]["text"].splitlines()[0]

    process = begin(PYSBX_READY="1")
    with process:
        yield process, run
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("service", [served, offered])
def test_a_service_uses_one_and_leaves_none(tmp_path: Path, service: Callable[..., Any], end: signal.Signals) -> None:
    with service(tmp_path) as (process, run):
        try:
            wait_until(lambda: run() == "42" and len(containers_of(process.pid)) == 1)
            [first] = containers_of(process.pid)
            assert run() == "42"
            wait_until(lambda: first not in containers_of(process.pid))
            wait_until(lambda: len(containers_of(process.pid)) == 1)
        finally:
            process.send_signal(end)
            process.wait()
    wait_until(lambda: containers_of(process.pid) == [])
