"""Static analysis and profiles: what each rule finds, where it runs, and what a profile may say."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pysbx import PolicyViolationError, Sandbox, SandboxOptionError, run_code, sandbox
from pysbx.inside.analysis import analyse
from pysbx.inside.patterns import PATTERNS
from pysbx.options.profiles import load, names

STAGES: dict[str, Any] = {
    "imports": {"stage": "enforce", "allowed": ["math", "os.path"]},
    "calls": {"stage": "enforce", "blocked": ["eval", "vars", "os.system", "os.exec*", "subprocess.*"]},
    "attributes": {"stage": "enforce", "blocked": ["__subclasses__", "__globals__", "f_back"]},
    "patterns": {"stage": "observe", "rules": list(PATTERNS)},
}


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import math, os.path", None),
        ("from os.path import join", None),
        ("import os", "import"),
        ("from os import path", "import"),
        ("import mathematics", "import"),
        ("__import__('os')", "import"),
        ("import math\n__import__('math')", None),
        ("__import__('o' + 's')", "import"),
        ("import importlib.util", "import"),
        ("eval('1')", "call"),
        ("import builtins as b\nb.eval('1')", "call"),
        ("from os import system as s\ns('x')", "call"),
        ("import os as o\no.system('x')", "call"),
        ("evaluate('1')", None),
        ("import subprocess\nsubprocess.run('x')", "call"),
        ("import subprocess as sp\nsp.Popen('x')", "call"),
        ("from subprocess import run", "call"),
        ("from os import *\nsystem('x')", "call"),
        ("import os\nos.execvp('x', ['x'])", "call"),
        ("import os\nrun = os.system\nrun('x')", "call"),
        ("import os\nmap(os.system, ['x'])", "call"),
        ("import os\no = os\no.system('x')", "call"),
        ("import os\ngetattr(os, 'system')('x')", "call"),
        ("import random\nrandom._os.system('x')", "call"),
        ("import numpy as np\nnp.subprocess.run('x')", "call"),
        ("run = eval\nrun('1')", "call"),
        ("vars = ['a', 'b']\nfor v in vars: print(v)", None),
        ("def f(vars): return vars", None),
        ("table.eval('a + b')", None),
        ("system('x')", None),
        ("class A:\n    def f(self): self.subprocess.run('x')", None),
        ("().__class__.__base__.__subclasses__()", "attribute"),
        ("getattr(x, '__globals__')", "attribute"),
        ("frame.f_back", "attribute"),
        ("'{0.__globals__}'.format(f)", "format-string"),
        ("'{0.name}'.format(f)", None),
        ("password = 'hunter2x'", "secret"),
        ("connect(api_key='0123456789')", "secret"),
        ("x = 'AKIA' + 'x'", None),
        ("x = 'AKIAABCDEFGHIJKLMNOP'", "secret"),
        ("password = input()", None),
        ("self.password = 'hunter2x'", "secret"),
        ("password: str = 'hunter2x'", "secret"),
        ("def f(password='hunter2x'): pass", "secret"),
        ("def f(*, password='hunter2x'): pass", "secret"),
        ("x = {'password': 'hunter2x'}", "secret"),
        ("env['API_KEY'] = 'hunter2x'", "secret"),
        ("password = b'hunter2x'", "secret"),
        ("x = 'api_key=0123456789abcdef'", "secret"),
        ("x = 'token: authentication-token'", None),
        ("table.rename(columns={'password': 'password_hash'})", None),
        ("password = 'Enter your password'", None),
        ("db.execute('SELECT a FROM t WHERE b = ' + x)", "sql"),
        ("db.execute(f'DELETE FROM t WHERE b = {x}')", "sql"),
        ("db.execute('SELECT a FROM t WHERE b = ?', (x,))", None),
        ("q = 'SELECT * FROM t WHERE id=%s' % i", "sql"),
        ("q = 'SELECT * FROM t WHERE id=%s'\ndb.execute(q % i)", "sql"),
        ("q = 'select a from t where b = '\nq += b", "sql"),
        ("q = 'INSERT INTO t VALUES ({})'.format(x)", "sql"),
        ("q = f'UPDATE {t} SET a = 1'", "sql"),
        ("q = 'SELECT a ' + 'FROM t'", None),
        ("q = 'SELECT a, ' + f'{b} FROM t'", "sql"),
        ("db.execute('SELECT a FROM t WHERE b = %s', (x,))", None),
        ("print(f'Select one of {x} from the list')", None),
        ("print('update: %s' % x)", None),
        ("1 + 2 + 3", None),
        ("import hashlib\nhashlib.md5(b'')", "weak-hash"),
        ("import hashlib\nhashlib.new('sha1')", "weak-hash"),
        ("import hashlib\nhashlib.sha256(b'')", None),
        ("import hashlib\nhashlib.md5(b'', usedforsecurity=False)", None),
        ("import hashlib\nh = hashlib.md5\nh(b'')", "weak-hash"),
        ("import hmac\nhmac.new(k, m, 'sha1')", "weak-hash"),
        ("import hmac, hashlib\nhmac.new(k, m, digestmod=hashlib.md5)", "weak-hash"),
        ("import pickle\npickle.loads(x)", "deserialization"),
        ("import pickle\nload = pickle.load\nload(x)", "deserialization"),
        ("import pandas as pd\npd.read_pickle('x')", "deserialization"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "deserialization"),
        ("import numpy as np\nnp.load('x')", None),
        ("from pickle import loads\nloads(x)", "deserialization"),
        ("import yaml\nyaml.load(x)", "deserialization"),
        ("import yaml\nyaml.load(x, Loader=yaml.SafeLoader)", None),
        ("open('../../etc/passwd')", "path-traversal"),
        ("open(f'{x}/../y')", "path-traversal"),
        ("import os.path\nos.path.join(x, '..', 'y')", "path-traversal"),
        ("x = '..'", None),
    ],
)
def test_each_rule(source: str, rule: str | None) -> None:
    found = {item[1] for item in analyse(source, STAGES)}
    if rule is None:
        assert found <= ({"import"} if "import" in source and "math" not in source else set())
    else:
        assert rule in found


def test_lines_and_stages() -> None:
    found = analyse("\nimport os\n\npassword = 'hunter2x'\n", STAGES)
    assert [(stage, rule, line) for stage, rule, line, _ in found] == [
        ("enforce", "import", 2),
        ("observe", "secret", 4),
    ]


def test_only_the_first_violation_of_the_first_stage_that_refuses() -> None:
    source = "eval('1')\npassword = 'hunter2x'\nimport socket\nimport subprocess\nimport os"
    listed = [(rule, line) for _, rule, line, _ in analyse(source, STAGES)]
    assert listed == [("call", 1), ("secret", 2), ("import", 3), ("import", 4), ("import", 5)]
    assert [(rule, line) for _, rule, line, _ in analyse(source, STAGES, "first")] == [("import", 3)]
    assert [(rule, line) for _, rule, line, _ in analyse("eval('1')\neval('2')", STAGES, "first")] == [("call", 1)]
    # An observed stage refuses nothing: its findings are listed if the code runs.
    observed = analyse("password = 'hunter2x'\nsecret = 'hunter2x'", STAGES, "first")
    assert [(stage, line) for stage, _, line, _ in observed] == [("observe", 1), ("observe", 2)]


def test_a_profile_that_reports_the_first_violation(tmp_path: Path) -> None:
    source = "eval('1')\nimport socket\nimport subprocess"
    path = tmp_path / "first.json"
    path.write_text(json.dumps({"extends": "minimal", "violations": "first"}))
    for profile, found in (("minimal", [("call", 1), ("import", 2), ("import", 3)]), (path, [("import", 2)])):
        done = run_code(source, profile=profile)
        assert [(violation.rule, violation.line) for violation in done.violations] == found
        assert done.exit_code == 1

    @sandbox(profile=path)
    def forbidden() -> None:
        eval("1")
        import socket  # noqa: F401

    with pytest.raises(PolicyViolationError) as caught:
        forbidden()
    assert [violation.rule for violation in caught.value.violations] == ["import"]


@pytest.mark.parametrize("source", ["x = (", "(" * 5000, "\0", "-" * 20000 + "1"])
def test_what_cannot_be_parsed_has_no_findings(source: str) -> None:
    done = run_code(source, profile="minimal")
    assert done.violations == ()
    assert done.exit_code != 0


def test_enforced_code_does_not_run() -> None:
    done = run_code("print('ran')\nimport subprocess", profile="minimal")
    assert done.stdout == ""
    assert done.error is not None and (done.error.type, done.error.line) == ("PolicyViolation", 2)
    assert [violation.rule for violation in done.violations] == ["import"]


@pytest.mark.parametrize("profile", ["minimal", "data-science"])
@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("eval('1')", "call"),
        ("exec('1')", "call"),
        ("import os\nos.system('id')", "call"),
        ("import subprocess\nsubprocess.run('id')", "call"),
        ("import socket\nsocket.socket()", "call"),
        ("import requests", "import"),
        ("().__class__.__base__.__subclasses__()", "attribute"),
        ("password = 'hunter2x'", "secret"),
        ("q = 'SELECT * FROM t WHERE id=%s' % 1", "sql"),
        ("import pickle\npickle.loads(b'')", "deserialization"),
        ("import hashlib\nhashlib.md5(b'')", "weak-hash"),
        ("open('../etc/passwd')", "path-traversal"),
    ],
)
def test_the_profiles_of_the_package_refuse_it(profile: str, source: str, rule: str) -> None:
    found = analyse(source, json.loads(load(profile).analysis))
    assert ("enforce", rule) in [(stage, name) for stage, name, *_ in found]


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("import pandas as pd\npd.read_sql('select 1', c)", True),
        ("import pandas\npandas.read_html(x)", True),
        ("from pandas import read_clipboard\nread_clipboard()", True),
        ("import numpy as np\nnp.frompyfunc(f, 1, 1)", True),
        ("import numpy as np\nnp.ctypeslib.load_library('c', '.')", True),
        ("import pandas as pd\npd.read_excel('a.xlsx')", False),
        ("import scipy.io\nscipy.io.loadmat('a.mat')", False),
        ("open('a.csv').read()", False),
        ("getattr(x, 'mean')()", False),
        ("getattr(x, '__globals__')", True),
    ],
)
def test_data_science_reads_files_and_nothing_else(source: str, refused: bool) -> None:
    assert bool(analyse(source, json.loads(load("data-science").analysis))) == refused


def test_the_analysis_of_a_long_sum_takes_no_long_time() -> None:
    began = time.monotonic()
    analyse("x = " + " + ".join(["'SELECT ' + y"] * 1000), STAGES)
    analyse("x = f'" + "SELECT {y} " * 5000 + "'", STAGES)
    assert time.monotonic() - began < 5


def test_observed_code_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"extends": "minimal", "patterns": {"stage": "observe"}}))
    done = run_code("token = 'x'\npassword = 'hunter2x'\nprint('ran')", profile=path)
    assert done.stdout == "ran\n"
    assert [(violation.rule, violation.line) for violation in done.violations] == [("secret", 2)]


@sandbox(profile="minimal")
def imports_something() -> None:
    """Do what the profile forbids."""
    import socket

    socket.socket()


def test_a_function_is_looked_at_too() -> None:
    with pytest.raises(PolicyViolationError) as caught:
        imports_something()
    violation = caught.value.violations[0]
    assert violation.rule == "import"
    assert Path(__file__).read_text().splitlines()[violation.line - 1].strip() == "import socket"


def test_a_function_in_a_session_is_looked_at_too() -> None:
    with Sandbox(profile="minimal") as session, pytest.raises(PolicyViolationError):
        session.call(imports_in_a_session)


def imports_in_a_session() -> None:
    """Do what the profile forbids."""
    import socket

    socket.socket()


def test_the_profiles_that_come_with_the_package() -> None:
    assert names() == ["data-science", "minimal"]
    minimal, science = load("minimal"), load("data-science")
    allowed = set(json.loads(science.analysis)["imports"]["allowed"])
    assert set(json.loads(minimal.analysis)["imports"]["allowed"]) < allowed
    assert "numpy" in allowed
    assert (science.limits["memory_mb"], science.limits["allow_network"]) == (2048, "none")
    assert science.preload == ("numpy", "pandas")
    assert {"numpy", "pandas", "scipy"} < set(science.dependencies)
    assert json.loads(science.landlock)["filesystem"]["read"] == ["/"]


def test_limits_of_a_profile_hold_where_nothing_else_is_said() -> None:
    assert run_code("import resource", profile="minimal").error is not None

    @sandbox(profile="minimal", memory_mb=300)
    def nothing() -> None:
        pass

    options = vars(nothing)["_sandbox_config"]
    assert (options.memory_mb, options.timeout_sec) == (300, 10)


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"extends": "minimal", "imports": {"stage": "observe"}, "limits": {"timeout_sec": 3}}))
    for name in (str(path), path):
        done = run_code("import os\nprint(os.getpid())", profile=name)
        assert done.stdout == "2\n"  # the child of the container's init
        assert [violation.rule for violation in done.violations] == ["import"]


YAML = """
# A comment.
description: Numbers only.
extends: minimal
limits: {timeout_sec: 3}
imports:
  stage: observe
