# Helpers for tests of stale snapshots, in addition to those of warm.bash. Each test begins without snapshots.
# shellcheck source-path=SCRIPTDIR source=warm.bash
source "${BASH_SOURCE[0]%/*}/warm.bash"

setup() {
    begin_test
    use_image python
    rm -rf "$(warm_store)" # a stale snapshot of one test is fresh for the next
}

# Build the snapshot and assert the program's output.
warm_says() {
    prints "$1" warm "${@:2}"
}

# After a change: the program prints this immediately, warm or cold, and warm in the end.
now_says() {
    for _ in 1 2 3; do prints "$1" either "${@:2}"; done
    warm_says "$@"
}

SAY='import greeting; print(greeting.text)'

# Make the snapshot of a module that tells an address of the interpreter that imported it, which is `before`.
preload_a_clock() {
    module greeting.py <<<'text = str(id([]))'
    preload greeting
    expect 0 warm -c "$SAY"
    before=$output
    warm_says "$before" -c "$SAY"
}
