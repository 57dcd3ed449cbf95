# The store of snapshots, and the administrator's warm.json, in the environment of a test: pysbx-runtime(8).

# Print the path of this user's store.
warm_store() {
    if is_rootless; then echo "$HOME/.local/share/pysbx-runtime/warm"; else echo /var/lib/pysbx-runtime/warm; fi
}

# Write warm.json of this environment. By default, the first run builds a snapshot, and builds it again immediately if
# it did not fit. Skip where snapshots are unavailable; test_warm_decide.c tests the messages there.
configure_warm() {
    [[ $(uname -m) == x86_64 ]] || skip "snapshots are for x86-64 only"
    local text='{"secondRun": false, "retryAfter": 0}' directory=/etc/pysbx-runtime
    ! is_rootless || directory=$HOME/.config/pysbx-runtime
    mkdir -p "$directory"
    echo "${1:-$text}" >"$directory/warm.json"
}
