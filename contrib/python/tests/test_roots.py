"""Where a sandbox's Python comes from: a virtualenv, a root file system, an image."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pysbx import PodmanNotInstalledError, Sandbox, SandboxStartupError, run_code
from pysbx.container.interpreter import AUTHORITIES, certificates, host_interpreter, virtualenv_interpreter
from pysbx.options.mount import Mount
from pysbx.packages.images import rootfs_of

ABOUT = "import sys, os; print(sys.prefix, sys.version_info[:2], sorted(os.listdir('/')))"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def test_by_default_it_is_this_interpreter() -> None:
    assert run_code("import sys; print(sys.version)").stdout.strip() == sys.version
    assert run_code("import sys; print(sys.prefix)").stdout.strip() == sys.base_prefix


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("perl", "perl -MFile::Find -e1"),
        ("git", "git init -q /tmp/r"),
        ("fc-list", "fc-list | grep -q /usr/share/fonts"),
        ("fc-match", 'test "$(fc-match serif)" != "$(fc-match monospace)"'),
        ("file", "file -b /bin/sh | grep -v magic"),
    ],
)
def test_programs_of_the_system_find_their_data(program: str, command: str) -> None:
    here = f"cd /tmp; {command.replace('/tmp/r', '--bare $(mktemp -d)')}"
    if not shutil.which(program) or subprocess.run(["sh", "-c", here], capture_output=True, check=False).returncode:
        pytest.skip(f"{program} does not work here")
    with Sandbox() as session:
        done = session.shell(command)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_virtualenv_with_its_packages(virtualenv: str) -> None:
    done = run_code("import sys, pysbx, pytest; print(sys.prefix, pytest.__version__)", virtualenv=virtualenv)
    assert done.stdout == f"{virtualenv} {pytest.__version__}\n"
    error = run_code("import pysbx").error  # which is not installed for the base
    assert error is not None and error.message == "No module named 'pysbx'"


def test_a_python_that_is_too_old_is_refused(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    packages = tmp_path / f"env/lib/{VERSION}/site-packages"
    (packages / "old.pth").write_text("import sys; sys.version_info = (3, 9, 18)\n")
    with pytest.raises(SandboxStartupError, match=r"^Python 3\.9 is too old: a sandbox needs 3\.10 or later$"):
        run_code("1", virtualenv=str(tmp_path / "env"))


def copy_of_this_interpreter(place: Path) -> Path:
    """Install this interpreter and its standard library, without packages, in a directory of its own."""
    ignored = shutil.ignore_patterns("__pycache__", "test", "config-*", "idlelib", "*-packages", "sitecustomize.py")
    stdlib = Path(sysconfig.get_path("stdlib")).relative_to(sys.base_prefix)
    shutil.copytree(Path(sys.base_prefix) / stdlib, place / stdlib, symlinks=True, ignore=ignored)
    library = Path(sys.base_prefix) / "lib" / str(sysconfig.get_config_var("INSTSONAME"))
    if library.is_file():
        shutil.copy(library, place / "lib")
    (place / "bin").mkdir()
    shutil.copy(host_interpreter().program, place / "bin" / VERSION)
    return place


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    """An environment as conda makes it, in the first one, with secrets where conda and its users put them."""
    first = tmp_path / "conda"
    place = copy_of_this_interpreter(first / "envs" / "data")
    (place / "bin" / "python").symlink_to(VERSION)
    (place / "bin" / "tool").write_text("#!/bin/sh\necho from conda\n")
    (place / "bin" / "tool").chmod(0o755)
    for name in ("conda-meta/state", "etc/conda/activate.d/variables.sh", ".condarc"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("secret")
    (first / "conda-meta").mkdir()
    for part in ("bin", "lib"):
        shutil.copytree(place / part, first / part, symlinks=True, copy_function=os.link)
    return first


def test_of_a_conda_environment_programs_and_libraries(conda: Path) -> None:
    place = conda / "envs" / "data"
    source = "import sys, os, json; print(sys.prefix, *sorted(os.listdir(sys.prefix)), json.__file__)"
    done = run_code(source, virtualenv=str(place))
    assert done.error is None, done.stderr
    assert done.stdout.split() == [str(place), "bin", "lib", str(place / "lib" / VERSION / "json" / "__init__.py")]
    source = "import subprocess; subprocess.run(['python', '-c', 'import sys; print(sys.prefix)'])\n"
    done = run_code(source + "subprocess.run(['tool'])", virtualenv=str(place))
    assert done.stdout == f"{place}\nfrom conda\n", done.stderr
    assert not list(conda.rglob("__pycache__"))  # nothing is left there either


def test_of_the_first_conda_environment_no_other_is_shown(conda: Path) -> None:
    done = run_code(f"import os; print(*sorted(os.listdir({str(conda)!r})))", virtualenv=str(conda))
    assert done.stdout == "bin lib\n", done.error


def test_of_a_conda_environment_with_two_names_nothing_else_either(conda: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to("conda/envs/data")
    home = tmp_path / "env"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(tmp_path / "short" / "bin" / "python")
    (home / "pyvenv.cfg").write_text(f"home = {tmp_path}/short/bin\n")
    source = (
        f"import os, sys; names = [sys.base_prefix, '{tmp_path}/short', '{conda}/envs/data']\n"
        "print(*sorted({file for name in names if os.path.isdir(name) for file in os.listdir(name)}))"
    )
    for name in (home, tmp_path / "short"):
        done = run_code(source, virtualenv=str(name))
        assert done.stdout == "bin lib\n", done.error


def test_a_virtualenv_whose_python_is_found_through_a_link(tmp_path: Path) -> None:
    """As uv makes them: the directory of the interpreter has a second name, without the patch level."""
    copy_of_this_interpreter(tmp_path / "pythons" / "full")
    (tmp_path / "pythons" / "short").symlink_to("full")
    home = tmp_path / "env"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(tmp_path / "pythons" / "short" / "bin" / VERSION)
    (home / "pyvenv.cfg").write_text(f"home = {tmp_path}/pythons/short/bin\n")
    done = run_code("import sys, json; print(sys.prefix, json.__file__)", virtualenv=str(home))
    assert done.error is None, done.stderr
    assert done.stdout.split() == [str(home), f"{tmp_path}/pythons/short/lib/{VERSION}/json/__init__.py"]


def test_a_directory_that_is_no_virtualenv(tmp_path: Path) -> None:
    with pytest.raises(SandboxStartupError, match=r"pyvenv\.cfg nor conda-meta"):
        run_code("1", virtualenv=str(tmp_path))


@pytest.fixture(scope="module")
def made_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with a Python: links to nothing of the host, so a copy of its interpreter."""
    found = host_interpreter()
    if not found.program.startswith("/usr/bin/"):
        pytest.skip("the interpreter is not the system's: copying it would take more than /usr")
    root = tmp_path_factory.mktemp("made") / "root"
    ignored = shutil.ignore_patterns("test", "config-*", "idlelib", "pydoc_data", "sitecustomize.py")
    shutil.copytree(f"/usr/lib/{VERSION}", root / "usr/lib" / VERSION, symlinks=True, ignore=ignored)
    (root / "usr/bin").mkdir()
    shutil.copy(found.program, root / "usr/bin/python3")
    needed = subprocess.run(
        ["ldd", found.program, *root.rglob("*.so")], capture_output=True, text=True, check=True
    ).stdout
    for library in sorted({word for word in needed.split() if word.startswith("/") and not word.endswith(":")}):
        target = root / library.lstrip("/")
        if not library.startswith(str(root)) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    return root


