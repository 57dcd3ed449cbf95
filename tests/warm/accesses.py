"""The ways in which an import can look at its surroundings: the rows of warm-access.bats.

A row has a name, the state that differs between two containers (CHANGES in access.py), and the text of a module. The
module leaves the state that it has seen in `got`. It is None if this machine does not offer the way. `C` is a prelude for system
calls and for functions of the C library.

Both containers have the volume /secret. Its content differs only in rows about the volume itself, so that a row is
about one state.
"""

# ruff: noqa: E501 -- a row is a line where it can be

from typing import NamedTuple


class Row(NamedTuple):
    """A way to look at something."""

    name: str
    change: str
    text: str
    known: str = ""
    """Why the snapshot says another thing than a cold start. Then it is only what A has seen that B must not say."""


C = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(4096)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    return -ctypes.get_errno() if result < 0 else result
def content(descriptor):
    if descriptor < 0: return descriptor
    text = os.read(descriptor, 100)
    os.close(descriptor)
    return text
"""
BYPASSED = "contrib/docs/pages/inside/open-problems.md: methods of dict, with the environment as an argument"
NO_FILE = "contrib/docs/pages/inside/open-problems.md: system calls that name no file are not observed"
IMPORTED_BEFORE = "contrib/docs/pages/explanation/snapshots.md: modules are imported before sys.argv is the program's"
DONE = "\ndel libc, buffer, call, content, ctypes, os\n"


def c(name: str, change: str, text: str, known: str = "") -> Row:
    """Return a row of system calls as they are, or of functions of the C library."""
    return Row(name, change, C + text + DONE, known)


VARIABLES = [
    Row("os.environ[]", "variable", "import os; got = os.environ['SECRET']"),
    Row("in os.environ", "name", "import os; got = 'SECRET' in os.environ"),
    Row("os.environ.items", "variable", "import os; got = [v for n, v in os.environ.items() if n == 'SECRET']"),
    Row("list(os.environ)", "name", "import os; got = sorted(n for n in os.environ if n.startswith('SECRET'))"),
    Row("len(os.environ)", "name", "import os; got = len(os.environ)"),
    Row("os.environ.copy", "variable", "import os; got = os.environ.copy().get('SECRET')"),
    Row("os.environ._data", "variable", "import os; got = os.environ._data.get(b'SECRET')"),
    Row("dict(os.environ._data)", "variable", "import os; got = dict(os.environ._data).get(b'SECRET')"),
    Row("os.environb", "variable", "import os; got = os.environb.get(b'SECRET')"),
    Row("posix.environ.get", "variable", "import posix; got = posix.environ.get(b'SECRET')"),
    Row("dict.get(posix.environ)", "variable", "import posix; got = dict.get(posix.environ, b'SECRET')", BYPASSED),
    Row("dict.items(posix.environ)", "variable", "import posix; got = [v for v in dict.items(posix.environ) if v[0] == b'SECRET']", BYPASSED),
    Row("gc.get_referents", "variable", """import gc, posix
got = [dict.get(o, b'SECRET') for o in gc.get_referents(vars(posix)) if isinstance(o, dict) and dict.__contains__(o, b'SECRET')]"""),
    c("getenv(3)", "variable", "libc.getenv.restype = ctypes.c_char_p; got = libc.getenv(b'SECRET')"),
    c("environ(7)", "variable", """
array, got = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ'), []
i = 0
while array[i]:
    if array[i].startswith(b'SECRET='): got.append(array[i])
    i += 1
del array, i"""),
    Row("/proc/self/environ", "variable", "got = [w for w in open('/proc/self/environ').read().split(chr(0)) if 'SECRET' in w]"),
    Row("/proc/1/environ", "variable", "got = [w for w in open('/proc/1/environ').read().split(chr(0)) if 'SECRET' in w]"),
    Row("/proc/thread-self/environ", "variable",
        "got = [w for w in open('/proc/thread-self/environ').read().split(chr(0)) if 'SECRET' in w]"),
    Row("environ of /proc by a descriptor of its directory", "variable", """import os
d = os.open('/proc/self', os.O_RDONLY)
f = os.open('environ', os.O_RDONLY, dir_fd=d)
got = [w for w in os.read(f, 99999).split(b'\\0') if b'SECRET' in w]
os.close(f); os.close(d)"""),
    c("/proc/self/environ by open(2)", "variable", """
descriptor = call(2, b'/proc/self/environ', 0)
got = [w for w in os.read(descriptor, 99999).split(b'\\0') if b'SECRET' in w]
os.close(descriptor)"""),
    Row("/proc/self/mem: the stack", "variable", """import re
