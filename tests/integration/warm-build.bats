#!/usr/bin/env bats
# Building a snapshot: the first runtime does it, and only once. After any failure the program still runs, and nothing
# remains.
# images: python
# once: a snapshot is built in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
    preload_module slow <<<'import time; time.sleep(0.3)'
    rm -rf "$(warm_store)"
}

teardown() {
    configure_warm
    ! mountpoint -q "$(warm_store)" || umount "$(warm_store)"
    clean_up
}

# Start ./bundle's program N times at the same time under different names. Print "COUNTxSTATUS" for each status. The
# output goes to output.* and error.*.
at_once() {
    local count=$1 number
    for ((number = 0; number < count; number++)); do
        { rc=0; runtime run --bundle bundle "box$number" >"output.$number" 2>"error.$number" </dev/null 3>&- || rc=$?
            echo "$rc" >"status.$number"; } &
    done
    wait
    cat status.* | sort -n | uniq -c | awk '{ printf "%s%dx%d", (NR > 1 ? " " : ""), $1, $2 }'
    rm status.*
}

# Print the number of snapshots, and of other files except locks and notes, which would be unfinished snapshots.
snapshots() {
    runtime warm list --quiet | wc -l
}

@test "ten at the same time: one builds, all run, there is one snapshot" {
    program require 'print("ran")'
    [[ $(at_once 10) == 10x0 ]] || { cat error.* && return 1; }
    [[ $(cat output.*) == "$(printf 'ran\n%.0s' {1..10})" && $(snapshots) == 1 ]]
}

@test "waitForBuild false: containers that start during the build are cold" {
    configure_warm '{"waitForBuild": false, "retryAfter": 0}'
    program auto 'print("ran")'
    [[ $(at_once 5) == 5x0 ]] || { cat error.* && return 1; }
    [[ $(cat output.*) == "$(printf 'ran\n%.0s' {1..5})" ]]
    program require 'print("ran")'
    expect 0 run_box
    [[ $(snapshots) == 1 ]]
}

@test "killed during the build: nothing of it remains, and the next runtime builds" {
    program require 'print("ran")'
    for after in 0.01 0.03 0.06 0.1 0.2 0.3 0.35 0.4 0.45 0.5; do
        timeout --signal KILL "$after" "$RUNTIME" run --bundle bundle killed </dev/null >/dev/null 2>&1 || true
        # The builder process dies immediately with the runtime that started it.
        wait_for sh -c '! pgrep -f "[p]ysbx-agent" >/dev/null'
        expect 0 runtime delete --force killed
    done
    runtime list --quiet | while read -r id; do runtime delete --force "$id"; done
    prints ran run_box
    [[ $(snapshots) == 1 && -z $(find "$(warm_store)" -name '*.tmp*') ]]
}

@test "no space for the snapshot: cold, with the reason, and no partial file" {
    needs_root "mounts a file system"
    mkdir -p "$(warm_store)"
    chmod 0700 "$(warm_store)"
    for kib in 64 1024 4096; do
        mount -t tmpfs -o "size=${kib}k,mode=0700" tmpfs "$(warm_store)"
        program auto 'print("ran")'
        prints ran run_box
        stderr_is_empty
        program require 'print("ran")'
        fails 1 "no space left" run_box
        stderr_has "(in '$(warm_store)'; 'pysbx-runtime warm prune --all' makes room, maxSize in warm.json limits"
        [[ $(snapshots) == 0 ]]
        umount "$(warm_store)"
    done
}

@test "a damaged snapshot: cold, then built again" {
    program require 'print("ran")'
    expect 0 run_box
    file=$(find "$(warm_store)" -type f -size +1M | head -n 1)
    size=$(stat -c %s "$file")
    for offset in 0 100 1000 $((size / 2)); do
        chmod 0600 "$file"
        [[ $offset == 0 ]] && truncate -s 5000 "$file" || printf 'damage' | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
        chmod 0400 "$file"
        if ((offset < size / 2)); then # beyond the checked part, `warm verify` finds it
            program auto 'print("ran")'
            prints ran run_box
        else
            expect 1 runtime warm verify
        fi
        runtime warm prune --all
        program require 'print("ran")'
        prints ran run_box
        file=$(find "$(warm_store)" -type f -size +1M | head -n 1)
    done
}

