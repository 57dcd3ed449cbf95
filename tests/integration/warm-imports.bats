#!/usr/bin/env bats
# The effects of an import are the same after a warm start as after a cold one: open files, generated code, knowledge of
# its surroundings. If that is impossible, there is no snapshot, and the reason is reported.
# images: python pandas-forky
# once: imports are judged in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "an import finds the working directory of the program, and its files" {
    mkdir work
    echo first >work/settings
    preload_module place <<<'import os
there, settings = os.getcwd(), open("settings").read()
missing = os.path.abspath("missing")'
    configure 'mount("/work", arguments[0]); process["cwd"] = "/work"' "$PWD/work"
    same -c 'import place; print(place.there, place.settings, place.missing)'
    output_is "/work first
 /work/missing"
    echo second >work/settings
    fails 1 "'/work/settings' has changed" warm -c 'pass'
}

@test "an import that changes the program's surroundings: no snapshot, and the change" {
    declare -A modules=(
        [settrace]='import sys; sys.settrace(lambda *_: None)'
        [collector]='import gc; gc.disable()'
        [front]='import sys; sys.path.insert(0, "/first")'
        [digits]='import sys; sys.set_int_max_str_digits(640)'
        [excepthook]='import sys; sys.excepthook = lambda *about: print("hook")'
        [displayhook]='import sys; sys.displayhook = print'
        [signal]='import signal; signal.signal(signal.SIGTERM, lambda *about: 0)'
        [make]='import os; os.makedirs("/mnt/made", exist_ok=True)'
    )
    configure 'mount("/mnt", "tmpfs", kind="tmpfs")'
    for name in "${!modules[@]}"; do
        module "changes_$name.py" <<<"${modules[$name]}"
        preload "changes_$name"
        is_cold_because "$name"
    done
}

@test "an object that only passes for a class, a module (of cffi), or one that it cannot load yet (Django's settings) is watched as an object" {
    module alias.py <<<'import itertools, sys, time
class Alias:
    __class__ = property(lambda self: type)
class Library:
    __slots__, __class__ = "call", property(lambda self: type(sys))
class Lazy:
    __class__ = __dict__ = property(lambda self: 1 / 0)
kept, lazy, given, when = Alias(), Lazy(), None, int(time.time())
held, library = itertools.repeat(lazy), Library()
library.call = len
sys.modules["alias.library"] = library'
    module gives.py <<<'import alias
from alias.library import call
alias.given = alias.Lazy()'
    preload "alias gives"
    same -c 'import alias; print(isinstance(alias.kept, type), alias.given); import gives; print(type(alias.given), gives.call("ab"))'
    output_is $'True None\n<class \'alias.Lazy\'> 2'
}

@test "code that imports have generated runs: callbacks of ctypes, output of a compiler" {
    preload_module compiles <<<'import ctypes, mmap
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
    same -c 'from compiles import *
print(callback(1), function(place)(), function(fixed_place)(), *sorted(areas()))
writable[1] = 44
print(function(place)())'
    output_is $'2 42 43 r-xp rwxp\n44'
}

@test "code that imports have generated: cold if such memory is forbidden, and only then" {
    # PR_SET_MDWE (Linux 6.3) forbids it, as SELinux does for a domain without execmem.
    local forbid='import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(99)
os.execv(sys.argv[1], sys.argv[1:])'
    local code=0
    python3 -c "$forbid" "$(type -P true)" || code=$?
    ((code != 99)) || skip "this kernel has no PR_SET_MDWE"
    ((code == 0))
    preload_module compiles <<<'import mmap
try: code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7); code[0] = 1
except PermissionError: code = None'
    cold -c 'import compiles' # creates __pycache__, which would change the key
    prints True warm -c 'import compiles; print(compiles.code is not None)'
    configure 'process["args"][2] = "import compiles; print(compiles.code)"
config["annotations"]["run.pysbx.warm"] = "auto"'
    prints None python3 -c "$forbid" "$RUNTIME" run --bundle bundle box
    configure 'config["annotations"]["run.pysbx.warm"] = "require"'
    expect 1 python3 -c "$forbid" "$RUNTIME" run --bundle bundle box
    stderr_has "the snapshot has code that was generated at run time, which is forbidden here"
    prints True warm -c 'import compiles; print(compiles.code is not None)'
}