attributes: {stage: off}
"""


def test_a_profile_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(YAML)
    found = load(str(path))
    assert (found.description, found.limits["timeout_sec"]) == ("Numbers only.", 3)
    assert {stage: rule["stage"] for stage, rule in json.loads(found.analysis).items()} == {
        "imports": "observe",
        "calls": "enforce",
        "attributes": "off",
        "patterns": "enforce",
    }
    assert [one.rule for one in run_code("import os\n().__class__.__mro__", profile=path).violations] == ["import"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a: [", "not YAML: while parsing"),
        ("- minimal", "not a JSON object"),
        ("extend: minimal", "'extend' is not a key"),
        ("description: !!python/object:os.system {}", "not YAML: could not determine a constructor"),
        ("description: 2026-01-01", "not a value of JSON"),
        ("dependencies: numpy", "dependencies: a list is expected"),
    ],
)
def test_a_profile_in_yaml_that_is_wrong_says_so(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text(text)
    with pytest.raises(SandboxOptionError, match=match):
        run_code("1", profile=path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"extend": "minimal"}, "'extend' is not a key"),
        ({"extends": "none"}, "profile 'none'"),
        ({"imports": {"stage": "sometimes"}}, "imports.stage"),
        ({"imports": {"stage": "off", "allow": []}}, "imports"),
        ({"calls": {"stage": "off", "blocked": [1]}}, "calls.blocked"),
        ({"patterns": {"stage": "off", "rules": ["x"]}}, "patterns.rules"),
        ({"limits": {"memory": 1}}, "limits"),
        ({"limits": []}, "limits"),
        ({"limits": {"allow_network": True}}, "allow_network: True is not a list of host names"),
        ({"isolated": 1}, "isolated: true or false is expected"),
        ({"violations": "some"}, "violations: 'some' is not one of all, first"),
        ({"violations": ["all"]}, "violations: .* is not one of all, first"),
        ({"preload": {}}, "preload: a list"),
        ({"dependencies": ["../x"]}, "'../x' is no directory with a pyproject.toml"),
        ([], "not a JSON object"),
    ],
)
def test_a_profile_that_is_wrong_says_where(tmp_path: Path, content: object, match: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=match):
        run_code("1", profile=str(path))


def test_a_profile_that_extends_itself(tmp_path: Path) -> None:
    path = tmp_path / "self.json"
    path.write_text(json.dumps({"extends": str(path)}))
    with pytest.raises(ValueError, match="extends itself"):
        run_code("1", profile=str(path))
