"""Sets of dependencies: installed once, kept apart, never on the host; with wheels made here."""

# once: an installer runs in a sandbox, in the same way for root

from __future__ import annotations

import hashlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from pysbx import DependencyInstallError, Sandbox, SandboxOptionError, run_code, sandbox
from pysbx.base import directories
from pysbx.container.interpreter import AUTHORITIES, host_interpreter
from pysbx.machine import cleaning
from pysbx.options.options import make_options
from pysbx.options.profiles import load
from pysbx.packages import dependencies, disk_limit
from pysbx.packages.dependencies import normalise, normalise_all
from tests.packages import make_source, make_wheel


@pytest.fixture
def wheels(wheels: Path) -> Path:
    """A folder of wheels, and a cache of its own."""
    make_wheel(wheels, "thing", "1.0", "version = 1\n")
    make_wheel(wheels, "thing", "2.0", "version = 2\n")
    make_wheel(wheels, "user", "1.0", "import thing\nversion = thing.version\n", "thing<2")
    return wheels


def version_of(wheels: Path, *requirements: str, **options: Any) -> str:
    """Return what a program that imports thing prints. Tests that are not about pip use uv, which is faster."""
    return run_code("import thing; print(thing.version)", dependencies=requirements, wheels=wheels, **options).stdout


def test_a_set_is_installed_once_and_kept(wheels: Path) -> None:
    assert version_of(wheels, "thing>=2") == "2\n"
    (known,) = dependencies.installed()
    assert known.requirements == ("thing>=2",)
    assert known.size > 0
    (wheels / "thing-2.0-py3-none-any.whl").unlink()  # what it would be installed from again
    assert version_of(wheels, " Thing >= 2 ") == "2\n"
    assert len(dependencies.installed()) == 1


def test_the_order_of_requirements_makes_no_other_set(wheels: Path) -> None:
    assert version_of(wheels, "user", "thing==1.0", installer="uv") == "1\n"
    assert version_of(wheels, "thing==1.0", "user", installer="uv") == "1\n"
    assert len(dependencies.installed()) == 1


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_set_is_compiled_once(installer: Literal["pip", "uv"], wheels: Path) -> None:
    """No sandbox can write to it, so each import would compile it again."""
    source = "import os, thing; print(os.path.exists(thing.__cached__))"
    assert run_code(source, dependencies=["thing"], wheels=wheels, installer=installer).stdout == "True\n"


def test_sets_that_conflict_live_side_by_side(wheels: Path) -> None:
    assert version_of(wheels, "thing==1.0", installer="uv") == "1\n"
    assert version_of(wheels, "thing==2.0", installer="uv") == "2\n"
    assert version_of(wheels, "user", installer="uv") == "1\n"
    assert len(dependencies.installed()) == 3


def test_the_host_is_unchanged(wheels: Path) -> None:
    before = {path: sorted(os.listdir(path)) for path in sys.path if os.path.isdir(path)}
    version_of(wheels, "thing", installer="uv")
    assert before == {path: sorted(os.listdir(path)) for path in sys.path if os.path.isdir(path)}
    with pytest.raises(ModuleNotFoundError):
        __import__("thing")


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_programs_of_packages_can_be_called_by_name(installer: Literal["pip", "uv"], tmp_path: Path) -> None:
    make_wheel(tmp_path, "speaks", "1.0", "def main(): print('spoken')", program="speak")
    make_wheel(tmp_path, "later", "1.0", "def main(): print('later')", program="speak-later")
    with Sandbox(dependencies=["speaks"], wheels=str(tmp_path), installer=installer) as session:
        assert session.shell("speak").stdout == "spoken\n"
        session.install("later")
        assert session.shell("speak-later && speak").stdout == "later\nspoken\n"
        source = "import subprocess; subprocess.run(['speak-later'])"
        assert session.run(source).stdout == "later\n"


def test_jupyter_finds_the_files_of_packages(wheels: Path) -> None:
    # Such as the templates of nbconvert, without which it writes no HTML.
    source = "import os; os.environ['JUPYTER_PATH']"
    assert run_code(source, dependencies=["thing"], wheels=wheels).value == "'/.dependencies/share/jupyter'"
    own = {"JUPYTER_PATH": "/mine"}
    assert run_code(source, dependencies=["thing"], wheels=wheels, env=own).value == "'/mine'"


def test_a_set_is_read_only_in_the_job(wheels: Path) -> None:
    source = "import thing\ntry: open(thing.__file__, 'w')\nexcept OSError as error: print(error.errno)"
    assert run_code(source, dependencies=["thing"], wheels=wheels).stdout == "30\n"
    assert version_of(wheels, "thing") == "2\n"