with open('/proc/self/maps') as f: line = [l for l in f if '[stack]' in l][0]
low, high = (int(w, 16) for w in line.split()[0].split('-'))
with open('/proc/self/mem', 'rb', 0) as f:
    f.seek(low); got = sorted(set(re.findall(rb'SECRET=\\w+', f.read(high - low))))
del line"""),
    Row("a child of subprocess: env", "variable", """import subprocess
got = [w for w in subprocess.run(['env'], capture_output=True, text=True).stdout.split() if 'SECRET' in w]"""),
    Row("a child of os.fork", "variable", """import os
r, w = os.pipe()
p = os.fork()
if p == 0: os.write(w, os.environ['SECRET'].encode()); os._exit(0)
os.waitpid(p, 0); got = os.read(r, 100); os.close(r); os.close(w)"""),
]

FILES = [
    Row("open", "volume", "got = open('/secret/s').read()"),
    Row("os.open", "volume", "import os; f = os.open('/secret/s', os.O_RDONLY); got = os.read(f, 100); os.close(f)"),
    Row("os.open, dir_fd", "volume", """import os
d = os.open('/secret', os.O_RDONLY); f = os.open('s', os.O_RDONLY, dir_fd=d); got = os.read(f, 100); os.close(f); os.close(d)"""),
    Row("a path through a descriptor", "volume", """import os
d = os.open('/secret', os.O_RDONLY); got = open(f'/proc/self/fd/{d}/s').read(); os.close(d)"""),
    Row("O_PATH, then /proc/self/fd", "volume", """import os
d = os.open('/secret/s', os.O_PATH); got = open(f'/proc/self/fd/{d}').read(); os.close(d)"""),
    Row("/proc/self/root", "volume", "got = open('/proc/self/root/secret/s').read()"),
    Row("/proc/1/root", "volume", "got = open('/proc/1/root/secret/s').read()"),
    Row("/proc/self/cwd", "volume", "got = open('/proc/self/cwd/secret/s').read()"),
    Row("chdir, then a relative path", "volume", "import os; os.chdir('/secret'); got = open('s').read(); os.chdir('/')"),
    Row("fchdir, then a relative path", "volume", """import os
d = os.open('/secret', os.O_RDONLY); os.fchdir(d); os.close(d); got = open('s').read(); os.chdir('/')"""),
    Row("through a link in the volume", "volume", "got = open('/secret/to-s').read()"),
    Row("os.listdir", "volume", "import os; got = sorted(os.listdir('/secret'))"),
    Row("os.listdir of a descriptor", "volume", "import os; d = os.open('/secret', 0); got = sorted(os.listdir(d)); os.close(d)"),
    Row("os.scandir", "volume", "import os; got = sorted(e.name for e in os.scandir('/secret'))"),
    Row("DirEntry.stat", "volume", "import os; got = sorted((e.name, e.stat().st_size) for e in os.scandir('/secret') if e.name == 'long')"),
    Row("os.stat: size", "volume", "import os; got = os.stat('/secret/long').st_size"),
    Row("os.stat: mode", "volume", "import os; got = os.stat('/secret/mode').st_mode"),
    Row("os.stat: time", "volume", "import os; got = os.stat('/secret/time').st_mtime_ns"),
    Row("os.stat: inode", "volume", "import os; got = os.stat('/secret/s').st_ino"),
    Row("os.stat, dir_fd", "volume", "import os; d = os.open('/secret', 0); got = os.stat('long', dir_fd=d).st_size; os.close(d)"),
    Row("os.lstat", "volume", "import os; got = os.lstat('/secret/link').st_size"),
    Row("os.fstat of O_PATH", "volume", "import os; d = os.open('/secret/long', os.O_PATH); got = os.fstat(d).st_size; os.close(d)"),
    Row("os.path.realpath", "volume", "import os; got = os.path.realpath('/secret/link')"),
    Row("os.access", "volume", "import os; got = os.access('/secret/mode', os.X_OK)"),
    Row("os.access: is it there", "volume", "import os; got = os.access('/secret/maybe', os.F_OK)"),
    Row("os.readlink", "volume", "import os; got = os.readlink('/secret/link')"),
    Row("os.readlink, dir_fd", "volume", "import os; d = os.open('/secret', 0); got = os.readlink('link', dir_fd=d); os.close(d)"),
    Row("open: errors", "volume", """
