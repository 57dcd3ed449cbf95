#!/usr/bin/env bats
# The agent without a snapshot file. A builder refuses modules that cannot be preloaded, with a reason. A restored
# interpreter starts cold if it cannot do something. `compare` tests that programs run as they do cold.

setup() {
    wake=$(dirname "${RUNTIME:?}")/tests/warm/wake
    cd "$BATS_TEST_TMPDIR" || return
    export PYTHONPATH=$PWD
}

# Assert that the builder refuses a module of this text: refuses TEXT REASON
refuses() {
    printf '%s\n' "$1" >subject.py
    run "$wake" --import=subject python3 -c 'print("started")'
    echo "$output"
    ((status == 125))
    [[ $output == *"wake: $2"* && $output != *started* ]]
}

# Print a preloaded module's view of threading's hook at the call itself, in the restored process and in the child of a
# fork of the program. Also print whether the hook has created its lock before: hooks [STATEMENT]
hooks() {
    cat >subject.py <<PYTHON
import os, threading
lock, called = threading._active_limbo_lock, []
${1-}
os.register_at_fork(after_in_child=lambda: called.append(threading._after_fork.__code__.co_name))
PYTHON
    run "$wake" --import=subject python3 -c 'import os, subject, threading
print(threading._active_limbo_lock is not subject.lock, flush=True)
if os.fork() == 0:
    print(subject.called, flush=True)
    os._exit(0)
os.wait()'
    echo "$output"
    ((status == 0))
}

# Make a module with a global generator of numpy. Its state in memory begins with the words, and has its position at
# OFFSET: generator OFFSET
generator() {
    cat >subject.py <<PYTHON
import ctypes, sys, types
class State(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 624), ("position", ctypes.c_int), ("other", ctypes.c_int)]
state = State()
state.words[0] = 1 + (ctypes.addressof(state) >> 12 & 0xFFFFFF) # it has no seed: each process has other addresses
first = ctypes.c_void_p(ctypes.addressof(state))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
name = b"BitGenerator"
class MT19937:
    __module__ = "numpy.random._mt19937"
    capsule = new(ctypes.addressof(first), name, None)
class RandomState:
    _bit_generator = MT19937()
    called = []
    def seed(self, seed):
        self.called.append("seed")
        state.words[0] = 0
        state.$1 = 624
    def random_sample(self):
        state.$1 = 2
    def get_state(self, legacy):
        return {"state": {"key": state.words, "pos": state.$1}}
    def set_state(self, state):
        self.called.append("set_state")
mtrand = sys.modules["numpy.random.mtrand"] = types.ModuleType("numpy.random.mtrand")
mtrand._rand = RandomState()
PYTHON
}

# Print how many texts of the agent are compiled in the builder, and in the probe: compiled WAKE
compiled() {
    cat >sitecustomize.py <<'PYTHON'
import sys
sys.compiled = getattr(sys, "compiled", []) # the probe imports this again
sys.addaudithook(lambda event, words: event == "compile" and sys.compiled.append(words[1]))
PYTHON
    echo 'import sys; count = sum(name in ("<resume>", "<probe>") for name in sys.compiled)' >texts.py
    echo 'import texts; raise ImportError(texts.count)' >subject.py
    "$1" --import=texts python3 -c 'import texts; print(texts.count)'
    ! "$1" --import=subject python3 -c 1
}

@test "the Python of the agent comes as byte code; another version of Python compiles the texts" {
    local version
    version=$(python3 -c 'import importlib.util; print(importlib.util.MAGIC_NUMBER.hex())')
    [[ $(compiled "$wake" 2>&1) == 0$'\n'"wake: import subject: ImportError: 0" ]]
    sed "s/^$version \([a-z]* <\)/00000000 \1/" "$wake" >other
    chmod +x other
    [[ $(compiled ./other 2>&1) == 5$'\n'"wake: import subject: ImportError: 12" ]]
}

