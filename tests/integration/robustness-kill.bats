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
