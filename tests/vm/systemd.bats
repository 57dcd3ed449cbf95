#!/usr/bin/env bats
# The cgroup manager "systemd": a scope for each container, created and ended by the system's systemd or the user's;
# systemd.scope(5), systemd.resource-control(5), podman-run(1).

load vm.bash

@test "podman run, exec, update, rm: a scope in the default slice, with limits as its properties and in the container's own cgroup" {
    local last=$(($(nproc) - 1)) scope
    start_sleeper --name sleeper --memory 64m --memory-swap 96m --memory-reservation 32m --cpus 0.5 --cpu-shares 512 \
        --pids-limit 40 --cpuset-cpus "$last"
    scope=$(scope_of sleeper)
    [[ $(cgroup_of sleeper) == */$(default_slice)/$scope/container ]]
    property_is sleeper Slice "$(default_slice)"
    property_is sleeper ActiveState active
    property_is sleeper Delegate yes
    property_is sleeper CollectMode inactive-or-failed
    property_is sleeper DefaultDependencies no
    property_is sleeper MemoryMax 67108864
    property_is sleeper MemorySwapMax 33554432
    property_is sleeper MemoryLow 33554432
    property_is sleeper CPUQuotaPerSecUSec 500ms
    property_is sleeper TasksMax 40
    property_is sleeper AllowedCPUs "$last"
    file_is sleeper memory.max 67108864
    file_is sleeper memory.swap.max 33554432
    file_is sleeper memory.low 33554432
    file_is sleeper cpu.max "50000 100000"
    file_is sleeper cpu.weight 59
    property_is sleeper CPUWeight 59
    file_is sleeper pids.max 40
    file_is sleeper cpuset.cpus.effective "$last"
    prints 0::/ podman exec sleeper cat /proc/self/cgroup
    # Other limits stay.
    expect 0 podman update --memory 128m --memory-swap 128m --cpus 0.25 sleeper
    property_is sleeper MemoryMax 134217728
    property_is sleeper CPUQuotaPerSecUSec 250ms
    file_is sleeper memory.max 134217728
    file_is sleeper memory.swap.max 0
    file_is sleeper cpu.max "25000 100000"
    file_is sleeper pids.max 40
    expect 0 podman rm --force --time 0 sleeper
    stderr_is_empty
    [[ $(manager show --property LoadState --value "$scope") == not-found ]]
    expect 0 manager --failed --no-legend --plain
    output_lacks libpod
}

# bats test_tags=rest,all
@test "podman rm: after the first process was killed from outside" {
    start_sleeper --name sleeper
    kill -KILL "$(pid_of "$(id_of sleeper)")"
    wait_for state_is sleeper exited
    expect 0 podman rm sleeper
    stderr_is_empty
}

# bats test_tags=rest,all
@test "podman rm: after systemd has stopped the scope" {
    start_sleeper --name sleeper
    manager stop "$(scope_of sleeper)"
    wait_for state_is sleeper exited
    expect 0 podman rm sleeper
    stderr_is_empty
}

# bats test_tags=rest,all
@test "podman rm: after conmon was killed" {
    start_sleeper --name sleeper
    kill -KILL "$(podman inspect --format '{{.State.ConmonPid}}' sleeper)"
    # Podman reports once that the exit code is lost.
    expect '*' podman rm --force --time 0 sleeper
    expect 0 podman rm --force --ignore --time 0 sleeper
}

# bats test_tags=rest
@test "delete --force: removes the rest after a kill at any point of the runtime's dialogue with systemd" {
    make_bundle true
    for ((number = 1; number < 20; number++)); do
        ended=0
        strace --quiet=all --output calls --trace sendmsg --inject "sendmsg:signal=KILL:when=$number" \
            "$RUNTIME" --systemd-cgroup create --bundle bundle pysbx-one </dev/null >/dev/null 2>errors || ended=$?
        expect 0 runtime delete --force pysbx-one
        stderr_is_empty
        ((ended != 0)) || break
        [[ $ended == 137 ]] || { echo "message $number: $ended"; cat errors; return 1; }
    done
    # At least it has requested the scope.
    ((ended == 0 && number > 2))
}

# The policy lets no container write to its cgroup without a boolean. These tests are about cgroups.

