#!/usr/bin/env bats
# Failures around the runtime: it is killed, system calls fail, other runtimes do the same at the same time, and a
# container is not in the expected state. In every case nothing remains, and no process waits forever.
# once: except for the tests with the tag "user", failures have the same results in both modes

load ../lib/bundle.bash

# Make ./bundle with a program that prints the properties that its configuration promises.
make_telling_bundle() {
    make_bundle sh -c "id; pwd; hostname; umask; ulimit -n; cat /proc/self/oom_score_adj /proc/mounts /proc/self/cgroup
        grep -E '^(Cap|NoNew|Seccomp:|Groups)' /proc/self/status
        ls -l /dev | awk '{ print \$1, \$3, \$4, \$5, \$6, \$NF }'; ls /proc/self/fd | wc -l"
    configure 'process["oomScoreAdj"] = 500; seccomp("ALLOW", rule("ERRNO", "getcwd"))'
}

# Run several copies of a command at the same time. Print the number of each exit status: "3x0 1x1".
at_once() {
    local count=$1 number
    shift
    for ((number = 0; number < count; number++)); do
        { rc=0; "$@" >"output.$number" 2>"error.$number" </dev/null 3>&- || rc=$?; echo "$rc" >"status.$number"; } &
    done
    wait
    cat status.* | sort -n | uniq -c | awk '{ printf "%s%dx%d", (NR > 1 ? " " : ""), $1, $2 }'
    rm status.*
}

sum_of_runtime() {
    sha256sum "$RUNTIME"
}

# bats test_tags=user
@test "create, killed at any system call: delete --force removes the rest" {
    make_telling_bundle
    "$TESTS/lib/faults" kill --each bundle
}

@test "run, killed at any instant: delete --force removes the rest" {
    make_bundle sleep 1000
    python3 - "$RUNTIME" <<'PYTHON'
import os, signal, subprocess, sys, time
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
for step in range(60):
    run = subprocess.Popen([sys.argv[1], "run", "--detach", "--bundle", "bundle", "box"], **quiet)
    until = time.perf_counter() + step * 5e-3 / 60
    while time.perf_counter() < until:
        pass
    run.kill()
    run.wait()
    delete = subprocess.run([sys.argv[1], "delete", "--force", "box"], timeout=60, capture_output=True)
    assert (delete.returncode, delete.stderr) == (0, b""), (step, delete)
    assert not os.path.exists(os.environ["RUNTIME_STATE"] + "/box"), step
    assert not os.path.exists("/sys/fs/cgroup/box"), step
PYTHON
}

@test "create, any system call of the runtime fails: one error and nothing left, or success" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers make system calls of their own, which may not fail"
    make_telling_bundle
    "$TESTS/lib/faults" error --each bundle
}

@test "create, any system call of the first process fails: one error and nothing left, or success" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers make system calls of their own, which may not fail"
    make_telling_bundle
    "$TESTS/lib/faults" error --each --follow bundle
}

@test "create: no space for the container's state" {
    needs_root "mounts a file system"
    make_telling_bundle
    mkdir state
    for pages in 1 2 3 4 5; do
        mount -t tmpfs -o "size=$((4096 * pages)),mode=0700" tmpfs state
        status=0
        runtime --root state create --bundle bundle --pid-file pid box </dev/null >out 2>err || status=$?
        if [[ $status == 1 ]]; then
            grep -qi "no space left" err
            [[ ! -e pid && ! -e state/box && ! -e /sys/fs/cgroup/box ]]
        fi
        expect 0 runtime --root state delete --force box
        umount state
        rm -f pid
        ((pages > 1)) || [[ $status == 0 ]]
    done
}

@test "create, twice at the same time with one name: exactly one succeeds" {
    make_bundle sleep 1000
    for round in {1..15}; do
        [[ $(at_once 3 runtime create --bundle bundle box) == "1x0 2x1" ]]
        [[ $(grep -l "already exists" error.* | wc -l) == 2 ]]
        status_is box created
        runtime delete --force box
    done
}

@test "start, twice at the same time: exactly one starts it" {
    make_bundle sh -c 'echo started; sleep 1000'
    for round in {1..10}; do
        create_box
        [[ $(at_once 3 runtime start box) == "1x0 2x1" ]]
        wait_for test -s out
        [[ $(<out) == started ]]
        runtime delete --force box
    done
}

