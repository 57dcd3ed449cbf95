#!/usr/bin/env bats
# contrib/k8s on a node whose kubelet runs programs: contrib/docs/pages/how-to/kubernetes.md. The node is a
# virtual machine with cgroup v2 and systemd. The last test removes what the one before it installs.
# once: the caller makes no difference
# slow: an emulated machine
# prepare: contrib/image/build
# prepare: tests/setup/kubernetes kine kube-apiserver kube-controller-manager kube-scheduler kubectl kwok agent-sandbox-controller helm
# prepare: tests/setup/kubernetes agent-sandbox-manifests kubelet
# prepare: tests/setup/agent-sandbox
# prepare: tests/setup/containerd
# prepare: tests/setup/runc
# prepare: tests/setup/critest
# prepare: tests/vm/build
# shellcheck disable=SC2016 # wait_until evaluates its conditions each time

load ../lib/podman.bash
load ../lib/engines.bash
load serve.bash
load page.bash
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

# Print a member of a pod: member_of POD JSONPATH [OPTION-OF-KUBECTL...]
member_of() {
    kubectl get pod "$1" --output "jsonpath={$2}" "${@:3}"
}

logs_are() {
    [[ $(kubectl logs "$1") == "$2" ]]
}

# Print the id of a pod's only container: container_of POD [OPTION-OF-KUBECTL...]
container_of() {
    local id
    id=$(member_of "$1" '.status.containerStatuses[0].containerID' "${@:2}")
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
    prints $'1000 True\n536870912 100000 100000' kubectl exec warm -- python3 -c 'import os
print(os.getuid(), "/pysbx-runtime/warm/" in open("/proc/self/maps").read())
print(*(open(f"/sys/fs/cgroup/{name}").read().strip() for name in ("memory.max", "cpu.max")))'
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

# The page has NODE and POD for names that a reader knows: commands_for HEADING NUMBER NAME VALUE
commands_for() {
    [[ -e contrib ]] || ln -s "$(realpath "$CONTRIB/..")" contrib
    block "$1" sh "$2" | sed "s/ ${3:-NODE} / ${4:-vm} /" >commands
    # shellcheck disable=SC1091 # of the page
    source ./commands
}

# The pods of the service have this namespace.
IN=(--namespace pysbx)

# Install the chart with one pod in its pool, and wait until it is ready. $pod is its name, $slice its cgroup on the node.
start_pool() {
    local uid
    # Without the data-science packages, whose installation would take the emulated CPU many minutes.
    helm install pysbx "$CONTRIB/chart" --set pool.replicas=1,token.value="$TOKEN",serve.timeoutSeconds=600 \
        --set seccomp.type=Localhost,appArmor.type=,disruption.create=false --set-json 'serve.profiles=[]' \
        --set resources.requests.memory=512Mi,resources.requests.cpu=100m >/dev/null
    wait_until '[[ $(kubectl "${IN[@]}" get pods --output "jsonpath={.items[*].status.containerStatuses[0].ready}") == true ]]'
    pod=$(kubectl "${IN[@]}" get pods --output 'jsonpath={.items[0].metadata.name}')
    uid=$(member_of "$pod" .metadata.uid "${IN[@]}")
    slice=$(on_node find /sys/fs/cgroup -type d -name "*-pod${uid//-/_}.slice")
    volumes=/var/lib/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir
}

# The programs of a pod at rest: those of the service, and of the container that waits for the next call.
AT_REST='program init program pysbx program pysbx-runtime program python3 program python3 program sleep'

# Print what the pod has on the node: its programs, the mounts of the service, the files in its volumes, and its memory. The
# probe for readiness takes the container that waits every few seconds, and another one comes. So wait on the node until the
# pod is at rest in two lists in a row, which takes a few seconds, and leave out which container it is. If that does not come,
# the last list has what remains.
remains() {
    on_node sh -c 'list() {
    find "$1" -name cgroup.procs -exec cat {} + | while read -r pid; do
        read -r name <"/proc/$pid/comm" && echo "program ${name%.*}"
        [ "$name" != pysbx ] || cut -d " " -f 5 "/proc/$pid/mountinfo"
    done | sort
    find "$2" | sort
}
for attempt in $(seq 100); do
    last=$now now=$(list "$1" "$2")
    [ "$now" != "$last" ] || [ "$(echo $(echo "$now" | grep ^program))" != "$3" ] || break
done
echo "$now" | sed -E "s/python-[0-9]+-[0-9a-f]{8}-[0-9]+/CONTAINER/"
echo "memory $(cat "$1/memory.current")"' sh "$slice" "$volumes" "$AT_REST" 2>/dev/null
}

