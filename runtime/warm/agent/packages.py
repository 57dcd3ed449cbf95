"""The agent's knowledge of particular modules: the table ROWS, and the functions that its rows name.

embed.S puts this text before resume.py, and both share one namespace. So the builder, the probe (through bootstrap.py)
and each restored process use the same table. packages.h is the table for C.
"""

import posix
import sys
import time

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    from hidden import EFFECTS, MODULES, find_module

MT19937_WORDS = 624  # of 32 bits: the state of numpy's global generator
DRAWN_BLOCKS = 16  # blocks of 624 numbers, as many as an import may draw from a generator

# The kinds of rows. The agent calls a row's function with the module, if the module is loaded.
PREPARE = "prepare"  # (module): in the builder, after the imports.
END_THREADS = "end threads"  # (module): before a fork that is saved.
RENEW = "renew"  # (module, entropy): in a restored process, and in a restored fork of a program.
UNSEEDED = "unseeded"  # (module, gc, digests): return generators made without a seed (unseeded_generators).
STATES = "states"  # (module, gc): return generators with a digest of their states (random_states).
# These rows have data instead of a function.
TRACKER = "tracker"  # The name of a class whose finalizer acts only if it has started a process (tracker_acts).
COUNTED = "counted"  # None. The module reports instances of its types that are left at exit (is_counted).
CLOCK = "clock"  # The name of a variable with the time of the import (note_clocks() in bootstrap.py).
# How often its code may read clocks: other rows set what it keeps, or nothing depends on it (Clock in probe_clocks.py).
# None: any number of times, also by datetime, whose result only its own variables have (values.py).
TIMES = "times"
READS = "reads"  # The path of a kernel file that imports may read although its content varies (may_read).
# Modules that may draw random bytes while they are imported, or packages with all in them (probe_draws.py).
DRAWS = "draws"  # None. Other rows renew what it keeps, or nothing depends on it.
WORDS = "words"  # The module of a global generator, and how many words of 32 bits it draws from that (has_drawn).
FIRST_ITEM = "first item"  # None. It may look at the first item of sys.path (Places in probe_doubles.py).
RANDBITS = "randbits"  # The name of its variable for secrets.randbits(): what it draws becomes part of a generator.
SETTING = "setting"  # Pairs of its functions: one returns a setting, and the other changes it (changes.py).
KEPT_BYTES = "kept bytes"  # Names of its variables: random bytes, or their hexadecimal form (renew_bytes).

# Beginnings of the names of libraries that draw random bytes on which nothing depends. They salt hash tables (libxml2
# in lxml, Expat) and heaps (mimalloc in Arrow), or are dropped (libsodium). A row below renews those of OpenSSL.
# Arrow's own OpenSSL is for its connections.
SALTED = "_sodium.", "etree.", "libarrow.", "libcrypto", "libexpat", "libxml2", "pyexpat."
# Libraries that look at the standard streams at their start, for functions that Python does not use: Fortran's.
STREAMS = ("libgfortran",)

# Functions of the agent (services.h). bootstrap.py sets them.
fill_words: "Any" = None
words_of: "Any" = None
trampolines: "Any" = None
open_for: "Any" = None


def hide_descriptors() -> None:
    """In the builder, when the modules are hidden: close the descriptor of libffi until a module needs libffi.

    A cold start opens it when ctypes is imported. libffi's own variable gets the new number then. Descriptors of other
    libraries stay open, because nothing tells where their numbers are.
    """
    for descriptor in range(3, 256):
        try:
            status = posix.fstat(descriptor)
            inheritable = posix.get_inheritable(descriptor)
        except OSError:
            continue
        found = trampolines(descriptor) if status.st_mode & 0o170000 == 0o100000 else None
        if found is None:
            continue
        place, path, users = found
        bits = sum(1 << at for at, module in enumerate(MODULES) if getattr(module, "__file__", None) in users)
        if bits and path and posix.stat(path)[1:3] == status[1:3]:  # st_ino, st_dev
            posix.close(descriptor)
            open_for(b"", False, place)
            EFFECTS.append((bits, open_for, (path, (inheritable, place), {})))


