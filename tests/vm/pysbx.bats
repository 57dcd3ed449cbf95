#!/usr/bin/env bats
# The package pysbx on a machine with every controller. The limits of a sandbox are those of a cgroup, for all of its
# processes together, and limits="strict" is granted; contrib/python.

load vm.bash

setup_file() {
    use_package
    # Of the caller alone, as the package demands. The directories of bats belong to a group as well.
    XDG_CACHE_HOME=$(mktemp -d)
    export XDG_CACHE_HOME
}

teardown_file() {
    rm -rf "$XDG_CACHE_HOME"
}

@test "limits='strict': granted, and the result says that cgroups enforce them" {
    expect 0 python <<'PYTHON'
done = run_code("6 * 7", limits="strict")
print(done.value, sorted(done.limits.items()))
PYTHON
    output_is "42 [('cpu', 'cgroup'), ('memory', 'cgroup'), ('pids', 'cgroup')]"
}

@test "Sandbox: memory_mb, cpus and max_processes in the kernel's files" {
    expect 0 python <<'PYTHON'
import json, pathlib, subprocess
from pysbx.base import runtime
with Sandbox(memory_mb=96, cpus=0.5, max_processes=20, limits="strict", timeout_sec=180) as sandbox:
    sandbox.run("1")
    (container,) = json.loads(subprocess.check_output(runtime.command("list", "--format", "json")))
    path = pathlib.Path(f"/proc/{container['pid']}/cgroup").read_text().rpartition("::")[2].strip()
    for name in "memory.max", "cpu.max", "pids.max":
        print(pathlib.Path(f"/sys/fs/cgroup{path}", name).read_text().strip())
PYTHON
    output_is $'100663296\n50000 100000\n21' # the init counts in the kernel's number, not in the caller's
}

# The page cache is emptied first, so that the data come from a disk.
# bats test_tags=all
@test "io_mb_per_sec: in the kernel's file for each disk, and a program waits for its data" {
    expect 0 python <<'PYTHON'
import json, os, pathlib, subprocess, time
from pysbx.base import runtime
READ = "f = open('/large', 'rb', 0)\nfor _ in range(6): assert len(f.read(1 << 20)) == 1 << 20"
for rate in 0, 2:
    with Sandbox(io_mb_per_sec=rate, mounts=[Mount("/usr/bin/podman", "/large")]) as sandbox:
        sandbox.run("1")
        (container,) = json.loads(subprocess.check_output(runtime.command("list", "--format", "json")))
        path = pathlib.Path(f"/proc/{container['pid']}/cgroup").read_text().rpartition("::")[2].strip()
        lines = pathlib.Path(f"/sys/fs/cgroup{path}/io.max").read_text().splitlines()
        print(rate, {tuple(sorted(line.split()[1:])) for line in lines if "rbps=max" not in line})
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        began = time.monotonic()
        done = sandbox.run(READ, timeout_sec=100)
        print(done.error, time.monotonic() - began > 2 if rate else "")
PYTHON
    output_is $'0 set()\nNone \n2 {(\'rbps=2097152\', \'riops=max\', \'wbps=2097152\', \'wiops=max\')}\nNone True'
}

# bats test_tags=all
@test "@sandbox: memory above memory_mb is a SandboxMemoryError" {
    expect 0 python <<'PYTHON'
@sandbox(memory_mb=64, limits="strict")
def fill(size):
    return len(bytearray(size))
print(fill(1 << 20))
try:
    fill(200 << 20)
except SandboxMemoryError as error:
    print(error.memory_mb, error)
PYTHON
    output_is $'1048576\n64 OOM-killed: 64 MiB allowed'
}

@test "run_code: memory_mb applies to all processes of a sandbox together" {
    expect 0 python <<'PYTHON'
done = run_code("""
import os, signal, time
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        content = bytearray(32 << 20)
        time.sleep(1)
        os._exit(0)
    children.append(child)
killed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL for child in children]
print(sum(killed) >= 5)
""", memory_mb=96, limits="strict", timeout_sec=120)
print(done.stdout or done.error)
PYTHON
    # Each of them is small enough. The kernel chooses whether it kills the first process or another.
    [[ $output == True* || $output == *"96 MiB allowed"* ]]
}

# bats test_tags=all
@test "run_code: cpus applies to all processes of a sandbox together" {
    expect 0 python <<'PYTHON'
done = run_code("""
import os, time
child = os.fork()
began, spent = time.monotonic(), time.process_time()
while time.monotonic() < began + 4:
    pass
print((time.process_time() - spent) / (time.monotonic() - began), flush=True)
if child == 0:
    os._exit(0)
os.wait()
""", cpus=0.5, limits="strict", timeout_sec=120)
print(sum(map(float, done.stdout.split())))
PYTHON
    is_about "$output" 0.5 15
}