@test "imports that take longer than template.timeout: cold, with the reason" {
    configure_warm '{"retryAfter": 0, "template": {"timeout": 1}}'
    module slow.py <<<'import time; time.sleep(2)'
    program require 'print("ran")'
    fails 1 "1 second" run_box
    program auto 'print("ran")'
    prints ran run_box
}

@test "an import that never ends, exits, or crashes: named with its end, and no builder remains" {
    preload json,slow
    while IFS='|' read -r reason body; do
        # The test ends the imports that never end. A slow machine has enough time for everything else.
        configure_warm '{"retryAfter": 0, "template": {"timeout": '"$([[ $reason == *"not finished"* ]] && echo 5 || echo 60)"'}}'
        module slow.py <<<"$body"
        program require 'print("ran")'
        fails 1 "run.pysbx.warm=require: $reason" run_box
        check_leftovers
    done <<'IMPORTS'
import slow: the interpreter ended with exit code 3|import os; os._exit(3)
import slow: the interpreter was killed by signal 11 (Segmentation fault)|import ctypes; ctypes.string_at(8)
import slow: SystemExit: 4|import sys; sys.exit(4)
import slow: not finished after 5 seconds of all imports (template.timeout in warm.json)|import time; time.sleep(1000)
the imports start a process|import os, time; os.fork() or time.sleep(1000)
IMPORTS
}

@test "an interpreter that cannot start: named with its end" {
    configure 'process["env"].append("PYTHONHOME=/nowhere")'
    fails 1 "run.pysbx.warm=require: start of the interpreter: the interpreter ended with exit code 1" warm -c 'print("ran")'
}

@test "an import can write nothing and reach no network while the snapshot is built" {
    module slow.py <<<'import os, socket
for path in ("/written", "/modules/written", "/usr/written"):
    try:
        open(path, "w").close()
        os._exit(9)
    except OSError:
        pass
names = [name for _, name in socket.if_nameindex()]
if names != ["lo"]: os._exit(8)'
    configure 'config["root"]["readonly"] = False; share("network")'
    own_root python
    program auto 'print("ran")'
    prints ran runtime --debug run --bundle bundle box
    stderr_has "the imports use the network" # and have seen only "lo" there
    [[ ! -e modules/written && ! -e root/written ]]
}

