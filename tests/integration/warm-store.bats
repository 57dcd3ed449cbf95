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
    prints '' runtime warm build --bundle bundle
    made=$(stat -c '%i %Z' "$(warm_store)/$(key)")
    expect 0 runtime warm build --bundle bundle
    [[ $(stat -c '%i %Z' "$(warm_store)/$(key)") == "$made" && $(snapshot uses) == 0 ]]
    prints 42 warm -c 'print(6 * 7)'
    [[ $(snapshot uses) == 1 && $(stat -c '%i %Z' "$(warm_store)/$(key)") == "$made" ]]
}

@test "warm build: a program that cannot be prewarmed is an error with the reason" {
    configure 'process["args"] = ["python3", "-i"]'
    fails 1 "-i asks for an interactive interpreter" runtime warm build --bundle bundle
    configure 'process["args"] = ["sh"]'
    fails 1 "not CPython" runtime warm build --bundle bundle
    [[ ! -e $(warm_store) ]]
}

@test "warm build: a module that cannot be imported is named" {
    preload no_such_module
    fails 1 "no_such_module" runtime warm build --bundle bundle
    [[ -z $(key) ]]
}

# bats test_tags=user
@test "warm list: a table, keys only, or JSON with modules, uses and times" {
    preload json,decimal
    expect 0 runtime warm build --bundle bundle
    expect 0 runtime warm list
    output_has "KEY" "decimal,json"
    expect 0 runtime warm list --format json
    output_holds 'len(it) == 1 and it[0]["state"] == "ready" and it[0]["preload"] == "decimal,json"'
    output_holds 'it[0]["size"] > 2**20 and it[0]["uses"] == 0 and it[0]["built"] > 0'
    expect 0 runtime warm list --quiet
    [[ $output =~ ^[0-9a-f]{32}$ ]]
}

@test "warm list: failed snapshots, with the reason; --quiet omits them, because they cannot be shown" {
    preload no_such_module
    prints cold either -c 'print("cold")'
    expect 0 runtime warm list
    output_has "failed" "ModuleNotFoundError: No module named 'no_such_module'"
    expect 0 runtime warm list --format json
    output_holds 'len(it) == 1 and it[0]["state"] == "failed" and "no_such_module" in it[0]["failed"]'
    output_holds 'it[0]["built"] > 0 and it[0]["size"] == 0 and "stale" not in it[0]'
    prints "" runtime warm list --quiet
    mkdir modules
    echo 'PRELOADED = 1' >modules/no_such_module.py
    configure 'mount("/modules", arguments[0]); process["env"].append("PYTHONPATH=/modules")' "$PWD/modules"
    expect 0 runtime warm build --bundle bundle
    tells '["failed" in entry for entry in it if entry["state"] == "ready"] == [False]' runtime warm list --format json
    expect 0 runtime warm prune --all
    tells 'it == []' runtime warm list --format json
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
    shows '/dev/shm/\x1b[2J' runtime warm list
    output_lacks $'\033'
}

@test "warm show: size, age, uses, modules and the key" {
    preload decimal
    runtime warm build --bundle bundle
    tells 'it["size"] > 2**20 and it["uses"] == 0 and it["files"] > 0 and "bundle" not in it' runtime warm show "$(key)"
    output_holds '"decimal" in it["modules"] and "preload=decimal" in it["key"]'
    output_holds 'it["python"].startswith("3.")'
    fails 1 "does not exist" runtime warm show 00000000000000000000000000000000
    fails 1 "is not the key" runtime warm show ../../etc/passwd
}

@test "warm show, verify: why there is no snapshot, if it could not be made" {
    preload absent_module
    expect 0 either -c 'print("cold")'
    failed=$(runtime warm list | awk '$2 == "failed" { print $1 }')
    fails 1 "could not be made: import absent_module: ModuleNotFoundError" runtime warm show "$failed"
    fails 1 "could not be made: import absent_module: ModuleNotFoundError" runtime warm show --bundle bundle
    fails 1 "could not be made: import absent_module: ModuleNotFoundError" runtime warm verify "$failed"
}