def test_another_python_installs_with_its_own_pip(wheels: Path, tmp_path: Path) -> None:
    """Which knows its version; that of this program may be older."""
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    assert version_of(wheels, "thing", virtualenv=home) == "2\n"  # it has none
    (site,) = home.glob("lib/python*/site-packages")
    (site / "pip").mkdir()
    (site / "pip" / "__main__.py").write_text("print('ERROR: this is another pip'); raise SystemExit(1)\n")
    (site / "pip" / "__init__.py").touch()
    with pytest.raises(DependencyInstallError, match="this is another pip"):
        version_of(wheels, "thing<2", virtualenv=home)


# The pip of Debian 13 does the same with the host's authorities when it starts.
OPENS_AUTHORITIES = """
import ssl
from pip._vendor import certifi
ssl.create_default_context().load_verify_locations(certifi.where())
"""


@pytest.fixture
def pip_of_a_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put this pip, changed as distributions change it, in the place of the own one."""
    if not (authorities := next((path for path in AUTHORITIES if os.path.exists(path)), "")):
        pytest.skip("this machine has no certificate authorities")
    spec = importlib.util.find_spec("pip")
    assert spec is not None and spec.origin is not None
    place = tmp_path / "distribution" / "pip"
    shutil.copytree(Path(spec.origin).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    with (place / "_vendor/certifi/__init__.py").open("a") as file:
        file.write(f"\ndef where() -> str:\n    return {authorities!r}\n")
    with (place / "_internal/commands/install.py").open("a") as file:
        file.write(OPENS_AUTHORITIES)
    monkeypatch.syspath_prepend(place.parent)
    return place


@pytest.mark.usefixtures("pip_of_a_distribution")
def test_a_pip_that_opens_the_authorities_of_the_host_when_it_starts(wheels: Path, tmp_path: Path) -> None:
    assert version_of(wheels, "thing") == "2\n"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    assert version_of(wheels, "thing", virtualenv=tmp_path / "env") == "2\n"


@pytest.mark.usefixtures("pip_of_a_distribution")
def test_such_a_pip_for_a_root_that_has_none_of_these_files(wheels: Path, tmp_path: Path) -> None:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive:
        pytest.skip("no image: contrib/python/check makes one")
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", root, "--no-same-owner", "--exclude=./dev/*"], check=True)
    for name in ("usr/share/ca-certificates", "etc/ssl", "etc/pki", "usr/lib/ssl", "usr/lib/python3/dist-packages/pip"):
        shutil.rmtree(root / name, ignore_errors=True)
    assert version_of(wheels, "thing", rootfs=root) == "2\n"


def test_with_the_decorator(wheels: Path) -> None:
    @sandbox(dependencies=["thing<2"], wheels=wheels)
    def version() -> int:
        import thing  # type: ignore[import-not-found]

        return int(thing.version)

    assert version() == 1
    assert vars(version)["_sandbox_config"].dependencies == ("thing<2",)


def test_what_fails_says_so_in_pips_words(wheels: Path) -> None:
    with pytest.raises(DependencyInstallError, match="No matching distribution found for thing==9") as caught:
        version_of(wheels, "thing==9")
    assert "ERROR: Could not find a version" in caught.value.output
    assert dependencies.installed() == []
    with pytest.raises(DependencyInstallError, match="user"):
        version_of(wheels, "user", "thing==2.0")


def test_two_callers_install_once(wheels: Path) -> None:
    made: list[str] = []
    wanted = dependencies.Wanted(("thing",), wheels=str(wheels))
    interpreter = host_interpreter()
    threads = [
        threading.Thread(target=dependencies.ensure, args=(wanted, interpreter), kwargs={"progress": made.append})
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "".join(made).count("Successfully installed") == 1


def in_another_process(wheels: str) -> None:
    """Ask for a set."""
    assert version_of(Path(wheels), "thing") == "2\n"


def test_two_programs_install_once(wheels: Path) -> None:
    context = multiprocessing.get_context("spawn")
    programs = [context.Process(target=in_another_process, args=(str(wheels),)) for _ in range(2)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    assert [program.exitcode for program in programs] == [0, 0]
    assert len(dependencies.installed()) == 1


def test_hashes(wheels: Path) -> None:
    digest = hashlib.sha256((wheels / "thing-2.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert version_of(wheels, f"thing==2.0 --hash=sha256:{digest}") == "2\n"
    with pytest.raises(DependencyInstallError, match=r"HASH|hash"):
        version_of(wheels, f"thing==2.0 --hash=sha256:{'0' * 64}")


def test_disable_cache_installs_anew(wheels: Path) -> None:
    assert version_of(wheels, "thing", installer="uv") == "2\n"
    make_wheel(wheels, "thing", "3.0", "version = 3\n")
    assert version_of(wheels, "thing", installer="uv") == "2\n"
    assert version_of(wheels, "thing", disable_cache=True, installer="uv") == "3\n"
    assert version_of(wheels, "thing", installer="uv") == "2\n"


def test_an_installation_has_no_network_but_its_index(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(DependencyInstallError) as caught:
        run_code("1", dependencies=["thing"], index_url="https://index.test/simple/")
    assert "index.test" in caught.value.output
    with pytest.raises(SandboxOptionError, match="not an http"):
        run_code("1", dependencies=["thing"], index_url="file:///etc")


def test_the_modules_of_a_set_are_preloaded(wheels: Path) -> None:
    wanted = dependencies.Wanted(("user",), wheels=str(wheels))
    site = dependencies.ensure(wanted, host_interpreter())
    assert dependencies.modules(site, wanted) == ("user",)


def test_of_matplotlib_it_is_what_draws(wheels: Path) -> None:
    make_wheel(wheels, "matplotlib", "1.0", "")
    wanted = dependencies.Wanted(("matplotlib",), "", str(wheels))
    site = dependencies.ensure(wanted, host_interpreter())
    assert dependencies.modules(site, wanted) == ("matplotlib.pyplot",)


def test_packages_beside_the_one_with_the_name_of_the_distribution_are_not_preloaded(tmp_path: Path) -> None:
    """As those of duckdb, one of which needs a distribution that is not installed."""
    wanted = dependencies.Wanted(("scikit-learn", "some-data"))
    for name, packages in (("scikit_learn", ("sklearn", "other")), ("some_data", ("Some_Data", "driver", "tests"))):
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
        record = "".join(f"{package}/__init__.py,,\n" for package in packages)
        (tmp_path / f"{name}-1.0.dist-info/RECORD").write_text(record)
    assert dependencies.modules(tmp_path, wanted) == ("Some_Data", "other", "sklearn")


# Each case is code that a hostile package executes while it is built, and the error.
DIRECTORIES = """
here = os.open("/.dependencies", os.O_RDONLY)
for _ in range(2500):
    os.mkdir("d", dir_fd=here)
    above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
    os.close(above)
