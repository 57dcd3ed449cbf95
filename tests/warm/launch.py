#!/usr/bin/env python3
"""Run python3 in a container, cold or warm, as if it ran here: a launcher for `compare`.

usage: launch.py cold|warm BUNDLE [--import=MODULE]... python3 [ARGUMENT]...

Streams, environment and working directory, at the same path, are the caller's; the rest is BUNDLE's. RUNTIME is the
runtime. Ends like the program, also by a signal.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from box import ANNOTATION, Box


def configure(box: Box, mode: str, modules: list[str], arguments: list[str]) -> None:
    """Give the container the caller's surroundings."""
    cwd = Path.cwd()
    box.temporary("/" + cwd.parts[1])  # the image may lack such a directory, and none is created in it
    box.mount(cwd, str(cwd), "rw")
    if Path("/tmp") not in cwd.parents:
        box.temporary("/tmp")
    box.config["annotations"] = {"run.pysbx.warm": ANNOTATION["warm" if mode == "warm" else "cold"]}
    if modules:
        box.config["annotations"]["run.pysbx.preload"] = ",".join(modules)
    process = box.config["process"]
    process["args"] = ["python3", *arguments]
    process["cwd"] = str(cwd)
    process["env"] = [f"{name}={value}" for name, value in os.environ.items()]
    process["terminal"] = os.isatty(0) if is_open(0) else False
    # Signals that a program sends itself have no effect on process 1 of a namespace.
    namespaces = box.config["linux"]["namespaces"]
    box.config["linux"]["namespaces"] = [n for n in namespaces if n["type"] != "pid"]


def is_open(fd: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def main() -> None:
    """Run the container and end as it did."""
    mode, bundle, *words = sys.argv[1:]
    modules = [word.partition("=")[2] for word in words if word.startswith("--import=")]
    arguments = words[len(modules) + 1 :]
    with tempfile.TemporaryDirectory() as scratch:
        box = Box(Path(bundle), Path(scratch))
        configure(box, mode, modules, arguments)
        (box.folder / "config.json").write_bytes(json.dumps(box.config).encode(errors="surrogateescape"))
        command = [box.runtime, "run", "--bundle", str(box.folder), box.name]
        status = subprocess.run(command, check=False).returncode
    if status > 128 and status - 128 in signal.valid_signals():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(status - 128, signal.SIG_DFL)
        os.kill(os.getpid(), status - 128)
    sys.exit(status)


if __name__ == "__main__":
    main()
