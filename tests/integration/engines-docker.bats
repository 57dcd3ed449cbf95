#!/usr/bin/env bats
# Docker with the runtime: dockerd, its containerd and shim. See dockerd(8), docker-run(1), config/docker/daemon.json.
# once: the daemon is root's

load ../lib/podman.bash
load ../lib/peers.bash
load ../lib/engines.bash

setup_file() {
    has_engine dockerd docker containerd || return 0
    mkdir -p "$ENGINE"
    export DOCKER_HOST=unix://$ENGINE/docker.sock DOCKER_CONFIG=$ENGINE/client DOCKER_BUILDKIT=0
    export RUNTIME_STATE=$ENGINE/exec/runtime-runc/moby
    example_of docker/daemon.json >"$ENGINE/daemon.json"
    start_daemon dockerd dockerd --config-file "$ENGINE/daemon.json" --host "$DOCKER_HOST" --data-root "$ENGINE/data" \
        --exec-root "$ENGINE/exec" --pidfile "$ENGINE/dockerd.own.pid" --exec-opt native.cgroupdriver=cgroupfs \
        --storage-driver overlay2 --default-runtime pysbx-runtime --init-path "$(command -v tini-static)"
    await_daemon dockerd docker version
    import_python
    for image in busybox python; do
        save_image "$image"
        docker load --quiet --input "$ENGINE/$image.tar" >/dev/null
    done
    # Objects of the very first container remain: the parents of cgroups, mounts of the network.
    docker run --rm "$BUSYBOX" true
}

teardown_file() {
    stop_daemon dockerd
}

setup() {
    needs_engine dockerd docker containerd
    begin_test
}

