#!/usr/bin/env bats
# The small programs of tests/warm/programs, run cold and warm.
# slow: a hundred interpreters, most of which wait
# images: pandas pandas-trixie
# once: the behaviour of Python after a warm start does not depend on the mode

load ../lib/warm.bash

# The interpreter's view of itself does not depend on how the runtime was compiled. The other files test the runtime's
# own part in it. With sanitizers these starts would take a third of the total time.
needs_plain_build() {
    ! grep -q __asan_init "$RUNTIME" || skip "compares the build for users"
}

@test "small programs of tests/warm, this distribution" {
    needs_plain_build
    compare_programs pandas
}

# bats test_tags=all
@test "small programs of tests/warm, Debian 13" {
    needs_plain_build
    compare_programs pandas-trixie
}
