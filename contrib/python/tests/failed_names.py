"""A plugin of pytest that ends the report with the full name of each failed test, for contrib/python/check."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print a line for each test that failed and for each error outside of one."""
    for outcome in ("failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            terminalreporter.write_line(f"failed: {report.nodeid}")
