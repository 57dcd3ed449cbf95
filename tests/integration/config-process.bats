#!/usr/bin/env bats
# process: config.md "Process"; capabilities(7), getrlimit(2), sched(7), ioprio_set(2), console_codes(4).
# once: except for a test with the tag "user", properties of a process have the same results in both modes

load ../lib/bundle.bash

# Print the five capability sets of /proc/self/status. It is the program of a container.
print_sets() {
    printf '%s\n' "sed -n 's/^Cap\(...\):.0*\([0-9a-f]*\)\$/\1 \2/p' /proc/self/status"
}

@test "process.args, process.env, process.cwd: define the program's start" {
    make_bundle sh -c 'echo "$0 $1|$PWD|$WORD|$HOME"' zero one
    configure 'process["env"].append("WORD=a b"); process["cwd"] = "/var/log"'
    prints "zero one|/var/log|a b|/root" run_box
}

@test "process.cwd: is created if it is missing, and must be inside the root" {
    local number refused=0
    make_bundle_with 'process["cwd"] = "/dev/shm/made/here"' pwd
    prints /dev/shm/made/here run_box
    make_bundle sh -c '[ "$(stat -c %d:%i .)" = "$(stat -c %d:%i /)" ]'
    # Descriptors that the process has until then: those of the host are refused, and so are those of the container's
    # mounts.
    for number in {3..20}; do
        configure 'process["cwd"] = "/proc/self/fd/" + arguments[0] + "/../.."' "$number"
        if ! run_box 2>stderr; then
            grep -F "/proc/self/fd/$number" stderr
            refused=$((refused + 1))
        fi
    done
    ((refused > 0))
    is_refused "process.cwd: 'relative' is not an absolute path" 'process["cwd"] = "relative"'
}

@test "process.user: uid, gid, additionalGids, umask" {
    needs_root "a user has one id here: see config-namespaces"
    make_bundle sh -c 'id -u; id -g; id -G; umask; awk "/^(Uid|Gid)/" /proc/self/status'
    configure 'process["user"] = {"uid": 1000, "gid": 50, "additionalGids": [7, 8, 70000], "umask": 0o027}'
    prints $'1000\n50\n50 7 8 70000\n0027\nUid:\t1000\t1000\t1000\t1000\nGid:\t50\t50\t50\t50' run_box
}

@test "process.user.umask: applies to created files; the default is 022" {
    make_bundle sh -c 'umask; touch /dev/shm/x; stat -c %a /dev/shm/x'
    prints $'0022\n644' run_box
    configure 'process["user"]["umask"] = 0o077'
    prints $'0077\n600' run_box
}

@test "run.oci.keep_original_groups: the caller's groups stay" {
    needs_root "a user's groups are not mapped"
    make_bundle id -G
    prints 0 setpriv --groups 11,12 "$RUNTIME" run --bundle bundle box
    configure 'config["annotations"] = {"run.oci.keep_original_groups": "1"}'
    prints "0 11 12" setpriv --groups 11,12 "$RUNTIME" run --bundle bundle box
    stderr_is_empty
    configure_policy '{"keepOriginalGroups": false}'
    prints 0 setpriv --groups 11,12 "$RUNTIME" run --bundle bundle box
    stderr_has "annotation 'run.oci.keep_original_groups' is ignored: it keeps the supplementary groups of the caller"
    configure_policy '{"keepOriginalGroups": true}'
    configure 'user_namespace((0, 0, 1), (11, 11, 2))'
    prints "0 11 12" setpriv --groups 11,12 "$RUNTIME" run --bundle bundle box
    configure 'user_namespace((0, 100000, 1), (5, 11, 2))'
    chown -R 100000:100000 bundle/rootfs
    prints "0 5 6" setpriv --groups 11,12 "$RUNTIME" run --bundle bundle box
}

@test "process.user: invalid ids are refused" {
    make_bundle_with 'process["user"]["uid"] = 4294967295' true
    is_refused "process.user.uid"
    is_refused "process.user.uid" 'process["user"] = {"uid": -1}'
    is_refused "process.user.additionalGids[1]" 'process["user"] = {"uid": 0, "additionalGids": [1, "a"]}'
    is_refused "process.user.umask" 'process["user"] = {"uid": 0, "umask": 0o10000}'
}

