"""Random bytes that code of Python draws during the imports: every container of the snapshot would have the same.

Nothing tells what becomes of such bytes: a key, the text of a
UUID, or nothing. So each draw is a reason against a snapshot, unless packages.py knows the module. The generators that
imports create are the subject of random_states() and unseeded_generators() in packages.py.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import posix
    import sys
    from typing import Any

    from bootstrap import Failed
    from packages import DRAWS, KEPT_BYTES, MT19937_WORDS, RANDBITS, at, sequence_of

# Modules that draw for their callers. importlib runs the code of a module, and so does the agent (Record in hidden.py).
FOR_OTHERS: "tuple[str, ...]" = ("random", "secrets", "uuid", "ssl", "os")
FOR_OTHERS += "importlib", "_frozen_importlib", "_frozen_importlib_external", "resume"
DRAWN: "list[tuple[str, bytes]]" = []  # bytes, and the module that wanted them
UNHEARD = posix.urandom
# Functions of other modules. Their callers import these modules first, and then find the replaced functions.
SOURCES = {"_ssl": ("RAND_bytes", "RAND_pseudo_bytes"), "_uuid": ("generate_time_safe",)}


class Draw:
    """A function that returns random bytes, and notes them. Like that function, it becomes no method in a class."""

    def __init__(self, function: "Any") -> None:
        self.function = function

    def __call__(self, *given: object, **named: object) -> "Any":
        value = self.function(*given, **named)
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
    return int.from_bytes(UNHEARD((number + 7) // 8), "big") >> -number % 8


def caller() -> str:
    """Return the name of the module that called a Draw, not of one that draws for others."""
    frame: "Any" = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in FOR_OTHERS:
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
    if random is not None and hasattr(random, "_urandom"):
        random._urandom = system.urandom


def hear_source(name: str) -> None:
    """Replace the functions of a module of SOURCES whose import has begun."""
    names = SOURCES.pop(name)
    try:
        module = __import__(name)
    except ImportError:  # the import under way fails in the same way
        return
    for function in filter(vars(module).__contains__, names):
        vars(module)[function] = Draw(vars(module)[function])


def check_draws() -> None:
    """Raise Failed if the imports have drawn random bytes, or numbers of a global generator, which they may keep."""
    for module, value in DRAWN:
        if not is_known(module) and not is_kept(module, value):
            raise Failed(f"the imports draw random bytes in the module '{module}', which may keep them")
    for module in "random", "numpy.random":
        if has_drawn(module):
            raise Failed(f"the imports draw numbers from the global generator of {module}, and may keep them")


def is_known(module: str) -> bool:
    return any(f"{module}.".startswith(f"{own}.") for own in at(DRAWS))


def is_kept(module: str, value: bytes) -> bool:
    """Tell whether a variable has these bytes that gets new ones: renew_bytes() in packages.py."""
    names = getattr(sys.modules.get(module), "__dict__", {})
    return any(names.get(name) in (value, value.hex()) for name in at(KEPT_BYTES).get(module, ()))


def has_drawn(module: str) -> bool:
    """Tell whether a global generator has the seed of the system, and is no longer in its first state.

    MT19937 makes 624 numbers at once, when the first is drawn. numpy says of which number it has made its first state.
    """
    if module == "random":
        generator: "Any" = getattr(sys.modules.get("random"), "_inst", None)
        return generator is not None and sys.modules["_random"].Random.getstate(generator)[-1] != MT19937_WORDS
    mtrand: "Any" = sys.modules.get("numpy.random.mtrand")
    bits: "Any" = getattr(getattr(mtrand, "_rand", None), "_bit_generator", None)
    sequence = sequence_of(bits)
    if not isinstance(getattr(sequence, "entropy", None), int):
        return False
    first = type(bits)(sequence).state["state"]
    state = bits.state["state"]
    return first["pos"] != state["pos"] or bytes(first["key"]) != bytes(state["key"])
