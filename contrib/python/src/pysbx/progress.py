"""A progress bar on a terminal while dependencies are installed; without a terminal, nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def installing(what: str) -> Iterator[Callable[[str], None] | None]:
    """Show a bar that moves, and pip's last line; yield a function for pip's output."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 (a tenth of a second, for a terminal only)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    # Everything has to fit on a line of 80 characters; otherwise the bar disappears.
    said = TextColumn("{task.fields[said]}")
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=12), TimeElapsedColumn(), said)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"installing {what}"[:24], total=None, said="")

        def show(text: str) -> None:
            lines = text.strip().splitlines()
            if lines:
                bar.update(task, said=" ".join(lines[-1].split())[:32].replace("[", "("))

        yield show