@test "warm show --bundle: whether a bundle fits, and why not" {
    runtime warm build --bundle bundle
    key=$(key)
    tells 'it["bundle"]["fits"] and it["bundle"]["differences"] == []' runtime warm show --bundle bundle

    configure 'process["args"] = ["python3", "-O", "-c", "pass"]; process["env"].append("TZ=UTC")'
    tells 'it["bundle"]["differences"] == ["+option=-O", "+environment=TZ=UTC"]' runtime warm show --bundle bundle "$key"
    output_holds 'not it["bundle"]["fits"] and it["bundle"]["reason"] == "the keys differ"'
    expect 1 runtime warm show --bundle bundle

    configure 'process["args"] = ["python3", "-V"]'
    tells 'it["bundle"]["reason"] == "-V asks for the version"' runtime warm show --bundle bundle "$key"
}

@test "warm show --bundle: a module that has changed is named" {
    preload_module own <<<'x = 1'
    runtime warm build --bundle bundle
    echo 'x = 2' >modules/own.py
    tells "it['bundle']['reason'] == \"'/modules/own.py' has changed\"" runtime warm show --bundle bundle
    module other.py <<<'y = 1'
    tells 'it["bundle"]["reason"] == "the keys differ"' runtime warm show --bundle bundle "$(key)"
    output_holds 'all(line[1:].startswith("modules=") for line in it["bundle"]["differences"])'
}

# bats test_tags=user
@test "warm verify: a flipped bit is found, warm prune removes damaged snapshots" {
    runtime warm build --bundle bundle
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
    prints 42 either -c 'print(6 * 7)'
    [[ $(snapshot state) == ready ]]
    chmod u+w "$image"
    truncate -s 4096 "$image"
    prints "1 removed" runtime warm prune
    [[ -z $(store_files) ]]
}

@test "warm verify, warm list: a snapshot of another version of the runtime is stale, not damaged" {
    runtime warm build --bundle bundle
    image=$(warm_store)/$(key)
    chmod u+w "$image"
    printf '\1\0\0\0' | dd of="$image" bs=1 seek=8 conv=notrunc status=none # snapshot_header.format
    fails 1 "the snapshot has format 1" runtime warm verify "$(key)"
    prints "" runtime warm verify
    [[ $(snapshot state) == stale ]]
    [[ $(snapshot stale) == *": the snapshot has format 1, this runtime reads "* ]]
}

@test "warm verify, warm list: a snapshot that is removed in the meantime is not reported as damaged" {
    runtime warm build --bundle bundle
    key=$(key)
    set -- strace -q -o trace -P "$key" -e inject=openat:error=ENOENT "$RUNTIME" warm
    prints "" "$@" verify
    grep -q INJECTED trace
    expect 0 "$@" list
    output_lacks damaged
    prints "[]" "$@" list --format json
    expect 0 runtime warm verify
}

@test "warm prune: removes all that verify reports, also if only a page of memory differs" {
    runtime warm build --bundle bundle
    image=$(warm_store)/$(key)
    prints "0 removed" runtime warm prune
    chmod u+w "$image"
    printf 'x' | dd of="$image" bs=1 seek=$(($(stat -c %s "$image") - 5000)) conv=notrunc status=none
    fails 1 "'warm prune' removes them" runtime warm verify
    prints "1 removed" runtime warm prune
    [[ -z $(store_files) ]]
}

@test "warm prune KEY: one snapshot" {
    runtime warm build --bundle bundle
    preload decimal
    runtime warm build --bundle bundle
    key=$(runtime warm list --quiet | head -n 1)
    prints "1 removed" runtime warm prune "$key"
    expect 0 runtime warm list --quiet
    [[ $output != *$key* && $(wc -l <<<"$output") == 1 ]]
    fails 1 "there is no snapshot '$key'" runtime warm prune "$key"
    fails 1 "there is no snapshot '../warm'" runtime warm prune ../warm
}

@test "warm prune KEY: a failed snapshot, so that the next start tries again" {
    preload no_such_module
    expect 0 either -c 'print("cold")'
    key=$(runtime warm list | awk '$2 == "failed" { print $1 }')
    prints "1 removed" runtime warm prune "$key"
    [[ -z $(store_files) ]]
    fails 1 "there is no snapshot '$key'" runtime warm prune "$key"
}

@test "warm prune: snapshots that are too old, too large, all" {
    runtime warm build --bundle bundle
    preload decimal
    runtime warm build --bundle bundle
    prints "0 removed" runtime warm prune
    touch -d '2 days ago' "$(warm_store)/$(runtime warm list --quiet | head -n 1)"
    prints "1 removed" runtime warm prune
    runtime warm build --bundle bundle
    preload json
    runtime warm build --bundle bundle
    expect 0 runtime warm prune --max-size "$(stat -c %s "$(warm_store)/$(runtime warm list --quiet | head -n 1)")"
    [[ $(key | wc -l) == 1 ]]
    sleep 1.1 # ages are counted in seconds
    prints "1 removed" runtime warm prune --older-than 0
    runtime warm build --bundle bundle
    prints "1 removed" runtime warm prune --all
    [[ -z $(store_files) ]]
}

