#!/usr/bin/env bats
# A restored interpreter is indistinguishable from a fresh one: the process, the interpreter, and its later abilities.
# Every program runs cold and warm in containers of the same configuration. tests/warm has more of them.
# images: python
# once: a program finds the same things in both modes

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
    output_has "exe /usr/bin/python3" "comm b'python3"
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

@test "the process: only the host's files, the snapshot and the agent are mapped, and neither is writable" {
    local program='print(*sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5}), sep="\n")'
    cold -c "$program" | sort >cold.names
    warm -c "$program" | sort >warm.names
    [[ -z $(comm -23 cold.names warm.names) ]]
    expect 0 comm -13 cold.names warm.names
    [[ ${#lines[@]} == 2 && ${lines[0]} == *memfd:pysbx-agent* && ${lines[1]} == *"$(warm_store)/"* ]]
    prints "" warm -c '
for line in open("/proc/self/maps"):
    if "pysbx" in line and line.split()[1][3] == "s": print(line)'
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
    prints "True 0" warm -c "$program"
}

@test "the process: auxiliary vector and time of the kernel's page are usable" {
    same -c 'import os
kinds = (3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 23, 26)
data = open("/proc/self/auxv", "rb").read()
pairs = [(int.from_bytes(data[i:i + 8], "little"), int.from_bytes(data[i + 8:i + 16], "little")) for i in range(0, len(data), 16)]
print([kind for kind, _ in pairs], [(kind, value) for kind, value in pairs if kind in (6, 11, 12, 13, 14, 17)])'
    prints "True True True True True" warm -c 'import time
print(abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME_COARSE if hasattr(time, "CLOCK_REALTIME_COARSE") else 0)) < 1,
    time.monotonic() > 0, time.process_time() < 5, time.thread_time() < 5, time.perf_counter() > 0)'
}

@test "the thread id, where libc stores it" {
    same -c 'import os, signal, threading, time
print(threading.get_native_id() == os.getpid(), threading.main_thread().native_id == os.getpid())
print(time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident())) > 0)
signal.signal(signal.SIGUSR1, lambda *_: print("received"))
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
lock = threading.RLock()
with lock, lock: print(lock._is_owned())'
    prints "True True" warm -c 'import os, threading, time
print(threading.get_native_id() == os.getpid() == 1, time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident())) > 0)'
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

@test "a preloaded module has no effect before its import: sys.modules, filters of warnings, atexit" {
    module errors.py <<<'import warnings; warnings.simplefilter("error")'
    module ending.py <<<'import atexit, json; atexit.register(print, "the end")'
    configure 'process["env"].append("PYTHONDONTWRITEBYTECODE=1")'
    preload errors,ending,xml.dom.minidom
    same -c 'import sys, warnings; print(sorted(sys.modules), warnings.filters)'
    same -c "x = '\d'
print('one')
import errors
warned = compile('y = \"\\\\d\"', 'text', 'exec')"
    same -c 'print("never imported")'
    output_is "never imported"
    same -c 'import ending; print("imported")'
    output_is $'imported\nthe end'
    same -c 'import sys, xml; print(hasattr(xml, "dom"), "json" in sys.modules); import json, xml.dom; print(sorted(sys.modules))'
}

