#!/usr/bin/env bats
# containerd with the runtime, by ctr(8), and by crictl, which uses the same interface as the kubelet of Kubernetes. See
# config/containerd/config.toml.
# once: the daemon is root's

load ../lib/podman.bash
load ../lib/peers.bash
load ../lib/engines.bash

# Prints whether json was preloaded, so that its import opens no file, and whether the process is restored from a snapshot.
HOW="import sys; opened = []; sys.addaudithook(lambda event, _: event == 'open' and opened.append(event)); import json; print(not opened, '/pysbx-runtime/warm/' in open('/proc/self/maps').read())"

configure_containerd() {
    printf 'root = "%s"\nstate = "%s"\n' "$ENGINE/root" "$ENGINE/state"
    example_of containerd/config.toml
    cat <<CONF
[grpc]
  address = "$CONTAINERD_ADDRESS"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:latest"
  disable_apparmor = true
  # On this machine root may be unable to lower the OOM score, and controllers for the limits of every pod may be
  # missing.
  restrict_oom_score_adj = true
  disable_cgroup = $(if grep -qw cpu /sys/fs/cgroup/cgroup.controllers; then echo false; else echo true; fi)
CONF
}

setup_file() {
    has_engine containerd ctr || return 0
    mkdir -p "$ENGINE/logs"
    export CONTAINERD_ADDRESS=$ENGINE/containerd.sock RUNTIME_STATE=/run/containerd/runc/default
    configure_containerd >"$ENGINE/config.toml"
    start_daemon containerd containerd --config "$ENGINE/config.toml"
    await_daemon containerd ctr version
    import_python
    for image in busybox python; do
        save_image "$image"
        ctr image import "$ENGINE/$image.tar"
        ctr --namespace k8s.io image import "$ENGINE/$image.tar"
    done
    command podman import --quiet --change 'CMD ["sleep", "100000"]' "$("$TESTS/lib/image" busybox)" localhost/pause
    save_image pause
    ctr --namespace k8s.io image import "$ENGINE/pause.tar"
    printf 'runtime-endpoint: unix://%s\n' "$CONTAINERD_ADDRESS" >"$ENGINE/crictl.yaml"
    # Objects of the very first container remain: the parents of cgroups.
    run_box "$BUSYBOX" first true
}

teardown_file() {
    stop_daemon containerd
}

setup() {
    needs_engine containerd ctr
    begin_test
}

teardown() {
    has_engine containerd ctr || return 0
    local name
    if has_engine crictl; then cri rmp --all --force >/dev/null 2>&1 || true; fi
    for name in $(ctr container list --quiet); do
        ctr task rm --force "$name" >/dev/null 2>&1 || true
        ctr container rm "$name"
    done
    check_leftovers
}

# run_box [OPTION...] IMAGE NAME PROGRAM... (ctr requests a weight of 1024 by default, which needs a controller.)
run_box() {
    ctr run --rm --cpu-shares 0 --runc-binary "$RUNTIME" "$@"
}

start_box() {
    ctr run --detach --cpu-shares 0 --runc-binary "$RUNTIME" "$BUSYBOX" "$@"
}

task_is() {
    [[ $(ctr task list | awk -v name="$1" '$1 == name { print $3 }') == "$2" ]]
}

@test "ctr run --runc-binary: output and exit code; a missing program, and one that is not executable" {
    expect 7 run_box "$BUSYBOX" box sh -c 'echo out; exit 7'
    output_is out
    fails 1 'executable file `no-such-program` not found in $PATH' run_box "$BUSYBOX" box no-such-program
    fails 1 "permission denied" run_box "$BUSYBOX" box /etc/passwd
}

@test "ctr run: options reach the container" {
    echo given >file
    expect 0 run_box --read-only --env A=b --cwd /tmp --cap-drop CAP_CHOWN --seccomp \
        --mount "type=bind,src=$PWD,dst=/mnt,options=rbind:ro" "$BUSYBOX" box \
        sh -c 'echo $A; pwd; cat /mnt/file; touch /x 2>/dev/null || echo refused
            grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status'
    output_is $'b\n/tmp\ngiven\nrefused\nCapEff:\t00000000a80425fa\nNoNewPrivs:\t1\nSeccomp:\t2'
}

