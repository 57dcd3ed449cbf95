#!/usr/bin/env bats
# warm save, run --snapshot: a parked process continues in a new container; pysbx-runtime(8), "PREWARMED PYTHON".
# images: python pandas pandas-trixie pandas-forky numexpr
# once: a restored process forks in the same way in both modes

load ../lib/warm.bash

# A test defines the bundle's program: `session TEXT`. The program has a function fork(), which parks the fork and
# reports on /shared/parked. It also has wait(), which returns in the first process after `release`.
setup() {
    begin_test
    use_container python
}

# Make the bundle of an image.
use_container() {
    rm -rf bundle modules shared
    use_image "$1"
    mkdir shared
    chmod 0777 shared
    configure 'mount("/shared", arguments[0], "rw"); mount("/tmp", "tmpfs", kind="tmpfs")' "$PWD/shared"
    module forking.py <"$TESTS/lib/forking.py"
    preload forking
}

# Make this the program, start it as "box", and wait until its fork is parked.
session() {
    program require "from forking import fork, wait
$1"
    start_box
    wait_for test -s shared/parked || {
        cat out err
        return 1
    }
}

# Print the fork's pid on the host.
parked() {
    local init
    init=$(pid_of_box)
    cut -d ' ' -f 1 "/proc/$init/task/$init/children"
}

save() {
    prints '' runtime warm save box "$(parked)" "${1:-saved}"
}

# Continues the snapshot as the container "fork".
continue_as_fork() {
    runtime run --bundle bundle --snapshot "${1:-saved}" fork </dev/null
}

# Let the first process continue, and wait for its end.
release() {
    touch shared/release
    wait_for status_is box stopped
}

# Compare two continuations of one snapshot and their original process, in a container of this image.
share_no_chance() {
    use_container "$1"
    session 'import os, random, ssl, tempfile, uuid, numpy
tempfile.mktemp(), ssl.RAND_bytes(8), random.random(), os.urandom(8), numpy.random.rand()
mine = numpy.random.default_rng(5)
if fork(): wait()
print("urandom", os.urandom(8).hex())
print("random", random.getrandbits(64))
print("uuid1", uuid.uuid1())
print("uuid4", uuid.uuid4())
print("tempfile", os.path.basename(tempfile.mktemp()))
print("RAND_bytes", ssl.RAND_bytes(8).hex())
print("numpy", numpy.random.randint(1 << 62))
print("made", mine.integers(1 << 62))'
    save
    for _ in 1 2; do
        expect 0 continue_as_fork
        printf '%s\n' "$output" >>values
    done
    release
    cat out >>values
    [[ $(wc -l <values) == 24 && $(sort values | uniq -d) == "$(tail -n 1 out)" ]]
}

# Run a session that computes, in a container of this image.
keeps_its_tables() {
    use_container "$1"
    session 'import pandas
frame = pandas.DataFrame({"key": [n % 3 for n in range(3000)], "value": range(3000)})
totals = frame.groupby("key").value.sum()
if fork():
    wait()
else:
    frame.loc[:, "value"] = 1
print(totals.tolist(), frame.groupby("key").value.sum().tolist())'
    save
    prints "[1498500, 1499500, 1500500] [1000, 1000, 1000]" continue_as_fork
    release
    [[ $(<out) == "[1498500, 1499500, 1500500] [1498500, 1499500, 1500500]" ]]
}

@test "a fork continues from the state of its process, which runs on undisturbed" {
    session 'import os
state = {"numbers": list(range(5))}
pid = fork()
state["numbers"].append("fork" if pid == 0 else "first")
if pid: wait()
print(state["numbers"], os.getpid())'
    save
    prints "[0, 1, 2, 3, 4, 'fork'] 1" continue_as_fork
    stderr_is_empty
    release
    [[ $(<out) == "[0, 1, 2, 3, 4, 'first'] 1" ]]
}

