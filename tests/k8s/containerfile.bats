#!/usr/bin/env bats
# contrib/image/Containerfile on a base of Debian's packages with the layout of UBI's image for Python: its own virtualenv
# in /opt/app-root, and user 1001. UBI itself is not here, because it comes from a registry.
# once: a user has no numbers for OpenShift's users
# prepare: contrib/image/build
# prepare: tests/setup/containerfile

load ../lib/podman.bash
load serve.bash

IMAGES=$BATS_TEST_DIRNAME/../../contrib/image
BUILT=${BUILD:-$BATS_TEST_DIRNAME/../../build}

build() {
    podman build --isolation oci --network none --quiet "$@" >/dev/null
}

# The base: the system of `make image`, and pip, which that does not have.
make_base() {
    podman import --quiet --change 'ENV PATH=/usr/bin:/bin' "$(realpath "$BUILT"/image/system-*.tar)" localhost/system >/dev/null
    cat >base <<'CONTAINERFILE'
FROM localhost/system
RUN python3 -m venv --without-pip --symlinks /opt/app-root
COPY pip /tmp/pip
RUN cp -R /tmp/pip /opt/app-root/lib/python3.*/site-packages/ && rm -r /tmp/pip
ENV PATH=/opt/app-root/bin:/usr/bin:/bin
USER 1001
CONTAINERFILE
    build --file base --tag localhost/base "$WHEELS"
}

setup_file() {
    WHEELS=$(realpath "$BUILT/containerfile") || return 1
    [[ -e $WHEELS/complete ]] || { echo "there are no wheels: tests/setup/containerfile"; return 1; }
    cd "$BATS_FILE_TMPDIR" || return
    make_base
    build --file "$IMAGES/Containerfile" --ignorefile "$IMAGES/containerignore" --build-arg BASE=localhost/base \
        --build-arg PIP_NO_INDEX=1 --tag localhost/own "$WHEELS"
}

setup() {
    begin_test
    # shellcheck disable=SC2034 # start() uses it
    IMAGE=localhost/own
}

answers() {
    [[ $(ask /execute '{"code": "print(6 * 7)"}' | member stdout) == 42 ]] || { podman logs serve; return 1; }
    wait_for is_prepared
    [[ $(<ready) == *'"ready":true'* ]] || { cat ready; podman logs serve; return 1; }
}

@test "Containerfile: no root, a read-only root file system: ready, and a sandbox runs" {
    [[ $(command podman image inspect --format '{{.User}}' localhost/own) == 1001 ]]
    start --user 1001 "${NESTED[@]}" --
    answers
    [[ $(podman exec serve id -u) == 1001 ]]
    ask /v1/run '{"code": "import os; os.getpid()"}' >outcome
    [[ $(member value <outcome) == 2 && $(member isolation <outcome) == container ]] || { cat outcome; return 1; }
    expect 1 podman exec serve touch /opt/app-root/x
    stderr_has "Read-only file system"
}

@test "Containerfile: a user that the image does not know, in group 0, as OpenShift chooses it" {
    start --user 1000700000:0 "${RESTRICTED[@]}" -- --listen 0.0.0.0:8888 --best-effort --isolation process
    answers
    [[ $(podman exec serve id -u) == 1000700000 ]]
}

@test "Containerfile: neither the wheels nor a compiler's cache remain in the image" {
    podman run --rm --entrypoint sh localhost/own -c 'ls -A /tmp' >left
    [[ ! -s left ]] || { cat left; return 1; }
}
