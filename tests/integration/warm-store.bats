#!/usr/bin/env bats
# The commands about snapshots, and the administrator's settings: pysbx-runtime(8).
# images: python
# once: the commands and settings are the same for a user, whose store is another directory

load ../lib/warm.bash

setup() {
    begin_test
    configure_warm
    rm -rf "$(warm_store)"
    use_image python
    configure 'process["args"] = ["python3", "-c", "print(6 * 7)"]'
}

# Print the keys in the store.
key() {
    runtime warm list --quiet
}

# Print the files in the store that belong to snapshots.
store_files() {
    find "$(warm_store)" -type f -not -name 'agent-*' -not -name format-2 -printf '%f\n' | sort
}

# bats test_tags=user
@test "warm build: builds the snapshot once, and the first run uses it" {
    expect 0 runtime warm build --bundle bundle
    output_is ''
    local made
    made=$(stat -c '%i %Z' "$(warm_store)/$(key)")
    expect 0 runtime warm build --bundle bundle
    [[ $(stat -c '%i %Z' "$(warm_store)/$(key)") == "$made" ]]
    [[ $(snapshot uses) == 0 ]]
    expect 0 warm -c 'print(6 * 7)'
    output_is 42
    [[ $(snapshot uses) == 1 ]]
    [[ $(stat -c '%i %Z' "$(warm_store)/$(key)") == "$made" ]]
}

@test "warm build: a program that cannot be prewarmed is an error with the reason" {
    configure 'process["args"] = ["python3", "-i"]'
    expect 1 runtime warm build --bundle bundle
    stderr_has "-i asks for an interactive interpreter"
    configure 'process["args"] = ["sh"]'
    expect 1 runtime warm build --bundle bundle
    stderr_has "not CPython"
    [[ ! -e $(warm_store) ]]
}

@test "warm build: a module that cannot be imported is named" {
    preload no_such_module
    expect 1 runtime warm build --bundle bundle
    stderr_has "no_such_module"
    [[ -z $(key) ]]
}

# bats test_tags=user
@test "warm list: a table, keys only, or JSON with modules, uses and times" {
    preload json,decimal
    expect 0 runtime warm build --bundle bundle
    expect 0 runtime warm list
    output_has "KEY"
    output_has "decimal,json"
    expect 0 runtime warm list --format json
    output_holds 'len(it) == 1 and it[0]["state"] == "ready" and it[0]["preload"] == "decimal,json"'
    output_holds 'it[0]["size"] > 2**20 and it[0]["uses"] == 0 and it[0]["built"] > 0'
    expect 0 runtime warm list --quiet
    [[ $output =~ ^[0-9a-f]{32}$ ]]
}

@test "warm list: failed snapshots, with the reason; --quiet omits them, because they cannot be shown" {
    preload no_such_module
    expect 0 either -c 'print("cold")'
    output_is cold
    expect 0 runtime warm list
    output_has "failed"
    output_has "ModuleNotFoundError: No module named 'no_such_module'"
    expect 0 runtime warm list --format json
    output_holds 'len(it) == 1 and it[0]["state"] == "failed" and "no_such_module" in it[0]["failed"]'
    output_holds 'it[0]["built"] > 0 and it[0]["size"] == 0 and "stale" not in it[0]'
    expect 0 runtime warm list --quiet
    output_is ""
    mkdir modules
    echo 'PRELOADED = 1' >modules/no_such_module.py
    configure 'mount("/modules", arguments[0]); process["env"].append("PYTHONPATH=/modules")' "$PWD/modules"
    expect 0 runtime warm build --bundle bundle
    expect 0 runtime warm list --format json
    output_holds '["failed" in entry for entry in it if entry["state"] == "ready"] == [False]'
    expect 0 runtime warm prune --all
    expect 0 runtime warm list --format json
    output_holds 'it == []'
}

