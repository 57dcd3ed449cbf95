#!/usr/bin/env bats
# podman exec: a second process in a running container; podman-exec(1).
# once: except for the tests with the tag "user", a process starts in the same way in both modes

load ../lib/podman.bash

# bats test_tags=user
@test "podman exec: output, error, input and exit code" {
    start_sleeper --name sleeper
    expect 9 podman exec -i sleeper sh -c 'cat; echo err >&2; exit 9' <<<"from outside"
    output_is "from outside"
    [[ $stderr == err ]]
}

@test "podman exec: death by signal N is exit code 128+N" {
    start_sleeper --name sleeper
    expect 137 podman exec sleeper sh -c 'kill -KILL $$'
    expect 143 podman exec sleeper sh -c 'kill -TERM $$'
}

# bats test_tags=user
@test "podman exec: shares every namespace and the root with the container" {
    start_sleeper --name sleeper
    prints /proc/1/root/bin/busybox podman exec sleeper sh -c 'for ns in cgroup ipc mnt net pid user uts; do
        test "$(readlink /proc/self/ns/$ns)" = "$(readlink /proc/1/ns/$ns)" || echo "other $ns"; done; ls /proc/1/root/bin/busybox'
}

@test "podman exec --user: the HOME of a user without a name is /" {
    start_sleeper --name sleeper
    prints / podman exec --user 4242 sleeper sh -c 'echo "$HOME"'
}

@test "podman exec: no descriptor of the runtime is open" {
    start_sleeper --name sleeper
    expect 0 podman exec sleeper sh -c 'ls -d /proc/$$/fd/*; :'
    [[ ${#lines[@]} == 3 ]]
}

@test "podman exec --preserve-fds: descriptors are passed on" {
    start_sleeper --name sleeper
    echo three >3.txt
    prints three podman exec --preserve-fds 1 sleeper sh -c 'cat <&3' 3<3.txt
}

@test "podman exec: twenty at the same time" {
    start_sleeper --name sleeper
    local -a pids=()
    for i in {1..20}; do
        podman exec sleeper sh -c "exit $i" &
        pids+=($!)
    done
    for i in {1..20}; do
        local code=0
        wait "${pids[i - 1]}" || code=$?
        [[ $code == "$i" ]]
    done
}

# This container takes another code path (runtime/container/exec.c). A container that can trace all processes it sees
# gets to see the new process only when nothing but the execution of its program is left.
# bats test_tags=user
@test "podman exec in a container with CAP_SYS_PTRACE: the process is the same as in another" {
    local container script='awk "{ print \$4, \$1 == \$5, \$1 == \$6, (\$7 > 0) }" /proc/$$/stat
        test -t 0 && echo "a terminal" >/dev/tty; ls /proc/$$/fd; cat /proc/$$/oom_score_adj /proc/$$/limits
        for at in cwd root ns/cgroup ns/ipc ns/mnt ns/net ns/pid ns/time ns/user ns/uts; do
            test "$(readlink /proc/$$/$at)" = "$(readlink /proc/1/$at)" || echo "$at is another"; done
        grep -E "^(Uid|Gid|Groups|Umask|Sig|Cap(Inh|Eff|Amb)|NoNewPrivs|Seccomp:|Threads)" /proc/$$/status; exit 9'
    start_sleeper --name plain
    start_sleeper --name tracing --cap-add SYS_PTRACE
    for container in plain tracing; do
        expect 9 podman exec -u 5:6 -w /var --preserve-fds 1 "$container" sh -c "$script" 3</dev/null
        output_has "cwd is another"
        echo "$output" >"$container.exec"
        expect 9 "$TESTS/lib/pty" -- podman exec -it -u 5:6 "$container" sh -c "$script"
        output_has "a terminal"
        echo "$output" >"$container.terminal"
        expect 143 podman exec "$container" sh -c 'kill -TERM $$'
        fails 127 'executable file `missing` not found in $PATH' podman exec "$container" missing
        expect 126 podman exec "$container" /etc
    done
    diff plain.exec tracing.exec
    diff plain.terminal tracing.terminal
}
