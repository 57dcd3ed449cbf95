#!/usr/bin/env bats
# The image of `pysbx serve` on a machine that enforces SELinux, with the rights of its pod:
# contrib/docs/pages/how-to/kubernetes.md, "seccomp, AppArmor and SELinux". Each option of Podman stands for a field of the
# manifest. The engine's runtime is crun, as on a node: nothing of this repository is outside of the container.

load vm.bash

readonly K8S=$TESTS/../contrib/k8s TOKEN=a-token-for-tests-only VOLUMES=/run/pysbx-pod LABELLED=label=type:pysbx_serve_t
readonly POD=(--image-volume ignore --env KUBERNETES_SERVICE_HOST=10.96.0.1 --env PYSBX_TIMEOUT_SEC=300
    --uidmap 0:100000:65536 --gidmap 0:100000:65536 --user 1000:1000 --cap-drop all --security-opt no-new-privileges
    --security-opt unmask=ALL --security-opt "seccomp=$K8S/chart/files/pysbx-serve.json" --read-only --read-only-tmpfs=false
    --volume "$VOLUMES/tmp:/tmp:Z" --volume "$VOLUMES/cache:/var/cache/pysbx:Z")

# As the page says. The label of a file that is installed decides nothing.
setup_file() {
    [[ $(getenforce) == Enforcing ]] || skip "SELinux is not enforcing"
    semodule --install "$K8S/selinux/pysbx_serve.cil" </dev/null 2>&1 | cat
    command podman load --quiet --input "$(realpath -e "$TESTS/../build/image/pysbx.tar")"
}

teardown_file() {
    command podman rmi --force localhost/pysbx
    semodule --remove pysbx_serve </dev/null 2>&1 | cat
}