@test "warm list: the reason quotes strings of a container, without its control characters" {
    mkdir modules
    cat >modules/hostile.py <<'PYTHON'
import mmap, os
name = f"/dev/shm/\033[2J{os.getpid()}" # imports run in two processes at the same time
descriptor = os.open(name, os.O_RDWR | os.O_CREAT)
os.truncate(descriptor, 4096)
kept = mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
os.close(descriptor)
os.unlink(name)
PYTHON
    configure 'mount("/modules", arguments[0]); process["env"].append("PYTHONPATH=/modules")' "$PWD/modules"
    preload hostile
    expect 0 either -c 'print("cold")'
    expect 0 runtime warm list
    output_has '/dev/shm/\x1b[2J'
    output_lacks $'\033'
}

@test "warm show: size, age, uses, modules and the key" {
    preload decimal
    runtime warm build --bundle bundle
    expect 0 runtime warm show "$(key)"
    output_holds 'it["size"] > 2**20 and it["uses"] == 0 and it["files"] > 0 and "bundle" not in it'
    output_holds '"decimal" in it["modules"] and "preload=decimal" in it["key"]'
    output_holds 'it["python"].startswith("3.")'
    expect 1 runtime warm show 00000000000000000000000000000000
    stderr_has "does not exist"
    expect 1 runtime warm show ../../etc/passwd
    stderr_has "is not the key"
}

@test "warm show --bundle: whether a bundle fits, and why not" {
    runtime warm build --bundle bundle
    local key
    key=$(key)
    expect 0 runtime warm show --bundle bundle
    output_holds 'it["bundle"]["fits"] and it["bundle"]["differences"] == []'

    configure 'process["args"] = ["python3", "-O", "-c", "pass"]; process["env"].append("TZ=UTC")'
    expect 0 runtime warm show --bundle bundle "$key"
    output_holds 'it["bundle"]["differences"] == ["+option=-O", "+environment=TZ=UTC"]'
    output_holds 'not it["bundle"]["fits"] and it["bundle"]["reason"] == "the keys differ"'
    expect 1 runtime warm show --bundle bundle

    configure 'process["args"] = ["python3", "-V"]'
    expect 0 runtime warm show --bundle bundle "$key"
    output_holds 'it["bundle"]["reason"] == "-V asks for the version"'
}

@test "warm show --bundle: a module that has changed is named" {
    module own.py <<<'x = 1'
    preload own
    runtime warm build --bundle bundle
    echo 'x = 2' >modules/own.py
    expect 0 runtime warm show --bundle bundle
    output_holds "it['bundle']['reason'] == \"'/modules/own.py' has changed\""
    module other.py <<<'y = 1'
    expect 0 runtime warm show --bundle bundle "$(key)"
    output_holds 'it["bundle"]["reason"] == "the keys differ"'
    output_holds 'all(line[1:].startswith("modules=") for line in it["bundle"]["differences"])'
}

# bats test_tags=user
@test "warm verify: a flipped bit is found, warm prune removes damaged snapshots" {
    runtime warm build --bundle bundle
    local image
    image=$(warm_store)/$(key)
    expect 0 runtime warm verify
    expect 0 runtime warm verify "$(key)"
    chmod u+w "$image"
    printf 'x' | dd of="$image" bs=1 seek=$(($(stat -c %s "$image") - 5000)) conv=notrunc status=none
    expect 1 runtime warm verify
    output_has "does not match its checksum"
    stderr_has "1 of 1 snapshots are damaged"
    truncate -s 4096 "$image"
    expect 1 runtime warm verify "$(key)"
    expect 0 either -c 'print(6 * 7)'
    output_is 42
    [[ $(snapshot state) == ready ]]
    chmod u+w "$image"
    truncate -s 4096 "$image"
    expect 0 runtime warm prune
    output_is "1 removed"
    [[ -z $(store_files) ]]
}

@test "warm verify: a snapshot of another version of the runtime is not damaged" {
    runtime warm build --bundle bundle
    local image
    image=$(warm_store)/$(key)
    chmod u+w "$image"
    printf '\1\0\0\0' | dd of="$image" bs=1 seek=8 conv=notrunc status=none # snapshot_header.format
    expect 1 runtime warm verify "$(key)"
    stderr_has "the snapshot has format 1"
    expect 0 runtime warm verify
    output_is ""
}

