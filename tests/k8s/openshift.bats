#!/usr/bin/env bats
# The manifests of contrib/k8s/openshift, which OpenShift's own types decode. There is no OpenShift here.
# once: the caller makes no difference
# prepare: tests/setup/kubernetes decode-openshift

BASE=$BATS_TEST_DIRNAME/../../contrib/k8s

decode() {
    "$BATS_TEST_DIRNAME/../../build/k8s/bin/decode-openshift" "$@"
}

@test "openshift: the types of OpenShift have every member of the manifests, and their names agree" {
    run decode "$BASE"/openshift/{build,image}.yaml
    echo "$output"
    ((status == 0))
    [[ ${lines[0]} == "build.openshift.io/v1, Kind=BuildConfig" && ${lines[1]} == "image.openshift.io/v1, Kind=ImageStream" ]]
    python3 - "$BASE/openshift" <<'PYTHON'
import pathlib, sys, yaml
where = pathlib.Path(sys.argv[1])
build, image, list_of = (yaml.safe_load((where / f"{name}.yaml").read_text()) for name in ("build", "image", "kustomization"))
assert build["spec"]["output"]["to"]["name"].split(":")[0] == image["metadata"]["name"]
assert build["metadata"]["namespace"] == image["metadata"]["namespace"] == "pysbx"
strategy = build["spec"]["strategy"]["dockerStrategy"]
assert (where.parent.parent / "image" / strategy["dockerfilePath"]).is_file()
assert sorted(list_of["resources"]) == ["build.yaml", "image.yaml"]
PYTHON
}

@test "openshift: an unknown member, a wrong type and an unknown kind are found" {
    for wrong in 's/dockerfilePath/dockerFilePath/ build' 's/successfulBuildsHistoryLimit: 2/successfulBuildsHistoryLimit: two/ build' \
        's/runPolicy: Serial/runPolicy: Serial\n  triggerPolicy: []/ build' 's/local: true/remote: true/ image' \
        's/kind: ImageStream$/kind: ImageStreams/ image' 's/^  lookupPolicy:/  lookupPolicy: {}\n  lookupPolicy:/ image'; do
        sed "${wrong% *}" "$BASE/openshift/${wrong##* }.yaml" >"$BATS_TEST_TMPDIR/wrong.yaml"
        run decode "$BATS_TEST_TMPDIR/wrong.yaml"
        echo "$wrong: $output"
        ((status == 1))
    done
}