# bats test_tags=all
@test "run_code: max_processes" {
    expect 0 python <<'PYTHON'
done = run_code("""
import errno, os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(100)
        count += 1
except OSError as error:
    print(errno.errorcode[error.errno], count)
""", max_processes=16, limits="strict", timeout_sec=120)
print(done.stdout or done.error)
PYTHON
    [[ $output == "EAGAIN 1"[0-5]* ]]
}

# bats test_tags=all
@test "run_code: a warm start has the same limits" {
    expect 0 python <<'PYTHON'
import json
from pysbx.base import runtime
from pysbx.calls.prepare import prepare
from pysbx.options.options import make_options
options = make_options(memory_mb=64, limits="strict", timeout_sec=60)
bundle = prepare(options)
print(runtime.build_snapshot(str(bundle.path), bundle.enforcement.manager))
for source in "1", "x = bytearray(200 << 20)":
    done = run_code(source, options=options, warm="require")
    print(done.warm, done.exit_code, done.error and done.error.message)
PYTHON
    output_is $'\nTrue 0 None\nTrue 137 OOM-killed: 64 MiB allowed'
}

# bats test_tags=all
@test "pysbx doctor: nothing replaces cgroups" {
    expect 0 python <<'PYTHON'
from pysbx.machine import doctor
print([(check.status, check.found) for check in doctor.examine() if check.name == "limits"])
PYTHON
    output_is "[('ok', 'memory, CPU and processes by cgroup')]"
}

# SELinux. audit.bats, which runs later, finds the denials of these tests.

need_selinux() {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
}

# Functions for the programs of these tests.
readonly LABELS='
import os, re, sys
SHOWN = """
import os
print(open("/proc/self/attr/current").read().rstrip("\\0\\n"))
for path in "/tmp", "/work", "/dev/shm":
    with open(path + "/made", "w") as file: file.write("x")
    print(os.getxattr(path + "/made", "security.selinux").rstrip(b"\\0").decode())
print(open("/given/file").read().strip())
"""
def categories(text, kind="pysbx_sandbox_t"):
    """Return the categories, if everything that SHOWN has printed is as it should be."""
    lines = text.split()
    found = re.fullmatch(f"system_u:system_r:{kind}:s0:(c[0-9]+,c[0-9]+)", lines[0])
    files = [f"system_u:object_r:pysbx_sandbox_file_t:s0:{found[1]}"] * 3
    assert lines[1:] == [*files, "content"], text
    return found[1]
'

@test "SELinux: each sandbox has a label with categories of its own, warm and cold; it sees files of the home directory" {
    need_selinux
    make_unlabelled given
    prints $'\nTrue\nTrue\nFalse\n3 [\'enforcing; each sandbox has a label of its own\']' python "$HOME/given" <<<"$LABELS"'
from pysbx.calls.prepare import prepare
from pysbx.machine import doctor
from pysbx.options.options import make_options
mounts = [Mount(sys.argv[1], "/given")]
print(prepare(make_options(mounts=mounts)).build_snapshot())
found = set()
for warm in "require", "require", "off":
    done = run_code(SHOWN, mounts=mounts, warm=warm, timeout_sec=120)
    assert done.error is None, (done.error, done.stderr)
    found.add(categories(done.stdout))
    print(done.warm)
print(len(found), [check.found for check in doctor.examine() if check.name == "SELinux"])'
}

@test "SELinux: the program has the label, and the init that of the program that calls pysbx" {
    need_selinux
    make_unlabelled given
    prints $'True\nTrue\nTrue True' python "$HOME/given" <<<"$LABELS"'
import json, pathlib, subprocess
from pysbx.base import runtime
with Sandbox(mounts=[Mount(sys.argv[1], "/given")]) as sandbox, Sandbox() as other:
    mine = categories(sandbox.run(SHOWN).stdout)
    other.run("1")
    for container in json.loads(subprocess.check_output(runtime.command("list", "--format", "json"))):
        print(pathlib.Path(f"/proc/{container['"'pid'"']}/attr/current").read_text() == pathlib.Path("/proc/self/attr/current").read_text())
    labels = [box.run("open(\"/proc/self/attr/current\").read()").value for box in (sandbox, other)]
    print(labels[0] != labels[1], mine in labels[0])'
}