@test "warm verify, warm list: a snapshot that is removed in the meantime is not reported as damaged" {
    local key
    runtime warm build --bundle bundle
    key=$(key)
    set -- strace -q -o trace -P "$key" -e inject=openat:error=ENOENT "$RUNTIME" warm
    expect 0 "$@" verify
    output_is ""
    grep -q INJECTED trace
    expect 0 "$@" list
    output_lacks damaged
    expect 0 "$@" list --format json
    output_is "[]"
    expect 0 runtime warm verify
}

@test "warm prune: removes all that verify reports, also if only a page of memory differs" {
    runtime warm build --bundle bundle
    local image
    image=$(warm_store)/$(key)
    expect 0 runtime warm prune
    output_is "0 removed"
    chmod u+w "$image"
    printf 'x' | dd of="$image" bs=1 seek=$(($(stat -c %s "$image") - 5000)) conv=notrunc status=none
    expect 1 runtime warm verify
    stderr_has "'warm prune' removes them"
    expect 0 runtime warm prune
    output_is "1 removed"
    [[ -z $(store_files) ]]
}

@test "warm prune KEY: one snapshot" {
    local key
    runtime warm build --bundle bundle
    preload decimal
    runtime warm build --bundle bundle
    key=$(runtime warm list --quiet | head -n 1)
    expect 0 runtime warm prune "$key"
    output_is "1 removed"
    expect 0 runtime warm list --quiet
    [[ $output != *$key* && $(wc -l <<<"$output") == 1 ]]
    expect 1 runtime warm prune "$key"
    stderr_has "there is no snapshot '$key'"
    expect 1 runtime warm prune ../warm
    stderr_has "there is no snapshot '../warm'"
}

@test "warm prune KEY: a failed snapshot, so that the next start tries again" {
    local key
    preload no_such_module
    expect 0 either -c 'print("cold")'
    key=$(runtime warm list | awk '$2 == "failed" { print $1 }')
    expect 0 runtime warm prune "$key"
    output_is "1 removed"
    [[ -z $(store_files) ]]
    expect 1 runtime warm prune "$key"
    stderr_has "there is no snapshot '$key'"
}

@test "warm prune: snapshots that are too old, too large, all" {
    runtime warm build --bundle bundle
    preload decimal
    runtime warm build --bundle bundle
    expect 0 runtime warm prune
    output_is "0 removed"
    touch -d '2 days ago' "$(warm_store)/$(runtime warm list --quiet | head -n 1)"
    expect 0 runtime warm prune
    output_is "1 removed"
    runtime warm build --bundle bundle
    preload json
    runtime warm build --bundle bundle
    expect 0 runtime warm prune --max-size "$(stat -c %s "$(warm_store)/$(runtime warm list --quiet | head -n 1)")"
    [[ $(key | wc -l) == 1 ]]
    sleep 1.1 # ages are counted in seconds
    expect 0 runtime warm prune --older-than 0
    output_is "1 removed"
    runtime warm build --bundle bundle
    expect 0 runtime warm prune --all
    output_is "1 removed"
    [[ -z $(store_files) ]]
}

# bats test_tags=user
@test "without a store: list is empty, verify and prune do nothing, show says so" {
    expect 0 runtime warm list --format json
    output_is '[]'
    expect 0 runtime warm verify
    expect 0 runtime warm prune
    output_is "0 removed"
    expect 1 runtime warm show 00000000000000000000000000000000
    stderr_has "does not exist"
    [[ ! -e $(warm_store) ]]
}

@test "warm: an unknown or missing command is an error" {
    expect 1 runtime warm
    stderr_has "too few arguments"
    expect 1 runtime warm heat
    stderr_has "unknown command 'warm heat'"
    expect 1 runtime warm list extra
    stderr_has "too many arguments"
    expect 1 runtime warm prune --older-than -1
    stderr_has "is no number of seconds"
}

