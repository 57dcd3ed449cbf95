#!/usr/bin/env bats
# Limits in force: the kernel's reactions; Documentation/admin-guide/cgroup-v2.rst. As root, because the manager that
# wrote a limit, and its user, make no difference to the kernel.

load vm.bash

# bats test_tags=all
@test "podman run --pids-limit: a fork bomb stops there, and is removed within seconds" {
    start_sleeper --name bomb --pids-limit 30
    podman exec --detach bomb sh -c 'f() { f | f & }; f'
    local dir
    dir=$(cgroup_of bomb)
    wait_for grep -qE '^max [1-9]' "$dir/pids.events"
    (($(<"$dir/pids.current") <= 30))
    expect 0 podman rm --force --time 0 bomb
}

# Start a fork bomb that has reached its limit. Its cgroup is in $dir. A shell that cannot fork ends, and as first
# process it would end all others, so the first process is not part of the bomb.
start_bomb() {
    make_bundle sh -c 'f() { f | f & f; }; f & exec sleep 1000'
    edit_config 'resources["pids"] = {"limit": 200}'
    start_bundle pysbx-one
    dir=$(cgroup_of_bundle pysbx-one)
    wait_for grep -qE '^max [1-9]' "$dir/pids.events"
    began=$(date +%s%N)
}

# Print how often the kernel has refused to fork for the bomb.
refusals() {
    awk '/^max / { print $2 }' "$dir/pids.events"
}

# bats test_tags=all
@test "linux.resources.pids: during a fork bomb, the rest of the machine can start programs" {
    local dir began before n
    start_bomb
    before=$(refusals)
    # Without the limit the bomb has all pids or all memory, and none of these starts.
    for ((n = 0; n < 20; n++)); do busybox true; done
    (($(<"$dir/pids.current") <= 200))
    # The bomb continues.
    wait_for eval '(($(refusals) > before))'
}

# This takes 0.1 to 0.9 s in this machine if its host is idle. A bomb that is only partly killed never ends.
was_quick() {
    (($(date +%s%N) - began < 30000000000))
}

@test "delete --force: ends a fork bomb immediately" {
    local dir began
    start_bomb
    runtime delete --force pysbx-one
    was_quick
    [[ ! -e $dir ]]
}

# bats test_tags=all
@test "kill --all: ends a fork bomb immediately" {
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

# bats test_tags=all
@test "podman run --cpu-shares: busy loops on one CPU share it by their weights" {
    local shares
    local -a dir=() first=() last=()
    for shares in 1024 4096; do
        podman run --detach --network none --name "busy$shares" --cpuset-cpus 0 --cpu-shares "$shares" "$BUSYBOX" \
            sh -c 'while :; do :; done' >/dev/null
        dir+=("$(cgroup_of "busy$shares")")
    done
    mapfile -t first < <(awk '/^usage_usec/ { print $2 }' "${dir[@]/%//cpu.stat}")
    sleep 5
    mapfile -t last < <(awk '/^usage_usec/ { print $2 }' "${dir[@]/%//cpu.stat}")
    is_about "$(((last[1] - first[1]) * 1000 / (last[0] - first[0])))" "$(($(<"${dir[1]}/cpu.weight") * 1000 / $(<"${dir[0]}/cpu.weight")))" 10
}

@test "podman run --device-write-bps: writes keep to the rate" {
    local device began
    device=$(findmnt --noheadings --output SOURCE /)
    start_sleeper --name writer --device-write-bps "$device:1mb"
    file_is writer io.max "$(disk) rbps=max wbps=1048576 riops=max wiops=max"
    # The first call pays for later ones.
    podman exec writer dd if=/dev/zero of=/tmp/file bs=64k count=1 oflag=direct conv=notrunc
    expect 0 podman exec writer sh -c 'read -r start rest </proc/uptime
        dd if=/dev/zero of=/tmp/file bs=64k count=96 oflag=direct 2>/dev/null
        read -r end rest </proc/uptime; echo $start $end'
    is_about "$(awk '{ print 6 / ($2 - $1) }' <<<"$output")" 1 15
}

# bats test_tags=all
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
