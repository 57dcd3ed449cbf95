"""Make this interpreter a probe or a builder: start.py runs this text.

A NAME is a module to import or, with a slash, a directory: the modules are looked for there first. The program adds it
to sys.path itself, before it imports them.

Imports happen twice, in two containers, and once more if they read a clock. The runtime says on the descriptor REPORT
which one this is (read_order).
The probe has the environment and the mounts of the user's container. It watches the files and variables that the
imports look at, and reports them, as records of runtime/warm/manifest/manifest.h. Then it ends. Its code is probe*.py,
which runs in a copy of the names here.
The builder has only the files and variables that the probe has reported. It imports the modules and ends by an
exception that the agent handles when no frame is left. Then the runtime saves it. Only the modules may remain in a
snapshot, so this text imports built-in modules alone.
"""

# Since 3.14 the annotations of this text are a function.
LATER = "__annotate__", "__annotate_func__", "__conditional_annotations__"
START = {name: value for name, value in globals().items() if name[:2] == "__" and name not in LATER}

import posix
import sys

import _imp

LOADED = list(sys.modules)

import gc

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    from start import load

FAILED = 94  # exit code of a process that has reported a failure
PLACE = "/dev/.pysbx"  # an entry of sys.path that does not exist


class Failed(Exception):
    """The modules cannot be preloaded, for the reason in the text."""


# Directories that are empty in a probe and a builder, and the files that every restored process creates there again.
# The maximum is in bytes, and a thousandth of it is that of files.
TEMPORARY = "/tmp/", "/dev/shm/"
KEPT: "list[tuple[str, int, bytes | str | None]]" = []
KEPT_MAX = 1 << 20
MADE_FILES = b"made"  # record of a probe whose imports have left such files

CHANGED = b"changed:"  # of a record of the probe: a place in a module that others change (Contents in changes.py)

# Times that imports have read, and that every restored process sets forward: Clock in resume.py.
CLOCKS: "list[Any]" = []
CLOCK = b"clock:"  # of a record of the probe: the function of time, the module, the variable or "variable.attribute"


def first_environment(agent) -> "dict[bytes, bytes]":  # type: ignore[no-untyped-def]
    """Return the variables that execve(2) gave to the process.

    posix.environ has changed since. The interpreter sets LC_CTYPE if there is no locale (PEP 538), and sitecustomize
    and .pth files may set others. A restored process has to make the same changes to its own variables.
    """
    environ: dict[bytes, bytes] = {}
    for variable in agent.first_environment().split(b"\0"):
        name, equals, value = variable.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    return environ


def put(kind: str, text: "str | bytes" = b"") -> bytes:
    if isinstance(text, str):
        text = text.encode(sys.getfilesystemencoding(), "surrogateescape")
    return kind.encode() + text + b"\0"


def send(report: int, data: bytes) -> None:
    while data:
        data = data[posix.write(report, data) :]


def receive(report: int) -> bytes:
    """Return data from the runtime.

    Use readv(2), because the runtime takes a read(2) for an import that reads its input.
    """
    data = bytearray(1 << 16)
    while True:
        try:
            size = posix.readv(report, [data])
            break
        except BlockingIOError:  # an import has changed the mode of a standard stream, which is the same socket
            posix.sched_yield()
    if not size:
        posix._exit(FAILED)
    return bytes(data[:size])


def end(report: int, error: BaseException) -> None:
    """Report the error, and end this process."""
    send(report, put("x", str(error) if isinstance(error, Failed) else repr(error)))
    posix._exit(FAILED)


def is_directory(name: str) -> bool:
    return name[:1] == "/"


def first_place() -> int:
    """Return the place in sys.path behind the directory of the program."""
    return 0 if sys.flags.isolated or getattr(sys.flags, "safe_path", False) else 1


def add_directories(modules: list[str]) -> None:
    """Put the directories of a list in front of all others, where the program will put them."""
    first = first_place()
    sys.path[first:first] = filter(is_directory, modules)


