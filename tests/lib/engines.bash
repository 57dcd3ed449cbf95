# Helpers for tests that drive Docker and containerd. Their daemons live as long as a file's tests, in its environment
# (tests/lib/enter). tests/setup/engines has installed the programs outside of the system. Load this after podman.bash.

ENGINE=/run/pysbx-engine
PATH=$TESTS/../build/engines/bin:$PATH

# Start a daemon in the background: start_daemon NAME COMMAND...
start_daemon() {
    local name=$1
    shift
    # Not in bats' pipes, because bats would wait for it.
    setsid "$@" >"$ENGINE/$name.log" 2>&1 </dev/null 3>&- &
    echo $! >"$ENGINE/$name.pid"
}

# End the daemon and wait until all its descendants have ended.
stop_daemon() {
    local pid
    [[ -e $ENGINE/$1.pid ]] || return 0
    pid=$(<"$ENGINE/$1.pid")
    kill "$pid" || true
    wait_for eval "! kill -0 $pid 2>/dev/null"
}

# Wait until a daemon answers. If it does not, show its output: await_daemon NAME COMMAND...
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

# Skip a test if a program of the engine is missing.
needs_engine() {
    needs_root "the daemon is root's"
    has_engine "$@" || skip "not here: $* (tests/setup/engines)"
}

# Write one of the examples of config/, with the path of the tested runtime.
example_of() {
    sed "s,/usr/local/bin/pysbx-runtime,$RUNTIME," "$TESTS/../config/$1"
}

# Make an archive of a test image that every engine loads.
save_image() {
    command podman save --quiet --format docker-archive --output "$ENGINE/$1.tar" "localhost/$1:latest"
}

# Skip a test on a machine without this controller. tests/vm tests the runtime's limits.
needs_limits() {
    grep -qw "$1" /sys/fs/cgroup/cgroup.controllers || skip "needs the $1 controller"
}
