#!/usr/bin/env bats
# The RuntimeClass of contrib/k8s on a node with a kubelet: contrib/docs/pages/how-to/kubernetes.md. The node is a
# virtual machine with cgroup v2 and systemd, whose administrator has installed the runtime and containerd's handler.
# once: the caller makes no difference
# slow: an emulated machine
# shellcheck disable=SC2016 # wait_until evaluates its conditions each time

load ../lib/podman.bash
load ../lib/engines.bash
load controlplane.bash
load kubelet.bash

CONTRIB=$BATS_TEST_DIRNAME/../../contrib/k8s

setup_file() {
    export BATS_TEST_TIMEOUT=$((PATIENCE * 3))
    ! is_rootless || return 0
    start_plane || { explain; return 1; }
    kubectl create --filename - < <(sed '/^---/,$d' "$CONTRIB/runtimeclass.yaml")
}

teardown_file() {
    stop_machine
    stop_plane
}

setup() {
    needs_root "the machine's images are made by root's containerd"
    cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
    [[ ${BATS_TEST_COMPLETED:-} ]] || explain
}

# pod NAME PROGRAM [STATEMENT]: print the pod of runtimeclass.yaml with another name, image, modules and program. The statement
# changes the document `pod`, or its only container, `program`.
pod() {
    python3 -c 'import sys, yaml
_, pod = yaml.safe_load_all(open(sys.argv[1]))
program, = pod["spec"]["containers"]
pod["metadata"].update(name=sys.argv[2], annotations={"run.pysbx.preload": "decimal json"})
program.update(image="localhost/pysbx:latest", imagePullPolicy="Never", command=["python3", "-c", sys.argv[3]])
exec(sys.argv[4])
yaml.safe_dump(pod, sys.stdout)' "$CONTRIB/runtimeclass.yaml" "$1" "$2" "${3:-}"
}

# Print a member of a pod: member_of POD JSONPATH
member_of() {
    kubectl get pod "$1" --output "jsonpath={$2}"
}

logs_are() {
    [[ $(kubectl logs "$1") == "$2" ]]
}

# Print the id of a pod's only container.
container_of() {
    local id
    id=$(member_of "$1" '.status.containerStatuses[0].containerID')
    echo "${id#containerd://}"
}

# Tell whether nothing of a pod remains on the node: no cgroup, and so no process, and no directory of containerd or the
# runtime: is_gone UID CONTAINER
is_gone() {
    local found
    found=$(on_node find /sys/fs/cgroup /run/containerd -maxdepth 5 -name "*${1//-/_}*" -o -maxdepth 5 -name "*$2*") || return
    [[ -z $found ]]
}

remove_pod() {
    local uid id
    uid=$(member_of "$1" .metadata.uid)
    id=$(container_of "$1")
    kubectl patch pod "$1" --type merge --patch '{"metadata": {"finalizers": null}}'
    kubectl delete pod "$1" --ignore-not-found --grace-period 1 --timeout "${PATIENCE}s"
    wait_until is_gone "$uid" "$id"
}

# The program of the tests: it says how it was started, and ends in its own way when it is asked to.
PROGRAM='import os, signal, sys
def stop(*_):
    print("stopping", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print(os.getpid(), "/pysbx-runtime/warm/" in open("/proc/self/maps").read(), flush=True)
while True:
    signal.pause()'

@test "a pod of the RuntimeClass is a warm Python, with logs, exec, and the limits of its manifest" {
    pod warm "$PROGRAM" | kubectl create --filename -
    wait_until logs_are warm "'1 True'"
    # exec is warm as well. The program sees its limits.
    expect 0 kubectl exec warm -- python3 -c 'import os
print(os.getuid(), "/pysbx-runtime/warm/" in open("/proc/self/maps").read())
print(*(open(f"/sys/fs/cgroup/{name}").read().strip() for name in ("memory.max", "cpu.max")))'
    output_is $'1000 True\n536870912 100000 100000'
    expect 3 kubectl exec --stdin warm -- python3 -c 'import sys; sys.exit(int(sys.stdin.read()))' <<<3
    # The cgroup is below that of the pod, which the kubelet has made.
    expect 0 on_node find /sys/fs/cgroup -type d -name "*$(container_of warm)*"
    [[ $output == /sys/fs/cgroup/kubepods.slice/kubepods-*.slice/kubepods-*.slice/cri-containerd-*.scope ||
        $output == /sys/fs/cgroup/kubepods.slice/kubepods-pod*.slice/cri-containerd-*.scope ]] || { echo "$output"; return 1; }
    remove_pod warm
}

@test "kubectl delete: the program's handler of SIGTERM runs, within the time for it, and its exit code is kept" {
    pod graceful "$PROGRAM" 'pod["metadata"]["finalizers"] = ["pysbx.dev/test"]' | kubectl create --filename -
    wait_until logs_are graceful "'1 True'"
    kubectl delete pod graceful --wait=false --grace-period "$PATIENCE"
    wait_until '[[ $(member_of graceful ".status.containerStatuses[0].state.terminated.exitCode") == 7 ]]'
    logs_are graceful $'1 True\nstopping'
    remove_pod graceful
}

@test "a program that takes more memory than its limit: OOMKilled, with exit code 137" {
    pod greedy 'kept = []
while True:
    kept.append(bytearray(1 << 20))' 'program["resources"]["limits"]["memory"] = "128Mi"' | kubectl create --filename -
    wait_until '[[ $(member_of greedy .status.phase) == Failed ]]'
    [[ $(member_of greedy '.status.containerStatuses[0].state.terminated.reason') == OOMKilled ]]
    [[ $(member_of greedy '.status.containerStatuses[0].state.terminated.exitCode') == 137 ]]
    remove_pod greedy
}