def nothing() -> None:
    pass


# threading's hook for the child of a fork, and the hook's code, while `nothing` is in its place.
HOOKS: "list[tuple[Any, Any]]" = []


def call_ahead(threading: "Any") -> None:
    """In the builder, run threading's hook for the child of a fork once for all restored processes.

    The hook forgets other threads, of which the builder has none, and makes locks anew. Its work is the same in every
    process, and touches 130 pages. If the hook was replaced or fails, each process calls it as usual.
    """
    hook: Any = getattr(threading, "_after_fork", None)
    if type(hook) is not type(nothing) or hook.__globals__ is not vars(threading) or hook.__closure__ is not None:
        return
    try:
        hook()
    except Exception:  # it fails again in the restored process, which reports it
        return
    HOOKS.append((hook, hook.__code__))
    hook.__code__ = nothing.__code__


def restore_hooks() -> None:
    """Undo call_ahead() in a restored process, for the forks of its program."""
    for hook, code in HOOKS:
        hook.__code__ = code
    HOOKS.clear()


def renew_threading(threading: "Any", _: bytes) -> None:
    threading.main_thread()._set_native_id()


# Functions that set a number of threads, each with the number before end_numexpr().
ENDED: "list[tuple[Any, int]]" = []


def end_numexpr(interpreter: "Any") -> None:
    """End the threads of numexpr. start_threads() starts them again."""
    set_number: Any = getattr(interpreter, "_set_num_threads", None)
    threads = set_number(1) if set_number else 1
    if threads > 1:
        ENDED.append((set_number, threads))


def end_threads() -> None:
    """Before a fork that is saved, end the threads that start_threads() starts again."""
    for name, end in ENDINGS.items():
        module = find_module(name)
        if module is not None:
            end(module)


def start_threads() -> None:
    while ENDED:
        set_number, threads = ENDED.pop()
        set_number(threads)


def is_tracker(kind: type) -> bool:
    return any(kind.__name__ == name and kind.__module__ == module for module, name in TRACKERS.items())


def tracker_acts(tracker: "Any") -> bool:
    """Tell whether the finalizer of a tracker does something: only if the tracker has started a process."""
    return getattr(tracker, "_pid", 0) is not None


def is_counted(kind: type) -> bool:
    """Tell whether a module counts instances of this type and reports those that are left at exit."""
    return vars(kind).get("__module__") in COUNTING


def may_read(path: str) -> bool:
    """Tell whether a loaded module reads this kernel file without keeping what varies in it."""
    return any(path == own and module in sys.modules for module, own in at(READS).items())


def unseeded_generators(gc: "Any", digests: "set[bytes]") -> "list[object]":
    """Return the generators that imports have made without a seed. Each process gives them new seeds: seed_again().

    `digests`: those of the probe's generators (seed_digests). A seed that is the same in both is the author's.
    """
    out: "list[object]" = []
    for module, find in at(UNSEEDED).items():
        if module in sys.modules:
            out += find(sys.modules[module], gc, digests)
    return out


def sequence_of(generator: "Any") -> "Any":
    """Return the SeedSequence that a bit generator of numpy was made of, or None."""
    return getattr(generator, "seed_seq", None) or getattr(generator, "_seed_seq", None)


def instances(kind: "type | None", gc: "Any") -> "list[Any]":
    """Return all objects of a type and of its subtypes."""
    kinds: "set[Any]" = set() if kind is None else {kind}
    while not kinds.issuperset(more := {heir for known in kinds for heir in known.__subclasses__()}):
        kinds |= more
    return [thing for thing in gc.get_objects() if type(thing) in kinds] if kinds else []


