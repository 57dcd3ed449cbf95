"""Standard input of a run: what the caller gives it, once."""

# once: the caller's rights make no difference

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pysbx import Sandbox, run_code
from pysbx.command import main

READ = "import sys\nprint(input())\nprint(sys.stdin.read(), end='')"


@pytest.mark.parametrize("given", ["one\ntwo\nthrée\n", b"one\ntwo\nthr\xc3\xa9e\n"])
def test_a_program_reads_what_it_is_given(given: str | bytes) -> None:
    assert run_code(READ, stdin=given).stdout == "one\ntwo\nthrée\n"


def test_ends_of_lines_are_as_given() -> None:
    given = "one\r\ntwo\rthree\n"
    source = "import sys; (input(), sys.stdin.read())"
    assert run_code(source, stdin=given).value == "('one\\r', 'two\\rthree\\n')"
    with Sandbox() as session:
        session.run("exit()")
        assert session.run(source, stdin=given).value == "('one\\r', 'two\\rthree\\n')"


def test_a_program_reads_bytes_that_are_no_text() -> None:
    assert run_code("import sys; sys.stdin.buffer.read()", stdin=b"\xff\0\n").value == repr(b"\xff\0\n")
    assert run_code("input()", stdin=b"\xff\n").value == repr("\udcff")


def test_programs_that_it_starts_read_on_where_it_has_stopped() -> None:
    code = "import os, subprocess\nos.read(0, 4)\nsubprocess.check_output(['cat'])"
    assert run_code(code, stdin="one two").value == "b'two'"


def test_a_python_built_with_an_old_c_library_has_input_without_memfd_create() -> None:
    with Sandbox() as box:
        box.run("import os; vars(os).pop('memfd_create', None)")
        assert box.run("print(input())", stdin="text\n").stdout == "text\n"


def test_without_input_there_is_none() -> None:
    done = run_code(READ)
    assert done.error is not None and done.error.type == "EOFError"


def test_input_is_of_one_run() -> None:
    with Sandbox() as session:
        assert session.run("input()", stdin="one\nmore\n").value == "'one'"
        assert session.run("import sys; sys.stdin.read()").value == "''"
        assert session.run("raise SystemExit(input())", stdin="two\nmore\n").stderr == "two\n"
        assert session.run("input()", stdin="three").value == "'three'"
        assert session.run("open(0).read()").value == "''"
        assert session.run("open(0).read()", stdin="four").value == "'four'"  # and closes it
        assert session.run("import os; os.close(0)").error is None
        assert session.run("import subprocess; subprocess.check_output(['cat'])", stdin="five").value == "b'five'"
        with session.fork() as fork:
            assert fork.run("input()", stdin="four").value == "'four'"


def test_what_is_read_cannot_be_written() -> None:
    done = run_code("import os; os.write(0, b'x')", stdin="one")
    assert done.error is not None and done.error.type == "OSError"


def test_input_larger_than_a_file_may_be_is_an_error_of_the_run() -> None:
    done = run_code("1", stdin=bytes(2 << 20), file_size_mb=1)
    assert done.error is not None
    assert done.error.message == "[Errno 27] File too large: 'standard input'"
    assert done.error.hint == "allow more: file_size_mb"


def test_input_has_to_be_text_or_bytes() -> None:
    with pytest.raises(TypeError, match="stdin: int is neither a string nor bytes"):
        run_code("1", stdin=1)  # type: ignore[arg-type]


def test_the_command_gives_a_file_or_its_own_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    assert main(["run", "--stdin", str(tmp_path / "in.txt"), "-c", "print(input())"]) == 0
    assert capsys.readouterr().out == "one\n"
    assert main(["run", "--stdin", "-", "-"]) == 2
    assert "comes from standard input" in capsys.readouterr().err
    command = "import sys; from pysbx.command import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["run", "--stdin", "-", "-c", "print(input())"]
    done = subprocess.run([sys.executable, "-c", command, *arguments], input=b"two\n", capture_output=True, check=True)
    assert done.stdout == b"two\n"
    monkeypatch.setattr(sys, "stdin", None)  # as python3 has it after <&-
    assert main(["run", "--stdin", "-", "-c", "import sys; print(len(sys.stdin.read()))"]) == 0
    assert capsys.readouterr().out == "0\n"
    assert main(["run"]) == 0
