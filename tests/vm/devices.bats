#!/usr/bin/env bats
# Access to devices: the BPF program on the container's cgroup, made from linux.resources.devices; config-linux.md
# "Allowed Device list", bpf(2) BPF_PROG_TYPE_CGROUP_DEVICE.

load vm.bash

# Only the BPF program decides, not the policy of SELinux.
privileged_by_label=(--security-opt label=disable)

# bats test_tags=root
@test "podman run --cap-add MKNOD: a node can be created, but not opened" {
    needs_root
    expect 1 podman run --rm --network none "${privileged_by_label[@]}" --cap-add MKNOD "$BUSYBOX" \
        sh -c "mknod /dev/disk b $(disk | tr : " ") && head -c 1 /dev/disk"
    stderr_has "/dev/disk: operation not permitted"
}

# bats test_tags=root
@test "podman run --device-cgroup-rule: the node that the rule allows can be opened" {
    needs_root
    local major minor
    read -r major minor < <(disk | tr : " ")
    expect 1 podman run --rm --network none "${privileged_by_label[@]}" --cap-add MKNOD \
        --device-cgroup-rule "b $major:* rm" "$BUSYBOX" \
        sh -c "mknod /dev/disk b $major $minor && head -c 1 /dev/disk >/tmp/byte && wc -c </tmp/byte; : >>/dev/disk"
    output_is 1
    stderr_has "operation not permitted"
}

# bats test_tags=root
@test "podman run --device :r: can be read, not written" {
    needs_root
    expect 1 podman run --rm --network none "${privileged_by_label[@]}" \
        --device "$(findmnt --noheadings --output SOURCE /):/dev/disk:r" "$BUSYBOX" \
        sh -c 'head -c 1 /dev/disk | wc -c && : >>/dev/disk'
    output_is 1
    stderr_has "operation not permitted"
}

@test "podman run: the default devices" {
    expect 0 podman run --rm --network none "$BUSYBOX" sh -c '
        for device in null zero full random urandom tty; do test -c /dev/$device || echo $device; done
        head -c 1 /dev/zero | wc -c; echo x >/dev/null'
    output_is 1
}

# bats test_tags=root
@test "linux.resources.devices: the last rule that matches decides" {
    needs_root
    make_bundle sh -c 'head -c 1 /dev/zero | wc -c; head -c 1 /dev/urandom | wc -c'
    edit_config 'resources["devices"] = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "access": "rwm"},
        {"allow": False, "type": "c", "major": 1, "minor": 9, "access": "r"}]'
    expect '*' runtime --systemd-cgroup run --bundle bundle pysbx-one
    [[ ${lines[0]} == 1 && ${lines[1]} == 0 ]]
    stderr_has "/dev/urandom: operation not permitted"
}

# bats test_tags=root
@test "update: other rules replace the program" {
    needs_root
    make_bundle sleep 1000
    start_bundle pysbx-one
    expect 0 runtime exec pysbx-one head -c 1 /dev/urandom
    echo '{"devices": [{"allow": false, "access": "rwm"}, {"allow": false, "type": "c", "major": 1, "minor": 9, "access": "r"}]}' >rules.json
    expect 0 runtime update --resources rules.json pysbx-one
    expect 1 runtime exec pysbx-one head -c 1 /dev/urandom
    stderr_has "operation not permitted"
    expect 0 runtime exec pysbx-one sh -c 'echo x >/dev/null'
}

# bats test_tags=user
@test "run: rootless, where the user namespace forbids nodes, the runtime loads no program" {
    needs_rootless
    make_bundle true
    expect 0 strace --follow-forks --trace bpf --output calls "$RUNTIME" --systemd-cgroup run --bundle bundle pysbx-one
    [[ ! -s calls ]] || ! grep 'bpf(' calls
}
