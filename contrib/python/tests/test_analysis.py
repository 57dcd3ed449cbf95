"""Static analysis and profiles: what each rule finds, where it runs, and what a profile may say."""

# once: the caller's rights make no difference

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pysbx import PolicyViolationError, Sandbox, run_code, sandbox
from pysbx.inside.analysis import PATTERNS, analyse
from pysbx.profiles import load, names

STAGES: dict[str, Any] = {
    "imports": {"stage": "enforce", "allowed": ["math", "os.path"]},
    "calls": {"stage": "enforce", "blocked": ["eval", "os.system"]},
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
        ("db.execute('SELECT a FROM t WHERE b = ' + x)", "sql"),
        ("db.execute(f'DELETE FROM t WHERE b = {x}')", "sql"),
        ("db.execute('SELECT a FROM t WHERE b = ?', (x,))", None),
        ("import hashlib\nhashlib.md5(b'')", "weak-hash"),
        ("import hashlib\nhashlib.new('sha1')", "weak-hash"),
        ("import hashlib\nhashlib.sha256(b'')", None),
        ("import pickle\npickle.loads(x)", "deserialization"),
        ("from pickle import loads\nloads(x)", "deserialization"),
        ("import yaml\nyaml.load(x)", "deserialization"),
        ("import yaml\nyaml.load(x, Loader=yaml.SafeLoader)", None),
        ("open('../../etc/passwd')", "path-traversal"),
    ],
)
def test_each_rule(source: str, rule: str | None) -> None:
    found = {item[1] for item in analyse(source, STAGES)}
    if rule is None:
        assert found <= {"import"} if "import" in source and "math" not in source else not found
    else:
        assert rule in found


def test_lines_and_stages() -> None:
    found = analyse("\nimport os\n\npassword = 'hunter2x'\n", STAGES)
    assert [(stage, rule, line) for stage, rule, line, _ in found] == [
        ("enforce", "import", 2),
        ("observe", "secret", 4),
    ]


@pytest.mark.parametrize("source", ["x = (", "(" * 5000, "\0", "-" * 20000 + "1"])
def test_what_cannot_be_parsed_has_no_findings(source: str) -> None:
    done = run_code(source, profile="minimal")
    assert done.violations == ()
    assert done.exit_code != 0


def test_enforced_code_does_not_run() -> None:
    done = run_code("print('ran')\nimport subprocess", profile="minimal")
    assert done.stdout == ""
    assert done.error is not None
    assert (done.error.type, done.error.line) == ("PolicyViolation", 2)
    assert [violation.rule for violation in done.violations] == ["import"]


def test_observed_code_runs() -> None:
    done = run_code("token = 'x'\npassword = 'hunter2x'\nprint('ran')", profile="minimal")
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
    assert science.limits["memory_mb"] == 2048
    assert science.limits["allow_network"] == "none"
    assert science.preload == ("numpy", "pandas")
    assert json.loads(science.landlock)["filesystem"]["read"] == ["/"]


def test_limits_of_a_profile_hold_where_nothing_else_is_said() -> None:
    assert run_code("import resource", profile="minimal").error is not None

    @sandbox(profile="minimal", memory_mb=300)
    def nothing() -> None:
        pass

    policy = vars(nothing)["_sandbox_config"].policy
    assert (policy.memory_mb, policy.timeout_sec) == (300, 10)


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"extends": "minimal", "imports": {"stage": "observe"}, "limits": {"timeout_sec": 3}}))
    for name in (str(path), path):
        done = run_code("import os\nprint(os.getpid())", profile=name)
        assert done.stdout == "1\n"
        assert [violation.rule for violation in done.violations] == ["import"]


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
