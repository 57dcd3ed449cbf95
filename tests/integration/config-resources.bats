#!/usr/bin/env bats
# linux.cgroupsPath, linux.resources: config-linux.md, cgroup v2. Limits of memory, CPU, pids and I/O are tested through
# Podman, on machines that have these controllers.
# once: a user's containers have no cgroup here

load ../lib/bundle.bash

setup() {
    needs_cgroups
    begin_test
}

# Print the directory of the container's cgroup.
cgroup_of_box() {
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(pid_of_box)/cgroup")"
}

# Assert the value of a limit. The program may run in a cgroup below the one that has the limit.
limit_is() {
    local cgroup
    cgroup=$(cgroup_of_box)
    [[ $(cat "$cgroup/$1") == "$2" || $(cat "${cgroup%/*}/$1") == "$2" ]] || { cat "$cgroup/$1"; return 1; }
}

needs_huge_pages() {
    needs_controller hugetlb
    [[ -d /sys/kernel/mm/hugepages/hugepages-2048kB ]] || skip "needs huge pages of 2 MB"
}

@test "cgroupsPath: absolute from the root of the tree; the cgroup is removed with the container" {
    make_bundle_with 'linux["cgroupsPath"] = "/group-of-tests/deep/box"' sleep 1000
    start_box
    [[ $(cgroup_of_box) == /sys/fs/cgroup/group-of-tests/deep/box* ]]
    expect 0 runtime delete --force box
    [[ ! -e /sys/fs/cgroup/group-of-tests/deep/box ]]
    rmdir /sys/fs/cgroup/group-of-tests/deep /sys/fs/cgroup/group-of-tests 2>/dev/null || true
}

