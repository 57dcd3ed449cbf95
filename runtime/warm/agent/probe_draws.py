"""Random bytes that are drawn during the imports: every container of the snapshot would have the same.

Nothing tells what becomes of such bytes: a key, the text of a UUID, or nothing. So each draw is a reason against a
snapshot, unless packages.py knows the module or the library. The same is true of numbers from a generator that has
such bytes as its seed. Generators from which no number was drawn get new seeds: random_states() and
unseeded_generators() in packages.py.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import gc
    import posix
    import sys
    from typing import Any

    from bootstrap import Failed
    from packages import DRAWS, KEPT_BYTES, MT19937_WORDS, RANDBITS, SALTED, STREAMS, WORDS, at, bit_generators
    from packages import comes_from, own_state, seed_sequences, sequence_of
    from probe_doubles import QUIET
    from probe_trace import Trace

# Modules that draw for their callers. importlib runs the code of a module, and so does the agent (Record in hidden.py).
FOR_OTHERS: "tuple[str, ...]" = ("random", "tempfile", "secrets", "uuid", "ssl", "os")
FOR_OTHERS += "importlib", "_frozen_importlib", "_frozen_importlib_external", "resume"
DRAWN: "list[tuple[str, bytes]]" = []  # bytes, and the module that wanted them
UNHEARD = posix.urandom
# Numbers of the system that numpy has made seeds of, and for which module.
ENTROPIES: "dict[int, str]" = {}
# Generators of the module random by id(), and whether their seed is a constant.
FIXED: "dict[int, tuple[Any, bool]]" = {}
# Numbers of bytes: for a generator without a seed, and by glibc for the name of a temporary file. The last are for the
# keys of hash tables in Rust: HashMap, and the crate ahash.
SEED_BYTES = MT19937_WORDS * 4
NAME_BYTES = 8
HASH_BYTES = 16, 64
RUST = b"library/std/src/"
# Functions of other modules. Their callers import these modules first, and then find the replaced functions.
SOURCES: "dict[str, tuple[str, ...]]" = {
    "_random": (),
    "random": (),
    "numpy.random": (),
    "_ssl": ("RAND_bytes", "RAND_pseudo_bytes"),
    "_uuid": ("generate_time_safe",),
}
# Functions of tempfile that make a file of a random name.
TEMPORARY_FILES = "mkdtemp", "_mkstemp_inner", "_get_default_tempdir"


class Draw:
    """A function that returns random bytes, and notes them. Like that function, it becomes no method in a class."""

    def __init__(self, function: "Any") -> None:
        self.function = function

    def __call__(self, *given: object, **named: object) -> "Any":
        posix.access(f"{QUIET}1", 0)  # the runtime notes no draw of this thread in the meantime
        value = self.function(*given, **named)
        posix.access(f"{QUIET}0", 0)
        calm_generators()
        DRAWN.append((caller(), bytes(value[0] if isinstance(value, tuple) else value)))
        return value

    def __getattr__(self, name: str) -> object:
        return getattr(self.function, name)


def calm_generators() -> None:
    """Let modules make generators without a note. Cython has no frames, so caller() would not find these modules."""
    for name, function in at(RANDBITS).items():
        if name in sys.modules:
            vars(sys.modules[name])[function] = randbits


def randbits(number: int) -> int:
    """Do the same as secrets.randbits(), without a note."""
    posix.access(f"{QUIET}1", 0)
    drawn = int.from_bytes(UNHEARD((number + 7) // 8), "big") >> -number % 8
    posix.access(f"{QUIET}0", 0)
    module = caller(1)
    if not is_known(module) or module.startswith("numpy."):
        ENTROPIES[drawn] = module
    return drawn


def caller(depth: int = 2) -> str:
    """Return the name of the module that called a Draw, not of one that draws for others."""
    frame: "Any" = sys._getframe(depth)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        makes_file = name == "tempfile" and frame.f_code.co_name in TEMPORARY_FILES
        if frame.f_globals is globals():
            frame = frame.f_back
            continue
        if makes_file or name.partition(".")[0] not in FOR_OTHERS:
            return str(name)
        frame = frame.f_back
    return ""


def hear_draws(system: "Any") -> None:
    """Replace the functions of os and posix, and what the module random has kept of them at the start."""
    for name in "urandom", "getrandom":
        if hasattr(system, name):
            setattr(system, name, Draw(getattr(system, name)))
            setattr(posix, name, getattr(system, name))
    random: "Any" = sys.modules.get("random")
    if random is not None:
        if hasattr(random, "_urandom"):
            random._urandom = system.urandom
        hear_source("random")


def hear_source(name: str) -> None:
    """Replace the functions of a module of SOURCES whose import has begun."""
    names = SOURCES.pop(name)
    try:
        __import__(name)
        module: "Any" = sys.modules[name]
    except ImportError:  # the import under way fails in the same way
        return
    if name == "random":
        hear_generator(module.Random)
        module.getstate = module._inst.getstate
    if name == "numpy.random":
        hear_legacy_generator(module)
    if name == "_random":
        module.Random = type("Random", (module.Random,), {"__module__": "_random"})
        hear_generator(module.Random)
    for function in filter(vars(module).__contains__, names):
        vars(module)[function] = Draw(vars(module)[function])


def hear_generator(kind: "Any") -> None:
    """Note numbers that are drawn from generators of a type, or their states, unless their seed is a constant.

    check_draws() looks whether numbers were drawn from the global generator.
    """
    seed = kind.seed

    def heard_seed(self: "Any", a: object = None, *given: object, **named: object) -> None:
        seed(self, a, *given, **named)
        FIXED[id(self)] = self, a is not None and is_constant(a)

    def heard(name: str) -> "Any":
        function = getattr(kind, name)

        def draw(self: "Any", *given: object) -> "Any":
            is_global = self is getattr(sys.modules.get("random"), "_inst", None) and name != "getstate"
            if not is_global and not FIXED.get(id(self), (self, False))[1]:
                DRAWN.append((caller(), b""))
            return function(self, *given)

        return draw

    for name in "random", "getrandbits", "getstate":
        setattr(kind, name, heard(name))
    kind.seed = heard_seed


def hear_legacy_generator(random: "Any") -> None:
    """Note which generators of numpy get a seed, RandomState(1), after they have drawn one that they never use."""
    real: "Any" = getattr(random, "RandomState", None)
    if real is None:
        return

    class Kind(type):
        def __instancecheck__(cls, thing: object) -> bool:
            return isinstance(thing, real)

    class RandomState(real, metaclass=Kind):  # type: ignore[misc]
        def __init__(self, seed: object = None) -> None:
            known = set(ENTROPIES)
            real.__init__(self, seed)
            for entropy in ENTROPIES.keys() - known if seed is not None else ():
                del ENTROPIES[entropy]

        def seed(self, seed: object = None) -> None:
            bits = self._bit_generator
            sequence = sequence_of(bits)
            entropy = getattr(sequence, "entropy", None)
            if seed is not None and isinstance(entropy, int) and repr(bits.state) == repr(type(bits)(sequence).state):
                ENTROPIES.pop(entropy, None)
            real.seed(self, seed)

    RandomState.__module__, RandomState.__qualname__ = real.__module__, real.__qualname__
    random.RandomState = RandomState


def is_constant(seed: object) -> bool:
    """Tell whether code that is running has this seed as a constant, so that it is the same in each process."""
    frame: "Any" = sys._getframe(2)
    while frame is not None:
        if any(type(constant) is type(seed) and constant == seed for constant in frame.f_code.co_consts):
            return True
        frame = frame.f_back
    return False


def check_draws(trace: "Trace") -> None:
    """Raise Failed if the imports have drawn random bytes, or numbers of a generator, which they may keep."""
    for module, value in DRAWN:
        if not is_known(module) and not is_kept(module, value):
            raise Failed(f"the imports draw random bytes in the module '{module}', which may keep them")
    for module in "random", "numpy.random":
        if has_drawn(module):
            raise Failed(f"the imports draw numbers from the global generator of {module}, and may keep them")
    user = drawn_from_own() if "numpy.random" in sys.modules else None
    if user is not None:
        what = f"draw numbers from a generator of numpy in the module '{user}'"
        raise Failed(f"the imports {what}, which may keep them")
    check_libraries(trace)


def check_libraries(trace: "Trace") -> None:
    """Raise Failed if a library has drawn random bytes, or has looked at a standard stream, and may keep the result."""
    maps: "list[list[str]]" = []
    if trace.draws or trace.streams:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            maps = [line.split(maxsplit=5) for line in file]

    def path_at(address: int) -> str:
        for area, *_, path in (fields for fields in maps if len(fields) == 6):
            first, _, end = area.partition("-")
            if int(first, 16) <= address < int(end, 16):
                return path.strip()
        return ""

    for address, number in sorted(trace.draws):
        path = path_at(address)
        if (number in (0, SEED_BYTES)) or (not address and number == NAME_BYTES):
            continue
        if not is_named(path, SALTED) and not (number in HASH_BYTES and is_rust(path)):
            raise Failed(f"the imports draw random bytes in '{path or 'an unknown library'}', which may keep them")
    for address, _ in sorted(trace.streams):
        if not is_named(path_at(address), STREAMS):
            raise Failed("the imports ask what kind of file a standard stream is")


def is_named(path: str, names: "tuple[str, ...]") -> bool:
    return path.rpartition("/")[2].startswith(names)


def is_rust(path: str) -> bool:
    """Tell whether a library contains the standard library of Rust, which has its source paths in messages."""
    rest = b""
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(1 << 20):
                if RUST in rest + piece:
                    return True
                rest = piece[-len(RUST) :]
    except OSError:
        pass
    return False


def drawn_from_own() -> "str | None":
    """Return the module for which numbers may have been drawn from a random seed of numpy, or None.

    Each such seed must belong to a generator that still is in its first state. If the generator is gone, or if there
    is only the sequence that makes seeds, the numbers may be anywhere.
    """
    rest = dict(ENTROPIES)
    owned = set()
    for generator in bit_generators(gc):
        sequence = sequence_of(generator)
        owned.add(id(sequence))
        entropy = getattr(sequence, "entropy", None)
        if not isinstance(entropy, int) or entropy not in ENTROPIES:
            continue
        first = type(generator)(sequence).state
        if not comes_from(generator, sequence) or repr(generator.state) == repr(first):
            rest.pop(entropy, None)
    mtrand = sys.modules["numpy.random.mtrand"]
    own = sequence_of(mtrand._rand._bit_generator)
    rest.pop(getattr(own, "entropy", 0), None)
    alone = [s.entropy for s in seed_sequences(gc) if id(s) not in owned and s is not own]
    return next((module for entropy, module in ENTROPIES.items() if entropy in rest or entropy in alone), None)


def is_known(module: str) -> bool:
    return any(f"{module}.".startswith(f"{own}.") for own in at(DRAWS))


def is_kept(module: str, value: bytes) -> bool:
    """Tell whether a variable has these bytes that gets new ones: renew_bytes() in packages.py."""
    names = getattr(sys.modules.get(module), "__dict__", {})
    return any(names.get(name) in (value, value.hex()) for name in at(KEPT_BYTES).get(module, ()))


def words_drawn(module: str) -> int:
    """Return how many words the loaded modules draw from a global generator, of those that packages.py knows."""
    return sum(words for name, (own, words) in at(WORDS).items() if own == module and name in sys.modules)


def has_drawn(module: str) -> bool:
    """Tell whether a global generator has the seed of the system, and is not in the state in which we expect it.

    MT19937 makes 624 numbers at once, when the first is drawn. numpy says of which number it has made its first state.
    """
    if module == "random":
        generator: "Any" = getattr(sys.modules.get("random"), "_inst", None)
        place = words_drawn(module) or MT19937_WORDS
        return generator is not None and own_state(generator)[-1] != place
    mtrand: "Any" = sys.modules.get("numpy.random.mtrand")
    bits: "Any" = getattr(getattr(mtrand, "_rand", None), "_bit_generator", None)
    sequence = sequence_of(bits)
    if not isinstance(getattr(sequence, "entropy", None), int):
        return False
    generator = type(bits)(sequence)
    for _ in range(words_drawn(module)):
        generator.random_raw(1, False)
    first = generator.state["state"]
    state = bits.state["state"]
    return first["pos"] != state["pos"] or bytes(first["key"]) != bytes(state["key"])
