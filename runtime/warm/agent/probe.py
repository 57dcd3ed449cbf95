"""The probe, in the names of bootstrap.py: import, watch what the imports look at, report it.

Every path is reported as this process sees it; the runtime looks at it again, with rights of its own.
"""

TYPE_CHECKING = False  # typing is not to be imported
if TYPE_CHECKING:
    import gc
    import posix
    import sys
    from typing import Any

    from bootstrap import LOADED, Failed, end, import_modules, leave_place, put, receive, send
    from packages import end_threads, may_read, random_states

MADE = {"os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}  # events, which argument is the path
ASK_NAME = "ask for the name of the machine, which each container has its own of"
ASK_NETWORK = "reach for the network, which is not there when a snapshot is made"
REFUSED = {  # events, and what the imports do then
    "socket.gethostname": ASK_NAME,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), ASK_NETWORK),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), ASK_NETWORK),
}
ELSEWHERE = ("/proc/", "/sys/", "/dev/")  # made for each container: nothing of a snapshot
# Files of the kernel that are the same in all containers until the next boot (the key holds its id), or that describe
# the address space and the descriptors of the process, which the snapshot brings along. "*" stands for the rest.
COMMON = (
    *("/proc", "/proc/cpuinfo", "/proc/crypto", "/proc/devices", "/proc/filesystems", "/proc/modules", "/proc/version"),
    *("/proc/self", "/proc/self/auxv", "/proc/self/comm", "/proc/self/exe", "/proc/self/fd*", "/proc/self/maps"),
    *("/proc/self/smaps", "/proc/self/task", "/proc/thread-self", "/sys", "/sys/bus/*", "/sys/devices/*"),
)
# Files that say something else at each look, or in each container; of any other file the content is compared.
VARYING = (
    *("/proc/diskstats", "/proc/interrupts", "/proc/loadavg", "/proc/meminfo", "/proc/schedstat", "/proc/softirqs"),
    *("/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/vmstat", "/proc/zoneinfo", "/proc/pressure/*"),
    *("/proc/mounts", "/proc/self/mounts", "/proc/self/mountinfo", "/proc/self/mountstats", "/proc/self/cmdline"),
    *("/proc/self/io", "/proc/self/sched*", "/proc/self/status", "/proc/self/stat", "/proc/self/statm"),
    "/proc/self/timers",
)
NETWORK = ("/proc/net*", "/proc/self/net*", "/proc/sys/net*", "/sys/class/net*")
VALUE_MAX = 16 * 1024  # CONTENT_VALUE_MAX of runtime/warm/content.h
MOUNTS = "/proc/mounts", "/proc/self/mounts", "/proc/self/mountinfo"
# What the last says of ids, groups, capabilities and CPUs is part of the key.
SIZES = "/proc/meminfo", "/proc/stat", "/proc/self/status"
QUIET = "/dev/.pysbx-quiet/"
STANDARD_DEVICES = ("full", "null", "random", "tty", "urandom", "zero", "fd", "stdin", "stdout", "stderr", "shm", "pts")
# Programs that look at no variable but those of the key: platform.processor() runs "uname -p".
PROGRAMS = (b"uname",)
ENVIRON = ("environ", "__environ", "_environ", "getenv", "secure_getenv", "__secure_getenv")  # of the C library
OWN_FILES = b".pysbx"
AGENT_FILES = "/dev/.pysbx"  # the agent, and what observe.h takes for other things
COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC


class Variables(dict[bytes, bytes]):
    """os.environ's variables, and which of them were looked at."""

    looked_at: set[bytes] = set()
    all_looked_at = False
    ONE = "__contains__", "__getitem__", "get", "pop", "setdefault"  # methods that look at one, and at all
    ALL = (
        *("__eq__", "__iter__", "__len__", "__ne__", "__or__", "__reduce_ex__", "__repr__", "__reversed__", "__ror__"),
        *("copy", "items", "keys", "popitem", "values"),
    )

    @classmethod
    def watch(cls) -> None:
        """Have each method of a dictionary note what it looks at."""

        def noting_one(method):  # type: ignore[no-untyped-def]
            def look(self, name, *default):  # type: ignore[no-untyped-def]
                cls.looked_at.add(name)
                return method(self, name, *default)

            return look

        def noting_all(method):  # type: ignore[no-untyped-def]
            def look(self, *given):  # type: ignore[no-untyped-def]
                cls.all_looked_at = True
                return method(self, *given)

            return look

        for name in cls.ONE:
            setattr(cls, name, noting_one(getattr(dict, name)))  # type: ignore[no-untyped-call]
        for name in filter(lambda name: hasattr(dict, name), cls.ALL):  # | is of 3.9
            setattr(cls, name, noting_all(getattr(dict, name)))  # type: ignore[no-untyped-call]


