#!/usr/bin/env bats
# checkpoint, restore: a Python program that waits in __pysbx_park__ continues in a new container; pysbx-runtime(8).
# images: python
# once: a process is saved and continued in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    module parking.py <"$TESTS/lib/parking.py"
    preload parking
}

# Make this the program, start it as "box", and wait until it has said that it parks.
parked() {
    program require "import os, sys
from parking import park
$1"
    start_box
    wait_for grep -q parks out || {
        cat out err
        return 1
    }
}

# Print the files of the checkpoint.
files() {
    find image -type f | sort
}

checkpoint() {
    runtime checkpoint --image-path image "$@" box
}

# Restore as "copy" in the foreground.
restore() {
    runtime restore --image-path image --bundle bundle "$@" copy </dev/null
}

# Assert that there is no checkpoint for this reason.
refused() {
    fails 1 "checkpoint of container 'box': " checkpoint
    stderr_has "$1"
    [[ ! -e image ]]
}

# bats test_tags=user
@test "a program goes on in new containers, with its memory, directory and umask, and can be saved again there" {
    parked 'numbers = [1]
os.chdir("/usr"), os.umask(0o027)
print("parks", flush=True)
while park():
    numbers.append(os.getpid())
    print(numbers, os.getcwd(), oct(os.umask(0o027)), flush=True)
    if not sys.stdin.read(): break'
    prints '' checkpoint
    stderr_is_empty
    status_is box stopped
    [[ $(<out) == parks ]]
    for _ in 1 2; do
        prints "[1, 1] /usr 0o27" restore
        stderr_is_empty
    done

    runtime delete box
    program require 'print("the checkpoint continues another program")'
    echo again | runtime restore --image-path image --bundle bundle --detach --pid-file pid box >out 2>err
    wait_for test -s out
    [[ $(<pid) == "$(pid_of_box)" ]]
    expect 0 checkpoint # of what has been restored from the same directory
    prints "[1, 1, 1] /usr 0o27" restore
}

@test "regular files that are open are opened again; if that is not possible, the program ends with the reason" {
    mkdir shared
    chmod 0777 shared
    configure 'mount("/shared", arguments[0], "rw")' "$PWD/shared"
    printf 'one\ntwo\nthree\n' >modules/lines
    parked 'lines = open("/modules/lines", "rb", buffering=0)
log = open("/shared/log", "w")
os.set_inheritable(lines.fileno(), True)
log.write("buffered "), lines.readline()
os.write(log.fileno(), b"written "), print("parks", flush=True)
park()
print(lines.fileno(), lines.read(), os.get_inheritable(3), os.get_inheritable(4))
log.write("restored"), log.close()'
    expect 0 checkpoint
    [[ $(<shared/log) == "written " ]]
    prints "3 b'two\nthree\n' True False" restore
    [[ $(<shared/log) == "written buffered restored" ]]
    expect 1 restore
    output_is ''
    stderr_has "the program cannot go on in this container: the size of '/shared/log' is not the one at the checkpoint"
    rm shared/log
    fails 1 "No such file or directory: '/shared/log'" restore
    mkfifo --mode 0666 shared/log
    fails 1 "'/shared/log' is no regular file any more" restore
}

@test "a paused container, as containerd leaves it: it can be saved, and is paused afterwards" {
    needs_cgroups
    parked 'print("parks", flush=True)
print("restored", park())'
    runtime pause box
    expect 0 checkpoint --leave-running
    status_is box paused
    expect 1 checkpoint --image-path /proc/1/none
    status_is box paused
    expect 0 checkpoint
    status_is box stopped
    prints "restored True" restore
}

@test "a thread of a library that waits comes along" {
    parked 'import ctypes
libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
memory = ctypes.create_string_buffer(64)
libc.sem_init(memory, 0, 0), libc.pthread_create(ctypes.byref(thread), None, libc.sem_wait, memory)
def count(): return len(os.listdir("/proc/self/task"))
print("parks", flush=True)
print(park(), count(), libc.sem_post(memory), libc.pthread_join(thread, None), count())'
    expect 0 checkpoint
    prints "True 2 0 0 1" restore
}

