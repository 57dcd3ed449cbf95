#!/usr/bin/env bats
# A process in a container traces what the runtime brings in. That is a process of exec, one of another container of the
# pod, or the container's first process before it is confined. The attacker sees nothing of the host, and the runtime
# believes none of its forged messages.
# once: except for a test with the tag "user", the attackers are root, or in a user namespace

load ../lib/warm.bash

ROUNDS=40

# Make ./attacker.py, a program that waits for new processes in its container. It traces each of them from the first
# instant on if the kernel permits it. Besides "ready" it prints everything that it then sees that does not belong to
# the container.
make_attacker() {
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
}

# Start the container with that program.
start_attacker() {
    make_attacker
    make_python_bundle python3 -c "$(<attacker.py)"
    configure "${1:-}"
    start_box
    wait_for grep -q ready out
}

# A configuration with a separate user namespace, whose root may trace in it.
OWN_USERS='capabilities("CAP_SYS_PTRACE")
if "user" not in [n["type"] for n in linux["namespaces"]]: user_namespace((0, 100000, 65536))'

enter_again_and_again() {
    local round
    for ((round = 0; round < ROUNDS; round++)); do
        ENGINE="secret of the engine" timeout 60 "$RUNTIME" exec box /bin/true
    done
    runtime delete --force box
    [[ $(<out) == ready ]] || { sort out | uniq -c; return 1; }
}

@test "a process that enters a container shows nothing of the host to a process that waits for it" {
    # CVE-2019-5736, CVE-2024-21626
    start_attacker
    enter_again_and_again
}

@test "a process that enters a user namespace with another process that may trace: it shows nothing of the host either" {
    # CVE-2016-9962
    start_attacker "$OWN_USERS"
    enter_again_and_again
}

@test "a process that enters a container whose root may trace every process it sees: root sees only what it has itself" {
    needs_root "the runtime of a user gives each container a user namespace"
    start_attacker 'capabilities("CAP_SYS_PTRACE", "CAP_KILL")
process["noNewPrivileges"] = False
seccomp("ALLOW", rule("ERRNO", "acct"))'
    enter_again_and_again
}

# The lines that the attacker printed, except capabilities: entering processes do not have all of the attacker's.
seen() {
    grep -v '^Cap' out
}

@test "a program of exec may trace, the container's own may not: processes that enter later show it nothing of the host" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_attacker
    make_python_bundle sleep 1000
    configure 'seccomp("ALLOW", rule("ERRNO", "acct"))'
    start_box
    runtime exec --detach --cap CAP_SYS_PTRACE box python3 -c "$(<attacker.py)" >out 3>&-
    wait_for grep -q ready out
    for ((round = 0; round < ROUNDS; round++)); do timeout 60 "$RUNTIME" exec box /bin/true; done
    runtime delete --force box
    [[ $(seen) == ready ]] || { sort out | uniq -c; return 1; }
}

@test "a container that may trace joins a pid namespace: entering the namespace's first container shows it nothing of the host" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_attacker
    # The right to trace comes with the container, or with a program of exec in it.
    for by in create exec; do
        make_python_bundle sleep 1000
        configure 'seccomp("ALLOW", rule("ERRNO", "acct"))'
        start_box
        configure 'namespace("pid", f"/proc/{arguments[0]}/ns/pid")' "$(pid_of_box)"
        if [[ $by == create ]]; then
            configure 'capabilities("CAP_SYS_PTRACE"); process["args"] = ["python3", "-c", arguments[0]]' "$(<attacker.py)"
            runtime run --detach --bundle bundle second </dev/null >out 3>&-
        else
            runtime run --detach --bundle bundle second </dev/null >/dev/null 3>&-
            runtime exec --detach --cap CAP_SYS_PTRACE second python3 -c "$(<attacker.py)" >out 3>&-
        fi
        wait_for grep -q ready out
        for ((round = 0; round < ROUNDS; round++)); do timeout 60 "$RUNTIME" exec box /bin/true; done
        runtime delete --force second
        runtime delete --force box
        [[ $(seen) == ready ]] || { echo "$by"; sort out | uniq -c; return 1; }
    done
}

@test "a program of exec that may trace waits while another exec is in progress, and gives up in the end" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_bundle sleep 1000
    start_box
    # The process of exec stops in the container's pid namespace, long before it executes its program.
    hold strace --follow-forks --output trace --trace setsid --inject setsid:signal=SIGSTOP \
        "$RUNTIME" exec --pid-file pid box /bin/true
    entering=$!
    wait_for grep -q 'stopped by SIGSTOP' trace
    fails 255 "container 'box': another process is on its way into it" runtime exec --cap CAP_SYS_PTRACE box /bin/true
    expect 0 runtime exec box /bin/true
    kill -CONT "$(awk '/stopped by SIGSTOP/ { print $1 }' trace)"
    wait "$entering"
    expect 0 runtime exec --cap CAP_SYS_PTRACE box /bin/true
    expect 0 runtime exec box /bin/true
}

