"""A kernel without Landlock: what asks for its best effort runs, and what demands it is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.servers import PROGRAM

# Calls a program with a filter of system calls by which landlock_create_ruleset does not exist: see seccomp(2).
WITHOUT = """
import ctypes, errno, os, struct, sys

def statement(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("statements", ctypes.c_void_p)]

statements = ctypes.create_string_buffer(
    statement(0x20, 0, 0, 0)  # the number of the call
    + statement(0x15, 0, 1, 444)
    + statement(0x06, 0, 0, 0x50000 | errno.ENOSYS)
    + statement(0x06, 0, 0, 0x7FFF0000)
)
program = Program(4, ctypes.addressof(statements))
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
if os.geteuid():
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


# The root is read-only in any case.
WRITES = """
for name in "/usr/x", "/etc/x", "/.pysbx/x":
    try:
        open(name, "w")
    except OSError as error:
        print(error.errno)
"""


def without_landlock(*arguments: str) -> tuple[int, str, str]:
    """Call the command on such a kernel; return exit code, output and errors."""
    command = [sys.executable, "-c", WITHOUT, *PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("options", [(), ("--profile", "minimal")])
def test_what_asks_for_its_best_effort_runs(options: tuple[str, ...]) -> None:
    assert without_landlock("run", *options, "-c", WRITES) == (0, "30\n30\n30\n", "")


def test_what_demands_it_is_refused() -> None:
    rules = {"enforcement": "required", "filesystem": {"read": ["/"], "write": ["/tmp"]}}
    for options in (("--isolation", "process"), ("--landlock", json.dumps(rules))):
        code, said, errors = without_landlock("run", *options, "-c", "print(1)")
        assert (code, said) == (125, ""), options
        assert "there is no Landlock" in errors


def test_doctor_tells_it() -> None:
    _, said, _ = without_landlock("doctor")
    assert "Landlock: not in this kernel, or not enabled" in " ".join(said.split())
