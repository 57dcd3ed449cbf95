"""Hostile code, with no static analysis in its way: what the threat model promises, tried from inside.

All tests here assume that the code has escaped from Python: it uses ctypes, raw system calls, and the package's own
parts in the sandbox.
"""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pysbx import (
    Execution,
    Mount,
    Sandbox,
    SandboxError,
    SandboxExecutionError,
    run_code,
    sandbox,
)
from pysbx.container.interpreter import certificates
from pysbx.options.profiles import allowed_calls

PRELUDE = """
import ctypes, os, sys, socket, struct, signal, time, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]
"""


def attack(source: str, **options: Any) -> Execution:
    """Run an attack with the helpers for system calls and without any analysis."""
    return run_code(PRELUDE + textwrap.dedent(source), **options)


def said(source: str, **options: Any) -> str:
    """Return what an attack that did not fail by itself prints."""
    done = attack(source, **options)
    assert done.error is None, done.error
    return done.stdout


def test_there_is_nothing_of_the_host_but_the_interpreter(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    places = ["/root", "/home", "/etc/shadow", "/etc/ssh", "/boot", "/srv", "/opt", str(secret)]
    prefix = Path(sys.base_prefix)
    shown = said(f"print([p for p in {places} if os.path.exists(p) and os.listdir(p) != []])")
    allowed = [place for place in places if prefix.is_relative_to(place)]
    assert shown.strip() == str(allowed)
    assert said("print(os.listdir('/mnt'), os.readlink('/mnt/data'))") == "['data'] ../work\n"
    assert said("print(os.listdir('/var'), os.readlink('/var/tmp'))") == "['tmp'] ../tmp\n"
    # The number of CPUs that the sandbox has; the file is a part of its own root.
    assert ast.literal_eval(said("print([one for one in os.walk('/sys') if one[2]])")) == [
        ("/sys/devices/system/cpu", [], ["online"])
    ]
    settings = ["group", "hosts", "ld.so.cache", "nsswitch.conf", "passwd"]
    settings += sorted({Path(mount.target).parts[2] for mount in certificates(network=False)})
    settings += [name for name in ("mime.types", "os-release") if Path("/etc", name).exists()]
    found = ast.literal_eval(said("print(sorted(os.listdir('/etc')))"))
    assert sorted(settings) == [name for name in found if name != "alternatives"]


def test_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    names = said("print(sorted(os.environ))")
    assert "AWS" not in names and "SUDO" not in names
    assert said("print(b'AWS' in open('/proc/self/environ', 'rb').read())") == "False\n"
    source = "try: print(open('/proc/1/environ', 'rb').read())\nexcept PermissionError: print('hidden')"
    assert said(source) == "hidden\n"


def test_the_terminal_of_the_caller_is_out_of_reach() -> None:
    """Its program is in a session of its own, so it cannot type into that terminal (TIOCSTI) or read from it."""
    attempt = "try: print(open('/dev/tty'))\nexcept OSError: print('none')\nprint(os.getsid(0) > 0)"
    source = f"import os\n{attempt}"  # 0 is a session outside of the pid namespace
    program = (
        f"import os; from pysbx import run_code; print(open('/dev/tty').name, run_code({source!r}).stdout.split())"
    )
    spawn = f"import pty, sys; sys.exit(pty.spawn([sys.executable, '-c', {program!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", spawn], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.stdout.strip() == "/dev/tty ['none', 'True']", done.stdout + done.stderr


def test_no_descriptor_of_the_host() -> None:
    with open("/etc/passwd", encoding="ascii") as file:
        os.set_inheritable(file.fileno(), True)
        found = said(
            """
            own = os.readlink('/proc/self/exe')  # which libffi may have open
            for fd in range(64):
                try: name = os.readlink(f'/proc/self/fd/{fd}')
                except OSError: continue
                if name != own: print(fd, name.partition(':')[0])
            """
        )
    assert [line.split()[1] for line in found.splitlines()] == ["/dev/null", "pipe", "pipe", "socket"]


@pytest.mark.parametrize(("process", "number"), [("self", "2"), ("1", "1")])
def test_it_is_nobody(process: str, number: str) -> None:
    status = said(f"print(open('/proc/{process}/status').read())")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0
    assert (fields["NoNewPrivs"], fields["Seccomp"], fields["NSpid"]) == ("1", "2", number)


