"""Compare what the imports have left in two probes, whose clocks differ (probe_clocks.py).

A value that differs depends on a clock, or on chance. Values.digests() has a number for each variable of a module, for
all that the variable refers to. The numbers must not depend on addresses, the order of sets or the seed of hash(), on
which the hash of a number does not depend. The order of strings in a container does not count: it may be that of a set.

Memory of a library in C that no object of Python shows is not compared.
"""

import gc
import sys

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    import atexit  # bootstrap.py has the module

    from hidden import Record
    from packages import DRAWS, KEPT_BYTES, RANDBITS, READS, RENEW, TIMES, WORDS, at

# Numbers for values that may differ.
NOTHING, NOT_A_NUMBER, ADDRESS, HASH, TIME = range(11, 16)
LOWEST, HIGHEST = 0x500000000000, 0x800000000000  # addresses of programs and libraries
LONG = 60  # characters of a string that may be made of a set
BREAKS = dict.fromkeys(map(ord, "()|,'\"{}[]:;=<>\n"), " ")
OWN_NAMES = "__builtins__", "__spec__", "__loader__", "__cached__"
SEARCH = "modules", "path", "path_importer_cache"  # of sys: the imports themselves
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

FUNCTION_TYPE = type(lambda: 0)
CODE_TYPE = type((lambda: 0).__code__)
MODULE_TYPE = type(sys)
# Attributes of types, without a look at their metaclasses.
OF_TYPE: "Any" = vars(type)
MODULE_OF_TYPE, NAME_OF_TYPE, NAMES_OF_TYPE = (
    OF_TYPE[f"__{name}__"].__get__ for name in ("module", "qualname", "dict")
)
# Types by what digest() does with their instances. Others are what the collector finds in them.
BY_NAME: "tuple[Any, ...]" = (
    *(type(object.__init__), type(str.join), type(dict.__dict__["fromkeys"])),
    *(type(vars(CODE_TYPE)["co_code"]), type(vars(FUNCTION_TYPE)["__code__"]), MODULE_TYPE),
)
LEAVES = frozenset((str, int, float, bool, bytes, type(None)))
BOUND = type(len), type(object().__str__)
UNSEEN_NAMES = {  # whose instances differ, and which other rules know
    "builtins": ("frame", "traceback"),
    "_weakref": ("ReferenceType", "ProxyType", "CallableProxyType"),
    "_abc": ("_abc_data",),
    "_io": ("_IOBase",),
    "_random": ("Random",),
    "_thread": ("lock", "LockType", "RLock"),
    "numpy.random.bit_generator": ("BitGenerator", "SeedSequence"),
    "numpy.random.mtrand": ("RandomState",),
    "numpy.random._generator": ("Generator",),
}
SHOWN: "dict[str, Any]" = {
    "str": str.__str__,
    "int": int.__index__,
    "float": float.__float__,
    "bytes": bytes,
    "bytearray": bytes,
    "buffer": lambda buffer: buffer.getvalue(),
    "hash": lambda found: found.hexdigest(),
}
HASHES = "_hashlib", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_md5", "_blake2"
STAMPS = "Stamp", "Moment"  # numbers of a probe
DATES = "datetime", "date", "time", "timedelta", "timezone"


def number_of_text(text: str) -> int:
    if " at 0x" in text:
        text = without_addresses(text)
    if len(text) > LONG or "|" in text or "," in text:
        text = " ".join(sorted(text.translate(BREAKS).split()))
    return number_of_bytes(text.encode("utf-8", "surrogatepass"))


def number_of_bytes(data: "bytes | memoryview") -> int:
    return hash((hash(int.from_bytes(data, "little")), len(data)))


def without_addresses(text: str) -> str:
    first, *rest = text.split("0x")
    return first + "".join(part.lstrip("0123456789abcdef") for part in rest)


def members(holder: "Any") -> "list[tuple[Any, Any]]":
    """Return the items of a dictionary, or those of a list by their addresses."""
    return list(dict.items(holder)) if isinstance(holder, dict) else [(id(value), value) for value in holder]