def remove_directories(modules: list[str]) -> None:
    """Remove what add_directories() has added. The entry of the program's directory is no longer there."""
    added = list(filter(is_directory, modules))
    if sys.path[: len(added)] != added:
        raise Failed("the imports change the front of sys.path")
    del sys.path[: len(added)]
    for directory in added:
        if directory not in sys.path:
            sys.path_importer_cache.pop(directory, None)


def is_alone() -> bool:
    """Return whether only the interpreter and the C library can have mapped memory until now.

    Preloaded libraries may have done it, and what .pth files and sitecustomize have imported: extension modules, or
    modules that start threads. These three may be built in.
    """
    return b"LD_PRELOAD" not in posix.environ and not any(
        name in ("_ctypes", "mmap", "threading")
        or type(module) is not type(sys)
        or type(module.__dict__.get("__loader__")).__name__ == "ExtensionFileLoader"
        for name, module in list(sys.modules.items())
    )


def import_modules(modules: list[str], record: "Any", report: "int | None" = None) -> None:
    """Import the modules, each as if it were alone.

    `record`: the Record of hidden.py. With `report`, report each name first, because the import may end the process.
    """
    names = [module for module in modules if not is_directory(module)]
    for module in names:
        if module != names[0]:
            record.begin_anew()
        if report is not None:
            send(report, put("i", module))
        try:
            __import__(module)
        except BaseException as error:
            raise Failed(f"import {module}: {type(error).__name__}: {error}") from None
        record.rest(module)


def own_modules() -> "set[str]":
    """Return the modules that the start has loaded beside the standard library: of .pth files, and sitecustomize."""
    library = str(getattr(sys.modules.get("os"), "__file__", "")).rpartition("/")[0] + "/"
    out = {"sitecustomize", "usercustomize"}
    for name in LOADED:
        path = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(path, str) and (not path.startswith(library) or "-packages/" in path):
            out.add(name)
    return out


def read_order(report: int) -> "tuple[bool, set[bytes]]":
    """Wait for the runtime's order. The runtime sends it when it has recorded the process (builder_state.h).

    The order is a line: "s" for a probe, "c" for a second probe, or "t" for a builder. Digests follow: those of values
    in the first probe, or of generators (random_states). Returns whether this is a probe, and the digests.
    """
    line = b""
    while not line.endswith(b"\n"):
        line += receive(report)
    kind, *digests = line.split()
    return kind != b"t", set(digests)


def run(part: str, names: "dict[str, Any]") -> None:
    """Run the texts of a part in a namespace."""
    for code in load(part):
        exec(code, names)


def probe(
    agent: "Any", modules: list[str], report: int, digests: set[bytes], resume: "dict[str, Any]", atexit: "Any"
) -> None:
    """Import the modules, watch and report. The runtime ends this process."""
    names = {**resume, **globals()}
    run("probe", names)
    names["explore"](agent, modules, report, atexit, digests)
    receive(report)
    posix._exit(FAILED)


def import_for_good(
    modules: list[str], report: int, digests: set[bytes], resume: "dict[str, Any]", atexit: "Any"
) -> "tuple[list[object], list[object] | None, Any]":
    """Import the modules in the builder. `atexit`: the module.

    Returns the generators that the imports have made without a seed, the result of harmless() in resume.py, and the
    Record of hidden.py.
    """
    loaded = list(sys.modules)
    gc.disable()
    keeps = MADE_FILES in digests  # without a reason, a label may forbid the look at these directories
    before = temporary_files() if keeps else []
    wanted = {digest[len(CHANGED) :].decode() for digest in digests if digest.startswith(CHANGED)}
    record = resume["Record"](loaded, atexit, wanted)
    add_directories(modules)
    record.start()
    import_modules(modules, record, report)
    record.stop()
    if keeps:
        KEPT.extend(keep_files(before))
    CLOCKS.extend(note_clocks(clock_variables(digests, resume), resume))
    gc.collect()
    generators = resume["unseeded_generators"](gc, digests)
    states = resume["random_states"](gc)
    idle = resume["harmless"](gc)
    gc.freeze()
    leave_place()
    for digest, generator, module in states:
        if module is None and digest not in digests:
            generators.append(generator)
        elif module is not None and digest in digests:
            raise Failed(f"the imports seed the global generator of {module}")
    return generators, idle, record