try: got = bool(open('/secret/maybe'))
except OSError as error: got = error.errno"""),
    Row("os.listxattr, getxattr", "xattr", "import os; got = os.getxattr('/secret/s', 'user.mark') if os.listxattr('/secret/s') else None"),
    Row("os.statvfs", "statvfs", "import os; got = os.statvfs('/secret').f_blocks"),
    Row("mmap", "volume", """import mmap
with open('/secret/s', 'rb') as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: got = m[:]"""),
    Row("os.sendfile to a pipe", "volume", """import os
r, w = os.pipe(); f = os.open('/secret/s', 0)
os.sendfile(w, f, 0, 100); got = os.read(r, 100)
for n in r, w, f: os.close(n)"""),
    Row("os.splice", "volume", """import os
r, w = os.pipe(); f = os.open('/secret/s', 0)
os.splice(f, w, 100) if hasattr(os, 'splice') else os.sendfile(w, f, 0, 100); got = os.read(r, 100)
for n in r, w, f: os.close(n)"""),
    Row("os.copy_file_range to memory", "volume", """import os
f = os.open('/secret/s', 0); m = os.memfd_create('m')
try: os.copy_file_range(f, m, 100)
except OSError: os.sendfile(m, f, 0, 100)
got = os.pread(m, 100, 0)
for n in f, m: os.close(n)"""),
    Row("a thread", "volume", """import _thread, time
got = None
def read():
    global got
    got = open('/secret/s').read()
_thread.start_new_thread(read, ())
while got is None: time.sleep(0.01)
time.sleep(0.05)"""),
    Row("os.fork", "volume", """import os
r, w = os.pipe(); p = os.fork()
if p == 0: os.write(w, open('/secret/s', 'rb').read()); os._exit(0)
os.waitpid(p, 0); got = os.read(r, 100); os.close(r); os.close(w)"""),
    Row("subprocess: cat", "volume", "import subprocess; got = subprocess.run(['cat', '/secret/s'], capture_output=True).stdout"),
    Row("subprocess: a program of the volume", "volume", "import subprocess; got = subprocess.run(['/secret/run'], capture_output=True).stdout"),
    Row("os.system to a file", "volume", "import os; os.system('cp /secret/s /dev/shm/c'); got = open('/dev/shm/c').read(); os.unlink('/dev/shm/c')"),
    c("open(2)", "volume", "got = content(call(2, b'/secret/s', 0))"),
    c("openat(2)", "volume", "got = content(call(257, -100, b'/secret/s', 0))"),
    c("openat(2) beneath a descriptor", "volume", """
d = call(257, -100, b'/secret', 0x200000); got = content(call(257, d, b's', 0)); os.close(d)"""),
    c("openat2(2)", "volume", "got = content(call(437, -100, b'/secret/s', (ctypes.c_ulonglong * 3)(), 24))"),
    c("open(3)", "volume", "got = content(libc.open(b'/secret/s', 0))"),
    c("stat(2)", "volume", "got = (call(4, b'/secret/long', buffer), buffer.raw[48:56])"),
    c("lstat(2)", "volume", "got = (call(6, b'/secret/link', buffer), buffer.raw[48:56])"),
    c("newfstatat(2)", "volume", "got = (call(262, -100, b'/secret/long', buffer, 0), buffer.raw[48:56])"),
    c("statx(2)", "volume", "got = (call(332, -100, b'/secret/long', 0, 0xfff, buffer), buffer.raw[40:48])"),
    c("access(2)", "volume", "got = call(21, b'/secret/maybe', 0)"),
    c("faccessat(2)", "volume", "got = call(269, -100, b'/secret/maybe', 0)"),
    c("faccessat2(2)", "volume", "got = call(439, -100, b'/secret/maybe', 0, 0)"),
    c("readlink(2)", "volume", "got = (call(89, b'/secret/link', buffer, 100), buffer.value)"),
    c("readlinkat(2)", "volume", "got = (call(267, -100, b'/secret/link', buffer, 100), buffer.value)"),
    c("getdents64(2)", "volume", """
d = call(257, -100, b'/secret', 0x10000); n = call(217, d, buffer, 4096); os.close(d)
got = [b'name-MARKA' in buffer.raw[:n], b'name-MARKB' in buffer.raw[:n]]"""),
    c("statfs(2)", "statvfs", "got = (call(137, b'/secret', buffer), buffer.raw[16:24])"),
    c("getxattr(2)", "xattr", "got = (call(191, b'/secret/s', b'user.mark', buffer, 100), buffer.value)"),
    c("listxattr(2)", "xattr-name", "got = (call(194, b'/secret/s', buffer, 100), buffer.raw[:100].strip(bytes(1)))"),
    c("name_to_handle_at(2)", "volume", """
ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint))[0] = 128
mount = ctypes.c_int()
got = (call(303, -100, b'/secret/s', buffer, ctypes.byref(mount), 0), buffer.raw[:40]); del mount"""),
    c("open_tree(2)", "volume", """