@test "a snapshot that could not be built is not tried again before retryAfter" {
    configure_warm '{"retryAfter": 1000}'
    module slow.py <<<'raise ValueError("not today")'
    program auto 'print("ran")'
    expect 0 run_box
    made=$(stat -c '%n %i %y' "$(warm_store)"/*)
    prints ran runtime --debug run --bundle bundle box
    stderr_has "the snapshot could not be made, and is not tried again for 1000 s (retryAfter in warm.json)" "not today"
    [[ $(stat -c '%n %i %y' "$(warm_store)"/*) == "$made" ]]
}

@test "a container with larger limits does not wait for retryAfter if the limits of another were too small" {
    configure_warm '{"retryAfter": 1000}'
    module slow.py <<'PY'
import os
room = os.memfd_create("room")
os.ftruncate(room, 1 << 20)
os.close(room)
PY
    file_size() {
        configure "config['process']['rlimits'] = [{'type': 'RLIMIT_FSIZE', 'soft': $1, 'hard': $1}]"
    }
    program auto 'print("ran")'
    file_size 4096
    expect 0 run_box
    prints ran runtime --debug run --bundle bundle box
    stderr_has "the snapshot could not be made, and is not tried again for 1000 s" "File too large"
    program require 'print("warm")'
    file_size 10000000
    prints warm run_box
    # The first container has the snapshot too now.
    file_size 4096
    prints warm run_box
}

@test "rotation: the snapshot is rebuilt at an age" {
    program require 'print(hash("the seed of this snapshot"))'
    configure_warm '{"retryAfter": 0, "maxAge": 1}'
    expect 0 run_box
    first=$output
    sleep 2.1 # ages are whole seconds
    expect 0 run_box
    [[ $output != "$first" ]]
}

@test "the store keeps to its size, and removes the least recently used snapshot" {
    configure_warm '{"retryAfter": 0, "maxSize": 20000000}'
    for name in json decimal csv argparse email; do
        preload "$name"
        program require 'print("ran")'
        expect 0 run_box
    done
    [[ $(du -sb "$(warm_store)" | cut -f 1) -lt 21000000 && $(snapshots) -ge 1 && $(snapshots) -lt 5 ]]
}

# Test whether process_madvise(2) is called for many pages.
prefetches() {
    rm -f trace.*
    # One file for each process: in a common file, a message of another process splits a line.
    strace -ff -o trace -e trace=process_madvise "$RUNTIME" run --bundle bundle box </dev/null >out
    [[ $(<out) == ran ]]
    cat trace.* | grep -E 'process_madvise\(.*MADV_POPULATE_WRITE.*\) = [0-9]{6,}'
}

@test "prefetch: the snapshot records the pages that every process writes to" {
    preload json
    program require 'print("ran")'
    expect 0 run_box
    tells '50 < it["prefetchedPages"] < 4096' runtime warm show --bundle bundle
}

@test "prefetch: … and those that functions __pysbx_rehearse__ of modules write to, which may fail" {
    for end in pass 'raise ValueError'; do
        for name in rehearsed also; do
            module $name.py <<<"LIST = [[] for _ in range(30000)]
def __pysbx_rehearse__():
    for one in LIST: one.append(one)
    $end"
        done
        preload rehearsed,also
        program require 'import rehearsed; print(rehearsed.LIST[0], len(rehearsed.LIST))'
        shows "[] 30000" run_box
        tells 'it["prefetchedPages"] > 1150' runtime warm show --bundle bundle
    done
}

@test "prefetch: they are copied eagerly, unless warm.json disables it" {
    is_rootless && skip "newuidmap has no privilege under strace"
    python3 -c 'import os, sys; sys.exit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15))' ||
        skip "before Linux 6.15 a process cannot ask for it"
    preload json
    program require 'print("ran")'
    expect 0 run_box
    prefetches
    configure_warm '{"retryAfter": 0, "prefetch": false}'
    if prefetches; then
        echo "they are copied nevertheless"
        return 1
    fi
}

@test "the runtime is killed before its builder has asked to be killed with it: the builder makes nothing" {
    is_rootless && skip "newuidmap has no privilege under strace"
    program auto 'print("ran")'
    strace -f -q -o trace -e trace=prctl,mkdirat -e inject=prctl:delay_enter=1000000 "$RUNTIME" run --bundle bundle box \
        </dev/null >out 2>&1 3>&- &
    local tracer=$! traced
    wait_for pgrep -P "$tracer" >/dev/null
    traced=$(pgrep -P "$tracer")
    # proc(5): the call in which a process is, its number, and its arguments. PR_SET_PDEATHSIG is 1.
    is_asking() {
        xargs -n 1 sh -c 'cat "/proc/$0/syscall"' <"/proc/$traced/task/$traced/children" 2>/dev/null |
            grep -qE "^$(python3 -c 'import platform; print(157 if platform.machine() == "x86_64" else 167)') 0x1 "
    }
    wait_for is_asking
    kill -KILL "$traced"
    wait "$tracer" || true # it ends with the last process
    "$RUNTIME" delete --force box
    if grep 'box:builder' trace; then return 1; fi
}

# Run the program under strace, which records the order of calls.
traced() {
    is_rootless && skip "newuidmap has no privilege under strace"
    preload json
    program require 'print("ran")'
    expect 0 run_box
    strace -f -y -o trace "$@" "$RUNTIME" run --bundle bundle box </dev/null >out
    [[ $(<out) == ran ]]
}

# Print, in order, the traced calls of the runtime or of the container.
calls_of() {
    awk -v who="$1" 'NR == 1 { runtime = $1 } ($1 == runtime) == (who == "runtime")' trace
}

# Print the files of the standard library that the runtime or the container has checked, sorted.
files_of() {
    calls_of "$1" | sed -nE 's/.*newfstatat\([0-9]+<.*(\/lib\/python3[^>]*)>, "([^"]+\.pyc?)".*/\1\/\2/p' | sort
}

# Print the numbers of the container's calls that match.
numbers_of() {
    calls_of container | grep -nE "$1" | cut -d : -f 1
}

@test "time: the snapshot is mapped while the runtime creates the network, and before the container is ready" {
    traced -e trace=mmap,process_madvise,setns,sendto
    local -a network ready snapshot files copied
    mapfile -t network < <(numbers_of 'setns\(.*CLONE_NEWNET')
    mapfile -t ready < <(numbers_of 'sendto\(.*"\\r\\0')
    mapfile -t snapshot < <(numbers_of 'mmap\(.*/warm/')
    mapfile -t files < <(numbers_of 'mmap\(.*/(warm|lib)/')
    mapfile -t copied < <(numbers_of 'process_madvise\(.*MADV_POPULATE_WRITE')
    ((snapshot[0] > 0 && snapshot[0] < network[0]))
    ((copied[0] > snapshot[0] && copied[0] < network[0]))
    ((files[-1] > network[0] && files[-1] < ready[0]))
}

@test "time: with a memory policy no page is copied before it is set, because the policy selects their node" {
    configure 'linux["memoryPolicy"] = {"mode": "MPOL_BIND", "nodes": "0"}'
    traced -e trace=mmap,process_madvise,set_mempolicy
    local -a policy snapshot copied
    mapfile -t policy < <(numbers_of 'set_mempolicy\(')
    mapfile -t snapshot < <(numbers_of 'mmap\(.*/warm/')
    mapfile -t copied < <(numbers_of 'process_madvise\(.*MADV_POPULATE_WRITE')
    ((snapshot[0] > 0 && snapshot[0] < policy[0]))
    ((copied[0] > policy[0]))
}

@test "time: runtime and container share the check of the files, and check none twice" {
    traced -e trace=newfstatat,sched_yield -e inject=sched_yield:delay_enter=10000 # duration of a work unit
    files_of container >all
    grep -q /json/decoder.py all
    [[ -z $(files_of runtime) ]] # only the container sees mounts beneath the source of /modules
    diff <(uniq all) all

    mkdir shm
    configure 'config["mounts"][-1]["options"] = ["rbind"]
mount("/dev/shm", arguments[0])' "$PWD/shm" # like Podman
    traced -e trace=newfstatat,sched_yield -e inject=sched_yield:delay_enter=10000
    files_of runtime | grep .
    files_of container | grep .
    diff <({ files_of runtime; files_of container; } | sort) all
}

@test "imports that change more of the process than its memory: no snapshot, with the change" {
    local -A changes=(
        [Umask]='os.umask(0o077)' [Cwd]='os.chdir("/usr")' [Nice]='os.nice(3)'
        ['Max open files']='resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))'
        [Cpus_allowed]='os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})'
        [Name]='ctypes.CDLL(None).prctl(15, b"other", 0, 0, 0)'
    )
    is_rootless || changes[Uid]='os.setuid(65534)' # a user has only one
    configure 'process["noNewPrivileges"] = False; capabilities("CAP_SETUID")
process["user"] = {"uid": 0, "gid": 0}'
    for change in "${!changes[@]}"; do
        preload_module changing <<<"import ctypes, os, resource; ${changes[$change]}"
        is_cold_because "the imports change the process: $change"
    done
}

@test "imports that change what a restored process does not get: no snapshot, with the change" {
    local -A changes=(
        [1]='os.putenv("NEW", "1"): set or remove the variable '"'NEW'"
        [2]='ctypes.CDLL(None).unsetenv(b"HOME"): set or remove the variable '"'HOME'"
        [3]='os.set_blocking(0, False): change the standard streams'
        [4]='os.dup2(2, 1): change the standard streams'
        [5]='os.set_inheritable(0, False): change the standard streams'
        [6]='ctypes.CDLL(None).prctl(1, 9): ask for or change an attribute of the process by prctl'
        [8]='ctypes.CDLL(None).prctl(38, 1, 0, 0, 0): ask for or change an attribute of the process by prctl'
        [7]='ctypes.CDLL(None).shmget(0x1234, 4096, 0o1666): use System V IPC'
    )
    for change in "${changes[@]}"; do
        preload_module changing <<<"import ctypes, os; ${change%%: *}"
        is_cold_because "the imports ${change#*: }"
    done
    # Changes of os.environ are repeated.
    module changing.py <<<'import os; os.environ["NEW"] = "1"'
    same -c 'import changing, os; print(os.popen("echo $NEW").read())'
    output_has 1
}

# Assert that the program reads the secret with more rights, which makes a snapshot, and then not with less. MORE and
# LESS are changes of the configuration.
is_read_by_those_with() {
    local more=$1 less=$2 say='import secret; print(secret.text)'
    rm -rf "$(warm_store)"
    cp bundle/config.json common.json
    configure "$more"
    prints "a secret" warm -c "$say"
    cp common.json bundle/config.json
    configure "$less"
    prints "Permission denied" either -c "$say"
    cp common.json bundle/config.json
}

@test "a snapshot is for those who can read the same files: groups, capabilities, ids" {
    needs_root "gives files to others"
    module secret.py <<'EOF'
try:
    text = open("/secret").read().strip()
except OSError as error:
    text = error.strerror
EOF
    chmod 711 "$PWD"
    configure 'mount("/secret", arguments[0], "bind"); capabilities()' "$PWD/secret"
    preload secret
    install -g 2000 -m 640 /dev/stdin secret <<<"a secret"
    is_read_by_those_with 'process["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [2000]}' \
        'process["user"] = {"uid": 1000, "gid": 1000}'
    install -o 4242 -m 600 /dev/stdin secret <<<"a secret"
    is_read_by_those_with 'capabilities("CAP_DAC_OVERRIDE")' pass
    install -m 600 /dev/stdin secret <<<"a secret"
    is_read_by_those_with pass 'user_namespace((0, 100000, 65536))'
}

@test "mounts beneath a volume are read-only for imports, and mounts of other kinds are omitted" {
    needs_root "mounts file systems"
    mkdir -p volume/beneath lower upper work
    mount -t tmpfs beneath volume/beneath
    module writing.py <<<'open("/volume/beneath/written", "w")'
    configure 'mount("/volume", arguments[0] + "/volume", "rbind", "rw")
mount("/union", "overlay", *[f"{option}={arguments[0]}/{option[:-3]}" for option in ("lowerdir", "upperdir", "workdir")],
    kind="overlay")' "$PWD"
    preload writing
    fails 1 "Read-only file system: '/volume/beneath/written'" warm -c pass
    module writing.py <<<'open("/volume/written", "w")'
    fails 1 "Read-only file system: '/volume/written'" warm -c pass
    module writing.py <<<'open("/union/written", "w")'
    fails 1 "Read-only file system: '/union/written'" warm -c pass
    umount volume/beneath
    [[ ! -e upper/written ]]
}

@test "a kernel file system mounted beneath a volume that no import uses is not part of the builder" {
    own_root python
    mkdir -p system/proc
    configure 'mount("/system", arguments[0], "bind"); mount("/system/proc", "proc", kind="proc")' "$PWD/system"
    prints True warm -c 'import os; print(os.path.isdir("/system/proc/1"))'
    [[ -d root/system && ! -e root/system/proc ]] # no mount target in the image
}

@test "a warm start ignores limits that a cold start would not reach" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit"
    preload json
    configure 'process["rlimits"] = [{"type": "RLIMIT_STACK", "soft": 2**64 - 1, "hard": 2**64 - 1}]'
    expect 0 warm -c 'print("ran")'
    # The stack's mapping would have eight gigabytes, and snapshot memory counts as a file.
    for limits in AS:$((1 << 32)) FSIZE:0; do
        configure 'process["rlimits"][1:] = [{"type": "RLIMIT_" + arguments[0], "soft": int(arguments[1]), "hard": int(arguments[1])}]
share("pid")' "${limits%:*}" "${limits#*:}"
        program off 'import os; os.write(1, b"ran")'
        [[ $(runtime run --bundle bundle box </dev/null 2>&1 | cat) == ran ]]
        program auto 'import os; os.write(1, b"ran")'
        [[ $(runtime run --bundle bundle box </dev/null 2>&1 | cat) == ran ]]
    done
}

