#!/usr/bin/env bats
# New namespaces, those of the host, and those of another container; user namespaces; namespaces(7), user_namespaces(7).

load ../lib/podman.bash

# Print the container's namespace of a type.
ns_of() {
    local kind=$1
    shift
    [[ $* == *--network* ]] || set -- "$@" --network none
    expect 0 podman run --rm "$@" "$BUSYBOX" readlink "/proc/self/ns/$kind"
}

@test "podman run: every namespace except user and time is new" {
    for kind in cgroup ipc mnt net pid uts; do
        ns_of $kind --network none
        [[ $output != "$(readlink /proc/self/ns/$kind)" ]]
    done
    ns_of time --network none
    output_is "$(readlink /proc/self/ns/time)"
}

@test "podman run --pid, --ipc, --uts, --network, --cgroupns host" {
    needs_root "rootless containers are in Podman's user namespace, not in the host's"
    for kind in pid ipc uts net cgroup; do
        local option=$kind
        [[ $kind == net ]] && option=network
        [[ $kind == cgroup ]] && option=cgroupns
        ns_of $kind --$option host
        output_is "$(readlink /proc/self/ns/$kind)"
    done
}

@test "podman run --pid host: the host's processes are visible" {
    shows bats podman run --rm --network none --pid host "$BUSYBOX" sh -c "tr '\0' ' ' </proc/$$/cmdline"
}

@test "podman run --pid, --ipc, --network, --uts container:NAME" {
    start_sleeper --name sleeper --hostname shared
    for kind in pid ipc uts net; do
        local option=$kind other
        [[ $kind == net ]] && option=network
        other=$(podman exec sleeper readlink /proc/1/ns/$kind)
        ns_of $kind --$option container:sleeper
        output_is "$other"
    done
    expect 0 podman run --rm --network none --pid container:sleeper "$BUSYBOX" sh -c 'tr "\0" " " </proc/1/cmdline'
    output_has "sleep 1000"
}

@test "podman run --hostname: in the UTS namespace, /etc/hostname and \$HOSTNAME" {
    expect 0 podman run --rm --network none --hostname given "$BUSYBOX" sh -c 'hostname; echo "$(cat /etc/hostname) $HOSTNAME"'
    output_is $'given\ngiven given'
}

@test "podman run: without --hostname it is the container's short id" {
    expect 0 podman run --network none --cidfile cid "$BUSYBOX" hostname
    [[ $(<cid) == "$output"* && ${#output} == 12 ]]
}

@test "podman run --uidmap, --gidmap: a user namespace with these maps" {
    needs_root "rootless mappings are those of Podman's user namespace"
    expect 0 podman run --rm --network none --uidmap 0:300000:5000 --gidmap 0:310000:5000 "$BUSYBOX" \
        sh -c 'cat /proc/self/uid_map /proc/self/gid_map | tr -s " "; id -u; stat -c %u:%g /etc/passwd; touch /root/x'
    output_is $' 0 300000 5000\n 0 310000 5000\n0\n0:0'
}

@test "podman run --uidmap: devices, /proc and /sys are available in a user namespace" {
    expect 0 podman run --rm --network none --uidmap 0:1:1000 --gidmap 0:1:1000 "$BUSYBOX" sh -c '
        echo x >/dev/null && head -c 2 /dev/zero | wc -c; test -e /proc/self/status && test -d /sys/kernel && tty; :'
    [[ ${lines[0]} == 2 ]]
}

@test "podman run --userns container:NAME: root of its user namespace, including files" {
    podman run -d --name one --network none --uidmap 0:1:1000 --gidmap 0:1:1000 "$BUSYBOX" sleep 1000
    for pid in "" "--pid=container:one"; do
        # shellcheck disable=SC2086 # an option or none
        expect 0 podman run --rm --network none --userns container:one $pid "$BUSYBOX" \
            sh -c 'id -u; readlink /proc/self/ns/user; touch /file; stat -c %u:%g /file; echo x >/dev/null'
        [[ ${lines[0]} == 0 && ${lines[1]} == "$(podman exec one readlink /proc/1/ns/user)" && ${lines[2]} == 0:0 ]]
    done
    prints 7 podman run --rm --network none --userns container:one -u 7 "$BUSYBOX" id -u
}

@test "podman run --userns auto: separate ranges of ids" {
    needs_root "needs the ranges of the user 'containers'"
    podman run -d --name one --network none --userns auto "$BUSYBOX" sleep 1000 >/dev/null
    podman run -d --name two --network none --userns auto "$BUSYBOX" sleep 1000 >/dev/null
    first=$(podman exec one cat /proc/self/uid_map | awk '{ print $2 }')
    second=$(podman exec two cat /proc/self/uid_map | awk '{ print $2 }')
    [[ $first -ge 1000000 && $second -ge 1000000 && $first != "$second" ]]
    prints 1000 podman exec -u user one sh -c 'id -u; touch /home/user/x'
}

@test "podman run --userns keep-id: the user's own id" {
    needs_rootless
    mkdir dir
    expect 0 podman run --rm --network none --userns keep-id -v "$PWD/dir:/dir" "$BUSYBOX" sh -c 'id -u; touch /dir/file'
    output_is "$(id -u)"
    [[ $(stat -c %u dir/file) == "$(id -u)" ]]
}

@test "podman run, rootless: root of the container is the user" {
    needs_rootless
    mkdir dir
    prints 0 podman run --rm --network none -v "$PWD/dir:/dir" "$BUSYBOX" sh -c 'id -u; touch /dir/file'
    [[ $(stat -c %u dir/file) == "$(id -u)" ]]
}

@test "podman run --userns nomap: the user is not in the map" {
    needs_rootless
    prints 0 podman run --rm --network none --userns nomap "$BUSYBOX" id -u
}

@test "podman run --network ns:PATH: joins a network namespace" {
    needs_root "makes a network namespace"
    ip netns add outside
    expect 0 podman run --rm --network ns:/run/netns/outside "$BUSYBOX" readlink /proc/self/ns/net
    local joined=$output
    prints "$joined" stat -L -c 'net:[%i]' /run/netns/outside
    ip netns delete outside
}

@test "podman run --network none: loopback is up" {
    expect 0 podman run --rm --network none "$BUSYBOX" sh -c 'ip -o addr show lo | grep -o 127.0.0.1/8; ls /sys/class/net'
    output_is $'127.0.0.1/8\nlo'
}
