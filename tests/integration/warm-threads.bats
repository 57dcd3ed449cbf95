#!/usr/bin/env bats
# Libraries that start threads when they are imported: a warm start has the same threads as a cold one, with the C
# libraries of several distributions.
# images: python pandas pandas-trixie pandas-forky numexpr
# once: threads are restored in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "numexpr, which starts threads when it is imported: they exist, and compute" {
    use_image numexpr
    preload numexpr
    same -c 'import numexpr, numpy, os
threads = len(os.listdir("/proc/self/task"))
numbers = numpy.arange(1000000.0)
print(numexpr.evaluate("sum(numbers * 2)"), numexpr.evaluate("numbers + 1")[-1], numexpr.set_num_threads(1))
print(threads - len(os.listdir("/proc/self/task")), numexpr.evaluate("sum(numbers)")) # numpy starts its own on demand'
    output_has "999999000000.0 1000000.0"
}

# A library that starts threads when it is imported: three that wait for a semaphore each.
waiting_threads='import ctypes
libc = ctypes.CDLL(None)
semaphores = [ctypes.create_string_buffer(32) for _ in range(3)]
threads = [ctypes.c_ulong() for _ in range(3)]
errors = []
for semaphore, thread in zip(semaphores, threads):
    libc.sem_init(semaphore, 0, 0)
    errors.append(libc.pthread_create(ctypes.byref(thread), None, libc.sem_wait, semaphore))
    if not errors[-1]: libc.pthread_setname_np(thread, b"waiter")
one = ctypes.c_ulong(1) # the first CPU
if not errors[1]: libc.pthread_setaffinity_np(threads[1], ctypes.sizeof(one), ctypes.byref(one))'

keep_waiting() {
    preload_module waiting <<<"$waiting_threads"
    same -c 'import ctypes, os, time, waiting
def show(count):
    while len(os.listdir("/proc/self/task")) > count:
        time.sleep(0.001) # waiting threads are woken before the kernel has removed the thread
    for number in sorted(map(int, os.listdir("/proc/self/task"))):
        task = dict(line.split(":\t", 1) for line in open(f"/proc/self/task/{number}/status").read().splitlines())
        print(task["Name"], task["SigBlk"], task["CapEff"], sorted(os.sched_getaffinity(number)))
def started(number):
    return "SigBlk:\t0000000000000000" in open(f"/proc/self/task/{number}/status").read()
while not all(map(started, os.listdir("/proc/self/task"))): # a new thread blocks signals for a moment
    time.sleep(0.01)
time.sleep(0.2) # until the cold ones wait
show(4)
os.setuid(os.getuid()) # a call that the C library runs in all threads
for left, semaphore, thread in zip((3, 2, 1), waiting.semaphores, waiting.threads):
    code = ctypes.c_long(7)
    waiting.libc.sem_post(semaphore)
    print(waiting.libc.pthread_join(thread, ctypes.byref(code)), code.value)
    show(left)'
    output_has "waiter 0000000000000000 "
    output_has " [0]
"
}

@test "threads that a library starts when it is imported: they exist, wait, and end; glibc 2.36 (Debian 12)" {
    keep_waiting
}

# bats test_tags=all
@test "threads that a library starts when it is imported: they exist, wait, and end; glibc 2.41 (Debian 13)" {
    use_image pandas-trixie
    keep_waiting
}

# Since 2.42 the stacks of threads end in guard pages. Since 2.43 the kernel clears a word other than the thread's id.
@test "threads that a library starts when it is imported: they exist, wait, and end; glibc 2.43 (Debian 14)" {
    use_image pandas-forky
    keep_waiting
}

@test "threads with the name of jemalloc's, which pyarrow starts" {
    preload_module waiting <<<"${waiting_threads/waiter/jemalloc_bg_thd}"
    same -c 'import os, waiting
print(sorted(open(f"/proc/self/task/{number}/comm").read() for number in os.listdir("/proc/self/task")))'
    output_has "'jemalloc_bg_thd\n', 'jemalloc_bg_thd\n', 'jemalloc_bg_thd\n'"
}

@test "threads that a library starts when it is imported: by exec, and where the library itself could not start them" {
    preload_module waiting <<<"$waiting_threads"
    local show='import os, waiting; print(waiting.errors, len(os.listdir("/proc/self/task")))'
    program require 'import time; print("ready", flush=True); time.sleep(1000)'
    start_box
    prints "[0, 0, 0] 4" runtime exec box python3 -c "$show"
    runtime delete --force box
    # The user has no other process in the container's user namespace, if it has one.
    is_rootless || configure 'process["user"] = {"uid": 54321, "gid": 54321}'
    prints "[0, 0, 0] 4" warm -c "$show"
    configure 'process["rlimits"].append({"type": "RLIMIT_NPROC", "soft": 2, "hard": 2})'
    expect 0 either -c "$show" # cold, because otherwise there would be two threads less than it expects
    output_is "[0, 11, 11] 2"
}

@test "numpy and pandas: a computation, threads of the library, this distribution" {
    use_image pandas
    preload numpy,pandas
    same -c 'import numpy, pandas, threading
frame = pandas.DataFrame({"key": [1, 2, 1, 3] * 1000, "value": range(4000)})
print(frame.groupby("key").value.agg(["sum", "mean", "count"]))
a = numpy.arange(250000.0).reshape(500, 500); print((a @ a).sum(), numpy.linalg.det(numpy.eye(50) * 2))
print(threading.active_count(), len(__import__("os").listdir("/proc/self/task")) >= 1)'
}

compute() {
    use_image "$1"
    preload numpy,pandas
    same -c 'import numpy, pandas
frame = pandas.DataFrame({"key": [1, 2, 1, 3] * 1000, "value": range(4000)})
print(frame.groupby("key").value.agg(["sum", "mean", "count"]))
a = numpy.arange(250000.0).reshape(500, 500); print((a @ a).sum(), numpy.linalg.det(numpy.eye(50) * 2))'
}

# bats test_tags=all
@test "numpy and pandas: a computation, threads of the library, Debian 13" {
    compute pandas-trixie
}

@test "numpy and pandas: a computation, threads of the library, Debian 14" {
    compute pandas-forky
}

@test "limits too small for numpy: it ends with an error, and nothing of it has run" {
    use_image pandas
    preload numpy,pandas
    expect 0 warm -c 'pass'
    configure 'process["rlimits"] += [{"type": "RLIMIT_AS", "soft": 60 << 20, "hard": 60 << 20}]'
    expect '[1-9]*' either -c 'import pandas; print("ran")'
    output_is ""
    [[ $stderr ]]
}

@test "a library of the program may have functions of any name, also the agent's" {
    mkdir modules
    printf 'long %s(void) { __builtin_trap(); }\n' libraries library_of_thread rest_threads threads_fork threads_start |
        gcc -shared -fPIC -nostdlib -o modules/names.so -x c -
    configure 'mount("/modules", arguments[0])' "$PWD/modules"
    environment LD_PRELOAD=/modules/names.so
    same -c 'import ctypes; print(hasattr(ctypes.CDLL(None), "threads_fork"))'
    output_is True
}

@test "a filter that hides threads: cold, with the reason, unless there is only one" {
    configure 'seccomp("ALLOW", rule("ERRNO", "tgkill"))'
    preload json
    same -c 'import json; print(json.dumps([1]))'
    preload_module waiting <<<"$waiting_threads"
    is_cold_because "threads cannot be found, because tgkill(2) is refused"
}