def bit_generators(gc: "Any") -> "list[Any]":
    """Return numpy's bit generators. The global one is not among them, because resume() gives it a seed in any case."""
    mtrand = sys.modules["numpy.random.mtrand"]
    found = instances(getattr(sys.modules["numpy.random"], "BitGenerator", None), gc)
    return [thing for thing in found if thing is not mtrand._rand._bit_generator]


def seed_sequences(gc: "Any") -> "list[Any]":
    return instances(getattr(sys.modules["numpy.random"], "SeedSequence", None), gc)


def seed_digest(generator: "Any") -> bytes:
    """Return a digest of what a bit generator of numpy was seeded with."""
    sequence = sequence_of(generator)
    entropy = getattr(sequence, "entropy", None)
    if not comes_from(generator, sequence):
        entropy = bytes(generator.state["state"].get("key", b""))
    text = entropy if isinstance(entropy, bytes) else repr(entropy).encode()
    return b"%d" % hash(int.from_bytes(text, "little"))


def seed_digests(gc: "Any") -> "set[bytes]":
    return set(map(seed_digest, bit_generators(gc))) if "numpy.random" in sys.modules else set()


def unseeded_in_numpy(_: "Any", gc: "Any", digests: "set[bytes]") -> "list[object]":
    """Return bit generators, each followed by the RandomState that draws from it, which may have kept a number."""
    out: "list[object]" = []
    mtrand = sys.modules["numpy.random.mtrand"]
    states = {id(thing._bit_generator): thing for thing in instances(mtrand.RandomState, gc)}
    for thing in bit_generators(gc):
        if seed_digest(thing) in digests:
            continue
        if not comes_from(thing, sequence_of(thing)):
            raise ValueError("the imports seed a generator of numpy with another number each time")
        out.append(thing)
        if id(thing) in states:
            out.append(states[id(thing)])
    return out


def comes_from(generator: "Any", sequence: object) -> bool:
    """Tell whether the generator's state is the one that the sequence gives, or a later one.

    A generator that has no sequence was given its state. Legacy seeding may leave the sequence unchanged, but it
    changes the key. Drawing from MT19937 changes the key at every 624th number.
    """
    if sequence is None:
        return False
    first = type(generator)(sequence)
    for _ in range(DRAWN_BLOCKS):
        if bytes(generator.state["state"].get("key", b"")) == bytes(first.state["state"].get("key", b"")):
            return True
        first.random_raw(624, False)
    return False


def seed_again(generators: "list[Any]") -> None:
    """Give each generator a new seed, and also its sequence, from which seeds of its children would come.

    A RandomState makes two normally distributed numbers at once, and must forget the second. Generators of one entropy
    have one again.
    """
    entropies: "dict[object, object]" = {}
    for generator in generators:
        if hasattr(generator, "getrandbits"):  # of the module random
            generator.seed()
            continue
        if hasattr(generator, "set_state"):
            generator.set_state({**generator.get_state(legacy=False), "has_gauss": 0})
            continue
        sequence = sequence_of(generator)
        children = {name: getattr(sequence, name) for name in ("spawn_key", "pool_size", "n_children_spawned")}
        before = repr(sequence.entropy)
        type(sequence).__init__(sequence, entropies.get(before), **children)
        entropies[before] = sequence.entropy
        generator.state = type(generator)(sequence).state


def random_states(gc: "Any") -> "list[tuple[bytes, Any, str | None]]":
    """Return generators with a digest of their states, and the name of the module if it is the module's global one.

    If an import has seeded a generator with a number of its own, its state is the same in probe and builder, which
    import independently. All other states differ. So a digest must not depend on the seed of hash(). The hash of a
    number does not.
    """
    out: "list[tuple[bytes, Any, str | None]]" = []
    for module, find in at(STATES).items():
        if module in sys.modules:
            out += find(sys.modules[module], gc)
    return out