"""
LEFT = {
    "a link": ("os.symlink('/etc/passwd', '/.dependencies/note.txt')", "'note.txt', which cannot be used: neither a"),
    "a socket": (
        "import socket; os.makedirs('/.dependencies/a'); socket.socket(socket.AF_UNIX).bind('/.dependencies/a/b')",
        "'a/b', which cannot",
    ),
    "directories that are deep": (DIRECTORIES, "/d/.*, which cannot be used: below more than 64 directories"),
}
if os.geteuid() != 0:  # root reads it
    LEFT["a directory without modes"] = (
        "os.mkdir('/.dependencies/shut', 0)",
        "'shut/', which cannot be used: Permission",
    )


@pytest.mark.parametrize(("hostile", "reason"), LEFT.values(), ids=LEFT)
def test_an_installation_leaves_only_files_and_directories(wheels: Path, hostile: str, reason: str) -> None:
    make_source(wheels, "hostile", hostile)
    with pytest.raises(DependencyInstallError, match=reason):
        run_code("1", dependencies=["hostile"], wheels=wheels)
    cleaning.clean(["dependencies"], days=0)
    assert [path.name for path in (directories.cache_directory() / "dependencies").iterdir() if path.is_dir()] == []


# Each case writes without end. It has bounds for the test, and the error. fallocate(2) with 1 adds blocks behind the
# end of a file.
WRITE = "open(f'/.dependencies/{number}', 'wb').write(bytes(1 << 20))"
ALLOCATE = (
    f"{WRITE}; ctypes.CDLL(None).fallocate(os.open(f'/.dependencies/{{number}}', 2), 1, c_long(0), c_long(1 << 24))"
)
TOUCH = "[os.makedirs(f'/.dependencies/{number}-{other}') for other in range(100)]"
WITHOUT_END = {
    "bytes": (WRITE, {"MAX_BYTES": 1 << 25}, "hostile: the packages have more than 32 MiB"),
    "blocks": (ALLOCATE, {"MAX_BYTES": 1 << 27}, "hostile: the packages have more than 128 MiB"),
    "directories": (TOUCH, {"MAX_FILES": 2000}, "hostile: the packages have more than 2000 files and directories"),
    "the disk": (
        WRITE,
        {"KEPT": (1 << 60, 0), "SHARE": 0.9995},
        "hostile: the packages have filled the disk: make room",
    ),
}


@pytest.mark.parametrize(("step", "bounds", "reason"), WITHOUT_END.values(), ids=WITHOUT_END)
def test_an_installation_is_ended_that_writes_more_than_it_may(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, step: str, bounds: dict[str, Any], reason: str
) -> None:
    for name, value in bounds.items():
        monkeypatch.setattr(disk_limit, name, value)
    loop = f"for number in range(10000):\n    {step}\n    time.sleep(0.02)\n"
    make_source(wheels, "hostile", f"import ctypes, time\nfrom ctypes import c_long\n{loop}")
    with pytest.raises(DependencyInstallError, match=reason):
        run_code("1", dependencies=["hostile"], wheels=wheels)
    assert [path.name for path in (directories.cache_directory() / "dependencies").iterdir() if path.is_dir()] == []


def test_metadata_of_a_hostile_package_are_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves files with holes of terabytes, links that lead out of the set, and directories instead of files."""
    wanted = dependencies.Wanted(("thing", "hole", "link", "folder", "words"))
    record = "thing/__init__.py,sha256=x,1\nthing/other.py,,\n../out/__init__.py,,\nif-then/__init__.py,,\n"
    for name in wanted.requirements:
        (tmp_path / f"site/{name}-1.0.dist-info").mkdir(parents=True)
        (tmp_path / f"site/{name}-1.0.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n")
    about = {name: tmp_path / f"site/{name}-1.0.dist-info/RECORD" for name in wanted.requirements}
    about["thing"].write_text(record)
    about["words"].write_text("".join(f"{letter * 101}/__init__.py,,\n" for letter in "ab"))
    about["hole"].touch()
    os.truncate(about["hole"], 1 << 40)
    about["link"].symlink_to(tmp_path / "host")
    (tmp_path / "host").write_text("host/__init__.py,,\n")
    about["folder"].mkdir()
    (tmp_path / "site/linked-1.0.dist-info").symlink_to(tmp_path)
    assert dependencies.modules(tmp_path / "site", wanted) == ("thing",)
    monkeypatch.setattr(dependencies, "MAX_METADATA", len(record) - 1)
    assert dependencies.modules(tmp_path / "site", wanted) == ()