@test "maxSize: no builder writes more than that, however often it maps its memory" {
    configure_warm '{"secondRun": false, "retryAfter": 0, "maxSize": 30000000}'
    module repeated.py <<'EOF'
import ctypes, os
mmap = ctypes.CDLL(None).mmap
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.memfd_create("memory")
os.write(file, bytes([1]) * (1 << 20))
for _ in range(100):
    mmap(None, 1 << 20, 3, 2, file, 0)
os.close(file)
EOF
    preload repeated
    is_cold_because "bytes, and 30000000 are allowed (in '$(warm_store)'; if maxSize in warm.json is the limit, raise it"
    [[ $(snapshots) -eq 0 ]]
}

@test "a builder's report takes no more memory than its length" {
    grep -q __asan_init "$RUNTIME" && skip "the sanitizers' own memory does not fit"
    module reporting.py <<'EOF'
import os
if os.getpid() == 1:
    data = b"".join(b"a/absent%d" % i + b"/a" * 2040 + b"\0" for i in range(400))
    while data:
        data = data[os.write(0, data):]
EOF
    preload reporting
    program require 'print("ran")'
    (
        ulimit -v 400000 # kilobytes
        expect 0 runtime warm build --bundle bundle
    )
}

@test "a probe compiles no text that only a builder and its restored processes need" {
    module texts.py <<'EOF'
import gc, types
functions = [thing for thing in gc.get_objects() if type(thing) is types.FunctionType]
names = {function.__name__ for function in functions if function.__code__.co_filename in ("<probe>", "<resume>")}
assert len(names & {"explore", "command_line"}) == 1, names
EOF
    preload texts
    program require 'import texts; print(*sorted(texts.names & {"explore", "command_line"}))'
    prints command_line run_box
}