def test_root_of_the_host_is_nobody_inside_as_well() -> None:
    maps = said("print(open('/proc/self/uid_map').read(), open('/proc/self/gid_map').read())").split()
    assert maps[0] == maps[3] == "0"
    assert maps[2] == maps[5] == "1"
    assert maps[1] != "0"
    if os.geteuid() == 0:
        assert int(maps[1]) >= 1_900_000_000


def test_a_program_with_the_setuid_bit_gains_nothing() -> None:
    assert (
        said("import subprocess; print(subprocess.run(['/bin/su', '-c', 'true'], capture_output=True).returncode)")
        != "0\n"
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
        "call('umount2', b'/proc', 2)",
        "call('unshare', 0x10000000)",
        "call('unshare', 0x00020000)",
        "call('setns', 3, 0)",
        "call('chroot', b'/tmp')",
        "call('syscall', 155, b'/tmp', b'/tmp')",
        "call('ptrace', 0, 0, 0, 0)",
        "call('syscall', 321, 0, 0, 0)",
        "call('syscall', 298, 0, 0, -1, -1, 0)",
        "call('syscall', 425, 8, 0)",
        "call('syscall', 323, 1)",
        "call('syscall', 250, 0, 0, 0)",
        "call('syscall', 304, 0, 0, 0)",
        "call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0)",
        "call('setuid', 1)",
        "call('setgroups', 0, None)",
        "call('mknod', b'/tmp/sda', 0o60600, 0x800)",
        "call('reboot', 0x1234567)",
        "call('swapon', b'/tmp/x', 0)",
        "call('sethostname', b'x', 1)",
        "call('syscall', 246, 0, 0, 0, 0)",
        "call('personality', 0x0040000)",
    ],
)
def test_system_calls_for_escapes_are_refused(attempt: str) -> None:
    assert said(f"print({attempt})").strip() in ("EPERM", "ENOSYS", "EACCES")


def test_a_new_user_namespace_by_clone3_is_refused_too() -> None:
    source = (
        "args = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)\nprint(call('syscall', 435, args, 88))"
    )
    assert said(source).strip() == "ENOSYS"


def test_a_32_bit_system_call_does_not_go_round_the_filter() -> None:
    # mov $0x15 (mount), %eax; xor of the arguments; int $0x80; ret
    done = attack(
        """
        import mmap
        if os.uname().machine != 'x86_64': sys.exit(0)
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex('53 b8 15 00 00 00 31 db 31 c9 31 d2 cd 80 5b c3'))
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        result = function()
        print(result)
        """
    )
    assert done.stdout.strip() in ("", "-1", "-38") or done.exit_code != 0
    assert not done.stdout.strip().startswith(("0", "-14"))


def test_nothing_can_be_written_but_the_private_places() -> None:
    found = said(
        """
        places = []
        for top, names, _ in os.walk('/'):
            if top.startswith('/proc/'): names.clear(); continue
            try:
                fd = os.open(top, os.O_TMPFILE | os.O_RDWR) if False else os.open(top + '/x', os.O_CREAT | os.O_RDWR)
                os.close(fd); os.unlink(top + '/x'); places.append(top)
            except OSError: pass
        print(places)
        """
    )
    assert set(eval(found)) - {"/dev"} == {"/dev/shm", "/output", "/tmp", "/work"}


def test_the_package_in_the_sandbox_cannot_be_changed_for_others() -> None:
    found = said("print(call('open', b'/.pysbx/pysbx_inside/worker.py', 2), call('chmod', b'/.pysbx', 0o777))")
    assert set(found.split()) <= {"EROFS", "EACCES", "EPERM"}


def test_settings_of_the_kernel_cannot_be_written() -> None:
    for name in ("sysrq-trigger", "sys/kernel/core_pattern", "sys/vm/drop_caches", "sys/kernel/hostname"):
        assert said(f"print(call('open', b'/proc/{name}', 1))").strip() in ("EACCES", "EROFS", "EPERM", "ENOENT")


def test_what_is_masked_is_empty() -> None:
    assert said("print(open('/proc/keys').read() == open('/proc/timer_list').read() == '')") == "True\n"


