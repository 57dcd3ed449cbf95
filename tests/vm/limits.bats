#!/usr/bin/env bats
# Limits in force: what linux.resources becomes in the kernel's files, and what the kernel then does;
# config-linux.md of the OCI runtime specification, Documentation/admin-guide/cgroup-v2.rst.

load vm.bash

# Runs ./bundle with resources given as Python, and prints "FILE VALUE" lines of its cgroup: resources_make PYTHON FILE...
resources_make() {
    local statements=$1 dir file
    shift
    make_bundle sleep 1000
    edit_config "$statements"
    start_bundle pysbx-one || return
    dir=$(cgroup_of_process "$(pid_of pysbx-one)")
    output=''
    for file; do output+="$file $(<"$dir/$file")"$'\n'; done
    output=${output%$'\n'}
}

# The disk of this machine, as "MAJOR, MINOR" of the specification and as the kernel prints it.
disk() {
    lsblk --noheadings --nodeps --output MAJ:MIN "$(findmnt --noheadings --output SOURCE /)" | tr -d ' '
}

@test "linux.resources.cpu: shares, quota, period, burst" {
    resources_make 'resources["cpu"] = {"shares": 1024, "quota": 20000, "period": 50000, "burst": 5000}' cpu.weight cpu.max cpu.max.burst
    output_is $'cpu.weight 100\ncpu.max 20000 50000\ncpu.max.burst 5000'
}

@test "linux.resources.cpu: the least and the greatest of shares" {
    resources_make 'resources["cpu"] = {"shares": 2}' cpu.weight
    output_is "cpu.weight 1"
    runtime delete --force pysbx-one
    resources_make 'resources["cpu"] = {"shares": 262144}' cpu.weight
    output_is "cpu.weight 10000"
}

@test "linux.resources.cpu: idle" {
    resources_make 'resources["cpu"] = {"idle": 1}' cpu.idle
    output_is "cpu.idle 1"
}

@test "linux.resources.cpu: cpus and mems" {
    resources_make 'resources["cpu"] = {"cpus": "0-1", "mems": "0"}' cpuset.cpus cpuset.mems
    output_is $'cpuset.cpus 0-1\ncpuset.mems 0'
}

@test "linux.resources.memory: limit, swap as the difference, reservation" {
    resources_make 'resources["memory"] = {"limit": 67108864, "swap": 100663296, "reservation": 33554432}' memory.max memory.swap.max memory.low
    output_is $'memory.max 67108864\nmemory.swap.max 33554432\nmemory.low 33554432'
}

@test "linux.resources.memory: -1 is no limit" {
    resources_make 'resources["memory"] = {"limit": -1, "swap": -1}' memory.max memory.swap.max
    output_is $'memory.max max\nmemory.swap.max max'
}

@test "linux.resources.pids: -1 is no limit" {
    resources_make 'resources["pids"] = {"limit": -1}' pids.max
    output_is "pids.max max"
}

@test "linux.resources.pids: limit" {
    resources_make 'resources["pids"] = {"limit": 23}' pids.max
    output_is "pids.max 23"
}

