# Runs once before the files of this directory; bats(1), "setup_suite".

setup_suite() {
    [[ ${PODMAN_MODE:-} && -e /repository ]] || {
        echo "start these tests with tests/vm/check: they need the virtual machine"
        return 1
    }
    # shellcheck source=../lib/podman.bash
    source "${BASH_SOURCE[0]%/*}/../lib/podman.bash"
    import_busybox
}