def test_no_process_of_the_host_can_be_seen_or_signalled() -> None:
    found = said("print([n for n in os.listdir('/proc') if n.isdigit()], call('kill', -1, 0))")
    assert found in ("['1', '2'] ESRCH\n", "['1', '2'] 0\n")
    assert said(f"print(call('kill', {os.getpid()}, 0) if {os.getpid()} > 1 else 'ESRCH')") == "ESRCH\n"


def test_a_socket_in_the_abstract_namespace_of_the_host_cannot_be_reached() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0pysbx-test")
        server.listen()
        found = said(
            "s = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0pysbx-test')\nexcept OSError as e: print(e.errno)"
        )
    assert found == "111\n"


def test_there_is_no_network() -> None:
    for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
        assert said(f"try: socket.socket(socket.{family})\nexcept OSError as e: print(e.errno)") == "97\n"


FAMILIES = """
for number in range(64):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        try: socket.socket(number, kind, 0).close()
        except OSError as error: found.setdefault(error.errno, set()).add(number); continue
        made.add(number); break
"""


@pytest.mark.parametrize("network", [None, "localhost", ["example.org"], "host"])
def test_only_listed_socket_families_can_be_created(network: Any) -> None:
    listed = {socket.AF_UNIX} | ({socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK} if network else set())
    source = f"made, found = set(), {{}}\n{FAMILIES}\nprint(made, found[97] | made == set(range(64)))"
    assert said(source, allow_network=network) == f"{set(map(int, listed))} True\n"


@pytest.mark.parametrize("network", ["localhost", ["example.org"], "host"])
def test_other_sockets_of_a_listed_family_cannot_be_created(network: Any) -> None:
    found = said(
        """
        SOCK_DIAG, PACKET, number = 4, 10, 41 if os.uname().machine == 'x86_64' else 198
        print(call('socket', 16, 3, SOCK_DIAG), call('socket', 2, PACKET, 0), call('socket', 2, PACKET | 0x80000, 0))
        print(*[call('syscall', number, ctypes.c_long(1 << 32 | family), 1, 0) for family in (1, 17, 38, 40)])
        print(*[call('socketpair', family, 1, 0, (ctypes.c_int * 2)()) for family in (2, 16, 17, 30, 38, 40)])
        """,
        allow_network=network,
    ).splitlines()
    assert found[0] == "EPROTONOSUPPORT EPERM EPERM"
    assert set(found[1].split()) <= {"EAFNOSUPPORT", "EPERM"}
    assert set(found[2].split()) == {"EAFNOSUPPORT"}


def test_what_a_program_asks_the_kernel_about_networks_is_answered() -> None:
    found = said(
        """
        print(socket.if_nameindex(), socket.getaddrinfo('localhost', 80, flags=socket.AI_ADDRCONFIG)[0][4][1])
        print(*[pair.family for pair in socket.socketpair()])
        """,
        allow_network="localhost",
    )
    assert found.splitlines()[0] == "[(1, 'lo')] 80"


def test_a_list_of_system_calls_does_not_lift_the_rules_for_sockets(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    path.write_text(json.dumps({"allow": [*allowed_calls(), "socket", "socketpair"]}))
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"seccomp": str(path)}))
    found = said("print(call('socket', 40, 1, 0), call('socketpair', 40, 1, 0, None))", profile=str(profile))
    assert found == "EAFNOSUPPORT EAFNOSUPPORT\n"


def test_the_own_loopback_is_not_that_of_the_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = said(
            f"""
            try: socket.create_connection(('127.0.0.1', {port}), timeout=5)
            except OSError as e: print(e.errno)
            own = socket.create_server(('127.0.0.1', 0))
            print(socket.create_connection(own.getsockname(), timeout=5).getpeername() == own.getsockname())
            """,
            allow_network="localhost",
        )
    assert found == "111\nTrue\n"


def test_a_fork_bomb_ends() -> None:
    began = time.monotonic()
    done = attack("while True:\n  try: os.fork()\n  except OSError: pass", timeout_sec=2)
    assert done.timed_out
    assert time.monotonic() - began < 20


def test_a_memory_bomb_over_many_processes_ends() -> None:
    began = time.monotonic()
    source = "for _ in range(4): os.fork()\nx = []\nwhile True: x.append(bytes(1 << 20))"
    done = attack(source, timeout_sec=10, memory_mb=64, max_processes=20, cpus=2)
    assert done.exit_code != 0
    assert time.monotonic() - began < 30


