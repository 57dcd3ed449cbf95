#!/usr/bin/env bats
# Whole suites, run cold and warm: the small programs of tests/warm/programs, and CPython's own tests (tests/warm/regrtest.py).
# images: pandas pandas-trixie python-testsuite python-testsuite-trixie

load ../lib/warm.bash

# A selection of CPython's own tests takes a minute of a quiet machine, all of them half an hour.
((BATS_TEST_TIMEOUT >= 900)) || export BATS_TEST_TIMEOUT=900
[[ ${TEST_REGRTEST:-} != --all ]] || BATS_TEST_TIMEOUT=7200

@test "small programs of tests/warm, this distribution" {
    compare_programs pandas
}

@test "small programs of tests/warm, Debian 13" {
    compare_programs pandas-trixie
}

@test "CPython's own tests, a selection; this distribution" {
    compare_regrtest python-testsuite
}

@test "CPython's own tests, a selection; Debian 13" {
    compare_regrtest python-testsuite-trixie
}
