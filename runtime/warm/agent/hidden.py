"""Hide preloaded modules from the program until it imports them.

In a cold start a module has no effect before its import. It is not in sys.modules, its filters of warnings and its
functions of atexit are not there, and its package has no attribute for it. So the builder notes which module imports
which, and which module has which effect (Record). The sys.modules of a restored process has only the modules of the
start, and those of FIRST. When the program imports one of the others, reveal() adds it and all modules that it imports,
and repeats their effects.

embed.S puts this text between changes.py and place.py, and all share one namespace.
"""

import gc

import _imp
import _warnings

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import sys
    from typing import Any

    from changes import FUNCTION, Contents, change, is_same

BOOTSTRAP: "Any" = sys.modules["_frozen_importlib"]
# CPython leaves functions of this file out of tracebacks, and out of the levels of a warning.
FROZEN = "<frozen importlib._bootstrap>"
ARGUMENTS = "globals", "locals", "fromlist", "level"  # of __import__(), after the name
# An import calls this for a module that is not in sys.modules. Since 3.15 it may pass lazy_submodule.
FIND: "Any" = BOOTSTRAP._find_and_load

# Functions of the agent (services.h). bootstrap.py sets them.
swap: "Any" = None
keep: "Any" = None

# The hidden modules in the order of their imports. A number whose bit N is set stands for a set that has module N.
NAMES: "list[str]" = []
MODULES: "list[Any]" = []
PLACES: "dict[str, int]" = {}
CLOSURES: "list[int]" = []  # of each module: the module and all modules that its import needs
UNSEEN = [0]  # The set of those that the program has not imported yet.
# The set of those that an import finds by their names. Modules have put the others into sys.modules.
FOUND = [0]
# Before resume(): sys.modules as it will be. Afterwards: as the builder had it, until show_most().
OTHER: "dict[str, Any]" = {}
EXCHANGED: "list[bool]" = []  # has an item after show_most()
START_NAMES: "list[str]" = []  # of the modules of the start
FIRST: "list[str]" = []  # preloaded modules that the program imports before all else (hand_over)
START_PATH: "list[str]" = []
# Attributes and effects that appear with modules of a set: (set, package, attribute) and (set, function, arguments).
ATTRIBUTES: "list[tuple[int, str, str]]" = []
EFFECTS: "list[tuple[int, Any, Any]]" = []


def is_hidden(name: str) -> int:
    return UNSEEN[0] >> PLACES.get(name, len(NAMES)) & 1


def top_of(name: str) -> str:
    return name.partition(".")[0]


def parent_of(name: str) -> str:
    return name.rpartition(".")[0]


def filters_mutated() -> None:
    """Tell CPython that the filters have changed, as warnings._filters_mutated()."""
    mutated: "Any" = getattr(_warnings, "_filters_mutated", None)
    if mutated is not None:
        mutated()
        return
    _warnings._acquire_lock()  # type: ignore[attr-defined]  # since 3.14
    try:
        _warnings._filters_mutated_lock_held()  # type: ignore[attr-defined]
    finally:
        _warnings._release_lock()  # type: ignore[attr-defined]


def current_filters() -> "list[Any]":
    """Return the list that warnings.filterwarnings() would change now. catch_warnings() replaces it for a time."""
    warnings: "Any" = sys.modules.get("warnings")
    if hasattr(warnings, "_get_filters"):  # since 3.14
        return warnings._get_filters()  # type: ignore[no-any-return]
    return getattr(warnings, "filters", _warnings.filters)


def set_filters(front: "list[Any]", behind: "list[Any]", anew: bool) -> None:
    """Put filters before and behind the others, or replace all (`anew`). A filter is never there twice."""
    filters = current_filters()
    others = [] if anew else [entry for entry in filters if entry not in front]
    filters[:] = front + others + [entry for entry in behind if entry not in others]
    filters_mutated()


def change_of_filters(before: "list[Any]", after: "list[Any]") -> "tuple[list[Any], list[Any], bool]":
    """Return arguments for set_filters() that make `after` of `before`."""
    for size in range(len(after) + 1):
        front, rest = after[:size], after[size:]
        others = [entry for entry in before if entry not in front]
        if rest[: len(others)] == others:
            return front, rest[len(others) :], False
    return after, [], True


