#!/usr/bin/env bash
# Shows the runtime at work: installs what is missing, makes a Python image from the distribution's packages, runs a
# program in containers that Podman starts with pysbx-runtime, says what happened and how long it took, and cleans up.
# As root it runs rootful containers, as a user rootless ones. Images and containers live in a directory of its own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
RUNTIME=${RUNTIME:-$root/build/pysbx-runtime}
readonly here root
readonly image=localhost/pysbx-demo

if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi

fail() {
    echo "demo: $*" >&2
    exit 1
}

heading() {
    printf '\n%s%s%s\n' "$bold" "$1" "$plain"
}

# Runs a step, with its output indented, and says how long it took.
step() {
    local title=$1 began=${EPOCHREALTIME/./} status=0 output
    shift
    output=$("$@" 2>&1) || status=$?
    printf '%-52s %s%6d ms%s\n' "$title" "$dim" $(((${EPOCHREALTIME/./} - began) / 1000)) "$plain"
    [[ -z $output ]] || printf '    %s\n' "${output//$'\n'/$'\n    '}"
    ((status == 0)) || fail "'$title' failed with exit code $status"
}

# Runs a step that must end with a given exit code, and shows the code.
step_that_ends_with() {
    local expected=$1 title=$2
    shift 2
    # shellcheck disable=SC2016 # expanded by the inner shell
    step "$title" bash -c '
        expected=$1; shift; status=0; "$@" || status=$?
        echo "exit code $status"; [ "$status" -eq "$expected" ]' _ "$expected" "$@"
}

podman_here() {
    podman "${podman_options[@]}" "$@"
}

# The containers' part. It runs in the environment of the host, or in that of the tests where the host's will not do.
show() {
    local work
    work=$(mktemp -d)
    export CONTAINERS_CONF=$work/etc/containers.conf CONTAINERS_STORAGE_CONF=$work/etc/storage.conf
    "$root/tests/lib/configure-podman" "$work/etc" "$RUNTIME" "$work/storage" "$work/run" "$work/tmp"
    # A rootless Podman takes its storage from the command line only.
    podman_options=(--runtime "$RUNTIME" --log-level error
        --root "$work/storage" --runroot "$work/run" --tmpdir "$work/tmp")
    local -a sandbox=(--network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 1000:1000)
    if [[ ${DEMO_CGROUPS:-enabled} == disabled ]]; then sandbox+=(--cgroups disabled); fi
    list_snapshots >"$work/snapshots"
    # shellcheck disable=SC2064 # the value of now
    trap "cleanup '$work'" EXIT

    heading "1. The image"
    step "podman import: Python from the distribution" podman_here import --quiet --signature-policy "$work/etc/policy.json" \
        --change 'CMD ["python3"]' --change 'ENV PATH=/usr/bin:/bin' "$DEMO_ARCHIVE" "$image"

    heading "2. A program in a container"
    echo "podman run ${sandbox[*]} python3 fibonacci.py"
    step "podman run: the program" show_program "${sandbox[@]}"
    step "podman run: again, with everything in the page cache" show_program "${sandbox[@]}"

    heading "3. A container that stays"
    step "podman run --detach" podman_here run --detach --name demo "${sandbox[@]}" "$image" \
        python3 -c 'import time; time.sleep(1000)'
    step "podman exec: a second process in it" podman_here exec demo python3 -c 'print(6 * 7)'
    if ((EUID == 0)); then # a user has a cgroup to freeze only where systemd delegates one
        step "podman pause, unpause" podman_here unpause "$(podman_here pause demo)"
    fi
    step "podman rm --force" podman_here rm --force --time 0 demo

    heading "4. What goes wrong is said plainly"
    step_that_ends_with 3 "a program that ends with 3" \
        podman "${podman_options[@]}" run --rm "${sandbox[@]}" "$image" python3 -c 'raise SystemExit(3)'
    step_that_ends_with 127 "a program that does not exist" \
        podman "${podman_options[@]}" run --rm "${sandbox[@]}" "$image" no-such-program

    heading "5. Ten containers, one after the other"
    step "podman run --rm, ten times" show_ten "${sandbox[@]}"

    heading "6. The same warm: the interpreter is restored, its imports are done"
    local -a cold=(--annotation run.pysbx.warm=off) warm=(--annotation "run.pysbx.preload=json decimal asyncio")
    step "cold: python3 -c 'import json, decimal, asyncio'" show_imports "${sandbox[@]}" "${cold[@]}"
    step "the first run makes the snapshot" show_imports "${sandbox[@]}" "${warm[@]}"
    step "warm" show_imports "${sandbox[@]}" "${warm[@]}"
}

