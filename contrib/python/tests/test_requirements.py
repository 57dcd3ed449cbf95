"""Install more than packages by name: projects, files of requirements, the metadata of a script."""

# once: the caller's rights make no difference

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from pysbx import DependencyInstallError, SandboxOptionError, run_code
from pysbx.base import trees
from pysbx.command import main
from pysbx.container.interpreter import host_interpreter
from pysbx.options.requirements import Script, normalise, normalise_all, of_script
from pysbx.packages import dependencies
from tests.packages import make_deep, make_project, make_wheel

SCRIPT = """# /// script
# requires-python = "{python}"
# dependencies = [
#   "thing>=2",
# ]
# ///
import thing
print(thing.version)
"""


@pytest.fixture
def wheels(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, a cache of its own, and a working directory."""
    monkeypatch.chdir(wheels.parent)
    make_wheel(wheels, "thing", "1.0", "version = 1\n")
    make_wheel(wheels, "thing", "2.0", "version = 2\n")
    return wheels


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_project_of_the_host(wheels: Path, tmp_path: Path, installer: Any) -> None:
    project = make_project(tmp_path / "my project", "mine", "import os\nvalue = 1\n")
    for _ in range(2):
        done = run_code("import mine; mine.value", dependencies=["./my project"], wheels=wheels, installer=installer)
        assert (done.error, done.value) == (None, "1")
    assert done.warm  # mine was preloaded
    assert not (project / "written-by-the-build").exists()
    assert len(dependencies.installed()) == 1


def test_a_project_that_has_changed_is_installed_again(wheels: Path, tmp_path: Path) -> None:
    make_project(tmp_path / "one", "mine", "value = 1\n")
    assert run_code("import mine; mine.value", dependencies=["./one"], wheels=wheels).value == "1"
    (tmp_path / "one" / "mine.py").write_text("value = 'changed'\n")
    wanted = dependencies.Wanted(normalise_all(["./one"]), "", str(wheels))
    assert len(dependencies.installed()) == 1
    site = dependencies.ensure(wanted, host_interpreter())
    assert (site / "mine.py").read_text() == "value = 'changed'\n"


def test_a_project_with_deep_directories_is_refused(wheels: Path, tmp_path: Path) -> None:
    make_deep(make_project(tmp_path / "one", "mine", ""), 1500)
    with pytest.raises(DependencyInstallError, match="more than 250000 files, or 64 directories within each other"):
        run_code("1", dependencies=["./one"], wheels=wheels)
    trees.remove(tmp_path / "one")


def test_a_wheel_by_its_path(wheels: Path) -> None:
    done = run_code("import thing; thing.version", dependencies=["./wheels/thing-1.0-py3-none-any.whl"], wheels=wheels)
    assert done.value == "1"


@pytest.mark.parametrize("given", ["./none", "/etc", "/etc/passwd", "./wheels", "."])
def test_what_is_no_project(wheels: Path, given: str) -> None:
    with pytest.raises(SandboxOptionError, match=r"is no directory with a pyproject\.toml"):
        normalise(given)


def test_normal_forms_of_projects(wheels: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path / "one", "mine", "")
    for given in ("./one", str(project), "./wheels/../one", f"mine @ file://{project}"):
        assert normalise(given) == str(project)
    assert normalise("./one[B, a]") == normalise(f"mine[b,a] @ file://{project}") == f"{project}[a,b]"
    assert normalise(normalise("./one[a]")) == f"{project}[a]"


def test_a_file_of_requirements(wheels: Path, tmp_path: Path) -> None:
    make_project(tmp_path / "one", "mine", "value = 3\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "requirements.txt").write_text(
        "\ufeff# what we need\nthing \\\n  == 1.0  # not 2\n\n-r more/others.txt\n"
    )
    (tmp_path / "more/others.txt").write_text("-e ./one\n")
    assert normalise_all(["-r requirements.txt"]) == (f"{tmp_path}/one", "thing==1.0")
    done = run_code(
        "import thing, mine; thing.version, mine.value", dependencies=["-r requirements.txt"], wheels=wheels
    )
    assert done.value == "(1, 3)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "thing\n--index-url https://x.example\n",
            "line 2: '--index-url https://x.example': give the sandbox --index-u",
        ),
        ("-f=wheels\n", "line 1: '-f=wheels': give the sandbox --wheels, or wheels"),
        ("-c limits.txt\n", "line 1: '-c limits.txt': write the versions into the requirements"),
        ("--pre\n", "line 1: '--pre': it belongs to pip's configuration"),
        ("\n\ngit+https://x.example/y\n", "line 3: 'git\\+https://x.example/y' .*, or clone it, and give its path"),
        ("-r requirements.txt\n", "more than 10 files"),
        ("-r none.txt\n", "none.txt': No such file"),
        ("-c x.txt\n", "line 1: '-c x.txt'"),
    ],
)
def test_a_file_with_a_line_that_is_not_allowed(wheels: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    with pytest.raises(SandboxOptionError, match=said):
        normalise_all(["-r requirements.txt"])


def test_the_command_takes_files_and_projects(wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_project(tmp_path / "one", "mine", "value = 3\n")
    (tmp_path / "requirements.txt").write_text("thing<2\n")
    source = ["--wheels", str(wheels), "--requirements", "requirements.txt", "--with", "./one"]
    assert main(["run", *source, "-c", "import thing, mine; print(thing.version, mine.value)"]) == 0
    assert capsys.readouterr().out == "1 3\n"


def test_a_script_names_its_packages(wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(python=">=3.9"))
    assert main(["run", "--wheels", str(wheels), "script.py"]) == 0
    assert capsys.readouterr().out == "2\n"
    # A package of the command line takes the place of the script's.
    assert main(["run", "--wheels", str(wheels), "--with", "thing<2", "script.py"]) == 0
    assert capsys.readouterr().out == "1\n"


def test_a_script_for_another_python(wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(python="<3.9"))
    assert main(["run", "--wheels", str(wheels), "script.py"]) == 2
    assert "the script requires Python <3.9, and the sandbox has 3." in capsys.readouterr().err


def test_a_script_cannot_name_files_of_the_host(wheels: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path / "one", "mine", "secret = 1\n")
    for wanted in (f"mine @ file://{project}", str(project)):
        with pytest.raises(ValueError, match="is a path of the host"):
            of_script(f'# /// script\n# dependencies = ["{wanted}"]\n# ///\n')
    with pytest.raises(ValueError, match="not a requirement"):
        of_script('# /// script\n# dependencies = ["-r /etc/passwd"]\n# ///\n')


@pytest.mark.parametrize(
    "block",
    ["# dependencies = 'x'\n", "# dependencies = [\n", "# requires-python = 3\n", "# requires-python = 'new'\n",
     "# dependencies = [1]\n"],
)  # fmt: skip
def test_malformed_metadata(block: str) -> None:
    with pytest.raises(ValueError, match=r"of the script: |is not TOML: |^dependencies: "):
        of_script(f"# /// script\n{block}# ///\n")


# Metadata that take long, or more levels than Python has.
HOSTILE = {
    "arrays": "a = " + "[" * 60_000,
    "tables": "a = " + "{a=" * 20_000,
    "a key": ".".join("a" * 30_000) + " = 1",
    "levels of a version": "requires-python." + ".".join("a" * 4000) + " = 1",
    "digits of a version": f"requires-python = '>={'1' * 8000}'",
    "brackets of a marker": f"dependencies = ['x ; {'(' * 8000}']",
    "a requirement": f"dependencies = [\n'x[{'a,' * 4000}\\\n{'a,' * 4000}\\\n{'a,' * 4000}]'\n]",
    "lines": "a = 1\n" * 20_000,
}


@pytest.mark.parametrize("block", HOSTILE.values(), ids=HOSTILE)
def test_hostile_metadata_are_an_error_at_once(
    block: str, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"# {line}\n" for line in block.split("\n"))
    (tmp_path / "script.py").write_text(f"# /// script\n{lines}# ///\n")
    began = time.process_time()
    assert main(["run", "script.py"]) == 2
    assert time.process_time() - began < 5
    assert capsys.readouterr().err.startswith("pysbx: ")


def test_a_text_of_beginnings_takes_no_longer_than_another() -> None:
    """The time of the specification's regular expression grows with the square of their number."""
    began = time.process_time()
    assert of_script("# /// script\n" * 200_000) == of_script("# /// script\n#\n\n" * 100_000) == Script()
    assert time.process_time() - began < 5


def test_a_block_goes_on_to_the_last_end_in_a_comment() -> None:
    """See https://packaging.python.org/en/latest/specifications/inline-script-metadata/."""
    ends = "# /// script\n# dependencies = ['x']\n# # ///\n# ///\n#\n# ///\n"
    with pytest.raises(ValueError, match="Invalid"):
        of_script(ends)
    assert of_script(ends.replace("# ///\n#\n", "#\n#\n")).dependencies == ("x",)
    assert of_script("# /// script\n# ///\n").dependencies == ()
    with pytest.raises(ValueError, match="more than one block"):
        of_script("# /// script\n#\n# ///\n\n# /// script\n#\n# ///\n")


def test_files_that_name_each_other_again_and_again_are_read_once(wheels: Path, tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n" * 100)
    (tmp_path / "10.txt").write_text("thing\n")
    assert normalise_all(["-r 0.txt"]) == ("thing",)
    (tmp_path / "large.txt").touch()
    os.truncate(tmp_path / "large.txt", 1 << 40)
    with pytest.raises(SandboxOptionError, match=r"'large\.txt': more than"):
        normalise_all(["-r large.txt"])


def test_a_program_without_metadata() -> None:
    assert of_script("print(1)\n# /// script\n").dependencies == ()
    assert of_script("# /// other\n# dependencies = ['x']\n# ///\n").dependencies == ()