@test "ctr run --no-pivot, --runc-root, --cgroup, --net-host, --with-ns, --privileged" {
    for option in --no-pivot "--runc-root $ENGINE/other" "--cgroup /parent/box" --net-host \
        "--with-ns network:/proc/1/ns/net" --privileged; do
        # shellcheck disable=SC2086 # an option and its value
        prints here run_box $option "$BUSYBOX" box echo here
    done
    rmdir /sys/fs/cgroup/parent
}

@test "ctr run --memory-limit: is set" {
    needs_limits memory
    prints 67108864 run_box --memory-limit 67108864 "$BUSYBOX" box cat /sys/fs/cgroup/memory.max
}

@test "ctr run --tty" {
    # A program that ends before containerd copies from its terminal may lose its output, with runc too.
    expect 5 "$TESTS/lib/pty" --expect /dev/pts/ --send '\n' -- ctr run --rm --tty --cpu-shares 0 \
        --runc-binary "$RUNTIME" "$BUSYBOX" box sh -c 'tty; read -r line; exit 5'
    output_has /dev/pts/0
}

@test "ctr container checkpoint --task, restore --live: a Python program that parks goes on" {
    mkdir modules
    cp "$TESTS/lib/parking.py" modules
    expect 0 ctr run --detach --cpu-shares 0 --runc-binary "$RUNTIME" --log-uri "file://$PWD/log" --env PYTHONPATH=/modules \
        --annotation run.pysbx.warm=require --annotation run.pysbx.preload=parking \
        --mount "type=bind,src=$PWD/modules,dst=/modules,options=rbind:rw" "$PYTHON" box python3 -c 'from parking import park
print("parks", flush=True)
print("restored", park(), file=open("/modules/restored", "w"), flush=True)'
    wait_for grep -q parks log
    expect 0 ctr container checkpoint --rw --task --image box saved
    task_is box RUNNING
    ctr task rm --force box >/dev/null # the copy has its cgroup
    ctr container rm box
    expect 0 timeout 60 ctr container restore --rw --live copy saved
    wait_for grep -q "restored True" modules/restored
}

@test "ctr task exec: output, exit code, user, directory, terminal" {
    start_box box sleep 1000
    expect 4 ctr task exec --exec-id one --user user --cwd /tmp box sh -c 'id -u; pwd; exit 4'
    output_is $'1000\n/tmp'
    expect 6 "$TESTS/lib/pty" --expect /dev/pts/ --send '\n' -- ctr task exec --tty --exec-id two box \
        sh -c 'tty; read -r line; exit 6'
    output_has /dev/pts/
    fails 1 "no such file or directory" ctr task exec --exec-id three box no-such-program
}