FIRST, SECOND = (f" --hash=sha256:{digit * 64}" for digit in "ab")


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("Pandas", "pandas"),
        ("a_b.C", "a-b-c"),
        (" numpy >= 1 , <2 ", "numpy<2,>=1"),
        ("x[b, a]==1.*", "x[a,b]==1.*"),
        ("x ~= 1.0 ; python_version < '4'", 'x~=1.0 ; python_version < "4"'),
        (
            f"x==1 --hash=sha256:{'b' * 64}  --hash=sha256:{'a' * 64}",
            f"x==1 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}",
        ),
    ],
)
def test_normal_forms(given: str, normal: str) -> None:
    assert normalise(given) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    "given",
    ["", "-e .", "--index-url=x", "x --index-url=y", "x @ https://h/x.whl", "git+https://h/x", "x\n-e .",
     "-r x", "x ; a\n--pre", "x==1 --hash=md5:00", "a b", "x @ file://h/x", 1],
)  # fmt: skip
def test_what_is_no_requirement(given: object) -> None:
    with pytest.raises(ValueError, match="not a requirement"):
        normalise(given)


def test_a_text_is_no_list() -> None:
    with pytest.raises(ValueError, match="list"):
        normalise_all("pandas")


def test_a_profile_brings_its_packages_and_starts_warm(wheels: Path) -> None:
    for name in load("data-science").dependencies:
        make_wheel(wheels, name, "1.0", "version = 1\n")
    for _ in range(2):
        done = run_code("import pandas, numpy\nprint(pandas.version)", profile="data-science", wheels=str(wheels))
        assert (done.stdout, done.error) == ("1\n", None)
    assert done.warm


def test_a_callers_requirement_takes_the_place_of_a_profiles(wheels: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"dependencies": ["Thing>=2", "user"]}))
    assert make_options(profile=path).dependencies == ("thing>=2", "user")
    assert make_options(profile=path, dependencies=["thing==1.0", "other"]).dependencies == (
        "other",
        "thing==1.0",
        "user",
    )
    assert make_options(profile=path, virtualenv="/v").dependencies == ()
    done = run_code("import thing; thing.version", profile=path, dependencies=["thing==1.0"], wheels=str(wheels))
    assert done.value == "1"
