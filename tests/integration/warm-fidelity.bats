#!/usr/bin/env bats
# A restored interpreter is not to be told from a fresh one: the process, the interpreter, what it can do afterwards.
# Every program runs cold and warm in containers of the same configuration; tests/warm has more of them.
# images: python pandas pandas-trixie pandas-forky numexpr

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "the process: executable, name, command line, environment, root and directory in /proc" {
    same -c 'import os
for name in ("comm", "cmdline", "environ", "cgroup", "oom_score_adj", "loginuid", "setgroups", "timerslack_ns"):
    try:
        print(name, open("/proc/self/" + name, "rb").read())
    except OSError as error:
        print(name, error.strerror)
for name in ("exe", "cwd", "root"):
    print(name, os.readlink("/proc/self/" + name))' one two
    output_has "exe /usr/bin/python3"
    output_has "comm b'python3"
}

@test "the process: state, signals, privileges in /proc/self/status" {
    configure 'capabilities("CAP_CHOWN", "CAP_NET_BIND_SERVICE"); process["noNewPrivileges"] = True'
    same -c 'skip = ("Vm", "Rss", "Hugetlb", "Cpus", "Mems", "voluntary", "nonvoluntary", "x86_Thread", "untag", "Speculation", "SigQ")
print("".join(line for line in open("/proc/self/status") if not line.startswith(skip)))'
    output_has "Threads:"
}

@test "the process: its threads, parent, session, descriptors" {
    same -c 'import os
print(os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")[:3])
print(sorted(os.listdir("/proc/self/fd"))[:-1], os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
print(os.umask(0), os.getcwd(), os.sched_getaffinity(0))'
}

@test "the process: of the host, the snapshot and the agent alone are mapped, and neither can be written" {
    local program='print(*sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5}), sep="\n")'
    cold -c "$program" | sort >cold.names
    warm -c "$program" | sort >warm.names
    [[ -z $(comm -23 cold.names warm.names) ]]
    expect 0 comm -13 cold.names warm.names
    [[ ${#lines[@]} == 2 && ${lines[0]} == *memfd:pysbx-agent* && ${lines[1]} == *"$(warm_store)/"* ]]
    expect 0 warm -c '
for line in open("/proc/self/maps"):
    if "pysbx" in line and line.split()[1][3] == "s": print(line)'
    output_is ""
}

@test "the process: code and constants of a library are one mapping, and nothing is writable and executable" {
    local program='def areas():
    for line in open("/proc/self/maps"):
        place, mode, offset, _, _, *name = line.split()
        start, end = (int(part, 16) for part in place.split("-"))
        yield start, end, mode, int(offset, 16), " ".join(name)
before = (0, 0, "", 0, "")
code = apart = 0
for area in areas():
    assert not ("w" in area[2] and "x" in area[2]), area
    code += "x" in area[2] and ".so" in area[4]
    follows = area[4] == before[4] and area[0] == before[1] and area[3] == before[3] + before[1] - before[0]
    apart += ".so" in area[4] and follows and {"r-xp", "r--p"} == {area[2], before[2]}
    before = area
print(code > 0, apart)'
    expect 0 cold -c "$program"
    [[ $output == "True "[1-9]* ]]
    expect 0 warm -c "$program"
    output_is "True 0"
}

@test "the process: auxiliary vector and time of the kernel's page are usable" {
    same -c 'import os
kinds = (3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 23, 26)
data = open("/proc/self/auxv", "rb").read()
pairs = [(int.from_bytes(data[i:i + 8], "little"), int.from_bytes(data[i + 8:i + 16], "little")) for i in range(0, len(data), 16)]
print([kind for kind, _ in pairs], [(kind, value) for kind, value in pairs if kind in (6, 11, 12, 13, 14, 17)])'
    expect 0 warm -c 'import time
print(abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME_COARSE if hasattr(time, "CLOCK_REALTIME_COARSE") else 0)) < 1,
    time.monotonic() > 0, time.process_time() < 5, time.thread_time() < 5, time.perf_counter() > 0)'
    output_is "True True True True True"
}

@test "the thread's number, where libc keeps it" {
    same -c 'import os, signal, threading, time
print(threading.get_native_id() == os.getpid(), threading.main_thread().native_id == os.getpid())
print(time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident())) > 0)
signal.signal(signal.SIGUSR1, lambda *_: print("received"))
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
lock = threading.RLock()
with lock, lock: print(lock._is_owned())'
    expect 0 warm -c 'import os, threading, time
print(threading.get_native_id() == os.getpid() == 1, time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident())) > 0)'
    output_is "True True"
}