class Trace:
    """The runtime's notes on system calls of this process and its children: runtime/warm/observe/observe.h."""

    def __init__(self, records: bytes) -> None:
        self.files: set[str] = set()  # what was opened
        self.status: set[str] = set()  # whose status was asked for
        self.presence: set[str] = set()
        self.variables: set[bytes] = set()  # that the C library was asked for
        self.names_asked = 0  # how often for the name of the machine
        self.starts_process = False  # one that may look at the environment, or a program that may
        self.refused: "list[str]" = []
        self.kernel: set[str] = set()  # files that the kernel makes,
        self.kernel_read: set[str] = set()  # and those that were opened
        self.sockets: set[str] = set()  # that were connected to
        self.file_systems: set[str] = set()  # paths of which the file system was asked for
        self.reads_mounts = False
        self.values: set[str] = set()  # files of the kernel that are compared
        paths = {b"c": self.sockets, b"f": self.file_systems}
        paths.update({b"o": self.files, b"s": self.status, b"p": self.presence})
        for record in records.split(b"\0")[:-1]:
            kind, text = record[:1], record[1:]
            if kind in paths:
                self.add_path(paths[kind], text.decode(sys.getfilesystemencoding(), "surrogateescape"))
            elif kind == b"e":
                self.variables.add(text)
            elif kind == b"u":
                self.names_asked += 1
            elif kind == b"F":
                self.starts_process = True
            elif kind == b"x":
                self.starts_process |= text.rpartition(b"/")[2] not in PROGRAMS
            elif kind == b"B":
                # Python 3.13 looks for a module in the directory of the program, which is another one later.
                self.files.discard(posix.getcwd())
                self.starts_process = False  # the interpreter itself
            elif kind == b"N":
                self.refused.append(ASK_NETWORK)
            else:
                self.refused.append(text.decode())
        # A path that leads nowhere is a file that is absent, as for others.
        self.presence |= self.sockets | self.file_systems
        self.refused += [f"connect to '{path}'" for path in self.sockets if kind_of(path) != "a"]
        for path in sorted(self.file_systems):
            if kind_of(path) != "a":
                self.refused.append(f"ask how much space is left in '{path}'")

    def add_path(self, paths: set[str], path: str) -> None:
        is_kernels = f"{path}/".startswith(("/proc/", "/sys/"))
        (self.kernel if is_kernels else paths).add(path)
        if is_kernels and paths is self.files:
            self.kernel_read.add(path)

    def check(self, heard: set[str]) -> "tuple[bool, str | None]":
        """Look at the kernel's files: has one of them the environment, and why is there no snapshot (None: it may be).

        A file that differs from container to container, or from one moment to the next, is a reason. Libraries look for
        the name of a file system among the mounts (libffi), the limits of their cgroup (Rust), the size of memory and
        the number of CPUs, which are the same until the next boot: those files may be read if it is not Python that has
        opened them (`heard`). Whether a file is there is a matter of the kernel's build.
        """
        reads_environment = False
        for path in sorted(self.kernel):
            parts = path.split("/")
            if len(parts) > 2 and parts[1] == "proc" and (parts[2].isdigit() or parts[2] == "thread-self"):
                parts[2] = "self"
            if parts[2:4] == ["self", "task"] and len(parts) > 4:
                parts[2:5] = ["self"]
            name = "/".join(parts)
            read = path in self.kernel_read or path in heard
            if name in MOUNTS and path not in heard:
                self.reads_mounts |= read
            elif (name in SIZES and path not in heard and not is_mounted(path)) or (
                name.startswith("/proc/") and not read
            ):
                pass
            elif name in ("/proc/self/environ", "/proc/self/mem"):
                reads_environment = True
            elif name in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname"):
                return reads_environment, ASK_NAME
            elif is_one_of(name, NETWORK):
                return reads_environment, ASK_NETWORK
            elif may_read(name):
                pass
            elif is_one_of(name, VARYING):
                return reads_environment, f"read '{path}', which is not the same in all containers or at all times"
            elif not is_one_of(name, COMMON) or is_mounted(path):
                self.values.add(name)
        return reads_environment, None