@pytest.fixture
def rootfs(made_root: Path, tmp_path: Path) -> Path:
    """That root, with directories of its own, so that a test can change its names."""
    return Path(shutil.copytree(made_root, tmp_path / "root", symlinks=True, copy_function=os.link))


@pytest.mark.root
def test_a_root_file_system(rootfs: Path) -> None:
    before = sorted(os.listdir(rootfs))
    done = run_code(ABOUT + "\nprint(os.path.exists('/usr/bin/env'))", rootfs=str(rootfs))
    assert done.error is None, done.error
    assert done.stdout.startswith("/usr ")
    assert done.stdout.endswith("False\n")
    assert sorted(os.listdir(rootfs)) == before


def everything_in(directory: Path) -> list[str]:
    """Return the paths of everything that is beneath a directory."""
    return [os.path.join(above, name) for above, names, files in os.walk(directory) for name in names + files]


@pytest.mark.root
def test_a_link_at_the_top_of_a_root_leads_nowhere_on_the_host(rootfs: Path, tmp_path: Path) -> None:
    goal, source = tmp_path / "goal", tmp_path / "in.csv"
    goal.mkdir()
    source.write_text("a,b\n")
    where = "import os; print(open('/data/cron.d/in.csv').read(), os.listdir('/data/new/dir'))"
    mounts = [Mount(source, "/data/cron.d/in.csv"), Mount(rootfs / "usr/bin", "/data/new/dir")]
    for target in (str(goal), f"../../../../../..{goal}"):
        (rootfs / "data").symlink_to(target)
        done = run_code(where, rootfs=str(rootfs), mounts=mounts)
        assert everything_in(goal) == []
        assert done.stdout == "a,b\n ['python3']\n", done.error
        (rootfs / "data").unlink()


