"""Sandboxes of a program in an unusual state: signals that it ignores, few descriptors, unusual variables."""

# once: the caller's rights make no difference

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Literal

import pytest
import trio

from pysbx import Mount, Sandbox, SandboxExecutionError, run_code, run_code_async, sandbox
from pysbx.base import children
from pysbx.errors import SandboxError, SandboxOptionError
from pysbx.options.profiles import STAGES, load

# Dispositions of SIGCHLD that a program sets before it uses the package.
DISPOSITIONS = {
    "ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "reaped": """
def reap(number, frame):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
""",
}
PROGRAM = """
import os, signal
from pysbx import Sandbox, run_code
from pysbx.base import children, runtime
{}
before = signal.getsignal(signal.SIGCHLD)
for source, code in (("import os; os._exit(7)", 7), ("import ctypes; ctypes.string_at(0)", 139), ("1", 0)):
    done = run_code(source)
    assert done.exit_code == code, (done, code)
    assert done.usage.cpu_sec > 0
with Sandbox() as session:
    assert session.run("1 + 1").value == "2"
assert children.run(["/bin/sh", "-c", "exit 3"]).returncode == 3
assert children.run(["/bin/sh", "-c", "kill -9 $$"]).returncode == -9
assert runtime.call("state", "no-such-container").returncode != 0
assert signal.getsignal(signal.SIGCHLD) is before
open_now = os.listdir("/proc/self/fd")
run_code("1")
assert len(os.listdir("/proc/self/fd")) == len(open_now)
"""


@pytest.mark.parametrize("disposition", DISPOSITIONS)
def test_a_program_that_gets_no_exit_codes_of_its_children(disposition: str) -> None:
    program = PROGRAM.format(DISPOSITIONS[disposition])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_program_that_ignores_the_end_of_children_from_its_start() -> None:
    program = PROGRAM.format("")
    ignored = f"import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); {_execute(program)}"
    done = subprocess.run([sys.executable, "-c", ignored], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _execute(program: str) -> str:
    return f"os.execv(sys.executable, [sys.executable, '-c', {program!r}])"


# A program changes its sockets, threads or files before it uses the package.
SETTINGS = {
    "a default timeout": "import socket; socket.setdefaulttimeout(5)",
    "a default timeout of zero": "import socket; socket.setdefaulttimeout(0)",
    "sockets that are forbidden, as pytest-socket does": "import asyncio, socket\n"
    "socket.socket = socket.socketpair = None",
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "gevent with a child of its own": "from gevent import monkey; monkey.patch_all()\n"
    "import subprocess; subprocess.run(['true'])",
    "eventlet": "import warnings; warnings.simplefilter('ignore'); import eventlet; eventlet.monkey_patch()",
    "a loop of uvloop": "import asyncio, uvloop; asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())",
}
USES = """
import asyncio, sys
from pysbx import Sandbox, SandboxError, run_code, run_code_async, sandbox

for source, expected in {
    "import sys; print(1); print(2, file=sys.stderr)": ("1\\n", "2\\n", 0, None),
    "import os; print(1, flush=True); os._exit(3)": ("1\\n", "", 3, None),
}.items():
    done = run_code(source)
    assert (done.stdout, done.stderr, done.exit_code, done.error) == expected, done
done = run_code("import ctypes; ctypes.string_at(0)")
assert (done.exit_code, done.error.type) == (139, "Crash"), done
assert run_code("import time; time.sleep(60)", timeout_sec=0.5).timed_out
assert sandbox(lambda given: given + b"1")(bytes(3_000_000)) == bytes(3_000_000) + b"1"
with Sandbox() as session:
    assert session.run("x = 1; print(x)").stdout == "1\\n"
    assert session.shell("cat", stdin=b"abc").stdout == "abc"
    try:
        with session.fork() as fork:
            assert fork.run("x").value == "1"
    except Exception as error:
        assert "started cold" in str(error), error
try:
    assert run_code("add(1), add(2)", tools={"add": lambda number: number + 1}).value == "(2, 3)"
except SandboxError as error:
    assert "eventlet" in sys.modules and "with eventlet no other thread runs" in str(error), error
if "uvloop" in sys.modules:
    assert asyncio.run(run_code_async("5")).value == "5"
"""


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_program_with_other_sockets_and_threads(setting: str) -> None:
    program = SETTINGS[setting] + USES
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_trio_calls_in_a_thread() -> None:
    assert trio.run(trio.to_thread.run_sync, lambda: run_code("5").value) == "5"
    with pytest.raises(SandboxError, match=r"no event loop of asyncio.*trio\.to_thread\.run_sync"):
        trio.run(run_code_async, "5")


def test_code_that_changes_the_sockets_of_its_sandbox() -> None:
    with Sandbox() as session:
        session.run("import socket; socket.setdefaulttimeout(3)")
        for _ in range(2):
            with session.terminal("echo hello") as terminal:
                assert terminal.read(10) == b"hello\r\n"
        session.run("socket.socket = socket.recv_fds = None\nimport os")
        session.run("for number in range(3, 20):\n    try: os.set_blocking(number, False)\n    except OSError: pass")
        with session.terminal("echo hello") as terminal:
            assert terminal.read(10) == b"hello\r\n"
        assert session.run("6 * 7").value == "42"
    change = "for number in range(3, 20):\n    try: os.set_blocking(number, False)\n    except OSError: pass"
    assert run_code(f"import os\n{change}\nadd(1), add(2)", tools={"add": lambda number: number + 1}).value == "(2, 3)"


def test_a_sandbox_that_cannot_answer_is_an_error() -> None:
    done = run_code("import os; print(1); os.closerange(3, 100)")
    assert done.stdout == "1\n"
    assert done.error is not None
    assert "the sandbox cannot answer: [Errno 9] Bad file descriptor; its code may have closed" in done.error.message
    with pytest.raises(SandboxExecutionError, match=r"the sandbox cannot answer: .*Bad file descriptor"):
        sandbox(os.closerange)(3, 100)


def test_a_command_that_does_not_exist_is_the_same_error() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(subprocess.CalledProcessError):
            children.run(["/bin/false"], check=True)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_pythonpath_is_added() -> None:
    source = "import sys; print('/data' in sys.path, '/other' in sys.path, sys.path[0] == '')"
    assert run_code(source, env={"PYTHONPATH": "/data:/other"}).stdout == "True True True\n"
    assert run_code("1", env={"PYTHONPATH": ""}).value == "1"


def test_archives_with_files_of_other_users_can_be_unpacked() -> None:
    """The code is user 0. tar would keep the owners for this user, which only a capability allows."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        member = tarfile.TarInfo("unpacked")
        member.uid = member.gid = 1000
        file.addfile(member)
    source = """
import os, shutil, subprocess
print(subprocess.run(["tar", "xf", "given.tar"], capture_output=True), os.stat("unpacked").st_uid)
shutil.unpack_archive("given.tar", "by-python")
print(os.stat("by-python/unpacked").st_uid)
"""
    done = run_code(source, files={"given.tar": archive.getvalue()})
    assert done.error is None
    assert done.stdout.splitlines() == [
        "CompletedProcess(args=['tar', 'xf', 'given.tar'], returncode=0, stdout=b'', stderr=b'') 0",
        "0",
    ]


def test_settings_of_the_hosts_python_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / f"lib/python3.{sys.version_info.minor}/site-packages"
    own.mkdir(parents=True)
    (own / "thing.py").touch()
    (tmp_path / "startup.py").write_text("print('started')")
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "startup.py"))
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    source = """
import importlib.util, os, sys
print(sorted(name for name in os.environ if name.startswith("PYTHON")))
print(os.environ["PYTHONPATH"], sys.flags.no_user_site, sys.flags.optimize, importlib.util.find_spec("thing"))
"""
    expected = "['PYTHONDONTWRITEBYTECODE', 'PYTHONPATH', 'PYTHON_CPU_COUNT']\n/.pysbx 1 0 None\n"
    assert [run_code(source, warm=way).stdout for way in ("off", "auto")] == [expected, expected]


