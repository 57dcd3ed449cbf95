"""isolation="process": a process without a container keeps the promises that THREAT-MODEL.md lists for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pysbx import LimitsNotEnforceableError, Mount, Sandbox, SandboxOptionError, SandboxTimeoutError, run_code, sandbox
from pysbx.base.directories import entered_directory
from pysbx.calls.execution import Execution
from tests.servers import server
from tests.test_command import pysbx

# A function for the code: what an attempt gives, or the number of its error.
ATTEMPT = """
import errno, os
def attempt(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except OSError as error:
        return errno.errorcode[error.errno]
"""
DENIED = "PermissionError: [Errno 13] Permission denied"


def run(source: str, **options: Any) -> Execution:
    """Run source text in a process."""
    return run_code(ATTEMPT + source, isolation="process", **options)


def value_of(source: str, **options: Any) -> str:
    """Return the value of the last expression of source text that is run in a process."""
    done = run(source, **options)
    assert done.error is None, done.error
    assert done.value is not None
    return done.value


def runs() -> list[str]:
    """Return the names of the directories of runs that are there."""
    return os.listdir(entered_directory() / "runs")


@pytest.fixture(autouse=True)
def nothing_of_a_run() -> Any:
    """After every test: no directory of a run and no process of a runtime is left."""
    yield
    deadline = time.monotonic() + 20
    while runs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert runs() == []
    assert processes("confine --bundle") == []


def processes(words: str) -> list[int]:
    """Return the processes with these words in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if words.encode() in line and int(name) != os.getpid():
            found.append(int(name))
    return found


# Reports.


def test_it_is_never_chosen_silently_and_every_result_names_it(tmp_path: Path) -> None:
    assert run_code("1").isolation == "container"
    done = run("1")
    assert (done.isolation, done.warm) == ("process", False)
    assert dict(done.limits) == {"memory": "rlimit", "cpu": "rlimit", "pids": "rlimit"}
    assert run("1", profile="minimal").isolation == "process"
    said = json.loads(pysbx("run", "--isolation", "process", "--json", "-c", "40 + 2").stdout)
    assert (said["isolation"], said["value"]) == ("process", "42")


def test_a_server_has_it_for_all_callers_and_says_so(tmp_path: Path) -> None:
    with server("--isolation", "process", "--allow-profile", "minimal", listen=f"unix:{tmp_path}/socket") as found:
        answer = found.run("40 + 2")
        assert (answer["value"], answer["isolation"]) == ("42", "process")
        assert found.run("1", profile="minimal")["isolation"] == "process"
        assert found.post("/v1/run", code="1", isolation="container").status_code == 422


def test_warm_says_that_every_start_is_cold() -> None:
    said = json.loads(pysbx("warm", "--isolation", "process", "--json").stdout)
    assert (said["warm"], said["reason"]) == (False, "without a container, every interpreter starts cold")


def test_doctor_reports_it() -> None:
    checks = {check["name"]: check for check in json.loads(pysbx("doctor", "--json").stdout)}
    assert checks["isolation process"]["status"] == "ok"
    assert "on request only" in checks["isolation process"]["found"]


REFUSED = (
    ({"allow_network": ["example.org"]}, "allow_network: there is no network"),
    ({"allow_network": "host"}, "allow_network: there is no network"),
    ({"warm": "require"}, "warm: 'require': every interpreter starts cold"),
    ({"landlock": '{"filesystem": {"read": ["/"]}}'}, "landlock: the ruleset is fixed"),
    ({"workdir": "/tmp"}, "workdir: '/tmp': code starts in a new directory"),
    ({"mounts": [Mount("/etc", "/data")]}, "mounts: '/etc' cannot be at '/data'"),
    ({"rootfs": "/"}, "rootfs: needs isolation='container'"),
    ({"image": "localhost/python"}, "image: needs isolation='container'"),
    ({"dependencies": ["six"]}, "dependencies: needs isolation='container'"),
)


@pytest.mark.parametrize(
    ("options", "said"), REFUSED, ids=[said.partition(":")[0] + str(i) for i, (_, said) in enumerate(REFUSED)]
)
def test_an_option_that_only_a_container_can_keep_is_refused(options: Any, said: str) -> None:
    with pytest.raises(SandboxOptionError, match=said):
        run("1", **options)


def test_strict_limits_are_refused() -> None:
    with pytest.raises(LimitsNotEnforceableError, match="has no cgroup"):
        run("1", limits="strict")
    with pytest.raises(LimitsNotEnforceableError, match=r"^io_mb_per_sec, but .* has no cgroup"):
        run("1", io_mb_per_sec=5)


# Files.


def test_files_of_the_caller_are_out_of_reach(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == os.geteuid():
            directory.chmod(0o755)
    tried = f"""
import glob
[attempt(open, {str(secret)!r}), attempt(os.listdir, {str(tmp_path)!r}), attempt(os.listdir, "/"),
 attempt(open, "/etc/passwd"), attempt(os.link, {str(secret)!r}, "link"), attempt(os.truncate, {str(secret)!r}, 0),
 attempt(os.rename, {str(secret)!r}, "moved"), attempt(os.unlink, {str(secret)!r}),
 attempt(open, {str(tmp_path / "new")!r}, "w"), attempt(open, "/dev/shm/new", "w"), attempt(open, "/tmp/new", "w")]
"""
    denied = set(eval(value_of(tried)))
    assert denied <= {"EACCES", "EPERM", "EXDEV"}, denied
    assert secret.read_text() == "key"
    assert not Path("/dev/shm/new").exists()


def test_modes_owners_and_times_of_files_stay(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("")
    mine.chmod(0o640)
    before = mine.stat()
    tried = f"[attempt(os.chmod, {str(mine)!r}, 0o777), attempt(os.utime, {str(mine)!r}, (1, 1)), "
    tried += f"attempt(os.chown, {str(mine)!r}, {os.geteuid()}, {os.getegid()})]"
    assert value_of(tried) == "[None, None, 'EPERM']"
    after = mine.stat()
    assert (after.st_mode, after.st_mtime, after.st_uid) == (before.st_mode, before.st_mtime, before.st_uid)


def test_the_configuration_and_the_directories_of_a_run_cannot_be_replaced() -> None:
    tried = """
top = os.environ["PYSBX_DIRECTORY"]
[attempt(open, f"{top}/config.json"), attempt(open, f"{top}/config.json", "w"), attempt(os.listdir, top),
 attempt(os.rename, f"{top}/output", f"{top}/other"), attempt(os.rmdir, f"{top}/output")]
"""
    assert set(eval(value_of(tried))) <= {"EACCES", "EPERM", "EXDEV"}


def test_it_needs_no_directory_that_root_alone_can_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # as a login of root sets it
    done = pysbx("run", "--isolation", "process", "-c", "print(6 * 7)")
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_files_go_in_and_out() -> None:
    source = """
open("made.csv", "w").write(open("given.txt").read())
with open(os.path.join(os.environ["PYSBX_DIRECTORY"], "output", "out.txt"), "w") as file: file.write("out")
import shutil, tempfile
shutil.copy("given.txt", tempfile.mkdtemp())
input()
"""
    done = run(source, files={"given.txt": "text"}, collect=["*.csv"], stdin="line\n")
    assert done.error is None
    assert done.artifacts == {"out.txt": b"out", "made.csv": b"text"}


def test_a_program_has_its_file_and_a_module_beside_it() -> None:
    done = run_code(
        "import helper\nprint(__file__ == __import__('sys').argv[0], helper.answer)",
        files={
            "main.py": "import helper\nprint(__file__ == __import__('sys').argv[0], helper.answer)",
            "helper.py": "answer = 42",
        },
        name="main.py",
        isolation="process",
    )
    assert done.stdout == "True 42\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import multiprocessing; multiprocessing.Lock()",
            "pools of processes need isolation='container': use threads",
        ),
        ("import multiprocessing; multiprocessing.Value('i')", "pools of processes need isolation='container'"),
        ("from concurrent.futures import ProcessPoolExecutor as Pool; Pool(1).submit(abs, -1)", "pools of processes"),
        ("from multiprocessing.shared_memory import SharedMemory as S; S(create=True, size=9)", "shared memory"),
        ("open('/tmp/x', 'w')", "without isolation='container', files are in the directories below $PYSBX_DIRECTORY"),
        ("import sqlite3; sqlite3.connect('/tmp/x.db').execute('create table t(a)')", "below $PYSBX_DIRECTORY"),
    ],
)
def test_what_needs_a_container_is_said_so(source: str, said: str) -> None:
    error = run(source).error
    assert error is not None and said in (error.hint or "")


