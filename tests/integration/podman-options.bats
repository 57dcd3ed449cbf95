#!/usr/bin/env bats
# Options of podman run reach the container; podman-run(1). The files config-*.bats test what each property of the
# configuration does, with its limits and errors.

load ../lib/podman.bash

run_box() {
    podman run --rm --network none "$@"
}

# Print the directory of a running container's cgroup.
cgroup_of() {
    local pid
    pid=$(podman inspect --format '{{.State.Pid}}' "$1")
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")"
}

teardown() {
    # Only one test makes it: the others leave nothing to remove.
    podman network rm --force --time 0 own 2>/dev/null || true
    clean_up
}

@test "podman run --user, --group-add, --env, --workdir, --umask, --hostname, --entrypoint" {
    expect 0 run_box --user user:staff --group-add 77 --env A="a b" --workdir /tmp --umask 0077 --hostname given \
        --entrypoint '["sh", "-c"]' "$BUSYBOX" 'id -u; id -G; echo "$A $HOME"; pwd; umask; hostname; cat /etc/hostname'
    output_is $'1000\n50 77\na b /home/user\n/tmp\n0077\ngiven\ngiven'
}

@test "podman run: an environment of one megabyte arrives completely" {
    local -a options=()
    for i in {1..100}; do options+=(-e "BIG$i=$(printf '%010000d' "$i")"); done
    expect 0 run_box "${options[@]}" "$BUSYBOX" sh -c 'env | grep ^BIG | wc -c'
    [[ $output -gt 1000000 ]]
}

@test "podman run --read-only, --tmpfs, --shm-size, --device, --secret" {
    printf hush >secret
    podman secret create word secret
    expect 0 run_box --read-only --tmpfs /home:size=1m,mode=0711,noexec --shm-size 2m --device /dev/full:/dev/mine:r \
        --secret word "$BUSYBOX" sh -c 'touch /file 2>/dev/null || echo refused; touch /tmp/file /run/file /dev/shm/file
            ls /home; stat -c %a /home; df -k /home /dev/shm | awk "NR > 1 { print \$2 }"
            head -c 3 /dev/mine | wc -c; cat /run/secrets/word'
    podman secret rm word
    output_is $'refused\nuser\n711\n1024\n2048\n3\nhush'
}

@test "podman run --volume: read-only, a single file, an overlay, an owner, a volume of Podman" {
    mkdir -m 0777 dir
    echo host >dir/file
    expect 0 run_box -u user -v "$PWD/dir:/ro:ro" -v "$PWD/dir/file:/not/there/before:ro" -v "$PWD/dir:/over:O" \
        -v kept:/home "$BUSYBOX" sh -c 'touch /ro/new 2>/dev/null || echo refused; cat /not/there/before
            touch /over/new && ls /home'
    output_is $'refused\nhost\nuser'
    [[ ! -e dir/new ]]
    prints 1000 run_box -u user -v "$PWD/dir:/data:U" "$BUSYBOX" sh -c 'echo new >/data/file; stat -c %u /data/file'
    [[ $(<dir/file) == new ]]
    podman unshare rm -rf dir 2>/dev/null || rm -rf dir
    podman volume rm kept
}

@test "podman run -v slave: mounts of the host propagate, those of the container do not" {
    needs_root "mounts on the host"
    mkdir -p dir/sub dir/own
    start_sleeper --name sleeper --cap-add SYS_ADMIN -v "$PWD/dir:/data:rslave"
    mount -t tmpfs tmpfs dir/sub
    expect 0 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
    expect 0 podman exec sleeper mount -t tmpfs tmpfs /data/own
    expect 32 mountpoint -q dir/own
    umount dir/sub
    expect 1 podman exec sleeper grep -q ' /data/sub ' /proc/mounts
}

@test "podman run --cap-drop, --cap-add, no-new-privileges, seccomp" {
    local fields='^(CapEff|CapBnd|NoNewPrivs|Seccomp):'
    expect 0 run_box --cap-drop ALL --cap-add NET_ADMIN --security-opt no-new-privileges "$BUSYBOX" \
        grep -E "$fields" /proc/self/status
    output_is $'CapEff:\t0000000000001000\nCapBnd:\t0000000000001000\nNoNewPrivs:\t1\nSeccomp:\t2'
    prints $'CapEff:\t0000000000000400' run_box -u user --cap-add NET_BIND_SERVICE "$BUSYBOX" grep CapEff /proc/self/status
    prints $'Seccomp:\t0' run_box --security-opt seccomp=unconfined "$BUSYBOX" grep Seccomp: /proc/self/status
    fails 1 "operation not permitted" run_box --cap-add SYS_ADMIN "$BUSYBOX" swapon /etc/passwd
}

@test "podman run: the kernel's sensitive files are hidden, its settings read-only" {
    prints "" run_box "$BUSYBOX" sh -c '
        for file in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug; do
            test ! -e $file || test "$(head -c 1 $file | wc -c)" = 0 || echo "$file can be read"
        done
        for dir in /proc/acpi /proc/scsi /sys/firmware; do
            test ! -d $dir || test -z "$(ls $dir)" || echo "$dir is not empty"
        done
        for path in /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /sys /sys/fs/cgroup; do
            test ! -e $path || grep -q " $path .*[ ,]ro[, ]" /proc/mounts || echo "$path is not read-only"
        done
        echo x 2>/dev/null >/proc/sys/kernel/domainname && echo written; :'
    prints "" run_box --security-opt mask=/proc/uptime:/home "$BUSYBOX" sh -c 'cat /proc/uptime; ls /home'
    expect 0 run_box --security-opt unmask=ALL "$BUSYBOX" sh -c '! grep " /proc/" /proc/mounts'
}

