#!/usr/bin/env bats
# The end of a restored interpreter: its visible effects are those of a cold one, and the rest is skipped.
# images: python pandas pandas-bullseye pandas-trixie pandas-forky
# once: an interpreter ends in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "finalizers of preloaded modules run, in the same order" {
    preload_module final <<<'import json
kept = []
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone", self.name, json and json.__name__)
def generate():
    try: yield
    finally: print("closed")
loud, other, cycle, generator = Loud("one"), Loud("two"), Loud("cycle"), generate()
cycle.itself = cycle
next(generator)'
    same -c 'import final; print("ran")'
    output_has "gone cycle"
    same -c 'import final; final.kept.append(final.Loud("of the program")); own = final.Loud("own"); print("ran")'
}

# Print the number of page faults of a container with a preloaded module that ends. The module has so much memory to
# free that the runtime's own faults matter little, with sanitizers too.
faults_of_end_with() {
    module "ends_$1.py" <<<"things = [[number] for number in range(300000)]
$2"
    preload "ends_$1"
    warm -c pass # builds the snapshot
    python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt)' "$RUNTIME" run --bundle bundle box
}

# An object whose finalizer only frees memory does not make the process free all memory of the snapshot.
spares_the_end() {
    use_image "$1"
    local name most faults
    local -A holders=(
        [memory]='import io; kept = io.BytesIO(b"text")' # pandas
        [closed]='kept = open(__file__); kept.close()'   # nltk
    )
    # requests, scipy; before 3.11 this is not detectable.
    if cold -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        holders[generator]='def numbers(): yield 1; yield 2
kept = numbers(); next(kept)'
        holders[tracker]='import multiprocessing.resource_tracker' # scikit-learn
        holders[condition]='kept = (number for number in range(9) if str(number)); next(kept)' # pytz
    fi
    most=$(faults_of_end_with acts 'class Acts:
    def __del__(self): pass
kept = Acts()')
    for name in "${!holders[@]}"; do
        faults=$(faults_of_end_with "$name" "${holders[$name]}")
        echo "$name: $faults faults of $most"
        ((faults * 2 < most))
    done
    # nanobind (duckdb) counts its objects at the end of the process, and reports leaks.
    faults=$(faults_of_end_with nanobind 'class nb_type(type): __module__ = "nanobind"
class Bound(metaclass=nb_type): pass')
    ((faults * 2 > most))
}

@test "the end skips the snapshot's objects, even if imports left finalizers without effect; this distribution" {
    spares_the_end python
}

# bats test_tags=all
@test "the end skips the snapshot's objects, even if imports left finalizers without effect; another Python" {
    spares_the_end pandas-trixie
}

# bats test_tags=all
@test "the end skips the snapshot's objects, even if imports left finalizers without effect; the oldest Python" {
    spares_the_end pandas-bullseye
}

@test "the end skips the snapshot's objects, even if imports left finalizers without effect; the newest Python" {
    spares_the_end pandas-forky
}

@test "an object of the imports does have an effect at the end: a reopened file, a process" {
    preload_module held <<<'import multiprocessing.resource_tracker as tracker
file = open(__file__); file.close()'
    same -c 'import sys
file = __import__("held").file; file.__init__(sys.stdout.buffer); file.write("still in the buffer"); del file'
    output_is "still in the buffer"
    same -c '__import__("held").tracker.ensure_running(); print("ran")'
    preload_module memory <<<'import io
stream = io.BytesIO()
stream.itself = stream # the count of references alone does not call close'
    same -c 'import os; __import__("memory").stream.close = lambda write=os.write: write(1, b"closed")'
    output_is closed
    # The question whether a stream is closed may raise any exception.
    same -c 'import io
class Half:
    readable = writable = seekable = lambda self: False
stream = io.TextIOWrapper(Half()); print("ran")'
}

# Make a module with many classes and interned strings, and a library, /modules/lib.so, whose functions write directly.
make_ending() {
    module ending.py <<<'import sys
kept = [sys.intern("name %d" % number) for number in range(40000)]
kinds = [type("Kind%d" % number, (), {"number": number}) for number in range(2000)]'
    gcc -shared -fPIC -o modules/lib.so -x c - <<'END'
#include <unistd.h>
static void say(const char *text, int size) { (void)!write(2, text, size); }
void registered(void) { say("registered\n", 11); }
__attribute__((destructor)) static void destroyed(void) { say("destroyed\n", 10); }
END
    preload ending,json,traceback # which prints exceptions since 3.13
}

# Print the faults of a warm container that runs a program and ends with a status.
faults_of() {
    cold -c pass # has the program's configuration
    configure 'config["annotations"]["run.pysbx.warm"] = "require"; process["args"] = ["python3", "-c", arguments[0]]' "$2"
    python3 -c 'import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
assert status == int(sys.argv[1]), status
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt)' "$1" "$RUNTIME" run --bundle bundle box
}

# Assert that types and strings of the snapshot are not freed at any kind of end, and that the status is right. The
# faults are at most this many percent of those of a complete end.
ends_shortly() {
    use_image "$1"
    make_ending
    warm -c pass
    local whole faults none
    none=$(faults_of 0 'import os; os._exit(0)') # those of the runtime, which are many with sanitizers
    whole=$(faults_of 3 'import ctypes, sys; lib = ctypes.CDLL("/modules/lib.so"); ctypes.pythonapi.Py_AtExit(lib.registered); sys.exit(3)')
    while read -r status program; do
        faults=$(faults_of "$status" "$program")
        echo "$status, $program: $faults faults of $whole, $none without an end"
        (((faults - none) * 100 < (whole - none) * $2))
    done <<'END'
0 pass
3 import sys; sys.exit(3)
1 import sys; sys.exit("a text")
1 1 / 0
4 import json, sys; json.loads("[]", object_hook=sys.exit); (lambda: exec("raise SystemExit(4)"))()
END
}

@test "the end is short, for every exit status" {
    ends_shortly python 50
}

@test "the end is short: Python 3.9, as in Debian 11, which does not free strings" {
    ends_shortly pandas-bullseye 80
}

# bats test_tags=all
@test "the end is short: Python 3.13, as in Debian 13" {
    ends_shortly pandas-trixie 50
}

@test "the end is short: Python 3.14, as in Debian 14" {
    ends_shortly pandas-forky 50
}

@test "the exit status: of a signal, of streams that cannot be flushed, of a thread that runs on" {
    same -c 'raise KeyboardInterrupt'
    same -c 'import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()'
    same -c 'import os; os.dup2(os.open("/dev/full", os.O_WRONLY), 1); print("a line")'
    [[ $(<warm.code) == 120 ]]
    same -c 'import os, sys; os.dup2(os.open("/dev/full", os.O_WRONLY), 1); print("a line"); sys.exit(3)'
    same -c 'import os; os.dup2(os.open("/dev/full", os.O_WRONLY), 2); import sys; sys.stderr.write("half a line")'
    same -c 'import sys; sys.stdout.close()'
    same -c 'import sys; sys.stdout = sys.__stdout__ = None; sys.exit(5)'
    same -c 'import sys; sys.stdout.detach(); sys.exit(6)'
    same -c 'import sys
class Loud:
    write = lambda self, text: None
    flush = lambda self: print("flushed", file=sys.__stderr__)
sys.stdout = Loud(); sys.exit(7)'
    same -c 'import sys; write = sys.stdout.write; sys.stdout.flush = lambda: write("flushed\n")'
    same -c 'import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
threading.Thread(target=lambda: (time.sleep(0.1), print("last"))).start()
raise SystemExit(8)'
    same -c 'import os
for status in range(3):
    if os.fork() == 0: raise SystemExit(status)
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3)))'
}