def absolute_name(name: str, names: "Any", level: int) -> str:
    """Return the name of a module that an import with `level` dots names, in a module with these names."""
    if not level:
        return name
    package = names.get("__package__")
    if package is None:
        package = names["__name__"] if "__path__" in names else parent_of(names["__name__"])
    base = package.rsplit(".", level - 1)[0]
    return f"{base}.{name}" if name else str(base)


class Record:
    """Notes of the builder's imports: which module imports which, and what each does to the interpreter."""

    def __init__(self, loaded: "list[str]", atexit: "Any", wanted: "set[str] | None") -> None:
        """`loaded`: the modules of the start. `atexit`: the module, which is in sys.modules while this records.

        `wanted`: the places that are watched for changes (Contents), or None for all.
        """
        self.loaded = loaded
        self.atexit = atexit
        self.real = atexit.register, atexit.unregister
        self.real_import: "Any" = sys.modules["builtins"].__import__
        self.records = False
        self.active = [""]  # the modules whose import has begun and not ended
        self.needs: "dict[str, set[str]]" = {"": set()}
        self.known = set(loaded)
        self.found = {"atexit"}  # names that an import has found
        self.first_filters = list(_warnings.filters)
        self.filters = list(_warnings.filters)
        self.effects: "list[tuple[list[str], Any, Any]]" = []  # with the modules that were active
        self.settled = 0  # of the effects, as many were undone once
        self.contents = Contents(wanted)

    def start(self) -> None:
        sys.modules.setdefault("atexit", self.atexit)
        self.known.add("atexit")
        builtins: "Any" = sys.modules["builtins"]
        record = self
        register, unregister = self.real

        def _find_and_load(name, import_, **named):  # type: ignore[no-untyped-def]
            if not record.records:
                return FIND(name, import_, **named)
            record.begin(name)
            if is_hidden(name):  # an earlier preloaded module has imported it
                record.reveal(name)
            try:
                return FIND(name, import_, **named)
            finally:
                record.end(name)

        def noting_import(name, *given, **named):  # type: ignore[no-untyped-def]
            module = record.real_import(name, *given, **named)
            if record.records:
                more = {**{ARGUMENTS[place]: value for place, value in enumerate(given)}, **named}
                name = absolute_name(name, more.get("globals"), more.get("level", 0))
                record.need(name)
                for part in more.get("fromlist") or ():
                    if f"{name}.{part}" in sys.modules:
                        record.need(f"{name}.{part}")
            return module

        def noted_register(function, /, *arguments, **named):  # type: ignore[no-untyped-def]
            if not record.records or not callable(function):
                return register(function, *arguments, **named)
            record.effects.append((list(record.active), register, (function, arguments, named)))
            return function

        def noted_unregister(function):  # type: ignore[no-untyped-def]
            record.effects = [e for e in record.effects if e[1] is not register or e[2][0] != function]
            return unregister(function)

        for function in _find_and_load, noting_import:
            function.__code__ = function.__code__.replace(co_filename=FROZEN)
        self.noting = {_find_and_load: FIND, noting_import: self.real_import}
        self.noting.update({noted_register: register, noted_unregister: unregister})
        BOOTSTRAP._find_and_load = _find_and_load
        builtins.__import__ = noting_import
        self.atexit.register, self.atexit.unregister = noted_register, noted_unregister
        for name in self.loaded:
            self.contents.note(name)
        self.records = True

    def rest(self, name: str) -> None:
        """After the import of a preloaded module: ascribe to it what it has changed elsewhere."""
        self.note_changes([name])

    def begin_anew(self) -> None:
        """Before the import of another preloaded module: let it find what it would find in a cold start."""
        self.find_hidden()
        self.undo()
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.setdefault("atexit", self.atexit)
        EFFECTS[:] = [effect for effect in EFFECTS if effect[1] is not self.real[0]]
        self.accept()

    def reveal(self, name: str) -> None:
        reveal(name)
        self.accept()

    def accept(self) -> None:
        """Take the present state for unchanged, because it was undone or repeated."""
        self.filters = list(_warnings.filters)
        self.known = set(sys.modules)
        self.contents.look({id(arguments[1]) for _, function, arguments in self.effects if function is change})

    def note_changes(self, active: "list[str]") -> None:
        """Ascribe to the last of these modules what has changed in modules of other packages."""
        for changed in self.contents.changes(top_of(active[-1])):
            self.effects.append((active, change, changed))

    def drop_temporary(self) -> None:
        """Forget changes that the imports have taken back, such as those by redirect_stdout()."""
        done = self.settled
        first: "dict[tuple[int, Any], Any]" = {}
        last: "dict[tuple[int, Any], Any]" = {}
        for _, function, arguments in self.effects[done:]:
            if function is change:
                _, holder, name, new, old = arguments
                first.setdefault((id(holder), name), old)
                last[id(holder), name] = new
        gone = {place for place, old in first.items() if is_same(old, last[place])}
        self.effects[done:] = [
            effect
            for effect in self.effects[done:]
            if effect[1] is not change or (id(effect[2][1]), effect[2][2]) not in gone
        ]

    def stop(self) -> None:
        self.records = False
        for name in NAMES:  # in the order of their imports
            sys.modules.pop(name, None)
        sys.modules.update({name: MODULES[place] for place, name in enumerate(NAMES)})
        self.contents = Contents(set())
        self.put_back()
        used = any("atexit" in needed for needed in self.needs.values())
        if not used and "atexit" not in self.loaded:
            del sys.modules["atexit"]

    def put_back(self) -> None:
        """Replace the noting functions by the real ones, also where modules have kept them."""
        noting, self.noting = self.noting, {}
        for holder in gc.get_referrers(*noting):
            if type(holder) in (staticmethod, classmethod):
                holder.__init__(noting.get(holder.__func__, holder.__func__))
            elif type(holder) in (dict, list) and holder is not noting:
                for name, value in list(holder.items() if type(holder) is dict else enumerate(holder)):
                    if type(value) is FUNCTION and value in noting:
                        holder[name] = noting[value]

    def need(self, name: str) -> None:
        self.needs[self.active[-1]].add(name)
        if top_of(name) != top_of(self.active[-1]):
            self.contents.note(name)

    def begin(self, name: str) -> None:
        self.turn()
        self.need(name)
        self.needs.setdefault(name, set())
        self.known.add(name)
        self.active.append(name)

    def end(self, name: str) -> None:
        self.turn()
        self.active.pop()
        if name in sys.modules:
            self.found.add(name)
            self.need(name)
        else:
            self.known.discard(name)

    def turn(self) -> None:
        """Ascribe what has changed since the last turn to the module that was executed."""
        if self.filters != _warnings.filters:
            change = change_of_filters(self.filters, _warnings.filters)
            self.effects.append((list(self.active), set_filters, change))
            self.filters = list(_warnings.filters)
        if len(sys.modules) > len(self.known):
            new = set(sys.modules) - self.known
            self.needs[self.active[-1]] |= new
            self.known |= new
        if self.contents.wanted is not None:  # a probe only finds the places
            self.note_changes(list(self.active))

    def closures(self) -> "list[int]":
        """Return CLOSURES: each set grows until it has those of its package and of what the import needs."""
        closures = dict.fromkeys(self.needs, 0)
        del closures[""]  # the preloaded modules do not need each other
        for place, name in enumerate(NAMES):
            closures[name] = 1 << place
        grows = True
        while grows:
            grows = False
            for name, before in closures.items():
                closure = before | closures.get(parent_of(name), 0)
                for needed in self.needs.get(name, ()):
                    closure |= closures.get(needed, 0)
                if closure != before:
                    closures[name] = closure
                    grows = True
        return [closures[name] for name in NAMES]

    def find_hidden(self) -> None:
        """Fill the lists of this text, or add what came since the last call."""
        met = set().union(*self.needs.values())
        for name, module in list(sys.modules.items()):
            # C code may make a module by its name, and look for it without an import (PyImport_AddModule). It stays.
            made = name not in met and getattr(module, "__spec__", None) is None and not parent_of(name)
            if name in PLACES:
                MODULES[PLACES[name]] = module
            elif name not in self.loaded and not made:
                PLACES[name] = len(NAMES)
                NAMES.append(name)
                MODULES.append(module)
        for name in NAMES:
            if name not in met:
                self.needs.setdefault(parent_of(name), set()).add(name)
        FOUND[0] = sum(1 << PLACES[name] for name in self.found if name in PLACES)
        CLOSURES[:] = self.closures()
        UNSEEN[0] = (1 << len(NAMES)) - 1

    def undo(self) -> None:
        """Undo the effects of the imports, and note them in EFFECTS."""
        for place, name in enumerate(NAMES):
            package, _, attribute = name.rpartition(".")
            names = getattr(find_module(package), "__dict__", {})
            needed = package in PLACES and CLOSURES[PLACES[package]] >> place & 1
            if not needed and MODULES[place] is not None and names.get(attribute) is MODULES[place]:
                del names[attribute]
                if (1 << place, package, attribute) not in ATTRIBUTES:
                    ATTRIBUTES.append((1 << place, package, attribute))
        self.drop_temporary()
        undone = {id(arguments) for _, _, arguments in EFFECTS}
        for _, function, arguments in reversed(self.effects):
            if function is change and id(arguments) not in undone:
                kind, holder, name, new, old = arguments
                change(kind, holder, name, old, new)
        _warnings.filters[:] = self.first_filters
        filters_mutated()
        EFFECTS.clear()
        for active, function, arguments in self.effects:
            hidden = [name for name in active if name in PLACES][-1:]
            if function is self.real[0]:
                # A module registers a function of its own once, for all that need it: weakref, for its finalizers.
                hidden += [name for name in [getattr(arguments[0], "__module__", None)] if name in PLACES]
            EFFECTS.append((sum(1 << PLACES[name] for name in set(hidden)), function, arguments))
        self.settled = len(self.effects)