show_imports() {
    podman_here run --rm "$@" "$image" python3 -c 'import json, decimal, asyncio; print(decimal.Decimal(6) * 7)'
}

# The snapshots that are there, one a line.
list_snapshots() {
    "$RUNTIME" warm list --quiet | sort
}

show_program() {
    echo "a line from outside" | podman_here run --rm --interactive --volume "$here/fibonacci.py:/fibonacci.py:ro" \
        "$@" "$image" python3 /fibonacci.py
}

show_ten() {
    local number
    for number in {1..10}; do
        podman_here run --rm "$@" "$image" python3 -c "print($number ** 10)" >/dev/null
    done
}

cleanup() {
    local work=$1 snapshot
    podman_here rm --all --force --time 0 >/dev/null 2>&1 || true
    list_snapshots | comm -13 "$work/snapshots" - | while read -r snapshot; do
        "$RUNTIME" warm prune "$snapshot" >/dev/null
    done
    if ((EUID == 0)); then
        umount "$work/storage/overlay" 2>/dev/null || true
    else
        # shellcheck disable=SC2016 # expanded by the inner shell
        # Files of other ids are deleted from within the user namespace; then its keeper, ours alone, has to go.
        podman_here unshare sh -c 'umount "$1/storage/overlay"; rm -rf "$1/storage" "$1/run"' _ "$work" 2>/dev/null || true
        # Where the user had one already, that has been used.
        [[ ! -e $work/tmp/pause.pid ]] || kill "$(<"$work/tmp/pause.pid")" 2>/dev/null || true
    fi
    rm -rf "$work"
}

# Whether Podman can use this host as it is: cgroup v2 alone, as pysbx-runtime wants it.
host_has_cgroup2() {
    [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]
}

main() {
    [[ -x $RUNTIME ]] || fail "$RUNTIME is missing: run make first"
    heading "pysbx-runtime: a demonstration"
    step "install what is missing" "$root/tests/setup/install.sh" demo
    "$RUNTIME" --version | head -n 1 | sed 's/^/    /'
    podman --version | sed 's/^/    /'
    local cache=$root/build/images
    [[ -w $root/build ]] || cache=${XDG_CACHE_HOME:-$HOME/.cache}/pysbx/images
    export IMAGE_CACHE=${IMAGE_CACHE:-$cache}
    step "make a Python root file system" "$root/tests/lib/image" python
    DEMO_ARCHIVE=$("$root/tests/lib/image" python)
    export DEMO_ARCHIVE RUNTIME
    local began=$SECONDS
    if host_has_cgroup2; then
        show
    elif ((EUID == 0)); then
        echo "    this host has no pure cgroup v2: containers run in namespaces with one of their own"
        "$root/tests/lib/enter" "$here/demo.sh" --show
    else
        echo "    this host has no pure cgroup v2: containers run without cgroups"
        DEMO_CGROUPS=disabled show
    fi
    heading "Done in $((SECONDS - began)) s; the containers, the image and their files are gone."
}

case ${1:-} in
    '') main ;;
    --show) show ;;
    *)
        echo "usage: contrib/demo/demo.sh"
        exit 2
        ;;
esac
