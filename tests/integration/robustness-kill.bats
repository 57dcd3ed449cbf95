#!/usr/bin/env bats
# Kills a third of the runtimes at a random instant, in a great number of containers. Nothing may remain.
# robustness.bats kills the runtime at each of its system calls. TEST_KILLS is the number of containers, and
# TEST_KILLS_SEED repeats the choices of an earlier run. tests/README.md has the command for ten thousand.
# images: python
# slow: a thousand containers

load ../lib/warm.bash

@test "a third of the runtimes is killed at a random instant: nothing remains after delete --force" {
    local count=${TEST_KILLS:-1000}
    ! is_rootless || count=$((count / 4))
    use_image python
    preload json
    program require 'import json'
    mv bundle warm
    make_bundle true
    mv bundle cold
    STORE=$(warm_store) KILLS_SEED=${TEST_KILLS_SEED:-} "$TESTS/lib/kills" cold warm "$count" >&3
}

# Kill create with SIGKILL when it enters the Nth call of a system call.
kill_create_at() {
    local status=0
    strace -q -o trace -e "inject=$1:signal=KILL:when=$2" "$RUNTIME" create --bundle bundle second </dev/null >out 2>err || status=$?
    [[ $status == 137 ]]
}

@test "kill -9 of create before it has made the cgroup: delete --force spares the container that holds that cgroup" {
    needs_root "the cgroups of a user are not shared"
    needs_cgroups
    make_bundle_with 'linux["cgroupsPath"] = "/shared-by-two"' sleep 1000
    start_box
    # The first directory is that of the state, the second is the cgroup. The record is on disk.
    kill_create_at /^mkdir 2
    [[ -s $RUNTIME_STATE/second/state ]]
    expect 0 runtime delete --force second
    [[ $(runtime state box) == *'"status": "running"'* ]]
    runtime delete --force box
}

@test "kill -9 of create after it has made the cgroup: delete --force removes it" {
    needs_root "the cgroups of a user are not shared"
    needs_cgroups
    make_bundle_with 'linux["cgroupsPath"] = "/of-a-killed-one"' sleep 1000
    # Before and after the note that the cgroup is the container's own.
    for call in mknodat bind; do
        kill_create_at "$call" 1
        [[ -d /sys/fs/cgroup/of-a-killed-one ]]
        expect 0 runtime delete --force second
        [[ ! -e /sys/fs/cgroup/of-a-killed-one ]]
    done
}