@test "signals: dispositions, mask, handlers, alarm, wake-up descriptor" {
    same -c 'import signal
for number in sorted(signal.valid_signals()):
    print(number, signal.getsignal(number))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1), signal.getitimer(signal.ITIMER_REAL))'
    same -c 'import signal, time
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2)'
    same -c 'import signal; signal.raise_signal(signal.SIGINT)'
    same -c 'import os, signal, sys
r, w = os.pipe(); os.close(r)
try: os.write(w, b"x")
except BrokenPipeError as error: print(error)'
}

@test "sys: everything that can be compared" {
    local program='import sys
for name in sorted(dir(sys)):
    value = getattr(sys, name)
    if name in ("modules", "path_importer_cache", "__doc__", "_git", "builtin_module_names", "stdlib_module_names") or "at 0x" in repr(value):
        print(name, type(value).__name__)
    else:
        print(name, repr(value))
print(sorted(name for name in sys.modules), sorted(sys.path_importer_cache), sys.getrecursionlimit(), sys.getswitchinterval())
print(sys.getallocatedblocks() > 0, sys.gettrace(), sys.getprofile(), sys.is_finalizing(), sys.getdlopenflags())'
    same -c "$program" one two
    same -I -c "$program"
    same -X dev -W error -c "$program"
}

@test "__main__: the same names, in the same order, with the same values" {
    mkdir work
    local show='import sys; names = dict(vars(sys.modules["__main__"])); print([(n, type(v).__name__ if "0x" in repr(v) else v) for n, v in names.items() if n != "names" and n != "__builtins__"])'
    echo "$show" >work/script.py
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    same -c "$show"
    same /work/script.py
    same -m script
    INPUT=work/script.py same -
}

@test "frames, tracebacks, threads, collector: nothing of ours" {
    same -c 'import gc, inspect, linecache, sys, threading, warnings
def deep(): return [(f.filename, f.function, f.lineno) for f in inspect.stack()]
print(deep(), threading.enumerate() == [threading.main_thread()], threading.active_count())
print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)
print(sorted(linecache.cache), warnings.filters, sys._getframe().f_back)
def fail(): 1 / 0
fail()'
}

@test "the collector: what was frozen can be unfrozen and walked" {
    same -c 'import gc
gc.unfreeze()
gc.collect()
print(all(repr(type(thing)) for thing in gc.get_objects()), gc.get_freeze_count())
gc.freeze(); gc.unfreeze(); gc.collect()'
}

@test "tracebacks: chained, in threads, unraisable, warnings, recursion" {
    same -c 'try: 1 / 0
except ZeroDivisionError as e: raise KeyError("outer") from e'
    same -c 'import threading
def fail(): raise ValueError("in a thread")
t = threading.Thread(target=fail, name="worker"); t.start(); t.join()'
    same -c 'import sys
sys.unraisablehook = lambda u: print(u.exc_type, u.exc_value, u.err_msg)
class C:
    def __del__(self): raise ValueError("unraisable")
c = C(); del c'
    same -W default -c 'import warnings; warnings.warn("a text", DeprecationWarning); warnings.warn("other")'
    same -c 'def f(): f()
f()'
}

# What is known of the three, said by the one that is named.
STREAMS='import sys
for stream in filter(None, (sys.__stdin__, sys.__stdout__, sys.__stderr__)):
    raw = stream.buffer.raw
    print(stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering, stream.write_through,
          stream.seekable(), stream.seekable() and stream.buffer.tell(), stream.isatty(), stream.fileno(),
          raw.name, raw.mode, raw._blksize, raw.seekable(), raw.closefd, file=getattr(sys, sys.argv[1]))'

