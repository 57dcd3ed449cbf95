"""The notes of the runtime on system calls of the probe. Some files of the kernel rule a snapshot out."""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import posix
    import sys

    from packages import may_read
    from probe_look import is_hidden, kind_of
    from probe_watch import ASK_NAME, ASK_NETWORK

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
    *("/proc/self/timers", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/entropy_avail"),
)
NAMESPACES = ("/proc/self/ns*", "/proc/self/timens_offsets")
NETWORK = ("/proc/net*", "/proc/self/net*", "/proc/sys/net*", "/sys/class/net*")
MOUNTS = "/proc/mounts", "/proc/self/mounts", "/proc/self/mountinfo"
# Of the last, the ids, groups, capabilities and CPUs are part of the key.
SIZES = "/proc/meminfo", "/proc/stat", "/proc/self/status"
# Programs that look only at variables of the key. The standard library's module platform runs "uname -p".
PROGRAMS = (b"uname",)
# Records without a text, and the attributes of a Trace.
FLAGS = {b"F": "starts_process", b"P": "prints", b"t": "asks_terminal"}


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
        self.asks_terminal = False  # whether a standard stream is one.
        # Addresses of code that has drawn random bytes, with their number, or that has asked for a standard stream.
        self.draws: "set[tuple[int, int]]" = set()
        self.streams: "set[tuple[int, int]]" = set()
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
            elif kind in (b"r", b"d"):
                address, _, number = text.partition(b":")
                (self.draws if kind == b"r" else self.streams).add((int(address, 16), int(number, 16)))
            else:
                self.refused.append(ASK_NETWORK if kind == b"N" else text.decode())
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
            name = own_name(path)
            if name is None or is_one_of(name, NAMESPACES):
                what = "is not the same in all containers" if name else "is another process or thread in each container"
                return reads_environment, f"look at '{path}', which {what}"
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


def own_name(path: str) -> "str | None":
    """Return the path of a kernel file with "self" for this process and its threads, None for one of another process.

    A library gives names to its threads, which exist.
    """
    own = str(posix.getpid())
    parts = path.split("/")
    if parts[1] == "proc" and len(parts) > 2 and parts[2] in (own, "thread-self"):
        parts[2] = "self"
    if parts[2:4] == ["self", "task"] and len(parts) > 4:
        if parts[4] != own and parts[4] not in posix.listdir("/proc/self/task"):
            return None
        parts[2:5] = ["self"]
    return None if parts[1] == "proc" and len(parts) > 2 and parts[2].isdigit() else "/".join(parts)


def is_one_of(path: str, patterns: "tuple[str, ...]") -> bool:
    return any(path.startswith(p[:-1]) if p.endswith("*") else path == p for p in patterns)