d = call(428, -100, b'/secret/s', 0x80000)
got = None if d < 0 else open(f'/proc/self/fd/{d}').read()
d < 0 or os.close(d)"""),
    c("inotify_add_watch(2): is it there", "volume", """
d = call(294, 0); got = min(call(254, d, b'/secret/maybe', 2), 0); os.close(d)"""),
    c("truncate(2): is it there", "volume", "got = call(76, b'/secret/maybe', 0)"),
    c("chmod(2): is it there", "volume", "got = call(90, b'/secret/maybe', 0o600)"),
    c("mkdir(2): is it there", "volume", "got = call(83, b'/secret/maybe', 0o700)"),
    c("link(2): is it there", "volume", "got = call(86, b'/secret/maybe', b'/dev/shm/linked')"),
    c("utimensat(2): is it there", "volume", "got = call(280, -100, b'/secret/maybe', None, 0)"),
    c("chdir(2): is it there", "volume", "got = call(80, b'/secret/dir-MARKA')"),
    c("execve(2) in a child", "volume", """
r, w = os.pipe(); p = os.fork()
if p == 0: os.dup2(w, 1); os.execv('/secret/run', ['run'])
os.waitpid(p, 0); got = os.read(r, 100); os.close(r); os.close(w)"""),
    c("io_uring: a read", "volume", """
import mmap, struct
parameters = ctypes.create_string_buffer(120)
ring = call(425, 4, parameters)
if ring < 0: got = None
else:
    entries, completions, flags, _, _, features = struct.unpack_from('6I', parameters)
    sq, cq = struct.unpack_from('10I', parameters, 40), struct.unpack_from('10I', parameters, 80)
    size = max(sq[6] + entries * 4, cq[5] + completions * 16)
    rings, table = mmap.mmap(ring, size, offset=0), mmap.mmap(ring, entries * 64, offset=0x10000000)
    path, text = ctypes.create_string_buffer(b'/secret/s'), ctypes.create_string_buffer(100)
    def do(slot, *entry):
        table[slot * 64 : slot * 64 + 64] = struct.pack('<BBHiQQII32x', *entry)
        struct.pack_into('<I', rings, sq[6] + slot * 4, slot)
        struct.pack_into('<I', rings, sq[1], slot + 1)
        call(426, ring, 1, 1, 1, None, 0)
        struct.pack_into('<I', rings, cq[0], slot + 1)
        return struct.unpack_from('<Qi', rings, cq[5] + slot * 16)[1]
    file = do(0, 18, 0, 0, -100, 0, ctypes.addressof(path), 0, 0)
    n = do(1, 22, 0, 0, file, 0, ctypes.addressof(text), 100, 0)
    got = text.raw[:max(n, 0)] or file
    if file >= 0: os.close(file)
    table.close(); rings.close(); os.close(ring)
    del table, rings, path, text, do
del parameters, struct, mmap"""),
    Row("sqlite3", "volume", """import sqlite3
base = sqlite3.connect('file:/secret/base?immutable=1', uri=True); got = base.execute('select * from t').fetchall(); base.close(); del base"""),
    Row("ssl: cafile", "certificate", """import ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); context.load_verify_locations('/secret/ca.pem')
got = [c['serialNumber'] for c in context.get_ca_certs()]; del context"""),
    Row("zipimport", "volume", "import zipimport; got = zipimport.zipimporter('/secret/m.zip').load_module('inzip').text"),
    Row("zoneinfo", "volume", """import zoneinfo
zoneinfo.reset_tzpath(to=['/secret/zones']); got = zoneinfo.ZoneInfo('Own').tzname(__import__('datetime').datetime(2000, 1, 1))"""),
    Row("ctypes.CDLL of a library", "volume", "import ctypes; l = ctypes.CDLL('/secret/lib.so'); got = hasattr(l, 'cos'); del l"),
    Row("importlib: a module of a path", "volume", """import importlib.util
spec = importlib.util.spec_from_file_location('own', '/secret/packages/apackage/__init__.py')
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); got = module.text"""),
    Row("importlib: is there such a module", "volume", """import importlib.util, sys
