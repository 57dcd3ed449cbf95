#!/usr/bin/env bats
# The Helm chart contrib/k8s/chart and runtimeclass.yaml, without a cluster: contrib/docs/pages/how-to/kubernetes.md.
# controlplane.bats installs them.
# once: the caller makes no difference
# prepare: tests/setup/kubernetes helm kubectl

load page.bash

K8S=$BATS_TEST_DIRNAME/../../contrib/k8s
CHART=$K8S/chart

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    PATH=$(realpath "$BATS_TEST_DIRNAME/../../build/k8s/bin"):$PATH
    # Helm's caches.
    export HOME=$BATS_TEST_TMPDIR
}

# render OPTION-OF-HELM...: the manifests for some values.
render() {
    helm template pysbx "$CHART" "$@"
}

# Values that create every object.
ALL='serviceMonitor.create=true,autoscaling.create=true,runtimeClass.create=true,clients[0].kind=ServiceAccount'
ALL+=',clients[0].name=agent,clients[0].namespace=agents,clients[1].kind=Group,clients[1].name=data'

@test "helm lint --strict" {
    helm lint --strict "$CHART"
    helm lint --strict "$CHART" --set "$ALL"
}

@test "the options of the pod are those of pysbx serve" {
    render >result
    mapfile -t options < <(grep -oE -- '- --[a-z-]+' result | cut -c 3-)
    ((${#options[@]} > 5))
    for option in "${options[@]}"; do
        grep -rqF -- "\"$option\"" "$K8S/../python/src/pysbx" || { echo "there is no $option"; return 1; }
    done
}

@test "a pod has no right that it does not need" {
    render >result
    for line in 'hostUsers: false' 'automountServiceAccountToken: false' 'runAsNonRoot: true' \
        'allowPrivilegeEscalation: false' 'readOnlyRootFilesystem: true' 'procMount: Unmasked' '- ALL'; do
        grep -qF -- "$line" result
    done
    run grep -iE 'hostNetwork|hostPID|hostPath|privileged: true|add:' result
    ((status == 1))
}

@test "the pods run where the values say" {
    cat >where.json <<'JSON'
{"nodeSelector": {"disk": "fast"}, "priorityClassName": "high", "imagePullSecrets": [{"name": "registry"}],
 "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm":
  {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "pysbx"}}}}]}},
 "tolerations": [{"key": "sandboxes", "operator": "Exists"}],
 "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}
JSON
    render --values where.json --show-only templates/template.yaml >result
    python3 - result where.json <<'PYTHON'
import json, sys, yaml
pod = yaml.safe_load(open(sys.argv[1]))["spec"]["podTemplate"]["spec"]
for name, value in json.load(open(sys.argv[2])).items():
    assert pod[name] == value, name
PYTHON
}