def is_mounted(path: str) -> bool:
    """Has something been mounted over a file of /proc or /sys, as lxcfs does, or over a directory above it?"""
    try:
        return posix.lstat(path).st_dev != posix.stat("/".join(path.split("/", 2)[:2])).st_dev
    except OSError:
        return False


def is_one_of(path: str, patterns: "tuple[str, ...]") -> bool:
    return any(path.startswith(p[:-1]) if p.endswith("*") else path == p for p in patterns)


def kernel_value(path: str) -> bytes:
    """Return what a file of the kernel says, as content_kernel_value() of runtime/warm/content.h."""
    try:
        is_listed = posix.stat(path).st_mode & 0o170000 == 0o040000
        return (b"d" + list_names(path) if is_listed else b"f" + read_file(path))[:VALUE_MAX]
    except (FileNotFoundError, NotADirectoryError):
        return b"a"
    except OSError:
        return b"x"


def list_names(path: str) -> bytes:
    names = sorted(name for name in posix.listdir(path.encode()) if not name.startswith(OWN_FILES))
    return b"".join(name + b"\n" for name in names)


def read_file(path: str) -> bytes:
    file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY)
    value = b""
    try:
        while len(value) < VALUE_MAX and (piece := posix.read(file, VALUE_MAX)):
            value += piece
    finally:
        posix.close(file)
    return value


class Heard:
    """A function of os that notes its first argument; in a class it is no method, as it is none itself.

    One that asks only whether something is there, by a system call that asks for more, is `quiet`: the runtime takes
    what it sees meanwhile for no more than that (WARM_QUIET in runtime/warm/params.h).
    """

    def __init__(self, function: "Any", note: "Any", quiet: bool = False) -> None:
        self.function = function
        self.note = note
        self.quiet = quiet

    def __call__(self, *given: object, **named: object) -> object:
        if named.get("dir_fd") is None:
            self.note(given[0] if given else named.get("path"))
        if not self.quiet:
            return self.function(*given, **named)
        posix.access(f"{QUIET}1", 0)
        try:
            return self.function(*given, **named)
        finally:
            posix.access(f"{QUIET}0", 0)

    def __getattr__(self, name: str) -> object:
        return getattr(self.function, name)


class Machine(tuple[str, ...]):
    """What os.uname() returns, which notes that its second part, the name of the machine, is asked for by name."""

    asked = False

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if type(self) is Machine and index in (1, -4):
            Machine.asked = True
        return tuple.__getitem__(self, index)

    @property
    def nodename(self) -> str:
        Machine.asked = True
        return tuple.__getitem__(self, 1)

    @property
    def sysname(self) -> str:
        return tuple.__getitem__(self, 0)

    @property
    def release(self) -> str:
        return tuple.__getitem__(self, 2)

    @property
    def version(self) -> str:
        return tuple.__getitem__(self, 3)

    @property
    def machine(self) -> str:
        return tuple.__getitem__(self, 4)


def id_equal(one: object, other: object) -> bool:
    return one is other


