#!/usr/bin/env bats
# Whole suites, run cold and warm: the small programs of tests/warm/programs, and CPython's own tests (tests/warm/regrtest.py).
# slow: hundreds of interpreters, most of which wait
# images: pandas pandas-trixie python-next-forky python-testsuite python-testsuite-trixie
# once: what Python does after a warm start does not depend on the mode

load ../lib/warm.bash

# A selection of CPython's own tests takes a minute of a quiet machine, all of them half an hour.
((BATS_TEST_TIMEOUT >= 900)) || export BATS_TEST_TIMEOUT=900
[[ ${TEST_REGRTEST:-} != --all ]] || BATS_TEST_TIMEOUT=7200

# What an interpreter sees of itself does not depend on how the runtime was compiled, and the runtime's own part in it,
# the same starts again and again, is in the other files: with sanitizers it would be a third of all their time.
needs_plain_build() {
    ! grep -q __asan_init "$RUNTIME" || skip "compared with the build that users have"
}

# Each release in one of the two modes, for it depends on that as little; with a choice of one's own, in both.
needs_mode() {
    [[ $PODMAN_MODE == "$1" || ${TEST_REGRTEST:-} ]] || skip "takes two minutes, and is done by the mode $1"
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
