# Helpers for tests that drive the runtime without an engine: ./bundle, its configuration, and the container "box".
# shellcheck source-path=SCRIPTDIR source=podman.bash
source "${BASH_SOURCE[0]%/*}/podman.bash"

# The processes that a test has started on the host. They end with it.
declare -ga HELPERS=()

runtime() {
    "$RUNTIME" "$@"
}

setup() {
    begin_test
}

teardown() {
    clean_up
}

# Remove all containers and processes of the test, and fail if anything of them remains.
clean_up() {
    local id
    for id in $(runtime list --quiet); do runtime delete --force "$id"; done
    ((${#HELPERS[@]} == 0)) || kill -KILL "${HELPERS[@]}" 2>/dev/null || true
    remove_policy
    check_leftovers
}

# Make ./bundle with the given command line. Its root contains only busybox.
make_bundle() {
    make_bundle_with '' "$@"
}

# Make ./bundle with Python statements over its configuration, and the given command line.
make_bundle_with() {
    local -a mode=()
    ! is_rootless || mode=(--rootless)
    if [[ ! -d bundle/rootfs ]]; then
        mkdir -p bundle/rootfs
        tar --extract --file "$("$TESTS/lib/image" busybox)" -C bundle/rootfs --no-same-owner --preserve-permissions
    fi
    rm -f bundle/config.json
    runtime spec "${mode[@]}" --bundle bundle
    configure 'process["terminal"] = False; process["args"] = arguments'$'\n'"$1" "${@:2}"
}

# Make ./bundle like make_bundle, with the root of the Python image, which the tests of a file share.
make_python_bundle() {
    local root=$BATS_FILE_TMPDIR/python
    if [[ ! -d $root ]]; then
        mkdir "$root"
        tar --extract --file "$("$TESTS/lib/image" python)" -C "$root" --no-same-owner --preserve-permissions \
            --exclude './dev/*' # a user makes no devices
    fi
    make_bundle "$@"
    configure 'config["root"]["path"] = arguments[0]' "$root"
}

# Run Python statements over the bundle's configuration. edit-config defines the names that they may use.
configure() {
    "$TESTS/lib/edit-config" bundle/config.json "$@"
}

# Run the container in the foreground, with optional options of the command.
run_box() {
    runtime run --bundle bundle "$@" box </dev/null
}

# Create the container without starting its program.
create_box() {
    runtime create --bundle bundle "$@" box </dev/null >out 2>err || {
        cat err >&2
        return 1
    }
}

# Start the container in the background. Its output goes to the files out and err.
start_box() {
    runtime run --detach --bundle bundle "$@" box </dev/null >out 2>err || {
        cat err >&2
        return 1
    }
}

# Print a property of a container's state: state_of NAME PROPERTY
state_of() {
    runtime state "$1" | python3 -IS -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"
}

# Print the pid of the container's first process.
pid_of_box() {
    state_of box pid
}

# Assert the status of a container.
status_is() {
    [[ $(state_of "$1" status) == "$2" ]]
}

# Assert that the configuration, after a change with the arguments of "configure" if there are any, is refused with this
# message before anything changes.
is_refused() {
    (($# == 1)) || configure "${@:2}"
    fails 1 "$1" run_box
    check_untouched
}

# Assert that the container, its state and its cgroup do not exist.
check_untouched() {
    [[ -z $(runtime list --quiet) ]]
    [[ ! -e $RUNTIME_STATE/box ]] || { echo "the state root has the container"; return 1; }
    [[ -z $(find /sys/fs/cgroup -name '*box*' 2>/dev/null) ]] || { echo "there is a cgroup"; return 1; }
}

# Run a command of the host in the background for the rest of the test. Its pid is $!.
hold() {
    "$@" <&0 >/dev/null 2>&1 3>&- &
    HELPERS+=($!)
}

# Evaluate a Python expression over the JSON document in $output, named `it`.
output_holds() {
    python3 -c "import json, sys; it = json.loads(sys.argv[1]); assert $1, it" "$output"
}