# Assert that a command works with pipes and with files, and that the files belong to the caller afterwards. Its process
# says "a" to /dev/stdout and "b" to /dev/stderr, and copies /dev/stdin.
opens_streams() {
    output=$(echo in | "$@" 2>&1 | cat)
    output_is $'a\nb\nin'
    "$@" </dev/null >said 2>complained
    [[ $(<said)$(<complained) == ab && $(stat -c %u:%a said complained) == $'0:644\n0:644' ]]
}

@test "process.user: the process can open its standard streams again, in each user namespace and by exec" {
    needs_root "a user has one id here"
    local say='echo a >/dev/stdout; echo b >/dev/stderr; cat /dev/stdin' user
    for user in 0 1000; do
        make_bundle sh -c "$say"
        configure 'process["user"]["uid"] = int(arguments[0])' "$user"
        opens_streams runtime run --bundle bundle plain
        configure 'user_namespace((0, 100000, 65536)); process["args"] = ["sleep", "1000"]'
        start_box
        opens_streams runtime exec --user "$user" box sh -c "$say"
        configure 'process["args"] = ["sh", "-c", arguments[0]]' "$say"
        opens_streams runtime run --bundle bundle mapped
        configure 'linux.pop("uidMappings"); linux.pop("gidMappings"); namespace("user", f"/proc/{arguments[0]}/ns/user")' "$(pid_of_box)"
        opens_streams runtime run --bundle bundle joined
        runtime delete --force box
    done
}

@test "process.user: of the files among the standard streams, only new output is lent to the process" {
    needs_root "a user has one id here"
    make_bundle sh -c 'echo "$(stat -Lc %u /proc/$$/fd/1)" >&2; chmod 4777 /proc/self/fd/1; true >/dev/stdout; echo end' # as the owner
    configure 'process["user"]["uid"] = 1000'
    runtime run --bundle bundle lent </dev/null >log 2>said
    [[ $(head -n 1 said) == 1000 && $(stat -c %u:%a log) == 0:644 ]]
    echo earlier >log
    runtime run --bundle bundle appended </dev/null >>log 2>said
    [[ $(head -n 1 said) == 0 && $(<log) == $'earlier\nend' ]]
    chown 7 log
    runtime run --bundle bundle others </dev/null >log 2>said
    [[ $(head -n 1 said) == 7 && $(stat -c %u:%a log) == 7:644 ]]
    runtime run --detach --bundle bundle detached </dev/null >kept 2>said
    wait_for grep -q end kept
    [[ $(head -n 1 said) == 0 ]]
    make_bundle_with 'process["user"]["uid"] = 1000' stat -Lc %u /proc/self/fd/0
    [[ $(runtime run --bundle bundle input <log) == 7 ]]
}

@test "process.capabilities: each set contains exactly the requested capabilities" {
    make_bundle sh -c "$(print_sets)"
    configure 'process["capabilities"] = {
    "bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID", "CAP_MKNOD"], "permitted": ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID"],
    "effective": ["CAP_CHOWN", "CAP_KILL"], "inheritable": ["CAP_CHOWN", "CAP_KILL"], "ambient": ["CAP_CHOWN"]}; process["user"] = {"uid": 0}'
    expect 0 run_box
    # Root's program gets the capabilities that the bounding set allows, capabilities(7).
    output_has "Inh 21" "Bnd 80000a1"
}

