#!/usr/bin/env bats
# Somebody in a container, or who shares a volume with one, plays against the runtime while it starts others: names
# that become links under its hands, files that keep a reader waiting, a tracer who waits for what enters.
# Whatever comes first, the container starts as its configuration says or not at all, and the host is as it was.

load ../lib/warm.bash

ROUNDS=40

# Swaps two names in ./shared until the end of the test: flip ONE OTHER
flip() {
    "$TESTS/lib/flip" "shared/$1" "shared/$2" 3>&- &
    HELPERS+=("$!")
}

# Runs the bundle again and again; what came of each time is a line of ./outcomes: its status, and its output's lines
# with commas between them.
run_rounds() {
    local round rc
    : >outcomes
    for ((round = 0; round < ROUNDS; round++)); do
        rc=0
        timeout 20 "$RUNTIME" run --bundle bundle box </dev/null >out 2>>errors || rc=$?
        echo "$rc $(tr -d '\r' <out | paste -sd,)" >>outcomes
    done
    sort outcomes | uniq -c
}

# Every outcome is one of the patterns; the first ones, as many as COUNT says, were all seen, or there was no race.
outcomes_are() {
    local count=$1 pattern line
    shift
    while IFS= read -r line; do
        for pattern in "$@"; do
            # shellcheck disable=SC2053 # a pattern
            [[ $line != $pattern ]] || continue 2
        done
        echo "unexpected: $line"
        return 1
    done <outcomes
    for pattern in "${@:1:count}"; do
        while IFS= read -r line; do
            # shellcheck disable=SC2053
            [[ $line != $pattern ]] || continue 2
        done <outcomes
        echo "never seen: $pattern"
        return 1
    done
}

# ./host is the attacker's goal: a directory with a secret, which shared/link names as seen from the host.
make_goal() {
    mkdir -p host shared
    echo secret >host/secret
    ln -s "$PWD/host" shared/link
}

goal_is_untouched() {
    [[ $(find host | sort | paste -sd,) == host,host/secret && $(<host/secret) == secret ]]
}

@test "a mount's target becomes a link while the container starts: it is within the root, or there is no container" {
    # CVE-2021-30465
    make_goal
    mkdir shared/place source
    echo mounted >source/file
    make_bundle sh -c '
        for dir in /shared/place /shared/link; do test ! -e $dir/secret || echo "the secret of the host"; done
        awk "\$5 ~ /(deep|small)$/ { print \$5 }" /proc/self/mountinfo | sed "s:^/shared/.*/:shared :; s:^/.*/:root :"'
    configure 'mount("/shared", arguments[0] + "/shared"); mount("/shared/place/deep", arguments[0] + "/source")
mount("/shared/place/small", "tmpfs", kind="tmpfs")' "$PWD"
    flip place link
    run_rounds
    # As seen from the container the link leads to a directory of its root, which is made there.
    outcomes_are 2 '0 root deep,@(root|shared) small' '0 shared deep,@(root|shared) small' '1 '
    goal_is_untouched
    [[ -d bundle/rootfs$PWD/host/deep ]]
}

@test "/dev is the attacker's, and its null a link: paths are masked all the same" {
    # CVE-2025-31133: what covers a path is the host's /dev/null, not the container's.
    make_goal
    : >shared/null
    ln -s /etc/passwd shared/other
    make_bundle sh -c 'stat -c "%t:%T" /etc/shadow; cat /etc/shadow; awk "\$5 == \"/etc/shadow\" { print \$4 }" /proc/self/mountinfo'
    mkdir -p bundle/rootfs/etc
    echo secret >bundle/rootfs/etc/shadow
    configure 'unmount("/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"); mount("/dev", arguments[0] + "/shared")
linux["maskedPaths"] = ["/etc/shadow"]' "$PWD"
    flip null other
    run_rounds
    outcomes_are 1 '0 1:3,/null' '1 '
    [[ $(<bundle/rootfs/etc/shadow) == secret ]]
}