# bats test_tags=user
@test "without a store: list is empty, verify and prune do nothing, show says so" {
    prints '[]' runtime warm list --format json
    expect 0 runtime warm verify
    prints "0 removed" runtime warm prune
    fails 1 "does not exist" runtime warm show 00000000000000000000000000000000
    [[ ! -e $(warm_store) ]]
}

@test "warm: an unknown or missing command is an error" {
    fails 1 "too few arguments" runtime warm
    fails 1 "unknown command 'warm heat'" runtime warm heat
    fails 1 "too many arguments" runtime warm list extra
    fails 1 "is no number of seconds" runtime warm prune --older-than -1
}

# bats test_tags=user
@test "the store has mode 0700; one that others can read, or a link to one, is not used" {
    runtime warm build --bundle bundle
    [[ $(stat -c %a "$(warm_store)") == 700 && $(stat -c %a "$(warm_store)/$(key)") == 400 ]]
    chmod 0750 "$(warm_store)"
    fails 1 "is open to others" warm -c 'print(6 * 7)'
    prints 42 either -c 'print(6 * 7)'
    fails 1 "is open to others" runtime warm list
    chmod 0700 "$(warm_store)"
    mv "$(warm_store)" real
    ln -s "$PWD/real" "$(warm_store)"
    expect 1 warm -c 'print(6 * 7)'
    expect 1 runtime warm list
    rm "$(warm_store)"
}

# bats test_tags=user
@test "a pipe in the place of a file of the store does not stop a container" {
    runtime warm build --bundle bundle
    for suffix in uses lock stale failed; do
        rm -f "$(warm_store)/$(key).$suffix"
        mkfifo "$(warm_store)/$(key).$suffix"
    done
    prints 42 timeout 60 "$RUNTIME" run --bundle bundle box
    rm "$(warm_store)/$(key)"
    prints 42 timeout 60 "$RUNTIME" run --bundle bundle box
}

@test "warm.json: a mistake is an error with file and position" {
    configure_warm '{"maxage": 5}'
    fails 1 "warm.json: maxage: unknown key" run_box
    configure_warm '{"template": {"timeout": "5s"}}'
    fails 1 "warm.json: template.timeout: " run_box
    configure 'process["args"] = ["sh", "-c", ":"]'
    expect 0 run_box # warm.json is read for Python only
}

@test "secondRun: the first run of a bare interpreter leaves a note, the second builds the snapshot" {
    configure_warm '{"secondRun": true}'
    expect 0 run_box
    [[ -z $(key) ]]
    prints 42 run_box
    [[ -n $(key) ]]
    expect 0 run_box
    [[ $(snapshot uses) -gt 0 ]]
}

@test "maxUses: the run after the last one rebuilds the snapshot" {
    configure_warm '{"secondRun": false, "maxUses": 2}'
    expect 0 warm -c 'pass'
    made=$(stat -c %i "$(warm_store)/$(key)")
    expect 0 warm -c 'pass'
    [[ $(stat -c %i "$(warm_store)/$(key)") == "$made" ]]
    expect 0 warm -c 'pass'
    [[ $(stat -c %i "$(warm_store)/$(key)") != "$made" && $(snapshot uses) == 1 ]]
    configure_warm '{"maxUses": 1, "rebuildExpired": false}'
    fails 1 "the snapshot was used too often" warm -c 'pass'
    expect 0 either -c 'pass'
}

@test "maxAge with rebuildExpired false: cold until warm build" {
    configure_warm '{"secondRun": false, "rebuildExpired": false}'
    runtime warm build --bundle bundle
    touch -d '2 days ago' "$(warm_store)/$(key)"
    fails 1 "the snapshot is too old" warm -c 'pass'
    expect 0 runtime warm build --bundle bundle
    expect 0 warm -c 'pass'
}

@test "rules: modules for containers with an annotation" {
    configure_warm '{"secondRun": false, "rules": [{"annotation": "team", "value": "data-*", "preload": ["decimal"]}]}'
    configure 'config.setdefault("annotations", {})["team"] = "data-science"'
    prints False warm -c "$(read_files decimal)"
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