ISOLATED = """
import os, sys
flags = sys.flags
print(flags.isolated, flags.ignore_environment, flags.no_user_site, flags.optimize, "" in sys.path, "/work" in sys.path)
print([path for path in sys.path if path.startswith(("/.pysbx", "/data", "/own"))], os.environ["PYTHONPATH"])
print("a" + str(bool(__import__("importlib.util").util.find_spec("own"))))
"""


def isolated_profile(directory: Path, **keys: object) -> Path:
    """Write a profile that isolates the interpreter, and return its path."""
    path = directory / "isolated.json"
    path.write_text(json.dumps({"isolated": True, **keys}))
    return path


@pytest.mark.parametrize("warm", ["off", "require"])
def test_a_profile_isolates_the_interpreter(tmp_path: Path, warm: Literal["off", "require"]) -> None:
    """As `python3 -I`: neither variables of Python nor the directory of the program count."""
    profile = isolated_profile(tmp_path)
    done = run_code(ISOLATED, profile=profile, files={"own.py": ""}, env={"PYTHONOPTIMIZE": "2"}, warm=warm)
    assert (done.error, done.warm) == (None, warm == "require")
    assert done.stdout == "1 1 1 0 False False\n['/.pysbx'] /.pysbx\naFalse\n"
    named = run_code(ISOLATED, profile=profile, files={"own.py": ""}, name="/work/a.py", warm=warm)
    assert named.stdout == done.stdout
    with Sandbox(profile=profile, warm=warm) as session:
        assert session.run(ISOLATED).stdout == done.stdout


