"""The command line: what it prints, how it exits."""

# once: the caller's rights make no difference

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipapp
from pathlib import Path
from typing import Any, Literal

import pexpect  # type: ignore[import-untyped]
import pytest

from pysbx.base.placing import GIT_RUNS
from pysbx.base.text import visible
from tests.forked import Forked

PROGRAM = [sys.executable, "-c", "import sys; from pysbx.command import main; sys.exit(main())"]


def pysbx(*arguments: str, text: str = "", directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    pipe = subprocess.PIPE
    with Forked(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=directory) as process:
        stdout, stderr = process.communicate(text, timeout=120)
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


def test_run_takes_source_from_everywhere(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv)")
    assert pysbx("run", "-c", "print(6 * 7)").stdout == "42\n"
    assert pysbx("run", str(script), "a", "--b").stdout == "['/work/script.py', 'a', '--b']\n"
    assert pysbx("run", "-", "c", text="import sys; print(sys.argv[1:])").stdout == "['c']\n"
    assert pysbx("run", text="print(1)").stdout == "1\n"
    assert "--sort-keys" in pysbx("run", "-m", "json.tool", "--help").stdout
    assert pysbx("run", "-c", "import sys; print(sys.argv)", "--json", "-x").stdout == "['-c', '--json', '-x']\n"
    dashed = script.rename(tmp_path / "-c")
    done = pysbx("run", "--memory", "256", "--", "-c", "--", "a", directory=dashed.parent)
    assert done.stdout == "['/work/-c', '--', 'a']\n"
    assert pysbx("run", "--", text="print(2)").stdout == "2\n"


@pytest.mark.parametrize("arguments", [("a", "--", "-x"), ("--", "b"), ("--memory", "--", "--")])
def test_arguments_after_a_program_are_those_that_python_gives_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    source = "import sys; print(sys.argv[1:])"
    (tmp_path / "shown.py").write_text(source)
    for program in (["-c", source], ["-m", "shown"], ["shown.py"]):
        done = pysbx("run", "--file", "shown.py", *program, *arguments, directory=tmp_path)
        plain = subprocess.run(
            [sys.executable, *program, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == (plain.stdout, "")


def test_an_exception_that_the_program_has_shown_is_not_shown_again() -> None:
    done = pysbx("run", "-c", "import sys\nsys.excepthook = lambda *e: print('hook', e[1], file=sys.stderr)\n1 / 0")
    assert done.stderr.startswith("hook division by zero\nhint: ")
    assert (done.stderr.count("\n"), done.returncode) == (2, 1)


def test_a_script_is_a_file_in_the_sandbox(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    source = """# coding: latin-1
import multiprocessing, os, sys

def double(number):
    return 2 * number, __file__

if __name__ == "__main__":
    os.chdir("/tmp")
    print(ascii(open(__file__, encoding="latin-1").readline()), sys.path[0], sys.argv[0])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [21]))
    ä = 1 / 0
"""
    script.write_text(source, encoding="latin-1")
    done = pysbx("run", "--raw", script.name, directory=tmp_path)
    assert done.stdout == "'# coding: latin-1\\n' /work /work/script.py\n[(42, '/work/script.py')]\n"
    assert '  File "/work/script.py", line 12, in <module>\n    ä = 1 / 0\n' in done.stderr
    assert json.loads(pysbx("run", "--json", str(script)).stdout)["error"]["line"] == 12
    # The command writes to no mount over /work, and takes no file for another.
    assert pysbx("run", text="print('__file__' in vars())").stdout == "False\n"
    other = tmp_path / "other" / "script.py"
    other.parent.mkdir()
    other.write_text("print('__file__' in vars())")
    assert pysbx("run", "--mount", f"{tmp_path}:/work:rw", str(other)).stdout == "False\n"
    assert script.read_text(encoding="latin-1") == source
    assert "would both be /work/script.py" in pysbx("run", "--file", str(script), str(other)).stderr


def test_a_script_may_come_through_a_pipe() -> None:
    read, write = os.pipe()
    os.write(write, b"print(6 * 7)")
    os.close(write)
    command = [*PROGRAM, "run", f"/dev/fd/{read}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, pass_fds=[read])
    os.close(read)
    assert (done.stdout, done.stderr) == ("42\n", "")


@pytest.mark.parametrize(
    "script",
    [
        "\N{BYTE ORDER MARK}print('äö')".encode(),
        "\N{BYTE ORDER MARK}# coding: utf-8\r\nprint(len('''ä\r\nö'''))\r\n".encode(),
        "# -*- coding: latin-1 -*-\nprint('äö')".encode("latin-1"),
        "#!/usr/bin/python3\n# vim: fileencoding=cp1251\nprint('ж')".encode("cp1251"),
        b"# -*- coding: utf-8 -*-\nprint(1)  # \xe4\n",
    ],
)
def test_a_script_is_read_as_python_reads_it(tmp_path: Path, script: bytes) -> None:
    path = tmp_path / "script.py"
    path.write_bytes(script)
    wanted = subprocess.run([sys.executable, "-X", "utf8", str(path)], capture_output=True, check=True).stdout
    for name, text in ((str(path), b""), ("-", script)):
        done = subprocess.run([*PROGRAM, "run", name], input=text, capture_output=True, check=False, timeout=120)
        assert (done.stdout, done.stderr, done.returncode) == (wanted, b"", 0)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (b"print('\xe4')", "Non-UTF-8 code starting with '\\xe4'"),
        (b"1\n2\n'\xe4'", "line 3\n"),
        (b"1\n2\n3  # \xe4", "line 3\n"),
        (b"# coding: klingon", "unknown encoding: klingon"),
        (b"# coding: hex", "'hex' is not a text encoding"),
    ],
)
def test_a_script_in_another_encoding_ends_as_with_python(tmp_path: Path, script: bytes, said: str) -> None:
    path = tmp_path / "script.py"
    path.write_bytes(script)
    wanted = subprocess.run([sys.executable, str(path)], capture_output=True, check=False).returncode
    done = pysbx("run", str(path))
    assert (done.returncode, done.stdout) == (wanted, "")
    assert "SyntaxError: " in done.stderr and said in done.stderr
    assert "hint: save it as UTF-8, or name its encoding" in done.stderr


def test_an_error_names_the_option_that_was_given(tmp_path: Path) -> None:
    bad, good, missing = (str(tmp_path / name) for name in ("bad.txt", "good.txt", "none.txt"))
    Path(bad).write_text("===bad\n")
    Path(good).write_text("numpy\n")
    for options, said in (
        (["run", "--requirements", bad, "--with", "numpy", "-c", "1"], f"--requirements: '{bad}', line 1: "),
        (["run", "--requirements", missing, "-c", "1"], f"--requirements: '{missing}': No such file"),
        (["run", "--requirements", good, "--with", "===other", "-c", "1"], "--with: '===other' is not a requirement"),
        (["run", "--with", "===bad", "-c", "1"], "--with: '===bad' is not a requirement"),
        (["serve", "--best-effort", "--allow-package", "===bad"], "--allow-package: '===bad' is not a requirement"),
        (["serve", "--best-effort", "--allow-package", "./x"], "--allow-package: "),
    ):
        done = pysbx(*options)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"pysbx: {said}"), done.stderr


def test_a_file_without_end_is_read_up_to_a_bound(tmp_path: Path) -> None:
    """A stranger's file may have a hole of a terabyte, or be a device."""
    hole = tmp_path / "hole.py"
    hole.touch()
    os.truncate(hole, 1 << 40)
    for arguments in ([hole], ["--file", hole, "-c", "1"], ["--stdin", "/dev/zero", "-c", "1"]):
        done = pysbx("run", *map(str, arguments))
        assert (done.returncode, done.stdout) == (2, "")
        assert "more than 268435456 bytes: mount its directory instead" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-c", "import time\nwhile True: print('x'); time.sleep(0.01)"],
        ["run", "-c", "print(1)"],
        ["run", "--json", "-c", "print(1)"],
        ["profiles"],
        ["--version"],
    ],
)
def test_a_pipe_that_nobody_reads_ends_the_command_without_a_word(arguments: list[str]) -> None:
    read, write = os.pipe()
    child = subprocess.Popen([*PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    if "while" in arguments[-1]:
        assert os.read(read, 10)
    os.close(read)
    assert child.communicate(timeout=60)[1] == b""
    assert child.returncode == 128 + signal.SIGPIPE


def test_run_exits_as_the_program() -> None:
    assert pysbx("run", "-c", "import sys; sys.exit(3)").returncode == 3
    failed = pysbx("run", "-c", "1 / 0")
    assert failed.returncode == 1
    assert "ZeroDivisionError" in failed.stderr and "hint: " in failed.stderr
    assert "what comes through a pipe with --stdin -" in pysbx("run", "-c", "input()").stderr
    dies = ("-c", "import os, sys; print('last words', file=sys.stderr); os._exit(4)")
    dead = pysbx("run", *dies)
    assert (dead.returncode, dead.stderr) == (4, "last words\n")
    assert json.loads(pysbx("run", "--json", *dies).stdout)["stderr"] == "last words\n"
    assert pysbx("run", "--timeout", "0.5", "-c", "import time; time.sleep(60)").returncode == 124


@pytest.mark.parametrize(
    ("code", "after", "said"),
    [
        ("import absent", ["--with", "absent"], "--with after the program is an argument of the program"),
        ("input()", ["--stdin=-"], "--stdin after the program is an argument of the program"),
        ("open('/output/a', 'w')", ["--output", "there"], "--output after the program is an argument of the program"),
        ("import absent", ["--output", "there"], None),
        ("print('--with')", ["--with", "x"], None),
    ],
)
def test_an_option_that_is_advised_but_stands_after_the_program(code: str, after: list[str], said: str | None) -> None:
    told = pysbx("run", "-c", code, *after).stderr
    assert (said in told) if said else ("after the program" not in told), told


def test_run_with_files_and_options(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("content")
    done = pysbx(
        "run", "--file", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out"), "--env", "A=b", "--memory", "300",
        "--mount", f"{tmp_path}:/host", "-c",
        "import os; open('/output/x', 'w').write(open('in.txt').read()); print(os.environ['A'], os.listdir('/host'))",
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("b ['in.txt']\n", "")
    assert (tmp_path / "out" / "x").read_text() == "content"


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_what_cannot_be_written_to_the_output_is_named_and_the_rest_is_there(
    tmp_path: Path, json_too: list[str]
) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for directory in (out / "directory", elsewhere):
        directory.mkdir(parents=True)
    (out / "file").write_text("mine")
    (out / "link").symlink_to(elsewhere)
    (out / "own.git").mkdir()
    (out / "own.git/HEAD").write_text("ref: refs/heads/main")
    (out / "bare").symlink_to("own.git")
    (out / "gone").symlink_to("nowhere")
    (out / "loop").symlink_to("loop")
    source = """
import os
for name in (
    '.git/config', 'bare/config', 'file/below', 'file/far/below', 'directory', 'link/x', 'link/far/x', 'gone/x',
    'loop/x', 'new/x'
):
    os.makedirs(os.path.dirname(f'/output/{name}'), exist_ok=True)
    open(f'/output/{name}', 'w').write('theirs')
"""
    done = pysbx("run", *json_too, "--output", str(out), "-c", source)
    assert done.returncode == 2
    assert (out / "new" / "x").read_text() == "theirs"
    assert (out / "file").read_text() == "mine"
    assert list(elsewhere.iterdir()) == []
    assert sorted(done.stderr.splitlines()) == [
        *(f"pysbx: --output: '{out}/{name}/config' is not written: {GIT_RUNS}" for name in (".git", "bare")),
        f"pysbx: --output: '{out}/directory' is not written: Is a directory",
        f"pysbx: --output: '{out}/file/below' is not written: '{out}/file' exists and is not a directory",
        f"pysbx: --output: '{out}/file/far/below' is not written: '{out}/file' exists and is not a directory",
        f"pysbx: --output: '{out}/gone/x' is not written: File exists",
        f"pysbx: --output: '{out}/link/far/x' is not written: '{out}/link' leads out of '{out}'",
        f"pysbx: --output: '{out}/link/x' is not written: '{out}/link' leads out of '{out}'",
        f"pysbx: --output: '{out}/loop/x' is not written: File exists",
    ]
    assert pysbx("run", "--output", str(out), "-c", f"{source}\nraise SystemExit(3)").returncode == 3


def test_files_that_nothing_keeps_are_named() -> None:
    source = "open('/output/a.csv', 'w').write('x' * 3000)"
    assert pysbx("run", "-c", source).stderr == "pysbx: left a.csv (3 KiB): --output DIR keeps them\n"
    beside = "pysbx: left in /work: b.csv: write to /output, or add --collect PATTERN\n"
    assert pysbx("run", "-c", "open('b.csv', 'w')").stderr == beside
    assert pysbx("run", "-q", "-c", source).stderr == ""
    # A name makes no line of its own, which would look like one of the command.
    source = "open('/output/a\\npysbx: b', 'w'), open('c\\npysbx: d', 'w')"
    said = pysbx("run", "-c", source).stderr.splitlines()
    assert [line.partition("\\n")[0] for line in said] == ["pysbx: left a", "pysbx: left in /work: c"]


def test_verbose_says_how_it_started_and_what_it_used() -> None:
    said = pysbx("run", "-v", "-c", "print(1)").stderr
    assert re.fullmatch(r"pysbx: started (warm|cold .*); [\d.]+ s, [\d.]+ s of CPU(, \d+ MiB at most)?\n", said)


def test_a_directory_or_zip_archive_with_a_main_module_is_a_program(tmp_path: Path) -> None:
    top = tmp_path / "app"
    top.mkdir()
    (top / "__main__.py").write_text("import sys, beside\nprint(sys.argv, sys.path[0], __file__, __name__, beside.x)\n")
    (top / "beside.py").write_text("x = 42\n")
    zipapp.create_archive(top, tmp_path / "app.pyz", interpreter="/usr/bin/env python3")
    for name in ("app", "app.pyz"):
        path = str(tmp_path / name)
        wanted = subprocess.run([sys.executable, path, "-v"], capture_output=True, check=True, text=True).stdout
        done = pysbx("run", path, "-v")
        assert (done.stdout, done.stderr) == (wanted.replace(str(tmp_path), "/work"), "")
    (top / "part").mkdir()
    for name in (".", "part/.."):
        assert pysbx("run", name, directory=top).stdout.startswith("['/work/app'] /work/app ")
    (top / "__main__.py").unlink()
    done = pysbx("run", str(top))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is a directory without a __main__.py: name the file" in done.stderr


def test_a_directory_is_put_and_names_can_be_given(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "part"
    inner.mkdir(parents=True)
    (inner / "x.csv").write_text("1")
    (inner / "a:b").write_text("2")
    source = "import glob; print(sorted(glob.glob('**', recursive=True)))"
    files = ("--file", f"{tmp_path}/data", "--file", f"{inner}/x.csv:other/y.csv", "--file", f"{inner}/a:b")
    done = pysbx("run", *files, "-c", source)
    found = ["a:b", "data", "data/part", "data/part/a:b", "data/part/x.csv", "other", "other/y.csv"]
    assert (done.stdout, done.stderr) == (f"{found}\n", "")
    done = pysbx("run", "--file", "..", "-c", source, directory=inner)
    assert (done.stdout, done.stderr) == (f"{found[1:5]}\n", "")


@pytest.mark.parametrize("kind", ["link to a file", "link to a directory", "pipe"])
def test_a_strangers_directory_brings_no_file_from_elsewhere(kind: str, tmp_path: Path) -> None:
    (tmp_path / "given" / "part").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    strange = tmp_path / "given" / "part" / "x"
    os.mkfifo(strange) if kind == "pipe" else strange.symlink_to(tmp_path / "secret" if "file" in kind else tmp_path)
    done = pysbx("run", "--file", f"{tmp_path}/given", "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--file: '{strange}': neither a regular file nor a directory" in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "attribute", "expected"),
    [
        ("--memory", "512", "memory_mb", 512),
        ("--memory", "1g", "memory_mb", 1024),
        ("--memory", "1.5G", "memory_mb", 1536),
        ("--timeout", "2m", "timeout_sec", 120.0),
        ("--timeout", "1500ms", "timeout_sec", 1.5),
        ("--output-limit", "64k", "output_limit", 65536),
    ],
)
def test_numbers_may_have_a_unit(option: str, value: str, attribute: str, expected: float) -> None:
    from pysbx.command.main import make_parser

    assert getattr(make_parser("run").parse_args(["run", option, value]), attribute) == expected


@pytest.mark.parametrize(
    ("command", "option", "value", "attribute", "expected"),
    [
        ("serve", "--idle", "10m", "idle_sec", 600.0),
        ("mcp", "--park-after", "90s", "park_sec", 90.0),
        ("serve", "--cpu-per-hour", "1h", "cpu_per_hour", 3600.0),
        ("serve", "--request-size", "1g", "request_mb", 1024),
        ("serve", "--artifact-size", "64m", "artifact_mb", 64),
        ("clean", "--size", "1.5g", "size", 1536.0),
    ],
)
def test_numbers_of_servers_and_of_clean_may_have_one(
    command: str, option: str, value: str, attribute: str, expected: float
) -> None:
    from pysbx.command.main import make_parser

    assert getattr(make_parser(command).parse_args([command, option, value]), attribute) == expected


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "data.csv" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    done = pysbx("run", "--file", str(paths[0]), "--file", str(paths[1]), "-c", "print(open('data.csv').read())")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pysbx: --file: '{paths[0]}' and '{paths[1]}' would both be /work/data.csv: ")
    twice = pysbx("run", "--file", str(paths[0]), "--file", str(paths[0]), "-c", "print(open('data.csv').read())")
    assert (twice.returncode, twice.stdout) == (0, "a\n")


def test_run_as_json() -> None:
    content = json.loads(pysbx("run", "--json", "-c", "print('x'); 1 + 1").stdout)
    assert (content["stdout"], content["value"]) == ("x\n", "2")
    assert content["usage"]["wall_sec"] > 0
    writes = ("run", "--json", "-c", "open('/output/a', 'w').write('x'); open('b', 'w')")
    left = ["pysbx: left a (1 KiB): --output DIR keeps them", "pysbx: left in /work: b: write to /output, or add"]
    assert [line.partition(" --collect")[0] for line in pysbx(*writes).stderr.splitlines()] == left
    assert json.loads(pysbx(*writes).stdout)["artifacts"] == {"a": 1}


def test_run_with_a_profile() -> None:
    done = pysbx("run", "--profile", "minimal", "-c", "import os")
    assert done.returncode == 1
    assert "line 1: module 'os' is not among the allowed ones [import]" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--profile", "none", "-c", "1"], 2, "profile 'none'"),
        (["run", "--network", "10.0.0.1", "-c", "1"], 2, "pysbx: --network: '10.0.0.1' is not a host name"),
        (["run", "--network", "any", "-c", "1"], 2, "pysbx: --network: 'any' is not a host name with a dot: the words"),
        (["kernel", "install", "--network", "hots"], 2, 'hots\' is not a host name with a dot: did you mean "host"'),
        (["serve", "--network", "local"], 2, "'local' is not a host name with a dot"),
        (["serve", "--answer-limit", "1g"], 2, "pysbx: --answer-limit: a server has --artifact-size instead"),
        (["run", "--memory", "1", "-c", "1"], 2, "pysbx: --memory: 1 is less than an interpreter takes"),
        (["run", "--rootfs", "/", "--image", "x", "-c", "1"], 2, "virtualenv, rootfs and image exclude each other"),
        (["run", "--memory", "1GiB", "--file-size", "9mb", "--env", "NAME", "-c", "1"], 2, "--env: 'NAME' is not"),
        (["run", "--timeout", "1mb", "-c", "1"], 2, "'1mb' is not a number of seconds, such as 90, 90s or 2m"),
        (["run", "--memory", "x", "-c", "1"], 2, "'x' is not a number of MiB, such as 512, 512m or 1g"),
        (["run", "--mount", "a:b:c:d", "-c", "1"], 2, "SOURCE"),
        (["run", "--with", "-e .", "-c", "1"], 2, "pysbx: --with: '-e .' is not a requirement"),
        (["run", "/nonexistent.py"], 2, "nonexistent"),
        (["run", "--mount", "/usr:data", "-c", "1"], 2, "must be an absolute path of the sandbox\n"),
        (["run", "-m"], 2, "-m: an argument is expected"),
        (["run", "--virtualenv", "/nonexistent", "-c", "1"], 125, "pyvenv.cfg"),
        (["run", "--mount", "/nonexistent", "-c", "1"], 125, "mount '/nonexistent': No such file or directory"),
        (
            ["run", "--with", "six", "--wheels", "/usr/share", "--mount", "/nonexistent", "-c", "1"],
            125,
            "mount '/nonexistent': No such",
        ),
        (["nonsense"], 2, "invalid choice"),
        (["help"], 2, "did you mean --help?"),
        (["rnu", "-c", "1"], 2, "did you mean run?"),
        (["deps", "remov", "x"], 2, "did you mean remove?"),
        (["run", "--installer", "pipp", "-c", "1"], 2, "did you mean pip?"),
        (["run", "--memry", "5", "-c", "1"], 2, "unrecognized arguments: --memry: did you mean --memory?"),
        (["run", "-r", "x", "-c", "1"], 2, "did you mean --requirements?"),
        (["run", "--time-limit", "5", "-c", "1"], 2, "did you mean --timeout?"),
        (["run", "--out", "d", "-c", "1"], 2, "could match --output, --output-limit\n"),
        (["run", "--limits", "strict", "-c", "1"], 2, "did you mean --strict?"),
        (["serve", "--port", "8080"], 2, "did you mean --listen?"),
        (["deps", "remove", "nonsense"], 2, "there is no set 'nonsense': `pysbx deps list` shows their keys"),
        ([], 2, "COMMAND"),
        (["run", "-c"], 2, "-c: an argument is expected"),
        (["run", "/usr"], 2, "'/usr' is a directory without a __main__.py"),
        (["run", "--nonsense", "-c", "1"], 2, "--nonsense"),
        (["run", "--file", "/nonexistent", "-c", "1"], 2, "'/nonexistent': No such file"),
        (
            ["run", "a b.ipynb"],
            2,
            "is a notebook, and not a program: write its cells to one first: jupyter nbconvert --to script 'a b",
        ),
        (["run", "--warm", "maybe", "-c", "1"], 2, "--warm: invalid choice"),
        (["run", "--index-url", "x", "--with", "six", "-c", "1"], 2, "--index-url: 'x' is not an http or https URL"),
        (["run", "--reference", __file__, "-c", "1"], 2, f"--reference: '{__file__}' is not a directory"),
        (["run", "--mount", "/usr:/proc", "-c", "1"], 2, "--mount: the target '/proc' is the sandbox's own"),
        (["profiles", "nonsense"], 2, "profile 'nonsense'"),
        (["clean", "--days", "-1"], 2, "--days: -1 is not a number from 0 on"),
        (["clean", "nonsense"], 2, "KIND: 'nonsense' is not one of"),
        (["deps"], 2, "ACTION"),
        (["deps", "install"], 2, "REQUIREMENT"),
        (["runtime", "uninstall", "--prefix", "/nonexistent"], 125, "has installed nothing below '/nonexistent'"),
        (["kernel", "install", "--name", "a b"], 2, "--name: 'a b' is not made of letters"),
        (["completion", "tcsh"], 2, "invalid choice: 'tcsh'"),
        (["doctor", "more"], 2, "unrecognized arguments: more"),
        (["serve", "--listen", "host:99999"], 2, "listen: 'host:99999' is neither"),
        (["run", "--collect", "../*", "-c", "1"], 2, "--collect: '../*' is not a pattern"),
        (["run", "--memory", "9" * 20, "-c", "1"], 2, "--memory: 99999999999999999999 is more than"),
        (["run", "--cpus", "nan", "-c", "1"], 2, "--cpus: nan is not a positive number"),
        (["serve", "--token-file", "/nonexistent"], 2, "'/nonexistent': No such file"),
    ],
)
def test_errors(arguments: list[str], code: int, said: str) -> None:
    done = pysbx(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_runtime_complains_of_is_said_once(tmp_path: Path) -> None:
    python = tmp_path / "usr" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    done = pysbx("run", "--rootfs", str(tmp_path), "-c", "1")
    assert (done.returncode, done.stdout) == (125, "")
    assert "python3" in done.stderr
    assert done.stderr.startswith("pysbx: ")
    assert done.stderr.count("\n") == 1


def test_what_comes_before_the_program_begins_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; print('early', file=sys.stderr, flush=True)")
    options = ["--mount", f"{tmp_path}:/first", "--env", "PYTHONPATH=/first:/.pysbx", "--warm", "off"]
    done = pysbx("run", *options, "-c", "import sys; print('late', file=sys.stderr)")
    assert (done.returncode, done.stderr) == (0, "early\nlate\n")


def test_without_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_RUNTIME", "/nonexistent")
    done = pysbx("run", "-c", "1")
    assert done.returncode == 125
    assert "make install" in done.stderr
    assert pysbx("doctor").returncode == 1


def test_shell() -> None:
    typed = "x = 20\ndef f(n):\n    return n + 22\n\nf(x)\nprint('out')\nundefined\nx\n"
    done = pysbx("shell", text=typed)
    assert "42" in done.stdout and "out" in done.stdout
    assert "NameError" in done.stderr
    assert done.stdout.rstrip().endswith(">>>")
    assert done.returncode == 0
    assert pysbx("shell", text="import os; os._exit(4)\n").returncode == 4


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("type('A', (), {'__repr__': lambda self: '\\udc80'})()", "\\udc80\n"),
        ("-" * 100_000 + "1", ""),  # for the parser, of the host as well
    ],
)
def test_no_statement_ends_the_shell_by_an_error_of_the_host(typed: str, said: str) -> None:
    done = pysbx("shell", text=f"{typed}\nprint('still ' + 'here')\n")
    assert f"{said}>>> still here\n" in done.stdout
    assert "codeop" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(("typed", "code"), [("exit()", 0), ("import sys; sys.exit(0)", 0), ("quit(3)", 3)])
def test_a_shell_is_left_as_python_is(typed: str, code: int) -> None:
    done = pysbx("shell", text=f"{typed}\nprint('still ' + 'here')\n")
    assert (done.returncode, done.stdout, done.stderr) == (code, ">>> ", "")


def test_control_characters_do_not_reach_a_terminal() -> None:
    main, terminal = pty.openpty()
    command = [*PROGRAM, "run", "-c", r"print('a\x1b]0;title\x07b\tc')"]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=terminal, check=True)
    os.close(terminal)
    said = os.read(main, 1000)
    os.close(main)
    assert b"\x1b" not in said and b"b\tc" in said
    assert "\x1b" in pysbx("run", "-c", r"print('a\x1b]0;title\x07b')").stdout


