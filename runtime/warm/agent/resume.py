"""What an interpreter has to forget of the template it was started in, when it wakes up in a container.

The agent compiles this text in the template and calls resume() once in every process that is restored, after the
hooks that run in the child of a fork and before the user's program. Only what every interpreter has loaded is
imported: anything else would be found in sys.modules later. An exception makes the agent start the interpreter anew.
In a fork that goes on in a container of its own only renew() is called.
"""

import posix
import sys
import time

_io = sys.modules["_io"]

TYPE_CHECKING = False  # typing is not to be imported
if TYPE_CHECKING:
    from typing import Any

COMMAND, MODULE, FILE = 1, 2, 3  # enum warm_program

MT19937_WORDS = 624  # of 32 bits: the state of numpy's global generator


def resume(
    template: "tuple[dict[bytes, bytes | None], list[Any]]",
    orig_argv: list[str],
    variables: list[bytes],
    streams: list[int],
    program: int,
    index: int,
    entropy: bytes,
) -> "tuple[str | None, str | None, str | None, list[str], list[str]]":
    """Put environment, streams and everything that must not be the same in two processes right.

    Arguments: variables that the imports have set, or deleted (None), and generators that they have made
    without a seed; the whole command line; the environment as NAME=VALUE; the standard descriptors that are not what
    the streams were made for; the kind of program, and where in the command line it is named; fresh random bytes.
    Returns what the interpreter's configuration is to say: text of -c, module of -m, file, sys.argv, sys.orig_argv.
    """
    # First: a cold start is to find the environment as it was.
    line = command_line(orig_argv, program, index)
    imported, generators = template
    for hook, code in HOOKS:
        hook.__code__ = code
    HOOKS.clear()
    COLLECTED.append([])
    set_environment(variables, imported)
    for fd in streams:
        open_again(fd)
    time.tzset()
    renew(entropy)
    if "logging" in sys.modules:
        begin_logging(sys.modules["logging"])
    seed_again(generators)
    start_threads()
    return line


def renew(entropy: bytes) -> None:
    """Make anew what must not be the same in two processes; of a fork as well, which goes on with all the rest."""
    for module, make_anew in RENEWALS.items():
        if module in sys.modules:
            make_anew(sys.modules[module], entropy)


# Streams that only give memory back when they end, and those that do nothing more once they are closed. Of these types
# alone: a subclass may do anything, and so may what an instance of the first is given as its close().
IN_MEMORY = _io.BytesIO, _io.StringIO
ON_FILES = _io.FileIO, _io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, _io.TextIOWrapper
PLAIN = (_ for _ in ()).gi_code
GENERATOR = type(_ for _ in ())
# Each has an instance that does something only when it has started a process: every import of scikit-learn makes one.
TRACKERS = "multiprocessing.resource_tracker", "joblib.externals.loky.backend.resource_tracker"
SEND = 123  # of CPython 3.11: how a generator waits for another


def nothing() -> None:
    pass


# threading's hook for the child of a fork, and its code, while it is a hook that does nothing.
HOOKS: "list[tuple[Any, Any]]" = []


def call_ahead() -> None:
    """In the template: what threading does in the child of a fork, once for all processes that wake up.

    It leaves other threads behind, which nobody has here, and makes locks anew. Nothing of it is different in the next
    process, and it touches 130 pages. Where somebody has put something else there, or it fails, it is called as ever.
    """
    threading = sys.modules.get("threading")
    hook: Any = getattr(threading, "_after_fork", None)
    if type(hook) is not type(nothing) or hook.__globals__ is not vars(threading) or hook.__closure__ is not None:
        return
    try:
        hook()
    except Exception:  # it will say so itself
        return
    HOOKS.append((hook, hook.__code__))
    hook.__code__ = nothing.__code__


# How many threads numexpr has had, while it has none.
NUMEXPR: "list[int]" = []


def end_threads() -> None:
    """Before a fork that is saved: end the threads that start_threads() starts again, those of numexpr.

    pandas imports it wherever it is installed. It would find out by the process id that a fork has left its threads
    behind, and that may be the same in a container.
    """
    set_number: Any = getattr(sys.modules.get("numexpr.interpreter"), "_set_num_threads", None)
    threads = set_number(1) if set_number else 1
    if threads > 1:
        NUMEXPR.append(threads)


def start_threads() -> None:
    while NUMEXPR:
        sys.modules["numexpr.interpreter"]._set_num_threads(NUMEXPR.pop())