def test_mounts_keep_their_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for directory in tmp_path.parents:
        if directory.stat().st_uid == os.geteuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o011)
    (tmp_path / "data").write_text("data")
    reads, writes = f"open({str(tmp_path / 'data')!r}).read()", f"attempt(open, {str(tmp_path / 'new')!r}, 'w')"
    assert value_of(f"[{reads}, {writes}]", mounts=[Mount(tmp_path)]) == "['data', 'EACCES']"
    assert "TextIO" in value_of(f"str({writes})", mounts=[Mount(tmp_path, readonly=False)])
    assert (tmp_path / "new").exists()


def test_of_files_and_directories_that_it_may_not_read_it_learns_no_content_and_no_name(tmp_path: Path) -> None:
    """Landlock controls neither extended attributes nor inotify."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == os.geteuid():
            directory.chmod(0o755)
    (tmp_path / "file").write_text("")
    with contextlib.suppress(OSError):  # this file system has no attributes: the calls are refused all the same
        os.setxattr(tmp_path / "file", "user.note", b"content")
    tried = f"""
import ctypes
library = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    return library.syscall(number, *arguments), errno.errorcode.get(ctypes.get_errno())
file = {str(tmp_path / "file")!r}
descriptor = os.open(file, os.O_PATH)
[attempt(os.getxattr, file, "user.note"), attempt(os.getxattr, file, "user.note", follow_symlinks=False),
 attempt(os.getxattr, f"/proc/self/fd/{{descriptor}}", "user.note"), attempt(os.listxattr, file),
 attempt(os.listxattr, file, follow_symlinks=False), attempt(os.listxattr, os.open("mine", os.O_CREAT)),
 *(call(number, 0, b"/", 0xfff) for number in (253, 294, 254, 300))] # inotify_init, _init1, _add_watch; fanotify_init