# In one mode, with descriptors of several kinds.
streams_of_kinds() {
    "$1" -c "$STREAMS" stdout </dev/null 2>/dev/null | cat
    "$1" -c "$STREAMS" stderr </dev/null 2>&1 >/dev/null | cat
    "$1" -c "$STREAMS" stdout < <(echo) 2> >(cat) | cat
    "$1" -c "$STREAMS" stdout </dev/zero >>"$1.appended" 2>"$1.new"
    "$1" -c "$STREAMS" stdout <"$1.appended" 1<>"$1.new" 2>&1
    "$1" -c "$STREAMS" stderr <&- >&- 2>"$1.closed"
    cat "$1.appended" "$1.new" "$1.closed"
}

@test "standard streams: on pipes, files, devices, and closed" {
    streams_of_kinds cold >cold.seen
    streams_of_kinds warm >warm.seen
    diff -u cold.seen warm.seen
    [[ $(grep -c "<stdin>" warm.seen) -ge 5 ]]
}

@test "environment: os.environ, its order, and libc agree" {
    configure 'process["env"] = ["PATH=/usr/bin:/bin", "B=2", "A=1", "EMPTY=", "UTF=\u00fc", "B=again"]'
    same -c 'import ctypes, os
print(list(os.environ.items()), os.environb.get(b"UTF"))
getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p
print([getenv(n) for n in (b"PATH", b"A", b"B", b"EMPTY", b"UTF", b"NOT")])
os.environ["NEW"] = "1"; del os.environ["A"]; os.putenv("PUT", "2")
print(getenv(b"NEW"), getenv(b"A"), getenv(b"PUT"))
os.execv("/bin/sh", ["sh", "-c", "echo $NEW $PUT $B; export -p | sort"])'
}

@test "memory: the heap grows, deep recursion, threads with stacks of their own" {
    same -c 'import ctypes, sys, threading
libc = ctypes.CDLL(None); libc.sbrk.restype = ctypes.c_void_p
a = libc.sbrk(ctypes.c_long(1 << 20)); b = libc.sbrk(0); print(b - a >= 1 << 20)
blocks = [bytearray(1 << 20) for _ in range(64)]; print(sum(map(len, blocks)))
sys.setrecursionlimit(20000)
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
print(deep(9000))
threading.stack_size(8 << 20)
done = []
threads = [threading.Thread(target=lambda: done.append(deep(5000))) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]; print(done)'
}

@test "addresses that are not random: the snapshot's are the runtime's" {
    runtime() { setarch --addr-no-randomize "$RUNTIME" "$@"; }
    same -c 'import ctypes, platform
print(ctypes.CDLL(None).personality(0xffffffff), platform.machine())'
    output_has "262144 "
}

@test "fork, exec, subprocess, pty" {
    same -c 'import os, pty, subprocess, sys
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    print("child", os.getppid(), flush=True); os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, sys.flags.isolated)", "x"], capture_output=True, text=True))
print(subprocess.run("echo $0; exit 3", shell=True, capture_output=True))
print(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 4"], os.environ) > 0, os.wait()[1])'
    same -c 'import os; os.execv("/proc/self/exe", ["python3", "-c", "print(6 * 7)"])'
    output_is 42
}

@test "multiprocessing: fork, spawn, forkserver" {
    mkdir work
    configure 'mount("/work", arguments[0]); mount("/tmp", "tmpfs", kind="tmpfs")' "$PWD/work"
    cat >work/pool.py <<'PYTHON'
import multiprocessing
import sys

def square(x):
    return x * x, __name__ in ("__main__", "__mp_main__")

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(sorted(pool.map(square, range(5))))
    q = context.Queue()
    p = context.Process(target=q.put, args=("through a queue",)); p.start(); print(q.get()); p.join(); print(p.exitcode)
PYTHON
    local method
    for method in fork spawn forkserver; do
        same /work/pool.py "$method"
        output_has "through a queue"
    done
}

@test "asyncio, threads, executors" {
    same -X dev -c 'import asyncio, concurrent.futures, sys
async def child():
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)", stdout=asyncio.subprocess.PIPE)
    return (await p.communicate())[0]
async def main():
    async def wait(n): await asyncio.sleep(n / 100); return n
    print(await asyncio.gather(*map(wait, (3, 1, 2))), await child(), await asyncio.to_thread(lambda: "thread"))
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0); server.close()
asyncio.run(main())
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(list(pool.map(abs, (-1, -2))))
with concurrent.futures.ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, (-1, -2))))'
}

