"""Find what an import changes in other modules, so that hidden.py can undo and repeat it.

In a cold start, a module changes others when the program imports it: it replaces a function, adds a handler to
logging, sets the precision of decimal. The builder notes what modules contain when another package first imports them
(Contents), and compares that whenever the import of a module begins or ends. A change belongs to the module that was
executed.

Copies of all modules would lie between the objects of the modules, and each process would touch more pages. So the
probe finds the places that are changed, and the builder notes the content of these alone.

embed.S puts this text between packages.py and hidden.py, and all share one namespace.
"""

import posix
import sys

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from typing import Any

    from packages import RENEW, SETTING, STATES, at

MISSING = object()  # a name that is not there
# The kinds of places, and what their holder is.
NAMED = "named"  # the dict of a module or object
CLASS = "class"
DICT = "dict"
LIST = "list"
SET = "set"
ENVIRONMENT = "environment"  # posix.environ
OWN_SETTING = "setting"  # two functions: one returns the value, the other sets it
# importlib keeps locks and caches. The program has its own __main__.
UNWATCHED = "__main__", "_frozen_importlib", "_frozen_importlib_external", "_imp", "_warnings"
# Variables that the interpreter or the agent changes itself.
IGNORED = {
    "sys": {"modules", "path_importer_cache", "argv", "orig_argv", "excepthook", "displayhook", "flags", "monitoring"}
    | {"last_type", "last_value", "last_traceback", "last_exc"},
    "time": {"tzname", "timezone", "altzone", "daylight"},
    "warnings": {"filters", "onceregistry", "_filters_version", "_onceregistry"},
}
WITH_SUBMODULES = 40  # the most submodules that are noted with their package
WITH_ENTRIES = 100  # the most entries of a container whose own content is noted
PLAIN_TYPES = str, bytes, int, float, bool, type(None)
MODULE_TYPE, FUNCTION = type(sys), type(lambda: None)
# The names of a class, without a look at its metaclass.
NAMES_OF_CLASS: "Any" = vars(type)["__dict__"].__get__
INNER: "dict[Any, str]" = {dict: DICT, list: LIST, set: SET}


def is_plain(value: object) -> bool:
    return type(value) in PLAIN_TYPES or (type(value) is tuple and all(map(is_plain, value)))


def is_private(name: object) -> bool:
    return isinstance(name, str) and name[:1] == "_"


def is_of(module: object, name: str) -> bool:
    """Tell whether a module is of the same package as another."""
    return isinstance(module, str) and module.partition(".")[0] == name.partition(".")[0]


def content_of(kind: str, holder: "Any") -> "tuple[Any, ...]":
    """Return the values in a place, and its names if it has some. Tuples need the least memory."""
    if kind == OWN_SETTING:
        return (holder[0](),), ()
    if kind in (LIST, SET):
        return tuple(holder), ()
    if kind == CLASS:
        names = NAMES_OF_CLASS(holder)
        return tuple(names.values()), tuple(names)
    # The probe's posix.environ notes calls of its own methods.
    return tuple(dict.values(holder)), tuple(dict.keys(holder))


def are_same(kind: str, old: "tuple[Any, ...]", new: "tuple[Any, ...]") -> bool:
    if kind == OWN_SETTING:
        return repr(old) == repr(new)
    return len(old) == len(new) and all(map(is_identical, old, new))


def pair(*both: "Any") -> "Any":
    return both


def is_identical(one: object, other: object) -> bool:
    return one is other


def count_same(one: "list[Any]", other: "list[Any]") -> int:
    """Return how many items the two lists begin with in common."""
    count = 0
    while count < min(len(one), len(other)) and one[count] is other[count]:
        count += 1
    return count


def put_part(holder: "list[Any]", old: "list[Any]", new: "list[Any]") -> None:
    """Make of a list, which was `old` once, what makes `new` of `old`."""
    front = count_same(old, new)
    back = count_same(old[front:][::-1], new[front:][::-1])
    removed, added = old[front : len(old) - back], new[front : len(new) - back]
    current = list.copy(holder)
    place = len(current) - back if current[len(current) - back :] == old[len(old) - back :] else len(current)
    if current[max(place - len(removed), 0) : place] == removed:
        current[place - len(removed) : place] = added
    else:
        current = [entry for entry in current[:place] if entry not in removed] + added + current[place:]
    list.__setitem__(holder, slice(None), current)


