"""Remove the traces of the builder from an interpreter that wakes up in a container, and shorten its end.

The agent compiles this text in the builder and calls resume() once in every restored process. By then the hooks for the
child of a fork have run, and the user's program has not begun. This text imports only modules that every interpreter
has loaded, because others would remain in sys.modules. After an exception the agent starts the interpreter anew.
In a fork that continues in a container of its own, the agent calls only renew().
"""

import posix
import sys
import time

_io = sys.modules["_io"]

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    from hidden import FIRST, begin_hidden, find_module, release
    from packages import (
        PREPARE,
        RENEWALS,
        KEEPERS,
        renew_bytes,
        at,
        is_counted,
        is_tracker,
        restore_hooks,
        seed_again,
        start_threads,
        tracker_acts,
    )
    from place import note_surroundings

    # The names of a module, the one of a variable, its value, the function that read the clock, and what it said after
    # the imports.
    Clock = tuple[dict[str, Any], str, Any, "Any", Any]

COMMAND, MODULE, FILE = 1, 2, 3  # enum warm_program


def resume(
    builder: "tuple[dict[bytes, bytes | None], list[Any], list[tuple[str, int, bytes | str | None]], list[Clock]]",
    orig_argv: list[str],
    variables: list[bytes],
    streams: list[int],
    program: int,
    index: int,
    entropy: bytes,
) -> "tuple[str | None, str | None, str | None, list[str], list[str]]":
    """Set the environment, the streams, and all state that must differ between processes.

    `builder`: variables that the imports have set, or deleted (None), generators that they have made without a seed,
    files that they have left (keep_files() in bootstrap.py), and times (note_clocks() there). `orig_argv`: the whole
    command line. `variables`: the environment as NAME=VALUE. `streams`: the standard descriptors that differ from those
    of the streams. `program`, `index`: the kind of program, and where the command line names it. `entropy`: fresh
    random bytes.
    Returns values for the interpreter's configuration: text of -c, module of -m, file, sys.argv, sys.orig_argv.
    """
    # These come first, because they may lead to a cold start, which needs the environment unchanged.
    line = command_line(orig_argv, program, index)
    imported, generators, files, clocks = builder
    if files:
        make_files(files)
    restore_hooks()
    COLLECTED.append([])
    set_environment(variables, imported)
    for fd in streams:
        open_again(fd)
    time.tzset()
    renew(entropy)
    for names, name, value, read, then in clocks:
        names[name] = type(value)(value + (read() - then))
    seed_again(generators)
    start_threads()
    note_surroundings()
    begin_hidden()
    return line


def make_files(files: "list[tuple[str, int, bytes | str | None]]") -> None:
    """Make the files that the imports have left in directories for temporary files.

    Raises OSError if one cannot be made. Then nothing of them is left, for the cold start makes its own.
    """
    made: "list[str]" = []
    try:
        for path, mode, content in files:
            make_file(path, mode, content, made)
    except OSError:
        for path in reversed(made):
            try:
                posix.unlink(path)
            except OSError:
                posix.rmdir(path)
        raise


def make_file(path: str, mode: int, content: "bytes | str | None", made: "list[str]") -> None:
    """Make a file, link or directory that does not exist yet, and append it to `made`."""
    if content is None:
        posix.mkdir(path, 0o700)
    elif isinstance(content, str):
        posix.symlink(content, path)
    else:
        file = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
        made.append(path)
        while content:
            content = content[posix.write(file, content) :]
        posix.close(file)
    if content is None or isinstance(content, str):
        made.append(path)
    if not isinstance(content, str):
        posix.chmod(path, mode)


def renew(entropy: bytes) -> None:
    """Renew the state that must differ between processes. Forks of a program need this, too."""
    for name, make_anew in RENEWALS.items():
        module = find_module(name)
        if module is not None:
            make_anew(module, entropy)
    for name, variables in KEEPERS.items():
        module = find_module(name)
        if module is not None:
            renew_bytes(module, variables)


def prepare_packages() -> None:
    """In the builder: do what the rows of packages.py say, once for all restored processes."""
    for module, prepare in at(PREPARE).items():
        if module in sys.modules:
            prepare(sys.modules[module])


# Streams that only free memory at their end, and streams that do nothing more once they are closed. This is true of
# these types alone: a subclass may do anything, and so may a close() that an instance of the first was given.
IN_MEMORY = _io.BytesIO, _io.StringIO
ON_FILES = _io.FileIO, _io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, _io.TextIOWrapper
PLAIN = (_ for _ in ()).gi_code
GENERATOR = type(_ for _ in ())
SEND = 123  # the instruction of CPython 3.11 by which a generator waits for another


def handlers_of(code: "Any") -> "set[bytes]":
    """Return the first instruction of each exception handler, from 3.11 on.

    CPython's Objects/exception_handling_notes.txt describes the table. It has four numbers for each range of
    instructions, of which the third is the handler. A byte has six bits of a number, the highest first.
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

    From 3.12 on every generator has a handler for StopIteration, and the ranges of all its parts lead there.
    """
    if sys.version_info < (3, 11):
        return True
    if sys.version_info < (3, 12) and SEND in code.co_code[::2]:
        return True
    return bool(handlers_of(code) - handlers_of(PLAIN))