@test "process.capabilities: a user other than root has the ambient capabilities and no others" {
    needs_root "a user has one id here"
    make_bundle sh -c "$(print_sets)"
    configure 'process["noNewPrivileges"] = True
capabilities("CAP_CHOWN", "CAP_KILL"); process["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [7, 9]}'
    prints $'Inh \nPrm \nEff \nBnd 21\nAmb ' run_box
    configure 'capabilities("CAP_KILL", sets="bounding permitted effective inheritable ambient")'
    prints $'Inh 20\nPrm 20\nEff 20\nBnd 20\nAmb 20' run_box
}

@test "process.env: of a variable that is set twice the last value counts, also for PATH and HOME" {
    make_bundle tool
    printf '#!/bin/sh\necho "$ONE $HOME"; env | grep -c ONE=\n' >bundle/rootfs/opt-tool
    mkdir -p bundle/rootfs/opt/bin && mv bundle/rootfs/opt-tool bundle/rootfs/opt/bin/tool && chmod 755 bundle/rootfs/opt/bin/tool
    configure 'process["env"] = ["PATH=/nowhere", "ONE=first", "HOME=/one", "ONE_MORE=x", "PATH=/opt/bin:/bin", "HOME=/two", "ONE=last"]'
    prints $'last /two\n1' run_box
}

@test "process.env: entries without a name are left out, and one without a value reaches the program" {
    make_bundle_with 'process["env"] = ["", "=", "=x", "TOKEN", "A=1"]' cat /proc/self/environ
    expect 0 run_box
    output_is TOKENA=1HOME=/root # without the NULs
}

@test "process.env: an empty HOME is taken from /etc/passwd, as one that is missing" {
    make_bundle_with 'process["env"] = ["HOME=", "A=1"]' cat /proc/self/environ
    expect 0 run_box
    output_is A=1HOME=/root # without the NULs
}

@test "exec --cap: a user other than root keeps a capability that config.json makes inheritable" {
    is_rootless && skip "the user namespace of these bundles has no other user"
    make_bundle sleep 1000
    configure 'capabilities("CAP_CHOWN"); process["capabilities"]["inheritable"] = ["CAP_NET_BIND_SERVICE"]
process["capabilities"]["bounding"].append("CAP_NET_BIND_SERVICE")'
    start_box
    expect 0 runtime exec --user 1000:1000 --cap CAP_NET_BIND_SERVICE --cap CAP_CHOWN box grep -E 'Cap(Eff|Amb)' /proc/self/status
    [[ $(awk '{ print $2 }' <<<"$output" | sort -u) == 0000000000000400 ]]
    expect 0 runtime exec --user 1000:1000 box grep -E 'Cap(Eff|Amb)' /proc/self/status
    [[ $(awk '{ print $2 }' <<<"$output" | sort -u) == 0000000000000000 ]]
}

@test "process.capabilities: without the object all sets are empty" {
    make_bundle_with 'del process["capabilities"]' sh -c "$(print_sets)"
    prints $'Inh \nPrm \nEff \nBnd \nAmb ' run_box
}

@test "process.capabilities: what is unknown or cannot be granted is left out with a warning" {
    make_bundle_with 'capabilities("CAP_CHOWN", "CAP_EVERYTHING")' sh -c "$(print_sets)"
    shows "Bnd 1" run_box
    [[ $stderr == "pysbx-runtime: process.capabilities: 'CAP_EVERYTHING': unknown, and left out" ]]
    is_rootless && return
    configure 'capabilities("CAP_CHOWN", "CAP_SYS_BOOT")'
    shows "Bnd 1" setpriv --bounding-set=-sys_boot "$RUNTIME" run --bundle bundle box
    [[ $stderr == "pysbx-runtime: process.capabilities: 'CAP_SYS_BOOT': cannot be granted, and left out" ]]
}

@test "process.capabilities: what only the ambient set lacks is granted, so that is a debug message" {
    make_bundle sh -c "$(print_sets)"
    configure 'capabilities("CAP_CHOWN", sets="bounding effective permitted ambient")' # as Buildah does
    shows "Eff 1" run_box
    stderr_is_empty
    expect 0 runtime --debug run --bundle bundle box
    stderr_has "process.capabilities.ambient: 'CAP_CHOWN': not in both the permitted and the inheritable set"
}

@test "process.noNewPrivileges: applies to the program, or not" {
    make_bundle sh -c 'grep NoNewPrivs /proc/self/status'
    for value in True False; do
        configure "process['noNewPrivileges'] = $value"
        expect 0 run_box
        [[ $output == *"$([[ $value == True ]] && echo 1 || echo 0)" ]]
    done
}

@test "process.rlimits: soft and hard" {
    make_bundle sh -c 'ulimit -S -n; ulimit -H -n; ulimit -S -c; ulimit -H -c; ulimit -S -s; ulimit -H -t; ulimit -H -v'
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}, {"type": "RLIMIT_CORE", "soft": 0, "hard": 1024000},
    {"type": "RLIMIT_STACK", "soft": 1048576, "hard": 2097152}, {"type": "RLIMIT_CPU", "soft": 50, "hard": 60},
    {"type": "RLIMIT_AS", "soft": 2**64 - 1, "hard": 2**64 - 1}]'
    prints $'100\n200\n0\n2000\n1024\n60\nunlimited' run_box
}

