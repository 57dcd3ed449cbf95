#!/usr/bin/env bats
# The installer for nodes, contrib/k8s/node-installer: in the image of contrib/image, with the rights of its pod, on this
# system as the node. containerd runs as it does on a node, with its configuration in /etc.
# once: the daemon is root's
# prepare: contrib/image/build
# prepare: tests/setup/engines --complete
# prepare: tests/setup/containerd

load ../lib/podman.bash
load ../lib/engines.bash

INSTALLER=$BATS_TEST_DIRNAME/../../contrib/k8s/node-installer
K8S=$TESTS/../build/k8s
NEW=$(realpath -m "$K8S/containerd")
OLD=$(realpath -m "$TESTS/../build/engines/bin/containerd")
PREFIX=$ENGINE/opt/pysbx
DROPIN=/etc/containerd/conf.d/pysbx.toml
PATH=$NEW:$PATH

podman() {
    command podman --runtime "$(command -v runc)" "$@"
}

# These are the settings of an administrator, which stay.
configure_containerd() {
    cat <<CONF
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
root = "$ENGINE/root"
state = "$ENGINE/state"
[grpc]
  address = "$CONTAINERD_ADDRESS"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "registry.example/pause:7"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
CONF
}

# The node's manager of services: it starts containerd, and again when it has ended.
keep_containerd() {
    while [[ ! -e $ENGINE/stop ]]; do
        "$NEW/containerd" >>"$ENGINE/containerd.log" 2>&1 &
        echo $! >"$ENGINE/pid"
        wait $! || true
    done
}

# Print the files of the node below directories that an installer could use. lib/leftovers.bash lists everything else that
# could remain.
files_of_node() {
    find /etc /opt /usr/local /usr/lib/systemd "$ENGINE/opt" /var/lib -path /var/lib/containers -prune \
        -o ! -type d -printf '%p %s\n' | sort
}

setup_file() {
    [[ -x $NEW/ctr ]] || return 0
    BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR remember_leftovers
    export CONTAINERD_ADDRESS=$ENGINE/containerd.sock RUNTIME_STATE=/run/containerd/runc/default
    mkdir -p "$ENGINE" "$PREFIX" /etc/containerd/conf.d
    configure_containerd >/etc/containerd/config.toml
    cat >"$ENGINE/restart" <<SCRIPT
#!/bin/bash
old=\$(<$ENGINE/pid)
kill "\$old"
for attempt in {1..600}; do
    [[ \$(<$ENGINE/pid) != "\$old" ]] && $NEW/ctr --address $CONTAINERD_ADDRESS version >/dev/null 2>&1 && exit
    sleep 0.1
done
exit 1
SCRIPT
    chmod 0755 "$ENGINE/restart"
    # It remains: the parent of the cgroups of ctr's containers.
    mkdir -p /sys/fs/cgroup/default
    (keep_containerd </dev/null >/dev/null 2>&1 3>&- &)
    await_daemon containerd ctr version
    archive=$(realpath "${BUILD:-$TESTS/../build}/image/pysbx.tar") || {
        echo "there is no image: make image"
        return 1
    }
    command podman load --quiet --input "$archive" >/dev/null
    import_busybox
    save_image busybox
    ctr image import "$ENGINE/busybox.tar" >/dev/null
    printf 'runtime-endpoint: unix://%s\n' "$CONTAINERD_ADDRESS" >"$ENGINE/crictl.yaml"
}

teardown_file() {
    [[ -e $ENGINE/pid ]] || return 0
    touch "$ENGINE/stop"
    kill "$(<"$ENGINE/pid")"
    wait_for eval "! kill -0 $(<"$ENGINE/pid") 2>/dev/null"
    rmdir /sys/fs/cgroup/default
    BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR check_leftovers
}

setup() {
    needs_root "the daemon is root's"
    has_engine containerd ctr crictl || skip "not here: containerd 2 (tests/setup/containerd) or crictl (tests/setup/engines)"
    begin_test
    files_of_node >files
    IMAGE=$(command podman images --quiet --filter reference=localhost/pysbx)
    containerd config dump >settings
}