@test "floating point, vector registers and libc's state" {
    same -c 'import ctypes, math, struct
print(math.sin(1e22), 0.1 + 0.2, math.fma(2.0, 3.0, 4.0) if hasattr(math, "fma") else 10.0, float("1e308") * 10)
m = ctypes.CDLL("libm.so.6"); print(m.fegetround(), hex(m.fetestexcept(0x3d) & 0))
libc = ctypes.CDLL(None, use_errno=True); print(libc.close(-1), ctypes.get_errno())'
}

@test "the working directory and its modules" {
    mkdir work
    echo 'text = "local"' >work/local.py
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"; process["user"]["umask"] = 0o27' "$PWD/work"
    same -c 'import os, sys, local; print(os.getcwd(), sys.path[0], local.text, local.__file__, oct(os.umask(0)))'
    output_is "/work  local /work/local.py 0o27"
    same -I -c 'import local'
    same -E -s -c 'import sys, local; print(sys.path, sys.flags)'
}

@test "directories of PYTHONPATH that are not absolute, and empty ones" {
    mkdir -p work/src work/programs
    echo 'text = "found"' >work/src/local.py
    echo 'import sys; print(sys.path); import local; print(local.__file__)' >work/programs/script.py
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    environment PYTHONPATH=src:
    same programs/script.py
    output_has /work/src/local.py
    output_has "'/work'"
    environment PYTHONPATH=:src
    same -c 'import sys, local; print(sys.path, local.__file__)'
}

@test "an import finds the working directory of the program, and what lies there" {
    mkdir work
    echo first >work/settings
    module place.py <<<'import os
there, settings = os.getcwd(), open("settings").read()
missing = os.path.abspath("missing")'
    preload place
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    same -c 'import place; print(place.there, place.settings, place.missing)'
    output_is "/work first
 /work/missing"
    echo second >work/settings
    expect 1 warm -c 'pass'
    stderr_has "'/work/settings' has changed"
}

@test "what the start does to the environment: the locale that is coerced, sitecustomize" {
    local show='import os; print(os.environ); os.system("echo $LC_CTYPE $OURS $THEIRS $MODE")'
    module sitecustomize.py <<<'import os
os.environ["OURS"] = "set"; os.environ.pop("THEIRS", None); os.environ["SEEN"] = os.environ.get("MODE", "none")'
    environment THEIRS=given
    same -c "$show"
    output_has "'OURS': 'set'"
    environment MODE=one
    expect 0 either -c "$show" # another value of what sitecustomize looks at: not this snapshot
    output_has "'SEEN': 'one'"
    same -c "$show"
    own_root python
    mkdir -p root/usr/lib/locale
    cp -a /usr/lib/locale/C.utf8 root/usr/lib/locale/ || skip "there is no locale C.UTF-8 here"
    same -c "$show"
    output_has "'LC_CTYPE': 'C.UTF-8'"
}

@test "what the start says is said each time: sitecustomize that writes is cold" {
    module sitecustomize.py <<<'import sys; print("a word", file=sys.stderr)'
    expect 1 warm -c 'print("ran")'
    stderr_has "a word"
    expect 0 either -c 'print("ran")'
    output_is ran
    stderr_has "a word"
}

@test "an import that changes what a program finds: no snapshot, and what it is" {
    local name
    declare -A modules=(
        [settrace]='import sys; sys.settrace(lambda *_: None)'
        [collector]='import gc; gc.disable()'
        [front]='import sys; sys.path.insert(0, "/first")'
        [make]='import os; os.makedirs("/tmp/made", exist_ok=True)'
    )
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    for name in "${!modules[@]}"; do
        module "changes_$name.py" <<<"${modules[$name]}"
        preload "changes_$name"
        is_cold_because "$name"
    done
}

@test "code that imports have made at run time runs: callbacks of ctypes, what a compiler has written" {
    module compiles.py <<<'import ctypes, mmap
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)
def compiled(number):
    code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    code[:6] = bytes((0xB8, number, 0, 0, 0, 0xC3)) # mov eax, number; ret
    return code, ctypes.addressof(ctypes.c_char.from_buffer(code))