@test "process.rlimits: invalid, duplicate and inverted limits are refused; an error for a high limit names the highest possible" {
    make_bundle_with 'process["rlimits"] = [{"type": "RLIMIT_SKY", "soft": 1, "hard": 1}]' true
    is_refused "process.rlimits[0].type"
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 10, "hard": 10}] * 2'
    is_refused "process.rlimits[1]: 'RLIMIT_NOFILE' is given twice"
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 20, "hard": 10}]'
    is_refused "process.rlimits[0].soft: 20 is above the hard limit 10"
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 2000000000, "hard": 2000000000}]'
    fails 1 "set RLIMIT_NOFILE to 2000000000:2000000000" run_box
    stderr_has "the runtime's own hard limit is"
    configure 'process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 2**64 - 1}]'
    fails 1 "set RLIMIT_NOFILE to 100:unlimited: not permitted" run_box # above fs.nr_open, also for root
    check_untouched
}

# bats test_tags=user
@test "process.oomScoreAdj: applies to the program, and to exec; lowering it needs privilege" {
    make_bundle_with 'process["oomScoreAdj"] = 321' sleep 1000
    start_box
    prints 321 runtime exec box cat /proc/self/oom_score_adj
    runtime delete --force box
    configure 'process["args"] = ["cat", "/proc/self/oom_score_adj"]'
    prints 321 run_box
    is_refused "process.oomScoreAdj" 'process["oomScoreAdj"] = 1001'
    if ! setpriv --dump | grep -q 'Capability bounding set:.*sys_resource' || is_rootless; then
        configure 'process["oomScoreAdj"] = -1000'
        fails 1 "process.oomScoreAdj: lowering to -1000 needs CAP_SYS_RESOURCE" run_box
    fi
}

@test "process.scheduler: policy, nice value and flags" {
    # proc_pid_stat(5): 19 is the nice value, 41 the policy.
    make_bundle_with 'process["scheduler"] = {"policy": "SCHED_BATCH", "nice": 5}' awk '{ print $19, $41 }' /proc/self/stat
    prints "5 3" run_box
    configure 'process["scheduler"] = {"policy": "SCHED_IDLE", "flags": ["SCHED_FLAG_RESET_ON_FORK"]}'
    expect 0 run_box
    output_is "$(nice) 5" # that of the caller
}

@test "process.scheduler of exec: policies that a clone would lose are refused where the process is cloned late" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_bundle_with 'capabilities("CAP_SYS_PTRACE")' sleep 1000
    start_box
    cat >process.json <<'JSON'
{"args": ["awk", "{ print $19, $41 }", "/proc/self/stat"], "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0},
"scheduler": {"policy": "SCHED_BATCH", "nice": 5}}
JSON
    prints "5 3" runtime exec --process process.json box
    sed -i 's/"nice": 5/"flags": ["SCHED_FLAG_RESET_ON_FORK"]/' process.json
    fails 255 "process.scheduler would be lost" runtime exec --process process.json box
}

@test "process.scheduler: a real-time policy without permission is an error that names the request" {
    make_bundle_with 'process["scheduler"] = {"policy": "SCHED_FIFO", "priority": 10}' true
    expect '[01]' run_box
    ((status == 0)) || stderr_has "process.scheduler: set SCHED_FIFO with nice 0, priority 10"
    is_rootless && ((status == 1))
    configure 'process["scheduler"] = {"policy": "SCHED_FIFO"}'
    is_refused "process.scheduler.priority: SCHED_FIFO needs a priority from 1 to 99"
    configure 'process["scheduler"] = {"policy": "SCHED_BATCH", "priority": 1}'
    is_refused "process.scheduler.priority: has no meaning for SCHED_BATCH"
    configure 'process["scheduler"] = {"policy": "SCHED_OTHER", "runtime": 1}'
    is_refused "process.scheduler: runtime, deadline and period have no meaning for SCHED_OTHER"
    is_refused "process.scheduler.policy" 'process["scheduler"] = {"policy": "SCHED_FAST"}'
}

