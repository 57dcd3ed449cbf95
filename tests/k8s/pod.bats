#!/usr/bin/env bats
# Pods of contrib/k8s under Podman, with the seccomp profile and the options that the chart gives them.
# prepare: contrib/image/build
# prepare: tests/setup/kubernetes helm

load ../lib/podman.bash
load serve.bash

K8S=$BATS_TEST_DIRNAME/../../contrib/k8s

# start_chart VALUES OPTION-OF-PODMAN...: the pod's container, with the options that the chart has for these values.
start_chart() {
    local -a options
    mapfile -t options < <(HOME=$PWD "$BATS_TEST_DIRNAME/../../build/k8s/bin/helm" template pysbx "$K8S/chart" --set "$1" |
        python3 -c 'import sys, yaml
for one in yaml.safe_load_all(sys.stdin):
    if one["kind"] == "SandboxTemplate":
        print(*one["spec"]["podTemplate"]["spec"]["containers"][0]["args"], sep="\n")')
    shift
    start_pod "${RESTRICTED[@]}" "$@" -- "${options[@]}"
}

# move_pages(2) of no pages: the error number, or 0. The kernel permits it to every process.
MOVE_PAGES='import ctypes; c = ctypes.CDLL(None, use_errno=True); print(ctypes.get_errno() if c.syscall(279, 0, 0, 0, 0, 0, 0) else 0)'

@test "pysbx-serve.json: sandboxes with namespaces, and calls that no pod needs are refused" {
    [[ $(uname -m) == x86_64 ]] || skip "the number of move_pages is that of x86-64"
    start_chart pool.replicas=2 --security-opt unmask=ALL --security-opt "seccomp=$(realpath "$K8S/chart/files/pysbx-serve.json")"
    run_code 'import os; os.getpid()'
    [[ $(member value <outcome) == 2 && $(member isolation <outcome) == container ]] || { cat outcome; podman logs serve; return 1; }
    [[ $(podman exec serve python3 -c "$MOVE_PAGES") == 1 ]]
    # The interface of agent-sandbox, with the token in a file.
    [[ $(ask /execute '{"command": "echo 42 >a; cat a"}' | member stdout) == 42 && $(ask /v1/files/a) == 42 ]]
    podman rm --force --time 0 serve
    # As the Security Profiles Operator writes it: a call that is in no rule fails with another error.
    sed 's/"defaultErrnoRet": 38, //' "$K8S/chart/files/pysbx-serve.json" >operator.json
    start_chart pool.replicas=2 --security-opt unmask=ALL --security-opt seccomp=operator.json
    run_code 'import os; os.getpid()'
    [[ $(member value <outcome) == 2 && $(member isolation <outcome) == container ]] || { cat outcome; podman logs serve; return 1; }
    podman rm --force --time 0 serve
    start_chart pool.replicas=2 --security-opt unmask=ALL --security-opt seccomp=unconfined
    [[ $(podman exec serve python3 -c "$MOVE_PAGES") != 1 ]]
}

@test "isolation=process: the options work in a container that forbids namespaces" {
    start_chart isolation=process
    run_code '6 * 7'
    [[ $(member value <outcome) == 42 && $(member isolation <outcome) == process ]] || { cat outcome; podman logs serve; return 1; }
}
