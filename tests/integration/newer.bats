#!/usr/bin/env bats
# Features that Podman 5 has and Podman 4 lacks, or implements differently. Skipped with an older Podman; `make
# check-release` uses a newer one. See podman-run(1), podman-kube-play(1), podman-update(1).
# once: except for a test with the tag "user", these features are the same in both modes

load ../lib/podman.bash

setup_file() {
    import_python
}

setup() {
    local version
    version=$(command podman version --format '{{.Client.Version}}')
    ((${version%%.*} >= 5)) || skip "Podman $version: tested by make check-release"
    begin_test
}

teardown() {
    podman pod rm --all --force --time 0
    clean_up
}

@test "podman run --annotation: commas are part of the value" {
    prints $'False\nFalse' podman run --rm --network none --annotation run.pysbx.preload=json,decimal "$PYTHON" \
        python3 -c "$(read_files json decimal)"
}

# bats test_tags=user
@test "podman run --userns: keep-id with ids and a size, nomap" {
    prints $'200\n210' podman run --rm --network none --userns keep-id:uid=200,gid=210 "$BUSYBOX" sh -c 'id -u; id -g'
    is_rootless || return 0
    prints 20000 podman run --rm --network none --userns keep-id:size=20000 "$BUSYBOX" \
        awk '{ ids += $3 } END { print ids }' /proc/self/uid_map
    prints '0 1' podman run --rm --network none --userns nomap "$BUSYBOX" awk '{ print $1, $2 }' /proc/self/uid_map
}

@test "podman run, exec --preserve-fd: these descriptors and no others" {
    local program='cat <&3; cat <&5; ! true 2>/dev/null <&4'
    expect 0 podman run --rm --network none --preserve-fd 3,5 "$BUSYBOX" sh -c "$program" 3<<<three 4<<<four 5<<<five
    output_is $'three\nfive'
    start_sleeper --name box
    prints $'three\nfive' podman exec --preserve-fd 3,5 box sh -c "$program" 3<<<three 4<<<four 5<<<five
}

@test "podman kube play: security context, init container, and annotations of the pod" {
    cat >pod.yaml <<YAML
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    run.pysbx.preload: json,decimal
spec:
  restartPolicy: Never
  initContainers:
  - name: first
    image: $BUSYBOX
    command: [sh, -c, echo given >/shared/file]
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: main
    image: $PYTHON
    command:
    - python3
    - -c
    - |
      import os
      status = open("/proc/self/status").read()
      print(open("/shared/file").read().strip(), os.getuid(), os.access("/", os.W_OK), "/pysbx-runtime/warm/" in open("/proc/self/maps").read())
      print([line for line in status.splitlines() if line.split(":")[0] in ("CapEff", "NoNewPrivs", "Seccomp")])
    securityContext:
      runAsUser: 1000
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
YAML
    expect 0 podman kube play --network none pod.yaml
    prints 0 podman wait pod-main
    expect 0 podman logs pod-main
    output_is "given 1000 False True
['CapEff:\\t0000000000000000', 'NoNewPrivs:\\t1', 'Seccomp:\\t2']"
    podman kube down pod.yaml
}

@test "podman run --device: a device of a CDI specification, with variable, mount and hook" {
    needs_root "a specification in /etc"
    mkdir -p /etc/cdi
    cat >/etc/cdi/box.json <<'JSON'
{"cdiVersion": "0.7.0", "kind": "pysbx.example/box", "devices": [{"name": "one", "containerEdits": {
    "env": ["BOX=1"], "additionalGIDs": [44],
    "deviceNodes": [{"path": "/dev/box0", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3}],
    "mounts": [{"hostPath": "/etc/group", "containerPath": "/box", "options": ["ro", "bind"]}],
    "hooks": [{"hookName": "createContainer", "path": "/usr/bin/true"}]}}]}
JSON
    prints $'1,3\n1\n0 44' podman run --rm --network none --device pysbx.example/box=one "$BUSYBOX" \
        sh -c 'stat -c %t,%T /dev/box0; echo $BOX; test -s /box; id -G'
    rm -r /etc/cdi
}
