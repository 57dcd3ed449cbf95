#!/usr/bin/env bats
# confine: a program without a container, under Landlock, a filter, rlimits and no_new_privs; pysbx-runtime(8).

# shellcheck disable=SC2030,SC2031 # HELPERS is of the test that fills it
load ../lib/bundle.bash

# Make ./bundle/config.json for a program of the caller's root. It may read and execute programs, and write to ./area.
make_confined() {
    mkdir -p bundle area
    cat >bundle/config.json <<JSON
{"ociVersion": "1.0.2", "root": {"path": "/"}, "process": {}, "annotations": {}, "linux": {}}
JSON
    configure 'import json
user, group, area, *words = arguments
process.update(user={"uid": int(user), "gid": int(group)}, args=words, cwd="/", noNewPrivileges=True,
    env=["PATH=/usr/bin:/bin"], rlimits=[{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 100}])
rules = {"filesystem": {"read": ["/usr", "-/bin", "-/lib", "-/lib64", "/etc/ld.so.cache", "/proc/self"],
                        "write": [area], "device": ["/dev/null"]}, "enforcement": "required"}
config["annotations"]["run.pysbx.landlock"] = json.dumps(rules)
linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["setsid", "setpgid", "socket"], "action": "SCMP_ACT_ERRNO"}]}' \
        "$(id -u)" "$(id -g)" "$PWD/area" "$@"
}

confine() {
    runtime confine --bundle bundle "$@" </dev/null
}

# Assert that the configuration is refused with this text, and that its program does not run.
is_not_confined() {
    fails 1 "$1" confine
    [[ ! -e area/ran ]]
}

@test "confine: the exit code, and the status file" {
    make_confined sh -c 'exit 7'
    expect 7 confine --status-file status
    [[ $(<status) == "exited 7" ]]
    make_confined sh -c 'kill -KILL $$'
    expect 137 confine --status-file status
    [[ $(<status) == "killed 9" ]]
}

@test "confine: Landlock, the filter, the rlimits and no_new_privs are in force, and there is no capability" {
    make_confined sh -c 'while read -r name value; do
            case $name in NoNewPrivs: | CapPrm: | CapEff: | Seccomp:) echo "$name $value" ;; esac
        done </proc/self/status
        ulimit -n; cat /etc/passwd; echo x >area-of-root; echo x >'"$PWD"'/area/file && echo written; setsid true'
    expect '*' confine
    output_is $'CapPrm: 0000000000000000\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n100\nwritten'
    stderr_has "/etc/passwd: Permission denied" "Operation not permitted"
    [[ ! -e /area-of-root ]]
}

@test "confine: RLIMIT_NPROC counts the processes of the program, besides those that the user has already" {
    for _ in {1..40}; do
        sleep 4320 3>&- &
        HELPERS+=($!)
    done
    make_confined python3 -c 'import os
made = 0
try:
    for _ in range(30):
        if os.fork() == 0:
            os.read(0, 1), os._exit(0)
        made += 1
except BlockingIOError: pass
print("in all:", made + 1)'
    configure 'process["rlimits"] += [{"type": "RLIMIT_NPROC", "soft": 8, "hard": 8}]'
    sleep 4319 3>&- | runtime confine --bundle bundle >out 3>&- &
    HELPERS+=($!)
    wait_for grep -q . out
    # Root is exempt. Other tests may have the same user, and start or end processes meanwhile.
    cat out
    if ((EUID == 0)); then grep -qx 'in all: 31' out; else grep -qxE 'in all: ([2-9]|1[0-9])' out; fi
    pkill -f 'sleep 4319'
}

@test "confine: the processes of the program end with it, orphans too" {
    make_confined sh -c 'for i in 1 2 3; do (trap "" TERM HUP INT; exec sleep 4321) & done; exit 3'
    expect 3 confine
    expect 1 pgrep -f 'sleep 4321'
}

@test "confine: SIGTERM ends the program and its children" {
    make_confined sh -c 'sleep 4322 & wait'
    for signal in TERM HUP INT QUIT; do
        "$RUNTIME" confine --bundle bundle --status-file status </dev/null 3>&- &
        HELPERS+=($!)
        wait_for pgrep -f 'sleep 4322' >/dev/null
        kill "-$signal" "$!"
        status=0
        wait "$!" || status=$?
        [[ $status == 137 ]]
        expect 1 pgrep -f 'sleep 4322'
    done
}

@test "confine: the program ends with the runtime, and with the reader of the status file" {
    make_confined sleep 4323
    "$RUNTIME" confine --bundle bundle </dev/null 3>&- &
    HELPERS+=($!)
    wait_for pgrep -fx 'sleep 4323' >/dev/null
    kill -KILL "$!"
    wait_for eval '! pgrep -fx "sleep 4323"' >/dev/null
    mkfifo pipe
    "$RUNTIME" confine --bundle bundle --status-file pipe </dev/null 3>&- &
    HELPERS+=($!)
    exec {reader}<pipe
    wait_for pgrep -fx 'sleep 4323' >/dev/null
    exec {reader}<&-
    wait_for eval '! pgrep -fx "sleep 4323"' >/dev/null
}

@test "confine: a property that only a container has is refused" {
    while IFS='|' read -r statement name; do
        make_confined touch area/ran
        configure "$statement"
        is_not_confined "$name: only a container has it"
    done <<'TABLE'
config["mounts"] = [{"destination": "/proc", "type": "proc", "source": "proc"}]|mounts
linux["namespaces"] = [{"type": "pid"}]|linux.namespaces
linux["cgroupsPath"] = "/x"|linux.cgroupsPath
linux["resources"] = {"pids": {"limit": 3}}|linux.resources
linux["maskedPaths"] = ["/proc/kcore"]|linux.maskedPaths
linux["readonlyPaths"] = ["/proc/sys"]|linux.readonlyPaths
config["hooks"] = {"poststop": [{"path": "/bin/true"}]}|hooks
TABLE
}

@test "confine: a process that nothing would hold is refused" {
    make_confined touch area/ran
    configure 'process["noNewPrivileges"] = False'
    is_not_confined "process.noNewPrivileges: must be true"
    make_confined touch area/ran
    configure 'linux.pop("seccomp")'
    is_not_confined "linux.seccomp: a filter"
    make_confined touch area/ran
    configure 'config["annotations"] = {}'
    is_not_confined "run.pysbx.landlock': needed"
    make_confined touch area/ran
    configure 'process["terminal"] = True'
    is_not_confined "process.terminal: only a container has one"
}

@test "confine: only root chooses another user, and then the program has that user alone" {
    make_confined sh -c 'id -u; id -g; id -G'
    configure 'process["user"] = {"uid": 54321, "gid": 54322}'
    if is_rootless; then
        fails 1 "only root can choose another user" confine
    else
        prints $'54321\n54322\n54322' confine
    fi
}

@test "confine: a program that is not there" {
    make_confined no-such-program
    fails 127 "no-such-program" confine
}
