#!/usr/bin/env bats
# The example for Ray: contrib/k8s/ray/snippets.py.
# once: the caller makes no difference to the example
# prepare: tests/setup/ray

load ../lib/podman.bash
load page.bash

setup() {
    begin_test
    python=$(realpath -m "${BUILD:-$TESTS/../build}/ray")/bin/python
    [[ -x $python ]] || {
        echo "there is no Ray: tests/setup/ray"
        return 1
    }
    export PYSBX_RUNTIME=$RUNTIME RAY_USAGE_STATS_ENABLED=0 RAY_DISABLE_IMPORT_WARNING=1 PYTHONDONTWRITEBYTECODE=1
    # Sockets have paths of at most 107 bytes.
    export RAY_TMPDIR=/run/ray XDG_RUNTIME_DIR=/run/pysbx-ray
    PYTHONPATH=$(realpath "$BATS_TEST_DIRNAME/../../contrib/k8s/ray")
    export PYTHONPATH
    mkdir -p "$RAY_TMPDIR" "$XDG_RUNTIME_DIR"
    chmod 0700 "$XDG_RUNTIME_DIR"
}

teardown() {
    rm -rf "$RAY_TMPDIR" "$XDG_RUNTIME_DIR" /run/secret-of-the-node
    check_leftovers
}

@test "a thousand untrusted snippets on two nodes: each has its own outcome, and the actors live on" {
    expect 0 timeout 280 "$python" "$BATS_TEST_DIRNAME/snippets-on-ray"
    output_has "1000 snippets on 2 nodes"
}

@test "Ray: the commands of the page; outcomes in the order of the programs" {
    ln -s "$(realpath "$BATS_TEST_DIRNAME/../../contrib")" contrib
    python() { timeout 120 "$python" "$@"; }
    expect 0 follow Ray
    [[ $(<snippets.json) == '["6 * 7", "1 / 0"]' ]]
    [[ $(python3 -c 'import json, sys; print([(one["value"], one["stdout"], bool(one["error"])) for one in json.load(sys.stdin)])' <<<"$output") == \
        "[('42', '', False), (None, '', True)]" ]]
}
