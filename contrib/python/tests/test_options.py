"""The options of a sandbox are declared once: every interface of the package follows the declarations."""

# once: the caller's rights make no difference

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import ValidationError

from pysbx import Mount, Sandbox, SandboxOptionError, run_code, sandbox, sandbox_async
from pysbx.calls.execution import run_chosen
from pysbx.command import main
from pysbx.command.main import make_parser
from pysbx.options import configuration
from pysbx.options.declaration import Declared, Number, parse_mount
from pysbx.options.keywords import OPTIONS
from pysbx.options.options import SHOWN, Options, _of_profile, make_options
from pysbx.service.http.api import SandboxRequest
from pysbx.service.mcp.tools import Tools
from pysbx.service.sandboxes.choices import LIMITS, Choices

NUMBERS = [declared for declared in OPTIONS.values() if isinstance(declared.option.check, Number)]
DOCS = Path(__file__).parents[2] / "docs/pages"
# By field of a tool of MCP, if it has another name.
ASKED = {"packages": "dependencies"}


def name_of(declared: Declared) -> str:
    return declared.name


def actions(command: str) -> dict[str, argparse.Action]:
    """Return the options of a command by keyword argument."""
    (commands,) = (one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction))
    found = [action for action in commands.choices[command]._actions if action.dest in OPTIONS]
    # The first: a second option of one keyword is a shorter way to write the first.
    return {action.dest: action for action in reversed(found)}


def test_every_field_is_declared_and_every_declaration_has_a_field() -> None:
    # The last ones are the package's own, and not for callers.
    internal = ["analysis", "violations", "isolated", "session", "tools"]
    assert [item.name for item in fields(Options)] == [*OPTIONS, *internal]
    assert sorted(OPTIONS) == SHOWN