def hide(record: Record) -> None:
    """In the builder, after the imports and all work with their modules: prepare what a restored process begins with.

    resume() puts it into force by the exchange of sys.modules and OTHER.
    """
    one, other = {"one": 1}, dict[str, int]()
    swap(one, other)
    if one or other != {"one": 1}:
        raise RuntimeError("this build of Python has another layout of its dictionaries")
    record.find_hidden()
    record.undo()
    for name in FIRST:  # to reveal them in each restored process would write to each of these modules
        UNSEEN[0] &= ~CLOSURES[PLACES[name]]
    set_attributes(seen())
    if UNSEEN[0]:  # or else modules would have a reference more than in a fresh interpreter
        OTHER.update((name, module) for name, module in sys.modules.items() if not is_hidden(name))
        START_NAMES.extend(name for name in OTHER if name not in PLACES)
        BOOTSTRAP._find_and_load = _find_and_load
    START_PATH.extend(sys.path)
    keep(OTHER)
    keep(MODULES)


def begin_hidden() -> None:
    """Hide the modules, and let the effects act that belong to none of them."""
    if OTHER:
        swap(sys.modules, OTHER)
        OTHER["__main__"] = None  # it ends when the program removes it from sys.modules
    repeat_effects(seen())


def seen() -> int:
    """Return the set of the modules that are not hidden."""
    return ((1 << len(NAMES)) - 1) & ~UNSEEN[0]


