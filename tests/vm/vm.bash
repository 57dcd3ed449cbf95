# Helpers for tests that have the virtual machine to themselves. systemd runs, Podman has its own defaults, all
# controllers are available, SELinux or AppArmor is enforcing.

# shellcheck source=../lib/podman.bash
source "${BASH_SOURCE[0]%/*}/../lib/podman.bash"

# systemd starts and ends units of its own all the time, so only remains of containers count.

_list_cgroups() {
    local name
    local -a names=(-false)
    # Units of Podman, of the tests themselves, and of the package pysbx.
    for name in '*libpod-*' '*buildah-*' '*pysbx-*' 'python-*' 'probe-*'; do names+=(-o -name "$name"); done
    find /sys/fs/cgroup -type d '(' "${names[@]}" ')' -printf 'cgroup %P\n' 2>/dev/null
}

_list_processes() {
    pgrep --list-full 'conmon|pysbx-runtime' | sed 's/^[0-9]* /process /' || true
}

_list_units() {
    manager list-units --all --plain --no-legend --type=scope | awk '/libpod|pysbx/ { print "unit " $1 " " $4 }'
}

_list_parts() {
    _list_processes
    _list_mounts
    _list_cgroups
    _list_state
    _list_units
}

# Record that this test has called Podman. Every call takes a second here.
podman() {
    [[ -z ${BATS_TEST_TMPDIR:-} ]] || : >"$BATS_TEST_TMPDIR/podman-called"
    command podman --runtime "$RUNTIME" "$@"
}

# Print the options for the systemd that creates the scopes of this mode.
manager() {
    if is_rootless; then systemctl --user "$@"; else systemctl "$@"; fi
}

# The slice in which that systemd creates them by default: Podman's default.
default_slice() {
    if is_rootless; then echo user.slice; else echo machine.slice; fi
}

# Print the cgroup directory of a process.
cgroup_of_process() {
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")"
}

# Make a hook for run_hooked: a script for the shell of the image. It runs immediately before the program.
make_hook() {
    mkdir hooks
    jq --null-input --arg script "$1" '{version: "1.0.0", stages: ["startContainer"], when: {always: true},
        hook: {path: "/bin/sh", args: ["sh", "-c", $script]}}' >hooks/hook.json
}

# Run a container that has the hook, and a writable /scratch for it.
run_hooked() {
    podman --hooks-dir "$PWD/hooks" run --rm --network none --tmpfs /scratch "$@"
}

# Start a container that sleeps, like that of lib/podman.bash, and keep its id. "--name NAME" comes first.
start_sleeper() {
    podman run --detach --network none "$@" "$BUSYBOX" sleep 1000 >"$BATS_TEST_TMPDIR/id.$2"
}

# Print the id of a container of Podman. Podman is asked for it at most once.
id_of() {
    local file=$BATS_TEST_TMPDIR/id.$1
    [[ -s $file ]] || podman inspect --format '{{.Id}}' "$1" >"$file"
    cat "$file"
}

# Print the pid of a runtime container's first process, by its id.
pid_of() {
    runtime state "$1" | jq .pid
}

# Print the cgroup of a running container of the runtime, and of Podman.
cgroup_of_bundle() {
    cgroup_of_process "$(pid_of "$1")"
}

cgroup_of() {
    cgroup_of_bundle "$(id_of "$1")"
}

scope_of() {
    echo "libpod-$(id_of "$1").scope"
}

# Assert that a file of a container's cgroup has a value: file_is NAME FILE VALUE.
file_is() {
    local value
    value=$(<"$(cgroup_of "$1")/$2")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
}

# Assert that the scope of a container has a property: property_is NAME PROPERTY VALUE.
property_is() {
    local value
    value=$(manager show --property "$2" --value "$(scope_of "$1")")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
}

# Print the SELinux label of a file.
label_of() {
    stat --format %C "$1"
}

# Make a directory in $HOME with a file in it, which every user may read and no container. It is removed after the
# test.
make_unlabelled() {
    mkdir "$HOME/$1"
    echo content >"$HOME/$1/file"
    chmod -R a+rX "$HOME/$1"
    echo "$HOME/$1" >>"$BATS_TEST_TMPDIR/unlabelled"
}

runtime() {
    "$RUNTIME" "$@"
}

# Use the package pysbx in the tests of this file. It is as after an installation, because in the repository the profiles
# are a link.
use_package() {
    cp -rL "$TESTS/../contrib/python/src/pysbx" "$BATS_FILE_TMPDIR/"
    export PYTHONPATH=$BATS_FILE_TMPDIR PYSBX_RUNTIME=$RUNTIME
}

# Run a program that uses it.
python() {
    python3 - "$@" <<<"from pysbx import *
$(cat)"
}

# Make ./bundle with busybox and the given command line as program.
make_bundle() {
    local -a mode=()
    ! is_rootless || mode=(--rootless)
    if [[ ! -e bundle/rootfs/bin/busybox ]]; then
        mkdir -p bundle/rootfs
        tar --extract --file "$("$TESTS/lib/image" busybox)" -C bundle/rootfs --no-same-owner
    fi
    rm -f bundle/config.json
    runtime spec "${mode[@]}" --bundle bundle
    edit_config 'process["terminal"] = False; process["args"] = arguments' "$@"
}

# Print the disk of this machine in the kernel's form: MAJOR:MINOR.
disk() {
    lsblk --noheadings --nodeps --output MAJ:MIN "$(findmnt --noheadings --output SOURCE /)" | tr -d ' '
}

# Run Python statements over the bundle's configuration. lib/edit-config defines the names that they may use, and this one
# adds resources.
edit_config() {
    local statements=$1
    shift
    "$TESTS/lib/edit-config" bundle/config.json "resources = linux.setdefault('resources', {})"$'\n'"$statements" "$@"
}

# Evaluate a Python expression over the JSON document in $output, named `it`.
output_holds() {
    python3 -c "import json, sys; it = json.loads(sys.argv[1]); assert $1, it" "$output"
}

# Start ./bundle as container "$1" with the manager systemd, in the background.
start_bundle() {
    runtime --systemd-cgroup run --detach --bundle bundle "$1" </dev/null >/dev/null 2>"$1.log" || { cat "$1.log"; return 1; }
}

# End the test if the container that was created directly still exists.
remove_bundles() {
    local id
    for id in $(runtime list --quiet); do
        [[ $id == pysbx-* ]] && runtime delete --force "$id"
    done
    return 0
}

# List the state once for the tests of a file, because each leaves the machine as it found it; and again after a test
# that does not.
remember_leftovers() {
    [[ -e $BATS_FILE_TMPDIR/before ]] || _list_everything >"$BATS_FILE_TMPDIR/before"
    cp "$BATS_FILE_TMPDIR/before" "$BATS_TEST_TMPDIR/before"
}

# No test of this directory makes a pod.
clean_up() {
    [[ ! -e $BATS_TEST_TMPDIR/podman-called ]] || podman rm --all --force --time 0
    check_leftovers || { rm "$BATS_FILE_TMPDIR/before"; return 1; }
}

teardown() {
    [[ ! -e $BATS_TEST_TMPDIR/unlabelled ]] || xargs rm -rf <"$BATS_TEST_TMPDIR/unlabelled"
    remove_bundles
    clean_up
}

# Assert that a number equals another one, within some percent.
is_about() {
    awk -v got="$1" -v wanted="$2" -v percent="$3" 'BEGIN {
        off = (got - wanted) / wanted * 100
        if (off < -percent || off > percent) { printf "%s is %.1f %% off %s\n", got, off, wanted; exit 1 } }'
}