def own_state(generator: "Any") -> "Any":
    """Return the state of a generator of the module random. A probe has other methods in its types."""
    [kind] = [k for k in type(generator).__mro__ if k.__base__ is object and k.__module__ == "_random"]
    return kind.getstate(generator)  # type: ignore[attr-defined]


def states_in_random(random: "Any", gc: "Any") -> "list[tuple[bytes, Any, str | None]]":
    """Subclasses of random.Random count only if they use its state: SystemRandom has one and does not."""
    out: "list[tuple[bytes, Any, str | None]]" = []
    own, inst = random.Random, getattr(random, "_inst", None)
    things = gc.get_objects()
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, own)}
    kinds = {kind for kind in kinds if all(getattr(kind, n) is getattr(own, n) for n in ("random", "seed"))}
    for thing in things:
        if type(thing) in kinds:
            state = own_state(thing)
            out.append((b"%d" % hash(state), thing, "random" if thing is inst else None))
    return out


def state_in_numpy(mtrand: "Any", _: "Any") -> "list[tuple[bytes, Any, str | None]]":
    rand: Any = getattr(mtrand, "_rand", None)
    if type(getattr(rand, "_bit_generator", None)).__name__ != "MT19937":
        return []
    words = rand.get_state(legacy=False)["state"]
    number = int.from_bytes(bytes(words["key"]), "little")
    return [(b"%d" % hash((number, words["pos"])), rand, "numpy.random")]


# numpy's global generator, as long as no number was drawn from it and the agent knows where its words are.
TWISTERS: "list[Any]" = []
TWISTERS_OF = "numpy.random._mt19937", "numpy.random.mt19937"  # the latter in numpy 1.17


def prepare_numpy(mtrand: "Any") -> None:
    """In the builder, put numpy's global generator into a state in which a process has only to fill its words.

    Seeding it by its own functions touches 80 pages. In two states, compare what words_of() finds in memory with the
    state that numpy reports. If anything fails here, renew_numpy() uses numpy's functions and reports their errors.
    """
    rand: Any = getattr(mtrand, "_rand", None)
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
    """Seed as numpy.random.seed() does without a seed, which takes three times as long and writes to many pages.

    seed(0) makes the generator forget the second normally distributed number that it may have kept.
    """
    rand.seed(0)
    rand.set_state(("MT19937", memoryview(posix.urandom(MT19937_WORDS * 4)).cast("I"), MT19937_WORDS))


def renew_numpy(mtrand: "Any", _: bytes) -> None:
    if not (TWISTERS and TWISTERS.pop() is mtrand._rand._bit_generator and fill_words()):
        seed_by_system(mtrand._rand)


def prepare_ssl(ssl: "Any") -> None:
    ssl.RAND_status()


def renew_ssl(ssl: "Any", entropy: bytes) -> None:
    ssl.RAND_add(entropy, float(len(entropy)))


def library_of_rust(rust: "Any") -> "Any":
    """Return the functions of the OpenSSL in cryptography, or None. While they are hidden, _openssl lacks them."""
    return find_module("_openssl.lib") or getattr(getattr(rust, "_openssl", None), "lib", None)


def prepare_rust(rust: "Any") -> None:
    if hasattr(rust, "openssl") and not hasattr(library_of_rust(rust), "RAND_add"):
        raise RuntimeError("this release of cryptography has no RAND_add(), by which random numbers become new")


def renew_rust(rust: "Any", entropy: bytes) -> None:
    if hasattr(rust, "openssl"):
        library_of_rust(rust).RAND_add(entropy, len(entropy), float(len(entropy)))


def renew_openssl(openssl: "Any", entropy: bytes) -> None:
    openssl.lib.RAND_add(entropy, len(entropy), float(len(entropy)))


def forget_uname(platform: "Any", _: bytes = b"") -> None:
    if getattr(platform, "_uname_cache", None) is not None:
        platform._uname_cache = None


# The year of the snapshot, if dateutil keeps it.
YEARS: "list[int]" = []