sys.path.append('/secret/packages'); got = importlib.util.find_spec('maybe') is not None"""),
    Row("pwd", "passwd", "import pwd; got = pwd.getpwuid(4321).pw_name"),
    Row("grp", "group", "import grp; got = [g.gr_name for g in grp.getgrall() if g.gr_gid == 4321]"),
    c("getpwuid(3)", "passwd", """
libc.getpwuid.restype = ctypes.POINTER(ctypes.c_char_p); entry = libc.getpwuid(4321); got = entry[0] if entry else ''; del entry"""),
    c("a file that the engine mounts, by open(2)", "resolv", "got = content(call(2, b'/etc/resolv.conf', 0))"),
]

# The same paths in both containers. Between them, another process changes the files. The first word is the method.
CHANGED = [
    *(
        Row(f"{way}, {place}: {what}", f"live {way} {place} {what}", text)
        for place in ("disk", "tmpfs")
        for way in ("mapping", "write", "rename", "link", "directory")
        for what, text in (("data", "got = open('/secret/s').read()"), ("module", "from own import text as got"))
    ),
    Row("mapping, tmpfs: open(2)", "live mapping tmpfs data", C + "got = content(call(2, b'/secret/s', 0))" + DONE),
    Row("mapping, tmpfs: mmap", "live mapping tmpfs data", """import mmap
with open('/secret/s', 'rb') as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: got = m[:]"""),
]

HOST = [
    Row("os.uname", "host", "import os; got = os.uname().nodename"),
    Row("socket.gethostname", "host", "import socket; got = socket.gethostname()"),
    c("uname(2)", "host", "got = (call(63, buffer), buffer.raw[65:130].strip(b'\\0'))"),
    c("uname(2): the domain", "domain", "got = (call(63, buffer), buffer.raw[325:390].strip(b'\\0'))"),
    c("getdomainname(3)", "domain", "libc.getdomainname(buffer, 100); got = buffer.value"),
    Row("/proc/sys/kernel/hostname", "host", "got = open('/proc/sys/kernel/hostname').read()"),
    Row("/proc/sys/kernel/domainname", "domain", "got = open('/proc/sys/kernel/domainname').read()"),
    Row("/proc/sys/kernel/msgmax", "sysctl", "got = open('/proc/sys/kernel/msgmax').read()"),
    Row("/proc/sys by a child", "host", "import subprocess; got = subprocess.run(['uname', '-n'], capture_output=True).stdout"),
    Row("/proc/self/mountinfo", "mount", "got = [l.split()[3] for l in open('/proc/self/mountinfo') if ' /other ' in l]"),
    Row("/proc/mounts", "mount", "got = sorted(l for l in open('/proc/mounts') if '/mnt/' in l)"),
    Row("/proc/1/mountinfo", "mount", "got = [l.split()[3] for l in open('/proc/1/mountinfo') if ' /other ' in l]"),
    Row("/proc/self/mountstats", "mount", "got = sorted(l for l in open('/proc/self/mountstats') if '/mnt/' in l)"),
    Row("a file mounted over one of /proc", "cpuinfo", "got = open('/proc/cpuinfo').readline()"),
    c("a file mounted over /proc/meminfo, by open(2)", "meminfo", "got = content(call(2, b'/proc/meminfo', 0))"),
    c("a file mounted over one of /proc, by open(2)", "cpuinfo", "got = content(call(2, b'/proc/cpuinfo', 0))"),
    Row("is a mount there", "mount", "import os; got = sorted(os.listdir('/mnt'))"),
    Row("os.path.ismount", "mountpoint", "import os; got = os.path.ismount('/mnt/point')"),
    Row("/proc/self/cgroup", "cgroup", "got = open('/proc/self/cgroup').read()"),
    Row("a file of the cgroup", "cgroup-file", "got = open('/sys/fs/cgroup/cgroup.max.depth').read()"),
    Row("/proc/self/status: groups", "groups", "got = [l for l in open('/proc/self/status') if l.startswith('Groups')]"),
    Row("/proc/self/status: umask", "umask", "got = [l for l in open('/proc/self/status') if l.startswith('Umask')]"),
    Row("/proc/self/status: NoNewPrivs", "privileges", "got = [l for l in open('/proc/self/status') if l.startswith('NoNewPrivs')]"),
    Row("/proc/self/cmdline", "arguments", "got = open('/proc/self/cmdline').read()[-40:]"),
    Row("/proc/1/cmdline", "arguments", "got = open('/proc/1/cmdline').read()[-40:]"),
    Row("sys.argv", "arguments", "import sys; got = sys.argv[-1]", IMPORTED_BEFORE),
    Row("/proc/self/limits", "limit", "got = [l for l in open('/proc/self/limits') if l.startswith('Max file size')]"),
    Row("resource.getrlimit", "limit", "import resource; got = resource.getrlimit(resource.RLIMIT_FSIZE)", NO_FILE),
    c("getrlimit(2)", "limit", "got = (call(97, 1, buffer), buffer.raw[:16])", NO_FILE),
    Row("getrlimit: descriptors", "descriptors", "import resource; got = resource.getrlimit(resource.RLIMIT_NOFILE)"),
    Row("/proc/self/oom_score_adj", "oom", "got = open('/proc/self/oom_score_adj').read()"),
    Row("os.getcwd", "cwd", "import os; got = os.getcwd()"),
    Row("readlink of /proc/self/cwd", "cwd", "import os; got = os.readlink('/proc/self/cwd')"),
    Row("os.getgroups", "groups", "import os; got = os.getgroups()"),
    Row("os.getuid", "user", "import os; got = os.getuid(), os.getgid()"),
    Row("os.getpid", "pids", "import os; got = os.getpid() == 1", NO_FILE),
    Row("umask", "umask", "import os; m = os.umask(0o22); os.umask(m); got = m", NO_FILE),
    c("prctl: no new privileges", "privileges", "got = call(157, 39, 0, 0, 0, 0)", NO_FILE),
    c("ioprio_get(2)", "ioprio", "got = call(252, 1, 0)", NO_FILE),
    c("sched_getscheduler(2)", "scheduler", "got = call(145, 0)", NO_FILE),
    Row("os.nice", "scheduler-nice", "import os; got = os.getpriority(os.PRIO_PROCESS, 0)", NO_FILE),
    Row("/proc/self/stat: the priority", "scheduler-nice", "got = open('/proc/self/stat').read().split()[18]"),
    Row("/proc/self/uid_map", "maps", "got = open('/proc/self/uid_map').read()"),
    Row("standard input: os.read", "stdin", "import os; got = os.read(0, 100)"),
    Row("standard input: sys.stdin", "stdin", "import sys; got = sys.stdin.readline()"),
    Row("standard input: fstat", "stdin-kind", "import os, stat; got = stat.S_IFMT(os.fstat(0).st_mode)", NO_FILE),
    c("keyring: search", "key", "got = (call(250, 10, -3, b'user', b'mark', 0) > 0)"),
    Row("the devices in /dev", "device", "import os; got = sorted(n for n in os.listdir('/dev') if n.startswith('own'))"),
    Row("Unix socket", "volume", """import socket
