#!/usr/bin/env bats
# Pods: containers that share namespaces and a parent cgroup; podman-pod-create(1), podman-play-kube(1).

load ../lib/podman.bash

# Podman 4.3 gives the cgroup of a pod device rules that deny all on a pure cgroup v2 host, for every runtime.
setup_file() {
    if podman pod create --name probe --network none >/dev/null 2>&1 &&
        podman run --rm --pod probe "$BUSYBOX" sh -c 'echo x >/dev/null' >/dev/null 2>&1; then
        export PODS_WORK=1
    else
        export PODS_WORK=0
    fi
    podman pod rm --all --force --time 0 >/dev/null
}

teardown() {
    podman pod rm --all --force --time 0
    clean_up
}

needs_pods() {
    ((PODS_WORK)) || skip "this Podman denies pods their devices: tested in tests/vm"
}

@test "podman pod: containers share network, IPC and UTS namespaces" {
    needs_pods
    podman pod create --name pod --network none
    podman run -d --pod pod --name first "$BUSYBOX" sleep 1000
    for kind in net ipc uts; do
        expect 0 podman exec first readlink /proc/1/ns/$kind
        local first=$output
        prints "$first" podman run --rm --pod pod "$BUSYBOX" readlink /proc/self/ns/$kind
    done
}

@test "podman pod: stop, start, kill, rm act on all containers" {
    needs_pods
    podman pod create --name pod --network none
    podman run -d --pod pod --name one "$BUSYBOX" sleep 1000
    podman run -d --pod pod --name two "$BUSYBOX" sleep 1000
    expect 0 podman pod stop --time 0 pod
    state_is one exited
    expect 0 podman pod start pod
    state_is two running
    expect 0 podman pod kill pod
    expect 0 podman pod rm --force pod
}

@test "podman pod --share pid: the processes see each other" {
    needs_pods
    podman pod create --name pod --network none --share pid,net
    podman run -d --pod pod --name one "$BUSYBOX" sleep 4321
    shows "sleep 4321" podman run --rm --pod pod "$BUSYBOX" ps
}