@test "builder: a module that does not exist is refused by name" {
    run "$wake" --import=json --import=no_such.module python3 -c 1
    ((status == 125))
    [[ $output == "wake: import no_such.module: ModuleNotFoundError: No module named 'no_such'" ]]
}

@test "builder: a module that raises is refused with its exception" {
    refuses '1 / 0' 'import subject: ZeroDivisionError: division by zero'
}

@test "builder: a module that exits is refused" {
    refuses 'raise SystemExit(0)' 'import subject: SystemExit: 0'
}

@test "builder: a module that ends the process is refused" {
    refuses 'import os; os.kill(os.getpid(), 11)' 'the builder ended'
    refuses 'import os; os._exit(0)' 'the builder ended'
}

@test "builder: a module that writes to standard output or error is refused, because the output would be lost" {
    refuses 'print("hello")' "the imports write to standard output or error: 'hello"
    refuses 'import warnings; warnings.warn("beware")' 'the imports write to standard output or error'
    refuses 'import os; os.system("echo by a child")' 'the imports write to standard output or error'
}

@test "builder: a module that starts a thread or a process is refused" {
    refuses 'import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()' \
        "the imports start a thread ('Thread-1 (sleep)' of time.sleep), which would be missing"
    refuses 'import _thread, time; _thread.start_new_thread(time.sleep, (9,))' \
        'the imports start a thread'
    refuses 'import subprocess; child = subprocess.Popen(["sleep", "9"])' 'the imports start a process'
}

# Threads that libraries start: start(function, argument, name) and wait_for(semaphore, name) return the argument of
# pthread_join(3).
native_threads='import ctypes, threading
libc = ctypes.CDLL(None)
def start(function, argument, name=b""):
    place = ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(place), None, function, ctypes.c_void_p(argument))
    if name: libc.pthread_setname_np(place, name)
    return place
def semaphore():
    memory = ctypes.create_string_buffer(32)
    libc.sem_init(memory, 0, 0)
    return memory
def wait_for(memory, name=b""): return start(libc.sem_wait, ctypes.addressof(memory), name)
'

@test "builder: a thread of a library that never waits is refused" {
    refuses "$native_threads"'memory = ctypes.create_string_buffer(b"1" + bytes(63))
libc.pthread_spin_init(memory, 0); libc.pthread_spin_lock(memory)
start(libc.pthread_spin_lock, ctypes.addressof(memory), b"spinner")' \
        "the imports start a thread, 'spinner' of an unknown library, which does not come to rest"
}

@test "builder: a thread of a library with a special property is refused" {
    refuses "$native_threads"'thread = start(ctypes.CDLL("libsqlite3.so.0").sqlite3_sleep, 9000, b"idle")
libc.pthread_setschedparam(thread, 5, ctypes.byref(ctypes.c_int(0)))' \
        "the imports start a thread, 'idle' of '/lib/x86_64-linux-gnu/libsqlite3.so.0', which has a priority of its own"
    # sigaltstack(argument), then pause() forever.
    refuses "$native_threads"'import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("31f6b8830000000f05b8220000000f05ebf7"))
stack = (ctypes.c_ulong * 3)(ctypes.addressof(room := ctypes.create_string_buffer(65536)), 0, 65536)
start(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(code))), ctypes.addressof(stack))' \
        "the imports start a thread, 'python3' of an unknown library, which has a stack of its own for signals"
    refuses "$native_threads"'memory = semaphore()
for _ in range(65): wait_for(memory)' 'the imports start more threads than can be saved'
    refuses "$native_threads"'kept = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(argument): kept.append(argument); threading.Event().wait()
start(function, 1)
while not kept: pass' "the imports start a thread of Python, which would be missing"
}