# Write that to the file "before". Fail if the pod is not at rest.
note_remains() {
    remains >before && [[ $(grep ^program before | xargs) == "$AT_REST" ]]
}

is_as_before() {
    remains >after && diff <(grep -v ^memory before) <(grep -v ^memory after) || return
    # An allocation of 16 KiB that each of a thousand sandboxes has left behind is more than this.
    grep -H ^memory before after
    (($(sed -n 's/^memory //p' after) - $(sed -n 's/^memory //p' before) < 16 << 20))
}

# forward_to POD: make its service answer at port 8888, by the process $forward.
forward_to() {
    wait_until kubectl "${IN[@]}" wait --for=condition=Ready "$1" --timeout=1s
    kubectl "${IN[@]}" port-forward "$1" 8888:8888 >forward.log 2>&1 3>&- &
    forward=$!
    wait_until curl --silent --fail http://127.0.0.1:8888/healthz
}

# Print the status of a request with a token.
status_for() {
    curl --silent --output answer --write-out '%{http_code}' --header "Authorization: Bearer $1" http://127.0.0.1:8888/v1/sessions
}

@test "a Secret of the chart that has changed: the pod knows its token and no longer the old one, without a restart" {
    start_pool
    forward_to "pod/$pod"
    [[ $(status_for "$TOKEN") == 200 && $(status_for another-token-for-tests) == 401 ]]
    kubectl "${IN[@]}" patch secret pysbx-token --type merge --patch '{"stringData": {"token": "another-token-for-tests"}}'
    wait_until '[[ $(status_for another-token-for-tests) == 200 ]]'
    [[ $(status_for "$TOKEN") == 401 ]]
    [[ $(member_of "$pod" '.status.containerStatuses[0].restartCount' "${IN[@]}") == 0 ]]
    kill "$forward"
    helm uninstall pysbx --wait --timeout "${PATIENCE}s" >/dev/null
}

@test "a pod of the chart, with a user namespace of its own: a thousand sandboxes, each with the right answer" {
    start_pool
    [[ $(member_of "$pod" .spec.hostUsers "${IN[@]}") == false ]]
    # Its root is no user of the node. Its program is not its root, has no capabilities, and has the filter of contrib/k8s.
    expect 0 kubectl "${IN[@]}" exec "$pod" -- cat /proc/1/uid_map /proc/1/status
    [[ ${lines[0]} =~ ^\ *0\ +[1-9][0-9]*\ +65536$ ]]
    output_has $'\nUid:\t1000\t1000\t1000\t1000\n' $'\nCapEff:\t0000000000000000\n' $'\nSeccomp:\t2\n'
    # Its volumes are mounts that map owners: those of the node's disk, and the Secret, which the kubelet has in memory.
    kubectl "${IN[@]}" exec "$pod" -- cat /proc/1/mountinfo >mounts
    for volume in '/tmp ext4' '/var/cache/pysbx ext4' '/run/secrets/pysbx tmpfs'; do
        grep -E "^([^ ]+ ){4}${volume% *} [^ ]*idmapped.* - ${volume#* } " mounts || { cat mounts; return 1; }
    done
    shows 'pod: its manifest has every field that sandboxes need' commands_for "What the pod needs" 1 POD "$pod"
    forward_to "pod/$pod"
    # The first ones load what the service keeps.
    "$BATS_TEST_DIRNAME/thousand" http://127.0.0.1:8888 "$TOKEN" 20
    wait_until note_remains
    SECONDS=0
    expect 0 "$BATS_TEST_DIRNAME/thousand" http://127.0.0.1:8888 "$TOKEN" "${TEST_SANDBOXES:-1000}"
    output_is "${TEST_SANDBOXES:-1000} answers of warm containers"
    echo "# note: ${TEST_SANDBOXES:-1000} sandboxes in $SECONDS s, emulated" >&3
    wait_until is_as_before
    [[ $(member_of "$pod" '.status.containerStatuses[0].restartCount' "${IN[@]}") == 0 ]]
    uid=$(member_of "$pod" .metadata.uid "${IN[@]}")
    id=$(container_of "$pod" "${IN[@]}")
    # agent-sandbox's own client claims this pod, uses it and gives it back.
    PYSBX_TOKEN=$TOKEN expect 0 "$K8S_BUILD/agent-sandbox/venv/bin/python" "$BATS_TEST_DIRNAME/claim.py" http://127.0.0.1:8888
    output_is "$pod"
    kill "$forward"
    wait_until is_gone "$uid" "$id"
    helm uninstall pysbx --wait --timeout "${PATIENCE}s" >/dev/null
}

