#!/usr/bin/env bats
# Statistics of running containers agree with the kernel's own numbers: events, ps, podman stats, podman top.

load vm.bash

# bats test_tags=all
@test "podman stats: limit of memory and number of processes" {
    start_sleeper --name sleeper --memory 64m
    prints "67108864 1" podman stats --no-stream --no-reset --format '{{.MemLimit}} {{.PIDs}}' sleeper
}

# bats test_tags=all
@test "podman top: the processes of the container" {
    start_sleeper --name sleeper
    podman exec --detach sleeper sleep 500
    expect 0 podman top sleeper args
    [[ ${lines[1]} == "sleep 1000"* && ${lines[2]} == "sleep 500"* ]]
}

@test "events --stats: memory, processes and CPU time as in the cgroup's files" {
    make_bundle sh -c 'dd if=/dev/zero of=/dev/shm/eat bs=1M count=20 2>/dev/null; sleep 1000'
    edit_config 'resources["memory"] = {"limit": 67108864, "swap": 67108864}; resources["pids"] = {"limit": 23}'
    start_bundle pysbx-one
    dir=$(cgroup_of_bundle pysbx-one)
    wait_for eval "((\$(<'$dir/memory.current') > 20971520))"
    tells 'it["type"] == "stats" and it["id"] == "pysbx-one"' runtime events --stats pysbx-one
    output_holds "it['data']['pids'] == {'current': $(<"$dir/pids.current"), 'limit': 23}"
    output_holds "it['data']['memory']['usage']['limit'] == 67108864"
    is_about "$(jq .data.memory.usage.usage <<<"$output")" "$(<"$dir/memory.current")" 5
    is_about "$(jq .data.cpu.usage.total <<<"$output")" "$(awk '/^usage_usec/ { print $2 * 1000 }' "$dir/cpu.stat")" 5
}

@test "events --stats: throttled periods and bytes written as in the cgroup's files" {
    # Not /tmp, which is in memory.
    disk=$(mktemp --directory /var/tmp/pysbx.XXXX)
    cd "$disk"
    make_bundle sh -c 'dd if=/dev/zero of=/file bs=64k count=16 oflag=direct 2>/dev/null
        while [ ! -e /stop ]; do :; done; echo >/ready; sleep 1000'
    edit_config 'config["root"]["readonly"] = False; resources["cpu"] = {"quota": 20000, "period": 100000}'
    start_bundle pysbx-one
    dir=$(cgroup_of_bundle pysbx-one)
    wait_for grep -qE '^nr_throttled [1-9]' "$dir/cpu.stat"
    : >bundle/rootfs/stop
    wait_for test -e bundle/rootfs/ready
    before=$(awk '/^nr_throttled/ { print $2 }' "$dir/cpu.stat")
    expect 0 runtime events --stats pysbx-one
    # The last steps of a shell may be throttled as well.
    (($(jq .data.cpu.throttling.throttledPeriods <<<"$output") >= before))
    (($(jq .data.cpu.throttling.throttledPeriods <<<"$output") <= $(awk '/^nr_throttled/ { print $2 }' "$dir/cpu.stat")))
    before=$(sed -n "s/^$(disk) .*wbytes=\([0-9]*\).*/\1/p" "$dir/io.stat")
    ((before >= 1 << 20))
    output_holds "{'major': $(disk | cut -d : -f 1), 'minor': $(disk | cut -d : -f 2), 'op': 'Write', 'value': $before} in it['data']['blkio']['ioServiceBytesRecursive']"
    runtime delete --force pysbx-one
    cd /
    rm -rf "$disk"
}

# bats test_tags=all
@test "ps: the processes in the cgroup" {
    make_bundle sh -c 'sleep 500 & sleep 1000'
    start_bundle pysbx-one
    dir=$(cgroup_of_bundle pysbx-one)
    wait_for eval "((\$(<'$dir/pids.current') == 3)) || ((\$(<'$dir/pids.current') == 2))"
    expect 0 runtime ps --format json pysbx-one
    [[ $(jq -r 'sort[]' <<<"$output") == "$(sort -n "$dir/cgroup.procs")" ]]
}

@test "events: a process that is OOM-killed" {
    make_bundle sleep 1000
    edit_config 'resources["memory"] = {"limit": 20971520, "swap": 20971520}'
    start_bundle pysbx-one
    "$RUNTIME" events --interval 1h pysbx-one >reported 3>&- &
    local events=$!
    wait_for eval "ls -l /proc/$events/fd | grep -q inotify"
    expect 137 runtime exec pysbx-one tail /dev/zero
    wait_for grep -q '"type":"oom","id":"pysbx-one"' reported
    runtime delete --force pysbx-one
    wait "$events"
    [[ $(wc -l <reported) == 1 ]]
}