class Watch:
    """What the imports looked at: an audit hook, another os.environ, a file instead of the standard streams."""

    def __init__(self, output: int, began: int) -> None:
        self.files: set[str] = set()
        self.directories: set[str] = set()
        self.status: set[str] = set()  # whose status was asked for
        self.presence: set[str] = set()  # of which it was asked only whether and what it is
        self.listens = True  # to those who ask so
        self.made: set[str] = set()  # what an import has perhaps made
        self.written: set[str] = set()  # what it has opened; a directory, for a file in there
        self.names: set[str] = set()
        self.asks_terminal = False
        self.refused: "list[str]" = []  # what they must not do
        self.hosts: "list[object]" = []  # names of the machine, and what they were told in
        self.names_asked = 0
        self.hears_ssl = False
        self.output = output
        self.began = began
        posix.dup2(output, 1)
        posix.dup2(output, 2)
        Variables.watch()
        posix.environ = Variables(posix.environ)
        if "os" in sys.modules:
            environments = sys.modules["os"]
            environments.environ._data = environments.environb._data = posix.environ
            self.hear_status(environments)
        sys.addaudithook(self.hook)

    def hear_status(self, system: "Any") -> None:
        """Have functions of which no hook hears say what they look at; what imports modules takes those of posix."""

        def note(paths: set[str]) -> "Any":
            return lambda path: self.listens and self.add(paths, getattr(path, "__fspath__", lambda: path)())

        for name in "exists", "isdir", "isfile", "islink", "lexists":
            function = getattr(system.path, name)
            if getattr(function, "__globals__", {}).get("os") is system and function.__closure__ is None:
                # A copy that asks by the functions of posix, which nobody hears.
                function = type(function)(function.__code__, {**function.__globals__, "os": posix}, name)
            setattr(system.path, name, Heard(function, note(self.presence), quiet=True))
        for name in "access", "lstat", "stat":
            setattr(system, name, Heard(getattr(system, name), note(self.status)))
        system.readlink = Heard(system.readlink, note(self.presence))

        def uname() -> "Any":
            found = Machine(posix.uname())
            self.names_asked += 1
            self.hosts += found, tuple.__getitem__(found, 1)
            return found

        system.uname = uname
        for name in "get_terminal_size", "isatty":
            setattr(system, name, Heard(getattr(system, name), self.hear_terminal))
        for stream in sys.stdin, sys.stdout, sys.stderr:
            vars(stream)["isatty"] = Heard(stream.isatty, self.hear_terminal)

    def hear_terminal(self, _: object) -> None:
        self.asks_terminal |= self.listens

    def keeps_host(self) -> bool:
        """Tell whether something holds a name of the machine, beside what renew_platform() of resume.py renews."""
        known = getattr(sys.modules.get("platform"), "_uname_cache", None)
        own = {id(thing) for thing in (known, self.hosts, *self.hosts)}
        # Nothing of ours holds them meanwhile: a variable of a frame (before 3.11) or generator would be found.
        return not own.issuperset(id(thing) for thing in gc.get_referrers(*self.hosts) if not self.is_hosts(thing))

    def is_hosts(self, thing: object) -> bool:
        """Tell the arguments of a call, which are a tuple that is found, too (3.13)."""
        return type(thing) is tuple and len(thing) == len(self.hosts) and all(map(id_equal, thing, self.hosts))

    def hook(self, event: str, arguments: "tuple[object, ...]") -> None:
        if event == "import":
            if arguments[0] == "_ssl" and not self.hears_ssl:
                self.hear_ssl()
            self.names.add(str(arguments[0]).partition(".")[0])
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (posix.O_WRONLY | posix.O_RDWR):
            self.add(self.written, arguments[0])
        elif event == "open":
            self.add(self.files, arguments[0])
        elif event in ("os.listdir", "os.scandir"):
            self.add(self.directories, "." if arguments[0] is None else arguments[0])
        elif event == "sqlite3.connect":
            self.add_database(arguments[0])
        elif (event == "ctypes.dlsym" and arguments[1] in ENVIRON) or event.startswith("gc.get_"):
            Variables.all_looked_at |= self.listens
        elif event in REFUSED and not (event == "socket.connect" and isinstance(arguments[1], (str, bytes))):  # Unix
            self.refused.append(REFUSED[event])
        if event in MADE:
            self.add(self.made, arguments[MADE[event]])

    def add_database(self, name: object) -> None:
        """SQLite opens its files itself, and what is new may be in the log beside one. The name may be a URI."""
        name = name.__fspath__() if hasattr(name, "__fspath__") else name
        if isinstance(name, bytes):
            name = name.decode(sys.getfilesystemencoding(), "surrogateescape")
        path = name if isinstance(name, str) else ""
        if path.startswith("file:"):
            path = path[5:].partition("#")[0].partition("?")[0]
            if path.startswith("//"):  # and the name of this machine, or none
                path = "/" + path[2:].partition("/")[2]
        if path not in ("", ":memory:"):
            self.files.update((path, f"{path}-wal"))

    def hear_ssl(self) -> None:
        """Have contexts say which certificates and keys they load: OpenSSL opens these files itself.

        The import is under way, so that ssl will find this kind of context and make its own of it.
        """
        self.hears_ssl = True
        try:
            ssl = __import__("_ssl")
        except ImportError:  # as the one who asks for it will find
            return
        files = {"load_verify_locations": ("cafile",), "load_cert_chain": ("certfile", "keyfile")}
        context = ssl._SSLContext
        methods = {name: self.heard(getattr(context, name), files[name]) for name in files}  # type: ignore[no-untyped-call]
        vars(ssl)["_SSLContext"] = type(context.__name__, (context,), methods)

    def heard(self, method, names):  # type: ignore[no-untyped-def]
        """The method, whose first arguments are files of these names."""

        def load(context, *given, **named):  # type: ignore[no-untyped-def]
            for path in (*given[: len(names)], *map(named.get, names)):
                self.add(self.files, path.__fspath__() if hasattr(path, "__fspath__") else path)
            return method(context, *given, **named)

        return load

    def files_written(self) -> set[str]:
        return {path for path in self.written if not is_directory(path)}

    @staticmethod
    def add(paths: set[str], path: object) -> None:
        if isinstance(path, bytes):
            path = path.decode(sys.getfilesystemencoding(), "surrogateescape")
        if isinstance(path, str):
            paths.add(path)


