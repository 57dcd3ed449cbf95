#!/usr/bin/env bats
# A limit whose controller is missing is an error that names the controller, the cgroup and the remedy. It is never
# ignored.

load vm.bash

teardown() {
    if [[ -w /sys/fs/cgroup/pysbx-full/cgroup.kill ]]; then echo 1 >/sys/fs/cgroup/pysbx-full/cgroup.kill; fi
    remove_bundles
    clean_up
}

# bats test_tags=user
@test "run: rootless, with a controller that systemd does not delegate" {
    needs_rootless
    make_bundle true
    edit_config 'resources["hugepageLimits"] = [{"pageSize": "2MB", "limit": 4194304}]'
    fails 1 "linux.resources.hugepageLimits" runtime --systemd-cgroup run --bundle bundle pysbx-one
    stderr_has "controller 'hugetlb' is not available in cgroup '/sys/fs/cgroup/user.slice/"
    stderr_has "Delegate= in a drop-in for user@.service"
    prints "" runtime list --quiet
}

# bats test_tags=root
@test "run: root, below a cgroup that has processes and so delegates no controllers" {
    needs_root
    make_bundle true
    mkdir /sys/fs/cgroup/pysbx-full
    sleep 100 3>&- & # without the descriptor that bats waits for
    echo $! >/sys/fs/cgroup/pysbx-full/cgroup.procs
    edit_config 'linux["cgroupsPath"] = "/pysbx-full/one"; resources["memory"] = {"limit": 67108864}'
    expect 1 runtime run --bundle bundle pysbx-one
    echo 1 >/sys/fs/cgroup/pysbx-full/cgroup.kill
    wait_for rmdir /sys/fs/cgroup/pysbx-full
    stderr_has "linux.resources.memory.limit: controller 'memory' cannot be enabled in cgroup '/sys/fs/cgroup/pysbx-full' (it holds processes itself)"
}

# bats test_tags=root
@test "run: a device of linux.resources.rdma that the machine does not have" {
    needs_root "systemd does not hand rdma to users"
    make_bundle true
    edit_config 'resources["rdma"] = {"mlx5_0": {"hcaHandles": 3}}'
    fails 1 "linux.resources.rdma.mlx5_0" runtime --systemd-cgroup run --bundle bundle pysbx-one
    prints "" runtime list --quiet
}

# bats test_tags=all
@test "run: a file of linux.resources.unified that the kernel does not have" {
    make_bundle true
    edit_config 'resources["unified"] = {"memory.no_such_file": "1"}'
    fails 1 "memory.no_such_file" runtime --systemd-cgroup run --bundle bundle pysbx-one
}
