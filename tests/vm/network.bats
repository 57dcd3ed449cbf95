#!/usr/bin/env bats
# Podman networks on a machine with systemd: netavark's bridge and its names, pasta for users; podman-run(1) --network,
# podman-network-create(1). The machine has an address, but no other machine is reachable.

load vm.bash

setup_file() {
    import_python
}

teardown() {
    podman rm --all --force --time 0
    podman network rm --force own >/dev/null 2>&1 || true
    clean_up
}

# The wget of a static busybox cannot resolve names.
readonly FETCH='
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode(), end="")'

serve() {
    podman run --detach --name server --tmpfs /www "$@" "$BUSYBOX" \
        sh -c 'echo served >/www/index.html; exec httpd -f -p 8080 -h /www' >/dev/null
}

fetch() {
    python3 -c "$FETCH" "$1" 2>/dev/null
}

# bats test_tags=root,all
@test "podman network create: containers of one network reach each other by name" {
    needs_root "users get pasta's network, unless they ask for another one"
    podman network create own >/dev/null
    serve --network own
    expect 0 podman run --rm --network own "$PYTHON" python3 -c "
import sys, time
for attempt in range(20):
    try:
        sys.argv = ['', 'http://server:8080/']
        exec('''$FETCH''')
        break
    except OSError:
        time.sleep(0.5)"
    output_is served
}

# bats test_tags=all
@test "podman run --publish: a port of the machine reaches Podman's default network" {
    serve --publish 127.0.0.1:8088:8080
    wait_for fetch http://127.0.0.1:8088/
    expect 0 fetch http://127.0.0.1:8088/
    output_is served
    expect 0 podman inspect --format '{{.HostConfig.NetworkMode}}' server
    output_is "$(is_rootless && echo pasta || echo bridge)"
}

# bats test_tags=user
@test "podman run, rootless: pasta gives the container the address of the machine" {
    needs_rootless
    expect 0 podman run --rm "$BUSYBOX" ip -4 -o addr
    output_has "inet $(ip -4 -o addr show scope global | awk '{ print $4; exit }')"
}