def look_at_interpreter() -> "dict[str, object]":
    """What a program finds as CPython has left it; of the process beside its memory the runtime sees to that."""
    return {
        "the switch of the collector (gc.disable)": gc.isenabled(),
        "the trace function (sys.settrace)": sys.gettrace(),
        "the profile function (sys.setprofile)": sys.getprofile(),
    }


def check_interpreter(before: "dict[str, object]") -> None:
    """Raise Failed if the imports have changed it."""
    for name, value in look_at_interpreter().items():
        if value != before[name]:
            raise Failed(f"the imports change {name}")


def changed_at(path: str) -> int:
    """When a file was changed or made, by the clock of file systems; 0 if there is none, or if it is no file."""
    try:
        status = posix.lstat(path)
    except (OSError, ValueError):
        return 0
    kind = status.st_mode & 0o170000
    return status.st_ctime_ns if kind in (0o100000, 0o040000, 0o120000) else 0


def kind_of(path: str) -> str:
    """Directory, file (whatever else there is), or absent: the letter of the record."""
    try:
        return "d" if posix.stat(path).st_mode & 0o170000 == 0o040000 else "f"
    except (OSError, ValueError):
        return "a"


def closed_by(path: str) -> "str | None":
    """The directory that does not let this process look at the path; None: nothing keeps it from that."""
    closed = None
    while path != "/":
        try:
            posix.lstat(path)
        except PermissionError:
            closed = path = path.rpartition("/")[0] or "/"
            continue
        except (OSError, ValueError):
            pass
        break
    return closed


def is_directory(path: str) -> bool:
    """As os.path.isdir(), for the imports need not have imported os."""
    return kind_of(path) == "d"


def python_threads() -> str:
    """Name the threads that the imports have started, and what runs in them."""
    threading = sys.modules.get("threading")
    others = [t for t in threading.enumerate() if t is not threading.main_thread()] if threading else []
    names = []
    for thread in others:
        target = getattr(thread, "_target", None) or type(thread)
        place = getattr(target, "__module__", None)
        names.append(f"'{thread.name}' of {place}.{getattr(target, '__qualname__', '')}")
    return f" ({', '.join(names)})" if names else ""