@test "ctr task exec --detach, ctr task ps, ctr task kill --exec-id" {
    start_box box sleep 1000
    ctr task exec --detach --exec-id second box sleep 2000
    expect 0 ctr task ps box
    [[ ${#lines[@]} == 3 ]]
    ctr task kill --exec-id second box
    wait_for eval '[[ $(ctr task ps box | wc -l) == 2 ]]'
}

@test "ctr task pause, resume, metrics" {
    start_box box sleep 1000
    ctr task pause box
    task_is box PAUSED
    expect 1 ctr task exec --exec-id one box true
    ctr task resume box
    task_is box RUNNING
    shows memory.usage ctr task metrics box
}

@test "ctr task kill, rm, start: a container is started again" {
    start_box box sleep 1000
    expect 1 ctr task rm box
    ctr task kill --signal SIGHUP box
    task_is box RUNNING
    ctr task kill --all --signal SIGKILL box
    wait_for task_is box STOPPED
    expect 0 ctr task rm box
    ctr task start --detach box
    task_is box RUNNING
    expect 0 ctr task exec --exec-id one box true
}

@test "ctr task list: a program that was killed from outside has stopped" {
    start_box box sleep 1000
    kill -KILL "$(ctr task list | awk '$1 == "box" { print $2 }')"
    wait_for task_is box STOPPED
}

@test "ctr task checkpoint: is refused with a reason" {
    start_box box sleep 1000
    fails 1 "its program is no Python that was started warm" ctr task checkpoint box
    task_is box RUNNING
}

@test "ctr run --annotation: Python is warm" {
    prints "True True" run_box --annotation run.pysbx.preload=json --annotation run.pysbx.warm=require "$PYTHON" box \
        python3 -c "$HOW"
}

cri() {
    crictl --config "$ENGINE/crictl.yaml" "$@"
}

# Make a pod with the handler of config.toml, $pod: make_pod [ANNOTATIONS-AS-JSON]
make_pod() {
    local parent=""
    needs_engine crictl
    if grep -qw cpu /sys/fs/cgroup/cgroup.controllers; then
        parent=/pods
    elif [[ $(containerd --version) == *" v2."* || $(containerd --version) == *" 2."* ]]; then
        skip "containerd 2 gives a pod CPU shares even with disable_cgroup: needs the CPU controller"
    fi
    cat >pod.json <<POD
{ "metadata": { "name": "pod", "namespace": "default", "uid": "1", "attempt": 1 }, "log_directory": "$ENGINE/logs",
  "annotations": ${1:-"{}"},
  "linux": { "cgroup_parent": "$parent", "security_context": { "namespace_options": { "network": 2, "pid": 1 } } } }
POD
    pod=$(cri runp --runtime pysbx pod.json)
}

# Start a container in the pod, $container: start_in_pod IMAGE COMMAND-AS-JSON
start_in_pod() {
    cat >container.json <<CONTAINER
{ "metadata": { "name": "box" }, "image": { "image": "$1" }, "command": $2, "log_path": "box.log",
  "linux": { "security_context": { "namespace_options": { "network": 2, "pid": 1 } } } }
CONTAINER
    container=$(cri create "$pod" container.json pod.json)
    cri start "$container"
}

container_is() {
    [[ $(cri inspect --output go-template --template '{{.status.state}}' "$container") == "CONTAINER_$1" ]]
}

@test "crictl runp --runtime, create, start, exec, logs, stop, rm" {
    make_pod
    start_in_pod "$BUSYBOX" '["sh", "-c", "echo out; sleep 1000"]'
    container_is RUNNING
    prints inside cri exec --sync "$container" echo inside
    fails 1 "exited with 3" cri exec --sync "$container" sh -c 'exit 3'
    fails 1 'not found in $PATH' cri exec --sync "$container" no-such-program
    wait_for eval '[[ $(cri logs "$container") == out ]]'
    cri stop --timeout 0 "$container"
    container_is EXITED
    cri rm "$container"
    cri stopp "$pod"
    cri rmp "$pod"
}

@test "crictl start: returns the exit code, and a missing program is an error" {
    make_pod
    start_in_pod "$BUSYBOX" '["sh", "-c", "exit 6"]'
    wait_for container_is EXITED
    prints 6 cri inspect --output go-template --template '{{.status.exitCode}}' "$container"
    cri rm "$container"
    fails 1 'not found in $PATH' start_in_pod "$BUSYBOX" '["no-such-program"]'
}

@test "crictl runp: annotations of a pod reach the runtime, Python is warm" {
    make_pod '{ "run.pysbx.preload": "json" }'
    start_in_pod "$PYTHON" "[\"python3\", \"-c\", \"$HOW\"]"
    # containerd learns of the end before it has written the last line.
    wait_for eval '[[ $(cri logs "$container") == "True True" ]]'
}

@test "crictl runp: a pod that requires a warm start is refused, because its sandbox does not run Python" {
    needs_engine crictl
    fails 1 "run.pysbx.warm=require" make_pod '{ "run.pysbx.warm": "require" }'
}

@test "ctr run: no mount of the container is a peer of a mount of the host" {
    mkdir -p dir
    no_peers_but run_box "$BUSYBOX" peers cat /proc/self/mountinfo
    no_peers_but run_box --mount "type=bind,src=$PWD/dir,dst=/data,options=rbind:rw" "$BUSYBOX" peers cat /proc/self/mountinfo
}
