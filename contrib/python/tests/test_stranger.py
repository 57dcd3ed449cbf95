"""The current directory is a stranger's: no program that the package starts takes modules from it."""

# once: the caller's rights make no difference

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pysbx
from pysbx.base import children
from pysbx.command import main

PACKAGE = Path(pysbx.__file__).parent
# Uses of sys.executable that begin no command line: each with the function it is in.
NO_COMMAND = {
    ("container/interpreter.py", "host_interpreter"),  # the path that a sandbox is shown
    ("command/service.py", "_install"),  # the path that is checked
}
# Modules that a program could take from the directory, and those that Python itself imports when it starts.
NAMES = ("pip", "pysbx", "cloudpickle", "packaging", "json", "site", "runpy", "sitecustomize", "usercustomize")


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to a directory whose modules leave a file "ran" when they are imported."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    (folder / "main.py").write_text("print(1)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield folder
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def commands(path: Path) -> Iterator[tuple[str, list[object]]]:
    """Yield each use of sys.executable in a file: the function, and the words after it, where constants are strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            assert "executable" not in [name.name for name in node.names], f"{path}: write sys.executable"
        if isinstance(node, ast.Import):
            assert "sys" not in [name.name for name in node.names if name.asname], f"{path}: write sys.executable"
        if not (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"):
            continue
        above, function = inside[node], inside[node]
        while not isinstance(function, ast.FunctionDef | ast.Module):
            function = inside[function]
        words = above.elts if isinstance(above, ast.List | ast.Tuple) and above.elts[0] is node else []
        yield getattr(function, "name", ""), [word.value if isinstance(word, ast.Constant) else word for word in words]


def test_each_command_line_of_python_is_isolated() -> None:
    """inside/ is not of this program: it runs in the sandbox, among modules that are the code's own."""
    found: dict[tuple[str, str], list[object]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("inside/"):
            found |= {(name, function): words[1:2] for function, words in commands(path)}
    assert {
        ("base/children.py", "python"),
        ("base/children.py", "module"),
        ("container/reaper.py", "_start"),
    } <= found.keys()
    for use, option in found.items():
        isolated = any(isinstance(word, str) and word.startswith("-I") for word in option)
        assert isolated or use in NO_COMMAND, f"{use}: begin with children.python(), children.module() or -I"


def test_the_rule_finds_a_new_command(tmp_path: Path) -> None:
    new = tmp_path / "new.py"
    new.write_text("import sys\ndef start():\n    return [sys.executable, '-m', 'pip']\n")
    ((function, words),) = commands(new)
    assert (function, words[1:]) == ("start", ["-m", "pip"])


def test_an_installation_runs_no_module_of_the_directory(stranger: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--index-url", "http://index.invalid/simple/", "--with", "example-one", "main.py"]) == 125
    assert "example-one" in capfd.readouterr().err


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}, {"PYTHONSTARTUP": "pip.py", "PYTHONUSERBASE": "."}])
def test_pip_and_the_package_are_those_of_this_program(variables: dict[str, str]) -> None:
    for command in (
        children.module("pip", "--version"),
        children.python("import sys, pip; print('pip', pip.__file__)"),
    ):
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("pip ")


def test_a_kernel_that_starts_beside_a_notebook(
    stranger: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", "install", "--prefix", str(tmp_path), "--warm", "off", "--virtualenv", sys.prefix]) == 0
    capfd.readouterr()
    (specification,) = tmp_path.rglob("kernel.json")
    argv = json.loads(specification.read_text())["argv"]
    done = subprocess.run([*argv[:-1], "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "pysbx: 'none': No such file or directory\n")


def test_a_package_that_is_not_among_those_of_the_system_is_found(tmp_path: Path) -> None:
    """As `pip install --user` installs it: -I leaves that directory out."""
    shutil.copytree(PACKAGE, tmp_path / "user/pysbx", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    program = f"import json, sys; sys.path.insert(0, {str(tmp_path / 'user')!r}); from pysbx.base import children; "
    program += "shown = 'import pysbx; print(pysbx.__file__)'; "
    program += "print(json.dumps([children.module('pysbx', '--version'), children.python(shown)]))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    version, place = (subprocess.run(c, capture_output=True, text=True, check=True).stdout for c in json.loads(said))
    assert version.startswith("pysbx ")
    assert place == f"{tmp_path}/user/pysbx/__init__.py\n"
