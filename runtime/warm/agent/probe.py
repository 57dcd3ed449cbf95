"""The probe: import the modules, watch the files and variables that the imports look at, and report them.

The texts probe*.py are one, and run in the names of bootstrap.py. The probe reports each
path as its process sees it. The runtime looks at the path again, with its own credentials.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import gc
    import posix
    import sys
    from typing import Any

    from bootstrap import CHANGED, TEMPORARY, Failed, add_directories, end, import_modules, leave_place
    from bootstrap import own_modules, put, receive, send
    from hidden import EFFECTS, Record
    from packages import end_threads, random_states, seed_digests
    from probe_clocks import clock_records, value_records, watch_clocks
    from probe_doubles import QUIET, Machine, Variables
    from probe_draws import UNHEARD, check_draws
    from probe_look import answer, changed_at, kernel_value
    from probe_paths import ELSEWHERE, look_around, path_records, places
    from probe_trace import Trace
    from probe_watch import ASK_NAME, Watch
    from values import Values

COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC


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
    if any(signal.getitimer(kind)[0] for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        raise Failed("the imports set a timer")
    if has_secrets():
        raise Failed("the imports make an SSL context, whose secrets would be the same in all containers")
    check_draws(trace)


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
    for name in own_modules():
        sys.modules.pop(name, None)
    directories = list(sys.path)
    site.addsitepackages(set())
    if site.ENABLE_USER_SITE:
        site.addusersitepackages(set())
    site.execsitecustomize()
    if site.ENABLE_USER_SITE:
        site.execusercustomize()
    sys.path[:] = directories


def explore(agent: "Any", modules: list[str], report: int, atexit: "Any", first: set[bytes]) -> None:
    """`first`: the digests of the first probe, if this is the second, which only compares its own (values.py)."""
    try:
        for _, generator, _ in random_states(gc):  # of the start; .pth files seed them again
            generator.seed()
        bare = top_level()
        watch = Watch(agent.memory_file(), agent.memory_file())
        interpreter = look_at_interpreter()
        values = Values(own_modules())
        watch_clocks(agent, is_first=not first)
        UNHEARD(1)  # without getrandom(2) the interpreter opens a device now, and keeps it open
        posix.access(f"{QUIET}B", 0)
        customize_again()
        watch.names.clear()
        gc.set_threshold(0)  # this process ends soon
        add_directories(modules)
        record = Record(list(sys.modules), atexit, None)
        record.start()
        import_modules(modules, record, report)
        out = {put("g", CHANGED + name.encode()) for name in record.contents.changed}
        watch.listens = False
        record.stop()
        EFFECTS.clear()  # they refer to what the checks look for among all objects
        del record
        compared = value_records(agent, values, first)
        if first:
            send(report, put("r"))
            return
        trace = ask_trace(report)
        check_interpreter(interpreter)
        end_threads()
        check(agent, watch, trace)
        leave_place()
        out |= {put("g", digest) for digest, _, _ in random_states(gc)} | clock_records()
        out |= {put("g", digest) for digest in seed_digests(gc)}
        out |= {put("v", sys.version)} | compared
        out |= {put("m", name) for name in (watch.names | top_level()) - bare}
        out |= {put("t")} if watch.asks_terminal or trace.asks_terminal else set()
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
        out.add(put("e", "HOSTNAME"))  # manifest/report.c omits it otherwise, because it differs in each container
    return out
