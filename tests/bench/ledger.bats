#!/usr/bin/env bats
# The costs of commands without a clock: system calls by name, processes, bytes, files, page faults and waits. ledger.txt
# has the expected figures and says how to change them. ledger.py counts.

load ../lib/podman.bash
load ../lib/warm-config.bash

setup_file() {
    [[ -x ${TEST_PYSBX:-} ]] || { echo "TEST_PYSBX names no interpreter with the package: make check CHECK=ledger" && return 1; }
    configure_warm
}

setup() {
    needs_root "a user's containers need other system calls"
    export PYTHONDONTWRITEBYTECODE=1
    begin_test
}

teardown() {
    check_leftovers
}

# Compare columns of the ledger, or write them with TEST_LEDGER=--update.
costs_are_expected() {
    # shellcheck disable=SC2086 # no word if there is no option
    "$TESTS/bench/ledger.py" ${TEST_LEDGER:-} "$@"
}

@test "run of /bin/true costs what the ledger says: plain, with Podman's filter, with device rules" {
    costs_are_expected run run-filter run-devices
}

@test "exec, and create with start, kill and delete, cost what the ledger says" {
    costs_are_expected exec life
}

@test "a warm start of Python costs what the ledger says: bare, with pandas; and the comparison of its files later" {
    costs_are_expected warm warm-pandas compare
}

@test "a call of a decorated function costs its caller what the ledger says, without and with a ready container; and a run in a session" {
    costs_are_expected call ready session
}