def function(address): return ctypes.CFUNCTYPE(ctypes.c_int)(address)
writable, place = compiled(42)
fixed, fixed_place = compiled(43)
ctypes.CDLL(None).mprotect(ctypes.c_void_p(fixed_place), 4096, 5)
def areas(): return [line.split()[1] for line in open("/proc/self/maps") for at in (place, fixed_place) if line.startswith(f"{at:x}-")]'
    preload compiles
    same -c 'from compiles import *
print(callback(1), function(place)(), function(fixed_place)(), *sorted(areas()))
writable[1] = 44
print(function(place)())'
    output_is $'2 42 43 r-xp rwxp\n44'
}

@test "code that imports have made at run time: cold where such memory is forbidden, and only there" {
    # PR_SET_MDWE (Linux 6.3): as SELinux does where a domain has no execmem.
    local forbid='import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(99)
os.execv(sys.argv[1], sys.argv[1:])'
    local code=0
    python3 -c "$forbid" "$(type -P true)" || code=$?
    ((code != 99)) || skip "this kernel has no PR_SET_MDWE"
    ((code == 0))
    module compiles.py <<<'import mmap
try: code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7); code[0] = 1
except PermissionError: code = None'
    preload compiles
    cold -c 'import compiles' # makes __pycache__, which the key would notice
    expect 0 warm -c 'import compiles; print(compiles.code is not None)'
    output_is True
    configure 'process["args"][2] = "import compiles; print(compiles.code)"
config["annotations"]["run.pysbx.warm"] = "auto"'
    expect 0 python3 -c "$forbid" "$RUNTIME" run --bundle bundle box
    output_is None
    configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    expect 1 python3 -c "$forbid" "$RUNTIME" run --bundle bundle box
    stderr_has "the snapshot has code that was made at run time, which is forbidden here"
    expect 0 warm -c 'import compiles; print(compiles.code is not None)'
    output_is True
}

@test "what preloaded modules hold of sys is what the program has: __main__, argv, line buffering" {
    mkdir work
    configure 'mount("/work", arguments[0])' "$PWD/work"
    module holds.py <<<'import __main__, sys
from sys import argv
sys.stdout.reconfigure(line_buffering=True)'
    echo 'import holds, sys; VALUE = 3
print(holds.__main__.__file__, holds.__main__.VALUE, holds.argv, holds.argv is sys.argv, sys.stdout.line_buffering)' >work/script.py
    preload holds
    same /work/script.py one two
    output_is "/work/script.py 3 ['/work/script.py', 'one', 'two'] True True"
}

@test "an import that leaves something open: no snapshot, and the thing is named" {
    local name
    declare -A modules=(
        [thread]='import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()'
        [descriptor]='import os; f = os.open("/dev/null", os.O_RDONLY)'
        [socket]='import socket; s = socket.socket()'
        [timer]='import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.setitimer(signal.ITIMER_REAL, 1000)'
        [shared]='import mmap; m = mmap.mmap(-1, 4096)'
    )
    for name in "${!modules[@]}"; do
        [[ $name == thread || $name == timer ]] && continue
        module "holds_$name.py" <<<"${modules[$name]}"
        preload "holds_$name"
        is_cold_because "$name"
    done
    # fork(2) leaves other threads and timers behind: what depends on them has to run cold.
    local show='import signal, threading; print(threading.active_count(), signal.getitimer(signal.ITIMER_REAL)[0] > 1)'
    for name in thread timer; do
        module "holds_$name.py" <<<"${modules[$name]}"
        preload "holds_$name"
        expect 0 cold -c "import holds_$name; $show"
        local fresh=$output
        expect 0 either -c "import holds_$name; $show"
        output_is "$fresh"
    done
}

@test "an import may keep a file open for reading: position, flags and content are the same" {
    module held.txt <<<'0123456789'
    module holds.py <<<'import os
one, two = (os.open("/modules/held.txt", os.O_RDONLY) for _ in range(2))
os.lseek(one, 3, os.SEEK_SET); os.set_inheritable(two, True)
text = open("/modules/held.txt"); first = text.read(1)'
    preload holds
    same -c 'import fcntl, holds, os
for fd in holds.one, holds.two, holds.text.fileno():
    print(fd, os.lseek(fd, 0, os.SEEK_CUR), fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD),
          os.path.sameopenfile(fd, holds.one), os.readlink(f"/proc/self/fd/{fd}"))
print(os.read(holds.one, 4), os.read(holds.two, 4), holds.first, holds.text.read(), os.listdir("/proc/self/fd"))'
    output_has "b'3456' b'0123' 0 123456789"
}

