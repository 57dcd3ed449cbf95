# Helpers for tests that have the virtual machine to themselves: systemd runs, Podman has its own defaults, all
# controllers are there, SELinux or AppArmor is enforcing.

# shellcheck source=../lib/podman.bash
source "${BASH_SOURCE[0]%/*}/../lib/podman.bash"

# systemd starts and ends units of its own all the time: only what containers leave behind counts.

_list_cgroups() {
    find /sys/fs/cgroup -type d '(' -name '*libpod-*' -o -name '*pysbx-*' -o -name '*buildah-*' ')' -printf 'cgroup %P\n' 2>/dev/null
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

# The same for a running container of Podman.
cgroup_of() {
    cgroup_of_process "$(podman inspect --format '{{.State.Pid}}' "$1")"
}

scope_of() {
    echo "libpod-$(podman inspect --format '{{.Id}}' "$1").scope"
}

# Asking Podman is slow here, and the answers of one test stay the same.
declare -gA _cgroups=() _scopes=()

# Asserts that a file of a container's cgroup has a value: file_is NAME FILE VALUE.
file_is() {
    [[ ${_cgroups[$1]:-} ]] || _cgroups[$1]=$(cgroup_of "$1")
    local value
    value=$(<"${_cgroups[$1]}/$2")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
}

# Asserts that the scope of a container has a property: property_is NAME PROPERTY VALUE.
property_is() {
    [[ ${_scopes[$1]:-} ]] || _scopes[$1]=$(scope_of "$1")
    local value
    value=$(manager show --property "$2" --value "${_scopes[$1]}")
    [[ $value == "$3" ]] || { echo "$2 is '$value', not '$3'"; return 1; }
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

# Prints the first process of a container of the runtime.
pid_of() {
    runtime state "$1" | jq .pid
}

# Ends the test when the container that was made by hand is still there.
remove_bundles() {
    local id
    for id in $(runtime list --quiet); do
        [[ $id == pysbx-* ]] && runtime delete --force "$id"
    done
    return 0
}

# No test of this directory makes a pod, and each call of Podman takes a second.
clean_up() {
    podman rm --all --force --time 0
    check_leftovers
}

teardown() {
    remove_bundles
    clean_up
}

# Asserts that a number is another one, give or take some percent.
is_about() {
    awk -v got="$1" -v wanted="$2" -v percent="$3" 'BEGIN {
        off = (got - wanted) / wanted * 100
        if (off < -percent || off > percent) { printf "%s is %.1f %% off %s\n", got, off, wanted; exit 1 } }'
}