@test "the working directory becomes a link while the container starts: the program never stands outside of its root" {
    # CVE-2024-21626
    make_goal
    mkdir shared/place
    make_bundle sh -c 'pwd -P | sed "s:/shared/.*:shared:; s:^/.*host$:root:"; ls | grep secret; ls -d ../../../../../../../../../../bin'
    mkdir -p "bundle/rootfs$PWD/host"
    configure 'mount("/shared", arguments[0] + "/shared"); process["cwd"] = "/shared/place"' "$PWD"
    flip place link
    run_rounds
    outcomes_are 2 '0 shared,../*/bin' '0 root,../*/bin'
    goal_is_untouched
}

@test "the console becomes a link while the container starts: the terminal is put where it was said, or nowhere" {
    # CVE-2025-52565
    mkdir shared
    : >shared/console
    ln -s /etc/target shared/other
    make_bundle sh -c 'awk "\$4 ~ /^.[0-9]+\$/ && \$9 == \"devpts\" { print \$5 }" /proc/self/mountinfo; cat /etc/target'
    mkdir -p bundle/rootfs/etc shared/pts
    echo target >bundle/rootfs/etc/target
    configure 'unmount("/dev", "/dev/shm", "/dev/mqueue"); config["mounts"].insert(0, {"destination": "/dev",
    "type": "bind", "source": arguments[0], "options": ["bind"]}); process["terminal"] = True' "$PWD/shared"
    flip console other
    run_rounds
    outcomes_are 2 '0 /dev/@(console|other),target' '1 '
    grep -qF "'/dev/console' in the root file system is neither a file nor a device: refusing to mount on it" errors
}

# Starts a program in the container that lies in wait for what is born there: it traces that from its first instant on if
# it may, and says what it then sees that is not the container's, besides "ready".
start_attacker() {
    cat >attacker.py <<'PYTHON'
import ctypes, os
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
ptrace = ctypes.CDLL(None).ptrace

def rights(pid):
    with open(f"/proc/{pid}/status") as status:
        return [line for line in status if line.startswith(("CapPrm", "CapEff", "CapBnd", "Seccomp:", "Uid"))]

print("ready", flush=True)
while True:
    with open("/proc/sys/kernel/ns_last_pid") as file:
        pid = int(file.read()) + 1
    if not any(ptrace(SEIZE, pid, None, None) == 0 for _ in range(2000)):
        continue
    ptrace(INTERRUPT, pid, None, None)
    os.waitpid(pid, WALL)
    for name in "exe", "root", "cwd", *(f"fd/{fd}" for fd in range(3, 12)):
        try:
            path = os.readlink(f"/proc/{pid}/{name}")
            if not os.path.samefile(f"/proc/{pid}/{name}", path):
                print(name, path, flush=True)
        except OSError:
            pass
    try:
        for one, own in zip(rights(pid), rights("self")):
            if one != own:
                print(one, flush=True)
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                if "[stack]" in line:
                    start, end = (int(address, 16) for address in line.split()[0].split("-"))
                    memory.seek(start)
                    if b"secret of the engine" in memory.read(end - start):
                        print("environment", flush=True)
    except OSError:
        pass
    ptrace(DETACH, pid, None, None)
PYTHON
    make_python_bundle python3 -c "$(<attacker.py)"
    configure "${1:-}"
    start_box
    wait_for grep -q ready out
}

# A container with a user namespace of its own, whose root may trace in there.
OWN_USERS='capabilities("CAP_SYS_PTRACE")
if "user" not in [n["type"] for n in linux["namespaces"]]: user_namespace((0, 100000, 65536))'

enter_again_and_again() {
    local round
    for ((round = 0; round < ROUNDS; round++)); do
        ENGINE="secret of the engine" timeout 20 "$RUNTIME" exec box /bin/true
    done
    runtime delete --force box
    [[ $(<out) == ready ]] || { sort out | uniq -c; return 1; }
}

@test "a process that enters a container: who lies in wait for it sees nothing of the host" {
    # CVE-2019-5736, CVE-2024-21626
    start_attacker
    enter_again_and_again
}

@test "a process that enters a user namespace in which another may trace: that sees nothing of the host either" {
    # CVE-2016-9962
    start_attacker "$OWN_USERS"
    enter_again_and_again
}