@test "references of preloaded modules to sys are the program's: __main__, argv, line buffering" {
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

@test "an import of most preloaded modules: the others, and what the program has put into sys.modules, stay as in a cold start" {
    module small.py <<<'import decimal'
    preload asyncio,small
    same -c 'import sys, types
sys.modules["fractions"] = own = types.ModuleType("fractions")
sys.modules["numbers"] = None
import asyncio
print(sorted(sys.modules), sys.modules["fractions"] is own)
del sys.modules["numbers"]
import small
print(sorted(sys.modules), asyncio.run is sys.modules["asyncio"].run, sys.modules["numbers"].Number)
del sys.modules["asyncio"]
import asyncio.locks
print(sorted(sys.modules))'
    output_has "True <class 'numbers.Number'>"
}

@test "what a program imports before all else (__pysbx_first__) is there at its start, with its effects; others are hidden" {
    module first.py <<<'import atexit, fractions, warnings
__pysbx_first__ = True
warnings.simplefilter("error", BytesWarning)
atexit.register(print, "the end")'
    module small.py <<<'import wave'
    module packaged/__init__.py </dev/null
    module packaged/inner.py <<<'__pysbx_first__ = None'
    for names in first,small first first,packaged.inner,small; do
        preload "$names"
        prints "first True, fractions True, wave False
the end" warm -c 'import sys; print(*(f"{name} {name in sys.modules}" for name in ("first", "fractions", "wave")), sep=", ")'
        same -c 'import first, packaged.inner, sys, warnings
print(sorted(sys.modules), first is sys.modules["first"], packaged.inner.__name__, warnings.filters)
import small
print(sorted(sys.modules), small.wave)'
        output_has "the end"
    done
}

@test "an import that leaves an object open: no snapshot, and the object is named" {
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
    # fork(2) does not copy other threads and timers, so programs that depend on them must run cold.
    local show='import signal, threading; print(threading.active_count(), signal.getitimer(signal.ITIMER_REAL)[0] > 1)'
    for name in thread timer; do
        module "holds_$name.py" <<<"${modules[$name]}"
        preload "holds_$name"
        expect 0 cold -c "import holds_$name; $show"
        local fresh=$output
        prints "$fresh" either -c "import holds_$name; $show"
    done
}

@test "an import may keep a file open for reading: position, flags and content are the same" {
    module held.txt <<<'0123456789'
    preload_module holds <<<'import os
one, two = (os.open("/modules/held.txt", os.O_RDONLY) for _ in range(2))
os.lseek(one, 3, os.SEEK_SET); os.set_inheritable(two, True)
text = open("/modules/held.txt"); first = text.read(1)'
    same -c 'import fcntl, holds, os
for fd in holds.one, holds.two, holds.text.fileno():
    print(fd, os.lseek(fd, 0, os.SEEK_CUR), fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD),
          os.path.sameopenfile(fd, holds.one), os.readlink(f"/proc/self/fd/{fd}"))
print(os.read(holds.one, 4), os.read(holds.two, 4), holds.first, holds.text.read(), os.listdir("/proc/self/fd"))'
    output_has "b'3456' b'0123' 0 123456789"
}

@test "an import of ctypes keeps a file of libffi open: the program has it when it imports ctypes, with a cold start's number" {
    use_image pandas-forky # older ones have a libffi without such a file
    preload ctypes
    local show='print(os.open("/etc/passwd", 0), sorted(os.listdir("/proc/self/fd")))'
    same -c "import os; $show"
    same -c "import ctypes, os; $show"
    output_is "4 ['0', '1', '2', '3', '4', '5']"
    # The number that it had in the builder is the program's, and new callbacks need the file.
    same -c "import os; $show; import ctypes; $show
functions = [ctypes.CFUNCTYPE(ctypes.c_int)(lambda i=i: i) for i in range(2000)]
print(sum(function() for function in functions), os.readlink('/proc/self/fd/4'))"
    output_has 1999000 libffi
}

@test "an import may keep a file open for reading: if it has changed, the program has the new one" {
    module held.txt <<<old
    # Like libraries do it, without Python's knowledge.
    preload_module holds <<<'import ctypes; fd = ctypes.CDLL(None).open(b"/modules/held.txt", 0)'
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
            prints "b'$text\n'" either -c "$show"
        done
        same -c "$show"
        output_is "b'$text\n'"
    done
    rm modules/held.txt
    fails 1 "Bad file descriptor" either -c "$show"
}

@test "the host name: the container's, also if an import has asked platform for it" {
    preload_module asks <<<'import platform; system = platform.system()'
    for name in one another; do
        configure 'config["hostname"] = arguments[0]' "$name"
        same -c 'import asks, os, platform, socket
print(platform.node(), socket.gethostname(), os.uname().nodename, asks.system, platform.uname())'
        output_has "$name $name $name Linux uname_result("
    done
}

