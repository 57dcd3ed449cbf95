#!/usr/bin/env bats
# The image as a pod runs it: contrib/docs/pages/how-to/kubernetes.md, "What the pod needs". Each option of Podman stands
# for the field of the manifest that makes the kubelet ask its runtime for the same.
# once: only root's containers can share the users of the node
# prepare: contrib/image/build

load ../lib/podman.bash
load serve.bash

# The kubelet gives this variable to each container. Its volumes belong to root of the pod, and have mode 0777 without the
# sticky bit.
VOLUMES=/run/pysbx-pod
POD=(--image-volume ignore --env KUBERNETES_SERVICE_HOST=10.96.0.1)
declare -gA FIELDS=(
    [hostUsers]="--uidmap 0:100000:65536 --gidmap 0:100000:65536"
    [procMount]="--security-opt unmask=ALL"
    [seccompProfile]="--security-opt seccomp=$BATS_TEST_DIRNAME/../../contrib/k8s/chart/files/pysbx-serve.json"
    [runAsNonRoot]="--user 1000:1000"
    [capabilities]="--cap-drop all"
    [allowPrivilegeEscalation]="--security-opt no-new-privileges"
    [readOnlyRootFilesystem]="--read-only --read-only-tmpfs=false"
    [/tmp]="--volume $VOLUMES/tmp:/tmp"
    [/var/cache/pysbx]="--volume $VOLUMES/cache:/var/cache/pysbx"
)

# Make the volumes for a pod whose root is this user.
make_volumes() {
    rm -rf "$VOLUMES"
    mkdir -p "$VOLUMES"/{tmp,cache}
    chmod 0777 "$VOLUMES"/*
    chown "$1:$1" "$VOLUMES"/*
}

teardown() {
    podman rm --all --force --time 0 --volumes
    rm -rf "$VOLUMES"
    check_leftovers
}

# pod [WITHOUT]: print the options of Podman for all fields but one.
pod() {
    local name
    make_volumes "$([[ ${1:-} == hostUsers ]] && echo 0 || echo 100000)"
    printf '%s\n' "${POD[@]}"
    for name in "${!FIELDS[@]}"; do
        [[ $name == "${1:-}" ]] || tr ' ' '\n' <<<"${FIELDS[$name]}"
    done
}

# doctor OPTION-OF-PODMAN...: print what `pysbx doctor` says about the pod, and then its exit code.
doctor() {
    local code=0
    podman run --rm --network host --entrypoint pysbx "$@" "$IMAGE" doctor >said 2>&1 || code=$?
    cat said
    grep -A 1 -E '^(ok|warning|FAILURE) +pod:' said >about || true
    echo "exit $code" >>about
}

@test "a pod with every field: no capabilities, no user of the node, our filter, a read-only root; it creates sandboxes" {
    mapfile -t options < <(pod)
    start "${options[@]}" --
    [[ $(podman exec serve grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\n\t ') == \
        CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2 ]]
    read -r _ first _ < <(podman exec serve cat /proc/self/uid_map)
    [[ $first == 100000 && $(podman exec serve stat --format %a /tmp) == 777 ]]
    run_code 'import os; os.getpid()'
    [[ $(member value <outcome) == 2 && $(member isolation <outcome) == container ]] || { cat outcome; return 1; }
    wait_for is_prepared
    ask /v1/run '{"code": "import pandas; int(pandas.Series([20, 22]).sum())", "profile": "data-science"}' >outcome
    [[ $(member value <outcome) == 42 && $(member warm <outcome) == True ]] || { cat outcome; return 1; }
    expect 0 podman exec serve pysbx doctor
    [[ $output =~ ok\ +pod:\ its\ manifest\ has\ every\ field ]]
}

# what FIELD STATUS TEXT: the text of doctor if only this field is missing.
what() {
    mapfile -t options < <(pod "$1")
    [[ $1 != runAsNonRoot ]] || options+=(--user 0)
    [[ $1 != seccompProfile || ! ${4:-} ]] || options+=(--security-opt "seccomp=$4")
    doctor "${options[@]}"
    grep -qE "^$2 +pod:" about
    remedy=$(sed -n '2s/.*below spec: //p' about)
    [[ $remedy == *"$3"* && $remedy != *"; "* ]] || { echo "'$remedy' is not only '$3'"; return 1; }
    [[ $(tail -n 1 about) == "exit $([[ $2 == FAILURE ]] && echo 1 || echo 0)" ]]
}

@test "pysbx doctor in a pod names the one field that is missing: procMount" {
    what procMount FAILURE procMount
}

@test "pysbx doctor in a pod names the one field that is missing: hostUsers" {
    what hostUsers warning hostUsers
}

@test "pysbx doctor in a pod names the one field that is missing: seccompProfile" {
    # As containerd's default profile has it: no namespaces without CAP_SYS_ADMIN.
    python3 - "$BATS_TEST_DIRNAME/../../contrib/k8s/chart/files/pysbx-serve.json" >filter.json <<'PYTHON'
import json, sys
profile = json.load(open(sys.argv[1]))
namespaces = {"clone", "clone3", "unshare", "setns", "mount", "umount2", "move_mount", "open_tree", "fsopen", "pivot_root"}
for rule in profile["syscalls"]:
    rule["names"] = [name for name in rule["names"] if name not in namespaces]
threads = [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
profile["syscalls"].append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": threads})
print(json.dumps(profile))
PYTHON
    what seccompProfile FAILURE seccompProfile "$PWD/filter.json"
}

@test "pysbx doctor in a pod names the one field that is missing: runAsNonRoot" {
    mapfile -t options < <(pod runAsNonRoot)
    doctor "${options[@]}" --user 0
    # Root without capabilities can create no sandbox, and has no /run that it may write to.
    grep -q 'runAsNonRoot: true, runAsUser: 1000' about
    [[ $(tail -n 1 about) == "exit 1" ]]
    grep -q "/run/pysbx': Read-only file system" said
}

@test "pysbx doctor in a pod names the one field that is missing: capabilities, allowPrivilegeEscalation, readOnlyRootFilesystem" {
    for field in capabilities allowPrivilegeEscalation readOnlyRootFilesystem; do
        what "$field" warning "$field"
    done
}

@test "pysbx doctor in a pod names the one field that is missing: the volumes" {
    what /tmp FAILURE "an emptyDir at /tmp"
    what /var/cache/pysbx warning "an emptyDir at /var/cache/pysbx"
}
