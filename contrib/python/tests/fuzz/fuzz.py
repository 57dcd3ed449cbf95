#!/usr/bin/env python3
"""Run a target with atheris: fuzz.py TARGET LIBFUZZER-ARGUMENT... FUZZ_SECONDS: CPU time, and then the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
# The package, and what of the libraries is Python and reads the bytes.
with atheris.instrument_imports(include=["pysbx", "h11", "packaging", "uvicorn", "wsproto"]):
    from tests.fuzz import targets


class Counted:
    """A target that counts its executions, and ends the process when its time is over."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds
        self.begun = time.process_time()
        self.executions = 0
        self.run: Callable[[bytes], None] = targets.TARGETS[name]

    def __call__(self, data: bytes) -> None:
        """Run it once."""
        began = time.process_time()
        self.run(data)
        self.executions += 1
        ended = time.process_time()
        if ended - began > targets.SECONDS[self.name]:
            raise TimeoutError(f"{ended - began:.1f} seconds of CPU time")
        spent = ended - self.begun
        if 0 < self.seconds <= spent:
            print(f"fuzz: py-{self.name}: {self.executions} executions in {spent:.1f} CPU seconds", file=sys.stderr)
            sys.stderr.flush()
            os._exit(0)  # an exit within a run is a crash to libFuzzer


def main() -> None:
    """Fuzz."""
    name = sys.argv.pop(1)
    # With -merge=1 libFuzzer gives this to a shell, to run itself again.
    command = " ".join((sys.executable, __file__, name))
    atheris.Setup([command, *sys.argv[1:]], Counted(name, float(os.environ.get("FUZZ_SECONDS", "0"))))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