with socket.socket(socket.AF_UNIX) as s: s.connect('/secret/socket'); got = s.recv(100)"""),
    Row("TCP: socket.connect", "network", """import socket
try:
    with socket.create_connection(('127.0.0.1', int(open('/secret/port').read())), 1) as s: got = s.recv(100)
except OSError as error: got = error.errno"""),
    Row("/proc/net/tcp: who listens", "network", """
port = '%04X' % int(open('/secret/port').read())
got = [l.split()[1] for l in open('/proc/net/tcp') if l.split()[1].endswith(port) and l.split()[3] == '0A']"""),
    Row("socket.bind: is the port free", "network", """import socket
with socket.socket() as s:
    try: s.bind(('127.0.0.1', int(open('/secret/port').read()))); got = 0
    except OSError as error: got = error.errno"""),
]

IFREQ = "import fcntl, socket, struct\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"

# The state of the process, its streams, its namespaces and its shared memory: for mutate.py, which changes all of them.
STATE = [
    Row("shared memory: os.path.exists", "shm", "import os; got = os.path.exists('/dev/shm/state')"),
    Row("shared memory: os.listdir", "shm", "import os; got = sorted(os.listdir('/dev/shm'))"),
    Row("shared memory: open", "shm", "got = open('/dev/shm/state').read()"),
    Row("shared memory: os.scandir", "shm", "import os; got = sorted(e.name for e in os.scandir('/dev/shm'))"),
    Row("shared memory: glob", "shm", "import glob; got = glob.glob('/dev/shm/st*')"),
    Row("shared memory: its mode", "shm-mode", "import os; got = os.stat('/dev/shm').st_mode"),
    Row("shared memory: os.access", "shm-mode", "import os; got = os.access('/dev/shm', os.W_OK), os.path.isdir('/dev/shm')"),
    Row("shared memory: is it mounted", "shm-mode", "import os; got = os.path.ismount('/dev/shm')"),
    Row("SharedMemory", "shm", """from multiprocessing import shared_memory as shared
