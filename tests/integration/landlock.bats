#!/usr/bin/env bats
# The annotation run.pysbx.landlock: access rights of the program and of all its descendants; landlock(7).
# once: the kernel applies a ruleset in the same way in both modes

load ../lib/bundle.bash

# Give the bundle the ruleset, and a root that modes and mounts would allow the program to write to.
restrict() {
    configure 'config["root"]["readonly"] = False; config["annotations"] = {"run.pysbx.landlock": arguments[0]}' "$1"
}

setup() {
    begin_test
    make_bundle true
    restrict default
    local abi
    abi=$(runtime plan --bundle bundle box |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["process"]["landlock"]["abi"])')
    ((abi >= 6)) || skip "the kernel's Landlock has ABI $abi: the tests need 6"
}

teardown() {
    remove_containers
    clean_up
}

# A Python program as the container's process. It prints the error name of each statement, or "ok".
python_prints() {
    local program='import os, socket, sys
for statement in sys.argv[1:]:
    try:
        exec(statement)
        print("ok")
    except OSError as error:
        import errno
        print(errno.errorcode[error.errno])'
    make_python_bundle python3 -c "$program" "$@"
}

@test "log: denials fill the host's audit log only if runtime.json allows it, also in exec" {
    abi=$(runtime plan --bundle bundle box | sed -n 's/.*"abi": \([0-9]*\).*/\1/p')
    ((abi >= 7)) || skip "the log is of ABI 7, and the kernel has $abi"
    restrict '{"log": true}'
    expect 0 runtime plan --bundle bundle
    output_holds 'it["process"]["landlock"]["log"] is False and it["process"]["landlock"]["dropped"] == ["log"]'
    [[ $(wc -l <<<"$stderr") == 1 ]]
    stderr_has "annotation 'run.pysbx.landlock': \"log\" is ignored"
    configure_policy '{"landlockLog": true}'
    expect 0 runtime plan --bundle bundle
    output_holds 'it["process"]["landlock"]["log"] is True and it["process"]["landlock"]["dropped"] == []'
    stderr_is_empty
    command -v strace >/dev/null || skip "needs strace"
    configure 'process["args"] = ["sleep", "1000"]'
    # landlock_restrict_self(2) with LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON, and without
    start_box
    remove_policy # the decision made for a container is kept
    expect 0 strace -f -o trace "$RUNTIME" exec box true
    grep -E 'landlock_restrict_self\([0-9]+, (0x2|LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON)\)|syscall_0x1be\([^,]*, 0x2,' trace
    runtime delete --force box
    start_box
    expect 0 strace -f -o trace "$RUNTIME" exec box true
    expect 1 grep -E 'landlock_restrict_self\([0-9]+, (0x2|LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON)\)|syscall_0x1be\([^,]*, 0x2,' trace
}

