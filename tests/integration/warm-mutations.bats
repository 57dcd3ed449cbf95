#!/usr/bin/env bats
# Random changes to files, links, mounts, variables, limits, devices, packages, streams, shared memory, CPUs, privileges
# and namespaces, while a snapshot is usable. A program sees the same as cold, whether it starts warm or not. It sees
# random bytes that no other start has seen. TEST_MUTATIONS is the number of changes, and TEST_MUTATIONS_SEED repeats the choices
# of an earlier run. TEST_MUTATIONS_KINDS selects worlds. tests/README.md has the command for ten thousand.
# images: python
# once: a snapshot is compared in the same way in both modes

load ../lib/warm.bash

setup_file() {
    # The runtime waits for an import that reads standard input.
    configure_warm '{"secondRun": false, "retryAfter": 0, "maxSize": 1073741824, "template": {"timeout": 5}}'
}

@test "random mutations: no start shows what was before" {
    use_image python
    MUTATIONS_KINDS=${TEST_MUTATIONS_KINDS:-files,state,compared,random} MUTATIONS_SEED=${TEST_MUTATIONS_SEED:-1} \
        "$TESTS/warm/mutate.py" bundle "${TEST_MUTATIONS:-30}" >&3
}
