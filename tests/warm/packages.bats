#!/usr/bin/env bats
# The tests of CPython, numpy, pandas and scipy themselves, run cold and in a restored interpreter that has the modules
# already. Each takes five minutes; TEST_PACKAGES_SEC is another time. `make check-long` runs this file.
# images: pandas
# prepare: tests/setup/allocators
# once: the behaviour of Python after a warm start does not depend on the mode

load ../lib/warm.bash

((BATS_TEST_TIMEOUT >= 3600)) || export BATS_TEST_TIMEOUT=3600

setup_file() {
    # Two hundred libraries, on a machine that is busy with the tests.
    configure_warm '{"secondRun": false, "retryAfter": 0, "template": {"timeout": 300}}'
}

compare_package() {
    local version site
    [[ -d bundle ]] || use_image pandas
    version=$(cold -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    site=$("$TESTS/setup/${2:-science}" "$version") || skip "without a network: run make check-long, or tests/setup/${2:-science} $version"
    "$TESTS/warm/packages.py" --bundle bundle --site "$site" --seconds "${TEST_PACKAGES_SEC:-300}" "$1" >&3
}

@test "numpy's own tests" {
    compare_package numpy
}

@test "scipy's own tests" {
    compare_package scipy
}

@test "pandas's own tests" {
    compare_package pandas
}

@test "CPython's own tests" {
    compare_package test cpython-tests
}

# Allocators that give pages back, and expect zeros of them.
with_allocator() {
    local allocator=$1 allocators
    allocators=$("$TESTS/setup/allocators")
    [[ -e $allocators/jemalloc.so ]] || skip "the allocators come from packages of Debian"
    use_image pandas
    configure 'mount("/allocators", arguments[0])' "$allocators"
    environment "LD_PRELOAD=/allocators/$allocator.so"
    shift
    TEST_PACKAGES_SEC=$((${TEST_PACKAGES_SEC:-300} / 3)) compare_package "$@"
}

@test "numpy's, pandas's and CPython's own tests with jemalloc" {
    with_allocator jemalloc numpy
    with_allocator jemalloc pandas
    with_allocator jemalloc test cpython-tests
}

@test "numpy's, pandas's and CPython's own tests with mimalloc" {
    with_allocator mimalloc numpy
    with_allocator mimalloc pandas
    with_allocator mimalloc test cpython-tests
}

@test "numpy's, pandas's and CPython's own tests with tcmalloc" {
    with_allocator tcmalloc numpy
    with_allocator tcmalloc pandas
    with_allocator tcmalloc test cpython-tests
}