def test_bidirectional_controls_are_escapes_on_a_terminal() -> None:
    controls = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    main, terminal = pty.openpty()
    source = f"import sys; text = {controls!a}; print('a' + text + '\u00e9\u05d0'); raise ValueError(text)"
    command = [*PROGRAM, "run", "-c", source]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, check=False)
    os.close(terminal)
    said = os.read(main, 10000).decode()
    os.close(main)
    assert not set(said) & set(controls)
    assert "a" + ascii(controls).strip("'") + "\u00e9\u05d0" in said  # text from right to left is text
    assert "ValueError: " + ascii(controls).strip("'") in said
    assert visible(f"a{controls}") == "a" + ascii(controls).strip("'")
    done = pysbx("run", "--rootfs", "/nonexistent/\u202egpj", "-c", "1")
    assert "/\\u202egpj" in done.stderr and "\u202e" not in done.stderr


def test_output_that_the_encoding_has_no_form_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    command = [*PROGRAM, "run", "-c", r"print('\xe9 \u20ac'); raise SystemExit(3)"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"\xe9 \\u20ac\n", b"", 3)


def test_profiles() -> None:
    assert "data-science" in pysbx("profiles").stdout
    assert [item["name"] for item in json.loads(pysbx("profiles", "--json").stdout)] == ["data-science", "minimal"]
    assert json.loads(pysbx("profiles", "minimal").stdout)["analysis"]["imports"]["stage"] == "enforce"


