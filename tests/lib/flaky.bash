# What tests/run and contrib/python/check share about tests that fail once: with CI set, a failed test is run again,
# alone, at the end. If it passes then, it counts as passed and is reported; tests/README.md lists the known ones.

# More of them fail the run: tests/check and .ci/run count as well, over all that they call.
# shellcheck disable=SC2034 # used by the files that source this one
FLAKY_LIMIT=5

# Prints the name of a test that passed the second time, and what each run said about it.
flaky_report() {
    local name=$1 first=$2 second=$3 indent=$'\n        '
    echo "flaky: $name"
    echo "    first run:$indent${first//$'\n'/$indent}"
    echo "    run again, alone:$indent${second//$'\n'/$indent}"
}

# Whether failed tests are to be run again: not if there are more than may be flaky, for the run fails in any case.
flaky_wanted() {
    local failed=$1
    [[ ${CI:-} && ${CI:-} != false ]] && ((failed > 0)) || return 1
    ((failed <= FLAKY_LIMIT)) || { echo "$failed tests failed: more than $FLAKY_LIMIT, so none is run again" && return 1; }
}
