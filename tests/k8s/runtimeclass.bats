#!/usr/bin/env bats
# The pod of contrib/k8s/runtimeclass.yaml, which is itself a Python program. It is requested from containerd as the
# kubelet does it: with its annotations, command and security context, and the handler of config/containerd/config.toml.
# once: the daemon is root's
# images: pandas
# prepare: tests/setup/engines --complete
# prepare: tests/setup/critest

load ../lib/podman.bash
load ../lib/engines.bash
load pods.bash

MANIFEST=$BATS_TEST_DIRNAME/../../contrib/k8s/runtimeclass.yaml

# Prints whether the process is restored from a snapshot, whether pandas was preloaded, so that its import opens no file,
# and the rights of the process.
HOW="import sys; opened = []; sys.addaudithook(lambda event, _: event == 'open' and opened.append(event)); import pandas
print(not opened, '/pysbx-runtime/warm/' in open('/proc/self/maps').read())
print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith(('Uid', 'CapEff', 'NoNewPrivs', 'Seccomp:'))])
import time; sys.stdout.flush(); time.sleep(1000)"

setup_file() {
    has_pods || return 0
    start_pods
    import_image pandas --change 'CMD ["python3"]' --change 'ENV PATH=/usr/bin:/bin'
    command podman push --quiet --tls-verify=false localhost/pandas:latest "$REGISTRY/pods/pandas:1"
    cri pull "$REGISTRY/pods/pandas:1"
}

teardown_file() {
    stop_pods
}

setup() {
    needs_pods
    begin_test
}

teardown() {
    end_pods
}

# The value of a key of the manifest.
value_of() {
    sed -n "s/^ *$1: //p" "$MANIFEST"
}

# Make the pod, $pod. Its containers have pid namespaces of their own, as in Kubernetes without
# shareProcessNamespace: make_pod [NAME OF AN ANNOTATION TO LEAVE OUT]
make_pod() {
    local annotations=''
    [[ ${1:-} == run.pysbx.preload ]] || annotations="\"run.pysbx.preload\": \"$(value_of run.pysbx.preload)\""
    cat >pod.json <<POD
{ "metadata": { "name": "untrusted", "namespace": "default", "uid": "1", "attempt": 1 }, "log_directory": "$PWD",
  "annotations": { $annotations },
  "linux": { "security_context": { "namespace_options": { "pid": 1 }, "seccomp": { "profile_type": 0 } } } }
POD
    pod=$(cri runp --runtime "$(value_of handler)" pod.json)
}

# Start a container in the pod, with the security context of the manifest, $container: start_program NAME COMMAND-AS-JSON
start_program() {
    cat >container.json <<CONTAINER
{ "metadata": { "name": "$1" }, "image": { "image": "$REGISTRY/pods/pandas:1" }, "command": $2, "log_path": "$1.log",
  "linux": { "security_context": { "run_as_user": { "value": $(value_of runAsUser) },
    "run_as_group": { "value": $(value_of runAsGroup) }, "readonly_rootfs": $(value_of readOnlyRootFilesystem),
    "no_new_privs": true, "capabilities": { "drop_capabilities": ["ALL"] }, "seccomp": { "profile_type": 0 },
    "namespace_options": { "pid": 1 } } } }
CONTAINER
    container=$(cri create "$pod" container.json pod.json)
    cri start "$container"
}

logs_are() {
    [[ $(cri logs "$container" 2>&1) == "$1" ]]
}

# Print a JSON list of the arguments.
json_list() {
    python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"
}

@test "the command of the manifest runs in an interpreter that has imported pandas" {
    [[ $(value_of preload) == '' && $(value_of run.pysbx.preload) == *pandas* ]]
    # A flow sequence of YAML with two words that are no JSON.
    command=$(value_of command | sed 's/\[python3, -c, /["python3", "-c", /')
    make_pod
    start_program program "$command"
    wait_for logs_are 6
    prints 0 cri inspect --output go-template --template '{{.status.exitCode}}' "$container"
}

@test "the pod's program is warm, with the rights of the manifest; exec, logs, and a stop without delay" {
    make_pod
    start_program how "$(json_list python3 -c "$HOW")"
    wait_for logs_are $'True True\n1000 0000000000000000 1 2'
    # exec is warm as well, and has the pod's network.
    expect 0 cri exec --sync "$container" python3 -c "import os; print(os.getuid(), sorted(os.listdir('/sys/class/net')))"
    output_is "1000 ['eth0', 'lo']"
    prints True cri exec --sync "$container" python3 -c "print('/pysbx-runtime/warm/' in open('/proc/self/maps').read())"
    fails 1 "Read-only file system" cri exec --sync "$container" python3 -c "open('/file', 'w')"
    began=$SECONDS
    cri stop --timeout 0 "$container"
    ((SECONDS - began < 20))
}

@test "without the annotation, the program does not have pandas before it imports it" {
    make_pod run.pysbx.preload
    start_program how "$(json_list python3 -c "$HOW")"
    wait_for logs_are $'False False\n1000 0000000000000000 1 2'
}
