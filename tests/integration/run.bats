#!/usr/bin/env bats
# podman run: standard streams, exit codes, environment, working directory, names; podman-run(1).
# once: except for the tests with the tag "user", a program starts in the same way in both modes

load ../lib/podman.bash

@test "podman run: standard output and standard error are the container's own" {
    prints out podman run --rm --network none "$BUSYBOX" sh -c 'echo out; echo err >&2'
    [[ $stderr == err ]]
}

@test "podman run -i: standard input reaches the container up to its end" {
    head -c 1000000 /dev/zero >input
    prints 1000000 podman run --rm -i --network none "$BUSYBOX" wc -c <input
}

@test "podman run: without -i standard input is empty" {
    prints "" podman run --rm --network none "$BUSYBOX" cat <<<"not for the container"
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

@test "podman run --env: variables are set, and HOME follows the user" {
    prints "a b||/home/user|/bin:/usr/bin" podman run --rm --network none -e FOO="a b" -e EMPTY= -u user "$BUSYBOX" \
        sh -c 'echo "$FOO|${EMPTY-unset}|$HOME|$PATH"'
}

@test "podman run --workdir: the process starts there" {
    expect 0 podman run --rm --network none -w /home/user "$BUSYBOX" sh -c 'pwd; echo "$PWD"'
    [[ ${lines[0]} == /home/user && ${lines[1]} == /home/user ]]
}

@test "podman run: the program is found along PATH and as given" {
    expect 0 podman run --rm --network none "$BUSYBOX" true
    expect 0 podman run --rm --network none "$BUSYBOX" /bin/true
    expect 0 podman run --rm --network none -w /bin "$BUSYBOX" ./true
}

@test "podman run --entrypoint: replaces the image's command" {
    prints "one two" podman run --rm --network none --entrypoint '["echo","one"]' "$BUSYBOX" two
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

# bats test_tags=user
@test "podman run --rm: nothing of the container remains" {
    expect 0 podman run --rm --name gone --network none "$BUSYBOX" true
    expect 1 podman container exists gone
    [[ ! -e $RUNTIME_STATE/gone ]]
}

@test "podman run --pidfile, --cidfile: name the container's first process and the container" {
    start_sleeper --name sleeper --pidfile "$PWD/pid" --cidfile "$PWD/cid"
    [[ $(<pid) == "$(podman inspect --format '{{.State.Pid}}' sleeper)" ]]
    [[ $(<cid) == "$(podman inspect --format '{{.Id}}' sleeper)" ]]
    wait_for command_line_is "$(<pid)" "sleep 1000"
}

@test "podman run: an environment of one megabyte arrives completely" {
    local -a options=()
    for i in {1..100}; do options+=(-e "BIG$i=$(printf '%010000d' "$i")"); done
    expect 0 podman run --rm --network none "${options[@]}" "$BUSYBOX" sh -c 'env | grep ^BIG | wc -c'
    [[ $output -gt 1000000 ]]
}

@test "podman run: the process leads a session and a process group of its own" {
    prints "1 1 1" podman run --rm --network none "$BUSYBOX" cut -d ' ' -f 1,5,6 /proc/self/stat
}

# bats test_tags=user
@test "podman run --user: name, number, group and supplementary groups" {
    prints "uid=1000(user) gid=1000(user) groups=50(staff),1000(user)" podman run --rm --network none -u user "$BUSYBOX" id
    prints $'1234\n5' podman run --rm --network none -u 1234:5 "$BUSYBOX" sh -c 'id -u; id -g'
    shows 77 podman run --rm --network none -u user --group-add 77 "$BUSYBOX" id -G
}

@test "podman run --umask: files are created with it" {
    prints 0077 podman run --rm --network none --umask 0077 "$BUSYBOX" sh -c umask
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
