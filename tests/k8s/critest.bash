# Tests of critest, for the files that run it with one containerd or another. Load this after pods.bash.

# Tests that cannot pass here, as regular expressions, and why. Neither runtime runs them.
LEFT_OUT='
public image with digest    | an image with the digest that the test names exists only in a registry of the internet
should support MaskedPaths  | the busybox of the distribution runs its own ls, although the file is masked
'

left_out() {
    sed -n 's/ *|.*//; /./p' <<<"$LEFT_OUT"
    # The kernel counts the memory of a container only in its cgroup.
    has_controller memory || printf '%s\n' 'OOMKilled' 'should support listing pod sandbox metrics'
}

# Run critest with a handler, with its report in $BATS_FILE_TMPDIR/HANDLER.xml. Its own exit status tells only whether
# all tests pass, which they do not with runc either.
run_critest() {
    local pattern
    local -a skip=()
    while read -r pattern; do skip+=(-ginkgo.skip "$pattern"); done < <(left_out)
    critest -runtime-endpoint "unix://$CONTAINERD_ADDRESS" -runtime-handler "$1" "${skip[@]}" -ginkgo.no-color \
        -ginkgo.junit-report "$BATS_FILE_TMPDIR/$1.xml" >"$BATS_FILE_TMPDIR/$1.log" 2>&1 || true
    [[ -s $BATS_FILE_TMPDIR/$1.xml ]] || { tail -n 20 "$BATS_FILE_TMPDIR/$1.log"; return 1; }
}

# what_runc_passes LEAST: fail if a test passes with runc and not with this runtime, or if fewer tests pass with runc.
what_runc_passes() {
    "$BATS_TEST_DIRNAME/compare" "$1" "$BATS_FILE_TMPDIR/runc.xml" "$BATS_FILE_TMPDIR/pysbx.xml" >table || {
        cat table
        return 1
    }
    sed 's/^/# note: /' table >&3
}

setup_file() {
    has_pods critest || return 0
    start_pods
}

teardown_file() {
    stop_pods
}

setup() {
    needs_pods critest
    begin_test
}

teardown() {
    end_pods
}