@test "a report by or about a foreign process: no snapshot, and the process is not inspected" {
    # The kernel names the sender. Imports cannot make a truly foreign process send or name one; the closest is a
    # process in a nested pid namespace. With CAP_SYS_ADMIN a sender may give a number other than its own (unix(7)).
    configure 'capabilities("CAP_SYS_ADMIN")'
    for speaker in child parent; do
        module reporting.py <<EOF
import ctypes, os, socket, struct, time
if os.getpid() == 1:
    if ctypes.CDLL(None).unshare(0x20000000): # CLONE_NEWPID
        os._exit(9)
    child = os.fork()
    if child and "$speaker" == "parent":
        credentials = struct.pack("3i", child, os.getuid(), os.getgid())
        socket.socket(fileno=os.dup(0)).sendmsg([b"r\0"], [(socket.SOL_SOCKET, 2, credentials)]) # SCM_CREDENTIALS
    if not child and "$speaker" == "child":
        os.write(0, b"r\0")
    time.sleep(1000)
EOF
        preload reporting
        is_cold_because "is not one of the builder's"
        [[ $(snapshots) -eq 0 ]]
    done
}

@test "the agent's file was lost in a crash: it is written again" {
    preload json
    expect 0 warm -c pass
    file=$(echo "$(warm_store)"/agent-*.so)
    rm -f "$file"
    install -m 444 /dev/null "$file"
    preload json,decimal
    expect 0 warm -c pass
}