# bats test_tags=rest,all
@test "podman exec: into a container that has made its cgroup an inner one" {
    start_sleeper --name sleeper --systemd always --security-opt label=disable
    expect 0 podman exec sleeper sh -c 'set -e
        mkdir /sys/fs/cgroup/inner
        cat /sys/fs/cgroup/cgroup.procs >/tmp/procs
        while read -r pid; do echo $pid 2>/dev/null >/sys/fs/cgroup/inner/cgroup.procs || true; done </tmp/procs
        echo +pids >/sys/fs/cgroup/cgroup.subtree_control'
    expect 0 podman exec sleeper true
}

# bats test_tags=rest
@test "podman run --systemd always: the container manages its cgroup, but not the limits on it" {
    expect 0 podman run --rm --network none --systemd always --security-opt label=disable --pids-limit 40 "$BUSYBOX" sh -c '
        set -e
        mkdir /sys/fs/cgroup/made
        echo $$ >/sys/fs/cgroup/made/cgroup.procs
        grep -x $$ /sys/fs/cgroup/made/cgroup.procs
        cat /sys/fs/cgroup/pids.max
        ! echo max >/sys/fs/cgroup/pids.max'
    output_is $'1\n40'
}

# bats test_tags=rest,all
@test "podman run --cgroup-manager cgroupfs: no scope" {
    # Podman keeps the manager that a container was created with.
    podman --cgroup-manager cgroupfs run --detach --network none --name sleeper --pids-limit 40 \
        "$BUSYBOX" sleep 1000
    id=$(id_of sleeper)
    # For users Podman leaves the choice of the cgroup to the runtime.
    if is_rootless; then [[ $(cgroup_of sleeper) == */user@*.service/*/$id ]]; else [[ $(cgroup_of sleeper) == */libpod-$id ]]; fi
    file_is sleeper pids.max 40
    [[ $(manager show --property LoadState --value "$(scope_of sleeper)") == not-found ]]
    podman --cgroup-manager cgroupfs rm --force --time 0 sleeper
}

# bats test_tags=rest
@test "run, with the manager cgroupfs: missing controllers are enabled, and enabled ones do not change" {
    local parent=/sys/fs/cgroup/pysbx-parent
    ! is_rootless || parent=$(dirname "$(cgroup_of_process "$$")")/pysbx-parent
    mkdir "$parent"
    echo "+pids +cpu" >"$parent/cgroup.subtree_control"
    make_bundle sleep 1000
    edit_config 'linux["cgroupsPath"] = arguments[0]; resources["memory"] = {"limit": 67108864}' "${parent#/sys/fs/cgroup}/one"
    strace --trace write --decode-fds --output writes "$RUNTIME" run --detach --bundle bundle pysbx-one </dev/null >/dev/null
    [[ $(<"$parent/one/memory.max") == 67108864 ]]
    grep -w memory "$parent/cgroup.subtree_control" | grep -w pids | grep -w cpu
    # Enabled controllers are neither requested again nor disabled, whether the runtime has enabled them or not.
    grep 'pysbx-parent/cgroup.subtree_control' writes
    expect 1 grep -E 'subtree_control>, "([^"]*\+(pids|cpu)[ "]|[^"]*-)' writes
    runtime delete --force pysbx-one
    rmdir "$parent"
}

# bats test_tags=rest,all
@test "podman run --cgroup-parent: a slice by name" {
    start_sleeper --name sleeper --cgroup-parent user-given.slice
    [[ $(cgroup_of sleeper) == */user.slice/user-given.slice/$(scope_of sleeper)/container ]]
    property_is sleeper Slice user-given.slice
}

# bats test_tags=rest,all
@test "podman run --cgroups=no-conmon: the scope exists" {
    start_sleeper --name sleeper --cgroups no-conmon
    [[ $(cgroup_of sleeper) == */$(scope_of sleeper)/container ]]
    # Podman's own process then has no scope of its own.
    pid=$(podman inspect --format '{{.State.ConmonPid}}' sleeper)
    [[ $(cgroup_of_process "$pid") == "$(cgroup_of_process "$$")" ]]
}