@test "an import that keeps a file open in a way that would be lost: no snapshot, and the file is named" {
    declare -A modules=(
        [dup]='g = os.dup(f)'
        [flock]='fcntl.flock(f, fcntl.LOCK_SH)'
        [lock]='fcntl.lockf(f, fcntl.LOCK_SH)'
        [status]='g = os.open("/modules/held.txt", os.O_RDONLY | os.O_NONBLOCK)'
        [fifo]='g = os.open("/modules/fifo", os.O_RDONLY | os.O_NONBLOCK)'
        [directory]='g = os.open("/modules", os.O_RDONLY)'
        # A different name each time, because the imports run twice at the same time.
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

@test "an import that keeps the host name, or uses the network: no snapshot, and the reason" {
    for line in "import socket; name = 'at ' + socket.gethostname()" "import os; name = os.uname()" \
        "import os; name = os.uname().nodename" "import platform; name = platform.node()"; do
        preload_module asks <<<"$line"
        is_cold_because "the imports ask for the host name, which differs between containers"
    done
    for line in "socket.socket().connect(('127.0.0.1', 9))" "socket.getaddrinfo('localhost', 80)"; do
        preload_module asks <<<"import contextlib, socket
with contextlib.suppress(OSError):
    $line"
        is_cold_because "the imports use the network, which is not available while a snapshot is made"
    done
    preload_module asks <<<'import os, platform, sysconfig
system, architecture, place = platform.platform(), os.uname().machine, sysconfig.get_platform()'
    expect 0 warm -c 'pass'
}

@test "an import that asks whether a standard stream is a terminal: cold with a terminal, warm without" {
    for line in "import sys; color = sys.stdout.isatty()" "import os; color = os.isatty(2)" \
        "import shutil; color = shutil.get_terminal_size().columns"; do
        preload_module asks <<<"$line"
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

# Make a writable root for this test only, with a directory for temporary files.
writable_root() {
    own_root python
    chmod 1777 root/tmp
    configure 'config["root"]["readonly"] = False'
}

@test "an import that looks for a directory for temporary files finds the container's, as it would cold" {
    writable_root
    preload_module temporary <<<'import tempfile; place = tempfile.gettempdir()
with tempfile.NamedTemporaryFile("w+") as file: file.write("text")'
    local show='import temporary; print(temporary.place)'
    same -c "$show"
    output_is /tmp
    [[ -z $(ls root/tmp) ]]
    mkdir tmp
    configure 'mount("/tmp", arguments[0], "rw")' "$PWD/tmp"
    same -c "$show"
    output_is /tmp
    # If none is left, the snapshot that says /tmp does not fit.
    configure 'unmount("/tmp"); config["root"]["readonly"] = True'
    fails 1 "No usable temporary directory" cold -c "$show"
    fails 1 "No usable temporary directory" either -c "$show"
    is_cold_because "import temporary: FileNotFoundError: [Errno 2] No usable temporary directory"
    configure 'config["root"]["readonly"] = False'
    same -c "$show"
}

@test "files that imports leave in /tmp and /dev/shm are in every container" {
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    preload_module temporary <<<'import ctypes, os, tempfile
place = tempfile.mkdtemp(dir="/dev/shm")
os.mkdir(place + "/deeper", 0o750)
with open(place + "/deeper/text", "w") as file: file.write("text" * 5000)
os.chmod(place + "/deeper/text", 0o640)
os.symlink("deeper/text", place + "/link")
ctypes.CDLL(None).mkdir(b"/tmp/by_c", 0o700)'
    local show='import os, temporary
for top, names, files in sorted([*os.walk(temporary.place), *os.walk("/tmp")]):
    print(top.replace(temporary.place, "place"), names, sorted(files), oct(os.stat(top).st_mode), os.stat(top).st_uid)
print(oct(os.stat(temporary.place + "/deeper/text").st_mode), len(open(temporary.place + "/link").read()))'
    same -c "$show"
    output_has "/tmp/by_c [] [] 0o40700" "0o100640 20000"
    # Without room for them the start is cold, which is an error if a warm one is required.
    configure 'unmount("/dev/shm"); mount("/dev/shm", "tmpfs", "size=4k", "mode=1777", kind="tmpfs")'
    is_cold_because "run.pysbx.warm=require: the imports cannot be continued: [Errno 28] No space left on device"
    configure 'unmount("/dev/shm"); mount("/dev/shm", "tmpfs", "mode=1777", kind="tmpfs")'
    # A file that is there already is not replaced.
    mkdir -p shared/by_c
    chmod 777 shared/by_c
    configure 'unmount("/tmp"); mount("/tmp", arguments[0], "rw")' "$PWD/shared"
    fails 1 "the imports saw another kind of file, or none, at '/tmp/by_c'" warm -c 'print("ran")'
    expect 0 either -c 'print("ran")' # the snapshot is made again
    configure 'unmount("/tmp")'
    module temporary.py <<<'import os; os.mkfifo("/dev/shm/pipe")'
    is_cold_because "'/dev/shm/pipe'"
    module temporary.py <<<'open("/dev/shm/large", "wb").write(bytes(2 << 20))'
    is_cold_because "too many or too large temporary files"
}

@test "times that an import keeps in variables are set forward, with the deadlines that it computes of them" {
    preload_module clocks <<<'import time
wall, started, exact = time.time(), time.monotonic(), time.perf_counter_ns()
expires = started + 3
second = int(time.time())
class Cache:
    def __init__(self): self.expires = time.monotonic() + 3
cache = Cache()'
    local show='import clocks, time
age = time.monotonic() - clocks.started
print(0 <= age < 2, abs(time.time() - clocks.wall - age) < 0.5, abs(clocks.expires - clocks.started - 3) < 0.5, abs(clocks.expires - clocks.cache.expires) < 0.5)
print(abs(time.perf_counter_ns() - clocks.exact - age * 1e9) < 5e8, -1 <= time.time() - clocks.second - age <= 1.5)
print(*(type(value).__name__ for value in (clocks.wall, clocks.expires, clocks.exact, clocks.second)))'
    expect 0 warm -c "$show"
    sleep 4
    same -c "$show"
    output_is "True True True True
True True
float float int int"
}

@test "times that an import keeps elsewhere, or the CPU time that it has used: no snapshot" {
    local -A modules=(
        ["keep the time at which they run in a list"]='import time; times = [time.time()]'
        ["keep the time at which they run in a tuple"]='import time
def later(since=time.monotonic() + 5): pass'
        ["keep a number that they have calculated of the time"]='import time; milliseconds = time.time() * 1000'
        ["ask how much CPU time they have used"]='import time; time.process_time()'
        ["ask how much CPU time they have used, which"]='import os; os.times()'
        ["ask how much CPU time they have used, which begins anew"]='import resource; resource.getrusage(resource.RUSAGE_SELF)'
    )
    preload clocks
    for reason in "${!modules[@]}"; do
        module clocks.py <<<"${modules[$reason]}"
        is_cold_because "the imports $reason"
    done
    module clocks.py <<<'import time; began = time.time(); length = len(str(time.time() - began)) > 0; began = None'
    same -c 'import clocks; print(clocks.length)'
}

@test "what an import makes of the time, in whatever form: no snapshot, and the variable is named" {
    preload clocks
    for kept in '(int(time.time()),)' 'datetime.date.today()' '(datetime.datetime.now().second,)' 'time.strftime("%H")' 'time.localtime()[:6]' \
        'json.dumps(time.time())' 'hashlib.sha256(time.ctime().encode())' \
        'lambda since=f"{time.monotonic():.0f}": since' 'type("Kept", (), {"__slots__": (), "hour": time.gmtime().tm_hour})' \
        'ctypes.CDLL(None).time(None) % 3600'; do
        module clocks.py <<<"import ctypes, datetime, hashlib, json, time
kept = $kept"
        is_cold_because "the variable 'kept' of the module 'clocks' is different each time"
    done
    module clocks.py <<<'import os, sys, time
sys.path_hooks.append((time.ctime(), lambda path: None)[1])
os.environ["BEGAN"] = time.ctime()'
    is_cold_because "the variable 'environ' of the module 'posix'"
}

@test "an import that reads a clock and keeps nothing of it: the snapshot is used" {
    preload_module clocks <<<'from __future__ import annotations
import atexit, datetime, enum, logging.config, os, random, re, sys, time
class Day(enum.Enum): MONDAY, TUESDAY = range(2)
def age(since=None): return time.time() - since
names, pattern = set("abcdefgh"), re.compile("|".join(set("abcdefgh")))
lines, addresses = list(set("abcdefgh")), [id(Day)]
class Finder: find, stat, environment, start, draw = staticmethod(__import__), os.stat, os.environ, atexit.register, random.Random
Finder.patched, logging.raiseExceptions, sys.setrecursionlimit = property(lambda self: os.path.exists), False, sys.setrecursionlimit
if datetime.datetime.now().year > 1990 and time.localtime().tm_year > 1990: modern = datetime.datetime(2000, 1, 1)'
    same -c 'import clocks; print(clocks.modern, sorted(clocks.lines))'
}

@test "classes of a package whose docstrings differ by chance (scipy): also beside an import that reads a clock" {
    module scipy/__init__.py </dev/null
    module scipy/stats/__init__.py <<<'from ._new_distributions import Normal'
    module scipy/stats/_new_distributions.py <<<'from ._distribution_infrastructure import example
class Normal: __doc__ = example()'
    module scipy/stats/_distribution_infrastructure.py <<<'import os
def example(): return os.urandom(8).hex()'
    preload_module clocks <<<'import scipy.stats, time; now = time.time()'
    same -c 'import clocks; print(clocks.scipy.stats.Normal)'
    module own.py <<<'import scipy.stats, time
class Own(scipy.stats.Normal): hour = time.gmtime().tm_hour'
    preload own
    is_cold_because "the variable 'Own' of the module 'own' is different each time"
}

@test "the interpreter prints something before the program: no snapshot" {
    preload json
    is_cold_because() {
        fails 1 "the interpreter prints something at its start" warm "$@" -c 'print("ran")'
        expect 0 cold "$@" -c 'print("ran")'
        local said=$stderr
        [[ $said == *ignored* ]]
        prints ran either "$@" -c 'print("ran")'
        [[ $stderr == "$said" ]]
    }
    is_cold_because -W bogus::x
    configure 'process["env"].append("LD_PRELOAD=/missing.so")'
    is_cold_because
}

@test "an import that leaves an open temporary file, or finds one: no snapshot, and the file is named" {
    writable_root
    preload_module temporary <<<'import tempfile; file = tempfile.mkstemp(prefix="left", dir="/tmp")[1]'
    is_cold_because "descriptor 3 is open (/tmp/left"
    # Files that the image has there are not hidden.
    echo text >root/tmp/found
    module temporary.py <<<'import os; text = open("/tmp/found").read()'
    same -c 'import temporary; print(temporary.text)'
    output_is text
}

@test "an import that keeps /dev/urandom open may have read from it: no snapshot" {
    preload_module holds <<<'file = open("/dev/urandom", "rb", 0)'
    is_cold_because "the imports read random bytes from a device, and may keep them"
}

@test "a Python without getrandom keeps /dev/urandom open once" {
    configure 'config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls":
    [{"names": ["getrandom"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}'
    preload random
    same -c 'import random, os
os.urandom(1)
for fd in range(3, 9):
    try: print(fd, os.readlink(f"/proc/self/fd/{fd}"), os.get_inheritable(fd))
    except FileNotFoundError: pass'
    output_is "3 /dev/urandom False"
}

@test "a program whose ELF header is writable, as BOLT links it, is at the place where debuggers look for it" {
    own_root python
    # A module changes the page, as the dynamic linker does for its entry there (DT_DEBUG).
    python3 - root/usr/bin/python3.* <<'END'
import struct, sys
for path in sys.argv[1:]:
    with open(path, "r+b") as file:
        head = file.read(64)
        place, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
        for at in range(place, place + size * count, size):
            file.seek(at)
            if struct.unpack("<I4xQ", file.read(16)) == (1, 0):  # PT_LOAD of offset 0
                file.seek(at + 4)
                file.write(struct.pack("<I", 6))
END
    preload_module header <<<'import ctypes
def mapping(): return next(line for line in open("/proc/self/maps") if "/bin/python3" in line)
ctypes.memset(int(mapping().split("-")[0], 16) + 15, 1, 1)'
    same -c 'import ctypes, header
start, protection, offset, *_, path = header.mapping().replace("-", " ", 1).split()[0:1] + header.mapping().split()[1:]
print(protection, offset, path, ctypes.string_at(int(start, 16), 16))'
    output_has "rw-p 00000000 /usr/bin/python3"
}

@test "a Python built with an old C library: no memfd_create" {
    module sitecustomize.py <<<'import posix; vars(posix).pop("memfd_create", None)'
    prints False warm -c 'import posix; print(hasattr(posix, "memfd_create"))'
    preload_module speaks <<<'print("a word")'
    fails 1 "the imports write to standard output or error: 'a word" warm -c pass
}