# bats test_tags=user
@test "the store has mode 0700; one that others can read is not used" {
    runtime warm build --bundle bundle
    [[ $(stat -c %a "$(warm_store)") == 700 ]]
    [[ $(stat -c %a "$(warm_store)/$(key)") == 400 ]]
    chmod 0750 "$(warm_store)"
    expect 1 warm -c 'print(6 * 7)'
    stderr_has "is open to others"
    expect 0 either -c 'print(6 * 7)'
    output_is 42
    expect 1 runtime warm list
    stderr_has "is open to others"
}

@test "warm.json: a mistake is an error with file and position" {
    configure_warm '{"maxage": 5}'
    expect 1 run_box
    stderr_has "warm.json: maxage: unknown key"
    configure_warm '{"template": {"timeout": "5s"}}'
    expect 1 run_box
    stderr_has "warm.json: template.timeout: "
    configure 'process["args"] = ["sh", "-c", ":"]'
    expect 0 run_box # warm.json is read for Python only
}

@test "secondRun: the first run of a bare interpreter leaves a note, the second builds the snapshot" {
    configure_warm '{"secondRun": true}'
    expect 0 run_box
    [[ -z $(key) ]]
    expect 0 run_box
    output_is 42
    [[ -n $(key) ]]
    expect 0 run_box
    [[ $(snapshot uses) -gt 0 ]]
}

@test "maxUses: the run after the last one rebuilds the snapshot" {
    configure_warm '{"secondRun": false, "maxUses": 2}'
    local made
    expect 0 warm -c 'pass'
    made=$(stat -c %i "$(warm_store)/$(key)")
    expect 0 warm -c 'pass'
    [[ $(stat -c %i "$(warm_store)/$(key)") == "$made" ]]
    expect 0 warm -c 'pass'
    [[ $(stat -c %i "$(warm_store)/$(key)") != "$made" ]]
    [[ $(snapshot uses) == 1 ]]
}

@test "maxAge with rebuildExpired false: cold until warm build" {
    configure_warm '{"secondRun": false, "rebuildExpired": false}'
    runtime warm build --bundle bundle
    touch -d '2 days ago' "$(warm_store)/$(key)"
    expect 1 warm -c 'pass'
    stderr_has "the snapshot is too old"
    expect 0 runtime warm build --bundle bundle
    expect 0 warm -c 'pass'
}

@test "rules: modules for containers with an annotation" {
    configure_warm '{"secondRun": false, "rules": [{"annotation": "team", "value": "data-*", "preload": ["decimal"]}]}'
    configure 'config.setdefault("annotations", {})["team"] = "data-science"'
    expect 0 warm -c "$(read_files decimal)"
    output_is False
    [[ $(snapshot preload) == decimal ]]
}

@test "warm-json.md, of which warm.json(5) is made, describes every key that the runtime reads, and no others" {
    local top=$TESTS/..
    grep -o '\.key = "[A-Za-z]*"' "$top/runtime/warm/config.c" | cut -d '"' -f 2 | sort >known
    # The keys of the table, such as template.timeout, and those of the example of a rule.
    sed -n 's/^| `\([A-Za-z.]*\)` .*/\1/p; s/^ *"\([a-z]*\)": .*/\1/p' "$top/contrib/docs/pages/reference/warm-json.md" |
        tr '.' '\n' | sort -u >described
    [[ -s known ]]
    diff known described
}

@test "plan: warm or cold, why, and whether there is a snapshot" {
    expect 0 runtime plan --bundle bundle
    output_holds 'it["warm"]["start"] == "warm" and it["warm"]["snapshot"] != "ready"'
    [[ ! -e $(warm_store) ]] # it changes nothing
    runtime warm build --bundle bundle
    expect 0 runtime plan --bundle bundle
    output_holds 'it["warm"]["snapshot"] == "ready" and it["warm"]["program"] == "/usr/bin/python3"'
    [[ $(snapshot uses) == 0 ]]
    configure 'process["args"] = ["python3", "-i"]'
    expect 0 runtime plan --bundle bundle
    output_holds 'it["warm"]["start"] == "cold" and it["warm"]["reason"].startswith("-i asks")'
}