@test "the pods have more volumes and variables if the values say so" {
    cat >more.json <<'JSON'
{"extraEnv": [{"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "url"}}}],
 "extraVolumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
 "extraVolumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}]}
JSON
    render --show-only templates/template.yaml >usual
    render --values more.json --show-only templates/template.yaml >result
    python3 - usual result more.json <<'PYTHON'
import json, sys, yaml
usual, pod = (yaml.safe_load(open(one))["spec"]["podTemplate"]["spec"] for one in sys.argv[1:3])
more = json.load(open(sys.argv[3]))
assert pod["containers"][0]["env"] == more["extraEnv"]
assert pod["volumes"] == usual["volumes"] + more["extraVolumes"]
mounts, before = (one["containers"][0]["volumeMounts"] for one in (pod, usual))
assert mounts == before + more["extraVolumeMounts"]
PYTHON
}

@test "an upgrade that changes the pods replaces those of the pool" {
    render --show-only templates/pool.yaml >result
    grep -A 1 '^  updateStrategy:$' result | grep -qx '    type: Recreate'
    render --show-only templates/pool.yaml --set pool.updateStrategy=OnReplenish >result
    grep -qx '    type: OnReplenish' result
}

@test "pods of the RuntimeClass run on the nodes that the installer serves" {
    render --set runtimeClass.create=true --show-only templates/runtimeclass.yaml >class.yaml
    python3 - "$K8S/node-installer/daemonset.yaml" "$K8S/runtimeclass.yaml" class.yaml <<'PYTHON'
import sys, yaml
installer, *classes = (next(yaml.safe_load_all(open(path))) for path in sys.argv[1:])
for one in classes:
    assert one["scheduling"]["nodeSelector"] == installer["spec"]["template"]["spec"]["nodeSelector"], one
PYTHON
}

@test "pods of the RuntimeClass run on the nodes of another selector instead" {
    render --set runtimeClass.create=true,runtimeClass.nodeSelector.disk=fast --show-only templates/runtimeclass.yaml >class.yaml
    diff <(sed -n '/^scheduling:/,$p' class.yaml) - <<<$'scheduling:\n  nodeSelector:\n    disk: fast'
}

@test "With kubectl: Helm need not know a Kubernetes as new as the cluster" {
    cd "$K8S/../.."
    block "With kubectl" sh | sed 's/>pysbx.yaml/--debug/; /^kubectl/d' >"$BATS_TEST_TMPDIR/commands"
    helm() {
        # As if this helm had been built for an old one: the last option counts.
        command helm "$1" "$2" "$3" --kube-version 1.20.0 "${@:4}"
    }
    run source "$BATS_TEST_TMPDIR/commands"
    ((status == 0))
    [[ $output == *'image: "registry.example/pysbx:latest"'* ]]
}

@test "Pods that are Python programs: the installer and the remover take the image of the page" {
    cp -r "$K8S"/node-* .
    mkdir mine
    for which in installer remover; do
        block "Pods that are Python programs" yaml | sed "s/node-installer  /node-$which  /" >mine/kustomization.yaml
        kubectl kustomize mine >result
        (($(grep -c 'image: registry.example/pysbx:0.2.0$' result) == 2))
        [[ $(grep -c -- '- remove$' result) == $([[ $which == remover ]] && echo 1 || echo 0) ]]
    done
}

@test "another chart contains it, by a condition and under two names" {
    mkdir umbrella
    {
        printf 'apiVersion: v2\nname: umbrella\nversion: 0.1.0\ndependencies:\n'
        printf '  - {name: pysbx, version: ">=0-0", repository: "file://%s", condition: pysbx.enabled}\n' "$(realpath "$CHART")"
        printf '  - {name: pysbx, version: ">=0-0", repository: "file://%s", alias: red}\n' "$(realpath "$CHART")"
    } >umbrella/Chart.yaml
    printf '%s\n' 'global: {registry: registry.example}' 'pysbx: {enabled: true}' 'red: {namespace: {name: red}}' >umbrella/values.yaml
    helm dependency build umbrella
    helm template x umbrella >result
    (($(grep -c '^kind: SandboxWarmPool$' result) == 2))
    helm template x umbrella --set pysbx.enabled=false >result
    (($(grep -c '^kind: SandboxWarmPool$' result) == 1))
}

@test "a value that does not exist, and a wrong one, are refused with their name" {
    while read -r path values; do
        run render --set "$values"
        echo "$values: $output"
        ((status == 1))
        [[ $output == *"- at '${path%-}'"* ]]
    done <<'VALUES'
/namespace namespace.title=x
/serve serve.memory=1
/image/repository image.repository=UPPER
/pool/replicas pool.replicas=-1
/pool/updateStrategy pool.updateStrategy=Rolling
/isolation isolation=none
/token/value token.value=short
/autoscaling/create autoscaling.create=perhaps
/clients/0 clients[0].kind=ServiceAccount,clients[0].name=x
/resources/limits resources.limits.memory=null
/networkPolicy networkPolicy.callers=null
/networkPolicy/callers networkPolicy.callers.pysbx\.dev/caller=null
- token=null
- fixedUser=null
/seccomp/localhostProfile seccomp.localhostProfile=../../etc/passwd
/appArmor/type appArmor.type=RuntimeDefault
/appArmor/localhostProfile appArmor.localhostProfile=a/b
/seLinux seLinux.profile=a
/seLinux/type seLinux.type=1
/extraVolumeMounts/0 extraVolumeMounts[0].name=data
/extraEnv/0 extraEnv[0].value=x
VALUES
}

@test "values that contradict each other are refused" {
    run render --set autoscaling.create=true,autoscaling.minReplicas=5,autoscaling.maxReplicas=4
    [[ $status == 1 && $output == *"minReplicas is above autoscaling.maxReplicas"* ]]
    run render --set autoscaling.create=true,autoscaling.busy=5
    [[ $status == 1 && $output == *"autoscaling.busy is above serve.atOnce"* ]]
}

# Each object of the schema refuses members that it does not name, and each value has a place in the schema.
@test "values.schema.json refuses unknown names at each depth, and knows every value" {
    python3 - "$CHART" <<'PROGRAM'
import json, sys, yaml
from pathlib import Path

def check(schema, where):
    if schema.get("type") == "object":
        assert "additionalProperties" in schema, where
        assert schema["additionalProperties"] is not True, where
    for name, one in schema.get("properties", {}).items():
        check(one, f"{where}.{name}")
    if "items" in schema:
        check(schema["items"], where + "[]")

def known(values, schema, where):
    for name, value in values.items():
        assert name in schema["properties"], f"{where}.{name}"
        if isinstance(value, dict) and "properties" in schema["properties"][name]:
            known(value, schema["properties"][name], f"{where}.{name}")
    assert not set(schema["properties"]) - set(values) or not values, (where, set(schema["properties"]) - set(values))

schema = json.loads((Path(sys.argv[1]) / "values.schema.json").read_text())
check(schema, "")
known(yaml.safe_load((Path(sys.argv[1]) / "values.yaml").read_text()), schema, "")
PROGRAM
}

@test "isolation=process: no field that the level restricted of Pod Security refuses" {
    render --set isolation=process >result
    grep -q 'pod-security.kubernetes.io/enforce: restricted' result
    grep -q 'type: RuntimeDefault' result
    grep -A 1 -- '- --isolation' result | grep -q -- '- process'
    run grep -E '^ *(hostUsers|procMount|appArmorProfile):|--wheels|--allow-profile' result
    ((status == 1))
}

@test "isolation=process,fixedUser=false: nothing that OpenShift's restricted-v2 chooses or refuses" {
    render --set isolation=process,fixedUser=false >result
    run grep -E '^ *(runAsUser|runAsGroup|fsGroup|hostUsers|procMount|hostPath|seLinuxOptions):' result
    ((status == 1))
    python3 - result <<'PYTHON'
import sys, yaml
[template] = [one for one in yaml.safe_load_all(open(sys.argv[1])) if one["kind"] == "SandboxTemplate"]
pod = template["spec"]["podTemplate"]["spec"]
assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, pod["securityContext"]
[container] = pod["containers"]
own = container["securityContext"]
assert own == {
    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
}, own
assert all({"emptyDir", "secret"} & set(volume) for volume in pod["volumes"])
PYTHON
}

@test "the namespace has the level baseline if the filter and the profile are Localhost, from Kubernetes 1.37 on" {
    local -r confined=seccomp.type=Localhost,appArmor.type=Localhost
    while read -r level version values; do
        render --kube-version "$version" --set "$values" | grep "enforce: $level"
    done <<VALUES
baseline 1.37.0 $confined
baseline 1.37.0 seccomp.type=Localhost,appArmor.type=
baseline 1.37.0 seccomp.type=Operator,appArmor.type=Localhost
baseline 1.37.0 $confined,seLinux.type=container_engine_t
privileged 1.36.0 $confined
privileged 1.37.0 seccomp.type=Localhost
privileged 1.37.0 appArmor.type=Localhost
privileged 1.37.0 $confined,seLinux.type=pysbx_serve_t
privileged 1.37.0 $confined,seLinux.user=system_u
VALUES
}

@test "the fields of the profiles: the names are those of the files beside the chart" {
    render --set seccomp.type=Localhost,appArmor.type=Localhost >result
    grep -A 4 'seccompProfile:' result | grep -q "localhostProfile: \"$(cd "$CHART/files" && echo *.json)\""
    grep -A 3 'appArmorProfile:' result | grep -q "localhostProfile: \"$(sed -n 's/^profile \([^ ]*\) .*/\1/p' "$K8S"/apparmor/*)\""
    render --set "seLinux.type=$(sed -n 's/^(type \(.*\))$/\1/p' "$K8S"/selinux/*.cil)" >result
    grep -A 1 'seLinuxOptions:' result | grep -qx ' *type: pysbx_serve_t'
    render --set appArmor.type= >result
    run grep appArmorProfile result
    ((status == 1))
}

@test "seccomp.type=Operator: a SeccompProfile with the same rules, also of a packaged chart, and the path where the operator writes it" {
    helm package "$CHART"
    helm template pysbx pysbx-*.tgz --set seccomp.type=Operator,appArmor.type=Localhost,namespace.name=other --kube-version 1.37.0 >result
    python3 - result "$CHART/files/pysbx-serve.json" <<'PYTHON'
import json, sys, yaml
things = {thing["kind"]: thing for thing in yaml.safe_load_all(open(sys.argv[1]))}
profile = json.load(open(sys.argv[2]))
del profile["defaultErrnoRet"]  # SeccompProfile has no place for it
assert things["SeccompProfile"]["spec"] == profile
assert things["SeccompProfile"]["metadata"]["name"] == "other-serve"
pod = things["SandboxTemplate"]["spec"]["podTemplate"]["spec"]
found = pod["securityContext"]["seccompProfile"]
assert found == {"type": "Localhost", "localhostProfile": "operator/other-serve.json"}, found
PYTHON
    grep 'enforce: baseline' result
}

@test "seccomp-profile: it makes the file of the chart" {
    [[ -e /usr/share/containers/seccomp.json ]] || skip "no profile of Podman to make it from"
    "$K8S/seccomp-profile" profile.json
    cmp profile.json "$CHART/files/pysbx-serve.json"
}

@test "extra arguments and the digest of the image arrive as they are" {
    digest=sha256:$(printf '%064d' 0)
    render --set "image.digest=$digest" --set-json 'serve.extraArgs=["--env","A=b: \"c\" #d"]' >result
    grep -qF "image: \"localhost/pysbx@$digest\"" result
    grep -qF -- '- "A=b: \"c\" #d"' result
}

@test "the page: tests follow each block, or it says that it needs a kubelet or SELinux, or was not tried" {
    python3 - "$K8S/../docs/pages/how-to/kubernetes.md" "$BATS_TEST_DIRNAME" <<'PROGRAM'
import re, sys
from pathlib import Path

here, heading, code, tests, before = Path(sys.argv[2]), "", False, "", ""
blocks = {}
for line in Path(sys.argv[1]).read_text().splitlines():
    if line.startswith("```"):
        code = not code
        if code:
            blocks.setdefault((heading, line[3:]), []).append(before)
    elif not code and line:
        before = line
        if line.startswith("#"):
            heading = line.lstrip("# ")
assert len(blocks) > 5
for (heading, language), reasons in blocks.items():
    for number, reason in enumerate(reasons, 1):
        if re.search(r"needs a kubelet; tests/k8s/[a-z-]+\.bats |no test has tried it", reason):
            continue
        if re.search(r"needs a machine that enforces SELinux; tests/vm/pod\.bats does this", reason):
            assert "semodule --install" in (here / "../vm/pod.bats").read_text()
            continue
        found = re.search(r"tests/k8s/([a-z-]+\.bats) follows it", reason)
        assert found or language == "yaml", (heading, number, reason)
        files = [here / found[1]] if found else sorted(here.glob("*.bats"))
        follows = [f'block "{heading}" {language}'] + ([f"follow {heading}", f'follow "{heading}"'] if language == "sh" else [])
        ends = (f" {number}",) + ((" >", " |", "\n") if number == 1 else ())
        texts = [text + end for text in follows for end in ends]
        assert any(text in file.read_text() for file in files for text in texts), (heading, language, number)
PROGRAM
}
