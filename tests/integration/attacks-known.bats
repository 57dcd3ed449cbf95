#!/usr/bin/env bats
# Replay published vulnerabilities of container runtimes, as their reports describe them, if no other attacks-*.bats or
# robustness.bats contains them. They concern capabilities that a program should not inherit. They also concern a /proc
# or /sys that the image redirects, so that mounts, masks and writes take effect in another place.

load ../lib/bundle.bash

# Make a program in ./own with file capabilities (capabilities(7)) that raise every inheritable capability of its
# caller: busybox. The data are VFS_CAP_REVISION_2 with the effective flag; permitted; inheritable.
make_heir() {
    mkdir own
    cp bundle/rootfs/bin/busybox own/busybox-heir
    python3 -c 'import os, struct, sys
every = 0xffffffff
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 0, every, 0, every))' own/busybox-heir
}

# Print the capabilities that a process of the container inherits, and those that the program gets from them.
HEIR='grep -h CapInh /proc/self/status; /own/busybox-heir cat /secret'

@test "a program of the image with inheritable file capabilities inherits none from the runtime" {
    # CVE-2022-29162, CVE-2022-24769
    needs_root "only root sets file capabilities"
    local nothing=$'CapInh:\t0000000000000000'
    make_bundle sh -c "$HEIR; sleep 1000"
    make_heir
    echo secret >bundle/rootfs/secret
    chmod 0600 bundle/rootfs/secret
    configure 'process["user"] = {"uid": 1000, "gid": 1000}; process["noNewPrivileges"] = False
capabilities("CAP_DAC_OVERRIDE", "CAP_CHOWN")
mount("/own", arguments[0], "suid")' "$PWD/own"
    start_box
    wait_for grep -q "Permission denied" err
    [[ $(<out) == "$nothing" ]]
    expect 1 runtime exec box sh -c "$HEIR"
    output_is "$nothing"
    stderr_has "Permission denied"
    expect 1 runtime exec --cap CAP_DAC_OVERRIDE box sh -c "$HEIR"
    output_is "$nothing"
    stderr_has "Permission denied"
    expect 1 runtime exec --user 1000:1000 --cap CAP_DAC_OVERRIDE --cap CAP_SETUID box sh -c "$HEIR"
    output_is "$nothing"
    # Control: the program does get the capabilities that the configuration declares inheritable.
    runtime delete --force box
    configure 'process["args"] = ["sh", "-c", arguments[0]]
capabilities("CAP_DAC_OVERRIDE", sets="bounding effective permitted inheritable")' "$HEIR"
    prints $'CapInh:\t0000000000000002\nsecret' run_box
}

@test "/proc of the image is a link to a volume: procfs, masks and labels do not follow it" {
    # CVE-2019-19921, CVE-2023-27561
    mkdir -p shared/attr
    for target in /shared ../shared /shared/missing shared/../shared; do
        make_bundle true
        mkdir -p bundle/rootfs/shared
        rm -rf bundle/rootfs/proc
        ln -s "$target" bundle/rootfs/proc
        # Engines may list the volume before or after /proc.
        configure 'config["mounts"].insert(0, {"destination": "/shared", "type": "bind", "source": arguments[0],
    "options": ["bind"]})' "$PWD/shared"
        is_refused "mounts[1] ('/proc'): '/proc' in the root file system is a symbolic link"
        configure 'config["mounts"].append(config["mounts"].pop(0))'
        is_refused "mounts[0] ('/proc'): '/proc' in the root file system is a symbolic link"
        rm bundle/rootfs/proc
    done
    [[ $(find shared | sort | paste -sd,) == shared,shared/attr ]]
}

@test "/proc becomes a link while the container starts: procfs is masked under any name, or the container does not start" {
    # CVE-2019-19921, CVE-2023-27561: two containers share a root, and one of them swaps /proc.
    # The program waits for its turn to see procfs there: on a busy machine the names do not change for a while.
    make_bundle sh -c 'until cd /proc && test -e keys && test -e sys/kernel; do cd /; done
wc -c <keys; touch sys/kernel/domainname 2>&1 | grep -o "Read-only.*"'
    mkdir -p bundle/rootfs/{shared,proc} shared
    ln -s shared bundle/rootfs/other
    configure 'linux["maskedPaths"] = ["/proc/keys"]; linux["readonlyPaths"] = ["/proc/sys"]
mount("/shared", arguments[0])' "$PWD/shared"
    hold "$TESTS/lib/flip" bundle/rootfs/proc bundle/rootfs/other
    : >outcomes
    for ((round = 0; round < 60; round++)); do
        rc=0
        timeout 60 "$RUNTIME" run --bundle bundle box </dev/null >out 2>>errors || rc=$?
        echo "$rc $(paste -sd, out)" >>outcomes
    done
    sort outcomes | uniq -c
    [[ $(sort -u outcomes) == $'0 0,Read-only file system\n1 ' ]]
    grep -v "is a symbolic link or not a directory: refusing to mount on it" errors && return 1
    [[ -z $(ls -A shared) ]]
}

@test "/sys of the image is a link into /proc: a mount at /sys does not cover the runtime's path to labels" {
    # CVE-2023-28642
    make_bundle true
    rm -rf bundle/rootfs/sys
    ln -s /proc/self/attr bundle/rootfs/sys
    is_refused "'/sys' in the root file system is a symbolic link"
    # The same with a link higher up in the path.
    rm bundle/rootfs/sys
    mkdir bundle/rootfs/sys
    ln -s / bundle/rootfs/up
    configure 'next(m for m in config["mounts"] if m["destination"] == "/proc")["destination"] = "/up/proc"'
    is_refused "'/up/proc' in the root file system is a symbolic link"
}