@test "delete, several at the same time: exactly one does it, and the poststop hook runs one time" {
    make_bundle true
    configure 'hook("poststop", f"echo gone >>{arguments[0]}")' "$PWD/hooks"
    for round in {1..10}; do
        rm -f hooks
        run_box --keep
        [[ $(at_once 4 runtime delete box) == "1x0 3x1" && $(grep -l "does not exist" error.* | wc -l) == 3 ]]
        [[ $(<hooks) == gone ]]
    done
}

@test "delete --force during create: waits for it" {
    make_bundle_with 'hook("createRuntime", "sleep 0.5")' sleep 1000
    runtime create --bundle bundle box </dev/null >out 2>err 3>&- &
    wait_for test -e "$RUNTIME_STATE/box/state"
    expect 0 runtime delete --force box
    wait $!
    check_untouched
}

@test "kill and delete --force at every instant of create: no name remains in use" {
    make_bundle sleep 1000
    for round in {1..20}; do
        runtime create --bundle bundle box </dev/null >out 2>err 3>&- &
        runtime kill box KILL 2>/dev/null || true
        expect 0 runtime delete --force box
        wait $! || true
        expect 0 runtime delete --force box
        check_untouched
    done
}

@test "create: a file that cannot be written is an error that names its directory, and nothing is left" {
    make_bundle true
    # A limit on the size of files fails as a full disk does. Its signal must not end the runtime in the middle.
    expect 1 bash -c 'ulimit -f 1; "$@"' _ "$RUNTIME" --root "$RUNTIME_STATE" run --bundle bundle box
    [[ $stderr == *"of container 'box' in '$RUNTIME_STATE/box': File too large"* ]]
    expect 1 bash -c 'ulimit -f 1; "$@"' _ "$RUNTIME" --log-format json --log /dev/stderr --root "$RUNTIME_STATE" run --bundle bundle box
    [[ $stderr == *'"code":"too-large"'* ]]
    check_untouched
}

@test "a record of a container that lacks a line, has a NUL or another id: every command is an error or works, and ends" {
    local record=$RUNTIME_STATE/box/state damage command
    make_bundle sleep 1000
    mkdir other
    runtime run --detach --bundle bundle box </dev/null >out 2>err 3>&-
    cp "$record" whole
    for damage in $(seq 1 "$(wc -l <whole)" | sed 's/$/d/') 's/^cgroup-path/\x00&/' 's/^cgroup-manager .*/cgroup-manager 3/'; do
        for command in "exec box true" "ps box" "kill box 0" "pause box" "resume box" "state box" "list" "events --stats box" \
            "update --pids-limit 99 box" "start box" "delete box"; do
            sed "$damage" whole >"$record"
            # shellcheck disable=SC2086 # words of a command
            runtime $command </dev/null >out 2>err 3>&- || (($? == 1 || $? == 255)) || { echo "$damage: $command: $?"; return 1; }
        done
    done
    sed "s|^id .*|id ../../$PWD/other|" whole >"$record"
    fails 1 "is that of '../../" runtime delete --force box
    [[ -d other ]]
    for damage in '/^bundle/d' 's/^cgroup-path/\x00&/' 's/^bundle .*/bundle/'; do
        sed "$damage" whole >"$record"
        fails 1 "end the processes of container 'box' and remove '$RUNTIME_STATE/box': the container's state record" runtime state box
        fails 1 "end the processes of container 'box' and remove '$RUNTIME_STATE/box': the container's state record" runtime delete --force box
        expect 0 runtime list
        [[ $output == *$'\nbox  0    damaged '* ]]
        output_of=$(runtime list --format json)
        python3 -c 'import json, sys; [one] = json.loads(sys.argv[1]); assert (one["id"], one["status"]) == ("box", "damaged")' "$output_of"
    done
    cp whole "$record"
    expect 0 runtime delete --force box
    check_untouched
}

@test "list: no builder of a snapshot, which is a container with a name that no command takes" {
    make_bundle sleep 1000
    runtime run --detach --bundle bundle box </dev/null >out 2>err 3>&-
    mkdir "$RUNTIME_STATE/box:builder"
    sed 's/^id .*/id box:builder/' "$RUNTIME_STATE/box/state" >"$RUNTIME_STATE/box:builder/state"
    prints box runtime list --quiet
    rm -r "$RUNTIME_STATE/box:builder"
    expect 0 runtime delete --force box
}

