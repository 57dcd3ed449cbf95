# Runs once before the files of this directory; bats(1), "setup_suite".

setup_suite() {
    [[ ${PODMAN_MODE:-} ]] || {
        echo "start these tests with tests/run: they need its environment"
        return 1
    }
}
