#!/usr/bin/env bats
# Warm starts: how they are requested, how the program starts, and the message without one; pysbx-runtime(8), "WARM
# START".
# images: python
# once: what a start needs of the kernel as a user is in the tests with the tag "user" and in warm-podman.bats

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

# bats test_tags=user
@test "run.pysbx.preload: the named modules are already imported" {
    preload json,decimal
    prints $'False\nFalse\nTrue' warm -c "$(read_files json decimal csv)"
    stderr_is_empty
}

# bats test_tags=user
@test "every kind of program is a restored interpreter: two runs have the hash seed of one snapshot" {
    mkdir -p work/directory
    echo 'print(hash("text"))' | tee work/script.py >work/directory/__main__.py
    (cd work/directory && python3 -m zipfile -c ../app.pyz __main__.py)
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    expect 0 warm -c 'print(hash("text"))'
    seed=$output
    for arguments in '-m script' script.py directory app.pyz - ''; do
        # shellcheck disable=SC2086 # words
        prints "$seed" warm $arguments <work/script.py
    done
    expect 0 cold -c 'print(hash("text"))'
    [[ $output != "$seed" ]]
}

@test "run.pysbx.preload: a package's submodule" {
    preload xml.dom.minidom
    prints False warm -c "$(read_files xml.dom.minidom)"
}