"""
    answers = eval(value_of(tried))
    assert answers[:6] == ["ENOTSUP"] * 6
    assert answers[6:] == [(-1, "ENOSYS")] * 3 + [(-1, "EPERM")]


def test_of_proc_it_reads_only_named_files() -> None:
    tried = """
names = ("net/dev", "net/tcp", "net/unix", "mountinfo", "mounts", "mountstats", "cgroup", "task", "ns", "attr/current",
         "mem", "root/etc/passwd", "sched", "wchan", "oom_score", "io", "fdinfo/0", "task/%d/net/dev" % os.getpid())
[name for name in names if attempt(os.open, f"/proc/self/{name}", os.O_RDONLY) not in ("EACCES", "ENOENT")]
"""
    assert value_of(tried) == "[]"
    tops = "('net/dev', 'mounts', 'sys/kernel/random/boot_id', 'partitions', 'version', 'meminfo')"
    assert (
        value_of(f"[name for name in {tops} if attempt(open, f'/proc/{{name}}') != 'EACCES']")
        == "['version', 'meminfo']"
    )
    read = "[name for name in ('status', 'stat', 'statm', 'maps', 'cmdline') if open(f'/proc/self/{name}').read()]"
    assert value_of(f"{read}, len(os.listdir('/proc/self/fd')) > 3") == (
        "(['status', 'stat', 'statm', 'maps', 'cmdline'], True)"
    )


def test_requests_of_ioctl_are_a_list() -> None:
    """Others change the flags of inodes, send signals to processes, or reach drivers: ioctl_iflags(2), fcntl(2)."""
    tried = """
import fcntl, struct, termios
file = os.open("mine", os.O_CREAT | os.O_RDWR)
# FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FIOASYNC, FIOSETOWN, SIOCSPGRP, FIGETBSZ, FIFREEZE, TIOCSTI
requests = (0x80086601, 0x40086602, 0x401C5820, 0x5452, 0x8901, 0x8902, 2, 0xC0045877, 0x5412)
one, two = os.pipe()
os.write(two, b"four")
[*(attempt(fcntl.ioctl, descriptor, request, bytes(64)) for request in requests for descriptor in (file, 0)),
 struct.unpack("i", fcntl.ioctl(one, termios.FIONREAD, bytes(4))), os.isatty(file), os.set_inheritable(file, True)]
"""
    answers = eval(value_of(tried))
    assert answers[-3:] == [(4,), False, None]
    assert set(answers[:-3]) == {"EPERM"}


def test_the_instances_of_inotify_of_the_callers_user_stay_free() -> None:
    source = "import ctypes\nlibrary = ctypes.CDLL(None)\nsum(library.inotify_init1(0) >= 0 for _ in range(300))"
    assert value_of(source) == "0"


# Other processes.


def test_nothing_of_other_processes_can_be_read() -> None:
    tried = f"""
