#!/usr/bin/env bats
# The image of contrib/image, with the runtimes of the distribution under Podman: contrib/docs/pages/how-to/container.md.
# prepare: contrib/image/build

load ../lib/podman.bash
load serve.bash

@test "a hardened container without a network: sandboxes, and the data-science set, warm, from the image's own wheels" {
    start "${NESTED[@]}" --
    [[ $(<healthz) == '{"status":"ok"}' && $(ask /execute '{"code": "print(6 * 7)"}' | member stdout) == 42 ]]
    wait_for is_prepared
    [[ $(<ready) == *"\"ready\":true"* ]] || { podman logs serve; return 1; }
    code='import pandas, sys; print(pandas.Series([20, 22]).sum())'
    ask /v1/run "{\"code\": \"$code\", \"profile\": \"data-science\"}" >outcome
    [[ $(member stdout <outcome) == 42 ]] || { cat outcome; podman logs serve; return 1; }
    [[ $(member warm <outcome) == True ]]
    # Process 2 is the child of the init in a pid namespace of its own.
    run_code 'import os; os.getpid()'
    [[ $(member value <outcome) == 2 && $(member isolation <outcome) == container ]]
}

@test "its program is no root, and its files cannot be changed" {
    start "${NESTED[@]}" --
    [[ $(podman exec serve id -u) == 1000 ]]
    fails 1 "Read-only file system" podman exec serve touch /opt/app-root/x
}

@test "neither the wheels of the build nor a compiler's cache remain in it" {
    podman run --rm --entrypoint sh "$IMAGE" -c 'ls -A /tmp' >left
    [[ ! -s left ]] || { cat left; return 1; }
}

@test "a user that it does not know, in group 0, as OpenShift chooses it" {
    [[ $PODMAN_MODE == root ]] || skip "a user has no numbers for OpenShift's users"
    start --user 1000700000:0 "${RESTRICTED[@]}" -- --listen 0.0.0.0:8888 --best-effort --isolation process
    [[ $(ask /execute '{"code": "print(6 * 7)"}' | member stdout) == 42 ]] || { podman logs serve; return 1; }
    [[ $(podman exec serve id -u) == 1000700000 ]]
}

@test "a restricted container: refused with the option that is missing, and isolation=process works" {
    expect 125 podman run --name refused --network host --env "PYSBX_TOKEN=$TOKEN" "${RESTRICTED[@]}" "$IMAGE"
    stderr_has "procMount: Unmasked with hostUsers: false (Kubernetes)" "--isolation process"
    start "${RESTRICTED[@]}" -- --listen 0.0.0.0:8888 --best-effort --isolation process
    [[ $(ask /execute '{"code": "print(6 * 7)"}' | member stdout) == 42 ]]
    run_code '6 * 7'
    [[ $(member value <outcome) == 42 && $(member isolation <outcome) == process ]]
}

@test "without a token it does not start" {
    fails 2 PYSBX_TOKEN podman run --name refused --network host "${NESTED[@]}" "$IMAGE"
}

@test "podman stop: it ends by itself, with code 0" {
    start "${NESTED[@]}" --
    podman stop --time 30 serve
    [[ $(podman inspect --format '{{.State.ExitCode}}' serve) == 0 ]]
}