def test_deps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.packages import make_wheel

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    done = pysbx("deps", "install", "--wheels", str(tmp_path), "--json", "thing>=1")
    assert re.fullmatch(r"pysbx: installing thing>=1\npysbx: installed thing>=1 in \d+ s\n", done.stderr)
    assert [item["requirements"] for item in json.loads(done.stdout)] == [["thing>=1"]]
    assert pysbx("deps", "install", "--wheels", str(tmp_path), "thing>=1").stderr == ""  # it is there
    # A program reads whole lines: none is wrapped or cut, however long.
    long = [f"thing!={number}.{'1' * 40}" for number in range(5)]
    (made,) = json.loads(pysbx("deps", "install", "--wheels", str(tmp_path), "--json", *long).stdout)
    (line,) = [line for line in pysbx("deps", "list").stdout.splitlines() if made["key"] in line]
    assert all(requirement in line for requirement in long)
    assert "thing>=1" in pysbx("deps", "list").stdout
    (removed,) = json.loads(pysbx("deps", "remove", "--json", "thing>=1").stdout)
    assert removed["requirements"] == ["thing>=1"]
    done = pysbx("run", "--with", "none-such", "--wheels", str(tmp_path), "-c", "1")
    assert done.returncode == 125
    assert "No matching distribution" in done.stderr