@test "cgroupsPath: relative or missing: the runtime chooses a cgroup" {
    make_bundle sleep 1000
    for path in relative/box ''; do
        configure 'linux["cgroupsPath"] = arguments[0]' "$path"
        start_box
        [[ $(cgroup_of_box) == /sys/fs/cgroup/*box* ]]
        expect 0 runtime delete --force box
    done
    rmdir /sys/fs/cgroup/relative 2>/dev/null || true
}

@test "cgroupsPath: a frozen cgroup, and one in a frozen cgroup, are refused" {
    needs_cgroups
    make_bundle true
    mkdir -p /sys/fs/cgroup/frozen-of-tests/empty
    echo 1 >/sys/fs/cgroup/frozen-of-tests/cgroup.freeze
    for path in /frozen-of-tests /frozen-of-tests/empty /frozen-of-tests/new/deep; do
        configure 'linux["cgroupsPath"] = arguments[0]' "$path"
        fails 1 "is frozen, so that no process can start in it" runtime run --bundle bundle one </dev/null
        [[ ! -e $RUNTIME_STATE/one && ! -e /sys/fs/cgroup/frozen-of-tests/new ]]
    done
    echo 0 >/sys/fs/cgroup/frozen-of-tests/cgroup.freeze
    expect 0 runtime run --bundle bundle one </dev/null
    rmdir /sys/fs/cgroup/frozen-of-tests/{empty,new,}
}

@test "exec: enters a container whose init was moved to another cgroup" {
    needs_cgroups
    make_bundle sleep 1000
    start_box
    own=$(cgroup_of_box)
    mkdir /sys/fs/cgroup/moved-by-tests
    pid_of_box >/sys/fs/cgroup/moved-by-tests/cgroup.procs
    rmdir "$own"
    shows moved-by-tests runtime exec box cat /proc/self/cgroup
    expect 0 runtime delete --force box
    rmdir /sys/fs/cgroup/moved-by-tests
}

@test "cgroupsPath: must not leave the tree" {
    make_bundle true
    for path in /../../box /..; do
        configure 'linux["cgroupsPath"] = arguments[0]' "$path"
        is_refused "linux.cgroupsPath: '$path' is not a path below the cgroup root"
    done
}

@test "cgroups that the program creates below its own are removed with it" {
    make_bundle sh -c 'cd /sys/fs/cgroup; for level in $(seq 40); do mkdir branch deeper; cd deeper; done
        sleep 1000 & echo $! >cgroup.procs; echo made; sleep 1000'
    configure 'for m in config["mounts"]:
    if m["destination"] == "/sys/fs/cgroup": m["options"].remove("ro")'
    start_box
    wait_for grep -q made out
    cgroup=$(cgroup_of_box)
    below=$(<"$cgroup$(printf /deeper%.0s {1..40})/cgroup.procs")
    tells "len(it) == 2 and $below in it" runtime ps --format json box
    expect 0 runtime pause box
    expect 0 runtime delete --force box
    [[ ! -e $cgroup && ! -e /proc/$below ]]
}

@test "a cgroup that the program may write to belongs to its user, except for files that the kernel does not delegate" {
    make_bundle stat -c %u /sys/fs/cgroup /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/cgroup.freeze
    configure 'user_namespace((0, 100000, 65536)); process["user"] = {"uid": 7}
for m in config["mounts"]:
    if m["destination"] == "/sys/fs/cgroup": m["options"].remove("ro")'
    prints $'7\n7\n65534' run_box
    configure 'for m in config["mounts"]:
    if m["destination"] == "/sys/fs/cgroup": m["options"].append("ro")'
    prints $'65534\n65534\n65534' run_box
}

@test "exec: in a container whose cgroup only distributes limits, and whose init is elsewhere, it gets a cgroup below" {
    needs_controller hugetlb
    make_bundle sleep 1000
    start_box
    own=$(cgroup_of_box)
    mkdir /sys/fs/cgroup/moved-by-tests "$own/inner"
    pid_of_box >/sys/fs/cgroup/moved-by-tests/cgroup.procs
    echo +hugetlb >"$own/cgroup.subtree_control"
    shows /exec runtime exec box cat /proc/self/cgroup
    fails 255 "cgroup '../..' leads out of the container's cgroup" runtime exec --cgroup ../.. box true
    expect 0 runtime delete --force box
    rmdir /sys/fs/cgroup/moved-by-tests
}

@test "hugepageLimits: reach hugetlb.SIZE.max" {
    needs_huge_pages
    make_bundle_with 'linux["resources"]["hugepageLimits"] = [{"pageSize": "2MB", "limit": 4194304}]' sleep 1000
    start_box
    limit_is hugetlb.2MB.max 4194304
    expect 0 runtime delete --force box
    configure 'linux["resources"]["hugepageLimits"] = [{"pageSize": "2 Megabytes", "limit": 1}]'
    is_refused "linux.resources.hugepageLimits[0].pageSize"
}

@test "unified: sets files of the cgroup by name, and no other files" {
    needs_huge_pages
    make_bundle_with 'linux["resources"]["unified"] = {"hugetlb.2MB.max": "2097152", "cgroup.max.depth": "3"}' sleep 1000
    start_box
    limit_is hugetlb.2MB.max 2097152
    limit_is cgroup.max.depth 3
    expect 0 runtime update --resources - box <<<'{"unified": {"hugetlb.2MB.max": "4194304"}}'
    expect 0 runtime events --stats box
    output_holds 'it["data"]["hugetlb"]["2MB"] == {"limit": 4194304, "usage": 0, "max": 0, "failcnt": 0}'
    expect 0 runtime delete --force box
    for name in ../cgroup.kill cgroup.a/b memory; do
        configure 'linux["resources"]["unified"] = {arguments[0]: "1"}' "$name"
        is_refused "linux.resources.unified: '$name' is not the name of a cgroup file"
    done
    configure 'linux["resources"]["unified"] = {"hugetlb.2MB.nonsense": "1"}'
    fails 1 hugetlb.2MB.nonsense run_box
    check_untouched
}

@test "resources: a limit without its controller is an error that names it, and nothing remains" {
    ! grep -qw memory /sys/fs/cgroup/cgroup.controllers || skip "this machine has all controllers"
    make_bundle_with 'linux["resources"]["memory"] = {"limit": 100000000}' true
    fails 1 memory run_box
    check_untouched
}

@test "resources: without cgroups there is no limit" {
    make_bundle cat /proc/self/cgroup
    expect 0 runtime --cgroup-manager disabled run --bundle bundle box
    configure 'linux["resources"]["pids"] = {"limit": 10}'
    expect 1 runtime --cgroup-manager disabled run --bundle bundle box
    stderr_has "linux.resources.pids.limit: cannot set controller 'pids': cgroups are disabled"
}

# Devices of the major number 240 have no driver. Opening an allowed one fails with "No such device or address".
@test "devices of resources: a device without a rule cannot be opened; the default ones can" {
    make_bundle sh -c 'head -c 1 /dev/denied; echo x >/dev/denied; echo x >/dev/null && head -c 1 /dev/urandom | wc -c'
    configure 'linux["devices"] = [{"path": "/dev/denied", "type": "c", "major": 240, "minor": 1}]
linux["resources"]["devices"] = [{"allow": False, "access": "rwm"}]'
    expect 0 run_box
    [[ $(grep -c "denied: Operation not permitted" <<<"$stderr") == 2 ]]
    output_is 1
}

@test "devices of resources: the last rule that matches decides, by type, number and access" {
    make_bundle sh -c 'for name in one two three four; do head -c 1 /dev/$name; echo x >/dev/$name; done; mknod /dev/made c 240 2'
    configure 'capabilities("CAP_MKNOD")
linux["devices"] = [{"path": "/dev/" + name, "type": kind, "major": 240, "minor": minor}
    for name, kind, minor in (("one", "c", 1), ("two", "c", 2), ("three", "c", 3), ("four", "b", 1))]
linux["resources"]["devices"] = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 240, "access": "rwm"},
    {"allow": False, "type": "c", "major": 240, "minor": 1, "access": "r"}, {"allow": False, "type": "c", "major": 240, "minor": 2}]'
    expect 1 run_box
    mapfile -t lines <<<"$stderr"
    local allowed="No such device or address" denied="Operation not permitted" answer i=0
    for answer in "$denied" "$allowed" "$denied" "$denied" "$allowed" "$allowed" "$denied" "$denied" "$denied"; do
        [[ ${lines[i]} == *": $answer" ]] || { echo "${lines[i]}, not $answer"; return 1; }
        i=$((i + 1))
    done
}

@test "devices of resources: rules apply to exec, and update replaces them" {
    make_bundle_with 'linux["devices"] = [{"path": "/dev/one", "type": "c", "major": 240, "minor": 1}]' sleep 1000
    start_box
    fails 1 "Operation not permitted" runtime exec box head -c 1 /dev/one
    expect 0 runtime update --resources - box <<<'{"devices": [{"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "major": 240, "access": "r"}]}'
    fails 1 "No such device or address" runtime exec box head -c 1 /dev/one
}

@test "pause, resume: use the freezer of the cgroup" {
    make_bundle sh -c 'trap "echo got" TERM; while :; do date >/dev/shm/now; sleep 0.02; done'
    start_box
    expect 0 runtime pause box
    grep -q 'frozen 1' "$(cgroup_of_box)/cgroup.events" || grep -q 'frozen 1' "$(dirname "$(cgroup_of_box)")/cgroup.events"
    expect 0 runtime kill --all box TERM
    [[ $(runtime state box) == *'"paused"'* && ! -s out ]]
    expect 0 runtime resume box
    wait_for grep -q got out
    expect 0 runtime exec box true
    expect 0 runtime pause box
    expect 0 runtime delete --force box
    check_untouched
}