def clock_variables(digests: set[bytes], resume: "dict[str, Any]") -> "list[tuple[str, str, str]]":
    """Return the variables of modules that have the time at which their import read a clock.

    `digests`: has records of the probe, which watches the clocks (Stamp in probe_clocks.py). Each item is a function of
    the module time, a module, and a variable or "variable.attribute".
    """
    found: "list[tuple[str, str, str]]" = []
    for module, name in resume["at"](resume["CLOCK"]).items():
        function = "time_ns" if isinstance(getattr(sys.modules.get(module), name, None), int) else "time"
        found.append((function, module, name))
    for digest in digests:
        if digest.startswith(CLOCK):
            _, function, module, name = digest.decode().split(":")
            found.append((function, module, name))
    return found


def note_clocks(variables: "list[tuple[str, str, str]]", resume: "dict[str, Any]") -> "list[Any]":
    """Return these variables as Clock in resume.py."""
    clocks = []
    for function, module, path in variables:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        owner, _, name = path.rpartition(".")
        names = getattr(names.get(owner), "__dict__", {}) if owner else names
        if isinstance(names.get(name), (int, float)):
            read = getattr(resume["time"], function)
            clocks.append((names, name, names[name], read, read()))
    return clocks


def temporary_files() -> "list[str]":
    """Return the paths directly in TEMPORARY."""
    found = []
    for place in TEMPORARY:
        try:
            found += [f"{place}{name}" for name in sorted(posix.listdir(place))]
        except OSError:  # there is none, or not for this user
            pass
    return found


def keep_files(before: "list[str]") -> "list[tuple[str, int, bytes | str | None]]":
    """Return the files that the imports have left in TEMPORARY, for make_files() in resume.py.

    `before`: the result of temporary_files() before them. Each file is a path, a mode, and its content: bytes of a
    file, the target of a link, None for a directory.
    """
    found: "list[tuple[str, int, bytes | str | None]]" = []
    size = 0
    directories = [""]
    for directory in directories:
        inside = [f"{directory}/{name}" for name in sorted(posix.listdir(directory))] if directory else []
        for path in inside if directory else [path for path in temporary_files() if path not in before]:
            status = posix.lstat(path)
            kind = status.st_mode & 0o170000
            content: "bytes | str | None" = None
            if kind == 0o040000:
                directories.append(path)
            elif kind == 0o120000:
                content = posix.readlink(path)
            elif kind == 0o100000 and status.st_nlink == 1:
                size += status.st_size
                content = read_whole(path) if size <= KEPT_MAX else b""
            else:
                raise Failed(f"the imports make '{path}', which would be missing")
            found.append((path, status.st_mode & 0o7777, content))
            if size > KEPT_MAX or len(found) > KEPT_MAX // 1000:
                raise Failed("the imports make too many or too large temporary files")
    return found


def read_whole(path: str) -> bytes:
    file = posix.open(path, posix.O_RDONLY)
    content = b""
    buffer = bytearray(1 << 16)
    while size := posix.readv(file, [buffer]):
        content += buffer[:size]
    posix.close(file)
    return content


def freeze() -> None:
    """Collect garbage, and hide all other objects from later collections, which would write to each of them."""
    gc.collect()
    gc.freeze()


def undo_start() -> None:
    """Undo what -c has left: since 3.13 linecache, which keeps the text, and '' in sys.path.

    An entry stays at its place in sys.path until the imports are done (leave_place), because they may add directories
    beside it.

    Undo also what loading the agent has left: with -X dev, the codec for its name.
    """
    flags = sys.flags
    if not flags.isolated and not getattr(flags, "safe_path", False):
        sys.path[0] = PLACE
        if posix.getcwd() not in sys.path:
            sys.path_importer_cache.pop(posix.getcwd(), None)
    if LOADED[-1] == "linecache":
        del sys.modules["linecache"]
    if "gc" not in LOADED:
        del sys.modules["gc"]
    if "encodings.ascii" not in LOADED and "encodings.ascii" in sys.modules:
        del sys.modules["encodings.ascii"]
        encodings = sys.modules["encodings"]
        del encodings.ascii
        encodings._cache.pop("ascii", None)


