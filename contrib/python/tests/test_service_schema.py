"""`pysbx serve` and its description: schemathesis makes requests from it, and compares the answers with it.

TEST_SCHEMA_SEC=600 makes the requests of ten minutes, other ones each time.
"""

# once: a server says the same to its clients as root
# slow: hundreds of generated requests

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import TOKEN, server

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
LONG_SEC = os.environ.get("TEST_SCHEMA_SEC")
EXTENT = ("--max-time", LONG_SEC) if LONG_SEC else ("--max-examples", "5", "--seed", "1")
# The phases of which each has to have run.
PHASES = ("Examples", "Coverage", "Fuzzing", "Stateful")


@pytest.mark.timeout(float(LONG_SEC or 0) + 300)
def test_all_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with server("--timeout", "3", listen="127.0.0.1:0", token=TOKEN, warnings=True) as service:
        command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIGURATION), "run"]
        command += [f"http://{service.address}/openapi.json", "--header", f"Authorization: Bearer {TOKEN}"]
        command += [*EXTENT, "--request-timeout", "30", "--no-color"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        said = "\n".join(line[:300] for line in done.stdout.splitlines())
        print(said)
        assert done.returncode == 0, said
        assert [phase for phase in PHASES if phase not in said] == []
        assert service.run("6 * 7")["value"] == "42"