@test "a preloaded module changes other modules when the program imports it, and not before" {
    module changes.py <<<'import csv, codecs, contextlib, decimal, gc, io, json, locale, logging, mimetypes, os, socket, sys, threading, warnings
json.dumps = lambda value: "of changes"
json.JSONEncoder.item_separator = ";"
socket.setdefaulttimeout(5)
logging.basicConfig(level="DEBUG")
logging.addLevelName(15, "FIFTEEN")
logging.disable(50)
decimal.getcontext().prec = decimal.DefaultContext.prec = 5
locale.setlocale(locale.LC_ALL, "C")
mimetypes.add_type("text/own", ".own")
csv.field_size_limit(7)
csv.register_dialect("own", delimiter=";")
threading.stack_size(1 << 20)
os.environ["OF_CHANGES"] = "1"
sys.path.append("/of-changes")
sys.setrecursionlimit(5000)
gc.set_threshold(11)
warnings.simplefilter("error")
import helper
helper.change()
with contextlib.redirect_stdout(io.StringIO()):
    import colorsys'
    module helper.py <<<'import builtins, time
def change(): builtins.of_helper, time.sleep = 1, print'
    module state.py <<<'import csv, decimal, gc, json, locale, logging, mimetypes, os, socket, sys, threading, time, warnings
def now():
    return (json.dumps([1]), json.JSONEncoder().encode([1, 2]), socket.getdefaulttimeout(), len(logging.root.handlers),
        logging.root.level, logging.getLevelName(15), logging.root.manager.disable, decimal.Decimal(1) / 3,
        decimal.DefaultContext.prec, locale.setlocale(locale.LC_ALL), mimetypes.guess_type("a.own"), csv.field_size_limit(),
        csv.list_dialects(), threading.stack_size(), os.environ.get("OF_CHANGES"),
        sys.path[1:], sys.getrecursionlimit(), gc.get_threshold(), [entry[0] for entry in warnings.filters],
        hasattr(__builtins__, "of_helper"), time.sleep is print)'
    module imported.py <<<'import sys, state
then = "changes" in sys.modules, "colorsys" in sys.modules, state.now()'
    configure 'process["env"].append("PYTHONDONTWRITEBYTECODE=1")'
    preload changes,imported
    same -c 'import state; print(state.now())'
    same -c 'import imported; print(imported.then)'
    output_has "(False, False, ('[1]',"
    same -c 'import imported, changes, state; print(imported.then, state.now())'
    same -c 'import changes, state; print(state.now())'
    output_has "of changes"
    same -c 'import imported, os; os.system("env | grep OF_"); import changes; os.system("env | grep OF_")'
    output_is "OF_CHANGES=1"
    # A change by a module that the preloaded one needs is of that module.
    same -c 'import helper, state; helper.change(); print(state.now())'
}

@test "a preloaded module that keeps functions of the import: they are the interpreter's own" {
    preload_module keeper <<<'import atexit, importlib, logging.config
from atexit import register
find, kept = importlib._bootstrap._find_and_load, [__import__]
class Finder: find = staticmethod(__import__)'
    same -c 'import atexit, builtins, keeper, logging.config
print(keeper.register is atexit.register, keeper.kept[0] is keeper.Finder.find is builtins.__import__ is logging.config.BaseConfigurator.importer)
print(keeper.find.__code__.co_name, keeper.find.__closure__)'
    output_is "True True
_find_and_load None"
}

@test "a preloaded module changes a class whose metaclass is in C: when the program imports it, and not before" {
    module point.py <<<'import ctypes
class Point(ctypes.Structure): colour, size = "none", 1'
    module paints.py <<<'import point
point.Point.colour, point.Point.weight = "red", 2
del point.Point.size'
    preload point,paints
    same -c 'import point; before = dict(vars(point.Point)); import paints
for name in "colour", "size", "weight": print(before.get(name), vars(point.Point).get(name))'
    output_is "none red
1 None
None 2"
}

@test "a preloaded module that forbids another (None in sys.modules), or makes one: only programs that import it notice" {
    module forbidden.py <<<'text = "of the file"'
    module makes.py <<<'import sys, types
sys.modules["forbidden"] = None
sys.modules["made"] = types.ModuleType("made")'
    configure 'process["env"].append("PYTHONDONTWRITEBYTECODE=1")'
    preload makes
    same -c 'print("never imported")'
    same -c 'import forbidden; print(forbidden.text)'
    output_is "of the file"
    same -c 'import made'
    same -c 'import makes, made, forbidden'
    same -c 'import makes
try: import forbidden
except ImportError as error: print(error)'
    output_has "None in sys.modules"
}

@test "a preloaded module of a directory that the program adds to sys.path comes from there" {
    mkdir -p work/own
    echo 'text = "of the program"' >work/own/greeting.py
    preload_module greeting <<<'text = "preloaded"'
    configure 'mount("/work", arguments[0])' "$PWD/work"
    same -c 'import greeting; print(greeting.text)'
    output_is preloaded
    same -c 'import sys; sys.path.insert(0, "/work/own"); import greeting; print(greeting.text, greeting.__file__)'
    output_has "of the program"
    same -c 'import sys; sys.path.append("/work/own"); import greeting; print(greeting.text)'
    output_is preloaded
}

