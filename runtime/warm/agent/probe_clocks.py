"""Times that an import reads from a clock and keeps: where they are, so that each container sets them forward.

While the imports run, the clocks of a probe tell a time of years ago (clocks.c). If the imports have read one, a second
probe is made, whose clocks are right, and the two compare all that the imports have left (values.py). Nothing else is
different in the second: a builder would have no doubles, and other modules.
"""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import gc
    import sys
    import time
    from typing import Any

    from bootstrap import Failed, put
    from packages import LIBRARY_TIMES, TIMES, at
    from values import Values


class Stamp(float):
    """A time in seconds that an import has read from a clock, or has computed of one, such as a deadline.

    The difference of two is a duration, which does not depend on when the import runs.
    """

    clock = ""  # the function of the module time whose unit it has, or "" for any other unit


class Moment(int):
    """The same in nanoseconds."""

    clock = ""


def made_of(number: "Any", clock: str) -> "Any":
    """Return a number as a time of a clock; anything else as it is."""
    kind = {float: Stamp, int: Moment}.get(type(number))
    if kind is None:
        return number
    found = kind(number)
    found.clock = clock
    return found


COMPARED = b"compared:"  # of a record of the first probe: the modules or libraries that have read a clock.
# 2328 days, 9 hours, 21 minutes and a second: no field of the date is the same. The last second lies 59 seconds behind,
# so a second probe that comes within that time has another second, too.
SHIFT = 201172861
DATED = 0, 5, 11  # the clocks that clocks.c shifts: CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI


class Clock:
    """A function of the module time that returns stamps, or texts and fields of the present time."""

    names = "time", "monotonic", "perf_counter", "clock_gettime"
    # Functions of the present time, with the number of their arguments then.
    of_now = {
        "ctime": 0,
        "gmtime": 0,
        "localtime": 0,
        "asctime": 0,
        "strftime": 1,
        "tzset": 0,
    }
    plain: "list[tuple[int, str]]" = []  # plain numbers that the imports have made of stamps, with their clocks.
    reads: "dict[str, int]" = {}  # modules with the number of their reads.
    readers: set[str] = set()  # modules that have read more often than packages.py says.
    shift: "Any" = None  # the agent's function.
    seconds = SHIFT

    def __init__(self, name: str, read: "Any") -> None:
        self.name = name
        self.read = read

    def __call__(self, *given: "Any") -> "Any":
        if len(given) > self.of_now.get(self.name, 1):
            return self.read(*given)
        module = str(sys._getframe(1).f_globals.get("__name__", ""))
        shifted = self.shift(0)
        self.reads[module] = self.reads.get(module, 0) + (shifted != 0 and self.name != "tzset")
        most = at(TIMES).get(module, 0)
        is_known = most is None or self.reads[module] <= most or self.name == "tzset"  # resume() calls it again
        self.shift(0 if is_known else shifted)
        try:
            now = self.read(*given)
        finally:
            self.shift(shifted)
        if shifted and not is_known:
            self.readers.add(module)
            if not self.name.startswith("time") and given[:1] not in [(clock,) for clock in DATED]:
                unit = {float: 1, int: 10**9}.get(type(now), 0)
                now = now + self.seconds * unit if unit else now
        return made_of(now, "" if given else self.name)

    def __getattr__(self, name: str) -> object:
        return getattr(self.read, name)

    @classmethod
    def now(cls) -> float:
        """Return the time that the clock tells now, without a note."""
        return float(getattr(time.time, "read", time.time)())  # with -S there is no double

    @classmethod
    def watch(cls) -> None:
        """Replace the functions of the module time, and the arithmetic of stamps."""
        for name in (*cls.names, *(f"{name}_ns" for name in cls.names), *cls.of_now):
            setattr(time, name, cls(name, getattr(time, name)))
        for kind, plain in (Stamp, float), (Moment, int):
            for name in (
                "add",
                "radd",
                "round",
                "pos",
                "abs",
                "mul",
                "rmul",
                "truediv",
                "floordiv",
                "neg",
                "sub",
                "rsub",
            ):
                setattr(kind, f"__{name}__", calculation(plain, name))
            for name in "int", "trunc":
                setattr(kind, f"__{name}__", conversion(getattr(plain, f"__{name}__")))


def calculation(plain: type, name: str) -> "Any":
    """Return a method of a stamp whose result is a stamp again, with the same unit for sums."""
    method, of_floats = getattr(plain, f"__{name}__"), getattr(float, f"__{name}__")
    scales = name in ("mul", "rmul", "truediv", "floordiv", "neg", "rsub")

    def calculate(self, *given):  # type: ignore[no-untyped-def]
        result = method(self, *given)
        if result is NotImplemented and isinstance(given[0], float):
            result = of_floats(float(self), *given)
        if name in ("sub", "rsub") and isinstance(given[0], (Stamp, Moment)):
            return result
        return made_of(result, "" if scales else self.clock)

    return calculate


def conversion(method: "Any") -> "Any":
    """Return a method of a stamp that notes its result, which must be a plain number."""

    def convert(self):  # type: ignore[no-untyped-def]
        number = method(self)
        Clock.plain.append((number, self.clock))
        return number

    return convert


