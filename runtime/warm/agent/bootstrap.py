"""Make this interpreter a probe or a template: python3 FLAGS -c TEXT AGENT REPORT MODULE...

Imports happen twice, in two containers, and the runtime says on the descriptor REPORT which one this is (read_order).
The probe has the environment and the mounts of the container that is wanted. It watches what the imports look at,
reports it (runtime/warm/manifest/manifest.h has the records) and ends: probe.py, in a copy of the names here.
The template has only what the probe was seen to need. It imports the modules and ends by an exception that the agent
handles: it goes on when no frame is left, and the runtime saves it. Nothing may remain here but the modules, so this
text imports only what is built in.
"""

START = dict(globals())

import posix
import sys

import _imp

LOADED = list(sys.modules)

import gc

TYPE_CHECKING = False  # typing is not to be imported
if TYPE_CHECKING:
    from typing import Any

FAILED = 94  # exit code of a process that has reported a failure
PLACE = "/dev/.pysbx"  # there is no such thing: an entry of sys.path


class Failed(Exception):
    """The modules cannot be preloaded; the text says why."""


def first_environment(agent) -> "dict[bytes, bytes]":  # type: ignore[no-untyped-def]
    """The variables that the process was given.

    posix.environ has changed since: by the interpreter, which sets LC_CTYPE where there is no locale (PEP 538), by
    sitecustomize and .pth files. All of that has to be done to the variables of a process that wakes up.
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
    """Return what the runtime has sent. By readv(2): the observer takes read(2) for an import that reads its input."""
    data = bytearray(1 << 16)
    size = posix.readv(report, [data])
    if not size:
        posix._exit(FAILED)
    return bytes(data[:size])


def end(report: int, error: BaseException) -> None:
    """The last word of a process that has failed."""
    send(report, put("x", str(error) if isinstance(error, Failed) else repr(error)))
    posix._exit(FAILED)


def import_modules(modules: list[str], report: "int | None" = None) -> None:
    """Import them; with a report, say each before: who dies of it cannot say it later."""
    for module in modules:
        if report is not None:
            send(report, put("i", module))
        try:
            __import__(module)
        except BaseException as error:
            raise Failed(f"import {module}: {type(error).__name__}: {error}") from None


def read_order(report: int) -> "tuple[bool, set[bytes]]":
    """Wait for the runtime's order; by then it has seen what the process was before (template_state.h).

    A line: "s" for a probe; "t" for a template, and the digests that the probe has reported (random_states).
    Returns whether this is the probe, and the digests.
    """
    line = b""
    while not line.endswith(b"\n"):
        line += receive(report)
    kind, *digests = line.split()
    return kind == b"s", set(digests)


def probe(agent: "Any", modules: list[str], report: int, resume: "dict[str, Any]") -> None:
    """Import, watch, report; the runtime ends this process."""
    names = {**resume, **globals()}
    exec(compile(agent.probe_text(), "<probe>", "exec"), names)
    names["explore"](agent, modules, report)
    receive(report)
    posix._exit(FAILED)


def import_for_good(
    modules: list[str], report: int, digests: set[bytes], resume: "dict[str, Any]"
) -> "tuple[list[object], list[object] | None]":
    """Import in the template.

    Returns the generators that the imports have made without a seed, and what harmless() of resume.py returns.
    """
    gc.disable()
    import_modules(modules, report)
    gc.collect()
    generators = resume["unseeded_generators"](gc)
    states = resume["random_states"](gc)
    idle = resume["harmless"](gc)
    gc.freeze()
    leave_place()
    for digest, generator, module in states:
        if module is None and digest not in digests:
            generators.append(generator)
        elif module is not None and digest in digests:
            raise Failed(f"the imports seed the global generator of {module}")
    return generators, idle


def freeze() -> None:
    """Collect what can be, and keep the rest from later collections, which would write to every object."""
    gc.collect()
    gc.freeze()


def undo_start() -> None:
    """Take away what starting with -c has left: since 3.13 linecache, which keeps the text, and '' in the path.

    Its place there is kept until the imports are done (leave_place), for they may put directories beside it.

    And what loading the agent has: with -X dev, the codec of its name.
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
    """Take the first entry of sys.path away, which was kept for the directory of the program.

    CPython puts that in front of all others. Where the imports have put something before it, it would not be there.
    """
    flags = sys.flags
    if not flags.isolated and not getattr(flags, "safe_path", False):
        if sys.path[:1] != [PLACE]:
            raise Failed("the imports change the front of sys.path")
        del sys.path[0]
    sys.path_importer_cache.pop(PLACE, None)


