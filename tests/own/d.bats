load ../lib/warm.bash
@test "x" {
    use_image pandas-trixie
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    module u.py <<<"import tempfile, multiprocessing, uuid
tempfile.mktemp()
$EXTRA"
    preload u
    ls -la --time-style=full-iso $BATS_FILE_TMPDIR/pandas-trixie >&3
    expect 0 warm -c 'print(1)'
    echo "$stderr" >&3
}