def test_signals_cannot_be_blocked_against_the_end() -> None:
    source = "for n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
    done = attack(source + "os.setsid() if os.fork() == 0 else None\nwhile True: pass", timeout_sec=1)
    assert done.timed_out


def test_limits_cannot_be_raised() -> None:
    found = said(
        """
        import resource
        for name in ('RLIMIT_CORE', 'RLIMIT_NOFILE', 'RLIMIT_FSIZE'):
            try: resource.setrlimit(getattr(resource, name), (1 << 40, 1 << 40))
            except (ValueError, OSError): print('no')
        """
    )
    assert found == "no\nno\nno\n"


def test_a_worker_that_never_answers_is_killed() -> None:
    @sandbox(timeout_sec=1)
    def stop() -> None:
        os.close(3)
        os.kill(1, 19)
        while True:
            time.sleep(1)

    with pytest.raises(SandboxError):
        stop()


def test_names_of_processes_that_outlive_the_answer() -> None:
    done = attack("if os.fork() == 0:\n  os.setsid()\n  time.sleep(60)\n  os._exit(0)\nprint('parent')", timeout_sec=20)
    assert done.stdout == "parent\n"
    assert done.usage.wall_sec < 15


def test_a_session_is_no_way_to_another(tmp_path: Path) -> None:
    with Sandbox() as one, Sandbox() as two:
        one.run("open('/tmp/x', 'w').write('1'); open('/dev/shm/x', 'w').write('1')")
        assert two.run("import os; [os.listdir(p) for p in ('/tmp', '/dev/shm')]").value == "[[], []]"


def test_the_state_of_the_runtime_is_out_of_reach() -> None:
    assert said("print([p for p in ('/run', '/run/pysbx', '/run/user') if os.path.exists(p)])") == "[]\n"


def test_a_hostile_name_in_an_error_is_only_text() -> None:
    @sandbox
    def fail() -> None:
        raise type("X" * 100_000, (Exception,), {})("\x1b]0;title\x07" * 10)

    with pytest.raises(SandboxExecutionError) as caught:
        fail()
    assert len(caught.value.traceback_str) <= 64 * 1024


def test_threads_of_the_host_are_not_disturbed_by_a_flood() -> None:
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.02):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        run_code("while True: print('x' * 1000)", timeout_sec=1)
    finally:
        stop.set()
        ticker.join()
    assert len(ticks) > 10


def test_the_interpreter_of_the_host_is_unchanged() -> None:
    before = Path(os.path.realpath(sys.executable)).stat()
    attack("open(os.path.realpath(sys.executable), 'wb')")
    attack("os.unlink(os.path.realpath(sys.executable))")
    after = Path(os.path.realpath(sys.executable)).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert subprocess.run([sys.executable, "-c", "1"], check=False).returncode == 0


# State that files of the host share with a sandbox.


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_a_file_that_it_only_reads_does_not_block_its_other_readers(tmp_path: Path, isolation: str) -> None:
    """fcntl(2), F_SETLEASE: a process that opens the file waits for the holder of a lease. F_NOTIFY sends signals."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == os.geteuid():
            directory.chmod(directory.stat().st_mode | 0o055)
    (tmp_path / "table.csv").write_text("a,b\n")
    found = said(
        f"""
        import fcntl
        interpreter, table = os.path.realpath(sys.executable), {str(tmp_path / "table.csv")!r}
        for path in (interpreter, table, {str(tmp_path)!r}, "mine"):
            descriptor = os.open(path, os.O_CREAT if path == "mine" else os.O_RDONLY)
            # F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX, F_SETLEASE, F_GETLEASE, F_NOTIFY
            for command in (8, 9, 10, 11, 15, 16, 1024, 1025, 1026):
                for number in (command, command + (1 << 32)):
                    print(call("syscall", 72, descriptor, ctypes.c_long(number), ctypes.c_long(1)))
        """,
        mounts=[Mount(tmp_path)],
        isolation=isolation,
    )
    assert found == "EPERM\n" * 4 * 9 * 2


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_what_programs_ask_of_a_descriptor_works(isolation: str) -> None:
    found = said(
        """
        import fcntl, shutil, subprocess
        with open("file", "w+") as file:
            one = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 50)
            fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_NONBLOCK)
            fcntl.fcntl(one, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
            fcntl.lockf(file, fcntl.LOCK_EX), fcntl.flock(file, fcntl.LOCK_SH), file.write("text")
        os.set_inheritable(one, True), os.set_blocking(one, True)
        ends = os.pipe()
        shutil.copytree(".", "../tmp/copy"), shutil.copy2("file", "other"), shutil.move("other", "../tmp/other")
        done = subprocess.run("cp file third && ls -l third >/dev/null && tar cf tar third", shell=True)
        print(fcntl.fcntl(ends[0], 1032), os.isatty(1), done.returncode, open("../tmp/copy/file").read())
        """,
        isolation=isolation,
    )
    assert found == "65536 False 0 text\n"


MODES = """
library = ctypes.CDLL(None, use_errno=True)
directory = os.open({place!r}, os.O_DIRECTORY)
def new(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=directory))
    return name