# Start a container whose program stops the processes that exec creates, and makes them send SAYS: messages of
# runtime/container/sync.h by number and text, alternately. It searches their memory for a word.
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
    for _ in range(2000):  # the runtime kills it in the end
        os.stat(f"/proc/{pid}/fd/0")
        time.sleep(0.01)

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
    except (OSError, TypeError, ValueError):  # it has ended, and /proc has no entry for it
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

@test "a process that enters is controlled by another before it executes the program: the runtime believes no message of it" {
    needs_root "the runtime of a user gives each container a user namespace"
    local cloned=16 cold=14 error=15 say caught attempt
    # CLONED and COLD for a snapshot that does not exist; a message of the runtime; an error before the clone.
    start_forger
    for say in "$cloned x;$cold forged" "$cloned x;5 x" "5 x" "$error forged"; do
        tr ';' '\n' <<<"$say" >says
        caught=
        # On a busy machine the attacker may come too late, and the program may even run, but not every time.
        for ((attempt = 0; attempt < 20 && !caught; attempt++)); do
            : >pid
            wait_for is_waiting
            expect '@(0|255|137)' timeout 60 "$RUNTIME" exec --pid-file pid box /bin/true
            ((status != 255)) || caught=1
        done
        [[ ! -e pid && $stderr == "pysbx-runtime: "@('forged\x0a'|unexpected message*) ]]
        wait_for is_waiting
        [[ $(grep -x "gone\|alive" out | tail -n 1) == gone ]]
    done
    [[ $(<out) != *secret* ]]
    runtime delete --force box
}

@test "a container of a pod that another's processes can see and trace: they see nothing of the host" {
    start_attacker "$OWN_USERS"
    pid=$(pid_of_box)
    configure 'process["args"] = ["/bin/true"]; linux.pop("uidMappings", None); linux.pop("gidMappings", None)
for kind in "pid", "user": namespace(kind, f"/proc/{arguments[0]}/ns/{kind}")
process["oomScoreAdj"] = 500' "$pid"
    for ((round = 0; round < ROUNDS; round++)); do timeout 60 "$RUNTIME" run --bundle bundle second </dev/null; done
    configure 'process["args"] = ["cat", "/proc/self/oom_score_adj"]'
    [[ $("$RUNTIME" run --bundle bundle second </dev/null) == 500 ]]
    runtime delete --force box
    [[ $(grep -v ' /proc/[0-9]*/oom_score_adj$' out) == ready ]] || { sort out | uniq -c; return 1; }
}

# A process has slept for at least half a second: proc_pid_stat(5), state and times.
is_asleep() {
    local before
    before=$(cut -d ' ' -f 3,14,15 "/proc/$1/stat")
    sleep 0.5
    [[ $before == S* && $(cut -d ' ' -f 3,14,15 "/proc/$1/stat") == "$before" ]]
}

@test "a process that has ended, but that another of the container does not release: the runtime sleeps until it does" {
    make_python_bundle python3 -u -c 'import ctypes, os
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and ctypes.CDLL(None).ptrace(0x4206, int(name), None, None) == 0:
            print("held")'
    start_box
    "$RUNTIME" exec box python3 -c 'import time; time.sleep(0.3); raise SystemExit(7)' </dev/null >output 2>&1 3>&- &
    pid=$!
    wait_for grep -q held out
    child=$(<"/proc/$pid/task/$pid/children")
    wait_for grep -q '^State:.Z' "/proc/${child% }/status"
    wait_for is_asleep "$pid"
    runtime delete --force box
    status=0
    wait "$pid" || status=$?
    [[ $status == 7 ]]
}

# Traces a process of the container that waits for start. Prints its references to the host, or "nothing".
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

