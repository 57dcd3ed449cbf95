#!/usr/bin/env bats
# A snapshot contains nothing of its container except the values that its key names. The tests put random marks into all
# inputs of a container. The marks are in no container restored from the snapshot, and not in the store:
# contrib/docs/pages/inside/warm-start.md, "Creating a snapshot".
# images: python
# once: a snapshot is made and searched in the same way in both modes

load ../lib/marks.bash

@test "the search finds the marks of a container in that container" {
    make_marks
    mark_bundle
    mark_limits
    local -a numbers expected=(variable value argument program hostname domainname source destination content file key-name
        number-fsize number-locks number-rss number-data mount-option)
    is_rootless || expected+=(device)
    read -ra numbers < <("$TESTS/lib/marks" masked marks "${LIMITS[@]}")
    "$TESTS/lib/edit-config" "$MARKED/config.json" 'import json as json_
marks = json_.load(open(arguments[0]))
config["annotations"]["run.pysbx.warm"] = "off"
process["args"] = ["python3", "-c", """import os, resource, runpy, sys
places = [os.listdir("/mnt"), os.listdir("/dev"), open(sys.argv[1]).read()]
sys.argv[1:] = sys.argv[3:]
runpy.run_path("/mnt/scan/scan-marks", run_name="__main__") # """ + marks["program"],
    "/mnt/%s/%s" % (marks["destination"], marks["file"]), marks["argument"], *arguments[1:]]' marks "${numbers[@]}"
    runtime_marked run >scanned
    has_marks_of "${expected[@]}"
}

teardown() {
    if [[ $BATS_TEST_DESCRIPTION == podman* ]]; then
        remove_containers
        # Podman does not remove the cgroup that it was told to use.
        find /sys/fs/cgroup -mindepth 1 -depth -type d -path '/sys/fs/cgroup/Mk9q*' -exec rmdir {} + || true
    fi
    clean_up
}

# Assert that a container without marks starts from the only snapshot, and that it contains no mark of the first one.
restored_without_marks() {
    local bad=0
    scan
    has_marks_of || bad=1
    files_have_no_marks || bad=1
    snapshots_are 1 && ((!bad))
}

# Start a container that sleeps, for exec: start_other BUNDLE.
start_other() {
    "$TESTS/lib/edit-config" "$1/config.json" 'process["args"] = ["sleep", "1000"]
config["annotations"]["run.pysbx.warm"] = "auto"'
    runtime run --detach --bundle "$1" other <stdin >other.out 2>&1
}

# Run a program by exec, with marks of its own.
exec_marked() {
    env "CALLER=$(mark caller)" "$RUNTIME" exec --env "$(mark exec-variable)=$(mark exec-value)" --pid-file "pid-$(mark exec-pid-file)" \
        other python3 -c "word = '$(mark exec-program)'" "$(mark exec-argument)" <<<"$(mark exec-stdin)"
}
EXEC_CHANNELS=(exec-variable exec-value exec-pid-file exec-program exec-argument exec-stdin)

# Run the search by exec.
scan_by_exec() {
    runtime exec other python3 /mnt/scan/scan-marks </dev/null >scanned.exec
}

@test "run builds the snapshot: no mark of its container is in the next one, or in the store" {
    make_marks
    mark_bundle
    runtime_marked run
    restored_without_marks
}

@test "run builds the snapshot of a bare interpreter: no mark" {
    make_marks
    preload ""
    mark_bundle
    runtime_marked run
    restored_without_marks
}

@test "create builds the snapshot: no mark" {
    make_marks
    mark_bundle
    runtime_marked create
    runtime start "$(mark id)"
    wait_for eval '[[ $(runtime state "$(mark id)") == *stopped* ]]'
    restored_without_marks
}

@test "warm build builds the snapshot: no mark" {
    make_marks
    mark_bundle
    env "CALLER=$(mark caller)" "$RUNTIME" --log "log-$(mark caller-argument)" warm build --bundle "$MARKED" <stdin
    restored_without_marks
}

@test "exec builds the snapshot: no mark of its container or process is in the next exec, the next container, or the store" {
    make_marks "${EXEC_CHANNELS[@]}"
    mark_bundle
    start_other "$MARKED"
    exec_marked
    runtime delete --force other
    start_other bundle
    scan_by_exec
    SCANNED=scanned.exec has_marks_of
    configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    restored_without_marks
}

