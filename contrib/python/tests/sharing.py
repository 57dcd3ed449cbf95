"""A plugin of pytest for contrib/python/check: processes share the files, and the report ends with the failed tests.

Each process takes the name of the next file from a pipe, which the caller filled, collects that file, and runs its
tests. So no process waits while another has files left, and each file is collected once. Collecting all of them takes
fifteen seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# The length of a name in the pipe. A read of that many bytes takes a whole name, because the kernel locks the pipe.
RECORD = 128
# The line of a file whose tests run once.
ONCE = re.compile("^# once: ", re.MULTILINE)
# The files by their names.
FILES = pytest.StashKey[dict[str, "File"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the pipe."""
    parser.addoption("--files-from", type=int, metavar="DESCRIPTOR", help="take files of tests from this pipe")
    parser.addoption("--once", action="store_true", help="leave out what only make check-all runs")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the pipe from the programs that tests start."""
    descriptor: int | None = config.getoption("--files-from")
    if descriptor is not None:
        os.set_inheritable(descriptor, False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only make check-all runs: tests with the mark all; as root, what runs once, as a user."""
    if config.getoption("--once"):
        items[:] = [item for item in items if not item.get_closest_marker("all")]
        if os.geteuid() == 0:
            items[:] = [
                item for item in items if item.get_closest_marker("root") or not ONCE.search(item.path.read_text())
            ]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Succeed if nothing is left to run."""
    if session.config.getoption("--once") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


class File(pytest.Module):
    """A file of tests that is imported when it is taken."""

    taken = False

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests, and none before."""
        return super().collect() if self.taken else ()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> File | None:
    """Note a file that may be taken."""
    if parent.config.getoption("--files-from") is None:
        return None
    file: File = File.from_parent(parent, path=module_path)
    parent.config.stash.setdefault(FILES, {})[module_path.name] = file
    return file


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the files that this process takes; what is collected without the option."""
    config = session.config
    descriptor: int | None = config.getoption("--files-from")
    if descriptor is None:
        return None
    terminal: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    collected = 0
    while name := os.read(descriptor, RECORD).decode().strip():
        began = time.monotonic()
        spent = sum(os.times()[:4])
        file = config.stash[FILES].pop(name)
        file.taken = True
        items = [item for item in session.genitems(file) if isinstance(item, pytest.Item)]
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=items)
        collected += len(items)
        session.testscollected = collected
        for item, following in zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        if terminal is not None:
            wall_sec, cpu_sec = time.monotonic() - began, sum(os.times()[:4]) - spent
            terminal.write_line(f"\n{name}: {len(items)} tests, {wall_sec:.0f} s, {cpu_sec:.0f} s of CPU")
    # A process that comes when all files are taken is no error.
    session.testscollected = max(collected, 1)
    return True


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print a line for each test that failed and for each error outside of one."""
    for outcome in ("failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            terminalreporter.write_line(f"failed: {report.nodeid}")