@pytest.mark.root
@pytest.mark.parametrize("target", ["/", "goal", "/missing/directory"])
def test_links_of_a_root_in_the_place_of_our_own(rootfs: Path, tmp_path: Path, target: str) -> None:
    names = ["etc", "usr2", "home", ".pysbx", "work", "tmp", "dev", "proc"]
    goal = tmp_path / "goal"
    goal.mkdir()
    (goal / "secret").write_text("secret of the host")
    for name in names:
        (rootfs / name).symlink_to(goal if target == "goal" else target)
    source = f"import os; print([name for name in {names} if os.path.exists(f'/{{name}}/secret')], os.getpid() > 0)"
    done = run_code(source, rootfs=str(rootfs))
    assert done.stdout == "[] True\n", done.error
    assert everything_in(goal) == [str(goal / "secret")]


REAL = "import os; print(os.path.realpath('/mnt/data'))"


@pytest.mark.parametrize(("made", "real"), [("", "/work"), ("mnt", "/work"), ("mnt/disk", "/mnt/data")])
def test_mnt_data_of_a_root_is_another_name_of_work(rootfs: Path, made: str, real: str) -> None:
    (rootfs / made).mkdir(parents=True, exist_ok=True)
    assert run_code(REAL, rootfs=str(rootfs)).stdout == f"{real}\n"


def test_a_mount_at_mnt_data_is_no_other_name_of_work(tmp_path: Path) -> None:
    (tmp_path / "own").touch()
    source = f"{REAL}; open('/mnt/data/a', 'w'); print(os.listdir('/work'))"
    assert run_code(source).stdout == "/work\n['a']\n"
    assert run_code(f"{REAL}; os.listdir('/mnt/data')", mounts=[Mount(tmp_path, "/mnt/data")]).value == "['own']"


def test_a_mount_replaces_a_link_of_the_root_and_leaves_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    for path in ("/etc/os-release", "/etc"):
        mount = Mount(tmp_path if path == "/etc" else tmp_path / "own", path)
        name = "/etc/own" if path == "/etc" else path
        assert run_code(f"open({name!r}).read()", mounts=[mount]).value == "'mine'", path
    source = "import os; os.listdir('/var/lib/x'), os.readlink('/var/tmp'), os.readlink('/mnt/data')"
    done = run_code(source, mounts=[Mount(tmp_path, "/var/lib/x"), Mount(tmp_path, "/mnt/disk")])
    assert done.value == "(['own'], '../tmp', '../work')"


def test_links_of_a_root_that_lead_in_a_circle_are_refused(rootfs: Path) -> None:
    (rootfs / "etc").symlink_to("other")
    (rootfs / "other").symlink_to("etc")
    with pytest.raises(SandboxStartupError, match=r"etc.*symbolic links"):
        run_code("1", rootfs=str(rootfs))


@pytest.mark.root
@pytest.mark.parametrize("up", ["", "../../../../../../.."])
def test_the_python_of_a_root_is_no_file_of_the_host(rootfs: Path, tmp_path: Path, up: str) -> None:
    (tmp_path / "secret").write_text("secret of the host")
    (rootfs / "usr/bin/python3").unlink()
    (rootfs / "usr/bin/python3").symlink_to(f"{up}{tmp_path}/secret")
    with pytest.raises(SandboxStartupError, match="no python3"):
        run_code("1", rootfs=str(rootfs))