@test "a container may have the name that the builder of another once had" {
    program off 'import time; time.sleep(60)'
    runtime run --detach --bundle bundle box.template </dev/null >out 2>err
    preload json
    expect 0 warm -c 'print("ran")'
    runtime delete --force box
    shows '"running"' runtime state box.template
    runtime delete --force box.template
}

@test "an id may be as long as a file name allows: there is a snapshot nevertheless" {
    long=$(printf 'x%.0s' {1..254})
    program require 'print("ran")'
    # The longest id, and those near the lengths at which the runtime cuts the builder's name.
    for id in "${long}a" "${long:0:234}" "${long:0:235}" "${long:0:246}" "${long:0:247}"; do
        rm -rf "$(warm_store)"
        prints ran runtime run --bundle bundle "$id" </dev/null
        [[ $(snapshots) -eq 1 ]]
    done
}

@test "delete: of two ids with a common prefix, only the builder of the named one is removed" {
    long=$(printf 'x%.0s' {1..254})
    module slow.py <<<'import time; time.sleep(1000)'
    program require 'print("ran")'
    hold "$RUNTIME" run --bundle bundle "${long}a"
    wait_for sh -c '[ -n "$(find "$1" -path "*:builder/state")" ]' _ "$RUNTIME_STATE"
    template=$(find "$RUNTIME_STATE" -name '*:builder')
    runtime delete --force "${long}b"
    [[ -e $template/state ]]
    runtime delete --force "${long}a"
    wait_for test ! -e "$template"
}

@test "cgroupsPath may end in a slash: the builder's cgroup is not within the container's" {
    needs_root "makes cgroups"
    configure 'linux["cgroupsPath"] = "/box/"'
    program off 'print("ran")'
    expect 0 run_box
    program require 'print("ran")'
    prints ran run_box
}

@test "imports are observed with a little more memory than they need" {
    preload "asyncio concurrent.futures decimal doctest email.mime.text http.server logging.config multiprocessing.pool sqlite3 unittest.mock"
    configure 'process["rlimits"] = [{"type": "RLIMIT_DATA", "soft": 24 << 20, "hard": 24 << 20}]'
    prints ran warm -c 'print("ran")'
}
