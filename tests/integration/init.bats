#!/usr/bin/env bats
# run --init and create --init: the program is the child of a minimal init, pid_namespaces(7).
# once: except for a test with the tag "user", the minimal init is the same in both modes

load ../lib/bundle.bash

# Run a shell program with a minimal init in the foreground: ends SCRIPT EXIT-CODE STATUS
ends() {
    make_bundle sh -c "$1"
    expect "$2" run_box --init --status-file status
    [[ $(<status) == "$3" ]] || { echo "the status is $(<status)"; return 1; }
}

@test "run --init: the program is a child of process 1" {
    make_bundle sh -c 'echo $$ $PPID; sleep 0.1; cat /proc/1/comm; tr "\0" " " </proc/1/cmdline'
    expect 0 run_box --init
    [[ ${lines[0]} == "2 1" && ${lines[1]} == init && ${lines[2]} == "init 2 " ]]
    stderr_is_empty
    expect 0 run_box
    [[ ${lines[0]} == "1 0" ]]
}

@test "run --init: every signal has its default action, and the status tells which it was" {
    # (The shell of busybox ignores 3, SIGQUIT.)
    for number in 1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 24 25 26 27 29 30 31 34 64; do
        ends "kill -$number \$\$; echo goes on" $((128 + number)) "killed $number"
        output_is ""
    done
    for number in 17 18 23 28; do
        ends "kill -$number \$\$; echo goes on" 0 "exited 0"
        output_is "goes on"
    done
}

@test "run --init: without it, the kernel ignores default actions of process 1" {
    make_bundle sh -c 'kill -TERM $$; echo goes on'
    prints "goes on" run_box
}

@test "run --init: exit codes are the program's own" {
    for code in 0 1 42 137 143 255; do ends "exit $code" "$code" "exited $code"; done
}

@test "run --init: orphans are reaped" {
    ends 'for i in 1 2 3 4 5; do (true & true); done; sleep 0.3; grep -c "^State:.Z" /proc/[0-9]*/status | grep -c ":1$"' \
        1 "exited 1"
    output_is 0
}

@test "run --init: what is left of the container ends with the program" {
    ends 'sleep 1000 & exit 3' 3 "exited 3"
}

@test "run --init: a killed init is the end of the container" {
    make_bundle sleep 1000
    runtime run --init --bundle bundle --status-file status box </dev/null >/dev/null 2>&1 &
    wait_for runtime exec box true
    expect 0 runtime kill box KILL
    wait $! || [[ $? == 137 ]]
    [[ $(<status) == "killed 9" ]]
}

@test "kill: signals reach the program" {
    make_bundle sh -c 'trap "echo got; exit 7" USR1; touch /tmp/ready; while :; do sleep 0.05; done'
    configure 'config["root"]["readonly"] = False'
    start_box --init --keep
    wait_for runtime exec box test -e /tmp/ready
    expect 0 runtime kill box USR1
    wait_for grep -q got out
    wait_for eval '[[ $(runtime state box) == *stopped* ]]'
}

@test "create --init: the init begins with start, and can be entered before and afterwards" {
    make_bundle sleep 1000
    create_box --init
    expect 0 runtime start box
    pid=$(pid_of_box)
    wait_for eval '[[ $(</proc/$pid/comm) == init ]]'
    shows "sleep 1000" runtime exec box sh -c 'echo $PPID; tr "\0" " " </proc/2/cmdline'
    expect 0 runtime kill box TERM
    wait_for eval '[[ $(runtime state box) == *stopped* ]]'
}