# bats test_tags=user
@test "--leave-running: the container goes on beside its copies, whose random numbers differ" {
    parked 'import random, uuid
print("parks", flush=True)
copy = park()
print("copy" if copy else "first", random.getrandbits(64), os.urandom(8), uuid.uuid4(), flush=True)'
    expect 0 checkpoint --leave-running
    status_is box running
    for _ in 1 2; do
        expect 0 restore
        [[ $output == copy* ]]
        tr ' ' '\n' <<<"$output" >>values
    done
    runtime kill box KILL
    [[ $(sort values | uniq -d) == copy ]]
}

@test "each resource that is in the way is named, and the program goes on until it can be saved" {
    module obstacles.py <<'PROGRAM'
import mmap, os, resource, signal, socket, subprocess, threading, time
from parking import park

def name(text):
    with open("/proc/self/comm", "w") as file:
        file.write(text)

def thread():
    end = threading.Event()
    threading.Thread(target=end.wait).start()
    return end

before = resource.getrlimit(resource.RLIMIT_NOFILE)
for number, (make, remove) in enumerate([
    (socket.socket, socket.socket.close),
    (lambda: [file := open("/etc/passwd"), os.dup(file.fileno())], lambda pair: [pair[0].close(), os.close(pair[1])]),
    (os.pipe, lambda pair: [os.close(end) for end in pair]),
    (lambda: subprocess.Popen(["sleep", "60"]), lambda child: (child.kill(), child.wait())),
    (thread, lambda end: (end.set(), time.sleep(0.2))),
    (lambda: signal.alarm(1000), lambda _: signal.alarm(0)),
    (lambda: mmap.mmap(-1, 4096), lambda memory: memory.close()),
    (lambda: open("/tmp/kept", "w").close(), lambda _: os.unlink("/tmp/kept")),
    (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, before[1])),
     lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, before)),
    (lambda: name("other"), lambda _: name("python3")),
]):
    made = make()
    print("parks", number, flush=True)
    while not os.path.exists(f"/modules/{number}"):
        park(-1, 20)
    remove(made)
print("parks at last", flush=True)
print(park())
PROGRAM
    program require 'import obstacles'
    start_box
    local number=0 reason
    for reason in "descriptor 3 is open (socket:[" "descriptor 3 is open (/etc/passwd)" "descriptor 3 is open (pipe:[" \
        "(sleep) is running besides its program" "a thread of Python is running" "a timer runs" "shared" \
        "its tmpfs '/tmp' has files (kept)" "it has changed its resource limits" "it has changed its 'Name'"; do
        wait_for grep -q "parks $number" out || { cat out err && return 1; }
        refused "$reason"
        touch "modules/$number"
        number=$((number + 1))
    done
    wait_for grep -q "parks at last" out
    expect 0 checkpoint
    prints True restore
}

@test "a program that does not park, a cold one, a stopped or missing container, and a process of exec are refused" {
    parked 'import time
print("parks", flush=True)
time.sleep(1000)'
    refused "does not wait in __pysbx_park__: see Checkpoints in pysbx-runtime(8)"
    runtime kill box KILL
    wait_for status_is box stopped
    refused "it is stopped"
    runtime delete box
    refused "container 'box' does not exist"

    program off 'import time
time.sleep(1000)'
    start_box
    refused "its program is no Python that was started warm: see Checkpoints in pysbx-runtime(8)"
    runtime delete --force box

    parked 'print("parks", flush=True)
park()'
    runtime exec --detach box sleep 1000 </dev/null >/dev/null 2>&1
    refused "(sleep) is running besides its program"
    runtime delete --force box
    runtime create --bundle bundle box </dev/null >out 2>&1
    refused "it is created"
}

both_run() {
    [[ $(stat --format %u /proc/[0-9]* 2>/dev/null | grep -cx 54321) -ge 3 ]]
}

@test "a fork that fails is an obstacle, and the program goes on until it can be saved" {
    needs_root "another process of the same user uses up its limit"
    configure 'process["user"] = {"uid": 54321, "gid": 54321}
process["rlimits"] = [{"type": "RLIMIT_NPROC", "soft": 3, "hard": 3}]
process["capabilities"] = {}'
    parked 'print("parks", flush=True)
print("restored", park())'
    hold setpriv --reuid 54321 --clear-groups sleep 1000
    hold setpriv --reuid 54321 --clear-groups sleep 1000
    wait_for both_run
    refused "Resource temporarily unavailable"
    kill "${HELPERS[@]}"
    wait_for checkpoint
    prints "restored True" restore
}

