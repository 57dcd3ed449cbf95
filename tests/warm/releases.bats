#!/usr/bin/env bats
# The suites of tests/integration/warm-suites.bats with Python 3.9, 3.14 and 3.15 of other Debian releases, which are the
# oldest and the newest Pythons that have warm starts. They are not part of `make check`, see README.md.
# images: pandas-bullseye pandas-forky python-testsuite-bullseye python-testsuite-forky python-next-forky

load ../lib/warm.bash

export BATS_TEST_TIMEOUT=900

@test "small programs of tests/warm, Python 3.9 of Debian 11" {
    compare_programs pandas-bullseye
}

@test "small programs of tests/warm, Python 3.14 of Debian 14" {
    compare_programs pandas-forky
}

@test "CPython's own tests, a selection; Python 3.9 of Debian 11" {
    compare_regrtest python-testsuite-bullseye
}

@test "CPython's own tests, a selection; Python 3.14 of Debian 14" {
    compare_regrtest python-testsuite-forky
}

@test "CPython's own tests, a selection; Python 3.15 of Debian 14" {
    compare_regrtest python-next-forky
}

@test "an import that creates an SSL context for clients: Python 3.9 does not tell whether it has a connection" {
    use_image pandas-bullseye
    preload_module context <<<'import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)'
    is_cold_because SSL
}