def prepare_dateutil(_: "Any") -> None:
    YEARS.append(time.localtime().tm_year)


def renew_dateutil(parser: "Any", _: bytes) -> None:
    year = time.localtime().tm_year
    if year not in YEARS:
        info = parser.DEFAULTPARSER.info
        info._year, info._century = year, year // 100 * 100


def renew_uuid(uuid: "Any", _: bytes) -> None:
    uuid._node = uuid._last_timestamp = None


def renew_tempfile(tempfile: "Any", _: bytes) -> None:
    tempfile._name_sequence = None


def renew_semaphores(synchronize: "Any", _: bytes) -> None:
    vars(synchronize.SemLock._rand).clear()


def renew_authkey(process: "Any", _: bytes) -> None:
    key = process.AuthenticationString(posix.urandom(32))
    process.current_process()._config["authkey"] = key


def renew_session(session: "Any", _: bytes) -> None:
    flags: Any = session.session_flags["secure"][0]
    flags["Session"]["key"] = session.new_id_bytes()


def renew_dummy(symbol: "Any", _: bytes) -> None:
    dummy: Any = getattr(symbol, "Dummy", None)
    if isinstance(getattr(dummy, "_base_dummy_index", None), int):
        dummy._base_dummy_index = dummy._prng.randint(10**6, 9 * 10**6)