@test "a pod of the chart with packages in an image volume: sandboxes import them, warm" {
    kubectl create namespace packages
    IN=(--namespace packages)
    kubectl "${IN[@]}" create serviceaccount pysbx
    kubectl "${IN[@]}" create secret generic pysbx-token --from-literal=token="$TOKEN"
    block "Packages in an image volume" yaml >added.yaml
    pod_of seccomp.type=Localhost,appArmor.type=,resources.requests.memory=512Mi,resources.requests.cpu=100m |
        with_members added.yaml --timeout 600 >pod.json
    kubectl "${IN[@]}" create --filename pod.json
    forward_to pod/pysbx
    wait_until is_prepared
    # A module of the snapshot is imported without opening a file.
    run_code 'import sys; opened = []; sys.addaudithook(lambda event, _: event == "open" and opened.append(event))
import pandas; (bool(opened), int(pandas.Series([20, 22]).sum()), pandas.__file__)'
    [[ $(member value <outcome) == "(False, 42, '/packages/lib/python3."* && $(member warm <outcome) == True ]] ||
        { cat outcome; kubectl "${IN[@]}" logs pysbx; return 1; }
    run_code 'open("/packages/lib/x", "w")'
    [[ $(member stderr <outcome) == *"Read-only file system"* ]] || { cat outcome; return 1; }
    kill "$forward"
    kubectl delete namespace packages --timeout "${PATIENCE}s"
}

@test "the node installer: a pod of the RuntimeClass runs by what it has installed" {
    on_node rm /etc/containerd/conf.d/by-hand.toml
    before=$(on_node systemctl show --property MainPID containerd.service)
    [[ $before == MainPID=[1-9]* ]]
    # After this command has ended, because containerd carries its output.
    on_node systemd-run --quiet --on-active 2 systemctl restart containerd.service
    wait_until 'now=$(on_node systemctl show --property MainPID containerd.service) && [[ $now != "$before" ]]'
    on_node containerd config dump >"$BATS_FILE_TMPDIR/dump"
    commands_for "Pods that are Python programs" 1 NODE vm
    kubectl --namespace pysbx-node rollout status daemonset/node-installer --timeout "${PATIENCE}s"
    prints "" commands_for "Pods that are Python programs" 2
    # The handler has the kubelet's manager of cgroups.
    expect 0 on_node containerd config dump
    grep -A 10 -F "runtimes.pysbx.options]" <<<"$output" >options
    grep -F "BinaryName = '/opt/pysbx/bin/pysbx-runtime'" options
    grep -F "SystemdCgroup = true" options
    pod installed "$PROGRAM" | kubectl create --filename -
    wait_until logs_are installed "'1 True'"
    remove_pod installed
}

@test "the node remover: the handler and the runtime are gone" {
    commands_for "Pods that are Python programs" 3
    expect 0 on_node containerd config dump
    diff "$BATS_FILE_TMPDIR/dump" - <<<"$output"
    prints "" on_node find /opt/pysbx /etc/containerd/conf.d -mindepth 1
    # containerd itself no longer has the handler.
    pod refused "$PROGRAM" | kubectl create --filename -
    wait_until '[[ $(kubectl get events --field-selector involvedObject.name=refused) == *"no runtime for \"pysbx\" is configured"* ]]'
    kubectl delete pod refused --grace-period 0 --force
    kubectl label node vm pysbx.dev/runtime-
}