@test "a process that enters a container whose root may trace whatever it sees: that sees what it has itself" {
    needs_root "the runtime of a user gives each container a user namespace"
    start_attacker 'capabilities("CAP_SYS_PTRACE", "CAP_KILL")
process["noNewPrivileges"] = False
seccomp("ALLOW", rule("ERRNO", "acct"))'
    enter_again_and_again
}

# Starts a container whose program holds what exec gives birth to, and has it say what SAYS has: messages of
# runtime/container/sync.h by number and text, in turn. Of its memory it searches for a word.
start_forger() {
    cat >forger.py <<'PYTHON'
import ctypes, os, re, struct, time
SEIZE, INTERRUPT, KILL, STEP, GETREGS, SETREGS, WALL = 0x4206, 0x4207, 8, 9, 12, 13, 0x40000000
REGISTERS = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip".split()
WRITE = 1
ptrace = ctypes.CDLL(None).ptrace

class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in (*REGISTERS, "cs", "eflags", "rsp", *"abcdefg")]

def call(pid, code, number, *arguments):
    registers = Registers()
    ptrace(GETREGS, pid, None, ctypes.byref(registers))
    registers.rax, registers.orig_rax, registers.rip = number, 2**64 - 1, code
    registers.rdi, registers.rsi, registers.rdx = arguments
    ptrace(SETREGS, pid, None, ctypes.byref(registers))
    ptrace(STEP, pid, None, None)
    os.waitpid(pid, WALL)

def say(pid, message, text):
    maps = open(f"/proc/{pid}/maps").read()
    memory = open(f"/proc/{pid}/mem", "r+b", 0)
    [start, end] = (int(word, 16) for word in re.search(r"^(.*)-(.*?) r-xp .*\[vdso\]$", maps, re.MULTILINE).groups())
    memory.seek(start)
    code = start + memory.read(end - start).index(b"\x0f\x05")
    place = int(re.search(r"-(\S+) rw-p .*\[stack\]", maps)[1], 16) - 512
    packet = struct.pack("ii", message, -116) + text.encode() + b"\0"
    memory.seek(place)
    memory.write(packet)
    [channel] = (fd for fd in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket"))
    call(pid, code, WRITE, int(channel), place, len(packet))

def knows(pid, word):
    for start, end in re.findall(r"^(.*)-(.*?) rw-p(?!.*\[v)", open(f"/proc/{pid}/maps").read(), re.MULTILINE):
        size = int(end, 16) - int(start, 16)
        if size > 1 << 26:  # that of a sanitizer
            continue
        memory = open(f"/proc/{pid}/mem", "rb", 0)
        memory.seek(int(start, 16))
        if word in memory.read(size):
            return True

def forge(pid):
    if knows(pid, b"secret of " + b"the hook"):
        print("secret", flush=True)
    for line in open("/says"):
        message, text = line.split(maxsplit=1)
        say(pid, int(message), text)
        time.sleep(0.1)
    time.sleep(1)

def catch():
    while True:
        with open("/proc/sys/kernel/ns_last_pid") as file:
            pid = int(file.read()) + 1
        if any(ptrace(SEIZE, pid, None, None) == 0 for _ in range(2000)):
            ptrace(INTERRUPT, pid, None, None)
            print("caught", flush=True)
            return pid

while True:
    print("ready", flush=True)
    pid = catch()
    try:
        os.waitpid(pid, WALL)
        forge(pid)
    except (OSError, TypeError, ValueError):  # it has ended, and there is nothing of it in /proc
        pass
    print("alive" if os.path.exists(f"/proc/{pid}/fd/0") else "gone", flush=True)
    ptrace(KILL, pid, None, None)
    try:
        os.waitpid(pid, WALL)
    except ChildProcessError:
        pass
PYTHON
    make_python_bundle python3 -c "$(<forger.py)"
    configure 'capabilities("CAP_SYS_PTRACE", "CAP_KILL"); process["noNewPrivileges"] = False
seccomp("ALLOW", rule("ERRNO", "acct")); mount("/says", arguments[0])
config["hooks"] = {"poststop": [{"path": "/bin/true", "env": ["X=secret of the hook"]}]}' "$PWD/says"
    : >says
    start_box
    wait_for grep -q ready out
}