def referents(thing: "Any") -> "list[Any]":
    """Return what an object refers to.

    CPython makes the dictionary of its attributes when it is first asked for, which the probe does for more objects.
    """
    if type(thing).__flags__ & HEAP_TYPE:
        try:
            object.__getattribute__(thing, "__dict__")
        except Exception:  # of a property, or there is none
            pass
    return gc.get_referents(thing)


def variables_of(module: object) -> "dict[str, Any]":
    return vars(module) if issubclass(type(module), MODULE_TYPE) else {}


class Values:
    """The digests of everything that is imported after this object is created."""

    def __init__(self, ours: "set[str]") -> None:
        """`ours`: modules of the start that count as imported."""
        self.forward: "set[tuple[int, Any]]" = set()  # times that are set forward: the dictionary and the name
        self.kinds: "dict[type, tuple[str, int]]" = {}
        self.labels: "dict[int, int]" = {}
        self.texts: "dict[str, int]" = {}
        self.seen: "set[int]" = set()
        self.varying: "set[str]" = set()  # Modules whose own variables may differ.
        self.drawing: "tuple[str, ...]" = ()  # Beginnings of names of others, with a dot.
        self.addresses: "set[int]" = set()
        self.spaces: "set[int]" = set()
        self.ways: "list[tuple[type, str]]" = []
        self.before = {name: dict(variables_of(sys.modules[name])) for name in sys.modules if name not in ours}
        self.ours = globals(), Record.start.__globals__  # names of the agent
        self.known: "dict[int, int]" = {}  # objects of the start, by their names.
        # These are members of lists and dictionaries of the start, such as the filters of warnings and os.environ.
        self.inner = [
            (name, variable, value, dict(members(value)))
            for name in sorted(self.before)
            for variable, value in self.before[name].items()
            if isinstance(value, (list, dict)) and variable not in SEARCH
        ]

    def digests(self) -> "list[tuple[str, str, bytes]]":
        """Return module, variable and digest of each variable that the imports have made or changed."""
        self.varying = {name for kind in (RENEW, KEPT_BYTES, RANDBITS) for name in at(kind)}
        self.varying |= {name for name, most in at(TIMES).items() if most is None}
        self.varying |= {"random", "_random", *at(WORDS), *at(READS)}
        self.drawing = tuple(f"{name}." for name in at(DRAWS))
        for variables in [vars(atexit), *(self.before[name] for name in sorted(self.before))]:
            for variable, value in variables.items():
                if self.number(value) is None:
                    self.known.setdefault(id(value), number_of_text(variable))
        self.addresses = set(map(id, gc.get_objects()))
        self.spaces = {id(variables_of(module)) for module in sys.modules.values()}
        self.find_ways()
        found: "list[tuple[str, str, Any, Any]]" = []
        for module in sorted(sys.modules):
            if not self.may_vary(module):
                before = self.before.get(module, {})
                for name, value in sorted(variables_of(sys.modules[module]).items()):
                    if name not in before or before[name] is not value:
                        is_time = (id(variables_of(sys.modules[module])), name) in self.forward
                        found.append((module, name, None, TIME if is_time else value))
        for module, name, holder, there in self.inner:
            found += [(module, name, key, value) for key, value in members(holder) if there.get(key) is not value]
        if "_contextvars" in sys.modules:
            context = sys.modules["_contextvars"].copy_context()
            found += [("contextvars", key.name, None, value) for key, value in context.items()]
        out = []
        for module, name, key, value in found:
            if name not in OWN_NAMES:
                place = number_of_text(module), number_of_text(name), self.place(key)
                out.append((module, name, b"%x" % (hash((*place, self.digest(value))) & (1 << 48) - 1)))
        return out

    def may_vary(self, module: str) -> bool:
        """Tell whether what a module keeps of its own may differ, because packages.py has a row for it."""
        return module in self.varying or f"{module}.".startswith(self.drawing)

    def place(self, key: object) -> int:
        """Return a number for a key of members(), without addresses."""
        number = NOTHING if type(key) is int else self.number(key)
        return self.label(key) if number is None else number

    def find_ways(self) -> None:
        """Note the types that are loaded, and how their instances are compared."""
        ways: "list[tuple[Any, str]]" = [(type, "type"), (FUNCTION_TYPE, "function"), (CODE_TYPE, "code")]
        ways += [(kind, "name") for kind in BY_NAME] + [(kind, "bound") for kind in BOUND]
        ways += [(kind, "parts") for kind in (list, tuple, set, frozenset)] + [(type(sys._getframe()), "unseen")]
        for module, names in UNSEEN_NAMES.items():
            ways += [(getattr(sys.modules.get(module), name, None), "unseen") for name in names]
        ways += [(getattr(sys.modules.get("_thread"), "_local", None), "local")]
        ways += [(getattr(sys.modules.get("_io"), name, None), "buffer") for name in ("BytesIO", "StringIO")]
        ways += [(getattr(sys.modules.get("datetime"), name, None), "date") for name in DATES]
        for module in HASHES:
            ways += [
                (kind, "hash") for kind in variables_of(sys.modules.get(module)).values() if hasattr(kind, "hexdigest")
            ]
        ways += [(kind, kind.__name__) for kind in (dict, str, int, float, bytes, bytearray)]
        self.ways = [(kind, way) for kind, way in ways if isinstance(kind, type)]
        # A buffer is also a stream, which is the more general type.
        self.ways.sort(key=lambda pair: pair[1] != "buffer")

    def is_ours(self, thing: "Any") -> bool:
        """Tell whether this is a function or a type of the agent."""
        if type(thing) is FUNCTION_TYPE:
            return any(thing.__globals__ is names for names in self.ours)
        return issubclass(type(thing), type) and MODULE_OF_TYPE(thing) in [names["__name__"] for names in self.ours]

    def number(self, thing: "Any") -> "int | None":
        """Return a number for a value that refers to nothing, or None."""
        kind = type(thing)
        if kind is str:
            if thing not in self.texts:
                self.texts[thing] = number_of_text(thing)
            return self.texts[thing]
        if kind is int or kind is float:
            return self.number_of_number(thing)
        if kind is bytes:
            return number_of_bytes(thing)
        if kind is bool or thing is None:
            return NOTHING if thing is None else int(thing)
        return TIME if kind.__name__ in STAMPS else None

    def number_of_number(self, thing: "int | float") -> int:
        if type(thing) is int and (LOWEST < thing < HIGHEST or thing in self.addresses):
            return ADDRESS
        return NOT_A_NUMBER if repr(thing) == "nan" else hash(thing)  # hash() of the former is an address

    def way(self, kind: type) -> "tuple[str, int]":
        """Return how instances of a type are compared, and a number for its name."""
        found = self.kinds.get(kind)
        if found is None:
            bases = type.mro(kind) if kind is not type else [type]
            way = next((way for base, way in self.ways if base in bases), "")
            if self.is_ours(kind):
                way = "unseen"
            found = self.kinds[kind] = way, number_of_text(full_name(kind))
        return found

    def label(self, thing: "Any") -> int:
        """Return a number for an object without those that it refers to, except strings and numbers."""
        found = self.known.get(id(thing), self.labels.get(id(thing)))
        if found is not None:
            return found
        kind = type(thing)
        way, number = self.way(kind)
        if way == "type":
            part = number_of_text(full_name(thing))
        elif way in ("function", "code", "name", "bound"):
            part = number_of_text(str(getattr(thing, "__qualname__" if way == "function" else "__name__", way)))
        elif way == "dict":
            part = sum(hash(pair) for pair in self.pairs(thing))
        elif way in ("unseen", "local"):
            part = 0
        else:
            parts = referents(thing)
            part = self.numbers_in(parts, thing)
            if way not in ("", "parts") or (
                not way and all(issubclass(type(one), type) or self.number(one) is not None for one in parts)
            ):
                part = hash((part, self.inside(thing, kind, way)))
        number = self.labels[id(thing)] = hash((number, part))
        return number

    def pairs(self, thing: "dict[Any, Any]") -> "list[tuple[int, int]]":
        """Return numbers for keys and values of a dictionary that are no objects of their own."""
        forward = self.forward if any(id(thing) == place for place, _ in self.forward) else ()
        return [
            (self.number(key) or 0, TIME if (id(thing), key) in forward else self.number_in(value, thing, thing) or 0)
            for key, value in list(dict.items(thing))  # a type of Python may have other items
        ]

    def numbers_in(self, parts: "list[Any]", owner: object) -> int:
        """Return a number for the strings and numbers among the parts. Of numbers the order counts."""
        total, numbers = 0, []
        for part in parts:
            number = self.number_in(part, parts, owner)
            if number is None:
                continue
            if type(part) in (str, bytes):
                total += number
            else:
                numbers.append(number)
        return hash((total, *numbers))

    def number_in(self, part: "Any", siblings: "Any", owner: object) -> "int | None":
        """Do the same as number(), but know a hash that the owner has kept, of itself or of a string beside it."""
        number = self.number(part)
        if type(part) is int and not -1 << 31 < part < 1 << 31 and number not in (ADDRESS, TIME):
            texts = [text for text in siblings if type(text) is str] if len(siblings) < 30 else []
            if dict is type(siblings):
                texts += [text for text in siblings.values() if type(text) is str] if len(siblings) < 30 else []
            for thing in (owner, *texts):
                try:
                    if hash(thing) == part:
                        return HASH
                except Exception:  # of any __hash__, or there is none
                    pass
        return number

    def inside(self, thing: "Any", kind: type, way: str) -> int:
        """Return a number for what an object of a type in C has inside, as far as it shows that."""
        found: "Any" = None
        shows: "Any" = kind.__repr__
        try:
            if way in SHOWN:
                found = SHOWN[way](thing)
            elif way == "date":
                base: "Any" = next(base for base, own in self.ways if own == "date" and isinstance(thing, base))
                found = str(base.__reduce__(thing)[1])
            elif shows is not object.__repr__ and type(shows) is not FUNCTION_TYPE:
                found = without_addresses(repr(thing))
                if len(found) > LONG * 3:
                    view = memoryview(thing)
                    found = view.tobytes() if view.format not in ("O", "g") else None
        except Exception:  # of any type
            return 0
        return self.number(found) or 0

    def parts(self, thing: "Any", way: str) -> "list[Any]":
        """Return what an object refers to."""
        if way == "type":
            return [value for name, value in NAMES_OF_TYPE(thing).items() if name != "__dict__"]
        if way == "function":
            return [part for part in gc.get_referents(thing) if part is not thing.__globals__]
        if way == "code":  # the constants of a text that an import has compiled; others are those of a file
            return [part for part in thing.co_consts if type(part) is not int or abs(part) < 1 << 40]
        return [vars(thing)] if way == "local" else referents(thing)

    def digest(self, root: object) -> int:
        """Return a number for an object and all that it refers to, except what was in an earlier digest."""
        number = self.number(root)
        if number is not None:
            return number
        total, rest = self.label(root), [root]
        while rest:
            thing: "Any" = rest.pop()
            kind = type(thing)
            way = self.way(kind)[0]
            if id(thing) in self.seen or id(thing) in self.known or way in ("name", "unseen") or self.is_ours(thing):
                continue
            self.seen.add(id(thing))
            if id(thing) in self.spaces or (way == "code" and thing.co_filename[:1] != "<"):
                continue
            if way == "type" and (
                not thing.__flags__ & HEAP_TYPE or thing.__name__ == "_SSLContext" or self.may_vary(module_of(thing))
            ):
                continue
            parts = (
                [part for pair in list(dict.items(thing)) for part in pair] if way == "dict" else self.parts(thing, way)
            )
            own = (
                self.numbers_in(parts, thing) if way in ("type", "function", "code", "bound") else 0
            )  # not in its label
            objects = [part for part in parts if type(part) not in LEAVES and self.number(part) is None]
            total += hash((self.label(thing), own)) + sum(map(self.label, objects))
            rest += objects
        return total


def module_of(kind: type) -> str:
    """Return the name of a type's module."""
    try:
        return str(MODULE_OF_TYPE(kind))
    except AttributeError:
        return ""


def full_name(kind: type) -> str:
    """Return module and name of a type."""
    return f"{module_of(kind)}.{NAME_OF_TYPE(kind)}"
