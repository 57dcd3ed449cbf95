#!/usr/bin/env bats
# podman build: RUN steps call the runtime as buildah does (create, start, state, kill, delete).

load ../lib/podman.bash

# shellcheck disable=SC2120 # most builds need no options
build() {
    podman build --isolation oci --network none --quiet --tag localhost/built "$@" .
}

@test "podman build: RUN, ENV, WORKDIR, USER and COPY" {
    echo copied >file
    cat >Containerfile <<BUILD
FROM $BUSYBOX
ENV NAME=value
COPY file /file
RUN echo "\$NAME \$(cat /file)" >/made
USER user
WORKDIR /home/user
RUN id -un >who && pwd >where
BUILD
    expect 0 build
    [[ $stderr != *capabilities* ]]
    expect 0 podman run --rm --network none localhost/built cat /made /home/user/who /home/user/where
    output_is $'value copied\nuser\n/home/user'
    podman rmi localhost/built
}

@test "podman build: a RUN step that fails gives its exit code" {
    printf 'FROM %s\nRUN exit 9\n' "$BUSYBOX" >Containerfile
    expect 9 build
}

@test "podman build: a missing program fails the step" {
    printf 'FROM %s\nRUN ["no-such-program"]\n' "$BUSYBOX" >Containerfile
    fails '1*' no-such-program build --force-rm
}

@test "podman build: RUN --mount type=tmpfs and type=bind" {
    echo context >file
    cat >Containerfile <<BUILD
FROM $BUSYBOX
RUN --mount=type=tmpfs,target=/scratch --mount=type=bind,target=/context cp /context/file /scratch/ && cp /scratch/file /kept
BUILD
    expect 0 build
    prints context podman run --rm --network none localhost/built sh -c 'cat /kept; ls -A /scratch 2>/dev/null; :'
    podman rmi localhost/built
}

@test "podman build --volume, --ulimit, --cap-drop: apply to RUN" {
    echo given >file
    cat >Containerfile <<BUILD
FROM $BUSYBOX
RUN cat /given/file >/tmp/made && ulimit -n >>/tmp/made && grep CapEff /proc/self/status | cut -f 2 >>/tmp/made
BUILD
    expect 0 build --volume "$PWD:/given:ro" --ulimit nofile=123:123 --cap-drop ALL
    prints $'given\n123\n0000000000000000' podman run --rm --network none localhost/built cat /tmp/made
    podman rmi localhost/built
}