@test "run: fifty at the same time" {
    make_bundle sh -c 'echo $$ $(hostname)'
    local -a runs=()
    for number in {1..50}; do
        { runtime run --bundle bundle "box$number" </dev/null || echo "failed: $?"; } >"output.$number" 2>&1 3>&- &
        runs+=($!)
    done
    wait "${runs[@]}"
    [[ $(cat output.* | sort | uniq -c | awk '{ print $1, $2, $3 }') == "50 1 "* ]] || cat output.*
    check_untouched
}

@test "exec during create does not find the host's root" {
    make_bundle sleep 1000
    touch bundle/rootfs/inside
    configure 'hook("createContainer", f"until [ -e {arguments[0]}/go ]; do sleep 0.05; done")' "$PWD"
    local attempts=0
    runtime run --detach --bundle bundle box </dev/null >out 2>err 3>&- &
    wait_for test -e "$RUNTIME_STATE/box/state"
    until runtime exec box test -e /inside 2>error; do
        grep -q -e "container not running" -e "it is being started" error ||
            { echo "entered too early: $(<error)"; return 1; }
        attempts=$((attempts + 1))
        touch go
    done
    wait $!
    ((attempts > 0))
}

@test "exec and state after the program's first output: the container is running, however slow the runtime is" {
    is_rootless && skip "newuidmap has no privilege under strace"
    make_bundle sh -c 'echo up; sleep 1000'
    mkfifo output
    # --init: the first process has executed a program before the container's program begins.
    for option in "" --init; do
        # shellcheck disable=SC2086 # no word if there is no option
        strace -f -q -o trace -e inject=rename,renameat,renameat2,recvfrom:delay_enter=200000 \
            "$RUNTIME" run --bundle bundle --pid-file pid $option box </dev/null >output 2>err 3>&- &
        HELPERS+=($!)
        read -r line <output
        [[ $line == up && -s pid ]]
        expect 0 runtime exec box true
        tells 'it["status"] == "running"' runtime state box
        expect 0 runtime delete --force box
        rm pid
    done
}

# bats test_tags=user
@test "exec during start: says so if only root may enter" {
    make_bundle_with 'hook("startContainer", "until [ -e /go ]; do sleep 0.05; done")' sleep 1000
    runtime run --detach --bundle bundle box </dev/null >out 2>err 3>&- &
    wait_for eval '[[ $("$RUNTIME" state box 2>/dev/null) == *running* ]]'
    if is_rootless; then
        expect 255 runtime exec box true
        stderr_has "cannot exec in container 'box': it is being started, and until it executes its program only root may enter its user namespace: repeat it later"
    else
        expect 0 runtime exec box test ! -e /go
    fi
    touch bundle/rootfs/go
    wait $!
    expect 0 runtime exec box true
}

@test "exec and the container's end: an exit code or an error, without waiting" {
    make_bundle sleep 1000
    for round in {1..25}; do
        start_box
        { sleep "0.00$((round % 10))"; runtime kill box KILL; } 3>&- &
        # 137: the process was in the container when that ended.
        expect '@(0|255|137)' timeout 60 "$RUNTIME" exec box true
        [[ $status != 255 || $stderr =~ ^pysbx-runtime:\ [^$'\n']+$ ]]
        wait $!
        runtime delete --force box
    done
}

# A program whose first thread ends while another runs on. cgroup.kill does not reach it (Linux 6.18).
make_bundle_of_second_thread() {
    make_python_bundle python3 -c 'import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)'
}

start_second_thread() {
    start_box
    wait_for grep -q ready out
    wait_for grep -q '^State:.Z' "/proc/$(pid_of_box)/status"
}

@test "a first process whose first thread has ended runs on: it is running, and is killed and deleted as usual" {
    make_bundle_of_second_thread
    for command in "kill box KILL" "delete --force box"; do
        start_second_thread
        status_is box running
        # shellcheck disable=SC2086 # words
        expect 0 runtime $command
        [[ $command != kill* ]] || { wait_for status_is box stopped; runtime delete box; }
        check_untouched
    done
}