@test "process.scheduler.nice: is ignored by policies without nice values, as by the kernel" {
    make_bundle_with 'process["scheduler"] = {"policy": "SCHED_IDLE", "nice": 5}' awk '{ print $41 }' /proc/self/stat
    prints 5 run_box
    for policy in '"SCHED_FIFO", "priority": 10' '"SCHED_RR", "priority": 10' '"SCHED_DEADLINE", "runtime": 1000000, "deadline": 2000000'; do
        configure "process['scheduler'] = {'policy': $policy, 'nice': 5}"
        expect 0 runtime plan --bundle bundle
    done
}

@test "process.ioPriority: class and level" {
    make_bundle_with 'process["ioPriority"] = {"class": "IOPRIO_CLASS_BE", "priority": 6}' ionice
    expect 0 run_box
    output_has "best-effort" 6
    configure 'process["ioPriority"] = {"class": "IOPRIO_CLASS_IDLE"}'
    shows idle run_box
    configure 'process["ioPriority"] = {"class": "IOPRIO_CLASS_IDLE", "priority": 5}'
    expect 0 strace -f -q -o trace -e trace=ioprio_set "$RUNTIME" run --bundle bundle box
    grep -q '(IOPRIO_CLASS_IDLE, 5)) = 0' trace
    is_refused "process.ioPriority.priority" 'process["ioPriority"] = {"class": "IOPRIO_CLASS_BE", "priority": 8}'
}

@test "process.execCPUAffinity: applies to programs of exec, not to the first program" {
    make_bundle_with 'process["execCPUAffinity"] = {"initial": "0", "final": "0"}' sleep 1000
    start_box
    prints $'Cpus_allowed_list:\t0' runtime exec box grep Cpus_allowed_list /proc/self/status
    [[ $(awk '/Cpus_allowed_list/ { print $2 }' "/proc/$(pid_of_box)/status") == $(awk '/Cpus_allowed_list/ { print $2 }' /proc/self/status) ]]
    configure 'process["execCPUAffinity"] = {"initial": "3-1"}'
    fails 1 "process.execCPUAffinity.initial: '3-1' is not a list of CPUs" runtime create --bundle bundle other
    runtime delete --force box
    configure 'process["execCPUAffinity"] = {"final": "5000"}'
    start_box
    fails 255 "process.execCPUAffinity.final: none of the CPUs is available" runtime exec box true
}

@test "process.apparmorProfile, process.selinuxLabel: are errors if the kernel has neither" {
    make_bundle true
    if [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) != Y ]]; then
        configure 'process["apparmorProfile"] = "some-profile"'
        is_refused "process.apparmorProfile: 'some-profile' is asked for, but AppArmor is not enabled here"
        configure 'process["apparmorProfile"] = "unconfined"'
        expect 0 run_box
        configure 'del process["apparmorProfile"]'
    fi
    if [[ ! -e /sys/fs/selinux/enforce ]]; then
        configure 'process["selinuxLabel"] = "system_u:system_r:container_t:s0"'
        is_refused "process.selinuxLabel: 'system_u:system_r:container_t:s0' is asked for, but SELinux is not enabled here"
    fi
}

@test "the session keyring belongs to the container and has its name; exec joins it; --no-new-keyring keeps the caller's" {
    # keyctl(2): 6 is KEYCTL_DESCRIBE, 0 KEYCTL_GET_KEYRING_ID, -3 the session keyring. Its number is 250 on x86_64, and
    # 219 on the others.
    local program='import ctypes, platform, sys
text = ctypes.create_string_buffer(256)
number = 250 if platform.machine() == "x86_64" else 219
libc = ctypes.CDLL(None)
libc.syscall(number, 6, -3, text, 256)
print(*text.value.decode().split(";")[-2:], *[libc.syscall(number, 0, -3, 0) for _ in sys.argv[1:]], flush=True)'
    make_python_bundle python3 -c "$program"
    prints "3f1b0000 box" run_box
    expect 0 run_box --no-new-keyring
    [[ $output != *box ]]
    make_python_bundle python3 -c "$program"$'\nimport time; time.sleep(1000)' number
    start_box
    wait_for grep -q box out
    prints "$(<out)" runtime exec box python3 -c "$program" number
}