@test "podman run --ulimit, --sysctl, --personality, --oom-score-adj" {
    expect 0 run_box --ulimit nofile=100:200 --ulimit nproc=300:400 --sysctl kernel.msgmax=4096 \
        --personality LINUX32 --oom-score-adj 500 "$BUSYBOX" sh -c 'ulimit -Sn; ulimit -Hn; cat /proc/sys/kernel/msgmax /proc/self/oom_score_adj; uname -m'
    output_is $'100\n200\n4096\n500\ni686'
}

@test "podman run --pid, --ipc, --network, --uts, --userns container:NAME: root of its user namespace, including files" {
    podman run -d --name one --network none --uidmap 0:1:1000 --gidmap 0:1:1000 "$BUSYBOX" sleep 1000
    local kind
    expect 0 podman run --rm --pid container:one --ipc container:one --network container:one --uts container:one \
        --userns container:one "$BUSYBOX" sh -c 'id -u; touch /file; stat -c %u:%g /file; echo x >/dev/null
            tr "\0" " " </proc/1/cmdline; echo; ls -l /proc/self/ns'
    [[ ${lines[0]} == 0 && ${lines[1]} == 0:0 && ${lines[2]} == "sleep 1000 " ]]
    for kind in pid ipc net uts user; do output_has "$(podman exec one readlink "/proc/1/ns/$kind")"; done
    prints 7 run_box --userns container:one -u 7 "$BUSYBOX" id -u
}

@test "podman run --pid, --uts, --cgroupns host, --network none, ns:PATH" {
    needs_root "rootless containers are in Podman's user namespace, not in the host's"
    expect 0 run_box --pid host --uts host --cgroupns host "$BUSYBOX" sh -c '
        ls -l /proc/self/ns; ip -o addr show lo | grep -o 127.0.0.1/8'
    output_has "$(readlink /proc/self/ns/pid)" "$(readlink /proc/self/ns/uts)" "$(readlink /proc/self/ns/cgroup)" 127.0.0.1/8
    ip netns add outside
    expect 0 podman run --rm --network ns:/run/netns/outside "$BUSYBOX" stat -L -c %i /proc/self/ns/net
    output_is "$(stat -L -c %i /run/netns/outside)"
    ip netns delete outside
}

@test "podman run, rootless: root of the container, and with keep-id its user, is the user outside" {
    needs_rootless
    mkdir dir
    prints 0 run_box -v "$PWD/dir:/dir" "$BUSYBOX" sh -c 'id -u; touch /dir/root'
    prints "$(id -u)" run_box --userns keep-id -v "$PWD/dir:/dir" "$BUSYBOX" sh -c 'id -u; touch /dir/keep'
    prints 0 run_box --userns nomap "$BUSYBOX" id -u
    [[ $(stat -c %u dir/root dir/keep | sort -u) == "$(id -u)" ]]
}

@test "podman network create, --publish: containers of a network, and the host, reach a port" {
    import_python
    local fetch='import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode(), end="")'
    local -a network=()
    if ! is_rootless; then
        podman network create own >/dev/null
        network=(--network own)
    fi
    podman run -d --name server --publish 127.0.0.1:8088:8080 "${network[@]}" "$BUSYBOX" \
        sh -c 'mkdir /www; echo served >/www/index.html; exec httpd -f -p 8080 -h /www' >/dev/null
    wait_for python3 -c "$fetch" http://127.0.0.1:8088/ 2>/dev/null
    prints served podman run --rm --network container:server "$PYTHON" python3 -c "$fetch" http://127.0.0.1:8080/
    is_rootless || prints served podman run --rm --network own "$PYTHON" python3 -c "$fetch" \
        "http://$(podman inspect --format '{{.NetworkSettings.Networks.own.IPAddress}}' server):8080/"
}

@test "podman run, rm: the container has a cgroup named after it, which is removed with those below" {
    needs_cgroups
    start_sleeper --name sleeper --cgroup-parent /given/parent
    dir=$(cgroup_of sleeper)
    [[ $dir == /sys/fs/cgroup/given/parent/libpod-$(podman inspect --format '{{.Id}}' sleeper) ]]
    mkdir -p "$dir/made/below"
    podman rm --force --time 0 sleeper
    [[ ! -e $dir ]]
    # conmon's cgroup, which Podman creates, remains next to the container's.
    wait_for find /sys/fs/cgroup/given -depth -type d -exec rmdir {} +
}

@test "podman run --cgroups disabled: no cgroup is created, and exec, stop and rm work" {
    start_sleeper --name sleeper --cgroups disabled --cgroupns host
    expect 0 podman exec sleeper sed -n 's/^0:://p' /proc/self/cgroup
    output_lacks libpod-
    expect 0 podman stop --time 0 sleeper
    expect 0 podman rm sleeper
}

@test "podman run --memory, --cpus, --pids-limit, podman update: limits are set and changed" {
    needs_controller memory
    needs_controller cpu
    needs_controller pids
    start_sleeper --name sleeper --memory 64m --memory-swap 96m --cpus 0.5 --pids-limit 7
    prints $'67108864\n33554432\n50000 100000\n7' podman exec sleeper \
        sh -c 'cd /sys/fs/cgroup && cat memory.max memory.swap.max cpu.max pids.max'
    expect 0 podman update --memory 128m --memory-swap 160m sleeper
    [[ $(<"$(cgroup_of sleeper)/memory.max") == 134217728 ]]
}
