#!/usr/bin/env bats
# CPython's own tests (tests/warm/regrtest.py), run cold and warm. The small programs of tests/warm/programs, run with
# the next Python.
# slow: hundreds of interpreters
# images: python-next-forky python-testsuite python-testsuite-trixie
# all: three more images, and four minutes

load ../lib/warm.bash

# A selection of CPython's own tests takes a minute on an idle machine, all of them half an hour.
((BATS_TEST_TIMEOUT >= 900)) || export BATS_TEST_TIMEOUT=900
[[ ${TEST_REGRTEST:-} != --all ]] || BATS_TEST_TIMEOUT=7200

# The interpreter's view of itself does not depend on how the runtime was compiled. The other files test the runtime's
# own part in it. With sanitizers these starts would take a third of the total time.
needs_plain_build() {
    ! grep -q __asan_init "$RUNTIME" || skip "compares the build for users"
}

@test "small programs of tests/warm, Python 3.15 and glibc 2.43 (Debian 14)" {
    needs_plain_build
    compare_programs python-next-forky
}

@test "CPython's own tests, a selection; this distribution" {
    needs_plain_build
    compare_regrtest python-testsuite
}

@test "CPython's own tests, a selection; Debian 13" {
    needs_plain_build
    compare_regrtest python-testsuite-trixie
}
