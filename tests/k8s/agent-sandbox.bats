#!/usr/bin/env bats
# The image, the Python client of agent-sandbox, and its router between them: contrib/docs/pages/reference/http-api.md.
# once: the caller makes no difference to what the service answers
# prepare: contrib/image/build
# prepare: tests/setup/agent-sandbox

load ../lib/podman.bash
load serve.bash

setup_file() {
    load_image
    tools=$(realpath -m "${BUILD:-$TESTS/../build}/k8s/agent-sandbox")
    [[ -e $tools/venv.recipe && -x $tools/sandbox-router ]] || {
        echo "there is no router and no client: tests/setup/agent-sandbox"
        return 1
    }
    export tools
}

# The program without the options of the pod's image and the cluster's addresses.
agent() {
    start "${NESTED[@]}" --env SANDBOX_ID=box-1 -- --listen 0.0.0.0:8888 --best-effort --agent-sandbox --timeout 60
}

# The router finds a sandbox by the name of its Service.
router() {
    podman run --detach --name router --network host --read-only --cap-drop all --volume "$tools/sandbox-router:/sandbox-router:ro" \
        --add-host box.default.svc.cluster.local:127.0.0.1 --entrypoint /sandbox-router "$IMAGE" \
        --http-bind-address 127.0.0.1:8080 >/dev/null
    wait_for curl --silent --fail --output /dev/null http://127.0.0.1:8080/healthz
}

@test "the Python client uses the image through the router, which finds it by name" {
    agent
    router
    PYSBX_TOKEN=$TOKEN expect 0 "$tools/venv/bin/python" "$BATS_TEST_DIRNAME/client.py" http://127.0.0.1:8080
    output_has "all of the client"
}

@test "through the router: a token in Authorization does not arrive, one in X-Pysbx-Token does" {
    agent
    router
    for header in "Authorization: Bearer $TOKEN=401" "X-Pysbx-Token: $TOKEN=200"; do
        [[ $(curl --silent --output answer --write-out '%{http_code}' --header "X-Sandbox-ID: box" \
            --header "${header%=*}" http://127.0.0.1:8080/v1/metadata) == "${header##*=}" ]] || { cat answer; return 1; }
    done
    [[ $(<answer) == '{"env":{"SANDBOX_ID":"box-1"}}' ]]
}