def is_refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except OSError as error:
        return error.errno in (errno.EPERM, errno.ENOSYS)
def system_call(*arguments):
    if library.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
def temporary(mode):
    file = os.open({place!r}, os.O_TMPFILE | os.O_RDWR, mode)
    os.link(f"/proc/self/fd/{{file}}", f"temporary-{{mode:o}}", dst_dir_fd=directory)
modes = (0o4755, 0o2755, 0o6777)
print([name for name, attempt in (
    ("chmod", lambda mode: os.chmod({place!r} + "/" + new(f"chmod-{{mode:o}}"), mode)),
    ("fchmod", lambda mode: os.fchmod(os.open(new(f"fchmod-{{mode:o}}"), os.O_RDWR, dir_fd=directory), mode)),
    ("fchmodat", lambda mode: os.chmod(new(f"fchmodat-{{mode:o}}"), mode, dir_fd=directory)),
    ("fchmodat2", lambda mode: system_call(452, directory, new(f"fchmodat2-{{mode:o}}").encode(), mode, 0)),
    ("open", lambda mode: system_call(2, f"{place}/open-{{mode:o}}".encode(), os.O_CREAT | os.O_RDWR, mode)),
    ("openat", lambda mode: os.open(f"openat-{{mode:o}}", os.O_CREAT | os.O_RDWR, mode, dir_fd=directory)),
    ("creat", lambda mode: system_call(85, f"{place}/creat-{{mode:o}}".encode(), mode)),
    ("mknod", lambda mode: os.mknod({place!r} + f"/mknod-{{mode:o}}", mode | 0o100000)),
    ("O_TMPFILE", temporary),
) for mode in modes if not is_refused(attempt, mode)])
how = struct.pack("QQQ", os.O_CREAT | os.O_RDWR, 0o4755, 0)
library.syscall(437, directory, b"openat2", how, len(how))
# What has another mode works.
os.chmod(new("ordinary", ), 0o1751, dir_fd=directory), os.open({place!r}, os.O_RDONLY)
library.syscall(2, {place!r}.encode(), os.O_RDONLY, 0o6755)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the files of a user's sandbox belong to that user")
@pytest.mark.parametrize("isolation", ["container", "process"])
def test_of_roots_caller_no_file_in_a_writable_mount_becomes_setuid_or_setgid(tmp_path: Path, isolation: str) -> None:
    for directory in (tmp_path, *tmp_path.parents):
        directory.chmod(directory.stat().st_mode | 0o055)
    tmp_path.chmod(0o777)
    found = said(MODES.format(place=str(tmp_path)), mounts=[Mount(tmp_path, readonly=False)], isolation=isolation)
    bits = {path.name: path.lstat().st_mode & 0o6000 for path in tmp_path.iterdir()}
    assert {name for name, bit in bits.items() if bit} == set()
    assert "ordinary" in bits
    if isolation == "container":
        assert found == "[]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only of root's files")
def test_a_list_of_system_calls_does_not_lift_the_rules_for_modes(tmp_path: Path) -> None:
    names = tmp_path / "calls.json"
    names.write_text(json.dumps({"allow": [*allowed_calls(), "fchmodat2", "mknod", "mknodat"]}))
    profile = tmp_path / "mine.json"
    profile.write_text(json.dumps({"seccomp": str(names)}))
    made = tmp_path / "made"
    made.mkdir(mode=0o777)
    said(MODES.format(place="/made"), mounts=[Mount(made, "/made", readonly=False)], profile=str(profile))
    assert [path.name for path in made.iterdir() if path.lstat().st_mode & 0o6000] == []
