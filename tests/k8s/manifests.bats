#!/usr/bin/env bats
# The manifests of contrib/k8s, against the schemas beside them.
# once: the caller makes no difference
# prepare: tests/setup/kubernetes kubeconform

BASE=$BATS_TEST_DIRNAME/../../contrib/k8s

# The schemas are files: nothing is fetched.
conform() {
    "$BATS_TEST_DIRNAME/../../build/k8s/bin/kubeconform" -strict -summary \
        -schema-location "$BASE/schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "$@"
}

# Print the names of a directory's manifests.
manifests() {
    (cd "$BASE/base" && printf '%s\n' *.yaml | grep -vx kustomization.yaml | sort)
}

@test "every manifest is valid, and none is skipped" {
    mapfile -t files < <(manifests | sed "s,^,$BASE/base/,")
    run conform "$BASE/runtimeclass.yaml" "${files[@]}"
    echo "$output"
    ((status == 0))
    [[ $output == *"10 resources found in 8 files - Valid: 10, Invalid: 0, Errors: 0, Skipped: 0"* ]]
}

@test "the template with the type of contrib/k8s/selinux, as the page says, is valid" {
    sed 's/^        runAsNonRoot: true/&\n        seLinuxOptions: {type: pysbx_serve_t}/' "$BASE/base/template.yaml" >"$BATS_TEST_TMPDIR/template.yaml"
    grep -q seLinuxOptions "$BATS_TEST_TMPDIR/template.yaml"
    run conform "$BATS_TEST_TMPDIR/template.yaml"
    ((status == 0))
    grep -q '^(type pysbx_serve_t)' "$BASE/selinux/pysbx_serve.cil"
}

@test "a wrong manifest is found: a member that does not exist, a wrong type, a missing member" {
    change() { sed "$1" "$BASE/base/$2" >"$BATS_TEST_TMPDIR/wrong.yaml"; cmp -s "$BASE/base/$2" "$BATS_TEST_TMPDIR/wrong.yaml" && return 1; true; }
    for wrong in 's/procMount/procMounts/ template.yaml' 's/hostUsers: false/hostUsers: none/ template.yaml' \
        's/replicas: 2/replicas: two/ pool.yaml' 's/^    name: pysbx/    label: pysbx/ pool.yaml' \
        's/port: 8888/ports: 8888/ network.yaml' 's/minAvailable/minAvail/ disruption.yaml'; do
        change "${wrong% *}" "${wrong##* }"
        run conform "$BATS_TEST_TMPDIR/wrong.yaml"
        echo "$wrong: $output"
        ((status == 1))
    done
}

@test "kustomization.yaml names every manifest" {
    [[ $(sed -n 's/^  - //p' "$BASE/base/kustomization.yaml" | sort) == "$(manifests)" ]]
}

@test "the options of the pod are those of pysbx serve" {
    cd "$BATS_TEST_DIRNAME/../../contrib/python/src"
    mapfile -t options < <(grep -oE -- '- --[a-z-]+' "$BASE/base/template.yaml" | cut -c 3-)
    ((${#options[@]} > 5))
    for option in "${options[@]}"; do
        grep -rqF -- "\"$option\"" pysbx || { echo "there is no $option"; return 1; }
    done
}

@test "the page: tests follow each block, or it says that it needs a kubelet, OpenShift or SELinux, or was not tried" {
    python3 - "$BASE/../docs/pages/how-to/kubernetes.md" "$BATS_TEST_DIRNAME" <<'PROGRAM'
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
        if re.search(r"needs (a kubelet|OpenShift); tests/k8s/[a-z-]+\.bats |no test has tried it", reason):
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

@test "a pod has no right that it does not need" {
    for line in 'hostUsers: false' 'automountServiceAccountToken: false' 'runAsNonRoot: true' \
        'allowPrivilegeEscalation: false' 'readOnlyRootFilesystem: true' 'procMount: Unmasked' '- ALL'; do
        grep -qF -- "$line" "$BASE/base/template.yaml"
    done
    run grep -iE 'privileged|hostNetwork|hostPID|hostPath|add:' "$BASE/base/template.yaml"
    ((status == 1))
}
