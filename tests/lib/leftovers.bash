# Remains of a test on the machine: mounts, cgroups, processes, files of the runtime's state root. The other bats
# helpers load this. Needs RUNTIME_STATE.

_list_mounts() {
    # Podman keeps its storage and the directory of named network namespaces mounted from their first use.
    awk '{ print "mount " $5 }' /proc/self/mountinfo | grep -vE '(/storage/overlay|/run/netns)$' || true
}

_list_cgroups() {
    # Podman's parent cgroups remain; those of containers do not.
    find /sys/fs/cgroup -mindepth 1 -type d -printf 'cgroup %P\n' 2>/dev/null |
        grep -vE '^cgroup (libpod_parent(/conmon)?|buildah)$' || true
}

_list_processes() {
    local dir pid comm
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        # Not our own ancestors and siblings: every process of bats has the directory in its environment or command
        # line.
        comm=$(tr '\0' ' ' 2>/dev/null <"$dir/cmdline") || continue
        case $comm in
            "sleep ${BATS_TEST_TIMEOUT:-} ") continue ;; # bats' own watchdog for this test
            '' | *bats* | catatonit\ -P* | *podman\ *pause*) continue ;; # rootless Podman's pause process remains
        esac
        [[ $pid == "$$" || $pid == "$BASHPID" || $pid == 1 ]] && continue
        echo "process $comm"
    done
}

_list_state() {
    [[ -d $RUNTIME_STATE ]] || return 0
    find "$RUNTIME_STATE" -mindepth 1 -maxdepth 1 -not -name '.*' -printf 'state %P\n'
}

_list_everything() {
    local all
    all=$(_list_processes)$'\n'$(_list_mounts)$'\n'$(_list_cgroups)$'\n'$(_list_state)
    sort <<<"$all"
}

# Record the state before a test.
remember_leftovers() {
    _list_everything >"$BATS_TEST_TMPDIR/before"
}

# The first step of each test's setup.
begin_test() {
    remember_leftovers
    cd "$BATS_TEST_TMPDIR" || return
}

# Fail and list all additions to that state, after waiting for the machine to finish its work.
check_leftovers() {
    local attempt extra
    for attempt in {1..300}; do
        extra=$(comm -13 "$BATS_TEST_TMPDIR/before" <(_list_everything))
        [[ -z $extra ]] && return 0
        sleep 0.1
    done
    echo "left behind after $((attempt / 10)) s:"
    echo "$extra"
    return 1
}
