#!/usr/bin/env bats
# podman stop, kill, pause, restart, rm: a container from start to end.
# once: except for the tests with the tag "user", a life has the same steps in both modes

load ../lib/podman.bash

# Start a container that prints the signal it gets, and ends with 40.
start_trapper() {
    podman run -d --name trapper --network none "$BUSYBOX" sh -c '
        for signal in TERM INT HUP USR1; do trap "echo got $signal; exit 40" $signal; done
        echo ready; while :; do sleep 0.05; done' >/dev/null
    wait_for logs_have trapper ready
}

logs_have() {
    [[ $(podman logs "$1" 2>&1) == *"$2"* ]]
}

# bats test_tags=user
@test "podman stop: sends SIGTERM, waits, and prints only the name" {
    start_trapper
    prints trapper podman stop --time 60 trapper
    stderr_is_empty
    logs_have trapper "got TERM"
    [[ $(podman inspect --format '{{.State.ExitCode}}' trapper) == 40 ]]
}

@test "podman stop --time: SIGKILL when the process does not end" {
    start_sleeper --name stubborn
    expect 0 podman stop --time 1 stubborn
    [[ $(podman inspect --format '{{.State.ExitCode}}' stubborn) == 137 ]]
}

@test "podman rm: prints nothing on standard error and removes everything" {
    podman run --name ended --network none "$BUSYBOX" true
    expect 0 podman rm ended
    stderr_is_empty
    start_sleeper --name running
    expect 0 podman rm --force --time 0 running
    stderr_is_empty
}

@test "podman kill: any signal by name or number" {
    start_trapper
    expect 0 podman kill --signal HUP trapper
    prints 40 podman wait trapper
    logs_have trapper "got HUP"
    podman start trapper >/dev/null
    wait_for logs_have trapper $'HUP\nready'
    expect 0 podman kill --signal 2 trapper
    expect 0 podman wait trapper
    logs_have trapper "got INT"
}

@test "podman kill: a container that has ended is an error" {
    podman run --name ended --network none "$BUSYBOX" true
    expect 125 podman kill ended
}

@test "podman kill: SIGKILL ends all processes of a container without a pid namespace of its own, other signals do not" {
    needs_cgroups
    start_sleeper --name first
    local pid
    for pid in host container:first; do
        podman run -d --name shared --network none --pid "$pid" "$BUSYBOX" sh -c '
            trap "" USR1; sleep 4242 & sleep 4242' >/dev/null
        podman exec --detach shared sleep 4242
        wait_for eval '(( $(pgrep -cf "^sleep 4242") == 3 ))'
        expect 0 podman kill --signal USR1 shared
        (($(pgrep -cf "^sleep 4242") == 3))
        expect 0 podman kill shared
        prints 137 podman wait shared
        wait_for eval '! pgrep -f "^sleep 4242"'
        podman rm shared >/dev/null
    done
}

@test "podman rm --force: kills all processes of a container without a pid namespace" {
    needs_cgroups
    podman run -d --name shared --network none --pid host "$BUSYBOX" sh -c 'sleep 4242 & sleep 4242' >/dev/null
    wait_for pgrep -f 'sleep 4242'
    expect 0 podman rm --force --time 0 shared
    wait_for eval '! pgrep -f "sleep 4242"'
}

@test "podman pause, unpause: processes stop and continue" {
    needs_cgroups
    # The test reads a file instead of the output, which conmon may still be reading.
    mkdir -m 0777 counted
    podman run -d --name counter --network none -v "$PWD/counted:/counted" "$BUSYBOX" \
        sh -c 'while :; do echo >>/counted/lines; sleep 0.02; done' >/dev/null
    wait_for test -s counted/lines
    expect 0 podman pause counter
    stderr_is_empty
    state_is counter paused
    before=$(wc -l <counted/lines)
    sleep 0.3
    [[ $(wc -l <counted/lines) == "$before" ]]
    expect 0 podman unpause counter
    stderr_is_empty
    state_is counter running
    wait_for eval '(( $(wc -l <counted/lines) > '"$before"' ))'
}

@test "podman rm --force: removes a paused container too" {
    needs_cgroups
    start_sleeper --name sleeper
    podman pause sleeper
    expect 0 podman rm --force --time 0 sleeper
}

# bats test_tags=user
@test "podman restart, start: the container runs again with its files" {
    podman run -d --name again --network none "$BUSYBOX" sh -c 'echo x >>/runs; sleep 1000' >/dev/null
    wait_for podman exec again test -s /runs
    expect 0 podman restart --time 0 again
    wait_for eval '[[ $(podman exec again wc -l </dev/null /runs) == 2* ]]'
    podman stop --time 0 again
    podman start again
    wait_for eval '[[ $(podman exec again wc -l </dev/null /runs) == 3* ]]'
}

# bats test_tags=user
@test "podman run --init: process 1 reaps orphans and forwards signals" {
    podman run -d --init --name initial --network none "$BUSYBOX" \
        sh -c '(sleep 0.2 & echo $! >/tmp/orphan); sleep 1000' >/dev/null
    shows init podman exec initial sh -c 'tr "\0" " " </proc/1/cmdline'
    wait_for podman exec initial sh -c 'test -s /tmp/orphan && test ! -e /proc/$(cat /tmp/orphan)'
    podman run -d --init --name ending --network none "$BUSYBOX" sleep 1000 >/dev/null
    # It forwards nothing before it has started its program.
    wait_for eval '[[ $(podman top ending args) == *"sleep 1000"* ]]'
    expect 0 podman stop --time 60 ending
    [[ $(podman inspect --format '{{.State.ExitCode}}' ending) == 143 ]]
}
