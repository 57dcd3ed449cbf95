# A control plane on this machine: kube-apiserver with kine, kube-controller-manager, kube-scheduler and the controller of
# agent-sandbox, all of them real. The nodes are kwok's: pods get a node and become ready, but no program runs. With
# START_NODES=FUNCTION, they are others.

PROGRAMS=(kine kube-apiserver kube-controller-manager kube-scheduler kwok agent-sandbox-controller kubectl helm)
START_NODES=start_simulated_nodes
API=https://127.0.0.1:6443

# The directory of the control plane: one for each file of tests.
plane() {
    echo "$BATS_FILE_TMPDIR/plane"
}

# daemon NAME [ARG...]: start a program of the control plane.
daemon() {
    local name=$1
    shift
    "$name" "$@" >"$(plane)/$name.log" 2>&1 3>&- &
    echo "$!" >>"$(plane)/pids"
}

# until_true COMMAND...: evaluate it until it succeeds, for two minutes, because other tests may run beside this.
until_true() {
    local end=$((SECONDS + 120))
    while ((SECONDS < end)); do
        eval "$*" >"$(plane)/last" 2>&1 && return 0
        sleep 0.1
    done
    echo "after 120 s still not true: $*"
    cat "$(plane)/last"
    return 1
}

# kubeconfig NAME TOKEN: write a configuration of kubectl.
kubeconfig() {
    kubectl config --kubeconfig "$(plane)/$1" set-cluster here --server "$API" --certificate-authority "$(plane)/tls.crt"
    kubectl config --kubeconfig "$(plane)/$1" set-credentials it --token "$2"
    kubectl config --kubeconfig "$(plane)/$1" set-context it --cluster here --user it
    kubectl config --kubeconfig "$(plane)/$1" use-context it
} >/dev/null

api_is_ready() {
    [[ $(kubectl get --raw /readyz) == ok ]]
}

# Keys and certificates: one for TLS, one that signs the tokens of accounts.
make_keys() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kubernetes -addext 'subjectAltName=IP:127.0.0.1' \
        -keyout tls.key -out tls.crt
    openssl genrsa -out accounts.key 2048
} 2>keys.log

start_api() {
    local admin
    admin=$(openssl rand -hex 16)
    openssl rand -hex 16 >node.token
    printf '%s\n' "$admin,admin,admin,system:masters" "$(<node.token),system:node:vm,node,system:nodes" >tokens
    daemon kine --endpoint "sqlite://$(plane)/state.db?_journal=WAL&cache=shared&_sync=off&_busy_timeout=30000" \
        --listen-address 127.0.0.1:2379 --metrics-bind-address 0
    daemon kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 127.0.0.1 --advertise-address 192.0.2.1 \
        --tls-cert-file tls.crt --tls-private-key-file tls.key --token-auth-file tokens --authorization-mode Node,RBAC \
        --service-account-issuer https://kubernetes --service-account-key-file accounts.key \
        --service-account-signing-key-file accounts.key --service-cluster-ip-range 198.51.100.0/24 \
        --kubelet-preferred-address-types InternalIP
    kubeconfig admin "$admin"
    export KUBECONFIG=$PWD/admin
    until_true api_is_ready
}

start_controllers() {
    # These listen on no port that a test needs.
    # A node that is emulated on a busy machine may be silent for minutes.
    daemon kube-controller-manager --kubeconfig admin --leader-elect=false --bind-address 127.0.0.1 \
        --node-monitor-grace-period 300s \
        --service-account-private-key-file accounts.key --root-ca-file tls.crt --use-service-account-credentials
    daemon kube-scheduler --kubeconfig admin --leader-elect=false --bind-address 127.0.0.1
}

start_simulated_nodes() {
    kubectl kustomize "$K8S_BUILD/kwok-stages/fast" >stages.yaml
    daemon kwok --kubeconfig admin --config stages.yaml --manage-all-nodes --node-lease-duration-seconds 40
    kubectl create --filename "$BATS_TEST_DIRNAME/nodes.yaml"
    until_true kubectl wait --for=condition=Ready node --all --timeout=1s
}

# The controller has the rights that its own manifests give it. It runs as a process: no program runs in kwok's pods.
start_agent_sandbox() {
    kubectl apply --server-side --kustomize "$K8S_BUILD/agent-sandbox-manifests" >applied
    kubectl --namespace agent-sandbox-system scale deployment agent-sandbox-controller --replicas 0
    kubectl wait --for=condition=Established crd --all --timeout=60s
    kubeconfig agent-sandbox "$(kubectl --namespace agent-sandbox-system create token agent-sandbox-controller --duration 12h)"
    # No kube-proxy leads to its webhook. So it listens at the address of its Service.
    ip address add "$(kubectl --namespace agent-sandbox-system get service agent-sandbox-webhook-service \
        --output='jsonpath={.spec.clusterIP}')/32" dev lo
    KUBECONFIG=$PWD/agent-sandbox daemon agent-sandbox-controller --extensions --leader-elect=false --webhook-port 443 \
        --webhook-cert-dir "$PWD/webhook" --metrics-bind-address 127.0.0.1:8080 --health-probe-bind-address 127.0.0.1:8081
    until_true curl --silent --fail http://127.0.0.1:8081/readyz
}

start_plane() {
    local program
    K8S_BUILD=$(realpath "$BATS_TEST_DIRNAME/../../build/k8s")
    for program in "${PROGRAMS[@]}"; do
        [[ -x $K8S_BUILD/bin/$program ]] || { echo "there is no $program: make check-k8s"; return 1; }
    done
    export K8S_BUILD PATH=$K8S_BUILD/bin:$PATH
    mkdir -p "$(plane)"
    cd "$(plane)" || return
    export HOME=$PWD
    make_keys
    start_api
    start_controllers
    # Before there are nodes, so that no pod of it starts.
    start_agent_sandbox
    "$START_NODES"
    touch started
}

# The chart's pod as a Pod, for the API's own validation: that of a SandboxTemplate does not look at it.
pod_of() {
    helm template pysbx "$BATS_TEST_DIRNAME/../../contrib/k8s/chart" --set "$1" | python3 -c '
import json, sys, yaml
[template] = [one for one in yaml.safe_load_all(sys.stdin) if one["kind"] == "SandboxTemplate"]
pod = template["spec"]["podTemplate"]
print(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "pysbx", **pod["metadata"]}}))'
}

# with_members FILE [OPTION-OF-SERVE...]: give the pod on standard input the members in a file of the page.
with_members() {
    python3 -c '
import json, sys, yaml
pod, added = json.load(sys.stdin), yaml.safe_load(open(sys.argv[1]))
[container] = pod["spec"]["containers"]
container["args"] = added["args"] + sys.argv[2:]
container["volumeMounts"] += added["volumeMounts"]
pod["spec"]["volumes"] += added["volumes"]
json.dump(pod, sys.stdout)' "$@"
}

stop_plane() {
    local pid
    [[ -e $(plane)/started ]] || tail -n 5 "$(plane)"/*.log | cut -c 1-300
    [[ -e $(plane)/pids ]] || return 0
    # The newest first: the others still have an API to end with.
    tac "$(plane)/pids" | while read -r pid; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in $(<"$(plane)/pids"); do
        wait_for_end "$pid"
    done
}

# wait_for_end PID: at most ten seconds; then end it.
wait_for_end() {
    local attempt
    for attempt in {1..100}; do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$1"
    echo "process $1 did not end in $((attempt / 10)) s"
}