def leave_place() -> None:
    """Remove the first entry of sys.path, which was kept for the directory of the program.

    CPython puts that directory in front of all others. So the imports must not add an entry before it.
    """
    flags = sys.flags
    if not flags.isolated and not getattr(flags, "safe_path", False):
        if sys.path[:1] != [PLACE]:
            raise Failed("the imports change the front of sys.path")
        del sys.path[0]
    sys.path_importer_cache.pop(PLACE, None)


def begin_main() -> None:
    """Create the program's own __main__ before the imports, because modules may keep a reference to it."""
    main = type(sys)("__main__")
    START["__doc__"] = None
    if "__annotations__" in START:
        START["__annotations__"] = {}
    vars(main).update(START)
    sys.modules["__main__"] = main


def close_random() -> None:
    """Close the /dev/urandom that Python keeps open for os.urandom() if it has no getrandom(2).

    Python opens it again if it finds another device there, as in every container, and would leave this one open.
    """

    def devices() -> "dict[int, int]":
        found = {}
        for descriptor in range(3, 64):
            try:
                found[descriptor] = posix.fstat(descriptor).st_rdev
            except OSError:  # not open
                pass
        return found

    before = devices()
    for descriptor, device in before.items():
        if device != posix.makedev(1, 9):
            continue
        inheritable, kept = posix.get_inheritable(descriptor), posix.dup(descriptor)
        posix.close(descriptor)
        posix.urandom(1)
        opened = devices().keys() - (before.keys() - {descriptor}) - {kept}
        for fd in opened:
            posix.close(fd)
        if not opened:
            posix.dup2(kept, descriptor, inheritable)
        posix.close(kept)


def load_agent(path: str):  # type: ignore[no-untyped-def]
    class Spec:
        name = "agent"
        origin = path

    return _imp.create_dynamic(Spec)  # type: ignore[arg-type]


def settle(  # type: ignore[no-untyped-def]
    environ: dict[bytes, bytes],
    excepthook: object,
    collecting: bool,
    found: "list[object]",
    modules: "list[str]",
    resume,
) -> "tuple[tuple[dict[bytes, bytes | None], object, object, object], tuple[object, object, object]]":
    """Give the interpreter the state of one that has just started.

    `found`: the result of import_for_good(). `modules`: the names that prepare() has.

    Returns arguments for resume() and for leave() in resume.py. The first are
    the changes that the imports have made to the environment, generators to seed, files to make, and times. The others
    are the modules, the cache of importers for directories, and objects whose finalizers do nothing (None if some
    finalizer may act).
    """
    generators, idle, record = found
    found.clear()  # the caller's variables stay alive for ever, and these objects must not
    resume["end_threads"]()
    resume["prepare_streams"](resume["note_streams"])
    resume["prepare_packages"]()
    close_random()
    sys.excepthook = excepthook  # type: ignore[assignment]
    for name in "last_type", "last_value", "last_traceback", "last_exc":
        if hasattr(sys, name):
            delattr(sys, name)
    kept = {name: module for name, module in sys.modules.items() if name not in ("sys", "builtins", "__main__")}
    finders = dict(sys.path_importer_cache)
    resume["hide"](record)
    resume["hide_descriptors"]()
    changed: dict[bytes, bytes | None] = {n: v for n, v in posix.environ.items() if environ.get(n) != v}
    changed.update((name, None) for name in environ if name not in posix.environ)
    remove_directories(modules)
    freeze()
    # Do not freeze __main__, because the collection at the end must find the program's objects in it.
    main = sys.modules["__main__"]
    resume["thaw"](main)
    resume["thaw"](vars(main))
    if collecting:
        gc.enable()
    return (changed, generators, KEPT, CLOCKS), (kept, finders, idle)