try: memory = shared.SharedMemory('state'); got = bytes(memory.buf[:4]); memory.close()
except OSError as error: got = error.errno"""),
    c("shm_open(3)", "shm", "d = libc.shm_open(b'/state', 0, 0); got = d >= 0; d < 0 or os.close(d)"),
    c("shmget(2)", "shm", "got = call(29, 77, 0, 0)"),
    c("shmctl(2)", "shm", "got = call(31, 0, 14, buffer)"),
    Row("affinity: the set", "affinity", "import os; got = sorted(os.sched_getaffinity(0))"),
    Row("affinity: the number", "affinity-number", "import os; got = len(os.sched_getaffinity(0)), os.cpu_count()"),
    c("affinity: sched_getaffinity(2)", "affinity", "got = (call(204, 0, 128, buffer), buffer.raw[:8])"),
    Row("affinity: /proc/self/status", "affinity", "got = [l for l in open('/proc/self/status') if l.startswith('Cpus')]"),
    c("no_new_privs", "privileges", "got = libc.prctl(39, 0, 0, 0, 0)"),
    c("seccomp mode", "privileges", "got = libc.prctl(21, 0, 0, 0, 0)"),
    c("dumpable", "privileges", "got = libc.prctl(3, 0, 0, 0, 0)"),
    c("securebits", "privileges", "got = libc.prctl(27, 0, 0, 0, 0)"),
    c("timer slack", "scheduler", "got = libc.prctl(30, 0, 0, 0, 0)"),
    c("personality(2)", "personality", "got = libc.personality(0xffffffff)"),
    c("get_mempolicy(2)", "affinity", "got = call(239, 0, 0, 0, 0, 0)"),
    Row("time namespace: its link", "time", "import os; got = bool(os.readlink('/proc/self/ns/time'))"),
    Row("time namespace: its offsets", "time", "got = open('/proc/self/timens_offsets').read()"),
    Row("time namespace: /proc/uptime", "time", "got = open('/proc/uptime').read().partition('.')[0][:-3]"),
    Row("network namespace: SIOCGIFCONF", "net", IFREQ + """import array
b = array.array('B', bytes(4096)); got = struct.unpack('iL', fcntl.ioctl(s, 0x8912, struct.pack('iL', 4096, b.buffer_info()[0])))[0]
s.close(); del s, b"""),
    Row("network namespace: SIOCGIFADDR", "net", IFREQ + """
try: got = fcntl.ioctl(s, 0x8915, struct.pack('256s', b'lo'))[20:24]
except OSError as error: got = error.errno
s.close(); del s"""),
    Row("network namespace: if_nameindex", "net", "import socket; got = socket.if_nameindex()"),
    Row("network namespace: an abstract socket", "net", """import socket
s = socket.socket(socket.AF_UNIX); s.bind('\\0state'); got = s.getsockname(); s.close(); del s"""),
    Row("process: a thread's directory", "pids", "import os; got = os.path.exists('/proc/self/task/2')"),
    Row("process: another one's directory", "pids", "import os; got = os.path.exists('/proc/2')"),
    Row("process: a signal to another one", "pids", """import os
try: os.kill(2, 0); got = 0
except OSError as error: got = error.errno"""),
    c("process: pidfd_open(2)", "pids", "got = call(434, 2, 0); got < 0 or os.close(got); got = got < 0"),
    c("open_tree(2)", "volume", "d = call(428, -100, b'/secret/maybe', 0); got = d >= 0; d < 0 or os.close(d)"),
    c("wordexp(3)", "variable", """
