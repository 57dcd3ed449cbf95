"""What the sandboxes of a server have, found out before it serves: a model is told, and a server without is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pysbx.errors import SandboxStartupError
from pysbx.execution import run_code
from pysbx.options import Options

# What generated programs use most; that of these which can be imported is told.
USUAL = (
    *("numpy", "pandas", "scipy", "matplotlib", "seaborn", "sklearn", "statsmodels", "sympy", "networkx", "pyarrow"),
    *("polars", "duckdb", "PIL", "cv2", "openpyxl", "bs4", "lxml", "requests", "yaml", "torch"),
)
PROGRAM = """
import importlib.util, sys
print(sys.version.split()[0], *(name for name in sys.argv[1:] if importlib.util.find_spec(name)))
"""


@dataclass(frozen=True)
class Survey:
    """What there is: the version of Python, and modules that can be imported besides its own."""

    python: str
    modules: tuple[str, ...]


def survey(options: Options) -> Survey:
    """Look into a sandbox.

    Raises:
        SandboxError: none can be made.
    """
    done = run_code(PROGRAM, argv=USUAL, options=replace(options, analysis=""))
    python, *modules = done.stdout.split() or [""]
    if done.exit_code != 0 or not python:
        said = done.error.message if done.error else done.stderr.strip()
        raise SandboxStartupError(f"a first sandbox ended with code {done.exit_code}: {said}")
    return Survey(python, tuple(modules))
