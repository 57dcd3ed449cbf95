# Helpers for tests that start the image of contrib/image. Load this after podman.bash.

TOKEN=a-token-for-tests-only
# shellcheck disable=SC2034 # the files that load this one use them
# The strictest options that allow namespaces; and those of a restricted pod, which forbid them.
NESTED=(--security-opt unmask=ALL --cap-drop all --read-only --tmpfs /tmp --security-opt no-new-privileges)
# shellcheck disable=SC2034
RESTRICTED=(--cap-drop all --read-only --tmpfs /tmp --security-opt no-new-privileges)

# The runtime of the distribution. crun loads its filter for devices only with CAP_SYS_RESOURCE, which root may lack.
podman() {
    if [[ $PODMAN_MODE == root ]]; then
        command podman --runtime "$(command -v runc)" "$@"
    else
        command podman --runtime "$(command -v crun)" "$@"
    fi
}

# Load the image as this test's caller.
load_image() {
    archive=$(realpath "${BUILD:-$TESTS/../build}/image/pysbx.tar") || {
        echo "there is no image: make image"
        return 1
    }
    command podman load --quiet --input "$archive" >/dev/null
}

setup_file() {
    load_image
}

setup() {
    begin_test
    # shellcheck disable=SC2034 # used by the files that load this one
    IMAGE=$(command podman images --quiet --filter reference=localhost/pysbx)
}

teardown() {
    podman rm --all --force --time 0 --volumes
    check_leftovers
}

# start OPTION-OF-PODMAN... -- OPTION-OF-SERVE...: start the service at a port of the test's own network namespace.
start() {
    start_container --env "PYSBX_TOKEN=$TOKEN" "$@"
}

# The same for options of the pod in contrib/k8s, which has the token in a file of a volume.
start_pod() {
    mkdir -p secret
    [[ -e secret/token ]] || echo "$TOKEN" >secret/token
    chmod 0755 secret
    chmod 0444 secret/token
    start_container --volume "$PWD/secret:/run/secrets/pysbx:ro" "$@"
}

start_container() {
    local -a options=()
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    podman run --detach --name serve --network host "${options[@]}" "$IMAGE" "$@" >/dev/null
    wait_for curl --silent --fail --output healthz http://127.0.0.1:8888/healthz || { podman logs serve; return 1; }
}

# ask PATH [JSON]: print the answer. An emulated machine has PATIENCE.
ask() {
    local path=$1
    shift
    curl --silent --show-error --max-time "${PATIENCE:-120}" --header "Authorization: Bearer $TOKEN" --header 'Content-Type: application/json' \
        "http://127.0.0.1:8888$path" ${1:+--data "$1"}
}

# run_code CODE: run it in a sandbox, and write the answer to the file outcome.
run_code() {
    ask /v1/run "$(python3 -c 'import json, sys; print(json.dumps({"code": sys.argv[1]}))' "$1")" >outcome
}

# member NAME: print a member of the JSON object on standard input.
member() {
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

is_prepared() {
    ask /readyz >ready && [[ -s ready ]] || return
    ! grep -q '"preparing"' ready
}