def change_class(holder: "Any", name: str, new: "Any") -> None:
    given = (holder, name) if new is MISSING else (holder, name, new)
    method = "__delattr__" if new is MISSING else "__setattr__"
    try:
        getattr(type, method)(*given)
    except TypeError:  # A metaclass in C refuses the methods of type. One in Python may do something else in its own.
        getattr(type(holder), method)(*given)


def change(kind: str, holder: "Any", name: "Any", new: "Any", old: "Any") -> None:
    """Change what was `old`, in a place or in all of it, to `new`."""
    if kind == OWN_SETTING:
        holder[1](new)
    elif kind == LIST:
        put_part(holder, old, new)
    elif kind == SET:
        holder.difference_update(old - new)
        holder.update(new - old)
    elif kind == CLASS:
        change_class(holder, name, new)
    elif new is MISSING:
        dict.pop(holder, name, None)
        if kind == ENVIRONMENT:
            posix.unsetenv(name)
    else:
        dict.__setitem__(holder, name, new)
        if kind == ENVIRONMENT:
            posix.putenv(name, new)


def is_same(one: "Any", other: "Any") -> bool:
    """Tell whether two contents are the same."""
    if type(one) is type(other) is list:
        return list(map(id, one)) == list(map(id, other)) or repr(one) == repr(other)
    return one is other or (is_plain(one) and is_plain(other) and bool(one == other))


def function_of(module: "Any", function: "Any") -> "Any":
    """Return a function of the module by its name, or one of packages.py for this module."""
    return getattr(module, function) if isinstance(function, str) else lambda *given: function(module, *given)


class Place:
    """Something that has content which imports may change, and its content at the last look."""

    __slots__ = "holder", "kind", "label", "module", "names", "renewed", "values"

    def __init__(self, module: str, kind: str, holder: "Any", renewed: bool, label: str) -> None:
        """`renewed`: the agent gives the module's private variables new values in each process (packages.py)."""
        self.module, self.kind, self.holder, self.renewed, self.label = module, kind, holder, renewed, label
        self.look()

    def look(self) -> None:
        self.values, self.names = content_of(self.kind, self.holder)

    def changes(self) -> "list[tuple[str, Any, Any, Any, Any]]":
        """Return arguments of change() for what has changed since the last look, and look."""
        kind, holder = self.kind, self.holder
        before, names = self.values, self.names
        self.look()
        if are_same(kind, before, self.values):
            return []
        if kind == OWN_SETTING:
            return [(kind, holder, None, self.values[0], before[0])]
        if kind == LIST:
            return [(kind, holder, None, list(self.values), list(before))]
        if kind == SET:
            # Other entries are those of registries.
            entries, others = ({entry for entry in content if is_plain(entry)} for content in (self.values, before))
            return [(kind, holder, None, entries, others)] if entries != others else []
        new, old = dict(map(pair, self.names, self.values)), dict(map(pair, names, before))
        return [
            (kind, holder, name, new.get(name, MISSING), old.get(name, MISSING))
            for name in {**old, **new}
            if new.get(name, MISSING) is not old.get(name, MISSING)
            and self.counts(name, new.get(name, MISSING), old.get(name, MISSING))
        ]

    def counts(self, name: "Any", new: object, old: object) -> bool:
        if self.kind == ENVIRONMENT:
            return True
        if name in IGNORED.get(self.module, ()):
            return False
        if self.kind == DICT:  # Most are registries and caches, whose entries belong to the program's objects, too.
            kinds = {type(value) for value in (new, old)}
            return kinds == {FUNCTION} or all(value is MISSING or is_plain(value) for value in (name, new, old))
        if isinstance(name, str) and name[:2] == "__" == name[-2:]:
            return self.kind == CLASS and name not in ("__abstractmethods__", "__doc__")
        if any(issubclass(type(value), MODULE_TYPE) for value in (new, old)):  # submodules, which hidden.py hides
            return False
        numbers = all(type(value) in (int, float) for value in (new, old))
        counters = numbers and self.kind == NAMED and "__spec__" in self.holder  # of a module
        return not (is_private(name) and (self.renewed or counters))


