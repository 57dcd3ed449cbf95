# Remains of a test on the machine: mounts, cgroups, processes, files of the runtime's state root. The other bats
# helpers load this. Needs RUNTIME_STATE.
#
# This runs three times for each test, so it starts few programs.

_list_mounts() {
    local mountpoint
    while read -r _ _ _ _ mountpoint _; do
        case $mountpoint in
            # Podman keeps its storage and the directory of named network namespaces mounted from their first use.
            */storage/overlay | */run/netns) ;;
            *) echo "mount $mountpoint" ;;
        esac
    done </proc/self/mountinfo
}

_list_cgroups() {
    # Podman's parent cgroups remain; those of containers do not. A cgroup may vanish while find runs.
    find /sys/fs/cgroup -mindepth 1 -type d -regextype posix-extended \
        -not -regex '/sys/fs/cgroup/(libpod_parent(/conmon)?|buildah)' -printf 'cgroup %P\n' 2>/dev/null || true
}

_list_processes() {
    local dir pid
    local -a words
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        [[ $pid == "$$" || $pid == "$BASHPID" || $pid == 1 ]] && continue
        mapfile -d '' words 2>/dev/null <"$dir/cmdline" || continue
        # Not our own ancestors and siblings: every process of bats has the directory in its environment or command
        # line.
        case ${words[*]} in
            "sleep ${BATS_TEST_TIMEOUT:-}") ;; # bats' own watchdog for this test
            '' | *bats* | 'catatonit -P'* | podman\ *pause*) ;; # rootless Podman's pause process remains
            *) echo "process ${words[*]}" ;;
        esac
    done
}

_list_state() {
    local entry
    for entry in "$RUNTIME_STATE"/*; do
        [[ ! -e $entry && ! -L $entry ]] || echo "state ${entry##*/}"
    done
}

# Print the parts in one order. Helpers for other machines add theirs.
_list_parts() {
    _list_processes
    _list_mounts
    _list_cgroups
    _list_state
}

_list_everything() {
    local all
    # Bats calls a function before every command, for its traces. Here that took most of the time.
    all=$(trap - DEBUG && _list_parts)
    sort <<<"$all" # a pipe would start it at once, and list it
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
