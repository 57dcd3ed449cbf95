"""The CPU time of a session as it is read, and the files that are opened for it.

A run in a session takes a fifth of a millisecond, of which each file that is opened takes more than one hundredth. A
time cannot be tested on a machine that does other work, but the number of files can.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pysbx.container import cpu_time

RUNS = 50
# For each of three processes (the runtime, init, Python) its times and its children. With a cgroup it is fewer. The
# others are the directories where new files are looked for.
MOST_OPENED = 6 + 2
# A second program, because an audit hook cannot be removed; see "Audit events table" of Python's documentation.
COUNT = f"""
import sys
from pysbx import Sandbox
with Sandbox() as session:
    for _ in range(3):
        session.run("1")
    found = []
    sys.addaudithook(lambda event, given: event in ("open", "os.listdir", "os.scandir") and found.append(str(given[0])))
    for _ in range({RUNS}):
        assert session.run("1").value == "1"
    print(len(found), session.run("1").usage.cpu_sec >= 0, sorted(set(found)))
"""


def test_a_run_in_a_session_opens_few_files() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT], check=True, capture_output=True, text=True)
    opened = int(done.stdout.split()[0])
    # The clock of the processes is read after each run, or nothing would be charged.
    assert RUNS <= opened <= RUNS * MOST_OPENED + MOST_OPENED, done.stdout


def _spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_reading_that_may_be_old_is_the_last_one_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    meter = cpu_time.Meter(os.getpid())
    first = meter.read(settled=True)
    _spin(0.1)
    now[0] += cpu_time.RECENT_SEC * 0.9
    assert meter.read(settled=True, fresh=False) == first
    now[0] += cpu_time.RECENT_SEC * 0.9
    assert meter.read(settled=True, fresh=False) >= first + 0.05
    _spin(0.1)
    assert meter.read(settled=True) >= first + 0.15


def test_children_of_all_threads_count() -> None:
    """The kernel lists a child with the thread that has created it."""
    program = (
        "import os, sys, threading, time\n"
        "def start():\n"
        "    if os.fork() == 0:\n"
        "        end = time.process_time() + 0.3\n"
        "        while time.process_time() < end: pass\n"
        "        print('spun', flush=True)\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "    time.sleep(3600)\n"
        "threading.Thread(target=start, daemon=True).start()\n"
        "sys.stdin.read()\n"
    )
    given = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=given, stdout=given, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "spun\n"
        assert 0.25 <= cpu_time.Meter(process.pid).read(settled=True) < 5
        process.kill()


def test_processes_that_have_ended_count_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not Path(f"/proc/{process.pid}").exists()
    assert cpu_time.Meter(process.pid).read(settled=True) == 0
