# Helpers for tests that drive Docker and containerd, whose daemons live as long as a file's tests, in its environment
# (tests/lib/enter); tests/setup/engines has put the programs beside the system. To be loaded after podman.bash.

ENGINE=/run/pysbx-engine
PATH=$TESTS/../build/engines/bin:$PATH

# Starts a daemon in the background: start_daemon NAME COMMAND...
start_daemon() {
    local name=$1
    shift
    # Not in bats' pipes, which it would wait for.
    setsid "$@" >"$ENGINE/$name.log" 2>&1 </dev/null 3>&- &
    echo $! >"$ENGINE/$name.pid"
}

# Ends it and waits until all is gone that it has started.
stop_daemon() {
    local pid
    [[ -e $ENGINE/$1.pid ]] || return 0
    pid=$(<"$ENGINE/$1.pid")
    kill "$pid" || true
    wait_for eval "! kill -0 $pid 2>/dev/null"
}

# Waits until a daemon answers, and shows what it said if it does not: await_daemon NAME COMMAND...
await_daemon() {
    local name=$1
    shift
    wait_for eval "$(printf '%q ' "$@") >/dev/null 2>&1" || {
        tail -n 20 "$ENGINE/$name.log"
        return 1
    }
}

has_engine() {
    local program
    ! is_rootless || return 1
    for program; do command -v "$program" >/dev/null || return 1; done
}

# Skips a test when a program of the engine is missing.
needs_engine() {
    needs_root "the daemon is root's"
    has_engine "$@" || skip "not here: $* (tests/setup/engines)"
}

# Writes one of the examples of config/, with the path of the runtime that is tested.
example_of() {
    sed "s,/usr/local/bin/pysbx-runtime,$RUNTIME," "$TESTS/../config/$1"
}

# An archive of a test image that every engine loads.
save_image() {
    command podman save --quiet --format docker-archive --output "$ENGINE/$1.tar" "localhost/$1:latest"
}

# Skips a test on a machine that has no such controller; what the runtime does with limits is proven in tests/vm.
needs_limits() {
    grep -qw "$1" /sys/fs/cgroup/cgroup.controllers || skip "needs the $1 controller"
}
