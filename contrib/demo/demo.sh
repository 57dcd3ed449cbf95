#!/usr/bin/env bash
# Shows the runtime at work on a machine that needs only make, git and certificates. It installs packages, builds, makes
# an image with pandas from the distribution's packages, and compares starts with crun's under the same Podman. As root
# it runs rootful containers, as a user rootless ones. Images and containers are in a separate directory, which the
# demonstration removes at its end.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root
readonly image=localhost/pysbx-demo width=54

bold='' dim='' plain='' live=''
if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m' live=yes; fi

fail() {
    echo "demo: $*" >&2
    exit 1
}

heading() {
    printf '\n%s%s%s\n' "$bold" "$1" "$plain"
}

milliseconds() {
    echo "$((${EPOCHREALTIME/./} / 1000))"
}

# End a progress line: a title, and the time in milliseconds.
done_line() {
    printf '%s  %-*s %s%7d ms%s\n' "${live:+$'\r\e[K'}" "$width" "$1" "$dim" "$2" "$plain"
}

# Run a command with its output in a log. On a terminal, one line shows its running time and its last output; elsewhere
# the title is there when it begins.
working() {
    local title=$1 began log job rc=0
    shift
    [[ $live ]] || printf '  %-*s ' "$width" "$title"
    began=$(milliseconds)
    log=$(mktemp)
    # A separate process group, so that all of it can be ended.
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    job=$!
    set +m
    # shellcheck disable=SC2064 # the values of now
    trap "kill -- -$job 2>/dev/null || true; rm -f '$log'; exit 130" INT TERM
    while [[ $live ]] && kill -0 "$job" 2>/dev/null; do
        printf '\r\e[K  %-*s %s%4d s  %.40s%s' "$width" "$title" "$dim" "$((($(milliseconds) - began) / 1000))" \
            "$(tail -n 1 "$log" | tr -cd '[:print:]')" "$plain"
        sleep 0.2
    done
    wait "$job" || rc=$?
    trap 'exit 130' INT TERM
    if ((rc)); then
        if [[ $live ]]; then printf '\r\e[K'; else echo; fi
        cat "$log" >&2
        rm -f "$log"
        # The command's own output is the reason.
        exit 1
    fi
    rm -f "$log"
    [[ ! $live ]] || printf '\r\e[K  %-*s ' "$width" "$title"
    printf '%s%7d ms%s\n' "$dim" "$(($(milliseconds) - began))" "$plain"
}

# Run a command, store its output in $output, and its time in milliseconds in $took.
timed() {
    local began status=0
    began=$(milliseconds)
    output=$("$@" 2>&1) || status=$?
    took=$(($(milliseconds) - began))
    ((status == 0)) || fail "exit code $status from: $*"$'\n'"$output"
}

