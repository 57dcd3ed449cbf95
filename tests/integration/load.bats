#!/usr/bin/env bats
# Many containers, in sequence and at the same time. None fails, and none leaves anything behind.
# once: many containers make the same load in both modes

load ../lib/podman.bash

# Run this number of containers in sequence.
run_many() {
    local i
    for ((i = 1; i <= $1; i++)); do
        prints "$i" podman run --rm --network none "$BUSYBOX" echo "$i"
    done
}

@test "podman run --rm: ten in sequence" {
    run_many 10
}

# bats test_tags=all
@test "podman run --rm: two hundred in sequence" {
    run_many 200
}

@test "podman run -d: twenty at the same time, all running, all removed" {
    local -a pids=()
    for i in {1..20}; do
        podman run -d --name "many$i" --network none "$BUSYBOX" sleep 1000 >/dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i"; done
    [[ $(podman ps --quiet | wc -l) == 20 ]]
    for i in {1..20}; do podman exec "many$i" true; done
    expect 0 podman rm --all --force --time 0
    stderr_is_empty
}

@test "podman start, stop: the same container ten times" {
    podman create --name same --network none "$BUSYBOX" true
    for i in {1..10}; do
        podman start --attach same
    done
}
