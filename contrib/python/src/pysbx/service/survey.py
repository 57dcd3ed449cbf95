"""Find out which modules the sandboxes of a server have, before it serves: a model is told.

A server that cannot create a sandbox does not start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pysbx.errors import SandboxStartupError
from pysbx.execution import run_code
from pysbx.options import Options

# Modules that generated programs use most. The server names those that can be imported.
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
    """The version of Python in the sandboxes, and the modules besides its own that can be imported."""

    python: str
    modules: tuple[str, ...]


def survey(options: Options) -> Survey:
    """Run a program in a sandbox that reports its version and modules.

    Raises:
        SandboxError: none can be made.
    """
    done = run_code(PROGRAM, argv=USUAL, options=replace(options, analysis=""))
    python, *modules = done.stdout.split() or [""]
    if done.exit_code != 0 or not python:
        said = done.error.message if done.error else done.stderr.strip()
        raise SandboxStartupError(f"a first sandbox ended with code {done.exit_code}: {said}")
    return Survey(python, tuple(modules))
