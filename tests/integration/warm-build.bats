#!/usr/bin/env bats
# Making a snapshot: once, by whoever comes first; whatever goes wrong meanwhile, the program runs and nothing is left.
# images: python

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
    module slow.py <<<'import time; time.sleep(0.3)'
    preload slow
    rm -rf "$(warm_store)"
}

teardown() {
    configure_warm
    ! mountpoint -q "$(warm_store)" || umount "$(warm_store)"
    clean_up
}

# Starts ./bundle's program N times at once under names of their own; prints "COUNTxSTATUS" of each status. What they say
# goes to output.* and error.*.
at_once() {
    local count=$1 number
    for ((number = 0; number < count; number++)); do
        { rc=0; runtime run --bundle bundle "box$number" >"output.$number" 2>"error.$number" </dev/null 3>&- || rc=$?
            echo "$rc" >"status.$number"; } &
    done
    wait
    cat status.* | sort -n | uniq -c | awk '{ printf "%s%dx%d", (NR > 1 ? " " : ""), $1, $2 }'
    rm status.*
}

# The number of snapshots, and of anything else but locks and notes that looks like the beginning of one.
snapshots() {
    runtime warm list --format json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'
}

@test "first use makes the snapshot, later uses take it" {
    program require 'import time; print("ran")'
    expect 0 run_box
    output_is ran
    local made
    made=$(stat -c '%i %Y' "$(warm_store)"/*)
    expect 0 run_box
    output_is ran
    [[ $(snapshots) == 1 ]]
    [[ $(stat -c '%i' "$(warm_store)"/* | sort | head -n 1) == "$(cut -d ' ' -f 1 <<<"$made" | sort | head -n 1)" ]]
}

@test "ten at once: one builds, all run, there is one snapshot" {
    program require 'print("ran")'
    [[ $(at_once 10) == 10x0 ]] || { cat error.* && return 1; }
    [[ $(cat output.*) == "$(printf 'ran\n%.0s' {1..10})" ]]
    [[ $(snapshots) == 1 ]]
}

@test "waitForBuild false: those who come meanwhile start cold" {
    configure_warm '{"waitForBuild": false, "retryAfter": 0}'
    program auto 'print("ran")'
    [[ $(at_once 5) == 5x0 ]] || { cat error.* && return 1; }
    [[ $(cat output.*) == "$(printf 'ran\n%.0s' {1..5})" ]]
    program require 'print("ran")'
    expect 0 run_box
    [[ $(snapshots) == 1 ]]
}

@test "killed while it builds: nothing of it stays, and the next one builds" {
    program require 'print("ran")'
    local after
    for after in 0.01 0.03 0.06 0.1 0.2 0.3 0.35 0.4 0.45 0.5; do
        timeout --signal KILL "$after" "$RUNTIME" run --bundle bundle killed </dev/null >/dev/null 2>&1 || true
        # The template dies with its builder, at once.
        wait_for sh -c '! pgrep -f "[p]ysbx-agent" >/dev/null'
        expect 0 runtime delete --force killed
    done
    runtime list --quiet | while read -r id; do runtime delete --force "$id"; done
    expect 0 run_box
    output_is ran
    [[ $(snapshots) == 1 ]]
    [[ -z $(find "$(warm_store)" -name '*.tmp*') ]]
}

@test "no room for the snapshot: cold, with the reason, and no half file" {
    needs_root "mounts a file system"
    mkdir -p "$(warm_store)"
    chmod 0700 "$(warm_store)"
    local kib
    for kib in 64 1024 4096; do
        mount -t tmpfs -o "size=${kib}k,mode=0700" tmpfs "$(warm_store)"
        program auto 'print("ran")'
        expect 0 run_box
        output_is ran
        stderr_is_empty
        program require 'print("ran")'
        expect 1 run_box
        stderr_has "no space left"
        [[ $(snapshots) == 0 ]]
        umount "$(warm_store)"
    done
}

@test "a store that is not the user's own, or open to others, is not used" {
    mkdir -p "$(warm_store)"
    chmod 0777 "$(warm_store)"
    program require 'print("ran")'
    expect 1 run_box
    stderr_has "$(warm_store)"
    program auto 'print("ran")'
    expect 0 run_box
    output_is ran
    chmod 0700 "$(warm_store)"
}

@test "the store is the user's alone, and its files are written once" {
    program require 'print("ran")'
    expect 0 run_box
    [[ $(stat -c '%a %u' "$(warm_store)") == "700 $(id -u)" ]]
    [[ -z $(find "$(warm_store)" -type f -perm /077 -not -name 'agent-*') ]]
}

@test "a damaged snapshot: cold, then made again" {
    program require 'print("ran")'
    expect 0 run_box
    local file size offset
    file=$(find "$(warm_store)" -type f -size +1M | head -n 1)
    size=$(stat -c %s "$file")
    for offset in 0 100 1000 $((size / 2)); do
        chmod 0600 "$file"
        [[ $offset == 0 ]] && truncate -s 5000 "$file" || printf 'damage' | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
        chmod 0400 "$file"
        if ((offset < size / 2)); then # beyond, `warm verify` finds it
            program auto 'print("ran")'
            expect 0 run_box
            output_is ran
        else
            expect 1 runtime warm verify
        fi
        runtime warm prune --all
        program require 'print("ran")'
        expect 0 run_box
        output_is ran
        file=$(find "$(warm_store)" -type f -size +1M | head -n 1)
    done
}

@test "imports that take longer than template.timeout: cold, with the reason" {
    configure_warm '{"retryAfter": 0, "template": {"timeout": 1}}'
    module slow.py <<<'import time; time.sleep(2)'
    program require 'print("ran")'
    expect 1 run_box
    stderr_has "1 second"
    program auto 'print("ran")'
    expect 0 run_box
    output_is ran
}

@test "an import that never ends, exits, or dies: named with its end, and no template stays" {
    local reason body
    configure_warm '{"retryAfter": 0, "template": {"timeout": 1}}'
    preload json,slow
    while IFS='|' read -r reason body; do
        module slow.py <<<"$body"
        program require 'print("ran")'
        expect 1 run_box
        stderr_has "run.pysbx.warm=require: $reason"
        check_leftovers
    done <<'IMPORTS'
import slow: the interpreter ended with exit code 3|import os; os._exit(3)
import slow: the interpreter was killed by signal 11 (Segmentation fault)|import ctypes; ctypes.string_at(8)
import slow: SystemExit: 4|import sys; sys.exit(4)
import slow: not finished after 1 seconds|import time; time.sleep(1000)
the imports start a process|import os, time; os.fork() or time.sleep(1000)
IMPORTS
}

@test "an import can write nothing and reach nobody while the snapshot is made" {
    module slow.py <<<'import os, socket
for path in ("/written", "/modules/written", "/usr/written"):
    try:
        open(path, "w").close()
        os._exit(9)
    except OSError:
        pass
names = [name for _, name in socket.if_nameindex()]
if names != ["lo"]: os._exit(8)'
    configure 'config["root"]["readonly"] = False; share("network")'
    own_root python
    program require 'print("ran")'
    expect 0 run_box
    output_is ran
    [[ ! -e modules/written && ! -e root/written ]]
}

@test "what could not be made is not tried again before retryAfter" {
    configure_warm '{"retryAfter": 1000}'
    module slow.py <<<'import os, time; time.sleep(0.5); raise ValueError("not today")'
    program auto 'print("ran")'
    expect 0 run_box
    local began=${EPOCHREALTIME/./}
    expect 0 run_box
    ((${EPOCHREALTIME/./} - began < 450000))
}

@test "rotation: after so many uses, and at such an age, the snapshot is made anew" {
    local first
    program require 'print(hash("the seed of this snapshot"))'
    configure_warm '{"retryAfter": 0, "maxUses": 2}'
    expect 0 run_box
    first=$output
    expect 0 run_box
    output_is "$first"
    expect 0 run_box
    [[ $output != "$first" ]]
    configure_warm '{"retryAfter": 0, "maxAge": 1}'
    first=$output
    sleep 2.1 # becomes older, in whole seconds
    expect 0 run_box
    [[ $output != "$first" ]]
}

@test "rotation: with rebuildExpired false an expired snapshot means cold" {
    program require 'print("ran")'
    configure_warm '{"maxUses": 1, "rebuildExpired": false}'
    expect 0 run_box
    expect 1 run_box
    stderr_has "run.pysbx.warm=require"
    program auto 'print("ran")'
    expect 0 run_box
    output_is ran
}

@test "the store keeps to its size, and the least recently used goes" {
    local name
    configure_warm '{"retryAfter": 0, "maxSize": 20000000}'
    for name in json decimal csv argparse email; do
        preload "$name"
        program require 'print("ran")'
        expect 0 run_box
    done
    [[ $(du -sb "$(warm_store)" | cut -f 1) -lt 21000000 ]]
    [[ $(snapshots) -ge 1 && $(snapshots) -lt 5 ]]
}

# Is process_madvise(2) called for many pages?
prefetches() {
    strace -f -o trace -e trace=process_madvise "$RUNTIME" run --bundle bundle box </dev/null >out
    [[ $(<out) == ran ]]
    grep -qE 'process_madvise\(.*MADV_POPULATE_WRITE.*\) = [0-9]{6,}' trace
}

@test "prefetch: the pages that every process writes to are known" {
    preload json
    program require 'print("ran")'
    expect 0 run_box
    expect 0 runtime warm show --bundle bundle
    output_holds '50 < it["prefetchedPages"] < 4096'
}

@test "prefetch: they are copied at once, unless warm.json says no" {
    is_rootless && skip "newuidmap has no privilege under strace"
    python3 -c 'import os, sys; sys.exit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15))' ||
        skip "before Linux 6.15 a process cannot ask for it"
    preload json
    program require 'print("ran")'
    expect 0 run_box
    prefetches
    configure_warm '{"retryAfter": 0, "prefetch": false}'
    if prefetches; then
        echo "they are copied all the same"
        return 1
    fi
}

# Runs the program under strace, which then says in what order things happened.
traced() {
    is_rootless && skip "newuidmap has no privilege under strace"
    preload json
    program require 'print("ran")'
    expect 0 run_box
    strace -f -y -o trace "$@" "$RUNTIME" run --bundle bundle box </dev/null >out
    [[ $(<out) == ran ]]
}

# Prints, in order, the traced calls of the runtime or of the container.
calls_of() {
    awk -v who="$1" 'NR == 1 { runtime = $1 } ($1 == runtime) == (who == "runtime")' trace
}

# Prints which files of the standard library the runtime or the container has looked at, sorted.
files_of() {
    calls_of "$1" | sed -nE 's/.*newfstatat\([0-9]+<.*(\/lib\/python3[^>]*)>, "([^"]+\.pyc?)".*/\1\/\2/p' | sort
}

# Prints the numbers of the container's calls that match.
numbers_of() {
    calls_of container | grep -nE "$1" | cut -d : -f 1
}

@test "time: the snapshot is mapped while the runtime makes the network, and before the container is ready" {
    traced -e trace=mmap,setns,sendto
    [[ $(numbers_of 'mmap\(.*/warm/' | head -n 1) -lt $(numbers_of 'setns\(.*CLONE_NEWNET') ]]
    [[ $(numbers_of 'mmap\(.*/(warm|lib)/' | tail -n 1) -lt $(numbers_of 'sendto\(.*"\\5\\0') ]]
}

@test "time: runtime and container share the look at the files, and look at none twice" {
    traced -e trace=newfstatat,sched_yield -e inject=sched_yield:delay_enter=10000 # so long takes a turn
    files_of container >all
    grep -q /json/decoder.py all
    [[ -z $(files_of runtime) ]] # for what is mounted beneath the source of /modules the container alone sees
    diff <(uniq all) all

    configure 'config["mounts"][-1]["options"] = ["rbind"]'
    traced -e trace=newfstatat,sched_yield -e inject=sched_yield:delay_enter=10000
    files_of runtime | grep .
    files_of container | grep .
    diff <({ files_of runtime; files_of container; } | sort) all
}

@test "an unknown key in warm.json is an error that names it" {
    configure_warm '{"maxAgee": 3}'
    program auto 'print("ran")'
    expect 1 run_box
    stderr_has maxAgee
    stderr_has warm.json
}
