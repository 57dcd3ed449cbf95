"""Machines in FIPS mode: OpenSSL has only approved algorithms, and some Pythons refuse the others themselves."""

# once: algorithms are the same for root

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from pysbx import Mount, run_code
from tests.packages import make_wheel
from tests.servers import server

CONFIGURATION = os.environ.get("TEST_FIPS", "")
VARIABLES = {"OPENSSL_CONF": CONFIGURATION, "OPENSSL_MODULES": os.path.dirname(CONFIGURATION)}
pytestmark = pytest.mark.skipif(not CONFIGURATION, reason="no FIPS provider of OpenSSL (tests/setup/fips)")
# As Python does in Red Hat's systems in FIPS mode: algorithms that are not approved are refused, also its own ones.
REFUSING = """
import hashlib
def refusing(name):
    usual = getattr(hashlib, name)
    def algorithm(*given, usedforsecurity=True, **named):
        if usedforsecurity:
            raise ValueError(f"[digital envelope routines] unsupported: {name}")
        return usual(*given, **named)
    return algorithm
for name in ("md5", "blake2b", "blake2s"):
    setattr(hashlib, name, refusing(name))
"""
USE = """
import _hashlib
import sys
from pysbx import Sandbox, run_code, sandbox

assert _hashlib.get_fips_mode() == 1
kind, wheels = sys.argv[1:]
done = run_code("open('made.txt', 'w').write('text'); 6 * 7", collect=["*.txt"], isolation=kind)
assert (done.value, done.artifacts) == ("42", {"made.txt": b"text"}), done
with Sandbox(isolation=kind, collect=["*.txt"]) as session:
    session.put({"x": "text"})
    assert list(session.run("open('made.txt', 'w').write('text')").artifacts) == ["made.txt"]
    assert session.run("1").artifacts == {}
    assert session.get("x") == b"text"
assert sandbox(isolation=kind)(lambda number: number + 1)(41) == 42
if kind == "container":
    assert run_code("import thing; thing.value", dependencies=["thing"], wheels=wheels).value == "42"
    code = "import urllib.request as u\\ntry: u.urlopen('https://192.0.2.1')\\nexcept OSError: print('refused')"
    assert run_code(code, allow_network=["example.org"]).stdout == "refused\\n"
print("all")
"""


@pytest.mark.parametrize("kind", ["container", "process"])
def test_the_package_needs_approved_algorithms_only(kind: str, tmp_path: Path) -> None:
    make_wheel(tmp_path, "thing", "1.0", "value = 42\n")
    done = subprocess.run(
        [sys.executable, "-c", REFUSING + USE, kind, str(tmp_path)],
        env={**os.environ, **VARIABLES}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stderr, done.stdout) == ("", "all\n")


@pytest.mark.parametrize("warm", ["off", "require"])
def test_the_sandbox_in_fips_mode(warm: Literal["off", "require"]) -> None:
    """The code gets the mode with a configuration of OpenSSL, warm and cold."""
    provider = Mount(VARIABLES["OPENSSL_MODULES"], VARIABLES["OPENSSL_MODULES"])
    code = "import _hashlib, hashlib\ntry: _hashlib.openssl_md5(b'x')\nexcept ValueError as error: print(error)\n"
    code += "[_hashlib.get_fips_mode(), hashlib.sha256(b'x').hexdigest()[:8]]"
    done = run_code(code, mounts=[provider], env=VARIABLES, warm=warm, preload=["hashlib"])
    assert (done.error, done.value) == (None, "[1, '2d711642']")
    assert "unsupported" in done.stdout
    assert done.warm == (warm == "require")


def test_the_service_in_fips_mode(tmp_path: Path) -> None:
    # Not a copy of a process that has OpenSSL in its usual mode.
    program = ["/usr/bin/env", *(f"{name}={value}" for name, value in VARIABLES.items())]
    with server(listen=f"unix:{tmp_path}/s", before=program) as service:
        assert service.run("6 * 7")["value"] == "42"
        session = service.post("/v1/sessions").json()["id"]
        assert service.post(f"/v1/sessions/{session}/run", code="6 * 7").json()["value"] == "42"