def check_threads(agent) -> None:  # type: ignore[no-untyped-def]
    """Raise Failed if a thread runs that would be missing: of Python, or one that cannot come along in a fork."""
    if sys.modules["_thread"]._count():
        raise Failed(f"the imports start a thread{python_threads()}, which would be missing")
    found = agent.rest_threads()
    if found:
        name, library, reason = found
        if name is None:
            raise Failed(reason)
        whose = "an unknown library" if library is None else f"'{library or sys.executable}'"
        raise Failed(f"the imports start a thread, '{name}' of {whose}, which {reason}")


def ask_trace(report: int) -> Trace:
    """Have the runtime stop the trace, and say what it has seen: the size of its records, and these."""
    send(report, put("q"))
    data = b""
    while len(data) < 8 or len(data) < 8 + int(data[:8], 16):
        data += receive(report)
    return Trace(data[8:])


def check(agent, watch: Watch, trace: Trace) -> None:  # type: ignore[no-untyped-def]
    """Raise Failed if the imports have done what a snapshot cannot hold or repeat."""
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            stream.flush()
    if posix.fstat(watch.output).st_size:
        text = posix.pread(watch.output, 100, 0).decode(errors="replace")
        raise Failed(f"the imports write to standard output or error: {text!r}")
    asks_name = trace.names_asked > watch.names_asked or Machine.asked or watch.keeps_host()
    for reason in watch.refused + trace.refused + [ASK_NAME] * asks_name:
        raise Failed(f"the imports {reason}")
    check_threads(agent)
    try:
        posix.waitpid(-1, posix.WNOHANG)
        raise Failed("the imports start a process")
    except ChildProcessError:
        pass
    import signal

    for path in watch.made | watch.files_written():
        # In /dev/shm matplotlib has its cache, if told so, and does without when it is gone.
        if not path.startswith(ELSEWHERE) and "__pycache__" not in path and changed_at(path) >= watch.began:
            raise Failed(f"the imports make '{path}', which would be missing")
    if any(signal.getitimer(kind)[0] for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        raise Failed("the imports set a timer")
    if has_secrets():
        raise Failed("the imports make an SSL context, whose secrets would be the same in all containers")


def has_secrets() -> bool:
    """Tell whether there is what OpenSSL has drawn random numbers for: a connection, a server's keys of tickets.

    A context for clients alone, as ssl.create_default_context() makes it since 3.10, has such keys and no use for them.
    Before, the collector does not know connections, so none may be there to make one.
    """
    ssl = sys.modules.get("_ssl")
    if ssl is None:
        return False
    things = gc.get_objects()
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, (ssl._SSLContext, ssl._SSLSocket))}
    if not ssl._SSLSocket.__flags__ & COLLECTED:
        return bool(kinds)
    return bool(kinds) and any(
        issubclass(type(thing), ssl._SSLSocket) or ssl._SSLContext.protocol.__get__(thing) != ssl.PROTOCOL_TLS_CLIENT
        for thing in things
        if type(thing) in kinds
    )


def places(watch: Watch) -> set[str]:
    """Where the imports made files that are gone: who finds a place for temporary ones there remembers it."""
    import os

    paths = {path for path in watch.made | watch.written if "__pycache__" not in path}
    found = {os.path.realpath(path if is_directory(path) else os.path.dirname(path)) for path in paths}
    return {p for p in found if not f"{p}/".startswith(ELSEWHERE) and os.access(p, os.W_OK, effective_ids=True)}


def add_openssl(watch: Watch) -> None:
    """Add what OpenSSL reads when it begins, by itself: its configuration, and the certificates that it trusts."""
    import os.path

    if not {"_ssl", "_hashlib"}.intersection(sys.modules):
        return
    try:
        paths = __import__("_ssl").get_default_verify_paths()
    except Exception:  # without _ssl nobody tells where they are
        return
    watch.files.add(os.environ.get(paths[0]) or paths[1])
    found: set[str] = set()
    sought = [os.environ.get("OPENSSL_CONF") or os.path.join(os.path.dirname(paths[1]), "openssl.cnf")]
    while sought:
        path = sought.pop()
        if path in found:
            continue
        found.add(path)
        try:
            if is_directory(path):
                sought += [os.path.join(path, n) for n in os.listdir(path) if n.endswith((".cnf", ".conf"))]
                continue
            with open(path, "rb") as file:
                lines = [line.strip() for line in file]
        except (OSError, ValueError):
            continue
        sought += [os.fsdecode(line[8:].lstrip(b" \t=")) for line in lines if line.startswith(b".include")]
    watch.files |= found


