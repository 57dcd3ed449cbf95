#!/usr/bin/env bats
# Pods of contrib/k8s under Podman, with the seccomp profile and the options that the chart gives them.

load ../lib/podman.bash

TOKEN=a-token-for-tests-only
K8S=$BATS_TEST_DIRNAME/../../contrib/k8s
POD=(--cap-drop all --read-only --tmpfs /tmp --security-opt no-new-privileges)

# The runtime of the distribution. crun loads its filter for devices only with CAP_SYS_RESOURCE, which root may lack.
podman() {
    command podman --runtime "$(command -v "$([[ $PODMAN_MODE == root ]] && echo runc || echo crun)")" "$@"
}

setup_file() {
    archive=$(realpath "${BUILD:-$TESTS/../build}/image/pysbx.tar") || {
        echo "there is no image: make image"
        return 1
    }
    command podman load --quiet --input "$archive" >/dev/null
}

setup() {
    begin_test
    IMAGE=$(command podman images --quiet --filter reference=localhost/pysbx)
    mkdir secret
    echo "$TOKEN" >secret/token
    chmod 0755 secret
    chmod 0444 secret/token
}

teardown() {
    podman rm --all --force --time 0 --volumes
    check_leftovers
}

# start VALUES OPTION-OF-PODMAN...: the pod's container, with the options that the chart has for these values.
start() {
    local -a options
    mapfile -t options < <(HOME=$PWD "$BATS_TEST_DIRNAME/../../build/k8s/bin/helm" template pysbx "$K8S/chart" --set "$1" |
        python3 -c 'import sys, yaml
for one in yaml.safe_load_all(sys.stdin):
    if one["kind"] == "SandboxTemplate":
        print(*one["spec"]["podTemplate"]["spec"]["containers"][0]["args"], sep="\n")')
    shift
    podman run --detach --name serve --network host --volume "$PWD/secret:/run/secrets/pysbx:ro" "${POD[@]}" "$@" "$IMAGE" \
        "${options[@]}" >/dev/null
    wait_for curl --silent --fail --output healthz http://127.0.0.1:8888/healthz || { podman logs serve; return 1; }
}

# run_code CODE: run it in a sandbox, and write the answer to the file outcome.
run_code() {
    python3 -c 'import json, sys; print(json.dumps({"code": sys.argv[1]}))' "$1" |
        curl --silent --show-error --max-time 120 --header "Authorization: Bearer $TOKEN" --output outcome \
            --header 'Content-Type: application/json' --data @- http://127.0.0.1:8888/v1/run
}

# member NAME: print a member of the answer.
member() {
    python3 -c 'import json, sys; print(json.load(open("outcome"))[sys.argv[1]])' "$1"
}

# move_pages(2) of no pages: the error number, or 0. The kernel permits it to every process.
MOVE_PAGES='import ctypes; c = ctypes.CDLL(None, use_errno=True); print(ctypes.get_errno() if c.syscall(279, 0, 0, 0, 0, 0, 0) else 0)'

@test "seccomp/pysbx-serve.json: sandboxes with namespaces, and calls that no pod needs are refused" {
    [[ $(uname -m) == x86_64 ]] || skip "the number of move_pages is that of x86-64"
    start pool.replicas=2 --security-opt unmask=ALL --security-opt "seccomp=$(realpath "$K8S/seccomp/pysbx-serve.json")"
    run_code 'import os; os.getpid()'
    [[ $(member value) == 2 && $(member isolation) == container ]] || { cat outcome; podman logs serve; return 1; }
    [[ $(podman exec serve python3 -c "$MOVE_PAGES") == 1 ]]
    podman rm --force --time 0 serve
    # As the Security Profiles Operator writes it: a call that is in no rule fails with another error.
    start pool.replicas=2 --security-opt unmask=ALL --security-opt "seccomp=$(realpath "$K8S/chart/files/seccompprofile.json")"
    run_code 'import os; os.getpid()'
    [[ $(member value) == 2 && $(member isolation) == container ]] || { cat outcome; podman logs serve; return 1; }
    podman rm --force --time 0 serve
    start pool.replicas=2 --security-opt unmask=ALL --security-opt seccomp=unconfined
    [[ $(podman exec serve python3 -c "$MOVE_PAGES") != 1 ]]
}

@test "isolation=process: the options work in a container that forbids namespaces" {
    start isolation=process
    run_code '6 * 7'
    [[ $(member value) == 42 && $(member isolation) == process ]] || { cat outcome; podman logs serve; return 1; }
}