teardown() {
    has_engine dockerd docker containerd || return 0
    local -a all
    mapfile -t all < <(docker ps --all --quiet)
    ((${#all[@]} == 0)) || docker rm --force "${all[@]}" >/dev/null
    check_leftovers
}

run_box() {
    docker run --rm --network none "$@"
}

start_box() {
    docker run --detach --network none "$@" >/dev/null
}

status_is() {
    [[ $(docker inspect --format '{{.State.Status}}' "$1") == "$2" ]]
}

@test "dockerd: the runtime of daemon.json is available, and a container can request it" {
    shows "$RUNTIME" docker info --format '{{json .Runtimes}}'
    expect 0 docker create --runtime pysbx-runtime --network none "$BUSYBOX" true
    prints pysbx-runtime docker inspect --format '{{.HostConfig.Runtime}}' "$output"
}

@test "docker run: the exit code of the program, and of a signal that ended it" {
    expect 7 run_box "$BUSYBOX" sh -c 'exit 7'
    expect 143 run_box --init "$BUSYBOX" sh -c 'kill -TERM $$'
}

@test "docker run: 127 for a missing program, 126 for one that is not executable" {
    fails 127 'no-such-program' run_box "$BUSYBOX" no-such-program
    expect 127 run_box "$BUSYBOX" /no/such/program
    fails 126 "permission denied" run_box "$BUSYBOX" /etc/passwd
    expect 126 run_box "$BUSYBOX" /etc
}

@test "docker run --user, --group-add, --env, --workdir, --hostname" {
    expect 0 run_box --user 1000:50 --group-add 77 --env A=b --workdir /tmp --hostname name "$BUSYBOX" \
        sh -c 'id -u; id -g; id -G; echo $A; pwd; hostname'
    output_is $'1000\n50\n50 77\nb\n/tmp\nname'
}

@test "docker run --read-only, --tmpfs, --cap-drop, no-new-privileges, and the default seccomp profile" {
    expect 0 run_box --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges "$BUSYBOX" \
        sh -c 'touch /tmp/a; touch /a 2>/dev/null || echo refused
            grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status'
    output_is $'refused\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2'
    prints $'Seccomp:\t0' run_box --security-opt seccomp=unconfined "$BUSYBOX" grep Seccomp: /proc/self/status
}

@test "docker run --volume, --mount, --device, --shm-size" {
    mkdir shared
    echo given >shared/file
    expect 0 run_box --volume "$PWD/shared:/ro:ro" --volume "$PWD/shared:/rw" --mount type=tmpfs,dst=/t,tmpfs-size=1m \
        --device /dev/null:/dev/zilch --shm-size 2m "$BUSYBOX" sh -c '
            cat /ro/file; echo 1 2>/dev/null >/ro/new || echo refused; echo made >/rw/new
            df -k /t /dev/shm | awk "NR > 1 { print \$2 }"; stat -c %t,%T /dev/zilch'
    output_is $'given\nrefused\n1024\n2048\n1,3'
    [[ $(<shared/new) == made ]]
}

@test "docker run --ulimit, --sysctl, --oom-score-adj" {
    prints $'99\n100\n1\n300' run_box --ulimit nofile=99:100 --sysctl net.ipv4.ip_forward=1 --oom-score-adj 300 "$BUSYBOX" \
        sh -c 'ulimit -n; ulimit -Hn; cat /proc/sys/net/ipv4/ip_forward /proc/self/oom_score_adj'
    fails 125 kernel.no_such run_box --sysctl kernel.no_such=1 "$BUSYBOX" true
}

@test "docker run --memory, --cpus: limits are set" {
    needs_limits memory
    needs_limits cpu
    expect 0 run_box --memory 64m --cpus 0.5 "$BUSYBOX" cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max
    output_is $'67108864\n50000 100000'
}

@test "docker run --pids-limit, docker update: limits are set and changed" {
    needs_limits pids
    start_box --name box --pids-limit 50 "$BUSYBOX" sleep 1000
    prints 50 docker exec box cat /sys/fs/cgroup/pids.max
    expect 0 docker update --pids-limit 60 box
    prints 60 docker exec box cat /sys/fs/cgroup/pids.max
}

@test "docker run: the bridge assigns an address, and reaches other containers" {
    docker run --detach --name server "$BUSYBOX" nc -l -p 80 -e echo hello >/dev/null
    address=$(docker inspect --format '{{.NetworkSettings.IPAddress}}' server)
    prints hello docker run --rm "$BUSYBOX" sh -c "for i in \$(seq 60); do nc $address 80 && exit; sleep 1; done; exit 1"
}

@test "docker run --network container:, --pid container:, --ipc container: join" {
    start_box --name first --ipc shareable "$BUSYBOX" sleep 1000
    expect 0 docker run --rm --network container:first --pid container:first --ipc container:first "$BUSYBOX" \
        sh -c 'tr "\0" " " </proc/1/cmdline; cd /proc/self/ns; ls -l net pid ipc'
    [[ ${lines[0]} == "sleep 1000 "* ]]
    first=$(docker inspect --format '{{.State.Pid}}' first)
    for name in net pid ipc; do output_has "$(readlink "/proc/$first/ns/$name")"; done
}

@test "docker run --tty, --interactive" {
    expect 3 "$TESTS/lib/pty" --expect /dev/pts/ --send '\n' -- docker run --rm --network none -it "$BUSYBOX" \
        sh -c 'tty; read -r line; exit 3'
    output_has /dev/pts/0
    prints given run_box --interactive "$BUSYBOX" cat <<<given
}

@test "docker exec: output, exit code, user, directory, environment, terminal" {
    start_box --name box "$BUSYBOX" sleep 1000
    expect 9 docker exec --user 1000 --workdir /tmp --env A=b box sh -c 'id -u; pwd; echo $A; exit 9'
    output_is $'1000\n/tmp\nb'
    prints given docker exec --interactive box cat <<<given
    expect 6 "$TESTS/lib/pty" --expect /dev/pts/ --send '\n' -- docker exec -it box sh -c 'tty; read -r line; exit 6'
    output_has /dev/pts/
    expect 143 docker exec box sh -c 'kill -TERM $$'
    expect '12[67]' docker exec box no-such-program
    [[ $output$stderr == *"no such file or directory"* ]]
}

@test "docker exec --detach, docker top, docker stats" {
    start_box --name box "$BUSYBOX" sleep 1000
    docker exec --detach box sleep 2000
    wait_for eval '[[ $(docker top box -o pid,args) == *"sleep 1000"*"sleep 2000"* ]]'
    prints box docker stats --no-stream --format '{{.Name}}' box
}

@test "docker pause, unpause: the state is visible, and exec is refused while paused" {
    start_box --name box "$BUSYBOX" sleep 1000
    docker pause box
    status_is box paused
    expect 1 docker exec box true
    docker unpause box
    status_is box running
    expect 0 docker exec box true
}

@test "docker stop: TERM first, which the program may handle, then KILL" {
    start_box --name polite "$BUSYBOX" sh -c 'trap "exit 4" TERM; echo ready; while :; do sleep 0.1; done'
    start_box --name stubborn "$BUSYBOX" sleep 1000
    wait_for eval '[[ $(docker logs polite) == ready ]]'
    docker stop --time 60 polite
    docker stop --time 0 stubborn
    prints $'4\n137' docker inspect --format '{{.State.ExitCode}}' polite stubborn
}

@test "docker kill, wait, start, restart, rename: a container is used again" {
    start_box --name box "$BUSYBOX" sleep 1000
    docker kill --signal HUP box
    status_is box running
    docker kill box
    prints 137 docker wait box
    docker start box
    docker restart --time 0 box
    docker rename box other
    status_is other running
    expect 0 docker exec other true
}

@test "docker run --health-cmd: is executed, and its exit code decides" {
    start_box --name box --health-cmd 'test -e /ok' --health-interval 100ms --health-retries 1 "$BUSYBOX" sleep 1000
    health_is() { [[ $(docker inspect --format '{{.State.Health.Status}}' box) == "$1" ]]; }
    wait_for health_is unhealthy
    docker exec box touch /ok
    wait_for health_is healthy
}

@test "docker build: RUN goes through the default runtime" {
    printf '%s\n' "FROM $BUSYBOX" 'RUN id -u >/made' 'USER user' 'RUN id -u >/tmp/made' >Dockerfile
    expect 0 docker build --network none --quiet --tag built .
    prints $'0\n1000' run_box built cat /made /tmp/made
    docker rmi built
    printf '%s\n' "FROM $BUSYBOX" 'RUN exit 4' >Dockerfile
    expect '*' docker build --network none --force-rm .
    [[ $status != 0 ]]
    stderr_has "returned a non-zero code: 4"
}

@test "docker run --privileged" {
    prints mounted run_box --privileged "$BUSYBOX" sh -c 'mkdir /mnt && mount -t tmpfs tmpfs /mnt && echo mounted'
}

@test "docker run: a failed start leaves only a container that can be removed" {
    expect 127 docker run --detach --name box --network none "$BUSYBOX" no-such-program
    status_is box created
    docker rm box
}

# Since Docker 24 (API 1.43).
@test "docker run --annotation: modules are imported beforehand" {
    docker run --help | grep -qe --annotation || skip "this Docker has no --annotation: tested by make check-release"
    prints $'False\nFalse' run_box --annotation run.pysbx.preload=json,decimal --annotation run.pysbx.warm=require "$PYTHON" \
        python3 -c "$(read_files json decimal)"
}

# Without an annotation, a bare interpreter is prewarmed on its second run.
@test "docker run: Python is warm from the third run on" {
    local program='print("warm" if "/pysbx-runtime/warm/" in open("/proc/self/maps").read() else "cold")'
    run_box "$PYTHON" python3 -c "$program"
    run_box "$PYTHON" python3 -c "$program"
    prints warm run_box "$PYTHON" python3 -c "$program"
}

@test "docker run: no mount of the container is a peer of a mount of the host" {
    mkdir -p dir
    no_peers_but run_box "$BUSYBOX" cat /proc/self/mountinfo
    no_peers_but run_box --tty --init --read-only --volume "$PWD/dir:/data" --mount type=tmpfs,dst=/scratch \
        --device /dev/null:/dev/other "$BUSYBOX" cat /proc/self/mountinfo
    no_peers_but run_box --privileged "$BUSYBOX" cat /proc/self/mountinfo
}
