#!/usr/bin/env bats
# Two instances of the image behind a balancer, which chooses one for each connection, as a Service of Kubernetes does. See
# contrib/docs/pages/how-to/kubernetes.md, "Pods of the service".
# once: the caller makes no difference to what the instances answer
# prepare: contrib/image/build

load ../lib/podman.bash
load serve.bash

CLIENTS=8

# instance NAME: start one at its port, with a cache that outlives it.
declare -gA PORTS=([one]=8881 [two]=8882)
instance() {
    podman run --detach --name "$1" --network host --env "PYSBX_TOKEN=$TOKEN" --volume "cache-$1:/var/cache/pysbx" \
        "${NESTED[@]}" "$IMAGE" --listen "127.0.0.1:${PORTS[$1]}" --best-effort --at-once 4 --timeout 60 >/dev/null
    answers "$1"
}

answers() {
    wait_for curl --silent --fail --output /dev/null "http://127.0.0.1:${PORTS[$1]}/healthz"
}

# The balancer chooses at random and does not repeat a connection that is refused: that is up to the client. A refused
# connection removes the instance, as the controller of endpoints would.
start_balancer() {
    local module
    module=$(find /usr/lib*/nginx/modules -name ngx_stream_module.so | head -n 1)
    mkdir -p balancer
    cat >balancer/nginx.conf <<NGINX
load_module $module;
worker_processes 1;
user root;
pid $PWD/balancer/pid;
error_log $PWD/balancer/errors;
events {}
stream {
    log_format connection '\$remote_port \$upstream_addr \$status';
    access_log $PWD/balancer/connections connection;
    upstream instances {
        random;
        server 127.0.0.1:8881 max_fails=1 fail_timeout=1h;
        server 127.0.0.1:8882 max_fails=1 fail_timeout=1h;
    }
    server {
        listen 127.0.0.1:8888;
        proxy_pass instances;
        proxy_next_upstream off;
    }
}
NGINX
    nginx -e "$PWD/balancer/errors" -c "$PWD/balancer/nginx.conf"
}

stop_balancer() {
    [[ ! -e balancer/pid ]] || kill "$(<balancer/pid)"
    wait_for eval '[[ ! -e balancer/pid ]]'
}

teardown() {
    stop_balancer
    podman rm --all --force --time 0 --volumes
    command podman volume rm --all --force
    check_leftovers
}

call() {
    PYSBX_TOKEN=$TOKEN "$BATS_TEST_DIRNAME/load" --port 8888 --clients "$CLIENTS" "$@"
}

has_lines() {
    (($(wc -l <"$1") >= $2))
}

# Print the number of processes of an instance, and the names of its files without their random parts.
processes_of() {
    podman exec "$1" sh -c 'set -- /proc/[0-9]*; echo $#'
}

has_processes() {
    [[ $(processes_of "$1") == "$2" ]]
}

files_of() {
    podman exec "$1" sh -c 'find /tmp /var/cache/pysbx -maxdepth 3' | sed -E 's/-[0-9a-f]{8,24}//g' | sort
}

@test "one of two instances is killed under load: only its running calls fail, and clients that repeat them get answers" {
    instance one
    instance two
    start_balancer
    call --calls 16 >warmed
    processes=$(processes_of two)
    files=$(files_of two)

    call --calls 120 >attempts 3>&- &
    wait_for has_lines attempts 24
    when=$(date +%s.%N)
    podman kill --signal KILL one >/dev/null
    wait $! || { cat attempts; return 1; }
    stop_balancer
    "$BATS_TEST_DIRNAME/judge" attempts balancer/connections 127.0.0.1:8881 "$when" "$CLIENTS"

    # Nothing of a call remains in the other instance.
    wait_for has_processes two "$processes"
    [[ $(files_of two) == "$files" ]] || diff <(echo "$files") <(files_of two)
}

@test "the killed instance starts again on its own volume, and both answer" {
    instance one
    files=$(files_of one)
    instance two
    start_balancer
    call --calls 40 >attempts 3>&- &
    wait_for has_lines attempts 8
    podman kill --signal KILL one >/dev/null
    wait $!
    stop_balancer

    podman start one >/dev/null
    answers one
    [[ $(files_of one) == "$files" ]] || diff <(echo "$files") <(files_of one)
    rm balancer/connections
    start_balancer
    call --calls 40 >attempts
    expect 1 grep -v '"error": null' attempts
    [[ $(cut -d ' ' -f 2 balancer/connections | sort -u | wc -l) == 2 ]]
}