def look_around(watch: Watch) -> None:
    """Add what was looked at before there was an audit hook, and what imports look for."""
    import os.path

    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})  # getattr() for others would wake lazy modules up
        for attribute in "__file__", "__cached__":
            path = names.get(attribute)
            if isinstance(path, str) and os.path.exists(path):
                watch.files.add(path)
        try:
            watch.directories.update(filter(lambda p: isinstance(p, str), names.get("__path__", ())))
        except Exception:  # whatever a module calls its path
            pass
    for entry in sys.path:
        watch.directories.add(entry)
        if os.path.isdir(entry):
            watch.files.update(os.path.join(entry, name) for name in os.listdir(entry) if name.endswith(".pth"))
    add_openssl(watch)
    watch.files.update(("/etc/ld.so.cache", "/etc/ld.so.preload"))
    home = os.path.dirname(sys.executable)
    watch.files.update(os.path.join(place, "pyvenv.cfg") for place in (home, os.path.dirname(home)))


def real_path(path: str, folders: dict[str, str], links: set[str]) -> str:
    """os.path.realpath(), with what is known of the folders of others; adds the links that lead there."""
    import os.path

    folder, name = os.path.split(path)
    if path == folder:
        return path
    if folder not in folders:
        folders[folder] = real_path(folder, folders, links)
    if name in ("", "."):
        return folders[folder]
    if name == "..":
        return os.path.dirname(folders[folder])
    path = os.path.join(folders[folder], name)
    if path in links:
        return os.path.realpath(path)
    if not os.path.islink(path):
        return path
    links.add(path)
    return real_path(os.path.join(folders[folder], posix.readlink(path)), folders, links)


def path_records(watch: Watch, trace: Trace, libraries: "list[str]") -> set[bytes]:
    """Which of the paths are files, directories, or absent; and links, for they may lead elsewhere the next time.

    So they are of libraries, of which the snapshot knows the files.
    """
    import os.path

    folders: dict[str, str] = {}
    links: set[str] = set()
    here = posix.getcwd()
    looked_at = watch.files | watch.files_written() | watch.directories | trace.files
    paths = {real_path(os.path.join(here, path), folders, links) for path in looked_at}
    mapped = {
        real_path(os.path.join(here, library), folders, links)
        for library in (*libraries, sys.executable)
        if "/" in library  # the kernel's, and the program itself, have no path
    }
    asked = {real_path(os.path.join(here, path), folders, links) for path in watch.status | trace.status | watch.files}
    opened = {real_path(os.path.join(here, path), folders, links) for path in trace.files}
    kinds = {path: kind_of(path) for path in paths - (mapped - asked)}
    kinds.update((path, "c") for path in opened - asked if kinds.get(path) == "f")
    for looked_at, of_file in (watch.status | trace.status, "f"), (watch.presence | trace.presence, "p"):
        for path in {real_path(os.path.join(here, path), folders, links) for path in looked_at} - kinds.keys():
            kinds[path] = {"d": "D", "f": of_file, "a": "a"}[kind_of(path)]
    for path in [path for path, kind in kinds.items() if kind == "a"]:
        # The runtime sees what is behind, a program of a container of this kind does not.
        if closed := closed_by(path):
            del kinds[path]
            kinds[closed] = "d"
    # A file that is made there changes the directory that is listed.
    listed = {path for path, kind in kinds.items() if kind == "d"}
    kinds = {path: kind for path, kind in kinds.items() if kind != "a" or os.path.dirname(path) not in listed}
    kinds.update((path, "l") for path in links)
    check_devices(kinds, watch.began)
    if kinds.get("/dev") == "d":
        trace.values.add("/dev")
    # What a link has led to, of which the trace does not know that it is the kernel's.
    watch.files |= {path for path in paths if f"{path}/".startswith(("/proc/", "/sys/"))}
    trace.kernel |= {path for path in kinds if f"{path}/".startswith(("/proc/", "/sys/"))}
    records = {put(kind, path) for path, kind in kinds.items() if not f"{path}/".startswith(ELSEWHERE)}
    return records | {put("o", path) for path in mapped}