def test_the_python_of_a_virtualenv_is_not_run_on_the_host(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "env/bin").mkdir(parents=True)
    program = tmp_path / "env/bin/python"
    program.write_text(f'#!/bin/sh\nid >{mark}\nexec /usr/bin/python3 "$@"\n')
    program.chmod(0o755)
    version = ".".join(map(str, sys.version_info[:3]))
    for text in (f"home = {sys.base_prefix}/bin\n", f"home = {sys.base_prefix}/bin\nversion = {version}\n"):
        (tmp_path / "env/pyvenv.cfg").write_text(text)
        with contextlib.suppress(SandboxStartupError):
            run_code("1", virtualenv=str(tmp_path / "env"))
        virtualenv_interpreter.cache_clear()
        assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 3.11.2\n", "not an absolute path"),
        ("home = relative\nversion = 3.11.2\n", "not an absolute path"),
        ("home = /nonexistent/bin\nversion = 3.11.2\n", "no standard library of python3.11"),
        ("home = {home}\nversion = 3\n", "has a version"),
        ("home = {home}\nversion = " + "1" * 5000 + ".1\n", "has a version"),
        ("home = /a\0b\nversion = 3.11.2\n", "home is not a path"),
        ("home = /" + "a/" * 5000 + "\nversion = 3.11.2\n", "home is not a path"),
        ("home = {home}\n" * 10_000, "pyvenv.cfg: more than 65536 bytes"),
    ],
)
def test_settings_of_a_virtualenv_that_say_nothing(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/usr/bin/env")
    (tmp_path / "pyvenv.cfg").write_text(text.format(home=f"{sys.base_prefix}/bin"))
    with pytest.raises(SandboxStartupError, match=said):
        run_code("1", virtualenv=str(tmp_path))


def test_settings_of_a_virtualenv_that_are_no_text(tmp_path: Path) -> None:
    """They have a hole of a terabyte, or never end."""
    (tmp_path / "pyvenv.cfg").touch()
    os.truncate(tmp_path / "pyvenv.cfg", 1 << 40)
    with pytest.raises(SandboxStartupError, match=r"pyvenv\.cfg: more than 65536 bytes"):
        run_code("1", virtualenv=str(tmp_path))
    for other in (Path.unlink, os.mkfifo):
        other(tmp_path / "pyvenv.cfg")
        with pytest.raises(SandboxStartupError, match=r"neither pyvenv\.cfg nor"):
            run_code("1", virtualenv=str(tmp_path))


def test_a_virtualenv_shows_no_file_of_the_host_as_its_python(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret of the host")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(tmp_path / "secret")
    version = ".".join(map(str, sys.version_info[:3]))
    (tmp_path / "env/pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\nversion = {version}\n")
    with pytest.raises(SandboxStartupError, match="is not the interpreter of"):
        run_code("1", virtualenv=str(tmp_path / "env"))


@pytest.mark.skipif(not os.path.exists("/usr/include/stdio.h"), reason="no headers of C are installed")
@pytest.mark.skipif(not os.path.exists("/usr/bin/gcc"), reason="gcc is not installed")
def test_a_program_in_c_can_be_compiled() -> None:
    source = """
import subprocess
open("a.c", "w").write("#include <stdio.h>\\nint main(void) { return puts(\\"compiled\\") < 0; }")
subprocess.run(["gcc", "a.c"], check=True)
print(subprocess.run(["./a.out"], capture_output=True, text=True, check=True).stdout, end="")
"""
    done = run_code(source)
    assert (done.error, done.stdout) == (None, "compiled\n")


def test_a_root_without_python(tmp_path: Path) -> None:
    with pytest.raises(SandboxStartupError, match="no python3"):
        run_code("1", rootfs=str(tmp_path))


@pytest.mark.root
def test_an_image() -> None:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive:
        pytest.skip("no image: contrib/python/check makes one")
    name = "localhost/pysbx-test"
    imported = subprocess.run(
        ["podman", "import", "--quiet", archive, name], capture_output=True, text=True, check=False
    )
    assert imported.returncode == 0, imported.stderr
    done = run_code(ABOUT, image=name)
    assert done.error is None, done.error
    assert done.stdout.startswith("/usr ")
    assert "user:x:1000" in run_code("print(open('/etc/passwd').read())", image=name).stdout
    left = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True).stdout
    assert left == ""


def test_of_an_image_the_variables_count() -> None:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive:
        pytest.skip("no image: contrib/python/check makes one")
    name = "localhost/pysbx-test-variables"
    wanted = ["GREETING=hello", "PATH=/opt/first:/usr/bin", "HOME=/root", "PYTHONHOME=/none", "PYTHONPATH=/none"]
    changes = [word for variable in wanted for word in ("--change", f"ENV {variable}")]
    subprocess.run(["podman", "import", "--quiet", *changes, archive, name], capture_output=True, check=True)
    source = "import os; [os.environ.get(name) for name in ('GREETING', 'PATH', 'HOME', 'PYTHONHOME')]"
    path = "/opt/first:/usr/bin:/usr/local/bin:/bin:/.pysbx/pysbx_inside/programs"
    assert run_code(source, image=name).value == repr(["hello", path, "/work", None])
    assert run_code(source, image=name, env={"GREETING": "other"}).value == repr(["other", path, "/work", None])
    assert "/none" not in str(run_code("import sys; sys.path", image=name).value)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates devices, and keeps permissions by default")
def test_of_an_image_no_device_and_no_setuid_program_stays_on_the_host(tmp_path: Path) -> None:
    if shutil.which("podman") is None:
        pytest.skip("Podman is not installed")
    kinds = {"character": tarfile.CHRTYPE, "block": tarfile.BLKTYPE, "pi*pe": tarfile.FIFOTYPE, "file": tarfile.REGTYPE}
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for directory in ("opt/", "opt/bin/", "opt/bin/deep/"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o2755
            archive.addfile(entry)
            for name, kind in kinds.items():
                entry = tarfile.TarInfo(directory + name)
                entry.type, entry.mode, entry.devmajor, entry.devminor = kind, 0o6755, 1, 5
                archive.addfile(entry)
    name = "localhost/pysbx-test-setuid"
    subprocess.run(["podman", "import", "--quiet", tmp_path / "image.tar", name], capture_output=True, check=True)
    umask = os.umask(0o077)
    try:
        path, _ = rootfs_of(name)
    finally:
        os.umask(umask)
    found = {str(file.relative_to(path)): stat.filemode(file.stat().st_mode) for file in Path(path, "opt").rglob("*")}
    assert found == {
        "opt/file": "-rwxr-xr-x", "opt/bin": "drwxr-xr-x", "opt/bin/file": "-rwxr-xr-x", "opt/bin/deep": "drwxr-xr-x",
        "opt/bin/deep/file": "-rwxr-xr-x",
    }  # fmt: skip


@pytest.mark.root
def test_an_image_without_python_is_named(tmp_path: Path) -> None:
    if shutil.which("podman") is None:
        pytest.skip("Podman is not installed")
    (tmp_path / "etc").mkdir()
    archive = shutil.make_archive(str(tmp_path / "empty"), "tar", tmp_path, "etc")
    name, change = "localhost/pysbx-test-empty", "ENV PATH=/opt/conda/bin"
    subprocess.run(["podman", "import", "--quiet", "--change", change, archive, name], capture_output=True, check=True)
    with pytest.raises(SandboxStartupError, match=f"^image '{name}': no python3 in /opt/conda/bin or /usr/local/bin"):
        run_code("1", image=name)


@pytest.mark.parametrize("network", ["host", ["example.org"]])
def test_a_root_without_directories_of_certificates_has_a_network(tmp_path: Path, network: Any) -> None:
    archive = os.environ.get("TEST_PYTHON_IMAGE")
    if not archive or not any(os.path.exists(path) for path in AUTHORITIES):
        pytest.skip("no image: contrib/python/check makes one; or no certificate authorities")
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", root, "--no-same-owner", "--exclude=./dev/*"], check=True)
    for name in ("usr/share/ca-certificates", "etc/ssl", "etc/pki", "usr/lib/ssl"):
        shutil.rmtree(root / name, ignore_errors=True)
    source = "import os; open(os.environ['SSL_CERT_FILE']).read().count('BEGIN CERTIFICATE') > 9"
    done = run_code(source, rootfs=root, allow_network=network)
    assert (done.error, done.value) == (None, "True")


# Libraries of distributions load this file when they are imported: requests of Debian 13, for example.
LOADS = "import ssl; context = ssl.create_default_context(cafile={path!r}); len(context.get_ca_certs()) > 9"


@pytest.mark.parametrize("options", [{}, {"allow_network": "localhost"}, {"isolation": "process"}])
def test_the_authorities_of_the_host_are_where_its_libraries_open_them(options: dict[str, Any]) -> None:
    paths = [path for path in AUTHORITIES if os.path.exists(path)]
    if not paths:
        pytest.skip("this machine has no certificate authorities")
    for path in paths:
        done = run_code(LOADS.format(path=path), **options)
        assert (done.error, done.value) == (None, "True"), path
        assert (error := run_code(f"open({path!r}, 'a')", **options).error) is not None, path
        assert error.type in ("PermissionError", "OSError")


def test_without_a_network_no_other_file_of_them_is_shown() -> None:
    source = "import os\nfor top in '/etc/ssl', '/etc/pki':\n for place, _, names in os.walk(top):\n"
    shown = run_code(f"{source}  for name in names: print(f'{{place}}/{{name}}')").stdout.split()
    wanted = [mount.target for mount in certificates(network=False)]
    assert sorted(shown) == sorted(path for path in wanted if path.startswith(("/etc/ssl/", "/etc/pki/")))


@pytest.mark.root
@pytest.mark.parametrize("network", ["none", "localhost"])
def test_authorities_that_are_a_link_to_another_directory(network: Any) -> None:
    """As on Arch Linux, openSUSE and Fedora."""
    bundle, moved = Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ca-certificates/extracted/tls-ca-bundle.pem")
    if os.geteuid() != 0 or not bundle.is_file() or bundle.is_symlink():
        pytest.skip("changes Debian's /etc, of which only root's tests have one of their own")
    moved.parent.mkdir(parents=True)
    bundle.rename(moved)
    try:
        bundle.symlink_to("../../ca-certificates/extracted/tls-ca-bundle.pem")
        certificates.cache_clear()
        # With a variable of its own, because a program keeps the mounts of a policy that it has used.
        done = run_code(LOADS.format(path=str(bundle)), allow_network=network, env={"LINKED": "1"})
        assert (done.error, done.value) == (None, "True")
    finally:
        bundle.unlink()
        moved.rename(bundle)
        shutil.rmtree("/etc/ca-certificates/extracted")
        certificates.cache_clear()


def test_an_image_without_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PodmanNotInstalledError, match="podman"):
        run_code("1", image="localhost/none")


def test_mounts_become_absolute() -> None:
    mounts = [Mount("x", "/x"), Mount(Path("x"), "/a/../x"), Mount("/nonexistent/../x", Path("//x"))]
    assert [mount.target for mount in mounts] == ["/x", "/x", "/x"]
    assert [mount.source for mount in mounts] == [str(Path("x").absolute())] * 2 + ["/x"]


@pytest.mark.parametrize("paths", [(b"/x",), ("/x", b"/y"), ("", "/y"), ("/x", "relative")])
def test_what_is_no_path_is_no_mount(paths: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"^mount .*path"):
        Mount(*paths)


def test_a_mount_that_is_not_there() -> None:
    with pytest.raises(SandboxStartupError, match=r"^mount '/nonexistent/x': No such file or directory$"):
        run_code("1", mounts=[Mount("/nonexistent/x", "/x")])


def test_a_mount_that_comes_and_goes(tmp_path: Path) -> None:
    place = tmp_path / "place"
    source, mounts = "import os; os.path.isdir('/x')", [Mount(place, "/x")]
    for make, remove, said in ((place.mkdir, place.rmdir, "True"), (place.touch, place.unlink, "False")):
        with pytest.raises(SandboxStartupError, match=r"^mount '.*/place': No such file"):
            run_code(source, mounts=mounts)
        make()
        assert run_code(source, mounts=mounts).value == said
        remove()
