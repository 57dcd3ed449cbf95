"""Sandboxes that continue from a prewarmed interpreter: fresh all the same."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from pysbx import Execution, Mount, Sandbox, run_code, sandbox
from pysbx.base.runtime import build_snapshot, command
from pysbx.calls import session as session_module
from pysbx.calls.execution import run_chosen
from pysbx.calls.prepare import prepare
from pysbx.container import start_refusals
from pysbx.container.limits import enforcement
from pysbx.container.status import UNCONTAINED
from pysbx.errors import SandboxOptionError
from pysbx.options.keywords import SandboxOptions
from pysbx.options.options import make_options
from pysbx.service.sandboxes import cold_starts
from tests.packages import make_wheel
from tests.servers import PROGRAM, server

ABOUT = """
import os, random, sys, uuid
print(os.urandom(8).hex(), random.random(), uuid.uuid4(), id(object()) > 0)
print(os.getpid(), os.getcwd(), sys.argv, sorted(vars()), len(os.listdir('/proc/self/fd')), os.environ['HOME'])
print(sorted(name for name in sys.modules if name.startswith(('json', 'urllib', 'http'))))
"""


pytestmark = pytest.mark.usefixtures("warm_starts")


@pytest.mark.root
def test_every_run_is_warm_once_there_is_a_snapshot() -> None:
    assert [run_code("1", warm="require").warm for _ in range(3)] == [True] * 3
    assert not run_code("1", warm="off").warm


@pytest.mark.root
def test_two_warm_runs_share_no_chance() -> None:
    first, second = (run_code(ABOUT, warm="require").stdout.splitlines() for _ in range(2))
    assert all(one != other for one, other in zip(first[0].split()[:3], second[0].split()[:3], strict=True))
    assert first[1:] == second[1:]


def test_a_warm_run_is_as_a_cold_one() -> None:
    warm, cold = (run_code(ABOUT, warm=mode) for mode in ("require", "off"))
    assert (warm.error, warm.stderr) == (cold.error, cold.stderr)
    assert warm.stdout.splitlines()[1:] == cold.stdout.splitlines()[1:]


@pytest.mark.root
def test_the_least_memory_is_enough_for_a_warm_run() -> None:
    run_code("1", memory_mb=16)
    done = run_code("1", memory_mb=16)
    assert (done.value, done.warm) == ("1", True)


# Modules that take more memory than the least that a sandbox may have.
MANY = ["asyncio", "decimal", "http.server", "sqlite3", "ssl", "unittest.mock", "xml.dom.minidom", "xmlrpc.client"]


@pytest.mark.skipif(enforcement().by["memory"] == "cgroup", reason="a cgroup bounds memory, and no rlimit")
def test_memory_that_is_too_small_for_a_warm_start_is_refused_with_the_least_value(tmp_path: Path) -> None:
    assert run_code("1", preload=MANY, warm="require").warm
    assert not run_code("1", preload=MANY, memory_mb=16).warm
    with pytest.raises(SandboxOptionError, match=r"^memory_mb: 16 is less than the snapshot needs, \d+ ") as refusal:
        run_code("1", preload=MANY, memory_mb=16, warm="require")
    assert refusal.value.option == "memory_mb"
    least = int(str(refusal.value).partition("needs, ")[2].partition(" ")[0])
    assert run_code("1", preload=MANY, memory_mb=least, warm="require").warm
    with pytest.raises(SandboxOptionError, match=r"less than the snapshot needs|too little for the start"):
        Sandbox(preload=MANY, memory_mb=least - 1, warm="require").run("1")

    preload = [part for name in MANY for part in ("--preload", name)]
    command = [*PROGRAM, "run", "--warm", "require", "--memory", "16", *preload, "-c", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The store may have dropped the snapshot meanwhile. Then the imports meet the limit before it is known.
    why = f"16 is (less than the snapshot needs, {least} |too little for the start)"
    assert done.returncode == 2
    assert re.match(f"pysbx: --memory: {why}.*: --memory", done.stderr), done.stderr

    with server("--warm", "require", *preload, listen=f"unix:{tmp_path}/s") as service:
        for place in ("/v1/run", "/v1/sessions"):
            answer = service.post(place, memory_mb=16, **({"code": "1"} if place == "/v1/run" else {}))
            assert (answer.status_code, bool(re.search(why, answer.json()["detail"]))) == (422, True), answer.text
        assert service.run("1")["warm"]
        assert service.run("1", memory_mb=least)["warm"]


def test_a_module_that_is_not_there_is_named_by_its_option() -> None:
    with pytest.raises(SandboxOptionError, match=r"^preload: .*import nosuch: ModuleNotFoundError: No module"):
        run_code("1", preload=["nosuch"], warm="require")


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (SandboxOptions(warm="off"), "warm-off", "switched off"),
        (SandboxOptions(isolation="process"), "warm-off", "without a container, every interpreter starts cold"),
        (SandboxOptions(preload=["nosuch"]), "imports-refused", "import nosuch: ModuleNotFoundError: No module named"),
    ],
)
def test_a_cold_start_says_why(options: SandboxOptions, code: str, reason: str) -> None:
    with Sandbox(**options) as session:
        for done in (run_code("1", **options), session.run("1"), session.run("2")):
            assert (done.warm, done.cold_code, reason in (done.cold_reason or "")) == (False, code, True), done
            assert done.to_dict()["cold_reason"] == done.cold_reason
    assert (run_code("1").cold_reason, run_code("1").cold_code) == (None, None)


def test_imports_that_cannot_be_continued_say_why(tmp_path: Path) -> None:
    """Their snapshot can be made. The interpreter in the sandbox finds that it cannot go on, and starts anew."""
    bindings = tmp_path / "mods/cryptography/hazmat/bindings"
    bindings.mkdir(parents=True)
    for place in (bindings, *bindings.parents[:2]):
        (place / "__init__.py").touch()
    (bindings / "_rust.py").touch()
    (bindings / "_openssl.py").write_text("lib = None\n")
    mount, mods = f"{tmp_path}/mods:/mods", Mount(f"{tmp_path}/mods", "/mods")
    preload = [f"cryptography.hazmat.bindings.{name}" for name in ("_rust", "_openssl")]
    common = SandboxOptions(preload=preload, mounts=[mods], env={"PYTHONPATH": "/mods"})
    said = "the imports cannot be continued: 'NoneType' object has no attribute 'RAND_add'"
    done = run_code("import os; print([name for name in os.environ if 'COLD' in name])", **common)
    assert (done.stdout, done.cold_code, done.cold_reason) == ("[]\n", "snapshot-unfit", said)

    named = [*(part for name in preload for part in ("--preload", name)), "--mount", mount, "--env", "PYTHONPATH=/mods"]
    for said_by in (["warm", *named], ["warm", "--json", *named], ["run", "-v", *named, "-c", "1"]):
        shown = subprocess.run([*PROGRAM, *said_by], capture_output=True, text=True, check=True)
        assert said in shown.stdout + shown.stderr, shown


def test_the_codes_that_the_package_knows_are_the_runtime_s() -> None:
    """Codes are compared, and no text of the runtime is searched."""
    header = (Path(__file__).parents[3] / "runtime/base/error.h").read_text()
    codes = set(re.findall(r'X\(ERROR_\w+, "([a-z0-9-]+)"\)', header))
    known = {*start_refusals.CAUSES, start_refusals.IMPORTS, *start_refusals.REMEDIES, session_module.UNFIT}
    known |= {*cold_starts.REASONS, UNCONTAINED.code, "cgroup-read-only", "snapshot-unfit"}
    assert known <= codes


def test_imports_may_take_longer_than_a_short_command(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(prepare(make_options(preload=["unittest.mock"])).path)
    monkeypatch.setattr("pysbx.base.runtime.COMMAND_TIMEOUT_SEC", 0.01)
    assert build_snapshot(path) == ""


@pytest.mark.parametrize("session", [False, True])
def test_the_time_for_a_snapshot_is_not_the_programs(tmp_path: Path, *, session: bool) -> None:
    make_wheel(tmp_path, "slow", "1.0", f"import time; time.sleep(2)  # {tmp_path}")
    options: SandboxOptions = {"dependencies": ["slow"], "wheels": str(tmp_path), "timeout_sec": 1}
    if session:
        with Sandbox(**options) as one:
            assert (one.run("1").value, one.run("import time; time.sleep(60)").timed_out) == ("1", True)
    else:
        assert run_code("1", **options).value == "1"
        assert run_code("import time; time.sleep(60)", **options).timed_out


@pytest.mark.root
def test_limits_hold_in_a_warm_run() -> None:
    assert run_code("x = bytearray(1 << 30)", memory_mb=128).error is not None
    assert run_code("while True: pass", timeout_sec=1).timed_out


def test_a_function_and_a_session() -> None:
    @sandbox(warm="require")
    def add(one: int, two: int) -> int:
        return one + two

    assert add(1, 2) == 3
    with Sandbox(warm="require") as session:
        session.run("x = 41")
        done = session.run("x + 1")
    assert (done.value, done.warm) == ("42", True)


def test_a_virtualenv(virtualenv: str) -> None:
    for _ in range(2):
        done = run_code("import sys, pytest; print(sys.prefix)", virtualenv=virtualenv, warm="require")
        assert (done.stdout, done.warm) == (f"{virtualenv}\n", True)


def test_figures_are_drawn_by_a_prewarmed_matplotlib(virtualenv: str) -> None:
    source = "from matplotlib import pyplot\npyplot.plot([1, 2]); pyplot.figure(7); pyplot.plot([2, 1])"
    options = make_options(virtualenv=virtualenv, preload=["matplotlib.pyplot"], warm="require", memory_mb=1024)
    done = run_chosen(options, source)
    assert (done.error, done.stderr) == (None, "")
    assert sorted(done.artifacts) == ["figure-1.png", "figure-7.png"]
    assert all(content.startswith(b"\x89PNG\r\n") for content in done.artifacts.values())


def test_a_limit_of_processes_that_the_threads_of_a_snapshot_exceed_is_named(virtualenv: str) -> None:
    def run(*, max_processes: int, warm: Literal["auto", "require"]) -> Execution:
        options = make_options(
            virtualenv=virtualenv, preload=["polars"], memory_mb=4096, max_processes=max_processes, warm=warm
        )
        return run_chosen(options, "6 * 7")

    assert run(max_processes=200, warm="require").warm
    done = run(max_processes=1, warm="auto")
    assert (done.value, done.warm, done.stderr) == ("42", False, "")
    assert "threads" in (done.cold_reason or ""), done
    with pytest.raises(SandboxOptionError, match=r"^max_processes: 1 is too few for the threads .* \(allow more: max"):
        run(max_processes=1, warm="require")
    assert run(max_processes=200, warm="require").warm


def test_a_first_call_with_too_few_processes_keeps_no_other_call_cold(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text("import threading\n" + THREADS)
    common = SandboxOptions(preload=["threads"], mounts=[Mount(str(tmp_path), "/mods")], env={"PYTHONPATH": "/mods"})
    few = make_options(**(common | SandboxOptions(max_processes=4)))
    for _ in range(2):
        assert not run_chosen(few, "1").warm
    with pytest.raises(SandboxOptionError, match=r"^max_processes: 4 is too few"):
        run_chosen(make_options(**(common | SandboxOptions(max_processes=4, warm="require"))), "1")
    assert run_chosen(make_options(**(common | SandboxOptions(max_processes=64, warm="require"))), "1").warm
    assert run_chosen(few, "1").warm, "the snapshot has no threads"


def test_polars_is_prewarmed_with_its_threads(virtualenv: str) -> None:
    source = """import os, polars
