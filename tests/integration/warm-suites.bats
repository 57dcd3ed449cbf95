#!/usr/bin/env bats
# Whole suites, run cold and warm: the small programs of tests/warm/programs, and CPython's own tests (tests/warm/regrtest.py).
# images: pandas pandas-trixie python-testsuite python-testsuite-trixie

load ../lib/warm.bash

setup_file() {
    configure_warm
}

# CPython's own tests take a minute of a quiet machine.
export BATS_TEST_TIMEOUT=900

setup() {
    remember_leftovers
    cd "$BATS_TEST_TMPDIR" || return
}

# Runs tests/warm/programs in containers around the root of an image.
compare_programs() {
    local -a programs
    use_image "$1"
    # A container's standard streams are never closed: the runtime puts /dev/null there.
    mapfile -t programs < <(grep -L '^# closed:' "$TESTS"/warm/programs/*.py)
    "$TESTS/warm/compare" --cold "$TESTS/warm/launch.py cold $PWD/bundle" --warm "$TESTS/warm/launch.py warm $PWD/bundle" "${programs[@]}"
}

@test "small programs of tests/warm, this distribution" {
    compare_programs pandas
}

@test "small programs of tests/warm, Debian 13" {
    compare_programs pandas-trixie
}

@test "CPython's own tests, a selection; this distribution" {
    use_image python-testsuite
    # shellcheck disable=SC2086 # words
    "$TESTS/warm/regrtest.py" --bundle bundle ${TEST_REGRTEST:-}
}

@test "CPython's own tests, a selection; Debian 13" {
    use_image python-testsuite-trixie
    # shellcheck disable=SC2086 # words
    "$TESTS/warm/regrtest.py" --bundle bundle ${TEST_REGRTEST:-}
}