def watch_clocks(agent: "Any", is_first: bool) -> None:
    """From now on, tell another time. An interpreter that does not ask the agent may have read a clock unseen."""
    Clock.shift = agent.shift_clocks
    Clock.seconds = SHIFT if is_first else 0
    then = Clock.now()
    agent.shift_clocks(2, Clock.seconds)
    if is_first and abs(then - Clock.now()) < SHIFT // 2:
        Clock.readers.add("a library")
    agent.shift_clocks(1)


def value_records(agent: "Any", values: "Values", first: set[bytes]) -> set[bytes]:
    """Return records of everything that the imports have left, if that may depend on a clock that they have read.

    Reads by the libraries and modules that packages.py knows do not count. In the second probe, raise Failed if
    something is not among the records of the first.
    """
    agent.shift_clocks(0)
    libraries = {name for name in agent.clock_readers() if not any(own in name for own in LIBRARY_TIMES)}
    if not Clock.readers and not libraries and not first:
        return set()
    values.forward = set(map(place_of, clock_records()))
    readers = Clock.readers or {name.rpartition("/")[2] or sys.executable for name in libraries}
    records = {COMPARED + ",".join(sorted(readers)).replace(" ", "").encode()}
    for module, variable, digest in values.digests():
        if first and digest not in first:
            [reader] = [record[len(COMPARED) :].decode() for record in first if record.startswith(COMPARED)]
            raise Failed(
                f"the imports read a clock (in {reader}), and the variable '{variable}' of the module '{module}'"
                " is different each time"
            )
        records.add(digest)
    return {put("k", record) for record in records}


def place_of(record: bytes) -> "tuple[int, str]":
    """Return the dictionary in which a record of clock_records() names a time, by its address, and the name."""
    _, _, module, path = record.rstrip(b"\0").decode().split(":")
    owner, _, name = path.rpartition(".")
    names: "Any" = vars(sys.modules[module])
    return id(attributes_of(names[owner]) if owner else names), name


def is_small(number: int) -> bool:
    """Tell whether a number is too small for a time. Small ones are everywhere."""
    return -10000 < number < 10000


def clock_records() -> set[bytes]:
    """Return records of the variables of modules that are times. Raise Failed if a time is kept anywhere else."""
    spaces = [(name, vars(module)) for name, module in sys.modules.items() if issubclass(type(module), type(sys))]
    gc.collect()  # as the builder does
    stamps = [thing for thing in gc.get_objects() if type(thing) in (Stamp, Moment)]
    out = set()
    mark = object()  # by which the arguments of the call are known
    for stamp in stamps:
        for holder in gc.get_referrers(stamp, mark):
            if holder is not stamps and not is_of_call(holder, mark):
                out |= clock_of(holder, spaces, stamp, stamp.clock)
    for number, clock in Clock.plain:
        for holder in holders_of(number):
            out |= clock_of(holder, spaces, number, clock)
    return out


def holders_of(number: int) -> "list[object]":
    """Return the objects that refer to a number of this value."""
    if is_small(number):
        return []
    known = {id(pair) for pair in Clock.plain}
    found = []
    for thing in gc.get_objects():
        if id(thing) in known or type(thing).__name__ == "frame":
            continue
        for part in gc.get_referents(thing):  # no generator, which would refer to the number, too
            if type(part) is int and part == number:
                found.append(thing)
    return found


def clock_of(holder: "Any", spaces: "list[tuple[str, dict[str, Any]]]", moment: object, clock: str) -> set[bytes]:
    """Return records for a time that an object holds: a module, or an object that is in a variable of a module.

    Raise Failed if it is another object, or the unit is unknown.
    """
    if not clock:
        raise Failed("the imports keep a number that they have calculated of the time at which they run")
    out = set()
    for module, names in spaces:
        if names is holder:
            out |= names_with(names, moment, f"clock:{clock}:{module}:")
        for name, value in names.items():
            inner = attributes_of(value) if value is not names else None
            if type(inner) is dict and not issubclass(type(value), type(sys)) and (value is holder or inner is holder):
                out |= names_with(inner, moment, f"clock:{clock}:{module}:{name}.")
    if not out:
        kind = type(holder).__name__
        raise Failed(f"the imports keep the time at which they run in a {kind}, where it cannot be set forward")
    return out


def attributes_of(thing: object) -> object:
    """Return the dictionary of an object, or None. Its type may have another idea of attributes."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except Exception:  # of a property, or there is none
        return None


def names_with(names: "dict[str, object]", thing: object, beginning: str) -> set[bytes]:
    """Return records of the names that have a value; numbers are compared, and stamps by identity."""
    out = set()
    for name, value in names.items():
        if value is thing or (type(thing) is int and type(value) is int and value == thing):
            out.add(put("g", f"{beginning}{name}"))
    return out


def is_of_call(holder: object, mark: object) -> bool:
    """Tell whether this is the frame that looks (before 3.11), or the arguments of its call (3.13)."""
    return type(holder).__name__ == "frame" or (type(holder) is tuple and len(holder) == 2 and holder[1] is mark)