def begin_main() -> None:
    """Give the imports the program's own __main__, for modules may hold it."""
    main = type(sys)("__main__")
    START["__doc__"] = None
    if "__annotations__" in START:
        START["__annotations__"] = {}
    vars(main).update(START)
    sys.modules["__main__"] = main


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
    resume,
) -> "tuple[tuple[dict[bytes, bytes | None], object], tuple[object, object, object]]":
    """Become an interpreter that has just started.

    `found`: what import_for_good() has returned. Returns what a process that wakes up needs (what the imports have
    changed in the environment, and generators to seed), and what all have anyway (modules, and the directories that
    were searched for them; things with a finalizer that does nothing as they are, None if there are others).
    """
    generators, idle = found
    found.clear()  # who calls is kept for good, and nothing of this may be
    resume["end_threads"]()
    resume["prepare_streams"](resume["note_streams"])
    resume["prepare_packages"]()
    changed: dict[bytes, bytes | None] = {n: v for n, v in posix.environ.items() if environ.get(n) != v}
    changed.update((name, None) for name in environ if name not in posix.environ)
    sys.excepthook = excepthook  # type: ignore[assignment]
    for name in "last_type", "last_value", "last_traceback", "last_exc":
        if hasattr(sys, name):
            delattr(sys, name)
    kept = {name: module for name, module in sys.modules.items() if name not in ("sys", "builtins", "__main__")}
    finders = dict(sys.path_importer_cache)
    freeze()
    # Not frozen: what the program puts there must be found by the collection at its end.
    main = sys.modules["__main__"]
    resume["thaw"](main)
    resume["thaw"](vars(main))
    if collecting:
        gc.enable()
    return (changed, generators), (kept, finders, idle)


def hand_over(fork: object, modules: list[str]) -> None:
    """Give the modules that ask for it, by a variable __pysbx_fork__, the function that makes a fork to be saved."""
    for name in modules:
        names = getattr(sys.modules.get(name), "__dict__", {})
        if "__pysbx_fork__" in names:
            names["__pysbx_fork__"] = fork


def prepare(path: str, report: int, modules: list[str]) -> None:
    """Everything up to the exception; what fails ends the process, with a word in the report."""
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
            raise Failed("a free-threaded Python is not known")
        if sys.version_info < (3, 10) and (sys.flags.dev_mode or b"debug" in posix.environ.get(b"PYTHONMALLOC", b"")):
            raise Failed("Python 3.9 with its debug allocator aborts at the end of forked processes")
        agent = load_agent(path)
        environ = first_environment(agent)
        # The first to be registered is the last to be called.
        atexit = __import__("atexit")
        atexit.register(agent.leave)
        if "atexit" not in LOADED:
            del sys.modules["atexit"]
        executable = sys.executable.encode(sys.getfilesystemencoding(), "surrogateescape")
        resume = agent.arm(
            sys.version_info[1],
            argv,
            orig_argv,
            executable,
            # Kept for good, and with it the module: before 3.10 the handlers are in there, and CPython counts no
            # reference to it.
            lambda atexit=atexit: settle(environ, excepthook, collecting, found, resume),
            report,
        )
        for name in "fill_words", "note_streams", "thaw", "words_of":
            resume[name] = getattr(agent, name)
        begin_main()
        undo_start()
        del sys.argv[1:]  # modules may look at them
        if orig_argv is not None:
            del orig_argv[1:]
        probing, digests = read_order(report)
        if probing:
            probe(agent, modules, report, resume)
        found += import_for_good(modules, report, digests, resume)
        hand_over(agent.fork, modules)
    except BaseException as error:
        end(report, error)
    excepthook = sys.excepthook
    sys.excepthook = agent.main


prepare(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
raise Failed
