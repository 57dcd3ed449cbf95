#!/usr/bin/env bats
# An import can inspect its surroundings in many ways. Every way restricts the snapshot to containers whose surroundings
# look the same: contrib/docs/pages/explanation/snapshots.md, "When a snapshot is used". The rows are in
# tests/warm/accesses.py.
# images: python
# slow: some two hundred snapshots
# once: imports are observed in the same way in both modes

load ../lib/warm.bash

setup_file() {
    # The runtime waits for an import that reads standard input.
    configure_warm '{"secondRun": false, "retryAfter": 0, "template": {"timeout": 5}}'
}

# Run a group of rows. With -v, tests/run shows the warm ones.
look() {
    use_image python
    "$TESTS/warm/access.py" bundle "$1" "${TEST_ACCESS:-}" >&3
}

@test "access: variables of the environment" {
    look variables
}

@test "access: files, directories, links, and data derived from them" {
    look files
}

@test "access: files that change in the meantime although their status does not show it" {
    look "changed files"
}

@test "access: the host, the container, the process, the network, standard input" {
    look host
}

@test "privileges: an interpreter whose execve changes credentials starts cold, any other one keeps what execve leaves" {
    needs_root "gives files capabilities and owners"
    use_image python
    mkdir -m 755 copies
    chmod 711 "$PWD"
    "$TESTS/warm/privileges.py" bundle copies
}