@test "an import may keep a file open for reading: where it has changed, the program has the new one" {
    module held.txt <<<old
    # As libraries do it: Python knows nothing of it.
    module holds.py <<<'import ctypes; fd = ctypes.CDLL(None).open(b"/modules/held.txt", 0)'
    preload holds
    local show='import holds, os; print(os.read(holds.fd, 9))' text
    same -c "$show"
    output_is "b'old\n'"
    for text in new newer; do
        if [[ $text == new ]]; then
            echo "$text" >modules/held.txt
        else
            module held.txt <<<"$text" # another file
        fi
        for _ in 1 2 3; do
            expect 0 either -c "$show"
            output_is "b'$text\n'"
        done
        same -c "$show"
        output_is "b'$text\n'"
    done
    rm modules/held.txt
    expect 1 either -c "$show"
    stderr_has "Bad file descriptor"
}

@test "the name of the machine: the container's, also where an import has asked platform for it" {
    local name
    module asks.py <<<'import platform; system = platform.system()'
    preload asks
    for name in one another; do
        configure 'config["hostname"] = arguments[0]' "$name"
        same -c 'import asks, os, platform, socket
print(platform.node(), socket.gethostname(), os.uname().nodename, asks.system, platform.uname())'
        output_has "$name $name $name Linux uname_result("
    done
}

@test "an import that keeps a file open in a way that would be lost: no snapshot, and the file is named" {
    local name
    declare -A modules=(
        [dup]='g = os.dup(f)'
        [flock]='fcntl.flock(f, fcntl.LOCK_SH)'
        [lock]='fcntl.lockf(f, fcntl.LOCK_SH)'
        [status]='g = os.open("/modules/held.txt", os.O_RDONLY | os.O_NONBLOCK)'
        [fifo]='g = os.open("/modules/fifo", os.O_RDONLY | os.O_NONBLOCK)'
        [directory]='g = os.open("/modules", os.O_RDONLY)'
        # A name of its own, for the imports happen twice, at the same time.
        [removed]='name = f"/tmp/{os.getpid()}"; g = os.open(name, os.O_RDWR | os.O_CREAT); os.remove(name); os.close(f)
f = os.open(f"/proc/self/fd/{g}", os.O_RDONLY); os.close(g)'
    )
    module held.txt <<<text
    mkfifo modules/fifo
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    for name in "${!modules[@]}"; do
        module "holds_$name.py" <<<"import fcntl, os; f = os.open('/modules/held.txt', os.O_RDONLY)
${modules[$name]}"
        preload "holds_$name"
        is_cold_because "is open (/"
    done
}

@test "an import that keeps the name of the machine, or reaches for the network: no snapshot, and what it does" {
    local line
    for line in "import socket; name = 'at ' + socket.gethostname()" "import os; name = os.uname()" \
        "import os; name = os.uname().nodename" "import platform; name = platform.node()"; do
        module asks.py <<<"$line"
        preload asks
        is_cold_because "the imports ask for the name of the machine, which each container has its own of"
    done
    for line in "socket.socket().connect(('127.0.0.1', 9))" "socket.getaddrinfo('localhost', 80)"; do
        module asks.py <<<"import contextlib, socket
with contextlib.suppress(OSError):
    $line"
        preload asks
        is_cold_because "the imports reach for the network, which is not there when a snapshot is made"
    done
    module asks.py <<<'import os, platform, sysconfig
system, architecture, place = platform.platform(), os.uname().machine, sysconfig.get_platform()'
    preload asks
    expect 0 warm -c 'pass'
}

@test "an import that asks whether a standard stream is a terminal: cold where one is, warm elsewhere" {
    local line
    for line in "import sys; color = sys.stdout.isatty()" "import os; color = os.isatty(2)" \
        "import shutil; color = shutil.get_terminal_size().columns"; do
        module asks.py <<<"$line"
        preload asks
        configure 'process["terminal"] = False'
        same -c 'import asks; print(asks.color)'
        program auto 'import asks; print("color is", asks.color)'
        configure 'process["terminal"] = True'
        expect 0 "$TESTS/lib/pty" --size 33x99 -- "$RUNTIME" run --bundle bundle box
        output_has "color is $([[ $line == *shutil* ]] && echo 99 || echo True)"
        program require 'import asks; print("ran")'
        expect 1 "$TESTS/lib/pty" -- "$RUNTIME" run --bundle bundle box
        output_has "the imports ask whether a standard stream is a terminal, and one is"
        configure 'process["terminal"] = False'
        [[ $(snapshot uses) != 0 ]] # it is the same, and fits
        same -c 'import asks; print(asks.color)'
        runtime warm prune --all >/dev/null
    done
}