# Receive the terminal on a socket, as an engine does: receive_terminal SOCKET FILE
receive_terminal() {
    hold "$TESTS/lib/receive-terminal" "$@"
    wait_for test -S "$1"
}

@test "process.terminal: its master goes to the console socket, with the requested size" {
    make_bundle sh -c 'tty; stty size; ls -l /dev/console | cut -c1; echo console >/dev/console; sleep 1000'
    configure 'process["terminal"] = True; process["consoleSize"] = {"height": 31, "width": 97}'
    receive_terminal "$PWD/socket" received
    runtime create --bundle bundle --console-socket socket box </dev/null >out 2>err
    expect 0 runtime start box
    wait_for grep -q '^console' received
    grep -q '^name ' received
    [[ $(tr -d '\r' <received | sed -n 2,4p) == $'/dev/pts/0\n31 97\nc' ]]
}

@test "process.terminal: without a requested size it has that of the terminal on which start was typed" {
    make_bundle sh -c 'stty size; echo end; sleep 1000'
    for size in pass 'process["consoleSize"] = {"height": 31, "width": 97}'; do
        configure "process['terminal'] = True; $size"
        rm -f socket received
        receive_terminal "$PWD/socket" received
        runtime create --bundle bundle --console-socket socket box </dev/null >out 2>err
        expect 0 "$TESTS/lib/pty" --size 33x99 -- "$RUNTIME" start box
        wait_for grep -q '^end' received
        tr -d '\r' <received | sed -n 2p >>sizes
        runtime delete --force box
    done
    [[ $(<sizes) == $'33 99\n31 97' ]]
}

@test "process.terminal: the path of the console socket may be longer than sun_path" {
    make_bundle_with 'process["terminal"] = True' sh -c 'echo hello; sleep 1000'
    long=$PWD/$(printf 'd%.0s' {1..150})
    mkdir "$long"
    receive_terminal "$long/socket" received
    runtime create --bundle bundle --console-socket "$long/socket" box </dev/null >out 2>err
    expect 0 runtime start box
    wait_for grep -q hello received
}

@test "process.terminal: needs a console socket for create, and a listener on it" {
    make_bundle_with 'process["terminal"] = True' true
    fails 1 "a console socket is needed unless in the foreground" runtime create --bundle bundle box
    check_untouched
    fails 1 missing runtime create --bundle bundle --console-socket missing box
    check_untouched
    is_refused "process.consoleSize" 'process["consoleSize"] = {"height": 65536, "width": 80}'
    configure 'process["terminal"] = False'
    expect 1 runtime create --bundle bundle --console-socket missing box
    check_untouched
}

@test "process.terminal: input from a pipe, whose end is the end of file, and all output, however much" {
    make_bundle_with 'process["terminal"] = True' sh -c 'stty -echo; echo ready; cat; echo end; seq 5000'
    # shellcheck disable=SC2094 # input comes after the first output
    { wait_for grep -q ready out && echo abc; } | runtime run --bundle bundle box >out
    [[ $(tr -d '\r' <out) == $'ready\nabc\nend\n'$(seq 5000) ]]
}

@test "process.terminal: output of a program that ends before the runtime reads is kept" {
    make_bundle_with 'process["terminal"] = True; hook("poststart", "sleep 0.3")' echo hello
    prints hello "$TESTS/lib/pty" -- "$RUNTIME" run --bundle bundle box
}

@test "--pid-file: names the first process, and does not exist after a failure" {
    make_bundle sleep 1000
    start_box --pid-file pid
    [[ $(<pid) == "$(pid_of_box)" ]]
    wait_for command_line_is "$(<pid)" "sleep 1000"
    make_bundle missing-program
    rm pid
    fails 1 "executable file \`missing-program\` not found in \$PATH" runtime create --bundle bundle --pid-file pid other
    [[ ! -e pid ]]
}