def handlers_of(code: "Any") -> "set[bytes]":
    """The first instructions of the handlers of exceptions: Objects/exception_handling_notes.txt, from 3.11 on.

    A table of numbers, four for each range of instructions, of which the third is the handler; six bits a byte, the
    highest first.
    """
    numbers, number = [], 0
    for byte in code.co_exceptiontable:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    return {code.co_code[2 * handler : 2 * handler + 2] for handler in numbers[2::4]}


def has_handlers(code: "Any") -> bool:
    """Tell whether a generator can notice that it is closed: by try, with or yield from.

    From 3.12 on every generator has a handler, for StopIteration, and a range that leads there for each of its parts.
    """
    if sys.version_info < (3, 11):
        return True
    if sys.version_info < (3, 12) and SEND in code.co_code[::2]:
        return True
    return bool(handlers_of(code) - handlers_of(PLAIN))


def may_act(thing: "Any") -> bool:
    """Tell whether the finalizer of something that has one may do more than give memory back."""
    kind = type(thing)
    if kind in IN_MEMORY:
        return "close" in vars(thing)
    if kind in ON_FILES:
        try:
            return not thing.closed
        except Exception:  # whatever is asked beneath; ValueError of half a stream, detached or never begun
            return True
    if kind is GENERATOR:
        return has_handlers(thing.gi_code)
    if kind.__name__ == "ResourceTracker" and kind.__module__ in TRACKERS:
        return getattr(thing, "_pid", 0) is not None
    return True


def has_finalizer(kind: type) -> bool:
    return any("__del__" in vars(base) for base in type.mro(kind))


def is_counted(kind: type) -> bool:
    """Tell a kind of nanobind (duckdb), which complains at the end of the process when one of its kind is there."""
    return vars(kind).get("__module__") == "nanobind"


def with_finalizers(gc: "Any") -> "list[Any]":
    """Return what is alive and has a finalizer, or something like it, beside the standard streams."""
    own = set()
    for stream in sys.__stdin__, sys.__stdout__, sys.__stderr__:
        try:
            own |= {id(stream), id(stream.buffer), id(getattr(stream.buffer, "raw", None))}
        except (AttributeError, ValueError):  # the program has closed or detached it
            pass
    things = gc.get_objects()
    kinds = {kind for kind in set(map(type, things)) if is_counted(kind) or has_finalizer(kind)}
    return [thing for thing in things if type(thing) in kinds and id(thing) not in own]


def harmless(gc: "Any") -> "list[Any] | None":
    """In the template: return what has a finalizer that does nothing yet, or None when some finalizer may act."""
    things = with_finalizers(gc)
    if any(map(may_act, things)):
        return None
    return [thing for thing in things if type(thing) is not GENERATOR]


# A list made when the template's things were frozen already: the collector lists it until the program freezes its own.
COLLECTED: "list[list[object]]" = []


def has_frozen(gc: "Any") -> bool:
    """Tell whether the program has called gc.freeze(): gc.get_freeze_count() would read all of the snapshot."""
    return not any(thing is COLLECTED[0] for thing in gc.get_objects())


def give_up(*_: object) -> bool:
    """All goes, in an order that depends on what the collector can see."""
    import gc

    gc.unfreeze()
    return True


def leave(kept: "dict[str, Any]", _finders: object, idle: "list[Any] | None") -> bool:
    """Spare the end of the process what the snapshot holds, whose pages it would touch one by one.

    Called after all other exit handlers. What the program has made goes as ever; but where something alive does more
    at its end than to give memory back (an open file, a __del__), it could hang on one of these modules: then all go.
    `idle`: what harmless() has returned of the imports. Returns whether all go.
    """
    import gc

    try:
        acts = idle is None or has_frozen(gc) or any(map(may_act, [*idle, *with_finalizers(gc)]))
    except MemoryError:  # for a list of all there is
        acts = True
    if acts:
        return give_up()
    for name, module in kept.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    return False


def is_flushed() -> bool:
    """Flush the standard streams, as CPython does next. Returns False where one is not the usual, or it fails."""
    try:
        for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
            if stream is None:
                continue
            if type(stream) is not _io.TextIOWrapper or "flush" in vars(stream) or type(stream.buffer) not in ON_FILES:
                return False
            if not stream.closed:
                stream.flush()
    except Exception:  # CPython will find and say it again
        return False
    return True


def set_environment(variables: list[bytes], imported: "dict[bytes, bytes | None]") -> None:
    """Fill os.environ, in the order of the process; then do what the imports did to theirs."""
    environ = posix.environ  # os.environ keeps its variables there
    environ.clear()
    for variable in variables:
        name, equals, value = variable.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    for name, new in imported.items():
        if new is not None:
            environ[name] = new
            posix.putenv(name, new)
        elif environ.pop(name, None) is not None:
            posix.unsetenv(name)


