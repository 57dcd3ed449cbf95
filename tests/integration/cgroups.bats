#!/usr/bin/env bats
# cgroups as Podman requests them: path, limits, update, freezing, removal; cgroups(7),
# Documentation/admin-guide/cgroup-v2.
# once: except for a test with the tag "user", a user's containers have no cgroup here

load ../lib/podman.bash

# Print the directory of a running container's cgroup.
cgroup_of() {
    local pid
    pid=$(podman inspect --format '{{.State.Pid}}' "$1")
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")"
}

@test "podman run: the container has a cgroup named after it, which is removed with it" {
    needs_cgroups
    start_sleeper --name sleeper
    dir=$(cgroup_of sleeper)
    [[ $dir == */libpod-$(podman inspect --format '{{.Id}}' sleeper) ]]
    [[ $(<"$dir/cgroup.procs") == "$(podman inspect --format '{{.State.Pid}}' sleeper)" ]]
    podman rm --force --time 0 sleeper
    [[ ! -e $dir ]]
}

@test "podman run: the container sees its own cgroup as the root" {
    needs_cgroups
    expect 0 podman run --rm --network none "$BUSYBOX" sh -c 'grep ^0: /proc/self/cgroup; ls /sys/fs/cgroup/cgroup.procs'
    output_is $'0::/\n/sys/fs/cgroup/cgroup.procs'
}

@test "podman run --cgroup-parent: the cgroup is created there" {
    needs_cgroups
    start_sleeper --name sleeper --cgroup-parent /given/parent
    [[ $(cgroup_of sleeper) == /sys/fs/cgroup/given/parent/libpod-* ]]
    podman rm --force --time 0 sleeper
    # conmon's cgroup, which Podman creates, remains next to the container's.
    wait_for find /sys/fs/cgroup/given -depth -type d -exec rmdir {} +
}

@test "podman run --cgroups disabled: no cgroup is created" {
    needs_cgroups
    expect 0 podman run --rm --network none --cgroups disabled --cgroupns host "$BUSYBOX" sed -n 's/^0:://p' /proc/self/cgroup
    [[ $output != *libpod-* ]]
}

# bats test_tags=user
@test "podman run --cgroups disabled, rootless: start, exec, stop and rm work" {
    needs_rootless
    start_sleeper --name sleeper --cgroups disabled
    expect 0 podman exec sleeper true
    expect 0 podman stop --time 0 sleeper
    expect 0 podman rm sleeper
}

@test "podman rm: cgroups that the container created below its own are removed too" {
    needs_cgroups
    start_sleeper --name sleeper
    mkdir -p "$(cgroup_of sleeper)/made/below"
    expect 0 podman rm --force --time 0 sleeper
    stderr_is_empty
}

@test "podman exec: joins a container whose processes moved to a sub-cgroup" {
    needs_cgroups
    start_sleeper --name sleeper
    dir=$(cgroup_of sleeper)
    mkdir "$dir/moved"
    cat "$dir/cgroup.procs" >"$dir/moved/cgroup.procs"
    expect 0 podman exec sleeper true
}

@test "podman pause: the cgroup is frozen" {
    needs_cgroups
    start_sleeper --name sleeper
    podman pause sleeper
    grep -q 'frozen 1' "$(cgroup_of sleeper)/cgroup.events"
    podman unpause sleeper
    # The processes leave the freezer one by one, when the kernel schedules them.
    wait_for grep -q 'frozen 0' "$(cgroup_of sleeper)/cgroup.events"
}

@test "podman run --cgroup-conf: sets a file of cgroup v2 by name" {
    needs_controller hugetlb
    expect 0 podman run --rm --network none --cgroup-conf hugetlb.2MB.max=4194304 "$BUSYBOX" cat /sys/fs/cgroup/hugetlb.2MB.max
    output_is 4194304
}

@test "podman run --cgroup-conf: a file that does not exist is an error that names it" {
    needs_controller hugetlb
    fails '12[67]' hugetlb.no.such.file podman run --rm --network none --cgroup-conf hugetlb.no.such.file=1 "$BUSYBOX" true
}

@test "podman run --memory: a limit without its controller is an error that names it" {
    needs_cgroups
    ! grep -qw memory /sys/fs/cgroup/cgroup.controllers || skip "the memory controller is available"
    # Either Podman drops the limit with its own warning, or the runtime refuses it.
    podman run --rm --network none --memory 64m "$BUSYBOX" true 2>errors || true
    grep -qi memory errors
}

@test "podman run --memory, --memory-swap, --memory-reservation" {
    needs_controller memory
    expect 0 podman run --rm --network none --memory 64m --memory-swap 96m --memory-reservation 32m "$BUSYBOX" \
        sh -c 'cd /sys/fs/cgroup && cat memory.max memory.swap.max memory.low'
    output_is $'67108864\n33554432\n33554432'
}

@test "podman run --memory: above the limit the process is OOM-killed, and Podman reports it" {
    needs_controller memory
    expect 137 podman run --name eater --network none --memory 16m --memory-swap 16m "$BUSYBOX" \
        sh -c 'dd if=/dev/zero of=/dev/shm/eat bs=1M count=40'
    [[ $(podman inspect --format '{{.State.OOMKilled}}' eater) == true ]]
}

@test "podman run --cpus, --cpu-shares, --cpuset-cpus" {
    needs_controller cpu
    expect 0 podman run --rm --network none --cpus 0.5 --cpu-shares 2048 "$BUSYBOX" \
        sh -c 'cd /sys/fs/cgroup && cat cpu.max cpu.weight'
    [[ ${lines[0]} == "50000 100000" && ${lines[1]} -gt 100 ]]
    needs_controller cpuset
    prints 1 podman run --rm --network none --cpuset-cpus 0 "$BUSYBOX" nproc
}

@test "podman run --pids-limit: limits the number of processes" {
    needs_controller pids
    prints 7 podman run --rm --network none --pids-limit 7 "$BUSYBOX" cat /sys/fs/cgroup/pids.max
}

@test "podman update: limits of a running container change" {
    needs_controller memory
    start_sleeper --name sleeper --memory 64m
    expect 0 podman update --memory 128m sleeper
    [[ $(<"$(cgroup_of sleeper)/memory.max") == 134217728 ]]
}
