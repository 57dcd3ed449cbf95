#!/usr/bin/env bats
# Capabilities, seccomp, no-new-privileges, masked paths, limits, sysctls: restrictions of a container.

load ../lib/podman.bash

# Print a field of /proc/self/status in a container started with the given options.
status_of() {
    local field=$1
    shift
    expect 0 podman run --rm --network none "$@" "$BUSYBOX" sh -c "grep ^$field: /proc/self/status | cut -f 2"
}

@test "podman run --cap-drop, --cap-add: exactly those capabilities" {
    for set in CapInh CapAmb; do
        status_of $set --cap-drop ALL
        output_is 0000000000000000
    done
    status_of CapEff --cap-drop ALL
    output_is 0000000000000000
    status_of CapBnd --cap-drop ALL --cap-add NET_ADMIN --cap-add CHOWN
    output_is 0000000000001001
    status_of CapEff --cap-drop ALL --cap-add NET_ADMIN --cap-add CHOWN
    output_is 0000000000001001
}

@test "podman run --user: a user has no capabilities unless they are added by name" {
    status_of CapEff -u user
    output_is 0000000000000000
    status_of CapPrm -u user
    output_is 0000000000000000
    status_of CapEff -u user --cap-add NET_BIND_SERVICE
    output_is 0000000000000400
    status_of CapAmb -u user --cap-add NET_BIND_SERVICE
    output_is 0000000000000400
}

@test "podman run --cap-drop: the operation fails" {
    fails 1 "operation not permitted" podman run --rm --network none --cap-drop CHOWN "$BUSYBOX" chown user /etc/passwd
}

@test "podman run: the default seccomp profile is in force" {
    status_of Seccomp
    output_is 2
    fails 1 "operation not permitted" podman run --rm --network none --cap-add SYS_ADMIN "$BUSYBOX" swapon /etc/passwd
    expect 1 podman run --rm --network none --cap-add SYS_ADMIN --security-opt seccomp=unconfined "$BUSYBOX" swapon /etc/passwd
    [[ ${stderr,,} != *"operation not permitted"* ]] || is_rootless
}

@test "podman run --security-opt seccomp=unconfined: no filter" {
    status_of Seccomp --security-opt seccomp=unconfined
    output_is 0
}

@test "podman run --security-opt seccomp=FILE: errno, argument comparison and log" {
    cat >profile.json <<'JSON'
{ "defaultAction": "SCMP_ACT_ALLOW",
  "syscalls": [
    { "names": ["mkdir", "mkdirat", "no_such_system_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28 },
    { "names": ["personality"], "action": "SCMP_ACT_ERRNO", "errnoRet": 16,
      "args": [ { "index": 0, "value": 8, "op": "SCMP_CMP_EQ" } ] } ] }
JSON
    expect 1 podman run --rm --network none --security-opt seccomp=profile.json "$BUSYBOX" mkdir /tmp/dir
    stderr_has "no space left on device"
    expect 0 podman run --rm --network none --security-opt seccomp=profile.json "$BUSYBOX" mkfifo /tmp/fifo
}

@test "podman run --security-opt seccomp=FILE: the process is killed" {
    cat >profile.json <<'JSON'
{ "defaultAction": "SCMP_ACT_ALLOW",
  "syscalls": [ { "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL_PROCESS" } ] }
JSON
    expect 159 podman run --rm --network none --security-opt seccomp=profile.json "$BUSYBOX" mkdir /tmp/dir
}

@test "podman run --security-opt no-new-privileges: set for the process and its children" {
    status_of NoNewPrivs
    output_is 0
    status_of NoNewPrivs --security-opt no-new-privileges
    output_is 1
    status_of Seccomp --security-opt no-new-privileges -u user
    output_is 2
}

@test "podman run: the kernel's sensitive files are hidden, its settings read-only" {
    prints "" podman run --rm --network none "$BUSYBOX" sh -c '
        for file in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug; do
            test ! -e $file || test "$(head -c 1 $file | wc -c)" = 0 || echo "$file can be read"
        done
        for dir in /proc/acpi /proc/scsi /sys/firmware; do
            test ! -d $dir || test -z "$(ls $dir)" || echo "$dir is not empty"
        done
        for path in /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus; do
            test ! -e $path || grep -q " $path .*[ ,]ro[, ]" /proc/mounts || echo "$path is not read-only"
        done
        echo x 2>/dev/null >/proc/sys/kernel/domainname && echo written; :'
}

@test "podman run --security-opt mask, unmask" {
    prints "" podman run --rm --network none --security-opt mask=/proc/uptime:/home "$BUSYBOX" \
        sh -c 'cat /proc/uptime; ls /home'
    expect 0 podman run --rm --network none --security-opt unmask=/proc/timer_list:/sys/firmware "$BUSYBOX" \
        sh -c '! grep -E " (/proc/timer_list|/sys/firmware) " /proc/mounts'
    expect 0 podman run --rm --network none --security-opt unmask=ALL "$BUSYBOX" sh -c '! grep " /proc/" /proc/mounts'
}

@test "podman run: /sys and the cgroup tree are read-only" {
    prints "" podman run --rm --network none "$BUSYBOX" sh -c '
        grep -q " /sys sysfs ro," /proc/mounts || echo sysfs
        grep " /sys/fs/cgroup " /proc/mounts | grep -q " cgroup2 ro," || echo cgroup'
}

@test "podman run --ulimit" {
    expect 0 podman run --rm --network none --ulimit nofile=100:200 --ulimit nproc=300:400 --ulimit core=0 --ulimit cpu=77:88 "$BUSYBOX" \
        sh -c 'ulimit -Sn; ulimit -Hn; grep "Max processes" /proc/self/limits | tr -s " "; ulimit -Hc; ulimit -St; ulimit -Ht'
    output_is $'100\n200\nMax processes 300 400 processes \n0\n77\n88'
}

@test "podman run --sysctl: in the container, and not outside" {
    before=$(</proc/sys/net/ipv4/ip_unprivileged_port_start)
    expect 0 podman run --rm --network none --sysctl net.ipv4.ip_unprivileged_port_start=80 --sysctl kernel.msgmax=4096 \
        "$BUSYBOX" cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/msgmax
    output_is $'80\n4096'
    [[ $(</proc/sys/net/ipv4/ip_unprivileged_port_start) == "$before" ]]
}

@test "podman run --sysctl: a setting of the host is refused" {
    expect 125 podman run --rm --network none --sysctl kernel.panic=1 "$BUSYBOX" true
    expect 126 podman run --rm --network none --uts host --sysctl kernel.domainname=x "$BUSYBOX" true ||
        expect 125 podman run --rm --network none --uts host --sysctl kernel.domainname=x "$BUSYBOX" true
}

@test "podman run --personality, --oom-score-adj" {
    expect 0 podman run --rm --network none --personality LINUX32 "$BUSYBOX" uname -m
    [[ $output != "$(uname -m)" ]]
    prints 500 podman run --rm --network none --oom-score-adj 500 "$BUSYBOX" cat /proc/self/oom_score_adj
}