@test "the collector: frozen objects can be unfrozen and walked" {
    same -c 'import gc
gc.unfreeze()
gc.collect()
print(all(repr(type(thing)) for thing in gc.get_objects()), gc.get_freeze_count())
gc.freeze(); gc.unfreeze(); gc.collect()'
}

# Each of the three processes prints its properties.
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

@test "memory: the heap grows, deep recursion, threads with new stacks" {
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
[t.start() for t in threads]; [t.join() for t in threads]; print(done)
def endless(): endless()
endless()'
}

@test "addresses without randomization: the snapshot's are the runtime's" {
    runtime() { setarch --addr-no-randomize "$RUNTIME" "$@"; }
    same -c 'import ctypes, platform
print(ctypes.CDLL(None).personality(0xffffffff), platform.machine())'
    output_has "262144 "
}

@test "exec of the interpreter itself" {
    same -c 'import os; os.execv("/proc/self/exe", ["python3", "-c", "print(6 * 7)"])'
    output_is 42
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

@test "run.pysbx.preload: a directory, for an isolated program that adds it to its path" {
    mkdir -p modules/first modules/second
    echo 'text = "first"; import json' >modules/first/both.py
    echo 'text = "second"' >modules/second/both.py
    echo 'import both; text = both.text' >modules/second/other.py
    configure 'mount("/modules", arguments[0])' "$PWD/modules"
    environment PYTHONPATH=/modules/second
    preload '/modules/first /modules/second both other'
    local begin='import sys; sys.path[:0] = ["/modules/first", "/modules/second"]'
    same -I -c "$begin; import both, other; print(other.text, both.__file__, sys.path, sys.flags, list(sys.modules))"
    output_has "first /modules/first/both.py" "isolated=1"
    # Without the directories, or with another one in front, the program finds what it finds cold.
    same -I -c 'import sys; print(sys.path, "both" in sys.modules, "json" in sys.modules); import json, both'
    grep -qF "No module named 'both'" warm.err
    same -I -c 'import sys; sys.path[:0] = ["/modules/second", "/modules/first"]; import both; print(both.text)'
    output_is second
    same -c 'import both, sys; print(both.text, sys.path)'
    output_has "second ["
    # A change there makes the snapshot stale.
    echo 'text = "third"' >modules/first/both.py
    fails 1 "'/modules/first/both.py' has changed" warm -I -c "$begin; import other; print(other.text)"
    prints third either -I -c "$begin; import other; print(other.text)"
}

@test "directories of PYTHONPATH that are relative or empty" {
    mkdir -p work/src work/programs
    echo 'text = "found"' >work/src/local.py
    echo 'import sys; print(sys.path); import local; print(local.__file__)' >work/programs/script.py
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    environment PYTHONPATH=src:
    same programs/script.py
    output_has /work/src/local.py "'/work'"
    environment PYTHONPATH=:src
    same -c 'import sys, local; print(sys.path, local.__file__)'
}

@test "changes of the start to the environment: the coerced locale, sitecustomize" {
    local show='import os; print(os.environ); os.system("echo $LC_CTYPE $OURS $THEIRS $MODE")'
    module sitecustomize.py <<<'import os
os.environ["OURS"] = "set"; os.environ.pop("THEIRS", None); os.environ["SEEN"] = os.environ.get("MODE", "none")'
    environment THEIRS=given
    same -c "$show"
    output_has "'OURS': 'set'"
    environment MODE=one
    shows "'SEEN': 'one'" either -c "$show" # another value of a variable that sitecustomize reads: not this snapshot
    same -c "$show"
    own_root python
    mkdir -p root/usr/lib/locale
    cp -a /usr/lib/locale/C.utf8 root/usr/lib/locale/ || skip "there is no locale C.UTF-8 here"
    same -c "$show"
    output_has "'LC_CTYPE': 'C.UTF-8'"
}

@test "output of the start appears each time: sitecustomize that writes is cold" {
    module sitecustomize.py <<<'import sys; print("a word", file=sys.stderr)'
    fails 1 "a word" warm -c 'print("ran")'
    prints ran either -c 'print("ran")'
    stderr_has "a word"
}

@test "without /proc: warm if possible, else cold, and the program runs" {
    configure 'unmount("/proc"); linux.pop("maskedPaths", None); linux.pop("readonlyPaths", None)'
    prints False either -c 'import os; print(os.path.exists("/proc/self"))'
    prints 1 either -c 'import os; print(os.getpid())'
}