@test "kill --all: a cgroup that disappears with its last processes is no error" {
    needs_cgroups
    make_bundle_of_second_thread
    start_second_thread
    # The runtime lists the remaining processes if the kernel takes long to kill them. Here it finds no cgroup, as if
    # systemd had removed it sooner.
    expect 0 strace -q -o trace -P ./cgroup.procs -e inject=openat:error=ENOENT "$RUNTIME" kill --all box KILL
    grep -q 'openat(.*cgroup.procs.*INJECTED' trace
    status_is box running
    expect 0 runtime kill --all box KILL
    wait_for status_is box stopped
    runtime delete box
}

@test "exec in a container without a mount namespace: never into the root of a process that reuses its process' number" {
    needs_root "a user needs a mount namespace"
    make_bundle_with 'share("mount"); linux["maskedPaths"] = linux["readonlyPaths"] = []' sleep 1000
    start_box
    # kill(2) reports this for a process that has ended since the container was looked up.
    expect 255 strace -f -q -o trace -e inject=pidfd_send_signal:error=ESRCH:when=1 "$RUNTIME" exec box true
    stderr_has "container not running: 'box'"
    grep -q INJECTED trace
    expect 0 runtime exec box true
}

@test "exec: if the message of the process cannot be received, the error is the kernel's, and the process has ended" {
    make_bundle sleep 1000
    start_box
    expect 255 strace -q -o trace -e inject=recvfrom:error=EIO:when=2 "$RUNTIME" exec --pid-file pid box sleep 1000
    stderr_has "receive from the container's process: " # the reason in the words of any C library
    [[ $(grep -c recvfrom trace) == 2 && ! -e pid && $(pgrep -cxf 'sleep 1000') == 1 ]]
}

@test "a container that cannot be planned: only descriptors that were opened are closed, and standard input is not" {
    make_bundle_with 'namespace("ipc", "/nowhere")' true
    check_closes() {
        expect 1 strace -q -o trace -e trace=close "$RUNTIME" "$@"
        [[ -s trace ]]
        ! grep -E '^close\([012]\)|EBADF' trace
    }
    check_closes create --bundle bundle box
    stderr_has "/nowhere"
    check_closes create --bundle nowhere box
    check_closes plan --bundle nowhere
    check_closes warm build --bundle nowhere
}

@test "start of a paused container: an immediate error, and it can be started later" {
    needs_cgroups
    make_bundle echo started
    create_box
    runtime pause box
    fails 1 "cannot start container 'box': it is paused" timeout 60 "$RUNTIME" start box
    # Not that its cgroup is frozen.
    fails 1 "container 'box' already exists" runtime create --bundle bundle box
    runtime resume box
    expect 0 runtime start box
    wait_for grep -q started out
    runtime delete --force box
}

@test "start after the first process was killed: an immediate error" {
    make_bundle sleep 1000
    create_box
    expect 0 runtime kill box KILL
    wait_for status_is box stopped
    fails 1 "it is stopped, not created" timeout 60 "$RUNTIME" start box
}

# bats test_tags=user
@test "created: the first process has the runtime's name, and has nothing of the host open" {
    make_bundle ls /proc/self/fd
    exec 7</
    create_box
    exec 7<&-
    pid=$(pid_of_box)
    [[ $(<"/proc/$pid/comm") == pysbx-runtime ]]
    if is_rootless; then
        # Only root of the host may inspect more.
        [[ ! -r /proc/$pid/exe && ! -x /proc/$pid/cwd ]]
    else
        [[ $(readlink "/proc/$pid/exe") == "/memfd:pysbx-init (deleted)" && $(readlink "/proc/$pid/cwd") == / ]]
    fi
    expect 0 runtime start box
    wait_for status_is box stopped
    [[ $(<out) == $'0\n1\n2\n3' ]] || { cat out; return 1; }
}

@test "a program's path cannot lead through descriptors of the runtime or its caller (CVE-2024-21626)" {
    make_bundle sleep 1000
    mkdir host
    cp bundle/rootfs/bin/busybox host/
    start_box
    runtime exec box true
    for fd in {3..15}; do
        for path in "/proc/self/fd/$fd" "/proc/self/fd/$fd/../../../../..$PWD/host" "/proc/self/fd/$fd/$$/root$PWD/host"; do
            expect '@(255|127)' runtime exec box "$path/busybox" echo escaped 7<host 14<host
            output_is ""
        done
    done
    runtime delete --force box
    for fd in {3..15}; do
        for path in "/proc/self/fd/$fd" "/proc/self/fd/$fd/../../../../..$PWD/host" "/proc/self/fd/$fd/$$/root$PWD/host"; do
            configure 'process["args"] = arguments' "$path/busybox" echo escaped
            expect 1 run_box 7<host 14<host
            output_is ""
        done
    done
}

