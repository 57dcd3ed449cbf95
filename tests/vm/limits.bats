#!/usr/bin/env bats
# The values of linux.resources in the kernel's files; config-linux.md of the OCI runtime specification,
# Documentation/admin-guide/cgroup-v2.rst. effects.bats tests the kernel's reactions.

load vm.bash

# Run ./bundle with resources given as Python, and print "FILE VALUE" lines of its cgroup: resources_make PYTHON FILE...
resources_make() {
    local statements=$1 dir file
    shift
    make_bundle sleep 1000
    edit_config "$statements"
    start_bundle pysbx-one || return
    dir=$(cgroup_of_bundle pysbx-one)
    output=''
    for file; do output+="$file $(<"$dir/$file")"$'\n'; done
    output=${output%$'\n'}
}

@test "linux.resources: cpu, memory with swap as the difference, pids, throttles of a device" {
    device=$(disk)
    major=${device%:*} minor=${device#*:}
    resources_make "resources['cpu'] = {'shares': 1024, 'quota': 20000, 'period': 50000, 'burst': 5000}
resources['memory'] = {'limit': 67108864, 'swap': 100663296, 'reservation': 33554432}
resources['pids'] = {'limit': 23}
device = {'major': $major, 'minor': $minor}
resources['blockIO'] = {'throttleReadBpsDevice': [device | {'rate': 1048576}], 'throttleWriteBpsDevice': [device | {'rate': 2097152}],
    'throttleReadIOPSDevice': [device | {'rate': 100}], 'throttleWriteIOPSDevice': [device | {'rate': 200}]}" \
        cpu.weight cpu.max cpu.max.burst memory.max memory.swap.max memory.low pids.max io.max
    output_is "cpu.weight 100
cpu.max 20000 50000
cpu.max.burst 5000
memory.max 67108864
memory.swap.max 33554432
memory.low 33554432
pids.max 23
io.max $device rbps=1048576 wbps=2097152 riops=100 wiops=200"
}

# bats test_tags=root
@test "linux.resources: cpus and mems, the weight of block devices, any file in unified" {
    resources_make 'resources["cpu"] = {"cpus": "0-1", "mems": "0"}
resources["blockIO"] = {"weight": 505}
resources["unified"] = {"memory.high": "50331648", "memory.oom.group": "1", "cpu.weight": "77"}' \
        cpuset.cpus cpuset.mems io.weight memory.high memory.oom.group cpu.weight
    output_is $'cpuset.cpus 0-1\ncpuset.mems 0\nio.weight default 5000\nmemory.high 50331648\nmemory.oom.group 1\ncpu.weight 77'
}

# bats test_tags=root,all
@test "linux.resources.cpu: the lowest and the highest shares" {
    resources_make 'resources["cpu"] = {"shares": 2}' cpu.weight
    output_is "cpu.weight 1"
    runtime delete --force pysbx-one
    resources_make 'resources["cpu"] = {"shares": 262144}' cpu.weight
    output_is "cpu.weight 10000"
}

# bats test_tags=root,all
@test "linux.resources.cpu: idle" {
    resources_make 'resources["cpu"] = {"idle": 1}' cpu.idle
    output_is "cpu.idle 1"
}

# bats test_tags=root,all
@test "linux.resources.memory: -1 is no limit" {
    resources_make 'resources["memory"] = {"limit": -1, "swap": -1}' memory.max memory.swap.max
    output_is $'memory.max max\nmemory.swap.max max'
}

# bats test_tags=root,all
@test "linux.resources.pids: -1 is no limit" {
    resources_make 'resources["pids"] = {"limit": -1}' pids.max
    output_is "pids.max max"
}

# Weights of single disks need io.cost, which root must enable for a disk, or the scheduler BFQ.

# bats test_tags=root,all
@test "linux.resources.blockIO: weight of a device" {
    needs_root "only root can switch on io.cost"
    device=$(disk)
    echo "$device enable=1" >/sys/fs/cgroup/io.cost.qos
    resources_make "resources['blockIO'] = {'weightDevice': [{'major': ${device%:*}, 'minor': ${device#*:}, 'weight': 505}]}" io.weight
    runtime delete --force pysbx-one
    echo "$device enable=0" >/sys/fs/cgroup/io.cost.qos
    output_is "io.weight default 100"$'\n'"$device 5000"
}

# modprobe without the streams of bats, because its domain, kmod_t, may not write to them.
kernel_module() {
    modprobe "$@" >/dev/null 2>&1 3>&- 4>&-
}

# bats test_tags=root,all
@test "linux.resources.blockIO: weights with the scheduler BFQ are the specification's own" {
    needs_root "only root can give a disk a scheduler"
    device=$(disk)
    kernel_module bfq
    echo bfq >"/sys/dev/block/$device/queue/scheduler"
    resources_make "resources['blockIO'] = {'weight': 300,
    'weightDevice': [{'major': ${device%:*}, 'minor': ${device#*:}, 'weight': 505}]}" io.bfq.weight
    runtime delete --force pysbx-one
    echo none >"/sys/dev/block/$device/queue/scheduler"
    kernel_module --remove bfq
    output_is "io.bfq.weight default 300"$'\n'"$device 505"
}

# bats test_tags=root,all
@test "linux.resources.hugepageLimits" {
    needs_root "systemd does not hand hugetlb to users"
    resources_make 'resources["hugepageLimits"] = [{"pageSize": "2MB", "limit": 4194304}]' hugetlb.2MB.max hugetlb.2MB.rsvd.max
    output_is $'hugetlb.2MB.max 4194304\nhugetlb.2MB.rsvd.max 4194304'
}

# bats test_tags=root
@test "update: checkBeforeUpdate refuses a memory limit below the current use" {
    make_bundle sh -c 'dd if=/dev/zero of=/dev/shm/eat bs=1M count=20 2>/dev/null; sleep 1000'
    edit_config 'resources["memory"] = {"limit": 67108864}'
    start_bundle pysbx-one
    dir=$(cgroup_of_bundle pysbx-one)
    wait_for eval "((\$(<'$dir/memory.current') > 20971520))"
    echo '{"memory": {"limit": 10485760, "checkBeforeUpdate": true}}' >limits.json
    fails 1 "in use" runtime update --resources limits.json pysbx-one
    [[ $(<"$dir/memory.max") == 67108864 ]]
    expect 0 runtime update --memory 134217728 pysbx-one
    [[ $(<"$dir/memory.max") == 134217728 ]]
}

@test "podman run --memory: above the limit the process is OOM-killed, and Podman reports it" {
    expect 137 podman run --name eater --network none --memory 20m --memory-swap 20m "$BUSYBOX" tail /dev/zero
    [[ $(podman inspect --format '{{.State.OOMKilled}}' eater) == true ]]
    expect 0 podman rm eater
    stderr_is_empty
}