@test "a program of exec that may trace enters a container that is not started: only after the first process is confined" {
    needs_root "the runtime of a user gives each container a user namespace"
    for forbids in True False; do
        make_python_bundle sleep 1000
        configure 'capabilities("CAP_SYS_PTRACE"); process["noNewPrivileges"] = arguments[0] == "True"
seccomp("ALLOW", rule("ERRNO", "acct"))' "$forbids"
        create_box
        expect 255 runtime exec box python3 -c "$REACH" 1
        stderr_has "cannot exec in container 'box': it is created, and with CAP_SYS_PTRACE the process could trace"
        runtime start box
        prints nothing runtime exec box python3 -c "$REACH" 1
        runtime delete --force box
        # A program that gets the capability from exec alone is treated the same way. Without the capability it is let
        # in.
        configure 'capabilities("CAP_KILL")'
        create_box
        fails 255 "start the container first" runtime exec --cap CAP_SYS_PTRACE box python3 -c "$REACH" 1
        fails 1 "not to be traced" runtime exec box python3 -c "$REACH" 1
        runtime delete --force box
    done
    # No boundary exists between CAP_SYS_ADMIN and the host.
    configure 'capabilities("CAP_SYS_PTRACE", "CAP_SYS_ADMIN")'
    create_box
    expect 0 runtime exec box true
    runtime delete --force box
}

@test "a program of exec that may trace enters a container that is being started: only after the program is executed" {
    needs_root "the runtime of a user gives each container a user namespace"
    for ends in itself killed run; do
        make_python_bundle sleep 1000
        rm -f fifo hooked
        mkfifo fifo
        : >hooked
        # The hook makes the first process wait.
        configure 'seccomp("ALLOW", rule("ERRNO", "acct")); mount("/fifo", arguments[0] + "/fifo")
mount("/hooked", arguments[0] + "/hooked"); hook("startContainer", "echo waits >/hooked; cat /fifo")' "$PWD"
        if [[ $ends == run ]]; then
            hold "$RUNTIME" run --bundle bundle box
        else
            create_box
            hold "$RUNTIME" start box
        fi
        wait_for grep -q waits hooked
        expect 255 runtime exec --cap CAP_SYS_PTRACE box python3 -c "$REACH" 1
        stderr_has "cannot exec in container 'box': it is being started, and with CAP_SYS_PTRACE the process could"
        expect 0 runtime exec box true
        if [[ $ends == killed ]]; then
            kill -KILL "$!"
            wait "$!" || true
            expect 255 runtime exec --cap CAP_SYS_PTRACE box true
        fi
        echo goes >fifo
        wait_for runtime exec --cap CAP_SYS_PTRACE box true
        prints nothing runtime exec --cap CAP_SYS_PTRACE box python3 -c "$REACH" 1
        runtime delete --force box
    done
}

@test "a program of exec that may trace enters a container that was paused before start: the same rule applies" {
    needs_root "the runtime of a user gives each container a user namespace"
    needs_cgroups
    make_bundle sleep 1000
    create_box
    runtime pause box
    # A program that is let in is paused as well, and its runtime waits for it.
    "$RUNTIME" exec --ignore-paused --cap CAP_SYS_PTRACE box true 2>refused 3>&- &
    HELPERS+=("$!")
    wait_for grep -q "cannot exec in container 'box': it is created, and with CAP_SYS_PTRACE the process could" refused
    runtime resume box
}

# bats test_tags=user
@test "a program of exec in a user namespace that may trace never enters a container before start" {
    make_python_bundle sleep 1000
    configure "$OWN_USERS"
    create_box
    if is_rootless; then
        fails 255 "it is created, and until it is started only root may enter its user namespace" runtime exec box true
    else
        fails 1 "not to be traced" runtime exec box python3 -c "$REACH" 1
    fi
    runtime start box
    expect 0 runtime exec box python3 -c "$REACH" 1
}

@test "another container of a pod finds nothing that leads to the host in one that waits for start" {
    needs_root "the runtime of a user gives each container a user namespace"
    make_python_bundle sleep 1000
    configure 'capabilities("CAP_SYS_PTRACE")'
    start_box
    pid=$(pid_of_box)
    configure 'namespace("pid", f"/proc/{arguments[0]}/ns/pid"); hook("startContainer", "true")' "$pid"
    runtime create --bundle bundle --pid-file pid second </dev/null >/dev/null 2>&1 3>&- 7<"$PWD"
    number=$(awk '/^NSpid:/ { print $NF }' "/proc/$(<pid)/status")
    prints nothing runtime exec box python3 -c "$REACH" "$number"
    runtime start second
}

@test "a hook that is a program of the image traces its caller: the caller has no more rights than the hook" {
    needs_root "the runtime of a user gives each container a user namespace"
    cat >tracer.py <<'PYTHON'
import ctypes, os
if ctypes.CDLL(None).ptrace(0x4206, 1, None, None) == 0:
    for pid in "self", "1":
        lines = open(f"/proc/{pid}/status").read().splitlines()
        print(*[line for line in lines if line.startswith(("Cap", "Seccomp:", "NoNewPrivs:", "Uid:"))], file=open("/hooked", "a"))
PYTHON
    touch hooked
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