@test "restored: waiting threads of libraries are restored with their names, and end when they may" {
    echo "$native_threads"'memory = [semaphore() for _ in range(3)]
threads = [wait_for(one, b"waiter-%d" % number) for number, one in enumerate(memory)]' >subject.py
    run "$wake" --import=subject python3 -c 'import ctypes, os, subject
def names(): return sorted(open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task"))
print(names())
for memory, thread in zip(subject.memory, subject.threads):
    subject.libc.sem_post(memory)
    print(subject.libc.pthread_join(thread, None), len(names()))'
    [[ $status == 0 && $output == "['python3', 'waiter-0', 'waiter-1', 'waiter-2']"$'\n'"0 3"$'\n'"0 2"$'\n'"0 1" ]]
}

@test "builder: a module that creates an SSL context for servers, or a connection, is refused" {
    refuses 'import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)' 'the imports make an SSL context'
    refuses 'import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS)' 'the imports make an SSL context'
    refuses 'import ssl
class Context(ssl.SSLContext): protocol = ssl.PROTOCOL_TLS_CLIENT
context = Context(ssl.PROTOCOL_TLS)' 'the imports make an SSL context'
    refuses 'import ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
connection = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")' \
        'the imports make an SSL context'
}

@test "builder: reports files, directories, absent files, modules and variables" {
    mkdir there other
    echo data >there/data
    here=$(realpath .)
    cat >subject.py <<PYTHON
import os
os.environ.get("READ_ME")
open("$here/there/data").close()
os.listdir("$here/there")
try:
    open("$here/other/not-there")
except OSError:
    pass
try:
    import not_installed
except ImportError:
    pass
PYTHON
    WAKE_REPORT=1 run "$wake" --import=subject python3 -c 1
    echo "$output"
    for record in "f$here/subject.py" "f$here/there/data" "d$here/there" "d$here" "a$here/other/not-there" msubject \
        mnot_installed eREAD_ME; do
        grep -qFx -- "$record" <<<"$output"
    done
    run grep -x -e E -e mos -e mgc -e mposix <<<"$output"
    ((status == 1))
}

@test "builder: reports that imports read all variables" {
    echo 'import os; dict(os.environ)' >subject.py
    WAKE_REPORT=1 run "$wake" --import=subject python3 -c 1
    grep -qx E <<<"$output"
}

@test "restored: a directory as standard input, which Python refuses, leads to a cold start" {
    run "$wake" python3 -c 1 </
    ((status == 125))
    [[ $output == 'wake: the agent gave up, and executed the interpreter' ]]
}

@test "restored: threading's hook for the child of a fork was called in the builder, and is called in the program's" {
    hooks
    [[ $output == $'True\n[\'nothing\', \'_after_fork\']' ]]
}

@test "restored: a replacement of the hook is not mistaken for it" {
    hooks 'def other(): raise SystemError("called")
threading._after_fork = other'
    [[ $output == $'True\n[\'other\', \'other\']' ]]
    hooks 'threading._after_fork = (lambda: [threading for _ in ()])
threading._after_fork.__module__ = "threading"'
    [[ $output == $'True\n[\'<lambda>\', \'<lambda>\']' ]]
}

@test "restored: a hook that fails is called again, so that it reports the error" {
    echo 'import threading; threading._limbo = None; threading._dangling = None' >subject.py
    run "$wake" --import=subject python3 -c 'print("ran")'
    echo "$output"
    ((status == 0))
    [[ $output == *"Exception ignored"*_after_fork*ran ]]
}

@test "restored: numpy's global generator gets its words from the kernel, if its place in memory is known" {
    generator position
    run "$wake" --import=subject python3 -c 'import subject
print(subject.mtrand._rand.called.count("set_state"), sum(map(bool, subject.state.words)) > 600, subject.state.position)'
    echo "$output"
    ((status == 0))
    [[ $output == "1 True 624" ]] # set_state() in the builder
}

@test "restored: … and through its own functions if memory differs from numpy's values" {
    generator other
    run "$wake" --import=subject python3 -c 'import subject
print(subject.mtrand._rand.called.count("set_state"), sum(map(bool, subject.state.words)), subject.state.position)'
    echo "$output"
    ((status == 0))
    [[ $output == "2 0 0" ]]
}
