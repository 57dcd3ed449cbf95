#!/usr/bin/env bats
# podman run: standard streams, exit codes, environment, working directory, names; podman-run(1).
# once: except for the tests with the tag "user", a program starts in the same way in both modes

load ../lib/podman.bash

@test "podman run: standard output and standard error are the container's own" {
    prints out podman run --rm --network none "$BUSYBOX" sh -c 'echo out; echo err >&2'
    [[ $stderr == err ]]
}

@test "podman run: the exit code of the process is returned" {
    for code in 0 1 42 124 255; do
        expect "$code" podman run --rm --network none "$BUSYBOX" sh -c "exit $code"
        stderr_is_empty
    done
}

@test "podman run: death by signal N is exit code 128+N" {
    # Process 1 of a pid namespace ignores signals without a handler, so the signal comes from outside.
    expect 137 podman run --rm --network none --pid host "$BUSYBOX" sh -c 'kill -KILL $$'
    expect 143 podman run --rm --network none --pid host "$BUSYBOX" sh -c 'kill -TERM $$'
}

# bats test_tags=user
@test "podman run: /proc, /dev, /sys and their usual links exist" {
    prints 4 podman run --rm --network none "$BUSYBOX" sh -c '
        for device in null zero full random urandom tty; do test -c /dev/$device || echo no $device; done
        for link in fd stdin stdout stderr ptmx; do test -L /dev/$link || echo no link $link; done
        test -d /dev/shm && test -d /dev/mqueue && test -d /dev/pts && test -r /proc/self/status && test -d /sys/kernel
        echo x >/dev/null && head -c 4 /dev/zero | wc -c'
}

# bats test_tags=user
@test "podman run: process 1 has no descriptor of the runtime and is the only process" {
    prints $'0\n1\n2\n/proc/1' podman run --rm --network none "$BUSYBOX" sh -c 'ls /proc/1/fd; echo /proc/[0-9]*; :'
}

@test "podman run --pidfile, --cidfile: name the container's first process and the container" {
    start_sleeper --name sleeper --pidfile "$PWD/pid" --cidfile "$PWD/cid"
    [[ $(<pid) == "$(podman inspect --format '{{.State.Pid}}' sleeper)" ]]
    [[ $(<cid) == "$(podman inspect --format '{{.Id}}' sleeper)" ]]
    wait_for command_line_is "$(<pid)" "sleep 1000"
}

@test "podman run: the process leads a session and a process group of its own" {
    prints "1 1 1" podman run --rm --network none "$BUSYBOX" cut -d ' ' -f 1,5,6 /proc/self/stat
}

# bats test_tags=user
@test "podman create, init, start, wait: each step does only its part" {
    expect 0 podman create --name steps --network none "$BUSYBOX" sh -c 'echo ran; exit 7'
    state_is steps created
    expect 0 podman init steps
    state_is steps initialized
    prints "" podman logs steps
    expect 7 podman start --attach steps
    output_is ran
    prints 7 podman wait steps
}