def hand_over(agent, modules: list[str], resume: "dict[str, Any]") -> None:  # type: ignore[no-untyped-def]
    """Give the function that makes a fork to be saved to modules that have a variable __pysbx_fork__.

    Those with __pysbx_clocks__ get the times that imports have kept: see resume() in resume.py.
    Those with __pysbx_park__ get the one that waits until the container is saved (place.py). One with __pysbx_first__
    is what the program imports before all else, with a socket as standard input. If one has a function
    __pysbx_rehearse__, the agent calls that in a copy of this process, to learn which pages a program writes to in any
    case.
    """
    for name in modules:
        names = getattr(sys.modules.get(name), "__dict__", {})
        if "__pysbx_fork__" in names:
            names["__pysbx_fork__"] = agent.fork
        if "__pysbx_clocks__" in names:
            names["__pysbx_clocks__"] = CLOCKS
        if "__pysbx_park__" in names:
            names["__pysbx_park__"] = agent.park
            resume["SURROUNDINGS"][:] = [{}]
        if "__pysbx_first__" in names:
            resume["FIRST"].append(name)
        if "__pysbx_rehearse__" in names and all(part.isidentifier() for part in name.split(".")):
            call = f"from {name} import __pysbx_rehearse__ as rehearse; rehearse()"
            agent.note_rehearsal(f"try: {call}\nexcept BaseException: pass\n")


def prepare(path: str, report: int, modules: list[str]) -> None:
    """Do all work up to the exception that starts the agent. A failure is reported and ends the process."""
    orig_argv = getattr(sys, "orig_argv", None)
    argv = list(sys.argv)
    environ: dict[bytes, bytes] = {}
    collecting = gc.isenabled()
    excepthook: object = None
    found: "list[object]" = []
    resume: "dict[str, Any]" = {}
    try:
        if None in (sys.stdin, sys.stdout, sys.stderr):
            raise Failed("a standard stream is closed")
        if not sys.executable:
            raise Failed("the interpreter does not know its own path")
        if "t" in sys.abiflags:
            raise Failed("free-threaded Python is not supported")
        if sys.version_info < (3, 10) and (sys.flags.dev_mode or b"debug" in posix.environ.get(b"PYTHONMALLOC", b"")):
            raise Failed("Python 3.9 with its debug allocator aborts at the end of forked processes")
        agent = load_agent(path)
        environ = first_environment(agent)
        # The handler that is registered first is called last.
        atexit = __import__("atexit")
        atexit.register(agent.leave)
        if "atexit" not in LOADED:
            del sys.modules["atexit"]
        executable = sys.executable.encode(sys.getfilesystemencoding(), "surrogateescape")
        agent.arm(
            sys.version_info[1],
            argv,
            orig_argv,
            executable,
            # The agent keeps this function for ever, and with it the module. Before 3.10 the handlers are in the
            # module, and CPython counts no reference to it.
            lambda atexit=atexit: settle(environ, excepthook, collecting, found, modules, resume),
            report,
        )
        resume["__name__"] = "resume"
        run("common", resume)
        resume["atexit"] = atexit
        for name in "fill_words", "keep", "note_streams", "open_for", "swap", "thaw", "trampolines", "words_of":
            resume[name] = getattr(agent, name)
        begin_main()
        undo_start()
        del sys.argv[1:]  # modules may look at them
        if orig_argv is not None:
            del orig_argv[1:]
        probing, digests = read_order(report)
        if probing:
            probe(agent, modules, report, digests, resume, atexit)
        run("resume", resume)
        agent.note_functions(resume)
        agent.note_memory(is_alone())
        found += import_for_good(modules, report, digests, resume, atexit)
        hand_over(agent, modules, resume)
    except BaseException as error:
        end(report, error)
    excepthook = sys.excepthook
    sys.excepthook = agent.main


prepare(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
raise Failed