def names_in(value: "Any", module: str) -> "tuple[str, Any]":
    """Return the kind and the names of a class or object, or None if it is not of the module's package."""
    if issubclass(type(value), type):
        names: "Any" = NAMES_OF_CLASS(value)
        return CLASS, names if names is not None and is_of(names.get("__module__"), module) else None
    if not is_of(getattr(type(value), "__module__", None), module) or not type(value).__dictoffset__:
        return NAMED, None
    try:
        names = object.__getattribute__(value, "__dict__")
    except Exception:  # of a property, or there is none
        names = None
    return NAMED, names if type(names) is dict else None


def label_of(*names: object) -> str:
    """Return a name for a place, which is the same in probe and builder. A record of the probe can have it."""
    return ":".join("".join(c if c.isalnum() or c in "._" else "?" for c in str(name)) for name in names)


class Contents:
    """The content of modules when another package first imports them."""

    def __init__(self, wanted: "set[str] | None") -> None:
        """`wanted`: labels of the places to note, or None for all."""
        self.wanted = wanted
        self.modules = None if wanted is None else {label.partition(":")[0] for label in wanted}
        self.changed: "set[str]" = set()  # labels
        self.noted: "set[str]" = set()  # names of modules
        self.places: "list[Place]" = []
        self.seen: "set[int]" = set()  # ids of their holders
        self.renewed = at(RENEW).keys() | at(STATES).keys()
        self.settings = at(SETTING)

    def note(self, name: str) -> None:
        """Note the content of a module, of its classes, and of the objects in its variables, unless it is noted."""
        module = sys.modules.get(name)
        if name in self.noted or not issubclass(type(module), MODULE_TYPE) or name in UNWATCHED:
            return
        if self.modules is not None and name not in self.modules:
            return
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            return
        self.noted.add(name)
        if name == "os":
            self.add(ENVIRONMENT, posix.environ, name, "environ")
        inner = [part for other, part in list(sys.modules.items()) if other.startswith(f"{name}.")]
        for part in [module, *(inner if len(inner) <= WITH_SUBMODULES else ())]:
            if issubclass(type(part), MODULE_TYPE):  # an object may call a module its class, as those of cffi do
                self.add_module(name, part)
        for number, functions in enumerate(self.settings.get(name, ())):
            own = [function_of(sys.modules[name], function) for function in functions]
            self.add(OWN_SETTING, own, name, "setting", number)

    def add_module(self, name: str, module: "Any") -> None:
        names = object.__getattribute__(module, "__dict__")
        own = names.get("__name__")
        self.add(NAMED, names, name, own)
        for variable, value in list(names.items()):
            if variable[:2] == "__" or variable in IGNORED.get(name, ()):
                continue
            if not (is_private(variable) and name in self.renewed):
                self.add_value(value, 2, name, own, variable)

    def add(self, kind: str, holder: "Any", name: str, *names: object) -> bool:
        """Return False if the holder is noted already. `name`, `names`: its module, and the names that lead to it."""
        if id(holder) in self.seen:
            return False
        self.seen.add(id(holder))
        label = label_of(name, *names)
        if self.wanted is None or label in self.wanted:
            self.places.append(Place(name, kind, holder, name in self.renewed, label))
        return True

    def add_value(self, value: "Any", depth: int, name: str, *names: object) -> None:
        kind: "Any" = list if value is sys.path else type(value)
        if kind in INNER:
            if value is posix.environ or not self.add(INNER[kind], value, name, *names) or len(value) > WITH_ENTRIES:
                return
            for number, part in enumerate(list(value.values() if kind is dict else value)):
                if depth and type(part) in INNER:
                    self.add_value(part, depth - 1, name, *names, number)
        elif depth:
            kind, inner = names_in(value, name)
            if inner is not None and self.add(kind, value if kind == CLASS else inner, name, *names):
                for variable, part in list(inner.items()):
                    if isinstance(variable, str) and variable[:2] != "__":
                        self.add_value(part, depth - 1, name, *names, variable)

    def changes(self, package: str) -> "list[tuple[str, Any, Any, Any, Any]]":
        """Return the changes since the last look, except those of a package to itself."""
        found = []
        for place in self.places:
            changes = place.changes()
            if changes and not is_of(package, place.module):
                found += changes
                self.changed.add(place.label)
        return found

    def look(self, holders: "set[int]") -> None:
        """Look at these places again, because changes were undone or repeated."""
        for place in self.places:
            if id(place.holder) in holders:
                place.look()
