# Rules of tests/run and contrib/python/check for tests that fail once. With CI set, a failed test runs again at the
# end, alone. If it then passes, it counts as passed and is reported. tests/README.md lists the known ones.

# More of them fail the run. tests/check and .ci/run apply the limit to the sum of all suites that they call.
# shellcheck disable=SC2034 # used by the files that source this one
FLAKY_LIMIT=5

# Print the name of a test that passed the second time, and the output of each run.
flaky_report() {
    local name=$1 first=$2 second=$3 indent=$'\n        '
    echo "flaky: $name"
    echo "    first run:$indent${first//$'\n'/$indent}"
    echo "    run again, alone:$indent${second//$'\n'/$indent}"
}

# Tell whether failed tests run again. They do not if there are too many, because the run fails in any case.
flaky_wanted() {
    local failed=$1
    [[ ${CI:-} && ${CI:-} != false ]] && ((failed > 0)) || return 1
    ((failed <= FLAKY_LIMIT)) || { echo "$failed tests failed: more than $FLAKY_LIMIT, so none is run again" && return 1; }
}