@test "park: a descriptor, the time and a signal end the wait; a checkpoint does not" {
    program require 'import signal
from parking import park
print(park(0), input(), park(-1, 10))
signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    park()
except ZeroDivisionError:
    print("handled")'
    prints $'False text False\nhandled' runtime run --bundle bundle box <<<text
}

reaped() {
    [[ -z $(<"/proc/$1/task/$1/children") ]]
}

@test "without room, or if the runtime is killed: the old checkpoint stays, and the program goes on" {
    parked 'print("parks", flush=True)
print("restored", park())'
    expect 0 checkpoint --leave-running
    files >listed
    expect 1 bash -c 'ulimit -f 1000; "$@"' _ "$RUNTIME" --root "$RUNTIME_STATE" checkpoint --image-path image box
    stderr_has "write the snapshot"
    files | diff listed -
    status_is box running
    prints "restored True" restore

    expect 137 strace -q -o trace -e 'inject=/^renameat:signal=KILL:when=1' "$RUNTIME" --root "$RUNTIME_STATE" \
        checkpoint --image-path image box
    [[ $(files | wc -l) == 4 ]]
    prints "restored True" restore
    expect 1 checkpoint # the fork ends after 30 seconds, or now
    stderr_has "is running besides its program"
    first=$(pid_of_box)
    kill -KILL "$(tr -d ' ' <"/proc/$first/task/$first/children")"
    wait_for reaped "$first"
    expect 0 checkpoint
    [[ $(files | wc -l) == 2 ]]
}

@test "a file that has the name of the new inventory is replaced, and neither written to nor waited for" {
    parked 'print("parks", flush=True)
print("restored", park())'
    mkdir image
    echo precious >kept
    ln kept image/inventory.img.new
    expect 0 checkpoint --leave-running
    [[ $(<kept) == precious ]]
    mkfifo image/inventory.img.new
    expect 0 checkpoint
    [[ $(find image -mindepth 1 | wc -l) == 2 ]]
    prints "restored True" restore
}

# bats test_tags=user
@test "a directory that is damaged, of another program, open to others, or without a checkpoint is refused" {
    parked 'print("parks", flush=True)
print("restored", park())'
    fails 1 "open the directory 'image' of the checkpoint" restore
    mkdir image
    fails 1 "'image' has no checkpoint" restore
    expect 0 checkpoint
    [[ $(stat -c %a image/* | sort -u) == 600 ]]

    cp -a image whole
    printf x | dd of="$(echo image/process-*)" bs=1 seek=100000 conv=notrunc status=none
    fails 1 "is damaged" restore
    rm -r image && cp -a whole image
    truncate --size -4096 image/process-*
    fails 1 "is damaged" restore
    rm image/process-*
    fails 1 "does not exist" restore
    for text in '{"format": "pysbx checkpoint, version 2"}' $'VT\x01\x02CRIU' '[]' ''; do
        printf %s "$text" >image/inventory.img
        fails 1 "has another format" restore
    done
    sed 's|process-|../whole/process-|' whole/inventory.img >image/inventory.img
    fails 1 "is damaged" restore
    chmod 0777 whole
    fails 1 "other users must not be allowed to write there" runtime restore --image-path whole --bundle bundle copy
    chmod 0700 whole
    chmod 0644 whole/process-*
    fails 1 "is not private" runtime restore --image-path whole --bundle bundle copy
    expect 1 runtime state copy
}

@test "the options that crun and runc have for it: harmless ones are taken, others are refused by name" {
    parked 'print("parks", flush=True)
print("restored", park())'
    for option in --pre-dump --lazy-pages --parent-path=other --page-server=1.2.3.4:5; do
        fails 1 "unknown flag: ${option%%=*}" checkpoint "$option"
    done
    expect 0 checkpoint --work-path work --tcp-established --ext-unix-sk --shell-job --file-locks \
        --manage-cgroups-mode soft
    prints "restored True" restore --work-path work --tcp-established --ext-unix-sk --shell-job --file-locks \
        --manage-cgroups-mode=soft -no-subreaper # containerd writes one dash
    for option in checkpoint restore; do
        expect 0 runtime "$option" --help
        output_lacks pre-dump
    done
    expect 1 runtime restore --lsm-mount-context # Podman infers support of pods from the word "argument"
    [[ $stderr != *argument* ]]
}
