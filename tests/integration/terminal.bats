#!/usr/bin/env bats
# Terminals: podman run -it, exec -it, attach, resize, detach; pty(7), podman-run(1) --tty.
# once: except for the tests with the tag "user", terminals are the same in both modes

load ../lib/podman.bash

PTY=$TESTS/lib/pty

@test "podman run -it: the process has a controlling terminal" {
    expect 0 "$PTY" -- podman run -it --rm --network none "$BUSYBOX" sh -c 'tty && test -t 0 && test -t 1 && test -t 2 && echo ok >/dev/tty'
    output_has /dev/pts/0 ok
}

# bats test_tags=user
@test "podman run -it: typed input is read, and the exit code returned" {
    expect 7 "$PTY" --expect '/ # ' --send 'echo $((40+2)); exit 7\n' -- podman run -it --rm --network none "$BUSYBOX"
    output_has 42
}

@test "podman run -it: Ctrl-C interrupts the process in the foreground" {
    expect 130 "$PTY" --expect ready --send '\x03' -- podman run -it --rm --network none "$BUSYBOX" \
        sh -c 'trap "exit 130" INT; echo ready; while :; do sleep 0.1; done'
}

@test "podman run -it: the terminal has the size of the user's, and follows its changes" {
    expect 0 "$PTY" --size 33x99 --expect '33 99' --resize 44x111 --expect '44 111' --send '\x03' -- \
        podman run -it --rm --network none "$BUSYBOX" sh -c 'trap "exit 0" INT; while :; do stty size; sleep 0.1; done'
}

# bats test_tags=user
@test "podman run -it: the terminal belongs to the container's user" {
    expect 0 podman run -t --rm --network none -u user "$BUSYBOX" sh -c 'stat -c %u:%a $(tty); echo written >$(tty)'
    output_has 1000:620 written
}

# bats test_tags=user
@test "podman exec -it: a new terminal in a running container" {
    start_sleeper --name sleeper
    # Podman sets the size after the process has started.
    expect 3 "$PTY" --size 20x60 --expect '/ # ' --send 'tty; while stty size | grep "^0 0"; do sleep 0.1; done; stty size; exit 3\n' -- \
        podman exec -it sleeper sh
    output_has /dev/pts/0 "20 60"
}

@test "podman exec -it: in a container with a terminal, the two are distinct" {
    podman run -dt --name talker --network none "$BUSYBOX" sleep 1000
    expect 0 podman exec -t talker sh -c 'tty; readlink /proc/1/fd/0'
    output_has /dev/pts/1 /dev/pts/0
}
