# A node of Kubernetes that runs programs: the kubelet and containerd in the virtual machine of tests/vm, with cgroup v2 and
# systemd. The control plane is that of controlplane.bash, on this machine, because an emulated one would need minutes for
# each step. Load this after podman.bash, engines.bash, page.bash and
# controlplane.bash.

# shellcheck disable=SC2034 # controlplane.bash uses it
START_NODES=start_machine
NODE_ADDRESS=10.0.2.15
# Seconds for what the emulated machine does. On a machine with other work it takes minutes.
PATIENCE=${TEST_PATIENCE:-900}

# wait_until COMMAND...: evaluate it until it succeeds.
wait_until() {
    local end=$((SECONDS + PATIENCE))
    while ((SECONDS < end)); do
        eval "$*" >"$(plane)/last" 2>&1 && return 0
        sleep 1
    done
    echo "after $PATIENCE s still not true: $*"
    cat "$(plane)/last"
    return 1
}

# Import the images into the root of a containerd on this machine, for that of the emulated one, which would need minutes.
make_images() {
    local images=$1 name
    mkdir -p "$ENGINE"
    export CONTAINERD_ADDRESS=$ENGINE/containerd.sock
    cat >"$ENGINE/config.toml" <<CONFIG
version = 3
root = "$images"
state = "$ENGINE/state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"]
[grpc]
  address = "$CONTAINERD_ADDRESS"
CONFIG
    start_daemon containerd "$K8S_BUILD/containerd/containerd" --config "$ENGINE/config.toml"
    await_daemon containerd "$K8S_BUILD/containerd/ctr" version
    import_image busybox --change 'CMD ["sleep", "infinity"]' --change 'ENV PATH=/bin:/usr/bin'
    command podman tag localhost/busybox:latest localhost/pause:1
    command podman save --quiet --format docker-archive --output "$ENGINE/pause.tar" localhost/pause:1
    (cd "$ENGINE" && block "Packages in an image volume" sh | make_packages)
    command podman save --quiet --format docker-archive --output "$ENGINE/packages.tar" registry.example/packages:1
    for name in "$ENGINE/pause.tar" "$ENGINE/packages.tar" "$(realpath "${BUILD:-$TESTS/../build}/image/pysbx.tar")"; do
        "$K8S_BUILD/containerd/ctr" --namespace k8s.io images import --platform linux/amd64 "$name"
    done
    stop_daemon containerd
}

# Called by start_plane when the API answers. The machine reaches the API server as 10.0.2.2, and the API server the kubelet
# at the node's own address.
start_machine() {
    make_images "$(plane)/images" >"$(plane)/images.log" 2>&1 || { cat "$(plane)/images.log"; return 1; }
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=vm \
        -keyout "$(plane)/node.key" -out "$(plane)/node.crt" 2>"$(plane)/node.log"
    # Another source would be the node itself, for its kernel.
    ip route add local "$NODE_ADDRESS" dev lo src 127.0.0.1 table local
    setsid "$TESTS/vm/run" --memory 4 --space 3000 --timeout 7200 --images busybox --append 'lsm=landlock,yama,bpf' \
        --network "hostfwd=tcp:$NODE_ADDRESS:10250-:10250" --with "$K8S_BUILD/bin/kubelet" --with "$K8S_BUILD/containerd" \
        --with "$K8S_BUILD/cni" --with "$K8S_BUILD/runc" --with "$(plane)/images" --with "$(plane)/tls.crt" \
        --with "$(plane)/node.crt" --with "$(plane)/node.key" \
        tests/k8s/node "$(<"$(plane)/node.token")" >"$(plane)/machine.log" 2>&1 </dev/null 3>&- &
    echo "$!" >"$(plane)/machine"
    wait_until 'kubectl wait --for=condition=Ready node/vm --timeout=1s'
    kubectl label node vm pysbx.dev/runtime=true
    start_inspector
}

# A pod with root's files and processes of the node, for on_node. Every container may call chroot(2).
start_inspector() {
    kubectl create --filename - <<'POD'
apiVersion: v1
kind: Pod
metadata: {name: inspector, namespace: kube-system}
spec:
  hostPID: true
  hostNetwork: true
  containers:
    - name: inspector
      image: localhost/pause:1
      imagePullPolicy: Never
      volumeMounts: [{name: node, mountPath: /node, mountPropagation: HostToContainer}]
  volumes: [{name: node, hostPath: {path: /}}]
POD
    wait_until 'kubectl --namespace kube-system wait --for=condition=Ready pod/inspector --timeout=1s'
}

# on_node COMMAND...: run it on the node, as its root.
on_node() {
    kubectl --namespace kube-system exec inspector -- chroot /node env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

stop_machine() {
    local pid
    [[ -e $(plane)/machine ]] || return 0
    pid=$(<"$(plane)/machine")
    kill -TERM -- "-$pid" 2>/dev/null || true
    wait_for_end "$pid"
}

# Tell why, if a test fails: the events of the cluster, and the last lines of the machine.
explain() {
    kubectl get pods --all-namespaces --output wide
    kubectl get events --all-namespaces --sort-by .lastTimestamp | tail -n 20
    tail -n 20 "$(plane)/machine.log" | cut -c 1-300
}