@test "run.pysbx.preload: a submodule that is the program of -m runs as it does cold, without a warning" {
    mkdir modules modules/package
    echo 'import package.loaded' >modules/package/__init__.py
    for name in loaded other __main__; do
        echo 'print(__name__)' >"modules/package/$name.py"
    done
    sed -i 's/^print/__name__ == "__main__" and print/' modules/package/*.py
    configure 'mount("/modules", arguments[0]); process["env"] += ["PYTHONPATH=/modules", "PYTHONDONTWRITEBYTECODE=1"]' "$PWD/modules"
    preload package,package.other,package.__main__
    for name in package package.loaded package.other package.__main__; do
        same -W error -m "$name"
        same -m "$name"
        output_is __main__
    done
    grep -q RuntimeWarning <(cold -m package.loaded 2>&1) # its package has loaded it
}

@test "run.pysbx.warm: an unknown word is refused" {
    fails 1 "run.pysbx.warm" _run_python sometimes -c 'pass'
    stderr_has "sometimes"
}

@test "run.pysbx.warm=off: the start is cold, and no snapshot is made" {
    runtime warm prune --all
    preload json
    prints True cold -c "$(read_files decimal)"
    prints "[]" runtime warm list --format json
}

@test "run.pysbx.warm=require: a program that is no interpreter is refused, with the reason" {
    configure 'config["annotations"] = {"run.pysbx.warm": "require"}; process["args"] = ["/bin/sh", "-c", "true"]'
    fails 1 "run.pysbx.warm=require" run_box
    stderr_has "not called like a Python interpreter"
}

@test "run.pysbx.warm=require: a missing program is reported as missing, and one that only the container sees is not executed" {
    program require pass
    for program in python3.99 /no/such/python3; do
        configure 'process["args"] = [arguments[0]]' "$program"
        fails 1 "executable file \`$program\` not found" run_box
        stderr_has "o such file or directory"
        [[ $stderr != *require* ]]
    done
    own_root python
    [[ -L root/bin ]] || skip "the image has a directory /bin"
    environment PATH=/usr/bin
    configure 'mount("/bin/python3.98", "/bin/true"); process["args"] = ["python3.98"]' # through a link
    fails 1 "run.pysbx.warm=require: program 'python3.98' is not visible" run_box
    configure 'config["annotations"]["run.pysbx.warm"] = "auto"'
    expect 0 run_box
}

@test "a program named python3 that is no interpreter starts cold" {
    own_root python
    rm root/usr/bin/python3
    printf '#!/bin/sh\necho "a shell, $*"\n' >root/usr/bin/python3
    chmod 0755 root/usr/bin/python3
    prints "a shell, -c one" either -c 'one'
    fails 1 "run.pysbx.warm=require" warm -c 'one'
}

@test "a copy of an interpreter that is called python or python3 is warm: venv --copies" {
    mkdir -p work/bin
    root=$(python3 -c 'import json; print(json.load(open("bundle/config.json"))["root"]["path"])')
    cp "$(realpath "$root/usr/bin/python3")" work/bin/python
    cp work/bin/python work/bin/python3
    printf 'home = /usr/bin\n' >work/pyvenv.cfg
    configure 'mount("/opt/copies", arguments[0])' "$PWD/work"
    for name in python python3; do
        configure 'config["annotations"] = {"run.pysbx.warm": "require"}
process["args"] = ["/opt/copies/bin/" + arguments[0], "-c", "import sys; print(sys.prefix, sys.executable)"]' "$name"
        prints "/opt/copies /opt/copies/bin/$name" run_box
    done
}

@test "options that no snapshot supports: cold, with the reason" {
    for option in -i -x -V '-X importtime'; do
        # shellcheck disable=SC2086 # two words
        fails 1 "run.pysbx.warm=require" warm $option -c 'pass'
        # shellcheck disable=SC2086
        expect 0 either $option -c 'pass'
    done
}

@test "without an annotation: the first run of a key is cold, the second builds the snapshot" {
    local -a seeds=()
    runtime warm prune --all
    configure_warm '{"retryAfter": 0}'
    for _ in 1 2 3; do
        expect 0 either -c 'print(hash("text"))'
        seeds+=("$output")
    done
    configure_warm
    [[ ${seeds[0]} != "${seeds[1]}" && ${seeds[1]} == "${seeds[2]}" ]]
}

@test "warm.json: mode off overrides every annotation, optIn requires one" {
    preload json
    configure_warm '{"mode": "off"}'
    configure 'config["annotations"]["run.pysbx.warm"] = "auto"; process["args"] = ["python3", "-c", "pass"]'
    expect 0 runtime plan --bundle bundle
    output_holds 'it["warm"]["start"] == "cold" and it["warm"]["reason"] == "switched off in warm.json"'
    configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    fails 1 "run.pysbx.warm=require: switched off in warm.json" run_box
    configure_warm '{"mode": "optIn"}'
    tells 'it["warm"]["start"] == "warm" and it["warm"]["preload"] == ["json"]' runtime plan --bundle bundle
    configure 'del config["annotations"]["run.pysbx.warm"]'
    tells 'it["warm"]["start"] == "cold"' runtime plan --bundle bundle
    configure_warm
}

@test "--debug: the reason of a cold start" {
    configure 'config["annotations"] = {}; process["args"] = ["python3", "-X", "importtime", "-c", "pass"]'
    expect 0 runtime --debug run --bundle bundle box
    stderr_has "cold start"
}

@test "-c, -m, a script, -, a directory, a zip file: with their arguments" {
    mkdir -p work/package work/directory
    echo 'import sys; print("input", sys.argv, __name__)' >work/input.py
    sed s/input/script/ work/input.py >work/script.py
    sed s/input/module/ work/input.py >work/package/__main__.py
    sed s/input/directory/ work/input.py >work/directory/__main__.py
    (cd work/directory && python3 -m zipfile -c ../app.pyz __main__.py)
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    same -c 'import sys; print("command", sys.argv, __name__)' one --two ''
    output_is "command ['-c', 'one', '--two', ''] __main__"
    same -m package one
    output_has "module ['/work/package/__main__.py', 'one'] __main__"
    same script.py one
    output_is "script ['script.py', 'one'] __main__"
    same directory one
    output_is "directory ['directory', 'one'] __main__"
    same app.pyz one
    output_is "directory ['app.pyz', 'one'] __main__"
    INPUT=work/input.py same - one
    output_is "input ['-', 'one'] __main__"
    INPUT=work/input.py same
    output_is "input [''] __main__"
}

@test "a script that is standard input by its path: cold, with a reason that names - instead" {
    echo 'import sys; print(sys.argv)' >input.py
    INPUT=input.py same -
    for path in /dev/stdin /dev/fd/0 /proc/self/fd/0; do
        configure 'process["args"] = ["python3", arguments[0], "x"]' "$path"
        expect 1 runtime run --bundle bundle box <input.py
        stderr_has "run.pysbx.warm=require: the program '$path' cannot be examined: its path leads through links of /proc"
        configure 'config["annotations"]["run.pysbx.warm"] = "auto"'
        shows "the program '$path' cannot be examined" runtime plan --bundle bundle
        prints "['$path', 'x']" runtime run --bundle bundle box <input.py
        configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    done
}

@test "the working directory as the program: it has no name other than a cold one's" {
    mkdir work
    echo 'import sys; print(__file__, sys.path[0], sys.argv)' >work/__main__.py
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    same . one
    output_has "['.', 'one']"
    same ./ one
    rm work/__main__.py
    same .
    same ''
}

@test "a program that is missing or cannot be compiled: the same message and exit code" {
    mkdir work
    printf 'x = (\n' >work/broken.py
    configure 'mount("/work", arguments[0])' "$PWD/work"
    same /work/missing.py
    same -m missing
    same -m json.missing
    same /work/broken.py
    same -c 'x = ('
    same /work
}

# bats test_tags=user
@test "exit codes: of signals in a shared pid namespace" {
    configure 'share("pid")' # process 1 of a pid namespace ignores signals without a handler
    same -c 'import os; os.kill(os.getpid(), 15)'
    same -c 'import os; os.abort()'
    same -c 'import ctypes; ctypes.string_at(0)'
}

# bats test_tags=user
@test "standard streams: input to its end, a closed one, a full device" {
    head -c 300000 /dev/urandom >bytes
    INPUT=bytes same -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
    output_is "$(sha256sum bytes | cut -d ' ' -f 1)"
    expect 0 warm -c 'import sys; print(sys.stdin)' <&-
    local with=$output
    prints "$with" cold -c 'import sys; print(sys.stdin)' <&-
    for mode in cold warm; do
        code=0
        "$mode" -c 'print("x" * 100)' >/dev/full 2>"$mode.err" || code=$?
        [[ $code == 120 ]] || { echo "$mode: $code" && cat "$mode.err" && return 1; }
    done
    diff cold.err warm.err
}

@test "a terminal: line buffering, size, control-C" {
    configure 'process["terminal"] = True'
    program require 'import os, sys, time
print(os.ttyname(0), sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.line_buffering, os.get_terminal_size())
print("ready")
time.sleep(60)'
    # Process 1 has a handler for SIGINT, which Python sets.
    expect 130 "$TESTS/lib/pty" --size 33x99 --expect ready --send '\x03' -- "$RUNTIME" run --bundle bundle box
    output_has "True True True os.terminal_size(columns=99, lines=33)" KeyboardInterrupt
}

# bats test_tags=user
@test "run --detach, create and start: the program runs on by itself" {
    program require 'import time; print("up", flush=True); time.sleep(1000)'
    start_box
    wait_for grep -q up out
    runtime delete --force box
    create_box
    [[ ! -s out ]]
    runtime start box
    wait_for grep -q up out
    [[ $(tr '\0' ' ' <"/proc/$(pid_of_box)/cmdline") == "python3 -c import time"* ]]
}

@test "kill: signals reach the program" {
    program require 'import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
print("up", flush=True)
time.sleep(1000)'
    start_box
    wait_for grep -q up out
    runtime kill box TERM
    wait_for grep -q "asked to end" err
}

# bats test_tags=user
@test "users: root, a number without a name, groups, HOME" {
    local program='import os; print(os.getuid(), os.geteuid(), os.getgid(), sorted(os.getgroups()), os.environ.get("HOME"), os.path.expanduser("~"))'
    same -c "$program"
    needs_root "has other ids than its own"
    configure 'process["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [50]}'
    same -c "$program"
    output_has "1000 1000 1000"
    configure 'process["user"] = {"uid": 4242, "gid": 5}; process["capabilities"] = {}; process["noNewPrivileges"] = True'
    same -c "$program"
    output_has "4242 4242 5"
}

# bats test_tags=user
@test "read-only and writable roots" {
    local program='import os
try:
    open("/written", "w").close()
    os.unlink("/written")
    print("writable")
except OSError as error:
    print(error)'
    configure 'config["root"]["readonly"] = True'
    same -c "$program"
    output_has "Read-only file system"
    own_root python
    configure 'config["root"]["readonly"] = False'
    same -c "$program"
    output_is writable
}

# bats test_tags=user
@test "volumes: modules of mounts are preloaded from there" {
    preload_module greeting <<<'text = "from the volume"'
    expect 0 warm -c "$(read_files greeting); print(greeting.text, greeting.__file__)"
    output_is $'False\nfrom the volume /modules/greeting.py'
}

@test "user namespace: one whose ids are readable is joined; another path is cold, with the reason" {
    needs_root "a user cannot mount"
    unshare --user --map-root-user sleep 1000 3>&- &
    pid=$!
    until [[ $(<"/proc/$pid/comm") == sleep ]]; do sleep 0.01; done
    touch user
    mount --bind "/proc/$pid/ns/user" user
    configure 'process["args"] = ["python3", "-c", "pass"]
linux["namespaces"].append({"type": "user", "path": arguments[0]})' "/proc/$pid/ns/user"
    tells 'it["warm"]["key"] and "its ids" not in it["warm"].get("reason", "")' runtime plan --bundle bundle
    configure 'linux["namespaces"][-1]["path"] = arguments[0]' "$PWD/user"
    tells 'it["warm"]["start"] == "cold" and "does not reveal its IDs" in it["warm"]["reason"]' runtime plan --bundle bundle
    umount user
    kill "$pid"
}

@test "user namespace: ids are mapped" {
    needs_root "chooses the maps"
    chmod 0755 "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
    configure 'user_namespace((0, 300000, 65536))'
    same -c 'import os; print(os.getuid(), open("/proc/self/uid_map").read().split())'
    output_is "0 ['0', '300000', '65536']"
}

@test "user namespace: a home that the program may not search is closed to a warm start, too" {
    needs_root "chooses the maps"
    chmod 0755 "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
    own_root python
    # In the namespace, the image's /root belongs to another user. A hook of the runtime moves the check of the files to
    # the child.
    configure 'user_namespace((0, 300000, 65536)); hook("createRuntime", ":")'
    chmod 0700 root/root
    mkdir root/root/.local
    same -c 'import os; print(os.path.exists("/root/.local"), os.access("/root", os.X_OK))'
    output_is "False False"
    # Files inside the closed directory may change, but the directory's own status may not.
    mkdir root/root/.local/lib
    expect 0 warm -c 'pass'
    chmod 0755 root/root
    fails 1 "'/root' has changed" warm -c 'pass'
}

# bats test_tags=user
@test "seccomp: the filter is in force, and may forbid the calls of a restore" {
    configure 'seccomp("ALLOW", rule("ERRNO", "rmdir", errnoRet=95), rule("ERRNO", "rseq", "set_robust_list", "mremap", "ptrace",
    "personality", "kcmp", "process_vm_readv", "madvise"))'
    same -c 'import os
print([line for line in open("/proc/self/status") if line.startswith(("Seccomp", "NoNewPrivs"))])
try:
    os.rmdir("/nowhere")
except OSError as error:
    print(error)'
    output_has "Operation not supported" 'Seccomp:\t2'
}

@test "seccomp: no process in the container can trace a program before the filter is in force" {
    is_rootless && skip "newuidmap has no privilege under strace"
    configure 'seccomp("ALLOW", rule("ERRNO", "rmdir"))'
    expect 0 warm -c 'pass'
    strace -f -o trace -e trace=prctl,seccomp,rt_sigreturn "$RUNTIME" run --bundle bundle box </dev/null
    # Tracing is forbidden first, and allowed only after the filter, by the last call before the program.
    sed -nE 's/^[0-9]+ +(seccomp\(SECCOMP_SET_MODE_FILTER|prctl\(PR_SET_DUMPABLE, [A-Z_]*|rt_sigreturn).*/\1/p' trace >order
    diff - order <<'EOF'
prctl(PR_SET_DUMPABLE, SUID_DUMP_DISABLE
seccomp(SECCOMP_SET_MODE_FILTER
prctl(PR_SET_DUMPABLE, SUID_DUMP_USER
rt_sigreturn
EOF
    # As after a cold start, the program can then be inspected.
    configure 'process["user"] = {"uid": 1000, "gid": 1000}'
    same -c 'import os; print(os.stat("/proc/self/fd").st_uid, os.listdir("/proc/self/fd"))'
    output_has 1000
}

@test "seccomp: a filter that prevents building or restoring a snapshot means cold" {
    for call in getcwd prctl capset; do
        use_image python
        configure 'seccomp("ALLOW", rule("ERRNO", arguments[0]))' "$call"
        prints ran either -I -c 'print("ran")'
        prints ran either -I -c 'print("ran")'
    done
}

@test "seccomp: a container that may not create memfds starts warm if it has a /dev/shm, else cold" {
    configure 'seccomp("ALLOW", rule("ERRNO", "memfd_create", errnoRet=38))'
    prints ran either -I -c 'print("ran")'
    configure 'seccomp("ALLOW", rule("ERRNO", "memfd_create", errnoRet=38))
config["mounts"].append({"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})'
    prints "[]" warm -I -c 'import os; print(os.listdir("/dev/shm"))'
}

# bats test_tags=user
@test "landlock: the rules are in force, and a snapshot gives no access that they deny to an interpreter" {
    configure 'config["annotations"] = {"run.pysbx.landlock": arguments[0]}' \
        '{"filesystem": {"read": ["/usr", "/lib", "/lib64", "/bin", "/etc"]}}'
    abi=$(runtime plan --bundle bundle box | python3 -c 'import json, sys; print(json.load(sys.stdin)["process"]["landlock"]["abi"])')
    ((abi >= 1)) || skip "the kernel has no Landlock"
    same -c 'import os
for path in "/usr", "/home", "/dev":
    try:
        print(path, bool(os.listdir(path)))
    except PermissionError as error:
        print(error)'
    output_has "Permission denied: '/home'"
    configure 'config["annotations"]["run.pysbx.landlock"] = arguments[0]' '{"filesystem": {"read": ["/usr/bin", "/etc"]}}'
    expect 1 warm -c 'print("ran")'
    local code=0
    cold -c 'print("ran")' >out || code=$?
    ((code > 0))
    expect "$code" either -c 'print("ran")'
    output_is ""
}

# bats test_tags=user
@test "exec: a warm interpreter in a running container" {
    configure 'process["args"] = ["/bin/sh", "-c", "read line </dev/zero"]; config["annotations"] = {"run.pysbx.preload": "json"}'
    create_box
    runtime start box
    prints "True True ['-c', 'one']" runtime exec box python3 -c 'import os, sys, threading
print(os.getpid() != 1, threading.main_thread().native_id == os.getpid(), sys.argv)' one
    expect 7 runtime exec box python3 -c 'raise SystemExit(7)'
}

@test "exec is cold where processes may trace its own, and says which: of the container, or of a shared pid namespace" {
    needs_root "the runtime of a user gives each container a user namespace"
    program require 'import time; time.sleep(1000)'
    start_box
    configure 'namespace("pid", f"/proc/{arguments[0]}/ns/pid")' "$(pid_of_box)"
    runtime run --detach --bundle bundle second </dev/null >out
    fails 255 "shares its pid namespace, where processes of others may trace" runtime exec second python3 -c pass
    [[ $stderr != *CAP_SYS_PTRACE* ]]
    configure 'namespace("pid"); capabilities("CAP_SYS_PTRACE")'
    runtime run --detach --bundle bundle third </dev/null >out
    fails 255 "may trace others (CAP_SYS_PTRACE)" runtime exec third python3 -c pass
    for box in box second third; do runtime delete --force "$box"; done
}

@test "a module that cannot be imported is named, and the program runs cold" {
    module broken.py <<<'raise ValueError("not today")'
    preload json,broken
    is_cold_because broken
    stderr_is_empty
    fails 1 "not today" warm -c 'pass'
    preload json,nowhere
    is_cold_because nowhere
}

@test "an import that prints: no snapshot, and the output appears one time" {
    preload_module noisy <<<'print("printed by an import")'
    fails 1 "standard output" warm -c 'pass'
    prints $'printed by an import\nthe program' either -c 'import noisy; print("the program")'
    stderr_is_empty
}

@test "a system call of the runtime fails: the program finds the usual state, or does not start" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers make system calls of their own, which may not fail"
    use_image python
    preload json
    local text='import json, os, sys
status = [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNew", "Sec", "SigBlk"))]
print(json.dumps([sys.argv, sys.flags, sys.path, dict(os.environ), os.getcwd(), os.getpid(), len(sys.modules),
                  sorted(os.listdir("/")), os.listdir("/proc/self/fd"), status]), flush=True)'
    warm -c "$text" >/dev/null
    program auto "$text"
    "$TESTS/lib/faults" error bundle
}