@test "last calls happen: functions of Py_AtExit, destructors of libraries, libc's flush" {
    make_ending
    same -c 'import ctypes; lib = ctypes.CDLL("/modules/lib.so")
libc = ctypes.CDLL(None); libc.printf(b"still in the buffer\n")'
    output_is "still in the buffer"
    diff warm.err <(echo destroyed)
    same -c 'import ctypes; lib = ctypes.CDLL("/modules/lib.so"); ctypes.pythonapi.Py_AtExit(lib.registered)'
    diff warm.err <(printf '%s\n' registered destroyed)
}

@test "finalizers of a program's objects in a preloaded module run, also when frozen: gc.freeze" {
    preload_module hooks <<<'kept = []'
    same -c 'import gc, hooks
class Loud:
    def __del__(self): print("gone")
hooks.kept.append(Loud())
gc.freeze()'
    output_is gone
}

@test "exit handlers that a program calls by itself do not end it" {
    same -c 'import atexit, json, sys
class Last:
    def __del__(self): print("deleted", sys.is_finalizing())
last = Last()
atexit.register(print, "called"); atexit._run_exitfuncs()
print("json" in sys.modules, __import__("json") is json); sys.exit(3)'
    output_has "True True"
}

@test "a program that has filled its memory with small objects ends as it does cold" {
    same -c 'import resource
resource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2)
kept = []
try:
    while True: kept.append([])
except MemoryError: pass'
    [[ ! -s warm.err && $(<warm.code) == 0 ]]
}