# bats test_tags=rest,all
@test "podman run --cgroups=disabled: the container stays in the caller's cgroup" {
    # Podman grants it to runtimes that are named in a configuration.
    export CONTAINERS_CONF_OVERRIDE=$TESTS/../config/containers.conf.d/50-pysbx.conf
    command podman --runtime pysbx-runtime run --detach --network none --cgroups disabled --name sleeper "$BUSYBOX" sleep 1000
    [[ $(cgroup_of sleeper) == "$(cgroup_of_process "$$")" ]]
    expect 0 podman exec sleeper true
    expect 0 podman rm --force --time 0 sleeper
}

# bats test_tags=rest,all
@test "podman run --cgroups=split: within the cgroup of the caller's unit" {
    local -a user=()
    ! is_rootless || user=(--user)
    systemd-run "${user[@]}" --quiet --scope --unit split-test --property Delegate=yes \
        podman --runtime "$RUNTIME" run --detach --network none --name sleeper --cgroups split "$BUSYBOX" sleep 1000
    [[ $(cgroup_of sleeper) == */split-test.scope/libpod-payload-* ]]
}

# bats test_tags=rest,all
@test "podman run --cgroup-conf: sets a file of cgroup v2 by name" {
    start_sleeper --name sleeper --cgroup-conf memory.high=1073741824
    file_is sleeper memory.high 1073741824
    property_is sleeper MemoryHigh 1073741824
}

# bats test_tags=rest,all
@test "podman run --stop-timeout: systemd waits as long before it kills the scope" {
    start_sleeper --name sleeper --stop-timeout 7
    property_is sleeper TimeoutStopUSec 7s
}

# bats test_tags=rest
@test "run --systemd-cgroup: a scope with this name, in the slice that linux.cgroupsPath names" {
    make_bundle sleep 1000
    edit_config 'linux["cgroupsPath"] = "user-given.slice:pysbx:name"'
    start_bundle pysbx-one
    [[ $(cgroup_of_bundle pysbx-one) == */user-given.slice/pysbx-name.scope/container ]]
    runtime delete --force pysbx-one
    [[ $(manager show --property LoadState --value pysbx-name.scope) == not-found ]]
}

# bats test_tags=root
@test "delete: the runtime does not ask systemd about a scope that systemd has removed" {
    make_bundle true
    runtime --systemd-cgroup create --bundle bundle --pid-file pid pysbx-one </dev/null >/dev/null 2>&1
    scope=$(dirname "$(find /sys/fs/cgroup -path '*/pysbx-pysbx-one.scope/cgroup.procs')")
    runtime start pysbx-one
    wait_for test ! -e "$scope"
    expect 0 strace -f -o trace "$RUNTIME" delete pysbx-one
    expect 1 grep -E 'libsystemd|sendmsg' trace
    prints "" manager list-units --all --plain --no-legend 'pysbx-*.scope'
}

# bats test_tags=rest,all
@test "run --systemd-cgroup: the name of a failed scope is used again" {
    make_bundle sleep 1000
    allow_annotations 'org.systemd.property.*'
    edit_config 'linux["cgroupsPath"] = ":pysbx:again"; config["annotations"] = {
    "org.systemd.property.RuntimeMaxUSec": "uint64 1000000", "org.systemd.property.TimeoutStopUSec": "uint64 1000000",
    "org.systemd.property.CollectMode": "\x27inactive\x27"}'
    start_bundle pysbx-one
    wait_for eval '[[ $(manager show --property ActiveState --value pysbx-again.scope) == failed ]]'
    edit_config 'config["annotations"] = {}'
    start_bundle pysbx-two
    [[ $(manager show --property ActiveState --value pysbx-again.scope) == active ]]
    runtime delete --force pysbx-two
    runtime delete --force pysbx-one
    remove_policy
}

# bats test_tags=rest
@test "run --systemd-cgroup: the name of a running scope is refused, and that scope runs on" {
    make_bundle sleep 1000
    edit_config 'linux["cgroupsPath"] = ":pysbx:taken"'
    start_bundle pysbx-one
    fails 1 "pysbx-taken.scope" runtime --systemd-cgroup run --bundle bundle pysbx-two
    [[ $(runtime state pysbx-one | jq -r .status) == running ]]
}
