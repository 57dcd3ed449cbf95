"""The probe: import the modules, watch the files and variables that the imports look at, and report them.

This text and draws.py run in the names of bootstrap.py. The probe reports each path as its process sees it. The runtime
looks at the path again, with its own credentials.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import gc
    import posix
    import sys
    import time
    from typing import Any

    from bootstrap import LOADED, MADE_FILES, TEMPORARY, Failed, end, import_modules, leave_place, put, receive, send
    from draws import SOURCES, check_draws, hear_draws, hear_source
    from packages import end_threads, may_read, random_states

MADE = {"os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}  # events, which argument is the path
ASK_NAME = "ask for the host name, which differs between containers"
ASK_CPU_TIME = "ask how much CPU time they have used, which begins anew in each container"
ASK_NETWORK = "use the network, which is not available while a snapshot is made"
REFUSED = {  # audit events, and what the imports do then
    "socket.gethostname": ASK_NAME,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), ASK_NETWORK),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), ASK_NETWORK),
}
ELSEWHERE = ("/proc/", "/sys/", "/dev/")  # made for each container, so not part of a snapshot.
# Files of the kernel that are the same in all containers until the next boot, of which the key contains the id. Others
# describe the address space and the descriptors of the process, which are part of the snapshot. A final "*" stands for
# any rest of the path.
COMMON = (
    *("/proc", "/proc/cpuinfo", "/proc/crypto", "/proc/devices", "/proc/filesystems", "/proc/modules", "/proc/version"),
    *("/proc/self", "/proc/self/auxv", "/proc/self/comm", "/proc/self/exe", "/proc/self/fd*", "/proc/self/maps"),
    *("/proc/self/smaps", "/proc/self/task", "/proc/thread-self", "/sys", "/sys/bus/*", "/sys/devices/*"),
)
# Files whose content differs at each look, or in each container. Of any other file the content is compared.
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
# Of the last, the ids, groups, capabilities and CPUs are part of the key.
SIZES = "/proc/meminfo", "/proc/stat", "/proc/self/status"
NO_FILE = b"0"  # answer to the question "kind PATH"
QUIET = "/dev/.pysbx-quiet/"
STANDARD_DEVICES = ("full", "null", "random", "tty", "urandom", "zero", "fd", "stdin", "stdout", "stderr", "shm", "pts")
# Programs that look only at variables of the key. The standard library's module platform runs "uname -p".
PROGRAMS = (b"uname",)
ENVIRON = ("environ", "__environ", "_environ", "getenv", "secure_getenv", "__secure_getenv")  # of the C library
OWN_FILES = b".pysbx"
AGENT_FILES = "/dev/.pysbx"  # the agent, and paths whose look-up is a message to the runtime (observe.h)
COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC


class Variables(dict[bytes, bytes]):
    """The dictionary of os.environ. It notes which variables the imports look at."""

    looked_at: set[bytes] = set()
    all_looked_at = False
    ONE = "__contains__", "__getitem__", "get", "pop", "setdefault"  # methods that look at one variable
    ALL = (  # methods that look at all
        *("__eq__", "__iter__", "__len__", "__ne__", "__or__", "__reduce_ex__", "__repr__", "__reversed__", "__ror__"),
        *("copy", "items", "keys", "popitem", "values"),
    )

    @classmethod
    def watch(cls) -> None:
        """Replace each method of a dictionary by one that notes the variables it looks at."""

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
        for name in filter(lambda name: hasattr(dict, name), cls.ALL):  # | exists since 3.9
            setattr(cls, name, noting_all(getattr(dict, name)))  # type: ignore[no-untyped-call]


FLAGS = {b"F": "starts_process", b"P": "prints"}  # records without a text, and the attributes of a Trace


class Trace:
    """The runtime's notes on system calls of this process and its children: runtime/warm/observe/observe.h."""

    def __init__(self, records: bytes) -> None:
        self.files: set[str] = set()  # files that were opened.
        self.status: set[str] = set()  # files of which the status was read.
        self.presence: set[str] = set()  # files of which only the presence and the type were asked for.
        self.variables: set[bytes] = set()  # variables that the C library was asked for.
        self.names_asked = 0  # calls of uname(2).
        self.starts_process = False  # a process or a program that may look at the environment.
        self.refused: "list[str]" = []  # actions that a snapshot cannot repeat.
        self.kernel: set[str] = set()  # files of the kernel.
        self.kernel_read: set[str] = set()  # files of the kernel that were opened.
        self.sockets: set[str] = set()  # sockets that a connection was made to.
        self.file_systems: set[str] = set()  # paths for statfs(2).
        self.reads_mounts = False
        self.prints = False  # the interpreter did, at its start.
        self.values: set[str] = set()  # files of the kernel that are compared, and questions (runtime/warm/question.h).
        self.made: set[str] = set()  # paths that were created.
        paths = {b"c": self.sockets, b"f": self.file_systems, b"m": self.made}
        paths.update({b"o": self.files, b"s": self.status, b"p": self.presence})
        for record in records.split(b"\0")[:-1]:
            kind, text = record[:1], record[1:]
            if kind in paths:
                self.add_path(paths[kind], text.decode(sys.getfilesystemencoding(), "surrogateescape"))
            elif kind == b"e":
                self.variables.add(text)
            elif kind == b"u":
                self.names_asked += 1
            elif kind == b"q":
                self.values.add(text.decode())
            elif kind in FLAGS:
                setattr(self, FLAGS[kind], True)
            elif kind == b"x":
                self.starts_process |= text.rpartition(b"/")[2] not in PROGRAMS
            elif kind == b"B":
                # Python 3.13 looks for a module in the directory of the program, which is a different one later.
                self.files.discard(posix.getcwd())
                self.starts_process = False  # the interpreter itself
            elif kind == b"N":
                self.refused.append(ASK_NETWORK)
            else:
                self.refused.append(text.decode())
        # A path that does not exist counts as an absent file, as for other system calls.
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
        """Judge the kernel's files that were looked at.

        Returns whether one of them contains the environment, and the reason against a snapshot, or None.

        A file is a reason if it differs between containers, or from one moment to the next. Some such files are allowed
        if a library has opened them, not Python (`heard`). Libraries look for the name of a file system among the
        mounts (libffi), and for the limits of their cgroup (Rust). They look for the size of memory and the number of
        CPUs, which are the same until the next boot. Whether a file exists depends on the kernel's build.
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
            elif name.startswith("/proc/") and not read:
                pass
            elif name in ("/proc/self/environ", "/proc/self/mem"):
                reads_environment = True
            elif name in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname"):
                return reads_environment, ASK_NAME
            elif is_one_of(name, NETWORK):
                return reads_environment, ASK_NETWORK
            elif may_read(name) or (name in SIZES and path not in heard and not is_hidden(path)):
                self.values.add(f"hidden {name}")
            elif is_one_of(name, VARYING):
                return reads_environment, f"read '{path}', which is not the same in all containers or at all times"
            elif not is_one_of(name, COMMON) or is_hidden(path):
                self.values.add(name)
            elif name.count("/") > 1:  # /proc and /sys themselves are no part of another file system
                self.values.add(f"hidden {name}")
        return reads_environment, None


def is_hidden(path: str) -> bool:
    """Tell whether a file of /proc or /sys, or a directory above it, is hidden by another mount, as by lxcfs."""
    try:
        return posix.lstat(path).st_dev != posix.stat("/".join(path.split("/", 2)[:2])).st_dev
    except OSError:
        return False


def is_one_of(path: str, patterns: "tuple[str, ...]") -> bool:
    return any(path.startswith(p[:-1]) if p.endswith("*") else path == p for p in patterns)


def kernel_value(path: str) -> bytes:
    """Return the content of a file of the kernel, as content_kernel_value() in runtime/warm/content.h."""
    try:
        is_listed = posix.stat(path).st_mode & 0o170000 == 0o040000
        return (b"d" + list_names(path) if is_listed else b"f" + read_file(path))[:VALUE_MAX]
    except (FileNotFoundError, NotADirectoryError):
        return b"a"
    except OSError:
        return b"x"


def answer(question: str) -> bytes:
    """Return the answer to a question, as question_answer() in runtime/warm/question.h."""
    name, _, rest = question.partition(" ")
    if name == "limit":
        import resource

        return b"%d %d" % tuple(limit % (1 << 64) for limit in resource.getrlimit(int(rest)))
    if name == "umask":
        mask = posix.umask(0)
        posix.umask(mask)
        return b"%o" % mask
    if name == "scheduler":
        priority = posix.sched_getparam(0).sched_priority
        return b"%d %d %d" % (posix.sched_getscheduler(0), priority, posix.getpriority(posix.PRIO_PROCESS, 0))
    return b"%d" % is_hidden(rest) if name == "hidden" else about_file(name, rest)


def about_file(name: str, path: str) -> bytes:
    try:
        if name == "mount":
            return b"%d" % (posix.lstat(path).st_dev != posix.lstat(f"{path}/..").st_dev)
        return b"%o" % (posix.lstat(path).st_mode & 0o170000)
    except OSError:
        return NO_FILE


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


# Functions of Python that ask for the status of directories, and use only the type, or whether something is mounted.
WITHOUT_TIMES = {
    *(("posixpath", name) for name in ("realpath", "_joinrealpath", "ismount")),
    *(("pathlib", name) for name in ("exists", "is_dir", "is_file", "is_mount", "is_symlink", "mkdir")),
}


class Heard:
    """A function of os that notes its first argument. Like the function, it does not become a method in a class.

    `quiet`: the function asks only whether a file exists, but its system call asks for more. The runtime treats calls
    in the meantime as such a question (WARM_QUIET in runtime/warm/params.h).
    """

    def __init__(self, function: "Any", note: "Any", quiet: bool = False) -> None:
        self.function = function
        self.note = note
        self.quiet = quiet

    def __call__(self, *given: object, **named: object) -> object:
        path = given[0] if given else named.get("path")
        self.note(path if named.get("dir_fd") is None else path_of(named["dir_fd"], path))
        if not self.quiet:
            return self.function(*given, **named)
        posix.access(f"{QUIET}1", 0)
        try:
            return self.function(*given, **named)
        finally:
            posix.access(f"{QUIET}0", 0)

    def __getattr__(self, name: str) -> object:
        return getattr(self.function, name)


def path_of(descriptor: object, name: "Any" = "") -> object:
    """Return the path of a descriptor, and of a name in its directory; None for one that is none."""
    try:
        directory = posix.readlink(f"/proc/self/fd/{descriptor}")
        name = posix.fspath(name)
    except (OSError, TypeError):
        return None
    if isinstance(name, bytes):
        name = name.decode(sys.getfilesystemencoding(), "surrogateescape")
    return f"{directory}/{name}" if name and not name.startswith("/") else name or directory


class Machine(tuple[str, ...]):
    """The result of os.uname(). It notes that a caller reads its second item, the host name."""

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


class Stamp(float):
    """A time in seconds that an import has read from a clock, or has computed of one, such as a deadline.

    The difference of two is a duration, which does not depend on when the import runs.
    """

    clock = ""  # the function of the module time whose unit it has, or "" for any other unit


class Moment(int):
    """The same in nanoseconds."""

    clock = ""


def made_of(number: "Any", clock: str) -> "Any":
    """Return a number as a time of a clock; anything else as it is."""
    kind = {float: Stamp, int: Moment}.get(type(number))
    if kind is None:
        return number
    found = kind(number)
    found.clock = clock
    return found


class Clock:
    """A function of the module time that returns stamps."""

    names = "time", "monotonic", "perf_counter", "clock_gettime"
    plain: "list[tuple[int, str]]" = []  # plain numbers that the imports have made of stamps, with their clocks

    def __init__(self, name: str, read: "Any") -> None:
        self.name = name
        self.read = read

    def __call__(self, *clock: int) -> "Any":
        return made_of(self.read(*clock), "" if clock else self.name)

    @classmethod
    def watch(cls) -> None:
        """Replace the functions of the module time, and the arithmetic of stamps."""
        for name in (*cls.names, *(f"{name}_ns" for name in cls.names)):
            setattr(time, name, cls(name, getattr(time, name)))
        for kind, plain in (Stamp, float), (Moment, int):
            for name in (
                "add",
                "radd",
                "round",
                "pos",
                "abs",
                "mul",
                "rmul",
                "truediv",
                "floordiv",
                "neg",
                "sub",
                "rsub",
            ):
                setattr(kind, f"__{name}__", calculation(plain, name))
            for name in "int", "trunc":
                setattr(kind, f"__{name}__", conversion(getattr(plain, f"__{name}__")))


def calculation(plain: type, name: str) -> "Any":
    """Return a method of a stamp whose result is a stamp again, with the same unit for sums."""
    method, of_floats = getattr(plain, f"__{name}__"), getattr(float, f"__{name}__")
    scales = name in ("mul", "rmul", "truediv", "floordiv", "neg", "rsub")

    def calculate(self, *given):  # type: ignore[no-untyped-def]
        result = method(self, *given)
        if result is NotImplemented and isinstance(given[0], float):
            result = of_floats(float(self), *given)
        if name in ("sub", "rsub") and isinstance(given[0], (Stamp, Moment)):
            return result
        return made_of(result, "" if scales else self.clock)

    return calculate


def conversion(method: "Any") -> "Any":
    """Return a method of a stamp that notes its result, which must be a plain number."""

    def convert(self):  # type: ignore[no-untyped-def]
        number = method(self)
        Clock.plain.append((number, self.clock))
        return number

    return convert


def clock_records() -> set[bytes]:
    """Return records of the variables of modules that are times. Raise Failed if a time is kept anywhere else."""
    spaces = [(name, vars(module)) for name, module in sys.modules.items() if isinstance(module, type(sys))]
    gc.collect()  # as the builder does
    stamps = [thing for thing in gc.get_objects() if type(thing) in (Stamp, Moment)]
    out = set()
    mark = object()  # by which the arguments of the call are known
    for stamp in stamps:
        for holder in gc.get_referrers(stamp, mark):
            if holder is not stamps and not is_of_call(holder, mark):
                out |= clock_of(holder, spaces, stamp, stamp.clock)
    for number, clock in Clock.plain:
        for holder in holders_of(number):
            out |= clock_of(holder, spaces, number, clock)
    return out


def holders_of(number: int) -> "list[object]":
    """Return the objects that refer to a number of this value. Small ones are everywhere, and are no times."""
    if -10000 < number < 10000:
        return []
    known = {id(pair) for pair in Clock.plain}
    found = []
    for thing in gc.get_objects():
        if id(thing) in known or type(thing).__name__ == "frame":
            continue
        for part in gc.get_referents(thing):  # no generator, which would refer to the number, too
            if type(part) is int and part == number:
                found.append(thing)
    return found


def clock_of(holder: "Any", spaces: "list[tuple[str, dict[str, Any]]]", moment: object, clock: str) -> set[bytes]:
    """Return records for a time that an object holds: a module, or an object that is in a variable of a module.

    Raise Failed if it is another object, or the unit is unknown.
    """
    if not clock:
        raise Failed("the imports keep a number that they have calculated of the time at which they run")
    out = set()
    for module, names in spaces:
        if names is holder:
            out |= names_with(names, moment, f"clock:{clock}:{module}:")
        for name, value in names.items():
            inner = getattr(value, "__dict__", None) if value is not names else None
            if type(inner) is dict and not isinstance(value, type(sys)) and (value is holder or inner is holder):
                out |= names_with(inner, moment, f"clock:{clock}:{module}:{name}.")
    if not out:
        kind = type(holder).__name__
        raise Failed(f"the imports keep the time at which they run in a {kind}, where it cannot be set forward")
    return out


def names_with(names: "dict[str, object]", thing: object, beginning: str) -> set[bytes]:
    """Return records of the names that have a value; numbers are compared, and stamps by identity."""
    out = set()
    for name, value in names.items():
        if value is thing or (type(thing) is int and type(value) is int and value == thing):
            out.add(put("g", f"{beginning}{name}"))
    return out


def is_of_call(holder: object, mark: object) -> bool:
    """Tell whether this is the frame that looks (before 3.11), or the arguments of its call (3.13)."""
    return type(holder).__name__ == "frame" or (type(holder) is tuple and len(holder) == 2 and holder[1] is mark)


class Places(list[str]):
    """sys.path. It notes questions about its first item, which depends on the program."""

    def __init__(self, places: "list[str]", watch: "Watch") -> None:
        list.__init__(self, places)
        self.watch = watch

    def note(self) -> None:
        if self.watch.listens:
            self.watch.refused.append("look at the first item of sys.path, which depends on the program")

    def __contains__(self, place: object) -> bool:
        if place in ("", posix.getcwd()):
            self.note()
        return list.__contains__(self, place)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if index == 0 or (isinstance(index, slice) and index.start in (None, 0) and index != slice(None)):
            self.note()
        return list.__getitem__(self, index)

    def index(self, place, *limits):  # type: ignore[no-untyped-def]
        if place == "":
            self.note()
        return list.index(self, place, *limits)


def id_equal(one: object, other: object) -> bool:
    return one is other


class Watch:
    """Watch the imports: by an audit hook, another os.environ, and a file instead of the standard streams."""

    def __init__(self, output: int, errors: int) -> None:
        self.files: set[str] = set()  # files that were opened to read.
        self.directories: set[str] = set()  # directories that were listed.
        self.scanned: set[str] = set()  # the same by os.scandir(), whose entries may be asked for their status.
        self.status: set[str] = set()  # files of which the status was read.
        self.times: set[str] = set()  # files of which a caller may keep the whole status, with times and size.
        self.presence: set[str] = set()  # files of which only the presence and the type were asked for.
        self.listens = True  # the replaced functions note their arguments.
        self.made: set[str] = set()  # files and directories that an import may have created.
        self.written: set[str] = set()  # files that were opened to write, or a directory for a new file in it.
        self.names: set[str] = set()  # modules.
        self.asks_terminal = False
        self.refused: "list[str]" = []  # actions that a snapshot cannot repeat.
        self.hosts: "list[object]" = []  # results of os.uname(), and the host names in them.
        self.names_asked = 0  # calls of os.uname().
        self.hears_ssl = False
        self.hears_resource = False
        self.outputs = output, errors  # files in memory, in place of standard output and error
        self.began = posix.fstat(output).st_ctime_ns
        posix.dup2(output, 1)
        posix.dup2(errors, 2)
        Variables.watch()
        posix.environ = Variables(posix.environ)
        if "os" in sys.modules:
            environments = sys.modules["os"]
            environments.environ._data = environments.environb._data = posix.environ
            self.hear_status(environments)
        sys.addaudithook(self.hook)

    def hear_status(self, system: "Any") -> None:
        """Replace functions that have no audit event. The import system uses those of posix, which stay."""

        def note(paths: set[str]) -> "Any":
            return lambda path: self.listens and self.add(paths, getattr(path, "__fspath__", lambda: path)())

        for name in "exists", "isdir", "isfile", "islink", "lexists":
            function = getattr(system.path, name)
            if getattr(function, "__globals__", {}).get("os") is system and function.__closure__ is None:
                # A copy that uses the functions of posix, which are not replaced.
                function = type(function)(function.__code__, {**function.__globals__, "os": posix}, name)
            setattr(system.path, name, Heard(function, note(self.presence), quiet=True))
        system.access = Heard(system.access, note(self.status))
        for name in "lstat", "stat":
            setattr(system, name, Heard(getattr(system, name), self.hear_whole_status))
        system.readlink = Heard(system.readlink, note(self.presence))
        for name in "statvfs", "fstatvfs":
            setattr(system, name, Heard(getattr(system, name), self.hear_space))
        system.fstat = Heard(system.fstat, self.hear_stream)
        sys.path = Places(sys.path, self)
        hear_draws(system)
        Clock.watch()
        self.hear_cpu_time(system, "times")
        self.hear_cpu_time(time, "process_time", "process_time_ns", "thread_time", "thread_time_ns")

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

    def hear_whole_status(self, path: "Any") -> None:
        """Note the path of os.stat() or os.lstat(), and whether its caller may keep the times."""
        if not self.listens:
            return
        path = path_of(path) if isinstance(path, int) else getattr(path, "__fspath__", lambda: path)()
        self.add(self.status, path)
        frame = sys._getframe(2)  # of the caller of Heard
        if frame.f_code.co_name in ("stat", "lstat") and frame.f_back:  # pathlib.Path.stat()
            frame = frame.f_back
        if (frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_name) not in WITHOUT_TIMES:
            self.add(self.times, path)

    def hear_terminal(self, _: object) -> None:
        self.asks_terminal |= self.listens

    def hear_cpu_time(self, module: object, *names: str) -> None:
        """Note calls by code of Python. Libraries may measure themselves."""

        def note(_: object) -> None:
            if self.listens:
                self.refused.append(ASK_CPU_TIME)

        for name in names:
            setattr(module, name, Heard(getattr(module, name), note))

    def hear_space(self, path: object) -> None:
        if self.listens:
            self.refused.append(f"ask how much space is left in {path!r}")

    def hear_stream(self, descriptor: object) -> None:
        if self.listens and descriptor in (0, 1, 2):
            self.refused.append("ask what kind of file a standard stream is")
        elif self.listens:
            self.add(self.times, path_of(descriptor))

    def keeps_host(self) -> bool:
        """Tell whether an object refers to a host name, except the cache that renew_platform() empties."""
        known = getattr(sys.modules.get("platform"), "_uname_cache", None)
        own = {id(thing) for thing in (known, self.hosts, *self.hosts)}
        # No variable may refer to them here, because frames (before 3.11) and generators would be found.
        return not own.issuperset(id(thing) for thing in gc.get_referrers(*self.hosts) if not self.is_hosts(thing))

    def is_hosts(self, thing: object) -> bool:
        """Tell whether this is the tuple of arguments of the call, which is found, too (3.13)."""
        return type(thing) is tuple and len(thing) == len(self.hosts) and all(map(id_equal, thing, self.hosts))

    def hook(self, event: str, arguments: "tuple[object, ...]") -> None:
        if event == "import":
            if arguments[0] in SOURCES:
                hear_source(str(arguments[0]))
            if arguments[0] == "_ssl" and not self.hears_ssl:
                self.hear_ssl()
            if arguments[0] == "resource" and "resource" not in sys.modules and not self.hears_resource:
                self.hears_resource = True
                self.hear_cpu_time(__import__("resource"), "getrusage")
            self.names.add(str(arguments[0]).partition(".")[0])
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (posix.O_WRONLY | posix.O_RDWR):
            self.add(self.written, arguments[0])
        elif event == "open":
            self.add(self.files, arguments[0])
        elif event in ("os.listdir", "os.scandir"):
            self.add(self.directories, "." if arguments[0] is None else arguments[0])
            if event == "os.scandir" and self.listens:
                directory = arguments[0]
                self.add(self.scanned, path_of(directory) if isinstance(directory, int) else directory or ".")
        elif event == "sqlite3.connect":
            self.add_database(arguments[0])
        elif (event == "ctypes.dlsym" and arguments[1] in ENVIRON) or event.startswith("gc.get_"):
            Variables.all_looked_at |= self.listens
        elif event in REFUSED and not (event == "socket.connect" and isinstance(arguments[1], (str, bytes))):  # Unix
            self.refused.append(REFUSED[event])
        if event in MADE:
            self.add(self.made, arguments[MADE[event]])

    def add_database(self, name: object) -> None:
        """Add the files of a database, which SQLite opens itself. Recent changes may be in its log.

        The name may be a URI.
        """
        name = name.__fspath__() if hasattr(name, "__fspath__") else name
        if isinstance(name, bytes):
            name = name.decode(sys.getfilesystemencoding(), "surrogateescape")
        path = name if isinstance(name, str) else ""
        if path.startswith("file:"):
            path = path[5:].partition("#")[0].partition("?")[0]
            if path.startswith("//"):  # followed by this host's name or none
                path = "/" + path[2:].partition("/")[2]
        if path not in ("", ":memory:"):
            self.files.update((path, f"{path}-wal"))

    def hear_ssl(self) -> None:
        """Note the certificates and keys that contexts load, because OpenSSL opens these files itself.

        The import of ssl has begun, so ssl finds this class of context and derives its own from it.
        """
        self.hears_ssl = True
        try:
            ssl = __import__("_ssl")
        except ImportError:  # the import under way fails in the same way
            return
        files = {"load_verify_locations": ("cafile",), "load_cert_chain": ("certfile", "keyfile")}
        context = ssl._SSLContext
        methods = {name: self.heard(getattr(context, name), files[name]) for name in files}  # type: ignore[no-untyped-call]
        vars(ssl)["_SSLContext"] = type(context.__name__, (context,), methods)

    def heard(self, method, names):  # type: ignore[no-untyped-def]
        """Return the method as one that notes its first arguments, which are files of these names."""

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


def look_at_stream(descriptor: int) -> "tuple[object, ...]":
    """Return the properties of a standard stream that an import can change."""
    try:
        status = posix.fstat(descriptor)
        return status.st_dev, status.st_ino, posix.get_inheritable(descriptor), posix.get_blocking(descriptor)
    except OSError:
        return ()


def look_at_interpreter() -> "dict[str, object]":
    """Return settings that a program expects as CPython sets them. The runtime verifies the state outside of memory."""
    signals = __import__("_signal")
    hook = sys.excepthook
    # This package prints other exceptions as Python does.
    hook = sys.__excepthook__ if getattr(hook, "__module__", "").partition(".")[0] == "exceptiongroup" else hook
    return {
        "the function for uncaught exceptions (sys.excepthook)": hook,
        "the function that shows values (sys.displayhook)": sys.displayhook,
        "the limit of digits (sys.set_int_max_str_digits)": getattr(sys, "get_int_max_str_digits", int)(),
        "the handler of a signal": [signals.getsignal(number) for number in sorted(signals.valid_signals())],
        "the standard streams": [look_at_stream(descriptor) for descriptor in range(3)],
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
    """Return the change time of a file, directory or link; 0 for other types, or if there is none."""
    try:
        status = posix.lstat(path)
    except (OSError, ValueError):
        return 0
    kind = status.st_mode & 0o170000
    return status.st_ctime_ns if kind in (0o100000, 0o040000, 0o120000) else 0


def kind_of(path: str) -> str:
    """Return the letter of the record: for a directory, a file (of any other type), or an absent path."""
    try:
        return "d" if posix.stat(path).st_mode & 0o170000 == 0o040000 else "f"
    except (OSError, ValueError):
        return "a"


def closed_by(path: str) -> "str | None":
    """Return the directory that forbids this process to look at the path, or None."""
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
    """Do the same as os.path.isdir(), because os may not be imported."""
    return kind_of(path) == "d"


def python_threads() -> str:
    """Return the names of the threads that the imports have started, and of the functions that they run."""
    threading = sys.modules.get("threading")
    others = [t for t in threading.enumerate() if t is not threading.main_thread()] if threading else []
    names = []
    for thread in others:
        target = getattr(thread, "_target", None) or type(thread)
        place = getattr(target, "__module__", None)
        names.append(f"'{thread.name}' of {place}.{getattr(target, '__qualname__', '')}")
    return f" ({', '.join(names)})" if names else ""


def check_threads(agent) -> None:  # type: ignore[no-untyped-def]
    """Raise Failed if a thread would be missing: a thread of Python, or one that cannot come along in a fork."""
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
    """Let the runtime stop the trace, and receive its notes: the size of the records, and the records."""
    send(report, put("q"))
    data = b""
    while len(data) < 8 or len(data) < 8 + int(data[:8], 16):
        data += receive(report)
    return Trace(data[8:])


def check_environment(agent) -> None:  # type: ignore[no-untyped-def]
    """Raise Failed if the environment is not that of os.environ: a restored process gets only the changes to that."""
    there = dict(variable.partition(b"=")[::2] for variable in reversed(agent.environment().split(b"\0")[:-1]))
    known = dict(dict.items(posix.environ))  # this way it notes nothing
    for name in sorted(there.keys() | known.keys()):
        if there.get(name) != known.get(name):
            raise Failed(f"the imports set or remove the variable '{name.decode(errors='replace')}' not in os.environ")


def check(agent, watch: Watch, trace: Trace) -> None:  # type: ignore[no-untyped-def]
    """Raise Failed if the imports have done anything that a snapshot cannot contain or repeat."""
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            stream.flush()
    for output in watch.outputs:
        if text := posix.pread(output, 100, 0).decode(errors="replace"):
            raise Failed(f"the imports write to standard output or error: {text!r}")
    if trace.prints:
        raise Failed("the interpreter prints something at its start, which a snapshot does not repeat")
    asks_name = trace.names_asked > watch.names_asked or Machine.asked or watch.keeps_host()
    for reason in watch.refused + trace.refused + [ASK_NAME] * asks_name:
        raise Failed(f"the imports {reason}")
    check_threads(agent)
    check_environment(agent)
    try:
        posix.waitpid(-1, posix.WNOHANG)
        raise Failed("the imports start a process")
    except ChildProcessError:
        pass
    import signal

    for path in watch.made | watch.files_written() | trace.made:
        # The builder keeps files in the directories of TEMPORARY: keep_files() in bootstrap.py.
        elsewhere = path.startswith(ELSEWHERE + TEMPORARY)
        if not elsewhere and "__pycache__" not in path and changed_at(path) >= watch.began:
            raise Failed(f"the imports make '{path}', which would be missing")
    if keeps_date(watch.began / 1e9):
        raise Failed("the imports keep the time that datetime.now() or date.today() has told them")
    if any(signal.getitimer(kind)[0] for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        raise Failed("the imports set a timer")
    if has_secrets():
        raise Failed("the imports make an SSL context, whose secrets would be the same in all containers")
    check_draws()


def keeps_date(began: float) -> bool:
    """Tell whether an object refers to a date or time between `began`, in seconds since the epoch, and now.

    The functions of datetime read the clock themselves, and their types cannot be replaced. The collector does not know
    containers that have only numbers and the like, but other objects refer to those.
    """
    datetime: "Any" = sys.modules.get("datetime")
    if datetime is None:
        return False
    kinds = {datetime.date}
    while not kinds.issuperset(more := {heir for kind in kinds for heir in type.__subclasses__(kind)}):
        kinds |= more
    things = gc.get_objects()  # before there are times of this function
    ended = float(time.time())
    zone = datetime.timezone.utc
    aware = [datetime.datetime.fromtimestamp(when, zone) for when in (began - 1, ended + 1)]
    plain = [when.replace(tzinfo=None) for when in aware]
    local = [datetime.datetime.fromtimestamp(when) for when in (began - 1, ended + 1)]
    days = {when.date() for when in plain + local}

    def is_now(value: "Any") -> bool:
        if not isinstance(value, datetime.datetime):
            return value in days
        return any(low <= value <= high for low, high in ([aware] if value.tzinfo else [plain, local]))

    for _ in range(3):
        inner: "dict[int, Any]" = {}
        for start in range(0, len(things), 10000):
            for thing in gc.get_referents(*things[start : start + 10000]):
                if type(thing) in kinds and is_now(thing):
                    return True
                if type(thing) in (dict, tuple) and not gc.is_tracked(thing):
                    inner[id(thing)] = thing
        things = list(inner.values())
    return False


def has_secrets() -> bool:
    """Tell whether OpenSSL has drawn random numbers for secrets: for a connection, or a server's keys for tickets.

    A context for clients alone, as ssl.create_default_context() makes it since 3.10, has such keys but does not use
    them. Before 3.10 the collector does not find connections, so no context may exist that could make one.
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
    """Return directories where the imports made files that are gone. A module may remember one for temporary files."""
    import os

    paths = {path for path in watch.made | watch.written if "__pycache__" not in path}
    found = {os.path.realpath(path if is_directory(path) else os.path.dirname(path)) for path in paths}
    return {p for p in found if not f"{p}/".startswith(ELSEWHERE) and os.access(p, os.W_OK, effective_ids=True)}


