#!/usr/bin/env bats
# Whole suites, run cold and warm: the small programs of tests/warm/programs, and CPython's own tests
# (tests/warm/regrtest.py).
# slow: hundreds of interpreters, most of which wait
# images: pandas pandas-trixie python-next-forky python-testsuite python-testsuite-trixie
# once: the behaviour of Python after a warm start does not depend on the mode

load ../lib/warm.bash

# A selection of CPython's own tests takes a minute on an idle machine, all of them half an hour.
((BATS_TEST_TIMEOUT >= 900)) || export BATS_TEST_TIMEOUT=900
[[ ${TEST_REGRTEST:-} != --all ]] || BATS_TEST_TIMEOUT=7200

# The interpreter's view of itself does not depend on how the runtime was compiled. The other files test the runtime's
# own part in it. With sanitizers these starts would take a third of the total time.
needs_plain_build() {
    ! grep -q __asan_init "$RUNTIME" || skip "compares the build for users"
}

# Each release runs in one of the two modes, because the result does not depend on the mode. If TEST_SUITES selects
# tests, each runs in both.
needs_mode() {
    [[ $PODMAN_MODE == "$1" || ${TEST_REGRTEST:-} ]] || skip "takes two minutes, and runs in mode $1"
}

@test "small programs of tests/warm, this distribution" {
    needs_plain_build
    compare_programs pandas
}

@test "small programs of tests/warm, Debian 13" {
    needs_plain_build
    compare_programs pandas-trixie
}

@test "small programs of tests/warm, Python 3.15 and glibc 2.43 (Debian 14)" {
    needs_plain_build
    compare_programs python-next-forky
}

@test "CPython's own tests, a selection; this distribution" {
    needs_plain_build
    needs_mode root
    compare_regrtest python-testsuite
}

@test "CPython's own tests, a selection; Debian 13" {
    needs_plain_build
    needs_mode rootless
    compare_regrtest python-testsuite-trixie
}
