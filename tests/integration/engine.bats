#!/usr/bin/env bats
# Input that Podman and conmon give to a runtime besides config.json: descriptors, notify sockets, hooks, annotations.

load ../lib/podman.bash

@test "podman run --preserve-fds: descriptors are passed on, none is added" {
    echo three >3.txt
    echo four >4.txt
    expect 0 podman run --rm --network none --preserve-fds 2 "$BUSYBOX" sh -c 'cat <&3; cat <&4; ls /proc/1/fd; :' 3<3.txt 4<4.txt
    output_is $'three\nfour\n0\n1\n2\n3\n4'
}

@test "podman run: a misspelt annotation is told at the terminal, and in the log" {
    local meant="annotation 'run.pysbx.landlok': not known to this release, and ignored; is 'run.pysbx.landlock' meant?"
    prints hi podman run --name box --network none --annotation run.pysbx.landlok=default "$BUSYBOX" echo hi
    stderr_has "$meant"
    expect 0 podman logs box
    stderr_has "$meant"
}

@test "podman run: LISTEN_FDS of socket activation reach process 1" {
    echo socket >socket.txt
    prints $'1 1\nsocket' env LISTEN_FDS=1 LISTEN_PID=$$ bash -c '
        exec 3<socket.txt; LISTEN_PID=$$ exec podman run --rm --network none "$1" sh -c "echo \$LISTEN_FDS \$LISTEN_PID; cat <&3"' _ "$BUSYBOX"
}

# Write the messages of a datagram socket to a file, line by line, until READY.
listen_for_ready() {
    python3 - "$1" "$2" <<'PYTHON' 3>&- &
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
listener.settimeout(60)
with open(sys.argv[2], "w", buffering=1) as log:
    while True:
        message = listener.recv(4096).decode()
        print(message, file=log)
        if "READY=1" in message:
            break
PYTHON
    listener=$!
    wait_for test -S "$1"
}

@test "podman run --sdnotify conmon: ready when the container runs" {
    listen_for_ready "$PWD/notify" "$PWD/messages"
    expect 0 env NOTIFY_SOCKET="$PWD/notify" podman run -d --name service --network none --sdnotify conmon "$BUSYBOX" sleep 1000
    wait_for grep -q READY=1 messages
    grep -q MAINPID= messages
}

@test "podman run --sdnotify container: ready when the container says so" {
    import_python
    listen_for_ready "$PWD/notify" "$PWD/messages"
    NOTIFY_SOCKET="$PWD/notify" timeout 60 podman run -d --name service --network none --sdnotify container "$PYTHON" python3 -c '
import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(os.environ["NOTIFY_SOCKET"])
s.send(b"READY=1")
time.sleep(1000)' >/dev/null
    wait_for grep -q READY=1 messages
    wait "$listener"
}

@test "podman --hooks-dir: hooks run in order, with the container's state on standard input" {
    mkdir hooks
    cat >record <<'HOOK'
#!/bin/sh
cat >"$2.$1"
echo "$1" >>"$2.order"
HOOK
    chmod +x record
    for stage in prestart createRuntime createContainer poststart poststop; do
        cat >"hooks/$stage.json" <<JSON
{ "version": "1.0.0", "when": { "always": true }, "stages": ["$stage"],
  "hook": { "path": "$PWD/record", "args": ["record", "$stage", "$PWD/state"] } }
JSON
    done
    expect 0 podman --hooks-dir "$PWD/hooks" run --network none --cidfile cid "$BUSYBOX" true
    wait_for grep -q poststop state.order
    # Podman 5 turns prestart hooks into createRuntime hooks.
    [[ $(tr '\n' ' ' <state.order) == @(prestart createRuntime|createRuntime prestart)" createContainer poststart poststop " ]]
    python3 - "$(<cid)" <<'PYTHON'
import json, sys
for stage, status in [("prestart", "creat"), ("createRuntime", "creat"), ("poststart", "running"), ("poststop", "stopped")]:
    state = json.load(open("state." + stage))
    assert state["id"] == sys.argv[1] and state["ociVersion"] and state["bundle"].startswith("/"), state
    assert state["status"].startswith(status), (stage, state["status"])
    assert stage == "poststop" or state["pid"] > 0, state
PYTHON
}

@test "podman --hooks-dir: a createRuntime hook that fails stops the start and is named" {
    mkdir hooks
    echo '{ "version": "1.0.0", "when": { "always": true }, "stages": ["createRuntime"],
        "hook": { "path": "/bin/false" } }' >hooks/fail.json
    fails 126 hook podman --hooks-dir "$PWD/hooks" run --rm --network none "$BUSYBOX" true
}

@test "podman --hooks-dir: the last output of a failing hook is in the error" {
    mkdir hooks
    printf '#!/bin/sh\necho first >&2\necho "no luck today" >&2\nexit 3\n' >unlucky
    chmod +x unlucky
    echo '{ "version": "1.0.0", "when": { "always": true }, "stages": ["createRuntime"],
        "hook": { "path": "'"$PWD"'/unlucky" } }' >hooks/unlucky.json
    expect 126 podman --hooks-dir "$PWD/hooks" run --rm --network none "$BUSYBOX" true
    stderr_has "failed with exit status 3: no luck today"
}

@test "podman --hooks-dir: a createContainer hook may mount into the container's root" {
    needs_root
    podman create --name hooked --network none "$BUSYBOX" grep '^hooked /var/tmp ' /proc/mounts
    mkdir hooks
    printf '#!/bin/sh\nmount -t tmpfs hooked %s/var/tmp\n' "$(podman mount hooked)" >mounter
    chmod +x mounter
    echo '{ "version": "1.0.0", "when": { "always": true }, "stages": ["createContainer"],
        "hook": { "path": "'"$PWD"'/mounter" } }' >hooks/mount.json
    shows "hooked /var/tmp tmpfs" podman --hooks-dir "$PWD/hooks" start --attach hooked
    podman umount hooked
}