pids = [os.getppid(), {os.getpid()}, 1]
names = ["environ", "cmdline", "maps", "mem", "status", "stat"]
[*(attempt(open, f"/proc/{{pid}}/{{name}}") for pid in pids for name in names), attempt(os.listdir, "/proc"),
 *(attempt(os.readlink, f"/proc/{{pid}}/{{name}}") for pid in pids for name in ("exe", "cwd", "root"))]
"""
    assert set(eval(value_of(tried))) == {"EACCES"}
    assert value_of("open('/proc/self/status').read(4)") == "'Name'"


def test_other_processes_get_no_signal_and_no_limit() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: got.append(number))
    try:
        tried = f"""
import fcntl, resource, signal
pids = [os.getppid(), {os.getpid()}]
[*(attempt(os.kill, pid, number) for pid in pids for number in (0, signal.SIGUSR2, signal.SIGKILL)),
 *(attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (3, 3)) for pid in pids),
 *(attempt(os.sched_setaffinity, pid, [0]) for pid in pids),
 *(attempt(os.setpriority, os.PRIO_PROCESS, pid, 19) for pid in pids),
 attempt(os.setpriority, os.PRIO_USER, 0, 19),
 attempt(fcntl.fcntl, 1, fcntl.F_SETOWN, pids[0])]
"""
        assert set(eval(value_of(tried))) <= {"EPERM", "ESRCH"}
        # To all processes that it may reach: there is none but itself.
        assert value_of(
            "import signal\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)\nattempt(os.kill, -1, signal.SIGUSR2)\n1"
        )
        assert got == []
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_system_calls_that_reach_other_processes_are_refused() -> None:
    tried = f"""
import ctypes
library = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    return getattr(library, name)(*arguments), errno.errorcode.get(ctypes.get_errno())
buffer = ctypes.create_string_buffer(64)
[call("ptrace", 16, os.getppid(), 0, 0), call("ptrace", 0x4206, {os.getpid()}, 0, 0),
 call("process_vm_readv", {os.getpid()}, buffer, 1, buffer, 1, 0), call("shmget", 1, 4096, 0o1600),
 call("msgget", 1, 0o1600), call("semget", 1, 1, 0o1600), call("unshare", 0x10000000), call("setsid"),
 call("setpgid", 0, 0), call("syscall", 434, {os.getpid()}, 0), call("syscall", 425, 1, buffer)]
"""
    assert {said for _, said in eval(value_of(tried))} <= {"EPERM", "ENOSYS"}


def test_there_are_no_sockets_but_pairs(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, socket.socket() as listening:
        bound.bind(str(tmp_path / "socket"))
        bound.listen()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        tried = f"""
import asyncio, socket
one, two = socket.socketpair()
one.send(b"text")
async def main(): return await asyncio.sleep(0, "asyncio")
[two.recv(4), asyncio.run(main()),
 *(attempt(socket.socket, family, kind)
   for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
   for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)),
 attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM), attempt(two.connect, {str(tmp_path / "socket")!r})]
"""
        pair, loop, *others = eval(value_of(tried))
        assert (pair, loop) == (b"text", "asyncio")
        assert set(others) <= {"EAFNOSUPPORT", "EPERM"}


# Ends and limits.


COUNT = """
import time
count = 0
while (pid := attempt(os.fork)) != "EAGAIN":
    if pid == 0:
        time.sleep(1000)
    count += 1
count
"""


def test_processes_end_with_the_call() -> None:
    source = """
import signal, time
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
            time.sleep(1000)
        os._exit(0)
