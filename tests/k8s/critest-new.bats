#!/usr/bin/env bats
# critest of cri-tools, which tests container runtimes for Kubernetes, through the CRI plugin of a newer containerd:
# once with runc and once with this runtime. Every test that passes with runc passes with this runtime.
# once: the daemon is root's
# slow: two runs of critest
# prepare: tests/setup/engines --complete
# prepare: tests/setup/critest
# prepare: tests/setup/containerd

export NEW_CONTAINERD=1
load ../lib/podman.bash
load ../lib/engines.bash
load pods.bash
load critest.bash

# Fewer passed tests with runc are a fault of the environment. 104 pass with containerd 2.4.
LEAST=100

@test "critest with runc, as the baseline" {
    run_critest runc
}

@test "critest with this runtime" {
    run_critest pysbx
}

@test "every test that passes with runc passes with this runtime" {
    what_runc_passes "$LEAST"
}

@test "this runtime passes the tests of user namespaces, which this runc may not offer" {
    # One of six needs a file system whose mounts can be mapped.
    (($(grep -oE 'UserNamespaces [^"]*" classname="[^"]*" status="passed"' "$BATS_FILE_TMPDIR/pysbx.xml" | wc -l) >= 5))
}