threads = [open(f"/proc/self/task/{number}/comm").read() for number in os.listdir("/proc/self/task")]
frame = polars.DataFrame({"key": [1, 2, 1, 3] * 1000, "value": range(4000)})
sums = frame.lazy().group_by("key").agg(polars.col("value").sum()).sort("key").collect()
print(sums["value"].to_list(), len(threads) > 1)"""
    options = make_options(virtualenv=virtualenv, preload=["polars"], warm="require", memory_mb=4096, max_processes=200)
    for _ in range(2):
        done = run_chosen(options, source)
        assert (done.stdout, done.stderr) == ("[3998000, 1999000, 2001000] True\n", "")


def test_modules_that_were_asked_for_need_no_file() -> None:
    source = """import sys
before, opened = sorted(sys.modules), []
sys.addaudithook(lambda event, _: event == "open" and opened.append(event))
import xmlrpc.client
print("xmlrpc.client" in before, len(opened) == 0)"""
    options = make_options(preload=["xmlrpc.client"])
    assert build_snapshot(str(prepare(options).path)) == ""
    assert run_chosen(options, source).stdout == "False True\n"
    assert run_code(source).stdout == "False False\n"


# Eight threads at the same time, which have ended when the import ends.
THREADS = """gate = threading.Barrier(9)
several = [threading.Thread(target=gate.wait, daemon=True) for _ in range(8)]
for thread in several: thread.start()
gate.wait(20)
for thread in several: thread.join()
del several, thread, gate
"""
FIND_MARK = r"""
import re
letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
rotated = bytes.maketrans(letters.encode(), (letters[13:] + letters[:13]).encode())
mark = re.compile(rb"NYCUN-FRPERG")  # rotated as well: this program does not contain what it looks for
found = []
for line in open("/proc/self/maps").readlines():
    area, rights, *rest = line.split()
    if rights[0] == "r" and not rest[-1].startswith(("[vvar", "[vsys")):
        low, high = (int(end, 16) for end in area.split("-"))
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(low)
            found += [rest[-1]] * bool(mark.search(memory.read(high - low).translate(rotated)))