def renew_bytes(module: "Any", names: "tuple[str, ...]") -> None:
    """Give new random bytes to variables of a module that have some, or have their hexadecimal form."""
    for name in names:
        value: Any = getattr(module, name, None)
        if isinstance(value, bytes):
            setattr(module, name, posix.urandom(len(value)))
        elif isinstance(value, str):
            setattr(module, name, posix.urandom(len(value) // 2).hex())


CONTEXT = "prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps"  # attributes in decimal


def decimal_contexts(decimal: "Any") -> "list[Any]":
    return [decimal.getcontext(), decimal.DefaultContext, decimal.BasicContext, decimal.ExtendedContext]


def copy_contexts(decimal: "Any") -> "Any":
    return [context.copy() for context in decimal_contexts(decimal)]


def set_contexts(decimal: "Any", values: "Any") -> None:
    for number, context in enumerate(decimal_contexts(decimal)):
        for name in CONTEXT:
            setattr(context, name, getattr(values[number], name))


def all_locales(locale: "Any") -> "Any":
    return locale.setlocale(locale.LC_ALL)


def set_locales(locale: "Any", value: "Any") -> None:
    locale.setlocale(locale.LC_ALL, value)


def stack_size(threading: "Any") -> int:
    size: int = threading.stack_size()  # it sets the size to 0
    threading.stack_size(size)
    return size


def set_threshold(gc: "Any", value: "Any") -> None:
    gc.set_threshold(*value)


def all_dialects(csv: "Any") -> "Any":
    return {name: csv.get_dialect(name) for name in csv.list_dialects()}


def set_dialects(csv: "Any", value: "Any") -> None:
    for name in csv.list_dialects():
        csv.unregister_dialect(name)
    for name, dialect in value.items():
        csv.register_dialect(name, dialect)


def set_faulthandler(faulthandler: "Any", on: "Any") -> None:
    (faulthandler.enable if on else faulthandler.disable)()


def set_tracing(tracemalloc: "Any", on: "Any") -> None:
    (tracemalloc.start if on else tracemalloc.stop)()


# Each row is a module, the kind of row, and a function or data. The comment says what is special about the module and
# what the agent does, and names the source. Rows of a kind apply in this order.
ROWS: "tuple[tuple[str, str, Any], ...]" = (
    # threading keeps the kernel's id of the main thread, and has a hook that is slow after a fork. The agent stores the
    # new id, and runs the hook in the builder.
    # Source: CPython, Lib/threading.py, _after_fork() and Thread._set_native_id().
    ("threading", PREPARE, call_ahead),
    ("threading", RENEW, renew_threading),
    # logging prints times relative to its import (%(relativeCreated)d), and a .pth file may have imported it before the
    # probe watches the clocks.
    # Source: CPython, Lib/logging/__init__.py, _startTime.
    ("logging", CLOCK, "_startTime"),
    ("logging", TIMES, 1),
    # dateutil keeps the year, from which it guesses the century of two digits. pandas imports it.
    # Source: https://github.com/dateutil/dateutil, src/dateutil/parser/_parser.py, parserinfo.__init__().
    ("dateutil.parser._parser", TIMES, 1),
    ("dateutil.parser._parser", PREPARE, prepare_dateutil),
    ("dateutil.parser._parser", RENEW, renew_dateutil),
    # f2py, which scipy imports, keeps a date for a comment in the C files that it writes.
    # Source: https://github.com/numpy/numpy, numpy/f2py/rules.py, generationtime.
    ("numpy.f2py.rules", TIMES, None),
    # IPython tells on some days of the year how old it is.
    # Source: https://github.com/ipython/ipython, IPython/core/tips.py, _tips.
    ("IPython.core.tips", TIMES, None),
    # numexpr starts threads when it is imported, and pandas imports it if it is installed. It notices by a new process
    # id that a fork has left the threads behind, but in a container the id may be the same. The agent ends the threads
    # before the fork and starts them after it.
    # Source: init_threads() in https://github.com/pydata/numexpr, numexpr/module.cpp.
    ("numexpr.interpreter", END_THREADS, end_numexpr),
    # The module random seeds its global generator again in the child of a fork, so it has no row to renew it. Other
    # generators get a new seed unless an import has seeded them.
    # Source: CPython, Lib/random.py, os.register_at_fork(after_in_child=_inst.seed).
    ("random", STATES, states_in_random),
    # OpenSSL notices a fork by a new process id, and two containers may have the same one. The agent adds entropy. The
    # builder creates the generator first, because every process would need two milliseconds for that.
    # Source: openssl_get_fork_id() in https://github.com/openssl/openssl, crypto/threads_pthread.c.
    ("_ssl", PREPARE, prepare_ssl),
    ("_ssl", RENEW, renew_ssl),
    # cryptography brings an OpenSSL of its own, so this needs entropy, too. Older releases bind it in another module.
    # Source: https://github.com/pyca/cryptography, src/cryptography/hazmat/bindings/openssl/binding.py.
    ("cryptography.hazmat.bindings._rust", PREPARE, prepare_rust),
    ("cryptography.hazmat.bindings._rust", RENEW, renew_rust),
    ("cryptography.hazmat.bindings._openssl", RENEW, renew_openssl),
    # Every process must draw other numbers from numpy. The agent gives new seeds to generators that have none of the
    # author's, and fills the state of the global one directly (packages.h).
    # Source: https://github.com/numpy/numpy, numpy/random: mtrand.pyx (_rand), bit_generator.pyx (SeedSequence).
    ("numpy.random", DRAWS, None),
    ("numpy.random.bit_generator", RANDBITS, "randbits"),
    ("numpy.random", UNSEEDED, unseeded_in_numpy),
    ("numpy.random.mtrand", PREPARE, prepare_numpy),
    ("numpy.random.mtrand", STATES, state_in_numpy),
    ("numpy.random.mtrand", RENEW, renew_numpy),
    # platform.uname() caches the host name, which differs between containers. The agent empties the cache in the
    # builder, and in a fork of a program.
    # Source: CPython, Lib/platform.py, _uname_cache.
    ("platform", PREPARE, forget_uname),
    ("platform", RENEW, forget_uname),
    # uuid caches the hardware address and the last time. tempfile keeps a generator of names.
    # Source: CPython, Lib/uuid.py, getnode() and uuid1(); Lib/tempfile.py, _get_candidate_names().
    ("uuid", RENEW, renew_uuid),
    ("tempfile", RENEW, renew_tempfile),
    # multiprocessing keeps a generator for the names of semaphores, and a random key of the process.
    # Source: CPython, Lib/multiprocessing/synchronize.py, SemLock._rand; Lib/multiprocessing/process.py, _MainProcess.
    ("multiprocessing.synchronize", RENEW, renew_semaphores),
    ("multiprocessing.process", RENEW, renew_authkey),
    ("multiprocessing.process", DRAWS, None),
    # jupyter_client makes a key for connections, which is in force if a kernel has the option --secure.
    # Source: https://github.com/jupyter/jupyter_client, jupyter_client/session.py, session_flags.
    ("jupyter_client.session", RENEW, renew_session),
    ("jupyter_client.session", DRAWS, None),
    # openai keeps a key for a cache of its process. litellm keeps marks by which it knows its own messages.
    # Source: https://github.com/openai/openai-python, src/openai/lib/bedrock.py, _LEGACY_SIGNATURE_KEY;
    # https://github.com/BerriAI/litellm, litellm/integrations/custom_guardrail.py.
    ("openai.lib.bedrock", KEPT_BYTES, ("_LEGACY_SIGNATURE_KEY",)),
    (
        "litellm.integrations.custom_guardrail",
        KEPT_BYTES,
        (
            "_PRE_CALL_EXECUTED_TOKEN",
            "_PRE_CALL_RAISED_TOKEN",
            "_DEPLOYMENT_HOOK_RAN_TOKEN",
            "_POST_CALL_CHECKED_TOKEN",
        ),
    ),
    # sympy draws a number by which symbols of different processes differ, from a generator that gets a new seed.
    # Source: https://github.com/sympy/sympy, sympy/core/symbol.py, Dummy._base_dummy_index.
    ("sympy.core.symbol", DRAWS, None),
    ("sympy.core.symbol", RENEW, renew_dummy),
    # scipy prints random samples into the examples of docstrings.
    # Source: https://github.com/scipy/scipy, scipy/stats/_distribution_infrastructure.py, _generate_example().
    ("scipy.stats._distribution_infrastructure", DRAWS, None),
    ("scipy.stats._new_distributions", DRAWS, None),
    # These draw names of temporary files that they make, and of semaphores.
    # Source: CPython, Lib/tempfile.py, _RandomNameSequence; Lib/multiprocessing/synchronize.py, SemLock._make_name();
    # https://github.com/joblib/joblib, joblib/_multiprocessing_helpers.py, the same in a test of semaphores.
    ("tempfile", DRAWS, None),
    ("multiprocessing.synchronize", DRAWS, None),
    ("joblib._multiprocessing_helpers", DRAWS, None),
    # These draw names that must be different only within a process or a page, a boundary between parts of a message, or
    # a name for statistics. No secret depends on them.
    # Source: https://github.com/open-telemetry/opentelemetry-python, opentelemetry/context, create_key();
    # https://github.com/pydata/xarray, xarray/backends/locks.py, SerializableLock, and the same in
    # https://github.com/pytroll/donfig, donfig/_lock.py; https://github.com/python-visualization/branca,
    # branca/element.py, _generate_id(); https://github.com/langchain-ai/langsmith-sdk, _BOUNDARY;
    # https://github.com/huggingface/transformers, src/transformers/utils/hub.py, SESSION_ID.
    ("opentelemetry.context", DRAWS, None),
    ("xarray.backends.locks", DRAWS, None),
    ("donfig._lock", DRAWS, None),
    ("branca.element", DRAWS, None),
    ("langsmith._internal._constants", DRAWS, None),
    ("transformers.utils.hub", DRAWS, None),
    # rich numbers links of a page from a number of the global generator, and jax keeps five factors for times to wait.
    # Source: https://github.com/Textualize/rich, rich/style.py, _id_generator; https://github.com/jax-ml/jax,
    # jax/_src/clusters/k8s_cluster.py, retry().
    ("rich.style", WORDS, ("random", 1)),
    ("jax._src.clusters.k8s_cluster", WORDS, ("numpy.random", 10)),
    # cv2 asks whether the program is in its own directory, and puts sys.path back.
    # Source: https://github.com/opencv/opencv, modules/python/package/cv2/__init__.py, bootstrap().
    ("cv2", FIRST_ITEM, None),
    # multiprocessing and loky, which joblib contains, make a tracker with a finalizer when they are imported. Every
    # import of scikit-learn makes one. It does nothing before it has started a process, so the end can stay short.
    # Source: CPython, Lib/multiprocessing/resource_tracker.py; https://github.com/joblib/loky,
    # loky/backend/resource_tracker.py: ResourceTracker.__del__().
    ("multiprocessing.resource_tracker", TRACKER, "ResourceTracker"),
    ("joblib.externals.loky.backend.resource_tracker", TRACKER, "ResourceTracker"),
    # nanobind, which duckdb uses, prints leak warnings at exit if instances of its types are left. So with such types
    # all modules go.
    # Source: internals_cleanup() in https://github.com/wjakob/nanobind, src/nb_internals.cpp.
    ("nanobind", COUNTED, None),
    # psutil reads CPU times when it is imported, for its first cpu_percent(). Its manual says to ignore that result.
    # Source: https://github.com/giampaolo/psutil, psutil/__init__.py, _last_cpu_times.
    ("psutil", READS, "/proc/stat"),
    # Settings that no variable of the module has. A preloaded module may change them.
    # Source: CPython, the documentation of each module.
    ("sys", SETTING, (("getrecursionlimit", "setrecursionlimit"), ("getswitchinterval", "setswitchinterval"))),
    ("socket", SETTING, (("getdefaulttimeout", "setdefaulttimeout"),)),
    ("threading", SETTING, ((stack_size, "stack_size"),)),
    ("csv", SETTING, (("field_size_limit", "field_size_limit"), (all_dialects, set_dialects))),
    ("decimal", SETTING, ((copy_contexts, set_contexts),)),
    ("gc", SETTING, (("get_threshold", set_threshold),)),
    ("faulthandler", SETTING, (("is_enabled", set_faulthandler),)),
    ("tracemalloc", SETTING, (("is_tracing", set_tracing),)),
    ("locale", SETTING, ((all_locales, set_locales),)),
    # These packages need no row, because a general rule covers them.
    # OpenBLAS and jemalloc handle forks themselves: packages.h.
    # pytz leaves generators that have not ended (LazyList in its src/pytz/lazy.py). They count as harmless, because
    # they cannot notice that they are closed: has_handlers() in resume.py.
    # matplotlib writes a cache, which MPLCONFIGDIR may put into /dev/shm. Every process makes it again: keep_files() in
    # bootstrap.py.
    # PROJ keeps its database open (DatabaseContext in its src/iso19111/factory.cpp). The snapshot records it:
    # runtime/warm/dump/descriptors.h. libffi keeps its own file open (its src/tramp.c): hide_descriptors().
    # libffi looks for a place for this file among the mounts (open_temp_exec_file_mnt() in its src/closures.c). Only
    # libraries may read those: Trace.check() in probe_trace.py.
)


def at(kind: str) -> "dict[str, Any]":
    """Return the rows of this kind: modules, and what each row says."""
    return {module: what for module, own, what in ROWS if own == kind}


# Parts of the paths of libraries that read the clock for themselves: for their generators, locks and allocators.
LIBRARY_TIMES = (
    "libcrypto",
    "/cryptography/hazmat/bindings/_rust",
    "libarrow",
    "libjax_common",
    "/_polars_runtime",
)

ENDINGS = at(END_THREADS)
RENEWALS = at(RENEW)
KEEPERS = at(KEPT_BYTES)
TRACKERS = at(TRACKER)
COUNTING = tuple(at(COUNTED))