def usual_line_buffering(fd: int, stream: "Any") -> bool:
    """Tell what CPython chooses for a stream that is no terminal."""
    return fd == 2 and not stream.write_through


# What an import has chosen otherwise, by descriptor (TextIOWrapper.reconfigure).
LINE_BUFFERING: "dict[int, bool]" = {}


def prepare_streams(note: "Any") -> None:
    """In the template: make the streams what those of most containers are, /dev/null and pipes.

    Where they are, which `note`, the agent's function, lets it find out, there is nothing left to do in the container.
    Descriptor 0 is needed again, for the report; 1 is /dev/null, which a label may not let the template open.
    """
    for fd, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        if stream.line_buffering != usual_line_buffering(fd, stream):
            LINE_BUFFERING[fd] = stream.line_buffering
    report = posix.dup(0)
    null = posix.dup(1)
    reader, writer = posix.pipe()
    for fd, own in enumerate((null, writer, writer)):
        posix.dup2(own, fd)
        open_again(fd)
    note()
    posix.dup2(report, 0)
    for fd in report, null, reader, writer:
        posix.close(fd)


def open_again(fd: int) -> None:
    """Make a standard stream what create_stdio() of CPython's pylifecycle.c makes of the descriptor.

    The objects stay the same, for modules may hold them. Encoding, errors and -u are part of what the snapshot was
    chosen by.
    """
    name = ("stdin", "stdout", "stderr")[fd]
    stream = getattr(sys, f"__{name}__")
    try:
        posix.fstat(fd)
    except OSError:  # closed
        if getattr(sys, name) is stream:
            setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)
        return
    encoding, errors, unbuffered = stream.encoding, stream.errors, stream.write_through
    raw = buffer = _io.FileIO(fd, stream.mode, closefd=False)
    raw.name = f"<{name}>"
    if not isinstance(stream.buffer, _io.FileIO):
        buffer = stream.buffer
        type(buffer).__init__(buffer, raw, buffer_size(raw._blksize))
    line_buffering = LINE_BUFFERING.get(fd, not unbuffered and (fd == 2 or raw.isatty()))
    _io.TextIOWrapper.__init__(stream, buffer, encoding, errors, "\n", line_buffering, unbuffered)


def buffer_size(block: int) -> int:
    """Return the size that open() gives to the buffer of a file with such blocks, in bytes."""
    if block <= 1:
        block = _io.DEFAULT_BUFFER_SIZE
    if sys.version_info >= (3, 14):
        block = max(min(block, 8 << 20), _io.DEFAULT_BUFFER_SIZE)
    return block


def command_line(
    orig_argv: list[str], program: int, index: int
) -> "tuple[str | None, str | None, str | None, list[str], list[str]]":
    """Read the command line as CPython's initconfig.c does."""
    command = module = filename = None
    argv = orig_argv[index:] or [""]
    if program == COMMAND:
        command = argv[0] + "\n"
        argv[0] = "-c"
    elif program == MODULE:
        module = argv[0]
        check_unloaded(module)
        argv[0] = "-m"
    elif program == FILE:
        filename = absolute(argv[0])
    # The lists stay the same, for modules may hold them.
    sys.argv[:] = argv
    if sys.version_info >= (3, 10):
        sys.orig_argv[:] = orig_argv
    return command, module, filename, argv, orig_argv


def absolute(path: str) -> str:
    """As _Py_abspath() of CPython's fileutils.c, which came to know the working directory itself on its way to 3.11."""
    if path in ("", "."):
        if sys.version_info < (3, 11):
            raise NotImplementedError(path)
        return posix.getcwd()
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def check_unloaded(module: str) -> None:
    """Raise an exception where runpy would warn that a submodule which it is to run is loaded already.

    Cold, that tells whether its package has loaded it; here the preloading may have, and then nobody is to be warned.
    """
    for name in module, f"{module}.__main__":
        if "." in name and name in sys.modules and not hasattr(sys.modules[name], "__path__"):
            raise ImportError(name)


def begin_logging(logging: "Any") -> None:
    nanoseconds = isinstance(logging._startTime, int)
    logging._startTime = time.time_ns() if nanoseconds else time.time()


