#!/usr/bin/env bats
# The image in a container of Docker, as a pod: contrib/docs/pages/how-to/kubernetes.md, "What the pod needs".
# once: the daemon is root's
# prepare: contrib/image/build
# prepare: tests/setup/engines --complete

load ../lib/podman.bash
load ../lib/engines.bash

PROFILE=$BATS_TEST_DIRNAME/../../contrib/k8s/chart/files/pysbx-serve.json
VOLUMES=/run/pysbx-pod
# The kubelet gives this variable to each container. Its volumes have mode 0777 without the sticky bit.
POD=(--rm --network host --env KUBERNETES_SERVICE_HOST=10.96.0.1 --cap-drop all --security-opt no-new-privileges
    --read-only --volume "$VOLUMES/tmp:/tmp" --volume "$VOLUMES/cache:/var/cache/pysbx" --entrypoint pysbx)

# Docker's `load` of the whole archive takes minutes: give it the files, and the configuration that Podman reads.
import_files() {
    local archive=$1 line container
    local -a changes=()
    command podman load --quiet --input "$archive" >/dev/null
    while read -r line; do changes+=(--change "ENV $line"); done < <(
        command podman image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' localhost/pysbx | grep .)
    container=$(command podman create localhost/pysbx)
    command podman export "$container" |
        docker import "${changes[@]}" --change "USER $(command podman image inspect --format '{{.Config.User}}' localhost/pysbx)" \
            - localhost/pysbx >/dev/null
    command podman rm "$container" >/dev/null
}

setup_file() {
    has_engine dockerd docker containerd || return 0
    archive=$(realpath "${BUILD:-$TESTS/../build}/image/pysbx.tar") || {
        echo "there is no image: make image"
        return 1
    }
    mkdir -p "$ENGINE"
    export DOCKER_HOST=unix://$ENGINE/docker.sock DOCKER_CONFIG=$ENGINE/client
    start_daemon dockerd dockerd --host "$DOCKER_HOST" --data-root "$ENGINE/data" --exec-root "$ENGINE/exec" \
        --pidfile "$ENGINE/dockerd.own.pid" --exec-opt native.cgroupdriver=cgroupfs --storage-driver overlay2 \
        --bridge none --iptables=false
    await_daemon dockerd docker version
    import_files "$archive"
    # Objects of the very first container remain: the parents of cgroups.
    docker run --rm --network host localhost/pysbx true
}

teardown_file() {
    stop_daemon dockerd
}

setup() {
    needs_engine dockerd docker containerd
    mkdir -p "$VOLUMES"/{tmp,cache}
    chmod 0777 "$VOLUMES"/*
    begin_test
}

teardown() {
    check_leftovers
    rm -rf "$VOLUMES"
}

@test "Docker's defaults: doctor names seccompProfile and procMount" {
    expect 1 docker run "${POD[@]}" localhost/pysbx doctor
    output_has "seccompProfile: {type"
    output_has "procMount: Unmasked"
}

@test "with our filter, doctor names procMount and no longer seccompProfile" {
    expect 1 docker run "${POD[@]}" --security-opt "seccomp=$PROFILE" localhost/pysbx doctor
    output_lacks seccompProfile
    output_has "procMount: Unmasked"
}

@test "with our filter and a whole /proc, a user without capabilities has sandboxes" {
    options=("${POD[@]}" --security-opt "seccomp=$PROFILE" --security-opt systempaths=unconfined)
    expect 0 docker run "${options[@]}" localhost/pysbx doctor
    output_lacks "procMount: Unmasked"
    # The daemon gives its containers the users of the machine.
    output_has "hostUsers: false"
    expect 0 docker run "${options[@]}" localhost/pysbx run -c 'import os; print(6 * 7, os.getpid())'
    output_is "42 2"
}