# The kernel answers as it would decide.
@test "SELinux: the policy separates sandboxes by their categories, and the host from all of them" {
    need_selinux
    expect 0 python <<'PYTHON'
from pysbx.container import labels
def may(source, target, kind, permission):
    wanted = 1 << labels._number(f"class/{kind}/perms/{permission}") - 1
    answer = labels._ask("access", f"{source} {target} {labels._number(f'class/{kind}/index')} {wanted:x}").split()
    return bool(int(answer[0], 16) & wanted)
HOME, SHADOW = "unconfined_u:object_r:user_home_t:s0", "system_u:object_r:shadow_t:s0"
CALLER = labels._own()
for sandbox in labels.PROCESS, labels.WRITER:
    one, other = f"{sandbox}:c1,c2", f"{sandbox}:c1,c3"
    for kind, permission in ("process", "sigkill"), ("process", "ptrace"), ("file", "read"), ("unix_stream_socket", "connectto"):
        print(kind, permission, may(one, one, kind, permission), may(one, other, kind, permission))
    print("file", may(one, f"{labels.FILES}:c1,c2", "file", "write"), may(one, f"{labels.FILES}:c1,c3", "file", "read"))
    print("home", may(one, HOME, "file", "read"), may(one, HOME, "file", "write"), may(one, SHADOW, "file", "read"))
    print("caller", may(one, CALLER, "process", "signal"), may(one, CALLER, "process", "ptrace"), may(one, CALLER, "file", "read"))
PYTHON
    local common=$'process sigkill True False\nprocess ptrace False False\nfile read True False
unix_stream_socket connectto True False\nfile True False'
    output_is "$common"$'\nhome True False False\ncaller False False False\n'"$common"$'\nhome True True False\ncaller False False False'
}

# bats test_tags=all
@test "SELinux: a sandbox with a mount that it may write to has another type" {
    need_selinux
    make_unlabelled given
    prints "by the sandbox" python "$HOME/given" <<<"$LABELS"'
mounts = [Mount(sys.argv[1], "/given", readonly=False)]
done = run_code(SHOWN + "open(\"/given/made\", \"w\").write(\"by the sandbox\")", mounts=mounts, timeout_sec=120)
assert done.error is None, done.error
categories(done.stdout, "pysbx_sandbox_writer_t")
print(open(sys.argv[1] + "/made").read())'
}

# The usual level of a login. Its pipes and sockets have every category.
# bats test_tags=all
@test "SELinux: a caller at the level s0-s0:c0.c1023" {
    need_selinux
    make_unlabelled given
    expect 0 runcon -l s0-s0:c0.c1023 bash -c "$(declare -f python)"'; python "$@"' bash "$HOME/given" <<<"$LABELS"'
for warm in "auto", "off":
    done = run_code(SHOWN + "import sys; sys.stderr.write(\"to the end\")", mounts=[Mount(sys.argv[1], "/given")], warm=warm, timeout_sec=120)
    assert done.error is None, (done.error, done.stderr)
    print(categories(done.stdout) != "", done.stderr)'
    output_is $'True to the end\nTrue to the end'
}

# bats test_tags=all
@test "SELinux: usual operations of programs, files that are brought and collected, a fork of a session, a terminal" {
    need_selinux
    expect 0 python "$TESTS/vm/usual.py" <<'PYTHON'
import sys
USUAL = open(sys.argv[1]).read() + """
with open("/work/program", "w") as file:
    file.write("#!/bin/sh\\necho executed")
os.chmod("/work/program", 0o755)
print(subprocess.check_output("/work/program").decode().strip())
open("/output/result", "w").write("collected")
print(open("/work/brought").read())
"""
with Sandbox(timeout_sec=120) as sandbox:
    sandbox.put({"brought": b"brought"})
    done = sandbox.run(USUAL)
    print(done.stdout.split(), done.error, done.artifacts)
with Sandbox(timeout_sec=120) as sandbox:
    sandbox.run("value = 42")
    with sandbox.fork() as fork:
        print(fork.run("value").value, sandbox.run("value").value)
        shown = "open('/proc/self/attr/current').read()"
        print(fork.run(shown).value != sandbox.run(shown).value)
    with sandbox.terminal(["sh", "-c", "tty; stty size"]) as terminal:
        print(b"".join(iter(lambda: terminal.read(30), b"")))
PYTHON
    output_is $'[\'executed\', \'brought\'] None {\'result\': b\'collected\'}
42 42
True
b\'/dev/pts/0\\r\\n24 80\\r\\n\''
}

# A mount shows a file to everyone, and its mode lets everyone read it. Only its categories say whose it is.
@test "SELinux: a file of another sandbox cannot be read, even if a mount shows it" {
    need_selinux
    make_unlabelled given
    expect 0 python "$HOME/given" <<'PYTHON'
import os, subprocess, sys
READ = """
try:
    print(open("/given/file").read().strip())
except OSError as error:
    print(error.strerror)
"""
def belongs_to(sandbox):
    """Give the file the label that files of a sandbox have."""
    level = sandbox.run("open('/proc/self/attr/current').read().rstrip(chr(0)).split(':', 3)[3]").value.strip("'")
    label = f"system_u:object_r:pysbx_sandbox_file_t:{level}"
    subprocess.run(["chcon", label, sys.argv[1] + "/file"], check=True)
    return level
mounts = [Mount(sys.argv[1], "/given")]
with Sandbox(mounts=mounts, timeout_sec=120) as one, Sandbox(mounts=mounts, timeout_sec=120) as other:
    levels = []
    for owner in one, other:
        levels.append(belongs_to(owner))
        print(*(box.run(READ).stdout.strip() for box in (one, other)), sep=", ")
    print(levels[0] != levels[1])
PYTHON
    output_is $'content, Permission denied\nPermission denied, content\nTrue'
}

