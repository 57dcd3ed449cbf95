"""`pysbx serve` and its description: schemathesis makes requests from it, and compares the answers with it."""

# once: a server says the same to its clients as root
# slow: a thousand generated requests

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import TOKEN, server

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


def test_all_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    with server("--timeout", "3", listen="127.0.0.1:0", token=TOKEN, warnings=True) as service:
        command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIGURATION), "run"]
        command += [f"http://{service.address}/openapi.json", "--header", f"Authorization: Bearer {TOKEN}"]
        command += ["--max-examples", "10", "--seed", "1", "--request-timeout", "30", "--no-color"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, "\n".join(line[:300] for line in done.stdout.splitlines())
        assert "Stateful" in done.stdout
        assert service.run("6 * 7")["value"] == "42"
