# Helpers for tests that drive Podman with our runtime, root or rootless. tests/lib/enter makes their environment.

# shellcheck disable=SC2034 # images are named here for all files
# shellcheck disable=SC2120,SC2119 # reasons are optional

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=leftovers.bash
source "$TESTS/lib/leftovers.bash"
# shellcheck source-path=SCRIPTDIR source=policy.bash
source "$TESTS/lib/policy.bash"

BUSYBOX=localhost/busybox:latest
PYTHON=localhost/python:latest

podman() {
    command podman --runtime "$RUNTIME" "$@"
}

# Called by setup_suite: make the image that nearly every test uses. An environment may begin with some: TEST_IMAGES.
import_image() {
    local name=$1 archive
    shift
    [[ " ${TEST_IMAGES:-} " != *" $name "* ]] || return 0
    archive=$("$TESTS/lib/image" "$name")
    podman image exists "localhost/$name:latest" ||
        podman import --quiet "$@" "$archive" "localhost/$name:latest" >/dev/null
}

import_busybox() {
    import_image busybox --change 'CMD ["sh"]' --change 'ENV PATH=/bin:/usr/bin'
}

# Called by setup_file if a test needs an interpreter.
import_python() {
    import_image python --change 'CMD ["python3"]' --change 'ENV PATH=/usr/bin:/bin'
}

# The setup and teardown of every test. A file with more to undo defines its own teardown, which ends with clean_up.
setup() {
    begin_test
}

teardown() {
    clean_up
}

# Remove all containers. Podman's storage lists them, except those of --rootfs. Most tests leave none, and starting Podman
# takes as long as what they test.
remove_containers() {
    local list
    for list in "$PODMAN_GRAPHROOT"/overlay-containers/*containers.json "$PODMAN_RUNROOT"/overlay-containers/*containers.json; do
        [[ -s $list && $(<"$list") != "[]" ]] || continue
        podman rm --all --force --time 0
        return
    done
}

# Remove all containers, and fail if anything of them remains. Files with pods remove those before.
clean_up() {
    remove_containers
    remove_policy
    check_leftovers
}

# Start a container that sleeps. Print nothing and set no variable: tests give it a --name.
start_sleeper() {
    podman run --detach --network none "$@" "$BUSYBOX" sleep 1000 >/dev/null
}

# Repeat a command until it succeeds, for at least a minute. So a result that is late on a busy machine does not fail.
wait_for() {
    local attempt
    for attempt in {1..1200}; do
        "$@" && return 0
        sleep 0.05
    done
    echo "after $((attempt / 20)) s still not true: $*"
    return 1
}

# Test the arguments of a process. Use it with wait_for: execve(2) closes descriptors, which tells the runtime of its
# success, shortly before /proc has the new arguments.
command_line_is() {
    [[ $(tr '\0' ' ' <"/proc/$1/cmdline") == "$2 " ]]
}

state_is() {
    [[ $(podman inspect --format '{{.State.Status}}' "$1") == "$2" ]]
}

# Run a command, with its standard output in $output and ${lines[@]} and its standard error in $stderr. Fail and show
# all of it if the exit code does not match the given pattern.
expect() {
    local code=$1 errors=$BATS_TEST_TMPDIR/stderr
    shift
    status=0
    output=$("$@" 2>"$errors") || status=$?
    output=${output//$'\r'/}
    mapfile -t lines <<<"$output"
    stderr=$(<"$errors")
    printf '%s -> %s\nstdout: %s\nstderr: %s\n' "$*" "$status" "$output" "$stderr"
    # shellcheck disable=SC2053 # the code may be a pattern
    [[ $status == $code ]] || { echo "exit code $status, not $code"; return 1; }
}

# Assert that the output of the last expect is the string, or contains each string, or none of them.
output_is() {
    [[ $output == "$1" ]] || { echo "output is '$output', not '$1'"; return 1; }
}

output_has() {
    local text
    for text; do [[ $output == *"$text"* ]] || { echo "output '$output' has no '$text'"; return 1; }; done
}

# Run a command that succeeds and prints exactly a string: prints STRING COMMAND...
prints() {
    expect 0 "${@:2}" && output_is "$1"
}

# Run a command that succeeds, and whose output contains a string: shows STRING COMMAND...
shows() {
    expect 0 "${@:2}" && output_has "$1"
}

# Run a command that succeeds and prints a JSON document of which a Python expression is true: tells EXPRESSION COMMAND...
tells() {
    expect 0 "${@:2}" && output_holds "$1"
}

# Run a command that fails with an exit code and names the reason: fails CODE STRING COMMAND...
fails() {
    expect "$1" "${@:3}" && stderr_has "$2"
}

output_lacks() {
    local text
    for text; do [[ $output != *"$text"* ]] || { echo "output '$output' has '$text'"; return 1; }; done
}

stderr_has() {
    local text
    for text; do [[ ${stderr,,} == *"${text,,}"* ]] || { echo "stderr '$stderr' has no '$text'"; return 1; }; done
}

# Print a program for -c that imports modules, and prints for each whether that opened a file. A preloaded module needs none.
read_files() {
    local name
    echo 'import sys; opened = []; sys.addaudithook(lambda event, _: event == "open" and opened.append(event))'
    for name; do echo "opened.clear(); import $name; print(bool(opened))"; done
}

stderr_is_empty() {
    [[ -z $stderr ]] || { echo "stderr is '$stderr'"; return 1; }
}

is_rootless() {
    [[ $PODMAN_MODE == rootless ]]
}

needs_root() {
    ! is_rootless || skip "${1:-needs root}"
}

needs_rootless() {
    is_rootless || skip "${1:-is about rootless containers}"
}

needs_cgroups() {
    ! is_rootless || skip "${1:-rootless containers have no cgroup here: tested in tests/vm}"
}

needs_controller() {
    needs_cgroups
    grep -qw "$1" /sys/fs/cgroup/cgroup.controllers || skip "needs the $1 controller: tested in tests/vm"
}
