#!/usr/bin/env bats
# contrib/k8s with a real control plane, on nodes that do not exist: contrib/docs/pages/how-to/kubernetes.md. No pod's
# program runs here; pod.bats, image.bats and kubelet.bats run it.
# once: the caller makes no difference
# slow: a control plane
# prepare: contrib/image/build
# prepare: tests/setup/kubernetes adapter kine kube-apiserver kube-controller-manager kube-scheduler kubectl kwok agent-sandbox-controller helm
# prepare: tests/setup/kubernetes agent-sandbox-manifests kwok-stages servicemonitor.yaml seccompprofile.yaml
# prepare: tests/setup/agent-sandbox
# shellcheck disable=SC2016 # until_true evaluates its conditions each time

load ../lib/podman.bash
load serve.bash
load controlplane.bash
load page.bash

K8S=$BATS_TEST_DIRNAME/../../contrib/k8s
AGENT=system:serviceaccount:agents:agent
POD=system:serviceaccount:pysbx:pysbx

setup_file() {
    start_plane
    kubectl create --filename "$K8S_BUILD/servicemonitor.yaml" --filename "$K8S_BUILD/seccompprofile.yaml"
    kubectl create namespace agents
    kubectl --namespace agents create serviceaccount agent
    kubectl get --raw '/apis?timeout=32s' >/dev/null
    everything >"$(plane)/everything"
}

teardown_file() {
    stop_plane
}

setup() {
    begin_test
}

