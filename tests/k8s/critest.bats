#!/usr/bin/env bats
# critest of cri-tools, which tests container runtimes for Kubernetes, through the CRI plugin of the distribution's containerd:
# once with runc and once with this runtime. Every test that passes with runc passes with this runtime.
# once: the daemon is root's
# slow: two runs of critest
# prepare: tests/setup/engines --complete
# prepare: tests/setup/critest

load ../lib/podman.bash
load ../lib/engines.bash
load pods.bash
load critest.bash

# Fewer passed tests with runc are a fault of the environment. 89 pass with containerd 1.6.
LEAST=85

@test "critest with runc, as the baseline" {
    run_critest runc
}

@test "critest with this runtime" {
    run_critest pysbx
}

@test "every test that passes with runc passes with this runtime" {
    what_runc_passes "$LEAST"
}

@test "compare: a test that passes with runc only, a run that is too small, a name that is there twice" {
    report() { printf '<testsuites>'; printf '<testcase name="[It] [k8s.io] %s" status="%s"/>' "$@"; printf '</testsuites>'; }
    report a passed b failed c skipped >runc.xml
    report a passed b passed c skipped >more.xml
    report a passed b failed c passed >pysbx.xml
    shows "failed with runc, failed with pysbx: b" "$BATS_TEST_DIRNAME/compare" 1 runc.xml pysbx.xml
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
    fails 1 "two tests with the name 'a'" "$BATS_TEST_DIRNAME/compare" 1 runc.xml twice.xml
}