median() {
    printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

podman_here() {
    podman "${podman_options[@]}" "$@"
}

# Run a program in the image: run RUNTIME OPTION... -- PROGRAM [ARG...]
run() {
    local runtime=$1 option
    local -a options=()
    shift
    for option; do
        shift
        [[ $option != -- ]] || break
        options+=("$option")
    done
    podman --runtime "$runtime" "${podman_options[@]}" run --rm "${sandbox[@]}" "${options[@]}" \
        --volume "$here:/demo:ro" "$image" python3 "$@"
}

# One row of the table: a title, crun's milliseconds or nothing, ours, and a remark.
row() {
    local title=$1 theirs=$2 ours=$3 remark=${4:-} ratio=''
    if [[ $crun_ms ]]; then ratio=$(awk -v a="$ours" -v b="$crun_ms" 'BEGIN { printf "%.2f", a / b }'); fi
    printf '%s  %-22s %9s %16s %7s   %s%s%s\n' "${live:+$'\r\e[K'}" "$title" "${theirs:+$theirs ms}" "$ours ms" "$ratio" \
        "$dim" "$remark" "$plain"
}

# Find out how to measure crun here: set crun, and add crun's needs to the options of every container.
find_crun() {
    local said
    crun=$(command -v crun) || { echo "  crun is not installed, so there is nothing to compare with" && return; }
    if said=$(run "$crun" -- -c pass 2>&1); then return; fi
    # crun 1.8 raises a limit before it loads a device filter, which some containers and virtual machines refuse.
    if run "$crun" --cgroups disabled -- -c pass >/dev/null 2>&1; then
        sandbox+=(--cgroups disabled)
        echo "  both without cgroups, because crun cannot use them here: ${said#Error: }"
        return
    fi
    crun=''
    echo "  crun starts no container here: $said"
}

compare() {
    local -a cold=() theirs=() warm=() preload=(--annotation run.pysbx.preload=pandas)
    local crun crun_ms='' expected
    [[ $(uname -m) != x86_64 ]] || preload+=(--annotation run.pysbx.warm=require)
    find_crun
    timed run "$RUNTIME" --annotation run.pysbx.warm=off -- /demo/group_by.py # reads the image into the page cache
    expected=$output
    for _ in 1 2 3; do
        if [[ $crun ]]; then
            timed run "$crun" -- /demo/group_by.py
            theirs+=("$took")
        fi
        timed run "$RUNTIME" --annotation run.pysbx.warm=off -- /demo/group_by.py
        cold+=("$took")
    done
    printf '  %s%-22s %9s %16s %7s%s\n' "$bold" 'podman run, median' crun pysbx-runtime ratio "$plain"
    if [[ $crun ]]; then crun_ms=$(median "${theirs[@]}"); fi
    row cold "$crun_ms" "$(median "${cold[@]}")"
    timed run "$RUNTIME" "${preload[@]}" -- /demo/group_by.py
    row 'first warm run' '' "$took" 'saves a snapshot: pandas is imported'
    for _ in 1 2 3 4 5; do
        timed run "$RUNTIME" "${preload[@]}" -- /demo/group_by.py
        [[ $output == "$expected" ]] || fail "a warm run printed '$output' instead of '$expected'"
        warm+=("$took")
    done
    if [[ $(uname -m) == x86_64 ]]; then
        row warm '' "$(median "${warm[@]}")" 'restores it in a fresh container'
    else
        row again '' "$(median "${warm[@]}")" "every start is cold on $(uname -m)"
    fi
}

# Each container looks for the previous one's files, and leaves a file itself.
show_ten() {
    local program='import os, pandas; print(os.listdir("/tmp")); open("/tmp/left", "w")' number
    local -a times=()
    for number in {1..10}; do
        timed run "$RUNTIME" --annotation run.pysbx.preload=pandas -- -c "$program"
        [[ $output == '[]' ]] || fail "container $number found $output in its /tmp"
        times+=("$took")
        [[ ! $live ]] || printf '\r\e[K  container %d: %d ms' "$number" "$took"
    done
    printf '%s  %s ms: each found its /tmp empty\n' "${live:+$'\r\e[K'}" "${times[*]}"
}

# The host's side of the attempts: a file and a port, both accessible here. The program gets their names.
show_hostile() {
    local file=$work/secret.txt port
    echo 'a secret of the host' >"$file"
    chmod 0644 "$file"
    mkfifo "$work/port"
    python3 -c 'import socket, time
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    time.sleep(1000)' >"$work/port" &
    listener=$!
    read -r port <"$work/port"
    exec {connection}<>"/dev/tcp/127.0.0.1/$port" || fail "the host cannot connect to its own port $port"
    exec {connection}>&-
    timed run "$RUNTIME" -- /demo/hostile.py "$file" "$port" "$listener"
    printf '  %s\n' "${output//$'\n'/$'\n  '}"
    kill "$listener"
    wait "$listener" 2>/dev/null || true
    listener=''
}

show_pysbx() {
    sed '1,2d; s/  # type:.*//; /./s/^/  /' "$here/three_lines.py"
    timed env "PYSBX_RUNTIME=$RUNTIME" "XDG_RUNTIME_DIR=$work/xdg" "XDG_CACHE_HOME=$work/cache" PYTHONDONTWRITEBYTECODE=1 \
        "$DEMO_PYSBX" "$here/three_lines.py"
    echo
    done_line "prints $output" "$took"
}

# The containers' part. It runs in the host's environment, or in that of the tests if the host's is unsuitable.
show() {
    listener=''
    work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" pysbx-demo.XXXXXX)
    trap cleanup EXIT
    trap 'exit 130' INT TERM
    export CONTAINERS_CONF=$work/etc/containers.conf CONTAINERS_STORAGE_CONF=$work/etc/storage.conf
    "$root/tests/lib/configure-podman" "$work/etc" "$RUNTIME" "$work/storage" "$work/run" "$work/tmp"
    mkdir -m 0700 "$work/home" "$work/xdg" "$work/cache"
    if ((EUID != 0)); then
        # Files that Podman and the runtime keep for a user are here instead.
        export HOME=$work/home XDG_RUNTIME_DIR=$work/xdg
        unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME
    fi
    echo "  $("$RUNTIME" --version | sed -n '1s/ version//p'), $(podman --version | sed 's/ version//')," \
        "Linux $(uname -r), $(nproc) CPUs"
    remember_directories | LC_ALL=C sort >"$work/directories"
    # A rootless Podman accepts its storage from the command line only.
    podman_options=(--log-level error --root "$work/storage" --runroot "$work/run" --tmpdir "$work/tmp")
    sandbox=(--network none --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --user 1000:1000)
    if [[ ${DEMO_CGROUPS:-enabled} == disabled ]]; then sandbox+=(--cgroups disabled); fi
    list_snapshots >"$work/snapshots"
    working "import the image into Podman" podman --runtime "$RUNTIME" "${podman_options[@]}" import --quiet \
        --signature-policy "$work/etc/policy.json" --change 'CMD ["python3"]' --change 'ENV PATH=/usr/bin:/bin' \
        "$DEMO_ARCHIVE" "$image"

    heading "1. import pandas and group a thousand rows, in a fresh container each time"
    echo "  podman run --rm ${sandbox[*]} IMAGE python3 group_by.py"
    compare
    heading "2. Ten fresh containers in a row"
    show_ten
    heading "3. A program that reaches for the host and the network"
    show_hostile
    heading "4. The same from Python: pysbx"
    show_pysbx
}

# Print the existing snapshots, one per line.
list_snapshots() {
    "$RUNTIME" warm list --quiet | sort
}

# List files that root's Podman and runtimes create at paths that the demonstration cannot move.
remember_directories() {
    local directory
    for directory in /run/{containers,crun,pysbx-runtime} /var/lib/pysbx-runtime; do
        if [[ -e $directory ]]; then echo "$directory"; fi
    done
    # crun leaves one if it fails.
    find /sys/fs/cgroup/libpod_parent -type d 2>/dev/null || true
}

# Remove additional files. The kernel keeps a cgroup that is in use.
remove_directories() {
    local directory
    LC_ALL=C comm -13 "$1" <(remember_directories | LC_ALL=C sort) | tac | while read -r directory; do
        case $directory in
            /sys/*) rmdir "$directory" 2>/dev/null || true ;;
            *) rm -rf --one-file-system "$directory" ;;
        esac
    done
}

cleanup() {
    local snapshot file
    [[ ! $live ]] || printf '\r\e[K'
    [[ ! $listener ]] || kill "$listener"
    podman_here rm --all --force --time 0 >/dev/null 2>&1 || true
    list_snapshots | comm -13 "$work/snapshots" - | while read -r snapshot; do
        "$RUNTIME" warm prune "$snapshot" >/dev/null
    done
    if ((EUID == 0)); then
        umount "$work/storage/overlay" 2>/dev/null || true
        remove_directories "$work/directories"
    else
        # shellcheck disable=SC2016 # expanded by the inner shell
        # Files of other ids are deleted from within the user namespace. Then the process that keeps it must end,
        # because only the demonstration uses it.
        podman_here unshare sh -c 'umount "$1/storage/overlay"; rm -rf "$1/storage" "$1/run"' _ "$work" 2>/dev/null || true
        # Podman 4 and 5 write its pid to different files.
        for file in "$work/tmp/pause.pid" "$work/xdg/libpod/tmp/pause.pid"; do
            [[ ! -e $file ]] || kill "$(<"$file")" 2>/dev/null || true
        done
    fi
    rm -rf "$work"
}

# Tell whether Podman can use this host without changes: only cgroup v2, as pysbx-runtime requires.
host_has_cgroup2() {
    [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]
}

# sudo asks for the password before a progress line would hide the question.
ask_password() {
    ((EUID != 0)) && [[ -t 0 ]] && command -v sudo >/dev/null || return 0
    [[ ! $("$root/tests/setup/install.sh" --list build demo) ]] || sudo -n true 2>/dev/null || sudo -v || true
}

# Compile, and wait for the network at the same time.
build_everything() {
    local compiler rc=0
    local -a elsewhere=()
    [[ $build == "$root/build" ]] || elsewhere=(BUILD="$build")
    "${MAKE:-make}" -C "$root" --no-print-directory -j "$(nproc)" "${elsewhere[@]}" all &
    compiler=$!
    "$root/tests/lib/image" pandas || rc=$?
    "$root/tests/setup/pysbx" "$build/pysbx-venv" || rc=$?
    wait "$compiler" && return "$rc"
}

main() {
    local build=$root/build began=$SECONDS
    ask_password
    working "install packages" "$root/tests/setup/install.sh" build demo
    if ! { mkdir -p "$build" && [[ -w $build ]]; } 2>/dev/null; then
        build=${XDG_CACHE_HOME:-$HOME/.cache}/pysbx-runtime-demo
        mkdir -p "$build"
    fi
    export RUNTIME=$build/pysbx-runtime IMAGE_CACHE=${IMAGE_CACHE:-$build/images}
    working "build the runtime, an image with pandas, and pysbx" build_everything
    DEMO_ARCHIVE=$("$root/tests/lib/image" pandas)
    DEMO_PYSBX=$("$root/tests/setup/pysbx" "$build/pysbx-venv")
    export DEMO_ARCHIVE DEMO_PYSBX
    if host_has_cgroup2; then
        (show)
    elif ((EUID == 0)); then
        echo "  this host has no pure cgroup v2: containers run in namespaces with their own hierarchy"
        "$root/tests/lib/enter" "$here/demo.sh" --show
    else
        echo "  this host has no pure cgroup v2: containers run without cgroups"
        (DEMO_CGROUPS=disabled show)
    fi
    heading "Done in $((SECONDS - began)) s. Containers, images and snapshots are gone; packages and $build stay."
}

case ${1:-} in
    '') main ;;
    --show) show ;;
    *)
        echo "usage: contrib/demo/demo.sh"
        exit 2
        ;;
esac
