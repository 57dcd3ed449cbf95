#!/usr/bin/env bats
# buildah(1) by itself: `buildah run` and `buildah build` with --runtime; `podman build` calls the runtime in the same way.
# once: a build of a user calls the runtime with the same words

load ../lib/podman.bash
load ../lib/peers.bash

setup() {
    begin_test
    command -v buildah >/dev/null || skip "buildah is missing"
    export BUILDAH_ISOLATION=oci
    buildah from --quiet --pull-never --name box "$BUSYBOX" >/dev/null
}

teardown() {
    ! command -v buildah >/dev/null || buildah rm --all >/dev/null
    clean_up
}

# run_box [OPTION...] [PROGRAM...], in the working container.
run_box() {
    buildah run --runtime "$RUNTIME" --network none "$@"
}

build() {
    buildah build --runtime "$RUNTIME" --network none --quiet --tag localhost/built "$@" .
}

@test "buildah run --runtime: output and exit code; a missing program, and one that is not executable" {
    expect 5 run_box box sh -c 'echo out; exit 5'
    output_is out
    fails 1 'executable file `no-such-program` not found in $PATH' run_box box no-such-program
    fails 1 "permission denied" run_box box /etc/passwd
}

@test "buildah run --user, --workingdir, --env, --hostname, --cap-drop, --volume, --mount" {
    echo given >file
    expect 0 run_box --user user --workingdir /tmp --env A=b --hostname name --cap-drop CAP_CHOWN \
        --volume "$PWD:/given:ro" --mount type=tmpfs,dst=/scratch box sh -c 'id -u; pwd; echo $A; hostname
            grep CapBnd /proc/self/status; mount | grep -c "on /scratch type tmpfs"
            touch /given/x 2>/dev/null || echo refused'
    output_is $'1000\n/tmp\nb\nname\nCapBnd:\t00000000800405fa\n1\nrefused'
}

@test "buildah run --tty" {
    expect 3 "$TESTS/lib/pty" -- buildah run --runtime "$RUNTIME" --network none --tty box sh -c 'tty; exit 3'
    output_has /dev/pts/0
}

@test "buildah run --runtime-flag: reaches the runtime, an unknown one is named" {
    expect 0 run_box --runtime-flag log-level=error box true
    fails 1 no-such-option run_box --runtime-flag no-such-option box true
}

@test "buildah run: an interpreter is prewarmed, as in every other container" {
    import_python
    buildah from --quiet --pull-never --name python "$PYTHON"
    local program='print("warm" if "/pysbx-runtime/warm/" in open("/proc/self/maps").read() else "cold")'
    run_box python python3 -c "$program"
    run_box python python3 -c "$program"
    prints warm run_box python python3 -c "$program"
}

@test "buildah build --runtime: RUN, USER, COPY; a failing step gives its exit code" {
    echo copied >file
    printf '%s\n' "FROM $BUSYBOX" 'COPY file /' 'RUN cat /file >/made; id -u >>/made' \
        'USER user' 'RUN id -u >/tmp/made' >Containerfile
    expect 0 build
    prints $'copied\n0\n1000' podman run --rm --network none localhost/built cat /made /tmp/made
    podman rmi localhost/built
    printf '%s\n' "FROM $BUSYBOX" 'RUN exit 4' >Containerfile
    expect 4 build
}

@test "buildah build --ulimit, --cap-drop" {
    printf '%s\n' "FROM $BUSYBOX" 'RUN ulimit -n >/tmp/made; grep CapEff /proc/self/status >>/tmp/made' >Containerfile
    expect 0 build --ulimit nofile=64:64 --cap-drop ALL
    prints $'64\nCapEff:\t0000000000000000' podman run --rm --network none localhost/built cat /tmp/made
    podman rmi localhost/built
}

@test "buildah run: no mount of the container is a peer of a mount of the host" {
    mkdir -p dir
    no_peers_but run_box box cat /proc/self/mountinfo
    no_peers_but run_box --volume "$PWD/dir:/data" --mount type=tmpfs,dst=/scratch box cat /proc/self/mountinfo
}
