#!/usr/bin/env bats
# critest of cri-tools, which tests container runtimes for Kubernetes, through the CRI plugin of containerd: once with
# runc and once with this runtime. Every test that passes with runc passes with this runtime.
# once: the daemon is root's
# slow: two runs of critest

load ../lib/podman.bash
load ../lib/engines.bash
load pods.bash

# Tests that cannot pass here, as regular expressions, and why. Neither runtime runs them.
LEFT_OUT='
public image with digest    | an image with the digest that the test names exists only in a registry of the internet
should support MaskedPaths  | the busybox of the distribution runs its own ls, although the file is masked
'
# Fewer passed tests with runc are a fault of the environment. 91 pass with containerd 1.6.
LEAST=85

left_out() {
    sed -n 's/ *|.*//; /./p' <<<"$LEFT_OUT"
    # The kernel counts the memory of a container only in its cgroup.
    grep -qw memory /sys/fs/cgroup/cgroup.controllers || echo 'OOMKilled'
}

# Run critest with a handler, with its report in $BATS_FILE_TMPDIR/HANDLER.xml. Its own exit status tells only whether
# all tests pass, which they do not with runc either.
run_critest() {
    local pattern
    local -a skip=()
    while read -r pattern; do skip+=(-ginkgo.skip "$pattern"); done < <(left_out)
    critest -runtime-endpoint "unix://$CONTAINERD_ADDRESS" -runtime-handler "$1" "${skip[@]}" -ginkgo.no-color \
        -ginkgo.junit-report "$BATS_FILE_TMPDIR/$1.xml" >"$BATS_FILE_TMPDIR/$1.log" 2>&1 || true
    [[ -s $BATS_FILE_TMPDIR/$1.xml ]] || { tail -n 20 "$BATS_FILE_TMPDIR/$1.log"; return 1; }
}

setup_file() {
    has_pods critest || return 0
    start_pods
}

teardown_file() {
    stop_pods
}

setup() {
    needs_pods critest
    begin_test
}

teardown() {
    end_pods
}

@test "critest with runc, as the baseline" {
    run_critest runc
}

@test "critest with this runtime" {
    run_critest pysbx
}

@test "every test that passes with runc passes with this runtime" {
    "$BATS_TEST_DIRNAME/compare" "$LEAST" "$BATS_FILE_TMPDIR/runc.xml" "$BATS_FILE_TMPDIR/pysbx.xml" >table || {
        cat table
        return 1
    }
    sed 's/^/# note: /' table >&3
}

@test "compare: a test that passes with runc only, a run that is too small, a name that is there twice" {
    report() { printf '<testsuites>'; printf '<testcase name="[It] [k8s.io] %s" status="%s"/>' "$@"; printf '</testsuites>'; }
    report a passed b failed c skipped >runc.xml
    report a passed b passed c skipped >more.xml
    report a passed b failed c passed >pysbx.xml
    expect 0 "$BATS_TEST_DIRNAME/compare" 1 runc.xml pysbx.xml
    output_has "failed with runc, failed with pysbx: b"
    expect 1 "$BATS_TEST_DIRNAME/compare" 2 runc.xml pysbx.xml
    output_has "only 1 tests pass with runc, not 2"
    for state in failed skipped timedout; do
        report a "$state" b passed >less.xml
        expect 1 "$BATS_TEST_DIRNAME/compare" 1 runc.xml less.xml
        output_has "1 tests pass with runc only"
    done
    report b failed >less.xml
    expect 1 "$BATS_TEST_DIRNAME/compare" 1 runc.xml less.xml
    output_has "passed with runc, missing with less: a"
    report a passed a failed >twice.xml
    expect 1 "$BATS_TEST_DIRNAME/compare" 1 runc.xml twice.xml
    stderr_has "two tests with the name 'a'"
}