w = (ctypes.c_void_p * 4)(); libc.wordexp(b'$SECRET', w, 0); got = ctypes.string_at(ctypes.c_void_p.from_address(w[1]).value) if w[0] else ''
del w"""),
    c("getdate(3): DATEMSK", "datemsk", "libc.getdate(b'x'); got = ctypes.c_int.in_dll(libc, 'getdate_err').value"),
    c("get_current_dir_name(3): PWD", "pwd", "libc.get_current_dir_name.restype = ctypes.c_char_p; got = libc.get_current_dir_name()"),
    *(
        Row(f"standard stream: {name}", "stream", f"import os\ntry: got = {text}\nexcept OSError as error: got = error.errno")
        for name, text in {
            "os.isatty": "os.isatty(0)",
            "os.fstat": "os.fstat(0).st_size",
            "os.stat": "os.stat(0).st_mode",
            "os.lseek": "os.lseek(0, 0, 1)",
            "os.pread": "os.pread(0, 4, 0)",
            "os.dup": "(d := os.dup(0), os.fstat(d).st_size, os.close(d))[1]",
            "/dev/stdin": "os.stat('/dev/stdin').st_size",
            "/dev/fd": "os.stat('/dev/fd/0').st_size",
            "realpath": "os.path.realpath('/dev/stdin')",
            "its link": "os.readlink('/proc/self/fd/0')",
            "fdinfo": "open('/proc/self/fdinfo/0').read()",
            "fcntl": "__import__('fcntl').fcntl(0, __import__('fcntl').F_GETFL)",
            "FIONREAD": "__import__('fcntl').ioctl(0, 0x541B, bytes(4))",
            "select": "__import__('select').select([0], [], [], 0)[0]",
            "seekable": "__import__('sys').stdin.seekable()",
            "ttyname": "os.ttyname(0)",
            "a socket": "__import__('socket').socket(fileno=os.dup(0)).family",
            "a map of memory": "__import__('mmap').mmap(0, 4, prot=1)[:4]",
            "fpathconf": "os.fpathconf(0, 'PC_PIPE_BUF')",
        }.items()
    ),
    c("standard stream: fstat(2)", "stream", "got = (call(5, 0, buffer), buffer.raw[48:56])"),
    c("standard stream: statx(2)", "stream", "got = (call(332, 0, b'', 0x1000, 0x7ff, buffer), buffer.raw[40:48])"),
    c("standard stream: poll(2)", "stream", "got = (call(7, b'\\0\\0\\0\\0\\x05\\0\\0\\0', 1, 0))"),
]

# Each start must draw other bytes.
RANDOM = [
    Row("/dev/urandom", "", "got = open('/dev/urandom', 'rb', buffering=0).read(16)"),
    Row("/dev/random", "", "import os; d = os.open('/dev/random', 0); got = os.read(d, 16); os.close(d)"),
    Row("a link to /dev/urandom", "", "import os; os.symlink('/dev/urandom', '/tmp/u'); got = open('/tmp/u', 'rb', 0).read(16); os.unlink('/tmp/u')"),
    c("getrandom(2)", "", "got = (call(318, buffer, 16, 0), buffer.raw[:16])"),
    c("getentropy(3)", "", "got = (libc.getentropy(buffer, 16), buffer.raw[:16])"),
    c("AT_RANDOM", "", "libc.getauxval.restype = ctypes.c_ulong; got = ctypes.string_at(libc.getauxval(25), 16)"),
    Row("/proc/sys/kernel/random/uuid", "", "got = open('/proc/sys/kernel/random/uuid').read()"),
    Row("sqlite3", "", "import sqlite3; got = sqlite3.connect(':memory:').execute('select random()').fetchone()"),
    Row("random.Random", "", "import random; got = random.Random().random()"),
    Row("random.Random, with the time", "", "import random, time; got = random.Random(time.time_ns()).random()"),
    Row("random.Random, with hash()", "", "import random; got = random.Random(hash('text')).random()"),
    Row("random.Random, a sample", "", "import random; got = random.Random().sample(range(10**9), 3)"),
    Row("a subclass of random.Random", "", "import random\nclass Own(random.Random): pass\ngot = list(range(50)); Own().shuffle(got)"),
    Row("a method of random.Random", "", "import random; f = random.Random().random; got = f(); del f"),
    Row("_random", "", "import _random; got = _random.Random().random()"),
    Row("the state of a generator", "", "import random; got = hash(random.Random().getstate())"),
    Row("the state of the global generator", "", "import random; got = hash(random.getstate())"),
    Row("tempfile.mktemp", "", "import tempfile; got = tempfile.mktemp()"),
    Row("secrets", "", "import secrets; got = secrets.token_hex()"),
    Row("uuid1", "", "import uuid; got = str(uuid.uuid1())"),
    Row("uuid4", "", "import uuid; got = str(uuid.uuid4())"),
    Row("ssl", "", "import ssl; got = ssl.RAND_bytes(16)"),
    Row("email", "", "import email.utils; got = email.utils.make_msgid()"),
    Row("os.urandom in a thread", "", "import os, threading\ngot = []\nt = threading.Thread(target=lambda: got.append(os.urandom(8))); t.start(); t.join(); del t"),
]

TABLE = {"variables": VARIABLES, "files": FILES, "changed files": CHANGED, "host": HOST}