@test "the runtime's binary is not accessible in the container (CVE-2019-5736)" {
    before=$(sum_of_runtime)
    make_bundle sh -c '
        while :; do
            for exe in /proc/[0-9]*/exe /proc/self/exe; do
                case $(readlink $exe) in *pysbx*) { echo overwritten >$exe; cat $exe; } 2>/dev/null ;; esac
            done
        done'
    configure 'capabilities("CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN")'
    printf '#!/proc/self/exe\n' >bundle/rootfs/bin/again
    chmod 0755 bundle/rootfs/bin/again
    start_box
    for program in /proc/self/exe again; do
        expect '[!0]*' runtime exec box "$program" --version
        output_lacks pysbx
    done
    for _ in {1..40}; do runtime exec box true; done
    runtime delete --force box
    [[ ! -s out ]]
    for program in /proc/self/exe again; do
        configure 'process["args"] = arguments' "$program" --version
        expect '[!0]' run_box
        output_lacks pysbx
    done
    [[ $(sum_of_runtime) == "$before" ]]
}

@test "create: a cgroup that another container uses is refused, and that container runs on" {
    needs_cgroups
    make_bundle_with 'linux["cgroupsPath"] = "/shared"' sleep 1000
    start_box
    fails 1 "cgroup '/shared' is in use: it has processes" runtime create --bundle bundle second </dev/null
    status_is box running
    runtime delete --force box
}

@test "a caller that ignores SIGCHLD: exit codes and hooks work nevertheless" {
    make_bundle_with 'hook("createRuntime", "true")' sh -c 'exit 7'
    expect 7 timeout 60 python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$RUNTIME" run --bundle bundle box
}

@test "run: signals reach the program" {
    make_bundle sh -c 'trap "exit 5" TERM; echo ready; while :; do sleep 0.02; done'
    "$RUNTIME" run --bundle bundle box </dev/null >out 2>err 3>&- &
    wait_for grep -q ready out
    kill -TERM $!
    status=0
    wait $! || status=$?
    [[ $status == 5 ]]
}

@test "annotations: any value is returned unchanged" {
    make_bundle sleep 1000
    configure 'config["annotations"] = {"a": "b\nannotation c\nvalue d\\n\\", "x\ny z": "", "long": "x" * 3000000}'
    create_box
    runtime state box >answer
    python3 -c 'import json; want, got = (json.load(open(name))["annotations"] for name in ("bundle/config.json", "answer"))
assert got == want'
    runtime delete --force box
}

@test "a hook that does not read its standard input does not block" {
    make_bundle_with 'config["annotations"] = {"long": "x" * 3000000}; hook("createRuntime", "exec <&-")' true
    expect 0 timeout 60 "$RUNTIME" run --bundle bundle box
}

@test "state root: is created with its parents, for its owner only, with a path of any length" {
    make_bundle true
    long=$PWD/$(printf 'directory/%.0s' {1..30})state
    expect 0 runtime --root "$long/" run --keep --bundle bundle box
    [[ $(stat -c %a "$long") == 700 ]]
    expect 0 runtime --root "$long" delete box
    expect 0 env XDG_RUNTIME_DIR="$PWD/xdg" "$RUNTIME" run --keep --bundle bundle box
    [[ -e xdg/pysbx-runtime/box ]]
    expect 0 env XDG_RUNTIME_DIR="$PWD/xdg" "$RUNTIME" delete box
    chmod 0770 "$long"
    fails 1 "no other user may write to it" runtime --root "$long" run --bundle bundle box
}

@test "paused: SIGKILL ends it, delete refuses, delete --force does not" {
    needs_cgroups
    make_bundle sleep 1000
    start_box
    runtime pause box
    fails 1 "it is paused" runtime delete box
    expect 0 runtime kill box KILL
    wait_for status_is box stopped
    expect 0 runtime delete box
    start_box
    runtime pause box
    expect 0 timeout 60 "$RUNTIME" delete --force box
}