class Count:
    """The options that are made and checked while it is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.checked = 0, list[str]()
        make, check = vars(Options)["__init__"], Declared.check

        def counted(options: Options, *given: Any, **named: Any) -> None:
            self.made += 1
            make(options, *given, **named)

        def noted(declared: Declared, kept: Any) -> None:
            self.checked.append(declared.name)
            check(declared, kept)

        monkeypatch.setattr(Options, "__init__", counted)
        monkeypatch.setattr(Declared, "check", noted)


def test_what_is_given_is_checked_once_and_what_is_left_out_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    run_code("1")  # looks at the machine, with options of its own
    count = Count(monkeypatch)
    assert run_code("6 * 7", memory_mb=256).value == "42"
    assert (count.made, count.checked) == (1, ["memory_mb"])


@pytest.mark.parametrize("simple", [False, True])
def test_a_request_makes_one_value_and_checks_a_profile_once_for_all(
    simple: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = Choices(make_options(), ("minimal",), (), 8)
    _of_profile.cache_clear()
    count = Count(monkeypatch)
    first = offer.options("minimal", (), {"memory_mb": 100}, simple=simple)
    assert len(count.checked) <= 10
    count.checked.clear()
    assert run_chosen(first, "6 * 7").value == "42"
    assert (first.memory_mb, count.made, count.checked) == (100, 1, [])
    assert offer.options("minimal", (), {"memory_mb": 99}, simple=simple).memory_mb == 99
    assert (count.made, sorted(count.checked)) == (2, ["memory_mb", "profile"])


def test_the_help_has_the_words_of_each_declaration() -> None:
    (commands,) = (one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction))
    shown = "".join(commands.choices["run"].format_help().split())
    for declared in OPTIONS.values():
        if declared.option.flag is not None:
            assert "".join(declared.option.help.split()) in shown, declared.name


@pytest.mark.parametrize("declared", OPTIONS.values(), ids=name_of)
def test_a_default_is_allowed_and_holds(declared: Declared) -> None:
    declared.check(declared.option.default)
    assert getattr(Options(), declared.name) == declared.option.default
    assert declared.option.help


@pytest.mark.parametrize("declared", NUMBERS, ids=name_of)
@pytest.mark.parametrize("wrong", ["x", None, True, -1, float("nan"), float("inf")], ids=str)
def test_what_is_no_number_is_refused_by_name(declared: Declared, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"^{declared.name}: "):
        make_options(**{declared.name: wrong})


@pytest.mark.parametrize("name", [name for name, declared in OPTIONS.items() if declared.type is bool])
@pytest.mark.parametrize("wrong", ["no", None, 1])
def test_what_is_neither_true_nor_false_is_refused_by_name(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: {wrong!r} is neither True nor False"):
        make_options(**{name: wrong})


@pytest.mark.parametrize("command", ["run", "shell", "warm", "serve", "mcp"])
def test_a_command_has_every_option(command: str) -> None:
    found = actions(command)
    assert found.keys() == OPTIONS.keys()
    for declared in OPTIONS.values():
        action = found[declared.name]
        if declared.name != "limits":  # a server has a flag of its own for it
            assert declared.option.flag is not None and action.option_strings == [declared.option.flag.name]
            assert str(action.help).replace("%%", "%") == declared.option.help


def flags() -> Iterator[tuple[str, str, str]]:
    """Yield a flag, a value that it cannot have, and what is said of it."""
    for declared in OPTIONS.values():
        assert declared.option.flag is not None
        if isinstance(declared.option.check, Number):
            yield declared.option.flag.name, "-1", f"{declared.option.flag.name}: -1"
    yield from (("--network", "1.2.3.4", "--network: '1.2.3.4'"), ("--preload", "5", "--preload: '5'"))


@pytest.mark.parametrize(("flag", "value", "said"), list(flags()))
def test_the_command_says_which_of_its_options_is_wrong(
    flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", f"{flag}={value}", "-c", "1"]) == 2
    assert capsys.readouterr().err.startswith(f"pysbx: {said}")


def test_a_request_has_the_limits_that_callers_may_choose() -> None:
    assert [*SandboxRequest.model_fields] == ["profile", "packages", *LIMITS]
    assert [declared.name for declared in NUMBERS if declared.option.offered] == [*LIMITS]
    for name in LIMITS:
        schema = SandboxRequest.model_json_schema()["properties"][name]
        assert schema["description"] == OPTIONS[name].option.help
        assert schema["anyOf"][0]["type"] == {int: "integer", float: "number"}[OPTIONS[name].type]
        with pytest.raises(ValidationError):
            SandboxRequest.model_validate({name: -1})


UNKNOWN = (
    ("network", False, "did you mean 'allow_network'?"),
    ("network", "host", "did you mean 'allow_network'?"),
    ("network", ["example.org"], "did you mean 'allow_network'?"),
    ("private_hosts", True, "there are"),
    ("session", True, "there are"),
    ("analysis", "{}", "there are"),
    ("violations", "first", "did you mean 'isolation'?"),
    ("policy", None, "there are"),
    ("memory", 1, "did you mean 'memory_mb'?"),
)


@pytest.mark.parametrize(("name", "value", "said"), UNKNOWN, ids=[f"{name}={value}" for name, value, _ in UNKNOWN])
def test_an_option_that_is_not_documented_is_refused(name: str, value: Any, said: str, tmp_path: Path) -> None:
    refused = rf"'{name}' is not an option of a sandbox: {re.escape(said)}"
    options: Any = {name: value}
    for function in (run_code, sandbox, sandbox_async):
        with pytest.raises(TypeError, match=refused):
            function("1", **options) if function is run_code else function(**options)
    with pytest.raises(TypeError, match=refused):
        Sandbox(**options)
    profile = json.dumps({"limits": options})
    with pytest.raises(SandboxOptionError, match=f"limits: '{name}' is not a limit of a sandbox"):
        run_code("1", profile=file_of(tmp_path, profile.encode()))


def test_relative_paths_lead_where_the_kernel_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("work/here", "data", "far/inner", "far/data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/mark").write_text("near")
    (tmp_path / "far/data/mark").write_text("beside the target of the link")
    (tmp_path / "work/link").symlink_to(tmp_path / "far/inner")
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    source = "print(open('/data/mark').read())"
    for path, said in (("../data", "near"), ("link/../data", "beside the target of the link")):
        given = (Mount(path, "/data"), Mount(Path(path), "/other/../data"), parse_mount(f"{path}:/data"))
        for mount in given:
            assert run_code(source, mounts=[mount]).stdout == f"{said}\n"
    assert Mount("../data").target == str(tmp_path / "data")
    for name in ("virtualenv", "rootfs", "wheels"):
        options: Any = {name: "../data"}
        assert getattr(make_options(**options), name) == str(tmp_path / "data")
    assert run_code("import os; os.getcwd()", workdir="/usr/../tmp").value == "'/tmp'"
    done = run_code("open('a.txt').read()", files={"b/../a.txt": "text"})
    assert done.value == "'text'"
    with pytest.raises(ValueError, match="stays in /work"):
        run_code("1", files={"b/../../a.txt": ""})
    with pytest.raises(ValueError, match="the target must be an absolute path"):
        Mount("/tmp", "data")


def test_the_options_of_the_command_hold(capfd: pytest.CaptureFixture[str]) -> None:
    source = "import os, resource; print(os.getcwd(), resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20)"
    rules = json.dumps({"filesystem": {"read": ["/"], "write": ["/work"]}})
    given = ["--workdir", "/tmp", "--file-size", "3", "--landlock", rules, "--seccomp", "seccomp", "--disable-cache"]
    assert main(["run", *given, "-c", f"{source}; open('a', 'w')"]) == 1
    said = capfd.readouterr()
    assert said.out == "/tmp 3\n"
    assert "PermissionError" in said.err
    assert main(["run", "--answer-limit", "100", "-c", "'x' * 1000"]) == 137
    assert "--answer-limit" in capfd.readouterr().err


def paragraphs(page: str, *starts: str) -> str:
    """Return the paragraphs and tables of a page that begin with one of some texts."""
    found = (DOCS / page).read_text(encoding="utf-8").split("\n\n")
    return "\n".join(part for part in found if part.startswith(starts))


def test_the_page_of_the_options_has_each_in_the_words_of_every_interface() -> None:
    """The script compares the whole table (tests/integration/reference.bats); here is what its cells mean."""
    rows = paragraphs("reference/options.md", "| option | default").splitlines()[2:]
    for declared, row in zip(OPTIONS.values(), rows, strict=True):
        _, forms, _, also, meaning, _ = row.replace(r"\|", "/").split("|")
        assert declared.option.flag is not None and f"`{declared.name}`, `{declared.option.flag.name}" in forms
        assert ("requests" in also) == (declared.name in LIMITS)
        assert ("configuration" in also) == (declared.name in configuration.SETTABLE)
        assert meaning.strip() == declared.option.help


def test_the_documents_say_what_a_request_has_instead_of_an_option() -> None:
    rows = paragraphs("reference/http-api.md", "| option | instead").splitlines()
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {"dependencies", "seccomp"} <= named <= OPTIONS.keys() - SandboxRequest.model_fields.keys()


def test_the_documents_say_which_options_a_model_may_choose() -> None:
    fields = inspect.signature(Tools.run_python).parameters.keys()
    chosen = {ASKED.get(name, name) for name in fields} & OPTIONS.keys()
    said = paragraphs("how-to/mcp.md", "A model chooses")
    theirs, _ = said.split(". All\nother", 1)
    assert {ASKED.get(name, name) for name in re.findall(r"`(\w+)`", theirs)} == chosen


def test_no_tool_of_mcp_takes_another_option() -> None:
    """A tool that took one would need the page, and the bounds of the operator."""
    tools = [tool for name, tool in inspect.getmembers(Tools, inspect.iscoroutinefunction) if not name.startswith("_")]
    assert len(tools) > 10
    taken = {ASKED.get(name, name) for tool in tools for name in inspect.signature(tool).parameters} & OPTIONS.keys()
    assert taken == {"dependencies", "profile", "timeout_sec"}
    assert taken <= {ASKED.get(name, name) for name in inspect.signature(Tools.run_python).parameters}


def test_choices_are_those_of_the_type() -> None:
    for declared in OPTIONS.values():
        assert declared.choices == (get_args(declared.type) if "Literal" in str(get_origin(declared.type)) else ())
    assert actions("run")["warm"].choices == ("auto", "require", "off")
    with pytest.raises(ValueError, match=r"^warm: 'yes' is not one of auto, require, off$"):
        make_options(warm="yes")


def file_of(folder: Path, content: bytes) -> str:
    """Write a file for an option, and return its path."""
    path = folder / "given.json"
    path.write_bytes(content)
    return str(path)


TEXTS = ("landlock",)
FILES = ("profile", "seccomp")
WRONG = (
    ("default", r"not JSON: Expecting value.*"),
    ("{'a': 1}", r"not JSON: Expecting property name.*"),
    ("[" * 100_000, "JSON of too many levels"),
    ("1" * 10_000, "not JSON: Exceeds the limit.*|not a JSON object"),  # by the version of Python
    ("[]", "not a JSON object"),
    ("5", "not a JSON object"),
)


@pytest.mark.parametrize("option", [*TEXTS, *FILES])
@pytest.mark.parametrize(("text", "said"), WRONG, ids=[text[:10] for text, _ in WRONG])
def test_an_option_that_takes_json_says_what_is_wrong_and_what_is_expected(
    option: str, text: str, said: str, tmp_path: Path
) -> None:
    given: Any = {option: file_of(tmp_path, text.encode()) if option in FILES else text}
    with pytest.raises(SandboxOptionError, match=rf"(?s)^{option}[: ].*: (?:{said}); .* is expected$") as caught:
        run_code("1", **given)
    assert caught.value.option == option
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("profile", b"\xff", "can't decode"),
        ("seccomp", b"\xff", "can't decode"),
        ("profile", b'{"extends": 5}', "extends: 5 is not the name or path of a profile"),
        ("profile", b'{"landlock": 5}', "limits: landlock: '5': not a JSON object"),
        ("seccomp", b'{"allow": "x"}', "'allow' has to be a list of names"),
    ],
)
def test_a_file_says_what_is_wrong(option: str, content: bytes, said: str, tmp_path: Path) -> None:
    given: Any = {option: file_of(tmp_path, content)}
    with pytest.raises(SandboxOptionError, match=f"^{option} '.*given.json': .*{said}") as caught:
        run_code("1", **given)
    assert caught.value.option == option


@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("name", ["none", "/none.json", "/tmp", "a\0.json", "a\0", "\ud800.json"])
def test_a_file_that_is_not_there_is_named(option: str, name: str) -> None:
    given: Any = {option: name}
    with pytest.raises(SandboxOptionError, match=f"^{option}"):
        run_code("1", **given)


@pytest.mark.parametrize("option", ["virtualenv", "rootfs", "image", "wheels", "workdir", "index_url", "landlock"])
@pytest.mark.parametrize("value", ["/a\0b", "/\ud800"], ids=["null", "half"])
def test_a_string_that_can_be_no_path_is_refused(option: str, value: str) -> None:
    given: Any = {option: value}
    with pytest.raises(SandboxOptionError, match=f"^{option}: .* has a null character, or half a character$"):
        run_code("1", **given)
    with pytest.raises(ValueError, match=r"^mount "):
        Mount("/a\0b")


@pytest.mark.parametrize(
    ("ruleset", "said"),
    [
        ({"filesystem": []}, "filesystem is not an object"),
        ({"filesystem": {"write": "/tmp"}}, "filesystem.write is not a list"),
    ],
)
def test_a_ruleset_has_the_parts_that_the_package_changes(ruleset: Any, said: str) -> None:
    with pytest.raises(SandboxOptionError, match=f"^landlock: {said}"):
        run_code("1", landlock=json.dumps(ruleset))
    assert run_code("6 * 7", landlock=json.dumps({"filesystem": {"read": ["/"], "write": ["/tmp"]}})).value == "42"


def test_the_command_tells_a_wrong_profile_from_a_sandbox_that_cannot_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--profile", file_of(tmp_path, b"default"), "-c", "1"]) == 2
    assert "not JSON" in capsys.readouterr().err
