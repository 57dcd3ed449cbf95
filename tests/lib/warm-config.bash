# Where snapshots are, and the administrator's file about them, in the environment of a test: pysbx-runtime(8).

# Where this user's snapshots are.
warm_store() {
    if is_rootless; then echo "$HOME/.local/share/pysbx-runtime/warm"; else echo /var/lib/pysbx-runtime/warm; fi
}

# Writes warm.json of this environment; without an argument, a snapshot is made at the first run, and again at once when
# it did not fit. Skips where there are no snapshots: what is said there, test_warm_decide.c knows.
configure_warm() {
    [[ $(uname -m) == x86_64 ]] || skip "snapshots are for x86-64 only"
    local text='{"secondRun": false, "retryAfter": 0}' directory=/etc/pysbx-runtime
    ! is_rootless || directory=$HOME/.config/pysbx-runtime
    mkdir -p "$directory"
    echo "${1:-$text}" >"$directory/warm.json"
}