@test "default: all files are readable and executable, and only /tmp is writable" {
    local program='echo x >/x; mkdir /srv; rm /etc/passwd; echo x >>/etc/group; echo x >/tmp/x && mv /tmp/x /tmp/y &&
        mkdir /tmp/d && mv /tmp/y /tmp/d && cp /bin/busybox /tmp/echo && /tmp/echo works && echo gone >/dev/null &&
        cat /etc/hostname >/dev/null && cat /proc/self/comm'
    touch bundle/rootfs/etc/hostname
    make_bundle sh -c "$program"
    restrict default
    prints $'works\ncat' run_box
    for denied in "can't create /x" "mkdir: can't create directory '/srv'" "rm: can't remove '/etc/passwd'" \
        "can't create /etc/group"; do
        stderr_has "$denied"
    done
    [[ $(grep -ic "permission denied" <<<"$stderr") == 4 ]]
    rm -r bundle/rootfs/tmp/*
    configure 'del config["annotations"]'
    prints $'works\ncat' run_box
    stderr_is_empty
}

@test "filesystem: write and execute access at the listed paths" {
    make_bundle sh -c 'echo works >/var/log/x; echo x >/tmp/x; cat /etc/passwd; cp /bin/busybox /var/log/ls; /var/log/ls'
    restrict '{"filesystem": {"read": ["/bin", "/var"], "write": ["/var/log", "-/missing"], "execute": ["/bin"]}}'
    expect 126 run_box
    for denied in "can't create /tmp/x" "can't open '/etc/passwd'" "/var/log/ls:"; do stderr_has "$denied"; done
    [[ $(grep -ic "permission denied" <<<"$stderr") == 3 && $(<bundle/rootfs/var/log/x) == works ]]
}

@test "filesystem: a terminal can be opened, an unlisted device cannot" {
    python_prints 'os.openpty()' 'open("/dev/null", "w")' 'open("/dev/zero", "r+b", 0)'
    restrict default
    prints $'ok\nok\nok' run_box
    restrict '{"filesystem": {"device": ["/dev/null"]}}'
    prints $'EACCES\nok\nEACCES' run_box
}

@test "filesystem: a missing path is an error, and so is a link to a writable one" {
    make_bundle true
    restrict '{"filesystem": {"write": ["/missing"]}}'
    fails 1 "landlock: path '/missing' in the container: does not exist" run_box
    ln -s /etc bundle/rootfs/srv
    restrict '{"filesystem": {"write": ["/srv/x"]}}'
    fails 1 "landlock: path '/srv/x' leads through a symbolic link" run_box
    restrict '{"filesystem": {"read": ["/", "/srv/passwd"]}}'
    expect 0 run_box
}

@test "network: TCP is closed except for the listed ports" {
    local statements=('socket.create_server(("127.0.0.1", 8080))' 'socket.create_connection(("127.0.0.1", 443))'
        'socket.create_connection(("127.0.0.1", 444))')
    python_prints "${statements[@]}"
    prints $'ok\nECONNREFUSED\nECONNREFUSED' run_box
    restrict default
    prints $'EACCES\nEACCES\nEACCES' run_box
    restrict '{"network": {"bind": [8080], "connect": [443]}}'
    prints $'ok\nECONNREFUSED\nEACCES' run_box
    restrict '{"network": {"bind": [], "connect": "any"}}'
    prints $'EACCES\nECONNREFUSED\nECONNREFUSED' run_box
}

@test "scope: no abstract socket and no signal reaches a process outside" {
    hold python3 -c 'import socket, signal, pathlib
s = socket.socket(socket.AF_UNIX); s.bind("\0landlock.bats"); s.listen(); pathlib.Path("ready").touch(); signal.pause()'
    wait_for test -e ready
    python_prints 'socket.socket(socket.AF_UNIX).connect("\0landlock.bats")' "os.kill(${HELPERS[0]}, 0)" 'os.kill(os.getpid(), 0)'
    configure 'share("network", "pid")'
    configure 'capabilities("CAP_KILL")'
    prints $'ok\nok\nok' run_box
    restrict default
    prints $'EPERM\nEPERM\nok' run_box
    restrict '{"scope": ["signal"]}'
    prints $'ok\nEPERM\nok' run_box
    restrict '{"scope": []}'
    prints $'ok\nok\nok' run_box
}

@test "exec: an added process is restricted, too" {
    make_bundle sleep 1000
    restrict default
    start_box
    fails 1 "can't create /x: permission denied" runtime exec box sh -c 'echo x >/tmp/x && echo x >/x'
    [[ -e bundle/rootfs/tmp/x && ! -e bundle/rootfs/x ]]
    echo '{"args": ["touch", "/x"], "cwd": "/", "env": ["PATH=/bin"]}' >process.json
    fails 1 "permission denied" runtime exec --process process.json box
    expect 1 runtime exec box kill -0 1
    stderr_has "operation not permitted" # it is outside of the others' scope, like every process of exec
}

@test "the restriction removes neither no_new_privs nor a capability that the program would keep" {
    make_bundle sh -c "grep -E '^(Cap|NoNewPrivs)' /proc/self/status; touch /x"
    configure 'process["noNewPrivileges"] = False; capabilities(); linux.pop("seccomp", None)'
    restrict default
    expect 1 run_box
    output_is $'CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000
CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0'
    stderr_has "permission denied"
    configure 'process["args"] = ["sh", "-c", "ls /proc/self/fd; touch /x"]; process["noNewPrivileges"] = True'
    expect 1 run_box
    output_is $'0\n1\n2\n3' # the last one is that of ls
    stderr_has "permission denied"
}

@test "a user has the same rules, also for paths that the user cannot look up" {
    needs_root "a user has one id here"
    mkdir -p bundle/rootfs/private/open
    chmod 0777 bundle/rootfs/private/open bundle/rootfs
    make_bundle sh -c 'touch /x; touch /tmp/x'
    chmod 0700 bundle/rootfs/private
    restrict '{"filesystem": {"write": ["/private/open", "/tmp"]}}'
    configure 'process["user"] = {"uid": 1000, "gid": 1000}; capabilities()'
    expect 0 run_box
    stderr_has "/x: permission denied"
    [[ $(stat -c %u bundle/rootfs/tmp/x) == 1000 ]]
}

@test "a filter that forbids Landlock's system calls is installed after it" {
    make_bundle touch /x
    restrict default
    configure 'seccomp("ALLOW", rule("KILL_PROCESS", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"))'
    fails 1 "permission denied" run_box
}

@test "a filter with a listener is installed after it, too" {
    needs_root "a user cannot take the listener from a process of another user namespace"
    hold "$TESTS/lib/seccomp-agent" "$PWD/agent" "$PWD/state" EXDEV
    wait_for test -S agent
    make_bundle sh -c 'touch /x; mkdir /tmp/x'
    restrict default
    configure 'seccomp("ALLOW", rule("NOTIFY", "mkdir", "mkdirat"), listenerPath=arguments[0])' "$PWD/agent"
    create_box
    expect 0 runtime start box
    wait_for grep -q "Invalid cross-device link" err
    grep -q "touch: /x: Permission denied" err
}

@test "startContainer hooks, programs of the container, are restricted in the same way as its own" {
    make_bundle cat /tmp/hooked
    restrict default
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")
hook("startContainer", "exec >/tmp/hooked 2>&1; touch /made; echo in its place; nc -w 1 127.0.0.1 9; true")'
    expect 0 run_box
    output_has "touch: /made: Permission denied" "in its place"
    output_has "nc: can't connect to remote host (127.0.0.1): Permission denied"
    [[ ! -e bundle/rootfs/made ]]
    restrict '{"filesystem": {"write": ["/"]}}'
    expect 0 run_box
    output_lacks "touch"
    [[ -e bundle/rootfs/made ]]
}

@test "mistakes are reported with their position, before anything changes" {
    make_bundle true
    restrict '{"filesystem": {"write": ["/tmp", 3]}}'
    is_refused "annotation 'run.pysbx.landlock': filesystem.write[1]: expected a string, found a number"
    restrict '{"filesystem": {"writable": []}}'
    is_refused "filesystem.writable: unknown property"
    restrict 'read-only'
    is_refused "annotation 'run.pysbx.landlock': "
}

@test "plan: shows the rules" {
    restrict '{"network": {"connect": [443]}, "enforcement": "required"}'
    expect 0 runtime plan --bundle bundle box
    output_holds 'it["process"]["landlock"]["ports"] == [{"port": 443, "allowed": ["connect-tcp"]}]'
    output_holds 'it["process"]["landlock"]["dropped"] == [] and "signal" in it["process"]["landlock"]["restricted"]'
    configure 'del config["annotations"]'
    tells 'it["process"]["landlock"] is None' runtime plan --bundle bundle box
}

@test "podman run --annotation, podman exec: with the default filter, as root and as a user" {
    podman run --detach --network none --annotation run.pysbx.landlock=default --name box "$BUSYBOX" sleep 1000
    for user in root user; do
        prints denied podman exec --user "$user" box sh -c 'touch "/tmp/$(id -un)"; chmod 0777 /; touch /x || echo denied'
    done
    podman rm --force --time 0 box
    # Podman 4 reads the option as comma-separated values.
    local rules='run.pysbx.landlock={"filesystem": {"write": ["/srv", "-/x"]}}'
    [[ $(podman version --format '{{.Client.Version}}') != 4.* ]] || rules="\"${rules//\"/\"\"}\""
    expect 1 podman run --rm --network none --annotation "$rules" \
        --tmpfs /srv "$BUSYBOX" sh -c 'touch /srv/x && echo written && touch /tmp/x'
    output_is written
    expect 126 podman run --rm --network none --annotation run.pysbx.landlock=read-only "$BUSYBOX" true
    stderr_has "annotation 'run.pysbx.landlock': 'read-only'"
}