@test "exec during the build of run, and run during the build of exec: no mark of either" {
    make_marks "${EXEC_CHANNELS[@]}"
    module marked.py <<<'import time; time.sleep(0.5)'
    mark_bundle
    start_other bundle
    for first in runtime_marked exec_marked; do
        rm -rf "$(warm_store)"
        if [[ $first == exec_marked ]]; then second=(runtime_marked run); else second=(exec_marked); fi
        [[ $first == exec_marked ]] || first="runtime_marked run"
        $first 3>&- &
        wait_for compgen -G "$RUNTIME_STATE/*:builder"
        "${second[@]}"
        wait $!
        configure 'config["annotations"]["run.pysbx.warm"] = "require"'
        scan_by_exec
        SCANNED=scanned.exec has_marks_of
        restored_without_marks
    done
}

@test "limits that the kernel stores as numbers: none is in a container without them" {
    make_marks
    mark_bundle
    mark_limits
    runtime_marked run
    scan
    has_marks_of
}

# The parts of the key: a name, and the statement that gives the container the mark `word`.
key_channels() {
    cat <<'TABLE'
HOME                process["env"].append("HOME=/" + word)
PATH                process["env"] = [e + ":/" + word if e.startswith("PATH=") else e for e in process["env"]]
PYTHON*, a name     process["env"].append("PYTHON" + word + "=1")
PYTHON*, a value    process["env"].append("PYTHONWORD=" + word)
LC_*                process["env"].append("LC_WORD=" + word)
LD_*                process["env"].append("LD_LIBRARY_PATH=/mnt/" + word)
OMP_*               process["env"].append("OMP_WORD=" + word)
TMPDIR              process["env"].append("TMPDIR=/mnt/" + word)
TZ                  process["env"].append("TZ=" + word)
cwd                 process["cwd"] = "/mnt/" + word; mount("/mnt/" + word, "tmpfs", kind="tmpfs")
PYTHONPATH          process["env"] = [e + ":/mnt/" + word if e.startswith("PYTHONPATH=") else e for e in process["env"]]
option              process["args"] = ["python3", "-X", word, "-c", "pass"]
TABLE
}

# Print the key of a bundle's snapshot.
key_of() {
    runtime plan --bundle "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["warm"]["key"])'
}

@test "parts of the key: the next container gets another snapshot, which has no mark" {
    local name statement key count=1 bad=0
    make_marks
    configure 'process["args"] = ["python3", "-c", "pass"]'
    key=$(key_of bundle)
    while IFS= read -r line; do
        name=${line:0:20} statement=${line:20}
        mark_bundle
        "$TESTS/lib/edit-config" "$MARKED/config.json" "word = arguments[0]; $statement" "$(mark id)"
        runtime_marked run
        [[ $(key_of "$MARKED") != "$key" ]] || { echo "$name: the key is the same" && bad=1; }
        count=$((count + 1))
    done < <(key_channels)
    scan
    has_marks_of
    snapshots_are "$count"
    [[ -s $(warm_store)/$key ]]
    files_have_no_marks "$(warm_store)/$key"*
    ((!bad))
}