print(found)
"""


@pytest.mark.root
def test_a_call_does_not_see_the_environment_of_the_call_that_made_the_snapshot() -> None:
    maker = make_options(preload=["wave"], env={"API_KEY": "ALPHA-SECRET"})
    assert run_chosen(maker, "1").error is None
    assert run_chosen(maker, "1").warm
    for env in {"API_KEY": "BRAVO"}, {}:
        later = run_chosen(make_options(preload=["wave"], env=env, warm="require"), FIND_MARK)
        assert (later.stdout, later.error, later.warm) == ("[]\n", None, True)
    assert run_chosen(maker, FIND_MARK).stdout != "[]\n"


def snapshots() -> list[str]:
    """Return the keys of all snapshots."""
    listed = subprocess.run(command("warm", "list", "--format", "json"), capture_output=True, check=True)
    return sorted(entry["key"] for entry in json.loads(listed.stdout))


def test_calls_share_a_snapshot_if_no_import_sees_their_difference(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("for the program")
    # The first of them has a mount that no import needs, below a directory that is made anew.
    nested = Mount(str(tmp_path), "/work/project", readonly=False)
    common = make_options(preload=["mailbox"], mounts=[nested])
    assert build_snapshot(str(prepare(common).path)) == ""
    before = snapshots()
    read_only, writable = Mount(str(tmp_path), "/data"), Mount(str(tmp_path), "/results", readonly=False)
    differences: list[SandboxOptions] = [
        {"timeout_sec": 31},
        {"memory_mb": 701},
        {"max_processes": 31},
        {"cpus": 0.5},
        {"file_size_mb": 33},
        {"env": {"REQUEST": "one"}},
        {"env": {"REQUEST": "two"}},
        {"mounts": [read_only]},
        {"mounts": [writable]},
        {"mounts": [read_only, writable], "memory_mb": 702, "timeout_sec": 32},
    ]
    for difference in differences:
        options = make_options(**(difference | SandboxOptions(preload=["mailbox"], warm="require")))
        done = run_chosen(options, "import mailbox\n1")
        assert (done.error, done.warm) == (None, True), difference
    assert snapshots() == before


def test_calls_with_other_mounts_share_a_snapshot_whose_import_looks_as_matplotlib(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "import os\nfound = [os.stat(os.environ[name]) for name in ('MATPLOTLIBRC', 'FONTCONFIG_FILE')]\n"
    )
    (tmp_path / "settings.py").chmod(0o644)
    mods = Mount(str(tmp_path), "/mods")
    common = SandboxOptions(preload=["settings"], env={"PYTHONPATH": "/mods"})
    assert build_snapshot(str(prepare(make_options(**common, mounts=[mods])).path)) == ""
    options = make_options(**common, mounts=[mods, Mount(str(tmp_path), f"/{tmp_path.name}")], warm="require")
    assert run_chosen(options, "import settings\n1").error is None


def test_calls_share_a_snapshot_whose_import_looks_at_files_of_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text(
        "import os, pwd\nwith open('/etc/hosts') as file: hosts = file.read()\n"
        "found = pwd.getpwuid(0), os.stat('/etc/passwd'), os.listdir('/etc'), os.stat('/')\n"
    )
    common = SandboxOptions(preload=["looks"], mounts=[Mount(str(tmp_path), "/mods")], env={"PYTHONPATH": "/mods"})
    assert build_snapshot(str(prepare(make_options(**common)).path)) == ""
    before = snapshots()
    for difference in SandboxOptions(cpus=0.5), SandboxOptions(memory_mb=701), SandboxOptions(max_processes=31):
        done = run_chosen(make_options(**(common | difference), warm="require"), "import looks\nlooks.hosts != ''")
        assert (done.value, done.warm) == ("True", True), difference
    assert snapshots() == before
