"""Run python3 in containers of one configuration, cold or warm, and keep its output."""

import copy
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Mode = Literal["cold", "warm"]
# Warm starts are required, so that a fallback to cold cannot pass for one.
ANNOTATION: Mapping[Mode, str] = {"cold": "off", "warm": "require"}
KILLED = 124
"""The exit code of a program that did not end in time, as timeout(1) has it."""


@dataclass(frozen=True)
class Done:
    """The result of a program."""

    code: int
    stdout: bytes
    stderr: bytes


class Box:
    """Run one container at a time. One thread may use it."""

    numbers = iter(range(1_000_000))
    lock = threading.Lock()

    def __init__(self, bundle: Path, scratch: Path) -> None:
        """Read the configuration of a bundle. scratch is a directory for its copies."""
        self.runtime = os.environ["RUNTIME"]
        self.config: Json = json.loads((bundle / "config.json").read_text())
        self.config["root"]["path"] = str((bundle / self.config["root"]["path"]).resolve())
        self.config["process"]["terminal"] = False
        with Box.lock:
            self.name = f"box-{os.getpid()}-{next(Box.numbers)}"
        self.folder = Path(tempfile.mkdtemp(dir=scratch))

    def mount(self, source: Path, destination: str, *options: str) -> None:
        """Add a volume."""
        self.config["mounts"].append(
            {"destination": destination, "type": "bind", "source": str(source), "options": ["bind", *options]}
        )

    def temporary(self, destination: str) -> None:
        """Add an empty file system in memory."""
        self.config["mounts"].append({"destination": destination, "type": "tmpfs", "source": "tmpfs"})

    def run(
        self,
        mode: Mode,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        preload: str = "",
        timeout: float = 60,
    ) -> Done:
        """Run `python3 ARGUMENTS` to its end.

        environment: variables in addition to those of the configuration; preload: names of modules, separated by
        commas; timeout: seconds until it is killed, which is the code KILLED.
        """
        config = copy.deepcopy(self.config)
        config["process"]["args"] = ["python3", *arguments]
        config["process"]["env"] += [f"{name}={value}" for name, value in (environment or {}).items()]
        config.setdefault("annotations", {})["run.pysbx.warm"] = ANNOTATION[mode]
        if preload:
            config["annotations"]["run.pysbx.preload"] = preload
        (self.folder / "config.json").write_text(json.dumps(config))
        command = [self.runtime, "run", "--bundle", str(self.folder), self.name]
        # Files instead of pipes, because a surviving grandchild would keep a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)
            try:
                process.communicate(stdin, timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                subprocess.run([self.runtime, "delete", "--force", self.name], capture_output=True, check=False)
                process.wait()
                code = KILLED
            out.seek(0)
            err.seek(0)
            return Done(code, out.read(), err.read())
