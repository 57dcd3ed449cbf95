# Helpers for tests of snapshots that have become stale, beside those of warm.bash: each test begins without snapshots.
# shellcheck source-path=SCRIPTDIR source=warm.bash
source "${BASH_SOURCE[0]%/*}/warm.bash"

setup() {
    begin_test
    use_image python
    rm -rf "$(warm_store)" # what is stale for one test is fresh for the next
}

# Makes the snapshot and asserts what the program says of it.
warm_says() {
    local text=$1
    shift
    expect 0 warm "$@"
    output_is "$text"
}

# After a change: the program says this at once, whether it starts warm or cold, and warm in the end.
now_says() {
    local text=$1
    shift
    for _ in 1 2 3; do
        expect 0 either "$@"
        output_is "$text"
    done
    warm_says "$text" "$@"
}

SAY='import greeting; print(greeting.text)'

# The snapshot of a module that says when it was imported, which is `before`.
preload_a_clock() {
    module greeting.py <<<'import time; text = time.monotonic_ns()'
    preload greeting
    expect 0 warm -c "$SAY"
    before=$output
    warm_says "$before" -c "$SAY"
}