# bats test_tags=all
@test "SELinux: a function with dependencies" {
    need_selinux
    expect 0 python "$TESTS/../contrib/python/tests" "$BATS_TEST_TMPDIR/wheels" <<'PYTHON'
import pathlib, sys
sys.path.append(sys.argv[1])
from packages import make_wheel
wheels = pathlib.Path(sys.argv[2])
wheels.mkdir()
make_wheel(wheels, "thing", "1.0", "version = 1\n")
@sandbox(dependencies=["thing"], wheels=wheels, timeout_sec=300)
def dependent():
    import thing
    return thing.version, open("/proc/self/attr/current").read().split(":")[2]
try:
    print(dependent(), dependent())
except DependencyInstallError as error:
    sys.exit(error.output)
PYTHON
    output_is "(1, 'pysbx_sandbox_t') (1, 'pysbx_sandbox_t')"
}

# bats test_tags=root
@test "SELinux: passwords are not read, even if a mount shows them" {
    needs_root "gives a file the type of passwords"
    need_selinux
    cp /etc/passwd "$BATS_TEST_TMPDIR/passwords"
    chmod a+r "$BATS_TEST_TMPDIR/passwords"
    chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR"
    chcon --type shadow_t "$BATS_TEST_TMPDIR/passwords"
    expect 0 python "$BATS_TEST_TMPDIR/passwords" <<'PYTHON'
import sys
done = run_code("open('/given')", mounts=[Mount(sys.argv[1], "/given")], timeout_sec=120)
print(done.error.type, done.error.message)
PYTHON
    output_is "PermissionError [Errno 13] Permission denied: '/given'"
}

# bats test_tags=all
@test "SELinux: the proxy for allowed hosts, a loopback interface, the network of the host" {
    need_selinux
    expect 0 python <<'PYTHON'
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the host")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
FETCH = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{server.server_port}').read().decode())"
ASK = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://other.example/")
except urllib.error.HTTPError as error:
    print(error.code)
"""
SERVE = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"by loopback")
print(server.accept()[0].recv(100).decode())
"""
for network, program in ("host", FETCH), (["example.org"], ASK), ("localhost", SERVE):
    done = run_code(program, allow_network=network, timeout_sec=120)
    print(done.stdout.strip(), done.error)
PYTHON
    output_is $'from the host None\n403 None\nby loopback None'
}

# Run a program as a logged-in user: in a cgroup that belongs to systemd, not to the user.
python_of_tester() {
    local uid
    uid=$(id -u tester)
    setpriv --reuid "$uid" --regid "$uid" --init-groups env --ignore-environment HOME=/home/tester PATH="$PATH" \
        PYTHONPATH="$PYTHONPATH" PYSBX_RUNTIME="$PYSBX_RUNTIME" "$@" python3 -c "from pysbx import *
$(cat)"
}

# bats test_tags=root
@test "limits='strict': in a cgroup that does not belong to the user, systemd creates another one" {
    needs_root "is about a user outside of the user's own cgroup"
    chmod -R a+rX "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
    expect 0 python_of_tester XDG_RUNTIME_DIR="/run/user/$(id -u tester)" <<'PYTHON'
import os
with Sandbox(limits="strict", max_processes=20) as sandbox:
    print(sandbox.run("import os, signal; 6 * 7").value)
    print([path for path, *_ in os.walk("/sys/fs/cgroup/user.slice") if path.endswith(".scope/container")] != [])
    done = sandbox.run("for _ in range(30):\n    if os.fork() == 0: signal.pause()")
    print(done.error)
PYTHON
    [[ ${lines[0]} == 42 && ${lines[1]} == True && ${lines[2]} == *"Resource temporarily unavailable"* ]]
}

# bats test_tags=root,all
@test "limits='strict': without systemd's help it is refused, with the remedy" {
    needs_root "is about a user outside of the user's own cgroup"
    chmod -R a+rX "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
    expect 0 python_of_tester <<'PYTHON'
print(sorted(run_code("1").limits.items()))
try:
    run_code("1", limits="strict")
except LimitsNotEnforceableError as error:
    print(error)
PYTHON
    [[ ${lines[0]} == "[('cpu', 'rlimit'), ('memory', 'rlimit'), ('pids', 'rlimit')]" ]]
    output_has "no cgroup controller for memory, cpu, pids" "Delegate= in a drop-in for user@.service"
}