@pytest.mark.parametrize("warm", ["off", "require"])
def test_pythonpath_is_added_to_an_isolated_interpreter(tmp_path: Path, warm: Literal["off", "require"]) -> None:
    (tmp_path / "own.py").write_text("TEXT = 'mine'")
    mounts = [Mount(tmp_path, "/data with space"), Mount(tmp_path, "/own")]
    for path in ("/own", "/data with space:/own"):
        variables = {"PYTHONPATH": path}
        profile = isolated_profile(tmp_path, preload=["own"])
        done = run_code(
            f"{ISOLATED}\nimport own; print(own.TEXT)", profile=profile, mounts=mounts, env=variables, warm=warm
        )
        assert (done.error, done.warm) == (None, warm == "require")
        expected = f"{['/.pysbx', *path.split(':')]} /.pysbx:{path}\naTrue\nmine\n"
        assert done.stdout == f"1 1 1 0 False False\n{expected}"


def test_the_profiles_of_the_package_isolate_the_interpreter(tmp_path: Path) -> None:
    assert [load(name).isolated for name in ("minimal", "data-science")] == [True, True]
    path = tmp_path / "mine.json"
    off = {"stage": "off"}
    path.write_text(json.dumps({"extends": "minimal", **dict.fromkeys(STAGES, off)}))
    ways: tuple[Literal["off", "auto"], ...] = ("off", "auto")
    for way in ways:
        assert run_code("import sys; print(sys.flags.isolated)", profile=path, warm=way).stdout == "1\n"
    path.write_text(json.dumps({"extends": "minimal", "isolated": False, **dict.fromkeys(STAGES, off)}))
    load.cache_clear()
    files = {"helper.py": "print('helped')"}
    assert run_code("import helper, sys; print(sys.flags.isolated)", profile=path, files=files).stdout == "helped\n0\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH is new in Python 3.11")
def test_a_safe_path_has_no_working_directory() -> None:
    done = run_code("import sys; print('' in sys.path, '/.pysbx' in sys.path)", env={"PYTHONSAFEPATH": "1"})
    assert done.stdout == "False True\n"
    named = run_code(
        "import sys; print('/work' in sys.path)", env={"PYTHONSAFEPATH": "1"}, files={"a.py": ""}, name="a.py"
    )
    assert named.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("A", "\udcff", "not UTF-8"),
        ("\udcff", "a", "not UTF-8"),
        ("PYTHONHOME", "/nowhere", "another Python"),
        ("PYTHONPLATLIBDIR", "lib64", "another Python"),
    ],
)
def test_a_variable_that_cannot_be_passed_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(SandboxOptionError, match=why):
        run_code("1", env={name: value})


def test_few_descriptors_are_named() -> None:
    program = """
import resource, sys
from pysbx import SandboxError, run_code
run_code("1")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for most in range(12, 40):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        print(run_code("print(1)").stdout, end="")
    except (OSError, SandboxError) as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert said, done.stderr
    assert said[-1] == "1"
    for line in said:
        assert line == "1" or "open files" in line or "descriptors" in line
