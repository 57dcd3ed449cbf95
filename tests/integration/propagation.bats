#!/usr/bin/env bats
# No mount of a container is a peer of a mount of the host unless the configuration requests it; see
# mount_namespaces(7), "Peer groups". The engines-*.bats check the same for their engines.
# once: the tests as root have user namespaces, too

load ../lib/podman.bash
load ../lib/peers.bash

MAPPED=(--uidmap 0:100000:65536 --gidmap 0:100000:65536)
# The subordinate ids that remain for the user of a rootless Podman.
! is_rootless || MAPPED=(--uidmap 0:1:1000 --gidmap 0:1:1000)

# Start a container with these options, and check the mounts of its init and of a process of exec.
check_peers() {
    echo "options: $*"
    start_sleeper --name peers "$@"
    no_peers_but podman exec peers cat /proc/self/mountinfo
    podman rm --force --time 0 peers >/dev/null
}

# The same with the identity of the host, and in a new user namespace.
check_both() {
    check_peers "$@"
    check_peers "${MAPPED[@]}" "$@"
}

setup_dir() {
    mkdir -p dir/sub
    chmod -R 0777 dir
    is_rootless || mount -t tmpfs tmpfs dir/sub
}

teardown() {
    is_rootless || ! mountpoint -q dir/sub || umount dir/sub
    podman pod rm --all --force --time 0
    clean_up
}

@test "podman run in a user namespace: a mount over a device does not reach the host" {
    for device in full null tty; do
        prints 1 podman run --rm --network none "${MAPPED[@]}" --cap-add SYS_ADMIN "$BUSYBOX" \
            sh -c "mount -o bind /etc/passwd /dev/$device && grep -c '^root:' /dev/$device"
        [[ -c /dev/$device ]]
    done
    # The container's mounts disappear with it. Only the time while it runs counts.
    start_sleeper --name attacker "${MAPPED[@]}" --cap-add SYS_ADMIN
    podman exec attacker mount -o bind /etc/passwd /dev/full
    [[ -c /dev/full && $(host_mounts) != *' /dev/full '* ]]
}

@test "podman run: no peers of the host without options, with a terminal, a user namespace, --read-only, --init, --systemd" {
    check_both
    check_both --tty --init
    check_both --read-only
    check_both --systemd always
    check_peers --userns host --cap-add SYS_ADMIN
    check_peers --security-opt unmask=ALL
}

@test "podman run --volume: no peers of the host with any option except shared" {
    setup_dir
    local -a volumes=()
    for options in rw ro z Z U rprivate private rslave slave runbindable unbindable noexec,nosuid nodev exec copy rbind bind; do
        volumes+=(-v "$PWD/dir:/data-$options:$options")
    done
    check_both "${volumes[@]}"
    check_peers -v "$PWD/dir:/data:O"
    is_rootless || check_peers "${MAPPED[@]}" -v "$PWD/dir:/data:idmap"
    check_both -v named:/data
    podman volume rm named
}

@test "podman run --mount, --tmpfs, --secret, --device: no peers of the host" {
    setup_dir
    check_both --mount "type=bind,src=$PWD/dir,dst=/data" \
        --mount "type=bind,src=$PWD/dir,dst=/below,bind-nonrecursive,bind-propagation=private" \
        --mount type=tmpfs,destination=/small --tmpfs /other \
        --mount type=devpts,destination=/pts
    # Podman gives mapped users no access to the layers of such an image.
    check_peers --mount "type=image,source=$BUSYBOX,destination=/image"
    check_both --device /dev/null:/dev/other
    echo word | podman secret create word - >/dev/null
    check_both --secret word
    podman secret rm word >/dev/null
}

@test "podman run --network, --pid, --ipc container:, --pod: no peers of the host" {
    start_sleeper --name giver
    podman run --detach --name joiner --network container:giver --pid container:giver --ipc container:giver \
        "$BUSYBOX" sleep 1000 >/dev/null
    no_peers_but podman exec joiner cat /proc/self/mountinfo
    podman rm --force --time 0 joiner >/dev/null
    podman run --detach --name shown --network none --pid host "$BUSYBOX" sleep 1000 >/dev/null
    no_peers_but podman exec shown cat /proc/self/mountinfo
    podman pod create --name pod --network none --infra-image "$BUSYBOX" --infra-command 'sleep 1000' >/dev/null
    podman run --detach --name member --pod pod "$BUSYBOX" sleep 1000 >/dev/null
    no_peers_but podman exec member cat /proc/self/mountinfo
}

@test "podman run -v rshared: the volume is a peer of the host, as requested, and nothing else is" {
    needs_root "mounts on the host"
    setup_dir
    for option in "" "${MAPPED[*]}"; do
        # shellcheck disable=SC2086 # options, separated by spaces
        start_sleeper --name peers $option -v "$PWD/dir:/data:rshared"
        no_peers_but podman exec peers cat /proc/self/mountinfo -- /data /data/sub
        podman rm --force --time 0 peers >/dev/null
    done
}

@test "podman run in a user namespace: bind-mounted devices are nosuid and noexec" {
    expect 0 podman run --rm --network none "${MAPPED[@]}" --tty --device /dev/null:/dev/other "$BUSYBOX" cat /proc/mounts
    mounts=$output
    for device in null zero full random urandom tty console other; do
        grep -E " /dev/$device [^ ]+ [^ ]*nosuid[^ ]*noexec" <<<"$mounts" || { echo "/dev/$device: $mounts"; return 1; }
    done
}
