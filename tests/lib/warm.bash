# Helpers for tests of warm starts, in addition to those of bundle.bash: ./bundle around the root of an image, and
# python3 in it, warm or cold.
# shellcheck source-path=SCRIPTDIR source=bundle.bash
source "${BASH_SOURCE[0]%/*}/bundle.bash"
# shellcheck source-path=SCRIPTDIR source=warm-config.bash
source "${BASH_SOURCE[0]%/*}/warm-config.bash"

setup_file() {
    # shellcheck disable=SC2119 # the usual one
    configure_warm
}

# Make ./bundle around the root of an image, which the tests of a file share and none may change. Skip if the image
# cannot be made on this machine.
use_image() {
    local image=$1 root=$BATS_FILE_TMPDIR/$1
    if [[ ! -d $root ]]; then
        "$TESTS/lib/image" "$image" >"$BATS_TEST_TMPDIR/archive" || skip "there is no image '$image' here"
        mkdir "$root"
        tar --extract --file "$(<"$BATS_TEST_TMPDIR/archive")" -C "$root" --no-same-owner --preserve-permissions \
            --exclude './dev/*' # a user makes no devices
    fi
    mkdir -p bundle/rootfs
    make_bundle true
    configure 'config["root"]["path"] = arguments[0]' "$root"
}

# Give ./bundle its own copy of the root, in ./root.
own_root() {
    cp -a "$BATS_FILE_TMPDIR/$1" root
    configure 'config["root"]["path"] = arguments[0]' "$PWD/root"
}

# Set variables of the program: NAME=VALUE replaces, NAME= clears.
environment() {
    configure 'for word in arguments:
    process["env"] = [e for e in process["env"] if e.split("=")[0] != word.split("=")[0]] + [word]' "$@"
}

# Set the modules that are preloaded.
preload() {
    configure 'config.setdefault("annotations", {})["run.pysbx.preload"] = arguments[0]' "$1"
}

# Write a module of the test, from standard input, to ./modules. It is the volume /modules, which is in PYTHONPATH.
module() {
    if [[ ! -d modules ]]; then
        mkdir modules
        configure 'mount("/modules", arguments[0]); process["env"].append("PYTHONPATH=/modules")' "$PWD/modules"
    fi
    mkdir -p "$(dirname "modules/$1")"
    cat >"modules/$1.new"
    mv "modules/$1.new" "modules/$1"
}

# Write a module from standard input, and preload it: preload_module NAME
preload_module() {
    module "$1.py" && preload "$1"
}

# Make `python3 -c TEXT` the bundle's program, in a mode of run.pysbx.warm.
program() {
    configure 'config.setdefault("annotations", {})["run.pysbx.warm"] = arguments[0]
process["args"] = ["python3", "-c", arguments[1]]' "$@"
}

# Run python3 with these arguments as the container's program: only warm, cold, or either.
warm() {
    _run_python require "$@"
}

cold() {
    _run_python off "$@"
}

either() {
    _run_python auto "$@"
}

_run_python() {
    configure 'config.setdefault("annotations", {})["run.pysbx.warm"] = arguments[0]
process["args"] = ["python3", *arguments[1:]]' "$@"
    runtime run --bundle bundle --status-file status box
}

# Assert that a program has the same exit code, standard error and standard output cold and warm. INPUT names the file
# for standard input.
same() {
    local mode part code
    for mode in cold warm; do
        code=0
        "$mode" "$@" >"$mode.out" 2>"$mode.err" <"${INPUT:-/dev/null}" || code=$?
        echo "$code" >"$mode.code"
    done
    for part in code err out; do
        diff -u "cold.$part" "warm.$part" || { cat warm.err && return 1; }
    done
    output=$(<warm.out)
}

# Make RUNTIME one of the same version that appears to be built with another agent. A snapshot exists already, so the
# agent is in the store, under the name from the build.
use_other_build() {
    local identity file program
    for file in "$(warm_store)"/agent-*.so; do # the machine's own store may have others
        identity=$(basename "$file" .so)
        identity=${identity#agent-}
        ! grep -qF "$identity" "$RUNTIME" || break
    done
    mkdir other
    for program in "$RUNTIME" "$RUNTIME-dynamic"; do
        [[ ! -e $program ]] || sed "s/$identity/${identity//[0-9]/0}/" "$program" >"other/${program##*/}"
    done
    chmod +x other/*
    RUNTIME=$PWD/other/${RUNTIME##*/}
}

# Assert that no snapshot of the bundle can be built, for this reason, that the program runs nevertheless, and that the
# status file has the reason. The runtime has left before imports that cannot be continued. The first time in a test, a
# required warm start fails with it too.
is_cold_because() {
    if [[ ! -e required || $1 == *"imports cannot be continued"* ]]; then
        fails 1 "$1" warm -c 'print("ran")'
        : >required
    fi
    prints ran either -c 'print("ran")'
    [[ $1 == *"imports cannot be continued"* || $(<status) == "cold "[a-z]*" "*"$1"* ]] || { cat status && return 1; }
}

# Print a property of the store's only snapshot as JSON.
snapshot() {
    runtime warm list --format json | python3 -c 'import json, sys
[entry] = json.load(sys.stdin)
print(entry[sys.argv[1]])' "$1"
}

# Run tests/warm/programs in containers around the root of an image, cold and warm.
compare_programs() {
    local -a programs
    use_image "$1"
    # A container's standard streams are never closed, because the runtime opens /dev/null there.
    mapfile -t programs < <(grep -L '^# closed:' "$TESTS"/warm/programs/*.py)
    "$TESTS/warm/compare" --cold "$TESTS/warm/launch.py cold $PWD/bundle" --warm "$TESTS/warm/launch.py warm $PWD/bundle" "${programs[@]}"
}

# Run CPython's own tests of an image in the same way: a selection, or those that TEST_REGRTEST selects.
compare_regrtest() {
    use_image "$1"
    # shellcheck disable=SC2086 # words
    "$TESTS/warm/regrtest.py" --bundle bundle ${TEST_REGRTEST:-}
}
