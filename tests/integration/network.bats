#!/usr/bin/env bats
# Networks that Podman creates: bridge through netavark, slirp4netns, pasta. The runtime only joins the namespace.

load ../lib/podman.bash

serve() {
    podman run -d --name server "$@" "$BUSYBOX" sh -c 'mkdir /www; echo served >/www/index.html; exec httpd -f -p 8080 -h /www' >/dev/null
}

# Start a server on the host's loopback.
serve_host() {
    mkdir www
    echo "from the host" >www/index.html
    busybox httpd -f -p 127.0.0.1:8099 -h www 3>&- &
    host_server=$!
    wait_for fetch http://127.0.0.1:8099/
}

teardown() {
    [[ -z ${host_server:-} ]] || kill "$host_server"
    podman network rm --force --time 0 own 2>/dev/null || true
    clean_up
}

# A client program, because the wget of a static busybox cannot resolve names.
readonly FETCH='
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode(), end="")'

fetch() {
    python3 -c "$FETCH" "$1" 2>/dev/null
}

setup_file() {
    import_python
}

@test "podman run --network bridge: containers reach each other by address" {
    needs_root "rootless containers have no bridge by default"
    serve
    address=$(podman inspect --format '{{.NetworkSettings.IPAddress}}' server)
    [[ $address == 10.88.* ]]
    wait_for fetch "http://$address:8080/"
    prints served podman run --rm "$PYTHON" python3 -c "$FETCH" "http://$address:8080/"
}

@test "podman run --publish: a port of the host leads to the container" {
    serve --publish 127.0.0.1:8088:8080
    wait_for fetch http://127.0.0.1:8088/
    prints served fetch http://127.0.0.1:8088/
}

@test "podman network create: names are resolved in a separate network" {
    needs_root "netavark needs a network namespace that Podman may configure"
    [[ -x /usr/lib/podman/aardvark-dns || -x /usr/libexec/podman/aardvark-dns ]] || skip "no aardvark-dns"
    podman network create own >/dev/null
    serve --network own
    prints served podman run --rm --network own "$PYTHON" sh -c "
        for i in \$(seq 200); do python3 -c '$FETCH' http://server:8080/ && exit; sleep 0.3; done; exit 1"
}

@test "podman run --network slirp4netns: reaches a server on the host's loopback" {
    command -v slirp4netns >/dev/null || skip "no slirp4netns"
    serve_host
    expect 0 podman run --rm --network slirp4netns:allow_host_loopback=true "$PYTHON" python3 -c "$FETCH" http://10.0.2.2:8099/
    output_is "from the host"
}

@test "podman run --network pasta: has an address" {
    command -v pasta >/dev/null || skip "no pasta"
    podman run --rm --network pasta "$BUSYBOX" true 2>/dev/null || skip "this Podman does not know pasta"
    shows lo podman run --rm --network pasta "$BUSYBOX" ip -o addr
}

@test "podman run: /etc/hosts and /etc/resolv.conf are Podman's" {
    shows "192.0.2.7" podman run --rm --network none --add-host known:192.0.2.7 --hostname me "$BUSYBOX" cat /etc/hosts
    serve --dns 192.0.2.53
    shows 192.0.2.53 podman exec server cat /etc/resolv.conf
}

@test "podman run --network container:NAME: two containers, one network" {
    serve --network none
    wait_for podman exec server wget -q -O /dev/null http://127.0.0.1:8080/
    prints served podman run --rm --network container:server "$PYTHON" python3 -c "$FETCH" http://127.0.0.1:8080/
}