@test "groups are part of the key: the next container gets another snapshot without their numbers" {
    needs_root "has no groups to give"
    make_marks
    mark_bundle
    local -a groups
    mapfile -t groups < <(shuf -i 1000000000-2000000000 -n 2 | sort -n)
    "$TESTS/lib/edit-config" "$MARKED/config.json" 'process["user"]["additionalGids"] = [int(a) for a in arguments]' "${groups[@]}"
    runtime_marked run
    # As two adjacent words, as the kernel stores them, and as strings.
    mapfile -t groups < <(python3 -c 'import struct, sys
for data in [struct.pack("<II", *map(int, sys.argv[1:])), *map(str.encode, sys.argv[1:])]:
    print(bytes(byte ^ 0x5A for byte in data).hex())' "${groups[@]}")
    configure 'process["args"] = ["python3", "/mnt/scan/scan-marks", *arguments]' "${groups[@]}"
    runtime run --bundle bundle box </dev/null >scanned
    has_marks_of
    snapshots_are 2
}

@test "a variable and a file that an import reads: a container with others gets another snapshot, which has no mark" {
    make_marks read-value read-file
    module marked.py <<'PYTHON'
import os
value = os.environ.get("READ")
content = [os.listdir(place) and open(place + "/word").read() for place in ["/mnt/read"] if os.path.isdir(place)]
PYTHON
    mark_bundle
    mkdir "read"
    mark read-file >read/word
    "$TESTS/lib/edit-config" "$MARKED/config.json" 'process["env"].append("READ=" + arguments[0]); mount("/mnt/read", arguments[1], "ro")' \
        "$(mark read-value)" "$PWD/read"
    runtime_marked run
    mkdir empty
    configure 'mount("/mnt/read", arguments[0], "ro"); config["annotations"]["run.pysbx.warm"] = "auto"' "$PWD/empty"
    scan
    has_marks_of
    configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    scan
    has_marks_of
}

@test "a saved session: no mark that only the runtime and other containers know" {
    make_marks
    mkdir shared
    chmod 0777 shared
    module forking.py <"$TESTS/lib/forking.py"
    preload "marked forking"
    configure 'mount("/shared", arguments[0], "rw"); mount("/tmp", "tmpfs", kind="tmpfs")' "$PWD/shared"
    mark_bundle
    runtime_marked run # builds the snapshot that the session starts from
    # The session must not have its own inputs in memory: variables, arguments, standard input.
    local -a numbers
    read -ra numbers < <("$TESTS/lib/marks" masked marks "${LIMITS[@]}")
    mark_limits
    "$TESTS/lib/edit-config" "$MARKED/config.json" '
process["env"] = [e for e in process["env"] if not e.startswith("Mk9q")]
process["args"] = ["python3", "-c", "from forking import fork, wait\nimport runpy\n"
    "if fork(): wait()\nelse: runpy.run_path(\"/mnt/scan/scan-marks\", run_name=\"__main__\")", *arguments]' "${numbers[@]}"
    : >stdin
    runtime_marked run --detach >session.out 2>&1
    wait_for test -s shared/parked || { cat session.out && return 1; }
    init=$(state_of "$(mark id)" pid)
    fork=$(cut -d ' ' -f 1 "/proc/$init/task/$init/children")
    env "CALLER=$(mark caller)" "$RUNTIME" --log "log-$(mark caller-argument)" warm save "$(mark id)" "$fork" saved
    touch shared/release
    files_have_no_marks saved
    configure 'process["args"] = ["python3", "-c", "pass"]'
    runtime run --bundle bundle --snapshot saved fork </dev/null >scanned
    has_marks_of
}

@test "podman run builds the snapshot: no mark of its container is in the next one, or in the store" {
    local -a channels=(variable value secret-value argument stdin hostname label label-name annotation annotation-name
        source destination content secret secret-name name host tmpfs caller) options=() numbers usual
    take_marks "${channels[@]}" cgroup device number-rss number-locks
    import_python
    rm -rf "$(warm_store)"
    mkdir "volume-$(mark source)" scan
    mark content >"volume-$(mark source)/file"
    cp "$TESTS/lib/scan-marks" scan/
    mark secret | podman secret create "$(mark secret-name)" - >&2
    mark secret-value | podman secret create "$(mark secret-name)-value" - >&2
    # Podman omits the default limits if others are given, and the limit of descriptors is part of the key.
    while read -r usual; do
        options+=(--ulimit "$usual")
    done < <(grep -o 'n[a-z]*=[0-9]*:[0-9]*' /etc/containers/containers.conf)
    is_rootless || options+=(--cgroup-parent "/$(mark cgroup)" --device "/dev/null:/dev/$(mark device)")
    mark stdin | env "CALLER=$(mark caller)" podman --runtime "$RUNTIME" run --rm -i --network none \
        --annotation run.pysbx.preload=json --annotation run.pysbx.warm=require \
        -e "$(mark variable)=$(mark value)" --hostname "$(mark hostname)" --label "$(mark label-name)=$(mark label)" \
        --annotation "$(mark annotation-name)=$(mark annotation)" --name "$(mark name)" --tmpfs "/mnt/$(mark tmpfs)" \
        -v "$PWD/volume-$(mark source):/mnt/$(mark destination):ro" --add-host "$(mark host):127.0.0.9" \
        --secret "$(mark secret-name),target=$(mark secret-name)" \
        --secret "$(mark secret-name)-value,type=env,target=SECRET" \
        --ulimit "rss=$(mark number-rss):$(mark number-rss)" --ulimit "locks=$(mark number-locks):$(mark number-locks)" \
        "${options[@]}" "$PYTHON" python3 -c 'import os, sys; sys.exit("SECRET" not in os.environ or not sys.stdin.read())' \
        "$(mark argument)"
    read -ra numbers < <("$TESTS/lib/marks" masked marks number-rss number-locks)
    expect 0 podman run --rm --network none --annotation run.pysbx.preload=json --annotation run.pysbx.warm=require \
        -v "$PWD/scan:/mnt/scan:ro" "$PYTHON" python3 /mnt/scan/scan-marks "${numbers[@]}"
    podman secret rm "$(mark secret-name)" "$(mark secret-name)-value" >&2
    local bad=0
    echo "$output" >scanned
    has_marks_of || bad=1
    files_have_no_marks || bad=1
    snapshots_are 1 && ((!bad))
}