@test "linux.resources.blockIO: weight and throttles of a device" {
    local device major minor
    device=$(disk)
    major=${device%:*} minor=${device#*:}
    resources_make "device = {'major': $major, 'minor': $minor}
resources['blockIO'] = {'throttleReadBpsDevice': [device | {'rate': 1048576}], 'throttleWriteBpsDevice': [device | {'rate': 2097152}],
    'throttleReadIOPSDevice': [device | {'rate': 100}], 'throttleWriteIOPSDevice': [device | {'rate': 200}]}" io.max
    output_is "io.max $device rbps=1048576 wbps=2097152 riops=100 wiops=200"
}

@test "linux.resources.blockIO: weight" {
    resources_make "resources['blockIO'] = {'weight': 505}" io.weight
    output_is "io.weight default 5000"
}

@test "linux.resources.hugepageLimits" {
    needs_root "systemd does not hand hugetlb to users"
    resources_make 'resources["hugepageLimits"] = [{"pageSize": "2MB", "limit": 4194304}]' hugetlb.2MB.max hugetlb.2MB.rsvd.max
    output_is $'hugetlb.2MB.max 4194304\nhugetlb.2MB.rsvd.max 4194304'
}

@test "linux.resources.unified: any file" {
    resources_make 'resources["unified"] = {"memory.high": "50331648", "memory.oom.group": "1", "cpu.weight": "77"}' memory.high memory.oom.group cpu.weight
    output_is $'memory.high 50331648\nmemory.oom.group 1\ncpu.weight 77'
}

@test "update: checkBeforeUpdate refuses a memory limit below what is in use" {
    make_bundle sh -c 'dd if=/dev/zero of=/dev/shm/eat bs=1M count=20 2>/dev/null; sleep 1000'
    edit_config 'resources["memory"] = {"limit": 67108864}'
    start_bundle pysbx-one
    local dir
    dir=$(cgroup_of_process "$(pid_of pysbx-one)")
    wait_for eval "((\$(<'$dir/memory.current') > 20971520))"
    echo '{"memory": {"limit": 10485760, "checkBeforeUpdate": true}}' >limits.json
    expect 1 runtime update --resources limits.json pysbx-one
    stderr_has "in use"
    [[ $(<"$dir/memory.max") == 67108864 ]]
    expect 0 runtime update --memory 134217728 pysbx-one
    [[ $(<"$dir/memory.max") == 134217728 ]]
}

@test "podman run --memory: beyond the limit the process is killed, and Podman says so" {
    expect 137 podman run --name eater --network none --memory 20m --memory-swap 20m "$BUSYBOX" tail /dev/zero
    [[ $(podman inspect --format '{{.State.OOMKilled}}' eater) == true ]]
}

@test "podman run --pids-limit: a fork bomb stops there, and is removed within seconds" {
    start_sleeper --name bomb --pids-limit 30
    podman exec --detach bomb sh -c 'f() { f | f & }; f'
    local dir
    dir=$(cgroup_of bomb)
    wait_for grep -qE '^max [1-9]' "$dir/pids.events"
    (($(<"$dir/pids.current") <= 30))
    expect 0 podman rm --force --time 0 bomb
}

# Starts a fork bomb that has reached its limit; its cgroup is in $dir.
start_bomb() {
    make_bundle sh -c 'f() { f | f & f; }; f'
    edit_config 'resources["pids"] = {"limit": 200}'
    start_bundle pysbx-one
    dir=$(cgroup_of_process "$(pid_of pysbx-one)")
    wait_for grep -qE '^max [1-9]' "$dir/pids.events"
    began=$(date +%s%N)
}

# A second on a real machine; this one is emulated, and the bomb itself has it busy.
was_quick() {
    (($(date +%s%N) - began < 10000000000))
}

@test "delete --force: ends a fork bomb at once" {
    local dir began
    start_bomb
    runtime delete --force pysbx-one
    was_quick
    [[ ! -e $dir ]]
}

@test "kill --all: ends a fork bomb at once" {
    local dir began
    start_bomb
    runtime kill --all pysbx-one KILL
    # systemd removes the cgroup as soon as it is empty.
    wait_for eval "! grep -qs 'populated 1' '$dir/cgroup.events'"
    was_quick
    [[ $(runtime state pysbx-one | jq -r .status) == stopped ]]
    runtime delete pysbx-one
}

@test "podman run --cpus: a busy loop gets its share" {
    podman run --detach --network none --name busy --cpus 0.4 "$BUSYBOX" sh -c 'while :; do :; done' >/dev/null
    local dir first last began ended
    dir=$(cgroup_of busy)
    sleep 1
    began=$(date +%s%N) first=$(awk '/^usage_usec/ { print $2 }' "$dir/cpu.stat")
    sleep 6
    ended=$(date +%s%N) last=$(awk '/^usage_usec/ { print $2 }' "$dir/cpu.stat")
    is_about "$(((last - first) * 1000 * 100 / (ended - began)))" 40 10
    grep -qE '^nr_throttled [1-9]' "$dir/cpu.stat"
}

@test "podman run --device-write-bps: writes keep to the rate" {
    local device began
    device=$(findmnt --noheadings --output SOURCE /)
    start_sleeper --name writer --device-write-bps "$device:1mb"
    file_is writer io.max "$(disk) rbps=max wbps=1048576 riops=max wiops=max"
    # The first call pays for what every call costs here.
    podman exec writer dd if=/dev/zero of=/tmp/file bs=64k count=1 oflag=direct conv=notrunc
    expect 0 podman exec writer sh -c 'read -r start rest </proc/uptime
        dd if=/dev/zero of=/tmp/file bs=64k count=96 oflag=direct 2>/dev/null
        read -r end rest </proc/uptime; echo $start $end'
    is_about "$(awk '{ print 6 / ($2 - $1) }' <<<"$output")" 1 15
}

@test "podman pause: no process runs until podman unpause" {
    podman run --detach --network none --name busy "$BUSYBOX" sh -c 'while :; do :; done' >/dev/null
    local dir before
    dir=$(cgroup_of busy)
    podman pause busy
    before=$(grep usage_usec "$dir/cpu.stat")
    sleep 1
    [[ $(grep usage_usec "$dir/cpu.stat") == "$before" ]]
    podman unpause busy
    wait_for eval "[[ \$(grep usage_usec '$dir/cpu.stat') != '$before' ]]"
}