def set_attributes(shown: int) -> None:
    """Give packages the attributes for these modules."""
    for bit, package, attribute in ATTRIBUTES:
        if bit & shown and package in sys.modules:
            setattr(sys.modules[package], attribute, MODULES[bit.bit_length() - 1])


def find_module(name: str) -> "Any":
    """Return a module, also one that is hidden, or None."""
    found = sys.modules.get(name)
    place = PLACES.get(name)
    return MODULES[place] if found is None and place is not None else found


def _find_and_load(name, import_, **named):  # type: ignore[no-untyped-def]
    if is_hidden(name):
        reveal(name)
    return FIND(name, import_, **named)


_find_and_load.__code__ = _find_and_load.__code__.replace(co_filename=FROZEN)


def is_shadowed(name: str) -> bool:
    """Tell whether a cold start would import another module: of a directory that the program added to sys.path.

    The runtime has compared the directory of the program, which is the first entry unless the interpreter is isolated.
    """
    top = name.partition(".")[0]
    place = PLACES.get(top)
    if place is None:
        return False
    if top in sys.modules:
        return sys.modules[top] is not MODULES[place]
    flags = sys.flags
    first = 0 if flags.isolated or getattr(flags, "safe_path", False) else 1
    if sys.path[first:] == START_PATH:
        return False
    spec = BOOTSTRAP._find_spec(top, None)
    own = getattr(MODULES[place], "__spec__", None)
    return getattr(spec, "origin", None) != getattr(own, "origin", None)


