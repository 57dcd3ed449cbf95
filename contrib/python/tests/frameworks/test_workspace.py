"""The workspace on which the adapters stand: files by absolute path, whole outputs, and ends of commands."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from pysbx import Sandbox, errors
from pysbx.calls.program import CommandTimeoutError, Completed, OutputLimitError
from pysbx.frameworks.workspace import Workspace

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    made = Workspace()
    made.write("/tmp/file", b"content")
    made.exec("ln -s /etc/passwd /tmp/out; ln -s nowhere /tmp/dangling; ln -s loop /tmp/loop; mkdir /tmp/dir /tmp/full")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("action", "path", "kind"),
    [
        ("read", "/tmp/none", errors.SandboxFileNotFoundError),
        ("read", "/tmp/dangling", errors.SandboxFileNotFoundError),
        ("read", "/tmp/dir", errors.SandboxIsADirectoryError),
        ("read", "/tmp/file/under", errors.SandboxNotADirectoryError),
        ("read", "/tmp/loop", errors.SandboxInvalidPathError),
        ("read", "/dev/zero", errors.SandboxNotRegularFileError),
        ("read", "tmp/file", errors.SandboxInvalidPathError),
        ("read", "", errors.SandboxInvalidPathError),
        ("read", "/tmp/a\0b", errors.SandboxInvalidPathError),
        ("read", "/tmp/" + "a" * 256, errors.SandboxInvalidPathError),
        ("read", "/a" * 3000, errors.SandboxInvalidPathError),
        ("read", "/../../../../none", errors.SandboxFileNotFoundError),
        ("write", "/tmp/out", errors.SandboxPermissionError),
        ("write", "/tmp/../etc/made", errors.SandboxPermissionError),
        ("write", "/tmp/dir", errors.SandboxIsADirectoryError),
        ("write", "/dev/null", errors.SandboxNotRegularFileError),
        ("write", "/tmp/file/under", errors.SandboxNotADirectoryError),
        ("list", "/tmp/file", errors.SandboxNotADirectoryError),
        ("make_directory", "/tmp/file", errors.SandboxFileExistsError),
        ("remove", "/", errors.SandboxInvalidPathError),
        ("remove", "/tmp/dir/..", errors.SandboxInvalidPathError),
        ("remove", "/work/.", errors.SandboxInvalidPathError),
        ("remove", "/etc/passwd", errors.SandboxPermissionError),
    ],
)
def test_errors_of_files_have_types(
    workspace: Workspace, action: str, path: str, kind: type[errors.SandboxFileError]
) -> None:
    more = (b"text",) if action == "write" else ()
    with pytest.raises(kind) as found:
        getattr(workspace, action)(path, *more)
    assert type(found.value) is kind
    assert found.value.errno
    assert workspace.read("/tmp/file") == b"content"


def test_a_link_to_the_outside_leads_into_the_sandbox(workspace: Workspace) -> None:
    assert b"sandbox" in workspace.read("/tmp/out")
    assert workspace.realpath("/tmp/dir/../out") == "/etc/passwd"
    workspace.exec("ln -s /etc /tmp/full/etc")
    workspace.remove("/tmp/full")
    assert workspace.exists("/etc/passwd")
    assert not workspace.exists("/tmp/full")


def test_a_write_is_whole_or_nothing(workspace: Workspace) -> None:
    workspace.write("/work/large/file", b"1" * (9 * MIB))
    with pytest.raises(errors.SandboxFileTooLargeError):
        workspace.write("/work/large/file", b"2" * (80 * MIB))
    assert workspace.read("/work/large/file") == b"1" * (9 * MIB)
    assert [one.name for one in workspace.list("/work/large")] == ["file"]
    with pytest.raises(errors.SandboxFileTooLargeError):
        workspace.read("/work/large/file", 9 * MIB - 1)
    workspace.exec("chmod a-w /work/large/file")
    with pytest.raises(errors.SandboxPermissionError):
        workspace.write("/work/large/file", b"3")


@pytest.mark.parametrize("action", ["stat", "list", "read", "make_directory", "remove", "realpath", "write"])
def test_arguments_of_another_type_do_not_end_the_session(workspace: Workspace, action: str) -> None:
    more = ("text",) if action == "write" else ()
    for wrong in (None, 5, b"/work", ["/work"]):
        with pytest.raises(TypeError, match=r"path: .* is neither a string nor a path"):
            getattr(workspace, action)(wrong, *more)
    with pytest.raises(TypeError, match="content: list is neither"):
        workspace.write("/work/text", ["x"])  # type: ignore[arg-type]
    workspace.write(PurePosixPath("/work/text"), "é")
    assert workspace.read(PurePosixPath("/work/text")) == "é".encode()


def test_names_that_are_no_text(workspace: Workspace) -> None:
    workspace.exec(["python3", "-c", r"import os; os.mkdir(b'/tmp/odd'); open(b'/tmp/odd/\xff\n', 'w').write('x')"])
    (found,) = workspace.list("/tmp/odd")
    assert os.fsencode(found.name) == b"\xff\n"
    assert workspace.read(found.path) == b"x"


@pytest.mark.parametrize(
    ("command", "stdin", "done"),
    [
        (["cat"], b"\0\xff" * MIB, Completed(0, b"\0\xff" * MIB)),
        ("echo out; echo err >&2; exit 3", b"", Completed(3, b"out\n", b"err\n")),
        ("head -c 1", b"x" * MIB, Completed(0, b"x")),
        ("kill -KILL $$", b"", Completed(137)),
        (["printf", "%s", "$a `b` ; \"'"], b"", Completed(0, b"$a `b` ; \"'")),
        ("python -c 'print(1)'", b"", Completed(0, b"1\n")),
    ],
)
def test_output_is_whole(workspace: Workspace, command: str | list[str], stdin: bytes, done: Completed) -> None:
    assert workspace.exec(command, stdin) == done


def test_a_program_that_cannot_be_started(workspace: Workspace) -> None:
    none, denied = workspace.exec(["no-such-program"]), workspace.exec(["/etc/passwd"])
    assert (none.exit_code, none.started, denied.exit_code, denied.started) == (127, False, 126, False)
    with pytest.raises(errors.SandboxFileNotFoundError):
        workspace.exec(["true"], cwd="/tmp/none")
    for wrong in ({"command": ["a\0b"]}, {"command": ["true"], "env": {"A=B": ""}}):
        assert not workspace.exec(**wrong).started


def test_much_output_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(OutputLimitError) as found:
        workspace.exec("head -c 100000000 /dev/zero; touch /tmp/after", limit=1000)
    assert found.value.stdout == bytes(1000)
    assert not workspace.exists("/tmp/after")


def test_the_time_limit_kills_the_group(workspace: Workspace) -> None:
    with pytest.raises(CommandTimeoutError) as found:
        workspace.exec("echo begun; (trap '' TERM INT HUP; sleep 987) & sleep 987", timeout_sec=1)
    assert (found.value.stdout, isinstance(found.value, TimeoutError)) == (b"begun\n", True)
    assert b"sleep 987" not in workspace.exec("ps ax -o args | grep -v grep").stdout


def test_a_daemon_goes_on_and_holds_nothing_up(workspace: Workspace) -> None:
    began = time.monotonic()
    # It writes to the standard output that it has inherited, which nothing reads any more.
    done = workspace.exec("(sleep 1; for i in $(seq 20000); do echo more; done; echo done >/tmp/done) & echo begun")
    assert done.stdout == b"begun\n"
    while not workspace.exists("/tmp/done"):
        assert time.monotonic() < began + 60
        time.sleep(0.1)


def test_a_command_that_kills_its_connection(workspace: Workspace) -> None:
    with pytest.raises(errors.SandboxError, match="is not known"):
        workspace.exec("kill -KILL $PPID; sleep 1")
    assert workspace.exec(["cat", "/tmp/file"]).stdout == b"content"


def test_without_a_container() -> None:
    workspace = Workspace(isolation="process")
    workspace.write("/work/file", b"text")
    assert workspace.read("/work/file") == b"text"
    with pytest.raises(errors.SandboxError, match="part of a container"):
        workspace.exec(["true"])
    workspace.close()


def test_commands_go_on_beside_each_other() -> None:
    workspace, ended = Workspace(), []

    def wait() -> None:
        try:
            workspace.exec("touch /tmp/begun; sleep 60")
        except errors.SandboxError as error:
            ended.append(str(error))

    thread = threading.Thread(target=wait)
    assert workspace.exec(["true"]).exit_code == 0
    thread.start()
    while not workspace.exists("/tmp/begun"):
        time.sleep(0.05)
    assert Workspace.attach(workspace.id) is workspace
    workspace.close()
    thread.join(30)
    assert len(ended) == 1
    with pytest.raises(errors.SandboxError, match="the session has ended"):
        Workspace.attach(workspace.id)


def test_close_ends_a_session_that_is_just_being_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, begun, made = Workspace(), threading.Event(), []

    def slowly(**options: Any) -> Sandbox:
        begun.set()
        time.sleep(0.5)
        made.append(Sandbox(**options))
        return made[0]

    monkeypatch.setattr("pysbx.frameworks.workspace.Sandbox", slowly)
    workspace.sandbox.close()
    thread = threading.Thread(target=workspace.renew)
    thread.start()
    begun.wait()
    workspace.close()
    thread.join()
    assert made[0].ended
    workspace.renew()
    assert workspace.sandbox is made[0]


def test_a_workspace_is_found_by_another_process_while_the_first_one_lives() -> None:
    workspace = Workspace()
    workspace.write("/work/file", b"content")
    source = "import sys\nfrom pysbx.frameworks.workspace import Workspace\nfound = Workspace.attach(sys.argv[1])\n"
    source += "found.exec('echo more >>file'); print(found.read('/work/file'), found.id == sys.argv[1]); found.close()"
    program = [sys.executable, "-c", source, workspace.id]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "b'contentmore\\n' True\n", done
    assert workspace.read("/work/file") == b"contentmore\n"
    workspace.close()
    for reference in (workspace.id.replace("-", "-0")[:-1], "pysbx-none"):
        with pytest.raises(errors.SandboxError, match="reference"):
            Workspace.attach(reference)
