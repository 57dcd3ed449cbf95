#!/usr/bin/env bats
# Whatever way an import looks at its surroundings, a snapshot with what it saw is for containers that look the same
# there: contrib/docs/pages/explanation/snapshots.md, "When a snapshot is used". The rows are in tests/warm/accesses.py.
# images: python
# slow: some two hundred snapshots
# once: imports are observed in the same way in both modes

load ../lib/warm.bash

setup_file() {
    # An import that waits for standard input is waited for.
    configure_warm '{"secondRun": false, "retryAfter": 0, "template": {"timeout": 5}}'
}

# Runs a group of rows; with -v, tests/run shows which were warm.
look() {
    use_image python
    "$TESTS/warm/access.py" bundle "$1" "${TEST_ACCESS:-}" >&3
}

@test "access: variables of the environment" {
    look variables
}

@test "access: files, directories, links, and what is made of them" {
    look files
}

@test "access: files that have changed meanwhile, and whose status does not tell" {
    look "changed files"
}

@test "access: the host, the container, the process, the network, standard input" {
    look host
}