is_waiting() {
    [[ $(grep -cx ready out) == $(($(grep -cx caught out) + 1)) ]]
}

@test "a process that enters is in the hands of another before it is the program: the runtime believes none of its words" {
    needs_root "the runtime of a user gives each container a user namespace"
    # BORN and COLD of a snapshot that there is not; a message that nobody sends; an error before birth.
    local born=10 cold=8 error=9 say caught attempt
    start_forger
    for say in "$born x;$cold forged" "$born x;5 x" "5 x" "$error forged"; do
        tr ';' '\n' <<<"$say" >says
        caught=
        # On a busy machine he may come too late, the program may even run; not every time.
        for ((attempt = 0; attempt < 20 && !caught; attempt++)); do
            : >pid
            wait_for is_waiting
            expect '@(0|1|137)' timeout 20 "$RUNTIME" exec --pid-file pid box /bin/true
            ((status != 1)) || caught=1
        done
        [[ ! -e pid && $stderr == "pysbx-runtime: "@(forged|unexpected message*) ]]
        wait_for is_waiting
        [[ $(grep -x "gone\|alive" out | tail -n 1) == gone ]]
    done
    [[ $(<out) != *secret* ]]
    runtime delete --force box
}

@test "a container of a pod that another's processes can see and trace: they see nothing of the host" {
    local round pid
    start_attacker "$OWN_USERS"
    pid=$(pid_of_box)
    configure 'process["args"] = ["/bin/true"]; linux.pop("uidMappings", None); linux.pop("gidMappings", None)
for kind in "pid", "user": namespace(kind, f"/proc/{arguments[0]}/ns/{kind}")
process["oomScoreAdj"] = 500' "$pid"
    for ((round = 0; round < ROUNDS; round++)); do timeout 20 "$RUNTIME" run --bundle bundle second </dev/null; done
    configure 'process["args"] = ["cat", "/proc/self/oom_score_adj"]'
    [[ $("$RUNTIME" run --bundle bundle second </dev/null) == 500 ]]
    runtime delete --force box
    [[ $(grep -v ' /proc/[0-9]*/oom_score_adj$' out) == ready ]] || { sort out | uniq -c; return 1; }
}

@test "a process that has ended and that another of the container does not let go: the runtime sleeps until it does" {
    local pid round
    make_python_bundle python3 -u -c 'import ctypes, os
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and ctypes.CDLL(None).ptrace(0x4206, int(name), None, None) == 0:
            print("held")'
    start_box
    "$RUNTIME" exec box python3 -c 'import time; time.sleep(0.3); raise SystemExit(7)' </dev/null >output 2>&1 3>&- &
    pid=$!
    wait_for grep -q held out
    sleep 1
    for round in 1 2 3 4 5; do [[ $(cut -d ' ' -f 3 "/proc/$pid/stat") == S ]]; done
    runtime delete --force box
    status=0
    wait "$pid" || status=$?
    [[ $status == 7 ]]
}

@test "a container plays with its own cgroup while it is to go: it goes with all its processes, and so does the cgroup" {
    needs_cgroups
    local name
    local -A plays=(
        [frozen]='mkdir a a/b; sleep 1000 & echo $! >a/b/cgroup.procs; echo 1 >a/cgroup.freeze; echo made; sleep 1000'
        [itself]='mkdir a; echo made; echo $$ >a/cgroup.procs; echo 1 >a/cgroup.freeze; sleep 1000'
        [threads]='mkdir a; echo threaded >a/cgroup.type; echo $$ >a/cgroup.threads; echo made; sleep 1000'
        [no_room]='mkdir a; echo $$ >a/cgroup.procs; echo 0 >cgroup.max.descendants; echo made; sleep 1000'
        [deep]='for n in $(seq 300); do mkdir d && cd d; done; sleep 1000 & echo $! >cgroup.procs; echo made; sleep 1000'
        [many]='mkdir $(seq 1000); echo made; sleep 1000'
        [names]='mkdir "a b" ... -- -x; sleep 1000 & echo $! >"a b/cgroup.procs"; echo made; sleep 1000'
        [more]='for n in 1 2 3; do while :; do mkdir -p $n/x; sleep 0 & echo $! >$n/x/cgroup.procs; n=$((n + 10)); done & done
echo made; sleep 1000'
    )
    for name in "${!plays[@]}"; do
        echo "# $name"
        make_bundle sh -c "cd /sys/fs/cgroup; ${plays[$name]}"
        configure 'for mount in config["mounts"]:
    if mount["destination"] == "/sys/fs/cgroup": mount["options"].remove("ro")'
        start_box
        wait_for grep -q made out
        [[ $(find /sys/fs/cgroup -name '*box*') ]]
        expect 0 timeout 60 "$RUNTIME" delete --force box
        check_untouched
    done
}

