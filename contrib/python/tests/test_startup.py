"""A quick start stays quick: the modules that `import pysbx` and the command import, and when.

Times are measured by `make bench`. Here it is the modules that take the time.
"""

# once: the caller's rights make no difference

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys

import pytest

import pysbx
from pysbx import run_code
from pysbx.base.directories import run_directory

# Modules that take a millisecond or more, and those that import many others.
FOR_A_CALL = {"base64", "cloudpickle", "ctypes", "difflib", "shutil", "subprocess", "tempfile", "uuid", "zoneinfo"}
FOR_FEW = {"asyncio", "compileall", "concurrent", "email", "h11", "importlib.metadata", "logging", "rich", "ssl"}
FOR_OPTIONS = {"dataclasses", "hashlib", "inspect", "json", "msgpack", "pathlib", "socket"}
FOR_A_CONTAINER = {"json", "pathlib", "signal", "socket", "pysbx.calls.prepare", "pysbx.container.ready"}
COMMAND = "from pysbx.command import main\ncode = main({arguments})"


def imported(program: str) -> set[str]:
    """Return the modules that a program imports beyond those that Python itself has at its start."""
    source = f"""
import sys
before = set(sys.modules)
try:
    {program.replace(chr(10), chr(10) + "    ")}
except SystemExit:
    pass
print(*(set(sys.modules) - before), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stderr.split())


def test_the_package_alone_imports_none_of_its_modules() -> None:
    found = imported("import pysbx")
    assert not found & (FOR_A_CALL | FOR_FEW | FOR_OPTIONS | {"argparse"})
    assert {name for name in found if name.startswith("pysbx")} == {"pysbx"}


def test_the_version_needs_no_module_of_a_sandbox() -> None:
    found = imported(COMMAND.format(arguments=["--version"]))
    of_runtime = {"dataclasses", "inspect", "pathlib"}  # for the path of the runtime, and the error if there is none
    assert not found & (FOR_A_CALL | FOR_FEW | FOR_OPTIONS) - of_runtime
    assert "argparse" in found


def test_a_decorated_function_imports_what_a_call_needs_when_it_is_called() -> None:
    found = imported("from pysbx import Sandbox, run_code, sandbox\n@sandbox\ndef f() -> int: return 1")
    assert not found & (FOR_FEW | FOR_A_CONTAINER)


def test_a_program_that_is_run_needs_no_module_of_other_sandboxes() -> None:
    run_code("1")  # makes what later programs find made
    found = imported(COMMAND.format(arguments=["run", "-c", "print(1)"]))
    assert not found & (FOR_A_CALL | FOR_FEW), found & (FOR_A_CALL | FOR_FEW)
    # The names above are those of modules, and a run is what imported these.
    assert found >= FOR_OPTIONS


@pytest.mark.parametrize(("platform", "said"), [("win32", "Windows"), ("darwin", "macOS"), ("sunos5", "sunos5")])
def test_another_system_is_named(platform: str, said: str) -> None:
    """On Windows some modules of Python do not exist."""
    program = f"""
import sys
sys.platform = {platform!r}
if sys.platform == "win32":
    sys.modules.update(dict.fromkeys(("fcntl", "resource", "termios", "pwd"), None))
import pysbx
from pysbx import PlatformNotSupportedError, SandboxError
assert issubclass(PlatformNotSupportedError, SandboxError)
try:
    from pysbx import run_code
    run_code("1")
except PlatformNotSupportedError as error:
    print(error)
from pysbx.command import main
sys.exit(main(["run", "-c", "1"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 125, done.stderr
    line = f"sandboxes need namespaces of Linux, which {said}"
    assert done.stdout.startswith(line)
    assert done.stderr.startswith(f"pysbx: {line}")


def test_a_heavy_module_would_be_noticed() -> None:
    assert "asyncio" in imported("import pysbx.network.proxy")


def test_every_name_is_found_in_its_module() -> None:
    tree = ast.parse(inspect.getsource(pysbx))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    assert {name: f"pysbx.{module}" for name, module in pysbx._MODULE_OF.items()} == {
        name.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert pysbx._MODULE_OF.keys() == set(pysbx.__all__)


def test_the_package_looks_as_if_all_names_were_imported() -> None:
    program = """
import pysbx, pydoc, sys
assert set(pysbx.__all__) <= set(dir(pysbx))
assert pysbx.errors.SandboxError is pysbx.SandboxError
found = {}
exec("from pysbx import *", found)
assert set(pysbx.__all__) <= set(found), found
assert found["Sandbox"] is pysbx.Sandbox
assert issubclass(pysbx.SandboxTimeoutError, pysbx.SandboxError)
assert isinstance(pysbx.Mount("/srv"), pysbx.Mount)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    shown = pydoc.plain(pydoc.render_doc(pysbx))
    assert all(name in shown for name in pysbx.__all__)
    with pytest.raises(AttributeError, match="module 'pysbx' has no attribute 'run_kode'"):
        pysbx.run_kode  # type: ignore[attr-defined]  # noqa: B018


def test_names_may_be_used_first_by_several_threads() -> None:
    program = """
import threading, pysbx
found, barrier = [], threading.Barrier(8)
def use():
    barrier.wait()
    found.append(pysbx.Sandbox)
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert found == [pysbx.Sandbox] * 8
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_package_is_a_program() -> None:
    command = [sys.executable, "-m", "pysbx", "run", "-c", "print(6 * 7); raise SystemExit(3)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 3)


def test_the_program_ends_as_python_ends() -> None:
    program = """
import atexit, sys
atexit.register(print, "at exit")
from pysbx.command import program
sys.argv[1:] = ["run", "-c", "print(1)"]
program()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\nat exit\n"
    # Nothing of Python's own way to end is left out: threads are waited for, and finalizers run.
    program = """
import sys, threading, weakref
class Kept: pass
kept = Kept()
weakref.finalize(kept, print, "finalized")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread"))).start()
from pysbx.command import program
sys.argv[1:] = ["run", "-c", "print(1); exit(3)"]
program()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1\na thread\nfinalized\n", 3)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pysbx", "run", "-c", "print(1)"]
        failed = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (failed.stderr, failed.returncode) == ("pysbx: No space left on device\n", 2)
    run = f"exec {sys.executable} -m pysbx run"
    for script, said, code in (
        (f"{run} -c 'print(1); exit(3)' >&-", "", 3),
        (f"ulimit -f 1; {run} --memory 333 -c 1", f"pysbx: '{run_directory()}': File too large\n", 125),
    ):
        done = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, text=True, check=False)
        assert (done.stderr, done.returncode) == (said, code)