@test "a fork of a fork continues as well, and a snapshot can be continued several times" {
    session 'steps = ["first"]
if fork() == 0:
    steps.append("fork")
    if fork() == 0:
        steps.append("deeper")
    else:
        wait()
else:
    wait()
print(steps)'
    save one
    rm shared/parked
    runtime run --detach --bundle bundle --snapshot one fork </dev/null >fork.out 2>&1
    wait_for test -s shared/parked
    init=$(state_of fork pid)
    expect 0 runtime warm save fork "$(cut -d ' ' -f 1 "/proc/$init/task/$init/children")" two
    for _ in 1 2; do
        prints "['first', 'fork', 'deeper']" runtime run --bundle bundle --snapshot two deeper </dev/null
    done
}

@test "create and start continue a snapshot, too" {
    session 'import sys
if fork(): wait()
else: print("continued", sys.argv)'
    save
    runtime create --bundle bundle --snapshot saved fork </dev/null >fork.out 2>&1
    runtime start fork
    wait_for test -s fork.out
    [[ $(<fork.out) == "continued ['-c']" ]]
}

@test "two continuations of one snapshot share no entropy except seeded generators; this distribution" {
    share_no_chance pandas
}

# bats test_tags=all
@test "two continuations of one snapshot share no entropy except seeded generators; glibc 2.41 (Debian 13)" {
    share_no_chance pandas-trixie
}

@test "two continuations of one snapshot share no entropy except seeded generators; glibc 2.43 (Debian 14)" {
    share_no_chance pandas-forky
}

@test "pandas continues computing in a fork; this distribution" {
    keeps_its_tables pandas
}

# bats test_tags=all
@test "pandas continues computing in a fork; Debian 13" {
    keeps_its_tables pandas-trixie
}

@test "pandas continues computing in a fork; Debian 14" {
    keeps_its_tables pandas-forky
}

@test "threads of numexpr: in the process that forks, and in the fork" {
    use_container numexpr
    session 'import numexpr, numpy
numexpr.set_num_threads(2)
numbers = numpy.arange(1000000.0)
print(numexpr.evaluate("numbers + 1")[-1])
if fork(): wait()
print(numexpr.evaluate("sum(numbers * 2)"), numexpr.set_num_threads(1))'
    save
    expect 0 continue_as_fork
    output_is "1000000.0
999999000000.0 2"
    release
    [[ $(<out) == "$output" ]]
}

# A thread without a Python thread state, and a function that it may run.
native_thread='import ctypes, os
libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
memory = ctypes.create_string_buffer(64)
def start(function): libc.pthread_create(ctypes.byref(thread), None, function, memory)
def count(): return len(os.listdir("/proc/self/task"))
'

@test "waiting threads of libraries: in the process that forks, and in the fork" {
    session "$native_thread"'libc.sem_init(memory, 0, 0)
start(libc.sem_wait)
child = fork()
if child: wait()
print(count(), libc.sem_post(memory), libc.pthread_join(thread, None), count())'
    save
    for _ in 1 2; do
        prints "2 0 0 1" continue_as_fork
    done
    release
    [[ $(<out) == "2 0 0 1" ]]
}

@test "threads of libraries that never wait: only in the process that forks, as after os.fork()" {
    session "$native_thread"'libc.pthread_spin_init(memory, 0); libc.pthread_spin_lock(memory)
start(libc.pthread_spin_lock)
if fork(): wait()
print(count())'
    save
    prints 1 continue_as_fork
    release
    [[ $(<out) == 2 ]]
}

@test "warm save --kill: the process is killed, also if it cannot be saved" {
    session 'if fork(): wait()'
    fork=$(parked)
    expect 0 runtime warm save --kill box "$fork" saved
    wait_for grep -q '^State:.Z' "/proc/$fork/status"
    expect 0 continue_as_fork
    runtime delete --force box
    use_container python
    session 'kept = open("/tmp/a", "w")
if fork(): wait()'
    fork=$(parked)
    fails 1 "descriptor 3 is open" runtime warm save --kill box "$fork" other
    wait_for grep -q '^State:.Z' "/proc/$fork/status"
}

