#!/usr/bin/env bats
# The package pysbx on a machine with every controller. The limits of a sandbox are those of a cgroup, for all of its
# processes together, and limits="strict" is granted; contrib/python.

load vm.bash

# As after an installation, because in the repository the profiles are a link.
setup_file() {
    local root=$TESTS/..
    cp -rL "$root/contrib/python/src/pysbx" "$BATS_FILE_TMPDIR/"
    export PYTHONPATH=$BATS_FILE_TMPDIR PYSBX_RUNTIME=$RUNTIME
}

# Run a program that uses the package.
python() {
    python3 - "$@" <<<"from pysbx import *
$(cat)"
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
from pysbx import runtime
with Sandbox(memory_mb=96, cpus=0.5, max_processes=20, limits="strict") as sandbox:
    sandbox.run("1")
    (container,) = json.loads(subprocess.check_output(runtime.command("list", "--format", "json")))
    path = pathlib.Path(f"/proc/{container['pid']}/cgroup").read_text().rpartition("::")[2].strip()
    for name in "memory.max", "cpu.max", "pids.max":
        print(pathlib.Path(f"/sys/fs/cgroup{path}", name).read_text().strip())
PYTHON
    output_is $'100663296\n50000 100000\n21' # the init counts in the kernel's number, not in the caller's
}

# The page cache is emptied first, so that the data come from a disk.
@test "io_mb_per_sec: in the kernel's file for each disk, and a program waits for its data" {
    expect 0 python <<'PYTHON'
import json, os, pathlib, subprocess, time
from pysbx import runtime
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

@test "run_code: a warm start has the same limits" {
    expect 0 python <<'PYTHON'
import json
from pysbx import runtime
from pysbx.options import make_options, prepare
options = make_options(memory_mb=64, limits="strict", timeout_sec=60)
bundle = prepare(options)
print(runtime.build_snapshot(str(bundle.path), bundle.enforcement.manager))
for source in "1", "x = bytearray(200 << 20)":
    done = run_code(source, options=options, warm="require")
    print(done.warm, done.exit_code, done.error and done.error.message)
PYTHON
    output_is $'\nTrue 0 None\nTrue 137 OOM-killed: 64 MiB allowed'
}

@test "pysbx doctor: nothing replaces cgroups" {
    expect 0 python <<'PYTHON'
from pysbx import doctor
print([(check.status, check.found) for check in doctor.examine() if check.name == "limits"])
PYTHON
    output_is "[('ok', 'memory, CPU and processes by cgroup')]"
}

# audit.bats, which runs later, finds the denials of this test.
@test "SELinux: a sandbox has the label of the program that calls pysbx, and its files of the home directory" {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
    make_unlabelled given
    expect 0 python "$HOME/given" <<'PYTHON'
import pathlib, sys
from pysbx import doctor
for warm in "auto", "off":
    done = run_code("print(open('/proc/self/attr/current').read(), open('/given/file').read())",
                    mounts=[Mount(sys.argv[1], "/given")], warm=warm, timeout_sec=120)
    print(done.stdout.split() == [pathlib.Path("/proc/self/attr/current").read_text().rstrip("\n"), "content"], done.error)
print([check.found for check in doctor.examine() if check.name == "SELinux"])
PYTHON
    output_is $'True None\nTrue None\n[\'enforcing; sandboxes have the label of this program\']'
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

# bats test_tags=root
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
    output_has "no cgroup controller for memory, cpu, pids"
    output_has "Delegate= in a drop-in for user@.service"
}