@test "numexpr, which starts threads when it is imported: they are there, and compute" {
    use_image numexpr
    preload numexpr
    same -c 'import numexpr, numpy, os
threads = len(os.listdir("/proc/self/task"))
numbers = numpy.arange(1000000.0)
print(numexpr.evaluate("sum(numbers * 2)"), numexpr.evaluate("numbers + 1")[-1], numexpr.set_num_threads(1))
print(threads - len(os.listdir("/proc/self/task")), numexpr.evaluate("sum(numbers)")) # those of numpy come when it wants'
    output_has "999999000000.0 1000000.0"
}

# A root that is the test's own, writable, with a place for temporary files.
writable_root() {
    own_root python
    chmod 1777 root/tmp
    configure 'config["root"]["readonly"] = False'
}

@test "an import that looks for a place for temporary files finds the container's, as it would cold" {
    writable_root
    module temporary.py <<<'import tempfile; place = tempfile.gettempdir()
with tempfile.NamedTemporaryFile("w+") as file: file.write("text")'
    preload temporary
    local show='import temporary; print(temporary.place)'
    same -c "$show"
    output_is /tmp
    [[ -z $(ls root/tmp) ]]
    mkdir tmp
    configure 'mount("/tmp", arguments[0], "rw")' "$PWD/tmp"
    same -c "$show"
    output_is /tmp
    # Where none is to be found any more, the snapshot that says /tmp is of no use.
    configure 'unmount("/tmp"); config["root"]["readonly"] = True'
    expect 1 cold -c "$show"
    stderr_has "No usable temporary directory"
    expect 1 either -c "$show"
    stderr_has "No usable temporary directory"
    is_cold_because "import temporary: FileNotFoundError: [Errno 2] No usable temporary directory"
    configure 'config["root"]["readonly"] = False'
    same -c "$show"
}

@test "an import that leaves a temporary file, or finds some: no snapshot, and the file is named" {
    writable_root
    module temporary.py <<<'import tempfile; file = tempfile.mkstemp(prefix="left", dir="/tmp")[1]'
    preload temporary
    is_cold_because "the imports make '/tmp/left"
    # What the image has there is not hidden.
    echo text >root/tmp/found
    module temporary.py <<<'import os; text = open("/tmp/found").read()'
    same -c 'import temporary; print(temporary.text)'
    output_is text
}

# Threads as libraries start them when they are imported: three that wait for a semaphore each.
waiting_threads='import ctypes
libc = ctypes.CDLL(None)
semaphores = [ctypes.create_string_buffer(32) for _ in range(3)]
threads = [ctypes.c_ulong() for _ in range(3)]
errors = []
for semaphore, thread in zip(semaphores, threads):
    libc.sem_init(semaphore, 0, 0)
    errors.append(libc.pthread_create(ctypes.byref(thread), None, libc.sem_wait, semaphore))
    if not errors[-1]: libc.pthread_setname_np(thread, b"waiter")
one = ctypes.c_ulong(1) # the first processor
if not errors[1]: libc.pthread_setaffinity_np(threads[1], ctypes.sizeof(one), ctypes.byref(one))'

keep_waiting() {
    module waiting.py <<<"$waiting_threads"
    preload waiting
    same -c 'import ctypes, os, time, waiting
def show(count):
    while len(os.listdir("/proc/self/task")) > count:
        time.sleep(0.001) # who waits for a thread is told before the kernel has taken it away
    for number in sorted(map(int, os.listdir("/proc/self/task"))):
        task = dict(line.split(":\t", 1) for line in open(f"/proc/self/task/{number}/status").read().splitlines())
        print(task["Name"], task["SigBlk"], task["CapEff"], sorted(os.sched_getaffinity(number)))
time.sleep(0.2) # until the cold ones wait
show(4)
os.setuid(os.getuid()) # which the C library has all threads do
for left, semaphore, thread in zip((3, 2, 1), waiting.semaphores, waiting.threads):
    code = ctypes.c_long(7)
    waiting.libc.sem_post(semaphore)
    print(waiting.libc.pthread_join(thread, ctypes.byref(code)), code.value)
    show(left)'
    output_has "waiter 0000000000000000 "
    output_has " [0]
"
}