@test "the fork has the filter, the capabilities and the descriptors of its container" {
    configure 'config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 18}]}
process["noNewPrivileges"] = True'
    session 'import os
if fork(): wait()
print(os.getppid()) # the C library says that it cannot fail
status = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines())
print(status["CapEff"], status["NoNewPrivs"], os.listdir("/proc/self/fd"))'
    save
    expect 0 continue_as_fork
    local forked=$output
    [[ $forked == -18* ]]
    release
    [[ $(<out) == "$forked" ]]
}

@test "warm save: an obstacle is named, nothing is written, and the process runs on" {
    session 'kept = open("/tmp/a\n\x1b[31mb", "w")
fork()
wait()
print("went on")'
    fails 1 'descriptor 3 is open (/tmp/a\x0a\x1b[31mb)' runtime warm save box "$(parked)" saved
    [[ ! -s saved ]]
    release
    [[ $(<out) == *"went on" ]]
}

@test "warm save: a file that is open for reading is named as well, because another container may lack it" {
    session 'kept = open("/etc/passwd")
fork()
wait()'
    fails 1 "descriptor 3 is open (/etc/passwd)" runtime warm save box "$(parked)" saved
}

@test "warm save: only a process of the container that has parked itself" {
    session 'if fork(): wait()'
    fails 1 "does not wait in" runtime warm save box "$(pid_of_box)" saved
    hold sleep 60
    fails 1 "is not one of container 'box'" runtime warm save box $! saved
    fails 1 "process 1" runtime warm save box 1 saved
    fails 1 "process 4194304" runtime warm save box 4194304 saved
    fails 1 "'one' is not a process id" runtime warm save box one saved
    fails 1 "container 'none' does not exist" runtime warm save none "$(parked)" saved
    [[ ! -s saved ]]
    # All of them are alive.
    status_is box running
    fork=$(parked)
    runtime kill box KILL
    expect 1 runtime warm save box "$fork" saved
}

@test "warm save, --snapshot: only a regular file that others cannot open" {
    session 'if fork(): wait()'
    : >open
    chmod 0644 open
    fails 1 "is not private" runtime warm save box "$(parked)" open
    (umask 077 && echo content >full)
    fails 1 "the file is not empty" runtime warm save box "$(parked)" full
    mkfifo pipe
    fails 1 "it is not a regular file" runtime warm save box "$(parked)" pipe
    save
    [[ $(stat -c %a saved) == 600 ]]

    fails 1 "it is not a snapshot" continue_as_fork full
    fails 1 "it is not a regular file" continue_as_fork pipe
    fails 1 "open snapshot 'none': does not exist" continue_as_fork none
    chmod 0604 saved
    fails 1 "is not private" continue_as_fork
}

@test "--snapshot: a builder's snapshot begins a program, and continues none" {
    preload json
    expect 0 warm -c 'pass'
    fails 1 "it is not the snapshot of a session" continue_as_fork "$(warm_store)/$(runtime warm list --quiet | head -n 1)"
}

@test "--snapshot: a cold start never replaces the session" {
    session 'if fork(): wait()
else: print("continued")'
    save
    configure 'config["annotations"]["run.pysbx.warm"] = "off"'
    fails 1 "switched off" continue_as_fork
    configure 'config["annotations"]["run.pysbx.warm"] = "auto"; process["args"] = ["sh", "-c", "echo cold"]'
    fails 1 "the program is not CPython" continue_as_fork
    configure 'process["args"] = ["python3", "-V"]'
    fails 1 "-V asks for the version" continue_as_fork
    configure 'process["args"] = ["python3", "-c", "print(1)"]'
    prints continued continue_as_fork
}

@test "--snapshot: a mapped file that has changed is an error that names it" {
    own_root python
    session 'import _json
if fork(): wait()'
    save
    library=$(find root -name 'libc.so.6' -type f | head -n 1)
    cp "$library" new
    mv new "$library"
    fails 1 "libc" continue_as_fork
    stderr_has "has been replaced"
}

@test "--snapshot: another build of the runtime, whose agent the session has not mapped, is an error" {
    session 'if fork(): wait()'
    save
    use_other_build
    fails 1 "the snapshot was made by another build of the runtime" continue_as_fork
}
