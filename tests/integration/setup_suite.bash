# Runs once before the files of this directory; bats(1), "setup_suite".

setup_suite() {
    [[ ${PODMAN_MODE:-} ]] || {
        echo "start these tests with tests/run: they need its environment"
        return 1
    }
    # shellcheck source=../lib/podman.bash
    source "${BASH_SOURCE[0]%/*}/../lib/podman.bash"
    import_busybox
}
