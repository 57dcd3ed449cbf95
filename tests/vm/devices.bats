#!/usr/bin/env bats
# Access to devices: the BPF program on the container's cgroup, made from linux.resources.devices; config-linux.md
# "Allowed Device list", bpf(2) BPF_PROG_TYPE_CGROUP_DEVICE.

load vm.bash

# Only the BPF program decides, not the policy of SELinux.
privileged_by_label=(--security-opt label=disable)

# bats test_tags=root,all
@test "podman run --cap-add MKNOD: a node can be created, but not opened" {
    needs_root
    expect 1 podman run --rm --network none "${privileged_by_label[@]}" --cap-add MKNOD "$BUSYBOX" \
        sh -c "mknod /dev/disk b $(disk | tr : " ") && head -c 1 /dev/disk"
    stderr_has "/dev/disk: operation not permitted"
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

# bats test_tags=user
@test "run: rootless, where the user namespace forbids nodes, the runtime loads no program" {
    needs_rootless
    make_bundle true
    expect 0 strace --follow-forks --trace bpf --output calls "$RUNTIME" --systemd-cgroup run --bundle bundle pysbx-one
    [[ ! -s calls ]] || ! grep 'bpf(' calls
}
