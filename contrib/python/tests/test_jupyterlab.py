"""JupyterLab in a real browser, with a notebook whose kernel runs in a sandbox: see also test_kernel.py."""

# once: a browser sees the same as root

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pysbx.command import main
from tests.browser import PROGRAM, SHIFT, Browser, Page
from tests.servers import jupyter

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")

OPTIONS = ("--virtualenv", sys.prefix, "--memory", "1024")
CELLS = (
    "import os, time\nimport matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.title('In a sandbox'); plt.show()\n"
    "print(os.getpid(), os.path.exists('/home'))",
    "kept = 41\nprint('be' + 'gun', flush=True)\ntime.sleep(600)",
    "print('value', kept + 1)",
    "print('is known', 'kept' in globals())",
)
# The application of JupyterLab, which its page discloses: `--expose-app-in-browser`.
APP = "window.jupyterapp"
PANEL = f"{APP}.shell.currentWidget"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    """The address of a notebook in a JupyterLab, which has a kernel in a sandbox."""
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    assert main(["kernel", "install", "--name", "sand", *OPTIONS]) == 0, capfd.readouterr().err
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"c{number}",
            "metadata": {},
            "outputs": [],
            "source": cell,
        }
        for number, cell in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "sand", "display_name": "sand", "language": "python"}}
    notebook = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "work").mkdir()
    (tmp_path / "work/nb.ipynb").write_text(json.dumps(notebook))
    with jupyter("jupyterlab", tmp_path / "work", "--expose-app-in-browser", "--LabApp.news_url=") as (port, token):
        yield f"http://127.0.0.1:{port}/lab/tree/nb.ipynb?token={token}&reset"


def run_cell(page: Page, number: int) -> None:
    """Run a cell by the keyboard."""
    page.value(f"{PANEL}.content.activeCellIndex = {number}; {PANEL}.content.activate(); 1")
    page.wait(f"{PANEL}.content.node.contains(document.activeElement)")
    page.press("Enter", SHIFT)


def output(number: int) -> str:
    """Return an expression for the text that a cell shows below itself."""
    return f"({PANEL}.content.widgets[{number}].outputArea.node.innerText)"


def test_a_notebook_shows_figures_and_can_be_interrupted_and_restarted(chromium: Browser, lab: str) -> None:
    with chromium.page() as page:
        page.mode("light")
        page.go(lab)
        page.wait(f"typeof {APP} !== 'undefined' && {PANEL} && {PANEL}.sessionContext && 1")
        page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'")
        assert page.value(f"{PANEL}.sessionContext.kernelDisplayName") == "Python in a sandbox (sand)"

        run_cell(page, 0)
        page.wait(f"{output(0)}.includes('2 False')")  # the child of the container's init, and no directories of users
        image = f"{PANEL}.content.widgets[0].outputArea.node.querySelector('img')"
        page.wait(f"{image} && {image}.complete && {image}.naturalWidth > 200")

        run_cell(page, 1)
        page.wait(f"{output(1)}.includes('begun')")
        assert page.value(f"{PANEL}.sessionContext.session.kernel.status") == "busy"
        page.value(f"{APP}.commands.execute('notebook:interrupt-kernel').then(() => 1)")
        page.wait(f"{output(1)}.includes('KeyboardInterrupt')")
        # Until a kernel has ended a failed cell, it refuses the cells that follow: the text of the error comes before.
        page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'idle'")
        run_cell(page, 2)
        page.wait(f"{output(2)}.includes('value 42')")

        page.value(f"{PANEL}.sessionContext.restartKernel().then(() => 1)")
        page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'idle'")
        run_cell(page, 3)
        page.wait(f"{output(3)}.includes('is known False')")
