"""The watch over the imports: an audit hook, and doubles of functions that have no audit event."""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import gc
    import posix
    import sys
    import time
    from typing import Any

    from probe_clocks import Clock
    from probe_doubles import Heard, Machine, Places, Variables
    from probe_draws import SOURCES, hear_draws, hear_source
    from probe_look import is_directory, path_of

MADE = {"os.mkdir": 0, "os.link": 1, "os.rename": 1, "os.symlink": 1}  # events, which argument is the path
ASK_NAME = "ask for the host name, which differs between containers"
ASK_CPU_TIME = "ask how much CPU time they have used, which begins anew in each container"
ASK_MACHINE = "ask for the load of the machine, which differs at each look"
ASK_RANDOM = "draw random bytes by ctypes, and may keep them"
ASK_STREAM = "ask what kind of file a standard stream is"
ASK_NETWORK = "use the network, which is not available while a snapshot is made"
REFUSED = {  # audit events, and what the imports do then
    "socket.gethostname": ASK_NAME,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), ASK_NETWORK),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), ASK_NETWORK),
}
STREAM_METHODS = {"isatty": "hear_terminal", "seekable": "hear_position", "tell": "hear_position"}
# Of the C library.
ENVIRON = ("environ", "__environ", "_environ", "getenv", "secure_getenv", "__secure_getenv", "wordexp")
# Functions of the C library whose results no system call shows, or none that differs from others: what the imports do.
BY_CTYPES = {
    **dict.fromkeys(("getrandom", "getentropy", "arc4random", "arc4random_buf", "arc4random_uniform"), ASK_RANDOM),
    **dict.fromkeys(("getauxval", "rand_r", "srand", "srandom", "srand48"), ASK_RANDOM),
    **dict.fromkeys(("sysinfo", "get_avphys_pages", "sched_getcpu", "getcpu"), ASK_MACHINE),
}
# Functions of Python that ask for the status of directories, and use only the type, or whether something is mounted.
WITHOUT_TIMES = {
    *(("posixpath", name) for name in ("realpath", "_joinrealpath", "ismount")),
    *(("pathlib", name) for name in ("exists", "is_dir", "is_file", "is_mount", "is_symlink", "mkdir")),
}


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
            # Modules choose a function by these sets: shutil.
            for name in filter(lambda name: name[:9] == "supports_", vars(environments)):
                supported: "Any" = getattr(environments, name)
                if isinstance(supported, set):
                    heard = (value for value in vars(environments).values() if isinstance(value, Heard))
                    supported.update([value for value in heard if value.function in supported])
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
        system.sysconf = Heard(system.sysconf, self.hear_memory)
        self.hear_cpu_time(time, "process_time", "process_time_ns", "thread_time", "thread_time_ns")

        def uname() -> "Any":
            found = Machine(posix.uname())
            self.names_asked += 1
            self.hosts += found, tuple.__getitem__(found, 1)
            return found

        system.uname = uname
        for name in "get_terminal_size", "isatty":
            setattr(system, name, Heard(getattr(system, name), self.hear_terminal))
        for text in sys.stdin, sys.stdout, sys.stderr:
            for stream in text, text.buffer, getattr(text.buffer, "raw", text.buffer):
                for name, method in STREAM_METHODS.items():
                    setattr(stream, name, Heard(getattr(stream, name), getattr(self, method)))

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

    def hear_position(self, _: object) -> None:
        if self.listens:
            self.refused.append(ASK_STREAM)

    def hear_cpu_time(self, module: object, *names: str) -> None:
        """Note calls by code of Python. Libraries may measure themselves."""

        def note(_: object) -> None:
            if self.listens:
                self.refused.append(ASK_CPU_TIME)

        for name in names:
            setattr(module, name, Heard(getattr(module, name), note))

    def hear_memory(self, name: object) -> None:
        if self.listens and name in ("SC_AVPHYS_PAGES", posix.sysconf_names.get("SC_AVPHYS_PAGES")):
            self.refused.append(ASK_MACHINE)

    def hear_space(self, path: object) -> None:
        if self.listens:
            self.refused.append(f"ask how much space is left in {path!r}")

    def hear_stream(self, descriptor: object) -> None:
        if self.listens and descriptor in (0, 1, 2):
            self.refused.append(ASK_STREAM)
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
        else:
            self.refuse(event, arguments)
        if event in MADE:
            self.add(self.made, arguments[MADE[event]])

    def refuse(self, event: str, arguments: "tuple[Any, ...]") -> None:
        """Note what a snapshot cannot repeat."""
        if event == "ctypes.dlsym":
            reason = BY_CTYPES.get(arguments[1])
        elif event == "socket.connect" and isinstance(arguments[1], (str, bytes)):  # Unix
            reason = None
        else:
            reason = REFUSED.get(event)
        if reason is not None:
            self.refused.append(reason)

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


def id_equal(one: object, other: object) -> bool:
    return one is other
