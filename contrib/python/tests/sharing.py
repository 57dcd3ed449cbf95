"""A plugin of pytest for contrib/python/check: several processes share the files of tests.

Each process collects all files. It takes the name of the next file from a pipe, which the caller filled, and runs the
tests of that file. So no process waits while another has files left.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# The length of a name in the pipe. A read of that many bytes takes a whole name, because the kernel locks the pipe.
RECORD = 128


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the pipe."""
    parser.addoption("--files-from", type=int, metavar="DESCRIPTOR", help="take files of tests from this pipe")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the pipe from the programs that tests start."""
    descriptor: int | None = config.getoption("--files-from")
    if descriptor is not None:
        os.set_inheritable(descriptor, False)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the files that this process takes; all of them without the option."""
    descriptor: int | None = session.config.getoption("--files-from")
    if descriptor is None or session.testsfailed:
        return None
    terminal: TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    files: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.path.name, []).append(item)
    while name := os.read(descriptor, RECORD).decode().strip():
        began = time.monotonic()
        spent = sum(os.times()[:4])
        items = files.pop(name)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        if terminal is not None:
            wall_sec, cpu_sec = time.monotonic() - began, sum(os.times()[:4]) - spent
            terminal.write_line(f"\n{name}: {len(items)} tests, {wall_sec:.0f} s, {cpu_sec:.0f} s of CPU")
    return True