# Traces a process of the container that waits for start, and says what in it leads to the host, or "nothing".
REACH='
import ctypes, os, sys
SEIZE = 0x4206
pid = int(sys.argv[1])
if ctypes.CDLL(None).ptrace(SEIZE, pid, None, None) != 0:
    sys.exit("not to be traced")
found = []
for name in "root", "cwd", *("fd/" + fd for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2):
    place = f"/proc/{pid}/{name}"
    if os.path.isdir(place) and not os.path.samestat(os.stat(place), os.stat("/")):
        found.append(os.readlink(place))
        for host in f"{place}/1/root/etc", f"{place}/../../../etc":
            found += [host] if os.path.isdir(host) else []
print(found or "nothing")'

@test "a program of exec would trace the first process of a container that is not started: only once that is confined" {
    needs_root "the runtime of a user gives each container a user namespace"
    local forbids
    for forbids in True False; do
        make_python_bundle sleep 1000
        configure 'capabilities("CAP_SYS_PTRACE"); process["noNewPrivileges"] = arguments[0] == "True"
seccomp("ALLOW", rule("ERRNO", "acct"))' "$forbids"
        create_box
        expect 1 runtime exec box python3 -c "$REACH" 1
        stderr_has "cannot exec in container 'box': it is created, and with CAP_SYS_PTRACE the process could trace"
        runtime start box
        expect 0 runtime exec box python3 -c "$REACH" 1
        output_is nothing
        runtime delete --force box
        # What gets the capability from exec alone is no other thing; what has it not is let in.
        configure 'capabilities("CAP_KILL")'
        create_box
        expect 1 runtime exec --cap CAP_SYS_PTRACE box python3 -c "$REACH" 1
        stderr_has "start the container first"
        expect 1 runtime exec box python3 -c "$REACH" 1
        stderr_has "not to be traced"
        runtime delete --force box
    done
    # There is no wall between CAP_SYS_ADMIN and the host.
    configure 'capabilities("CAP_SYS_PTRACE", "CAP_SYS_ADMIN")'
    create_box
    expect 0 runtime exec box true
    runtime delete --force box
}

@test "a program of exec in a user namespace would trace the first process before start: nobody may" {
    make_python_bundle sleep 1000
    configure "$OWN_USERS"
    create_box
    if is_rootless; then
        expect 1 runtime exec box true
        stderr_has "it is created, and until it is started only root may enter its user namespace"
    else
        expect 1 runtime exec box python3 -c "$REACH" 1
        stderr_has "not to be traced"
    fi
    runtime start box
    expect 0 runtime exec box python3 -c "$REACH" 1
}

@test "another container of a pod would reach the host through one that waits for start: nothing in that leads there" {
    needs_root "the runtime of a user gives each container a user namespace"
    local pid number
    make_python_bundle sleep 1000
    configure 'capabilities("CAP_SYS_PTRACE")'
    start_box
    pid=$(pid_of_box)
    configure 'namespace("pid", f"/proc/{arguments[0]}/ns/pid"); hook("startContainer", "true")' "$pid"
    runtime create --bundle bundle --pid-file pid second </dev/null >/dev/null 2>&1 3>&- 7<"$PWD"
    number=$(awk '/^NSpid:/ { print $NF }' "/proc/$(<pid)/status")
    expect 0 runtime exec box python3 -c "$REACH" "$number"
    output_is nothing
    runtime start second
}