@test "threads that a library starts when it is imported: they are there, wait, and end; glibc 2.36 (Debian 12)" {
    keep_waiting
}

@test "threads that a library starts when it is imported: they are there, wait, and end; glibc 2.41 (Debian 13)" {
    use_image pandas-trixie
    keep_waiting
}

# Since 2.42 the stacks of threads end in guard pages, since 2.43 the kernel clears another word than their number.
@test "threads that a library starts when it is imported: they are there, wait, and end; glibc 2.43 (Debian 14)" {
    use_image pandas-forky
    keep_waiting
}

@test "threads that a library starts when it is imported: by exec, and where the library itself could not start them" {
    module waiting.py <<<"$waiting_threads"
    preload waiting
    local show='import os, waiting; print(waiting.errors, len(os.listdir("/proc/self/task")))'
    program require 'import time; print("ready", flush=True); time.sleep(1000)'
    start_box
    expect 0 runtime exec box python3 -c "$show"
    output_is "[0, 0, 0] 4"
    runtime delete --force box
    # Of a user whom there is no other process of, in the container's user namespace if it has one.
    is_rootless || configure 'process["user"] = {"uid": 54321, "gid": 54321}'
    expect 0 warm -c "$show"
    output_is "[0, 0, 0] 4"
    configure 'process["rlimits"].append({"type": "RLIMIT_NPROC", "soft": 2, "hard": 2})'
    expect 0 either -c "$show" # cold, for else there would be two threads less than it believes
    output_is "[0, 11, 11] 2"
}

@test "an import may keep /dev/urandom open: it is the container's own again" {
    module holds.py <<<'one, two = (open("/dev/urandom", "rb", 0) for _ in range(2)); one.read(1)'
    preload holds
    local show='import holds, os; print(holds.one.fileno(), holds.two.fileno(), os.fstat(3).st_rdev == os.makedev(1, 9),
        os.fstat(4).st_dev == os.stat("/dev/urandom").st_dev, os.get_inheritable(3)); print(holds.one.read(16))'
    expect 0 warm -c "$show"
    [[ ${lines[0]} == "3 4 True True False" ]]
    local first=${lines[1]}
    expect 0 warm -c "$show"
    [[ ${#lines[1]} -gt 16 && ${lines[1]} != "$first" ]]
}

@test "a Python that was built with an old C library: no memfd_create" {
    module sitecustomize.py <<<'import posix; vars(posix).pop("memfd_create", None)'
    expect 0 warm -c 'import posix; print(hasattr(posix, "memfd_create"))'
    output_is False
    module speaks.py <<<'print("a word")'
    preload speaks
    expect 1 warm -c pass
    stderr_has "the imports write to standard output or error: 'a word"
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

@test "a library of the program's may have functions of any name, the agent's too" {
    mkdir modules
    printf 'long %s(void) { __builtin_trap(); }\n' libraries library_of_thread rest_threads threads_fork threads_start |
        gcc -shared -fPIC -nostdlib -o modules/names.so -x c -
    configure 'mount("/modules", arguments[0])' "$PWD/modules"
    environment LD_PRELOAD=/modules/names.so
    same -c 'import ctypes; print(hasattr(ctypes.CDLL(None), "threads_fork"))'
    output_is True
}

@test "a filter that keeps threads from being seen: cold, with the reason" {
    preload json
    configure 'seccomp("ALLOW", rule("ERRNO", "tgkill"))'
    is_cold_because "threads cannot be seen, for tgkill(2) is refused"
}

@test "without /proc: warm if it can be, else cold, and the program runs" {
    configure 'unmount("/proc"); linux.pop("maskedPaths", None); linux.pop("readonlyPaths", None)'
    expect 0 either -c 'import os; print(os.path.exists("/proc/self"))'
    output_is False
    expect 0 either -c 'import os; print(os.getpid())'
    output_is 1
}