def add_openssl(watch: Watch) -> None:
    """Add the files that OpenSSL itself reads at its start: its configuration, and the certificates that it trusts."""
    import os.path

    if not {"_ssl", "_hashlib"}.intersection(sys.modules):
        return
    try:
        paths = __import__("_ssl").get_default_verify_paths()
    except Exception:  # without _ssl their place is unknown
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
    """Add files that were looked at before there was an audit hook, and files that the import system looks for."""
    import os.path

    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})  # other attributes would load lazy modules
        for attribute in "__file__", "__cached__":
            path = names.get(attribute)
            if isinstance(path, str) and os.path.exists(path):
                watch.files.add(path)
        try:
            watch.directories.update(filter(lambda p: isinstance(p, str), names.get("__path__", ())))
        except Exception:  # __path__ may be any object
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
    """Return os.path.realpath(path). `folders` caches resolved directories; `links` gets the links on the way."""
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
    """Return records: which paths are files, directories or absent, and which are links.

    A link may lead elsewhere the next time. Libraries count only for their links, because the snapshot has records of
    their files.
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
        if "/" in library  # the vdso and the program itself have no path
    }
    asked = {real_path(os.path.join(here, path), folders, links) for path in watch.status | trace.status | watch.files}
    scanned = {real_path(os.path.join(here, path), folders, links) for path in watch.scanned}
    times = {real_path(os.path.join(here, path), folders, links) for path in watch.times}
    times |= {path for path in trace.status if os.path.dirname(path) in scanned}
    opened = {real_path(os.path.join(here, path), folders, links) for path in trace.files}
    kinds = {path: kind_of(path) for path in paths - (mapped - asked)}
    kinds.update((path, "c") for path in opened - asked if kinds.get(path) == "f")
    for looked_at, of_file in (watch.status | trace.status, "f"), (watch.presence | trace.presence, "p"):
        for path in {real_path(os.path.join(here, path), folders, links) for path in looked_at} - kinds.keys():
            of_directory = "d" if path in times else "D"
            kinds[path] = {"d": of_directory, "f": of_file, "a": "a"}[kind_of(path)]
    for path in [path for path, kind in kinds.items() if kind == "a"]:
        # The runtime sees files behind this directory, but a program in such a container does not.
        if closed := closed_by(path):
            del kinds[path]
            kinds[closed] = "d"
    # A listed directory covers absent files in it, because creating one changes the directory.
    listed = {path for path, kind in kinds.items() if kind == "d"}
    kinds = {path: kind for path, kind in kinds.items() if kind != "a" or os.path.dirname(path) not in listed}
    kinds.update((path, "l") for path in links)
    check_devices(kinds, watch.began)
    trace.values |= {f"kind {path}" for path, kind in kinds.items() if kind == "a" and is_device(path)}
    # The status of a directory, which code of Python has read, says whether something is mounted there.
    status = {real_path(os.path.join(here, path), folders, links) for path in watch.status}
    trace.values |= {f"mount {path}" for path in status if kinds.get(path) in ("d", "D")}
    if kinds.get("/dev") == "d":
        trace.values.add("/dev")
    # Add targets of links, because the trace does not know that these are files of the kernel.
    watch.files |= {path for path in paths if f"{path}/".startswith(("/proc/", "/sys/"))}
    trace.kernel |= {path for path in kinds if f"{path}/".startswith(("/proc/", "/sys/"))}
    # Every start makes the same files again, and fails if they exist.
    sought = kinds.keys() | trace.made | watch.made
    made = {path for path in sought if path.startswith(TEMPORARY) and changed_at(path) >= watch.began}
    records = {put(kinds[path], path) for path in kinds.keys() - made if not f"{path}/".startswith(ELSEWHERE)}
    records |= {put("V", f"{NO_FILE.hex()}:kind {path}") for path in made}
    if made:
        records.add(put("g", MADE_FILES))
    return records | {put("o", path) for path in mapped}


def is_device(path: str) -> bool:
    """Tell whether a path is that of a device which a container may have."""
    own = path.startswith((AGENT_FILES, *TEMPORARY))
    return path.startswith("/dev/") and not own and path.split("/")[2] not in STANDARD_DEVICES


def check_devices(kinds: "dict[str, str]", began: int) -> None:
    """Raise Failed for devices that not every container has, and for files in /dev/shm from before the imports."""
    for path, kind in kinds.items():
        name = path.split("/")[2] if path.startswith("/dev/") else ""
        own = name in STANDARD_DEVICES and not (path.startswith("/dev/shm/") and changed_at(path) < began)
        if name and kind != "a" and not own and not path.startswith(AGENT_FILES):
            raise Failed(f"the imports look at '{path}', which not every container has")


def top_level() -> set[str]:
    """Return the names of loaded modules and packages, without modules in packages."""
    return {name.partition(".")[0] for name in sys.modules}


def customize_again() -> None:
    """Repeat the part of the start that ran before there was a watch: .pth files, sitecustomize, usercustomize.

    Import again also the modules that they import, except the standard library, because these look at variables and
    files, too.
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
        for _, generator, _ in random_states(gc):  # of the start; .pth files seed them again
            generator.seed()
        bare = top_level()
        watch = Watch(agent.memory_file(), agent.memory_file())
        interpreter = look_at_interpreter()
        customize_again()
        watch.names.clear()
        gc.set_threshold(0)  # this process ends soon
        posix.access(f"{QUIET}B", 0)
        import_modules(modules, report)
        watch.listens = False
        check_interpreter(interpreter)
        trace = ask_trace(report)
        end_threads()
        check(agent, watch, trace)
        leave_place()
        out = {put("g", digest) for digest, _, _ in random_states(gc)} | clock_records()
        out |= {put("v", sys.version)}
        out |= {put("m", name) for name in (watch.names | top_level()) - bare}
        out |= {put("t")} if watch.asks_terminal else set()
        out |= {put("w", place) for place in places(watch)}
        # The interpreter always asks for some variables. If none was noted, the agent was not preloaded (AT_SECURE, in
        # ld.so(8)), and the names are unknown.
        unheard = bool(trace.files) and not trace.variables
        variables = Variables.looked_at | trace.variables, Variables.all_looked_at or unheard
        look_around(watch)
        out |= path_records(watch, trace, agent.libraries())
        out |= variable_records(watch, trace, *variables)
        send(report, b"".join(sorted(out)) + put("r"))
    except BaseException as error:
        end(report, error)


def variable_records(watch: Watch, trace: Trace, looked_at: set[bytes], at_all: bool) -> set[bytes]:
    """Return records of variables that the imports may have read, or of all if that is unknown, and of kernel files."""
    reads_environment, reason = trace.check(watch.files)
    if reason is not None:
        raise Failed(f"the imports {reason}")
    out = {put("e", name) for name in looked_at}
    for name in trace.values:
        value = kernel_value(name) if name.startswith("/") else answer(name)
        out.add(put("V", f"{value.hex()}:{name}"))
    if trace.reads_mounts:
        out.add(put("M"))
    if at_all or reads_environment or trace.starts_process:
        out.add(put("E"))
    if reads_environment or trace.starts_process:
        out.add(put("e", "HOSTNAME"))  # manifest/build.c omits it otherwise, because it differs in each container
    return out