teardown() {
    for name in $(ctr container list --quiet); do
        ctr task rm --force "$name" >/dev/null 2>&1 || true
        ctr container rm "$name"
    done
    configure_containerd >/etc/containerd/config.toml
    rm -f /etc/containerd/conf.d/*
    installer remove
    diff files <(files_of_node)
    check_leftovers
}

# The value of a list item or key in the manifest's only initContainer: the pod of the test is that of the manifest.
added_capabilities() {
    sed -n '/initContainers:/,/containers:$/{ /add:/,/seccomp/s/^ *- //p }' "$INSTALLER/daemonset.yaml"
}

# installer install|remove [OPTION...]: what the pod does. Its pids are the node's here, because the test's
# restart needs no systemd.
installer() {
    podman run --rm --network none --pid host --user 0:0 --cap-drop all --cap-add "$(added_capabilities)" --read-only \
        --tmpfs /tmp --security-opt no-new-privileges --volume "$INSTALLER:/installer:ro" --volume /:/node:ro,rslave \
        --volume "$PREFIX:$PREFIX" --volume /etc/containerd/conf.d:/etc/containerd/conf.d \
        --entrypoint python3 "$IMAGE" /installer/node-installer --prefix "$PREFIX" --state "$ENGINE/state" \
        --containerd "$NEW/containerd" --restart "$ENGINE/restart" "$@"
}

# Fail if the node is not as before the test.
unchanged() {
    containerd config dump | diff settings - || return 1
    [[ -z $(find /etc/containerd/conf.d -type f) ]]
}

has_handler() {
    crictl --config "$ENGINE/crictl.yaml" info | grep -qF "\"BinaryName\": \"$PREFIX/bin/pysbx-runtime\""
}

@test "install: containerd has the handler and keeps its other settings, and the runtime runs containers" {
    expect 1 has_handler
    prints "" installer install
    stderr_is_empty
    has_handler
    containerd config dump >after
    grep -qF "sandbox = 'registry.example/pause:7'" after
    grep -qF "SystemdCgroup = true" after
    grep -qF "pod_annotations = ['run.pysbx.*']" after
    # The kubelet and all handlers must have one manager of cgroups.
    grep -A 12 -F 'runtimes.pysbx.options]' after | grep -qF 'SystemdCgroup = true'
    # Nothing was removed.
    expect 1 grep -q '^<' <(diff settings after)
    prints here ctr run --rm --cpu-shares 0 --runc-binary "$PREFIX/bin/pysbx-runtime" "$BUSYBOX" box echo here
}

@test "install: repeated, it does not restart containerd; a changed drop-in is written again" {
    installer install
    pid=$(<"$ENGINE/pid")
    installer install
    [[ $(<"$ENGINE/pid") == "$pid" ]]
    sed -i 's/run.pysbx/run.other/' "$DROPIN"
    installer install
    grep -qF 'run.pysbx.*' "$DROPIN"
    [[ $(<"$ENGINE/pid") != "$pid" ]]
}

@test "remove: refused while a container uses the runtime; then the node is as before, and it can be repeated" {
    installer install
    ctr run --detach --cpu-shares 0 --runc-binary "$PREFIX/bin/pysbx-runtime" "$BUSYBOX" box sleep 1000
    fails 1 "1 containers use the runtime: remove their pods first (box)" installer remove
    has_handler
    ctr task kill --signal SIGKILL box
    wait_for eval 'ctr task rm box >/dev/null 2>&1'
    expect 0 installer remove
    expect 1 has_handler
    unchanged
    [[ -z $(find "$PREFIX" -mindepth 1) ]]
    expect 0 installer remove
}

@test "install: refused, without a change, if another program has the handler or the file" {
    echo 'version = 2' >"$DROPIN"
    fails 1 "another program wrote it" installer install
    [[ $(<"$DROPIN") == 'version = 2' ]]
    rm "$DROPIN"
    printf '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.pysbx]\n  runtime_type = "io.containerd.runc.v2"\n' \
        >>/etc/containerd/config.toml
    fails 1 "containerd has a handler 'pysbx' from another file" installer install
    [[ ! -e $DROPIN ]]
}

@test "install: a containerd that does not restart has its old configuration again" {
    fails 1 "on the node, \`/bin/ls /no-such-file\` failed" installer install --restart '/bin/ls /no-such-file'
    stderr_has "No such file or directory"
    unchanged
}

@test "install: a containerd that does not read the directory is refused, without a change" {
    sed -i '/^imports/d' /etc/containerd/config.toml
    fails 1 'add imports = ["/etc/containerd/conf.d/*.toml"]' installer install
    [[ ! -e $DROPIN ]]
}

@test "install: containerd 1 would lose other settings: refused, without a change" {
    [[ $("$OLD" --version) == *" 1."* ]] || skip "this distribution has containerd 2"
    printf 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "registry.example/pause:7"\n' \
        >/etc/containerd/config.toml
    fails 1 "grpc.v1.cri.sandbox_image" installer install --containerd "$OLD"
    stderr_has "would lose other settings"
    [[ ! -e $DROPIN ]]
}

# controlplane.bats applies the manifests.
@test "the pod has one capability and no other right of the node" {
    [[ $(added_capabilities) == SYS_CHROOT ]]
    expect 1 grep -nE 'privileged:|hostPID|hostNetwork|hostIPC' "$INSTALLER/daemonset.yaml"
    # node-remover changes the first argument.
    [[ $(sed -n '/^ *args:/{ n; s/^ *- //p }' "$INSTALLER/daemonset.yaml") == install ]]
}