@test "init: has no descriptor, no capability and a filter of its own, and cannot be traced from inside" {
    make_bundle sleep 1000
    start_box --init
    pid=$(pid_of_box)
    wait_for eval '[[ $(</proc/$pid/comm) == init ]]'
    [[ -z $(ls "/proc/$pid/fd") ]]
    [[ $(grep -cE '^(CapInh|CapPrm|CapEff|CapAmb):.0+$|^NoNewPrivs:.1|^Seccomp:.2' "/proc/$pid/status") == 6 ]]
    [[ $(readlink "/proc/$pid/exe") == "/memfd:init (deleted)" && $(stat -Lc %a "/proc/$pid/exe") == 111 ]]
    [[ $(readlink "/proc/$pid/root") == "$(readlink "/proc/$(pgrep -P "$pid")/root")" ]]
    expect 1 runtime exec box sh -c 'cat /proc/1/environ /proc/1/maps /proc/1/mem'
    output_is ""
    expect 1 runtime exec box readlink /proc/1/exe
    expect 0 runtime exec box sh -c 'kill -KILL 1; kill -TERM 1; kill -STOP 1; kill -USR1 1'
    expect 0 runtime exec box true
}

@test "run --init: a program that does not exist, as without" {
    make_bundle /missing
    expect 1 run_box
    local without=$stderr
    expect 1 run_box --init
    [[ $stderr == "$without" && $stderr == *"no such file or directory"* ]]
    make_bundle_with 'process["args"] = ["/etc/passwd"]' sh -c true
    expect 1 run_box
    without=$stderr
    expect 1 run_box --init
    [[ $stderr == "$without" ]]
}

@test "run --init: a filter that allows nothing but the program" {
    make_bundle sh -c 'exit 3'
    configure 'linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["wait4", "rt_sigtimedwait", "kill", "execveat", "clone", "prctl"], "action": "SCMP_ACT_ERRNO"}]}'
    expect 3 run_box --init
}

# bats test_tags=user
@test "run --init: RLIMIT_NPROC must allow two processes" {
    needs_rootless "root has no such limit"
    make_bundle_with 'process["rlimits"] = [{"type": "RLIMIT_NPROC", "soft": 1, "hard": 1}]' sh -c 'exit 3'
    fails 1 "a limit of processes must allow two (pids.limit, RLIMIT_NPROC)" run_box --init
    check_untouched
    configure 'process["rlimits"] = [{"type": "RLIMIT_NPROC", "soft": 2, "hard": 2}]'
    expect 3 run_box --init
}

@test "run --init: pids.limit must allow two processes" {
    needs_controller pids
    make_bundle_with 'linux["resources"] = {"pids": {"limit": 1}}' sh -c 'exit 3'
    fails 1 "a limit of processes must allow two (pids.limit, RLIMIT_NPROC)" run_box --init
    configure 'linux["resources"] = {"pids": {"limit": 2}}'
    expect 3 run_box --init
}

@test "run --init: a terminal" {
    make_bundle_with 'process["terminal"] = True' sh -c 'tty; stty size; echo ok >/dev/tty; kill -INT $$'
    expect 130 "$TESTS/lib/pty" --size 20x70 -- "$RUNTIME" run --init --bundle bundle box
    output_has "20 70" ok
}

@test "run --init: is refused where it would lack something" {
    make_bundle_with 'process["scheduler"] = {"policy": "SCHED_OTHER", "flags": ["SCHED_FLAG_RESET_ON_FORK"]}' true
    fails 1 "option '--init' cannot be used here: a clone does not inherit its scheduler (process.scheduler)" run_box --init
    make_bundle true
    configure 'linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/listener",
        "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]}'
    fails 1 "option '--init' cannot be used here: its seccomp filter has a listener" run_box --init
    make_bundle_with 'linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "pid"]' true
    fails 1 "option '--init' cannot be used here: the container has no new pid namespace" run_box --init
    check_untouched
}

@test "run --init: is refused if a process could trace the program before it is confined" {
    needs_root "a container of a user has a user namespace of its own"
    make_bundle true
    configure 'process["capabilities"] = {name: ["CAP_SYS_PTRACE"] for name in ("bounding", "permitted", "effective")}'
    expect 1 run_box --init
    stderr_has "option '--init' cannot be used here: its processes could trace the program's before that is confined"
    check_untouched
}

@test "plan --init: tells that there is one" {
    make_bundle true
    tells 'it["init"] is True' runtime plan --init --bundle bundle
    tells 'it["init"] is False' runtime plan --bundle bundle
}