# The volumes belong to root of the pod, and have mode 0777, as those of the kubelet.
setup() {
    begin_test
    mkdir -p "$VOLUMES"/{tmp,cache}
    chmod 0777 "$VOLUMES"/*
    chown 100000:100000 "$VOLUMES"/*
}

teardown() {
    command podman rm --all --force --time 0
    rm -rf "$VOLUMES"
    [[ ! -e $BATS_TEST_TMPDIR/unlabelled ]] || xargs rm -rf <"$BATS_TEST_TMPDIR/unlabelled"
    clean_up
}

podman() {
    command podman --runtime "$(command -v crun)" "$@"
}

# pysbx OPTION-OF-PODMAN... -- ARGUMENT...: run the command in a pod of its own.
pysbx() {
    local -a options=()
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    podman run --rm --network none "${POD[@]}" "${options[@]}" --entrypoint pysbx localhost/pysbx "$@"
}

# denials TYPE: print what the policy refused to this type since the machine was started. grep fails if that is nothing.
denials() {
    ausearch --message avc,selinux_err --input-logs --raw 2>/dev/null | grep -aE '^type=(AVC|SELINUX_ERR)' | grep -a ":$1:" || true
}

is_refused_namespace() {
    denials "$1" | grep -q 'tclass=user_namespace'
}

ask() {
    jq --null-input --arg code "$1" '{code: $code}' >request
    curl --silent --show-error --max-time 400 --header "Authorization: Bearer $TOKEN" --json @request http://127.0.0.1:8888/v1/run >answer ||
        { podman logs serve; return 1; }
}

@test "with the usual type of containers there is no sandbox: the error says why, and pysbx doctor names the field" {
    expect '*' pysbx -- run -c 'print(6 * 7)'
    [[ $status != 0 && ! $output ]]
    stderr_has "clone with new namespaces: access denied"
    stderr_has "SELinux's type 'container_t' of the container around this program refuses that"
    expect 1 pysbx -- doctor
    remedy=$(sed -n 's/.*below spec: //p' <<<"$output")
    [[ $remedy == "securityContext.seLinuxOptions: {type: pysbx_serve_t}, with contrib/k8s/selinux on the node" ]] ||
        { echo "$output"; return 1; }
    wait_for is_refused_namespace container_t
}

@test "with the type of contrib/k8s/selinux: pysbx run prints 42, and pysbx doctor finds every field" {
    prints 42 pysbx --security-opt "$LABELLED" -- run -c 'print(6 * 7)'
    expect 0 pysbx --security-opt "$LABELLED" -- doctor
    [[ $output =~ ok\ +pod:\ its\ manifest\ has\ every\ field && $output =~ ok\ +warm\ start: ]]
    [[ $output =~ ok\ +SELinux:\ sandboxes\ have\ the\ type\ .*pysbx_serve_t ]]
}

@test "with the type of contrib/k8s/selinux: the service answers, warm, with files, programs, mounts and terminals" {
    podman run --detach --name serve --network host "${POD[@]}" --security-opt "$LABELLED" --env "PYSBX_TOKEN=$TOKEN" \
        localhost/pysbx --listen 127.0.0.1:8888 --best-effort >/dev/null
    wait_for curl --silent --fail --output healthz http://127.0.0.1:8888/healthz || { podman logs serve; return 1; }
    ask 'print(6 * 7, open("/proc/self/attr/current").read())'
    jq --exit-status '.isolation == "container" and .warm and (.stdout | test("^42 system_u:system_r:pysbx_serve_t:s0:c[0-9]+,c[0-9]+"))' \
        answer >/dev/null || { cat answer; return 1; }
    podman exec --interactive serve python3 - >said <<'PYTHON' || { cat said; return 1; }
import os, pathlib
from pysbx import Mount, Sandbox, run_code
CODE = """import os, socket, subprocess, tempfile
with tempfile.NamedTemporaryFile() as file: file.write(os.urandom(10))
socket.socketpair()
print(os.getpid(), subprocess.run(["/bin/sh", "-c", "echo $((6 * 7))"], capture_output=True, text=True).stdout.strip())"""
for warm in "off", "require":
    done = run_code(CODE, warm=warm)
    print(done.stdout.strip(), done.warm)
given = pathlib.Path("/tmp/given")
given.mkdir()
(given / "file").write_text("content")
for mount in Mount(given, "/given"), Mount(given / "file", "/given/file"), Mount(given, "/given", readonly=False):
    done = run_code(f"print(open('/given/file').read())\nif {not mount.readonly}: open('/given/new', 'w').close()", mounts=[mount])
    print(done.stdout.strip(), done.error)
print(sorted(os.listdir(given)))
print(run_code("import socket; socket.create_server(('127.0.0.1', 0)).close(); print('loopback')", allow_network="localhost").stdout.strip())
with Sandbox() as sandbox:
    sandbox.put({"brought": b"brought"})
    sandbox.run("value = open('/work/brought').read()")
    with sandbox.fork() as fork:
        print(fork.run("value").value)
    with sandbox.terminal(["sh", "-c", "stty size"]) as terminal:
        print(b"".join(iter(lambda: terminal.read(60), b"")))
PYTHON
    expect 0 cat said
    output_is $'2 42 False\n2 42 True\ncontent None\ncontent None\ncontent None\n[\'file\', \'new\']\nloopback\n\'brought\'\nb\'24 80\\r\\n\''
}

@test "the policy refused nothing to these pods" {
    # Of a later moment than theirs, so the log is complete.
    make_unlabelled given
    expect 1 podman run --rm --network none --security-opt "$LABELLED" --volume "$HOME/given:/given" "$BUSYBOX" cat /given/file
    stderr_has "Permission denied"
    # shellcheck disable=SC2317 # called by wait_for
    logged() { denials pysbx_serve_t | grep -q user_home_t; }
    wait_for logged
    denials pysbx_serve_t | grep -v user_home_t >denied || true
    prints "" cat denied
}

@test "outside of a user namespace the type permits no mount, even to root with the capability" {
    for kind in pysbx_serve_t spc_t; do
        expect '*' podman run --rm --network none --cap-add SYS_ADMIN --security-opt seccomp=unconfined \
            --security-opt "label=type:$kind" "$BUSYBOX" mount -t tmpfs none /tmp
        [[ $([[ $kind == spc_t ]] && echo 0) == "$([[ $status == 0 ]] && echo 0)" ]] || { echo "$kind: $status $stderr"; return 1; }
    done
}