def reveal(name: str) -> None:
    """Add a hidden module and all that it needs to sys.modules, and repeat their effects."""
    _imp.acquire_lock()
    try:
        if not is_hidden(name) or not FOUND[0] >> PLACES[name] & 1 or (OTHER and is_shadowed(name)):
            return
        unseen = UNSEEN[0]
        shown = CLOSURES[PLACES[name]] & unseen
        hidden = unseen & ~shown
        # Before hide() there are none in OTHER.
        if OTHER and not EXCHANGED and count(hidden) < count(shown):
            show_most(hidden)
        else:
            show_some(shown)
        set_attributes(shown)
        UNSEEN[0] = unseen & ~shown
        repeat_effects(shown)
        lazy: "Any" = getattr(sys, "lazy_modules", ())  # an import removes what it has loaded, since 3.15
        for loaded in [loaded for loaded in lazy if loaded in PLACES and not is_hidden(loaded)]:
            lazy.discard(loaded)
    finally:
        _imp.release_lock()


def count(modules: int) -> int:
    """Return the number of modules of a set."""
    return bin(modules).count("1")  # noqa: FURB161 (before 3.10 there is no bit_count)


def names_of(modules: int) -> "list[str]":
    """Return the names of the modules of a set, in the order of their imports."""
    found = []
    while modules:
        bit = modules & -modules
        found.append(NAMES[bit.bit_length() - 1])
        modules ^= bit
    return found


def show_some(shown: int) -> None:
    for name in names_of(shown):
        sys.modules.setdefault(name, MODULES[PLACES[name]])


def show_most(hidden: int) -> None:
    """Exchange sys.modules for that of the builder without these modules: adding each module would write to it."""
    EXCHANGED.append(True)
    modules = sys.modules
    if "__main__" in modules:
        OTHER["__main__"] = modules["__main__"]
    own = {name: module for name, module in modules.items() if OTHER.get(name) is not module}
    gone = [name for name in START_NAMES + names_of(seen()) if name not in modules]
    swap(modules, OTHER)
    for name in gone + names_of(hidden):
        modules.pop(name, None)
    OTHER.pop("__main__", None)
    for name, module in own.items():  # the latest are the last
        OTHER.pop(name, None)  # it would keep the program's own modules, which go at the end
        modules.pop(name, None)
        modules[name] = module
    if not hidden and BOOTSTRAP._find_and_load is _find_and_load:
        BOOTSTRAP._find_and_load = FIND


def repeat_effects(shown: int) -> None:
    """Repeat the effects of these modules, and those of no hidden module, in the order of the imports."""
    effects = list(EFFECTS)
    EFFECTS[:] = [effect for effect in effects if effect[0] and not effect[0] & shown]
    for modules, function, arguments in effects:
        if modules and not modules & shown:
            continue
        if function is set_filters or function is change:
            function(*arguments)
        else:
            function(arguments[0], *arguments[1], **arguments[2])


def release() -> None:
    """Drop the references to modules that are not hidden, so that they can go at the end."""
    for name in list(OTHER):
        if not is_hidden(name):
            del OTHER[name]
    for place, name in enumerate(NAMES):
        if not is_hidden(name):
            MODULES[place] = None
    EFFECTS.clear()