teardown() {
    [[ ${BATS_TEST_COMPLETED:-} ]] || { kubectl get pods,sandboxes,sandboxclaims,sandboxwarmpools -A; tail -n 5 "$(plane)"/*.log; }
    stop_metrics
    helm uninstall pysbx red blue --ignore-not-found --wait --timeout 120s >/dev/null
    kubectl delete namespace pysbx pysbx-node red blue other no --ignore-not-found --timeout 120s >/dev/null
    check_leftovers
}

fails() {
    ! "$@"
}

# Print every object, but for events and leases, which come and go by themselves.
everything() {
    kubectl api-resources --verbs=list --output=name | grep -vE '^(events|leases|componentstatuses)' |
        xargs -I '{}' kubectl get '{}' --all-namespaces --ignore-not-found --output=name \
            --output='jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort
}

# install VALUES [VERB]: install the chart, and wait for the pods of its pool.
install() {
    helm "${2:-install}" pysbx "$K8S/chart" --set "$1" >helm.out
    until_true pool_is_full
}

get() {
    kubectl --namespace pysbx get "$@"
}

pool_is_full() {
    local wanted ready
    wanted=$(get sandboxwarmpool pysbx --output='jsonpath={.spec.replicas}')
    ready=$(get sandboxwarmpool pysbx --output='jsonpath={.status.readyReplicas}')
    echo "$ready of $wanted are ready"
    [[ $wanted == "$ready" ]]
}

# Print the pods of the pool, with their ids.
pool_pods() {
    get pods --selector=agents.x-k8s.io/warm-pool-sandbox --sort-by=.metadata.name \
        --output='jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}'
}

# Make the files of the repository visible here, where the commands of the page expect them.
in_repository() {
    ln -s "$(realpath "$K8S/..")" contrib
}

# claim NAME [JSON]: claim a pod as the agent, with further members of the specification.
claim() {
    kubectl --as "$AGENT" create --filename - <<CLAIM
{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
 "metadata": {"name": "$1", "namespace": "pysbx"}, "spec": {"warmPoolRef": {"name": "pysbx"}${2:+, $2}}}
CLAIM
}

# Print the addresses of a Service.
addresses() {
    get endpointslices --selector="kubernetes.io/service-name=$1" \
        --output='jsonpath={range .items[*].endpoints[*]}{.targetRef.name}{"\n"}{end}' | sort
}

# rules USER NAMESPACE: what an account may do, except what Kubernetes allows every account.
rules() {
    comm -23 <(all_rules "$1" "$2") <(all_rules system:serviceaccount:agents:default "$2")
}

all_rules() {
    kubectl create --as "$1" --validate=false --output=json --filename - <<REVIEW |
{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "$2"}}
REVIEW
        python3 -c '
import json, sys
status = json.load(sys.stdin)["status"]
assert not status.get("incomplete"), status
for rule in status["resourceRules"]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                print(verb, resource + ("." + group if group else ""))' | sort -u
}

AGENT_CLIENTS='clients[0].kind=ServiceAccount,clients[0].name=agent,clients[0].namespace=agents'

@test "a dry run of the server accepts every manifest, and refuses a wrong one" {
    helm template pysbx "$K8S/chart" --show-only templates/namespace.yaml | kubectl create --filename -
    until_true get serviceaccount default
    # A pod is refused while its RuntimeClass does not exist.
    helm template pysbx "$K8S/chart" --set runtimeClass.create=true --show-only templates/runtimeclass.yaml >class.yaml
    kubectl create --filename class.yaml
    kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict --filename "$K8S/runtimeclass.yaml"
    kubectl delete --filename class.yaml
    # Strings that YAML would take for a boolean or a number.
    kubectl create namespace no
    odd='namespace.name=no,token.secret=1e3,clients[0].kind=ServiceAccount,clients[0].name=yes,clients[0].namespace=on'
    others='pool.replicas=1000000,imagePullSecrets[0].name=a,nodeSelector.a=b,tolerations[0].key=a,tolerations[0].operator=Exists'
    while read -r count values; do
        helm template pysbx "$K8S/chart" --set "$values" >chart.yaml
        kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict --filename chart.yaml >accepted
        (($(grep -c 'serverside-applied (server dry run)' accepted) == count))
    done <<VALUES
9 pool.replicas=2
14 $AGENT_CLIENTS,serviceMonitor.create=true,autoscaling.create=true,runtimeClass.create=true,pool.replicas=2
9 isolation=process
9 isolation=process,fixedUser=false
9 seccomp.type=Localhost,appArmor.type=Localhost,seLinux.type=a_t
9 seccomp.type=Operator,isolation=process
9 appArmor.type=
10 $odd
9 $others
8 token.create=false
6 namespace.create=false,networkPolicy.create=false,disruption.create=false
10 seccomp.type=Operator
VALUES
    sed 's/networkPolicyManagement: Unmanaged/networkPolicyManagement: None/' chart.yaml >wrong.yaml
    expect 1 kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict --filename wrong.yaml
    stderr_has 'spec.networkPolicyManagement: Unsupported value: "None"'
    sed 's/action: SCMP_ACT_ERRNO/action: SCMP_ACT_REFUSE/' chart.yaml >wrong.yaml
    expect 1 kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict --filename wrong.yaml
    stderr_has 'Unsupported value: "SCMP_ACT_REFUSE"'
}

@test "Pod Security: baseline refuses a pod without a filter and accepts the Localhost profiles, restricted accepts processes" {
    kubectl create namespace other
    kubectl label namespace other pod-security.kubernetes.io/enforce=baseline
    until_true kubectl --namespace other get serviceaccount default
    kubectl --namespace other create serviceaccount pysbx
    pod_of pool.replicas=2 >pod.json
    expect 1 kubectl --namespace other create --dry-run=server --filename pod.json
    stderr_has 'violates PodSecurity "baseline:latest"' seccompProfile
    # The chart computes the level that a pod needs from its values (_helpers.tpl). Pod Security agrees.
    while read -r code values; do
        pod_of "$values" >profiles.json
        expect "$code" kubectl --namespace other create --dry-run=server --filename profiles.json
    done <<'VALUES'
0 seccomp.type=Localhost,appArmor.type=Localhost
0 seccomp.type=Localhost,appArmor.type=
0 seccomp.type=Localhost,appArmor.type=Localhost,seLinux.type=container_engine_t
1 seccomp.type=Localhost
1 appArmor.type=Localhost
1 seccomp.type=Localhost,appArmor.type=Localhost,seLinux.type=a_t
1 seccomp.type=Localhost,appArmor.type=Localhost,seLinux.user=system_u
VALUES
    kubectl label --overwrite namespace other pod-security.kubernetes.io/enforce=restricted
    pod_of isolation=process | kubectl --namespace other create --dry-run=server --filename -
    kubectl label --overwrite namespace other pod-security.kubernetes.io/enforce=privileged
    kubectl --namespace other create --dry-run=server --filename pod.json
    # The API knows that the two fields belong together.
    sed 's/"hostUsers": false, //' pod.json >wrong.json
    expect 1 kubectl --namespace other create --dry-run=server --filename wrong.json
    stderr_has procMount
}

@test "seccomp.type=Operator: the API stores every rule of the profile, and uninstalling removes it" {
    install seccomp.type=Operator,pool.replicas=1
    kubectl get seccompprofile pysbx-serve --output=json >stored
    python3 - stored "$K8S/chart/files/pysbx-serve.json" <<'PYTHON'
import json, sys
stored, profile = (json.load(open(name)) for name in sys.argv[1:])
assert profile.pop("defaultErrnoRet") == 38
spec = stored["spec"]
assert spec.pop("disabled", False) is False
assert spec == profile, spec
PYTHON
    pod_of seccomp.type=Operator | grep -qF '"localhostProfile": "operator/pysbx-serve.json"'
    helm uninstall pysbx --wait --timeout 120s
    fails kubectl get seccompprofile pysbx-serve
}

@test "helm install: the pool fills, a claim gets one of its pods, which leaves the Service, and the pool fills again" {
    install "$AGENT_CLIENTS,pool.replicas=2"
    pool_pods >pods
    (($(wc -l <pods) == 2))
    until_true '[[ $(addresses pysbx | wc -l) == 2 ]]'
    begin=$(date +%s%N)
    claim mine
    kubectl --as "$AGENT" --namespace pysbx wait --for=condition=Ready sandboxclaim/mine --timeout=60s
    echo "# note: a claim of a warm pod took $((($(date +%s%N) - begin) / 1000000)) ms, with the starts of kubectl" >&3
    sandbox=$(kubectl --as "$AGENT" --namespace pysbx get sandboxclaim mine --output='jsonpath={.status.sandbox.name}')
    pod=$(kubectl --as "$AGENT" --namespace pysbx get sandbox "$sandbox" \
        --output='jsonpath={.metadata.annotations.agents\.x-k8s\.io/pod-name}')
    # It is a pod that was there before, with the same id.
    grep -qx "$pod $(get pod "$pod" --output='jsonpath={.metadata.uid}')" pods
    until_true pool_is_full
    until_true '[[ $(pool_pods | wc -l) == 2 ]]'
    fails grep -q "^$pod " <(pool_pods)
    until_true '[[ $(addresses pysbx | wc -l) == 2 ]]'
    fails grep -qx "$pod" <(addresses pysbx)
    kubectl --as "$AGENT" --namespace pysbx delete sandboxclaim mine --timeout=60s
    until_true '! get pod "$pod"'
}

@test "agent-sandbox's Python client claims a pod of the pool with the rights of a client, and gives it back" {
    install "$AGENT_CLIENTS,pool.replicas=1"
    pool_pods >pods
    kubeconfig agent "$(kubectl --namespace agents create token agent)"
    KUBECONFIG=$(plane)/agent expect 0 "$K8S_BUILD/agent-sandbox/venv/bin/python" "$BATS_TEST_DIRNAME/claim.py"
    grep -q "^$output " pods
    until_true '! get pod "$output"'
    until_true '[[ -z $(get sandboxclaims --output=name) ]]'
}

@test "a claim cannot set variables of the pod, nor volumes" {
    install "$AGENT_CLIENTS,pool.replicas=1"
    claim variables '"env": [{"name": "PYSBX_TOKEN", "value": "mine"}]'
    until_true '[[ $(get sandboxclaim variables -o "jsonpath={.status.conditions[*].message}") == *nvironment* ]]'
    get sandboxclaim variables --output='jsonpath={.status.conditions}'
    [[ -z $(get sandboxclaim variables --output='jsonpath={.status.sandbox.name}') ]]
}

@test "RBAC: clients claim and see sandboxes, and nothing else; the pods' account may do nothing" {
    install "$AGENT_CLIENTS,pool.replicas=1"
    rules "$AGENT" pysbx >agent
    cat agent
    diff agent - <<'RULES'
create sandboxclaims.extensions.agents.x-k8s.io
delete sandboxclaims.extensions.agents.x-k8s.io
get sandboxclaims.extensions.agents.x-k8s.io
get sandboxes.agents.x-k8s.io
list sandboxclaims.extensions.agents.x-k8s.io
list sandboxes.agents.x-k8s.io
watch sandboxclaims.extensions.agents.x-k8s.io
watch sandboxes.agents.x-k8s.io
RULES
    [[ -z $(rules "$AGENT" default) && -z $(rules "$POD" pysbx) && -z $(rules "$POD" default) ]]
    expect 1 kubectl --as "$AGENT" --namespace pysbx get secret pysbx-token
    stderr_has 'cannot get resource "secrets"'
    expect 1 kubectl --as "$AGENT" --namespace pysbx run pod --image=a
    stderr_has 'cannot create resource "pods"'
    # No pod has a token.
    fails grep -q serviceAccountToken <(get pods --output=json)
}

@test "The Service and claims: a namespace for each tenant, whose claims, pods and token no other tenant reaches" {
    in_repository
    kubectl create namespace red
    kubectl create namespace blue
    follow "The Service and claims" >helm.out
    red=system:serviceaccount:red:agent
    block "The Service and claims" yaml | sed 's/namespace: pysbx/namespace: pysbx-red/' >claim.yaml
    until_true kubectl --as "$red" create --filename claim.yaml
    kubectl --as "$red" --namespace pysbx-red wait --for=condition=Ready sandboxclaim/mine --timeout=60s
    [[ -z $(rules "$red" pysbx-blue) && -n $(rules "$red" pysbx-red) ]]
    expect 1 kubectl --as system:serviceaccount:blue:agent --namespace pysbx-red delete sandboxclaim mine
    stderr_has 'cannot delete resource "sandboxclaims"'
    token() { kubectl --namespace "pysbx-$1" get secret pysbx-token --output='jsonpath={.data.token}'; }
    [[ $(token red) != "$(token blue)" ]]
    for tenant in red blue; do
        [[ $(kubectl --namespace "pysbx-$tenant" get networkpolicy pysbx \
            --output='jsonpath={.spec.ingress[*].from[*].namespaceSelector.matchLabels}') == "{\"pysbx.dev/caller\":\"$tenant\"}" ]]
    done
    helm uninstall red blue --wait --timeout 120s
    kubectl delete namespace red blue --timeout=120s
    until_true 'diff "$(plane)/everything" <(everything)'
}

@test "helm upgrade: the token stays, and the pool and its pods follow their values" {
    install pool.replicas=1
    token=$(get secret pysbx-token --output='jsonpath={.data.token}')
    (($(base64 --decode <<<"$token" | wc -c) == 48))
    install pool.replicas=3 upgrade
    [[ $(get secret pysbx-token --output='jsonpath={.data.token}') == "$token" ]]
    until_true '[[ $(pool_pods | wc -l) == 3 ]]'
    install pool.replicas=3,token.value=0123456789abcdef upgrade
    [[ $(get secret pysbx-token --output='jsonpath={.data.token}' | base64 --decode) == 0123456789abcdef ]]
    install pool.replicas=2,image.tag=0.3.0 upgrade
    until_true '[[ $(get pods --output="jsonpath={.items[*].spec.containers[0].image}") == "localhost/pysbx:0.3.0 localhost/pysbx:0.3.0" ]]'
}

@test "autoscaling: the autoscaler scales the pool, and names the metric that this cluster does not have" {
    install autoscaling.create=true,autoscaling.minReplicas=3
    until_true '[[ $(pool_pods | wc -l) == 3 ]]'
    until_true '[[ $(get hpa pysbx -o "jsonpath={.status.conditions}") == *pysbx_running* ]]'
    get hpa pysbx --output='jsonpath={.status.conditions}'
}

# Start Prometheus and its adapter. No program runs in the simulated pods. So Prometheus reads the metrics of one service,
# which runs beside the cluster, for each pod of the pool.
start_metrics() {
    block "Metrics and autoscaling" yaml >rules.yaml
    {
        printf 'global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: pods\n'
        # shellcheck disable=SC2153 # of serve.bash
        printf '    authorization: {credentials: %s}\n    static_configs:\n' "$TOKEN"
        pool_pods | while read -r pod _; do
            echo "      - {targets: ['127.0.0.1:8888'], labels: {namespace: pysbx, pod: $pod}}"
        done
    } >prometheus.yml
    daemon prometheus --config.file prometheus.yml --storage.tsdb.path prometheus --web.listen-address 127.0.0.1:9090
    daemon adapter --prometheus-url http://127.0.0.1:9090 --config rules.yaml --metrics-relist-interval 2s --cert-dir "$PWD" \
        --secure-port 6444 --lister-kubeconfig "$KUBECONFIG" --authentication-kubeconfig "$KUBECONFIG" \
        --authorization-kubeconfig "$KUBECONFIG" --authentication-tolerate-lookup-failure
    tail -n 2 "$(plane)/pids" >metrics
    # This API server has no certificate for other API servers, so the adapter does not know its callers.
    kubectl create --filename - <<'OBJECTS'
apiVersion: v1
kind: Service
metadata: {name: adapter, namespace: default}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.custom.metrics.k8s.io}
spec:
  group: custom.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: default, name: adapter, port: 6444}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adapter}
rules:
  - {apiGroups: [custom.metrics.k8s.io], resources: ["*"], verbs: ["*"]}
  - {nonResourceURLs: ["/apis/*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: adapter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: adapter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:unauthenticated"}]
OBJECTS
}

# End all of that. No namespace can be removed while an API does not answer.
stop_metrics() {
    [[ -e metrics ]] || return 0
    kubectl delete --ignore-not-found apiservice v1beta1.custom.metrics.k8s.io
    kubectl delete --ignore-not-found clusterrolebinding,clusterrole,service adapter
    podman rm --all --force --time 0 --volumes
    for pid in $(<metrics); do
        kill "$pid"
        wait_for_end "$pid"
    done
}

# Print the mean of the metric, as the autoscaler has read it.
mean_running() {
    get hpa pysbx --output='jsonpath={.status.currentMetrics[0].pods.current.averageValue}'
}

@test "autoscaling: the pool grows while more places are taken than autoscaling.busy, by Prometheus' adapter with the rule of the page" {
    load_image
    # shellcheck disable=SC2034 # start() uses it
    IMAGE=localhost/pysbx
    start "${NESTED[@]}" -- --listen 0.0.0.0:8888 --best-effort --at-once 4 --timeout 300
    install autoscaling.create=true,autoscaling.minReplicas=2
    until_true '[[ $(pool_pods | wc -l) == 2 ]]'
    start_metrics
    until_true '[[ $(mean_running) == 0 ]]'
    # Between zero and autoscaling.busy places, the pool stays at its minimum.
    (($(pool_pods | wc -l) == 2))
    for call in {1..4}; do
        ask /v1/run '{"code": "import time; time.sleep(200)"}' >"outcome.$call" 2>&1 3>&- &
    done
    until_true '[[ $(mean_running) == 4 ]]'
    # Four places are taken in each of two pods, and three are allowed: there must be three pods. The new pod has no metrics.
    until_true '[[ $(pool_pods | wc -l) == 3 ]]'
}

@test "PodDisruptionBudget: the last pod is not evicted" {
    install pool.replicas=1
    until_true '[[ $(get pdb pysbx -o "jsonpath={.status.currentHealthy}") == 1 ]]'
    pod=$(pool_pods | cut -d ' ' -f 1)
    expect 1 kubectl create --raw "/api/v1/namespaces/pysbx/pods/$pod/eviction" --filename - <<EVICTION
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "$pod", "namespace": "pysbx"}}
EVICTION
    stderr_has "disruption budget"
}

@test "helm uninstall leaves nothing, even with a claim" {
    install "$AGENT_CLIENTS,serviceMonitor.create=true,autoscaling.create=true,runtimeClass.create=true"
    claim mine
    kubectl --namespace pysbx wait --for=condition=Ready sandboxclaim/mine --timeout=60s
    fails diff "$(plane)/everything" <(everything)
    helm uninstall pysbx --wait --timeout 120s
    until_true 'diff "$(plane)/everything" <(everything)'
}

@test "the webhook of agent-sandbox converts the objects of the chart to the older version" {
    install pool.replicas=1
    [[ $(get sandboxwarmpools.v1alpha1.extensions.agents.x-k8s.io pysbx --output='jsonpath={.spec.replicas}') == 1 ]]
}

@test "With Helm: the commands of the page, and the clients that it names" {
    in_repository
    follow "With Helm" >said
    grep -q sandboxwarmpool.extensions.agents.x-k8s.io/pysbx said
    until_true pool_is_full
    [[ $(get pods --output='jsonpath={.items[0].spec.containers[0].image}') == registry.example/pysbx:0.2.0 ]]
    block "The Service and claims" yaml 2 >clients.yaml
    helm upgrade pysbx "$K8S/chart" --values clients.yaml >helm.out
    block "The Service and claims" yaml >claim.yaml
    until_true kubectl --as "$AGENT" create --filename claim.yaml
    kubectl --as "$AGENT" --namespace pysbx wait --for=condition=Ready sandboxclaim/mine --timeout=60s
}

@test "With kubectl: the commands of the page" {
    in_repository
    follow "With kubectl"
    until_true pool_is_full
    kubectl delete --filename pysbx.yaml --timeout=120s
    until_true 'diff "$(plane)/everything" <(everything)'
}

@test "Packages in an image volume: the API accepts the pod with the members that the page adds" {
    kubectl create namespace pysbx
    block "Packages in an image volume" yaml >added.yaml
    pod_of pool.replicas=2 | with_members added.yaml >pod.json
    until_true kubectl --namespace pysbx get serviceaccount default
    kubectl --namespace pysbx create serviceaccount pysbx
    kubectl --namespace pysbx create --dry-run=server --validate=strict --filename pod.json
}

@test "Pods that are Python programs: the commands of the page install and remove the DaemonSet" {
    in_repository
    NODE=$(kubectl get nodes --output='jsonpath={.items[0].metadata.name}')
    # The page has NODE for a name that a reader knows.
    block "Pods that are Python programs" sh | sed "s/ NODE / $NODE /" >commands
    # shellcheck disable=SC1091 # of the page
    source ./commands
    until_true '[[ $(kubectl --namespace pysbx-node get daemonset node-installer -o "jsonpath={.status.numberReady}") == 1 ]]'
    # Without a kubelet there are no logs.
    block "Pods that are Python programs" sh 2 | grep -q 'logs daemonset/node-installer --container node-installer'
    follow "Pods that are Python programs" 3
    kubectl label node "$NODE" pysbx.dev/runtime-
    until_true 'diff "$(plane)/everything" <(everything)'
}