print("done")
"""
    done = run(source)
    assert (done.error, done.stdout) == (None, "done\n")
    assert processes("pysbx_inside.worker") == []


OTHER_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")
RUN = """
import subprocess, sys
from pysbx import run_code
done = run_code(sys.argv[1], isolation="process", max_processes=20)
print(done.stdout if done.error is None else done.error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of another user, in two pid namespaces")
def test_processes_of_the_user_that_cannot_be_seen_take_no_place() -> None:
    """The kernel counts a user in all pid namespaces, as when two containers of a machine have the same user."""
    user = ["setpriv", "--reuid=4799", "--regid=4799", "--clear-groups"]
    program = f"{ATTEMPT}{COUNT}print(count)"
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 4799, 4799)
        places = {"HOME": folder, "XDG_RUNTIME_DIR": folder, "TMPDIR": folder}
        sleeping = "import os, time\n" + "os.fork()\n" * 6 + "time.sleep(60)"  # 64 processes
        others = subprocess.Popen([*user, sys.executable, "-c", sleeping])
        try:
            done = subprocess.run(
                [*OTHER_PID_NAMESPACE, *user, sys.executable, "-c", RUN, program],
                env={**os.environ, **places}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            subprocess.run([*user, "kill", "-KILL", "--", "-1"], check=False)
            others.wait()
    assert (done.stdout.strip(), done.stderr) == ("19", "")


def test_a_fork_bomb_is_bounded_and_ends() -> None:
    done = run("while True:\n    attempt(os.fork)", timeout_sec=2, max_processes=20)
    assert done.timed_out
    assert processes("pysbx_inside.worker") == []
    if os.geteuid() == 0:  # it is a user of its own, whose processes are counted exactly
        assert value_of(COUNT, max_processes=20) == "19"


def test_time_and_memory_are_bounded() -> None:
    assert run("while True: pass", timeout_sec=1).timed_out
    with pytest.raises(SandboxTimeoutError):
        sandbox(isolation="process", timeout_sec=1)(_spin)()
    done = run("bytearray(3 << 30)", memory_mb=128)
    assert done.error is not None and done.error.type == "MemoryError"
    assert run("open('large', 'wb').write(bytes(3 << 20))", file_size_mb=1).error is not None


def _spin() -> None:
    while True:
        pass


def test_the_kinds_of_its_end() -> None:
    assert run("os._exit(7)").exit_code == 7
    assert run("raise SystemExit(3)").exit_code == 3
    killed = run("import signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert killed.exit_code == 137
    assert killed.error is not None and killed.error.type == "Crash"


CALLER = """
from pysbx import run_code
code = "print(1, flush=True)\\nimport time\\ntime.sleep(1000)"
run_code(code, isolation="process", timeout_sec=900, on_stdout=lambda text: print(text, end="", flush=True))
"""


def test_the_processes_end_with_a_caller_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None and caller.stdout.readline() == b"1\n"
        assert processes("pysbx_inside.worker")
        caller.kill()
    deadline = time.monotonic() + 20
    while processes("pysbx_inside.worker") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes("pysbx_inside.worker") == []
    assert len(runs()) == 1
    run("1")  # removes the directory of the other one


def test_a_deep_tree_of_directories_is_removed() -> None:
    source = """
for _ in range(1500):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
    open("file", "w")
os.umask(0o777)
os.mkdir("closed")
"""
    assert run(source).error is None
    assert runs() == []


def test_the_process_has_no_privilege() -> None:
    said = value_of("open('/proc/self/status').read()")
    assert "NoNewPrivs:\\t1" in said and "CapEff:\\t0000000000000000" in said and "CapPrm:\\t0000000000000000" in said
    own = eval(value_of("[os.getuid(), os.getgid()]"))
    assert (own == [os.getuid(), os.getgid()]) == (os.geteuid() != 0)
    assert "SECRET" not in value_of("str(dict(os.environ))")


# Sessions and functions.


def test_a_session_keeps_its_state_and_can_be_interrupted() -> None:
    with Sandbox(isolation="process") as session:
        assert session.shell("echo $((6 * 7)); pwd", cwd="/work").stdout.splitlines()[0] == "42"
        assert session.shell("sleep 60", timeout_sec=0.5).timed_out
        session.run("kept = 41")
        session.put({"file": "text"})
        assert session.files() == {"file": 4}
        assert session.get("file") == b"text"
        timer = threading.Timer(1, session.interrupt)
        timer.start()
        done = session.run("import time\ntime.sleep(60)")
        assert done.error is not None and done.error.type == "KeyboardInterrupt"
        assert session.run("kept + 1").value == "42"
        session.remove("file")
        assert session.files() == {}


def test_a_function_returns_its_value(virtualenv: str) -> None:
    def twice(number: int) -> int:
        return 2 * number

    assert sandbox(isolation="process")(twice)(21) == 42
    assert value_of("import numpy\nint(numpy.arange(4).sum())", virtualenv=virtualenv) == "6"