# What a process says of its confinement, and of variables that are somebody's: CONFINEMENT for busybox' shell.
CONFINEMENT='grep -E "^(NoNewPrivs|Seccomp|Cap...):" /proc/self/status; env | grep -E "^(IMAGE|ENGINE|LD_PRELOAD)="'

@test "a hook that is a program of the image: it may do what the container's program may, and knows nothing of the engine" {
    local forbids
    touch hooked
    for forbids in True False; do
        make_bundle sh -c "$CONFINEMENT"
        configure 'process["noNewPrivileges"] = arguments[0] == "True"; process["env"].append("IMAGE=own")
seccomp("ALLOW", rule("ERRNO", "acct")); mount("/hooked", arguments[1])
hook("startContainer", f"({arguments[2]}) >/hooked")' "$forbids" "$PWD/hooked" "$CONFINEMENT"
        ENGINE="secret of the engine" expect 0 run_box
        [[ $output == *$'Seccomp:\t2'*IMAGE=own && $output == *$'NoNewPrivs:\t'$((${#forbids} == 4))* ]]
        [[ $(<hooked) == "$output" ]] || diff hooked - <<<"$output"
    done
}

@test "a hook that is a program of the image traces the process that has called it: that may do no more than the hook" {
    needs_root "the runtime of a user gives each container a user namespace"
    cat >tracer.py <<'PYTHON'
import ctypes, os
if ctypes.CDLL(None).ptrace(0x4206, 1, None, None) == 0:
    for pid in "self", "1":
        lines = open(f"/proc/{pid}/status").read().splitlines()
        print(*[line for line in lines if line.startswith(("Cap", "Seccomp:", "NoNewPrivs:", "Uid:"))], file=open("/hooked", "a"))
PYTHON
    touch hooked
    local forbids
    for forbids in True False; do
        make_python_bundle true
        configure 'capabilities("CAP_SYS_PTRACE"); process["noNewPrivileges"] = arguments[0] == "True"
seccomp("ALLOW", rule("ERRNO", "acct")); mount("/hooked", arguments[1])
config["hooks"] = {"startContainer": [{"path": "/usr/bin/python3", "args": ["python3", "-c", arguments[2]]}]}' \
            "$forbids" "$PWD/hooked" "$(<tracer.py)"
        : >hooked
        expect 0 run_box
        [[ $(wc -l <hooked) == 2 && $(<hooked) == *$'Seccomp:\t2'* ]]
        [[ $(sort -u hooked | wc -l) == 1 ]] || { cat hooked; return 1; }
    done
}

@test "a hook that is a program of the image is a link, and so is its log: neither leads through descriptors of the engine" {
    local fd place
    mkdir host
    touch hooked
    make_bundle true
    cp bundle/rootfs/bin/busybox host/
    configure 'config["hooks"] = {"startContainer": [
    {"path": "/bin/hook", "args": ["sh", "-c", "echo escaped; echo escaped >/hooked"]}]}
mount("/hooked", arguments[0] + "/hooked")
config["annotations"] = {"run.oci.hooks.stdout": "/log"}' "$PWD"
    for fd in {3..15}; do
        # The engine's own directory, and the root of the host, by the runtime's /proc.
        for place in "/proc/self/fd/$fd" "/proc/self/fd/$fd/$$/root$PWD/host"; do
            ln -sf "$place/busybox" bundle/rootfs/bin/hook
            expect 1 run_box 7<host 14<host
            stderr_has "it cannot be executed: "
            ln -sf /bin/busybox bundle/rootfs/bin/hook
            ln -sf "$place/log" bundle/rootfs/log
            expect 0 run_box 7<host 14<host
            [[ ! -e host/log && $(<hooked) == escaped ]]
            rm bundle/rootfs/log
            : >hooked
        done
    done
}

@test "a hook of the host runs in the container's namespaces: variables and directory of the image are not its own" {
    # CVE-2025-23266
    make_bundle true
    configure 'process["env"].append("LD_PRELOAD=./hostile.so"); process["cwd"] = "/tmp"
hook("createContainer", f"({arguments[0]}; pwd) >{arguments[1]}/hooked")' "$CONFINEMENT" "$PWD"
    expect 0 run_box
    [[ $(<hooked) != *LD_PRELOAD* && $(tail -n 1 hooked) != "$PWD/bundle/rootfs"* && $(tail -n 1 hooked) == "$PWD" ]]
}

@test "/etc/passwd is a link through descriptors of the runtime: no file of the host is read" {
    local fd
    echo "root:x:0:0::/secret:/bin/sh" >host
    make_bundle sleep 1000
    configure 'process["env"] = ["PATH=/bin"]'
    mkdir -p bundle/rootfs/etc
    start_box
    configure 'process["args"] = ["sh", "-c", "echo \"$HOME\""]'
    for fd in {3..15}; do
        ln -sf "/proc/self/fd/$fd/$$/root$PWD/host" bundle/rootfs/etc/passwd
        expect 0 runtime run --bundle bundle second </dev/null
        output_is /
        expect 0 runtime exec box sh -c 'echo "$HOME"'
        output_is /
    done
}

@test "/etc/passwd is something that notices when it is opened: only a file is" {
    make_bundle sh -c 'echo "$HOME"'
    configure 'process["env"] = ["PATH=/bin"]'
    mkdir -p bundle/rootfs/etc
    rm -f bundle/rootfs/etc/passwd
    mkfifo bundle/rootfs/etc/passwd
    hold sh -c 'echo waiting >bundle/rootfs/etc/passwd'
    wait_for grep -q '^State:.*sleeping' "/proc/$!/status"
    expect 0 run_box
    output_is /
    # Who waits until it is opened waits no more once it was.
    [[ $(timeout 10 cat bundle/rootfs/etc/passwd) == waiting ]]
}

@test "the host's /sys in a user namespace, read-only: the host's cgroups are not to be written to either" {
    # CVE-2023-25809
    needs_root "a cgroup is given away"
    needs_cgroups
    local given=/sys/fs/cgroup/given
    mkdir "$given"
    chown -R 100000:100000 "$given"
    make_bundle mkdir "$given/made"
    configure 'user_namespace((0, 100000, 65536)); unmount("/sys", "/sys/fs/cgroup"); mount("/sys", "/sys", "rbind", "ro")'
    expect 1 run_box
    stderr_has "Read-only file system"
    # The host's /sys takes the place of one that the network's owner alone may mount.
    configure 'unmount("/sys"); mount("/sys", "sysfs", kind="sysfs"); share("network")'
    expect 1 run_box
    stderr_has "Read-only file system"
    # Without that, nothing but the owner of a cgroup is in the way.
    configure 'unmount("/sys"); mount("/sys", "/sys", "rbind")'
    expect 0 run_box
    rmdir "$given/made" "$given"
}

@test "/dev/pts/ptmx is something that notices when it is opened: only the multiplexer of a devpts is" {
    make_bundle true
    configure 'unmount("/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"); process["terminal"] = True'
    mkdir -p bundle/rootfs/dev/pts
    mkfifo bundle/rootfs/dev/pts/ptmx
    hold sh -c 'echo waiting >bundle/rootfs/dev/pts/ptmx'
    wait_for grep -q '^State:.*sleeping' "/proc/$!/status"
    expect 1 run_box
    stderr_has "'/dev/pts/ptmx' is not the terminal multiplexer of a devpts: refusing to use it"
    [[ $(timeout 10 cat bundle/rootfs/dev/pts/ptmx) == waiting ]]
}

@test "/proc is a directory of the image's making: the runtime writes to its own" {
    # CVE-2019-16884, CVE-2025-52881
    local file
    mkdir -p fake/{self,thread-self,1}/attr fake/sys/kernel
    for file in fake/{self,thread-self,1}/{attr/exec,attr/current,attr/keycreate,oom_score_adj,setgroups,uid_map} \
        fake/sys/kernel/domainname; do
        echo untouched >"$file"
    done
    make_bundle sh -c 'cat /real/self/oom_score_adj /real/sys/kernel/domainname; ls /proc'
    configure 'unmount("/proc"); mount("/real", "proc", kind="proc"); mount("/proc", arguments[0])
process["oomScoreAdj"] = 700' "$PWD/fake"
    if is_rootless; then
        configure 'config["domainname"] = "set"' # the parameter belongs to the host's root
    else
        configure 'linux["sysctl"] = {"kernel.domainname": "set"}'
    fi
    expect 0 run_box
    output_is $'700\nset\n1\nself\nsys\nthread-self'
    # The image leads a volume to the real one.
    ln -s /proc/self bundle/rootfs/volume
    configure 'unmount("/proc", "/real"); mount("/proc", "proc", kind="proc"); mount("/volume", arguments[0] + "/self")
mount("/proc/sys", arguments[0] + "/sys"); mount("/real", "proc", kind="proc")' "$PWD/fake"
    expect 0 run_box
    output_has $'700\nset'
    [[ $(find fake -type f -exec cat {} + | sort -u) == untouched ]]
}

@test "what the runtime reads of a root is a pipe that nobody writes to: nobody waits" {
    make_bundle sh -c 'echo "$HOME"'
    configure 'process["env"] = ["PATH=/bin"]; config["annotations"] = {"run.pysbx.preload": "json"}'
    rm -f bundle/rootfs/etc/passwd
    mkdir -p bundle/rootfs/etc
    mkfifo bundle/rootfs/etc/passwd
    expect 0 timeout 10 "$RUNTIME" run --bundle bundle box
    output_is /
    mkfifo bundle/rootfs/bin/python3
    chmod 0755 bundle/rootfs/bin/python3
    configure 'process["args"] = ["python3"]'
    expect 1 timeout 10 "$RUNTIME" run --bundle bundle box
    stderr_has python3
}

# Runs the bundle, of which there is a snapshot, while a file of its modules is replaced by one of two others, at another
# instant each time; what came of it is in ./outcomes.
run_while_replaced() {
    local file=$1 one=$2 other=$3 round instant of_round
    : >all
    for ((round = 0; round < 20; round++)); do
        ((round % 2)) && of_round=$one || of_round=$other
        ROUNDS=1 run_rounds
        grep -q "^0 " outcomes
        instant=0.00$((round / 2))
        { sleep "$instant"; cp "$of_round" modules/new; mv modules/new "modules/$file"; } 3>&- &
        ROUNDS=1 run_rounds
        wait "$!"
        cat outcomes >>all
    done
    mv all outcomes
    sort outcomes | uniq -c
}

@test "a module is replaced while the container starts: it has the one or the other" {
    use_image python
    preload thing
    echo 'NAME = "one"' >one
    echo 'NAME = "three"' >three
    module thing.py <one
    program auto 'import thing; print(thing.NAME)'
    run_while_replaced thing.py one three
    outcomes_are 2 '0 one' '0 three'
}

@test "a library is replaced while the container starts: what the snapshot has of it comes from the file that is mapped" {
    use_image python
    local path
    path=$(cold -c 'import _bz2; print(_bz2.__file__)')
    # The first text is copied when the module is imported, the second is read from the file.
    python3 - "$BATS_FILE_TMPDIR/python$path" one two <<'PYTHON'
import pathlib, sys
library, one, two = map(pathlib.Path, sys.argv[1:])
text = library.read_bytes()
one.write_bytes(text.replace(b"a decompressor object", b"1 decompressor object").replace(b"Invalid data", b"1nvalid data"))
two.write_bytes(text.replace(b"a decompressor object", b"2 decompressor object").replace(b"Invalid data", b"2nvalid data"))
PYTHON
    module "${path##*/}" <one
    preload _bz2
    program auto 'import _bz2
def said():
    try:
        _bz2.BZ2Decompressor().decompress(b"not compressed")
    except OSError as error:
        return str(error)
print(_bz2.BZ2Decompressor.__doc__.split()[1], said()[0])'
    run_while_replaced "${path##*/}" one two
    outcomes_are 2 '0 1 1' '0 2 2'
}
