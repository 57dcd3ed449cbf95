"""Servers as users start them, each a program of its own, for the tests of `pysbx serve` and `pysbx mcp`."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import containers
from tests.forked import Forked

PROGRAM = [sys.executable, "-c", "import sys; from pysbx.command import main; sys.exit(main())"]
# Of a server's command: also where the tests run without cgroup controllers.
BEST_EFFORT = "--best-effort"
# Lines of the log that are no complaint.
USUAL = "INFO: "
TOKEN = "a-token-for-tests-only"


def wait_until(condition: Any, seconds: float = 15.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.02)


def containers_of(pid: int) -> list[str]:
    """Return the names of the containers of a program."""
    return [name for name in containers() if f"-{pid}-" in name]


def children_of(pid: int) -> list[Path]:
    """Return the directories in /proc of the processes that a program has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has just ended
            if f"\nPPid:\t{pid}\n" in status.read_text():
                found.append(status.parent)
    return found


@dataclass
class Server:
    """A server that runs, and a way to it."""

    process: subprocess.Popen[str]
    client: httpx.Client
    address: str
    log: list[str] = field(default_factory=list)  # once it has ended

    def post(self, path: str, **content: Any) -> httpx.Response:
        """Send a JSON object."""
        return self.client.post(path, json=content)

    def run(self, code: str, **more: Any) -> dict[str, Any]:
        """Run a program and return the report, which there has to be."""
        answer = self.post("/v1/run", code=code, **more)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def refused(self, problem: str) -> float:
        """Return how many requests or connections had a problem, by the metrics."""
        found = re.search(f'problem="{problem}"}} (.+)', self.client.get("/metrics").text)
        return float(found[1]) if found else 0

    def connect(self, token: str = "") -> httpx.Client:
        """Return another client."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self.address.startswith("unix:"):
            way = httpx.HTTPTransport(uds=self.address.removeprefix("unix:"), verify=False)
            return httpx.Client(transport=way, base_url="http://pysbx", timeout=60, headers=headers)
        # Without TLS, reading all authorities' certificates would be most of the work.
        return httpx.Client(base_url=f"http://{self.address}", timeout=60, headers=headers, verify=False)


def metric(service: Server, name: str) -> float:
    """Return the value of a series, such as pysbx_runs_total{…}, or 0."""
    lines = service.client.get("/metrics").text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


@contextmanager
def server(
    *arguments: str,
    listen: str,
    token: str = "",
    command: str = "serve",
    warnings: bool = False,
    errors: bool = False,
    before: Sequence[str] = (),
) -> Iterator[Server]:
    """Start a server; at the end stop it, and see that nothing of it is left, and that it has complained of nothing.

    Args:
        arguments: options of the command.
        listen: where.
        token: what is sent to it.
        command: serve or mcp.
        warnings: whether it may have warned of what it was sent.
        errors: whether it may have logged errors.
        before: a program that starts the server, with its options.
    """
    # The log has no times then, as in the journal of systemd. No container waits, because tests count containers.
    environ = {**os.environ, "JOURNAL_STREAM": "0:0", "PYSBX_READY": os.environ.get("PYSBX_READY", "0")}
    words = [command, BEST_EFFORT, "--listen", listen, *arguments]
    start, program = (subprocess.Popen, [*before, *PROGRAM, *words]) if before else (Forked, words)
    process = start(program, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=environ)
    assert process.stderr is not None
    early = []
    while " at " not in (said := process.stderr.readline()):
        early.append(said)
        if not said.startswith((USUAL, "DEBUG: ", *["WARNING: "] * warnings)):
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)  # it may be writing why it ends
            process.kill()
            pytest.fail("".join(early) + process.stderr.read())
    found = Server(process, httpx.Client(verify=False), said.rpartition(" at ")[2].strip())
    found.client = found.connect(token)
    rest: list[str] = []
    # A pipe that is not read would stop the server.
    reader = threading.Thread(target=rest.extend, args=(process.stderr,))
    reader.start()
    try:
        yield found
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        reader.join()
        found.log = [*early, *rest]
        usual = (USUAL, "DEBUG: ", *["WARNING: "] * warnings, *["ERROR: "] * errors)
        complaints = "".join(line for line in found.log if not line.startswith(usual))
        assert complaints == "", complaints
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()
        found.client.close()
    assert containers_of(process.pid) == []
    if found.address.startswith("unix:"):
        assert not Path(found.address.removeprefix("unix:")).exists()


@contextmanager
def jupyter(module: str, folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Run a server of Jupyter with files in a directory, and yield its port and its token."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", module, "--no-browser", *options),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *("--ServerApp.allow_root=True", f"--ServerApp.root_dir={folder}"),
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
    try:
        wait_until(lambda: re.search(rf":{port}/.*token=", (folder / "log").read_text()), 60)
        yield port, token
    finally:
        process.terminate()
        assert process.wait(60) == 0, (folder / "log").read_text()
    wait_until(lambda: not containers(), 30)


def killed_owner(program: str, count: int) -> None:
    """Run a program that prints its number and then has so many containers: if it is killed, they end as well."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    wait_until(lambda: len(containers_of(pid)) >= count)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    wait_until(lambda: not containers_of(pid), 30)