def may_act(thing: "Any") -> bool:
    """Tell whether the finalizer of this object may do more than free memory."""
    kind = type(thing)
    if kind in IN_MEMORY:
        return "close" in vars(thing)
    if kind in ON_FILES:
        try:
            return not thing.closed
        except Exception:  # of any stream beneath, or ValueError of a stream that is detached or was never set up
            return True
    if kind is GENERATOR:
        return has_handlers(thing.gi_code)
    if is_tracker(kind):
        return tracker_acts(thing)
    return True


def has_finalizer(kind: type) -> bool:
    return any("__del__" in vars(base) for base in type.mro(kind))


def with_finalizers(gc: "Any") -> "list[Any]":
    """Return living objects, except the standard streams, that have a finalizer or that a module counts."""
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
    """In the builder, return objects whose finalizers do nothing yet, or None if some finalizer may act."""
    things = with_finalizers(gc)
    if any(map(may_act, things)):
        return None
    return [thing for thing in things if type(thing) is not GENERATOR]


# resume() appends a list after the builder's objects were frozen. The collector finds it until the program calls
# gc.freeze().
COLLECTED: "list[list[object]]" = []


def has_frozen(gc: "Any") -> bool:
    """Tell whether the program has called gc.freeze(), without gc.get_freeze_count(), which reads all pages."""
    return not any(thing is COLLECTED[0] for thing in gc.get_objects())


def give_up(*_: object) -> bool:
    """Let all modules go as in a cold start: the order depends on the objects that the collector can see."""
    import gc

    gc.unfreeze()
    release()
    return True


def leave(kept: "dict[str, Any]", _finders: object, idle: "list[Any] | None") -> bool:
    """Keep the preloaded modules alive at the end, because freeing them would touch the snapshot's pages one by one.

    The agent calls this after all other exit handlers. Objects of the program go as usual. But a living object may act
    at its end (an open file, a __del__), and may need one of these modules for that. Then all modules go.
    `idle`: the result of harmless() after the imports. Returns whether all go.
    """
    import gc

    try:
        acts = idle is None or has_frozen(gc) or any(map(may_act, [*idle, *with_finalizers(gc)]))
    except MemoryError:  # the list of all objects is too long
        acts = True
    if acts:
        return give_up()
    for name, module in kept.items():
        if sys.modules.get(name) is module:
            sys.modules.pop(name, None)  # the module may be None
    return False


def is_flushed() -> bool:
    """Flush the standard streams, as CPython does next. Returns False if one was replaced, or if that fails."""
    try:
        for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
            if stream is None:
                continue
            if type(stream) is not _io.TextIOWrapper or "flush" in vars(stream) or type(stream.buffer) not in ON_FILES:
                return False
            if not stream.closed:
                stream.flush()
    except Exception:  # CPython meets the same error and reports it
        return False
    return True


def set_environment(variables: list[bytes], imported: "dict[bytes, bytes | None]") -> None:
    """Fill os.environ, in the order of the process's variables. Then repeat the changes of the imports."""
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
    """Return the line buffering that CPython chooses for a stream that is no terminal."""
    return fd == 2 and not stream.write_through


# Other choices of an import, by descriptor (TextIOWrapper.reconfigure).
LINE_BUFFERING: "dict[int, bool]" = {}


def prepare_streams(note: "Any") -> None:
    """In the builder, set up the streams as in most containers, for /dev/null or a socket (hand_over), and pipes.

    `note`, the agent's function, remembers these descriptors. Where a container has the same, the streams can stay.
    Descriptor 0 is a socket, and needed again for the report. Descriptor 1 is duplicated because it is /dev/null
    already, which a label may forbid the builder to open.
    """
    for fd, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        if stream.line_buffering != usual_line_buffering(fd, stream):
            LINE_BUFFERING[fd] = stream.line_buffering
    report = posix.dup(0)
    null = posix.dup(1)
    reader, writer = posix.pipe()
    for fd, own in enumerate((report if FIRST else null, writer, writer)):
        posix.dup2(own, fd)
        open_again(fd)
    note()
    posix.dup2(report, 0)
    for fd in report, null, reader, writer:
        posix.close(fd)


def open_again(fd: int) -> None:
    """Set up a standard stream for its descriptor, as create_stdio() in CPython's pylifecycle.c.

    The objects stay the same, because modules may refer to them. Encoding, errors and -u are part of the snapshot's
    key, so they are right already.
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
    """Return the buffer size that open() chooses for a file with blocks of this size, in bytes."""
    if block <= 1:
        block = _io.DEFAULT_BUFFER_SIZE
    if sys.version_info >= (3, 14):
        block = max(min(block, 8 << 20), _io.DEFAULT_BUFFER_SIZE)
    return block


def command_line(
    orig_argv: list[str], program: int, index: int
) -> "tuple[str | None, str | None, str | None, list[str], list[str]]":
    """Interpret the command line as CPython's initconfig.c does."""
    command = module = filename = None
    argv = orig_argv[index:] or [""]
    if program == COMMAND:
        command = argv[0] + "\n"
        argv[0] = "-c"
    elif program == MODULE:
        module = argv[0]
        argv[0] = "-m"
    elif program == FILE:
        filename = absolute(argv[0])
    # The lists stay the same, because modules may refer to them.
    sys.argv[:] = argv
    if sys.version_info >= (3, 10):
        sys.orig_argv[:] = orig_argv
    return command, module, filename, argv, orig_argv


def absolute(path: str) -> str:
    """Return an absolute path as _Py_abspath() in CPython's fileutils.c, which handles "" and "." since 3.11."""
    if path in ("", "."):
        if sys.version_info < (3, 11):
            raise NotImplementedError(path)
        return posix.getcwd()
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"