def check_devices(kinds: "dict[str, str]", began: int) -> None:
    """Raise Failed for a device, or a file in /dev/shm from before the imports, that not every container has."""
    for path, kind in kinds.items():
        name = path.split("/")[2] if path.startswith("/dev/") else ""
        own = name in STANDARD_DEVICES and not (path.startswith("/dev/shm/") and changed_at(path) < began)
        if name and kind != "a" and not own and not path.startswith(AGENT_FILES):
            raise Failed(f"the imports look at '{path}', which not every container has")


def top_level() -> set[str]:
    """The names of the modules that are loaded, without those in packages."""
    return {name.partition(".")[0] for name in sys.modules}


def customize_again() -> None:
    """Do once more what the start has done before there was a watch: .pth files, sitecustomize, usercustomize.

    And what they import, beside the standard library, for it looks at variables and files as well.
    """
    site = sys.modules.get("site")
    if site is None:  # -S
        return
    import os.path

    library = os.path.dirname(os.__file__) + "/"
    for name in LOADED:
        path = getattr(sys.modules.get(name), "__file__", None)
        own = isinstance(path, str) and (not path.startswith(library) or "-packages/" in path)
        if own or name in ("sitecustomize", "usercustomize"):
            sys.modules.pop(name, None)
    directories = list(sys.path)
    site.addsitepackages(set())
    if site.ENABLE_USER_SITE:
        site.addusersitepackages(set())
    site.execsitecustomize()
    if site.ENABLE_USER_SITE:
        site.execusercustomize()
    sys.path[:] = directories


def explore(agent, modules: list[str], report: int) -> None:  # type: ignore[no-untyped-def]
    try:
        for _, generator, _ in random_states(gc):  # of the start: what .pth files have seeded they will seed again
            generator.seed()
        bare = top_level()
        interpreter = look_at_interpreter()
        output = agent.memory_file()
        watch = Watch(output, posix.fstat(output).st_ctime_ns)
        customize_again()
        watch.names.clear()
        gc.set_threshold(0)  # this process ends soon
        posix.access(f"{QUIET}B", 0)
        import_modules(modules, report)
        watch.listens = False
        trace = ask_trace(report)
        end_threads()
        check(agent, watch, trace)
        check_interpreter(interpreter)
        leave_place()
        out = {put("g", digest) for digest, _, _ in random_states(gc)}
        out |= {put("v", sys.version)}
        out |= {put("m", name) for name in (watch.names | top_level()) - bare}
        out |= {put("t")} if watch.asks_terminal else set()
        out |= {put("w", place) for place in places(watch)}
        # The interpreter asks for some: where the agent was not preloaded (AT_SECURE, ld.so(8)), nothing tells which.
        unheard = bool(trace.files) and not trace.variables
        variables = Variables.looked_at | trace.variables, Variables.all_looked_at or unheard
        look_around(watch)
        out |= path_records(watch, trace, agent.libraries())
        out |= variable_records(watch, trace, *variables)
        send(report, b"".join(sorted(out)) + put("r"))
    except BaseException as error:
        end(report, error)


def variable_records(watch: Watch, trace: Trace, looked_at: set[bytes], at_all: bool) -> set[bytes]:
    """Return the variables that the imports may have read (all, where it cannot be seen which), and kernel files."""
    reads_environment, reason = trace.check(watch.files)
    if reason is not None:
        raise Failed(f"the imports {reason}")
    out = {put("e", name) for name in looked_at}
    out |= {put("V", f"{kernel_value(path).hex()}:{path}") for path in trace.values}
    if trace.reads_mounts:
        out.add(put("M"))
    if at_all or reads_environment or trace.starts_process:
        out.add(put("E"))
    if reads_environment or trace.starts_process:
        out.add(put("e", "HOSTNAME"))  # manifest_build.c: else it is left out, as each container has its own
    return out
