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

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    from packages import (
        BEGINNINGS,
        PREPARE,
        RENEWALS,
        at,
        is_counted,
        is_tracker,
        restore_hooks,
        seed_again,
        start_threads,
        tracker_acts,
    )

COMMAND, MODULE, FILE = 1, 2, 3  # enum warm_program


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
    restore_hooks()
    COLLECTED.append([])
    set_environment(variables, imported)
    for fd in streams:
        open_again(fd)
    time.tzset()
    renew(entropy)
    for module, begin in BEGINNINGS.items():
        if module in sys.modules:
            begin(sys.modules[module])
    seed_again(generators)
    start_threads()
    return line


def renew(entropy: bytes) -> None:
    """Make anew what must not be the same in two processes; of a fork as well, which goes on with all the rest."""
    for module, make_anew in RENEWALS.items():
        if module in sys.modules:
            make_anew(sys.modules[module], entropy)


def prepare_packages() -> None:
    """In the builder: do what the rows of packages.py say, once for all restored processes."""
    for module, prepare in at(PREPARE).items():
        if module in sys.modules:
            prepare(sys.modules[module])


# Streams that only give memory back when they end, and those that do nothing more once they are closed. Of these types
# alone: a subclass may do anything, and so may what an instance of the first is given as its close().
IN_MEMORY = _io.BytesIO, _io.StringIO
ON_FILES = _io.FileIO, _io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, _io.TextIOWrapper
PLAIN = (_ for _ in ()).gi_code
GENERATOR = type(_ for _ in ())
SEND = 123  # of CPython 3.11: how a generator waits for another


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
    if is_tracker(kind):
        return tracker_acts(thing)
    return True


def has_finalizer(kind: type) -> bool:
    return any("__del__" in vars(base) for base in type.mro(kind))


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
