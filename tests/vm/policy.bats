#!/usr/bin/env bats
# The policy module of config/selinux: the labels of the runtime's own files, and the tighter domain pysbx_python_t.

load vm.bash

setup_file() {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
    import_python
}

# Run Podman with the domain of config/selinux.
run_tight() {
    podman run --rm --security-opt label=type:pysbx_python_t "$@"
}

@test "podman run --security-opt label=type:pysbx_python_t: usual operations of Python programs are allowed" {
    make_unlabelled given
    expect 0 run_tight --network none --volume "$HOME/given:/given:Z" --tmpfs /tmp "$PYTHON" python3 -c "$(<"$TESTS/vm/usual.py")"'
import json
print(open("/proc/self/attr/current").read().rstrip("\0\n").split(":")[2])
print(open("/given/file").read().strip())
with open("/given/written", "w") as file:
    json.dump(os.listdir("/"), file)
print("to the end", file=sys.stderr)'
    output_is $'pysbx_python_t\ncontent'
    stderr_has "to the end"
    [[ $(<"$HOME/given/written") == *proc* ]]
}

# bats test_tags=all
@test "podman run --security-opt label=type:pysbx_python_t: a terminal, podman exec, podman stop" {
    podman run --detach --name sleeper --network none --security-opt label=type:pysbx_python_t "$PYTHON" \
        python3 -c 'import signal; signal.signal(signal.SIGTERM, lambda *_: exit(7)); signal.pause()' >/dev/null
    shows True podman exec --tty sleeper python3 -c 'import os, tty; tty.setraw(0); print(os.isatty(1))'
    expect 0 podman stop sleeper
    prints 7 podman inspect --format '{{.State.ExitCode}}' sleeper
}

@test "podman run --security-opt label=type:pysbx_python_t: no network" {
    local program='
import socket
for family in socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK:
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print("allowed")
    except PermissionError:
        print("denied")'
    prints $'denied\ndenied\ndenied' run_tight --network none "$PYTHON" python3 -c "$program"
    prints $'allowed\nallowed\nallowed' podman run --rm --network none "$PYTHON" python3 -c "$program"
}

@test "podman run --security-opt label=type:pysbx_python_t: no devices, even with --device" {
    disk=$(findmnt --noheadings --output SOURCE /)
    expect 0 podman run --rm --network none --device "$disk:/dev/disk:r" "$BUSYBOX" head -c 1 /dev/disk
    fails 1 "permission denied" run_tight --network none --device "$disk:/dev/disk:r" "$BUSYBOX" head -c 1 /dev/disk
    # Only requests for terminals.
    local program='
import fcntl
TUNGETFEATURES = 0x800454CF
with open("/dev/net/tun", "rb") as tun:
    fcntl.ioctl(tun, TUNGETFEATURES, bytes(4))'
    expect 0 podman run --rm --network none --device /dev/net/tun "$PYTHON" python3 -c "$program"
    fails 1 "PermissionError" run_tight --network none --device /dev/net/tun "$PYTHON" python3 -c "$program"
}

@test "the files of the runtime: labelled, and inaccessible for containers" {
    start_sleeper --name sleeper
    [[ $(label_of "$RUNTIME") == *:pysbx_runtime_exec_t:s0 ]]
    [[ $(label_of "$RUNTIME_STATE") == *:pysbx_runtime_state_t:s0 ]]
    [[ $(label_of "$RUNTIME_STATE/$(id_of sleeper)/config.json") == *:pysbx_runtime_state_t:s0 ]]
    mkdir -p /var/lib/pysbx-runtime
    [[ $(label_of /var/lib/pysbx-runtime) == *:pysbx_snapshot_t:s0 ]]
    fails 1 "permission denied" podman run --rm --network none --volume "$RUNTIME_STATE:/state" "$BUSYBOX" ls /state
    expect 1 podman run --rm --network none --volume /var/lib/pysbx-runtime:/snapshots "$BUSYBOX" ls /snapshots
    stderr_has "permission denied"
    expect 126 podman run --rm --network none --volume "$RUNTIME:/runtime" "$BUSYBOX" /runtime --version
}
