"""Hand on the output of the installer of dependencies: to a function of the caller, or to a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from pysbx.base.option_names import OPTIONS, current

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("pysbx_install_progress", default=None)


@contextmanager
def install_progress(on_text: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the text that pip or uv prints, as it comes, for installations of calls in the block.

    It is called for calls of this thread, and of asyncio tasks that are created in the block. A set that
    is there already is not installed again. An exception of the function ends the installation.
    """
    token = _listener.set(on_text)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def _lines(what: str) -> Iterator[Callable[[str], None]]:
    """Print a line when an installation begins, and one when it has ended."""
    began = 0.0

    def show(_: str) -> None:
        nonlocal began
        if not began:
            began = time.monotonic()
            print(f"pysbx: installing {what}", file=sys.stderr, flush=True)

    yield show
    if began:
        print(f"pysbx: installed {what} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


@contextmanager
def installing(what: str) -> Iterator[Callable[[str], None] | None]:
    """Show a bar that moves, and the installer's last line; yield a function for its output.

    A function of install_progress takes the place of the bar. Where a user waits without a terminal, it is two lines:
    in a notebook, for a kernel, and of a command in a log.
    """
    if (listener := _listener.get()) is not None:
        yield listener
        return
    if not sys.stderr.isatty():
        waits = sys.modules.keys() & {"ipykernel", "pysbx.kernel"} or (
            current().options is OPTIONS["command"] and "pysbx.service" not in sys.modules
        )
        with _lines(what) if waits else nullcontext() as show:
            yield show
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
