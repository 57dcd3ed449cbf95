# Helpers for tests that have the virtual machine to themselves: systemd runs, Podman has its own defaults, all
# controllers are there, SELinux or AppArmor is enforcing.

# shellcheck source=../lib/podman.bash
source "${BASH_SOURCE[0]%/*}/../lib/podman.bash"

# systemd starts and ends units of its own all the time: only what containers leave behind counts.

_list_cgroups() {
    local name
    local -a names=(-false)
    # Podman's, those of the tests themselves, and those of the package pysbx.
    for name in '*libpod-*' '*buildah-*' '*pysbx-*' 'python-*' 'probe-*'; do names+=(-o -name "$name"); done
    find /sys/fs/cgroup -type d '(' "${names[@]}" ')' -printf 'cgroup %P\n' 2>/dev/null
}

_list_processes() {
    pgrep --list-full 'conmon|pysbx-runtime' | sed 's/^[0-9]* /process /' || true
}

_list_units() {
    manager list-units --all --plain --no-legend --type=scope | awk '/libpod|pysbx/ { print "unit " $1 " " $4 }'
}

_list_everything() {
    local all
    all=$(_list_processes)$'\n'$(_list_mounts)$'\n'$(_list_cgroups)$'\n'$(_list_state)$'\n'$(_list_units)
    sort <<<"$all"
}

# Notes that this test has called Podman, whose every call takes a second here.
podman() {
    [[ -z ${BATS_TEST_TMPDIR:-} ]] || : >"$BATS_TEST_TMPDIR/podman-called"
    command podman --runtime "$RUNTIME" "$@"
}

# The systemd that makes the scopes of this mode.
manager() {
    if is_rootless; then systemctl --user "$@"; else systemctl "$@"; fi
}

# Where that systemd makes them unless told otherwise: Podman's default.
default_slice() {
    if is_rootless; then echo user.slice; else echo machine.slice; fi
}

# Prints the directory of the cgroup that a process is in.
cgroup_of_process() {
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")"
}

# Makes a hook for run_hooked: a script for the shell of the image, right before the program.
make_hook() {
    mkdir hooks
    jq --null-input --arg script "$1" '{version: "1.0.0", stages: ["startContainer"], when: {always: true},
        hook: {path: "/bin/sh", args: ["sh", "-c", $script]}}' >hooks/hook.json
}

# Runs a container that has the hook, and /scratch for it to write to.
run_hooked() {
    podman --hooks-dir "$PWD/hooks" run --rm --network none --tmpfs /scratch "$@"
}

# Starts a container that sleeps, as that of lib/podman.bash, and keeps its id: "--name NAME" comes first.
start_sleeper() {
    podman run --detach --network none "$@" "$BUSYBOX" sleep 1000 >"$BATS_TEST_TMPDIR/id.$2"
}

# Prints the id of a container of Podman, which is asked for it once at most.
id_of() {
    local file=$BATS_TEST_TMPDIR/id.$1
    [[ -s $file ]] || podman inspect --format '{{.Id}}' "$1" >"$file"
    cat "$file"
}

# Prints the first process of a container of the runtime, by its id.
pid_of() {
    runtime state "$1" | jq .pid
}

# Prints the cgroup of a running container of the runtime, and of Podman.
cgroup_of_bundle() {
    cgroup_of_process "$(pid_of "$1")"
}

cgroup_of() {
    cgroup_of_bundle "$(id_of "$1")"
}

scope_of() {
    echo "libpod-$(id_of "$1").scope"
}

# Asserts that a file of a container's cgroup has a value: file_is NAME FILE VALUE.
file_is() {
    local value
    value=$(<"$(cgroup_of "$1")/$2")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
}

# Asserts that the scope of a container has a property: property_is NAME PROPERTY VALUE.
property_is() {
    local value
    value=$(manager show --property "$2" --value "$(scope_of "$1")")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
}

# Prints the label of SELinux that a file has.
label_of() {
    stat --format %C "$1"
}

# Makes a directory in $HOME with a file in it, that every user may read and no container; gone after the test.
make_unlabelled() {
    mkdir "$HOME/$1"
    echo content >"$HOME/$1/file"
    chmod -R a+rX "$HOME/$1"
    echo "$HOME/$1" >>"$BATS_TEST_TMPDIR/unlabelled"
}

runtime() {
    "$RUNTIME" "$@"
}

# Makes ./bundle with busybox, whose program is the command line given.
make_bundle() {
    local -a mode=()
    ! is_rootless || mode=(--rootless)
    mkdir -p bundle/rootfs
    tar --extract --file "$("$TESTS/lib/image" busybox)" -C bundle/rootfs --no-same-owner
    rm -f bundle/config.json
    runtime spec "${mode[@]}" --bundle bundle
    edit_config 'process["terminal"] = False; process["args"] = arguments' "$@"
}

# Prints the disk of this machine as the kernel does: MAJOR:MINOR.
disk() {
    lsblk --noheadings --nodeps --output MAJ:MIN "$(findmnt --noheadings --output SOURCE /)" | tr -d ' '
}

# Runs Python statements over config (the document), process, linux, resources and arguments.
edit_config() {
    python3 - "$@" <<'PYTHON'
import json, sys
with open("bundle/config.json") as file:
    config = json.load(file)
process, linux, arguments = config["process"], config["linux"], sys.argv[2:]
resources = linux.setdefault("resources", {})
exec(sys.argv[1])
with open("bundle/config.json", "w") as file:
    json.dump(config, file)
PYTHON
}

# Evaluates a Python expression over the JSON document in $output, named `it`.
output_holds() {
    python3 -c "import json, sys; it = json.loads(sys.argv[1]); assert $1, it" "$output"
}

# Starts ./bundle as container "$1" with the manager systemd, in the background.
start_bundle() {
    runtime --systemd-cgroup run --detach --bundle bundle "$1" </dev/null >/dev/null 2>"$1.log" || { cat "$1.log"; return 1; }
}

# Ends the test when the container that was made by hand is still there.
remove_bundles() {
    local id
    for id in $(runtime list --quiet); do
        [[ $id == pysbx-* ]] && runtime delete --force "$id"
    done
    return 0
}

# What is there is listed once for the tests of a file, for each leaves the machine as it found it; and again after one
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

# Asserts that a number is another one, give or take some percent.
is_about() {
    awk -v got="$1" -v wanted="$2" -v percent="$3" 'BEGIN {
        off = (got - wanted) / wanted * 100
        if (off < -percent || off > percent) { printf "%s is %.1f %% off %s\n", got, off, wanted; exit 1 } }'
}
