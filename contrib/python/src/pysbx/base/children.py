"""The programs that the package starts: Python without the current directory, and exit codes in all circumstances.

A directory in which a stranger's files are is no place for modules, so each command line of Python has -I.

Where a program ignores SIGCHLD, the kernel discards how its children ended, and a handler may wait for all of them, as
that of gevent does: signal(7), wait(2). A small process between this program and its child then waits for the child,
and reports through a pipe. The disposition of the signal stays as it is: it belongs to the whole program.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import subprocess

# The program between, for an interpreter without site. It gets the number of its end of the pipe, and the command.
PROGRAM = """
import os, signal, struct, sys
number, command = int(sys.argv[1]), sys.argv[2:]
signals = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
actions = [(os.POSIX_SPAWN_CLOSE, number)]
child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions, setsigdef=signals)
nothing = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
_, status, used = os.wait4(child, 0)
os.write(number, struct.pack("=idd", status, used.ru_utime, used.ru_stime))
"""
REPORT = struct.Struct("=idd")
# Python ignores two of these signals, and this program may ignore the third; the programs that it starts should not.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
# Seconds from one look at a child to the next, at first and at most.
FIRST_LOOK_SEC, LOOK_SEC = 0.0005, 0.02


def python(program: str, *arguments: str) -> list[str]:
    """Return the command that runs a program with this interpreter, and finds this package and those beside it.

    -I keeps modules of the current directory and of PYTHONPATH out. It also leaves out the directory in which pip
    installs packages for a user. If this package is there, or in another place that only this program knows, the
    command adds the place.

    Args:
        program: its source, one line.
        arguments: those in sys.argv.
    """
    beside = _found_beside()
    return [sys.executable, "-I", *(["-S"] if beside else []), "-c", f"{beside}{program}", *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module as `python -m` does; see python()."""
    if not _found_beside():
        return [sys.executable, "-I", "-m", name, *arguments]
    return python(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)", *arguments)


def _found_beside() -> str:
    """Return the statements with which Python with -I and -S finds this package, or "" if it does without."""
    import site  # noqa: PLC0415 (few programs start another Python)

    beside = str(Path(__file__).absolute().parents[2])
    # After the standard library, and before the packages of the system, which may have another version of this one.
    added = f"import site; site.addsitedir({beside!r}); site.main(); "
    return "" if beside in site.getsitepackages() else added


class End(NamedTuple):
    """How a child ended.

    Attributes:
        code: its exit code, or the negative number of the signal that ended it.
        cpu_sec: CPU time that it and its children have used, in seconds.
    """

    code: int
    cpu_sec: float


def are_reported() -> bool:
    """Tell whether this program gets the exit codes of its children."""
    if signal.getsignal(signal.SIGCHLD) != signal.SIG_DFL:
        return False
    # A library may have set a handler that Python does not know: proc(5).
    with open("/proc/self/status", "rb", buffering=0) as file:
        caught = file.readall().partition(b"\nSigCgt:")[2].partition(b"\n")[0]
    return not caught or not int(caught, 16) >> (signal.SIGCHLD - 1) & 1


def reporting(arguments: list[str], descriptor: int) -> list[str]:
    """Return the command that runs another one and writes its end to a descriptor, which it inherits."""
    return [sys.executable, "-IBS", "-c", PROGRAM, str(descriptor), *arguments]


def read_report(descriptor: int) -> End | None:
    """Return what the process between has reported, or None if it was killed."""
    data = os.read(descriptor, REPORT.size)
    if len(data) != REPORT.size:
        return None
    status, user, system = REPORT.unpack(data)
    return End(os.waitstatus_to_exitcode(status), user + system)


def wait(pid: int, until: float) -> bool:
    """Wait for the end of a child, without a descriptor, until a time by time.monotonic().

    Return False if it had to be killed then.
    """
    pause = FIRST_LOOK_SEC
    with contextlib.suppress(ChildProcessError):  # another part of this program waits for all children: it has ended
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, LOOK_SEC)
    return True


def run(
    arguments: list[str], *, check: bool = False, pass_fds: tuple[int, ...] = (), **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command as subprocess.run() does, and return its real exit code."""
    import subprocess  # noqa: PLC0415 (most programs start nothing but containers)

    if are_reported():
        return subprocess.run(arguments, check=check, pass_fds=pass_fds, **options)
    read, write = os.pipe()
    try:
        done = subprocess.run(reporting(arguments, write), check=False, pass_fds=(*pass_fds, write), **options)
        os.close(write)
        write = -1
        end = read_report(read)
    finally:
        for descriptor in (read, write):
            if descriptor >= 0:
                os.close(descriptor)
    done.args, done.returncode = arguments, -signal.SIGKILL if end is None else end.code
    if check:
        done.check_returncode()
    return done