def test_a_bar_moves_while_dependencies_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.packages import make_wheel

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    main, terminal = pty.openpty()
    source = "import thing; print(thing.version)"
    command = [*PROGRAM, "run", "--with", "thing", "--wheels", str(tmp_path), "-c", source]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(main, 1 << 16):
            said += part
    os.close(main)
    assert child.communicate()[0] == b"1\n"
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in said.decode().split("\r")]
    assert any(re.search("installing thing ━+ .*Successfully installed thing-1.0", line) for line in lines), lines


def test_warm() -> None:
    content = json.loads(pysbx("warm", "--json").stdout)
    assert content["warm"] or content["reason"]
    assert set(content) == {"prepared_sec", "warm", "run_sec", "reason"}


def test_doctor() -> None:
    done = pysbx("doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert (found["a sandbox"]["status"], found["kernel"]["status"]) == ("ok", "ok")
    assert found["limits"]["status"] in ("ok", "warning")
    if found["limits"]["status"] == "warning":
        assert found["limits"]["remedy"]
    assert done.returncode == 0
    text = pysbx("doctor").stdout
    assert all(name in text for name in found)


@pytest.mark.parametrize(
    ("code", "user", "systemd", "said"),
    [
        ("cgroup-read-only", 1000, False, "an engine gives"),
        ("cgroup-not-delegated", 1000, False, "as root, make a cgroup"),
        ("cgroup-not-delegated", 1000, True, "delegate.conf"),
        ("no-cgroup2", 0, True, "unified_cgroup_hierarchy"),
    ],
)
def test_doctor_names_what_this_system_can_do_about_cgroups(
    code: str, user: int, *, systemd: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pysbx.container import limits
    from pysbx.machine import doctor

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(limits, "SYSTEMD", str(tmp_path if systemd else tmp_path / "none"))
    by = dict.fromkeys(limits.CONTROLLERS, "rlimit")
    monkeypatch.setattr(limits, "look_again", lambda: None)
    monkeypatch.setattr(limits, "enforcement", lambda: limits.Enforcement(by, "why", code=code))
    assert said in doctor._cgroups().remedy
    assert doctor._cgroups().found == "rlimits, not cgroup, for memory, cpu, pids: why"


@pytest.mark.parametrize(
    ("enforce", "reason", "status", "found"),
    [
        ("1", "", "ok", "enforcing; each sandbox has a label of its own"),
        ("0", "", "warning", "permissive; each sandbox has a label of its own"),
        ("1", "it said so", "warning", "enforcing; sandboxes have the label of this program, because it said so"),
        ("", "there is none", "ok", "not on this machine"),
    ],
)
def test_doctor_says_whether_sandboxes_have_labels_of_their_own(
    enforce: str, reason: str, status: Literal["ok", "warning"], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pysbx.container import labels
    from pysbx.machine import doctor

    monkeypatch.setattr(doctor, "text_of", {"/sys/fs/selinux/enforce": enforce}.__getitem__)
    monkeypatch.setattr(labels, "obstacle", lambda: reason)
    remedy = labels.remedy() if enforce and reason else ""
    assert doctor._selinux() == doctor.Check("SELinux", status, found, remedy)


def test_doctor_knows_a_program_that_is_not_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    from pysbx.base import runtime
    from pysbx.machine import doctor

    monkeypatch.setattr(runtime, "find_runtime", lambda: "/bin/true")
    check = doctor._runtime()
    assert (check.status, check.found.partition(":")[0]) == ("failure", "/bin/true is another program")
    monkeypatch.undo()
    assert doctor._runtime().status == "ok"


def test_doctor_knows_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from pysbx.machine import doctor

    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999)
    check = doctor._subordinate_ids()
    assert (check.status, check.remedy) == ("warning", "useradd --uid 3999999 NAME")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = pysbx("completion", shell).stdout
    assert "doctor" in script
    if shell == "bash" or shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_completes() -> None:
    script = pysbx("completion", "bash").stdout
    ask = "COMP_WORDS=(pysbx do) COMP_CWORD=1; _pysbx; echo ${COMPREPLY[@]}; "
    ask += "COMP_WORDS=(pysbx run --mem) COMP_CWORD=2; _pysbx; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
    assert done.stdout == "doctor\n--memory\n"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("d", "deps doctor"),
        ("deps ", "list remove install"),
        ("deps install --wheels ", "folder"),
        ("completion ", "bash zsh fish"),
        ("profiles m", "minimal"),
        ("run scr", "script.py"),
        ("run --fi", "--file --file-size"),
        ("run --output fol", "folder"),
        ("clean --d", "--days --dry-run"),
        ("run --memory ", ""),
        ("run --warm ", "auto require off"),
        ("run --warm = r", "require"),
        ("run --warm =", "auto require off"),
        ("serve --allow-profile d", "data-science"),
        ("serve --allow-p", "--allow-profile --allow-package"),
    ],
)
def test_what_may_stand_in_a_place_is_completed(typed: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").touch()
    (tmp_path / "folder").mkdir()
    script = pysbx("completion", "bash").stdout
    given = " ".join(map(shlex.quote, ["pysbx", *typed.split(" ")]))
    ask = f"COMP_WORDS=({given}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pysbx; echo ${{COMPREPLY[@]}}"
    words_of = ["bash", "-uc", f"{script}\n{ask}"]
    done = subprocess.run(words_of, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{words}\n", "")


def test_completion_in_a_shell_that_somebody_types_into(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(pysbx("completion", "bash").stdout)
    (tmp_path / "file-to-run.py").touch()
    variables: Any = {**os.environ, "TERM": "dumb", "HOME": str(tmp_path)}
    terminal = pexpect.spawn("bash", ["--norc", "-i"], cwd=str(tmp_path), env=variables, timeout=60)
    terminal.send("source ./script; pysbx() { printf 'got:%s;' \"$@\"; echo; }; PS1=rea''dy:\n")
    for typed, got in (
        ("pysbx run --wa\treq\tfile-t\t\n", "got:run;got:--warm;got:require;got:file-to-run.py;"),
        ("pysbx dep\tins\t\n", "got:deps;got:install;"),
        ("pysbx run --warm=o\t\n", "off;"),
    ):
        terminal.expect_exact("ready:")
        terminal.send(typed)
        terminal.expect_exact(got)
    terminal.send("exit\n")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 0