def seed_again(generators: "list[Any]") -> None:
    """Give each generator a new seed, and its sequence too, from which the seeds of its children would come.

    A RandomState forgets the second of two normally distributed numbers, which it makes at once.
    """
    for generator in generators:
        if hasattr(generator, "getrandbits"):  # of the module random
            generator.seed()
            continue
        if hasattr(generator, "set_state"):
            generator.set_state({**generator.get_state(legacy=False), "has_gauss": 0})
            continue
        sequence = getattr(generator, "seed_seq", None) or generator._seed_seq
        children = {name: getattr(sequence, name) for name in ("spawn_key", "pool_size", "n_children_spawned")}
        type(sequence).__init__(sequence, **children)
        generator.state = type(generator)(sequence).state


# What must not be the same in two processes. The module random needs no help: it has a hook of its own for forks.


def renew_threading(threading: "Any", _: bytes) -> None:
    threading.main_thread()._set_native_id()


def renew_ssl(ssl: "Any", entropy: bytes) -> None:
    """OpenSSL knows a fork by a new process id, and that of two containers is the same."""
    ssl.RAND_add(entropy, float(len(entropy)))


def renew_rust(rust: "Any", entropy: bytes) -> None:
    """As renew_ssl(), for the OpenSSL that cryptography brings along; of older ones it is in a module of its own."""
    if hasattr(rust, "openssl"):
        renew_openssl(rust._openssl, entropy)


def renew_openssl(openssl: "Any", entropy: bytes) -> None:
    openssl.lib.RAND_add(entropy, len(entropy), float(len(entropy)))


# The generator of numpy's global functions, while it has given no number to anybody, and the agent knows its words.
TWISTERS: "list[Any]" = []
TWISTERS_OF = "numpy.random._mt19937", "numpy.random.mt19937"  # the latter in numpy 1.17
fill_words: "Any" = None
"""The agent's function."""


def prepare_numpy(words_of: "Any") -> None:
    """In the template: make numpy's global generator one whose words alone have to be filled.

    To seed it by its own functions touches eighty pages. `words_of`: the agent's function; what it finds in memory is
    compared with what numpy says, in two states. What fails is for renew_numpy() to say.
    """
    rand: Any = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    generator: Any = getattr(rand, "_bit_generator", None)
    if type(generator).__name__ != "MT19937" or type(generator).__module__ not in TWISTERS_OF:
        return
    try:
        same = True
        for draw in True, False:
            rand.seed(0)
            if draw:
                rand.random_sample()
            state = rand.get_state(legacy=False)["state"]
            there = words_of(generator.capsule)
            same = same and there == bytes(state["key"]) + state["pos"].to_bytes(4, sys.byteorder)
        seed_by_system(rand)  # for hooks of the imports that come before renew_numpy()
    except Exception:
        return
    if same:
        TWISTERS.append(generator)


def seed_by_system(rand: "Any") -> None:
    """As numpy.random.seed() without a seed, which takes three times as long and writes to many pages of numpy.

    The seed that is given here forgets what numpy remembers of the one before.
    """
    rand.seed(0)
    rand.set_state(("MT19937", memoryview(posix.urandom(MT19937_WORDS * 4)).cast("I"), MT19937_WORDS))


def renew_numpy(mtrand: "Any", _: bytes) -> None:
    if not (TWISTERS and TWISTERS.pop() is mtrand._rand._bit_generator and fill_words()):
        seed_by_system(mtrand._rand)


def renew_platform(platform: "Any", _: bytes) -> None:
    """platform.uname() remembers the name of the machine, which is the container's."""
    known = getattr(platform, "_uname_cache", None)
    if known is not None and known.node != posix.uname().nodename:
        platform._uname_cache = None


def renew_uuid(uuid: "Any", _: bytes) -> None:
    uuid._node = uuid._last_timestamp = None


def renew_tempfile(tempfile: "Any", _: bytes) -> None:
    tempfile._name_sequence = None


def renew_semaphores(synchronize: "Any", _: bytes) -> None:
    vars(synchronize.SemLock._rand).clear()


def renew_authkey(process: "Any", _: bytes) -> None:
    key = process.AuthenticationString(posix.urandom(32))
    process.current_process()._config["authkey"] = key


RENEWALS = {
    "threading": renew_threading,
    "_ssl": renew_ssl,
    "cryptography.hazmat.bindings._rust": renew_rust,
    "cryptography.hazmat.bindings._openssl": renew_openssl,
    "numpy.random.mtrand": renew_numpy,
    "platform": renew_platform,
    "uuid": renew_uuid,
    "tempfile": renew_tempfile,
    "multiprocessing.synchronize": renew_semaphores,
    "multiprocessing.process": renew_authkey,
}
