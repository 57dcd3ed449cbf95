"""Prepare the sandboxes of a server: install their packages, build their snapshots, find out which modules they have.

A server that cannot create a sandbox does not start. A thread does the longer work, and its state is told. A server at
standard input starts before it has tried, because its client waits for the first answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pysbx.calls.execution import run_chosen
from pysbx.calls.prepare import prepare
from pysbx.errors import SandboxError, SandboxStartupError
from pysbx.options.options import Options
from pysbx.service.sandboxes.choices import Choices

logger = logging.getLogger(__name__)

# The states of what is prepared. After COLD and FAILED comes the reason.
PREPARING, READY, COLD, FAILED = "preparing", "ready", "cold: ", "failed: "
# Seconds that a server at standard input waits for the modules of its first sandbox, to tell them in its first answer.
PATIENCE_SEC = 1.0
# Seconds for the step that is being taken when a server stops.
GRACE_SEC = 1.0

# Modules that generated programs use most. The server names those that can be imported.
USUAL = (
    *("numpy", "pandas", "scipy", "matplotlib", "seaborn", "sklearn", "statsmodels", "sympy", "networkx", "pyarrow"),
    *("polars", "duckdb", "PIL", "cv2", "openpyxl", "bs4", "lxml", "requests", "yaml", "torch"),
)
PROGRAM = """
import importlib.util, sys
print(sys.version.split()[0], *(name for name in sys.argv[1:] if importlib.util.find_spec(name)))
"""
# When a server starts, its own sandbox is ready, or has run without its packages, or is only known to be possible.
Until = Literal["ready", "run", "checked"]
# Seconds for the first sandbox. It starts cold, which may take longer than callers may take.
FIRST_SEC = 60


@dataclass(frozen=True)
class Prepared:
    """The version of Python in the sandboxes, and the modules besides its own that can be imported."""

    python: str
    modules: tuple[str, ...]


def survey(options: Options) -> Prepared:
    """Run a program in a sandbox that reports its version and modules.

    Raises:
        SandboxError: none can be made.
    """
    patient = replace(options, analysis="", timeout_sec=max(options.timeout_sec, FIRST_SEC))
    done = run_chosen(patient, PROGRAM, argv=USUAL)
    python, *modules = done.stdout.split() or [""]
    if done.exit_code != 0 or not python:
        said = done.error.message if done.error else done.stderr.strip()
        raise SandboxStartupError(f"a first sandbox ended with code {done.exit_code}: {said}")
    return Prepared(python, tuple(modules))


def reason_for_cold(options: Options) -> str:
    """Install the packages of a sandbox and build its snapshot; return why a sandbox starts cold nevertheless, or "".

    Raises:
        SandboxError: the packages cannot be installed, or the sandbox cannot be made.
    """
    bundle = prepare(options)
    if options.warm == "off":
        return "warm starts are off"
    # A snapshot that can be made is not always one that can be continued.
    return bundle.build_snapshot() or run_chosen(replace(options, analysis=""), "").cold_reason or ""


class Preparation:
    """The state of the server's own sandbox, whose name is "", and of the profiles that its administrator has named.

    Attributes:
        found: the modules of the server's own sandbox; until its packages are installed, those without them; None
            until a first sandbox has run.
        states: state by name of the profile.
        stopping: whether the server stops, which is told as a change.
    """

    def __init__(self, offer: Choices, profiles: Iterable[str], *, until: Until) -> None:
        """Begin to prepare, and go on in a thread.

        Args:
            offer: the sandboxes.
            profiles: names of those to prepare.
            until: what is done before this returns.

        Raises:
            SandboxError: no sandbox can be made.
        """
        self._offer = offer
        self.stopping = False
        self.states = dict.fromkeys(("", *profiles), PREPARING)
        self.found: Prepared | None = None
        self._known = threading.Event()
        self._watchers: dict[object, Callable[[], None]] = {}
        base = offer.base
        if until == "ready" or (until == "run" and not base.dependencies):
            self.found = survey(base)
            self._prepare("")
        elif until == "run":
            self.found = survey(self._bare)
        elif not base.image:  # to fetch and unpack an image takes long
            prepare(self._bare)
        if self.found is not None:
            self._known.set()
        self._thread = threading.Thread(target=self._prepare_rest, name="pysbx-prepare", daemon=True)
        self._thread.start()
        self._known.wait(PATIENCE_SEC)

    @property
    def _bare(self) -> Options:
        """The server's own sandbox without its packages."""
        return replace(self._offer.base, dependencies=())

    def _prepare_rest(self) -> None:
        for name, state in self.states.items():
            if state == PREPARING and not self.stopping:
                self._prepare(name)

    def _prepare(self, name: str) -> None:
        what = f"profile '{name}'" if name else "the sandbox"
        try:
            if not name and self.found is None:
                self.found = survey(self._bare)
                self._known.set()
                self._tell()
            reason = reason_for_cold(self._offer.options(name or None))
            if not name and self._offer.base.dependencies:
                self.found = survey(self._offer.base)
        except (SandboxError, ValueError, OSError) as error:
            self.states[name] = f"{FAILED}{error}"
            self._tell()
            logger.error("%s cannot be prepared: %s", what, error)
            return
        self.states[name] = f"{COLD}{reason}" if reason else READY
        self._tell()
        if reason:
            chosen = self._offer.base.isolation == "process"
            logger.log(logging.INFO if chosen else logging.WARNING, "%s starts cold each time: %s", what, reason)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function, in a thread of this object, after each change; return what ends that."""
        mark = object()
        self._watchers[mark] = changed
        return lambda: self._watchers.pop(mark, None) and None

    def _tell(self) -> None:
        for changed in list(self._watchers.values()):
            changed()

    def stop(self) -> bool:
        """Begin nothing further; return whether the thread has ended."""
        self.stopping = True
        self._tell()
        self._thread.join(GRACE_SEC)
        return not self._thread.is_alive()
