"""The ways in which modules of mutate.py look at their surroundings while they are imported.

Each text is an expression. PATH is a path in the container, NAME a variable, MODULE a module, LIMIT a limit. `os` is
imported. An exception of an expression counts as its value. The rows of accesses.py are further ways.
"""

from accesses import FILES, HOST, RANDOM, STATE, VARIABLES, Row

PATHS = [
    "open(PATH).read()",
    "open(PATH, 'rb').read(3)",
    "__import__('io').FileIO(PATH).read()",
    "__import__('pathlib').Path(PATH).read_text()",
    "__import__('linecache').getlines(PATH)",
    "__import__('tokenize').open(PATH).read()",
    "__import__('hashlib').sha256(open(PATH, 'rb').read()).hexdigest()",
    "__import__('filecmp').cmp(PATH, '/data/b', shallow=False)",
    "os.stat(PATH).st_size",
    "os.stat(PATH).st_mtime_ns",
    "os.stat(PATH).st_mode",
    "os.stat(PATH).st_ino",
    "os.stat(PATH).st_nlink",
    "os.lstat(PATH).st_mode",
    "os.lstat(PATH).st_size",
    "os.path.exists(PATH)",
    "os.path.lexists(PATH)",
    "os.path.isdir(PATH)",
    "os.path.isfile(PATH)",
    "os.path.islink(PATH)",
    "os.path.ismount(PATH)",
    "os.path.getmtime(PATH)",
    "os.path.realpath(PATH)",
    "os.path.samefile(PATH, '/data/a')",
    "os.readlink(PATH)",
    "os.stat(os.open(PATH, 0)).st_mtime_ns",
    "os.fstat(os.open(PATH, 0)).st_size",
    "__import__('pathlib').Path(PATH).stat().st_mtime_ns",
    "os.access(PATH, os.R_OK)",
    "os.access(PATH, os.X_OK)",
    "os.access(PATH, os.F_OK)",
    "sorted(os.listdir(PATH))",
    "sorted((e.name, e.is_dir(), e.is_symlink()) for e in os.scandir(PATH))",
    "sorted((e.name, e.stat().st_size) for e in os.scandir(PATH))",
    "sorted((top, sorted(names)) for top, _, names in os.walk(PATH))",
    "sorted((top, sorted(names)) for top, _, names, _ in os.fwalk(PATH))",
    "sorted(__import__('glob').glob(PATH + '/*'))",
    "sorted(__import__('glob').glob(PATH + '/**', recursive=True))",
    "sorted(map(str, __import__('pathlib').Path(PATH).rglob('*')))",
    "__import__('pathlib').Path(PATH).is_symlink()",
    "(f := os.open(PATH, os.O_RDONLY), os.pread(f, 100, 0), os.close(f))[1]",
    "(d := os.open('/data', 0), f := os.open(os.path.basename(PATH), 0, dir_fd=d), os.read(f, 9), os.close(f), "
    "os.close(d))[2]",
    "(d := os.open('/data', 0), os.stat(os.path.basename(PATH), dir_fd=d).st_mtime_ns, os.close(d))[1]",
    "(h := os.getcwd(), os.chdir('/data'), open(os.path.basename(PATH)).read(), os.chdir(h))[2]",
    "sorted(m.name for m in __import__('pkgutil').iter_modules([PATH]))",
]
MODULES = [
    "__import__('importlib.util').util.find_spec('MODULE') is not None",
    "__import__('importlib.util').util.find_spec('MODULE').origin",
    "sorted(m.name for m in __import__('pkgutil').iter_modules())",
    "__import__('inspect').getsource(__import__('MODULE'))",
    "__import__('runpy').run_module('MODULE')['mark']",
    "__import__('MODULE').mark",
]
PACKAGE = [
    "__import__('importlib.metadata').metadata.version('demo')",
    "sorted(map(str, __import__('importlib.metadata').metadata.files('demo')))",
    "__import__('importlib.resources').resources.files('demo').joinpath('data.txt').read_text()",
    "__import__('pkgutil').get_data('demo', 'data.txt')",
    "__import__('demo').version",
    "__import__('demo.extra').extra.version",
    "sorted(e.name for e in __import__('importlib.metadata').metadata.entry_points(group='demo'))",
]
ENVIRONMENT = [
    "os.environ.get('NAME')",
    "os.environ['NAME']",
    "os.getenv('NAME', 'unset')",
    "'NAME' in os.environ",
    "os.environb.get(b'NAME')",
    "os.path.expandvars('$NAME')",
    "sorted(n for n in os.environ if n.startswith('LOOK'))",
    "sorted(v for n, v in os.environ.items() if n.startswith('LOOK'))",
    "len(os.environ)",
    "(sys := __import__('sys')) and (tuple(sys.flags), sys.warnoptions)",
    "__import__('time').tzname",
    "__import__('locale').setlocale(__import__('locale').LC_CTYPE)",
    "__import__('sys').getfilesystemencoding()",
    "__import__('tempfile').gettempdir()",
]
SURROUNDINGS = [
    "__import__('resource').getrlimit(__import__('resource').LIMIT)",
    "__import__('resource').prlimit(0, __import__('resource').LIMIT)",
    "[l for l in open('/proc/self/limits') if l.startswith('Max open files')]",
    "(m := os.umask(0o22), os.umask(m))[0]",
    "os.cpu_count()",
    "sorted(os.sched_getaffinity(0))",
    "os.sched_getscheduler(0)",
    "os.getpriority(os.PRIO_PROCESS, 0)",
    "(os.getuid(), os.getgid(), os.getgroups())",
    "os.getcwd()",
    "sorted(n for n in os.listdir('/dev') if not n.startswith('.pysbx'))",
    "os.stat('/dev/null').st_rdev",
    "os.path.exists('/dev/own')",
    "open('/proc/sys/kernel/msgmax').read()",
    "open('/proc/self/oom_score_adj').read()",
    "os.sysconf('SC_OPEN_MAX')",
]
LIMITS = {
    "RLIMIT_NOFILE": (64, 4096),
    "RLIMIT_STACK": (1 << 20, 1 << 23),
    "RLIMIT_FSIZE": (1 << 24, 1 << 40),
    "RLIMIT_CORE": (0, 1 << 20),
    "RLIMIT_DATA": (1 << 29, 1 << 34),
    "RLIMIT_AS": (1 << 32, 1 << 36),
    "RLIMIT_MEMLOCK": (1 << 14, 1 << 16),
    "RLIMIT_CPU": (60, 6000),
    "RLIMIT_NPROC": (3000, 9000),
    "RLIMIT_MSGQUEUE": (1000, 800000),
    "RLIMIT_SIGPENDING": (100, 1000),
}
# Changes of rows that read what no mutation changes, leave something in the process, or see another value at each look.
LEFT_OUT = {
    *("arguments", "certificate", "key", "maps", "meminfo", "network", "pids"),
    *("stdin", "stdin-kind", "xattr", "xattr-name"),
}
# Rows of which no snapshot can be made. A world with one of them would only start cold.
NEVER_WARM = (
    *("a child of os.fork", "name_to_handle_at(2)", "chdir(2): is it there", "io_uring: a read"),
    *("Unix socket", "is a mount there", "/proc/self/stat: the priority"),
    *("/proc/self/status", "/proc/self/mount", "/proc/mounts", "/proc/1/mountinfo"),
)
NEVER_WARM_CHANGES = {"host", "domain", "statvfs"}


# Changes of rows of STATE, and others of the same kinds.
COMPARED = {"shm", "shm-mode", "affinity", "affinity-number", "datemsk", "pwd"}
OTHER_CHANGES = {"umask", "oom", "ioprio", "scheduler", "stdin", "limit"}
STATE_CHANGES = sorted({row.change for row in STATE} - {"volume"} | OTHER_CHANGES)


def state_rows() -> list[Row]:
    """Return rows about the process and its surroundings."""
    return STATE


def compared_rows() -> list[Row]:
    """Return those of which there is a snapshot, so that each start compares the state."""
    return [row for row in STATE if row.change in COMPARED and not row.name.startswith(("shm", "SharedMemory"))]


def random_rows() -> list[Row]:
    """Return rows that see another value in each start."""
    return RANDOM


def rows() -> list[Row]:
    """Return the rows of accesses.py that are part of a world."""
    left_out = LEFT_OUT | NEVER_WARM_CHANGES
    return [
        row
        for row in (*VARIABLES, *FILES, *HOST)
        if row.change not in left_out and not row.known and not row.name.startswith(NEVER_WARM)
    ]
