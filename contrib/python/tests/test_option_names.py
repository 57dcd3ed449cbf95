"""Hints have the words of the interface where they are read, and suggest no package for the caller's own file."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from pysbx import SandboxOptionError, run_code
from pysbx.base.option_names import OPTIONS as WORDS
from pysbx.base.option_names import spoken_as
from pysbx.options.hints import hint
from pysbx.options.keywords import OPTIONS
from pysbx.service.sandboxes.choices import LIMITS
from tests.packages import make_wheel
from tests.servers import server
from tests.test_command import pysbx

FLAGS = {declared.option.flag.name for declared in OPTIONS.values() if declared.option.flag is not None}
# Of Python and of no other interface.
PYTHON_ONLY = re.compile(r"dependencies|allow_network|\w=|\bmounts?=")
MESSAGES = (
    ("ModuleNotFoundError", "No module named 'numpy'"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: 'x'"),
    ("OSError", "[Errno 97] Address family not supported by protocol"),
    ("OSError", "[Errno 27] File too large"),
    ("OSError", "[Errno 28] No space left on device"),
    ("OSError", "30000000 requested and 8388592 written"),  # of numpy.save
    ("ComputeError", "parquet: underlying IO error: No space left on device (os error 28)"),
    ("IOException", 'IO Error: Could not write file "/work/p.csv": File too large'),
    ("IOException", 'IO Error: No files found that match the pattern "x.csv"'),
    ("URLError", "Tunnel connection failed: 403 host 'a', port 443, is not among the hosts of this sandbox"),
    ("URLError", "Tunnel connection failed: 403 host 'a' has no address outside of private networks"),
    ("RuntimeError", "can't start new thread"),
    ("MemoryError", ""),
    ("Timeout", "not done after 1 seconds: killed"),
    ("EOFError", "EOF when reading a line"),
)


def hints(interface: str) -> list[str]:
    """Return the hints for MESSAGES in the words of an interface."""
    with spoken_as(interface):
        found = [hint(kind, message) for kind, message in MESSAGES]
    assert all(found)
    return [text or "" for text in found]


def test_every_interface_has_every_word() -> None:
    for words in WORDS.values():
        assert words.keys() >= WORDS["python"].keys() - {"own"}


def test_hints_name_options_of_their_interface_only() -> None:
    limits = re.compile(r"\b(?:" + "|".join(LIMITS) + r")\b")
    for text in hints("command"):
        assert not PYTHON_ONLY.search(text)
        assert not limits.search(text)
        assert set(re.findall(r"--[\w-]+", text)) <= FLAGS | {"--file", "--stdin"}
    for text in hints("http") + hints("mcp"):
        assert not PYTHON_ONLY.search(text)
        assert "--" not in text
    assert set(limits.findall(" ".join(hints("mcp")))) == {"timeout_sec"}
    assert "operator" not in " ".join(hints("python") + hints("command"))


def test_the_command_names_its_options(tmp_path: Path) -> None:
    assert "add --with numpy\n" in pysbx("run", "-c", "import numpy", directory=tmp_path).stderr
    assert "--timeout\n" in pysbx("run", "--timeout", "0.5", "-c", "import time; time.sleep(60)").stderr
    assert "--memory" in pysbx("run", "--memory", "64", "-c", "bytes(10**9)").stderr
    assert "--file-size" in pysbx("run", "--file-size", "1", "-c", "open('a', 'wb').write(bytes(2 << 20))").stderr


def test_errors_have_the_words_of_the_command() -> None:
    errors = (
        (["--env", "PYTHONHOME=/x"], "use --virtualenv, --rootfs or --image\n"),
        (["--answer-limit", "100"], "larger than --answer-limit, 100 bytes"),
    )
    for options, said in errors:
        done = pysbx("run", *options, "-c", "'x' * 1000")
        assert said in done.stderr
        assert not PYTHON_ONLY.search(done.stderr)
    enforced = json.loads(pysbx("run", "--json", "-c", "1").stdout)["limits"]
    strict = pysbx("run", "--strict", "-c", "1").stderr
    assert strict.startswith("pysbx: --strict, but") or "rlimit" not in enforced.values()
    with pytest.raises(SandboxOptionError, match="use virtualenv=, rootfs= or image="):
        run_code("1", env={"PYTHONHOME": "/x"})


def test_a_module_that_is_the_callers_own_file_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "project", tmp_path / "elsewhere"):
        folder.mkdir()
    (tmp_path / "project/helper.py").write_text("value = 1\n")
    (tmp_path / "project/parts").mkdir()
    (tmp_path / "project/parts/__init__.py").write_text("value = 2\n")
    for module, advice in (("helper", "--file {0}/helper.py"), ("parts", "--mount {0}/parts:/work/parts")):
        script = tmp_path / "project/script.py"
        script.write_text(f"import {module}; print({module}.value)")
        done = pysbx("run", str(script), directory=tmp_path / "elsewhere")
        assert "--with" not in done.stderr
        option, value = advice.format(script.parent).split(" ")
        assert f"add {option} {value}\n" in done.stderr
        assert pysbx("run", option, value, str(script)).stdout.strip() in ("1", "2")
    for path, advice in (("a b.txt", "'a b.txt'"), ("parts/x", "parts/x:parts/x"), ("none", "PATH, or --mount")):
        if path != "none":
            (tmp_path / "project" / path).touch()
        source = f"open({path!r})"
        assert f"add --file {advice}\n" in pysbx("run", "-c", source, directory=tmp_path / "project").stderr
        given = ("--file", shlex.split(advice)[0])
        assert path == "none" or not pysbx("run", *given, "-c", source, directory=tmp_path / "project").returncode
    assert "add --file helper.py\n" in pysbx("run", "-c", "import helper", directory=tmp_path / "project").stderr
    monkeypatch.chdir(tmp_path / "project")
    error = run_code("import helper").error
    assert error is not None and "files=" in (error.hint or "")


def test_the_service_names_what_callers_can_do(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    make_wheel(tmp_path / "wheels", "example_lib", "1.0", "value = 1\n")
    options = ["--wheels", str(tmp_path / "wheels"), "--allow-package", "example-lib"]
    with server(*options, listen=f"unix:{tmp_path}/socket") as service:
        assert service.run("import example_lib")["error"]["hint"].endswith('add "example-lib" to packages')
        assert service.run("import numpy")["error"]["hint"].endswith("ask the operator of this server for numpy")
        said = service.run("while True: 1", timeout_sec=0.5)["error"]["hint"]
        assert "up to the limit of the service: timeout_sec" in said
        assert service.run("import example_lib; 1", packages=["example-lib"])["value"] == "1"
        place = f"/v1/sessions/{service.post('/v1/sessions').json()['id']}"
        service.post(f"{place}/run", code="open('large', 'wb').write(bytes(9 << 20))")
        said = service.post(f"{place}/fork").json()["detail"]
        assert "remove some, or ask the operator of this server for --artifact-size" in said
